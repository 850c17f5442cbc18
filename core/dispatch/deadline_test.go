package dispatch_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// told is a store that records when a journal names a run as unconfirmed.
type told struct {
	*memory.Store
	at time.Time
}

func (s *told) PutJournal(ctx context.Context, j core.Journal) error {
	err := s.Store.PutJournal(ctx, j)
	if err == nil && len(j.Entries) == 1 && j.Entries[0].Outcome == core.Unconfirmed && s.at.IsZero() {
		s.at = time.Now()
	}
	return err
}

// endless is a call that gets no answer.
type endless struct{}

func (endless) Send(ctx context.Context, _ dispatch.SendRequest) dispatch.Answer {
	<-ctx.Done()
	return dispatch.Answer{Kind: dispatch.AnswerUnconfirmed}
}

func (endless) Beat(context.Context, *core.App, string) error { return nil }

func (endless) Idle(context.Context, *core.App, string, core.JobID) (bool, error) { return true, nil }

// TestCallIsLetGoInTime: a call that outlasts the invocation is in the journal in time. Otherwise an invocation after
// until would send it again, though it may be running.
func TestCallIsLetGoInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &told{Store: memory.New(t, memory.Options{})}
		log := slog.New(slog.DiscardHandler)
		f := finish.New(s, s, finish.Options{Plan: plan.Local(), Log: log})
		d := dispatch.New(s, s, endless{}, f, dispatch.Options{MaxAhead: plan.Local().MaxAhead, Log: log})
		must(t, s.PutApp(t.Context(), 0, core.App{Name: "calls", Executors: []string{"call:https://h"}, Rev: 1},
			core.Change{ID: 1, App: "calls"}))
		j := core.Job{Def: core.Def{ID: 7, App: "calls", Name: "j", Handler: "/h", Timeout: time.Hour}}
		j.Normalize()
		j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
		must(t, s.CreateJobs(t.Context(), []core.Job{j}, []core.Change{{ID: 1, App: "calls", Job: 7}})[0])
		now := core.InstantOf(time.Now())
		deadline := time.Now().Add(28 * time.Second)
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		defer cancel()
		v := d.Handle(ctx, []ring.Message{{Kind: ring.KindFires, Slot: now,
			Fires: []core.Fire{{Run: core.PlannedRun(7, now), Rev: 1, At: now, Slot: now, Cause: core.CauseSchedule}}}})
		if !v[0].Ack {
			t.Errorf("the message comes again: %v", v[0].Err)
		}
		if s.at.IsZero() || !s.at.Before(deadline.Add(-time.Second)) {
			t.Errorf("stored as unconfirmed %s before the deadline, want a second at least", deadline.Sub(s.at))
		}
	})
}

// TestCallsCutOffAreSlow: a call that outlasts the invocation counts as a timeout, as one that outlasts its job's
// timeout does. After three, it uses the slow queue.
func TestCallsCutOffAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(t, memory.Options{})
		log := slog.New(slog.DiscardHandler)
		d := dispatch.New(s, s, endless{}, finish.New(s, s, finish.Options{Plan: plan.AWS(), Log: log}), dispatch.Options{Health: s, Log: log})
		must(t, s.PutApp(t.Context(), 0, core.App{Name: "calls", Executors: []string{"call:https://h"}, Rev: 1},
			core.Change{ID: 1, App: "calls"}))
		j := core.Job{Def: core.Def{ID: 7, App: "calls", Name: "j", Handler: "/h"}} // no timeout: 60 s
		j.Normalize()
		j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
		must(t, s.CreateJobs(t.Context(), []core.Job{j}, []core.Change{{ID: 1, App: "calls", Job: 7}})[0])
		for n := range 4 {
			now := core.InstantOf(time.Now())
			ctx, cancel := context.WithTimeout(t.Context(), 28*time.Second)
			d.Handle(ctx, []ring.Message{{Kind: ring.KindFires, Slot: now,
				Fires: []core.Fire{{Run: core.PlannedRun(7, now), Rev: 1, At: now, Slot: now, Cause: core.CauseSchedule}}}})
			cancel()
			due, waiting, _, err := s.Depth(t.Context(), ring.KindSlow)
			if err != nil || (due+waiting == 1) != (n == 3) {
				t.Errorf("after %d calls that were cut off %d messages are on the slow lane, %v", n, due+waiting, err)
			}
			time.Sleep(5 * time.Second)
		}
	})
}
