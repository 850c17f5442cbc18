package store

import (
	"context"
	"errors"
	"time"

	"github.com/tickring/tickring/core"
)

// aliveKey identifies the record whose version is the time of the last call of Alive.
var aliveKey = Key{Kind: "alive", Name: "-"}

func (s *Store) Alive(ctx context.Context, now time.Time) error {
	return s.Write(ctx, Write{Record: Record{Key: aliveKey, V: core.Millis(now)}, Was: Any})
}

func (s *Store) LastAlive(ctx context.Context) (time.Time, error) {
	r, err := s.Read(ctx, aliveKey)
	return core.FromMillis(r.V), err
}

// CursorKey identifies the record whose version is the minute up to which the watchdog has checked journals. The version
// falls if the clock was set back.
var CursorKey = Key{Kind: "watch", Name: "cursor"}

func (s *Store) Cursor(ctx context.Context) (minute int64, err error) {
	r, err := s.Read(ctx, CursorKey)
	return r.V, err
}

func (s *Store) MoveCursor(ctx context.Context, seen, minute int64) error {
	return s.Write(ctx, Write{Record: Record{Key: CursorKey, V: minute}, Was: seen})
}

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
