package model

// people makes the steps of user k: section 4 of the page, triggers and kills.
func (g *gen) people(s *state, k int) {
	p := &s.people[k]
	who := personName(k)
	switch p.at {
	case away:
		g.begin(s, k)
		return
	case toCover:
		g.cover(*s, k)
	case toChange:
		g.change(*s, k)
	case toChangeTrigger:
		g.changeTrigger(*s, k)
	case toSendTrigger:
		g.sendTrigger(*s, k)
	case toRemoveEntry:
		g.removeEntry(*s, who, p.slot+1, leave(k))
	case toKill:
		g.kill(*s, k)
	}
	if s.left.crash > 0 {
		t := *s
		t.people[k] = person{}
		g.dies(t, who)
	}
}

func leave(k int) func(*state, answer) {
	return func(t *state, _ answer) { t.people[k] = person{} }
}

// begin lets a user read an object to change it. Users can always stop, so the good end must not depend on these steps.
func (g *gen) begin(s *state, k int) {
	who := personName(k)
	if s.left.kills > 0 && s.runs[0].is == open && s.runs[0].owner != 0 && s.runs[0].kill != 1 {
		t := *s
		t.left.kills--
		t.people[k].at = toKill
		g.emit(&t, true, "%s wants f1 killed", who)
	}
	if s.left.changes == 0 {
		return
	}
	if g.w.Kind == Trigger {
		g.beginTrigger(s, k)
		return
	}
	if s.job.rev == 3 {
		return
	}
	for kind := uint8(edit); kind <= resume; kind <<= 1 {
		if g.w.Allowed&kind == 0 || (kind == resume) != s.paused() && kind != edit {
			continue
		}
		if kind == edit && s.paused() {
			continue
		}
		for due := max(s.due(), s.over); due <= uint8(g.w.Fires); due++ {
			if g.w.Due >= 0 && int(due) != g.w.Due {
				continue
			}
			t := *s
			t.left.changes--
			t.people[k] = person{at: toCover, kind: kind, rev: s.job.rev, next: s.job.next, tail: s.job.tail, due: due}
			g.emit(&t, true, "%s reads the job to %s it, %d of its fires are due", who, kindName(kind), due)
		}
	}
}

// cover is step 2: due fires that may be on no message are recorded first.
func (g *gen) cover(s state, k int) {
	p := &s.people[k]
	p.at = toChange
	last := p.due
	if g.w.Kind == FixedDelay {
		last = min(last, p.next+1)
	}
	if s.paused() || p.tail != 0 || p.next >= last || g.w.NoRangeAtChange {
		g.change(s, k)
		return
	}
	fires := uint8(1<<last-1) &^ (1<<p.next - 1)
	g.write(s, personName(k)+" stores that "+firesName(fires)+" is skipped", func(t *state) bool {
		t.covered |= fires
		return true
	}, func(t *state, a answer) {
		if a != ok {
			t.people[k] = person{}
		}
	}, late{})
}

// change is step 3; condition: rev and tail as read. Its record is part of it.
func (g *gen) change(s state, k int) {
	p := s.people[k]
	g.write(s, personName(k)+" stores the change", func(t *state) bool {
		if t.job.rev != p.rev || t.job.tail != p.tail {
			return false
		}
		g.revise(t, p.kind, p.due)
		return true
	}, leave(k), late{}) // rejected and unknown: the user reads and tries again, which is another change here
}

// revise makes the next revision.
func (g *gen) revise(s *state, kind, due uint8) {
	j := &s.job
	wasPaused := s.paused()
	j.rev++
	s.changes[j.rev-2] = change{kind, due}
	switch {
	case g.w.Kind == FixedDelay && j.tail != 0:
		j.next = j.tail - 1 // its fire is sent again under the new revision
	case g.w.Kind == FixedDelay && kind != pause && j.next < uint8(g.w.Fires):
		s.covered |= 1 << j.next
		j.next++ // another instant, and the earlier one is not expected any more
	case g.w.Kind == FixedDelay:
	case wasPaused && g.w.ResumePlansAll:
		j.next = 0
	default:
		j.next = due
	}
}

