package tick_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/tick"
)

// advancing meets the first advance of a ticker on its way to the store.
type advancing struct {
	tick.Store
	meet func(store tick.Store, moves []core.Advance) []error
}

func (a *advancing) Advance(ctx context.Context, moves []core.Advance) []error {
	if meet := a.meet; meet != nil {
		a.meet = nil
		return meet(a.Store, moves)
	}
	return a.Store.Advance(ctx, moves)
}

// TestEndOfAPauseIsRecordedWithIt: whatever becomes of the write that ends a
// pause at its end, the record of it is there exactly where the job was started;
// what a phantom would demand, an audit would miss and a replan send.
func TestEndOfAPauseIsRecordedWithIt(t *testing.T) {
	ann, target := manage.Actor{Name: "ann"}, manage.Target{Job: "shop/j"}
	for name, c := range map[string]struct {
		meet   func(w *world, until time.Time, store tick.Store, moves []core.Advance) []error
		paused bool // in the end
	}{
		"stored": {func(w *world, _ time.Time, store tick.Store, moves []core.Advance) []error {
			return store.Advance(w.t.Context(), moves)
		}, false},
		"made longer by a person who was faster": {func(w *world, until time.Time, store tick.Store, moves []core.Advance) []error {
			end := finish.New(w.eng.Finish, w.eng.Ring, finish.Options{Plan: plan.Local()})
			before := manage.New(w.eng.Manage, w.eng.Ring, end, nil,
				manage.Options{Plan: plan.Local(), Now: func() time.Time { return until.Add(-50 * time.Millisecond) }})
			later := until.Add(24 * time.Hour)
			if r, err := before.Pause(w.t.Context(), ann, target, manage.PauseRequest{Until: &later}); err != nil || !r.Changed {
				w.t.Fatalf("%+v %v", r, err)
			}
			return store.Advance(w.t.Context(), moves)
		}, true},
		"done, its answer lost": {func(w *world, _ time.Time, store tick.Store, moves []core.Advance) []error {
			store.Advance(w.t.Context(), moves)
			return []error{errors.New("no answer")}
		}, false},
		"throttled, then done": {func(*world, time.Time, tick.Store, []core.Advance) []error {
			return []error{core.ErrThrottled}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC))) // of the bubble
				w := newWorld(t, 1)
				store := &advancing{Store: w.eng.Tick}
				end := finish.New(w.eng.Finish, w.eng.Ring, finish.Options{Plan: plan.Local()})
				tk := tick.New(store, w.eng.Leases, w.eng.Ring, end, tick.Options{ID: "t", Plan: plan.Local()})
				m := manage.New(w.eng.Manage, w.eng.Ring, end, nil, manage.Options{Plan: plan.Local()})
				if _, err := m.SaveApp(t.Context(), ann, manage.AppSpec{Name: "shop"}); err != nil {
					t.Fatal(err)
				}
				job := manage.JobSpec{Def: core.Def{App: "shop", Name: "j", Handler: "h"}, Misfire: core.MisfireAll,
					Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Minute, Aligned: true}}}}
				if r := m.Save(t.Context(), ann, []manage.JobSpec{job})[0]; r.Err != nil {
					t.Fatal(r.Err)
				}
				until := time.Now().Add(10 * time.Minute)
				if _, err := m.Pause(t.Context(), ann, target, manage.PauseRequest{Until: &until}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(until) + 50*time.Millisecond)
				store.meet = func(s tick.Store, moves []core.Advance) []error { return c.meet(w, until, s, moves) }
				for range 3 {
					_, _ = tk.Pass(t.Context()) // what fails is left to the next
					time.Sleep(time.Second)
				}
				j, err := m.Job(t.Context(), "shop/j")
				if err != nil || (j.Sched.State == core.Paused) != c.paused {
					t.Fatalf("%+v %v", j.Sched, err)
				}
				changes, err := m.Changes(t.Context(), "", "shop/j", 100)
				if err != nil {
					t.Fatal(err)
				}
				resumed := 0
				for _, ch := range changes {
					r, _ := core.ParseJobRecord(ch.New)
					if ch.Verb == core.VerbResumed && r.RevAt == until.UnixMilli() {
						resumed++
					}
				}
				if want := map[bool]int{false: 1, true: 0}[c.paused]; resumed != want {
					t.Errorf("%d records say that it was resumed at its end, want %d: %+v", resumed, want, changes)
				}
				time.Sleep(time.Hour)
				from, to := core.InstantOf(until.Add(-time.Minute)), core.InstantOf(time.Now())
				a, err := m.Audit(t.Context(), "shop/j", from, to)
				if err != nil || (a.Demanded != 0) == c.paused {
					t.Errorf("audit: %+v %v", a, err)
				}
				if r, err := m.Replan(t.Context(), ann, "shop/j", from, to); c.paused && (err != nil || r.Sent != 0) {
					t.Errorf("replan of a paused job: %+v %v", r, err)
				}
			})
		})
	}
}
