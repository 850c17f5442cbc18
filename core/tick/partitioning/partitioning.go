// Package partitioning sets the number of partitions of the due index and the number of job groups. The package measures the
// load of the partitions that one ticker checks. When the number of partitions changes, it moves jobs to their new partitions.
package partitioning

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/store"
)

// Growth measures the load of the partitions that one ticker checks. Growth is not safe for concurrent use.
type Growth struct {
	s      *store.Store
	rates  Rates
	plan   plan.Options
	now    func() time.Time
	load   map[int]*load // by partition
	groups map[group]int // number of planned jobs
}

// A group is a set of jobs whose windows end together.
type group struct {
	partition int
	planAt    core.Instant
	of        int // number of groups
}

func New(s *store.Store, r Rates, o plan.Options, now func() time.Time) *Growth {
	return &Growth{s: s, rates: r.defaults(), plan: o, now: now, load: map[int]*load{}, groups: map[group]int{}}
}

// Advanced adds stored advances to the load of partition p. The parameter jobs is the number of advanced jobs.
func (gr *Growth) Advanced(p, jobs int, now time.Time) {
	if gr.load[p] == nil {
		gr.load[p] = &load{}
	}
	gr.load[p].count(gr.rates, jobs, now)
}

// Planned counts a planned job in its group: the jobs whose windows end together. Planned ignores most jobs that were planned
// with another number of groups.
func (gr *Growth) Planned(g core.Global, p int, s core.Sched) {
	if o := gr.plan.With(g.Groups); s.State == core.Started && o.Grouped(s.ID, s.PlanAt) {
		gr.groups[group{p, s.PlanAt, o.Groups}]++
	}
}

// Next returns g with the required numbers of partitions and groups. The parameter held lists the partitions whose leases
// the ticker has. Next also removes the last partition from g if it is unused, empty and in the list held.
func (gr *Growth) Next(ctx context.Context, g core.Global, held []int) (core.Global, error) {
	now := gr.now()
	next := gr.rates.next(g, gr.load, now)
	if next.Partitions != g.Partitions {
		clear(gr.load)
	}
	last := g.Readable - 1
	if next.Partitions == g.Partitions && last >= max(g.Partitions, 1) && gr.rates.stable(g, now) && slices.Contains(held, last) {
		items, err := gr.s.Jobs.Due(ctx, last, core.Horizon, core.DueItem{}, 1)
		if err != nil {
			return g, fmt.Errorf("read due index of partition %d: %w", last, err)
		}
		if len(items) == 0 {
			next.Readable = last
		}
	}
	o := gr.plan.With(g.Groups)
	if want := gr.wanted(o, max(g.Partitions, 1)); want > o.Groups {
		next.Groups = want
	}
	return next, nil
}

// wanted returns the number of groups that the largest recent group needs. Partitions and groups get equal shares of
// the jobs.
func (gr *Growth) wanted(o plan.Options, partitions int) int {
	now := core.InstantOf(gr.now())
	groups := o.Groups
	for g, n := range gr.groups {
		if now.Time().Sub(g.planAt.Time()) > 2*o.Window {
			delete(gr.groups, g)
		} else if n*partitions > o.GroupEvery {
			groups = max(groups, o.GroupsFor(n*partitions*g.of))
		}
	}
	return groups
}

// Move moves some jobs that are stored in partition p, but belong to another partition. The parameter from is the current
// time; jobs due by then move when they are advanced.
func (gr *Growth) Move(ctx context.Context, g core.Global, p int, from core.Instant) error {
	if g.Partitions <= 1 && p == 0 || g.Readable <= g.Partitions && gr.rates.stable(g, gr.now()) {
		return nil
	}
	items, err := gr.s.Jobs.Due(ctx, p, core.Horizon, core.DueItem{PlanAt: from + 1}, gr.rates.Move)
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
	found, err := gr.s.Jobs.Get(ctx, store.Planning, jobs)
	if err != nil {
		return fmt.Errorf("read jobs to move: %w", err)
	}
	moves := make([]core.Advance, 0, len(found))
	for _, j := range found {
		if j.Err != nil { // reported when it is due
			continue
		}
		s := &j.Is.Sched
		if s.PlanAt == 0 || s.Partition != p {
			continue
		}
		m := s.Stay()
		m.NewPartition = core.PartitionOf(s.ID, g.Partitions)
		moves = append(moves, m)
	}
	if len(moves) > 0 {
		gr.s.Advance(ctx, moves) // failures are found again
	}
	return nil
}
