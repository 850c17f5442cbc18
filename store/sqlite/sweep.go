package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

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
	// remove removes at most n rows in a transaction.
	remove := func(do func(tx *tx, n int) (int, error)) {
		if removed >= limit || err != nil {
			return
		}
		gone := 0
		err = s.write(ctx, false, sweepSlice, func(tx *tx) (err error) {
			gone, err = do(tx, min(limit-removed, sweepSlice))
			return err
		})
		if err == nil {
			removed += gone
		}
	}
	for i, more := 0, true; i < sweepSlices && more && removed < limit && err == nil; i++ {
		remove(func(tx *tx, n int) (gone int, err error) {
			gone, more, err = s.sweepRuns(tx, now, runs, waiting, n)
			return gone, err
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
		remove(func(tx *tx, n int) (int, error) {
			err := execute(tx.Conn, "DELETE FROM records WHERE rowid IN (SELECT rowid FROM records WHERE "+d.where+" LIMIT ?1)",
				values(append([]any{n}, d.bound...)...), nil)
			return tx.Changes(), err
		})
	}
	for _, sweep := range []func(ctx context.Context, limit int) (int, error){
		func(ctx context.Context, n int) (int, error) { return s.sweepJournals(ctx, cursor, n) },
		func(ctx context.Context, n int) (int, error) { return s.sweepTombs(ctx, old, min(n, sweepSlice)) },
	} {
		if removed < limit && err == nil {
			var n int
			n, err = sweep(ctx, limit-removed)
			removed += n
		}
	}
	if removed > 0 && err == nil { // some pages at a time, so that other writes wait only briefly
		err = s.write(ctx, false, sweepSlice, func(tx *tx) error { return execute(tx.Conn, "PRAGMA incremental_vacuum(500)", nil, nil) })
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
	err = s.read(ctx, func(c *sqlite.Conn) (err error) {
		if w.last, err = integer(c, 0, "SELECT max(id) FROM ring"); err != nil {
			return err
		}
		return execute(c, "SELECT DISTINCT slot FROM ring WHERE "+ofRuns, nil, func(st *sqlite.Stmt) error {
			w.of[core.Instant(st.ColumnInt64(0))] = true
			return nil
		})
	})
	return w, err
}

// sweepRuns reads the next rows that are old enough, at most limit, and removes expired ones. A requeue, and a planner pass that
// repeats an earlier one, enqueues its message first.
func (s *Store) sweepRuns(tx *tx, now time.Time, keep time.Duration, waiting slots, limit int) (removed int, more bool, err error) {
	var gone []int64
	from, next, seen := s.sweepFrom, int64(0), 0
	err = execute(tx.Conn, "SELECT n, key, max(n / 64 + 946684800000, ended), first, followed, keep, next, tail, "+
		"state > 3 AND NOT coalesce("+owesAny+", 0) AND slot NOT IN (SELECT slot FROM ring NOT INDEXED WHERE id > ? AND "+ofRuns+
		") AND NOT "+ofShard+", slot FROM runs LEFT JOIN (SELECT id AS job, keep, next, tail FROM sched) ON job = key & 2147483647 "+
		"WHERE n > ? AND n <= ? ORDER BY n LIMIT ? + 0",
		values(waiting.last, from, rowsBefore(core.Millis(now.Add(-cmp.Or(keep, 24*time.Hour)))), limit), func(st *sqlite.Stmt) error {
			next = st.ColumnInt64(0)
			seen++
			id, at := runOf(st.ColumnInt64(1)), core.FromMillis(st.ColumnInt64(2))
			first := cmp.Or(core.RunID(st.ColumnInt64(3)), id)
			if !st.ColumnBool(8) || waiting.of[core.Instant(st.ColumnInt64(9))] ||
				now.Sub(at) <= cmp.Or(max(keep, 0), core.Keep{Days: st.ColumnInt(5)}.For()) ||
				store.Asks(core.Instant(st.ColumnInt64(6)), core.RunID(st.ColumnInt64(7)), id, first) {
				return nil
			}
			goesOn, err := chainGoesOn(tx, core.RunID(st.ColumnInt64(4)))
			if !goesOn {
				gone = append(gone, next)
			}
			return err
		})
	if more = seen == limit; !more {
		next = 0
	}
	for i := 0; i < len(gone) && err == nil; i++ {
		err = removeRun(tx, gone[i])
	}
	tx.after = append(tx.after, func() { s.sweepFrom = next })
	return len(gone), more, err
}

// chainGoesOn reports whether the attempt id or a later one is open or has a pending follow-up.
func chainGoesOn(tx *tx, id core.RunID) (goesOn bool, err error) {
	for id != 0 && !goesOn && err == nil {
		then := core.RunID(0)
		err = execute(tx.Conn, "SELECT state <= 3 OR "+owesAny+", followed FROM runs WHERE key = ?", values(key(id)),
			func(st *sqlite.Stmt) error {
				goesOn, then = st.ColumnInt64(0) != 0, core.RunID(st.ColumnInt64(1))
				return nil
			})
		id = then
	}
	return goesOn, err
}

// owing returns the runs with pending follow-ups.
func owing(c *sqlite.Conn) (map[core.RunID]bool, error) {
	found := map[core.RunID]bool{}
	return found, execute(c, "SELECT key FROM runs INDEXED BY runs_owing WHERE "+owesAny, nil, func(st *sqlite.Stmt) error {
		found[runOf(st.ColumnInt64(0))] = true
		return nil
	})
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
	if err := s.read(ctx, func(c *sqlite.Conn) error {
		owes, err := owing(c)
		list = slices.DeleteFunc(list, func(j core.Journal) bool {
			return slices.ContainsFunc(j.Entries, func(e core.Entry) bool {
				needed := int64(0)
				if _, numbered := e.Run.Number(); numbered && err == nil && !owes[e.Run] {
					needed, err = integer(c, 0, "SELECT "+ofShard+" FROM runs WHERE key = ?", key(e.Run))
				}
				return owes[e.Run] || needed > 0
			})
		})
		return err
	}); err != nil {
		return 0, fmt.Errorf("read runs of journals: %w", err)
	}
	answers := make([]error, len(list))
	if err := s.write(ctx, false, len(list), func(tx *tx) error {
		const q = "DELETE FROM records WHERE kind = ? AND name = ? AND v = ?"
		return eachRow(tx, q, list, answers, func(st *sqlite.Stmt, j *core.Journal) error {
			k := store.JournalKey(j.Key)
			values(k.Kind, k.Name, j.V+1)(st)
			return nil
		})
	}); err != nil {
		return 0, fmt.Errorf("remove journals: %w", err)
	}
	for _, answer := range answers {
		if answer == nil {
			removed++
		}
	}
	s.sweepJournal = next
	return removed, nil
}

// closedJournals reads the next journals without open runs that the watchdog has checked, and the record to continue after.
func (s *Store) closedJournals(ctx context.Context, cursor int64, limit int) (list []core.Journal, next store.Key, err error) {
	from, seen, entries := s.sweepJournal, 0, 0
	from.Kind = max(from.Kind, "journal#")
	errEnough := errors.New("enough")
	err = s.read(ctx, func(c *sqlite.Conn) error {
		again := map[string]bool{} // names of journals that the watchdog reads again
		if err := execute(c, "SELECT name FROM records WHERE "+revisits+" > ?", values(cursor), func(st *sqlite.Stmt) error {
			again[st.ColumnText(0)] = true
			return nil
		}); err != nil {
			return err
		}
		return execute(c, "SELECT kind, name, v, body FROM records WHERE (kind, name) > (?, ?) AND kind < 'journal$' ORDER BY kind, name",
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
				if left := (j.Key.Minute > cursor || again[from.Name]) && j.HasLeft(); !left && !s.recent.someOpen(j.Entries) {
					list = append(list, j)
				}
				return nil
			})
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, s.sweepJournal, fmt.Errorf("read journals: %w", err)
	}
	return list, next, nil
}

// sweepTombs removes tombstones older than a millisecond that no entry, message and run needs. It reads beside the writer: a
// deleted job gets new runs only from its existing ones.
func (s *Store) sweepTombs(ctx context.Context, before int64, limit int) (removed int, err error) {
	var old []core.JobID
	err = s.read(ctx, func(c *sqlite.Conn) error {
		return execute(c, "SELECT id >> 32 FROM (SELECT CAST(name AS INTEGER) << 32 AS id FROM records WHERE kind = ? AND v < ?) "+
			"WHERE NOT EXISTS (SELECT 1 FROM entries WHERE run BETWEEN id AND id + 4294967295)", values(store.KindTombstone, before),
			func(st *sqlite.Stmt) error {
				if job := core.JobID(st.ColumnInt64(0)); len(s.recent.openRuns(job)) == 0 {
					old = append(old, job)
				}
				return nil
			})
	})
	if len(old) == 0 || err != nil {
		return 0, err
	}
	err = s.read(ctx, func(c *sqlite.Conn) error {
		owes, err := owing(c)
		if err != nil {
			return err
		}
		named := map[core.JobID]bool{}
		for id := range owes {
			named[id.Job()] = true
		}
		err = execute(c, "SELECT DISTINCT json_extract(f.value, '$.run') >> 32 FROM ring, json_each(CASE WHEN json_valid(CAST(body AS TEXT)) "+
			"THEN CAST(body AS TEXT) ELSE '{}' END, '$.fires') AS f WHERE "+ofRuns, nil, func(st *sqlite.Stmt) error {
			named[core.JobID(st.ColumnInt64(0))] = true
			return nil
		})
		old = slices.DeleteFunc(old, func(job core.JobID) bool { return named[job] })
		return err
	})
	old = old[:min(limit, len(old))]
	if len(old) == 0 || err != nil {
		return 0, err
	}
	return len(old), s.write(ctx, false, len(old), func(tx *tx) error {
		for _, job := range old { // its runs get no numbers and send no scripts
			for _, of := range [][]any{{"records WHERE kind = ? AND name = ?", store.KindTombstone, store.JobName(job)},
				{"records WHERE kind = ?", store.ScriptKind(job)}, {"counters WHERE job = ?", job}} {
				if err := execute(tx.Conn, "DELETE FROM "+of[0].(string), values(of[1:]...), nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// sweepHistory removes entries of removed runs from the next slice of the history. A full round takes as many calls as the
// history has slices.
func (s *Store) sweepHistory(tx *tx) error {
	to, err := integer(tx.Conn, math.MaxInt64, "SELECT id FROM history WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?", s.sweepID, 10*sweepSlice)
	if err == nil {
		err = execute(tx.Conn, "DELETE FROM history WHERE id > ? AND id <= ? AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.n = history.n)",
			values(s.sweepID, to), nil)
	}
	tx.after = append(tx.after, func() {
		if s.sweepID = to; to == math.MaxInt64 {
			s.sweepID = 0
		}
	})
	return err
}
