package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

func (s *Store) Scripts(ctx context.Context, job core.JobID) (rec core.Scripts, err error) {
	err = s.query(ctx, "SELECT v, body FROM scripts WHERE job = ?", values(job), func(st *sqlite.Stmt) error {
		if err := json.Unmarshal(columnBytes(st, 1), &rec); err != nil {
			return fmt.Errorf("read the scripts of job %d: %w", job, err)
		}
		rec.V = st.ColumnInt64(0)
		return nil
	})
	rec.Job = job
	return rec, err
}

func (s *Store) PutScripts(ctx context.Context, rec core.Scripts) error {
	body, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	q, bound := "UPDATE scripts SET v = ?2, body = ?3 WHERE job = ?1 AND v = ?4", []any{rec.Job, rec.V, body, rec.V - 1}
	switch {
	case len(rec.Old)+len(rec.Stored) == 0:
		q, bound = "DELETE FROM scripts WHERE job = ? AND v = ?", []any{rec.Job, rec.V - 1}
	case rec.V == 1:
		q, bound = "INSERT INTO scripts (job, v, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", bound[:3]
	}
	return s.judge(ctx, 1, nil, q, values(bound...), nil)
}

func (s *Store) Source(ctx context.Context, job core.JobID, hash string) (text string, found bool, err error) {
	err = s.query(ctx, "SELECT source FROM sources WHERE job = ? AND hash = ?", values(job, hash), func(st *sqlite.Stmt) error {
		text, found = st.ColumnText(0), true
		return nil
	})
	return text, found, err
}

func (s *Store) PutSource(ctx context.Context, job core.JobID, text string, at time.Time) error {
	return s.exec(ctx, "INSERT INTO sources (job, hash, at, source) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (job, hash) DO UPDATE SET at = ?3",
		values(job, core.HashScript(text), core.Millis(at), text))
}

func (s *Store) DropSource(ctx context.Context, job core.JobID, hash string, before time.Time) error {
	return s.exec(ctx, "DELETE FROM sources WHERE job = ? AND hash = ? AND at < ?", values(job, hash, core.Millis(before)))
}
