package model

// callbacks makes the steps of executors and of the callback under way: section 5 of the page.
func (g *gen) callbacks(s *state) {
	if s.callback.at != endIdle {
		g.ends(s, "the callback", func(t *state) *ender { return &t.callback })
		return
	}
	for f := range g.w.Fires {
		m := &s.seen[f]
		t := *s
		switch {
		case m.exec == running:
			t.seen[f].exec, t.callback = reported, ender{at: endRead, fire: uint8(f), what: endFailed, id: 1}
			g.emit(&t, false, "the executor reports the end of %s", fireName(f))
			for word := uint8(endSnoozed); g.w.Words && word <= endCancelled; word++ {
				t = *s
				t.seen[f].exec, t.seen[f].word = reported, word
				t.callback = ender{at: endRead, fire: uint8(f), what: word, id: 1}
				g.emit(&t, false, "the executor reports that %s failed, and %s", fireName(f), wordName(word))
			}
			t = *s
			t.seen[f].exec = reported
			g.emit(&t, true, "the executor dies with %s, and reports nothing", fireName(f))
		case m.exec == reported && s.left.second > 0:
			t.left.spend(&t.left.second)
			t.callback = ender{at: endRead, fire: uint8(f), what: max(m.word, endFailed), id: 1}
			g.emit(&t, true, "the executor reports the end of %s once more", fireName(f))
		}
		if r := &s.runs[f]; g.w.Strangers && r.is == open && r.owner == 0 && r.maybeSent == 0 {
			t = *s
			t.callback = ender{at: endRead, fire: uint8(f), what: endStranger, id: 1}
			g.emit(&t, true, "a sender that knows the ID reports the end of %s, which no owner has", fireName(f))
		}
		if m.reports == 1 {
			t = *s
			t.seen[f].reports, t.callback = 0, ender{at: endRead, fire: uint8(f), what: endKilled, id: 1}
			g.emit(&t, false, "the executor reports %s as killed", fireName(f))
		}
	}
}

// ends makes the next step of an actor that closes a run; of finds that actor in a state.
func (g *gen) ends(s *state, who string, of func(*state) *ender) {
	e := of(s)
	switch e.at {
	case endRead:
		g.readToClose(*s, who, of)
	case endClose:
		g.closeRun(*s, who, of)
	case endDraw, endCreate, endSend, endNote:
		g.makeOwed(*s, who, of)
	case endOver, endTell:
		g.giveUp(*s, who, of)
	case endChain:
		g.write(*s, who+" moves the job on after "+fireName(int(e.fire)), g.putChainEnded(int(e.fire)),
			func(t *state, _ answer) { *of(t) = ender{} }, late{})
	}
	if s.left.crash > 0 {
		t := *s
		*of(&t) = ender{}
		g.dies(t, who)
	}
}

// readToClose reads the run before F1.
func (g *gen) readToClose(s state, who string, of func(*state) *ender) {
	e := of(&s)
	f := int(e.fire)
	r := &s.runs[f]
	words := "it is open"
	switch e.kill = r.kill; {
	case r.is == absent:
		g.breaks("1: a report finds no run")
		*e = ender{}
		words = "there is none"
	case r.is != open && e.what == endSnoozed && r.word != endSnoozed && g.w.WordMakesAttempt:
		e.at, words = endCreate, "it is closed, and was to be tried again"
	case r.is != open && r.owes != 0:
		e.at, e.id, e.place, words = endCreate, r.owes, r.place, "it is closed, and owes"
	case r.is != open && r.place != 0:
		e.at, e.id, e.place, words = endDraw, 0, r.place, "it is closed, and owes children"
	case r.is != open && g.w.Kind == FixedDelay && s.job.tail == uint8(f+1):
		e.at, words = endChain, "it is closed"
	case r.is != open:
		*e, words = ender{}, "it is closed"
	case e.unsent(r) && !g.w.ReportEndsUnsent:
		if e.what != endStranger {
			g.breaks("5: the result of a sent run is not accepted, because no owner has the run")
		}
		*e, words = ender{}, "no owner has it, so this is not its end"
	case e.what == endKilled && r.maybeSent == 1 && r.kill == 0 && !g.w.KilledCloses:
		*e, words = ender{}, "it may have been sent twice, so this is not its end"
	default:
		e.at = endClose
	}
	g.emit(&s, false, "%s reads %s: %s", who, fireName(f), words)
}

