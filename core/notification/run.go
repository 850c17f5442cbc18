package notification

import (
	"time"

	"github.com/tickring/tickring/core"
)

// OfRun is the status of the notification of a run's end. It comes from the item of the run's job, which is
// deleted a day after it is empty.
type OfRun struct {
	Event core.Event
	Stand DeliveryStatus
	// At is when the notification was made, or for Counted when it is due. Zero: an older notification of the
	// event, for which the item has neither the time nor all channels that gave it up.
	At      time.Time
	Waiting []Pending     // for Made: channels that have not accepted it
	GivenUp []Undelivered // for Made: channels that gave it up
}

// DeliveryStatus is the progress of a notification.
type DeliveryStatus string

const (
	Owed    DeliveryStatus = "owed"    // not counted
	Counted DeliveryStatus = "counted" // due at the end of the quiet period
	Made    DeliveryStatus = "told"    // accepted by all channels, except the listed ones
)

// Run returns the status of the notification of a run's end; false: there is none, or it is unknown. A
// notification covers all ends between its first and last, so Run finds runs by their end, even if the item
// does not name them.
func (s *State) Run(r *core.Run) (n OfRun, is bool) {
	if n.Event = core.EndEvent(r); n.Event == "" || !r.Notice {
		return n, false
	}
	if r.OwesPostRun().Notice {
		n.Stand = Owed
		return n, true
	}
	in := func(first, last Occurrence) bool { return !r.EndedAt.Before(first.When) && !r.EndedAt.After(last.When) }
	for i := range s.Told {
		t := &s.Told[i]
		switch {
		case t.Event != n.Event:
		case t.Count > 0 && in(*t.First, *t.Last):
			n.Stand, n.At = Counted, t.Quiet
			return n, true
		case !t.Through.Before(r.EndedAt):
			n.Stand = Made
			if !r.EndedAt.Before(t.Since) {
				n.At = t.Sent
			}
			for _, p := range s.Pending {
				if p.Event == n.Event && in(p.First, p.Last) {
					n.Waiting = append(n.Waiting, p)
				}
			}
			for _, g := range t.GivenUp {
				if in(g.First, g.Last) {
					n.GivenUp = append(n.GivenUp, g)
				}
			}
			return n, true
		}
	}
	return n, false
}
