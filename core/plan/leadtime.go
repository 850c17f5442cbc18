package plan

import (
	"time"

	"github.com/tickring/tickring/core"
)

// LeadTime defines how long before its due time a message becomes visible to consumers, so that they receive it in time.
// Messages of many runs become visible earlier, so that more consumers can start. A single run becomes visible just in time,
// because a waiting consumer costs money. The zero value means no lead time.
type LeadTime struct {
	// Step is the lead time for up to Every runs with one due time. For more runs, each further group of Every runs adds
	// another Step, up to Max. If Every is 0, there is no lead time.
	Every     int
	Step, Max time.Duration
	// Few is the number of runs that fit into one message. They have the lead time LonelyMin of a single run.
	Few int
	// Lonely is the desired lead time of a single run, and LonelyMin its minimum. A queue with delays in whole seconds rounds
	// the lead time. To compensate, passes start at the part of a second that Phase returns.
	Lonely, LonelyMin time.Duration
	// Way is the minimum time from the start of a pass until its messages are in the queue.
	Way time.Duration
}

// Of returns the lead time of the messages for a number of runs with one due time.
func (l LeadTime) Of(_ core.Instant, fires int) time.Duration {
	switch {
	case l.Every <= 0 || fires <= 0:
		return 0
	case fires <= max(l.Few, 1):
		return l.LonelyMin
	}
	return min(l.Step*time.Duration((fires+l.Every-1)/l.Every), l.Max)
}

// Phase returns how long after a full second a pass must start; 0 means any time. A single run in a queue with delays in whole
// seconds then becomes visible Lonely before its due time.
func (l LeadTime) Phase() time.Duration {
	if l.Lonely == 0 {
		return 0
	}
	return time.Second - l.Lonely - l.Way
}
