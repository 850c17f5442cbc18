package dispatch_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/testkit/story"
	"github.com/tickring/tickring/store"
)

// begin is when tests in bubbles begin, at the earliest: planned runs have no IDs before 2020.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var must, planned, messageOf = check.OK, fixture.Planned, fixture.Message

// data is a store in memory, which tests use without faults. Dispatchers use faulty, the same store with faults.
type data struct {
	*fixture.Store
	faults
	faulty *store.Store
	plan   plan.Options
	f      *finish.Finish
	say    func(format string, args ...any) // tells a story what happened
}

func newData(t testing.TB, p plan.Options, o memory.Options) *data {
	time.Sleep(time.Until(begin)) // of a bubble
	s := &data{plan: p, Store: fixture.New(t, o), say: func(string, ...any) {}}
	s.faulty = hook.Over(s.Store.Store, s.do)
	s.f = s.finish()
	return s
}

func (s *data) finish() *finish.Finish {
	return finish.New(s.faulty, finish.Options{Now: s.Now, Plan: s.plan, Log: slog.New(slog.DiscardHandler), Closed: func(r *core.Run) {
		s.say("closed %s, failed for good: %t", story.Name(r.ID), r.FailedForGood())
	}})
}

func (s *data) dispatcher(to dispatch.Sender, o dispatch.Options) *dispatch.Dispatcher {
	o.Now, o.Log = s.Now, cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return dispatch.New(s.faulty, to, s.f, o)
}

func (s *data) dead() *dispatch.Dead {
	return dispatch.NewDead(s.faulty, s.f, nil, slog.New(slog.DiscardHandler))
}

// trigger creates a run with an entry of the due index.
func (s *data) trigger(r core.Run) {
	s.T.Helper()
	must(s.T, s.Runs.Put(s.T.Context(), []store.RunPut{{Create: &r, Enter: &core.DueItem{PlanAt: r.Slot, Job: r.ID.Job(), Run: r.ID}}})...)
}

// retime changes a run that was triggered.
func (s *data) retime(p core.RunPut, at core.Instant) error {
	return s.Runs.Put(s.T.Context(), []store.RunPut{{Change: &p, Enter: &core.DueItem{PlanAt: at, Job: p.ID.Job(), Run: p.ID}}})[0]
}

// faults are a test's changes to the calls of a store. A nil field changes nothing. The error of a call before an operation is
// the answer of that operation.
type faults struct {
	read  func(ctx context.Context, k store.Key) error // before a record, or the list of a kind, is read
	write func(ctx context.Context, groups []store.Group) error
	runs  func(ids []core.RunID) error // before runs are read
	span  func(ctx context.Context) error
	put   func(p *core.RunPut) error // before a run is changed
	// jobsRead and runsRead change the result of a read, and answer changes the answer to a write of a run.
	jobsRead func(got map[core.JobID]store.Got[*core.Job])
	runsRead func(got map[core.RunID]store.Got[*core.Run])
	answer   func(p *store.RunPut, err error) error
	enqueue  func(ctx context.Context, o *ring.Out, do func() error) error
	bury     func(why string) // instead of the dead-letter queue
}

// again has the messages of runs that dispatchers enqueued, and why they moved others to the dead-letter queue.
type again struct {
	msgs   []ring.Message
	buried []string
}

// damage makes a job unreadable and catches the messages of dispatchers. If keep is set, the delay queue gets them too.
func (s *data) damage(job core.JobID, keep bool) *again {
	a := &again{}
	s.jobsRead = func(got map[core.JobID]store.Got[*core.Job]) {
		if _, is := got[job]; is {
			got[job] = store.Got[*core.Job]{Err: errors.New("no JSON")}
		}
	}
	s.enqueue = func(_ context.Context, o *ring.Out, do func() error) error {
		if o.Message.Kind == ring.KindFires {
			a.msgs = append(a.msgs, o.Message)
		}
		if keep {
			return do()
		}
		return nil
	}
	s.bury = func(why string) { a.buried = append(a.buried, why) }
	return a
}

// repair removes all faults.
func (s *data) repair() { s.faults = faults{} }

// errAbsent makes a read return that nothing is stored.
var errAbsent = errors.New("absent")

// do makes a call with the faults.
func (f *faults) do(ctx context.Context, c *hook.Call, next func() []error) (errs []error) {
	fail := func(err error) {
		if err != nil && errs == nil {
			errs = []error{err}
		}
	}
	switch {
	case f.read != nil && c.Get != nil:
		for _, k := range c.Get {
			fail(f.read(ctx, k))
		}
	case f.read != nil && c.List != "":
		fail(f.read(ctx, store.Key{Kind: c.List}))
	case f.write != nil && c.Write != nil:
		if err := f.write(ctx, c.Write); err != nil {
			return hook.Fail(err, len(c.Write))
		}
	case f.runs != nil && c.Runs != nil:
		fail(f.runs(c.Runs))
	case f.span != nil && c.Span:
		fail(f.span(ctx))
	case f.bury != nil && c.Bury != "":
		f.bury(c.Bury)
		return []error{nil}
	case c.PutRun != nil:
		return f.putRuns(c, next)
	case f.enqueue != nil && c.Out != nil:
		for out := c.Out; len(out) > 0; out = out[1:] {
			c.Out = out[:1]
			errs = append(errs, f.enqueue(ctx, &out[0], func() error { return next()[0] }))
		}
		return errs
	}
	if errs == nil {
		errs = next()
	} else if errs[0] == errAbsent {
		errs[0] = nil
	}
	if f.jobsRead != nil && c.Jobs != nil {
		f.jobsRead(c.GotJobs)
	}
	if f.runsRead != nil && c.Runs != nil {
		f.runsRead(c.GotRuns)
	}
	return errs
}

// putRuns writes runs one by one.
func (f *faults) putRuns(c *hook.Call, next func() []error) []error {
	if f.put == nil && f.answer == nil {
		return next()
	}
	errs, puts := make([]error, len(c.PutRun)), c.PutRun
	for i := range puts {
		c.PutRun = puts[i : i+1]
		if change := puts[i].Change; change != nil && f.put != nil {
			errs[i] = f.put(change)
		}
		if errs[i] == nil {
			errs[i] = next()[0]
		}
		if f.answer != nil {
			errs[i] = f.answer(&puts[i], errs[i])
		}
	}
	return errs
}

// sends is a sender to executors that are available and idle.
type sends func(ctx context.Context, s dispatch.SendRequest) dispatch.Answer

func (s sends) Send(ctx context.Context, r dispatch.SendRequest) dispatch.Answer { return s(ctx, r) }
func (sends) Beat(context.Context, *core.App, string) error                      { return nil }
func (sends) Idle(context.Context, *core.App, string, core.JobID) (bool, error)  { return true, nil }

// due returns a scheduled run that is due now.
func due(job core.JobID) core.Fire { return planned(job, core.InstantOf(time.Now())) }
