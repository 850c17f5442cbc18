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
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestSentRev: a run records the job revision that it was sent with. It may have been created under an older one, or
// its job edited before its claim.
func TestSentRev(t *testing.T) {
	edit := func(t *testing.T, s *memory.Store, job core.JobID, rev int64) {
		jobs, _, err := s.Jobs(t.Context(), []core.JobID{job})
		must(t, err)
		j := *jobs[job]
		seen := j.Sched.Rev
		j.Sched.Rev, j.Def.Handler = rev, fmt.Sprint("of ", rev)
		must(t, s.UpdateJobs(t.Context(), []manage.Update{{Seen: seen, Job: j, Change: core.Change{ID: rev, App: j.Def.App, Job: job}}})[0])
	}
	trigger := func(t *testing.T, s *memory.Store, app string) (core.RunID, []ring.Message) {
		jobs, _, err := s.Jobs(t.Context(), []core.JobID{1})
		must(t, err)
		now, id := core.InstantOf(time.Now()), core.NumberedRun(1, 100)
		must(t, s.PutTriggered(t.Context(), core.Run{ID: id, App: app, State: core.Planned, Cause: core.CauseManual, Rev: jobs[1].Sched.Rev,
			At: now, Slot: now, Attempt: 1, First: id}, core.DueItem{PlanAt: now, Job: 1, Run: id}))
		return id, []ring.Message{{Kind: ring.KindFires, Slot: now,
			Fires: []core.Fire{{Run: id, Rev: 1, At: now, Slot: now, Cause: core.CauseManual, Seq: 1}}}}
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
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &before{Store: memory.New(t, memory.Options{})}
				to := &shipped{}
				log := slog.New(slog.DiscardHandler)
				d := dispatch.New(s, s, to, finish.New(s, s, finish.Options{Plan: plan.Local(), Log: log}), dispatch.Options{Log: log})
				j := core.Job{Def: core.Def{ID: 1, App: "one", Name: "j", Handler: "of 1"}}
				j.Normalize()
				j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
				must(t, s.PutApp(t.Context(), 0, core.App{Name: "one", Executors: []string{firstAddress}, Rev: 1}, core.Change{ID: 1, App: "one"}))
				must(t, s.CreateJobs(t.Context(), []core.Job{j}, []core.Change{{ID: 1, App: "one", Job: 1}})[0])
				id, m := trigger(t, s.Store, "one")
				if c.before {
					edit(t, s.Store, 1, 5)
				}
				if c.between {
					s.do = func() { edit(t, s.Store, 1, 9) }
				}
				if v := d.Handle(t.Context(), m)[0]; !v.Ack {
					t.Fatalf("not acked: %v", v.Err)
				}
				runs, _, err := s.Runs(t.Context(), []core.RunID{id})
				must(t, err)
				if r := runs[id]; r.SentRev != c.stored || r.RevSent() != c.sent || to.handler != fmt.Sprint("of ", c.sent) {
					t.Errorf("it has %d, sent under %d with handler %q, want %d and %d", r.SentRev, r.RevSent(), to.handler, c.stored, c.sent)
				}
			})
		})
	}
	t.Run("a shard", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newSpreading(t, 2, nil)
			id, m := trigger(t, b.s.Store, "a")
			if !b.handle(m[0]) {
				t.Fatal("not acked")
			}
			edit(t, b.s.Store, 1, 5)
			b.comes()
			if whole, shard := b.run(id), b.run(b.run(id).Shard.First); whole.RevSent() != 1 || shard.Rev != 1 || shard.RevSent() != 5 {
				t.Errorf("the broadcast under %d, its shard, made under %d, under %d", whole.RevSent(), shard.Rev, shard.RevSent())
			}
		})
	})
}

// shipped accepts all sends, and records their handlers.
type shipped struct {
	noted
	handler string
}

func (to *shipped) Send(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
	to.handler = s.Job.Def.Handler
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}
