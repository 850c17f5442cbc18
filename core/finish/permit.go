package finish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/store"
)

// PutPermits changes the stored item of a concurrency limit: the runs that have a slot and the runs that wait for one. The
// function change modifies the item, and returns whether it modified the item. If another writer was first, PutPermits reads
// the item and calls change again. PutPermits enqueues waiting runs that get a slot by this change, except runs in inHand,
// which the caller sends itself.
func (f *Finish) PutPermits(ctx context.Context, name string, inHand []core.RunID, change func(p *core.Permits) (bool, error)) error {
	c := &permitChange{name: name, inHand: inHand, change: change}
	f.putPermits(ctx, []*permitChange{c})
	return c.err
}

// A permitChange is the change that PutPermits makes to one item.
type permitChange struct {
	name   string
	inHand []core.RunID
	change func(p *core.Permits) (bool, error)
	given  map[core.RunID]bool // runs that were given a permit, perhaps by a write with an unknown result; false: in hand
	err    error
}

// putPermits applies several changes together and sets the error of each.
func (f *Finish) putPermits(ctx context.Context, todo []*permitChange) {
	var next []core.RunID // runs to wake
	defer func() { f.wake(ctx, next) }()
	fail := func(why string, err error) {
		for _, c := range todo {
			c.err = fmt.Errorf("%s permits %s: %w", why, c.name, err)
		}
	}
	for try := range budget.PermitTries {
		if try > 0 && !store.Sleep(ctx, time.Duration(1+rand.IntN(5*min(try, 10)))*time.Millisecond) {
			fail("write", ctx.Err())
			return
		}
		names := make([]string, len(todo))
		for i, c := range todo {
			names[i] = c.name
		}
		found, err := f.s.Permits(ctx, names)
		if err != nil {
			fail("read", err)
			return
		}
		var puts []core.Permits
		var of []*permitChange
		for _, c := range todo {
			p := found[c.name]
			p.Name = c.name
			was := p.Clone()
			changed, err := c.change(&p)
			switch {
			case err != nil:
				c.err = err
			case !changed:
				next = append(next, c.has(&p)...)
			default:
				c.note(p.Given(&was))
				p.V++
				puts, of = append(puts, p), append(of, c)
			}
		}
		todo = nil
		if len(puts) == 0 {
			return
		}
		for k, err := range f.s.PutPermits(ctx, puts) {
			switch c := of[k]; {
			case err == nil:
				next = append(next, c.has(&puts[k])...)
			case errors.Is(err, core.ErrThrottled):
				c.err = fmt.Errorf("write permits %s: %w", c.name, err)
			default:
				todo = append(todo, c)
			}
		}
		if len(todo) == 0 {
			return
		}
	}
	fail("write a contended record:", core.ErrThrottled)
}

func (c *permitChange) note(given []core.RunID) {
	if c.given == nil {
		c.given = map[core.RunID]bool{}
	}
	for _, id := range given {
		c.given[id] = !slices.Contains(c.inHand, id)
	}
}

// has returns the holders that this change gave a permit and that must be woken.
func (c *permitChange) has(p *core.Permits) (next []core.RunID) {
	for _, h := range p.Holders {
		if c.given[h.First] {
			next = append(next, h.First)
		}
	}
	return next
}

// Release frees the concurrency slots of runs whose retry chains are over, and removes the runs from the waiting lists. If
// Release fails, the next run that needs one of these slots checks the run that holds the slot, and frees the slot.
func (f *Finish) Release(ctx context.Context, runs ...*core.Run) {
	over := map[string]map[core.RunID]*core.Run{}
	for _, run := range runs {
		if run.State.Open() || run.Then != 0 {
			continue
		}
		for _, name := range core.PermitNames(run.Permit) {
			if over[name] == nil {
				over[name] = map[core.RunID]*core.Run{}
			}
			over[name][run.First] = run
		}
	}
	if len(over) == 0 {
		return
	}
	list := make([]*permitChange, 0, len(over))
	for name, of := range over {
		list = append(list, &permitChange{name: name, change: func(p *core.Permits) (bool, error) {
			return p.Release(func(first core.RunID) bool { return of[first] != nil }), nil
		}})
	}
	f.putPermits(ctx, list)
	for _, c := range list {
		if c.err == nil {
			continue
		}
		for _, run := range over[c.name] {
			f.o.Log.Info("concurrency slot released by a waiting run", "permit", c.name, "run", run.ID, "job", run.ID.Job(),
				"scheduledAt", run.At.String(),
				"err", c.err)
		}
	}
}

