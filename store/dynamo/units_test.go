package dynamo_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// cost checks how many units a call writes.
func (f *fakes) cost(t *testing.T, what string, table, index float64, do func()) {
	t.Helper()
	f.db.Units()
	do()
	u := f.db.Units()
	if u.Write != table || u.Index != index {
		t.Errorf("%s: %v units of the table and %v of the index, want %v and %v; requests %v", what, u.Write, u.Index, table, index, u.Requests)
	}
}

// seen is the end of a run that was read.
func seen(end core.RunPut, r *core.Run) core.RunPut {
	end.Seen = r
	return end
}

// TestUnits checks the cost of each step of a run.
func TestUnits(t *testing.T) {
	for _, size := range []int{0, 64 << 10} {
		t.Run(fmt.Sprintf("%d bytes of params", size), func(t *testing.T) {
			f := newFakes(t, dynamo.Options{})
			s, ctx := f.store, t.Context()
			j := oneJob(1)
			j.Def.Params = strings.Repeat("p", size)
			j.Sched.Schedule.Any[0].Expr = "0 0/5 8-18 ? * MON-FRI"
			j.Sched.Schedule.Timezone = "America/Argentina/Buenos_Aires"
			f.create(t, j)
			if _, _, err := getJobs(ctx, s, store.Whole, []core.JobID{1}); err != nil { // as dispatch does
				t.Fatal(err)
			}
			a := j.Sched.Stay()
			a.NewNext, a.NewPlanAt, a.NewSeq = a.NewNext+600, a.NewPlanAt+600, 10
			f.cost(t, "an advance", 1, 2, func() { ok(t, s.Advance(ctx, []core.Advance{a})...) })
			f.cost(t, "an advance that is refused", 1, 0, func() {
				if err := s.Advance(ctx, []core.Advance{a})[0]; err == nil {
					t.Error("it was not refused")
				}
			})
			id := core.PlannedRun(1, core.InstantOf(base))
			r := oneRun(id)
			f.cost(t, "a claim", 1, 0, func() { ok(t, s.CreateRuns(ctx, []core.Run{r})...) })
			f.cost(t, "an end", 1, 0, func() {
				ok(t, s.ChangeRuns(ctx, []core.RunPut{seen(core.End(id, core.Run{State: core.Succeeded, Code: 200, Message: strings.Repeat("m", 300),
					EndedAt: base}), &r)})...)
			})
			journal := core.Journal{Key: r.Journal, V: 1}
			for i := range 50 {
				journal.Entries = append(journal.Entries, core.Entry{Run: core.PlannedRun(core.JobID(i+1), 1_000_000),
					Address: fmt.Sprintf("http://10.0.0.%d:9999/", i%5), Outcome: core.Accepted})
			}
			f.cost(t, "a journal of 50", 1, 0, func() { ok(t, s.PutJournal(ctx, journal)) })
		})
	}
}

// TestLongAnswersUnits: long answers of addresses are written beside the run, for one unit, not with it in a transaction,
// for three.
func TestLongAnswersUnits(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	s, ctx := f.store, t.Context()
	r := oneRun(core.PlannedRun(1, core.InstantOf(base)))
	ok(t, s.CreateRuns(ctx, []core.Run{r})...)
	answered := []core.Try{{Address: r.Address, Code: 500, Message: strings.Repeat("m", 400)}}
	f.cost(t, "a failover", 2, 0, func() {
		p := r.Readdress("http://10.0.0.9:9999/", answered)
		ok(t, s.ChangeRuns(ctx, []core.RunPut{p})...)
		p.Apply(&r)
	})
	if found, _, err := getRuns(ctx, s, []core.RunID{r.ID}); err != nil || !reflect.DeepEqual(found[r.ID].Tries, answered) {
		t.Errorf("tries %+v, %v", found[r.ID].Tries, err)
	}
	r.Owner = "nonce-x"
	f.cost(t, "a failover that is refused", 1, 0, func() {
		if err := s.ChangeRuns(ctx, []core.RunPut{r.Readdress("http://10.0.0.8:9999/", answered)})[0]; err == nil {
			t.Error("it was not refused")
		}
	})
}

