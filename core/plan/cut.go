package plan

import (
	"time"

	"github.com/tickring/tickring/core"
)

// Cut is how long before its slot a message of fires turns visible on the ring,
// so that it is in hand when the slot comes. A herd is taken in hand earlier, for
// that warms what receives it; a fire that is alone in its slot only just in
// time, for holding is what it costs. The zero value is no cut.
type Cut struct {
	// Step is the cut up to Every fires of a slot, and what each Every more add;
	// Max bounds it.
	Every     int
	Step, Max time.Duration
	// Few fires of a slot, which fit into one message, are no herd: they are cut as
	// a lonely one.
	Few int
	// Lonely is the cut of a fire that is alone in its slot, LonelyMin the least
	// of it. A queue that counts in whole seconds rounds away what lies between:
	// it is kept by the phase of the beats.
	Lonely, LonelyMin time.Duration
	// Way is what a pass takes from its beginning to the queue, at least.
	Way time.Duration
	// Lonely follows what is measured where fires are taken in hand: by FollowStep
	// at a time, FollowMax more at most, and not again within FollowEvery: until
	// then messages come that were cut before.
	FollowStep, FollowMax, FollowEvery time.Duration
}

// Of is the cut of the messages of a slot that has so many fires.
func (c Cut) Of(_ core.Instant, fires int) time.Duration {
	switch {
	case c.Every <= 0 || fires <= 0:
		return 0
	case fires <= max(c.Few, 1):
		return c.LonelyMin
	}
	return min(c.Step*time.Duration((fires+c.Every-1)/c.Every), c.Max)
}

// staleEarly is the age from which a measurement says nothing about today.
const staleEarly = 2 * time.Hour

// Phase is where in a second a pass is to begin, 0 anywhere: a lonely message
// that a queue of whole seconds takes Way later turns visible Lonely before its
// slot, more or less by what was measured.
func (c Cut) Phase(e core.Early, now time.Time) time.Duration {
	if c.Lonely == 0 {
		return 0
	}
	lonely := c.Lonely
	if now.Sub(e.At) < staleEarly {
		lonely = c.bound(lonely + e.Shift)
	}
	return time.Second - lonely - c.Way
}

func (c Cut) bound(lonely time.Duration) time.Duration {
	return min(max(lonely, c.LonelyMin), c.Lonely+c.FollowMax)
}

// enoughEarly is how many messages a measurement needs for the cut to follow it.
const enoughEarly = 20

// Follow is the measurement to store after was: that of one process over a
// minute, with what the cut is to be moved by. The cut grows where a tenth of the
// lonely messages came later than LonelyMin before their slot, and shrinks where
// not a tenth came that late that it could not be less.
func (c Cut) Follow(was, now core.Early) core.Early {
	now.Shift, now.Shifted = was.Shift, was.Shifted
	if now.At.Sub(was.At) >= staleEarly {
		now.Shift = 0
	}
	if c.Lonely == 0 || now.Messages < enoughEarly || now.At.Sub(was.Shifted) < c.FollowEvery {
		return now
	}
	lonely := c.bound(c.Lonely + now.Shift)
	next := lonely
	switch {
	case now.Low < c.LonelyMin:
		next = c.bound(lonely + c.FollowStep)
	case now.Low >= c.LonelyMin+2*c.FollowStep:
		next = c.bound(lonely - c.FollowStep)
	}
	if next != lonely {
		now.Shift, now.Shifted = next-c.Lonely, now.At
	}
	return now
}
