package grow

import (
	"cmp"
	"time"

	"github.com/tickring/tickring/core"
)

// Rates say when there are to be more partitions, or fewer. The zero value of a
// field means its default.
type Rates struct {
	Max     int // partitions: 1
	Advance int // a second that one partition takes: 400
	// GrowAfter is for how long one has to be over that before there are twice as many.
	GrowAfter time.Duration // 30 s
	// BusyAfter is for how long one has to be over half of that to be needed: with
	// half as many partitions it would be over the rate.
	BusyAfter time.Duration // 10 s
	// ShrinkAfter is for how long none was needed before there are half as many.
	ShrinkAfter time.Duration // 24 h
	// StableFor is how long a partition that is no longer in use is read all the
	// same: whoever read before that it was in use may put a job there until then.
	StableFor time.Duration // 1 h
	// Move is how many jobs are moved to their partition in a pass, besides those that
	// move when they are advanced.
	Move int // 50
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

// load is how busy a partition was recently.
type load struct {
	second   int64
	advances int
	over     int // seconds in a row over the rate
	half     int // over half of it
}

// count notes advances that happened.
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
	case seconds > 2: // nothing was counted in between: neither says anything
		return n
	}
	return n + int(seconds)
}

// next is g with as many partitions as their loads ask for. A job moves when it
// is next advanced, some besides; all that may still hold jobs are read.
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

// stable reports that the number of partitions did not change recently, so that
// nobody puts a job where it belonged before.
func (r Rates) stable(g core.Global, now time.Time) bool { return now.Sub(g.Busy) >= r.StableFor }
