package model

// dispatch makes the steps of dispatcher k: section 2 of the page, from the top to the bottom of its table.
func (g *gen) dispatch(s *state, k int) {
	d := &s.disp[k]
	if d.at == unborn {
		g.receive(s, k)
		return
	}
	if s.left.crash > 0 {
		t := *s
		t.end(k)
		g.dies(t, dispName(k))
	}
	if d.at == received {
		g.read(*s, k)
		return
	}
	if g.each(s, k, g.firstWrite) || g.each(s, k, g.look) {
		return
	}
	if !g.w.Few && d.sending() {
		g.journal(s, k, false)
	}
	if g.each(s, k, g.sendOrEnd) {
		return
	}
	if d.needsJournal() {
		g.journal(s, k, true)
		return
	}
	if g.each(s, k, g.giveBack) || g.putBack(*s, k) {
		return
	}
	g.ack(*s, k)
}

// each makes the next step of the first fire for which step has one.
func (g *gen) each(s *state, k int, step func(s state, k, f int) bool) bool {
	for f := range g.w.Fires {
		if step(*s, k, f) {
			return true
		}
	}
	return false
}

// receive is step 1: a message comes, perhaps while another holds it still.
func (g *gen) receive(s *state, k int) {
	for i := range s.ring {
		m := s.ring[i]
		if m.at != onRing {
			continue
		}
		t, again := *s, s.held(i, k)
		if again {
			if t.left.second == 0 {
				continue
			}
			t.left.spend(&t.left.second)
		}
		t.disp[k] = invocation{at: received, message: uint8(i), fires: m.fires, rev: m.rev, slot: m.slot, nonce: s.fresh()}
		words := ""
		if again {
			words = ", which another holds still"
		}
		g.emit(&t, again, "%s receives the message of revision %d with %s%s", dispName(k), m.rev, firesName(m.fires), words)
	}
}

// read makes steps 2 and 3: it reads the job, and evaluates each fire by it.
func (g *gen) read(s state, k int) {
	d := &s.disp[k]
	d.at, d.read, d.away = working, s.job.rev, s.away
	for f := range g.w.Fires {
		if d.fires&(1<<f) == 0 {
			continue
		}
		i := &d.of[f]
		i.is, i.falls = g.judge(&s, d, f)
	}
	g.emit(&s, false, "%s reads the job: revision %d", dispName(k), d.read)
}

// judge makes step 3.
func (g *gen) judge(s *state, d *invocation, f int) (is, falls uint8) {
	switch {
	case g.w.Kind == Trigger && s.pause == 1:
		return toLook, fallsRecorded
	case g.w.Kind == Trigger:
		return toLook, sends
	case d.rev == s.job.rev:
		return toClaim, sends
	case g.w.Kind == FixedDelay && s.job.tail == uint8(f+1), uint8(f) >= s.due():
		if g.w.SilentFallIsDone {
			return done, sends
		}
		return isLeft, sends
	}
	return toRecord, fallsRecorded
}

// firstWrite is the table of the first write (A): a claim, or a skipped record.
func (g *gen) firstWrite(s state, k, f int) bool {
	d := &s.disp[k]
	switch d.of[f].is {
	case toClaim:
		g.claim(s, k, f)
	case toRecord:
		g.write(s, dispName(k)+" records "+fireName(f)+" as skipped", func(t *state) bool {
			if t.runs[f].is != absent {
				return false
			}
			t.runs[f].is = skipped
			return true
		}, func(t *state, a answer) {
			t.disp[k].of[f].is = [...]uint8{g.afterSkip(), toLook, notDone, toLook}[a]
		}, late{})
	default:
		return false
	}
	return true
}

// afterSkip returns the next step after a skip was recorded.
func (g *gen) afterSkip() uint8 {
	if g.w.Kind == FixedDelay {
		return chained
	}
	return done
}

