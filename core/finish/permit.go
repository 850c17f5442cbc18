package finish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
	"github.com/tickring/tickring/core/ring"
)

// PutPermits reads an item of permits and writes what change makes of it, again where
// others wrote it meanwhile; change answers whether it did anything. Those that waited and
// are given a permit by it are woken, but for those whose fire the caller has in hand.
func (f *Finish) PutPermits(ctx context.Context, name string, inHand []core.RunID, change func(p *core.Permits) (bool, error)) error {
	c := &permitChange{name: name, inHand: inHand, change: change}
	f.putPermits(ctx, []*permitChange{c})
	return c.err
}

// permitChange is what PutPermits does with one item.
type permitChange struct {
	name   string
	inHand []core.RunID
	change func(p *core.Permits) (bool, error)
	given  map[core.RunID]bool // also by a write whose answer was lost; false: in hand
	err    error
}

// putPermits does several together, each item with its own answer.
func (f *Finish) putPermits(ctx context.Context, todo []*permitChange) {
	var next []core.RunID // those to wake
	defer func() { f.wake(ctx, next) }()
	fail := func(why string, err error) {
		for _, c := range todo {
			c.err = fmt.Errorf("%s permits %s: %w", why, c.name, err)
		}
	}
	for try := range bound.PermitTries {
		if try > 0 && !pause(ctx, time.Duration(1+rand.IntN(5*min(try, 10)))*time.Millisecond) {
			fail("write", ctx.Err())
			return
		}
		names := make([]string, len(todo))
		for i, c := range todo {
			names[i] = c.name
		}
		found, err := f.store.Permits(ctx, names)
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
		for k, err := range f.store.PutPermits(ctx, puts) {
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
	fail("write what others write too:", core.ErrThrottled)
}

func (c *permitChange) note(given []core.RunID) {
	if c.given == nil {
		c.given = map[core.RunID]bool{}
	}
	for _, id := range given {
		c.given[id] = !slices.Contains(c.inHand, id)
	}
}

// has are those that hold a permit by it and are to be woken.
func (c *permitChange) has(p *core.Permits) (next []core.RunID) {
	for _, h := range p.Holders {
		if c.given[h.First] {
			next = append(next, h.First)
		}
	}
	return next
}

// Release frees the permits of runs whose chains are over, or their places among those
// that wait. What fails is made good by who wants the permit: he looks whether those that
// have it are over.
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
			f.o.Log.Info("a permit is freed by who wants it", "permit", c.name, "run", run.ID, "job", run.ID.Job(), "instant", run.At.String(),
				"err", c.err)
		}
	}
}

// HandBack frees the permits of these names of a run that waits for an executor and was never
// sent, once it has the first of them: others are to be at work meanwhile. The run says first
// that it has none, so that whoever is about to claim it does so after an ask that is seen
// here. The last permit goes first, for who has that waits for no other. What fails, and what
// is asked for just now, is tried again at its next look.
func (f *Finish) HandBack(ctx context.Context, run *core.Run, names []string) {
	if len(names) == 0 || run.First != run.ID || run.Had() {
		return
	}
	if err := f.handBack(ctx, run, names); err != nil {
		f.o.Log.Info("a permit is kept by a run for which nobody is there", "permit", names, "run", run.ID, "job", run.ID.Job(),
			"instant", run.At.String(), "err", err)
	}
}

