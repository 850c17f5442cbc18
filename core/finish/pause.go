package finish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// pauseFailing pauses the job of a failed chain if its last pauseAfter chains all failed. Only
// chains since the last change of the job's schedule or state count.
func (f *Finish) pauseFailing(ctx context.Context, run *core.Run) error {
	id := run.ID.Job()
	for try := 0; ; try++ {
		job, err := f.readJob(ctx, store.Whole, id)
		if err != nil {
			return fmt.Errorf("read job %d to decide about its pause: %w", id, err)
		}
		if job != nil && job.Sched.State == core.Paused && job.Sched.PauseWhy == pausedWhy(job.Def.PauseAfter, run.ID) {
			return f.tellPaused(ctx, run, job.Def.PauseAfter) // the process that paused it may have died before this
		}
		if job == nil {
			return f.EndRow(ctx, id, f.o.Now()) // the job is deleted
		}
		if job.Sched.State != core.Started || job.Def.PauseAfter == 0 {
			return nil
		}
		failed, err := f.failedInRow(ctx, run, job.Def.PauseAfter, job.Sched.RevAt)
		if err != nil || !failed {
			return err
		}
		why := pausedWhy(job.Def.PauseAfter, run.ID)
		move, change := plan.PauseNow(job.Sched, why, f.o.Now(), f.o.Plan)
		if skip, some, err := plan.Dropped(&job.Sched, move.NewRevAt, core.ReasonPaused); err == nil && some {
			if err := f.s.PutSkips(ctx, []core.Skip{skip})[0]; err != nil {
				return fmt.Errorf("record skipped runs of paused job %d: %w", id, err)
			}
		}
		switch err := f.s.Jobs.Put(ctx, []store.JobPut{{Advance: &move, Changes: []core.Change{change}}})[0]; {
		case err == nil:
			f.o.Log.Warn("job paused", "job", id, "app", run.App, "why", why)
			return f.tellPaused(ctx, run, job.Def.PauseAfter)
		case errors.Is(err, core.ErrThrottled), try == budget.ReadTries, ctx.Err() != nil:
			return fmt.Errorf("pause job %d: %w", id, err)
		}
	}
}

// pausedWhy returns the reason of a pause; it names the run that caused it.
func pausedWhy(after int, run core.RunID) string {
	if after == 1 {
		return fmt.Sprintf("pauseAfter: run %d failed", run)
	}
	return fmt.Sprintf("pauseAfter: %d runs in a row failed, the last was run %d", after, run)
}

// tellPaused enqueues the notification of a pause after failures in a row. The pause stays
// pending until then.
func (f *Finish) tellPaused(ctx context.Context, run *core.Run, after int) error {
	if !run.Notice {
		return nil
	}
	note := ring.Note{Job: run.ID.Job(), Event: core.EventPaused, Run: run.ID, At: run.At, Reason: run.Reason, Times: int64(after),
		When: f.o.Now()}
	if err := cmp.Or(f.s.Queue.Enqueue(ctx, ring.Noted([]ring.Note{note}, f.o.Now()))...); err != nil {
		return fmt.Errorf("notify about the pause of job %d: %w", run.ID.Job(), err)
	}
	return nil
}

// failedInRow reports whether the last n chains of a job failed, counting chains that ended after
// since. Skipped and killed chains do not count. Runs may be deleted before the row is full, so
// failures are also read from the job's own item.
func (f *Finish) failedInRow(ctx context.Context, run *core.Run, n int, since time.Time) (bool, error) {
	id := run.ID.Job()
	ends, err := f.noteFailure(ctx, run, n, since)
	if err != nil {
		return false, err
	}
	noted := map[core.RunID]bool{}
	for _, r := range ends {
		noted[r.First] = true
	}
	for _, span := range core.RunRanges(id) {
		looked, found := 0, 0
		for r, err := range f.s.NewestRuns(ctx, span, budget.PauseRuns) {
			if err != nil {
				return false, fmt.Errorf("read the results of job %d: %w", id, err)
			}
			if r.Shard.Of == 0 && r.EndedAt.After(since) && (r.State == core.Succeeded || r.FailedForGood()) {
				if found++; !noted[r.First] {
					ends = append(ends, r)
				}
			}
			if looked++; looked%store.NewestPage == 0 && found >= n { // an older run may have ended later
				break
			}
		}
	}
	slices.SortStableFunc(ends, func(a, b *core.Run) int { return cmp.Or(b.EndedAt.Compare(a.EndedAt), cmp.Compare(b.ID, a.ID)) })
	success := slices.IndexFunc(ends, func(r *core.Run) bool { return r.State == core.Succeeded })
	if success < 0 {
		return len(ends) >= n, nil
	}
	if slices.ContainsFunc(ends[success:], func(r *core.Run) bool { return noted[r.First] }) {
		err = f.EndRow(ctx, id, ends[success].EndedAt) // it ended before the noted failures, or its report must be repeated
	}
	return success >= n, err
}

// rowOf names the item of permits that records a job's failures in a row. Each failure is a
// holder whose Until is its end time. The store keeps an item while it has holders.
func rowOf(job core.JobID) string { return "row/" + job.String() }

// noteFailure records a failed chain that ended after since, and returns the recorded failures.
// If n is 1 it records nothing.
func (f *Finish) noteFailure(ctx context.Context, run *core.Run, n int, since time.Time) (failures []*core.Run, err error) {
	counts := run.EndedAt.After(since)
	if n == 1 && counts {
		return []*core.Run{run}, nil
	}
	err = f.PutPermits(ctx, rowOf(run.ID.Job()), nil, func(p *core.Permits) (bool, error) {
		changed := endRow(p, since)
		if counts && !p.Holds(run.First) {
			p.Limit, changed = core.MaxPauseAfter, true
			p.Holders = append(p.Holders[max(0, len(p.Holders)+1-p.Limit):], core.Holder{First: run.First, Until: run.EndedAt})
		}
		failures = nil
		for _, h := range p.Holders {
			failures = append(failures, &core.Run{ID: h.First, First: h.First, State: core.Failed, EndedAt: h.Until})
		}
		return changed, nil
	})
	return failures, err
}

// endRow removes the failures up to a time.
func endRow(p *core.Permits, upTo time.Time) (changed bool) {
	had := len(p.Holders)
	p.Holders = slices.DeleteFunc(p.Holders, func(h core.Holder) bool { return !h.Until.After(upTo) })
	return len(p.Holders) < had
}

// EndRow deletes the recorded consecutive failures of a job that ended at or before upTo.
func (f *Finish) EndRow(ctx context.Context, job core.JobID, upTo time.Time) error {
	return f.PutPermits(ctx, rowOf(job), nil, func(p *core.Permits) (bool, error) { return endRow(p, upTo), nil })
}
