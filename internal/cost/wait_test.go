package cost

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store/dynamo"
)

// TestWaiting compares docs/internals/aws-units.md with the usage of runs that wait ten minutes for an executor.
func TestWaiting(t *testing.T) {
	const long = 10 * time.Minute
	near := func(what string, is, says, within float64) {
		t.Helper()
		if t.Logf("%s: %.2f", what, is); math.Abs(is-says) > within {
			t.Errorf("%s: %.2f, docs/internals/aws-units.md has %g", what, is, says)
		}
	}
	for _, fires := range []int{1, ring.MaxFires} {
		n, not, m := float64(fires), waiting(t, fires, 0), waiting(t, fires, long)
		if not.of["dispatch"].times != 1 || not.queue["SendMessageBatch"] > 0 {
			t.Errorf("what does not wait: %s", not)
		}
		looks := float64(m.of["dispatch"].times - 1)
		near("looks", looks, 50, 4)
		near("reads of a check", (m.read-not.read)/looks, 6+2*(n-1), 0.2)
		near("writes of a run", (m.on["runs"].Write-not.on["runs"].Write)/n, 1, 0)
		notes := 2 * n // written when a run starts to wait, and removed
		near("writes of a check", (m.on["state"].Write-not.on["state"].Write-notes)/looks, 1, 0.2)
		near("messages of a check", float64(m.queue["SendMessageBatch"])/looks, 1, 0)
		near("acks of a check", float64(m.queue["DeleteMessageBatch"]-1)/looks, 1, 0)
	}
	look := Usage{ReadUnits: 6, WriteUnits: 1, QueueRequests: 3, Invocations: 1,
		GBSeconds: secondsOfDispatch * gb(Standard().MemoryMB.Dispatch)}
	of := Sum(Virginia.Bill(look))
	holds(t, "internals/aws-units.md", fmt.Sprintf("| One check | $%.6f |", of))
	holds(t, "internals/aws-units.md", fmt.Sprintf("| Ten minutes, about 50 checks | $%.5f |", 50*of))
}

// waiting measures the runs of one second that have no available executor, from their first check to their end.
func waiting(t *testing.T, fires int, long time.Duration) (m measured) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin))
		ctx, stop := context.WithCancel(t.Context())
		db, q := fakeaws.New(t.Errorf)
		s, err := dynamo.New(db, q, dynamo.Options{Names: fakeaws.Names})
		check.OK(t, err)
		d := &deployment{t: t, e: s.Store, db: db, q: q, of: map[string]*invoked{}}
		d.a = wiring.New(d.e, wiring.Options{Plan: plan.AWS(), Log: slog.New(slog.DiscardHandler)})
		d.fires = d.a.Dispatcher(d, dispatch.Options{})
		check.Call(t)(d.manage().SaveApp(ctx, ann, manage.AppSpec{Name: "orders", WaitForExecutor: long}))
		at := core.InstantOf(time.Now()) + 2
		msg := ring.Message{Kind: ring.KindFires, Slot: at}
		for _, r := range d.manage().Save(ctx, ann, orders(fires, "waits-")) {
			check.OK(t, r.Err)
			msg.Fires = append(msg.Fires, core.Fire{Run: core.PlannedRun(r.ID, at), Rev: r.Rev, At: at, Slot: at, Cause: core.CauseSchedule})
		}
		q.Purge(fakeaws.Names.Fires)
		check.OK(t, d.e.Queue.Enqueue(ctx, []ring.Out{{NotBefore: at.Time(), Message: msg}})[0])
		d.take(0)
		var driver sync.WaitGroup
		driver.Go(func() { d.poll(ctx) })
		time.Sleep(long + time.Minute)
		m = d.take(long)
		stop()
		driver.Wait()
	})
	return m
}
