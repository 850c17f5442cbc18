package restore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
)

var (
	ctx  = context.Background()
	made = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) // the time of the copy
)

const here = "eu-west-1/state-2"

type rig struct {
	*fixture.Store
	now time.Time
	o   restore.Options
}

// newRig returns a copy of tables that eu-central-1 used, an hour after it was made.
func newRig(t testing.TB, jobs int) *rig {
	f := &rig{now: made.Add(time.Hour)}
	f.Store = fixture.New(t, memory.Options{Now: func() time.Time { return f.now }})
	f.o = restore.Options{Deployment: here, Now: func() time.Time { return f.now }}
	f.Must(f.Alive(ctx, made.Add(30*time.Second)))
	f.Must(f.PutGlobal(ctx, 0, core.Global{Partitions: 2, Readable: 2, Holder: "eu-central-1/state", Generation: 1, Rev: 1}))
	if jobs == 0 {
		return f
	}
	f.App("shop")
	first, err := f.JobIDs(ctx, jobs)
	f.Must(err)
	for id := first; id < first+core.JobID(jobs); id++ {
		j := core.Job{Def: core.Def{ID: id, App: "shop", Name: fmt.Sprintf("job-%d", id)}}
		j.Sched.Rev, j.Sched.RevAt = 1, made
		f.Job(j)
	}
	return f
}

func (f *rig) restorer() *restore.Restorer { return restore.New(f.Store.Store, f.o) }

func (f *rig) do(req restore.Request) restore.Result {
	f.T.Helper()
	req.By = "ann"
	res, err := f.restorer().Do(ctx, req)
	f.Must(err)
	return res
}

func (f *rig) admitted(deployment string) error {
	f.T.Helper()
	g, err := f.Global(ctx)
	f.Must(err)
	return g.Admits(deployment)
}

// TestLifts checks that IDs that may have been allocated after the copy are not allocated again.
func TestLifts(t *testing.T) {
	f := newRig(t, 1)
	_, err := f.RunNumbers(ctx, 1, 7)
	f.Must(err)
	res := f.do(restore.Request{})
	if want := made.Add(-30 * time.Second); !res.From.Equal(want) || res.LiftJobs != 100_000+100*3630 || res.LiftRuns != 10_000+1000*3630 ||
		res.Next != 0 || res.Generation != 2 {
		t.Errorf("%+v; from %s", res, want)
	}
	if id, err := f.JobIDs(ctx, 1); err != nil || int(id) != 1+res.LiftJobs+1 {
		t.Errorf("the next job has the number %d, %v", id, err)
	}
	if n, err := f.RunNumbers(ctx, 1, 1); err != nil || int(n) != 7+res.LiftRuns+1 {
		t.Errorf("the next run has the number %d, %v", n, err)
	}
	again := f.do(restore.Request{Again: true, LiftJobs: 5, LiftRuns: 3})
	if again.LiftJobs != 5 || again.LiftRuns != 3 || again.Generation != 3 {
		t.Errorf("%+v", again)
	}
}

func TestLiftBounds(t *testing.T) {
	for _, c := range []struct {
		span       time.Duration
		jobs, runs int
	}{
		{0, 100_000, 10_000}, {-time.Hour, 100_000, 10_000}, {time.Minute, 106_000, 70_000}, {400 * 24 * time.Hour, 1 << 24, 1 << 27},
	} {
		if jobs, runs := restore.IDsIssuedIn(c.span); jobs != c.jobs || runs != c.runs {
			t.Errorf("%s: %d jobs, %d runs; want %d, %d", c.span, jobs, runs, c.jobs, c.runs)
		}
	}
}

// TestUsedUp checks that a job without run numbers is listed, and that a store without job IDs is rejected.
func TestUsedUp(t *testing.T) {
	f := newRig(t, 2)
	_, err := f.RunNumbers(ctx, 2, core.MaxNumber-1000)
	f.Must(err)
	if res := f.do(restore.Request{}); !slices.Equal(res.Full, []core.JobID{2}) {
		t.Errorf("full: %v", res.Full)
	}
	_, err = f.JobIDs(ctx, 1<<31-700_000)
	f.Must(err)
	_, err = f.restorer().Do(ctx, restore.Request{By: "ann", Again: true})
	golden.New(t).Equal(t, "no job numbers", fmt.Sprint(err))
	if f.admitted(here) == nil {
		t.Error("it works all the same")
	}
}

