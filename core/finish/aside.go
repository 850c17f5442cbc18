package finish

import (
	"context"
	"fmt"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// asides enqueues one message for each run that has work for the post-run queue, which does the
// work and clears it. Copies are harmless.
func (f *Finish) asides(ctx context.Context, runs []*core.Run) []error {
	errs := make([]error, len(runs))
	var out []ring.Out
	var of []int
	now := f.o.Now()
	for i, r := range runs {
		if owes := r.OwesAside(); owes != (core.Aside{}) {
			of = append(of, i)
			out = append(out, ring.Out{NotBefore: now, Message: ring.Message{Kind: ring.KindAside, Slot: core.InstantOf(now),
				Aside: &ring.Aside{Run: r.ID, Aside: owes}}})
		}
	}
	if len(out) == 0 {
		return errs
	}
	for k, err := range f.ring.Enqueue(ctx, out) {
		if err != nil {
			errs[of[k]] = fmt.Errorf("enqueue pending follow-ups of run %d: %w", runs[of[k]].ID, err)
		}
	}
	return errs
}

// Aside enqueues the post-run work of a run that was closed elsewhere.
func (f *Finish) Aside(ctx context.Context, run *core.Run) error {
	return f.asides(ctx, []*core.Run{run})[0]
}
