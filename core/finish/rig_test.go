package finish_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
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
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
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

// faults injects faults into calls of a store, by the name of the operation; each is used up by one call.
type faults struct {
	faults map[string][]fault
	calls  map[string]int
	older  func(*core.Run) // makes a run as it was, for reads that may return an older state; nil: no change
	order  []string        // of the calls
	mu     sync.Mutex      // guards the fields above
	// damaged is a stored job that cannot be decoded; 0: none.
	damaged      core.JobID
	damagedSched core.JobID // whose schedule cannot be decoded
}

// over returns a store with the faults.
func (x *faults) over(s *store.Store) *store.Store {
	with := *s
	with.Records, with.Jobs, with.Runs = records{s.Records, x}, jobs{s.Jobs, x}, runs{s.Runs, x}
	with.Queue = hook.Queue{Queue: s.Queue, DoEnqueue: func(ctx context.Context, out []ring.Out) []error {
		return many(x, "enqueue", out, func() []error { return s.Queue.Enqueue(ctx, out) })
	}}
	return &with
}

func (x *faults) next(op string) fault {
	if op == "" {
		return fault{}
	}
	x.mu.Lock()
	x.calls[op]++
	x.order = append(x.order, op)
	var f fault
	if list := x.faults[op]; len(list) > 0 {
		f, x.faults[op] = list[0], list[1:]
	}
	x.mu.Unlock()
	if f.between != nil {
		f.between()
	}
	return f
}

func many[T any](x *faults, op string, items []T, do func() []error) []error {
	f := x.next(op)
	var errs []error
	if f.err == nil || f.done {
		errs = do()
	}
	if f.err == nil {
		return errs
	}
	return slices.Repeat([]error{f.err}, len(items))
}

type (
	records struct {
		store.Records
		x *faults
	}
	jobs struct {
		store.Jobs
		x *faults
	}
	runs struct {
		store.Runs
		x *faults
	}
)

func (s records) Get(ctx context.Context, keys ...store.Key) (map[store.Key]store.Record, error) {
	op := map[string]string{"permit": "permits", store.KindApp: "apps"}[kind(keys[0])]
	switch f := s.x.next(op); {
	case f.err == nil:
	case op == "apps":
		found := map[store.Key]store.Record{}
		for _, k := range keys {
			found[k] = store.Record{Key: k, V: 1, Err: f.err}
		}
		return found, nil
	default:
		return nil, f.err
	}
	return s.Records.Get(ctx, keys...)
}

func (s records) Write(ctx context.Context, groups ...store.Group) []error {
	op := map[string]string{"permit": "put permits", "journal": "journal", "skip": "skips", "revisit": "revisits",
		store.CursorKey.Kind: "cursor"}[kind(groups[0].Writes[0].Key)]
	return many(s.x, op, groups, func() []error { return s.Records.Write(ctx, groups...) })
}

// kind returns the kind of a record up to the first "#".
func kind(k store.Key) string {
	is, _, _ := strings.Cut(k.Kind, "#")
	return is
}

func (s jobs) Get(ctx context.Context, part store.Part, ids []core.JobID) (map[core.JobID]store.Got[*core.Job], error) {
	op, damaged := "jobs", s.x.damaged
	if part == store.Planning {
		op, damaged = "", s.x.damagedSched
	}
	fail := s.x.next(op).err
	if fail != nil && !errors.Is(fail, core.ErrThrottled) {
		return nil, fail
	}
	found, err := s.Jobs.Get(ctx, part, ids)
	for id := range found {
		switch {
		case fail != nil:
			found[id] = store.Got[*core.Job]{Err: fail}
		case id == damaged:
			found[id] = store.Got[*core.Job]{Err: errors.New("of a newer version")}
		}
	}
	return found, err
}

func (s jobs) Put(ctx context.Context, puts []store.JobPut) []error {
	op := "advance"
	if puts[0].Enter != nil {
		op = "entries"
	}
	return many(s.x, op, puts, func() []error { return s.Jobs.Put(ctx, puts) })
}

func (s jobs) Numbers(ctx context.Context, job core.JobID, n int) (int64, error) {
	if f := s.x.next("numbers"); f.err != nil {
		return 0, f.err
	}
	return s.Jobs.Numbers(ctx, job, n)
}

