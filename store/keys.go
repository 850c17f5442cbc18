package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tickring/tickring/core"
)

// KeyFor is how long an idempotency key binds after the end of its run. If the run was never stored, the time counts from the
// binding.
const KeyFor = 24 * time.Hour

// IdempotencyKey identifies the record of an idempotency key. The version is the run to which the key is bound, and the body
// is when it was bound. The record expires some time after the run has ended.
func IdempotencyKey(job core.JobID, key string) Key {
	return Key{Kind: "key#" + job.String(), Name: key}
}

func (s *Store) PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (core.RunID, error) {
	now := s.Now()
	w := Write{Record: Record{Key: IdempotencyKey(job, key), V: int64(run),
		Body: strconv.AppendInt(nil, core.Millis(now), 10)}, Was: Absent}
	err := s.Write(ctx, w)
	if !errors.Is(err, core.ErrRefused) {
		return run, err
	}
	bound, err := s.Read(ctx, w.Key)
	if err != nil {
		return 0, err
	}
	id, since := core.RunID(bound.V), now.Add(-KeyFor)
	at, err := strconv.ParseInt(string(bound.Body), 10, 64)
	switch {
	case bound.V == 0: // it expired between the write and the read
		return 0, core.ErrThrottled
	case err != nil:
		return 0, fmt.Errorf("read the key %q of job %d: %w", key, job, err)
	case !core.FromMillis(at).Before(since):
		return id, nil
	}
	runs, err := s.Runs.Get(ctx, []core.RunID{id})
	old, is := runs[id]
	if err = cmp.Or(err, old.Err); err != nil {
		return 0, err
	}
	if is && (old.Is.State.Open() || old.Is.EndedAt.After(since)) {
		return id, nil
	}
	w.Was = bound.V
	return run, s.Write(ctx, w)
}
