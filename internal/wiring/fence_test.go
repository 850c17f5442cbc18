package wiring_test

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
)

// fenced calls test for a deployment that does not own the data, and for the owner. The data has one job, with ID 1.
func fenced(t *testing.T, test func(t *testing.T, e *store.Store, a *wiring.Assembly, may bool)) {
	for who, may := range map[string]bool{"eu-central-1/state": false, "eu-west-1/state": true} {
		t.Run(who, func(t *testing.T) {
			ctx, e := t.Context(), memory.Open(t, memory.Options{})
			check.OK(t, e.PutGlobal(ctx, 0, core.Global{Partitions: 1, Readable: 1, Holder: "eu-west-1/state", Generation: 2, Rev: 1}))
			check.OK(t, e.PutApp(ctx, 0, core.App{Name: "shop", Rev: 1}, core.Change{ID: 1, App: "shop"}))
			check.Call(t)(e.JobIDs(ctx, 1))
			job := core.Job{Def: core.Def{ID: 1, App: "shop", Name: "a"},
				Sched: core.Sched{ID: 1, App: "shop", State: core.Started, Rev: 1}}
			check.OK(t, e.Jobs.Put(ctx, []store.JobPut{{Create: &job}})[0])
			test(t, e, wiring.New(e, wiring.Options{Plan: plan.AWS(), Deployment: who}), may)
		})
	}
}

// messages returns how many runs are on the delay queue.
func messages(t *testing.T, e *store.Store) int {
	t.Helper()
	due, waiting, _, err := e.Queue.Depth(t.Context(), ring.KindFires)
	check.OK(t, err)
	return due + waiting
}

// TestFencedDispatch: messages of another deployment stay unchanged: no run is claimed or sent, and no message is released
// or acknowledged.
func TestFencedDispatch(t *testing.T) {
	fenced(t, func(t *testing.T, e *store.Store, a *wiring.Assembly, may bool) {
		at := core.InstantOf(time.Now())
		id := core.PlannedRun(1, at)
		m := ring.Message{Kind: ring.KindFires, Slot: at, Fires: []core.Fire{{Run: id, Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}}}
		v := a.Dispatcher(nil, dispatch.Options{}).Handle(t.Context(), []ring.Message{m})[0]
		n, stored := messages(t, e), memory.Run(t, e, id).ID != 0
		if v.Ack != may || !may && (n > 0 || stored || core.CodeOf(v.Err) != core.CodeRefused) {
			t.Errorf("%+v, %d messages, the run is stored: %t", v, n, stored)
		}
	})
}

// TestFencedFollowUps: an inactive deployment does not enqueue the follow-ups of an ended run. There they would wait, and
// the active deployment would consider them sent.
func TestFencedFollowUps(t *testing.T) {
	fenced(t, func(t *testing.T, e *store.Store, a *wiring.Assembly, may bool) {
		now := time.Now()
		retry := core.NumberedRun(1, 7)
		first := core.Run{ID: core.PlannedRun(1, core.InstantOf(now)), App: "shop", State: core.Failed, Cause: core.CauseSchedule,
			Reason: core.ReasonHandler, Attempt: 1, EndedAt: now, Then: retry,
			Owes: []core.Owed{{Run: retry, Kind: core.CauseRetry, Slot: core.InstantOf(now)}}}
		check.OK(t, e.CreateRuns(t.Context(), []core.Run{first})[0])
		ended := a.Finish.End(t.Context(), []finish.Result{{Run: first.ID, State: core.Failed, At: now}})[0] // its second callback
		n, owes, made := messages(t, e), len(memory.Run(t, e, first.ID).Owes) > 0, memory.Run(t, e, retry).ID != 0
		if owes == may || made != may || (ended == nil) != may || (n > 0) != may {
			t.Errorf("ended %v, it owes: %t, the retry is made: %t, %d messages", ended, owes, made, n)
		}
	})
}

// TestFencedParts: the other parts of an inactive deployment plan, create and send nothing.
func TestFencedParts(t *testing.T) {
	fenced(t, func(t *testing.T, e *store.Store, a *wiring.Assembly, may bool) {
		ctx, actor := t.Context(), core.Actor{Name: "ann"}
		errs, m := map[string]error{}, a.People(nil, people.Options{})
		_, errs["planner pass"] = a.Ticker(tick.Options{ID: "a"}).Pass(ctx)
		_, errs["pass of notifications"] = a.Notices(nil, notification.Options{}).Pass(ctx)
		_, errs["trigger"] = m.Trigger(ctx, actor, operate.TriggerRequest{Job: "1"})
		errs["new job"] = m.Save(ctx, actor, []manage.JobSpec{{Def: core.Def{App: "shop", Name: "b", Handler: "h"}}})[0].Err
		for what, err := range errs {
			if (err == nil) != may || !may && core.CodeOf(err) != core.CodeRefused {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := messages(t, e); (n > 0) != may {
			t.Errorf("%d messages", n)
		}
	})
}
