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
		s.app("calls", "call:https://h")
		s.job(core.Job{Def: core.Def{ID: 7, App: "calls", Name: "j", Handler: "/h", Timeout: time.Hour}})
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
		s.app("calls", "call:https://h")
		j := core.Job{Def: core.Def{ID: 7, App: "calls", Name: "j", Handler: "/h"}} // no timeout: 60 s
		s.job(j)
		for n := range 4 {
			now := core.InstantOf(time.Now())
			ctx, cancel := context.WithTimeout(t.Context(), 28*time.Second)
			d.Handle(ctx, []ring.Message{messageOf(planned(7, now))})
			cancel()
			due, waiting := s.depth(ring.KindSlow)
			if (due+waiting == 1) != (n == 3) {
				t.Errorf("after %d calls that were cut off %d messages are on the slow lane", n, due+waiting)
			}
			time.Sleep(5 * time.Second)
		}
	})
}
