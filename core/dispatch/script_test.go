package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// sourced counts the reads of sources; the first ones fail, and each takes a while.
type sourced struct {
	*memory.Store
	mu    sync.Mutex
	reads int
	wrong int
	err   error
	do    func() // before the first claim
}

func (s *sourced) Source(ctx context.Context, job core.JobID, hash string) (string, bool, error) {
	s.mu.Lock()
	s.reads++
	wrong := s.reads <= s.wrong
	s.mu.Unlock()
	time.Sleep(10 * time.Millisecond) // fake time
	if wrong {
		return "", false, s.err
	}
	return s.Store.Source(ctx, job, hash)
}

func (s *sourced) PutRuns(ctx context.Context, puts []core.RunPut) []error {
	if do := s.do; do != nil {
		s.do = nil
		do()
	}
	return s.Store.PutRuns(ctx, puts)
}

// sentSources records which source was sent where.
type sentSources struct {
	noted
	mu   sync.Mutex
	sent []string
}

func (to *sentSources) Send(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
	to.mu.Lock()
	defer to.mu.Unlock()
	version := 0
	if s.Job.Def.Script != nil {
		version = s.Job.Def.Script.Version
	}
	to.sent = append(to.sent, fmt.Sprintf("%d: %s", version, s.Source))
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}

type scripting struct {
	*testing.T
	s  *sourced
	to *sentSources
	d  *dispatch.Dispatcher
	n  uint32
}

// newScripting has job 1 with the first version of a script, and job 2 without one.
func newScripting(t *testing.T) *scripting {
	s, to, log := &sourced{Store: memory.New(t, memory.Options{})}, &sentSources{}, slog.New(slog.DiscardHandler)
	f := &scripting{T: t, s: s, to: to,
		d: dispatch.New(s, s, to, finish.New(s, s, finish.Options{Plan: plan.Local(), Log: log}), dispatch.Options{Log: log})}
	must(t, s.PutApp(t.Context(), 0, core.App{Name: "one", Executors: []string{firstAddress}, Rev: 1}, core.Change{ID: 1, App: "one"}))
	for id := core.JobID(1); id <= 2; id++ {
		j := core.Job{Def: core.Def{ID: id, App: "one", Name: id.String(), Handler: "h"}}
		j.Normalize()
		j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
		must(t, s.CreateJobs(t.Context(), []core.Job{j}, []core.Change{{ID: 1, App: "one", Job: id}})[0])
	}
	f.edit("one", 2)
	return f
}

// edit gives job 1 another version.
func (f *scripting) edit(source string, rev int64) {
	must(f.T, f.s.PutSource(f.Context(), 1, source, time.Now()))
	jobs, _, err := f.s.Jobs(f.Context(), []core.JobID{1})
	must(f.T, err)
	j := *jobs[1]
	seen := j.Sched.Rev
	j.Sched.Rev, j.Def.Handler, j.Def.Script = rev, "", core.ScriptOf(core.ScriptShell, "", source)
	j.Def.Script.Version, j.Def.Script.Rev = int(rev-1), rev
	must(f.T, f.s.UpdateJobs(f.Context(), []manage.Update{{Seen: seen, Job: j, Change: core.Change{ID: rev, App: "one", Job: 1}}})[0])
}

// trigger runs a job several times in one batch and returns the runs.
func (f *scripting) trigger(job core.JobID, times int) []core.Run {
	var ids []core.RunID
	m := ring.Message{Kind: ring.KindFires, Slot: core.InstantOf(time.Now())}
	for range times {
		f.n++
		id := core.NumberedRun(job, f.n)
		ids = append(ids, id)
		must(f.T, f.s.PutTriggered(f.Context(), core.Run{ID: id, App: "one", State: core.Planned, Cause: core.CauseManual, Rev: 1, At: m.Slot,
			Slot: m.Slot, Attempt: 1, First: id}, core.DueItem{PlanAt: m.Slot, Job: job, Run: id}))
		m.Fires = append(m.Fires, core.Fire{Run: id, Rev: 1, At: m.Slot, Slot: m.Slot, Cause: core.CauseManual, Seq: 1})
	}
	f.d.Handle(f.Context(), []ring.Message{m})
	found, _, err := f.s.Runs(f.Context(), ids)
	must(f.T, err)
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
		if f.s.reads != 0 || fmt.Sprint(f.to.sent) != "[0:  0:  0: ]" {
			t.Fatalf("%d reads, sent %q", f.s.reads, f.to.sent)
		}
		f.to.sent = nil
		f.trigger(1, 20)
		f.trigger(1, 1)
		f.edit("two", 3)
		f.trigger(1, 2)
		if want := strings.Repeat("1: one ", 21) + "2: two 2: two"; f.s.reads != 2 || strings.Join(f.to.sent, " ") != want {
			t.Errorf("%d reads, sent %q", f.s.reads, f.to.sent)
		}
	})
}

// TestSourceAsRead: a run is sent with the job version that was read, and records its revision, even if a newer one
// comes before the claim.
func TestSourceAsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newScripting(t)
		f.s.do = func() { f.edit("two", 3) }
		if r := f.trigger(1, 1)[0]; r.RevSent() != 2 || fmt.Sprint(f.to.sent) != "[1: one]" {
			t.Errorf("sent under %d: %q", r.RevSent(), f.to.sent)
		}
		if r := f.trigger(1, 1)[0]; r.RevSent() != 3 || f.to.sent[1] != "2: two" {
			t.Errorf("sent under %d: %q", r.RevSent(), f.to.sent)
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
			f.s.reads, f.s.wrong, f.s.err = 0, 1, err
			if r := f.trigger(1, 1)[0]; r.State != core.Planned || r.Owner != "" || len(f.to.sent) != 0 {
				t.Errorf("%v: %s of %q, sent %q", err, r.State, r.Owner, f.to.sent)
			}
		}
		time.Sleep(time.Minute)
		again, err := f.s.Receive(t.Context(), ring.KindFires, 10)
		must(t, err)
		for _, m := range again {
			f.d.Handle(t.Context(), []ring.Message{m.Message})
		}
		if fmt.Sprint(f.to.sent) != "[1: one 1: one]" {
			t.Errorf("again came %q", f.to.sent)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newScripting(t)
		f.s.wrong = 1 // and no error: it is missing
		r := f.trigger(1, 1)[0]
		if r.State != core.Failed || r.Reason != core.ReasonNotAccepted {
			t.Errorf("%s %s %q", r.State, r.Reason, r.Message)
		}
		texts.Equal(t, "missing", r.Message)
		if f.trigger(1, 1); fmt.Sprint(f.to.sent) != "[1: one]" {
			t.Errorf("then came %q", f.to.sent)
		}
	})
}
