package dynamo_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/poller"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store/dynamo"
)

// executors accept each run, which ends 200 ms later. They report ends like the SDK: one request at a time, with all ends
// that wait.
type executors struct {
	dispatch.Sender
	t         *testing.T
	callback  *callback.Callback
	busy      sync.WaitGroup
	mu        sync.Mutex
	ends      []finish.Result
	reporting bool
}

func (e *executors) Send(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
	e.busy.Go(func() {
		time.Sleep(200 * time.Millisecond)
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.ends = append(e.ends, finish.Result{Run: s.Run.ID, State: core.Succeeded, Code: 200}); e.reporting {
			return
		}
		for e.reporting = true; len(e.ends) > 0; {
			ends := e.ends
			e.ends = nil
			e.mu.Unlock()
			time.Sleep(5 * time.Millisecond) // the way of the request
			ok(e.t, e.callback.Callback(context.Background(), callback.Caller{Token: "token"}, ends)...)
			e.mu.Lock()
		}
		e.reporting = false
	})
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}

// used has the units and requests of a run, its children and its shards, from the delivery of its message until all have ended.
type used struct {
	write, read float64
	requests    float64 // to queues, without empty receives
	batches     float64 // that dispatch received
}

// use measures a run of the first of some jobs.
func use(t *testing.T, app manage.AppSpec, specs ...manage.JobSpec) (u used) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(base))
		f := newFakes(t, dynamo.Options{})
		s, ctx := f.store, t.Context()
		a := wiring.New(s.Store, wiring.Options{Plan: plan.AWS(), Log: slog.New(slog.DiscardHandler)})
		e := &executors{t: t, callback: a.Callback(callback.Options{TokenFor: 10 * time.Second})}
		d, people := a.Dispatcher(e, dispatch.Options{}), a.People(nil, people.Options{})
		app.Name, app.Token = "orders", new("token")
		check.Call(t)(people.SaveApp(ctx, core.Actor{Name: "ann"}, app))
		saved := people.Save(ctx, core.Actor{Name: "ann"}, specs)
		for _, r := range saved {
			check.OK(t, r.Err)
		}
		at := core.InstantOf(time.Now()) + 2
		run := core.PlannedRun(saved[0].ID, at)
		f.sqs.Lose(fakeaws.Names.Fires, func(fakeaws.Message) bool { return true })
		ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: at.Time(), Message: ring.Message{Kind: ring.KindFires, Slot: at,
			Fires: []core.Fire{{Run: run, Rev: saved[0].Rev, At: at, Slot: at, Cause: core.CauseSchedule}}}}})...)
		f.db.Units()
		f.sqs.Units()
		ctx, stop := context.WithCancel(ctx)
		e.busy.Go(func() {
			for ctx.Err() == nil {
				got, err := s.Queue.Receive(ctx, ring.KindFires, 5)
				if err != nil || len(got) == 0 {
					continue
				}
				u.batches++
				u.requests++
				for _, v := range d.Handle(ctx, poller.Messages(got)) {
					check.NoError(t, v.Err)
				}
				ok(t, s.Queue.Ack(ctx, got)...)
			}
		})
		time.Sleep(time.Minute + app.WaitForExecutor)
		stop()
		e.busy.Wait()
		units := f.db.Units()
		u.write, u.read = units.Write+units.Index, units.Read
		queues := f.sqs.Units().Requests
		u.requests += float64(queues["SendMessageBatch"] + queues["DeleteMessageBatch"])
		if is := f.Run(run).State; (is == core.Succeeded) != (len(app.Executors) > 0) {
			t.Errorf("the run is %s", is)
		}
	})
	return u
}

// TestUnitsOfRuns compares docs/internals/aws-units.md with the units and requests that runs use.
func TestUnitsOfRuns(t *testing.T) {
	page, err := os.ReadFile("../../docs/internals/aws-units.md")
	check.OK(t, err)
	says := func(what string, write, read, requests float64) {
		t.Helper()
		row := fmt.Sprintf("| %s | %g | %g | %g |\n", what, write, read, requests)
		check.Contains(t, string(page), row, "docs/internals/aws-units.md does not have the row\n%s", row)
	}
	at := func(executors int) (app manage.AppSpec) {
		for i := range executors {
			app.Executors = append(app.Executors, fmt.Sprintf("http://10.0.0.%d:9999", i+1))
		}
		return app
	}
	job := manage.JobSpec{Def: core.Def{App: "orders", Name: "job", Handler: "work", Params: `{"tenant": 1}`},
		Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Hour}}}}
	plain := use(t, at(1), job)
	says("A run", plain.write, plain.read, plain.requests)

	of := func(o core.Overlap) used {
		limited := job
		limited.Def.Overlap = o
		return use(t, at(1), limited)
	}
	ofApp, perSecond := at(1), at(1)
	ofApp.Limits, perSecond.Limits = core.Limits{InFlight: 200}, core.Limits{PerSecond: 50}
	for _, u := range []used{
		of(core.Overlap{Limit: 3}),
		of(core.Overlap{Limit: 3, Group: "g"}),
		of(core.Overlap{Limit: 1, Key: "/tenant"}),
		of(core.Overlap{Limit: 1, Full: core.FullReplace}),
		of(core.Overlap{Limit: 1, Full: core.FullSkip}),
		use(t, ofApp, job), use(t, perSecond, job),
	} {
		says("Each limit that counts the run (`overlap`, `limits`), in addition", u.write-plain.write, u.read-plain.read,
			u.requests-plain.requests)
	}

	for _, executors := range []int{10, 100} {
		spread := job
		spread.Def.Route = core.RouteBroadcast
		u := use(t, at(executors), spread)
		says(fmt.Sprintf("A broadcast to %d executors, with its shards", executors), u.write, u.read, u.requests)
	}

	child := job
	child.Def.Name, child.Schedule, child.Def.After = "child", core.Schedule{}, []core.Parent{{Job: "orders/job"}}
	u := use(t, at(1), job, child)
	says("A run and its child (`after`)", u.write, u.read, u.requests)

	unsent, waits := use(t, manage.AppSpec{}, job), use(t, manage.AppSpec{WaitForExecutor: 10 * time.Minute}, job)
	const wait = 3 // write units of the start and the end of the wait
	checks := waits.batches - unsent.batches
	each := func(units float64) float64 { return math.Round(units / checks) }
	says("Each check of a run that waits for an executor (`waitForExecutor`)", each(waits.write-unsent.write-wait),
		each(waits.read-unsent.read), each(waits.requests-unsent.requests))
	if checks < 15 || checks > 21 { // the page has about 18
		t.Errorf("a wait of ten minutes has %g checks", checks)
	}
}
