package model

import (
	"cmp"
	"slices"
)

// Limits models runs that two concurrency limits count (docs/internals/claim-protocol.md, section 9). The runs of two
// jobs belong to one app. Each run first requests a permit of its job's limit, which has one limit for each key value.
// The run then requests a permit of the app's limit.
//
// The model is simpler than the protocol. A limit's item is read and written in one step. The claim time `until`
// passes for all claims of the dead owners of a run at once, and with them for the claims of a slow owner. No journal is
// stored, so an unacknowledged run is resent to the executor that has the run. A run that gets a permit gets no message,
// because such a message can always be lost. No run is retried.
type Limits struct {
	Runs int      // number of runs, at most 4
	Of   [4]uint8 // for each run, the jobs whose limit counts the run, as bits
	Jobs [3]Bound
	App  Bound

	Crashes, Writes, Seconds, Slow, All int
	Late                                bool // whether one write may take effect at any later time

	LimitsRules
}

// Bound has the settings of one concurrency limit.
type Bound struct {
	Limit, Max int
	Skips      bool
}

// LimitsRules lists faults in the rules of limits. A field that is true breaks one
// rule, and its comment describes the faulty behavior. The zero value follows the protocol. A holder is a run that has a
// permit. A holder is over if its run has ended but its permit is not released.
type LimitsRules struct {
	SkipsUnseen    bool // a run is skipped because the limit is full, without a check whether holders are over
	UntilKept      bool // the expiry time of an earlier claim stays in the item when a later claim is requested
	FreesPlanned   bool // a doubtful first permit of a run that waits is freed
	TrustsSecond   bool // a doubtful second permit is kept though the run does not have the first
	ScanFreesNot   bool // nothing repeats the release of a run whose closer died
	LateAsk        bool // a limit's item is written without a check that the item is unchanged
	UnknownGranted bool // a permit request without an answer counts as granted
	RetakeAsksNot  bool // a takeover of a run does not request a permit
	RetakeSkipped  bool // a takeover that gets no permit is skipped
	AppsFirst      bool // some runs request the permit of the app before the permit of the job
	AppSkips       bool // a run is skipped if the queue of its app is full
	TimeFrees      bool // the permit of a stored run is released when the claim of the run expires
	ReleasedFirst  bool // permits are released before the run is closed
	PastUntil      bool // a dispatcher claims and sends after its claim has expired
}

const (
	maxLimited = 4
	appsLimit  = 3 // the index of the app's item, after the items of jobs
)

// lined is a state of Limits.
type lined struct {
	items [appsLimit + 1]line
	runs  [maxLimited]counted
	hands [3]limiter
	late  lateLine
	left  budget
}

// line is an item.
type line struct {
	holders [2]permitted
	queue   [maxLimited]uint8 // 1 + runs
}

// permitted is a holder: 1 + its run, and the claims whose until it has. Without an until it is certain.
type permitted struct{ run, until uint8 }

// An until and an owner hold bits of live actors, or one of these values.
const (
	untilToCome = 4 // of dead ones
	untilPast   = 8
)

// counted is a run: planned where it waits.
type counted struct{ is, owner, exec, message uint8 }

// Messages.
const (
	asPlanned = 1 + iota // its run is not read before the first write
	afterwards
)

// limiter is an actor with its work: two dispatchers, and one that ends runs. saw is the state of the run as read, step the limit
// that it asks; of is 1 + the run whose first permit it makes certain. frees holds bits of items. past: it is slow, and the until
// of its claims has passed.
type limiter struct{ at, run, saw, step, of, frees, past uint8 }

const limitsEnder = 2

// lateLine is a write that is on its way: of an item, or of a run.
type lateLine struct {
	what, item, fresh uint8
	line              line
	run, saw, to      uint8
	owner             uint8
}

// Late writes.
const (
	lateLineAsk = 1 + iota
	lateLineRun
)

// States that World's run does not have.
const (
	planned   = 6
	succeeded = 7
)

