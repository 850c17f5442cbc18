package model

// watch makes the steps of the watchdog: section 6 of the page. It comes when no invocation holds the fire and no executor runs
// it; for unsent fires, when no message is on the ring and the tick is past the instant.
func (g *gen) watch(s *state) {
	if s.watchdog.at != endIdle {
		g.ends(s, "the watchdog", func(t *state) *ender { return &t.watchdog })
		return
	}
	for f := range g.w.Fires {
		if r := &s.runs[f]; g.w.Timeouts && r.is == open && r.owner != 0 && s.seen[f].exec == running {
			t := *s
			t.watchdog = ender{at: endOver, fire: uint8(f), what: endLost, id: 2}
			g.emit(&t, true, "the watchdog finds %s past its timeout, and its executor busy", fireName(f))
		}
		what, looks := g.verdict(s, f)
		if !looks {
			continue
		}
		t := *s
		if g.w.Kind != Trigger {
			t.over = max(s.over, uint8(f+1))
		}
		t.watchdog = ender{at: endRead, fire: uint8(f), what: what, id: 2}
		g.emit(&t, false, "the watchdog looks at %s", fireName(f))
	}
}

// verdict implements the table of section 6: the watchdog's intended result for a run, and whether the watchdog reads the run.
func (g *gen) verdict(s *state, f int) (what uint8, looks bool) {
	r, m := &s.runs[f], &s.seen[f]
	if m.known == 0 || m.exec == running || m.reports == 1 || s.busy(f) || s.changing(f) {
		return 0, false
	}
	switch {
	case r.is != open:
		return endLost, r.owes != 0 || r.place != 0
	case m.known&knownSettled != 0, g.w.BegunIsJudged:
	case m.known&knownLeft == 0, s.onRing(f):
		return 0, false
	case !s.paused() && s.job.next <= uint8(f) && g.w.Kind != Trigger:
		return 0, false // a message of the new revision may be on its way
	}
	if r.owner == 0 && r.maybeSent == 0 {
		return endLeft, m.known&knownLeft != 0
	}
	return endLost, true
}

// giveUp records that a run is past its timeout, and only then has its executor end it.
func (g *gen) giveUp(s state, who string, of func(*state) *ender) {
	e := *of(&s)
	f := int(e.fire)
	if e.at == endOver && s.runs[f].kill == 0 {
		g.write(s, who+" records that "+fireName(f)+" is past its timeout", func(t *state) bool {
			r := &t.runs[f]
			if r.is != open || r.kill != 0 {
				return false
			}
			r.kill = 2
			return true
		}, func(t *state, a answer) {
			if of(t).at = endTell; a != ok {
				*of(t) = ender{}
			}
		}, late{})
		return
	}
	of(&s).at = endRead
	if m := &s.seen[f]; m.exec == running {
		m.exec, m.reports = reported, 1
	}
	g.emit(&s, false, "%s tells the executor to end %s", who, fireName(f))
}

// changing reports whether a change with a revAt before a fire's instant is being stored: no
// such write takes as long as the minutes after which the watchdog comes.
func (s *state) changing(f int) bool {
	for i := range s.people {
		if p := &s.people[i]; (p.at == toCover || p.at == toChange) && int(p.due) <= f {
			return true
		}
	}
	for i := range s.tickers {
		if x := &s.tickers[i]; x.at == tickResume && int(x.slot) <= f {
			return true
		}
	}
	return false
}

// consumeCheck stores the entries of a check as their journal, and only then reads the runs.
func (g *gen) consumeCheck(s state) {
	c := s.check
	s.check = check{}
	if g.w.CheckOnlyNames {
		for f := range g.w.Fires {
			if c.says[f] != nothing {
				s.seen[f].note(c.says[f], s.runs[f].owner == c.nonce && s.runs[f].past == 0)
			}
		}
		g.emit(&s, false, "the check is consumed, and names the runs alone")
		return
	}
	g.write(s, "the consumer of the check stores its journal", g.putJournal(c.nonce, c.says), func(t *state, a answer) {
		if a != ok && a != refusedAnswer {
			t.check = c
		}
	}, late{})
}
