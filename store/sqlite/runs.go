package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine"
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
	// owesChildren is core.Run.OwesChildren, the filter of an index, and owesAny core.Run.Owing;
	// 9 is skipped.
	owesChildren = "place > 0 AND state > 3 AND followed = 0 AND (state <> 9 OR attempt > 1)"
	// owesPostRun is the condition of core.Run.OwesPostRun as the filter of an index; 4 is succeeded.
	owesPostRun = "(postrun IS NOT NULL OR keep_log = 'always' AND state = 4 AND sent > 0 AND address IS NOT NULL " +
		"AND substr(address, 1, 5) <> 'call:' AND substr(address, 1, 6) <> 'queue:')"
	owesAny = "(owes IS NOT NULL OR " + owesPostRun + " OR " + owesChildren + ")"
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

// eachRun reads runs by ID until each returns false. bad is why a run cannot be decoded.
func (s *Store) eachRun(c *sqlite.Conn, ids []core.RunID, each func(r *core.Run, bad error) (more bool)) error {
	st, err := c.Prepare(selectRun)
	for i, more := 0, true; i < len(ids) && more && err == nil; i++ {
		st.BindInt64(1, key(ids[i]))
		err = rows(st, func(st *sqlite.Stmt) error {
			var r core.Run
			bad := s.scanRun(st, &r)
			more = each(&r, bad)
			return nil
		})
	}
	return err
}

