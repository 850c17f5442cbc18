package cost

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// TestBroadcast compares docs/internals/aws-units.md with the use of a broadcast without its shards, which use as much as
// any run. Its addresses make it long.
func TestBroadcast(t *testing.T) {
	spreads := func(route core.Route, executors int) measured {
		specs := orders(1, "spreads-")
		specs[0].Def.Route = route
		return fireOf(t, executors, specs)
	}
	one := spreads(core.RouteFirst, 5)
	check.Equal(t, one.on["runs"].Write, 2, "a run writes N units of runs, a claim and an end")
	for executors, own := range map[int]float64{2: 3, 10: 3, 100: 10} {
		m, n := spreads(core.RouteBroadcast, executors), float64(executors)
		if is := m.write - (one.write - 2) - 4*n; is > own || is < own-1 {
			t.Errorf("%d executors: %.0f units written in addition to its shards; docs/internals/aws-units.md has %.0f", executors, is, own)
		}
		if is := (m.read - one.read) / n; is > 9 {
			t.Errorf("%d executors: %.1f units read for each; docs/internals/aws-units.md has 9 at most", executors, is)
		}
	}
}

// TestChildren compares docs/internals/aws-units.md with the use of child jobs. Children of one end share a journal.
func TestChildren(t *testing.T) {
	family := func(n int, join bool) measured {
		specs := orders(1+n, "family-")
		for i := 1; i <= n; i++ {
			c := &specs[i]
			c.Schedule, c.Def.After = core.Schedule{}, []core.Parent{{Job: c.Def.App + "/" + specs[0].Def.Name}}
			if join {
				c.Def.Within = time.Hour
			}
		}
		return fireOf(t, 1, specs)
	}
	alone := family(0, false)
	for _, c := range []struct {
		n           int
		join        bool
		write, read float64
	}{{1, false, 1 + 2 + 4, 11}, {10, false, 1 + 2 + 10*4, 66}, {1, true, 1 + 2 + 4 + 2, 13}} {
		m := family(c.n, c.join)
		write, read := m.write-alone.write, m.read-alone.read
		if write != c.write || read > c.read {
			t.Errorf("%d children, join %v: %.0f units written and %.1f read in addition to their parent; want %.0f and at most %.1f",
				c.n, c.join, write, read, c.write, c.read)
		}
	}
}

// fireOf measures one run of the first of some jobs, including everything that follows it.
func fireOf(t *testing.T, executors int, specs []manage.JobSpec, of ...func(*manage.AppSpec)) (m measured) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin))
		ctx, stop := context.WithCancel(t.Context())
		db, q := fakeaws.New(t.Errorf)
		s, err := dynamo.New(db, q, dynamo.Options{Names: fakeaws.Names})
		check.OK(t, err)
		d := &deployment{t: t, e: s.Store, db: db, q: q, of: map[string]*invoked{}, gathers: true}
		d.a = wiring.New(d.e, wiring.Options{Plan: plan.AWS(), Log: slog.New(slog.DiscardHandler)})
		d.fires, d.ends = d.a.Dispatcher(d, dispatch.Options{}), d.a.Callback(callback.Options{TokenFor: tokenFor})
		app := manage.AppSpec{Name: "orders", Token: new(string)}
		*app.Token = token
		for i := range executors {
			app.Executors = append(app.Executors, fmt.Sprintf("http://10.0.0.%d:9999", i+1))
		}
		for _, say := range of {
			say(&app)
		}
		check.Call(t)(d.manage().SaveApp(ctx, ann, app))
		results := d.manage().Save(ctx, ann, specs)
		for _, r := range results {
			check.OK(t, r.Err)
		}
		saved := results[0]
		at := core.InstantOf(time.Now()) + 2
		q.Purge(fakeaws.Names.Fires)
		fire := core.Fire{Run: core.PlannedRun(saved.ID, at), Rev: saved.Rev, At: at, Slot: at, Cause: core.CauseSchedule}
		msg := ring.Message{Kind: ring.KindFires, Slot: at, Fires: []core.Fire{fire}}
		check.OK(t, d.e.Queue.Enqueue(ctx, []ring.Out{{NotBefore: at.Time(), Message: msg}})[0])
		d.take(0)
		var driver sync.WaitGroup
		driver.Go(func() { d.poll(ctx) })
		time.Sleep(2 * time.Minute)
		if found, err := store.Complete(d.e.Runs.Get(ctx, []core.RunID{fire.Run})); err != nil || found[fire.Run].State != core.Succeeded {
			t.Errorf("it is %+v (%v)", found[fire.Run], err)
		}
		m = d.take(time.Minute)
		stop()
		driver.Wait()
		d.busy.Wait()
	})
	return m
}
