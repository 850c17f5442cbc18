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

// Phase is where in a second a pass is to begin, 0 anywhere: a lonely message
// that a queue of whole seconds takes Way later turns visible Lonely before its
// slot.
func (c Cut) Phase() time.Duration {
	if c.Lonely == 0 {
		return 0
	}
	return time.Second - c.Lonely - c.Way
}
