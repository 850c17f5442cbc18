package model

import "slices"

// Replace models a limit of one run with the action replace (docs/internals/claim-protocol.md, section 9, "Replace").
// The newest of three runs replaces the other runs. The limit's item is read and written in one step. A release of a
// permit can always be lost, so each run that requests a permit checks whether the holder has ended. The claim time
// `until` passes for dead owners. The close of a run also creates the run's retry.
type Replace struct {
	Runs    int  // number of runs, at most 3
	Retries int  // maximum number of retries of all runs together
	Endless bool // whether a run ends only after a kill
	NoWalk  bool // whether the watchdog never runs. The runs must then not need the watchdog

	Crashes, Writes, Busy, All int

	ReplaceRules
}

// ReplaceRules lists faults in the replace rules. A field that is true breaks one rule, and its comment describes the
// faulty behavior. The zero value follows the protocol.
type ReplaceRules struct {
	OlderReplaces   bool // a run replaces a running run with a later due time
	OlderSupersedes bool // a run closes a waiting run with a later due time
	NewestGoes      bool // if the queue is full, the newest run is skipped instead of the run that waits longest
	HeadGoesClaimed bool // the run that waits longest is closed although it has the permit
	ClosedAtWork    bool // a run that had no owner when it was read is closed without a check that it still has none
	CheckedOnce     bool // only the actor that recorded the replacement checks that the replaced run ends
	NotRecorded     bool // the executor gets the kill before the replacement is recorded
	ReplacedRetries bool // a replaced run that ends as failed is retried
	MarkIgnored     bool // a close ignores a replacement that was recorded after the run was read
	GivenAtOnce     bool // the newer run gets the permit in the write that records the replacement
}

const maxReplaced = 3

// row is a state of Replace: the runs are in the order in which they are due.
type row struct {
	item    limit
	runs    [maxReplaced]replaced
	hands   [4]replacer
	retries uint8
	left    budget
}

// limit is the item: holder is 1 + the run that holds it, by is the actor whose claim for it is
// to come while no run is stored, queue holds the waiting runs.
type limit struct {
	holder, by uint8
	queue      [maxReplaced]uint8
}

// replaced is a run; check: its check is on the ring; mark: a newer run replaces it.
type replaced struct{ is, owner, maybeSent, exec, known, message, check, mark, attempt uint8 }

// replacer is an actor with its work: two dispatchers, a callback, the watchdog; try and ofTry
// are the attempts that it works on.
type replacer struct{ at, run, try, of, ofTry, what, mark uint8 }

const (
	replaceCallback = 2 + iota
	replaceWatchdog
)

// Stations.
const (
	replaceIdle = iota
	replaceLook
	replaceAsk
	replaceQueue
	replaceSupersede
	replaceRead
	replaceClose
	replaceMark
	replaceCheck
	replaceSkip
	replaceClaim
	replaceSend
	replaceBack
	replaceJournal
	replaceAck
	replaceReadEnd
	replaceEnd
	replaceTell
)

// Search visits every state, or approximately most states if they exceed the limit.
func (w *Replace) Search(most int) Report { return look[row](w, most) }

func (w *Replace) start() row {
	var s row
	for i := range w.Runs {
		s.runs[i].message = 1
	}
	s.retries = uint8(w.Retries)
	s.left = budget{crash: uint8(w.Crashes), write: uint8(w.Writes), busy: uint8(w.Busy), all: uint8(w.All)}
	return s
}

// replacing makes the steps from a state.
type replacing struct {
	pen[row]
	w *Replace
}

func (w *Replace) moves(say bool) func(*row) []move[row] {
	g := &replacing{w: w, pen: pen[row]{say: say, left: func(s *row) *budget { return &s.left }, tidy: w.tidy}}
	return g.from
}

