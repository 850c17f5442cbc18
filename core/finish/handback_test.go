package finish_test

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
)

func (r *rig) permits(name string) core.Permits {
	r.t.Helper()
	found, err := r.s.Permits(r.t.Context(), []string{name})
	r.must(err)
	return found[name]
}

// TestOverLooksAtHoldersInTurn: each holder is checked within n/25 turns. The chains that have
// waited longest are checked in every turn.
func TestOverLooksAtHoldersInTurn(t *testing.T) {
	const most = budget.PermitLooks
	for _, n := range []int{most, most + 1, 10 * most} {
		r := newRig(t)
		p := core.Permits{Name: "job/1", Limit: n}
		over := func(i int) core.RunID {
			chain := core.PlannedRun(1, core.InstantOf(begin)+core.Instant(i))
			r.run(chain, func(x *core.Run) { x.State, x.EndedAt = core.Succeeded, begin })
			return chain
		}
		for i := range n {
			p.Holders = append(p.Holders, core.Holder{First: over(i)})
			p.Queue = append(p.Queue, over(n+i))
		}
		seen := map[core.RunID]bool{}
		for range (n + most - 1) / most {
			over, err := r.f.EndedChains(t.Context(), &p)
			r.must(err)
			if len(over) != 2*most {
				t.Errorf("of %d holders it checked %d", n, len(over))
			}
			for id := range over {
				seen[id] = true
			}
			r.now = r.now.Add(budget.PermitTurn * time.Second)
		}
		if len(seen) != n+most {
			t.Errorf("of %d holders, and as many that wait, it checked %d", n, len(seen))
		}
	}
}

// TestOverFreesChainsOfUnreadableJobs: a holder without a stored run loses its permits, including
// the app's, even if its job cannot be decoded. It keeps them if the schedule cannot be decoded,
// since its app is unknown.
func TestOverFreesChainsOfUnreadableJobs(t *testing.T) {
	for _, sched := range []core.JobID{1, 0} {
		r := newRig(t)
		r.job(1, nil)
		r.damaged, r.damagedSched = 1, sched
		holders := []core.Holder{{First: id, Until: begin.Add(-time.Minute)}}
		r.must(r.f.PutPermits(t.Context(), core.PermitOfApp("orders"), nil, func(p *core.Permits) (bool, error) {
			p.Limit, p.Holders = 1, holders
			return true, nil
		}))
		over, err := r.f.EndedChains(t.Context(), &core.Permits{Name: "group/db", Limit: 1, Holders: holders})
		r.must(err)
		p := r.permits(core.PermitOfApp("orders"))
		if over[id] != (sched == 0) || p.Holds(id) == over[id] {
			t.Errorf("schedule of job %d is damaged: over %t, app %+v", sched, over[id], p)
		}
	}
}
