package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
)

// ScriptKind returns the kind of a job's script records: the list of versions, and each source under its hash.
func ScriptKind(job core.JobID) string { return "script#" + job.String() }

func versionsKey(job core.JobID) Key { return Key{Kind: ScriptKind(job), Name: "versions"} }

func sourceKey(job core.JobID, hash string) Key {
	return Key{Kind: ScriptKind(job), Name: hash}
}

func (s *Store) Scripts(ctx context.Context, job core.JobID) (rec core.Scripts, err error) {
	r, err := s.Read(ctx, versionsKey(job))
	if err == nil && r.V != 0 {
		err = json.Unmarshal(r.Body, &rec)
	}
	if rec.Job, rec.V = job, r.V; err != nil {
		err = fmt.Errorf("read the scripts of job %d: %w", job, err)
	}
	return rec, err
}

func (s *Store) PutScripts(ctx context.Context, rec core.Scripts) error {
	body, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("write the scripts of job %d: %w", rec.Job, err)
	}
	return s.Write(ctx, Write{Record: Record{Key: versionsKey(rec.Job), V: rec.V, Body: body}, Was: rec.V - 1,
		Delete: len(rec.Old)+len(rec.Stored) == 0})
}

func (s *Store) Source(ctx context.Context, job core.JobID, hash string) (source string, found bool, err error) {
	r, err := s.Read(ctx, sourceKey(job, hash))
	return string(r.Body), r.V != 0, err
}

func (s *Store) PutSource(ctx context.Context, job core.JobID, source string, at time.Time) error {
	return s.Write(ctx, Write{Was: Any,
		Record: Record{Key: sourceKey(job, core.HashScript(source)), V: core.Millis(at), Body: []byte(source)}})
}

func (s *Store) DropSource(ctx context.Context, job core.JobID, hash string, before time.Time) error {
	return s.writeLower(ctx, Write{Record: Record{Key: sourceKey(job, hash), V: core.Millis(before)}, Delete: true})
}