func (g *replacing) from(s *row) []move[row] {
	g.out = g.out[:0]
	for i := range g.w.Runs {
		r := s.runs[i]
		for k := range replaceCallback {
			if s.hands[k].at == replaceIdle && r.message == 1 && s.hands[1-k].run != uint8(i+1) {
				g.come(*s, k, replacer{at: replaceLook, run: uint8(i + 1)}, "receives the message of")
			}
		}
		if s.hands[replaceCallback].at == replaceIdle && r.exec == running && !g.w.Endless {
			t := *s
			t.runs[i].exec = reported
			g.come(t, replaceCallback, replacer{at: replaceReadEnd, run: uint8(i + 1), what: succeeded}, "tells the success of")
			g.come(t, replaceCallback, replacer{at: replaceReadEnd, run: uint8(i + 1), what: failed}, "tells the failure of")
		}
		if s.hands[replaceWatchdog].at != replaceIdle {
			continue
		}
		if r.check == 1 {
			g.come(*s, replaceWatchdog, replacer{at: replaceTell, run: uint8(i + 1)}, "has the check of")
		}
		if r.known == 1 && r.is == open && !g.w.NoWalk && !g.busy(s, i) {
			at := uint8(replaceReadEnd)
			if r.exec == running {
				at = replaceTell
			}
			if r.exec != running || r.mark == 1 {
				g.come(*s, replaceWatchdog, replacer{at: at, run: uint8(i + 1), what: lost}, "comes to")
			}
		}
	}
	for k := range s.hands {
		if s.hands[k].at == replaceIdle {
			continue
		}
		g.step(*s, k)
		if s.left.crash > 0 {
			t := *s
			t.leave(k)
			g.dies(t, replaceWho(k))
		}
	}
	return g.out
}

func (g *replacing) come(s row, k int, as replacer, words string) {
	as.try = s.runs[as.run-1].attempt
	s.hands[k] = as
	g.emit(&s, false, "%s %s r%d", replaceWho(k), words, as.run)
}

// busy reports whether a hand works on a run.
func (g *replacing) busy(s *row, i int) bool {
	return slices.ContainsFunc(s.hands[:replaceWatchdog], func(h replacer) bool { return h.run == uint8(i+1) })
}

// leave ends the work of a hand: its claims get a dead owner.
func (s *row) leave(k int) {
	for i := range s.runs {
		if r := &s.runs[i]; r.owner == uint8(k+1) {
			r.owner = dead
		}
	}
	if s.item.by == uint8(k+1) {
		s.item.by = dead
	}
	s.hands[k] = replacer{}
}

