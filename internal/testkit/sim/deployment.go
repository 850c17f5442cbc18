package sim

import (
	"time"

	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/tick/partitioning"
)

// deployment describes how a world is deployed: its processes and their durations. All keep the proportions of the real ones: an
// invocation is shorter than the visibility of its messages, and both are shorter than the time after which the watchdog comes.
type deployment struct {
	plan plan.Options

	// functions: the tick is a function that the clock wakes, and the watchdog is one of its
	// tasks; else a ticker runs each second, and the watchdog beside it.
	functions bool
	// wake is how often the clock wakes the tick, tickFor how long an invocation of it may
	// last, reserve how long before that it ends by itself.
	wake, tickFor, reserve time.Duration
	rates                  partitioning.Rates // by which the index is parted
	auditAfter             time.Duration

	lease, healEvery       time.Duration
	invocation, visibility time.Duration // of dispatch
	backoffMax             time.Duration
	behind, behindMax      time.Duration // of the watchdog
	watchEvery, idleGap    time.Duration
	planBackoff            time.Duration
	slowCount              int
	slowWithin, probeEvery time.Duration
	sendsMin, sendsMax     int
}

// small is one machine, or several that share a store, a sixth as slow as it is.
func small() deployment {
	d := deployment{
		plan: plan.Local(), rates: partitioning.Rates{Max: 4}, lease: 15 * time.Second, healEvery: 150 * time.Second,
		invocation: 15 * time.Second, visibility: 30 * time.Second, backoffMax: 8 * time.Second,
		behind: 3 * time.Minute, behindMax: 4 * time.Minute, watchEvery: 20 * time.Second, idleGap: 15 * time.Second,
		planBackoff: 10 * time.Second,
		slowCount:   2, slowWithin: 20 * time.Second, probeEvery: 10 * time.Second,
		sendsMin: 3, sendsMax: 6,
	}
	d.plan.TailCheck, d.plan.SlowLane = tailCheck, true
	return d
}

// tailCheck is the interval of tail checks in small deployments.
const tailCheck = 30 * time.Second

// smallFunctions is functions at a sixth of their durations.
func smallFunctions() deployment {
	d := small()
	d.functions, d.wake, d.tickFor, d.reserve, d.lease, d.auditAfter = true, 10*time.Second, 10*time.Second, 2*time.Second, 8*time.Second,
		20*time.Second
	d.rates = partitioning.Rates{Max: 32, Advance: 4, GrowAfter: 3 * time.Second, BusyAfter: 2 * time.Second, ShrinkAfter: 3 * time.Minute,
		StableFor: time.Minute}
	p := &d.plan
	p.Window, p.PlanAhead, p.MaxAhead = 60*time.Second, 35*time.Second, 120*time.Second
	p.SingleSpreadMin, p.SingleSpreadMax = 40*time.Second, 80*time.Second
	p.Groups, p.GroupEvery = 1, 6 // so that a tick makes more of them
	p.LeadTime = plan.AWS().LeadTime
	p.LeadTime.Every, p.LeadTime.Max = 4, 6*time.Second // of an invocation of 15 s
	return d
}

// functions returns the deployment that infra makes.
func functions() deployment {
	return deployment{
		plan: plan.AWS(), functions: true, wake: time.Minute, tickFor: time.Minute,
		rates:      partitioning.Rates{Max: 32, Advance: 40, ShrinkAfter: 15 * time.Minute, StableFor: 10 * time.Minute},
		invocation: 18 * time.Second, visibility: 25 * time.Second, backoffMax: time.Minute,
		lease: 45 * time.Second, healEvery: 15 * time.Minute, behind: 10 * time.Minute, behindMax: 4 * time.Hour, idleGap: time.Minute,
	}
}
