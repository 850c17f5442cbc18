package store

import (
	"context"
	"errors"

	"github.com/tickring/tickring/core"
)

// cleanedKey identifies the record whose version is the scheduled time up to which runs of a job were cleaned up.
func cleanedKey(job core.JobID) Key { return Key{Kind: "cleaned", Name: job.String()} }

func (s *Store) Cleaned(ctx context.Context, job core.JobID) (core.Instant, error) {
	r, err := s.Read(ctx, cleanedKey(job))
	return core.Instant(r.V), err
}

func (s *Store) PutCleaned(ctx context.Context, job core.JobID, upTo core.Instant) error {
	return s.writeLower(ctx, Write{Record: Record{Key: cleanedKey(job), V: int64(upTo)}})
}

// writeLower writes or deletes a record unless its version is at least the one of the write.
func (s *Store) writeLower(ctx context.Context, w Write) error {
	w.Was = Lower
	if err := s.Write(ctx, w); !errors.Is(err, core.ErrRefused) {
		return err
	}
	return nil
}
