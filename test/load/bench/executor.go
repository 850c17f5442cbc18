package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/wire"
)

// Report has counts of the runs in a time span that an executor received.
type Report struct {
	Distinct, Twice, Early int64
	P50, P99, Max          time.Duration
	// AtOnce is the maximum number of runs of a group that ran at once, for the kind permits.
	AtOnce int
	Parts  []Tail // results for equal parts of the time span
}

// Tail is the 99th percentile of the delay in a part of a time span.
type Tail struct {
	From core.Instant
	P99  time.Duration
}

// receiver counts the runs that an executor receives.
type receiver struct {
	mu    sync.Mutex
	fires arrivals
	fam   family
	crowd crowd
}

// arrivals holds the delays of runs by scheduled time.
type arrivals struct {
	late  map[core.Instant][]int32 // microseconds, capped at half an hour
	twice map[core.Instant]int64
	seen  map[int64]bool
}

func newArrivals() arrivals {
	return arrivals{map[core.Instant][]int32{}, map[core.Instant]int64{}, map[int64]bool{}}
}

func (a *arrivals) add(at core.Instant, late time.Duration) {
	a.late[at] = append(a.late[at], int32(min(late.Microseconds(), 1<<31-1)))
}

func newReceiver() *receiver {
	return &receiver{fires: newArrivals(), fam: family{map[int32][]ended{}, newArrivals()},
		crowd: crowd{groups: map[string]*crowded{}, after: newArrivals()}}
}

// handle executes a run. A run whose params name a group takes some time, and a parent takes a time that its job's number sets.
func (x *receiver) handle(ctx context.Context, r *wire.Run) (int, string) {
	switch instant, planned := core.RunID(r.LogID).Planned(); {
	case r.Params == "" || !planned:
	case r.Params == isParent:
		store.Sleep(ctx, time.Duration(r.JobID%1000)*time.Millisecond)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.fam.ended[r.JobID] = append(x.fam.ended[r.JobID], ended{instant, time.Now()})
	default:
		store.Sleep(ctx, atWork)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.crowd.ends(r.Params, time.Now())
	}
	return wire.CodeSuccess, ""
}

func (x *receiver) received(r *wire.Run, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	instant, planned := core.RunID(r.LogID).Planned()
	switch f := &x.fires; {
	case !planned:
		x.fam.child(r, at)
	case f.seen[r.LogID]:
		f.twice[instant]++
	default:
		f.seen[r.LogID] = true
		f.add(instant, at.Sub(instant.Time()))
		if r.Params != "" && r.Params != isParent {
			x.crowd.comes(r.Params, instant, at)
		}
	}
}

// Kinds of reports.
type kind int

const (
	ofFires    kind = iota // the delay is counted from the scheduled time
	ofChildren             // from the end of the parent run
	ofPermits              // from the time when a slot of the group became free
)

// report returns the counts of the scheduled times from before to.
func (x *receiver) report(of kind, from, to core.Instant, parts int) Report {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch of {
	case ofChildren:
		return x.fam.after.report(from, to, parts)
	case ofPermits:
		r := x.crowd.after.report(from, to, parts)
		r.AtOnce = x.crowd.most
		return r
	}
	return x.fires.report(from, to, parts)
}

// atWork is how long a run takes whose params name a group. A run whose params are isParent
// takes as many milliseconds as the number of its job, 0 to 999.
const (
	atWork   = 250 * time.Millisecond
	isParent = "parent"
)

// crowd holds the running runs by group.
type crowd struct {
	groups map[string]*crowded
	after  arrivals // from when a permit was free and the run due
	most   int      // at once, of any group
}

type crowded struct {
	work int
	free []time.Time // since when the permits are free that are
}

func (c *crowd) comes(group string, instant core.Instant, at time.Time) {
	g := c.groups[group]
	if g == nil {
		g = &crowded{}
		c.groups[group] = g
	}
	g.work++
	c.most = max(c.most, g.work)
	since := instant.Time()
	if len(g.free) > 0 {
		if g.free[0].After(since) {
			since = g.free[0]
		}
		g.free = g.free[1:]
	}
	c.after.add(instant, at.Sub(since))
}

func (c *crowd) ends(group string, at time.Time) {
	g := c.groups[group]
	g.work--
	g.free = append(g.free, at)
}

// parents is the number of parent jobs in the scenario of children: the jobs 1 … parents. Their
// children are the next parents jobs, in equal order.
const parents = 1000

// family holds child runs by the order of their parents' ends.
type family struct {
	ended map[int32][]ended // by job
	after arrivals
}

type ended struct {
	instant core.Instant
	at      time.Time
}

func (f *family) child(r *wire.Run, at time.Time) {
	waiting := f.ended[r.JobID-parents]
	if len(waiting) == 0 || f.after.seen[r.LogID] {
		f.after.twice[core.InstantOf(at)]++
		return
	}
	f.after.seen[r.LogID] = true
	p := waiting[0]
	f.ended[r.JobID-parents] = waiting[1:]
	f.after.add(p.instant, at.Sub(p.at))
}

func (a *arrivals) report(from, to core.Instant, parts int) (r Report) {
	var all []int32
	part := make([][]int32, parts)
	for i := from; i < to; i++ {
		r.Twice += a.twice[i]
		r.Distinct += int64(len(a.late[i]))
		all = append(all, a.late[i]...)
		k := int(int64(i-from) * int64(parts) / int64(to-from))
		part[k] = append(part[k], a.late[i]...)
	}
	for _, us := range all {
		if us < 0 {
			r.Early++
		}
	}
	r.P50, r.P99, r.Max = quantile(all, .5), quantile(all, .99), quantile(all, 1)
	for k := range part {
		r.Parts = append(r.Parts, Tail{From: from + core.Instant(int64(k)*int64(to-from)/int64(parts)), P99: quantile(part[k], .99)})
	}
	return r
}

func quantile(us []int32, q float64) time.Duration {
	if len(us) == 0 {
		return 0
	}
	slices.Sort(us)
	i := min(int(q*float64(len(us))), len(us)-1)
	return time.Duration(us[i]) * time.Microsecond
}
