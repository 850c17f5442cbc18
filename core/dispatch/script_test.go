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

// TestSourceAsRead: a run is sent with the job version that was read, and records its revision, even if a newer one
// comes before the claim.
func TestSourceAsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newScripting(t)
		f.s.before(func() { f.edit("two", 3) })
		if r := f.trigger(1, 1)[0]; r.RevSent() != 2 || fmt.Sprint(f.sent) != "[1: one]" {
			t.Errorf("sent under %d: %q", r.RevSent(), f.sent)
		}
		if r := f.trigger(1, 1)[0]; r.RevSent() != 3 || f.sent[1] != "2: two" {
			t.Errorf("sent under %d: %q", r.RevSent(), f.sent)
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
