package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// before calls do directly before the first write of a dispatch.
type before struct {
	*memory.Store
	do func()
}

func (b *before) first() {
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
}

func (b *before) PutRuns(ctx context.Context, puts []core.RunPut) []error {
	b.first()
	return b.Store.PutRuns(ctx, puts)
}

// noted accepts and records all sends.
type noted struct{ sent []string }

func (n *noted) Send(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
	n.sent = append(n.sent, fmt.Sprintf("%s to %s", *s.Run.Params, s.Address))
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}

func (n *noted) Beat(context.Context, *core.App, string) error { return nil }

func (n *noted) Idle(context.Context, *core.App, string, core.JobID) (bool, error) { return true, nil }

// TestChangedTrigger: a trigger changes before its message is handled, or between the check and the claim. It is sent
// as changed, at its new due time.
func TestChangedTrigger(t *testing.T) {
	for _, c := range []struct {
		name    string
		between bool          // the change comes after the check
		by      time.Duration // how much later the new due time is
		paused  bool          // the app, so that the run would be skipped
		sent    []string
		state   core.State
	}{
		{"later, before the look", false, time.Hour, false, nil, core.Planned},
		{"later, after the look", true, time.Hour, false, nil, core.Planned},
		{"earlier, before the look", false, -time.Second, false, nil, core.Planned},
		{"params, before the look", false, 0, false, []string{"new to " + secondAddress}, core.Running},
		{"params, after the look", true, 0, false, []string{"new to " + secondAddress}, core.Running},
		{"later, and the app is paused", true, time.Hour, true, nil, core.Planned},
		{"params, and the app is paused", true, 0, true, nil, core.Skipped},
		{"its message beside the earlier one", false, -2 * time.Second, false, []string{"new to " + secondAddress}, core.Running},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, to := &before{Store: memory.New(t, memory.Options{})}, &noted{}
				log := slog.New(slog.DiscardHandler)
				d := dispatch.New(s, s, to, finish.New(s, s, finish.Options{Plan: plan.Local(), Log: log}), dispatch.Options{Log: log})
				ctx, now, was, is := t.Context(), core.InstantOf(time.Now()), "old", "new"
				app := core.App{Name: "one", Executors: []string{firstAddress}, Rev: 1}
				if c.paused {
					app.Pause = core.Pause{From: time.Now().Add(-time.Hour), By: "ann"}
				}
				j := core.Job{Def: core.Def{ID: 7, App: "one", Name: "j", Handler: "h"}}
				j.Normalize()
				j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
				run := core.Run{ID: core.NumberedRun(7, 1), App: "one", State: core.Planned, Cause: core.CauseAPI, Rev: 1, At: now, Slot: now,
					Attempt: 1,
					First:   core.NumberedRun(7, 1), Params: &was, Addresses: []string{firstAddress}}
				must(t, s.PutApp(ctx, 0, app, core.Change{ID: 1, App: "one"}),
					s.CreateJobs(ctx, []core.Job{j}, []core.Change{{ID: 1, App: "one", Job: 7}})[0],
					s.PutTriggered(ctx, run, core.DueItem{PlanAt: now, Job: 7, Run: run.ID}))
				next := run
				next.At = now.Add(c.by)
				next.Slot, next.Params, next.Addresses = next.At, &is, []string{secondAddress}
				change := func() {
					entry := core.DueItem{PlanAt: next.Slot, Job: 7, Run: run.ID}
					if err := s.ChangeTriggered(ctx, operate.Triggered{Put: run.Retime(next, time.Now()), Entry: entry}); err != nil {
						t.Error(err)
					}
				}
				if c.between {
					s.do = change
				} else {
					change()
				}
				fire := core.Fire{Run: run.ID, Rev: 1, At: now, Slot: now, Cause: core.CauseAPI, Seq: 1}
				messages := []ring.Message{{Kind: ring.KindFires, Slot: now, Fires: []core.Fire{fire}}}
				if c.by == -2*time.Second {
					moved := fire
					moved.At, moved.Slot = next.At, next.Slot
					messages = append(messages, ring.Message{Kind: ring.KindFires, Slot: next.Slot, Fires: []core.Fire{moved}})
				}
				if v := d.Handle(ctx, messages)[0]; !v.Ack {
					t.Errorf("not acked: %v", v.Err)
				}
				found, _, err := s.Runs(ctx, []core.RunID{run.ID})
				if r := found[run.ID]; err != nil || r.State != c.state || r.Slot != next.Slot || *r.Params != "new" {
					t.Errorf("%s %s, slot %s: %v", r.State, r.Reason, r.Slot, err)
				}
				if fmt.Sprint(to.sent) != fmt.Sprint(c.sent) {
					t.Errorf("sent %q, want %q", to.sent, c.sent)
				}
				if entries, _ := s.Entries(ctx, 7); c.by != 0 && len(entries) == 0 {
					t.Error("nothing will send it")
				}
			})
		})
	}
}

// busy rejects all sends for a temporary reason.
type busy struct{ noted }

func (b *busy) Send(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
	b.sent = append(b.sent, *s.Run.Params)
	return dispatch.Answer{Kind: dispatch.AnswerBusy}
}

