package sqlite

import (
	"cmp"
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// resize records that runs were added to a queue, or removed.
func (tx *tx) resize(q store.PullQueue, by int) {
	tx.exec("INSERT INTO pulled_size (app, queue, runs) VALUES (?1, ?2, ?3) ON CONFLICT (app, queue) DO UPDATE SET runs = runs + ?3",
		q.App, q.Name, by)
}

func (s *Store) PutPulled(ctx context.Context, it store.PullItem, most int) error {
	full, q := false, it.Queue
	err := s.write(ctx, true, 1, func(tx *tx) {
		n := tx.integer("SELECT runs FROM pulled_size WHERE app = ? AND queue = ?", q.App, q.Name)
		// A queue that has the run accepts it also if it is full.
		has := tx.integer("SELECT 1 FROM pulled WHERE app = ? AND queue = ? AND run = ?", q.App, q.Name, it.Run) > 0
		if full = n >= int64(most) && !has; full || has {
			return
		}
		tx.exec("INSERT INTO pulled (app, queue, run, visible, receives, body) VALUES (?, ?, ?, ?, 0, ?)",
			q.App, q.Name, it.Run, s.o.Now().UnixMilli(), it.Body)
		tx.resize(q, 1)
	})
	if err == nil && full {
		err = store.ErrFull
	}
	return err
}

// TakePulled implements store.Pull. If it finds nothing, it writes nothing.
func (s *Store) TakePulled(ctx context.Context, q store.PullQueue, now, until time.Time, limit int) (held []store.Held, next time.Time,
	err error) {
	var ids []int64
	look := func(c *conn) {
		ids, held, next = nil, nil, time.Time{}
		for st := range c.rows("SELECT id, run, visible, receives, body FROM pulled WHERE app = ?1 || '' AND queue = ?2 || '' "+
			"ORDER BY visible, id LIMIT ?3 + 0", q.App, q.Name, limit+1) {
			if visible := st.ColumnInt64(2); visible > now.UnixMilli() || len(held) == limit {
				next = core.FromMillis(visible)
				break
			}
			ids = append(ids, st.ColumnInt64(0))
			held = append(held, store.Held{Receipt: store.Receipt{Run: core.RunID(st.ColumnInt64(1)), N: st.ColumnInt(3) + 1},
				Body: columnBytes(st, 4)})
		}
	}
	if err = s.read(ctx, look); err == nil && len(held) > 0 {
		err = s.write(ctx, true, limit, func(tx *tx) {
			look(tx.conn)
			tx.exec("UPDATE pulled SET visible = ?, receives = receives + 1 WHERE id IN (SELECT value FROM json_each(?))",
				until.UnixMilli(), jsonText(ids))
		})
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return held, next, nil
}

// byReceipt runs a statement on the row of a receipt; its parameters from the fifth on are more. It returns ErrRefused if
// there is no row. by is how many runs the statement adds to the queue.
func (s *Store) byReceipt(ctx context.Context, statement string, by int, q store.PullQueue, r store.Receipt, more ...any) error {
	changed := 0
	err := s.write(ctx, true, 1, func(tx *tx) {
		changed = tx.exec(statement+" WHERE app = ?1 AND queue = ?2 AND run = ?3 AND receives = ?4",
			append([]any{q.App, q.Name, r.Run, r.N}, more...)...)
		if changed > 0 && by != 0 {
			tx.resize(q, by)
		}
	})
	return cmp.Or(err, refused(changed))
}

func (s *Store) HidePulled(ctx context.Context, q store.PullQueue, r store.Receipt, until time.Time, n int) error {
	return s.byReceipt(ctx, "UPDATE pulled SET visible = ?5, receives = ?6", 0, q, r, until.UnixMilli(), n)
}

func (s *Store) DropPulled(ctx context.Context, q store.PullQueue, r store.Receipt) error {
	return s.byReceipt(ctx, "DELETE FROM pulled", -1, q, r)
}

func (s *Store) RemovePulled(ctx context.Context, ids []int64) error {
	return s.write(ctx, false, len(ids), func(tx *tx) {
		for _, id := range ids {
			for st := range tx.rows("DELETE FROM pulled WHERE id = ? RETURNING app, queue", id) {
				tx.resize(store.PullQueue{App: st.ColumnText(0), Name: st.ColumnText(1)}, -1)
			}
		}
	})
}

func (s *Store) HasPulled(ctx context.Context, q store.PullQueue, job core.JobID) (has bool, err error) {
	for range s.rows(ctx, &err, "SELECT 1 FROM pulled WHERE app = ?1 AND queue = ?2 AND run >= ?3 AND run < ?4 LIMIT 1",
		q.App, q.Name, int64(job)<<32, (int64(job)+1)<<32) {
		has = true
	}
	return has, err
}

func (s *Store) ListPulled(ctx context.Context, after int64, limit int) (list []store.Listed, err error) {
	const q = "SELECT id, app, queue, run, receives FROM pulled WHERE id > ?1 ORDER BY id LIMIT ?2 + 0"
	for st := range s.rows(ctx, &err, q, after, limit) {
		list = append(list, store.Listed{ID: st.ColumnInt64(0), Queue: store.PullQueue{App: st.ColumnText(1), Name: st.ColumnText(2)},
			Run: core.RunID(st.ColumnInt64(3)), N: st.ColumnInt(4)})
	}
	return list, err
}
