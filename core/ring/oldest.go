package ring

import (
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// PutBackAfter is the maximum delay of a message that is not requeued. A message that becomes visible later than this after its
// due time counts as requeued.
const PutBackAfter = 30 * time.Second

// MaxReceives is how often a queue delivers a message before it moves the message to the dead-letter queue. This
// is enough for an outage of an hour and a half.
const MaxReceives = 250

// Oldest is the backlog of the delay queue. Oldest counts only messages with runs.
type Oldest struct {
	// Due is the due time of the oldest message that is due; zero if no message is due.
	Due time.Time
	// Back are the due times of requeued messages, sorted and without duplicates. Requeued messages do not count for Due,
	// because other messages may be on time.
	Back []core.Instant
}

// Note adds a message to o. The parameter slot is the due time of the message, and the parameter due is when the message
// becomes visible. Call Sort after the last message.
func (o *Oldest) Note(now, due time.Time, slot core.Instant) {
	switch at := slot.Time(); {
	case now.Before(at):
	case due.After(at.Add(PutBackAfter)):
		o.Back = append(o.Back, slot)
	case at.Before(due):
		due = at
	}
	if !now.Before(due) && (o.Due.IsZero() || due.Before(o.Due)) {
		o.Due = due
	}
}

// Sort sorts Back and removes its duplicates.
func (o *Oldest) Sort() {
	slices.Sort(o.Back)
	o.Back = slices.Compact(o.Back)
}

// First returns the earliest time in Due and Back; zero if both are empty.
func (o Oldest) First() time.Time {
	if len(o.Back) > 0 {
		if at := o.Back[0].Time(); o.Due.IsZero() || at.Before(o.Due) {
			return at
		}
	}
	return o.Due
}

// PutBack reports whether a requeued message has a due time in the range from the parameter first to the parameter last.
func (o Oldest) PutBack(first, last core.Instant) bool {
	i, _ := slices.BinarySearch(o.Back, first)
	return i < len(o.Back) && o.Back[i] <= last
}

// MayName reports whether a queued message may contain a run with the given due time, which must be in the past.
func (o Oldest) MayName(slot core.Instant) bool {
	return o.PutBack(slot, slot) || !o.Due.IsZero() && !slot.Time().Before(o.Due)
}
