package lossdetect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
)

// TestLossIsFoundBeforeThePlanning: jobs that fire each minute are planned eleven minutes at a time. A wake-up in between
// sees that a recent scheduled time has no run and records the loss. Stored runs, requeued runs, and times that a scan
// will check are no loss.
func TestLossIsFoundBeforeThePlanning(t *testing.T) {
	began := core.InstantOf(start)
	ago := func(m int) core.Instant { return began - core.Instant(m*60) }
	walk := core.Loss{From: ago(60), Next: "7", At: began.Time()}
	for name, c := range map[string]struct {
		run  []core.Instant
		back []core.Instant
		was  core.Loss
		want core.Instant // the first lost time; 0: none recorded
	}{
		"both lost":             {want: ago(3)},
		"one lost":              {run: []core.Instant{ago(3)}, want: ago(2)},
		"none lost":             {run: []core.Instant{ago(3), ago(2)}},
		"put back":              {run: []core.Instant{ago(3)}, back: []core.Instant{ago(2)}},
		"a walk is asked for":   {was: walk},
		"the other is requeued": {back: []core.Instant{ago(2)}, want: ago(3)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				eng := one(t, every(time.Minute), func(s *core.Sched) {
					s.RevAt, s.Next, s.PlanAt, s.Compared = ago(60).Time(), began+600, began+390, ago(12)
				})
				must(t, eng.PutGlobal(t.Context(), 0, core.Global{Partitions: 1, Readable: 1, Groups: 1, Busy: time.Now().UTC(), Loss: c.was, Rev: 1}))
				for _, at := range c.run {
					r := core.Run{ID: core.PlannedRun(1, at), App: "shop", State: core.Succeeded, Cause: core.CauseSchedule}
					must(t, eng.CreateRuns(t.Context(), []core.Run{r})...)
				}
				for _, at := range c.back {
					f := core.Fire{Run: core.PlannedRun(1, at), Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}
					must(t, eng.Queue.Enqueue(t.Context(),
						[]ring.Out{{NotBefore: time.Now().Add(time.Minute), Message: ring.Message{Kind: ring.KindFires, Slot: at,
							Fires: []core.Fire{f}}}})...)
				}
				tk := tick.New(eng, tick.Invoked(tick.Options{ID: "t", Plan: plan.AWS()}))
				must(t, tk.Beats(tick.Invocation{}).Run(t.Context()))
				g, err := eng.Global(t.Context())
				must(t, err)
				want := c.was
				if c.want != 0 {
					want = core.Loss{From: c.want - core.Instant(plan.AWS().MaxAhead/time.Second), At: g.Loss.At}
				}
				if g.Loss != want {
					t.Errorf("noted is %+v, want %+v", g.Loss, want)
				}
			})
		})
	}
}