// TestGenerations checks that no deployment works during a restore, and only the new one afterwards.
func TestGenerations(t *testing.T) {
	f := newRig(t, 250)
	f.Must(f.PutLease(ctx, core.Lease{}, core.Lease{Name: "partition/0", Owner: "old", Epoch: 4, Until: f.now.Add(time.Minute)}))
	if f.admitted(here) == nil || f.admitted("eu-central-1/state") != nil {
		t.Fatal("a copy is its new deployment's before it was restored")
	}
	f.o.Budget = time.Millisecond
	tick := f.now
	f.o.Now = func() time.Time { tick = tick.Add(100 * time.Microsecond); return tick }
	jobs, calls := 0, 0
	for req := (restore.Request{}); ; calls++ {
		res := f.do(req)
		jobs += res.Jobs
		if res.Next == 0 {
			break
		}
		for _, who := range []string{here, "eu-central-1/state", ""} {
			if err := f.admitted(who); err == nil {
				t.Fatalf("%q may work while it is being restored", who)
			}
		}
		req.After, req.From = res.Next, res.From
	}
	if jobs != 250 || calls < 2 {
		t.Errorf("%d jobs in %d calls", jobs, calls+1)
	}
	if err := f.admitted(here); err != nil || f.admitted("eu-central-1/state") == nil {
		t.Errorf("after it: %v", err)
	}
	if list, err := f.Leases(ctx); err != nil || len(list) > 0 {
		t.Errorf("leases %+v, %v", list, err)
	}
	g, err := f.Global(ctx)
	if err != nil || !g.DownAt.Equal(made.Add(-30*time.Second)) || g.UpSince.Before(f.now) || g.Partitions != 2 {
		t.Errorf("%+v, %v: executors are to have time to beat again", g, err)
	}
	list, err := f.Changes(ctx, "", 0, math.MaxInt64, 2)
	if err != nil || len(list) != 2 || list[0].Verb != core.VerbRestored || list[1].Verb != core.VerbFenced || list[0].By != "ann" {
		t.Errorf("changes %+v, %v", list, err)
	}
}

