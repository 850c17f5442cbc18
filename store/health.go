package store

import (
	"context"
	"errors"
	"time"

	"github.com/tickring/tickring/core"
)

// KindHealth is the kind of the records of jobs and addresses that are slow or were until recently. It is listed every few
// seconds, only to choose the queue of a message. A list may be seconds old if that read is cheaper.
const KindHealth = "health"

// keepHealth is how long a health stays after its measurement.
const keepHealth = 24 * time.Hour

var healths = Table[core.Health]{Kind: KindHealth,
	Name:    func(h *core.Health) string { return h.Of },
	Version: func(h *core.Health) int64 { return core.Millis(h.At) },
	Fill:    func(h *core.Health, r *Record) { h.Of, h.At = r.Name, core.FromMillis(r.V) }}

func (s *Store) Healths(ctx context.Context) ([]core.Health, error) { return healths.ReadAll(ctx, s) }

func (s *Store) PutHealths(ctx context.Context, list []core.Health) []error {
	return healths.SaveAll(ctx, s, list, func(h *core.Health) (int64, time.Time) { return Lower, h.At.Add(keepHealth) })
}

// keepUses is how long the counts of a job stay after their last write.
const keepUses = 48 * time.Hour

var uses = Table[core.Uses]{Kind: "uses", Spread: true,
	Name:    func(u *core.Uses) string { return u.Job.String() },
	Version: func(u *core.Uses) int64 { return core.Millis(u.Since) }, // no write has a condition
	Fill:    func(u *core.Uses, r *Record) { u.Since = core.FromMillis(r.V) }}

func (s *Store) Uses(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Uses, error) {
	names := each(jobs, func(id *core.JobID) string { return id.String() })
	values, err := uses.Get(ctx, s, names...)
	found := make(map[core.JobID]core.Uses, len(values))
	for i, id := range jobs {
		v, is := values[names[i]]
		if !is || errors.Is(v.Err, core.ErrThrottled) {
			continue
		}
		if err == nil {
			err = v.Err
		}
		v.Is.Job = id
		found[id] = v.Is
	}
	return found, err
}

func (s *Store) PutUses(ctx context.Context, list []core.Uses) []error {
	return uses.SaveAll(ctx, s, list, func(*core.Uses) (int64, time.Time) { return Any, s.Now().Add(keepUses) })
}
