package sqlite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

// runColumn is a column of the table runs.
type runColumn struct {
	name string
	in   core.RunFields         // the fields of an update that the column is part of
	has  func(r *core.Run) bool // reports whether it is not zero; only of columns after claimColumns
	bind func(st *sqlite.Stmt, at int, r *core.Run) error
	scan func(st *sqlite.Stmt, at int, r *core.Run) error
}

// runColumns are the columns beside key and n. Claims have only the columns up to code.
var runColumns = []runColumn{
	wordColumn("state", core.RunState, states, func(r *core.Run) *core.State { return &r.State }),
	textColumn("app", core.RunApp, func(r *core.Run) *string { return &r.App }),
	wordColumn("cause", 0, causes, func(r *core.Run) *core.Cause { return &r.Cause }),
	intColumn("rev", 0, func(r *core.Run) *int64 { return &r.Rev }),
	intColumn("at", core.RunTime, func(r *core.Run) *core.Instant { return &r.At }),
	intColumn("slot", core.RunTime, func(r *core.Run) *core.Instant { return &r.Slot }),
	intColumn("seq", 0, func(r *core.Run) *int64 { return &r.Seq }),
	textColumn("owner", core.RunOwner, func(r *core.Run) *string { return &r.Owner }),
	timeColumn("until", core.RunUntil, func(r *core.Run) *time.Time { return &r.Until }),
	textColumn("address", core.RunAddress, func(r *core.Run) *string { return &r.Address }),
	boolColumn("maybe", core.RunMaybeSent, func(r *core.Run) *bool { return &r.MaybeSent }),
	{"jkey", core.RunJournal, nil, func(st *sqlite.Stmt, at int, r *core.Run) error {
		if r.Journal.IsZero() {
			st.BindNull(at)
		} else {
			st.BindInt64(at, r.Journal.Minute*core.JournalSuffixes+int64(r.Journal.Suffix))
		}
		return nil
	}, func(st *sqlite.Stmt, at int, r *core.Run) error {
		if k := st.ColumnInt64(at); !st.ColumnIsNull(at) {
			r.Journal = core.JournalKey{Minute: k / core.JournalSuffixes, Suffix: int(k % core.JournalSuffixes), Nonce: r.Owner}
		}
		return nil
	}},
	{"jnonce", core.RunJournal, nil, func(st *sqlite.Stmt, at int, r *core.Run) error { // NULL: as owner
		if r.Journal.IsZero() || r.Journal.Nonce == r.Owner {
			st.BindNull(at)
		} else {
			st.BindText(at, r.Journal.Nonce)
		}
		return nil
	}, func(st *sqlite.Stmt, at int, r *core.Run) error {
		if !st.ColumnIsNull(at) {
			r.Journal.Nonce = st.ColumnText(at)
		}
		return nil
	}},
	timeColumn("sent", core.RunSentAt, func(r *core.Run) *time.Time { return &r.SentAt }),
	intColumn("attempt", 0, func(r *core.Run) *int { return &r.Attempt }),
	{"first", 0, nil, func(st *sqlite.Stmt, at int, r *core.Run) error { // NULL: the run itself
		if r.First == r.ID {
			st.BindNull(at)
		} else {
			st.BindInt64(at, int64(r.First))
		}
		return nil
	}, func(st *sqlite.Stmt, at int, r *core.Run) error {
		if r.First = r.ID; !st.ColumnIsNull(at) {
			r.First = core.RunID(st.ColumnInt64(at))
		}
		return nil
	}},
	intColumn("retries", 0, func(r *core.Run) *int { return &r.Retries }),
	boolColumn("fixed", 0, func(r *core.Run) *bool { return &r.FixedDelay }),
	timeColumn("ended", core.RunEnd, func(r *core.Run) *time.Time { return &r.EndedAt }),
	intColumn("code", core.RunEnd, func(r *core.Run) *int { return &r.Code }),
	wordColumn("reason", core.RunEnd, reasons, func(r *core.Run) *core.Reason { return &r.Reason }),
	textColumn("message", core.RunEnd, func(r *core.Run) *string { return &r.Message }),
	textColumn("data", core.RunEnd, func(r *core.Run) *string { return &r.Data }),
	intColumn("followed", core.RunEnd, func(r *core.Run) *core.RunID { return &r.Then }),
	jsonColumn("owes", core.RunOwes, func(r *core.Run) (*[]core.Owed, bool) { return &r.Owes, len(r.Owes) == 0 }),
	textColumn("kill_by", core.RunKill, func(r *core.Run) *string { return &r.KillBy }),
	timeColumn("kill_at", core.RunKill, func(r *core.Run) *time.Time { return &r.KillAt }),
	jsonColumn("late", core.RunLate, func(r *core.Run) (**core.LateResult, bool) { return &r.Late, r.Late == nil }),
	jsonColumn("tries", core.RunTries, func(r *core.Run) (*[]core.Try, bool) { return &r.Tries, len(r.Tries) == 0 }),
	{"given", core.RunGiven, hasGiven, func(st *sqlite.Stmt, at int, r *core.Run) error {
		return bindJSON(st, at, given{r.Params, r.Addresses, r.Key, r.By, r.RerunOf, r.PauseAfter, r.Parent, r.Shard}, !hasGiven(r))
	}, func(st *sqlite.Stmt, at int, r *core.Run) error {
		if st.ColumnIsNull(at) {
			return nil
		}
		var g given
		err := columnJSON(st, at, &g)
		r.Params, r.Addresses, r.Key, r.By, r.RerunOf = g.Params, g.Addresses, g.Key, g.By, g.RerunOf
		r.PauseAfter, r.Parent, r.Shard = g.Pauses, g.Parent, g.Shard
		return err
	}},
	textColumn("permit", core.RunGiven|core.RunPermit, func(r *core.Run) *string { return &r.Permit }),
	intColumn("sent_rev", core.RunUnder, func(r *core.Run) *int64 { return &r.SentRev }),
	boolColumn("notice", core.RunUnder, func(r *core.Run) *bool { return &r.Notice }),
	intColumn("place", core.RunPlace, func(r *core.Run) *int64 { return &r.Place }),
	jsonColumn("postrun", core.RunPostRun, func(r *core.Run) (*core.PostRun, bool) { return &r.PostRun, r.PostRun == core.PostRun{} }),
	textColumn("keep_log", core.RunPostRun, func(r *core.Run) *core.KeepLog { return &r.KeepLog }),
}