func (g *gen) claim(s state, k, f int) {
	if s.disp[k].waits() {
		g.write(s, dispName(k)+" records that "+fireName(f)+" waits", g.putClaim(f, 0, 0, s.disp[k].rev), func(t *state, a answer) {
			t.disp[k].of[f].is = [...]uint8{g.afterWait(), toLook, givenBack, toLook}[a]
		}, late{what: lateClaim, fire: uint8(f), rev: s.disp[k].rev})
		return
	}
	a, nonce := firstAddress(&s, k, f), s.disp[k].nonce
	put := g.putClaim(f, nonce, a, s.disp[k].rev)
	g.write(s, dispName(k)+" claims "+fireName(f)+" for "+addressName(a), put, func(t *state, ans answer) {
		i := &t.disp[k].of[f]
		i.address = a
		i.is = [...]uint8{mine, toLook, passing, toLook}[ans]
	}, late{what: lateClaim, fire: uint8(f), nonce: nonce, address: a, rev: s.disp[k].rev})
}

// afterWait returns the next step of a waiting fire: it is put on the ring again.
func (g *gen) afterWait() uint8 {
	if g.w.WaitIsDone {
		return done
	}
	return givenBack
}

// wait lets a fire wait for an executor if the fire has no owner and was never sent.
func (g *gen) wait(s state, k, f int) {
	if s.runs[f].queued == 1 {
		s.disp[k].of[f].is = g.afterWait()
		g.emit(&s, false, "%s lets %s wait on", dispName(k), fireName(f))
		return
	}
	until := s.disp[k].of[f].until
	g.write(s, dispName(k)+" has "+fireName(f)+" wait", func(t *state) bool {
		r := &t.runs[f]
		if r.is != open || r.owner != 0 || r.maybeSent == 1 || r.until != until {
			return false
		}
		r.queued = 1
		return true
	}, func(t *state, a answer) {
		t.disp[k].of[f].is = [...]uint8{g.afterWait(), toLook, toLook, toLook}[a]
	}, late{})
}

// firstAddress routes again: earlier attempts make the other address the worst choice.
func firstAddress(s *state, k, f int) uint8 {
	if s.disp[k].away&nobody != 0 {
		return 0
	}
	if s.seen[f].tried == 1 {
		return 2
	}
	return 1
}

func (g *gen) putClaim(f int, nonce, address, rev uint8) func(*state) bool {
	return func(s *state) bool {
		r := &s.runs[f]
		if r.is != absent {
			return false
		}
		*r = run{is: open, owner: nonce, until: nonce, address: address}
		if nonce == 0 {
			r.queued = 1
		}
		if g.w.Kind == FixedDelay {
			r.rev = rev
		}
		return true
	}
}

// look implements the table of looks (B): the run, then until, and only then the journal.
func (g *gen) look(s state, k, f int) bool {
	switch i := &s.disp[k].of[f]; i.is {
	case toLook:
		g.lookAtRun(s, k, f)
	case judged:
		g.judgeUntil(s, k, f)
	case readPast, readLive:
		g.readJournal(s, k, f)
	case toTake:
		g.takeOver(s, k, f)
	default:
		return false
	}
	return true
}

func (g *gen) lookAtRun(s state, k, f int) {
	d := &s.disp[k]
	i, r, who := &d.of[f], s.runs[f], dispName(k)
	switch {
	case r.is == absent:
		g.noItem(s, k, f)
	case g.w.Kind == Trigger && r.is == open && r.owner == 0 && r.slot != d.slot:
		i.is = done
		g.emit(&s, false, "%s looks at %s: its trigger was moved to another slot", who, fireName(f))
	case r.is != open && (r.owes == 0 && r.place == 0 || g.w.ClosedIsDone):
		i.is = done
		g.emit(&s, false, "%s looks at %s: closed", who, fireName(f))
	case r.is != open:
		t := s
		if i.is, i.place, i.id = owing2, r.place, r.owes; r.owes == 0 {
			i.is = owing1
		}
		g.emit(&s, false, "%s looks at %s: closed, and owes", who, fireName(f))
		t.disp[k].of[f].is = isLeft
		g.emit(&t, false, "%s looks at %s: closed, and owes, which it leaves", who, fireName(f))
	case r.owner == d.nonce:
		i.is, i.address, i.maybeSent, i.params = mine, r.address, r.maybeSent, r.params
		g.emit(&s, false, "%s looks at %s: its own nonce", who, fireName(f))
	case r.owner == 0:
		g.noOwner(s, k, f)
	default:
		i.owner, i.until, i.address, i.slot, i.params = r.owner, r.until, r.address, r.slot, r.params
		g.foreign(s, k, f)
	}
}

