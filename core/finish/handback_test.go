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
		a, changed := p.Ask(core.PermitRequest{First: first, Until: r.now.Add(30 * time.Second), Limit: 1})
		if a != core.PermitGranted || !changed {
			r.t.Errorf("an ask for %s: %v, written %t", name, a, changed)
		}
		p.V++
		r.SavePermits(p)
	}
}

// TestSettleChecksAllSlots: a call checks 25 slots, and further calls check the others.
func TestSettleChecksAllSlots(t *testing.T) {
	const most = budget.PermitLooks
	for _, n := range []int{most, most + 1, 10 * most} {
		r := newRig(t)
		p := core.Permits{Name: "job/1", Limit: n}
		for i := range n {
			p.Holders = append(p.Holders, core.Holder{First: core.PlannedRun(1, core.InstantOf(begin)+core.Instant(i)),
				Until: begin.Add(-time.Minute)})
		}
		for left := n; left > 0; left = max(0, left-most) {
			if _, err := r.f.Settle(t.Context(), &p, false); err != nil || len(p.Holders) != max(0, left-most) {
				t.Fatalf("%d of %d slots are left, want %d: %v", len(p.Holders), n, max(0, left-most), err)
			}
		}
	}
}
