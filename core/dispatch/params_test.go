package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// paramsOf is a sender that records the parameters of each run.
type paramsOf struct {
	*prober
	got map[core.RunID]string
}

func (p *paramsOf) Send(ctx context.Context, s dispatch.SendRequest) dispatch.Answer {
	p.mu.Lock()
	p.got[s.Run.ID] = s.Params
	p.mu.Unlock()
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}

// TestTemplateIsFilled: the job's parameters are filled in its zone, with the scheduled time of its last success.
// Parameters of a trigger are sent byte for byte. Parameters that become too long fail the run.
func TestTemplateIsFilled(t *testing.T) {
	texts := golden.New(t)
	synctest.Test(t, func(t *testing.T) {
		p := &paramsOf{prober: newProber(t, dispatch.Options{}), got: map[core.RunID]string{}}
		p.app("work", "http://10.0.0.1:1")
		p.d = dispatchOver(p.prober, p, dispatch.Options{})
		m, _ := p.message("work", 1, core.RouteFirst)
		j := core.Job{Def: core.Def{ID: 900, App: "work", Name: "filled", Handler: "h", Template: true,
			Params: "{{scheduledAt HH:mm}} {{attempt}} {{runId}} after {{lastSuccessAt HH:mm:ss}}"}}
		j.Normalize()
		j.Sched.Schedule.Timezone = "Asia/Shanghai"
		j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
		must(t, p.s.CreateJobs(t.Context(), []core.Job{j}, []core.Change{{ID: 1, App: "work", Job: 900}})[0])
		fire := func() (core.RunID, string) {
			t.Helper()
			now := core.InstantOf(time.Now())
			id := core.PlannedRun(900, now)
			p.handle(ring.Message{Kind: ring.KindFires, Slot: now,
				Fires: []core.Fire{{Run: id, Rev: 1, At: now, Slot: now, Cause: core.CauseSchedule}}})
			return id, p.got[id]
		}
		end := func(id core.RunID, state core.State) {
			must(t, p.s.PutRuns(t.Context(), []core.RunPut{core.End(id, core.Run{State: state, EndedAt: time.Now()})})[0])
		}
		first, got := fire()
		if want := "08:00 1 " + first.String() + " after "; got != want {
			t.Errorf("the first is sent with %q, want %q", got, want)
		}
		end(first, core.Succeeded)
		for range 120 { // two pages of failures
			time.Sleep(time.Second)
			id, _ := fire()
			end(id, core.Failed)
		}
		time.Sleep(time.Minute)
		next, got := fire()
		if want := "08:03 1 " + next.String() + " after 08:00:00"; got != want {
			t.Errorf("after failures it is sent with %q, want %q", got, want)
		}

		given := "{{scheduledAt}} as it is"
		run := core.Run{ID: core.NumberedRun(900, 1), App: "work", State: core.Planned, Cause: core.CauseManual, At: core.InstantOf(time.Now()),
			Slot: core.InstantOf(time.Now()), Attempt: 1, First: core.NumberedRun(900, 1), Params: &given}
		must(t, p.s.Create(t.Context(), []core.Run{run})[0])
		p.handle(ring.Message{Kind: ring.KindFires, Slot: run.Slot, Fires: []core.Fire{run.Fire()}})
		if got := p.got[run.ID]; got != given {
			t.Errorf("the params of a trigger are sent as %q", got)
		}

		long := j
		long.Def.ID, long.Def.Name, long.Def.Params = 901, "long", strings.Repeat("x", core.MaxParams-5)+"{{scheduledAt}}"
		long.Sched.ID = 901
		must(t, p.s.CreateJobs(t.Context(), []core.Job{long}, []core.Change{{ID: 2, App: "work", Job: 901}})[0])
		now := core.InstantOf(time.Now())
		id := core.PlannedRun(901, now)
		m.Fires = []core.Fire{{Run: id, Rev: 1, At: now, Slot: now, Cause: core.CauseSchedule}}
		m.Slot = now
		p.handle(m)
		runs, _, err := p.s.Runs(t.Context(), []core.RunID{id})
		must(t, err)
		if r := runs[id]; r.State != core.Failed || r.Reason != core.ReasonNotAccepted {
			t.Errorf("too long: %+v", r)
		}
		texts.Equal(t, "too long", runs[id].Message)
	})
}

