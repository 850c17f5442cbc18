package finish_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// begin is the start time of the tests, a whole second.
var begin = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

// errUnknown leaves open whether a write happened.
var errUnknown = errors.New("cut connection")

// errOurs means that a question could not be sent.
var errOurs = core.Errorf(core.CodeUnavailable, "not asked: too many open files")

// A fault is the result of one call: its error, and whether it still takes effect.
type fault struct {
	err  error
	done bool
	// between runs before the call, as a concurrent change.
	between func()
}

// store is SQLite in memory with faults; each is used up by one call.
type store struct {
	*memory.Store
	faults map[string][]fault
	calls  map[string]int
	older  func(*core.Run) // makes a run as it was, for reads that may return an older state; nil: no change
	order  []string        // of the calls
	mu     sync.Mutex      // guards the fields above
	// damaged is a stored job that cannot be decoded; 0: none.
	damaged      core.JobID
	damagedSched core.JobID // whose schedule cannot be decoded
}

func (s *store) next(op string) fault {
	s.mu.Lock()
	s.calls[op]++
	s.order = append(s.order, op)
	var f fault
	if list := s.faults[op]; len(list) > 0 {
		f, s.faults[op] = list[0], list[1:]
	}
	s.mu.Unlock()
	if f.between != nil {
		f.between()
	}
	return f
}

func many[T any](s *store, op string, items []T, do func() []error) []error {
	f := s.next(op)
	var errs []error
	if f.err == nil || f.done {
		errs = do()
	}
	if f.err == nil {
		return errs
	}
	errs = make([]error, len(items))
	for i := range errs {
		errs[i] = f.err
	}
	return errs
}

func (s *store) PutRuns(ctx context.Context, p []core.RunPut) []error {
	op := "clear owed"
	if p[0].Ends() {
		op = "close"
	}
	return many(s, op, p, func() []error { return s.Store.PutRuns(ctx, p) })
}

func (s *store) Create(ctx context.Context, r []core.Run) []error {
	return many(s, "create", r, func() []error { return s.Store.Create(ctx, r) })
}

func (s *store) Advance(ctx context.Context, m []core.Advance) []error {
	return many(s, "advance", m, func() []error { return s.Store.Advance(ctx, m) })
}

func (s *store) PutSkips(ctx context.Context, k []core.Skip) []error {
	return many(s, "skips", k, func() []error { return s.Store.PutSkips(ctx, k) })
}

func (s *store) Enqueue(ctx context.Context, o []ring.Out) []error {
	return many(s, "enqueue", o, func() []error { return s.Store.Enqueue(ctx, o) })
}

func (s *store) PutEntries(ctx context.Context, e []core.DueItem) []error {
	return many(s, "entries", e, func() []error { return s.Store.PutEntries(ctx, e) })
}

func (s *store) Numbers(ctx context.Context, job core.JobID, n int) (uint32, error) {
	if f := s.next("numbers"); f.err != nil {
		return 0, f.err
	}
	return s.Store.Numbers(ctx, job, n)
}

func (s *store) Permits(ctx context.Context, names []string) (map[string]core.Permits, error) {
	if f := s.next("permits"); f.err != nil {
		return nil, f.err
	}
	return s.Store.Permits(ctx, names)
}

func (s *store) PutPermits(ctx context.Context, list []core.Permits) []error {
	return many(s, "put permits", list, func() []error { return s.Store.PutPermits(ctx, list) })
}

func (s *store) PutJournal(ctx context.Context, j core.Journal) error {
	if f := s.next("journal"); f.err != nil {
		return f.err
	}
	return s.Store.PutJournal(ctx, j)
}

func (s *store) Runs(ctx context.Context, ids []core.RunID) (map[core.RunID]core.Run, []core.RunID, error) {
	f := s.next("runs")
	switch {
	case f.err != nil && f.done:
		return nil, ids, nil // all of them left unread
	case f.err != nil:
		return nil, nil, f.err
	}
	return s.Store.Runs(ctx, ids)
}

func (s *store) Jobs(ctx context.Context, ids []core.JobID) (map[core.JobID]*core.Job, []core.JobID, error) {
	if f := s.next("jobs"); f.err != nil {
		return nil, ids, nil
	}
	found, unread, err := s.Store.Jobs(ctx, ids)
	if _, is := found[s.damaged]; is && err == nil {
		delete(found, s.damaged)
		err = core.Unreadable{s.damaged: errors.New("of a newer version")}
	}
	return found, unread, err
}

func (s *store) Scheds(ctx context.Context, ids []core.JobID) (map[core.JobID]core.Sched, []core.JobID, error) {
	found, unread, err := s.Store.Scheds(ctx, ids)
	if _, is := found[s.damagedSched]; is && err == nil {
		delete(found, s.damagedSched)
		err = core.Unreadable{s.damagedSched: errors.New("of a newer version")}
	}
	return found, unread, err
}

func (s *store) Apps(ctx context.Context, names []string) (map[string]core.App, []string, error) {
	if f := s.next("apps"); f.err != nil {
		return nil, names, nil
	}
	return s.Store.Apps(ctx, names)
}

func (s *store) RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	if f := s.next("span"); f.err != nil {
		return nil, f.err
	}
	runs, err := s.Store.RunsByID(ctx, first, last, limit)
	for i := range runs {
		if s.older != nil && glance.Of(ctx) != nil {
			s.older(&runs[i])
		}
	}
	return runs, err
}

