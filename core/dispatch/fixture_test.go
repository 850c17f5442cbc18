package dispatch_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// begin is when tests in bubbles begin, at the earliest: planned runs have no IDs before 2020.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// data is a store in memory, which tests use without faults. Dispatchers use faulty, the same store with faults.
type data struct {
	*store.Store
	faults
	t      testing.TB
	faulty *store.Store
	plan   plan.Options
	f      *finish.Finish
	mu     sync.Mutex
	closed []core.Run // by f
}

func newData(t testing.TB, p plan.Options, o memory.Options) *data {
	time.Sleep(time.Until(begin)) // of a bubble
	s := &data{t: t, plan: p, Store: memory.Open(t, o)}
	s.faulty = s.faults.in(s.Store)
	s.f = s.finish()
	return s
}

func (s *data) finish() *finish.Finish {
	return finish.New(s.faulty, finish.Options{Now: s.Now, Plan: s.plan, Log: slog.New(slog.DiscardHandler), Closed: func(r *core.Run) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = append(s.closed, *r)
	}})
}

func (s *data) dispatcher(to dispatch.Sender, o dispatch.Options) *dispatch.Dispatcher {
	o.Now, o.Log = s.Now, cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return dispatch.New(s.faulty, to, s.f, o)
}

func (s *data) dead() *dispatch.Dead {
	return dispatch.NewDead(s.faulty, s.f, nil, slog.New(slog.DiscardHandler))
}

// byJournal makes lists of runs use journals, for dispatchers that are created later.
func (s *data) byJournal() {
	s.faulty.ByJournal = true
	s.f = s.finish()
}

func (s *data) putApp(a core.App) {
	s.t.Helper()
	must(s.t, s.PutApp(s.t.Context(), a.Rev-1, a, core.Change{ID: a.Rev, App: a.Name}))
}

func (s *data) app(name string, addresses ...string) {
	s.t.Helper()
	s.putApp(core.App{Name: name, Executors: addresses, Rev: 1})
}

// job creates a job, of revision 1 unless the test sets another, and returns it as it is stored.
func (s *data) job(j core.Job) core.Job {
	s.t.Helper()
	j.Normalize()
	if j.Sched.Rev == 0 {
		j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
	}
	must(s.t, s.Jobs.Put(s.t.Context(), []store.JobPut{{Create: &j}})...)
	return j
}

func (s *data) jobOf(id core.JobID) core.Job {
	s.t.Helper()
	got, err := s.Jobs.Get(s.t.Context(), store.Whole, []core.JobID{id})
	must(s.t, err, got[id].Err)
	return *got[id].Is
}

// edit changes a stored job.
func (s *data) edit(id core.JobID, change func(*core.Job)) {
	s.t.Helper()
	j := s.jobOf(id)
	seen := j.Sched.Rev
	change(&j)
	must(s.t, s.Jobs.Put(s.t.Context(), []store.JobPut{{Update: &store.JobUpdate{Seen: seen, Job: j}}})...)
}

func (s *data) create(runs ...core.Run) {
	s.t.Helper()
	must(s.t, s.CreateRuns(s.t.Context(), runs)...)
}

// trigger creates a run with an entry of the due index.
func (s *data) trigger(r core.Run) {
	s.t.Helper()
	must(s.t, s.Runs.Put(s.t.Context(), []store.RunPut{{Create: &r, Enter: &core.DueItem{PlanAt: r.Slot, Job: r.ID.Job(), Run: r.ID}}})...)
}

// retime changes a run that was triggered.
func (s *data) retime(p core.RunPut, at core.Instant) error {
	return s.Runs.Put(s.t.Context(), []store.RunPut{{Change: &p, Enter: &core.DueItem{PlanAt: at, Job: p.ID.Job(), Run: p.ID}}})[0]
}

func (s *data) change(p core.RunPut) error { return s.ChangeRuns(s.t.Context(), []core.RunPut{p})[0] }

// run returns a run, zero if it is not stored.
func (s *data) run(id core.RunID) core.Run {
	s.t.Helper()
	return s.stored(id)[id]
}

func (s *data) stored(ids ...core.RunID) map[core.RunID]core.Run {
	s.t.Helper()
	got, err := s.Runs.Get(s.t.Context(), ids)
	must(s.t, err)
	runs := map[core.RunID]core.Run{}
	for id, g := range got {
		must(s.t, g.Err)
		runs[id] = *g.Is
	}
	return runs
}

func (s *data) putPermits(p core.Permits) {
	s.t.Helper()
	must(s.t, s.PutPermits(s.t.Context(), []core.Permits{p})...)
}

func (s *data) permits(name string) core.Permits {
	s.t.Helper()
	found, err := s.Permits(s.t.Context(), []string{name})
	must(s.t, err)
	return found[name]
}

// journal returns the journal of a run.
func (s *data) journal(r core.Run) core.Journal {
	s.t.Helper()
	found, err := s.Journals(s.t.Context(), []core.JournalKey{r.Journal})
	must(s.t, err)
	return found[r.Journal]
}

// depth counts the messages of a kind that are due, and that wait for their time.
func (s *data) depth(k ring.Kind) (due, waiting int) {
	s.t.Helper()
	due, waiting, _, err := s.Queue.Depth(s.t.Context(), k)
	must(s.t, err)
	return due, waiting
}

