package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// sweepSlice is how many rows one step of a sweep reads, and sweepSlices how many steps one call takes.
const (
	sweepSlice  = 1000
	sweepSlices = 50
)

// ofShard selects attempts of shards whose broadcast is open or has a pending follow-up. Until then all its shards stay.
const ofShard = "(given IS NOT NULL AND EXISTS (SELECT 1 FROM (SELECT json_extract(given, '$.shard.of') AS id) JOIN runs AS whole ON " +
	"whole.key = ((id & 4294967295) << 31) | (id >> 32) WHERE whole.state <= 3 OR whole.owes IS NOT NULL OR whole.place > 0))"

// Sweep implements store.Store. Age counts from when a record was stored (runs: their end, journals: their minute,
// tombstones: RevAt). One call reads at most 50,000 runs; the next call continues there, and restarts after the end. So a
// call that removes nothing does not mean that nothing is left.
func (s *Store) Sweep(ctx context.Context, now time.Time, runs, journals time.Duration, limit int) (removed int, err error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	cursor, err := s.Cursor(ctx)
	if err != nil {
		return 0, err
	}
	waiting, err := s.slotsOfMessages(ctx)
	// sweep removes at most n records.
	sweep := func(do func(n int) (gone int, err error)) {
		if removed < limit && err == nil {
			var gone int
			if gone, err = do(limit - removed); err == nil {
				removed += gone
			}
		}
	}
	remove := func(do func(tx *tx, n int) (gone int)) {
		sweep(func(n int) (gone int, err error) {
			err = s.write(ctx, false, sweepSlice, func(tx *tx) { gone = do(tx, min(n, sweepSlice)) })
			return gone, err
		})
	}
	for i, more := 0, true; i < sweepSlices && more && removed < limit && err == nil; i++ {
		remove(func(tx *tx, n int) (gone int) {
			gone, more = tx.sweepRuns(now, runs, waiting, n)
			return gone
		})
	}
	if removed > 0 && err == nil {
		err = s.write(ctx, false, sweepSlice, s.sweepHistory)
	}
	old := core.Millis(now.Add(-journals))
	upTo := min(old/60000-1, cursor) // minute of a journal that may be removed because of its age
	for _, d := range []struct {
		where string
		bound []any
	}{
		// The watchdog may be reading the cursor's own minute.
		{"kind > 'revisit#' AND kind < 'revisit$' AND CAST(substr(kind, 9) AS INTEGER) < ?2", []any{cursor}},
		{"kind > 'journal#' AND kind <= ?2 AND CAST(name AS INTEGER) <= ?3 AND name NOT IN (SELECT name FROM records WHERE " + revisits +
			" > ?4)", []any{store.KindJournals(upTo), upTo, cursor}},
		{"expires < ?2", []any{now.Unix()}},
		{"kind = ?2 AND name > (SELECT name FROM records WHERE kind = ?2 ORDER BY name LIMIT 1 OFFSET ?3)",
			[]any{store.KindLetter, store.KeepDead - 1}},
	} {
		remove(func(tx *tx, n int) int {
			return tx.exec("DELETE FROM records WHERE rowid IN (SELECT rowid FROM records WHERE "+d.where+" LIMIT ?1)",
				append([]any{n}, d.bound...)...)
		})
	}
	sweep(func(n int) (int, error) { return s.sweepJournals(ctx, cursor, n) })
	sweep(func(n int) (int, error) { return s.sweepTombs(ctx, old, n) })
	if removed > 0 && err == nil { // some pages at a time, so that other writes wait only briefly
		err = s.write(ctx, false, sweepSlice, func(tx *tx) { tx.exec("PRAGMA incremental_vacuum(500)") })
	}
	return removed, err
}

// revisits selects the records of revisits whose minute compares with the operator that follows.
const revisits = "kind > 'revisit#' AND kind < 'revisit$' AND CAST(substr(kind, 9) AS INTEGER)"

// slots are the due times of the messages of runs up to the message last.
type slots struct {
	of   map[core.Instant]bool
	last int64
}

// slotsOfMessages reads beside the writer, because the queue can have a million messages.
func (s *Store) slotsOfMessages(ctx context.Context) (w slots, err error) {
	w.of = map[core.Instant]bool{}
	err = s.read(ctx, func(c *conn) {
		w.last = c.integer("SELECT max(id) FROM ring")
		for st := range c.rows("SELECT DISTINCT slot FROM ring WHERE " + ofRuns) {
			w.of[core.Instant(st.ColumnInt64(0))] = true
		}
	})
	return w, err
}

