package finish

import (
	"context"
	"fmt"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// asides asks for what runs owe to the aside lane, a message each: the lane makes it, and
// clears it then. Copies are harmless.
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
			errs[of[k]] = fmt.Errorf("ask the aside lane for what run %d owes: %w", runs[of[k]].ID, err)
		}
	}
	return errs
}

// Aside asks for what a run that was closed elsewhere owes to the aside lane.
func (f *Finish) Aside(ctx context.Context, run *core.Run) error {
	return f.asides(ctx, []*core.Run{run})[0]
}
