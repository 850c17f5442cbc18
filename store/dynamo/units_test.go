package dynamo_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store/dynamo"
)

// seen is the end of a run that was read.
func seen(end core.RunPut, r *core.Run) core.RunPut {
	end.Seen = r
	return end
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
