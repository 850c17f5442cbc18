package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/store"
)

// split sorts the results of a read into jobs, throttled jobs and unreadable jobs.
func split[T any](ids []core.JobID, got map[core.JobID]store.Got[*core.Job], of func(*core.Job) T) (map[core.JobID]T, []core.JobID, error) {
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

func (n *Nouns) Jobs(ctx context.Context, ids []core.JobID) (map[core.JobID]*core.Job, []core.JobID, error) {
	got, err := n.Store.Jobs.Get(ctx, store.Whole, ids)
	if err != nil {
		return nil, nil, err
	}
	return split(ids, got, func(j *core.Job) *core.Job { return j })
}

func (n *Nouns) Scheds(ctx context.Context, ids []core.JobID) (map[core.JobID]core.Sched, []core.JobID, error) {
	got, err := n.Store.Jobs.Get(ctx, store.Planning, ids)
	if err != nil {
		return nil, nil, err
	}
	return split(ids, got, func(j *core.Job) core.Sched {
		s := j.Sched
		s.Schedule.Any = slices.Clone(s.Schedule.Any)
		return s
	})
}

func (n *Nouns) JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error) {
	return n.Store.Jobs.Named(ctx, app, names)
}

func (n *Nouns) ListJobs(ctx context.Context, app string, after core.JobID, limit int) (list []core.Job, next core.JobID, err error) {
	page, next, err := n.Store.Jobs.List(ctx, app, after, limit)
	list = make([]core.Job, 0, len(page))
	var bad core.Unreadable
	for _, g := range page {
		if g.Err == nil {
			list = append(list, *g.Is)
		} else {
			bad.Add(g.Is.Def.ID, g.Err)
		}
	}
	return list, next, cmp.Or(err, bad.Err())
}

func (n *Nouns) Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error) {
	return n.Store.Jobs.Due(ctx, partition, upTo, after, limit)
}

func (n *Nouns) Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error) {
	return n.Store.Jobs.Entries(ctx, job)
}

func (n *Nouns) NewJobIDs(ctx context.Context, count int) (core.JobID, error) {
	return n.Store.JobIDs(ctx, count)
}

func (n *Nouns) Numbers(ctx context.Context, job core.JobID, count int) (uint32, error) {
	return n.RunNumbers(ctx, job, count)
}

func (n *Nouns) CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error {
	puts := make([]store.JobPut, len(jobs))
	for i := range jobs {
		puts[i] = store.JobPut{Create: &jobs[i], Changes: changes[min(i, len(changes)):min(i+1, len(changes))]}
	}
	return n.Store.Jobs.Put(ctx, puts)
}

func (n *Nouns) UpdateJobs(ctx context.Context, updates []manage.Update) []error {
	puts := make([]store.JobPut, len(updates))
	for i, u := range updates {
		puts[i] = store.JobPut{Changes: []core.Change{u.Change},
			Update: &store.JobUpdate{Seen: u.Seen, SeenTail: u.SeenTail, Edges: u.Edges, Job: u.Job}}
	}
	return n.Store.Jobs.Put(ctx, puts)
}

func (n *Nouns) DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error {
	return n.Store.Jobs.Put(ctx, []store.JobPut{{Delete: &store.JobDelete{Seen: seen, Tombstone: t}, Changes: []core.Change{c}}})[0]
}

func (n *Nouns) PutEntries(ctx context.Context, entries []core.DueItem) []error {
	return n.Enter(ctx, entries)
}

func (n *Nouns) RemoveEntries(ctx context.Context, entries []core.DueItem) []error {
	return n.Leave(ctx, entries)
}

// Apps and ListApps sort the results of a read into apps, throttled apps and unreadable apps.
func (n *Nouns) Apps(ctx context.Context, names []string) (map[string]core.App, []string, error) {
	found := make(map[string]core.App, len(names))
	values, err := n.Store.Apps(ctx, names...)
	if err != nil {
		return found, nil, err
	}
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

func (n *Nouns) ListApps(ctx context.Context) (list []core.App, err error) {
	values, err := n.Store.ListApps(ctx)
	if err != nil {
		return list, err
	}
	var bad core.UnreadableApps
	for i := range values {
		switch v := &values[i]; {
		case errors.Is(v.Err, core.ErrThrottled):
			return list, v.Err
		case v.Err != nil:
			bad.Add(v.Name, v.Err)
		default:
			list = append(list, v.Is)
		}
	}
	return list, bad.Err()
}