func (s runs) Get(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	found := make(map[core.RunID]store.Got[*core.Run], len(ids))
	err := s.read(ctx, func(c *sqlite.Conn) error {
		return s.eachRun(c, ids, func(r *core.Run, bad error) bool {
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
			err = w.create(p.Create)
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
	w.s.lastRow++
	if err := bindRun(w.tx, w.st, r, w.s.lastRow, columns); err != nil {
		return err
	}
	if err := cmp.Or(rows(w.st, nil), judged(w.Conn)); err != nil {
		return err
	}
	w.rows = append(w.rows, madeRow{w.s.lastRow, r.ID, r.State.Open()})
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
				if err := runColumns[i].bind(w.tx, w.st, at, r); err != nil {
					return err
				}
				at++
			}
		}
	}
	w.st.BindInt64(at, key(p.ID))
	if err := cmp.Or(rows(w.st, nil), judged(w.Conn)); err != nil {
		return err
	}
	if p.Ends() {
		w.closed = append(w.closed, p.ID)
	}
	return nil
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
func (s *Store) span(c *sqlite.Conn, first, last core.RunID, limit int, young []core.RunID, each func(*core.Run) (more bool)) error {
	lo, hi, order, step := first, last, "id", core.RunID(1)
	if last < first {
		lo, hi, order, step = last, first, "id DESC", -1
	}
	for more := true; more && lo <= hi; {
		ids := make([]core.RunID, 0, limit)
		if err := execute(c, "SELECT id FROM history WHERE id BETWEEN ? AND ? ORDER BY "+order+" LIMIT ?", func(st *sqlite.Stmt) {
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
		if err := s.eachRun(c, ids, func(r *core.Run, undecoded error) bool {
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
	young := s.recent.span(min(first, last), max(first, last))
	err = s.read(ctx, func(c *sqlite.Conn) error {
		return s.span(c, first, last, limit, young, func(r *core.Run) bool {
			list = append(list, *r)
			return len(list) < limit
		})
	})
	return list, err
}

func (s runs) Open(ctx context.Context, first, last core.RunID, waiting bool, limit int) (list []core.Run, next core.RunID, err error) {
	ids := slices.DeleteFunc(s.recent.openOf(first.Job()), func(id core.RunID) bool { return id > first || id < last })
	slices.SortFunc(ids, func(a, b core.RunID) int { return cmp.Compare(b, a) })
	err = s.read(ctx, func(c *sqlite.Conn) error {
		var bad error
		err := s.eachRun(c, ids, func(r *core.Run, undecoded error) bool {
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

// sweepSlice is how many runs one step of a sweep reads, and sweepSlices how many steps one call takes.
const (
	sweepSlice  = 1000
	sweepSlices = 50
)

// Sweep implements engine.Maintenance. Age counts from when a record was stored (runs: their end, journals: their minute,
// tombstones: RevAt). One call reads at most 50,000 runs; the next call continues there, and restarts after the end. So a
// call that removes nothing does not mean that nothing is left.
func (s *Store) Sweep(ctx context.Context, now time.Time, runs, journals time.Duration, limit int) (removed int, err error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	defer s.dropSlots()
	if err := s.noteSlots(ctx); err != nil {
		return 0, err
	}
	cursor, err := s.Cursor(ctx)
	for i := 0; i < sweepSlices && removed < limit && err == nil; i++ {
		var n int
		more := false
		err = s.write(ctx, false, sweepSlice, func(tx *tx) (err error) {
			n, more, err = s.sweepRuns(tx, now, runs, min(limit-removed, sweepSlice))
			return err
		})
		removed += n
		if !more {
			break
		}
	}
	if removed > 0 && err == nil {
		err = s.write(ctx, false, sweepSlice, func(tx *tx) error { return s.sweepHistory(tx) })
	}
	old := core.Millis(now.Add(-journals))
	upTo := min(old/60000-1, cursor) // minute of a journal that may be removed because of its age
	for _, d := range []struct {
		table, where string
		before       any
	}{
		// The watchdog may be reading the cursor's own minute.
		{"records", "kind > 'revisit#' AND kind < 'revisit$' AND CAST(substr(kind, 9) AS INTEGER) < ?1", cursor},
		{"records", "kind > 'journal#' AND kind <= ?3 AND CAST(name AS INTEGER) <= ?1 AND name NOT IN (SELECT name FROM records " +
			"WHERE kind > 'revisit#' AND kind < 'revisit$' AND CAST(substr(kind, 9) AS INTEGER) > ?4)", upTo},
		{"records", "expires < ?1", now.Unix()},
		{"records", fmt.Sprintf("kind = ?1 AND name > (SELECT name FROM records WHERE kind = ?1 ORDER BY name LIMIT 1 OFFSET %d)",
			store.KeepDead-1), store.KindLetter},
	} {
		if removed >= limit || err != nil {
			break
		}
		bound := []any{d.before, min(limit-removed, sweepSlice), store.KindJournals(upTo), cursor}
		if !strings.Contains(d.where, "?3") {
			bound = bound[:2]
		}
		err = s.write(ctx, false, sweepSlice, func(tx *tx) error {
			if err := execute(tx.Conn, "DELETE FROM "+d.table+" WHERE rowid IN (SELECT rowid FROM "+d.table+" WHERE "+d.where+" LIMIT ?2)",
				values(bound...), nil); err != nil {
				return err
			}
			n := tx.Changes()
			tx.after = append(tx.after, func() { removed += n })
			return nil
		})
	}
	if removed < limit && err == nil {
		var n int
		n, err = s.sweepJournals(ctx, cursor, limit-removed)
		removed += n
	}
	if removed < limit && err == nil {
		var n int
		n, err = s.sweepTombs(ctx, old, min(limit-removed, sweepSlice))
		removed += n
	}
	if removed > 0 && err == nil { // some pages at a time, so that other writes wait only briefly
		err = s.write(ctx, false, sweepSlice, func(tx *tx) error { return execute(tx.Conn, "PRAGMA incremental_vacuum(500)", nil, nil) })
	}
	return removed, err
}

// sweepRuns reads the next rows that are old enough, at most limit, and removes expired ones.
func (s *Store) sweepRuns(tx *tx, now time.Time, keep time.Duration, limit int) (removed int, more bool, err error) {
	old, err := spans(tx.Conn, math.MinInt64, core.Millis(now.Add(-cmp.Or(keep, 24*time.Hour))))
	if err != nil {
		return 0, false, err
	}
	broadcasts, err := openBroadcasts(tx.Conn)
	if err != nil {
		return 0, false, err
	}
	from, next, seen, gone := s.sweepFrom, int64(0), 0, []int64{}
	if old = slices.DeleteFunc(old, func(in span) bool { return in.hi <= from }); len(old) > 0 {
		err = execute(tx.Conn, `SELECT n, key, max(made, ended), slot, first, followed, keep, next, tail,
  state > 3 AND NOT coalesce(`+owesAny+`, 0) FROM runs LEFT JOIN (SELECT id AS job, keep, next, tail FROM sched) ON job = key & 2147483647
WHERE n > ? AND n <= ? ORDER BY n LIMIT ?`, values(max(from, old[0].lo), old[0].hi, limit), func(st *sqlite.Stmt) error {
			next = st.ColumnInt64(0)
			seen++
			id, at := runOf(st.ColumnInt64(1)), st.ColumnInt64(2)
			first := cmp.Or(core.RunID(st.ColumnInt64(4)), id)
			kept := cmp.Or(max(keep, 0), core.Keep{Days: st.ColumnInt(6)}.For())
			if st.ColumnInt64(9) == 0 || now.Sub(core.FromMillis(at)) <= kept || broadcasts.have(first) ||
				engine.Asks(core.Instant(st.ColumnInt64(7)), core.RunID(st.ColumnInt64(8)), id, first) ||
				s.onRingAt(core.Instant(st.ColumnInt64(3))) {
				return nil
			}
			goesOn, err := chainGoesOn(tx, core.RunID(st.ColumnInt64(5)))
			if !goesOn {
				gone = append(gone, next)
			}
			return err
		})
		if more = seen == limit || len(old) > 1; !more {
			next = 0
		} else if seen < limit {
			next = old[0].hi
		}
	}
	for i := 0; i < len(gone) && err == nil; i++ {
		err = removeRun(tx, gone[i])
	}
	tx.after = append(tx.after, func() { s.sweepFrom = next })
	return len(gone), more, err
}

// spreads are the shards of broadcasts, by job and in the order of their IDs.
type spreads map[core.JobID][]core.Shard

// openBroadcasts returns the shards of broadcasts that are open or have a pending follow-up.
func openBroadcasts(c *sqlite.Conn) (spreads, error) {
	of := spreads{}
	err := execute(c, `SELECT key, json_extract(given, '$.shard.first'), json_extract(given, '$.shard.total') FROM runs INDEXED BY runs_broadcast
WHERE given IS NOT NULL AND instr(given, '"first":') > 0 AND (state <= 3 OR owes IS NOT NULL OR place > 0)`, nil,
		func(st *sqlite.Stmt) error {
			job := runOf(st.ColumnInt64(0)).Job()
			of[job] = append(of[job], core.Shard{First: core.RunID(st.ColumnInt64(1)), Total: st.ColumnInt(2)})
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read open broadcasts: %w", err)
	}
	for _, list := range of {
		slices.SortFunc(list, func(a, b core.Shard) int { return cmp.Compare(a.First, b.First) })
	}
	return of, nil
}

// have reports whether one of the broadcasts has a shard whose first attempt is this run.
func (of spreads) have(first core.RunID) bool {
	_, is := slices.BinarySearchFunc(of[first.Job()], first, func(s core.Shard, id core.RunID) int {
		switch {
		case id < s.First:
			return 1
		case id >= s.First+core.RunID(s.Total):
			return -1
		}
		return 0
	})
	return is
}

// anyOf reports whether one of some runs is an attempt of a shard of theirs.
func (of spreads) anyOf(c *sqlite.Conn, runs []core.RunID) (is bool, err error) {
	for _, id := range runs {
		if _, numbered := id.Number(); !numbered || of[id.Job()] == nil {
			continue
		}
		if err := execute(c, "SELECT coalesce(first, 0) FROM runs WHERE key = ?", values(key(id)), func(st *sqlite.Stmt) error {
			is = is || of.have(cmp.Or(core.RunID(st.ColumnInt64(0)), id))
			return nil
		}); err != nil || is {
			return is, err
		}
	}
	return false, nil
}

// chainGoesOn reports whether the attempt id or a later one is open or has a pending follow-up.
func chainGoesOn(tx *tx, id core.RunID) (goesOn bool, err error) {
	for id != 0 && !goesOn && err == nil {
		then := core.RunID(0)
		err = execute(tx.Conn, "SELECT state <= 3 OR "+owesAny+", followed FROM runs WHERE key = ?",
			func(st *sqlite.Stmt) { st.BindInt64(1, key(id)) }, func(st *sqlite.Stmt) error {
				goesOn, then = st.ColumnInt64(0) != 0, core.RunID(st.ColumnInt64(1))
				return nil
			})
		id = then
	}
	return goesOn, err
}

// sweepJournals reads the next journals and removes journals that no reader needs any longer. It reads beside the writer.
// The order makes that safe: a journal is stored after the claims of its runs, a closed run has stored its follow-ups, and
// a closed run without follow-ups stays so. A journal that was written again since is kept.
func (s *Store) sweepJournals(ctx context.Context, cursor int64, limit int) (removed int, err error) {
	type candidate struct {
		journalRow
		runs []core.RunID
	}
	again := map[string]bool{} // names of journals that the watchdog reads again
	if err := s.query(ctx, "SELECT name FROM records WHERE kind > 'revisit#' AND kind < 'revisit$' AND CAST(substr(kind, 9) AS INTEGER) > ?",
		values(cursor), func(st *sqlite.Stmt) error {
			again[st.ColumnText(0)] = true
			return nil
		}); err != nil {
		return 0, fmt.Errorf("read revisits: %w", err)
	}
	var list []candidate
	from, next, seen, entries := s.sweepJournal, store.Key{}, 0, 0
	from.Kind = max(from.Kind, "journal#")
	errEnough := errors.New("enough")
	err = s.query(ctx, "SELECT kind, name, v, body FROM records WHERE (kind, name) > (?, ?) AND kind < 'journal$' ORDER BY kind, name",
		values(from.Kind, from.Name), func(st *sqlite.Stmt) error {
			if len(list) == limit || seen == sweepSlice || entries > 50*sweepSlice {
				next = from
				return errEnough
			}
			from = store.Key{Kind: st.ColumnText(0), Name: st.ColumnText(1)}
			seen++
			j, err := store.DecodeJournal(&store.Record{Key: from, V: st.ColumnInt64(2), Body: columnBytes(st, 3)})
			if err != nil {
				return nil // its age will remove it
			}
			entries += len(j.Entries)
			if (j.Key.Minute > cursor || again[from.Name]) && j.HasLeft() || s.recent.someOpen(j.Entries) {
				return nil
			}
			x := candidate{journalRow: journalRow{from, int64(j.V) + 1}}
			for _, e := range j.Entries {
				x.runs = append(x.runs, e.Run)
			}
			list = append(list, x)
			return nil
		})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, fmt.Errorf("read journals: %w", err)
	}
	owing, err := s.pending(ctx, len(list) > 0)
	if err != nil {
		return 0, err
	}
	var gone []journalRow
	if len(list) > 0 {
		if err := s.read(ctx, func(c *sqlite.Conn) error {
			open, err := openBroadcasts(c)
			for i := 0; i < len(list) && err == nil; i++ {
				is := slices.ContainsFunc(list[i].runs, func(id core.RunID) bool { return owing[id] })
				if !is {
					is, err = open.anyOf(c, list[i].runs)
				}
				if !is {
					gone = append(gone, list[i].journalRow)
				}
			}
			return err
		}); err != nil {
			return 0, fmt.Errorf("read runs of journals: %w", err)
		}
	}
	if removed, err = s.removeJournals(ctx, gone); err == nil {
		s.sweepJournal = next
	}
	return removed, err
}

// journalRow is a journal as it was read.
type journalRow struct {
	store.Key
	v int64
}

// removeJournals removes journals that were not written again since.
func (s *Store) removeJournals(ctx context.Context, gone []journalRow) (removed int, err error) {
	if len(gone) == 0 {
		return 0, nil
	}
	answers := make([]error, len(gone))
	err = s.write(ctx, false, len(gone), func(tx *tx) error {
		const q = "DELETE FROM records WHERE kind = ? AND name = ? AND v = ?"
		return eachRow(tx, q, gone, answers, func(st *sqlite.Stmt, r *journalRow) error {
			st.BindText(1, r.Kind)
			st.BindText(2, r.Name)
			st.BindInt64(3, r.v)
			return nil
		})
	})
	if err != nil {
		return 0, fmt.Errorf("remove journals: %w", err)
	}
	for _, answer := range answers {
		if answer == nil {
			removed++
		}
	}
	return removed, nil
}

// sweepTombs removes tombstones older than a millisecond that no entry and no run needs. It may read all runs of a job
// once, beside the writer: a deleted job gets new runs only from its existing ones.
func (s *Store) sweepTombs(ctx context.Context, before int64, limit int) (removed int, err error) {
	var old []core.JobID
	if err := s.query(ctx, `SELECT id >> 32 FROM (SELECT CAST(name AS INTEGER) << 32 AS id FROM records WHERE kind = ? AND v < ?)
 WHERE NOT EXISTS (SELECT 1 FROM entries WHERE run BETWEEN id AND id + 4294967295)`, values(store.KindTombstone, before),
		func(st *sqlite.Stmt) error {
			if job := core.JobID(st.ColumnInt64(0)); len(s.recent.openOf(job)) == 0 {
				old = append(old, job)
			}
			return nil
		}); err != nil {
		return 0, err
	}
	named, err := s.jobsOnRing(ctx, len(old) > 0)
	if err != nil {
		return 0, err
	}
	owing, err := s.pending(ctx, len(old) > 0)
	if err != nil {
		return 0, err
	}
	for id := range owing {
		named[id.Job()] = true
	}
	gone := slices.DeleteFunc(old, func(job core.JobID) bool { return named[job] })
	gone = gone[:min(limit, len(gone))]
	if len(gone) == 0 {
		return 0, nil
	}
	return len(gone), s.write(ctx, false, len(gone), func(tx *tx) error {
		for _, job := range gone { // its runs get no numbers and send no scripts
			for _, d := range []struct {
				where string
				is    any
			}{{"records WHERE kind = '" + store.KindTombstone + "' AND name", store.JobName(job)}, {"counters WHERE job", job},
				{"records WHERE kind", store.ScriptKind(job)}} {
				if err := execute(tx.Conn, "DELETE FROM "+d.where+" = ?", values(d.is), nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// pending returns the runs with pending follow-ups; none if they are not needed.
func (s *Store) pending(ctx context.Context, needed bool) (map[core.RunID]bool, error) {
	found := map[core.RunID]bool{}
	if !needed {
		return found, nil
	}
	err := s.query(ctx, "SELECT key FROM runs INDEXED BY runs_owes WHERE owes IS NOT NULL "+
		"UNION ALL SELECT key FROM runs INDEXED BY runs_place WHERE "+owesChildren+
		" UNION ALL SELECT key FROM runs INDEXED BY runs_postrun WHERE "+owesPostRun, nil, func(st *sqlite.Stmt) error {
		found[runOf(st.ColumnInt64(0))] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read runs with pending follow-ups: %w", err)
	}
	return found, nil
}

// sweepHistory removes entries of removed runs from the next slice of the history, and the steps before the first row. A
// full round takes as many calls as the history has slices.
func (s *Store) sweepHistory(tx *tx) error {
	to, err := integer(tx.Conn, math.MaxInt64, "SELECT id FROM history WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?", s.sweepID, 10*sweepSlice)
	if err == nil {
		err = execute(tx.Conn, "DELETE FROM history WHERE id > ? AND id <= ? AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.n = history.n)",
			values(s.sweepID, to), nil)
	}
	if err == nil {
		err = step(tx.Conn, "DELETE FROM steps WHERE n < (SELECT min(n) FROM runs)")
	}
	tx.after = append(tx.after, func() {
		if s.sweepID = to; to == math.MaxInt64 {
			s.sweepID = 0
		}
	})
	return err
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