func closed(is uint8) bool { return is > open && is != planned }

// Stations.
const (
	limitsIdle = iota
	limitsLook
	limitsAsk
	limitsConfirm
	limitsQueue
	limitsSkip
	limitsClaim
	limitsSend
	limitsAck
	limitsFree
	limitsEnd
)

// Answers of an ask.
const (
	isGranted = iota
	isToWait
	isToSkip
	isFull
)

// Search visits every state, or approximately most states if they exceed the limit.
func (w *Limits) Search(most int) Report { return look[lined](w, most) }

func (w *Limits) start() lined {
	var s lined
	for i := range w.Runs {
		s.runs[i].message = asPlanned
	}
	s.left = budget{crash: uint8(w.Crashes), write: uint8(w.Writes), second: uint8(w.Seconds), slow: uint8(w.Slow), all: uint8(w.All)}
	return s
}

// limiting makes the steps from a state.
type limiting struct {
	pen[lined]
	w *Limits
}

func (w *Limits) moves(say bool) func(*lined) []move[lined] {
	g := &limiting{w: w, pen: pen[lined]{say: say, left: func(s *lined) *budget { return &s.left }, tidy: w.tidy}}
	return g.from
}

func (g *limiting) from(s *lined) []move[lined] {
	g.out = g.out[:0]
	for i := range g.w.Runs {
		g.receive(s, i)
		if s.dying(i) {
			t := *s
			t.passes(i)
			g.emit(&t, false, "until of dead claims of %s passes", limitedName(i))
		}
	}
	g.ends(s)
	for k := range s.hands {
		if s.hands[k].at == limitsIdle {
			continue
		}
		g.step(*s, k)
		if s.left.crash > 0 {
			t := *s
			t.leave(k)
			g.dies(t, limitsWho(k))
		}
		if k < limitsEnder && s.left.slow > 0 && s.hands[k].past == 0 {
			t := *s
			t.left.spend(&t.left.slow)
			t.hands[k].past = 1
			t.drop(k, untilPast)
			t.passes(int(t.hands[k].run) - 1) // earlier claims expire earlier
			g.emit(&t, true, "until of the claims of %s passes while it is slow", limitsWho(k))
		}
	}
	if s.late.what != 0 {
		g.arrive(*s)
	}
	return g.out
}

// receive lets a dispatcher have a message; it is a fault if another still has it.
func (g *limiting) receive(s *lined, i int) {
	r := s.runs[i]
	for k := range limitsEnder {
		second := s.hands[1-k].run == uint8(i+1)
		if s.hands[k].at != limitsIdle || r.message == 0 || second && s.left.second == 0 {
			continue
		}
		t := *s
		if second {
			t.left.spend(&t.left.second)
		}
		t.hands[k] = limiter{at: limitsLook, run: uint8(i + 1)}
		if r.message == asPlanned {
			t.hands[k].at, t.hands[k].saw = limitsAsk, absent
		}
		g.emit(&t, second, "%s receives the message of %s", limitsWho(k), limitedName(i))
	}
}

// ends lets a run end. The scan finds the closed runs that still have permits.
func (g *limiting) ends(s *lined) {
	if s.hands[limitsEnder].at != limitsIdle {
		return
	}
	for i := range g.w.Runs {
		t := *s
		h := &t.hands[limitsEnder]
		*h = limiter{at: limitsEnd, run: uint8(i + 1)}
		switch {
		case s.atWork(i):
			if g.w.ReleasedFirst {
				h.at, h.frees = limitsFree, g.itemsOf(i)
			}
			g.emit(&t, false, "the end of %s comes", limitedName(i))
		case closed(s.runs[i].is) && g.listed(s, i) && !g.w.ScanFreesNot:
			h.at, h.frees = limitsFree, g.itemsOf(i)
			g.emit(&t, false, "the scan finds that %s is closed", limitedName(i))
		}
	}
}