func (g *replacing) step(s row, k int) {
	h, who := s.hands[k], replaceWho(k)
	i := int(h.run) - 1
	// to moves the hand on after an answer; a throttled step is left to the message or to the next actor.
	to := func(at uint8) func(*row, answer) {
		return func(t *row, a answer) {
			switch a {
			case ok, refusedAnswer:
				t.hands[k].at = at
			case throttled:
				t.leave(k)
			}
		}
	}
	if s.runs[i].attempt != h.try {
		s.leave(k)
		g.emit(&s, false, "%s finds that %s is tried again", who, runOf(i))
		return
	}
	switch h.at {
	case replaceLook:
		g.lookAtRun(s, k, i)
	case replaceAsk:
		g.ask(s, k, i)
	case replaceQueue:
		g.write(s, who+" stores that "+runOf(i)+" waits", func(t *row) bool {
			if t.runs[i].is != absent {
				return false
			}
			t.runs[i].is = planned
			return true
		}, func(t *row, a answer) {
			if t.hands[k].at = replaceLook; a == throttled {
				t.leave(k)
			}
		}, nil)
	case replaceSupersede: // of the one that waits longest
		of := int(h.of) - 1
		g.write(s, who+" closes "+runOf(of)+", which waits, as skipped", func(t *row) bool {
			r := &t.runs[of]
			if !nobodys(r) && !(g.w.HeadGoesClaimed && r.is == open) {
				return false
			}
			g.gives(t, of, i, skipped)
			return true
		}, to(replaceAsk), nil)
	case replaceRead:
		g.readHolder(s, k, i, int(h.of)-1)
	case replaceClose:
		of := int(h.of) - 1
		g.write(s, who+" closes "+runOf(of)+", which nobody has, as replaced", func(t *row) bool {
			r := &t.runs[of]
			if r.attempt != h.ofTry || !nobodys(r) && !(g.w.ClosedAtWork && r.is == open) {
				return false
			}
			g.gives(t, of, i, killed)
			return true
		}, func(t *row, _ answer) { t.leave(k) }, nil)
	case replaceMark:
		of := int(h.of) - 1
		if g.w.NotRecorded {
			s.runs[of].check, s.hands[k] = 1, replacer{}
			g.emit(&s, false, "%s asks for the end of %s", who, runOf(of))
			break
		}
		g.write(s, who+" records that "+runOf(of)+" is replaced", func(t *row) bool {
			r := &t.runs[of]
			if r.attempt != h.ofTry || r.is != open || r.mark != 0 {
				return false
			}
			if r.mark = 1; g.w.GivenAtOnce {
				t.item = limit{holder: h.run}
			}
			return true
		}, func(t *row, a answer) {
			if t.hands[k].at = replaceCheck; a != ok {
				t.leave(k)
			}
		}, nil)
	case replaceCheck:
		g.write(s, who+" sends a check of "+runOf(int(h.of)-1), func(t *row) bool {
			t.runs[h.of-1].check = 1
			return true
		}, func(t *row, _ answer) { t.leave(k) }, nil)
	case replaceSkip:
		g.write(s, who+" closes "+runOf(i)+" as skipped: it is older", func(t *row) bool {
			if !nobodys(&t.runs[i]) {
				return false
			}
			g.gives(t, i, int(h.of)-1, skipped)
			return true
		}, func(t *row, a answer) {
			if t.hands[k].at = replaceLook; a == throttled {
				t.leave(k)
			}
		}, nil)
	case replaceClaim:
		g.claim(s, k, i)
	case replaceSend:
		g.send(s, k, i)
	case replaceBack:
		g.write(s, who+" gives "+runOf(i)+" back", func(t *row) bool {
			r := &t.runs[i]
			if r.is != open || r.owner != uint8(k+1) {
				return false
			}
			r.owner = 0
			if r.maybeSent == 0 {
				r.is = planned
			}
			return true
		}, func(t *row, _ answer) { t.leave(k) }, nil)
	case replaceJournal:
		g.write(s, who+" stores its journal", func(t *row) bool {
			t.runs[i].known = 1
			return true
		}, func(t *row, a answer) {
			if a == ok {
				t.hands[k].at = replaceAck
			}
		}, nil)
	case replaceAck:
		s.runs[i].message = 0
		s.leave(k)
		g.emit(&s, false, "%s acks its message", who)
	case replaceReadEnd:
		x := &s.hands[k]
		if x.at, x.mark = replaceEnd, s.runs[i].mark; s.runs[i].is != open {
			*x = replacer{}
		}
		g.emit(&s, false, "%s reads %s: replaced %d", who, runOf(i), s.runs[i].mark)
	case replaceEnd:
		g.end(s, k, i)
	case replaceTell:
		r := &s.runs[i]
		x := &s.hands[k]
		switch {
		case r.is != open, r.mark == 0 && !g.w.NotRecorded, r.exec != running && r.known == 0:
			*x, r.check = replacer{}, 0
		default:
			r.exec, x.at, x.what = reported, replaceReadEnd, killed
			if r.mark == 0 {
				x.what = failed // so it reports a failure, or is lost
			}
		}
		g.emit(&s, false, "%s tells the executor to end %s, if it runs there", who, runOf(i))
	}
}

// nobodys reports whether a run waits without an owner and was never sent.
func nobodys(r *replaced) bool { return r.is == planned && r.owner == 0 && r.maybeSent == 0 }

// gives closes a run that another replaces.
func (g *replacing) gives(s *row, i, to int, is uint8) {
	if r := &s.runs[i]; r.is == open && r.exec == running {
		g.breaks("9: what is at work is closed, and nobody told its executor")
	}
	if i > to {
		g.breaks("9: an older run goes in the place of a newer")
	}
	s.runs[i].is = is
}

