package partitioning

import (
	"cmp"
	"time"

	"github.com/tickring/tickring/core"
)

// Rates control when the number of partitions grows or shrinks. A field with its zero value gets the default in its comment.
type Rates struct {
	Max     int // maximum number of partitions; default: 1
	Advance int // maximum number of advances per second in one partition; default: 400
	// GrowAfter is how long a partition must exceed Advance before the number of partitions doubles.
	GrowAfter time.Duration // default: 30 s
	// BusyAfter is how long a partition must exceed half of Advance to count as busy. While a partition is busy, the number of
	// partitions is not halved.
	BusyAfter time.Duration // default: 10 s
	// ShrinkAfter is how long no partition must be busy before the number of partitions is halved.
	ShrinkAfter time.Duration // default: 24 h
	// StableFor is how long tickers keep reading a partition after the number of partitions was reduced. A process that uses
	// the old number may add jobs to the partition during this time.
	StableFor time.Duration // default: 1 h
	// Move is the number of jobs that a pass moves to their new partition, in addition to the jobs that it advances.
	Move int // default: 50
}

func (r Rates) defaults() Rates {
	r.Max = cmp.Or(r.Max, 1)
	r.Advance = cmp.Or(r.Advance, 400)
	r.GrowAfter = cmp.Or(r.GrowAfter, 30*time.Second)
	r.BusyAfter = cmp.Or(r.BusyAfter, 10*time.Second)
	r.ShrinkAfter = cmp.Or(r.ShrinkAfter, 24*time.Hour)
	r.StableFor = cmp.Or(r.StableFor, time.Hour)
	r.Move = cmp.Or(r.Move, 50)
	return r
}

// load is the recent load of a partition.
type load struct {
	second   int64
	advances int
	over     int // seconds in a row above the rate
	half     int // above half of it
}

// count adds advances that were stored.
func (l *load) count(r Rates, advances int, now time.Time) {
	if second := now.Unix(); second != l.second {
		l.over = inARow(l.over, l.advances > r.Advance, second-l.second)
		l.half = inARow(l.half, 2*l.advances > r.Advance, second-l.second)
		l.second, l.advances = second, 0
	}
	l.advances += advances
}

func inARow(n int, over bool, seconds int64) int {
	switch {
	case !over:
		return 0
	case seconds > 2: // nothing was counted in between, which shows neither
		return n
	}
	return n + int(seconds)
}

// next returns g with as many partitions as the loads need. Jobs move when they are advanced, and some with Move. All
// partitions that may still hold jobs are read.
func (r Rates) next(g core.Global, loads map[int]*load, now time.Time) core.Global {
	n := max(g.Partitions, 1)
	over, busy := false, false
	for _, l := range loads {
		over = over || l.over >= int(r.GrowAfter/time.Second)
		busy = busy || l.half >= int(r.BusyAfter/time.Second)
	}
	idle := now.Sub(g.Busy)
	switch {
	case over && n < r.Max:
		g.Partitions, g.Busy = min(2*n, r.Max), now
		g.Readable = max(g.Readable, g.Partitions)
	case n == 1:
	case g.Busy.IsZero(), busy && idle > r.ShrinkAfter/4:
		g.Busy = now
	case !busy && idle >= r.ShrinkAfter:
		g.Readable = max(g.Readable, n)
		g.Partitions, g.Busy = n/2, now
	}
	return g
}

// stable reports whether the number of partitions did not change recently, so that no process uses an old number.
func (r Rates) stable(g core.Global, now time.Time) bool { return now.Sub(g.Busy) >= r.StableFor }
