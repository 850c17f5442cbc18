package ring

import (
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// PutBackAfter is the delay after its due time from which a message counts as requeued.
const PutBackAfter = 30 * time.Second

// MaxReceives is how often a queue delivers a message before it is moved to the dead-letter queue. It
// allows for an outage of an hour and a half.
const MaxReceives = 250

// Oldest is the backlog of the delay queue; it covers only messages of kind fires.
type Oldest struct {
	// Due is the due time of the oldest due message; zero if none is due.
	Due time.Time
	// Back are the due times of requeued messages, sorted and unique. They do not count for Due,
	// because other messages may be on time.
	Back []core.Instant
}

// Note counts a message that is visible from due on. Call Sort after the last one.
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

// Sort sorts Back and removes duplicates.
func (o *Oldest) Sort() {
	slices.Sort(o.Back)
	o.Back = slices.Compact(o.Back)
}

// First returns the earlier of Due and the first of Back; zero if there is neither.
func (o Oldest) First() time.Time {
	if len(o.Back) > 0 {
		if at := o.Back[0].Time(); o.Due.IsZero() || at.Before(o.Due) {
			return at
		}
	}
	return o.Due
}

// PutBack reports whether a message with a slot in first ... last was requeued.
func (o Oldest) PutBack(first, last core.Instant) bool {
	i, _ := slices.BinarySearch(o.Back, first)
	return i < len(o.Back) && o.Back[i] <= last
}

// MayName reports whether a queued message may contain a run of a past slot.
func (o Oldest) MayName(slot core.Instant) bool {
	return o.PutBack(slot, slot) || !o.Due.IsZero() && !slot.Time().Before(o.Due)
}
