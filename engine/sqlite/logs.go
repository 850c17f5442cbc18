package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

// PutLog implements postrun.Store. The log is removed with its run.
func (s *Store) PutLog(ctx context.Context, run *core.Run, k core.KeptLog) error {
	body, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("write the log of run %d: %w", run.ID, err)
	}
	q := "INSERT INTO logs (run, body) SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM runs WHERE key = ?1) ON CONFLICT (run) DO "
	if len(k.Text) > 0 {
		q += "UPDATE SET body = excluded.body"
	} else {
		q += "NOTHING"
	}
	var answer error
	if err := s.write(ctx, false, 1, func(tx *tx) error {
		err := execute(tx.Conn, q, values(key(run.ID), body), nil)
		answer = judged(tx.Conn)
		return err
	}); err != nil {
		return err
	}
	return answer
}

func (s *Store) KeptLog(ctx context.Context, run core.RunID) (k core.KeptLog, is bool, err error) {
	err = s.query(ctx, "SELECT body FROM logs WHERE run = ?", values(key(run)), func(st *sqlite.Stmt) error {
		is = true
		return json.Unmarshal(columnBytes(st, 0), &k)
	})
	if err != nil {
		return core.KeptLog{}, false, fmt.Errorf("read the log of run %d: %w", run, err)
	}
	return k, is, nil
}