func (g *gen) noItem(s state, k, f int) {
	i := &s.disp[k].of[f]
	then := "claims again"
	if i.is = toClaim; i.falls == fallsRecorded {
		i.is, then = toRecord, "records it"
	}
	g.emit(&s, false, "%s looks at %s: no run, %s", dispName(k), fireName(f), then)
}

// noOwner handles a run that was released, or that no dispatcher has claimed.
func (g *gen) noOwner(s state, k, f int) {
	i, r, who := &s.disp[k].of[f], s.runs[f], dispName(k)
	i.owner, i.until, i.address, i.slot, i.params = 0, r.until, r.address, r.slot, r.params
	switch {
	case i.falls == sends:
		i.is = toTake
		g.emit(&s, false, "%s looks at %s: no owner", who, fireName(f))
	case r.maybeSent == 0:
		g.skipUnsent(s, k, f)
	default:
		i.is = isLeft
		g.emit(&s, false, "%s looks at %s: no owner, and it falls: left", who, fireName(f))
	}
}

// skipUnsent closes a run that has no owner and was never sent. Its read and its write are two
// steps, because a trigger may be changed in between.
func (g *gen) skipUnsent(s state, k, f int) {
	i := &s.disp[k].of[f]
	if g.w.Kind == Trigger && i.is != toTake {
		i.is = toTake
		g.emit(&s, false, "%s looks at %s: no owner, and it falls", dispName(k), fireName(f))
		return
	}
	until, params, slot := i.until, i.params, i.slot
	g.write(s, dispName(k)+" closes the unsent "+fireName(f)+" as skipped", func(t *state) bool {
		r := &t.runs[f]
		if r.is != open || r.owner != 0 || r.maybeSent == 1 || r.until != until && !g.w.SkipIgnoresUntil {
			return false
		}
		if r.params != params || r.slot != slot {
			g.breaks("a trigger is skipped by its values before its change")
		}
		r.is = skipped
		return true
	}, func(t *state, a answer) {
		t.disp[k].of[f].is = [...]uint8{g.afterSkip(), toLook, notDone, toLook}[a]
	}, late{})
}

func (g *gen) foreign(s state, k, f int) {
	i, r, who := &s.disp[k].of[f], s.runs[f], dispName(k)
	switch {
	case g.w.JournalBeforeUntil:
		i.is = judged
		if g.settled(s.says(f, r.owner)) {
			i.is = done
		}
		g.emit(&s, false, "%s looks at %s: another's; it reads its journal", who, fireName(f))
	case r.past == 1:
		i.is = readPast
		g.emit(&s, false, "%s looks at %s: another's, whose until is past", who, fireName(f))
	default:
		i.is = readLive
		g.emit(&s, false, "%s looks at %s: another's, whose until is to come", who, fireName(f))
	}
}

// judgeUntil is V9: until after the journal.
func (g *gen) judgeUntil(s state, k, f int) {
	i, r := &s.disp[k].of[f], s.runs[f]
	i.is = notDone
	if r.owner == i.owner && r.past == 1 {
		i.is = g.pastUnsettled(i)
	}
	g.emit(&s, false, "%s compares the until of %s with its clock", dispName(k), fireName(f))
}