// ReleasePermits frees the named concurrency slots of a run that waits for an executor and was never sent. The run must have
// the first of these slots. Other runs can then use them.
//
// ReleasePermits first records in the run that it has no slot. A dispatcher that is about to claim the run must then request
// the slots again, and ReleasePermits stops when it notices such a request. ReleasePermits frees the slots in reverse order,
// because a run that holds the last slot waits for no other slot. After an error, the next check of the run repeats the
// release.
func (f *Finish) ReleasePermits(ctx context.Context, run *core.Run, names []string) {
	if len(names) == 0 || run.First != run.ID || run.MayHaveBeenSent() {
		return
	}
	if err := f.handBack(ctx, run, names); err != nil {
		f.o.Log.Info("concurrency slot kept by a run without an executor", "permit", names, "run", run.ID, "job", run.ID.Job(),
			"scheduledAt", run.At.String(), "err", err)
	}
}

// Buried frees the concurrency slots of a run whose message moved to the dead-letter queue. Otherwise other runs would wait
// until a user resends the message. Buried frees nothing if an executor may have the run. A resent run requests its slots
// again.
func (f *Finish) Buried(ctx context.Context, run *core.Run) {
	names := core.PermitNames(run.Permit)
	if len(names) == 0 || !run.State.Open() || run.MayHaveBeenSent() {
		return
	}
	if err := f.handBack(ctx, run, names); err != nil {
		f.o.Log.Error("concurrency slot kept by a run whose message is a dead letter", "permit", names, "run", run.ID,
			"job", run.ID.Job(), "err", err)
	}
}

func (f *Finish) handBack(ctx context.Context, run *core.Run, names []string) error {
	holds := false
	if err := f.PutPermits(ctx, names[0], nil, func(p *core.Permits) (bool, error) {
		holds = p.Holds(run.First)
		return false, nil
	}); err != nil || !holds {
		return err
	}
	if err := f.s.ChangeRuns(ctx, []core.RunPut{run.Uncounted(f.o.Now())})[0]; err != nil {
		return fmt.Errorf("record that run %d has no concurrency slot: %w", run.ID, err)
	}
	for _, name := range slices.Backward(names) {
		asked := false
		if err := f.PutPermits(ctx, name, nil, func(p *core.Permits) (bool, error) {
			if asked = p.Holds(run.First) && !p.Past(run.First, f.o.Now()); asked {
				return false, nil
			}
			return p.Release(func(first core.RunID) bool { return first == run.First }), nil
		}); err != nil || asked {
			return err
		}
	}
	return nil
}

// LeaveQueue removes a waiting retry chain from the concurrency limits that the parameter behind lists, one by one. The
// parameter first is the first run of the chain. The parameter waits names the limit on whose slot the chain waits. If the
// chain gets this slot during the call, LeaveQueue does not change the remaining limits.
func (f *Finish) LeaveQueue(ctx context.Context, first core.RunID, waits string, behind ...string) error {
	for _, name := range behind {
		if err := f.PutPermits(ctx, name, nil, func(p *core.Permits) (bool, error) {
			if !p.Release(func(x core.RunID) bool { return x == first }) {
				return false, nil
			}
			found, err := f.s.Permits(ctx, []string{waits})
			held := found[waits]
			return !held.Holds(first), err
		}); err != nil {
			return err
		}
	}
	return nil
}

