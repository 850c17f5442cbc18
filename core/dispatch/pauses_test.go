package dispatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
)

// TestFireOfAnyPause: a late run whose scheduled time lies in a pause, however old, is not sent. If the pause is not
// stored any more, the run is recorded, since it may have been expected.
func TestFireOfAnyPause(t *testing.T) {
	for _, everything := range []bool{false, true} {
		for _, later := range []int{0, 1, core.MaxPast, core.MaxPast + 1, core.MaxPast + 5} {
			t.Run(fmt.Sprint("everything ", everything, ", ", later, " pauses later"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newGated(t, dispatch.Options{})
					inside := g.messages(1, 1, "one")[0]
					began := inside.Slot.Time()
					pause := func(from time.Time) {
						p := core.Pause{From: from, To: from.Add(5 * time.Minute), By: "ann"}
						if everything {
							global, err := g.s.Global(t.Context())
							must(t, err)
							seen := global.Rev
							global.Rev, global.Pause = seen+1, p
							must(t, g.s.PutGlobal(t.Context(), seen, global))
							return
						}
						apps, _, err := g.s.Apps(t.Context(), []string{"one"})
						must(t, err)
						a := apps["one"]
						seen := a.Rev
						a.Rev, a.Pause = seen+1, p
						must(t, g.s.PutApp(t.Context(), seen, a, core.Change{ID: a.Rev, App: "one"}))
					}
					pause(began.Add(-time.Minute))
					time.Sleep(10 * time.Minute)
					between := g.messages(2, 1, "one")[0]
					for range later {
						time.Sleep(10 * time.Minute)
						pause(time.Now())
					}
					time.Sleep(10 * time.Minute)
					g.handle([]ring.Message{inside, between})
					runs, _, err := g.s.Runs(t.Context(), []core.RunID{inside.Fires[0].Run, between.Fires[0].Run})
					must(t, err)
					in, known := runs[inside.Fires[0].Run], later <= core.MaxPast
					if want := (core.Run{}).State; known && in.State != want {
						t.Errorf("inside the pause: %s: %s, it was not demanded", in.State, in.Reason)
					}
					if !known && (in.State != core.Skipped || in.Reason != core.ReasonPaused) {
						t.Errorf("of a pause that is forgotten: %q: %s", in.State, in.Reason)
					}
					if out := runs[between.Fires[0].Run]; (out.State == core.Running) != (later <= core.MaxPast+1) {
						t.Errorf("between two pauses, the first of which is known or not: %s: %s", out.State, out.Reason)
					}
				})
			})
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