// messages counts the messages of a kind.
func (s *data) messages(k ring.Kind) int {
	s.t.Helper()
	due, waiting, inFlight, err := s.Queue.Depth(s.t.Context(), k)
	must(s.t, err)
	return due + waiting + inFlight
}

func (s *data) receive(k ring.Kind, limit int) []store.Delivery {
	s.t.Helper()
	got, err := s.Queue.Receive(s.t.Context(), k, limit)
	must(s.t, err)
	return got
}

func (s *data) ack(done ...store.Delivery) {
	s.t.Helper()
	must(s.t, s.Queue.Ack(s.t.Context(), done)...)
}

func (s *data) enqueued(at time.Time, m ring.Message) {
	s.t.Helper()
	must(s.t, s.Queue.Enqueue(s.t.Context(), []ring.Out{{NotBefore: at, Message: m}})...)
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

// in returns s with the faults.
func (f *faults) in(s *store.Store) *store.Store {
	c := *s
	c.Records, c.Jobs, c.Runs, c.Queue = faultyRecords{s.Records, f}, faultyJobs{s.Jobs, f}, faultyRuns{s.Runs, f}, faultyQueue{s.Queue, f}
	return &c
}

type (
	faultyRecords struct {
		store.Records
		f *faults
	}
	faultyJobs struct {
		store.Jobs
		f *faults
	}
	faultyRuns struct {
		store.Runs
		f *faults
	}
	faultyQueue struct {
		store.Queue
		f *faults
	}
)

func (r faultyRecords) Get(ctx context.Context, keys ...store.Key) (map[store.Key]store.Record, error) {
	for _, k := range keys {
		if r.f.read == nil {
			break
		} else if err := r.f.read(ctx, k); err == errAbsent {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	return r.Records.Get(ctx, keys...)
}

func (r faultyRecords) List(ctx context.Context, kind, after, before string, limit int) ([]store.Record, error) {
	if r.f.read != nil {
		if err := r.f.read(ctx, store.Key{Kind: kind}); err == errAbsent {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	return r.Records.List(ctx, kind, after, before, limit)
}

func (r faultyRecords) Write(ctx context.Context, groups ...store.Group) []error {
	if r.f.write != nil {
		if err := r.f.write(ctx, groups); err != nil {
			return slices.Repeat([]error{err}, len(groups))
		}
	}
	return r.Records.Write(ctx, groups...)
}

func (j faultyJobs) Get(ctx context.Context, part store.Part, ids []core.JobID) (map[core.JobID]store.Got[*core.Job], error) {
	got, err := j.Jobs.Get(ctx, part, ids)
	if j.f.jobsRead != nil {
		j.f.jobsRead(got)
	}
	return got, err
}

func (r faultyRuns) Get(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	if r.f.runs != nil {
		if err := r.f.runs(ids); err != nil {
			return nil, err
		}
	}
	got, err := r.Runs.Get(ctx, ids)
	if r.f.runsRead != nil {
		r.f.runsRead(got)
	}
	return got, err
}

func (r faultyRuns) Span(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	if r.f.span != nil {
		if err := r.f.span(ctx); err != nil {
			return nil, err
		}
	}
	return r.Runs.Span(ctx, first, last, limit)
}

func (r faultyRuns) Put(ctx context.Context, puts []store.RunPut) []error {
	if r.f.put == nil && r.f.answer == nil {
		return r.Runs.Put(ctx, puts)
	}
	errs := make([]error, len(puts))
	for i := range puts {
		if c := puts[i].Change; c != nil && r.f.put != nil {
			errs[i] = r.f.put(c)
		}
		if errs[i] == nil {
			errs[i] = r.Runs.Put(ctx, puts[i:i+1])[0]
		}
		if r.f.answer != nil {
			errs[i] = r.f.answer(&puts[i], errs[i])
		}
	}
	return errs
}

func (q faultyQueue) Enqueue(ctx context.Context, out []ring.Out) []error {
	if q.f.enqueue == nil {
		return q.Queue.Enqueue(ctx, out)
	}
	errs := make([]error, len(out))
	for i := range out {
		errs[i] = q.f.enqueue(ctx, &out[i], func() error { return q.Queue.Enqueue(ctx, out[i:i+1])[0] })
	}
	return errs
}

func (q faultyQueue) Bury(ctx context.Context, m ring.Message, why string) error {
	if q.f.bury == nil {
		return q.Queue.Bury(ctx, m, why)
	}
	q.f.bury(why)
	return nil
}

// sends is a sender whose executors are available and idle.
type sends func(ctx context.Context, s dispatch.SendRequest) dispatch.Answer

func (s sends) Send(ctx context.Context, r dispatch.SendRequest) dispatch.Answer { return s(ctx, r) }
func (sends) Beat(context.Context, *core.App, string) error                      { return nil }
func (sends) Idle(context.Context, *core.App, string, core.JobID) (bool, error)  { return true, nil }

// planned returns a scheduled run of a job of revision 1.
func planned(job core.JobID, at core.Instant) core.Fire {
	return core.Fire{Run: core.PlannedRun(job, at), Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}
}

// due returns a scheduled run that is due now.
func due(job core.JobID) core.Fire { return planned(job, core.InstantOf(time.Now())) }

// messageOf returns a message with runs.
func messageOf(fires ...core.Fire) ring.Message {
	return ring.Message{Kind: ring.KindFires, Slot: fires[0].Slot, Fires: fires}
}