func (g *gen) readJournal(s state, k, f int) {
	i := &s.disp[k].of[f]
	says := uint8(nothing)
	if s.runs[f].is == open && s.runs[f].owner == i.owner {
		says = s.says(f, i.owner)
	}
	switch {
	case g.settled(says):
		i.is = done
	case i.is == readLive:
		i.is = notDone
	default:
		i.is = g.pastUnsettled(i)
	}
	g.emit(&s, false, "%s reads the journal that %s names: %s", dispName(k), fireName(f),
		[...]string{"nothing", "begun", "accepted", "unconfirmed", "left"}[says])
}

func (g *gen) pastUnsettled(i *item) uint8 {
	if i.falls != sends && !g.w.FallTakesOver {
		return isLeft
	}
	return toTake
}

func (g *gen) settled(says uint8) bool {
	return says == accepted || says == unconfirmed && !g.w.UnconfirmedIsNotDone
}

// says returns the entry of a run in the journal of an owner.
func (s *state) says(f int, owner uint8) uint8 {
	if k, is := s.alive(owner); is {
		return s.disp[k].of[f].stored
	}
	if s.runs[f].owner == owner {
		return s.runs[f].journal
	}
	return nothing
}

// takeOver implements the takeover table (C). Two throttles are one here: the dispatcher retries while it may.
func (g *gen) takeOver(s state, k, f int) {
	d := &s.disp[k]
	i := d.of[f]
	if i.falls == fallsRecorded && g.w.Kind == Trigger && i.owner == 0 {
		g.skipUnsent(s, k, f)
		return
	}
	to := i.address
	if to == 0 && i.owner == 0 && d.waits() {
		g.wait(s, k, f)
		return
	}
	if to == 0 {
		to = firstAddress(&s, k, f)
	}
	put := g.putTake(f, i.owner, i.until, i.address, d.nonce, to)
	if read := s.disp[1-k].of[f].until; g.w.UntilComesTwice && read != 0 {
		t := s
		if put(&t) {
			t.runs[f].until = read
			i := &t.disp[k].of[f]
			i.is, i.address, i.maybeSent = mine, to, t.runs[f].maybeSent
			g.emit(&t, false, "%s takes %s over, with an until that %s has read", dispName(k), fireName(f), dispName(1-k))
		}
	}
	g.write(s, dispName(k)+" takes "+fireName(f)+" over", put, func(t *state, ans answer) {
		i := &t.disp[k].of[f]
		if ans != ok {
			i.is = toLook
			return
		}
		i.is, i.address, i.maybeSent = mine, to, t.runs[f].maybeSent
		if i.falls != sends { // V5
			i.is = isUnconfirmed
		}
	}, late{what: lateTake, fire: uint8(f), nonce: d.nonce, owner: i.owner, until: i.until, seen: i.address, address: to})
}

func (g *gen) putTake(f int, owner, until, seen, nonce, to uint8) func(*state) bool {
	return func(s *state) bool {
		r := &s.runs[f]
		if r.is != open || r.owner != owner || r.until != until || r.address != seen && !g.w.TakeIgnoresAddress {
			return false
		}
		if owner != 0 {
			r.maybeSent = 1
		}
		r.owner, r.until, r.past, r.journal, r.queued = nonce, nonce, 0, nothing, 0
		if r.address == 0 {
			r.address = to
		}
		return true
	}
}

// sendOrEnd makes steps 6 and 8: send, failover, and the end of failed fires.
func (g *gen) sendOrEnd(s state, k, f int) bool {
	switch s.disp[k].of[f].is {
	case mine:
		g.compareOwnUntil(s, k, f)
	case checked:
		g.send(s, k, f)
	case refused, movedUnknown:
		g.failover(s, k, f)
	case failing:
		g.closeFailed(s, k, f)
	case owing1, owing2, owing3, owing4:
		g.makeOwedHere(s, k, f)
	case chained:
		g.chainGoesOn(s, k, f)
	default:
		return false
	}
	return true
}

