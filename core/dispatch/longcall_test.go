package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// TestCallHoldsUpNobodysClaim: other runs in the batch of a long call get a claim of normal duration, so that a crash
// delays them no longer.
func TestCallHoldsUpNobodysClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{})
		const address = "call:https://h"
		g.sender.takes[address], g.sender.takes[firstAddress] = 20*time.Minute, 2*time.Second
		msgs := g.messages(1, 1, "one")
		g.s.App("calls", address)
		g.s.Job(core.Job{Def: core.Def{ID: 7, App: "calls", Name: "j", Handler: "/h", Timeout: 3 * time.Hour}})
		msgs[0].Fires = append(msgs[0].Fires, planned(7, msgs[0].Slot))
		beside, long := msgs[0].Fires[0].Run, msgs[0].Fires[1].Run
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.handle(msgs)
		}()
		began := time.Now()
		time.Sleep(time.Second)
		found := g.s.Stored(beside, long)
		if r := found[beside]; r.Owner == "" || r.Until.Sub(began) > 32*time.Second {
			t.Errorf("a run beside a call is claimed by %q for %s", r.Owner, r.Until.Sub(began))
		}
		if r := found[long]; r.Owner == "" || r.Until.Sub(began) < 3*time.Hour {
			t.Errorf("a call of 3 hours is claimed by %q for %s", r.Owner, r.Until.Sub(began))
		}
		<-ended
	})
}

// endless is a call that gets no answer.
var endless = sends(func(ctx context.Context, _ dispatch.SendRequest) dispatch.Answer {
	<-ctx.Done()
	return dispatch.Answer{Kind: dispatch.AnswerUnconfirmed}
})

// TestCallIsLetGoInTime: a call that outlasts the invocation is in the journal in time. Otherwise an invocation after
// until would send it again, though it may be running.
func TestCallIsLetGoInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newData(t, plan.Local(), memory.Options{})
		var told time.Time // when a journal named the run as unconfirmed
		s.write = func(_ context.Context, groups []store.Group) error {
			j, err := store.DecodeJournal(&groups[0].Writes[0].Record)
			if err == nil && len(j.Entries) == 1 && j.Entries[0].Outcome == core.Unconfirmed && told.IsZero() {
				told = time.Now()
			}
			return nil
		}
		d := s.dispatcher(endless, dispatch.Options{MaxAhead: plan.Local().MaxAhead})
		s.App("calls", "call:https://h")
		s.Job(core.Job{Def: core.Def{ID: 7, App: "calls", Name: "j", Handler: "/h", Timeout: time.Hour}})
		now := core.InstantOf(time.Now())
		deadline := time.Now().Add(28 * time.Second)
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		defer cancel()
		v := d.Handle(ctx, []ring.Message{messageOf(planned(7, now))})
		if !v[0].Ack {
			t.Errorf("the message comes again: %v", v[0].Err)
		}
		if told.IsZero() || !told.Before(deadline.Add(-time.Second)) {
			t.Errorf("stored as unconfirmed %s before the deadline, want a second at least", deadline.Sub(told))
		}
	})
}

// TestCallsCutOffAreSlow: a call that outlasts the invocation counts as a timeout, as one that outlasts its job's
// timeout does. After three, it uses the slow queue.
func TestCallsCutOffAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newData(t, plan.AWS(), memory.Options{})
		d := s.dispatcher(endless, dispatch.Options{SlowQueue: true})
		s.App("calls", "call:https://h")
		j := core.Job{Def: core.Def{ID: 7, App: "calls", Name: "j", Handler: "/h"}} // no timeout: 60 s
		s.Job(j)
		for n := range 4 {
			now := core.InstantOf(time.Now())
			ctx, cancel := context.WithTimeout(t.Context(), 28*time.Second)
			d.Handle(ctx, []ring.Message{messageOf(planned(7, now))})
			cancel()
			due, waiting := s.Depth(ring.KindSlow)
			if (due+waiting == 1) != (n == 3) {
				t.Errorf("after %d calls that were cut off %d messages are on the slow lane", n, due+waiting)
			}
			time.Sleep(5 * time.Second)
		}
	})
}

// TestEndWaitsForNothingThatFollows: a result that arrives while the retry of an earlier one is being enqueued is
// stored at once. Both messages are acknowledged only when all is done.
func TestEndWaitsForNothingThatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{Invocation: 5 * time.Minute})
		g.sender.answers = func(x dispatch.SendRequest) dispatch.Answer {
			switch x.Run.ID.Job() {
			case 1:
				return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Failed, Reason: core.ReasonHandler, RetryAfter: time.Second}
			case 2:
				return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Took: 2 * time.Second}
			}
			return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Took: 30 * time.Second}
		}
		g.s.enqueue = func(_ context.Context, _ *ring.Out, do func() error) error {
			time.Sleep(time.Minute)
			return do()
		}
		msgs := g.messages(1, 3, "one")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for _, v := range g.d.Handle(t.Context(), msgs) {
				if !v.Ack {
					t.Error("not acked")
				}
			}
		}()
		time.Sleep(5 * time.Second)
		found := g.s.Stored(msgs[0].Fires[0].Run, msgs[0].Fires[1].Run)
		for id, r := range found {
			if want := map[core.JobID]core.State{1: core.Failed, 2: core.Succeeded}[id.Job()]; r.State != want {
				t.Errorf("after 5 s the run of job %d is %s", id.Job(), r.State)
			}
		}
		<-ended
		if r := g.s.Run(msgs[0].Fires[0].Run); len(r.Owes) > 0 {
			t.Errorf("acked while it owes %v", r.Owes)
		}
	})
}
