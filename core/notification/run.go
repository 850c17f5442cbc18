package notification

import (
	"time"

	"github.com/tickring/tickring/core"
)

// OfRun is the status of the notification about the end of a run. The status is unknown after the stored state of the job's
// notifications has expired.
type OfRun struct {
	Event core.Event
	Stand DeliveryStatus
	// At is when the notification was created. For the status Counted, it is when the notification is due. At is zero if a
	// newer notification of the event exists. The lists Waiting and GivenUp may then be incomplete.
	At      time.Time
	Waiting []Pending     // for Made: channels that have not accepted the notification
	GivenUp []Undelivered // for Made: notifications that were dropped, by channel
}

// A DeliveryStatus is the progress of a notification.
type DeliveryStatus string

const (
	Owed    DeliveryStatus = "owed"    // the event is not counted
	Counted DeliveryStatus = "counted" // the event is counted; its notification is due at the end of the quiet period
	Made    DeliveryStatus = "told"    // all channels accepted the notification, except the ones in OfRun.Waiting and OfRun.GivenUp
)

// Run returns the status of the notification about the end of r. Run returns false if there is no notification or its status
// is unknown. A notification covers all events between its first and last occurrence, so Run compares end times.
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