func (g *gen) compareOwnUntil(s state, k, f int) {
	d := &s.disp[k]
	if d.past == 1 {
		d.of[f].is = notDone
		g.emit(&s, false, "%s finds its own until past: %s is not sent", dispName(k), fireName(f))
		return
	}
	if d.of[f].address == 0 {
		d.of[f].is = failing
		g.emit(&s, false, "%s finds no executor for %s", dispName(k), fireName(f))
		return
	}
	t := s
	d.of[f].is = checked
	g.emit(&s, false, "%s finds its own until to come", dispName(k))
	if t.left.busy > 0 {
		t.left.spend(&t.left.busy)
		t.disp[k].of[f].is = passing
		g.emit(&t, true, "%s cannot send %s for a passing reason", dispName(k), fireName(f))
	}
}

// send is the table of sends (D): all that can become of one send.
func (g *gen) send(s state, k, f int) {
	resend := s.disp[k].of[f].maybeSent == 1
	g.sent(s, k, f, true, isAccepted, "accepted")
	g.sent(s, k, f, true, isUnconfirmed, "it arrives, no answer")
	if s.left.busy > 0 && !resend {
		t := s
		t.left.spend(&t.left.busy)
		g.sent(t, k, f, false, passing, "refused for a passing reason")
	}
	if g.w.Few {
		return
	}
	g.sent(s, k, f, false, isUnconfirmed, "it does not arrive, no answer")
	if resend {
		g.sent(s, k, f, false, isUnconfirmed, "refused, which proves nothing of the first send")
		return
	}
	g.sent(s, k, f, false, refused, "refused with proof")
}

func (g *gen) sent(s state, k, f int, arrives bool, then uint8, words string) {
	d := &s.disp[k]
	i := &d.of[f]
	a := i.address
	s.seen[f].tried = 1
	if g.w.Kind != Trigger && d.rev != d.read {
		g.breaks("4: a send by one who read another revision")
	}
	if g.w.Kind == Scheduled && d.rev > 1 && uint8(f) < s.changes[d.rev-2].due {
		g.breaks("4: a revision sends a run that was due before it")
	}
	if arrives {
		g.arrive(&s, k, f)
	}
	i.is = then
	g.emit(&s, then != isAccepted, "%s sends %s to %s: %s", dispName(k), fireName(f), addressName(a), words)
}

// arrive lets a send reach its executor, which runs whatever arrives.
func (g *gen) arrive(s *state, k, f int) {
	i, m, r := &s.disp[k].of[f], &s.seen[f], &s.runs[f]
	bit := uint8(1) << (i.address - 1)
	switch stopped := s.disp[k].past == 1; {
	case m.arrived&^bit != 0:
		g.breaks("3: two addresses")
	case stopped && (m.arrived != 0 || r.is != open):
		g.window = windowStopped
	case m.arrived == 0 && r.is != open && i.maybeSent == 0:
		g.breaks("3: a first send of a closed run")
	case m.arrived == 0:
	case i.maybeSent == 0:
		g.breaks("3: a second send without a take-over")
	case m.recorded&recordedInTime != 0:
		g.breaks("3: a second send of a run with an answer in a stored journal")
	case r.is != open:
		g.window = windowCallback
	case m.recorded&recordedLate != 0:
		g.window = windowStored
	}
	if g.w.Kind == Trigger && r.is == open && i.params != r.params {
		g.breaks("a trigger is sent as it was before its change")
	}
	for o := range g.w.Fires {
		if g.w.Kind != FixedDelay || o == f || r.is != open || s.runs[o].is != open || s.seen[o].exec != running {
			continue
		}
		if r.rev == s.runs[o].rev {
			g.breaks("a fixed delay runs twice at once")
		}
		g.window = windowChain
	}
	m.arrived |= bit
	if g.w.CoverEarly && m.exec == running {
		m.reports = 1
	}
	m.exec = running
}

// Bits of seen.recorded.
const (
	recordedInTime = 1 // by a journal stored before until, or by the journal of a consumed check
	recordedLate   = 2
)