// spans is a store that reads runs slowly, or not at all.
type spans struct {
	*memory.Store
	takes time.Duration
	err   error
}

func (s *spans) RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	select {
	case <-time.After(s.takes):
		return nil, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestTemplatesHoldUpNobody: a slow read of a last success delays no other job. A template that stays unreadable moves
// to the dead-letter queue. A run that may have been sent does not fail because of it.
func TestTemplatesHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, dispatch.Options{})
		p.app("work", "http://10.0.0.1:1")
		s := &spans{Store: p.s, takes: time.Hour}
		log := slog.New(slog.DiscardHandler)
		p.d = dispatch.New(s, p.s, p, finish.New(p.s, p.s, finish.Options{Plan: plan.AWS(), Log: log}), dispatch.Options{Log: log})
		m, plain := p.message("work", 1, core.RouteFirst)
		job := func(id core.JobID, params string) core.Fire {
			j := core.Job{Def: core.Def{ID: id, App: "work", Name: "filled" + id.String(), Handler: "h", Template: true, Params: params}}
			j.Normalize()
			j.Sched.Rev, j.Sched.RevAt, j.Sched.Deadline = 1, time.Now().Add(-time.Hour), 10*time.Minute
			must(t, p.s.CreateJobs(t.Context(), []core.Job{j}, []core.Change{{ID: 1, App: "work", Job: id}})[0])
			now := core.InstantOf(time.Now())
			return core.Fire{Run: core.PlannedRun(id, now), Rev: 1, At: now, Slot: now, Cause: core.CauseSchedule}
		}
		slow, newer := job(900, "{{lastSuccessAt}}"), job(901, "{{word of a later version}}")
		m.Fires = append(m.Fires, slow, newer)
		began := time.Now()
		p.handle(m)
		p.sentWithin("beside it", plain, "http://10.0.0.1:1", began, 1100*time.Millisecond)
		runs, _, err := p.s.Runs(t.Context(), []core.RunID{slow.Run, newer.Run})
		must(t, err)
		if len(runs) != 0 || len(p.sent) != 1 {
			t.Errorf("what cannot be filled: %+v, sent %v", runs, p.sent)
		}
		s.takes, s.err = 0, errors.New("a damaged run")
		p.handle(ring.Message{Kind: ring.KindFires, Slot: slow.Slot, Try: 20, Unread: 20, Fires: []core.Fire{slow, newer}})
		letters, err := p.s.Letters(t.Context(), "", 10)
		must(t, err)
		if len(letters) != 2 {
			t.Errorf("%d dead letters", len(letters))
		}
		time.Sleep(time.Hour)
		p.handle(ring.Message{Kind: ring.KindFires, Slot: slow.Slot, Fires: []core.Fire{slow}})
		runs, _, err = p.s.Runs(t.Context(), []core.RunID{slow.Run})
		must(t, err)
		if r := runs[slow.Run]; r.Reason != core.ReasonDeadline {
			t.Errorf("past its deadline: %s %s", r.State, r.Reason)
		}
		maybe := job(902, "x{{runId}}"+strings.Repeat("y", core.MaxParams-12))
		must(t, p.s.Create(t.Context(), []core.Run{{ID: maybe.Run, App: "work", State: core.Running, Cause: core.CauseSchedule, Rev: 1,
			At: maybe.At, Slot: maybe.Slot, Attempt: 1, First: maybe.Run, Owner: "dead", Until: time.Now().Add(-time.Minute),
			Address: "http://10.0.0.1:1", SentAt: time.Now().Add(-2 * time.Minute)}})[0])
		p.handle(ring.Message{Kind: ring.KindFires, Slot: maybe.Slot, Try: 1, Fires: []core.Fire{maybe}})
		runs, _, err = p.s.Runs(t.Context(), []core.RunID{maybe.Run})
		must(t, err)
		if r := runs[maybe.Run]; r.State != core.Running || !r.MaybeSent {
			t.Errorf("one that may have been sent: %s %s %s", r.State, r.Reason, r.Message)
		}
	})
}