// listed reports that a run is a holder, or waits.
func (g *limiting) listed(s *lined, i int) bool {
	for j := range s.items {
		if l := &s.items[j]; l.holder(uint8(i+1)) != nil || slices.Contains(l.queue[:], uint8(i+1)) {
			return true
		}
	}
	return false
}

// atWork reports that a run was sent, and is open.
func (s *lined) atWork(i int) bool { return s.runs[i].is == open && s.runs[i].exec == running }

func (s *lined) dying(i int) bool {
	is := s.runs[i].owner == untilToCome
	for j := range s.items {
		for _, h := range s.items[j].holders {
			is = is || h.run == uint8(i+1) && h.until == untilToCome
		}
	}
	return is
}

func (s *lined) passes(i int) {
	pass := func(until *uint8) {
		if *until == untilToCome {
			*until = untilPast
		}
	}
	each := func(l *line) {
		for x := range l.holders {
			if l.holders[x].run == uint8(i+1) {
				pass(&l.holders[x].until)
			}
		}
	}
	pass(&s.runs[i].owner)
	for j := range s.items {
		each(&s.items[j])
	}
	each(&s.late.line)
	if s.late.what == lateLineRun && s.late.run == uint8(i) {
		pass(&s.late.owner)
	}
}

// untils calls f for each until and owner that there is.
func (s *lined) untils(f func(*uint8)) {
	for j := range s.items {
		for x := range s.items[j].holders {
			f(&s.items[j].holders[x].until)
		}
	}
	for x := range s.late.line.holders {
		f(&s.late.line.holders[x].until)
	}
	for i := range s.runs {
		f(&s.runs[i].owner)
	}
	f(&s.late.owner)
}

// leave ends the work of a hand: its claims are a dead owner's.
func (s *lined) leave(k int) {
	if k < limitsEnder {
		s.drop(k, untilToCome)
	}
	s.hands[k] = limiter{}
}

// drop takes the claims of a hand out of all untils and owners: the ones that no other live actor has become then.
func (s *lined) drop(k int, then uint8) {
	bit := uint8(1) << k
	s.untils(func(u *uint8) {
		if *u&bit == 0 {
			return
		}
		if *u &^= bit; *u&(1|2) == 0 {
			*u = then
		}
	})
}

// claim returns the until of a claim that a hand makes now.
func (s *lined) claim(k int) uint8 {
	if s.hands[k].past == 1 {
		return untilPast
	}
	return 1 << k
}

// passing leaves a fire to a new message.
func (s *lined) passing(k int) {
	s.runs[s.hands[k].run-1].message = afterwards
	s.leave(k)
}

// itemOf returns the index of the limit that a run asks in a step.
func (g *limiting) itemOf(i int, step uint8) int {
	if g.w.AppsFirst && i%2 == 1 {
		step = 1 - step
	}
	if step == 1 {
		return appsLimit
	}
	return int(g.w.Of[i])
}

// itemsOf returns bits of the items that count a run.
func (g *limiting) itemsOf(i int) uint8 { return 1<<g.w.Of[i] | 1<<appsLimit }

func (g *limiting) bound(j int) Bound {
	if j == appsLimit {
		return g.w.App
	}
	return g.w.Jobs[j]
}

