package memory

import (
	"context"
	"maps"
	"time"

	"github.com/tickring/tickring/core"
)

type (
	sourceKey struct {
		job  core.JobID
		hash string
	}
	source struct {
		text string
		at   time.Time
	}
)

// Scripts implements query.Store.
func (s *Store) Scripts(ctx context.Context, job core.JobID) (rec core.Scripts, err error) {
	err = s.one(ctx, func() error {
		rec = s.scripts[job].Clone()
		rec.Job = job
		return nil
	})
	return rec, err
}

// PutScripts implements manage.Store.
func (s *Store) PutScripts(ctx context.Context, rec core.Scripts) error {
	return s.one(ctx, func() error {
		if s.scripts[rec.Job].V != rec.V-1 {
			return core.ErrRefused
		}
		if s.scripts[rec.Job] = rec.Clone(); len(rec.Old)+len(rec.Stored) == 0 {
			delete(s.scripts, rec.Job)
		}
		return nil
	})
}

// Source implements query.Store and dispatch.Store.
func (s *Store) Source(ctx context.Context, job core.JobID, hash string) (text string, found bool, err error) {
	err = s.one(ctx, func() error {
		var of source
		of, found = s.sources[sourceKey{job, hash}]
		text = of.text
		return nil
	})
	return text, found, err
}

// PutSource implements manage.Store.
func (s *Store) PutSource(ctx context.Context, job core.JobID, text string, at time.Time) error {
	return s.one(ctx, func() error {
		s.sources[sourceKey{job, core.HashScript(text)}] = source{text, milli(at)}
		return nil
	})
}

// DropSource implements manage.Store.
func (s *Store) DropSource(ctx context.Context, job core.JobID, hash string, before time.Time) error {
	return s.one(ctx, func() error {
		if of, is := s.sources[sourceKey{job, hash}]; is && of.at.Before(milli(before)) {
			delete(s.sources, sourceKey{job, hash})
		}
		return nil
	})
}

// dropScripts removes the scripts of a job whose other items are gone.
func (s *Store) dropScripts(job core.JobID) {
	delete(s.scripts, job)
	maps.DeleteFunc(s.sources, func(k sourceKey, _ source) bool { return k.job == job })
}
