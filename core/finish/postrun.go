package finish

import (
	"context"
	"fmt"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// post-run enqueues one message for each run that has work for the post-run queue, which does the
// work and clears it. Copies are harmless.
func (f *Finish) postRuns(ctx context.Context, runs []*core.Run) []error {
	errs := make([]error, len(runs))
	var out []ring.Out
	var of []int
	now := f.o.Now()
	for i, r := range runs {
		if r.OwesPostRun() != (core.PostRun{}) {
			of = append(of, i)
			out = append(out, ring.Out{NotBefore: now, Message: ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(now),
				PostRun: &ring.PostRun{Run: r.ID}}})
		}
	}
	if len(out) == 0 {
		return errs
	}
	for k, err := range f.s.Queue.Enqueue(ctx, out) {
		if err != nil {
			errs[of[k]] = fmt.Errorf("enqueue pending follow-ups of run %d: %w", runs[of[k]].ID, err)
		}
	}
	return errs
}

// PostRun enqueues the post-run work (log and notifications) of a run that another process closed.
func (f *Finish) PostRun(ctx context.Context, run *core.Run) error {
	return f.postRuns(ctx, []*core.Run{run})[0]
}
