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
	err := s.read(ctx, func(c *conn) {
		for _, k := range keys {
			for st := range c.rows("SELECT name, v, body, expires FROM records WHERE kind = ? AND name = ?", k.Kind, k.Name) {
				found[k] = scanRecord(st, k.Kind)
			}
		}
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
	for st := range s.rows(ctx, &err, q+" ORDER BY name LIMIT ? + 0", append(bound, limit)...) {
		list = append(list, scanRecord(st, kind))
	}
	return list, err
}

// Write implements store.Records. The writes are urgent: they are few, and permits delay runs.
func (s *Store) Write(ctx context.Context, groups ...store.Group) []error {
	return batch(ctx, s, true, groups, func(tx *tx, g *store.Group) error {
		if err := g.Check(); err != nil {
			return err
		}
		if !tx.met(g.Writes) {
			return core.ErrRefused
		}
		tx.writeGroup(g)
		return nil
	})
}

// refused returns core.ErrRefused if a conditional statement changed no row.
func refused(changed int) error {
	if changed == 0 {
		return core.ErrRefused
	}
	return nil
}

// met reports whether the conditions of writes are met.
func (tx *tx) met(writes []store.Write) bool {
	for i := range writes {
		w := &writes[i]
		if !w.Meets(tx.integer("SELECT v FROM records WHERE kind = ? AND name = ?", w.Kind, w.Name)) {
			return false
		}
		if w.Delete && w.Kind == store.KindApp && tx.integer("SELECT EXISTS (SELECT 1 FROM sched WHERE app = ?)", w.Name) > 0 {
			return false
		}
	}
	return true
}

func (tx *tx) writeGroup(g *store.Group) {
	for i := range g.Writes {
		tx.writeRecord(&g.Writes[i])
	}
	tx.putChanges(g.Changes)
}

// writeRecord makes a write whose condition is met.
func (tx *tx) writeRecord(w *store.Write) {
	if w.Delete {
		if w.Kind == store.KindApp {
			tx.exec("DELETE FROM records WHERE kind = ?", store.KindExecutors(w.Name))
		}
		tx.exec("DELETE FROM records WHERE kind = ? AND name = ?", w.Kind, w.Name)
		return
	}
	expires := int64(0)
	if !w.Expires.IsZero() {
		expires = w.Expires.Unix()
	}
	tx.exec("INSERT INTO records (kind, name, v, body, expires) VALUES (?1, ?2, ?3, ?4, nullif(?5, 0)) ON CONFLICT (kind, name) DO "+
		"UPDATE SET v = ?3, body = ?4, expires = nullif(?5, 0)", w.Kind, w.Name, w.V, w.Body, expires)
}
