package sqlite

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// ListDefinitions implements store.Definitions.
func (s jobs) ListDefinitions(ctx context.Context, after core.JobID, limit int) (list []store.Record, next core.JobID, err error) {
	for st := range s.rows(ctx, &err, "SELECT id, body FROM def WHERE id > ? ORDER BY id LIMIT ? + 0", after, limit) {
		next = core.JobID(st.ColumnInt64(0))
		list = append(list, store.Record{Key: store.Key{Name: next.String()}, Body: columnBytes(st, 1)})
	}
	if len(list) < limit {
		next = 0
	}
	return list, next, err
}

// Replace implements store.Definitions. The cache has decrypted secrets, which do not change.
func (s jobs) Replace(ctx context.Context, list []store.Replacement) []error {
	return batch(ctx, s.Store, false, list, func(tx *tx, r *store.Replacement) error {
		return refused(tx.exec("UPDATE def SET body = ? WHERE id = ? AND body = ?", r.New.Body, r.Old.Name, r.Old.Body))
	})
}
