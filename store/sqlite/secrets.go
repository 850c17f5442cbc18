package sqlite

import (
	"context"
	"github.com/tickring/tickring/store"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

// ListDefinitions implements store.Definitions.
func (s jobs) ListDefinitions(ctx context.Context, after core.JobID, limit int) (list []store.Definition, next core.JobID, err error) {
	err = s.query(ctx, "SELECT id, body FROM def WHERE id > ? ORDER BY id LIMIT ? + 0", values(after, limit), func(st *sqlite.Stmt) error {
		list = append(list, store.Definition{Job: core.JobID(st.ColumnInt64(0)), Text: string(columnBytes(st, 1))})
		return nil
	})
	if len(list) == limit {
		next = list[limit-1].Job
	}
	return list, next, err
}

// ReplaceDefinitions implements store.Definitions. The cache has decrypted secrets, which do not change.
func (s jobs) ReplaceDefinitions(ctx context.Context, list []store.Definition) []error {
	return batch(ctx, s.Store, false, list, func(tx *tx, list []store.Definition, answers []error) error {
		return eachRow(tx, "UPDATE def SET body = ? WHERE id = ? AND body = ?", list, answers, func(st *sqlite.Stmt, r *store.Definition) error {
			st.BindBytes(1, []byte(r.New))
			st.BindInt64(2, int64(r.Job))
			st.BindBytes(3, []byte(r.Text))
			return nil
		})
	})
}