// unsent reports whether a report is of a run that was never sent, or proven not to have arrived.
func (e *ender) unsent(r *run) bool {
	return e.what != endLost && e.what != endLeft && r.owner == 0 && r.maybeSent == 0
}

// closeRun is F1.
func (g *gen) closeRun(s state, who string, of func(*state) *ender) {
	e := *of(&s)
	f := int(e.fire)
	is, owes := g.result(e)
	g.write(s, who+" closes "+fireName(f)+" as "+runName(is), func(t *state) bool {
		r := &t.runs[f]
		switch {
		case r.is != open, e.what == endLeft && (r.owner != 0 || r.maybeSent == 1):
			return false
		case e.unsent(r) && !g.w.ReportEndsUnsent:
			return false
		case e.what == endKilled && e.kill == 0 && r.maybeSent == 1 && !g.w.KilledCloses:
			return false
		case fails(is) && r.kill != e.kill && !g.w.KillIsNotSeen:
			return false
		}
		if r.kill != 0 && e.word(g.w) != 0 {
			g.breaks("5: a run that was killed, or is past its timeout, ends with the result of its handler")
		}
		if e.unsent(r) {
			g.breaks("5: a report ends a run that no owner has")
		}
		if owes != 0 && r.kill == 1 {
			g.breaks("5: a retry of a run that a user killed")
		}
		if is == killed && r.kill == 2 {
			g.breaks("5: a run past its timeout ends as killed")
		}
		if is == killed && r.kill == 0 && t.seen[f].exec == running {
			g.breaks("5: a 'killed' of our own making closes a run that runs")
		}
		r.is, r.owes, r.place, r.word = is, owes, g.w.firstPlace(is), e.word(g.w)
		return true
	}, func(t *state, a answer) {
		e := of(t)
		switch {
		case a == ok && owes != 0:
			e.at = endCreate
		case a == ok && t.runs[f].place != 0:
			e.at, e.place = endDraw, t.runs[f].place
		case a == ok && g.w.Kind == FixedDelay:
			e.at = endChain
		case a == ok:
			*e = ender{}
		case a == throttled, a == refusedAnswer && e.what == endLeft:
			*e = ender{}
		case a == unknown && g.w.OwnIDs && owes != 0:
			e.at = endCreate
		default:
			e.at = endRead
		}
	}, late{})
}

// word returns the handler's result that decides about the retry, or 0 if it does not decide.
func (e *ender) word(w *World) uint8 {
	if e.what < endSnoozed || e.kill != 0 && !w.WordBeatsKill {
		return 0
	}
	return e.what
}

func fails(is uint8) bool { return is == failed || is == lost }

// result returns the state in which an ender closes a run, and the follow-ups of the close.
func (g *gen) result(e ender) (is, owes uint8) {
	switch {
	case e.what == endLeft:
		return skipped, 0
	case e.word(g.w) == endSnoozed && !(g.w.WordNeedsRetries && g.w.noRetries()):
		return failed, e.id
	case e.word(g.w) == endCancelled && !g.w.CancelIsAFailure:
		return failed, 0
	case e.kill == 1 || e.kill == 2 && g.w.TimeoutIsAKill || e.kill == 0 && e.what == endKilled:
		return killed, 0
	case e.what == endLost:
		is = lost
	default:
		is = failed
	}
	if g.w.noRetries() {
		return is, 0 // no retries here: its chain goes on
	}
	return is, e.id
}