// given holds fields that only few runs have.
type given struct {
	Params    *string    `json:"params,omitempty"`
	Addresses []string   `json:"addresses,omitempty"`
	Key       string     `json:"key,omitempty"`
	By        string     `json:"by,omitempty"`
	RerunOf   core.RunID `json:"rerunOf,omitempty"`
	Pauses    bool       `json:"pauses,omitempty"`
	Parent    core.RunID `json:"parent,omitempty"`
	Shard     core.Shard `json:"shard,omitzero"`
}

func hasGiven(r *core.Run) bool {
	return r.Params != nil || len(r.Addresses) > 0 || r.Key != "" || r.By != "" || r.RerunOf != 0 || r.PauseAfter || r.Parent != 0 ||
		r.Shard != core.Shard{}
}

// Statements of the table runs. The columns of selectRuns are the key, runColumns and n.
var (
	claimColumns = columnAt("code") + 1
	selectRuns   = "SELECT key, " + strings.Join(columnNames(all, ""), ", ") + ", n FROM runs "
	selectRun    = selectRuns + "WHERE key = ?"
	endedAt      = columnAt("ended")
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

func columnAt(name string) int {
	return slices.IndexFunc(runColumns, func(c runColumn) bool { return c.name == name })
}

// isPlain reports whether a run has only the columns of a claim.
func isPlain(r *core.Run) bool {
	for i := claimColumns; i < len(runColumns); i++ {
		if runColumns[i].has(r) {
			return false
		}
	}
	return true
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

// column is a column of a field, which has no other column.
func column[T comparable](name string, in core.RunFields, of func(*core.Run) *T, bind func(st *sqlite.Stmt, at int, v T),
	scan func(st *sqlite.Stmt, at int) T) runColumn {
	var zero T
	return runColumn{name, in, func(r *core.Run) bool { return *of(r) != zero },
		func(st *sqlite.Stmt, at int, r *core.Run) error { bind(st, at, *of(r)); return nil },
		func(st *sqlite.Stmt, at int, r *core.Run) error { *of(r) = scan(st, at); return nil }}
}

func intColumn[T ~int | ~int64](name string, in core.RunFields, of func(*core.Run) *T) runColumn {
	return column(name, in, of, func(st *sqlite.Stmt, at int, n T) { st.BindInt64(at, int64(n)) },
		func(st *sqlite.Stmt, at int) T { return T(st.ColumnInt64(at)) })
}

func timeColumn(name string, in core.RunFields, of func(*core.Run) *time.Time) runColumn {
	return column(name, in, of, func(st *sqlite.Stmt, at int, t time.Time) { st.BindInt64(at, core.Millis(t)) },
		func(st *sqlite.Stmt, at int) time.Time { return core.FromMillis(st.ColumnInt64(at)) })
}

func boolColumn(name string, in core.RunFields, of func(*core.Run) *bool) runColumn {
	return column(name, in, of, (*sqlite.Stmt).BindBool, (*sqlite.Stmt).ColumnBool)
}

func textColumn[T ~string](name string, in core.RunFields, of func(*core.Run) *T) runColumn {
	return column(name, in, of, bindText[T], func(st *sqlite.Stmt, at int) T { return T(st.ColumnText(at)) })
}

// wordColumn is a column of a value that is stored as its position in a list.
func wordColumn[T ~string](name string, in core.RunFields, list []T, of func(*core.Run) *T) runColumn {
	return column(name, in, of, func(st *sqlite.Stmt, at int, word T) { st.BindInt64(at, int64(slices.Index(list, word)+1)) },
		func(st *sqlite.Stmt, at int) (word T) {
			if n := st.ColumnInt(at); n > 0 && n <= len(list) {
				word = list[n-1]
			}
			return word
		})
}

// jsonColumn is a column of a field as JSON, and NULL if the field is empty.
func jsonColumn[T any](name string, in core.RunFields, of func(*core.Run) (is *T, empty bool)) runColumn {
	return runColumn{name, in, func(r *core.Run) bool { _, empty := of(r); return !empty },
		func(st *sqlite.Stmt, at int, r *core.Run) error {
			v, empty := of(r)
			return bindJSON(st, at, v, empty)
		}, func(st *sqlite.Stmt, at int, r *core.Run) error {
			v, _ := of(r)
			return columnJSON(st, at, v)
		}}
}

// bindText binds text, and NULL if it is empty.
func bindText[T ~string](st *sqlite.Stmt, at int, text T) {
	if text == "" {
		st.BindNull(at)
	} else {
		st.BindText(at, string(text))
	}
}

// bindJSON binds v as JSON, and NULL if it is empty.
func bindJSON(st *sqlite.Stmt, at int, v any, empty bool) error {
	if empty {
		st.BindNull(at)
		return nil
	}
	b, err := json.Marshal(v)
	st.BindText(at, string(b))
	return err
}

func columnJSON(st *sqlite.Stmt, at int, into any) error {
	if st.ColumnIsNull(at) {
		return nil
	}
	return json.Unmarshal([]byte(st.ColumnText(at)), into)
}