// failover is the table of that name (E).
func (g *gen) failover(s state, k, f int) {
	d := &s.disp[k]
	i, r := &d.of[f], s.runs[f]
	if i.is == movedUnknown {
		switch {
		case r.is == open && r.owner == d.nonce && r.address != i.address:
			i.is, i.address = mine, r.address
		case r.is == open && r.owner == d.nonce:
			i.is = passing
		default:
			i.is = notDone
		}
		g.emit(&s, false, "%s reads %s after the lost answer", dispName(k), fireName(f))
		return
	}
	if i.address == 2 {
		i.is = failing
		g.emit(&s, false, "%s has no other address for %s", dispName(k), fireName(f))
		return
	}
	g.write(s, dispName(k)+" moves the claim of "+fireName(f)+" to B", g.putMove(f, d.nonce, 2), func(t *state, a answer) {
		i := &t.disp[k].of[f]
		i.is = [...]uint8{mine, notDone, passing, movedUnknown}[a]
		if a == ok {
			i.address = 2
		}
	}, late{what: lateMove, fire: uint8(f), nonce: d.nonce, address: 2})
}

func (g *gen) putMove(f int, nonce, to uint8) func(*state) bool {
	return func(s *state) bool {
		r := &s.runs[f]
		if r.is != open || r.owner != nonce || r.address == to {
			return false
		}
		if r.maybeSent == 1 {
			g.breaks("2: another address for a run that may have been sent")
		}
		r.address = to
		return true
	}
}

// journal is the table of that name (F): written while sends are open, and at the end.
func (g *gen) journal(s *state, k int, end bool) {
	d := &s.disp[k]
	var says [maxFires]uint8
	news := false
	for f := range g.w.Fires {
		i := &d.of[f]
		says[f] = entry(i.is)
		if says[f] == nothing {
			says[f] = i.stored
		}
		news = news || says[f] != i.stored
	}
	if !news {
		return
	}
	what := dispName(k) + " stores its journal"
	if !end {
		what += " early"
	}
	g.write(*s, what, g.putJournal(d.nonce, says), func(*state, answer) {}, late{what: lateJournal, nonce: d.nonce, says: says})
	if end && g.w.Checks && s.left.write > 0 && s.check.nonce == 0 {
		t := *s
		t.left.spend(&t.left.write)
		t.check = check{nonce: d.nonce, says: says}
		t.disp[k].told = 1
		for f := range says {
			if settles(says[f]) {
				t.seen[f].recorded |= recordedLate
			}
		}
		g.emit(&t, true, "%s cannot store its journal, and sends a check that carries it", dispName(k))
	}
}

func settles(says uint8) bool { return says == accepted || says == unconfirmed }

// entry returns the journal entry of an item.
func entry(is uint8) uint8 {
	switch is {
	case isAccepted:
		return accepted
	case isUnconfirmed:
		return unconfirmed
	case isLeft:
		return left
	case mine, checked, refused, movedUnknown, failing, passing:
		return begun
	}
	return nothing
}

// putJournal stores a journal; condition: v is lower. An entry up to begun is rejected once a
// later one is stored; this stands for v.
func (g *gen) putJournal(nonce uint8, says [maxFires]uint8) func(*state) bool {
	return func(s *state) bool {
		k, alive := s.alive(nonce)
		if !g.w.JournalWithoutVersion {
			for f := range says {
				if s.says(f, nonce) > begun && says[f] <= begun {
					return false
				}
			}
		}
		for f := range g.w.Fires {
			if says[f] == nothing {
				continue
			}
			s.seen[f].note(says[f], s.runs[f].owner == nonce && s.runs[f].past == 0)
			if alive {
				s.disp[k].of[f].stored = says[f]
			} else if s.runs[f].owner == nonce {
				s.runs[f].journal = says[f]
			}
		}
		return true
	}
}

