package query_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestRanWith checks that a sent run has the definition of its revision, even if up to a thousand records follow it.
// A waiting run has the current definition.
func TestRanWith(t *testing.T) {
	f := newFixture(t)
	s := spec("sweep", every(time.Hour))
	s.Def.Handler = "first"
	made := f.Create(s)
	triggers := func(n int) {
		t.Helper()
		list := make([]core.Change, n)
		for i := range list {
			f.Clock = f.Clock.Add(time.Second)
			list[i] = core.Change{ID: f.Clock.UnixMilli(), At: f.Clock, By: "ann", Verb: core.VerbTriggered, App: "shop", Job: made.Def.ID,
				New: fmt.Sprintf(`{"runs":["%d"]}`, i)}
		}
		check.OK(t, f.E.PutChanges(ctx, list))
	}
	pauseAndResume := func() core.Job {
		t.Helper()
		f.Clock = f.Clock.Add(time.Minute)
		f.Pause(manage.Target{Job: "shop/sweep"})
		f.Clock = f.Clock.Add(time.Minute)
		f.Resume(manage.Target{Job: "shop/sweep"})
		return f.Job("shop/sweep")
	}
	triggers(300)
	resumed := pauseAndResume()
	f.Clock = f.Clock.Add(time.Minute)
	s.Def.Handler = "second"
	f.Save(s)
	edited := f.Job("shop/sweep")
	triggers(300)
	f.Clock = f.Clock.Add(time.Minute)
	s.Def.Handler = "third"
	f.Save(s)
	now := f.Job("shop/sweep")
	sent := f.Clock
	for name, c := range map[string]struct {
		run           core.Run
		handler, made string
		rev           int64
	}{
		"as made":       {core.Run{State: core.Succeeded, SentAt: sent, Rev: made.Sched.Rev}, "first", "created", made.Sched.Rev},
		"after a pause": {core.Run{State: core.Succeeded, SentAt: sent, Rev: resumed.Sched.Rev}, "first", "created", made.Sched.Rev},
		"sent under a newer one": {core.Run{State: core.Running, SentAt: sent, Rev: made.Sched.Rev, SentRev: edited.Sched.Rev},
			"second", "updated", edited.Sched.Rev},
		"as edited":    {core.Run{State: core.Lost, SentAt: sent, Rev: edited.Sched.Rev}, "second", "updated", edited.Sched.Rev},
		"not sent yet": {core.Run{State: core.Planned, Rev: made.Sched.Rev}, "third", "updated", now.Sched.Rev},
		"given back":   {core.Run{State: core.Queued, SentAt: sent, Rev: made.Sched.Rev}, "third", "updated", now.Sched.Rev},
	} {
		c.run.ID = core.NumberedRun(made.Def.ID, 1)
		for _, job := range []*core.Job{&now, nil} {
			with, err := f.M.RanWith(ctx, &c.run, job)
			if err != nil || with == nil || with.Change == nil {
				t.Errorf("%s, its job there %t: %+v, %v", name, job != nil, with, err)
			} else if with.Def.Handler != c.handler || with.Change.Verb != c.made || with.Change.ID != c.rev || with.Change.By != "ann" {
				t.Errorf("%s, its job there %t: %s, %s in %d by %s, want %s, %s in %d", name, job != nil, with.Def.Handler, with.Change.Verb,
					with.Change.ID, with.Change.By, c.handler, c.made, c.rev)
			}
		}
	}

	// Beyond that, the stored job is the only source.
	triggers(1000)
	far := pauseAndResume()
	run := core.Run{ID: core.NumberedRun(made.Def.ID, 1), State: core.Succeeded, SentAt: f.Clock, Rev: far.Sched.Rev}
	if with, err := f.M.RanWith(ctx, &run, &far); err != nil || with == nil || with.Def.Handler != "third" || with.Change != nil {
		t.Errorf("far back: %+v, %v", with, err)
	}
	run.Rev = made.Sched.Rev - 1
	if with, err := f.M.RanWith(ctx, &run, &far); err != nil || with != nil {
		t.Errorf("before all records: %+v, %v", with, err)
	}
}

// TestSentWith checks that a sent run has its params, while open and after its end, and after an edit of the job.
func TestSentWith(t *testing.T) {
	f := newFixture(t)
	s := spec("sweep", every(time.Hour))
	s.Def.Params, s.Def.Template = "--run {{runId}} --try {{attempt}} --day {{scheduledAt yyyy-MM-dd}}", true
	made := f.Create(s)
	f.Clock = f.Clock.Add(time.Minute)
	s.Def.Params = "--other"
	f.Save(s)
	now := f.Job("shop/sweep")
	at := core.InstantOf(time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC))
	run := core.Run{ID: core.NumberedRun(made.Def.ID, 1), App: "shop", At: at, Attempt: 2, Rev: made.Sched.Rev, SentAt: f.Clock}
	for _, run.State = range []core.State{core.Running, core.Failed} {
		with, err := f.M.SentWith(ctx, &run, &now)
		want := fmt.Sprintf("--run %d --try 2 --day 2026-03-01", run.ID)
		if err != nil || with == nil || with.Def.Params != want || with.Def.Template {
			t.Errorf("%s: %+v, %v", run.State, with, err)
		}
	}
}