func (g *limiting) step(s lined, k int) {
	h, who := s.hands[k], limitsWho(k)
	i := int(h.run) - 1
	if h.past == 1 && !g.w.PastUntil && h.at > limitsAsk && h.at <= limitsSend {
		s.leave(k)
		g.emit(&s, false, "%s finds its own until past", who)
		return
	}
	switch h.at {
	case limitsLook:
		g.lookAtRun(s, k, i)
	case limitsAsk:
		g.ask(s, k, i)
	case limitsConfirm:
		g.confirm(s, k)
	case limitsQueue:
		g.put(s, k, who+" stores that "+limitedName(i)+" waits", planned, 0, func(t *lined, a answer) {
			if t.hands[k].at = limitsLook; a == throttled {
				t.passing(k)
			}
		})
	case limitsSkip:
		g.put(s, k, who+" closes "+limitedName(i)+" as skipped", skipped, 0, func(t *lined, a answer) {
			x := &t.hands[k]
			switch a {
			case throttled:
				t.leave(k)
			case ok:
				x.at, x.frees = limitsFree, g.itemsOf(i)
			default:
				x.at = limitsLook
			}
		})
	case limitsClaim:
		g.put(s, k, who+" claims "+limitedName(i), open, 1<<k, func(t *lined, a answer) {
			if t.hands[k].at = limitsLook; a == ok {
				t.hands[k].at = limitsSend
			} else if a == throttled {
				t.passing(k)
			}
		})
	case limitsSend:
		g.send(s, k, i)
	case limitsAck:
		s.runs[i].message = 0
		s.leave(k)
		g.emit(&s, false, "%s acks its message", who)
	case limitsFree:
		g.free(s, k)
	case limitsEnd:
		g.end(s, k, i)
	}
}

func (g *limiting) lookAtRun(s lined, k, i int) {
	h, r := &s.hands[k], &s.runs[i]
	words := runName(r.is)
	switch {
	case r.is == absent, r.is == planned:
		h.at, h.step, h.saw = limitsAsk, 0, r.is
	case r.is != open:
		h.at, h.frees = limitsFree, g.itemsOf(i)
	case r.owner == 1<<k:
		h.at = limitsSend
	case r.owner == untilPast:
		if h.at, h.step, h.saw = limitsAsk, 0, open; g.w.RetakeAsksNot {
			h.at = limitsClaim
		}
	default:
		words += ", another's"
		s.leave(k)
	}
	g.emit(&s, false, "%s looks at %s: %s", limitsWho(k), limitedName(i), words)
}

// condition is the condition for writing a run that was seen so.
func (s *lined) condition(i int, saw uint8) bool {
	r := &s.runs[i]
	return r.is == saw && (saw != open || r.owner == untilPast)
}

// put writes a run that was read before.
func (g *limiting) put(s lined, k int, what string, to, owner uint8, then func(*lined, answer)) {
	h := s.hands[k]
	i := int(h.run) - 1
	var later func(*lined)
	if g.w.Late && s.late.what == 0 && s.condition(i, h.saw) {
		later = func(t *lined) {
			t.late = lateLine{what: lateLineRun, fresh: 1, run: uint8(i), saw: h.saw, to: to, owner: owner}
		}
	}
	g.write(s, what, func(t *lined) bool {
		if !t.condition(i, h.saw) {
			return false
		}
		t.becomes(i, to, owner)
		return true
	}, then, later)
}

func (s *lined) becomes(i int, is, owner uint8) {
	r := &s.runs[i]
	if r.is, r.owner = is, owner; s.late.what == lateLineRun && s.late.run == uint8(i) {
		s.late.fresh = 0
	}
}

// arrive lets the write come that was on its way.
func (g *limiting) arrive(s lined) {
	l := s.late
	s.late = lateLine{}
	if l.what == lateLineAsk {
		if l.fresh == 1 || g.w.LateAsk {
			g.written(&s, int(l.item), l.line)
		}
		g.emit(&s, false, "the ask that was on its way arrives")
		return
	}
	if l.fresh == 1 && s.condition(int(l.run), l.saw) {
		s.becomes(int(l.run), l.to, l.owner)
	}
	g.emit(&s, false, "the write of %s that was on its way arrives", limitedName(int(l.run)))
}