// EndedChains reports which retry chains of a concurrency limit are over, by the ID of their first run. EndedChains checks 25
// chains that hold a slot and the 25 chains that have waited longest. EndedChains checks other holders every 15 s, so n
// holders are all checked within n/25 turns of 15 s. EndedChains also frees app-wide slots of chains that never started.
func (f *Finish) EndedChains(ctx context.Context, p *core.Permits) (map[core.RunID]bool, error) {
	last, until := map[core.RunID]core.RunID{}, map[core.RunID]time.Time{} // by chain
	now := f.o.Now()
	turn := int(now.Unix()/budget.PermitTurn) * budget.PermitLooks
	for i := range min(len(p.Holders), budget.PermitLooks) {
		h := p.Holders[(turn+i)%len(p.Holders)]
		last[h.First], until[h.First] = h.First, h.Until
	}
	for _, first := range p.Queue[:min(len(p.Queue), budget.PermitLooks)] {
		last[first] = first
	}
	over := map[core.RunID]bool{}
	var never []core.RunID
	for len(last) > 0 {
		runs, err := f.s.Runs.Get(ctx, slices.Sorted(maps.Values(last)))
		if err != nil {
			return nil, fmt.Errorf("read runs of concurrency slots %s: %w", p.Name, err)
		}
		for first, id := range last {
			if runs[id].Err != nil { // it keeps its slot
				delete(last, first)
				continue
			}
			r := runs[id].Is
			if r != nil && !r.State.Open() && len(r.Owes) == 0 && r.Then != 0 {
				last[first] = r.Then
				continue
			}
			delete(last, first)
			if r != nil {
				over[first] = !r.State.Open() && r.Then == 0 || moved(r, now)
			} else if over[first] = now.After(until[first]); over[first] && p.Holds(first) {
				never = append(never, first)
			}
		}
	}
	if len(never) > 0 && !core.IsPermitOfApp(p.Name) {
		kept, err := f.leaveApps(ctx, never)
		if err != nil {
			return nil, err
		}
		for _, first := range kept {
			over[first] = false
		}
	}
	return over, nil
}

// moved reports whether a run was given a later due time since it asked. No run asks for a permit
// more than a minute before its due time, even with clock skew.
func moved(r *core.Run, now time.Time) bool {
	return r.State == core.Planned && r.Owner == "" && !r.MaybeSent && r.Permit == "" && r.Slot.Time().After(now.Add(time.Minute))
}

// leaveApps removes chains that never began from the limits of their apps. This must come before
// their removal from the limits of their jobs. A holder of the second permit has the first, or
// two chains would wait for each other. The item is always written, so that a concurrent ask of
// the chain conflicts. It returns, as kept, the chains whose job cannot be decoded.
func (f *Finish) leaveApps(ctx context.Context, never []core.RunID) (kept []core.RunID, err error) {
	ids := make([]core.JobID, len(never))
	for i, first := range never {
		ids[i] = first.Job()
	}
	jobs, bad, err := store.Split(f.s.Jobs.Get(ctx, store.Planning, distinct(ids))) // includes jobs whose definition cannot be decoded
	if err != nil {
		return nil, fmt.Errorf("read jobs of runs that never began: %w", err)
	}
	apps := map[string][]core.RunID{}
	for _, first := range never {
		if bad[first.Job()] != nil {
			kept = append(kept, first)
		} else if job := jobs[first.Job()]; job != nil { // a deleted job's chain is never claimed
			name := core.PermitOfApp(job.Sched.App)
			apps[name] = append(apps[name], first)
		}
	}
	for name, of := range apps {
		if err := f.PutPermits(ctx, name, nil, func(p *core.Permits) (bool, error) {
			runs, err := f.s.Runs.Get(ctx, of)
			if err != nil {
				return false, fmt.Errorf("read runs of concurrency slots %s: %w", name, err)
			}
			now := f.o.Now()
			p.Release(func(first core.RunID) bool {
				_, is := runs[first]
				return slices.Contains(of, first) && !is && p.Past(first, now)
			})
			return true, nil
		}); err != nil {
			return nil, err
		}
	}
	return kept, nil
}
