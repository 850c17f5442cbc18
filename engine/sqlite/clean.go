package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

// DropRuns implements operate.Store. It removes the kept log of a run too.
func (s *Store) DropRuns(ctx context.Context, runs []core.Run) []error {
	return batch(ctx, s, false, runs, func(tx *tx, runs []core.Run, answers []error) error {
		for i := range runs {
			k := key(runs[i].ID)
			if err := execute(tx.Conn, "DELETE FROM runs WHERE key = ? AND state > 3 AND NOT coalesce("+owesAny+", 0)", values(k), nil); err != nil {
				return err
			}
			if tx.Changes() > 0 {
				if err := execute(tx.Conn, "DELETE FROM logs WHERE run = ?", values(k), nil); err != nil {
					return err
				}
				continue
			}
			if err := execute(tx.Conn, "SELECT 1 FROM runs WHERE key = ?", values(k), func(*sqlite.Stmt) error {
				answers[i] = core.ErrRefused
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
}
