package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// KeyFor is how long an idempotency key binds after its run has ended, and if it never had one, after it was bound.
const KeyFor = 24 * time.Hour

// IdempotencyKey identifies the record of an idempotency key. The version is the run to which the key is bound, and the body
// is when it was bound. The record expires some time after the run has ended.
func IdempotencyKey(job core.JobID, key string) store.Key {
	return store.Key{Kind: "key#" + job.String(), Name: key}
}

func (n *Nouns) PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (core.RunID, error) {
	now := n.Now()
	w := store.Write{Record: store.Record{Key: IdempotencyKey(job, key), V: int64(run),
		Body: strconv.AppendInt(nil, core.Millis(now), 10)}, Was: store.Absent}
	err := n.write(ctx, w)
	if !errors.Is(err, core.ErrRefused) {
		return run, err
	}
	bound, err := n.read(ctx, w.Key)
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
	old, unread, err := n.ReadRuns(ctx, []core.RunID{id})
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return 0, err
	}
	if r, is := old[id]; is && (r.State.Open() || r.EndedAt.After(since)) {
		return id, nil
	}
	w.Was = bound.V
	return run, n.write(ctx, w)
}
