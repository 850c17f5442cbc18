package awsengine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
)

// The scripts of a job stand together: the record of their versions, and each source once.

func scriptsKey(job core.JobID) item { return stateKey("script#"+job.String(), "versions") }

func sourceKey(job core.JobID, hash string) item { return stateKey("script#"+job.String(), hash) }

func (s *Store) Scripts(ctx context.Context, job core.JobID) (rec core.Scripts, err error) {
	rec.Job = job
	it, err := s.one(ctx, scriptsKey(job))
	if err != nil || it == nil {
		return rec, err
	}
	err = json.Unmarshal([]byte(stringOf(it, "body")), &rec)
	v, err2 := intOf(it, "v")
	if err = errors.Join(err, err2); err != nil {
		err = fmt.Errorf("read the scripts of job %d: %w", job, err)
	}
	rec.V = v
	return rec, err
}

func (s *Store) PutScripts(ctx context.Context, rec core.Scripts) error {
	if len(rec.Old)+len(rec.Stored) == 0 {
		return s.deleteIf(ctx, scriptsKey(rec.Job), was("v", rec.V-1))
	}
	it := scriptsKey(rec.Job)
	it["v"], it["body"] = number(rec.V), text(jsonText(rec))
	return s.putIf(ctx, it, was("v", rec.V-1))
}

func (s *Store) Source(ctx context.Context, job core.JobID, hash string) (source string, found bool, err error) {
	it, err := s.one(ctx, sourceKey(job, hash))
	if err != nil || it == nil {
		return "", false, err
	}
	return stringOf(it, "source"), true, nil
}

func (s *Store) PutSource(ctx context.Context, job core.JobID, source string, at time.Time) error {
	it := sourceKey(job, core.HashScript(source))
	it["source"], it["at"] = text(source), number(millis(at))
	return s.putIf(ctx, it, nil)
}

func (s *Store) DropSource(ctx context.Context, job core.JobID, hash string, before time.Time) error {
	e := &expr{}
	e.test("at", "<", number(millis(before)))
	if err := s.deleteIf(ctx, sourceKey(job, hash), e); !errors.Is(err, core.ErrRefused) {
		return err
	}
	return nil
}