func (g *replacing) lookAtRun(s row, k, i int) {
	h, r := &s.hands[k], &s.runs[i]
	words := castState(r.is)
	switch {
	case r.is == absent, nobodys(r):
		h.at = replaceAsk
	case r.is != open:
		h.at = replaceAck
	case r.owner == uint8(k+1):
		h.at = replaceSend
	case r.owner == dead && r.known == 1:
		h.at = replaceAck
	case r.owner == dead, r.owner == 0:
		h.at = replaceAsk
	default:
		words += ", another's"
		s.leave(k)
	}
	g.emit(&s, false, "%s looks at %s: %s", replaceWho(k), runOf(i), words)
}

// over reports whether a chain has ended, or whether nothing of it is stored and its claim
// cannot come any more.
func (s *row) over(fire uint8) bool {
	r := &s.runs[fire-1]
	return closed(r.is) || r.is == absent && s.item.by == dead
}

// ask implements the table "Ask" of section 9: it repeats the read after a rejected write, so
// the read and the write are one step.
func (g *replacing) ask(s row, k, i int) {
	r, me := &s.runs[i], uint8(i+1)
	stored, resend := r.is != absent, r.is == open
	after := s.item
	if o := after.holder; o != 0 && o != me && s.over(o) {
		after.holder, after.by = 0, 0
	}
	queue := slices.DeleteFunc(slices.Clone(after.queue[:]), func(f uint8) bool { return f == 0 || closed(s.runs[f-1].is) })
	if after.holder == 0 && len(queue) > 0 {
		after.holder, queue = queue[0], queue[1:]
	}
	at, of := uint8(replaceClaim), uint8(0)
	switch waits := slices.Contains(queue, me); {
	case after.holder == me, after.holder == 0:
		after.holder = me
		if after.by = 0; !stored {
			after.by = uint8(k + 1)
		}
	case !stored:
		at = replaceQueue
	case !waits && len(queue) > 0 && !resend && g.w.NewestGoes:
		at, of = replaceSkip, queue[0]
	case !waits && len(queue) > 0 && !resend:
		if at, of = replaceSupersede, queue[0]; queue[0] > me && !g.w.OlderSupersedes {
			at = replaceSkip
		}
	case resend && !waits:
		queue, at = append(queue, me), replaceIdle
	case resend:
		at = replaceIdle
	case !waits:
		queue = append(queue, me)
		fallthrough
	default:
		at, of = replaceRead, after.holder
		if queue[0] != me {
			at = replaceIdle
		}
	}
	after.queue = [maxReplaced]uint8{}
	copy(after.queue[:], queue)
	g.write(s, replaceWho(k)+" asks for the permit of "+runOf(i), func(t *row) bool {
		t.item = after
		return true
	}, func(t *row, a answer) {
		switch {
		case a == throttled, a == ok && at == replaceIdle:
			t.leave(k)
		case a == ok:
			t.hands[k].at, t.hands[k].of = at, of
		}
	}, nil)
}

// readHolder reads the last attempt of the run that holds the permit.
func (g *replacing) readHolder(s row, k, i, of int) {
	h, r := &s.hands[k], &s.runs[of]
	h.ofTry = r.attempt
	words := "it is closed, or being claimed"
	switch {
	case r.is == absent || closed(r.is):
		s.leave(k)
	case of > i && !g.w.OlderReplaces:
		h.at, words = replaceSkip, "it is due later"
	case nobodys(r):
		h.at, words = replaceClose, "nobody has it"
	case r.mark == 0:
		h.at, words = replaceMark, "it is at work"
	case g.w.CheckedOnce:
		s.leave(k)
	default:
		h.at, words = replaceCheck, "it is replaced already"
	}
	g.emit(&s, false, "%s reads %s, which has the permit: %s", replaceWho(k), runOf(of), words)
}

func (g *replacing) claim(s row, k, i int) {
	g.write(s, replaceWho(k)+" claims "+runOf(i), func(t *row) bool {
		r := &t.runs[i]
		switch {
		case r.is == absent, nobodys(r):
		case r.is == open && r.known == 0 && (r.owner == dead || r.owner == 0):
			r.maybeSent = 1
		default:
			return false
		}
		if r.is, r.owner = open, uint8(k+1); t.item.by == uint8(k+1) {
			t.item.by = 0
		}
		return true
	}, func(t *row, a answer) {
		if t.hands[k].at = replaceLook; a == ok {
			t.hands[k].at = replaceSend
		} else if a == throttled {
			t.leave(k)
		}
	}, nil)
}

