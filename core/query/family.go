package query

import (
	"context"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// Bounds for finding the children of an ended run: child jobs, and runs of each.
const (
	mostFollowing = 25
	mostFollowed  = 100
)

// Children returns the child runs of an ended run. It searches at most 25 child jobs, and the newest 100 runs of each
// child job.
func (q *Queries) Children(ctx context.Context, v *RunView) ([]RunView, error) {
	r := &v.Run
	if v.Job == nil || v.Skip != nil || r.State.Open() || r.Then != 0 {
		return nil, nil
	}
	list := v.Job.Def.Children[:min(len(v.Job.Def.Children), mostFollowing)]
	found, errs := make([][]core.Run, len(list)), make([]error, len(list))
	store.AtOnce(len(list), func(i int) {
		first, last := core.NumberedRange(list[i].Job)
		found[i], errs[i] = q.store.Runs.Span(ctx, last, first, mostFollowed)
	})
	var runs []core.Run
	for i := range list {
		if errs[i] != nil {
			return nil, core.Retryable(errs[i])
		}
		for k := range found[i] {
			if found[i][k].Parent == r.ID && found[i][k].Attempt == 1 {
				runs = append(runs, found[i][k])
			}
		}
	}
	if len(runs) == 0 {
		return nil, nil
	}
	jobs, err := q.jobsOf(ctx, runs)
	if err != nil {
		return nil, err
	}
	views := make([]RunView, len(runs))
	for i := range runs {
		views[i] = RunView{Run: runs[i], Job: jobs[runs[i].ID.Job()]}
	}
	return views, nil
}

// Shards returns the last attempt of each shard of a broadcast, in the order of the shards. If a shard has no run,
// only Shard is set.
func (q *Queries) Shards(ctx context.Context, r *core.Run) ([]core.Run, error) {
	if !r.IsBroadcast() {
		return nil, nil
	}
	ids := make([]core.RunID, r.Shard.Total)
	for i := range ids {
		ids[i] = r.Shard.IDOf(i)
	}
	list, err := q.store.LastAttempts(ctx, ids)
	for i := range list {
		if list[i].ID == 0 {
			list[i].Shard = core.Shard{Of: r.ID, Index: i, Total: r.Shard.Total}
		}
	}
	return list, err
}

// Following returns the child jobs of a job by name, with the condition under which each child job runs.
func (q *Queries) Following(ctx context.Context, j *core.Job) ([]core.Parent, error) {
	list := make([]core.Parent, 0, len(j.Def.Children))
	for some := range slices.Chunk(j.Def.Children, mostFollowed) {
		ids := make([]core.JobID, len(some))
		for i, c := range some {
			ids[i] = c.Job
		}
		found, _, err := store.Split(q.store.Jobs.Get(ctx, store.Whole, ids))
		if err != nil {
			return nil, core.Retryable(err)
		}
		for _, c := range some {
			if child := found[c.Job]; child != nil {
				list = append(list, core.Parent{Job: child.Name(), ID: c.Job, When: c.When})
			}
		}
	}
	return list, nil
}
