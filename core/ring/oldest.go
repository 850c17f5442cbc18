package ring

import (
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// PutBackAfter is how long after its slot a message is to be seen that counts as put
// back.
const PutBackAfter = 30 * time.Second

// MaxReceives is how often a queue gives out a message, after its visibility or, where
// dispatch could tell, sooner for the first times, before it is a dead letter: an outage
// of what dispatch needs, of an hour and a half, kills no message.
const MaxReceives = 250

// Oldest says how far the ring is behind, of messages of fires alone.
type Oldest struct {
	// Due is when the oldest was due, by its time or its slot; zero if none is due.
	Due time.Time
	// Back are the slots of those that were put back, each once, rising. They do not
	// count for Due: what is put back for hours says nothing of the others.
	Back []core.Instant
}

// Note counts a message that is to be seen from due on. Whoever noted all sorts Back.
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

// Sort brings Back in order.
func (o *Oldest) Sort() {
	slices.Sort(o.Back)
	o.Back = slices.Compact(o.Back)
}

// First is the earlier of Due and the first slot of Back; zero if there is neither.
func (o Oldest) First() time.Time {
	if len(o.Back) > 0 {
		if at := o.Back[0].Time(); o.Due.IsZero() || at.Before(o.Due) {
			return at
		}
	}
	return o.Due
}

// PutBack reports whether a message of a slot in first ... last was put back.
func (o Oldest) PutBack(first, last core.Instant) bool {
	i, _ := slices.BinarySearch(o.Back, first)
	return i < len(o.Back) && o.Back[i] <= last
}

// MayName reports whether a message on the ring may name a run of a slot that is over.
func (o Oldest) MayName(slot core.Instant) bool {
	return o.PutBack(slot, slot) || !o.Due.IsZero() && !slot.Time().Before(o.Due)
}
