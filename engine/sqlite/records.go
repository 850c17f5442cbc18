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
	q, bound := "SELECT name, v, body, expires FROM records WHERE kind = ? AND name > ?", []any{kind, after}
	if before != "" {
		q, bound = q+" AND name < ?", append(bound, before)
	}
	err = s.query(ctx, q+" ORDER BY name LIMIT ?", values(append(bound, limit)...), func(st *sqlite.Stmt) error {
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
			if answers[i], err = met(tx, g.Writes); err != nil {
				return err
			}
			if answers[i] == nil {
				if err := writeGroup(tx, g); err != nil {
					return err
				}
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
			return core.ErrRefused, nil
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
		return execute(tx.Conn, "DELETE FROM records WHERE kind = ? AND name = ?", values(w.Kind, w.Name), nil)
	}
	expires := int64(0)
	if !w.Expires.IsZero() {
		expires = w.Expires.Unix()
	}
	return execute(tx.Conn, "INSERT INTO records (kind, name, v, body, expires) VALUES (?1, ?2, ?3, ?4, nullif(?5, 0)) "+
		"ON CONFLICT DO UPDATE SET v = ?3, body = ?4, expires = nullif(?5, 0)", values(w.Kind, w.Name, w.V, w.Body, expires), nil)
}
