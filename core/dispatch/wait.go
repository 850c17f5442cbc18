package dispatch

import (
	"cmp"
	"time"

	"github.com/tickring/tickring/core"
)

// A waiting run is woken when an executor or a slot is available. If the wake is lost, the next check finds the run: at the latest
// after waitLook or a quarter of the time that the run has waited, at most waitMost. A random delay of up to a quarter of
// the interval is added.
const (
	waitLook = 12 * time.Second
	waitMost = 11 * time.Minute // with the random delay less than ring.Farthest
	// besideMost is waitMost for a run beside the full queue of its app, which has room again before it is empty.
	besideMost = time.Minute
)

// laterLook returns when to check a run that begins in a future second: in that second.
func (d *Dispatcher) laterLook(begins core.Instant) time.Time {
	if most := d.o.Now().Add(d.o.MaxAhead); begins.Time().After(most) {
		return most
	}
	return d.notAtOnce(begins.Time())
}

// notAtOnce returns at, but not before BackoffMin from now. A queue with whole seconds or another clock would otherwise
// deliver at once, again and again.
func (d *Dispatcher) notAtOnce(at time.Time) time.Time {
	if soonest := d.o.Now().Add(d.o.BackoffMin); at.Before(soonest) {
		return soonest
	}
	return at
}

// nextLook returns when check n (from 1) of a run that has waited since its due time happens. The parameter most limits the
// interval of a run that nothing wakes; 0: waitMost. The last check follows right after until, when a deadline that ended the
// wait has passed as well.
func (d *Dispatcher) nextLook(try int, since core.Instant, most time.Duration, until time.Time) time.Time {
	most = max(waitLook, min(d.o.Now().Sub(since.Time())/4, cmp.Or(most, waitMost)))
	at := d.o.Now().Add(d.backoff(try, most))
	last := d.notAtOnce(until.Add(time.Millisecond))
	if at.After(last) {
		return last
	}
	return at
}
