package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// The values of a run's fields are stored as their position in these lists, from 1. New values are only appended. An open
// state is at most 3.
var (
	states = []core.State{core.Planned, core.Queued, core.Running, core.Succeeded, core.Failed, core.TimedOut, core.Killed, core.Lost,
		core.Skipped}
	causes  = []core.Cause{core.CauseSchedule, core.CauseMisfire, core.CauseManual, core.CauseAPI, core.CauseParent, core.CauseRetry}
	reasons = []core.Reason{core.ReasonNotAccepted, core.ReasonNoExecutor, core.ReasonHandler, core.ReasonCrashed, core.ReasonTimeout,
		core.ReasonPerson, core.ReasonReplaced, core.ReasonGone, core.ReasonForgotten, core.ReasonNoReport, core.ReasonMisfire,
		core.ReasonDeadline, core.ReasonOverlap, core.ReasonQueueFull, core.ReasonPaused, core.ReasonChanged, core.ReasonDeleted,
		core.ReasonCancelled, core.ReasonUndeliverable, core.ReasonSnoozed, core.ReasonJoin, core.ReasonShards}
)

const (
	running = 3 // the last open one
	// owesAny is core.Run.Owing of a closed run: of OwesChildren (9 is skipped), of OwesPostRun (4 is succeeded), or of Owes.
	owesAny = "(owes IS NOT NULL OR place > 0 AND state > 3 AND followed = 0 AND (state <> 9 OR attempt > 1) OR postrun IS NOT NULL OR " +
		"keep_log = 'always' AND state = 4 AND sent > 0 AND address IS NOT NULL " +
		"AND substr(address, 1, 5) <> 'call:' AND substr(address, 1, 6) <> 'queue:')"
	// These select runs that were claimed, or ended without a claim, in a later minute than they were made.
	claimedLater = "jkey >= (n / 3840000 + 15778081) * 16"
	endedLater   = "jkey IS NULL AND state > 3 AND ended >= (n / 3840000 + 15778081) * 60000"
)

// bindWord binds a value by its position in a list, and an unknown one as text.
func bindWord[T ~string](st *sqlite.Stmt, at int, word T, list []T) {
	if word == "" {
		st.BindNull(at)
		return
	}
	for i, w := range list {
		if w == word {
			st.BindInt64(at, int64(i+1))
			return
		}
	}
	st.BindText(at, string(word))
}

func columnWord[T ~string](st *sqlite.Stmt, at int, list []T) T {
	if n := st.ColumnInt64(at); n > 0 && n <= int64(len(list)) {
		return list[n-1]
	}
	return T(columnText(st, at))
}

// bindText binds text, and NULL if it is empty.
func bindText(st *sqlite.Stmt, at int, text string) {
	if text == "" {
		st.BindNull(at)
	} else {
		st.BindText(at, text)
	}
}

func columnText(st *sqlite.Stmt, at int) string {
	if st.ColumnIsNull(at) {
		return ""
	}
	return st.ColumnText(at)
}

// bindJSON binds v as JSON, and NULL if it is empty.
func bindJSON(st *sqlite.Stmt, at int, v any, empty bool) error {
	if empty {
		st.BindNull(at)
		return nil
	}
	b, err := json.Marshal(v)
	if err == nil {
		st.BindText(at, string(b))
	}
	return err
}

func columnJSON(st *sqlite.Stmt, at int, into any) error {
	if st.ColumnIsNull(at) {
		return nil
	}
	return json.Unmarshal([]byte(st.ColumnText(at)), into)
}
func judged(c *sqlite.Conn) error {
	if c.Changes() == 0 {
		return core.ErrRefused
	}
	return nil
}

// eachRow runs one conditional statement per item; Stmt.Step of a statement
// without rows leaves it ready after Reset.
func eachRow[T any](tx *tx, q string, items []T, answers []error, bind func(*sqlite.Stmt, *T) error) error {
	st, err := tx.Prepare(q)
	if err != nil {
		return err
	}
	for i := range items {
		if err := bind(st, &items[i]); err != nil {
			return err
		}
		if err := rows(st, nil); err != nil {
			return err
		}
		answers[i] = judged(tx.Conn)
	}
	return nil
}

// runs implements store.Runs.
type runs struct{ *Store }

// eachRun reads runs by ID, in the order of the IDs, until each returns false. bad is why a run cannot be decoded.
func eachRun(c *sqlite.Conn, ids []core.RunID, each func(r *core.Run, bad error) (more bool)) error {
	st, err := c.Prepare(selectRun)
	for i, more := 0, true; i < len(ids) && more && err == nil; i++ {
		st.BindInt64(1, key(ids[i]))
		var is bool
		if is, err = st.Step(); is {
			var r core.Run
			bad := scanRun(st, &r)
			more = each(&r, bad)
		}
		err = cmp.Or(err, st.Reset())
	}
	return err
}

