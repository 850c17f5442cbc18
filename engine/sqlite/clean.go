package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine"
)

// removeRun removes a row of runs with the kept log of the run. The key of the run expires a day after the end.
func removeRun(tx *tx, n int64) error {
	var run core.RunID
	var bound string
	var until int64
	if err := execute(tx.Conn, "SELECT key, coalesce(json_extract(given, '$.key'), ''), ended FROM runs WHERE n = ?", values(n),
		func(st *sqlite.Stmt) error {
			run, bound = runOf(st.ColumnInt64(0)), st.ColumnText(1)
			until = core.FromMillis(st.ColumnInt64(2)).Add(engine.KeyFor).Unix()
			return nil
		}); err != nil {
		return err
	}
	if bound != "" {
		k := engine.IdempotencyKey(run.Job(), bound)
		if err := execute(tx.Conn, "UPDATE records SET expires = ? WHERE kind = ? AND name = ? AND v = ?",
			values(until, k.Kind, k.Name, run), nil); err != nil {
			return err
		}
	}
	log := engine.LogKey(run)
	if err := execute(tx.Conn, "DELETE FROM records WHERE kind = ? AND name = ?", values(log.Kind, log.Name), nil); err != nil {
		return err
	}
	return execute(tx.Conn, "DELETE FROM runs WHERE n = ?", values(n), nil)
}

// DropRuns implements operate.Store. It removes the kept log of a run too.
func (s *Store) DropRuns(ctx context.Context, runs []core.Run) []error {
	return batch(ctx, s, false, runs, func(tx *tx, runs []core.Run, answers []error) error {
		for i := range runs {
			row, free := int64(0), false
			if err := execute(tx.Conn, "SELECT n, state > 3 AND NOT coalesce("+owesAny+", 0) FROM runs WHERE key = ?",
				values(key(runs[i].ID)), func(st *sqlite.Stmt) error {
					row, free = st.ColumnInt64(0), st.ColumnBool(1)
					return nil
				}); err != nil {
				return err
			}
			switch {
			case row == 0:
			case !free:
				answers[i] = core.ErrRefused
			default:
				if err := removeRun(tx, row); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