func (g *gen) beginTrigger(s *state, k int) {
	r := &s.runs[0]
	who := personName(k)
	if g.w.AppPauses {
		t := *s
		t.left.changes--
		t.pause ^= 1
		g.emit(&t, true, "%s pauses or resumes the app", who)
	}
	if r.is != open || r.owner != 0 || r.queued == 1 || r.maybeSent == 1 {
		return
	}
	t := *s
	t.left.changes--
	t.people[k] = person{at: toChangeTrigger, kind: edit, until: r.until, slot: r.slot, params: r.params + 1}
	g.emit(&t, true, "%s reads the trigger to give it other params", who)
	t = *s
	t.left.changes--
	t.people[k] = person{at: toChangeTrigger, kind: edit, until: r.until, slot: r.slot + 1, params: r.params + 1}
	g.emit(&t, true, "%s reads the trigger to give it another slot", who)
	t = *s
	t.left.changes--
	t.people[k] = person{at: toChangeTrigger, kind: pause, until: r.until}
	g.emit(&t, true, "%s reads the trigger to cancel it", who)
}

// changeTrigger is one transaction; condition: no owner, until as read.
func (g *gen) changeTrigger(s state, k int) {
	p := s.people[k]
	if p.kind == pause { // a cancel is F1 of a run without an owner
		g.write(s, personName(k)+" cancels the trigger", func(t *state) bool {
			r := &t.runs[0]
			if r.is != open || r.owner != 0 || r.maybeSent == 1 {
				return false
			}
			r.is = skipped
			return true
		}, leave(k), late{})
		return
	}
	g.write(s, personName(k)+" changes the trigger", func(t *state) bool {
		r := &t.runs[0]
		if r.is != open || r.owner != 0 || r.queued == 1 || r.maybeSent == 1 || r.until != p.until {
			return false
		}
		r.slot, r.params, t.entry = p.slot, p.params, p.slot+1
		if !g.w.ChangeKeepsUntil {
			r.until = t.fresh()
		}
		return true
	}, func(t *state, a answer) {
		t.people[k] = person{}
		if a == ok {
			t.people[k] = person{at: toSendTrigger, slot: p.slot}
		}
	}, late{})
}

// sendTrigger sends a trigger that is near, or leaves it to the tick.
func (g *gen) sendTrigger(s state, k int) {
	slot := s.people[k].slot
	t := s
	t.people[k] = person{}
	g.emit(&t, false, "%s leaves the trigger to the tick", personName(k))
	if _, free := s.freeMessage(); !free {
		return
	}
	if g.w.EntryRemovedFirst && s.entry == slot+1 {
		s.entry = 0
	}
	g.write(s, personName(k)+" sends the trigger", putMessage(message{fires: 1, slot: slot, at: onRing}), func(t *state, a answer) {
		t.people[k] = person{}
		if a == ok {
			t.people[k] = person{at: toRemoveEntry, slot: slot}
		}
	}, late{})
}

// kill records the kill before it notifies the executor.
func (g *gen) kill(s state, k int) {
	if s.people[k].kind == 0 {
		g.write(s, personName(k)+" records that f1 is killed", func(t *state) bool {
			if t.runs[0].is != open {
				return false
			}
			t.runs[0].kill = 1
			return true
		}, func(t *state, a answer) {
			t.people[k] = person{}
			if a == ok {
				t.people[k] = person{at: toKill, kind: 1}
			}
		}, late{})
		return
	}
	s.people[k] = person{}
	if m := &s.seen[0]; m.exec == running {
		m.exec, m.reports = reported, 1
	}
	g.emit(&s, false, "%s tells the executor to end f1", personName(k))
}

func personName(k int) string { return [...]string{"P1", "P2"}[k] }

func kindName(k uint8) string {
	return map[uint8]string{edit: "edit", pause: "pause", resume: "resume"}[k]
}
