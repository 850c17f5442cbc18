package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestTemplateIsFilled: the job's parameters are filled in its zone, with the scheduled time of its last success.
// Parameters of a trigger are sent byte for byte. Parameters that become too long fail the run.
func TestTemplateIsFilled(t *testing.T) {
	texts := golden.New(t)
	synctest.Test(t, func(t *testing.T) {
		p, sent := newProber(t, dispatch.Options{}), map[core.RunID]string{}
		p.app("work", "http://10.0.0.1:1")
		p.d = p.s.dispatcher(sends(func(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
			sent[s.Run.ID] = s.Params
			return dispatch.Answer{Kind: dispatch.AnswerAccepted}
		}), dispatch.Options{})
		j := core.Job{Def: core.Def{ID: 900, App: "work", Name: "filled", Handler: "h", Template: true,
			Params: "{{scheduledAt HH:mm}} {{attempt}} {{runId}} after {{lastSuccessAt HH:mm:ss}}"}}
		j.Normalize()
		j.Sched.Schedule.Timezone = "Asia/Shanghai"
		j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
		p.s.Job(j)
		fire := func() (core.RunID, string) {
			t.Helper()
			f := due(900)
			p.handle(messageOf(f))
			return f.Run, sent[f.Run]
		}
		end := func(id core.RunID, state core.State) {
			must(t, p.s.Change(core.End(id, core.Run{State: state, EndedAt: time.Now()})))
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
		run := fixture.Trigger("work", core.NumberedRun(900, 1), core.InstantOf(time.Now()))
		run.Params = &given
		p.s.Create(run)
		p.handle(messageOf(run.Fire()))
		if got := sent[run.ID]; got != given {
			t.Errorf("the params of a trigger are sent as %q", got)
		}

		long := j
		long.Def.ID, long.Def.Name, long.Def.Params = 901, "long", strings.Repeat("x", core.MaxParams-5)+"{{scheduledAt}}"
		long.Sched.ID = 901
		p.s.Job(long)
		f := due(901)
		p.handle(messageOf(f))
		r := p.s.Run(f.Run)
		if r.State != core.Failed || r.Reason != core.ReasonNotAccepted {
			t.Errorf("too long: %+v", r)
		}
		texts.Equal(t, "too long", r.Message)
	})
}

// TestTemplatesHoldUpNobody: a slow read of a last success delays no other job. A template that stays unreadable moves
// to the dead-letter queue. A run that may have been sent does not fail because of it.
func TestTemplatesHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, dispatch.Options{})
		p.app("work", "http://10.0.0.1:1")
		p.s.span = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		m, plain := p.message("work", 1, core.RouteFirst)
		job := func(id core.JobID, params string) core.Fire {
			j := core.Job{Def: core.Def{ID: id, App: "work", Name: "filled" + id.String(), Handler: "h", Template: true, Params: params}}
			j.Sched.Deadline = 10 * time.Minute
			p.s.Job(j)
			return due(id)
		}
		slow, newer := job(900, "{{lastSuccessAt}}"), job(901, "{{word of a later version}}")
		m.Fires = append(m.Fires, slow, newer)
		began := time.Now()
		p.handle(m)
		p.sentWithin("beside it", plain, "http://10.0.0.1:1", began, 1100*time.Millisecond)
		if runs := p.s.Stored(slow.Run, newer.Run); len(runs) != 0 || len(p.sent) != 1 {
			t.Errorf("what cannot be filled: %+v, sent %v", runs, p.sent)
		}
		p.s.span = func(context.Context) error { return errors.New("a damaged run") }
		p.handle(ring.Message{Kind: ring.KindFires, Slot: slow.Slot, Try: 20, Unread: 20, Fires: []core.Fire{slow, newer}})
		letters, err := p.s.Letters(t.Context(), "", 10)
		must(t, err)
		if len(letters) != 2 {
			t.Errorf("%d dead letters", len(letters))
		}
		time.Sleep(time.Hour)
		p.handle(messageOf(slow))
		if r := p.s.Run(slow.Run); r.Reason != core.ReasonDeadline {
			t.Errorf("past its deadline: %s %s", r.State, r.Reason)
		}
		maybe := job(902, "x{{runId}}"+strings.Repeat("y", core.MaxParams-12))
		p.s.Create(core.Run{ID: maybe.Run, App: "work", State: core.Running, Cause: core.CauseSchedule, Rev: 1,
			At: maybe.At, Slot: maybe.Slot, Attempt: 1, First: maybe.Run, Owner: "dead", Until: time.Now().Add(-time.Minute),
			Address: "http://10.0.0.1:1", SentAt: time.Now().Add(-2 * time.Minute)})
		p.handle(ring.Message{Kind: ring.KindFires, Slot: maybe.Slot, Try: 1, Fires: []core.Fire{maybe}})
		if r := p.s.Run(maybe.Run); r.State != core.Running || !r.MaybeSent {
			t.Errorf("one that may have been sent: %s %s %s", r.State, r.Reason, r.Message)
		}
	})
}
