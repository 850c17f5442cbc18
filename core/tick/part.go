package tick

import (
	"context"
	"errors"
	"fmt"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
)

// overFor is how many seconds in a row a partition has to be over its rate
// before the index is parted further.
const overFor = 30

// count notes the advances of a partition.
func (t *Ticker) count(p, advances int) {
	l := t.load[p]
	if l == nil {
		l = &load{}
		t.load[p] = l
	}
	second := t.o.Now().Unix()
	if second != l.second {
		switch {
		case l.advances > t.o.AdvanceRate && second-l.second <= 2:
			l.over += int(second - l.second)
		case l.advances <= t.o.AdvanceRate:
			l.over = 0
		}
		l.second, l.advances = second, 0
	}
	l.advances += advances
}

// group is a part of the jobs whose windows end together.
type group struct {
	partition int
	planAt    core.Instant
	of        int // groups
}

// grouped counts the jobs of a page whose windows end together. What was
// planned by another number of groups stands at another planAt, mostly, and is
// not counted.
func (t *Ticker) grouped(o plan.Options, p int, due []core.Sched) {
	for i := range due {
		if s := &due[i]; s.State == core.Started && o.Grouped(s.ID, s.PlanAt) {
			t.groups[group{p, s.PlanAt, o.Groups}]++
		}
	}
}

// wanted is how many groups the largest one seen of late asks for: partitions
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

// part grows the number of groups when one has grown too large. It doubles the
// number of partitions when one of them is over its rate for long, and forgets partitions that hold no job any more. A job moves when it
// is next advanced; until then its old partition is read.
func (t *Ticker) part(ctx context.Context, g core.Global, held []int) error {
	next := g
	for _, p := range held {
		if l := t.load[p]; l != nil && l.over >= overFor && g.Partitions < t.o.MaxPartitions {
			next.Partitions = min(max(g.Partitions, 1)*2, t.o.MaxPartitions)
			next.Readable = max(g.Readable, next.Partitions)
			l.over = 0
		}
	}
	if last := g.Readable - 1; next.Partitions == g.Partitions && last >= max(g.Partitions, 1) {
		for _, p := range held {
			if p != last {
				continue
			}
			items, err := t.store.Due(ctx, p, core.Horizon, core.DueItem{}, 1)
			if err != nil {
				return fmt.Errorf("read due index of partition %d: %w", p, err)
			}
			if len(items) == 0 {
				next.Readable = last
			}
		}
	}
	o := t.o.Plan.With(g.Groups)
	if want := t.wanted(o, max(g.Partitions, 1)); want > o.Groups {
		next.Groups = want
	}
	if next.Partitions == g.Partitions && next.Readable == g.Readable && next.Groups == g.Groups {
		return nil
	}
	next.Rev = max(g.Rev+1, t.o.Now().UnixMilli())
	if err := t.store.PutGlobal(ctx, g.Rev, next); err != nil && !errors.Is(err, core.ErrRefused) {
		return fmt.Errorf("change the number of partitions or groups: %w", err)
	}
	return nil
}

// move takes some jobs of a partition that belong elsewhere to where they
// belong, besides those that move when they are advanced.
func (t *Ticker) move(ctx context.Context, g core.Global, p int, from core.Instant) error {
	if g.Partitions <= 1 && p == 0 || g.Readable <= g.Partitions && t.settled(g) {
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
	if err != nil {
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

// settled reports that the number of partitions did not change lately, so that
// nothing can lie in the wrong one.
func (t *Ticker) settled(g core.Global) bool {
	return t.o.Now().UnixMilli()-g.Rev > 3600_000
}
