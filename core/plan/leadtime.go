package plan

import (
	"time"

	"github.com/tickring/tickring/core"
)

// LeadTime is how long before its due time a message becomes visible, so that it is received in time.
// Bursts become visible earlier, because that warms up the receivers. A single run becomes visible just in
// time, because a waiting receiver costs money. The zero value means no lead time.
type LeadTime struct {
	// Step is the lead time for up to Every runs of a due time; each further Every runs add another Step,
	// up to Max.
	Every     int
	Step, Max time.Duration
	// Few is the number of runs that fit into one message. They are not a burst and get the lead time of a single run.
	Few int
	// Lonely is the lead time of a single run, LonelyMin its minimum. A queue that delays by whole seconds rounds the lead
	// time; Phase corrects the rounding.
	Lonely, LonelyMin time.Duration
	// Way is the minimum time from the start of a pass to the queue.
	Way time.Duration
}

// Of returns the lead time of the messages of a slot with a number of runs.
func (l LeadTime) Of(_ core.Instant, fires int) time.Duration {
	switch {
	case l.Every <= 0 || fires <= 0:
		return 0
	case fires <= max(l.Few, 1):
		return l.LonelyMin
	}
	return min(l.Step*time.Duration((fires+l.Every-1)/l.Every), l.Max)
}

// Phase returns when in a second a pass must begin; 0: any time. A single message that reaches a queue of
// whole seconds after Way then becomes visible Lonely before its slot.
func (l LeadTime) Phase() time.Duration {
	if l.Lonely == 0 {
		return 0
	}
	return time.Second - l.Lonely - l.Way
}
