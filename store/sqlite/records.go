package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

func scanRecord(st *sqlite.Stmt, kind string) store.Record {
	r := store.Record{Key: store.Key{Kind: kind, Name: st.ColumnText(0)}, V: st.ColumnInt64(1), Body: columnBytes(st, 2)}
	if !st.ColumnIsNull(3) {
		r.Expires = time.Unix(st.ColumnInt64(3), 0).UTC()
	}
	return r
}

// Get implements store.Records.
func (s *Store) Get(ctx context.Context, keys ...store.Key) (map[store.Key]store.Record, error) {
	found := make(map[store.Key]store.Record, len(keys))
	err := s.read(ctx, func(c *sqlite.Conn) error {
		for _, k := range keys {
			if err := execute(c, "SELECT name, v, body, expires FROM records WHERE kind = ? AND name = ?", values(k.Kind, k.Name),
				func(st *sqlite.Stmt) error {
					found[k] = scanRecord(st, k.Kind)
					return nil
				}); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// List implements store.Records.
func (s *Store) List(ctx context.Context, kind, after, before string, limit int) (list []store.Record, err error) {
	// With plain parameters of kind and LIMIT, SQLite would compile the statement again for each call.
	q, bound := "SELECT name, v, body, expires FROM records WHERE kind = ? || '' AND name > ?", []any{kind, after}
	if before != "" {
		q, bound = q+" AND name < ?", append(bound, before)
	}
	err = s.query(ctx, q+" ORDER BY name LIMIT ? + 0", values(append(bound, limit)...), func(st *sqlite.Stmt) error {
		list = append(list, scanRecord(st, kind))
		return nil
	})
	return list, err
}

// Write implements store.Records. The writes are urgent: they are few, and permits delay runs.
func (s *Store) Write(ctx context.Context, groups ...store.Group) []error {
	return batch(ctx, s, true, groups, func(tx *tx, groups []store.Group, answers []error) error {
		for i := range groups {
			g := &groups[i]
			if answers[i] = g.Check(); answers[i] != nil {
				continue
			}
			var err error
			if len(g.Writes) == 1 && len(g.Changes) == 0 && !g.Writes[0].Delete { // one statement has the condition
				if err = writeRecord(tx, &g.Writes[0]); err == nil {
					answers[i] = judged(tx.Conn)
				}
			} else if answers[i], err = met(tx, g.Writes); err == nil && answers[i] == nil {
				err = writeGroup(tx, g)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// met returns core.ErrRefused as the answer if a condition of the writes is not met.
func met(tx *tx, writes []store.Write) (answer, err error) {
	for i := range writes {
		w := &writes[i]
		v := store.Absent
		if err := execute(tx.Conn, "SELECT v FROM records WHERE kind = ? AND name = ?", values(w.Kind, w.Name), func(st *sqlite.Stmt) error {
			v = st.ColumnInt64(0)
			return nil
		}); err != nil {
			return nil, err
		}
		if !w.Meets(v) {
			answer = core.ErrRefused
		}
		if w.Delete && w.Kind == store.KindApp {
			err = execute(tx.Conn, "SELECT 1 FROM sched WHERE app = ? LIMIT 1", values(w.Name), func(*sqlite.Stmt) error {
				answer = core.ErrRefused
				return nil
			})
		}
		if answer != nil || err != nil {
			return answer, err
		}
	}
	return nil, nil
}

func writeGroup(tx *tx, g *store.Group) error {
	for i := range g.Writes {
		if err := writeRecord(tx, &g.Writes[i]); err != nil {
			return err
		}
	}
	for i := range g.Changes {
		if err := putChange(tx, &g.Changes[i]); err != nil {
			return err
		}
	}
	return nil
}

func writeRecord(tx *tx, w *store.Write) error {
	if w.Delete {
		err := execute(tx.Conn, "DELETE FROM records WHERE kind = ? AND name = ?", values(w.Kind, w.Name), nil)
		if err == nil && w.Kind == store.KindApp {
			err = execute(tx.Conn, "DELETE FROM records WHERE kind = ?", values(store.KindExecutors(w.Name)), nil)
		}
		return err
	}
	expires := int64(0)
	if !w.Expires.IsZero() {
		expires = w.Expires.Unix()
	}
	q := "INSERT INTO records (kind, name, v, body, expires) VALUES (?1, ?2, ?3, ?4, nullif(?5, 0)) ON CONFLICT (kind, name) DO " +
		"UPDATE SET v = ?3, body = ?4, expires = nullif(?5, 0)"
	switch w.Was {
	case store.Any:
	case store.Absent:
		q += " WHERE false"
	case store.Lower:
		q += " WHERE v < ?3"
	default:
		q = "UPDATE records SET v = ?3, body = ?4, expires = nullif(?5, 0) WHERE kind = ?1 AND name = ?2 AND v = ?6"
	}
	st, err := tx.Prepare(q)
	if err != nil {
		return err
	}
	st.BindText(1, w.Kind)
	st.BindText(2, w.Name)
	st.BindInt64(3, w.V)
	st.BindBytes(4, w.Body)
	st.BindInt64(5, expires)
	if w.Was > 0 {
		st.BindInt64(6, w.Was)
	}
	return rows(st, nil)
}