// answers implements the table "Ask" for a run and an item.
func (g *limiting) answers(s *lined, l *line, k, i, j int) uint8 {
	h, me, b := s.hands[k], uint8(i+1), g.bound(j)
	stored, resend := h.saw != absent, h.saw == open
	if x := l.holder(me); x != nil {
		freeable := !stored
		if h.step == 1 {
			freeable = !resend || x.until != 0
		}
		if claim := s.claim(k); freeable && !g.w.UntilKept && x.until != claim {
			x.until = x.until&(1|2) | claim
		}
		return isGranted
	}
	waiting, room := l.waiting(), l.room(b.Limit)
	switch {
	case slices.Contains(l.queue[:], me):
		return isToWait
	case room && waiting == 0:
		l.hold(me, s.claim(k))
		return isGranted
	case b.Skips && (!resend || g.w.RetakeSkipped):
		return isToSkip
	case waiting >= b.Max && (!resend || g.w.RetakeSkipped):
		if j == appsLimit && !g.w.AppSkips { // its message comes again, and it does not wait in the queue
			return isToWait
		}
		return isFull
	case !stored:
		return isToWait
	}
	l.queue[waiting] = me
	return isToWait
}

// ask makes one of the asks of a claim.
func (g *limiting) ask(s lined, k, i int) {
	h := s.hands[k]
	j := g.itemOf(i, h.step)
	was, after := s.items[j], s.items[j]
	is := g.answers(&s, &after, k, i, j)
	refused := (is == isToSkip || is == isFull) && !g.w.SkipsUnseen
	if is == isToWait || refused {
		changed, first := g.settle(&s, &was, j, refused)
		if first != 0 {
			s.hands[k].at, s.hands[k].of = limitsConfirm, first
			g.emit(&s, false, "%s finds in %s that %s was claimed", limitsWho(k), itemName(j), limitedName(int(first)-1))
			return
		}
		if changed {
			is = g.answers(&s, &was, k, i, j)
			after = was
		}
	}
	next := func(t *lined) {
		x := &t.hands[k]
		switch {
		case is == isGranted && x.step == 0:
			x.step = 1
		case is == isGranted:
			x.at = limitsClaim
		case is == isToSkip, is == isFull:
			if x.at = limitsSkip; j == appsLimit {
				g.breaks("9: a run is skipped for the limit of its app")
			}
			switch {
			case h.saw == open:
				g.breaks("9: a run that is possibly running is skipped")
			case slices.ContainsFunc(t.items[j].holders[:], func(x permitted) bool {
				return x.run != 0 && x.until == untilPast && t.runs[x.run-1].is == absent
			}):
				g.breaks("9: a run is skipped because of a run that has ended")
			}
		case h.saw == absent:
			x.at = limitsQueue
		default:
			t.passing(k)
		}
	}
	words := limitsWho(k) + " asks " + itemName(j) + " for " + limitedName(i) + ": " + answerName(is)
	if after == s.items[j] {
		next(&s)
		g.emit(&s, false, "%s", words)
		return
	}
	var later func(*lined)
	if g.w.Late && s.late.what == 0 {
		later = func(t *lined) { t.late = lateLine{what: lateLineAsk, item: uint8(j), fresh: 1, line: after} }
	}
	g.write(s, words, func(t *lined) bool {
		g.written(t, j, after)
		return true
	}, func(t *lined, a answer) {
		switch {
		case a == throttled:
			t.passing(k)
		case a == ok, g.w.UnknownGranted:
			next(t)
		}
	}, later)
}

// settle frees doubtful permits, or finds that their runs need them. With ended, it also frees the permits of runs that have
// ended. The result first is 1 + a run whose first permit must be made certain before.
func (g *limiting) settle(s *lined, l *line, j int, ended bool) (changed bool, first uint8) {
	gone := uint8(0)
	for n := range l.holders {
		x := &l.holders[n]
		if x.run == 0 || x.until != untilPast && !ended {
			continue
		}
		i := int(x.run) - 1
		r, then := &s.runs[i], x.until
		second := g.itemOf(i, 1) == j
		has := s.items[g.itemOf(i, 0)].holder(x.run)
		switch {
		case closed(r.is), g.w.TimeFrees && r.is == open && r.owner == untilPast:
			gone |= 1 << i
		case x.until != untilPast:
		case r.is == absent, second && has == nil && !g.w.TrustsSecond, r.is == planned && !second && g.w.FreesPlanned:
			gone |= 1 << i
		case r.is == planned:
			then = untilToCome
		case second && has != nil && has.until != 0:
			return false, x.run
		default:
			then = 0
		}
		changed = changed || then != x.until
		x.until = then
	}
	changed = l.release(gone) || changed
	g.fill(l, j)
	return changed, 0
}

