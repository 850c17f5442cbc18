package finish

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tickring/tickring/core"
)

// over ends runs of a job that are past their timeout or replaced, and whose executor is busy
// with the job. See claim protocol section 6, "Past its timeout".
func (c *conversation) over(ctx context.Context, job core.JobID, asks []ask) {
	asks = slices.DeleteFunc(slices.Clone(asks), func(a ask) bool { return !a.timedOut && !a.replaced })
	if c.t.at.address == core.LocalAddress { // it ends only the runs that are recorded as killed
		if slices.ContainsFunc(asks, func(a ask) bool { return a.replaced }) {
			if err := c.w.probe.Kill(ctx, &c.t.app, c.t.at.address, job); err != nil {
				c.silent(ctx, asks, fmt.Errorf("end replaced runs: %w", err))
				c.left(asks)
			}
		}
		return
	}
	if len(asks) == 0 || core.IsQueue(c.t.at.address) { // the run may wait in the queue, and its consumer limits its time
		return
	}
	fresh := c.giveUp(ctx, asks)
	if asks = slices.DeleteFunc(asks, func(a ask) bool { return !a.marked }); len(asks) == 0 {
		return
	}
	var others []core.Run // at the address, which must end too
	inTime := false
	if _, err := c.w.f.s.OpenRuns(ctx, job, nil, func(r *core.Run) bool {
		if r.Address != c.t.at.address || r.State == core.Queued {
			return true
		}
		others, inTime = append(others, *r), inTime || r.KillAt.IsZero()
		return !inTime
	}); err != nil {
		c.silent(ctx, asks, fmt.Errorf("read open runs: %w", err))
		c.left(asks)
		return
	}
	if inTime {
		for i := range asks {
			if a := &asks[i]; !c.walked || fresh[a.run] {
				c.waits, c.againKeys, c.oldest = append(c.waits, a.run), append(c.againKeys, a.key), max(c.oldest, a.age)
			}
		}
		return
	}
	if err := c.w.probe.Kill(ctx, &c.t.app, c.t.at.address, job); err != nil {
		c.silent(ctx, asks, fmt.Errorf("end runs past their timeout: %w", err))
		c.left(asks)
		return
	}
	told := map[core.RunID]bool{}
	for i := range asks {
		told[asks[i].run] = true
		c.end(&asks[i], toldToEnd(asks[i].run, asks[i].replaced))
	}
	for i := range others { // also runs that waited to be alone there
		if r := &others[i]; (r.PastTimeout() || r.Replaced()) && !told[r.ID] {
			c.end(&ask{}, toldToEnd(r.ID, r.Replaced()))
		}
	}
}

// toldToEnd returns the end of a run whose executor was asked to end its runs of the job.
func toldToEnd(run core.RunID, replaced bool) *Result {
	if replaced {
		return &Result{Run: run, State: core.Killed, Reason: core.ReasonReplaced, Killed: true,
			Message: "a newer run replaced it, and the executor was asked to end it"}
	}
	return &Result{Run: run, State: core.TimedOut, Reason: core.ReasonTimeout,
		Message: "the run exceeded its timeout, and the executor was asked to end it"}
}

// giveUp records that runs are past their timeout, and returns the newly recorded ones. A run
// whose write failed stays unmarked.
func (c *conversation) giveUp(ctx context.Context, asks []ask) (fresh map[core.RunID]bool) {
	fresh = map[core.RunID]bool{}
	var puts []core.RunPut
	var of []*ask
	at := c.w.f.o.Now()
	for i := range asks {
		if a := &asks[i]; !a.marked {
			puts, of = append(puts, (&core.Run{ID: a.run}).GiveUp(at)), append(of, a)
		}
	}
	if len(puts) == 0 {
		return fresh
	}
	for k, err := range c.w.f.s.ChangeRuns(ctx, puts) {
		switch {
		case err == nil:
			of[k].marked, fresh[of[k].run] = true, true
		case !errors.Is(err, core.ErrRefused): // a conflict: the run has ended, or a user killed it
			c.w.f.o.Log.Warn("exceeded timeout not recorded", "run", of[k].run, "job", of[k].run.Job(), "err", err)
			c.undone = append(c.undone, of[k].key)
		}
	}
	return fresh
}
