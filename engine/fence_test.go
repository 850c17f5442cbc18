package engine_test

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestFenced: the first planner pass binds the data to its deployment. From then on, writes of other deployments fail.
func TestFenced(t *testing.T) {
	ctx := t.Context()
	data := memory.Open(t, memory.Options{})
	here, there := engine.Fenced(data, "eu-central-1/state"), engine.Fenced(data, "eu-west-1/state")
	all := func(e *engine.Engine) map[string]error {
		errs := map[string]error{}
		_, errs["dispatch"] = e.Dispatch.Global(ctx)
		_, errs["finish"] = e.Store.Global(ctx)
		_, errs["manage"] = e.Manage.Global(ctx)
		_, errs["numbers of a retry"] = e.Store.RunNumbers(ctx, 1, 1)
		_, errs["numbers of a trigger"] = e.Manage.Numbers(ctx, 1, 1)
		_, errs["numbers of jobs"] = e.Manage.NewJobIDs(ctx, 1)
		_, errs["tick"] = e.Tick.Global(ctx)
		return errs
	}
	work := func(e *engine.Engine, can bool) {
		t.Helper()
		for what, err := range all(e) {
			if (err == nil) != can || !can && core.CodeOf(err) != core.CodeRefused {
				t.Errorf("%s: %v; it may: %t", what, err, can)
			}
		}
	}
	work(here, true) // unowned data, bound at the latest by its first planner pass
	g, err := data.Tick.Global(ctx)
	if err != nil || g.Holder != "eu-central-1/state" || g.Generation != 1 {
		t.Fatalf("%+v, %v", g, err)
	}
	work(here, true)
	work(there, false)
	put := func(change func(*core.Global)) {
		t.Helper()
		seen := g.Rev
		change(&g)
		g.Rev++
		check.OK(t, data.Manage.PutGlobal(ctx, seen, g))
	}
	put(func(g *core.Global) { g.Holder, g.Opening = "eu-west-1/state", true })
	work(here, false)
	work(there, false)
	put(func(g *core.Global) { g.Opening = false })
	work(here, false)
	work(there, true)
	put(func(g *core.Global) { g.Holder = core.Nobody })
	work(here, false)
	work(there, false)
	// The data of a local file is never bound to a deployment.
	file := memory.Open(t, memory.Options{})
	work(engine.Fenced(file, ""), true)
	if g, err := file.Tick.Global(ctx); err != nil || g.Holder != "" {
		t.Errorf("%+v, %v", g, err)
	}
}

// TestFencedDispatch: messages of another deployment stay unchanged: no run is claimed or sent, and no message is released
// or acknowledged.
func TestFencedDispatch(t *testing.T) {
	ctx := t.Context()
	data := memory.Open(t, memory.Options{})
	check.OK(t, data.Manage.PutGlobal(ctx, 0, core.Global{Partitions: 1, Readable: 1, Holder: "eu-west-1/state", Generation: 2,
		Rev: 1}))
	check.OK(t, data.Manage.PutApp(ctx, 0, core.App{Name: "shop", Rev: 1}, core.Change{ID: 1, App: "shop"}))
	job := core.Job{Def: core.Def{ID: 1, App: "shop", Name: "a"}, Sched: core.Sched{ID: 1, App: "shop", State: core.Started, Rev: 1}}
	check.OK(t, data.Manage.CreateJobs(ctx, []core.Job{job}, nil)[0])
	at := core.InstantOf(time.Now())
	id := core.PlannedRun(1, at)
	m := ring.Message{Kind: ring.KindFires, Slot: at, Fires: []core.Fire{{Run: id, Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}}}
	for _, c := range []struct {
		who  string
		acks bool
	}{{"eu-central-1/state", false}, {"eu-west-1/state", true}} {
		who, acks := c.who, c.acks
		e := engine.Fenced(data, who)
		end := finish.New(e.Store, finish.Options{Plan: plan.AWS()})
		v := dispatch.New(e.Store, nil, end, dispatch.Options{MaxAhead: plan.AWS().MaxAhead}).Handle(ctx, []ring.Message{m})
		due, waiting, _, err := data.Queue.Depth(ctx, ring.KindFires)
		runs, _, rerr := data.Dispatch.Runs(ctx, []core.RunID{id})
		if err != nil || rerr != nil || v[0].Ack != acks || !acks &&
			(due+waiting > 0 || len(runs) > 0 || core.CodeOf(v[0].Err) != core.CodeRefused) {
			t.Errorf("%s: %+v, %d and %d messages, %d runs, %v", who, v[0], due, waiting, len(runs), err)
		}
	}
}

// TestFencedLeavesNothingBehind: an inactive deployment does not enqueue the follow-ups of an ended run. There they would
// wait, and the active deployment would consider them sent.
func TestFencedLeavesNothingBehind(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		who string
		may bool
	}{{"eu-central-1/state", false}, {"eu-west-1/state", true}} {
		now := time.Now()
		data := memory.Open(t, memory.Options{})
		check.OK(t, data.Manage.PutGlobal(ctx, 0, core.Global{Partitions: 1, Readable: 1, Holder: "eu-west-1/state", Generation: 2,
			Rev: 1}))
		e := engine.Fenced(data, c.who)
		end := finish.New(e.Store, finish.Options{Plan: plan.AWS()})
		retry := core.NumberedRun(1, 7)
		first := core.Run{ID: core.PlannedRun(1, core.InstantOf(now)), App: "shop", State: core.Failed, Cause: core.CauseSchedule,
			Reason: core.ReasonHandler, Attempt: 1, EndedAt: now, Then: retry,
			Owes: []core.Owed{{Run: retry, Kind: core.CauseRetry, Slot: core.InstantOf(now)}}}
		check.OK(t, data.Finish.Create(ctx, []core.Run{first})[0])
		ended := end.End(ctx, []finish.Result{{Run: first.ID, State: core.Failed, At: now}})[0] // its second callback
		due, waiting, _, err := data.Queue.Depth(ctx, ring.KindFires)
		runs, _, rerr := data.Dispatch.Runs(ctx, []core.RunID{first.ID, retry})
		if err != nil || rerr != nil {
			t.Fatal(err, rerr)
		}
		_, made := runs[retry]
		if owes := len(runs[first.ID].Owes) > 0; owes == c.may || made != c.may || (ended == nil) != c.may || (due+waiting > 0) != c.may {
			t.Errorf("%s: ended %v, it owes: %t, the retry is made: %t, %d messages", c.who, ended, owes, made, due+waiting)
		}
	}
}