// confirm makes the first permit of a claimed run certain.
func (g *limiting) confirm(s lined, k int) {
	h := s.hands[k]
	j := g.itemOf(int(h.of)-1, 0)
	after := s.items[j]
	then := func(t *lined, a answer) {
		if x := &t.hands[k]; a == throttled {
			t.passing(k)
		} else if a == ok {
			x.at, x.of = limitsAsk, 0
		}
	}
	x := after.holder(h.of)
	if x == nil || x.until == 0 {
		then(&s, ok)
		g.emit(&s, false, "%s finds nothing to make certain in %s", limitsWho(k), itemName(j))
		return
	}
	x.until = 0
	var later func(*lined)
	if g.w.Late && s.late.what == 0 {
		later = func(t *lined) { t.late = lateLine{what: lateLineAsk, item: uint8(j), fresh: 1, line: after} }
	}
	g.write(s, limitsWho(k)+" makes the permit of "+limitedName(int(h.of)-1)+" in "+itemName(j)+" certain", func(t *lined) bool {
		g.written(t, j, after)
		return true
	}, then, later)
}

// written stores an item.
func (g *limiting) written(s *lined, j int, is line) {
	s.items[j] = is
	if s.late.what == lateLineAsk && s.late.item == uint8(j) {
		s.late.fresh = 0
	}
}

func (g *limiting) send(s lined, k, i int) {
	s.hands[k].at = limitsAck
	r := &s.runs[i]
	if r.exec == idle && r.is == open {
		r.exec = running
		for step := range uint8(2) {
			j, n := g.itemOf(i, step), 0
			for o := range g.w.Runs {
				if s.atWork(o) && (j == appsLimit || g.w.Of[o] == g.w.Of[i]) {
					n++
				}
			}
			if n > g.bound(j).Limit {
				g.breaks("8: more runs are running than the limit allows")
			}
		}
	}
	g.emit(&s, false, "%s sends %s", limitsWho(k), limitedName(i))
}

// end closes a run, and then frees its permits.
func (g *limiting) end(s lined, k, i int) {
	g.write(s, limitsWho(k)+" closes "+limitedName(i), func(t *lined) bool {
		if t.runs[i].is != open {
			return false
		}
		t.becomes(i, succeeded, 0)
		return true
	}, func(t *lined, a answer) {
		x := &t.hands[k]
		switch a {
		case unknown: // it is read, and closed again
		case throttled:
			t.leave(k)
		default:
			x.at, x.frees = limitsFree, g.itemsOf(i)
		}
	}, nil)
}

// free removes chains that are over from one item after the other.
func (g *limiting) free(s lined, k int) {
	h := s.hands[k]
	j := 0
	for h.frees&(1<<j) == 0 {
		j++
	}
	after := s.items[j]
	if after.release(1 << (h.run - 1)) {
		g.fill(&after, j)
	}
	then := func(t *lined, a answer) {
		if a != ok {
			return // it is read, and written again
		}
		x := &t.hands[k]
		if x.frees &^= 1 << j; x.frees != 0 {
			return
		}
		switch {
		case k != limitsEnder:
			x.at = limitsAck
		case t.runs[h.run-1].is == open: // broken: released first
			x.at = limitsEnd
		default:
			t.leave(k)
		}
	}
	if after == s.items[j] {
		then(&s, ok)
		g.emit(&s, false, "%s finds nothing to free in %s", limitsWho(k), itemName(j))
		return
	}
	g.write(s, limitsWho(k)+" frees permits of "+itemName(j), func(t *lined) bool {
		g.written(t, j, after)
		return true
	}, then, nil)
}

