package notice

import (
	"time"

	"github.com/tickring/tickring/core"
)

// OfRun is what became of the notice of how a run ended, as far as the item of its job still
// knows it: that goes a day after it says nothing any more.
type OfRun struct {
	Event core.Event
	Stand Stand
	// At is when the notice was made, of Counted when it is to be; zero: it is one before the
	// last of its event, of which neither this nor each channel that gave it up is known any more.
	At      time.Time
	Waiting []Pending // of Told the channels that have not taken it yet
	GivenUp []Untaken // of Told those that never will
}

// Stand is how far a notice has come.
type Stand string

const (
	Owed    Stand = "owed"    // not counted yet
	Counted Stand = "counted" // told at the end of the quiet period
	Made    Stand = "told"    // each channel has taken it, but for those that are named
)

// Run tells what became of the notice of how a run ended; false: nobody was to be told, or it is
// not known any more. A notice stands for what ended from its first to its last, so a run is
// found by its end, also where more came than an item names.
func (s *State) Run(r *core.Run) (n OfRun, is bool) {
	if n.Event = core.EndEvent(r); n.Event == "" || !r.Notice {
		return n, false
	}
	if r.OwesAside().Notice {
		n.Stand = Owed
		return n, true
	}
	in := func(first, last Happening) bool { return !r.EndedAt.Before(first.When) && !r.EndedAt.After(last.When) }
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
