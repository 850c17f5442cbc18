package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"reflect"
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
	claimedLater = "jminute > n / 3840000 + 15778080"
	endedLater   = "jminute = 0 AND state > 3 AND ended >= (n / 3840000 + 15778081) * 60000"
)

// runs implements store.Runs.
type runs struct{ *Store }

// byID reads runs in the order of some IDs, each with the reason why it cannot be decoded.
func (c *conn) byID(ids []core.RunID) iter.Seq2[*core.Run, error] {
	return func(yield func(*core.Run, error) bool) {
		for _, id := range ids {
			for st := range c.rows(selectRun, key(id)) {
				var r core.Run
				if bad := scanRun(st, &r); !yield(&r, bad) {
					return
				}
			}
		}
	}
}

func (s runs) Get(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	found := make(map[core.RunID]store.Got[*core.Run], len(ids))
	if err := s.read(ctx, func(c *conn) {
		for r, bad := range c.byID(ids) {
			found[r.ID] = store.Got[*core.Run]{Is: r, Err: bad}
		}
	}); err != nil {
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
	errs := batch(ctx, s.Store, urgent, puts, (*tx).putRun)
	unseen := map[core.RunID]*core.RunPut{}
	for i := range puts {
		if c := puts[i].Change; errs[i] == nil && c != nil && c.Ends() && c.Seen == nil {
			unseen[c.ID] = c
		}
	}
	if len(unseen) > 0 {
		found, _ := s.Get(ctx, slices.Collect(maps.Keys(unseen))) // after an error, the caller reads the runs
		for id, run := range found {
			if run.Err == nil {
				unseen[id].Seen = run.Is
			}
		}
	}
	return errs
}

// putRun makes one write. After core.ErrRefused it has changed nothing.
func (tx *tx) putRun(p *store.RunPut) error {
	refused := false
	switch {
	case p.Create != nil:
		refused = !tx.createRun(p.Create)
	case p.Change != nil:
		refused = !tx.changeRun(p.Change)
	default:
		refused = !tx.dropRun(p.Drop)
	}
	if refused {
		return core.ErrRefused
	}
	for i := range p.Leave {
		tx.leave(&p.Leave[i])
	}
	if p.Enter != nil {
		tx.enter(p.Enter)
	}
	tx.putChanges(p.Changes)
	return nil
}

// putForm identifies a statement that writes runs.
type putForm struct {
	columns   int // of a new run; 0: the statement changes a run
	open, had bool
	set, cond core.RunFields
}

func (f putForm) String() string {
	if f.columns > 0 {
		return "INSERT INTO runs (key, n, " + strings.Join(columnNames(all, "")[:f.columns], ", ") + ") VALUES (?, ?" +
			strings.Repeat(", ?", f.columns) + ") ON CONFLICT (key) DO NOTHING"
	}
	sets, conds := columnNames(f.set, " = ?"), columnNames(f.cond, " IS ?")
	if f.set&core.RunOwner != 0 && f.set&core.RunJournal == 0 {
		sets = append(sets, "jnonce = coalesce(jnonce, owner)") // NULL stood for the old owner
	}
	if f.open {
		conds = append(conds, "state <= 3")
	}
	if f.had {
		conds = append(conds, "(owner IS NOT NULL OR maybe)")
	}
	return "UPDATE runs SET " + strings.Join(sets, ", ") + " WHERE " + strings.Join(append(conds, "key = ?"), " AND ")
}

// putStmt returns the statement of a form, nil after an error.
func (tx *tx) putStmt(f putForm) *sqlite.Stmt {
	st := tx.s.putStmts[f]
	if st == nil {
		if st = tx.prepare(f.String()); st != nil {
			tx.s.putStmts[f] = st
		}
	}
	return st
}

// createRun adds a run if its ID is new, and reports whether it did. The columns ended and code of an open run get
// placeholders of about their final length, so that the end of the run does not make its row outgrow its page.
func (tx *tx) createRun(r *core.Run) bool {
	columns := runColumns
	for len(columns) > claimColumns && reflect.ValueOf(columns[len(columns)-1].of(r)).Elem().IsZero() {
		columns = columns[:len(columns)-1]
	}
	st := tx.putStmt(putForm{columns: len(columns)})
	if st == nil {
		return false
	}
	n := tx.newRow()
	st.BindInt64(1, key(r.ID))
	st.BindInt64(2, n)
	for i := range columns {
		tx.fail(columns[i].bind(st, i+3, r))
	}
	if r.State.Open() {
		st.BindInt64(endedAt+3, madeAt(n))
		st.BindInt64(endedAt+4, 200)
	}
	if tx.run(st) == 0 {
		return false
	}
	tx.made = append(tx.made, madeRun{n, r.ID, r.State.Open()})
	return true
}

// changeRun changes a run if the condition holds, and reports whether it does.
func (tx *tx) changeRun(p *core.RunPut) bool {
	st := tx.putStmt(putForm{open: p.Open, had: p.Had, set: p.Set, cond: p.If})
	if st == nil {
		return false
	}
	at := 1
	for side, fields := range [2]core.RunFields{p.Set, p.If} {
		r := [2]*core.Run{&p.To, &p.Was}[side]
		for i := range runColumns {
			if runColumns[i].in&fields != 0 {
				tx.fail(runColumns[i].bind(st, at, r))
				at++
			}
		}
	}
	st.BindInt64(at, key(p.ID))
	if tx.run(st) == 0 {
		return false
	}
	if p.Ends() {
		tx.closed = append(tx.closed, p.ID)
	}
	return true
}

// dropRun removes a run, if it is stored, and reports whether that is allowed.
func (tx *tx) dropRun(r *core.Run) bool {
	row, free := int64(0), true
	for st := range tx.rows("SELECT n, state > 3 AND NOT coalesce("+owesAny+", 0) FROM runs WHERE key = ?", key(r.ID)) {
		row, free = st.ColumnInt64(0), st.ColumnBool(1)
	}
	if free {
		tx.removeRun(row)
	}
	return free
}

// removeRun removes a row of runs with the kept log of the run. The key of the run expires a day after the end.
func (tx *tx) removeRun(n int64) {
	for st := range tx.rows("DELETE FROM runs WHERE n = ? RETURNING key, bound_to, ended", n) {
		run, until := runOf(st.ColumnInt64(0)), core.FromMillis(st.ColumnInt64(2)).Add(store.KeyFor).Unix()
		if bound := st.ColumnText(1); bound != "" {
			k := store.IdempotencyKey(run.Job(), bound)
			tx.exec("UPDATE records SET expires = ? WHERE kind = ? AND name = ? AND v = ?", until, k.Kind, k.Name, run)
		}
		log := store.LogKey(run)
		tx.exec("DELETE FROM records WHERE kind = ? AND name = ?", log.Kind, log.Name)
	}
}

// span reads the stored runs with IDs from first to last. It lists up to limit IDs at a time. young are the recent runs
// between them, read before the transaction began: they may enter the history during the read.
func (c *conn) span(first, last core.RunID, limit int, young []core.RunID) iter.Seq[*core.Run] {
	lo, hi, order, step := first, last, "id", core.RunID(1)
	if last < first {
		lo, hi, order, step = last, first, "id DESC", -1
	}
	return func(yield func(*core.Run) bool) {
		for lo <= hi && c.err == nil {
			ids := make([]core.RunID, 0, limit)
			for st := range c.rows("SELECT id FROM history WHERE id BETWEEN ? AND ? ORDER BY "+order+" LIMIT ? + 0", lo, hi, limit) {
				ids = append(ids, core.RunID(st.ColumnInt64(0)))
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
			for r, bad := range c.byID(ids) {
				if c.fail(bad); bad != nil || !yield(r) {
					return
				}
			}
		}
	}
}

func (s runs) Span(ctx context.Context, first, last core.RunID, limit int) (list []core.Run, err error) {
	young := s.recent.among(func(id core.RunID) bool { return min(first, last) <= id && id <= max(first, last) })
	err = s.read(ctx, func(c *conn) {
		for r := range c.span(first, last, limit, young) {
			if list = append(list, *r); len(list) == limit {
				break
			}
		}
	})
	return list, err
}

func (s runs) Open(ctx context.Context, first, last core.RunID, waiting bool, limit int) (list []core.Run, next core.RunID, err error) {
	ids := slices.DeleteFunc(s.recent.openRuns(first.Job()), func(id core.RunID) bool { return id > first || id < last })
	err = s.read(ctx, func(c *conn) {
		for r, bad := range c.byID(ids) {
			c.fail(bad)
			if r.State.Open() && (!waiting || r.Owner == "") {
				list = append(list, *r)
			}
			if next = r.ID - 1; len(list) == limit {
				break
			}
		}
	})
	if len(list) < limit || next < last {
		next = 0
	}
	return list, next, err
}
