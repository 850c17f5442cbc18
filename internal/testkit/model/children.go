package model

import "fmt"

// Children that a close owes are made place by place. place is 1 + the place of the next piece, set by the close itself and 0 at
// the end; owes is the ID that is stored for it. Here a piece is one child, and each run that was not skipped has children.

// firstPlace returns the place that a close sets.
func (w *World) firstPlace(is uint8) uint8 {
	if w.Children == 0 || is == skipped {
		return 0
	}
	return 1
}

// draw is C1; condition: place as read, nothing owed.
func (g *gen) draw(f int, place, id uint8) func(*state) bool {
	return func(s *state) bool {
		r := &s.runs[f]
		if (r.place != place || r.owes != 0) && !g.w.DrawIgnoresPlace {
			return false
		}
		r.place, r.owes = place, id
		return true
	}
}

// createChild is F2.
func (g *gen) createChild(f int, place, id uint8) func(*state) bool {
	return func(s *state) bool {
		r := &s.runs[f]
		if r.is <= open || r.is == skipped {
			g.breaks("5: a child of what has not ended, or was skipped")
		}
		r.retries |= 1 << (id + 4*(place-1))
		if made := r.made(place); made&(made-1) != 0 {
			g.breaks("5: two runs of one child")
		}
		return true
	}
}

// made are bits of the IDs under which the child of a place was created.
func (r *run) made(place uint8) uint8 { return r.retries >> (4 * (place - 1)) & 0xf }

// sendChild is F3.
func (g *gen) sendChild(f int, place, _ uint8) func(*state) bool {
	return func(s *state) bool {
		s.runs[f].sent |= 1 << (place - 1)
		return true
	}
}

// noteChild is F4: it moves to the next piece; condition: place as read.
func (g *gen) noteChild(f int, place, _ uint8) func(*state) bool {
	return func(s *state) bool {
		r := &s.runs[f]
		if r.place != place && !g.w.NoteIgnoresPlace {
			return false
		}
		if r.made(place) == 0 || r.sent&(1<<(place-1)) == 0 {
			g.breaks("5: a place is left, and its child is not on its way")
		}
		r.place, r.owes = (place+1)%uint8(g.w.Children+1), 0
		return true
	}
}

// owedStep is one of C1 and F2 to F4, for a child or for a retry.
func (g *gen) owedStep(n uint8, f int, place, id uint8) (what string, do func(*state) bool) {
	steps, of := [...]func(int, uint8, uint8) func(*state) bool{nil, g.create, g.sendOwed, g.noteOwed}, "the retry"
	if g.w.Children > 0 {
		steps, of = [...]func(int, uint8, uint8) func(*state) bool{g.draw, g.createChild, g.sendChild, g.noteChild}, fmt.Sprint("child ", place)
	}
	what = fmt.Sprintf(" %s %s of %s", [...]string{"draws", "creates", "sends", "notes"}[n], of, fireName(f))
	if n == 2 && (g.w.NotedUnsent || g.w.OwesNotedFirst) {
		n = 3
	}
	return what, steps[n](f, place, id)
}

// makeOwed is C1 and F2 to F4 by a callback or the watchdog.
func (g *gen) makeOwed(s state, who string, of func(*state) *ender) {
	e := of(&s)
	f := int(e.fire)
	if e.at == endDraw {
		if e.id = 1; e.what == endLost {
			e.id = 2
		}
	}
	what, do := g.owedStep(e.at-endDraw, f, e.place, e.id)
	g.write(s, who+what, do, func(t *state, a answer) {
		x := of(t)
		switch {
		case a == throttled:
			*x = ender{}
		case a == refusedAnswer, a == unknown && x.at == endDraw && !g.w.OwnIDs:
			x.at, x.id, x.place = endRead, 0, 0
		case a == unknown && x.at != endDraw: // again
		case x.at != endNote:
			x.at++
		case int(x.place) == g.w.Children:
			*x = ender{}
		default:
			x.at, x.id = endDraw, 0
			x.place++
		}
	}, late{})
}

// makeOwedHere is makeOwed for a dispatcher: after its own close, or for follow-ups that it finds.
func (g *gen) makeOwedHere(s state, k, f int) {
	i := &s.disp[k].of[f]
	id := s.runs[f].owes // of a retry
	switch {
	case i.is == owing1:
		i.id, id = 3, 3
	case g.w.Children > 0:
		id = i.id
	case id == 0:
		i.is = done
		g.emit(&s, false, "%s finds that %s owes nothing", dispName(k), fireName(f))
		return
	}
	what, do := g.owedStep(i.is-owing1, f, i.place, id)
	g.write(s, dispName(k)+what, do, func(t *state, a answer) {
		i := &t.disp[k].of[f]
		switch {
		case a == throttled:
			i.is = isLeft
		case a == refusedAnswer, a == unknown && i.is == owing1:
			i.is = toLook
		case a == unknown: // again
		case i.is != owing4:
			i.is++
		case int(i.place) == g.w.Children:
			i.is = done
		default:
			i.is = owing1
			i.place++
		}
	}, late{})
}

// lacksChild reports whether a closed run lacks one of its children.
func (w *World) lacksChild(r *run) bool {
	for place := w.firstPlace(r.is); place != 0 && int(place) <= w.Children; place++ {
		if r.made(place) == 0 || r.sent&(1<<(place-1)) == 0 {
			return true
		}
	}
	return false
}