func (l *line) holder(fire uint8) *permitted {
	for x := range l.holders {
		if l.holders[x].run == fire {
			return &l.holders[x]
		}
	}
	return nil
}

func (l *line) hold(fire, until uint8) { *l.holder(0) = permitted{fire, until} }

func (l *line) waiting() (n int) {
	for n < len(l.queue) && l.queue[n] != 0 {
		n++
	}
	return n
}

// room reports that fewer hold it than may.
func (l *line) room(limit int) bool {
	for _, x := range l.holders {
		if x.run != 0 {
			limit--
		}
	}
	return limit > 0
}

// release removes runs, and keeps the order of the others.
func (l *line) release(gone uint8) (changed bool) {
	is := func(f uint8) bool { return f != 0 && gone&(1<<(f-1)) != 0 }
	for x := range l.holders {
		if is(l.holders[x].run) {
			l.holders[x], changed = permitted{}, true
		}
	}
	n := 0
	for _, f := range l.queue {
		if is(f) {
			changed = true
		} else if f != 0 {
			l.queue[n] = f
			n++
		}
	}
	clear(l.queue[n:])
	return changed
}

// fill gives free permits to the runs that have waited longest.
func (g *limiting) fill(l *line, j int) {
	for l.queue[0] != 0 && l.room(g.bound(j).Limit) {
		f := l.queue[0]
		copy(l.queue[:], l.queue[1:])
		l.queue[len(l.queue)-1] = 0
		l.hold(f, untilToCome)
	}
}

// rest: each run has ended.
func (w *Limits) rest(s *lined) (far int, why string) {
	if s.hands != [3]limiter{} || s.late.what != 0 {
		return 0, "an actor is active"
	}
	for i := range w.Runs {
		if !closed(s.runs[i].is) {
			return 1, limitedName(i) + " has not ended"
		}
	}
	for i := range w.Runs {
		if s.runs[i].message != 0 {
			return 2, "a message is on the ring"
		}
	}
	return 3, ""
}

// tidy makes states equal that differ only in fields that no step reads, or in the order of hands and holders.
func (w *Limits) tidy(s *lined) (swapped swaps, _ string) {
	if l := &s.left; l.all == 0 {
		l.crash, l.write, l.second, l.slow = 0, 0, 0, 0
	}
	for i := range s.runs {
		if r := &s.runs[i]; closed(r.is) {
			r.exec = idle
		}
	}
	if s.late.what == lateLineAsk && s.late.fresh == 0 && !w.LateAsk || s.late.what == lateLineRun && s.late.fresh == 0 {
		s.late = lateLine{}
	}
	if a, b := s.hands[0], s.hands[1]; a.key() < b.key() {
		s.hands[0], s.hands[1] = b, a
		swapped.disp = true
		s.untils(func(u *uint8) {
			if x := *u & 3; x == 1 || x == 2 {
				*u ^= 3
			}
		})
	}
	for j := range s.items {
		s.items[j].sort()
	}
	s.late.line.sort()
	return swapped, ""
}

func (l *line) sort() {
	slices.SortFunc(l.holders[:], func(a, b permitted) int { return cmp.Compare(a.run-1, b.run-1) })
}

func (h limiter) key() uint64 {
	return pack(h.at, h.run, h.saw, h.step, h.of, h.frees|h.past<<5)
}

func limitsWho(k int) string { return [...]string{"D1", "D2", "the actor that ends runs"}[k] }

func limitedName(i int) string { return [...]string{"r1", "r2", "r3", "r4"}[i] }

func itemName(j int) string { return [...]string{"L1", "L2", "L3", "the app's limit"}[j] }

func answerName(a uint8) string {
	return [...]string{"granted", "waits", "skipped", "full"}[a]
}
