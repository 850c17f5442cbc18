package tick_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/store"
)

// damage makes jobs unreadable for the tickers.
func (w *world) damage(is func(core.JobID) bool) {
	w.s.Jobs = hook.Jobs{Jobs: w.s.Jobs, DoGet: func(ctx context.Context, part store.Part, ids []core.JobID) (hook.JobMap, error) {
		found, err := w.eng.Jobs.Get(ctx, part, ids)
		for id := range found {
			if is(id) {
				found[id] = store.Got[*core.Job]{Err: errors.New("written by a newer version")}
			}
		}
		return found, err
	}}
}

// TestUnreadableJobHoldsUpNoOther: the others are planned in each pass. The damaged job is reported once per
// PlanBackoff, and does not count as lag.
func TestUnreadableJobHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.seed(3, core.When{Kind: core.KindEvery, Every: 10 * time.Second, Aligned: true})
		var told bytes.Buffer
		w.damage(func(id core.JobID) bool { return id == 2 })
		tk := tick.New(w.s, tick.Options{ID: "a", Plan: plan.Local(), Log: slog.New(slog.NewTextHandler(&told, nil))})
		fires := 0
		for range 150 {
			time.Sleep(time.Second) // fake time
			res, err := tk.Pass(t.Context())
			if err != nil || res.Lag > 5*time.Second {
				t.Fatalf("lag %s, %v", res.Lag, err)
			}
			fires += res.Fires
		}
		if fires < 2*14 {
			t.Errorf("%d fires of the two others", fires)
		}
		if n := strings.Count(told.String(), "job=2 "); n < 2 || n > 3 || strings.Contains(told.String(), "job=1 ") {
			t.Errorf("logged %d times in 150 s:\n%s", n, told.String())
		}
	})
}

// TestUnreadableRunHoldsUpNoOther: the other entries and jobs of its page are handled. The entry of the damaged run stays, and
// the run is reported once per PlanBackoff. It does not count as lag.
func TestUnreadableRunHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.seed(1, core.When{Kind: core.KindEvery, Every: 10 * time.Second, Aligned: true})
		now := core.InstantOf(time.Now())
		var runs []core.Run
		var entries []core.DueItem
		for n := range uint32(3) {
			r := core.Run{ID: core.NumberedRun(1, n+1), App: "app", State: core.Planned, Cause: core.CauseRetry, Rev: 1, At: now, Slot: now,
				Attempt: 2, First: core.PlannedRun(1, now)}
			runs, entries = append(runs, r), append(entries, core.DueItem{PlanAt: now, Job: 1, Run: r.ID})
		}
		must(t, append(w.eng.CreateRuns(t.Context(), runs), w.eng.Enter(t.Context(), entries)...)...)
		bad := runs[1].ID
		w.s.Runs = hook.Unreadable(w.s.Runs, bad)
		var told bytes.Buffer
		tk := tick.New(w.s, tick.Options{ID: "a", Plan: plan.Local(), Log: slog.New(slog.NewTextHandler(&told, nil))})
		fires := 0
		for range 150 {
			time.Sleep(time.Second) // fake time
			res, err := tk.Pass(t.Context())
			if err != nil || res.Lag > 5*time.Second {
				t.Fatalf("lag %s, %v", res.Lag, err)
			}
			fires += res.Fires
		}
		if fires < 2+14 {
			t.Errorf("%d fires of the other runs and the job", fires)
		}
		if n := strings.Count(told.String(), "run="+bad.String()+" "); n < 2 || n > 3 {
			t.Errorf("logged %d times in 150 s:\n%s", n, told.String())
		}
		if left, err := w.eng.Jobs.Entries(t.Context(), 1); err != nil || len(left) != 1 || left[0].Run != bad {
			t.Errorf("entries %+v, %v", left, err)
		}
	})
}
