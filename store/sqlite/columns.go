package sqlite

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

// runColumn is a column of the table runs.
type runColumn struct {
	name string
	in   core.RunFields        // the fields of an update that the column is part of
	of   func(r *core.Run) any // returns a pointer to the field
	or   func(r *core.Run) any // returns a pointer to the value that NULL stands for; nil: to the zero value
}

// runColumns are the columns beside key and n. The columns that most runs leave empty come last.
var runColumns = []runColumn{
	{"state", core.RunState, func(r *core.Run) any { return &r.State }, nil},
	{"app", core.RunApp, func(r *core.Run) any { return &r.App }, nil},
	{"cause", 0, func(r *core.Run) any { return &r.Cause }, nil},
	{"rev", 0, func(r *core.Run) any { return &r.Rev }, nil},
	{"at", core.RunTime, func(r *core.Run) any { return &r.At }, nil},
	{"slot", core.RunTime, func(r *core.Run) any { return &r.Slot }, nil},
	{"seq", 0, func(r *core.Run) any { return &r.Seq }, nil},
	{"owner", core.RunOwner, func(r *core.Run) any { return &r.Owner }, nil},
	{"until", core.RunUntil, func(r *core.Run) any { return &r.Until }, nil},
	{"address", core.RunAddress, func(r *core.Run) any { return &r.Address }, nil},
	{"maybe", core.RunMaybeSent, func(r *core.Run) any { return &r.MaybeSent }, nil},
	{"jminute", core.RunJournal, func(r *core.Run) any { return &r.Journal.Minute }, nil},
	{"jsuffix", core.RunJournal, func(r *core.Run) any { return &r.Journal.Suffix }, nil},
	{"jnonce", core.RunJournal, func(r *core.Run) any { return &r.Journal.Nonce }, func(r *core.Run) any {
		if r.Journal.Minute == 0 {
			return new(string)
		}
		return &r.Owner
	}},
	{"sent", core.RunSentAt, func(r *core.Run) any { return &r.SentAt }, nil},
	{"attempt", 0, func(r *core.Run) any { return &r.Attempt }, nil},
	{"first", 0, func(r *core.Run) any { return &r.First }, func(r *core.Run) any { return &r.ID }},
	{"retries", 0, func(r *core.Run) any { return &r.Retries }, nil},
	{"fixed", 0, func(r *core.Run) any { return &r.FixedDelay }, nil},
	{"ended", core.RunEnd, func(r *core.Run) any { return &r.EndedAt }, nil},
	{"code", core.RunEnd, func(r *core.Run) any { return &r.Code }, nil},
	{"reason", core.RunEnd, func(r *core.Run) any { return &r.Reason }, nil},
	{"message", core.RunEnd, func(r *core.Run) any { return &r.Message }, nil},
	{"data", core.RunEnd, func(r *core.Run) any { return &r.Data }, nil},
	{"followed", core.RunEnd, func(r *core.Run) any { return &r.Then }, nil},
	{"owes", core.RunOwes, func(r *core.Run) any { return &r.Owes }, nil},
	{"kill_by", core.RunKill, func(r *core.Run) any { return &r.KillBy }, nil},
	{"kill_at", core.RunKill, func(r *core.Run) any { return &r.KillAt }, nil},
	{"late", core.RunLate, func(r *core.Run) any { return &r.Late }, nil},
	{"tries", core.RunTries, func(r *core.Run) any { return &r.Tries }, nil},
	{"params", core.RunGiven, func(r *core.Run) any { return &r.Params }, nil},
	{"addresses", core.RunGiven, func(r *core.Run) any { return &r.Addresses }, nil},
	{"bound_to", core.RunGiven, func(r *core.Run) any { return &r.Key }, nil},
	{"given_by", core.RunGiven, func(r *core.Run) any { return &r.By }, nil},
	{"rerun_of", core.RunGiven, func(r *core.Run) any { return &r.RerunOf }, nil},
	{"pauses", 0, func(r *core.Run) any { return &r.PauseAfter }, nil},
	{"parent", 0, func(r *core.Run) any { return &r.Parent }, nil},
	{"shard", core.RunGiven, func(r *core.Run) any { return &r.Shard }, nil},
	{"permit", core.RunGiven | core.RunPermit, func(r *core.Run) any { return &r.Permit }, nil},
	{"sent_rev", core.RunUnder, func(r *core.Run) any { return &r.SentRev }, nil},
	{"notice", core.RunUnder, func(r *core.Run) any { return &r.Notice }, nil},
	{"place", core.RunPlace, func(r *core.Run) any { return &r.Place }, nil},
	{"postrun", core.RunPostRun, func(r *core.Run) any { return &r.PostRun }, nil},
	{"keep_log", core.RunPostRun, func(r *core.Run) any { return &r.KeepLog }, nil},
}

