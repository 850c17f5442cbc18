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
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/wiring"
)

// fenced calls test for a deployment that does not own the data, and for the owner. The data has one job, with ID 1.
func fenced(t *testing.T, test func(t *testing.T, e *fixture.Store, a *wiring.Assembly, may bool)) {
	for who, may := range map[string]bool{"eu-central-1/state": false, "eu-west-1/state": true} {
		t.Run(who, func(t *testing.T) {
			ctx, e := t.Context(), fixture.New(t, memory.Options{})
			e.Must(e.PutGlobal(ctx, 0, core.Global{Partitions: 1, Readable: 1, Holder: "eu-west-1/state", Generation: 2, Rev: 1}))
			e.App("shop")
			check.Call(t)(e.JobIDs(ctx, 1))
			e.Job(core.Job{Def: core.Def{ID: 1, App: "shop", Name: "a"}})
			test(t, e, wiring.New(e.Store, wiring.Options{Plan: plan.AWS(), Deployment: who}), may)
		})
	}
}

// TestFencedDispatch: messages of another deployment stay unchanged: no run is claimed or sent, and no message is released
// or acknowledged.
func TestFencedDispatch(t *testing.T) {
	fenced(t, func(t *testing.T, e *fixture.Store, a *wiring.Assembly, may bool) {
		at := core.InstantOf(time.Now())
		id := core.PlannedRun(1, at)
		m := fixture.Message(fixture.Planned(1, at))
		v := a.Dispatcher(nil, dispatch.Options{}).Handle(t.Context(), []ring.Message{m})[0]
		n, stored := e.Messages(ring.KindFires), e.Run(id).ID != 0
		if v.Ack != may || !may && (n > 0 || stored || core.CodeOf(v.Err) != core.CodeRefused) {
			t.Errorf("%+v, %d messages, the run is stored: %t", v, n, stored)
		}
	})
}

// TestFencedFollowUps: an inactive deployment does not enqueue the follow-ups of an ended run. There they would wait, and
// the active deployment would consider them sent.
func TestFencedFollowUps(t *testing.T) {
	fenced(t, func(t *testing.T, e *fixture.Store, a *wiring.Assembly, may bool) {
		now := time.Now()
		retry := core.NumberedRun(1, 7)
		first := core.Run{ID: core.PlannedRun(1, core.InstantOf(now)), App: "shop", State: core.Failed, Cause: core.CauseSchedule,
			Reason: core.ReasonHandler, Attempt: 1, EndedAt: now, Then: retry,
			Owes: []core.Owed{{Run: retry, Kind: core.CauseRetry, Slot: core.InstantOf(now)}}}
		e.Create(first)
		ended := a.Finish.End(t.Context(), []finish.Result{{Run: first.ID, State: core.Failed, At: now}})[0] // its second callback
		n, owes, made := e.Messages(ring.KindFires), len(e.Run(first.ID).Owes) > 0, e.Run(retry).ID != 0
		if owes == may || made != may || (ended == nil) != may || (n > 0) != may {
			t.Errorf("ended %v, it owes: %t, the retry is made: %t, %d messages", ended, owes, made, n)
		}
	})
}

// TestFencedParts: the other parts of an inactive deployment plan, create and send nothing.
func TestFencedParts(t *testing.T) {
	fenced(t, func(t *testing.T, e *fixture.Store, a *wiring.Assembly, may bool) {
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
		if n := e.Messages(ring.KindFires); (n > 0) != may {
			t.Errorf("%d messages", n)
		}
	})
}
