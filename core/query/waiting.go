package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/store"
)

func (q *Queries) Stored(ctx context.Context, id core.RunID) (core.Run, bool, error) {
	r, err := q.store.Run(ctx, id)
	if r == nil || err != nil {
		return core.Run{}, false, core.Retryable(err)
	}
	return *r, true, nil
}

// EntriesOf returns the due-index entries of a waiting run; nil if the entries cannot be read.
func (q *Queries) EntriesOf(ctx context.Context, run core.RunID) []core.DueItem {
	entries, err := q.store.Jobs.Entries(ctx, run.Job())
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(entries, func(d core.DueItem) bool { return d.Run != run })
}

// Waiting lists the triggers and retries of a job that wait for their due time. Pages follow the order of run IDs.
// Within a page, the run with the earliest due time is first.
func (q *Queries) Waiting(ctx context.Context, ref, after string) (RunPage, error) {
	job, err := q.Job(ctx, ref)
	if err != nil {
		return RunPage{}, err
	}
	var res RunPage
	var next core.RunID
	if after != "" {
		if next, err = core.ParseRunID(after); err != nil {
			return RunPage{}, core.Invalid("after", after, "not the value of `next` from a page of these runs")
		}
	}
	if res.Runs, next, err = q.waiting(ctx, job.Def.ID, next, q.Page()); err != nil {
		return RunPage{}, err
	}
	if next != 0 {
		res.Next = next.String()
	}
	res.Jobs = map[core.JobID]*core.Job{job.Def.ID: &job}
	return res, nil
}

// waiting reads the waiting runs of a job with IDs after the given one: all, or one page and the ID to continue
// after.
func (q *Queries) waiting(ctx context.Context, job core.JobID, after core.RunID, p *budget.Page) (
	runs []core.Run, next core.RunID, err error) {
	entries, err := q.store.Jobs.Entries(ctx, job)
	if err != nil {
		return nil, 0, core.Retryable(err)
	}
	ids := make([]core.RunID, len(entries))
	for i, e := range entries {
		ids[i] = e.Run
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	ids = slices.DeleteFunc(ids, func(id core.RunID) bool { return id <= after })
	begun := false
read:
	for part := range slices.Chunk(ids, budget.AtOnce) {
		if p != nil && begun && p.Over() {
			next = after
			break
		}
		begun = true
		found, err := store.Complete(q.store.Runs.Get(ctx, part))
		if err != nil {
			return nil, 0, core.Retryable(err)
		}
		for _, id := range part {
			if r := found[id]; r != nil && r.State == core.Planned {
				if p != nil && !p.Takes(r) {
					next = after
					break read
				}
				runs = append(runs, *r)
			}
			after = id
		}
	}
	slices.SortFunc(runs, func(a, b core.Run) int { return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.ID, b.ID)) })
	return runs, next, nil
}