func (s runs) Get(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	f := s.x.next("runs")
	switch {
	case f.err == nil:
		return s.Runs.Get(ctx, ids)
	case !f.done:
		return nil, f.err
	}
	found := map[core.RunID]store.Got[*core.Run]{}
	for _, id := range ids {
		found[id] = store.Got[*core.Run]{Err: f.err}
	}
	return found, nil
}

func (s runs) Put(ctx context.Context, puts []store.RunPut) []error {
	op := "create"
	if c := puts[0].Change; c != nil && c.Ends() {
		op = "close"
	} else if c != nil {
		op = "clear owed"
	}
	return many(s.x, op, puts, func() []error { return s.Runs.Put(ctx, puts) })
}

func (s runs) Span(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	if f := s.x.next("span"); f.err != nil {
		return nil, f.err
	}
	list, err := s.Runs.Span(ctx, first, last, limit)
	for i := range list {
		if s.x.older != nil && glance.Of(ctx) != nil {
			s.x.older(&list[i])
		}
	}
	return list, err
}

// rig is a Finish over a store, with a clock that the test moves.
type rig struct {
	t *testing.T
	*faults
	s, with *store.Store // the store, and the one with faults, over which f is
	f       *finish.Finish
	clock   sync.Mutex // guards now in tests with concurrent work
	now     time.Time
	closed  []core.Run
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, now: begin, faults: &faults{faults: map[string][]fault{}, calls: map[string]int{}}}
	clock := func() time.Time {
		r.clock.Lock()
		defer r.clock.Unlock()
		return r.now
	}
	r.s = memory.Open(t, memory.Options{Now: clock})
	r.with = r.faults.over(r.s)
	r.f = finish.New(r.with, finish.Options{Now: clock, Plan: plan.Local(), Log: slog.New(slog.DiscardHandler),
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
	r.must(r.s.Jobs.Put(r.t.Context(), []store.JobPut{{Create: &j, Changes: []core.Change{{ID: 1, At: begin, App: "orders", Job: id}}}})[0])
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
	r.must(r.s.CreateRuns(r.t.Context(), []core.Run{run})[0])
	return run
}

func (r *rig) stored(id core.RunID) core.Run {
	r.t.Helper()
	found, err := store.Complete(r.s.Runs.Get(r.t.Context(), []core.RunID{id}))
	r.must(err)
	if found[id] == nil {
		r.t.Fatalf("run %d does not exist", id)
	}
	return *found[id]
}

// is returns a job as it is stored.
func (r *rig) is(id core.JobID) core.Job {
	r.t.Helper()
	found, err := store.Complete(r.s.Jobs.Get(r.t.Context(), store.Whole, []core.JobID{id}))
	r.must(err)
	if found[id] == nil {
		return core.Job{}
	}
	return *found[id]
}

func (r *rig) sched(id core.JobID) core.Sched { return r.is(id).Sched }

func (r *rig) deleteJob(seen int64, t core.Tombstone, c core.Change) error {
	return r.s.Jobs.Put(r.t.Context(), []store.JobPut{{Delete: &store.JobDelete{Seen: seen, Tombstone: t}, Changes: []core.Change{c}}})[0]
}

// drop removes runs.
func (r *rig) drop(list ...core.Run) {
	r.t.Helper()
	for i := range list {
		r.must(r.s.Runs.Put(r.t.Context(), []store.RunPut{{Drop: &list[i]}})[0])
	}
}

func (r *rig) end(res finish.Result) error {
	r.t.Helper()
	return r.f.End(r.t.Context(), []finish.Result{res})[0]
}

// numbered returns all runs of a job that have a record of their own: its retries.
func (r *rig) numbered(job core.JobID) []core.Run {
	r.t.Helper()
	first, last := core.NumberedRange(job)
	list, err := r.s.Runs.Span(r.t.Context(), first, last, 100)
	r.must(err)
	return list
}

// messages receives the ring's messages of a kind that are due within an hour.
func (r *rig) messages(kind ring.Kind) []ring.Message {
	r.t.Helper()
	before := r.now
	r.now = r.now.Add(time.Hour)
	defer func() { r.now = before }()
	due, waiting, _, err := r.s.Queue.Depth(r.t.Context(), kind)
	r.must(err)
	if due+waiting == 0 {
		return nil
	}
	got, err := r.s.Queue.Receive(r.t.Context(), kind, 100)
	r.must(err)
	var out []ring.Message
	for _, d := range got {
		out = append(out, d.Message)
	}
	for _, err := range r.s.Queue.Ack(r.t.Context(), got) {
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
