package finish

import (
	"context"
	"fmt"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// postRun enqueues one message for each run that has work for the post-run queue, which does the
// work and clears it. It returns an error for each run. Copies are harmless.
func (f *Finish) postRun(ctx context.Context, runs ...*core.Run) []error {
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
