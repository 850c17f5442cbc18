package plan

import (
	"time"

	"github.com/tickring/tickring/core"
)

// LeadTime is how long before its slot a message of fires turns visible on the ring,
// so that it is in hand when the slot comes. A burst is taken in hand earlier, for
// that warms what receives it; a fire that is alone in its slot only just in
// time, for holding is what it costs. The zero value is none.
type LeadTime struct {
	// Step is the lead time up to Every fires of a slot, and what each Every more add;
	// Max bounds it.
	Every     int
	Step, Max time.Duration
	// Few fires of a slot, which fit into one message, are no burst: theirs is that of
	// a lonely one.
	Few int
	// Lonely is the lead time of a fire that is alone in its slot, LonelyMin the least
	// of it. A queue that counts in whole seconds rounds away what lies between:
	// it is kept by the phase of the beats.
	Lonely, LonelyMin time.Duration
	// Way is what a pass takes from its beginning to the queue, at least.
	Way time.Duration
}

// Of is the lead time of the messages of a slot that has so many fires.
func (l LeadTime) Of(_ core.Instant, fires int) time.Duration {
	switch {
	case l.Every <= 0 || fires <= 0:
		return 0
	case fires <= max(l.Few, 1):
		return l.LonelyMin
	}
	return min(l.Step*time.Duration((fires+l.Every-1)/l.Every), l.Max)
}

// Phase is where in a second a pass is to begin, 0 anywhere: a lonely message
// that a queue of whole seconds takes Way later turns visible Lonely before its
// slot.
func (l LeadTime) Phase() time.Duration {
	if l.Lonely == 0 {
		return 0
	}
	return time.Second - l.Lonely - l.Way
}
