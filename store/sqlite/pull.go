package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

var _ store.Pull = (*Store)(nil)

// resize records that runs were added to a queue, or removed.
func resize(tx *tx, app, queue string, by int) error {
	return execute(tx.Conn, "INSERT INTO pulled_size (app, queue, runs) VALUES (?1, ?2, ?3) ON CONFLICT (app, queue) DO UPDATE SET "+
		"runs = runs + ?3", values(app, queue, by), nil)
}

func (s *Store) PutPulled(ctx context.Context, it store.PullItem, most int) error {
	full := false
	err := s.write(ctx, true, 1, func(tx *tx) error {
		n, err := integer(tx.Conn, 0, "SELECT runs FROM pulled_size WHERE app = ? AND queue = ?", it.Queue.App, it.Queue.Name)
		if err != nil {
			return err
		}
		// A queue that has the run accepts it also if it is full.
		has, err := integer(tx.Conn, 0, "SELECT 1 FROM pulled WHERE app = ? AND queue = ? AND run = ?", it.Queue.App, it.Queue.Name, it.Run)
		if full = n >= int64(most) && has == 0; err != nil || full || has > 0 {
			return err
		}
		if err := execute(tx.Conn, "INSERT INTO pulled (app, queue, run, visible, receives, body) VALUES (?, ?, ?, ?, 0, ?)",
			values(it.Queue.App, it.Queue.Name, it.Run, s.now().UnixMilli(), it.Body), nil); err != nil {
			return err
		}
		return resize(tx, it.Queue.App, it.Queue.Name, 1)
	})
	if err == nil && full {
		err = store.ErrFull
	}
	return err
}

// TakePulled implements store.Pull. If it finds nothing, it writes nothing.
func (s *Store) TakePulled(ctx context.Context, q store.PullQueue, now, until time.Time, limit int) (held []store.Held, next time.Time,
	err error) {
	type row struct {
		id, visible int64
		held        store.Held
	}
	look := func(c *sqlite.Conn) (rows []row, next time.Time, err error) {
		err = execute(c, "SELECT id, run, visible, receives, body FROM pulled WHERE app = ?1 || '' AND queue = ?2 || '' "+
			"ORDER BY visible, id LIMIT ?3 + 0",
			values(q.App, q.Name, limit+1), func(st *sqlite.Stmt) error {
				r := row{id: st.ColumnInt64(0), visible: st.ColumnInt64(2),
					held: store.Held{Receipt: store.Receipt{Run: core.RunID(st.ColumnInt64(1)), N: st.ColumnInt(3) + 1}}}
				switch {
				case !next.IsZero():
				case r.visible > now.UnixMilli() || len(rows) == limit:
					next = core.FromMillis(r.visible)
				default:
					r.held.Body = columnBytes(st, 4)
					rows = append(rows, r)
				}
				return nil
			})
		return rows, next, err
	}
	var rows []row
	if err := s.read(ctx, func(c *sqlite.Conn) (err error) {
		rows, next, err = look(c)
		return err
	}); err != nil || len(rows) == 0 {
		return nil, next, err
	}
	err = s.write(ctx, true, limit, func(tx *tx) (err error) {
		if rows, next, err = look(tx.Conn); err != nil {
			return err
		}
		for _, r := range rows {
			if err := execute(tx.Conn, "UPDATE pulled SET visible = ?2, receives = ?3 WHERE id = ?1",
				values(r.id, until.UnixMilli(), r.held.Receipt.N), nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	for _, r := range rows {
		held = append(held, r.held)
	}
	return held, next, nil
}

// byReceipt runs a statement on the row of a receipt; its parameters from the fifth on are more. It returns ErrRefused if
// there is no row. drop reports that the statement deletes the row.
func (s *Store) byReceipt(ctx context.Context, statement string, drop bool, q store.PullQueue, r store.Receipt, more ...any) error {
	changed := false
	err := s.write(ctx, true, 1, func(tx *tx) error {
		err := execute(tx.Conn, statement+" WHERE app = ?1 AND queue = ?2 AND run = ?3 AND receives = ?4",
			values(append([]any{q.App, q.Name, r.Run, r.N}, more...)...), nil)
		if changed = tx.Changes() > 0; err == nil && changed && drop {
			err = resize(tx, q.App, q.Name, -1)
		}
		return err
	})
	if err == nil && !changed {
		err = core.ErrRefused
	}
	return err
}

func (s *Store) HidePulled(ctx context.Context, q store.PullQueue, r store.Receipt, until time.Time, n int) error {
	return s.byReceipt(ctx, "UPDATE pulled SET visible = ?5, receives = ?6", false, q, r, until.UnixMilli(), n)
}

func (s *Store) DropPulled(ctx context.Context, q store.PullQueue, r store.Receipt) error {
	return s.byReceipt(ctx, "DELETE FROM pulled", true, q, r)
}

func (s *Store) RemovePulled(ctx context.Context, ids []int64) error {
	return s.write(ctx, false, len(ids), func(tx *tx) error {
		for _, id := range ids {
			var of *store.PullQueue
			if err := execute(tx.Conn, "DELETE FROM pulled WHERE id = ? RETURNING app, queue", values(id), func(st *sqlite.Stmt) error {
				of = &store.PullQueue{App: st.ColumnText(0), Name: st.ColumnText(1)}
				return nil
			}); err != nil {
				return err
			}
			if of != nil {
				if err := resize(tx, of.App, of.Name, -1); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (s *Store) HasPulled(ctx context.Context, q store.PullQueue, job core.JobID) (has bool, err error) {
	err = s.query(ctx, "SELECT 1 FROM pulled WHERE app = ?1 AND queue = ?2 AND run >= ?3 AND run < ?4 LIMIT 1",
		values(q.App, q.Name, int64(job)<<32, (int64(job)+1)<<32), func(*sqlite.Stmt) error {
			has = true
			return nil
		})
	return has, err
}

func (s *Store) ListPulled(ctx context.Context, after int64, limit int) (list []store.Listed, err error) {
	err = s.read(ctx, func(c *sqlite.Conn) error {
		q := "SELECT id, app, queue, run, receives FROM pulled WHERE id > ?1 ORDER BY id LIMIT ?2 + 0"
		return execute(c, q, values(after, limit), func(st *sqlite.Stmt) error {
			list = append(list, store.Listed{ID: st.ColumnInt64(0), Queue: store.PullQueue{App: st.ColumnText(1), Name: st.ColumnText(2)},
				Run: core.RunID(st.ColumnInt64(3)), N: st.ColumnInt(4)})
			return nil
		})
	})
	return list, err
}
