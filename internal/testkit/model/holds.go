package model

import "slices"

// unnamed finds an open run that breaks promise 1 of section 7: no message, no
// journal, no check, no entry and no invocation that holds its message names it.
func (w *World) unnamed(s *state) (f int, found bool) {
	for f := range w.Fires {
		if s.runs[f].is != open || s.seen[f].known != 0 || s.check.says[f] != nothing || s.entry != 0 {
			continue
		}
		if w.Kind == FixedDelay && s.job.tail == uint8(f+1) {
			continue // the tick looks at the tail
		}
		if !s.onRing(f) && !s.busy(f) && !slices.ContainsFunc(s.people[:], func(p person) bool { return p.at == toSendTrigger }) {
			return f, true
		}
	}
	return 0, false
}

// busy reports whether an invocation holds a fire.
func (s *state) busy(f int) bool {
	return slices.ContainsFunc(s.disp[:], func(d invocation) bool { return d.at != unborn && d.fires&(1<<f) != 0 })
}

func (s *state) onRing(f int) bool {
	return slices.ContainsFunc(s.ring[:], func(m message) bool { return m.at == onRing && m.fires&(1<<f) != 0 })
}

func (w *World) rest(s *state) (far int, why string) {
	for i := range s.ring {
		if s.ring[i].at == onRing {
			return 0, "a message is on the ring"
		}
	}
	for k := range s.disp {
		if s.disp[k].at != unborn {
			return 0, "an invocation lives"
		}
	}
	for f := range w.Fires {
		if s.runs[f].is == open {
			return 1, fireName(f) + " is open"
		}
		if s.runs[f].owes != 0 {
			return 1, fireName(f) + " owes its retry"
		}
		if s.runs[f].place != 0 {
			return 1, fireName(f) + " owes its children"
		}
	}
	switch {
	case s.check.nonce != 0 || s.late.what != lateNone || s.entry != 0:
		return 1, "something is on its way"
	case w.Kind != Trigger && !s.paused() && s.job.next < uint8(w.Fires):
		return 2, "the schedule is not planned to its end"
	case s.alleged != 0:
		return 3, "a change is on record that was never made"
	}
	for f := range w.Fires {
		if why := w.lacks(s, f); why != "" {
			return 3, fireName(f) + " " + why
		}
	}
	return 4, ""
}

// lacks returns why a fire has no good end, or "".
func (w *World) lacks(s *state, f int) string {
	r := &s.runs[f]
	switch {
	case r.is == absent && w.demanded(s, f) && s.covered&(1<<f) == 0:
		return "was demanded, and has neither run nor record"
	case w.triedAgain(r) && (r.retries == 0 || r.sent == 0):
		return "has no retry"
	case r.is > open && w.lacksChild(r):
		return "lacks a child"
	case r.is == lost && s.seen[f].tried == 0 && w.stillDemanded(s, f):
		return "was demanded, and closed as lost without an attempt to send it"
	}
	return ""
}

// demanded reports whether a fire is expected by the revision of its time: the last one at whose revAt it was not due.
func (w *World) demanded(s *state, f int) bool {
	switch w.Kind {
	case Trigger:
		return true
	case FixedDelay:
		return false // it demands what its chain comes to: to be planned to the end
	}
	kind := uint8(edit)
	for rev := uint8(2); rev <= s.job.rev; rev++ {
		if c := s.changes[rev-2]; uint8(f) >= c.due {
			kind = c.kind
		}
	}
	return kind != pause
}

// stillDemanded reports whether the present revision demands a fire.
func (w *World) stillDemanded(s *state, f int) bool {
	switch {
	case w.Kind == Trigger:
		return true
	case s.paused():
		return false
	case w.Kind == FixedDelay:
		return s.covered&(1<<f) == 0
	}
	return uint8(f) >= s.due()
}
