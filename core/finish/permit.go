package finish

import (
	"cmp"
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

// Release frees the concurrency slots of runs whose retry chains are over, and removes the runs from the waiting lists. It
// returns one error for each run: the caller must repeat the release.
func (f *Finish) Release(ctx context.Context, runs ...*core.Run) []error {
	errs, over := make([]error, len(runs)), map[string]map[core.RunID]int{}
	for i, run := range runs {
		if !run.FreesSlots() {
			continue
		}
		for _, name := range core.PermitNames(run.Permit) {
			if over[name] == nil {
				over[name] = map[core.RunID]int{}
			}
			over[name][run.First] = i
		}
	}
	if len(over) == 0 {
		return errs
	}
	list := make([]*permitChange, 0, len(over))
	for name, of := range over {
		list = append(list, &permitChange{name: name, change: func(p *core.Permits) (bool, error) {
			return p.Release(f.o.Now(), func(first core.RunID) bool { _, is := of[first]; return is }), nil
		}})
	}
	f.putPermits(ctx, list)
	for _, c := range list {
		for _, i := range over[c.name] {
			errs[i] = cmp.Or(errs[i], c.err)
		}
	}
	return errs
}

// ReleasePermits frees the named concurrency slots of a run that waits for an executor and was never sent. The run must have
// the first of these slots. Other runs can then use them. After an error, the next check of the run repeats the release.
func (f *Finish) ReleasePermits(ctx context.Context, run *core.Run, names []string) {
	if len(names) == 0 || run.First != run.ID || run.MayHaveBeenSent() {
		return
	}
	if err := f.Uncount(ctx, run, names); err != nil {
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
	if err := f.Uncount(ctx, run, names); err != nil {
		f.o.Log.Error("concurrency slot kept by a run whose message is a dead letter", "permit", names, "run", run.ID,
			"job", run.ID.Job(), "err", err)
	}
}

// Uncount frees the named concurrency slots of a run that has no owner and was never sent, and that has the first of these
// slots. Uncount first makes the slots doubtful: if this process dies, other runs free them. Then it records in the run that
// the run has no slot. A dispatcher that is about to claim the run must then request the slots again, and Uncount stops when
// it notices such a request. Uncount frees the slots in reverse order, because a run that holds the last slot waits for no
// other slot.
func (f *Finish) Uncount(ctx context.Context, run *core.Run, names []string) error {
	for i, name := range names {
		holds := false
		err := f.PutPermits(ctx, name, nil, func(p *core.Permits) (bool, error) {
			holds = p.Doubt(run.First, f.o.Now())
			return holds, nil
		})
		if err != nil || i == 0 && !holds {
			return err
		}
	}
	if err := f.s.ChangeRuns(ctx, []core.RunPut{run.Uncounted(f.o.Now())})[0]; err != nil {
		return fmt.Errorf("record that run %d has no concurrency slot: %w", run.ID, err)
	}
	for _, name := range slices.Backward(names) {
		asked := false
		if err := f.PutPermits(ctx, name, nil, func(p *core.Permits) (bool, error) {
			now := f.o.Now()
			asked = slices.ContainsFunc(p.Holders, func(h core.Holder) bool { return h.First == run.First && h.Until.After(now) })
			return !asked && p.Release(now, func(first core.RunID) bool { return first == run.First }), nil
		}); err != nil || asked {
			return err
		}
	}
	return nil
}

// Settle decides about the doubtful slots of a concurrency limit: it frees them, or finds that their chains still need them.
// If ended is true, Settle also frees the slots of chains that have ended. Settle reads the runs of at most 25 slots, the
// doubtful ones first. It reports whether p changed.
func (f *Finish) Settle(ctx context.Context, p *core.Permits, ended bool) (changed bool, err error) {
	now := f.o.Now()
	var slots []core.Holder
	var firsts []core.RunID
	for _, doubtful := range []bool{true, false} {
		for _, h := range p.Holders {
			if h.Doubtful(now) == doubtful && (doubtful || ended) && len(slots) < budget.PermitLooks {
				slots, firsts = append(slots, h), append(firsts, h.First)
			}
		}
	}
	last, err := f.lastAttempts(ctx, firsts)
	if err != nil {
		return false, fmt.Errorf("read runs of concurrency slots %s: %w", p.Name, err)
	}
	has, err := f.confirm(ctx, p.Name, slots, last, now)
	if err != nil {
		return false, err
	}
	free := map[core.RunID]bool{}
	for _, h := range slots {
		until, needed := settled(p.Name, &h, last[h.First], has[h.First], now)
		if free[h.First] = !needed; needed && until != h.Until {
			changed = p.Doubt(h.First, until)
		}
	}
	return p.Release(now, func(first core.RunID) bool { return free[first] }) || changed, nil
}

// lastAttempts reads the last stored attempt of each chain, by the first run of the chain.
func (f *Finish) lastAttempts(ctx context.Context, firsts []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	found, next := map[core.RunID]store.Got[*core.Run]{}, map[core.RunID]core.RunID{}
	for _, first := range firsts {
		next[first] = first
	}
	for len(next) > 0 {
		runs, err := f.s.Runs.Get(ctx, slices.Collect(maps.Values(next)))
		if err != nil {
			return nil, err
		}
		for first, id := range next {
			got := runs[id]
			if r := got.Is; got.Err == nil && r != nil && !r.State.Open() && len(r.Owes) == 0 && r.Then != 0 {
				next[first] = r.Then
				continue
			}
			delete(next, first)
			found[first] = got
		}
	}
	return found, nil
}

// claimed reports whether a chain was claimed. The parameter r is its last attempt.
func claimed(r *core.Run) bool { return r.MayHaveBeenSent() || r.IsBroadcast() || !r.State.Open() }

// settled decides whether a chain needs its slot of the limit name, and when the slot is doubtful again. The parameter got is
// the last attempt of the chain, and hasFirst reports whether the chain has its first slot.
func settled(name string, h *core.Holder, got store.Got[*core.Run], hasFirst bool, now time.Time) (until time.Time, needed bool) {
	r := cmp.Or(got.Is, &core.Run{})
	names := core.PermitNames(r.Permit)
	switch later := now.Add(core.DoubtAfter); {
	case r.FreesSlots():
		return until, false
	case !h.Doubtful(now):
		return h.Until, true
	case got.Err != nil:
		return later, true
	case !slices.Contains(names, name), names[0] != name && !hasFirst: // it is not stored, or has requested another slot since
		return until, false
	case !claimed(r):
		return later, true
	}
	return until, true
}

// confirm returns the chains that have their first slot, of those for which the limit name is the second. If such a chain was
// claimed, confirm also records that its first slot is not doubtful: another process may be about to free that slot, because it
// has read the chain before the claim was stored.
func (f *Finish) confirm(ctx context.Context, name string, slots []core.Holder, last map[core.RunID]store.Got[*core.Run], now time.Time) (
	has map[core.RunID]bool, err error,
) {
	chains := map[string][]core.RunID{} // by the first limit
	for _, h := range slots {
		if r := last[h.First].Is; r != nil && h.Doubtful(now) {
			if names := core.PermitNames(r.Permit); slices.Index(names, name) > 0 {
				chains[names[0]] = append(chains[names[0]], h.First)
			}
		}
	}
	has = map[core.RunID]bool{}
	list := make([]*permitChange, 0, len(chains))
	for first, of := range chains {
		list = append(list, &permitChange{name: first, change: func(p *core.Permits) (changed bool, _ error) {
			for _, chain := range of {
				has[chain] = p.Holds(chain)
				changed = claimed(last[chain].Is) && p.Confirm(chain) || changed
			}
			return changed, nil
		}})
	}
	if len(list) > 0 {
		f.putPermits(ctx, list)
	}
	for _, c := range list {
		err = cmp.Or(err, c.err)
	}
	return has, err
}
