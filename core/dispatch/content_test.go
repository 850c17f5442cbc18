package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

type scripting struct {
	*testing.T
	s     *data
	d     *dispatch.Dispatcher
	n     uint32
	reads int // of sources
	wrong int // the number of first reads that fail with err
	err   error

	mu   sync.Mutex
	sent []string // which source was sent with which version
}

func (f *scripting) send(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	version := 0
	if s.Job.Def.Script != nil {
		version = s.Job.Def.Script.Version
	}
	f.sent = append(f.sent, fmt.Sprintf("%d: %s", version, s.Source))
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}

// read is called before a record is read; a source takes a while.
func (f *scripting) read(_ context.Context, k store.Key) error {
	if k.Kind != store.ScriptKind(1) {
		return nil
	}
	f.mu.Lock()
	f.reads++
	wrong := f.reads <= f.wrong
	f.mu.Unlock()
	time.Sleep(10 * time.Millisecond) // fake time
	if wrong {
		return f.err
	}
	return nil
}

// newScripting has job 1 with the first version of a script, and job 2 without one.
func newScripting(t *testing.T) *scripting {
	s := newData(t, plan.Local(), memory.Options{})
	f := &scripting{T: t, s: s}
	f.d, s.faults.read = s.dispatcher(sends(f.send), dispatch.Options{}), f.read
	s.App("one", firstAddress)
	for id := core.JobID(1); id <= 2; id++ {
		s.Job(core.Job{Def: core.Def{ID: id, App: "one", Name: id.String(), Handler: "h"}})
	}
	f.edit("one", 2)
	return f
}

// edit gives job 1 another version.
func (f *scripting) edit(source string, rev int64) {
	must(f.T, f.s.PutSource(f.Context(), 1, source, time.Now()))
	f.s.Edit(1, func(j *core.Job) {
		j.Sched.Rev, j.Def.Handler, j.Def.Script = rev, "", core.ScriptOf(core.ScriptShell, "", source)
		j.Def.Script.Version, j.Def.Script.Rev = int(rev-1), rev
	})
}

// trigger runs a job several times in one batch and returns the runs.
func (f *scripting) trigger(job core.JobID, times int) []core.Run {
	var ids []core.RunID
	m := ring.Message{Kind: ring.KindFires, Slot: core.InstantOf(time.Now())}
	for range times {
		f.n++
		id := core.NumberedRun(job, f.n)
		ids = append(ids, id)
		r := fixture.Trigger("one", id, m.Slot)
		f.s.trigger(r)
		m.Fires = append(m.Fires, r.Fire())
	}
	f.d.Handle(f.Context(), []ring.Message{m})
	found := f.s.Stored(ids...)
	var runs []core.Run
	for _, id := range ids {
		runs = append(runs, found[id])
	}
	return runs
}

// TestSourceIsReadOnce: plain jobs read no source. A script is read once for all its runs, concurrent or later, and
// each new version once too.
func TestSourceIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newScripting(t)
		f.trigger(2, 3)
		if f.reads != 0 || fmt.Sprint(f.sent) != "[0:  0:  0: ]" {
			t.Fatalf("%d reads, sent %q", f.reads, f.sent)
		}
		f.sent = nil
		f.trigger(1, 20)
		f.trigger(1, 1)
		f.edit("two", 3)
		f.trigger(1, 2)
		if want := strings.Repeat("1: one ", 21) + "2: two 2: two"; f.reads != 2 || strings.Join(f.sent, " ") != want {
			t.Errorf("%d reads, sent %q", f.reads, f.sent)
		}
	})
}

// TestSourceCannotBeRead: if the store fails, the run is retried and sent then. If the source is missing or damaged,
// the run fails with that message.
func TestSourceCannotBeRead(t *testing.T) {
	texts := golden.New(t)
	synctest.Test(t, func(t *testing.T) {
		f := newScripting(t)
		for _, err := range []error{core.ErrThrottled, errors.New("cut")} {
			f.reads, f.wrong, f.err = 0, 1, err
			if r := f.trigger(1, 1)[0]; r.State != core.Planned || r.Owner != "" || len(f.sent) != 0 {
				t.Errorf("%v: %s of %q, sent %q", err, r.State, r.Owner, f.sent)
			}
		}
		time.Sleep(time.Minute)
		again := f.s.Receive(ring.KindFires, 10)
		for _, m := range again {
			f.d.Handle(t.Context(), []ring.Message{m.Message})
		}
		if fmt.Sprint(f.sent) != "[1: one 1: one]" {
			t.Errorf("again came %q", f.sent)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newScripting(t)
		f.wrong, f.err = 1, errAbsent
		r := f.trigger(1, 1)[0]
		if r.State != core.Failed || r.Reason != core.ReasonNotAccepted {
			t.Errorf("%s %s %q", r.State, r.Reason, r.Message)
		}
		texts.Equal(t, "missing", r.Message)
		if f.trigger(1, 1); fmt.Sprint(f.sent) != "[1: one]" {
			t.Errorf("then came %q", f.sent)
		}
	})
}

// TestTemplateIsFilled: the job's parameters are filled in its zone, with the scheduled time of its last success.
// Parameters of a trigger are sent byte for byte. Parameters that become too long fail the run.
func TestTemplateIsFilled(t *testing.T) {
	texts := golden.New(t)
	synctest.Test(t, func(t *testing.T) {
		p, sent := newProber(t, dispatch.Options{}), map[core.RunID]string{}
		p.s.App("work", "http://10.0.0.1:1")
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
		p.s.App("work", "http://10.0.0.1:1")
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
