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
	"github.com/tickring/tickring/internal/testkit/memory"
)

// accepting answers at once.
var accepting = sends(func(context.Context, dispatch.SendRequest) dispatch.Answer {
	return dispatch.Answer{Kind: dispatch.AnswerAccepted, Took: 100 * time.Microsecond}
})

// BenchmarkHandle measures the cost of one run from queue to acknowledgement, with a store in memory and no network: 1,000
// jobs, one run each, in 20 messages.
func BenchmarkHandle(b *testing.B) {
	const jobs = 1000
	s := newData(b, plan.Local(), memory.Options{})
	s.App("bench", "http://127.0.0.1:1")
	for i := range core.JobID(jobs) {
		s.Job(core.Job{Def: core.Def{ID: i + 1, App: "bench", Name: fmt.Sprint("j", i), Handler: "h"}})
	}
	clock := time.Now().Truncate(time.Second)
	d := dispatch.New(s.Store.Store, accepting, finish.New(s.Store.Store, finish.Options{Plan: plan.Local()}),
		dispatch.Options{Now: func() time.Time { return clock }})
	b.ReportAllocs()
	for b.Loop() {
		clock = clock.Add(time.Second)
		at := core.InstantOf(clock)
		fires := make([]core.Fire, jobs)
		for i := range fires {
			fires[i] = planned(core.JobID(i+1), at)
		}
		out := plan.Pack(fires, ring.MaxFires, nil)
		msgs := make([]ring.Message, len(out))
		for i := range out {
			msgs[i] = out[i].Message
		}
		for _, v := range d.Handle(b.Context(), msgs) {
			if !v.Ack {
				b.Fatal(v.Err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/jobs, "ns/fire")
}
