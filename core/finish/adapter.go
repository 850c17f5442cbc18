package finish

import (
	"context"
	"errors"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// ports implements Store and Watch over a *store.Store.
type ports struct{ *store.Store }

func (p ports) Runs(ctx context.Context, ids []core.RunID) (map[core.RunID]core.Run, []core.RunID, error) {
	got, err := p.Store.Runs.Get(ctx, ids)
	found := make(map[core.RunID]core.Run, len(got))
	var unread []core.RunID
	for id, g := range got {
		switch {
		case g.Err == nil:
			found[id] = *g.Is
		case errors.Is(g.Err, core.ErrThrottled):
			unread = append(unread, id)
		case err == nil:
			err = g.Err
		}
	}
	return found, unread, err
}

func jobsOf[T any](ids []core.JobID, got map[core.JobID]store.Got[*core.Job], of func(*core.Job) T) (map[core.JobID]T, []core.JobID, error) {
	found := make(map[core.JobID]T, len(got))
	var unread []core.JobID
	var bad core.Unreadable
	for _, id := range ids {
		switch g, is := got[id]; {
		case !is:
		case g.Err == nil:
			found[id] = of(g.Is)
		case errors.Is(g.Err, core.ErrThrottled):
			unread = append(unread, id)
		default:
			bad.Add(id, g.Err)
		}
	}
	return found, unread, bad.Err()
}

func (p ports) Jobs(ctx context.Context, ids []core.JobID) (map[core.JobID]*core.Job, []core.JobID, error) {
	got, err := p.Store.Jobs.Get(ctx, store.Whole, ids)
	if err != nil {
		return nil, nil, err
	}
	return jobsOf(ids, got, func(j *core.Job) *core.Job { return j })
}

func (p ports) Scheds(ctx context.Context, ids []core.JobID) (map[core.JobID]core.Sched, []core.JobID, error) {
	got, err := p.Store.Jobs.Get(ctx, store.Planning, ids)
	if err != nil {
		return nil, nil, err
	}
	return jobsOf(ids, got, func(j *core.Job) core.Sched { return j.Sched })
}

func (p ports) Apps(ctx context.Context, names []string) (map[string]core.App, []string, error) {
	values, err := p.Store.Apps(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	found := make(map[string]core.App, len(names))
	var bad core.UnreadableApps
	var unread []string
	for name, v := range values {
		switch {
		case errors.Is(v.Err, core.ErrThrottled):
			unread = append(unread, name)
		case v.Err != nil:
			bad.Add(name, v.Err)
		default:
			found[name] = v.Is
		}
	}
	return found, unread, bad.Err()
}

func (p ports) RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	return p.Store.Runs.Span(ctx, first, last, limit)
}

func (p ports) PutRuns(ctx context.Context, puts []core.RunPut) []error {
	return p.ChangeRuns(ctx, puts)
}

func (p ports) Create(ctx context.Context, runs []core.Run) []error {
	if err := p.Fence(ctx); err != nil {
		errs := make([]error, len(runs))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return p.CreateRuns(ctx, runs)
}

func (p ports) Numbers(ctx context.Context, job core.JobID, n int) (uint32, error) {
	return p.RunNumbers(ctx, job, n)
}

func (p ports) PutEntries(ctx context.Context, entries []core.DueItem) []error {
	return p.Enter(ctx, entries)
}

func (p ports) OpenRuns(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, core.RunID, error) {
	return p.Store.Runs.Open(ctx, first, last, false, limit)
}

func (p ports) OldestMessage(ctx context.Context) (ring.Oldest, error) { return p.Queue.Oldest(ctx) }