// Buried frees the permits of a run whose fire is a dead letter, unless an executor may have the
// run: other runs would wait until a user sends the letter again. The run then asks anew.
func (f *Finish) Buried(ctx context.Context, run *core.Run) {
	names := core.PermitNames(run.Permit)
	if len(names) == 0 || !run.State.Open() || run.Had() {
		return
	}
	if err := f.handBack(ctx, run, names); err != nil {
		f.o.Log.Error("permit kept by a run whose fire is a dead letter", "permit", names, "run", run.ID, "job", run.ID.Job(), "err", err)
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
	if err := f.store.PutRuns(ctx, []core.RunPut{run.Uncounted(f.o.Now())})[0]; err != nil {
		return fmt.Errorf("note that run %d has no permit: %w", run.ID, err)
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

// Leave takes a chain that waits for a permit out of the items of those behind it, in their
// order. A chain that was given the permit since may hold these, and keeps them.
func (f *Finish) Leave(ctx context.Context, first core.RunID, waits string, behind ...string) error {
	for _, name := range behind {
		if err := f.PutPermits(ctx, name, nil, func(p *core.Permits) (bool, error) {
			if !p.Release(func(x core.RunID) bool { return x == first }) {
				return false, nil
			}
			found, err := f.store.Permits(ctx, []string{waits})
			held := found[waits]
			return !held.Holds(first), err
		}); err != nil {
			return err
		}
	}
	return nil
}

// wake puts copies of those on the ring that hold a permit now, of one slot together; what
// it does not reach comes at its next look.
func (f *Finish) wake(ctx context.Context, next []core.RunID) {
	if len(next) == 0 {
		return
	}
	runs, _, err := f.store.Runs(ctx, next)
	if err != nil {
		return
	}
	fires := map[core.Instant][]core.Fire{}
	for _, id := range next {
		if r, is := runs[id]; is && r.State == core.Queued {
			fires[r.Slot] = append(fires[r.Slot], r.Fire())
		}
	}
	var out []ring.Out
	for slot, of := range fires {
		for chunk := range slices.Chunk(of, ring.MaxFires) {
			out = append(out, ring.Out{NotBefore: f.o.Now(), Message: ring.Message{Kind: ring.KindFires, Slot: slot, Try: 1, Fires: chunk}})
		}
	}
	if len(out) > 0 {
		f.ring.Enqueue(ctx, out) // any answer
	}
}

// Over reports which chains of an item of permits are over, of 25 holders and of the 25
// chains that have waited longest. The holders take turns of 15 s, so n of them are all
// looked at within n/25 turns if somebody looks in each. Holders that never began are out of
// the limits of their apps when it returns.
func (f *Finish) Over(ctx context.Context, p *core.Permits) (map[core.RunID]bool, error) {
	last, until := map[core.RunID]core.RunID{}, map[core.RunID]time.Time{} // by chain
	now := f.o.Now()
	turn := int(now.Unix()/bound.PermitTurn) * bound.PermitLooks
	for i := range min(len(p.Holders), bound.PermitLooks) {
		h := p.Holders[(turn+i)%len(p.Holders)]
		last[h.First], until[h.First] = h.First, h.Until
	}
	for _, first := range p.Queue[:min(len(p.Queue), bound.PermitLooks)] {
		last[first] = first
	}
	over := map[core.RunID]bool{}
	var never []core.RunID
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
				over[first] = !r.State.Open() && r.Then == 0 || moved(&r, now)
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

// moved reports that a run was given another time since it asked: nobody asks for what is
// due so far ahead, by whatever clock.
func moved(r *core.Run, now time.Time) bool {
	return r.State == core.Planned && r.Owner == "" && !r.MaybeSent && r.Permit == "" && r.Slot.Time().After(now.Add(time.Minute))
}

// leaveApps takes chains that never began out of the limits of their apps, before they are
// taken out of those of their jobs: who has the second permit has the first, or two would
// wait for each other. The item is written whatever is found in it, so that no ask of such
// a chain is on its way to it any more. Chains whose job cannot be decoded are kept.
func (f *Finish) leaveApps(ctx context.Context, never []core.RunID) (kept []core.RunID, err error) {
	ids := make([]core.JobID, 0, len(never))
	for _, first := range never {
		if !slices.Contains(ids, first.Job()) {
			ids = append(ids, first.Job())
		}
	}
	scheds, unread, err := f.store.Scheds(ctx, ids) // of a job whose definition cannot be decoded, too
	bad, err := core.Besides(err)
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return nil, fmt.Errorf("read jobs of what never began: %w", err)
	}
	apps := map[string][]core.RunID{}
	for _, first := range never {
		if bad[first.Job()] != nil {
			kept = append(kept, first)
		} else if s, is := scheds[first.Job()]; is { // else it is never claimed
			apps[core.PermitOfApp(s.App)] = append(apps[core.PermitOfApp(s.App)], first)
		}
	}
	for name, of := range apps {
		if err := f.PutPermits(ctx, name, nil, func(p *core.Permits) (bool, error) {
			runs, unread, err := f.store.Runs(ctx, of)
			if err == nil && len(unread) > 0 {
				err = core.ErrThrottled
			}
			if err != nil {
				return false, fmt.Errorf("read runs of permits %s: %w", name, err)
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
