package dispatch

import (
	"time"

	"github.com/tickring/tickring/core"
)

// waitLook is the maximum interval between two checks of a waiting run. A random delay of up to a quarter of it is added.
const waitLook = 12 * time.Second

// laterLook returns when to check a run that begins in a future second: in that second, or after waitLook if that is
// sooner.
func (d *Dispatcher) laterLook(begins core.Instant) time.Time {
	now := d.o.Now()
	if most := now.Add(waitLook); begins.Time().After(most) {
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

// nextLook returns when check n (from 1) of a waiting run happens. The last check follows right after until, when a
// deadline that ended the wait has passed as well.
func (d *Dispatcher) nextLook(try int, until time.Time) time.Time {
	at := d.o.Now().Add(d.backoff(try, waitLook))
	last := d.notAtOnce(until.Add(time.Millisecond))
	if at.After(last) {
		return last
	}
	return at
}
