package operate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/operate"
)

func (f *fixture) waits(at time.Time, key string) core.Run {
	f.T.Helper()
	r, err := f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", At: &at, Key: key})
	if err != nil || !r.Waiting {
		f.T.Fatalf("%+v %v", r, err)
	}
	return r.Run
}

// TestChangeTriggerCrashPoints: after a crash at any step, or a lost answer, the trigger has
// either all old or all new values. Its entry sends it. A repeated call completes the change.
func TestChangeTriggerCrashPoints(t *testing.T) {
	for _, ahead := range []time.Duration{time.Second, 2 * time.Hour} {
		for _, mode := range []faults{{Kill: true}, {Kill: true, After: true}, {}, {After: true}, {Err: core.ErrThrottled},
			{Err: core.ErrRefused, After: true}} {
			for at := 1; ; at++ {
				f := newFixture(t)
				j := f.Create(spec("sweep", core.Schedule{}))
				run := f.waits(start.Add(time.Hour), "order-7")
				when, params := start.Add(ahead), "other"
				change := operate.TriggerChange{At: &when, Params: &params}
				w := mode
				w.At = at
				_, err := f.Fresh(&w).ChangeTrigger(ctx, ann, run.ID.String(), change)
				what := fmt.Sprintf("ahead %s, %+v at %s", ahead, mode, w.Last)
				f.M = f.Fresh(&faults{})
				whole := func() core.Run {
					t.Helper()
					v, err := f.M.Run(ctx, run.ID.String())
					if err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					was, is := v.Run.Slot == run.Slot && v.Run.Params == nil, v.Run.Slot == core.Ceil(when) && v.Run.Params != nil
					if was == is {
						t.Errorf("%s: half of it: %+v", what, v.Run)
					}
					entry := slices.ContainsFunc(f.entries(j.Def.ID), func(d core.DueItem) bool {
						return d.PlanAt < v.Run.Slot &&
							d.PlanAt > v.Run.Slot-60
					})
					onRing := slices.ContainsFunc(f.Fires(), func(x core.Fire) bool { return x.Run == run.ID && x.Slot == v.Run.Slot })
					if !entry && !onRing {
						t.Errorf("%s: nothing sends it at %s; entries %+v", what, v.Run.Slot, f.entries(j.Def.ID))
					}
					return v.Run
				}
				if r := whole(); err == nil && r.Slot != core.Ceil(when) {
					t.Errorf("%s: reported as changed, but it is %+v", what, r)
				}
				if _, err := f.M.ChangeTrigger(ctx, ann, run.ID.String(), change); err != nil {
					t.Errorf("%s: again: %v", what, err)
				}
				if r := whole(); r.Slot != core.Ceil(when) || *r.Params != params {
					t.Errorf("%s: %+v", what, r)
				}
				if w.Last == "" {
					break
				}
			}
		}
	}
}