// TestChoiceUnits: storing the addresses that a route chose from adds no cost to a claim or any later step.
func TestChoiceUnits(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	s, ctx := f.store, t.Context()
	var list []string
	for i := range 100 {
		list = append(list, fmt.Sprintf("h%d:9", i))
	}
	r := oneRun(core.PlannedRun(1, core.InstantOf(base)))
	r.Address = list[50]
	r.Tries = core.ChosenFrom(core.RouteRandom, r.Address, list)
	f.cost(t, "a claim", 1, 0, func() { ok(t, s.CreateRuns(ctx, []core.Run{r})...) })
	f.cost(t, "an end", 1, 0, func() {
		ok(t, s.ChangeRuns(ctx, []core.RunPut{seen(core.End(r.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base}), &r)})...)
	})
	if found, _, err := getRuns(ctx, s, []core.RunID{r.ID}); err != nil || !reflect.DeepEqual(found[r.ID].Tries, r.Tries) {
		t.Errorf("chosen from %+v, %v", found[r.ID].Tries, err)
	}
}

// TestBatches: claims, ends and advances travel 25 to a request.
func TestBatches(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	s, ctx := f.store, t.Context()
	var jobs []core.Job
	for i := range 50 {
		jobs = append(jobs, oneJob(core.JobID(i+1)))
	}
	f.create(t, jobs...)
	var runs []core.Run
	var ends []core.RunPut
	var moves []core.Advance
	for i := range jobs {
		r := oneRun(core.PlannedRun(jobs[i].Def.ID, core.InstantOf(base)))
		runs, ends = append(runs, r), append(ends, seen(core.End(r.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base}), &r))
		a := jobs[i].Sched.Stay()
		a.NewNext++
		a.NewPlanAt++
		moves = append(moves, a)
	}
	for what, do := range map[string]func() []error{
		"claims": func() []error { return s.CreateRuns(ctx, runs) }, "advances": func() []error { return s.Advance(ctx, moves) },
	} {
		f.db.Units()
		ok(t, do()...)
		if u := f.db.Units(); u.Requests["BatchExecuteStatement"] != 2 || len(u.Requests) != 1 {
			t.Errorf("50 %s took %v", what, u.Requests)
		}
	}
	f.db.Units()
	ok(t, s.ChangeRuns(ctx, ends)...)
	if u := f.db.Units(); u.Requests["BatchExecuteStatement"] != 2 || u.Requests["BatchGetItem"] != 2 { // how long their jobs keep runs
		t.Errorf("50 ends took %v", u.Requests)
	}
}

// TestIdleTick: a planner pass with nothing due writes only its lease.
func TestIdleTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, dynamo.Options{})
		s, ctx := f.store, t.Context()
		j := oneJob(1)
		j.Sched.PlanAt = core.InstantOf(time.Now()) + 1_000_000_000
		f.create(t, j)
		ok(t, s.PutGlobal(ctx, 0, core.Global{Partitions: 1, Readable: 1, Rev: 1}))
		const leaseFor, passes = 45 * time.Second, 90
		o := plan.Local()
		ticker := tick.New(s.Store, tick.Options{ID: "a", Plan: o, LeaseFor: leaseFor, RenewEvery: leaseFor / 3})
		leases := map[string]int{}
		f.db.Faults = func(_ context.Context, c fakeaws.Call) fakeaws.Fault {
			if c.Write {
				leases[c.Op]++
			}
			return fakeaws.Fault{}
		}
		f.db.Units()
		f.sqs.Units()
		for range passes {
			check.Call(t)(ticker.Pass(ctx))
			<-time.After(time.Second)
		}
		u := f.db.Units()
		// The lease of the partition, and the sign of life of the ticker.
		if most := float64(2 * (passes/15 + 1)); u.Write > most || u.Index != 0 || len(leases) != 1 || leases["PutItem"] == 0 {
			t.Errorf("%d passes wrote %v and %v units (at most %v): %v", passes, u.Write, u.Index, most, leases)
		}
		if q := f.sqs.Units(); len(q.Requests) != 0 {
			t.Errorf("%d passes asked the queues %v", passes, q.Requests)
		}
		t.Logf("%d passes: %v read units, %v write units, requests %v", passes, u.Read, u.Write, u.Requests)
	})
}
