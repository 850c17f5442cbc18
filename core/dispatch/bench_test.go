package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// accepting answers at once.
type accepting struct{}

func (accepting) Send(context.Context, dispatch.SendRequest) dispatch.Answer {
	return dispatch.Answer{Kind: dispatch.AnswerAccepted, Took: 100 * time.Microsecond}
}

func (accepting) Beat(context.Context, *core.App, string) error { return nil }

func (accepting) Idle(context.Context, *core.App, string, core.JobID) (bool, error) { return true, nil }

// BenchmarkHandle measures the cost of one run from queue to acknowledgement, with a store in memory and no network: 1,000
// jobs, one run each, in 20 messages.
func BenchmarkHandle(b *testing.B) {
	const jobs = 1000
	now := time.Now().Truncate(time.Second)
	eng := memory.Open(b, memory.Options{})
	defer eng.Close()
	ctx := context.Background()
	app := core.App{Name: "bench", Token: "bench-token", Executors: []string{"http://127.0.0.1:1"}, Rev: 1}
	check.OK(b, eng.Manage.PutApp(ctx, 0, app, core.Change{ID: 1, At: now, App: "bench"}))
	var all []core.Job
	var changes []core.Change
	for i := range jobs {
		j := core.Job{Def: core.Def{ID: core.JobID(i + 1), App: "bench", Name: fmt.Sprint("j", i), Handler: "h"}}
		j.Normalize()
		j.Sched.ID, j.Sched.App, j.Sched.Rev, j.Sched.RevAt, j.Sched.State = j.Def.ID, "bench", 1, now.Add(-time.Hour), core.Started
		all, changes = append(all, j), append(changes, core.Change{ID: 1, At: now, App: "bench", Job: j.Def.ID})
	}
	for _, err := range eng.Manage.CreateJobs(ctx, all, changes) {
		check.OK(b, err)
	}
	f := finish.New(eng.Finish, eng.Ring, finish.Options{Plan: plan.Local()})
	clock := now
	d := dispatch.New(eng.Dispatch, eng.Ring, accepting{}, f, dispatch.Options{Now: func() time.Time { return clock }})
	b.ReportAllocs()
	for b.Loop() {
		clock = clock.Add(time.Second)
		at := core.InstantOf(clock)
		fires := make([]core.Fire, jobs)
		for i := range fires {
			fires[i] = core.Fire{Run: core.PlannedRun(core.JobID(i+1), at), Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}
		}
		out := plan.Pack(fires, ring.MaxFires, nil)
		msgs := make([]ring.Message, len(out))
		for i := range out {
			msgs[i] = out[i].Message
		}
		for _, v := range d.Handle(ctx, msgs) {
			if !v.Ack {
				b.Fatal(v.Err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/jobs, "ns/fire")
}
