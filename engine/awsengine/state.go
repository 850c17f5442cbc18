package awsengine

import (
	"context"
	"errors"
	"time"

	"github.com/tickring/tickring/core"
)

// keyFor is how long an idempotency key binds after its run has ended, and if it
// never had one, after it was bound.
const keyFor = 24 * time.Hour

func (s *Store) PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (core.RunID, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := s.o.Now()
	it := stateKey("key#"+job.String(), key)
	it["run"], it["at"] = number(run), number(millis(now))
	err := s.putIf(ctx, it, none("of"))
	if !errors.Is(err, core.ErrRefused) {
		return run, err
	}
	bound, err := s.one(ctx, stateKey("key#"+job.String(), key))
	if err != nil {
		return 0, err
	}
	id, err := intOf(bound, "run")
	if err != nil {
		return 0, err
	}
	at, err := intOf(bound, "at")
	since := now.Add(-keyFor)
	if err != nil || at >= millis(since) {
		return core.RunID(id), err
	}
	old, unread, err := s.Runs(ctx, []core.RunID{core.RunID(id)})
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return 0, err
	}
	if r, is := old[core.RunID(id)]; is && (r.State.Open() || r.EndedAt.After(since)) {
		return core.RunID(id), nil
	}
	return run, s.putIf(ctx, it, equal("run", number(id)))
}