// note keeps the stored entry for the watchdog and for the assertions.
func (m *seen) note(says uint8, inTime bool) {
	m.known |= [...]uint8{0, knownBegun, knownSettled, knownSettled, knownLeft}[says]
	switch {
	case !settles(says):
	case inTime:
		m.recorded |= recordedInTime
	default:
		m.recorded |= recordedLate
	}
}

// sending reports whether the journal may be stored early: sends are open.
func (d *invocation) sending() bool {
	for f := range d.of {
		switch d.of[f].is {
		case mine, checked, refused, movedUnknown, failing, owing2, owing3, owing4:
			return true
		}
	}
	return false
}

func (d *invocation) needsJournal() bool {
	if d.told == 1 {
		return false
	}
	for f := range d.of {
		if e := entry(d.of[f].is); e >= accepted && d.of[f].stored != e {
			return true
		}
	}
	return false
}

// giveBack is the table of that name (G).
func (g *gen) giveBack(s state, k, f int) bool {
	d := &s.disp[k]
	if d.of[f].is != passing {
		return false
	}
	g.write(s, dispName(k)+" gives "+fireName(f)+" back", g.putGiveBack(f, d.nonce), func(t *state, _ answer) {
		t.disp[k].of[f].is = givenBack
	}, late{what: lateGiveBack, fire: uint8(f), nonce: d.nonce})
	return true
}

func (g *gen) putGiveBack(f int, nonce uint8) func(*state) bool {
	return func(s *state) bool {
		r := &s.runs[f]
		if r.is != open || r.owner != nonce {
			return false
		}
		r.owner, r.past, r.journal = 0, 0, nothing
		if g.w.GiveBackEmptiesUntil {
			r.until = 0
		}
		switch {
		case r.maybeSent == 1 && !g.w.GiveBackForgets:
		case g.w.GiveBackDeletes:
			*r = run{}
		default:
			r.address, r.maybeSent = 0, 0
		}
		return true
	}
}

// putBack is step 9: released fires go on the ring again.
func (g *gen) putBack(s state, k int) bool {
	d := &s.disp[k]
	var fires uint8
	for f := range d.of {
		if d.of[f].is == givenBack {
			fires |= 1 << f
		}
	}
	if fires == 0 {
		return false
	}
	m := message{fires: fires, rev: d.rev, slot: d.slot, at: onRing}
	if _, free := s.freeMessage(); !free {
		s.end(k)
		g.emit(&s, false, "%s ends without ack: the model's ring is full", dispName(k))
		return true
	}
	g.write(s, dispName(k)+" puts "+firesName(fires)+" on the ring again", putMessage(m), func(t *state, a answer) {
		for f := range t.disp[k].of {
			if fires&(1<<f) != 0 {
				t.disp[k].of[f].is = putBack
			}
		}
		if a != ok {
			t.end(k)
		}
	}, late{})
	return true
}

// ack is step 10, by the ack rule.
func (g *gen) ack(s state, k int) {
	d := &s.disp[k]
	for f := range d.of {
		switch d.of[f].is {
		case none, isAccepted, isUnconfirmed, isLeft, done, putBack:
		default:
			s.end(k)
			g.emit(&s, false, "%s ends without ack", dispName(k))
			return
		}
	}
	t := s
	if m := &s.ring[d.message]; m.at == onRing {
		m.at = acked
	}
	s.end(k)
	g.emit(&s, false, "%s acks its message", dispName(k))
	if t.left.write > 0 {
		t.left.spend(&t.left.write)
		t.end(k)
		g.emit(&t, true, "%s acks its message, without effect", dispName(k))
	}
}

// end ends an invocation; its journal entries stay with the claims that name it.
func (s *state) end(k int) {
	d := &s.disp[k]
	for f := range s.runs {
		if r := &s.runs[f]; r.is == open && r.owner == d.nonce {
			r.journal = d.of[f].stored
		}
	}
	*d = invocation{}
}

func dispName(k int) string { return [...]string{"D1", "D2"}[k] }