// sweepRuns reads the next rows that are old enough, at most limit, and removes expired ones. A requeue, and a planner pass that
// repeats an earlier one, enqueues its message first.
func (tx *tx) sweepRuns(now time.Time, keep time.Duration, waiting slots, limit int) (removed int, more bool) {
	var gone []int64
	next, seen := int64(0), 0
	for st := range tx.rows("SELECT n, key, max(n / 64 + 946684800000, ended), first, followed, keep, next, tail, "+
		"state > 3 AND NOT coalesce("+owesAny+", 0) AND slot NOT IN (SELECT slot FROM ring NOT INDEXED WHERE id > ? AND "+ofRuns+
		") AND NOT "+ofShard+", slot FROM runs LEFT JOIN (SELECT id AS job, keep, next, tail FROM sched) ON job = key & 2147483647 "+
		"WHERE n > ? AND n <= ? ORDER BY n LIMIT ? + 0",
		waiting.last, tx.s.sweepFrom, rowsBefore(core.Millis(now.Add(-cmp.Or(keep, 24*time.Hour)))), limit) {
		next = st.ColumnInt64(0)
		seen++
		id, at := runOf(st.ColumnInt64(1)), core.FromMillis(st.ColumnInt64(2))
		first := cmp.Or(core.RunID(st.ColumnInt64(3)), id)
		if st.ColumnBool(8) && !waiting.of[core.Instant(st.ColumnInt64(9))] &&
			now.Sub(at) > cmp.Or(max(keep, 0), core.Keep{Days: st.ColumnInt(5)}.For()) &&
			!store.Asks(core.Instant(st.ColumnInt64(6)), core.RunID(st.ColumnInt64(7)), id, first) &&
			!tx.chainGoesOn(core.RunID(st.ColumnInt64(4))) {
			gone = append(gone, next)
		}
	}
	if more = seen == limit; !more {
		next = 0
	}
	for _, n := range gone {
		tx.removeRun(n)
	}
	tx.after = append(tx.after, func() { tx.s.sweepFrom = next })
	return len(gone), more
}

// chainGoesOn reports whether the attempt id or a later one is open or has a pending follow-up.
func (tx *tx) chainGoesOn(id core.RunID) (goesOn bool) {
	for id != 0 && !goesOn {
		then := core.RunID(0)
		for st := range tx.rows("SELECT state <= 3 OR "+owesAny+", followed FROM runs WHERE key = ?", key(id)) {
			goesOn, then = st.ColumnBool(0), core.RunID(st.ColumnInt64(1))
		}
		id = then
	}
	return goesOn
}

// owing returns the runs with pending follow-ups.
func (c *conn) owing() map[core.RunID]bool {
	found := map[core.RunID]bool{}
	for st := range c.rows("SELECT key FROM runs INDEXED BY runs_owing WHERE " + owesAny) {
		found[runOf(st.ColumnInt64(0))] = true
	}
	return found
}

// sweepJournals reads the next journals and removes journals that no reader needs any longer. It reads beside the writer.
// The order makes that safe: a journal is stored after the claims of its runs, a closed run has stored its follow-ups, and
// a closed run without follow-ups stays so. A journal that was written again since is kept.
func (s *Store) sweepJournals(ctx context.Context, cursor int64, limit int) (removed int, err error) {
	list, next, err := s.closedJournals(ctx, cursor, limit)
	if err != nil || len(list) == 0 {
		s.sweepJournal = next
		return 0, err
	}
	if err := s.read(ctx, func(c *conn) {
		owes := c.owing()
		list = slices.DeleteFunc(list, func(j core.Journal) bool {
			return slices.ContainsFunc(j.Entries, func(e core.Entry) bool {
				_, numbered := e.Run.Number()
				return owes[e.Run] || numbered && c.integer("SELECT "+ofShard+" FROM runs WHERE key = ?", key(e.Run)) > 0
			})
		})
	}); err != nil {
		return 0, fmt.Errorf("read runs of journals: %w", err)
	}
	if err := s.write(ctx, false, len(list), func(tx *tx) {
		removed = 0
		for _, j := range list {
			k := store.JournalKey(j.Key)
			removed += tx.exec("DELETE FROM records WHERE kind = ? AND name = ? AND v = ?", k.Kind, k.Name, j.V+1)
		}
	}); err != nil {
		return 0, fmt.Errorf("remove journals: %w", err)
	}
	s.sweepJournal = next
	return removed, nil
}

