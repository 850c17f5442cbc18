package finish_test

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/internal/testkit/hook"
)

// TestHandBack: a run without an executor frees its permits. It keeps a permit if it was claimed
// or is about to be claimed with it, or too many runs would be running.
func TestHandBack(t *testing.T) {
	const group, app = "group/db", "app/orders"
	names := []string{group, app}
	for _, c := range []struct {
		name string
		op   string // a concurrent caller acts before the nth call of op
		nth  int
		do   func(r *rig, run *core.Run) // action of the concurrent caller
		has  []bool                      // whether the run then holds each permit
		next bool                        // whether another check frees the first permit
	}{
		{name: "no other process comes between", has: []bool{false, false}, next: true},
		{"it is claimed", "clear owed", 0, func(r *rig, run *core.Run) { r.claim(run) }, []bool{true, true}, false},
		{"a process that read it before asks and claims", "put permits", 0, func(r *rig, run *core.Run) {
			if r.claim(run) == nil {
				r.t.Error("it is claimed by an outdated read, without a new request")
			}
		}, []bool{false, false}, true},
		{"a reader asks", "put permits", 0, func(r *rig, _ *core.Run) { r.asks(id, names...) }, []bool{true, true}, true},
		{"a reader asks for the first, once the last is free", "put permits", 1, func(r *rig, _ *core.Run) { r.asks(id, group) },
			[]bool{true, false}, true},
		{"the store refuses", "put permits", 0, nil, []bool{true, true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.job(1, nil)
			run := r.run(id, func(x *core.Run) {
				x.State, x.Permit, x.Owner, x.Address, x.SentAt = core.Queued, group+"+"+app, "", "", time.Time{}
			})
			if got := core.PermitNames(run.Permit); len(got) != 2 {
				t.Fatalf("the permits of %q are %q", run.Permit, got)
			}
			for _, name := range names {
				r.SavePermits(core.Permits{Name: name, V: 1, Limit: 1, Holders: []core.Holder{{First: id}}})
			}
			if c.op != "" {
				faults := make([]fault, c.nth+1)
				if faults[c.nth].between = func() { c.do(r, &run) }; c.do == nil {
					faults[c.nth] = fault{err: core.ErrThrottled}
				}
				r.faults.faults[c.op] = faults
			}
			r.f.ReleasePermits(t.Context(), &run, names)
			for k, name := range names {
				if got := r.PermitsOf(name); got.Holds(id) != c.has[k] {
					t.Errorf("it has %s: %t", name, got.Holds(id))
				}
			}
			r.now = r.now.Add(time.Minute) // too old for any claim
			again := r.Run(id)
			r.f.ReleasePermits(t.Context(), &again, names)
			if got := r.PermitsOf(group); got.Holds(id) == c.next {
				t.Errorf("after another look it has it: %t", got.Holds(id))
			}
		})
	}
}

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

// TestUnreadableRunKeepsItsSlot: the chains of other runs are checked.
func TestUnreadableRunKeepsItsSlot(t *testing.T) {
	r := newRig(t)
	p := core.Permits{Name: "job/1", Limit: 2}
	for n := range 2 {
		chain := core.PlannedRun(1, core.InstantOf(begin)+core.Instant(n))
		r.run(chain, func(x *core.Run) { x.State, x.EndedAt = core.Succeeded, begin })
		p.Holders = append(p.Holders, core.Holder{First: chain})
	}
	s := hook.Unreadable(r.Store.Store, p.Holders[0].First)
	over, err := finish.New(s, finish.Options{Now: func() time.Time { return r.now }}).EndedChains(t.Context(), &p)
	if r.Must(err); over[p.Holders[0].First] || !over[p.Holders[1].First] {
		t.Errorf("%v", over)
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
		r.Must(r.f.PutPermits(t.Context(), core.PermitOfApp("orders"), nil, func(p *core.Permits) (bool, error) {
			p.Limit, p.Holders = 1, holders
			return true, nil
		}))
		over, err := r.f.EndedChains(t.Context(), &core.Permits{Name: "group/db", Limit: 1, Holders: holders})
		r.Must(err)
		p := r.PermitsOf(core.PermitOfApp("orders"))
		if over[id] != (sched == 0) || p.Holds(id) == over[id] {
			t.Errorf("schedule of job %d is damaged: over %t, app %+v", sched, over[id], p)
		}
	}
}
