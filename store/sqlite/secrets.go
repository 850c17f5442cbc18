package sqlite

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// ListDefinitions implements store.Definitions.
func (s jobs) ListDefinitions(ctx context.Context, after core.JobID, limit int) (list []store.Definition, next core.JobID, err error) {
	for st := range s.rows(ctx, &err, "SELECT id, body FROM def WHERE id > ? ORDER BY id LIMIT ? + 0", after, limit) {
		list = append(list, store.Definition{Job: core.JobID(st.ColumnInt64(0)), Text: string(columnBytes(st, 1))})
	}
	if len(list) == limit {
		next = list[limit-1].Job
	}
	return list, next, err
}

// ReplaceDefinitions implements store.Definitions. The cache has decrypted secrets, which do not change.
func (s jobs) ReplaceDefinitions(ctx context.Context, list []store.Definition) []error {
	return batch(ctx, s.Store, false, list, func(tx *tx, d *store.Definition) error {
		return refused(tx.exec("UPDATE def SET body = ? WHERE id = ? AND body = ?", []byte(d.New), d.Job, []byte(d.Text)))
	})
}