func (g *replacing) send(s row, k, i int) {
	t := s
	r := &t.runs[i]
	for o := range t.runs {
		if o != i && t.runs[o].is == open && t.runs[o].exec == running && r.is == open {
			g.breaks("8: two are at work, and one may be")
		}
	}
	if r.exec == idle {
		r.exec = running
	}
	t.hands[k].at = replaceJournal
	g.emit(&t, false, "%s sends %s: accepted", replaceWho(k), runOf(i))
	if s.left.busy > 0 {
		s.left.spend(&s.left.busy)
		s.hands[k].at = replaceBack
		g.emit(&s, true, "%s sends %s: refused for a passing reason", replaceWho(k), runOf(i))
	}
}

// end is F1 by a callback or the watchdog.
func (g *replacing) end(s row, k, i int) {
	h := s.hands[k]
	is := h.what
	if is != succeeded && h.mark == 1 {
		is = killed
	}
	if is == failed && g.w.ReplacedRetries {
		is = lost
	}
	g.write(s, replaceWho(k)+" closes "+runOf(i)+" as "+castState(is), func(t *row) bool {
		r := &t.runs[i]
		if r.is != open || is != succeeded && r.mark != h.mark && !g.w.MarkIgnored {
			return false
		}
		if r.is = is; fails(is) && t.retries > 0 || is == killed && g.w.ReplacedRetries && t.retries > 0 {
			if r.mark == 1 || k == replaceWatchdog && h.what == failed {
				g.breaks("9: a retry of what was replaced")
			}
			t.retries--
			*r = replaced{is: planned, message: 1, attempt: 1}
		}
		return true
	}, func(t *row, a answer) {
		switch a {
		case ok:
			t.leave(k)
		case refusedAnswer, unknown:
			t.hands[k].at = replaceReadEnd
		case throttled:
			if k != replaceCallback { // a report comes again
				t.leave(k)
			}
		}
	}, nil)
}

// rest: each run has ended, the newest not for another.
func (w *Replace) rest(s *row) (far int, why string) {
	if s.hands != [4]replacer{} {
		return 0, "somebody is at work"
	}
	for i := range w.Runs {
		r, newest := &s.runs[i], i == w.Runs-1
		switch {
		case r.message == 1 || r.check == 1:
			return 1, "a message is on the ring"
		case newest && (r.is == skipped || r.is == killed):
			return 3, "the newest run was replaced"
		case newest && w.Endless && r.is == open && r.exec == running:
		case !closed(r.is):
			return 2, runOf(i) + " has not ended"
		}
	}
	return 4, ""
}

func (w *Replace) tidy(s *row) (swapped swaps, _ string) {
	if l := &s.left; l.all == 0 {
		l.crash, l.write, l.busy = 0, 0, 0
	}
	for i := range s.runs {
		if r := &s.runs[i]; closed(r.is) {
			*r = replaced{is: r.is, exec: r.exec, message: r.message}
		}
	}
	if a, b := s.hands[0], s.hands[1]; a.key() < b.key() {
		s.hands[0], s.hands[1] = b, a
		swapped.disp = true
		for i := range s.runs {
			if r := &s.runs[i]; r.owner == 1 || r.owner == 2 {
				r.owner = 3 - r.owner
			}
		}
		if s.item.by == 1 || s.item.by == 2 {
			s.item.by = 3 - s.item.by
		}
	}
	return swapped, ""
}

func (h replacer) key() uint64 { return pack(h.at, h.run, h.try, h.of, h.ofTry, h.what, h.mark) }

func replaceWho(k int) string { return [...]string{"D1", "D2", "the callback", "the watchdog"}[k] }

func runOf(i int) string { return [...]string{"r1", "r2", "r3"}[i] }