// Statements of the table runs. The columns of selectRuns are the key, runColumns and n.
var (
	selectRuns = "SELECT key, " + strings.Join(columnNames(all, ""), ", ") + ", n FROM runs "
	selectRun  = selectRuns + "WHERE key = ?"
	// endedAt is the position of ended. A claim has the columns up to code, the next one.
	endedAt      = slices.IndexFunc(runColumns, func(c runColumn) bool { return c.name == "ended" })
	claimColumns = endedAt + 2
)

const all = ^core.RunFields(0)

// columnNames returns the columns of fields, each with a suffix.
func columnNames(fields core.RunFields, suffix string) (names []string) {
	for i := range runColumns {
		if c := &runColumns[i]; c.in&fields != 0 || fields == all {
			names = append(names, c.name+suffix)
		}
	}
	return names
}

// scanRun reads a row of selectRuns.
func scanRun(st *sqlite.Stmt, r *core.Run) error {
	r.ID = runOf(st.ColumnInt64(0))
	for i := range runColumns {
		if err := runColumns[i].scan(st, i+1, r); err != nil {
			return fmt.Errorf("run %d: %w", r.ID, err)
		}
	}
	if r.State.Open() {
		r.EndedAt, r.Code = time.Time{}, 0
	}
	return nil
}

// runs reads the runs of a query with the columns of selectRuns, and returns the n of the last one.
func (c *conn) runs(q string, args ...any) (list []core.Run, last int64) {
	for st := range c.rows(q, args...) {
		list, last = append(list, core.Run{}), st.ColumnInt64(len(runColumns)+1)
		c.fail(scanRun(st, &list[len(list)-1]))
	}
	return list, last
}

func (c *runColumn) bind(st *sqlite.Stmt, at int, r *core.Run) error {
	if c.or != nil && reflect.ValueOf(c.of(r)).Elem().Equal(reflect.ValueOf(c.or(r)).Elem()) {
		st.BindNull(at)
		return nil
	}
	return bindField(st, at, c.of(r))
}

func (c *runColumn) scan(st *sqlite.Stmt, at int, r *core.Run) error {
	if c.or != nil && st.ColumnIsNull(at) {
		reflect.ValueOf(c.of(r)).Elem().Set(reflect.ValueOf(c.or(r)).Elem())
		return nil
	}
	return scanField(st, at, c.of(r))
}

// bindField binds the value of a field: a number, a truth value, a time in milliseconds, a word as its position in its list, a
// text, or anything else as JSON. Empty texts and empty JSON are NULL.
func bindField(st *sqlite.Stmt, at int, field any) error {
	number, is := int64(0), true
	switch f := field.(type) { // without reflection, for speed
	case *int:
		number = int64(*f)
	case *int64:
		number = *f
	case *time.Time:
		number = core.Millis(*f)
	case *core.State:
		number = int64(slices.Index(states, *f) + 1)
	case *core.Cause:
		number = int64(slices.Index(causes, *f) + 1)
	case *core.Reason:
		number = int64(slices.Index(reasons, *f) + 1)
	default:
		is = false
	}
	if is {
		st.BindInt64(at, number)
		return nil
	}
	v := reflect.ValueOf(field).Elem()
	switch kind := v.Kind(); {
	case v.CanInt():
		st.BindInt64(at, v.Int())
	case kind == reflect.Bool:
		st.BindBool(at, v.Bool())
	case v.IsZero(), kind == reflect.Slice && v.Len() == 0:
		st.BindNull(at)
	case kind == reflect.String:
		st.BindText(at, v.String())
	default:
		text, err := json.Marshal(field)
		st.BindText(at, string(text))
		return err
	}
	return nil
}

// scanField reads what bindField bound.
func scanField(st *sqlite.Stmt, at int, field any) error {
	v := reflect.ValueOf(field).Elem()
	switch f := field.(type) {
	case *time.Time:
		*f = core.FromMillis(st.ColumnInt64(at))
	case *core.State:
		*f = word(states, st.ColumnInt(at))
	case *core.Cause:
		*f = word(causes, st.ColumnInt(at))
	case *core.Reason:
		*f = word(reasons, st.ColumnInt(at))
	default:
		switch {
		case v.CanInt():
			v.SetInt(st.ColumnInt64(at))
		case v.Kind() == reflect.Bool:
			v.SetBool(st.ColumnBool(at))
		case v.Kind() == reflect.String:
			v.SetString(st.ColumnText(at))
		case !st.ColumnIsNull(at):
			return json.Unmarshal([]byte(st.ColumnText(at)), field)
		}
	}
	return nil
}

// word returns the value at a position of a list, counted from 1; empty if there is none.
func word[T ~string](list []T, position int) (value T) {
	if position > 0 && position <= len(list) {
		value = list[position-1]
	}
	return value
}
