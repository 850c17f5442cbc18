package tick

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
)

// group is a part of the jobs whose windows end together.
type group struct {
	partition int
	planAt    core.Instant
	of        int // groups
}

// grouped counts a job that was planned among those whose windows end together.
// What was planned by another number of groups stands at another planAt, mostly,
// and is not counted.
func (t *Ticker) grouped(o plan.Options, p int, s core.Sched) {
	if s.State == core.Started && o.Grouped(s.ID, s.PlanAt) {
		t.groups[group{p, s.PlanAt, o.Groups}]++
	}
}

// wanted is how many groups the largest one seen recently asks for: partitions
// and groups have equal shares of the jobs.
func (t *Ticker) wanted(o plan.Options, partitions int) int {
	now := core.InstantOf(t.o.Now())
	groups := o.Groups
	for g, n := range t.groups {
		if now.Time().Sub(g.planAt.Time()) > 2*o.Window {
			delete(t.groups, g)
		} else if n*partitions > o.GroupEvery {
			groups = max(groups, o.GroupsFor(n*partitions*g.of))
		}
	}
	return groups
}

// part stores how many partitions and groups there are to be, and that a walk is to
// begin that had to wait for the one before. It forgets the last partition when it is
// no longer in use and holds no job any more.
func (t *Ticker) part(ctx context.Context, g core.Global, held []int) error {
	now := t.o.Now()
	next := t.o.Rates.Next(g, t.load, now)
	if next.Partitions != g.Partitions {
		clear(t.load)
	}
	last := g.Readable - 1
	if next.Partitions == g.Partitions && last >= max(g.Partitions, 1) && t.o.Rates.Stable(g, now) && slices.Contains(held, last) {
		items, err := t.store.Due(ctx, last, core.Horizon, core.DueItem{}, 1)
		if err != nil {
			return fmt.Errorf("read due index of partition %d: %w", last, err)
		}
		if len(items) == 0 {
			next.Readable = last
		}
	}
	o := t.o.Plan.With(g.Groups)
	if want := t.wanted(o, max(g.Partitions, 1)); want > o.Groups {
		next.Groups = want
	}
	next.Loss = t.noted(g.Loss, 0)
	if next.Partitions == g.Partitions && next.Readable == g.Readable && next.Busy.Equal(g.Busy) && next.Groups == g.Groups &&
		next.Loss == g.Loss {
		return nil
	}
	next.Rev = max(g.Rev+1, t.o.Now().UnixMilli())
	// Where it was refused all is computed anew by the next pass.
	if err := t.store.PutGlobal(ctx, g.Rev, next); err != nil && !errors.Is(err, core.ErrRefused) {
		return fmt.Errorf("change the number of partitions or groups: %w", err)
	}
	return nil
}

// note stores that the ring lost what was due at an instant, if it did. It is stored
// before any of it is sent again: what was sent has a run soon, and nobody finds it a
// second time.
func (t *Ticker) note(ctx context.Context, lost core.Instant) error {
	if lost == 0 {
		return nil
	}
	g, err := t.store.Global(ctx)
	if err != nil {
		return fmt.Errorf("note a loss: read global item: %w", err)
	}
	next := g
	if next.Loss = t.noted(g.Loss, lost); next.Loss == g.Loss {
		return nil
	}
	next.Rev = max(g.Rev+1, t.o.Now().UnixMilli())
	if err := t.store.PutGlobal(ctx, g.Rev, next); err != nil {
		return fmt.Errorf("note a loss: %w", err)
	}
	return nil
}

// noted adds to what is stored of losses one that was found; 0 is none. A walk may
// have passed what was lost since it was asked for, so another is to follow it.
func (t *Ticker) noted(l core.Loss, lost core.Instant) core.Loss {
	if lost != 0 {
		// What was lost with it may be as old as what a fire waits on the ring.
		from := core.InstantOf(lost.Time().Add(-t.o.Plan.MaxAhead))
		if asked := l.From != 0 && l.Next == "" && !lost.Time().After(l.At); !asked || from < l.From {
			l.Again = earlier(l.Again, from)
		}
	}
	if now := t.o.Now(); l.From == 0 && l.Again != 0 && now.Sub(l.At) > t.o.HealEvery {
		l = core.Loss{From: l.Again, At: now.UTC().Truncate(time.Millisecond)}
	}
	return l
}

// earlier is the first of two instants; 0 is none.
func earlier(a, b core.Instant) core.Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// move takes some jobs of a partition that belong elsewhere to where they
// belong, besides those that move when they are advanced.
func (t *Ticker) move(ctx context.Context, g core.Global, p int, from core.Instant) error {
	if g.Partitions <= 1 && p == 0 || g.Readable <= g.Partitions && t.o.Rates.Stable(g, t.o.Now()) {
		return nil
	}
	items, err := t.store.Due(ctx, p, core.Horizon, core.DueItem{PlanAt: from + 1}, t.o.MoveRate)
	if err != nil {
		return fmt.Errorf("read due index: %w", err)
	}
	var jobs []core.JobID
	for _, it := range items {
		if it.Run == 0 && core.PartitionOf(it.Job, g.Partitions) != p {
			jobs = append(jobs, it.Job)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	scheds, _, err := t.store.Scheds(ctx, jobs)
	if _, err = core.Besides(err); err != nil { // when they are due they are told
		return fmt.Errorf("read jobs to move: %w", err)
	}
	moves := make([]core.Advance, 0, len(scheds))
	for _, s := range scheds {
		if s.PlanAt == 0 || s.Partition != p {
			continue
		}
		m := s.Stay()
		m.NewPartition = core.PartitionOf(s.ID, g.Partitions)
		moves = append(moves, m)
	}
	if len(moves) > 0 {
		t.store.Advance(ctx, moves) // whatever fails is found again
	}
	return nil
}
