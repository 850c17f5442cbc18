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
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// noted accepts and records all sends.
type noted struct {
	sends
	sent []string
}

func newNoted() *noted {
	n := &noted{}
	n.sends = func(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
		n.sent = append(n.sent, fmt.Sprintf("%s to %s", *s.Run.Params, s.Address))
		return dispatch.Answer{Kind: dispatch.AnswerAccepted}
	}
	return n
}

// before calls do directly before the first change of a run by a dispatch.
func (s *data) before(do func()) {
	s.put = func(*core.RunPut) error {
		s.put = nil
		do()
		return nil
	}
}

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
		fixture.Bubble(t, c.name, func(t *testing.T) {
			s, to := newData(t, plan.Local(), memory.Options{}), newNoted()
			d := s.dispatcher(to, dispatch.Options{})
			ctx, now, was, is := t.Context(), core.InstantOf(time.Now()), "old", "new"
			app := core.App{Name: "one", Executors: []string{firstAddress}, Rev: 1}
			if c.paused {
				app.Pause = core.Pause{From: time.Now().Add(-time.Hour), By: "ann"}
			}
			run := fixture.Trigger("one", core.NumberedRun(7, 1), now)
			run.Params, run.Addresses = &was, []string{firstAddress}
			s.SaveApp(app)
			s.Job(core.Job{Def: core.Def{ID: 7, App: "one", Name: "j", Handler: "h"}})
			s.trigger(run)
			next := run
			next.At = now.Add(c.by)
			next.Slot, next.Params, next.Addresses = next.At, &is, []string{secondAddress}
			change := func() {
				if err := s.retime(run.Retime(next, time.Now()), next.Slot); err != nil {
					t.Error(err)
				}
			}
			if c.between {
				s.before(change)
			} else {
				change()
			}
			fire := run.Fire()
			messages := []ring.Message{messageOf(fire)}
			if c.by == -2*time.Second {
				moved := fire
				moved.At, moved.Slot = next.At, next.Slot
				messages = append(messages, messageOf(moved))
			}
			if v := d.Handle(ctx, messages)[0]; !v.Ack {
				t.Errorf("not acked: %v", v.Err)
			}
			if r := s.Run(run.ID); r.State != c.state || r.Slot != next.Slot || *r.Params != "new" {
				t.Errorf("%s %s, slot %s", r.State, r.Reason, r.Slot)
			}
			if fmt.Sprint(to.sent) != fmt.Sprint(c.sent) {
				t.Errorf("sent %q, want %q", to.sent, c.sent)
			}
			if entries, _ := s.Jobs.Entries(ctx, 7); c.by != 0 && len(entries) == 0 {
				t.Error("nothing will send it")
			}
		})
	}
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
		s, to := newData(t, plan.Local(), memory.Options{}), newNoted()
		d := s.dispatcher(to, dispatch.Options{})
		var full []string
		other := dispatch.New(s.Store.Store, sends(func(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
			full = append(full, *s.Run.Params)
			return dispatch.Answer{Kind: dispatch.AnswerBusy}
		}), s.f, dispatch.Options{Log: slog.New(slog.DiscardHandler)})
		ctx, now, was, is := t.Context(), core.InstantOf(time.Now()), "old", "new"
		run := fixture.Trigger("one", core.NumberedRun(7, 1), now)
		run.Params = &was
		s.App("one", firstAddress)
		s.Job(core.Job{Def: core.Def{ID: 7, App: "one", Name: "j", Handler: "h"}})
		s.trigger(run)
		m := []ring.Message{messageOf(run.Fire())}
		sent := "[new]"
		if twice {
			if v := other.Handle(ctx, m)[0]; !v.Ack {
				t.Errorf("not acked: %v", v.Err)
			}
			sent = "[old new]"
			run = s.Run(run.ID)
		}
		s.before(func() {
			next := run
			next.Params = &is
			if err := s.retime(run.Retime(next, time.Now()), now); err != nil {
				t.Error(err)
			}
			if v := other.Handle(ctx, m)[0]; !v.Ack || fmt.Sprint(full) != sent {
				t.Errorf("the other sent %q, %v", full, v.Err)
			}
		})
		if v := d.Handle(ctx, m)[0]; !v.Ack {
			t.Errorf("not acked: %v", v.Err)
		}
		if want := "[new to " + firstAddress + "]"; fmt.Sprint(to.sent) != want {
			t.Errorf("sent %q, want %s", to.sent, want)
		}
	})
}

// TestSentRev: a run records the job revision that it was sent with. It may have been created under an older one, or
// its job edited before its claim.
func TestSentRev(t *testing.T) {
	edit := func(s *data, rev int64) {
		s.Edit(1, func(j *core.Job) { j.Sched.Rev, j.Def.Handler = rev, fmt.Sprint("of ", rev) })
	}
	trigger := func(s *data, app string) (core.RunID, []ring.Message) {
		now, id := core.InstantOf(time.Now()), core.NumberedRun(1, 100)
		r := fixture.Trigger(app, id, now)
		s.trigger(r)
		return id, []ring.Message{messageOf(r.Fire())}
	}
	for _, c := range []struct {
		name            string
		before, between bool // whether it is edited before its job is read, and between the read and the claim
		stored, sent    int64
	}{
		{"not edited", false, false, 0, 1},
		{"before the read", true, false, 5, 5},
		{"between the read and the claim", false, true, 0, 1},
		{"before and after the read", true, true, 5, 5},
	} {
		fixture.Bubble(t, c.name, func(t *testing.T) {
			s, handler := newData(t, plan.Local(), memory.Options{}), ""
			d := s.dispatcher(sends(func(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
				handler = s.Job.Def.Handler
				return dispatch.Answer{Kind: dispatch.AnswerAccepted}
			}), dispatch.Options{})
			s.App("one", firstAddress)
			s.Job(core.Job{Def: core.Def{ID: 1, App: "one", Name: "j", Handler: "of 1"}})
			id, m := trigger(s, "one")
			if c.before {
				edit(s, 5)
			}
			if c.between {
				s.before(func() { edit(s, 9) })
			}
			if v := d.Handle(t.Context(), m)[0]; !v.Ack {
				t.Fatalf("not acked: %v", v.Err)
			}
			if r := s.Run(id); r.SentRev != c.stored || r.RevSent() != c.sent || handler != fmt.Sprint("of ", c.sent) {
				t.Errorf("it has %d, sent under %d with handler %q, want %d and %d", r.SentRev, r.RevSent(), handler, c.stored, c.sent)
			}
		})
	}
	fixture.Bubble(t, "a shard", func(t *testing.T) {
		b := newSpreading(t, 2, nil)
		id, m := trigger(b.s, "a")
		if !b.handle(m[0]) {
			t.Fatal("not acked")
		}
		edit(b.s, 5)
		b.comes()
		if whole, shard := b.s.Run(id), b.s.Run(b.s.Run(id).Shard.First); whole.RevSent() != 1 || shard.Rev != 1 || shard.RevSent() != 5 {
			t.Errorf("the broadcast under %d, its shard, made under %d, under %d", whole.RevSent(), shard.Rev, shard.RevSent())
		}
	})
}