func (s *store) MoveCursor(ctx context.Context, seen, minute int64) error {
	if f := s.next("cursor"); f.err != nil {
		return f.err
	}
	return s.Store.MoveCursor(ctx, seen, minute)
}

// rig is a Finish over a store, with a clock that the test moves.
type rig struct {
	t      *testing.T
	s      *store
	f      *finish.Finish
	clock  sync.Mutex // guards now in tests with concurrent work
	now    time.Time
	closed []core.Run
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, now: begin}
	clock := func() time.Time {
		r.clock.Lock()
		defer r.clock.Unlock()
		return r.now
	}
	r.s = &store{Store: memory.New(t, memory.Options{Now: clock}), faults: map[string][]fault{}, calls: map[string]int{}}
	r.f = finish.NewOver(r.s, false, finish.Options{Now: clock, Plan: plan.Local(), Log: slog.New(slog.DiscardHandler),
		Closed: func(run *core.Run) { r.closed = append(r.closed, *run) }})
	r.must(r.s.PutApp(t.Context(), 0, core.App{Name: "orders", Rev: 1}, core.Change{ID: 1, At: begin, App: "orders"}))
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	check.OK(r.t, err)
}

// job stores a started job after change has edited it.
func (r *rig) job(id core.JobID, change func(*core.Job)) core.Job {
	r.t.Helper()
	j := core.Job{Def: core.Def{ID: id, App: "orders", Name: "job-" + id.String(), Handler: "h"}}
	j.Sched.Rev, j.Sched.RevAt = 1, begin.Add(-time.Hour)
	j.Def.Retry = core.Retry{Max: 2, Delay: 5 * time.Second}
	if change != nil {
		change(&j)
	}
	j.Normalize()
	r.must(r.s.Store.CreateJobs(r.t.Context(), []core.Job{j}, []core.Change{{ID: 1, At: begin, App: "orders", Job: id}})[0])
	return j
}

// run stores a run that was sent a second ago.
func (r *rig) run(id core.RunID, change func(*core.Run)) core.Run {
	r.t.Helper()
	at := core.InstantOf(begin) - 1
	run := core.Run{ID: id, App: "orders", State: core.Running, Cause: core.CauseSchedule, Rev: 1, At: at, Slot: at, Seq: 4,
		Owner: "nonce", Until: begin.Add(30 * time.Second), Address: "http://10.0.0.1:9999/", SentAt: begin.Add(-time.Second), Attempt: 1,
		First: id, Retries: 2}
	if change != nil {
		change(&run)
	}
	r.must(r.s.Store.Create(r.t.Context(), []core.Run{run})[0])
	return run
}

func (r *rig) stored(id core.RunID) core.Run {
	r.t.Helper()
	found, _, err := r.s.Store.Runs(r.t.Context(), []core.RunID{id})
	r.must(err)
	run, ok := found[id]
	if !ok {
		r.t.Fatalf("run %d does not exist", id)
	}
	return run
}

func (r *rig) sched(id core.JobID) core.Sched {
	r.t.Helper()
	found, _, err := r.s.Store.Scheds(r.t.Context(), []core.JobID{id})
	r.must(err)
	return found[id]
}

func (r *rig) end(res finish.Result) error {
	r.t.Helper()
	return r.f.End(r.t.Context(), []finish.Result{res})[0]
}

// numbered returns all runs of a job that have a record of their own: its retries.
func (r *rig) numbered(job core.JobID) []core.Run {
	r.t.Helper()
	first, last := core.NumberedRange(job)
	list, err := r.s.Store.RunsByID(r.t.Context(), first, last, 100)
	r.must(err)
	return list
}

// messages receives the ring's messages of a kind that are due within an hour.
func (r *rig) messages(kind ring.Kind) []ring.Message {
	r.t.Helper()
	before := r.now
	r.now = r.now.Add(time.Hour)
	defer func() { r.now = before }()
	due, waiting, _, err := r.s.Store.Depth(r.t.Context(), kind)
	r.must(err)
	if due+waiting == 0 {
		return nil
	}
	got, err := r.s.Store.Receive(r.t.Context(), kind, 100)
	r.must(err)
	var out []ring.Message
	for _, d := range got {
		out = append(out, d.Message)
	}
	for _, err := range r.s.Store.Ack(r.t.Context(), got) {
		r.must(err)
	}
	return out
}

// delayed stores a fixed-delay job whose chain is open. Its run is scheduled a second before
// begin.
func (r *rig) delayed(id core.JobID, every time.Duration, change func(*core.Job)) (core.Job, core.Run) {
	r.t.Helper()
	run := core.PlannedRun(id, core.InstantOf(begin)-1)
	j := r.job(id, func(j *core.Job) {
		j.Sched.Schedule = core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: every}}}
		j.Sched.Next, j.Sched.Tail, j.Sched.Seq = core.InstantOf(begin)-1, run, 5
		j.Sched.PlanAt = core.InstantOf(begin) + 600
		if change != nil {
			change(j)
		}
	})
	check.Call(r.t)(schedule.Compile(j.Sched.Schedule, id))
	return j, r.run(run, func(x *core.Run) { x.FixedDelay = true })
}
