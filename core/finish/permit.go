package finish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// permitTries bounds how often an item of permits is written that others write too,
// permitLooks how many of those that have one or wait are looked at at once.
const (
	permitTries = 20
	permitLooks = 25
)

// PutPermits reads an item of permits and writes what change makes of it, again where
// others wrote it meanwhile; change answers whether it did anything. Those that waited and
// are given a permit by it are woken, but for those whose fire the caller has in hand.
func (f *Finish) PutPermits(ctx context.Context, name string, inHand []core.RunID, change func(p *core.Permits) (bool, error)) error {
	given := map[core.RunID]bool{} // also by a write whose answer was lost
	for try := range permitTries {
		if try > 0 && !pause(ctx, time.Duration(1+rand.IntN(5*min(try, 10)))*time.Millisecond) {
			return ctx.Err()
		}
		found, err := f.store.Permits(ctx, []string{name})
		if err != nil {
			return fmt.Errorf("read permits %s: %w", name, err)
		}
		p := found[name]
		p.Name = name
		was := p.Clone()
		changed, err := change(&p)
		if err != nil {
			return err
		}
		if !changed {
			f.wake(ctx, &p, given)
			return nil
		}
		for _, id := range p.Given(&was) {
			given[id] = !slices.Contains(inHand, id)
		}
		p.V++
		switch err := f.store.PutPermits(ctx, []core.Permits{p})[0]; {
		case err == nil:
			f.wake(ctx, &p, given)
			return nil
		case errors.Is(err, core.ErrThrottled):
			return fmt.Errorf("write permits %s: %w", name, err)
		}
	}
	return fmt.Errorf("write permits %s, which others write: %w", name, core.ErrThrottled)
}

// Release frees the permit of a run whose chain is over, or its place among those that
// wait. What fails is made good by who wants the permit: he looks whether those that have
// it are over.
func (f *Finish) Release(ctx context.Context, run *core.Run) {
	if run.Permit == "" || run.State.Open() || run.Then != 0 {
		return
	}
	for _, name := range core.PermitNames(run.Permit) {
		err := f.PutPermits(ctx, name, nil, func(p *core.Permits) (bool, error) {
			return p.Release(func(first core.RunID) bool { return first == run.First }), nil
		})
		if err != nil {
			f.o.Log.Info("a permit is freed by who wants it", "permit", name, "run", run.ID, "job", run.ID.Job(), "instant", run.At.String(),
				"err", err)
		}
	}
}

// wake puts copies of those on the ring that hold a permit now; what it does not reach
// comes at its next look.
func (f *Finish) wake(ctx context.Context, p *core.Permits, given map[core.RunID]bool) {
	var next []core.RunID
	for _, h := range p.Holders {
		if given[h.First] {
			next = append(next, h.First)
		}
	}
	if len(next) == 0 {
		return
	}
	runs, _, err := f.store.Runs(ctx, next)
	if err != nil {
		return
	}
	var out []ring.Out
	for _, id := range next {
		if r, is := runs[id]; is && r.State == core.Queued {
			out = append(out, ring.Out{NotBefore: f.o.Now(), Message: ring.Message{Kind: ring.KindFires, Slot: r.Slot, Try: 1,
				Fires: []core.Fire{r.Fire()}}})
		}
	}
	if len(out) > 0 {
		f.ring.Enqueue(ctx, out) // any answer
	}
}

// Over tells of some of the chains of an item of permits which are over: of a few, chosen
// by lot, and of those that have waited longest.
func (f *Finish) Over(ctx context.Context, p *core.Permits) (map[core.RunID]bool, error) {
	last, until := map[core.RunID]core.RunID{}, map[core.RunID]time.Time{} // by chain
	for _, i := range rand.Perm(len(p.Holders))[:min(len(p.Holders), permitLooks)] {
		h := p.Holders[i]
		last[h.First], until[h.First] = h.First, h.Until
	}
	for _, first := range p.Queue[:min(len(p.Queue), permitLooks)] {
		last[first] = first
	}
	over := map[core.RunID]bool{}
	now := f.o.Now()
	for len(last) > 0 {
		ids := make([]core.RunID, 0, len(last))
		for _, id := range last {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		runs, unread, err := f.store.Runs(ctx, ids)
		if err == nil && len(unread) > 0 {
			err = core.ErrThrottled
		}
		if err != nil {
			return nil, fmt.Errorf("read runs of permits %s: %w", p.Name, err)
		}
		for first, id := range last {
			r, is := runs[id]
			if is && !r.State.Open() && len(r.Owes) == 0 && r.Then != 0 {
				last[first] = r.Then
				continue
			}
			delete(last, first)
			if is {
				over[first] = !r.State.Open() && r.Then == 0
			} else {
				over[first] = now.After(until[first])
			}
		}
	}
	return over, nil
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
