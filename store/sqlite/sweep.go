package sqlite

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// sweepSlice is how many rows one step of a sweep reads, and sweepSlices how many steps one call takes.
const (
	sweepSlice  = 1000
	sweepSlices = 50
)

// keepJournals is how long a journal stays that the watchdog is not to read again. A journal takes 149 bytes for one run, and
// 512 bytes for 50 runs; a run takes 199 bytes.
const keepJournals = 24 * time.Hour

// ofShard selects attempts of shards whose broadcast is open or has a pending follow-up. Until then all its shards stay.
const ofShard = "(shard IS NOT NULL AND EXISTS (SELECT 1 FROM (SELECT json_extract(shard, '$.of') AS id) JOIN runs AS whole ON " +
	"whole.key = ((id & 4294967295) << 31) | (id >> 32) WHERE whole.state <= 3 OR whole.owes IS NOT NULL OR whole.place > 0))"

// hasMessage selects runs of a due time that has a message.
const hasMessage = "(EXISTS (SELECT 1 FROM ring WHERE " + ofRuns + " AND visible_at = runs.slot * 1000 AND ring.slot = runs.slot) OR " +
	"EXISTS (SELECT 1 FROM ring INDEXED BY ring_moved WHERE ring.slot = runs.slot AND " + moved + "))"

// Sweep implements store.Store. Age counts from when a record was stored (runs: their end, journals: their minute,
// tombstones: RevAt). One call reads at most 50,000 runs; the next call continues there, and restarts after the end. So a
// call that removes nothing does not mean that nothing is left.
func (s *Store) Sweep(ctx context.Context, now time.Time, runs, journals time.Duration, limit int) (removed int, err error) {
	cursor, err := s.Cursor(ctx)
	if err != nil {
		return 0, err
	}
	// remove removes at most n records.
	remove := func(do func(tx *tx, n int) (gone int)) {
		if removed < limit && err == nil {
			gone := 0
			if err = s.write(ctx, false, sweepSlice, func(tx *tx) { gone = do(tx, min(limit-removed, sweepSlice)) }); err == nil {
				removed += gone
			}
		}
	}
	for i, more := 0, true; i < sweepSlices && more && removed < limit && err == nil; i++ {
		remove(func(tx *tx, n int) (gone int) {
			gone, more = tx.sweepRuns(now, runs, n)
			return gone
		})
	}
	if removed > 0 && err == nil {
		err = s.write(ctx, false, sweepSlice, s.sweepHistory)
	}
	upTo := min(core.Millis(now.Add(-min(journals, keepJournals)))/60000-1, cursor) // minute of the last journal that may be removed
	// The operators beside parameters keep SQLite from planning a statement again for each value.
	drop := func(where string, bound ...any) {
		remove(func(tx *tx, n int) int {
			return tx.exec("DELETE FROM records WHERE rowid IN (SELECT rowid FROM records WHERE "+where+" LIMIT ?1 + 0)",
				append([]any{n}, bound...)...)
		})
	}
	drop(revisits+" < ?2 + 0", cursor) // the watchdog may be reading the cursor's own minute
	drop("kind > 'journal#' AND kind <= ?2 || '' AND CAST(name AS INTEGER) <= ?3 + 0 AND name NOT IN (SELECT name FROM records WHERE "+
		revisits+" > ?4 + 0)", store.KindJournals(upTo), upTo, cursor)
	drop("expires < ?2 + 0", now.Unix())
	drop("kind = ?2 || '' AND name > (SELECT name FROM records WHERE kind = ?2 || '' ORDER BY name LIMIT 1 OFFSET ?3 + 0)",
		store.KindLetter, store.KeepDead-1)
	if removed < limit && err == nil {
		gone, failed := s.sweepTombs(ctx, core.Millis(now.Add(-journals)), limit-removed)
		removed, err = removed+gone, failed
	}
	if removed > 0 && err == nil { // some pages at a time, so that other writes wait only briefly
		err = s.write(ctx, false, sweepSlice, func(tx *tx) { tx.exec("PRAGMA incremental_vacuum(500)") })
	}
	return removed, err
}

// revisits selects the records of revisits whose minute compares with the operator that follows.
const revisits = "kind > 'revisit#' AND kind < 'revisit$' AND CAST(substr(kind, 9) AS INTEGER)"

// sweepRuns reads the next rows that are old enough, at most limit, and removes expired ones. A requeue, and a planner pass that
// repeats an earlier one, enqueues its message first.
func (tx *tx) sweepRuns(now time.Time, keep time.Duration, limit int) (removed int, more bool) {
	var gone []int64
	next, seen := int64(0), 0
	for st := range tx.rows("SELECT n, key, max(n / 64 + 946684800000, ended), first, followed, keep, next, tail, "+
		"state > 3 AND NOT coalesce("+owesAny+", 0) AND NOT "+hasMessage+" AND NOT "+ofShard+
		" FROM runs LEFT JOIN (SELECT id AS job, keep, next, tail FROM sched) ON job = key & 2147483647 "+
		"WHERE n > ? AND n <= ? ORDER BY n LIMIT ? + 0",
		tx.s.sweepFrom, rowsBefore(core.Millis(now.Add(-cmp.Or(keep, 24*time.Hour)))), limit) {
		next = st.ColumnInt64(0)
		seen++
		id, at := runOf(st.ColumnInt64(1)), core.FromMillis(st.ColumnInt64(2))
		first := cmp.Or(core.RunID(st.ColumnInt64(3)), id)
		if st.ColumnBool(8) &&
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
func (tx *tx) chainGoesOn(id core.RunID) bool {
	return id != 0 && tx.integer("WITH RECURSIVE later AS (SELECT * FROM runs WHERE key = ? UNION ALL SELECT runs.* FROM later JOIN runs "+
		"ON runs.key = ((later.followed & 4294967295) << 31) | (later.followed >> 32)) SELECT EXISTS (SELECT 1 FROM later "+
		"WHERE state <= 3 OR "+owesAny+")", key(id)) > 0
}

// sweepTombs removes tombstones from before a millisecond, unless an entry, message or run needs one. It reads beside the
// writer: a deleted job gets new runs only from its existing ones.
func (s *Store) sweepTombs(ctx context.Context, before int64, limit int) (int, error) {
	var old []core.JobID
	err := s.read(ctx, func(c *conn) {
		for st := range c.rows("SELECT id >> 32 FROM (SELECT CAST(name AS INTEGER) << 32 AS id FROM records WHERE kind = ? AND v < ?) "+
			"WHERE NOT EXISTS (SELECT 1 FROM entries WHERE run BETWEEN id AND id + 4294967295) AND id >> 32 NOT IN ("+
			"SELECT key & 2147483647 FROM runs INDEXED BY runs_owing WHERE "+owesAny+
			" UNION SELECT coalesce(json_extract(f.value, '$.run') >> 32, 0) FROM ring, json_each(CASE WHEN "+
			"json_valid(CAST(body AS TEXT)) THEN CAST(body AS TEXT) ELSE '{}' END, '$.fires') AS f WHERE "+ofRuns+")",
			store.KindTombstone, before) {
			if job := core.JobID(st.ColumnInt64(0)); len(s.recent.openRuns(job)) == 0 {
				old = append(old, job)
			}
		}
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