// create is F2; condition: no item.
func (g *gen) create(f int, _, id uint8) func(*state) bool {
	return func(s *state) bool {
		r := &s.runs[f]
		if r.retries&(1<<id) != 0 {
			return true // rejected because it exists: equally good
		}
		r.retries |= 1 << id
		if r.is > open && !g.w.triedAgain(r) {
			g.breaks("5: a retry of a run that must not be retried")
		}
		if r.retries&(r.retries-1) != 0 {
			g.breaks("5: two retries of one run")
		}
		return true
	}
}

// sendOwed is F3.
func (g *gen) sendOwed(f int, _, _ uint8) func(*state) bool {
	return func(s *state) bool {
		s.runs[f].sent = 1
		return true
	}
}

// noteOwed is F4; condition: closed.
func (g *gen) noteOwed(f int, _, _ uint8) func(*state) bool {
	return func(s *state) bool {
		r := &s.runs[f]
		if r.retries == 0 || r.sent == 0 {
			g.breaks("5: nothing is owed any more, and the retry is not on its way")
		}
		r.owes = 0
		return true
	}
}

// putChainEnded moves a fixed delay on; condition: rev, next and tail as read, and the tail is the chain's first run. It repeats
// the read after a rejected write, so the read and the write are one step.
func (g *gen) putChainEnded(f int) func(*state) bool {
	return func(s *state) bool {
		if s.job.tail != uint8(f+1) && !g.w.ChainIgnoresTail {
			return true
		}
		g.leaveTail(s)
		s.job.next, s.job.tail = max(s.job.next, uint8(f))+1, 0
		return true
	}
}

// leaveTail asserts that a chain has ended when its job is moved on.
func (g *gen) leaveTail(s *state) {
	if tail := s.job.tail; tail != 0 && s.runs[tail-1].is <= open {
		g.breaks("a job leaves a chain that has not ended")
	}
}

// noRetries reports whether nothing is tried again by itself.
func (w *World) noRetries() bool { return w.Kind == FixedDelay || w.Children > 0 || w.Spent }

// triedAgain reports whether a closed run must have a retry.
func (w *World) triedAgain(r *run) bool {
	return fails(r.is) && (r.word == endSnoozed || r.word == 0 && !w.noRetries())
}

func wordName(word uint8) string {
	return [...]string{"is to be tried again later", "is not to be tried again"}[word-endSnoozed]
}

// closeFailed is step 8: F1 by a dispatcher; condition: open, owner = mine.
func (g *gen) closeFailed(s state, k, f int) {
	nonce := s.disp[k].nonce
	owes := uint8(3)
	if g.w.noRetries() {
		owes = 0
	}
	g.write(s, dispName(k)+" closes "+fireName(f)+" as failed", func(t *state) bool {
		r := &t.runs[f]
		if r.is != open || r.owner != nonce {
			return false
		}
		r.is, r.owes = failed, owes
		if r.kill == 1 {
			r.is, r.owes = killed, 0
		}
		r.place = g.w.firstPlace(r.is)
		return true
	}, func(t *state, a answer) {
		i := &t.disp[k].of[f]
		switch {
		case a == ok && t.runs[f].owes != 0:
			i.is = owing2
		case a == ok && t.runs[f].place != 0:
			i.is, i.place = owing1, t.runs[f].place
		case a == ok:
			i.is = g.afterSkip()
		case a != throttled:
			i.is = toLook
		}
	}, late{})
}

// chainGoesOn moves a fixed delay on after this dispatcher recorded a skip; the tick repairs a failure here.
func (g *gen) chainGoesOn(s state, k, f int) {
	g.write(s, dispName(k)+" moves the job on after "+fireName(f), g.putChainEnded(f),
		func(t *state, _ answer) { t.disp[k].of[f].is = done }, late{})
}

func runName(is uint8) string {
	return [...]string{"absent", "open", "failed", "skipped", "lost", "killed", "planned", "succeeded"}[is]
}