func (s runs) Get(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	found := make(map[core.RunID]store.Got[*core.Run], len(ids))
	err := s.read(ctx, func(c *sqlite.Conn) error {
		return eachRun(c, ids, func(r *core.Run, bad error) bool {
			found[r.ID] = store.Got[*core.Run]{Is: r, Err: bad}
			return true
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	return found, nil
}

// Put implements store.Runs. Creates and claims are urgent.
func (s runs) Put(ctx context.Context, puts []store.RunPut) []error {
	urgent := false
	for i := range puts {
		c := puts[i].Change
		urgent = urgent || puts[i].Create != nil || c != nil && c.Set&(core.RunOwner|core.RunAddress) != 0
	}
	errs := batch(ctx, s.Store, urgent, puts, putRuns)
	var unseen []core.RunID
	for i := range puts {
		if c := puts[i].Change; errs[i] == nil && c != nil && c.Ends() && c.Seen == nil {
			unseen = append(unseen, c.ID)
		}
	}
	if len(unseen) == 0 {
		return errs
	}
	found, err := s.Get(ctx, unseen)
	for i := range puts {
		if c := puts[i].Change; err == nil && errs[i] == nil && c != nil && c.Seen == nil {
			if r, is := found[c.ID]; is && r.Err == nil {
				c.Seen = r.Is
			}
		}
	}
	return errs
}

// runPuts makes writes of runs in a transaction. It keeps the statement of the last write, which mostly fits the next one.
type runPuts struct {
	*tx
	text string
	st   *sqlite.Stmt
	row  int64 // number of the next new row
}

func (w *runPuts) prepare(text string) (err error) {
	if w.text != text {
		w.st, err = w.Prepare(text)
		w.text = text
	}
	return err
}

func putRuns(tx *tx, puts []store.RunPut, answers []error) error {
	w := runPuts{tx: tx}
	for i := range puts {
		p := &puts[i]
		var err error
		switch {
		case p.Create != nil:
			if w.row == 0 {
				w.row, err = tx.newRows(len(puts))
			}
			if err == nil {
				err = w.create(p.Create)
			}
		case p.Change != nil:
			err = w.change(p.Change)
		default:
			err = w.drop(p.Drop)
		}
		if err == nil && (p.Enter != nil || len(p.Leave)+len(p.Changes) > 0) {
			err = putBeside(tx, p)
		}
		if answers[i] = err; err != nil && !errors.Is(err, core.ErrRefused) {
			return err
		}
	}
	return nil
}

// putBeside writes the entries and change records of a write of a run.
func putBeside(tx *tx, p *store.RunPut) error {
	for i := range p.Leave {
		if err := changeDue(tx, leave, &p.Leave[i]); err != nil {
			return err
		}
	}
	if p.Enter != nil {
		if err := changeDue(tx, enter, p.Enter); err != nil {
			return err
		}
	}
	for i := range p.Changes {
		if err := putChange(tx, &p.Changes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *runPuts) create(r *core.Run) error {
	insert, columns := insertRun, runColumns
	if isPlain(r) {
		insert, columns = insertClaim, runColumns[:claimColumns]
	}
	if err := w.prepare(insert); err != nil {
		return err
	}
	if err := bindRun(w.st, r, w.row, columns); err != nil {
		return err
	}
	if err := cmp.Or(rows(w.st, nil), judged(w.Conn)); err != nil {
		return err
	}
	w.made = append(w.made, madeRun{w.row, r.ID, r.State.Open()})
	w.row++
	return nil
}

// putText is the statement of changes that set and compare the same fields.
type putText struct {
	open, had bool
	set, cond core.RunFields
}

func (k putText) String() string {
	sets, conds := columnNames(k.set, " = ?"), columnNames(k.cond, " IS ?")
	if k.set&core.RunOwner != 0 && k.set&core.RunJournal == 0 {
		sets = append(sets, "jnonce = coalesce(jnonce, owner)") // it was left out as the owner's
	}
	if k.open {
		conds = append(conds, "state <= 3")
	}
	if k.had {
		conds = append(conds, "(owner IS NOT NULL OR maybe)")
	}
	return "UPDATE runs SET " + strings.Join(sets, ", ") + " WHERE " + strings.Join(append(conds, "key = ?"), " AND ")
}

func (w *runPuts) change(p *core.RunPut) error {
	k := putText{p.Open, p.Had, p.Set, p.If}
	text, is := w.s.putTexts[k]
	if !is {
		text = k.String()
		w.s.putTexts[k] = text
	}
	if err := w.prepare(text); err != nil {
		return err
	}
	at := 1
	for side, fields := range [2]core.RunFields{p.Set, p.If} {
		r := [2]*core.Run{&p.To, &p.Was}[side]
		for i := range runColumns {
			if runColumns[i].in&fields != 0 {
				if err := runColumns[i].bind(w.st, at, r); err != nil {
					return err
				}
				at++
			}
		}
	}
	w.st.BindInt64(at, key(p.ID))
	err := cmp.Or(rows(w.st, nil), judged(w.Conn))
	if err == nil && p.Ends() {
		w.closed = append(w.closed, p.ID)
	}
	return err
}

func (w *runPuts) drop(r *core.Run) error {
	row, free := int64(0), false
	if err := execute(w.Conn, "SELECT n, state > 3 AND NOT coalesce("+owesAny+", 0) FROM runs WHERE key = ?", values(key(r.ID)),
		func(st *sqlite.Stmt) error {
			row, free = st.ColumnInt64(0), st.ColumnBool(1)
			return nil
		}); err != nil || row == 0 {
		return err
	}
	if !free {
		return core.ErrRefused
	}
	return removeRun(w.tx, row)
}

// removeRun removes a row of runs with the kept log of the run. The key of the run expires a day after the end.
func removeRun(tx *tx, n int64) error {
	var run core.RunID
	var bound string
	var until int64
	if err := execute(tx.Conn, "SELECT key, coalesce(json_extract(given, '$.key'), ''), ended FROM runs WHERE n = ?", values(n),
		func(st *sqlite.Stmt) error {
			run, bound = runOf(st.ColumnInt64(0)), st.ColumnText(1)
			until = core.FromMillis(st.ColumnInt64(2)).Add(store.KeyFor).Unix()
			return nil
		}); err != nil {
		return err
	}
	if bound != "" {
		k := store.IdempotencyKey(run.Job(), bound)
		if err := execute(tx.Conn, "UPDATE records SET expires = ? WHERE kind = ? AND name = ? AND v = ?",
			values(until, k.Kind, k.Name, run), nil); err != nil {
			return err
		}
	}
	log := store.LogKey(run)
	if err := execute(tx.Conn, "DELETE FROM records WHERE kind = ? AND name = ?", values(log.Kind, log.Name), nil); err != nil {
		return err
	}
	return execute(tx.Conn, "DELETE FROM runs WHERE n = ?", values(n), nil)
}

// span reads the stored runs with IDs from first to last until each returns false. It lists up to limit IDs at a time. young
// are the recent runs between them, read before the transaction began: they may enter the history during the read.
func span(c *sqlite.Conn, first, last core.RunID, limit int, young []core.RunID, each func(*core.Run) (more bool)) error {
	lo, hi, order, step := first, last, "id", core.RunID(1)
	if last < first {
		lo, hi, order, step = last, first, "id DESC", -1
	}
	for more := true; more && lo <= hi; {
		ids := make([]core.RunID, 0, limit)
		if err := execute(c, "SELECT id FROM history WHERE id BETWEEN ? AND ? ORDER BY "+order+" LIMIT ? + 0", func(st *sqlite.Stmt) {
			st.BindInt64(1, int64(lo))
			st.BindInt64(2, int64(hi))
			st.BindInt64(3, int64(limit))
		}, func(st *sqlite.Stmt) error {
			ids = append(ids, core.RunID(st.ColumnInt64(0)))
			return nil
		}); err != nil {
			return err
		}
		for _, id := range young {
			if lo <= id && id <= hi {
				ids = append(ids, id)
			}
		}
		slices.SortFunc(ids, func(a, b core.RunID) int { return cmp.Compare(a*step, b*step) })
		ids = slices.Compact(ids)
		if ids = ids[:min(len(ids), limit)]; len(ids) < limit {
			lo, hi = 1, 0 // the end
		} else if lo = ids[limit-1] + 1; step < 0 {
			lo, hi = last, ids[limit-1]-1
		}
		var bad error
		if err := eachRun(c, ids, func(r *core.Run, undecoded error) bool {
			bad = undecoded
			more = bad == nil && each(r)
			return more
		}); err != nil || bad != nil {
			return cmp.Or(err, bad)
		}
	}
	return nil
}

func (s runs) Span(ctx context.Context, first, last core.RunID, limit int) (list []core.Run, err error) {
	young := s.recent.between(min(first, last), max(first, last))
	err = s.read(ctx, func(c *sqlite.Conn) error {
		return span(c, first, last, limit, young, func(r *core.Run) bool {
			list = append(list, *r)
			return len(list) < limit
		})
	})
	return list, err
}

func (s runs) Open(ctx context.Context, first, last core.RunID, waiting bool, limit int) (list []core.Run, next core.RunID, err error) {
	ids := slices.DeleteFunc(s.recent.openRuns(first.Job()), func(id core.RunID) bool { return id > first || id < last })
	err = s.read(ctx, func(c *sqlite.Conn) error {
		var bad error
		err := eachRun(c, ids, func(r *core.Run, undecoded error) bool {
			bad = undecoded
			if r.State.Open() && (!waiting || r.Owner == "") {
				list = append(list, *r)
			}
			next = r.ID - 1
			return bad == nil && len(list) < limit
		})
		return cmp.Or(err, bad)
	})
	if len(list) < limit || next < last {
		next = 0
	}
	return list, next, err
}

func columnBytes(st *sqlite.Stmt, at int) []byte {
	b := make([]byte, st.ColumnLen(at))
	return b[:st.ColumnBytes(at, b)]
}

// getState reads a number of the state table; 0 if it is missing.
func getState(c *sqlite.Conn, name string) (v int64, err error) {
	return integer(c, 0, "SELECT value FROM state WHERE name = ?", name)
}

func setState(c *sqlite.Conn, name string, v int64) error {
	return execute(c, "INSERT INTO state (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		func(st *sqlite.Stmt) {
			st.BindText(1, name)
			st.BindInt64(2, v)
		}, nil)
}