// TestRuns checks that every open run is due again or in a journal, and so are pending follow-ups of ended
// runs.
func TestRuns(t *testing.T) {
	f := newRig(t, 1)
	run := func(n uint32, state core.State, change func(*core.Run)) core.RunID {
		r := fixture.Trigger("shop", core.NumberedRun(1, n), core.InstantOf(made))
		r.State = state
		if change != nil {
			change(&r)
		}
		f.Create(r)
		return r.ID
	}
	owned := func(r *core.Run) { r.Owner, r.Until, r.Address = "old", made.Add(time.Second), "http://10.0.0.1:9999/" }
	waits := run(1, core.Planned, nil)
	far := run(2, core.Planned, func(r *core.Run) { r.Slot = core.InstantOf(f.now.Add(time.Hour)) })
	back := run(3, core.Planned, func(r *core.Run) { r.MaybeSent, r.Address = true, "http://10.0.0.1:9999/" })
	claimed := run(4, core.Running, owned)
	run(5, core.Succeeded, owned)
	owing := run(6, core.Failed, func(r *core.Run) {
		r.Reason, r.Owes = core.ReasonHandler, []core.Owed{{Run: core.NumberedRun(1, 9), Kind: core.CauseRetry, Slot: core.InstantOf(made)}}
	})
	planned := func(before time.Duration, state core.State) core.RunID {
		at := core.InstantOf(made.Add(-before))
		r := core.Run{ID: core.PlannedRun(1, at), App: "shop", State: state, Cause: core.CauseSchedule, At: at, Slot: at, Attempt: 1,
			First: core.PlannedRun(1, at)}
		f.Create(r)
		return r.ID
	}
	given := planned(time.Minute, core.Planned)  // released, its message is lost
	queued := planned(72*time.Hour, core.Queued) // it waits for a concurrency slot

	res := f.do(restore.Request{From: made})
	if res.Waiting != 5 || res.Watched != 1 || res.Owing != 1 {
		t.Errorf("%+v", res)
	}
	due := map[core.RunID]core.Instant{}
	for p := range 2 {
		list, err := f.Jobs.Due(ctx, p, core.InstantOf(f.now.Add(2*time.Hour)), core.DueItem{}, 100)
		f.Must(err)
		for _, d := range list {
			if d.Run != 0 {
				due[d.Run] = d.PlanAt
			}
		}
	}
	now := core.InstantOf(f.now)
	for _, c := range []struct {
		run core.RunID
		at  core.Instant
	}{{waits, now}, {back, now}, {given, now}, {queued, now}, {far, now + 3600 - 210}} {
		check.Equal(t, due[c.run], c.at, "run %d is due at", c.run)
	}
	check.Equal(t, len(due), 5, "entries")
	journals, err := f.JournalsAt(ctx, f.now.Unix()/60, core.JournalKey{}, 1000)
	f.Must(err)
	seen := map[core.RunID]core.Outcome{}
	for _, j := range journals {
		for _, e := range j.Entries {
			seen[e.Run] = e.Outcome
		}
	}
	if len(seen) != 2 || seen[claimed] != core.Unconfirmed || seen[owing] != core.Accepted {
		t.Errorf("the watchdog gets %v", seen)
	}
}

func TestRefusals(t *testing.T) {
	f := newRig(t, 1)
	for _, c := range []struct {
		req  restore.Request
		code core.Code
	}{
		{restore.Request{}, core.CodeInvalid},
		{restore.Request{By: "ann", From: f.now.Add(time.Second)}, core.CodeInvalid},
		{restore.Request{By: "ann", From: f.now.Add(-401 * 24 * time.Hour)}, core.CodeInvalid},
		{restore.Request{By: "ann", LiftJobs: -1}, core.CodeInvalid},
		{restore.Request{By: "ann", LiftJobs: 1 << 30}, core.CodeInvalid},
		{restore.Request{By: "ann", LiftRuns: 1<<30 + 1}, core.CodeInvalid},
		{restore.Request{By: "ann", After: 3}, core.CodeConflict},
	} {
		if _, err := f.restorer().Do(ctx, c.req); core.CodeOf(err) != c.code || err == nil {
			t.Errorf("%+v: %v, want %s", c.req, err, c.code)
		}
	}
	if g, err := f.Global(ctx); err != nil || g.Generation != 1 {
		t.Errorf("%+v, %v: a rejected request changed something", g, err)
	}
	f.do(restore.Request{})
	if _, err := f.restorer().Do(ctx, restore.Request{By: "ann"}); core.CodeOf(err) != core.CodeConflict {
		t.Errorf("a deployment restores its own tables: %v", err)
	}
	empty := &rig{Store: fixture.New(t, memory.Options{}), now: made, o: f.o}
	if _, err := empty.restorer().Do(ctx, restore.Request{By: "ann"}); core.CodeOf(err) != core.CodeInvalid {
		t.Errorf("nothing ever worked, and no moment is given: %v", err)
	}
}

// TestFence checks that a fence keeps all deployments out until a takeover.
func TestFence(t *testing.T) {
	f := newRig(t, 1)
	for range 2 {
		if g, err := f.restorer().Fence(ctx, "ann"); err != nil || g.Holder != core.Nobody || g.Generation != 1 {
			t.Fatalf("%+v, %v", g, err)
		}
	}
	if f.admitted("eu-central-1/state") == nil || f.admitted(here) == nil {
		t.Error("a process may work behind a fence")
	}
	f.do(restore.Request{})
	check.NoError(t, f.admitted(here))
}