// closedJournals reads the next journals without open runs that the watchdog has checked, and the record to continue after.
func (s *Store) closedJournals(ctx context.Context, cursor int64, limit int) (list []core.Journal, next store.Key, err error) {
	from, seen, entries := s.sweepJournal, 0, 0
	from.Kind = max(from.Kind, "journal#")
	if err = s.read(ctx, func(c *conn) {
		again := map[string]bool{} // names of journals that the watchdog reads again
		for st := range c.rows("SELECT name FROM records WHERE "+revisits+" > ?", cursor) {
			again[st.ColumnText(0)] = true
		}
		for st := range c.rows("SELECT kind, name, v, body FROM records WHERE (kind, name) > (?, ?) AND kind < 'journal$' ORDER BY kind, name",
			from.Kind, from.Name) {
			if len(list) == limit || seen == sweepSlice || entries > 50*sweepSlice {
				next = from
				break
			}
			from = store.Key{Kind: st.ColumnText(0), Name: st.ColumnText(1)}
			seen++
			j, err := store.DecodeJournal(&store.Record{Key: from, V: st.ColumnInt64(2), Body: columnBytes(st, 3)})
			if err != nil {
				continue // its age will remove it
			}
			entries += len(j.Entries)
			if left := (j.Key.Minute > cursor || again[from.Name]) && j.HasLeft(); !left && !s.recent.someOpen(j.Entries) {
				list = append(list, j)
			}
		}
	}); err != nil {
		return nil, s.sweepJournal, fmt.Errorf("read journals: %w", err)
	}
	return list, next, nil
}

// sweepTombs removes tombstones older than a millisecond that no entry, message and run needs. It reads beside the writer: a
// deleted job gets new runs only from its existing ones.
func (s *Store) sweepTombs(ctx context.Context, before int64, limit int) (int, error) {
	var old []core.JobID
	err := s.read(ctx, func(c *conn) {
		for st := range c.rows("SELECT id >> 32 FROM (SELECT CAST(name AS INTEGER) << 32 AS id FROM records WHERE kind = ? AND v < ?) "+
			"WHERE NOT EXISTS (SELECT 1 FROM entries WHERE run BETWEEN id AND id + 4294967295)", store.KindTombstone, before) {
			if job := core.JobID(st.ColumnInt64(0)); len(s.recent.openRuns(job)) == 0 {
				old = append(old, job)
			}
		}
	})
	if len(old) == 0 || err != nil {
		return 0, err
	}
	err = s.read(ctx, func(c *conn) {
		named := map[core.JobID]bool{}
		for id := range c.owing() {
			named[id.Job()] = true
		}
		for st := range c.rows("SELECT DISTINCT json_extract(f.value, '$.run') >> 32 FROM ring, json_each(CASE WHEN " +
			"json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) ELSE '{}' END, '$.fires') AS f WHERE " + ofRuns) {
			named[core.JobID(st.ColumnInt64(0))] = true
		}
		old = slices.DeleteFunc(old, func(job core.JobID) bool { return named[job] })
	})
	old = old[:min(limit, sweepSlice, len(old))]
	if len(old) == 0 || err != nil {
		return 0, err
	}
	return len(old), s.write(ctx, false, len(old), func(tx *tx) {
		for _, job := range old { // its runs get no numbers and send no scripts
			tx.exec("DELETE FROM records WHERE kind = ? AND name = ?", store.KindTombstone, store.JobName(job))
			tx.exec("DELETE FROM records WHERE kind = ?", store.ScriptKind(job))
			tx.exec("DELETE FROM counters WHERE job = ?", job)
		}
	})
}

// sweepHistory removes entries of removed runs from the next slice of the history. A full round takes as many calls as the
// history has slices.
func (s *Store) sweepHistory(tx *tx) {
	to := tx.integer("SELECT coalesce((SELECT id FROM history WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?), 9223372036854775807)", s.sweepID,
		10*sweepSlice)
	tx.exec("DELETE FROM history WHERE id > ? AND id <= ? AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.n = history.n)", s.sweepID, to)
	tx.after = append(tx.after, func() {
		if s.sweepID = to; to == math.MaxInt64 {
			s.sweepID = 0
		}
	})
}