// TestChangedTriggerGivenBack: between check and claim, a trigger changes, and another dispatch claims and releases it.
// It has no owner again, but the old check must not claim it. This holds even if its last two owners had the same
// until.
func TestChangedTriggerGivenBack(t *testing.T) {
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprint("given back before: ", twice), func(t *testing.T) { changedGivenBack(t, twice) })
	}
}

func changedGivenBack(t *testing.T, twice bool) {
	synctest.Test(t, func(t *testing.T) {
		s, to, full := &before{Store: memory.New(t, memory.Options{})}, &noted{}, &busy{}
		log := slog.New(slog.DiscardHandler)
		end := finish.New(s, s, finish.Options{Plan: plan.Local(), Log: log})
		d := dispatch.New(s, s, to, end, dispatch.Options{Log: log})
		other := dispatch.New(s.Store, s, full, end, dispatch.Options{Log: log})
		ctx, now, was, is := t.Context(), core.InstantOf(time.Now()), "old", "new"
		j := core.Job{Def: core.Def{ID: 7, App: "one", Name: "j", Handler: "h"}}
		j.Normalize()
		j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
		run := core.Run{ID: core.NumberedRun(7, 1), App: "one", State: core.Planned, Cause: core.CauseAPI, Rev: 1, At: now, Slot: now, Attempt: 1,
			First: core.NumberedRun(7, 1), Params: &was}
		entry := core.DueItem{PlanAt: now, Job: 7, Run: run.ID}
		must(t, s.PutApp(ctx, 0, core.App{Name: "one", Executors: []string{firstAddress}, Rev: 1},
			core.Change{ID: 1, App: "one"}),
			s.CreateJobs(ctx, []core.Job{j}, []core.Change{{ID: 1, App: "one", Job: 7}})[0], s.PutTriggered(ctx, run, entry))
		m := []ring.Message{{Kind: ring.KindFires, Slot: now,
			Fires: []core.Fire{{Run: run.ID, Rev: 1, At: now, Slot: now, Cause: core.CauseAPI, Seq: 1}}}}
		sent := "[new]"
		if twice {
			if v := other.Handle(ctx, m)[0]; !v.Ack {
				t.Errorf("not acked: %v", v.Err)
			}
			sent = "[old new]"
			found, _, err := s.Runs(ctx, []core.RunID{run.ID})
			must(t, err)
			run = found[run.ID]
		}
		s.do = func() {
			next := run
			next.Params = &is
			if err := s.ChangeTriggered(ctx, operate.Triggered{Put: run.Retime(next, time.Now()), Entry: entry}); err != nil {
				t.Error(err)
			}
			if v := other.Handle(ctx, m)[0]; !v.Ack || fmt.Sprint(full.sent) != sent {
				t.Errorf("the other sent %q, %v", full.sent, v.Err)
			}
		}
		if v := d.Handle(ctx, m)[0]; !v.Ack {
			t.Errorf("not acked: %v", v.Err)
		}
		if want := "[new to " + firstAddress + "]"; fmt.Sprint(to.sent) != want {
			t.Errorf("sent %q, want %s", to.sent, want)
		}
	})
}

// TestTakenWithItsAddress: between a check of a lost owner's run and its takeover, a late write of the owner moves the
// run. It is sent to the new address.
func TestTakenWithItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := &before{Store: memory.New(t, memory.Options{})}, &noted{}
		log := slog.New(slog.DiscardHandler)
		d := dispatch.New(s, s, to, finish.New(s, s, finish.Options{Plan: plan.Local(), Log: log}), dispatch.Options{Log: log})
		ctx, now, params := t.Context(), core.InstantOf(time.Now()), "p"
		j := core.Job{Def: core.Def{ID: 7, App: "one", Name: "j", Handler: "h"}}
		j.Normalize()
		j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
		run := core.Run{ID: core.NumberedRun(7, 1), App: "one", State: core.Running, Cause: core.CauseAPI, Rev: 1, At: now, Slot: now, Attempt: 1,
			First: core.NumberedRun(7, 1), Params: &params, Owner: "lost", Until: time.Now().Add(-time.Second), Address: firstAddress}
		must(t, s.PutApp(ctx, 0, core.App{Name: "one", Executors: []string{firstAddress}, Rev: 1},
			core.Change{ID: 1, App: "one"}),
			s.CreateJobs(ctx, []core.Job{j}, []core.Change{{ID: 1, App: "one", Job: 7}})[0], s.Create(ctx, []core.Run{run})[0])
		s.do = func() {
			if err := s.Store.PutRuns(ctx, []core.RunPut{run.Readdress(secondAddress, nil)})[0]; err != nil {
				t.Error(err)
			}
		}
		m := []ring.Message{{Kind: ring.KindFires, Slot: now,
			Fires: []core.Fire{{Run: run.ID, Rev: 1, At: now, Slot: now, Cause: core.CauseAPI, Seq: 1}}}}
		if v := d.Handle(ctx, m)[0]; !v.Ack {
			t.Errorf("not acked: %v", v.Err)
		}
		if want := "[p to " + secondAddress + "]"; fmt.Sprint(to.sent) != want {
			t.Errorf("sent %q, want %s", to.sent, want)
		}
	})
}