// failing makes the nth call of an interface of the store fail, before or after it happened.
type failing struct {
	left  int
	after bool
}

var errLost = errors.New("no answer")

// do makes a call, which x counts.
func (x *failing) do(_ context.Context, _ *hook.Call, next func() []error) []error {
	if x.left--; x.left == 0 && !x.after {
		return []error{errLost}
	}
	errs := next()
	if x.left == 0 {
		return hook.Fail(errLost, len(errs))
	}
	return errs
}

// TestEveryFault checks that no deployment works on a partial restore, whichever call fails, and that the
// same request completes it.
func TestEveryFault(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			f := newRig(t, 2)
			f.Must(f.PutLease(ctx, core.Lease{}, core.Lease{Name: "partition/0", Owner: "old", Epoch: 4, Until: f.now}))
			id := core.NumberedRun(2, 1)
			f.Create(fixture.Trigger("shop", id, core.InstantOf(made)))
			x := &failing{n, after}
			r := restore.New(hook.Over(f.Store.Store, x.do), f.o)
			res, err := r.Do(ctx, restore.Request{By: "ann"})
			if err == nil {
				if x.left > 0 {
					break // there are fewer calls
				}
			} else {
				g, gerr := f.Global(ctx)
				f.Must(gerr)
				done := g.Holder == here && !g.Opening
				if f.admitted(here) == nil && !done {
					t.Fatalf("call %d: half restored, and it works", n)
				}
				// If only the last answer was lost, the restore is already complete.
				if res, err = r.Do(ctx, restore.Request{By: "ann", Again: done}); err != nil {
					t.Fatalf("call %d, again: %v", n, err)
				}
			}
			if err := f.admitted(here); err != nil || res.Next != 0 {
				t.Fatalf("call %d: %v, %+v", n, err, res)
			}
			if first, err := f.RunNumbers(ctx, 2, 1); err != nil || int(first) <= res.LiftRuns {
				t.Fatalf("call %d: the next run has the number %d, %v", n, first, err)
			}
			list, err := f.Jobs.Due(ctx, core.PartitionOf(2, 2), core.InstantOf(f.now), core.DueItem{}, 10)
			if err != nil || len(list) == 0 || list[0].Run != id {
				t.Fatalf("call %d: the run that waited is not due: %+v, %v", n, list, err)
			}
		}
	}
}

// TestRestoreWithoutRunsSendsNoneAgain checks that jobs are recorded as cleaned up to the time of the copy if
// the table of runs is lost. Earlier runs then do not count as missing.
func TestRestoreWithoutRunsSendsNoneAgain(t *testing.T) {
	for lost, want := range map[bool]core.Instant{true: core.InstantOf(made), false: 0} {
		f := newRig(t, 2)
		f.do(restore.Request{From: made, RunsLost: lost})
		for job := range core.JobID(2) {
			if upTo, err := f.Cleaned(ctx, job+1); err != nil || upTo != want {
				t.Errorf("lost %t: job %d is cleaned up to %s, %v", lost, job+1, upTo, err)
			}
		}
	}
}

// TestOldTriggerBehindMany checks that an old open trigger is found before many later ended ones.
func TestOldTriggerBehindMany(t *testing.T) {
	f := newRig(t, 1)
	run := func(n uint32, state core.State, slot time.Time) core.Run {
		r := fixture.Trigger("shop", core.NumberedRun(1, n), core.InstantOf(slot))
		r.State, r.EndedAt = state, slot
		return r
	}
	list := []core.Run{run(1, core.Planned, made.Add(time.Minute))}
	for n := range 2500 {
		list = append(list, run(uint32(n)+2, core.Succeeded, made.Add(-72*time.Hour)))
	}
	f.Create(list...)
	if res := f.do(restore.Request{}); res.Waiting != 1 {
		t.Errorf("%+v", res)
	}
	if entries, err := f.Jobs.Entries(ctx, 1); err != nil || len(entries) != 1 || entries[0].Run != list[0].ID {
		t.Errorf("%+v, %v", entries, err)
	}
}
