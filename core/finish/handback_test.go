package finish_test

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
)

// claim claims a run as read, as a dispatcher does after it asked for the run's permits.
func (r *rig) claim(run *core.Run) error {
	return r.Change(run.Take(core.Claim{Owner: "other", Until: r.now.Add(30 * time.Second)}, "http://a:1", r.now, nil))
}

// asks asks for permits of a run that names none.
func (r *rig) asks(first core.RunID, names ...string) {
	for _, name := range names {
		p := r.PermitsOf(name)
		if a, changed := p.Ask(core.PermitRequest{First: first, Until: r.now.Add(30 * time.Second), Limit: 1, Stored: true, Anew: true}); a !=
			core.PermitGranted || !changed {
			r.t.Errorf("an ask for %s: %v, written %t", name, a, changed)
		}
		p.V++
		r.SavePermits(p)
	}
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
			r.Must(err)
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
