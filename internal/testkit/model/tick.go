package model

// tick makes the steps of ticker k: section 3 of the page, and the entries of the due index.
func (g *gen) tick(s *state, k int) {
	t := *s
	x := &t.tickers[k]
	switch x.at {
	case tickIdle:
		g.tickReads(s, k)
		return
	case tickRead:
		g.enqueue(t, k)
	case tickSent:
		g.advance(t, k)
	case tickResume:
		g.resumeByTick(t, k)
	case tickEntry:
		g.readRunOfEntry(t, k)
	case tickEntryRun:
		g.enqueueEntry(t, k)
	case tickEntrySent:
		g.removeEntry(t, tickName(k), x.slot, func(t *state, _ answer) { t.tickers[k] = ticker{} })
	}
	if s.left.crash > 0 {
		t := *s
		t.tickers[k] = ticker{}
		g.dies(t, tickName(k))
	}
}

// tickReads is step 1: a strongly consistent read of due entries.
func (g *gen) tickReads(s *state, k int) {
	t := *s
	x := &t.tickers[k]
	switch {
	case s.entry != 0:
		*x = ticker{at: tickEntry, slot: s.entry}
		g.emit(&t, false, "%s finds the entry of the trigger", tickName(k))
	case g.w.Kind == Trigger:
	case s.paused():
		if g.w.EndsBy && s.left.changes > 0 && s.job.rev < 3 {
			due := max(s.due(), s.over)
			for ; due <= uint8(g.w.Fires); due++ {
				t = *s
				t.tickers[k] = ticker{at: tickResume, rev: s.job.rev, next: s.job.next, tail: s.job.tail, slot: due}
				if g.w.RecordBeforeWrite {
					t.alleged++
				}
				g.emit(&t, false, "%s reads the job: the pause has ended, with %d instants before", tickName(k), due)
			}
		}
	case s.job.tail != 0:
		*x = ticker{at: tickRead, rev: s.job.rev, next: s.job.next, tail: s.job.tail}
		g.emit(&t, false, "%s reads the job: revision %d, the chain of %s is its tail", tickName(k), s.job.rev,
			fireName(int(s.job.tail-1)))
	case s.job.next < uint8(g.w.Fires):
		*x = ticker{at: tickRead, rev: s.job.rev, next: s.job.next}
		g.emit(&t, false, "%s reads the job: revision %d, next is %s", tickName(k), s.job.rev, fireName(int(s.job.next)))
	}
}

// enqueue is steps 2 and 3: all fires of the window, with the revision read.
func (g *gen) enqueue(s state, k int) {
	x := &s.tickers[k]
	var fires uint8
	switch {
	case g.w.Kind == FixedDelay && x.tail != 0:
		if !g.lookAtTail(&s, k) {
			return
		}
		fires = 1 << (x.tail - 1)
	case g.w.Kind == FixedDelay:
		fires = 1 << x.next
	default:
		fires = g.w.all() &^ (1<<x.next - 1)
	}
	if _, free := s.freeMessage(); !free {
		return
	}
	m := message{fires: fires, rev: x.rev, at: onRing}
	g.write(s, tickName(k)+" puts "+firesName(fires)+" on the ring", putMessage(m), func(t *state, a answer) {
		t.tickers[k].at = tickSent
		if a != ok {
			t.tickers[k] = ticker{}
		}
	}, late{})
}

// lookAtTail lets a tick do work that the end of a chain missed, and reports whether to send the tail's fire again.
func (g *gen) lookAtTail(s *state, k int) (again bool) {
	x := &s.tickers[k]
	f := int(x.tail - 1)
	r := &s.runs[f]
	t := *s
	switch out := r.is == open && (r.owner != 0 || r.queued == 1); {
	case r.is > open:
		t.tickers[k].at = tickSent
		if g.w.NoLookAtTail {
			t.tickers[k] = ticker{}
		}
		g.emit(&t, false, "%s looks at the tail %s: it has ended", tickName(k), fireName(f))
	case out && (g.w.ClaimedTailIsOut || r.owner != 0 && r.past == 0 || r.rev >= x.rev):
		t.tickers[k] = ticker{}
		g.emit(&t, false, "%s looks at the tail %s: it is on its way", tickName(k), fireName(f))
	default:
		return true
	}
	return false
}

// advance is step 4; condition: rev, next and tail as read.
func (g *gen) advance(s state, k int) {
	x := s.tickers[k]
	g.write(s, tickName(k)+" advances the job", func(t *state) bool {
		j := &t.job
		if j.rev != x.rev && !g.w.AdvanceIgnoresRev || j.next != x.next || j.tail != x.tail {
			return false
		}
		switch {
		case g.w.Kind != FixedDelay:
			j.next = uint8(g.w.Fires)
		case x.tail == 0:
			j.tail = x.next + 1
		case t.runs[x.tail-1].is > open:
			j.next, j.tail = x.tail, 0
		}
		return true
	}, func(t *state, a answer) {
		if a == throttled {
			return // it does not send this message twice
		}
		t.tickers[k] = ticker{}
	}, late{})
}

// resumeByTick ends a pause whose end has come: the same write as an advance, and its change record is part of it.
func (g *gen) resumeByTick(s state, k int) {
	x := s.tickers[k]
	g.write(s, tickName(k)+" starts the job again", func(t *state) bool {
		if t.job.rev != x.rev || t.job.next != x.next || t.job.tail != x.tail {
			return false
		}
		g.revise(t, resume, x.slot)
		if g.w.RecordBeforeWrite {
			t.alleged--
		}
		t.left.changes--
		return true
	}, func(t *state, _ answer) { t.tickers[k] = ticker{} }, late{})
}

func (g *gen) readRunOfEntry(s state, k int) {
	x, r := &s.tickers[k], &s.runs[0]
	switch {
	case r.is != open:
		x.at = tickEntrySent
		g.emit(&s, false, "%s reads the run of the entry: it has ended", tickName(k))
	case r.slot+1 != x.slot: // the index may be behind: it has the entry of the new time
		s.tickers[k] = ticker{}
		g.emit(&s, false, "%s reads the run of the entry: it was moved", tickName(k))
	default:
		x.at = tickEntryRun
		if g.w.EntryRemovedFirst {
			s.entry = 0
		}
		g.emit(&s, false, "%s reads the run of the entry", tickName(k))
	}
}

func (g *gen) enqueueEntry(s state, k int) {
	if _, free := s.freeMessage(); !free {
		return
	}
	m := message{fires: 1, slot: s.tickers[k].slot - 1, at: onRing}
	g.write(s, tickName(k)+" sends the trigger", putMessage(m), func(t *state, a answer) {
		t.tickers[k].at = tickEntrySent
		if a != ok {
			t.tickers[k] = ticker{}
		}
	}, late{})
}

// removeEntry removes the entry of one time from the due index.
func (g *gen) removeEntry(s state, who string, slot uint8, then func(*state, answer)) {
	g.write(s, who+" removes the entry", func(t *state) bool {
		if t.entry == slot || g.w.EntryRemovedBlindly {
			t.entry = 0
		}
		return true
	}, then, late{})
}

func tickName(k int) string { return [...]string{"T1", "T2"}[k] }
