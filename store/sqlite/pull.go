package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

var _ store.Pull = (*Store)(nil)

// inQueue returns how many runs a queue has. It counts them once and then keeps the number, so that a queue that no
// executor pulls from does not slow the writer as it fills.
func (t *tx) inQueue(q store.PullQueue) (n int, err error) {
	if n, known := t.s.pulled[q]; known {
		return n + t.pulled[q], nil
	}
	err = execute(t.Conn, "SELECT count(*) FROM pulled WHERE app = ?1 AND queue = ?2", values(q.App, q.Name),
		func(st *sqlite.Stmt) error {
			n = st.ColumnInt(0)
			return nil
		})
	if err == nil {
		t.s.pulled[q] = n - t.pulled[q]
	}
	return n, err
}

// moreInQueue records that runs were added to a queue, or removed.
func (t *tx) moreInQueue(q store.PullQueue, n int) {
	if t.pulled == nil {
		t.pulled = map[store.PullQueue]int{}
	}
	t.pulled[q] += n
}

// commitPulled applies the changes of a committed transaction to the lengths of queues.
func (s *Store) commitPulled(more map[store.PullQueue]int) {
	for q, n := range more {
		if was, known := s.pulled[q]; known && was+n > 0 {
			s.pulled[q] = was + n
		} else {
			delete(s.pulled, q) // counting an empty one takes no time
		}
	}
}

func (s *Store) PutPulled(ctx context.Context, it store.PullItem, most int) error {
	var answer error
	err := s.write(ctx, true, 1, func(tx *tx) error {
		answer = nil
		there := false
		if err := execute(tx.Conn, "SELECT 1 FROM pulled WHERE app = ?1 AND queue = ?2 AND run = ?3",
			values(it.Queue.App, it.Queue.Name, it.Run), func(*sqlite.Stmt) error {
				there = true
				return nil
			}); err != nil || there {
			return err
		}
		n, err := tx.inQueue(it.Queue)
		if err != nil {
			return err
		}
		if n >= most {
			answer = store.ErrFull
			return nil
		}
		tx.moreInQueue(it.Queue, 1)
		return execute(tx.Conn, "INSERT INTO pulled (app, queue, run, visible, receives, body) VALUES (?1, ?2, ?3, ?4, 0, ?5)",
			values(it.Queue.App, it.Queue.Name, it.Run, s.now().UnixMilli(), it.Body), nil)
	})
	if err != nil {
		return err
	}
	return answer
}

// TakePulled implements store.Pull. If it finds nothing, it writes nothing.
func (s *Store) TakePulled(ctx context.Context, q store.PullQueue, now, until time.Time, limit int) (held []store.Held, next time.Time,
	err error) {
	type row struct {
		id, visible int64
		held        store.Held
	}
	look := func(c *sqlite.Conn) (rows []row, next time.Time, err error) {
		err = execute(c, "SELECT id, run, visible, receives, body FROM pulled WHERE app = ?1 AND queue = ?2 ORDER BY visible, id LIMIT ?3",
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
// there is no row.
func (s *Store) byReceipt(ctx context.Context, statement string, q store.PullQueue, r store.Receipt, changes func(tx *tx, n int),
	more ...any) error {
	changed := 0
	err := s.write(ctx, true, 1, func(tx *tx) error {
		err := execute(tx.Conn, statement+" WHERE app = ?1 AND queue = ?2 AND run = ?3 AND receives = ?4",
			values(append([]any{q.App, q.Name, r.Run, r.N}, more...)...), nil)
		if changed = tx.Changes(); err == nil {
			changes(tx, changed)
		}
		return err
	})
	if err == nil && changed == 0 {
		err = core.ErrRefused
	}
	return err
}

func (s *Store) HidePulled(ctx context.Context, q store.PullQueue, r store.Receipt, until time.Time, n int) error {
	return s.byReceipt(ctx, "UPDATE pulled SET visible = ?5, receives = ?6", q, r, func(*tx, int) {}, until.UnixMilli(), n)
}

func (s *Store) DropPulled(ctx context.Context, q store.PullQueue, r store.Receipt) error {
	return s.byReceipt(ctx, "DELETE FROM pulled", q, r, func(tx *tx, n int) { tx.moreInQueue(q, -n) })
}

func (s *Store) RemovePulled(ctx context.Context, ids []int64) error {
	return s.write(ctx, false, len(ids), func(tx *tx) error {
		for _, id := range ids {
			if err := execute(tx.Conn, "DELETE FROM pulled WHERE id = ?1 RETURNING app, queue", values(id),
				func(st *sqlite.Stmt) error {
					tx.moreInQueue(store.PullQueue{App: st.ColumnText(0), Name: st.ColumnText(1)}, -1)
					return nil
				}); err != nil {
				return err
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
		q := "SELECT id, app, queue, run, receives FROM pulled WHERE id > ?1 ORDER BY id LIMIT ?2"
		return execute(c, q, values(after, limit), func(st *sqlite.Stmt) error {
			list = append(list, store.Listed{ID: st.ColumnInt64(0), Queue: store.PullQueue{App: st.ColumnText(1), Name: st.ColumnText(2)},
				Run: core.RunID(st.ColumnInt64(3)), N: st.ColumnInt(4)})
			return nil
		})
	})
	return list, err
}
