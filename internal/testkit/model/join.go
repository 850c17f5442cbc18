package model

import (
	"cmp"
	"slices"
)

// Join models a child job that waits for two parent jobs (docs/internals/claim-protocol.md, section 5, "A join"). The
// search of World covers how the end of a run creates its child runs. Join has only the part that the join adds. The
// item of the join is read and written in one step, because a concurrent write rejects the later write.
type Join struct {
	Ends        [2]int // number of times that each parent ends, at most 2
	Windows     bool   // whether the window of a round may end at any time; false: no window ends
	Dispatchers int    // number of concurrent dispatchers; 0: one

	Crashes, Writes, All int
	Late                 bool // whether one write of the item may take effect at any later time

	JoinRules
}

// JoinRules lists faults in the join rules. A field that is true breaks one rule, and its comment describes the faulty
// behavior. The zero value follows the protocol. A round is the wait of the join for one end of each parent.
type JoinRules struct {
	MarksGo         bool // the marks of counted parent ends are removed together with the round
	MarksAreOne     bool // an end with an ID lower than the recorded ID counts as a further end
	OverUnwritten   bool // the end of the window is not written to the item
	EndIgnored      bool // the end of a parent counts although the window is over
	ClearedFirst    bool // a round is cleared before its run is created
	ClearedBlindly  bool // a round is cleared without a check that it is the current round
	AwaitedByNobody bool // the run of a round is stored only when all parents have ended
	NotedFirst      bool // the follow-up of the parent is cleared before the run of the round is stored
	DueSkips        bool // a round is skipped before its item records the skip
	SkipsSent       bool // a run that no longer waits for parents is skipped
}

const maxEnds = 4

// joint is a state of Join. since are bits of the parents that were recorded since the last round.
type joint struct {
	item   round
	since  uint8
	ends   [maxEnds]end // the first two are of one parent
	runs   [maxEnds]joined
	hands  [4]joiner
	late   round // that is on its way, in place of before
	before round
	left   budget
}

// round is the item. IDs are numbers that grow as they are allocated.
type round struct {
	id, full, over uint8
	marks          [2]mark
}

type mark struct{ end, id, counts uint8 }

// end is the run of a parent: id is the ID that it owes, counted is the number of rounds that it filled.
type end struct{ is, id, counted uint8 }

// States of an end.
const (
	endOpen = iota
	endOwes
	endNoted
)

// joined is a run of the join; past: its window is over; messages holds bits.
type joined struct{ id, is, past, messages, full uint8 }

// States of a joined run.
const (
	joinAbsent = iota
	joinWaits
	joinOnItsWay
	joinSent
	joinSkipped
)

// Bits of joined.messages.
const (
	atTheEnd = 1 // of its window
	now      = 2
)

// joiner is an actor with its work: two make the child that a parent's end owes, and two
// dispatch. round and over come from the item as read; noted: the end is in the item.
type joiner struct{ at, end, id, round, over, noted, message uint8 }

const handDispatcher = 2

// Stations.
const (
	joinIdle = iota
	joinDraw
	joinStore
	joinNote
	joinAwait
	joinAwaitSend
	joinMake
	joinMakeSend
	joinClear
	joinForget
	joinLook
	joinDue
	joinSkip
	joinSend
	joinAck
)

// Search visits every state, or approximately most states if they exceed the limit.
func (w *Join) Search(most int) Report { return look[joint](w, most) }

func (w *Join) start() joint {
	var s joint
	for i := range s.ends {
		if i%2 >= w.Ends[i/2] {
			s.ends[i].is = endNoted
		}
	}
	s.left = budget{crash: uint8(w.Crashes), write: uint8(w.Writes), all: uint8(w.All)}
	return s
}

// joining makes the steps from a state.
type joining struct {
	pen[joint]
	w *Join
}

func (w *Join) moves(say bool) func(*joint) []move[joint] {
	g := &joining{w: w, pen: pen[joint]{say: say, left: func(s *joint) *budget { return &s.left }, tidy: w.tidy}}
	return g.from
}

func (g *joining) from(s *joint) []move[joint] {
	g.out = g.out[:0]
	for i := range s.ends {
		if s.ends[i].is == endOpen {
			t := *s
			t.ends[i].is = endOwes
			g.emit(&t, false, "%s closes", endName(i))
		}
	}
	for i := range s.runs {
		if r := &s.runs[i]; g.w.Windows && r.id != 0 && r.past == 0 {
			t := *s
			t.runs[i].past = 1
			g.emit(&t, false, "the window of run %d ends", r.id)
		}
	}
	for k := range s.hands {
		if s.hands[k].at == joinIdle {
			g.begin(s, k)
			continue
		}
		g.step(*s, k)
		if s.left.crash > 0 {
			t := *s
			t.hands[k] = joiner{}
			g.dies(t, joinWho(k))
		}
	}
	if s.late != (round{}) {
		t := *s
		if t.item == t.before {
			g.written(&t, t.late)
		}
		t.late, t.before = round{}, round{}
		g.emit(&t, false, "the write of the item that was on its way arrives")
	}
	return g.out
}

// begin lets an actor start on a pending follow-up of an end, any number of times, or on a message.
func (g *joining) begin(s *joint, k int) {
	if k < handDispatcher {
		for i := range s.ends {
			if e := s.ends[i]; e.is == endOwes {
				t := *s
				t.hands[k] = joiner{at: joinNote, end: uint8(i), id: e.id}
				if e.id == 0 {
					t.hands[k].at = joinDraw
				}
				g.emit(&t, false, "%s finds that %s owes the join", joinWho(k), endName(i))
			}
		}
		return
	}
	if k >= handDispatcher+max(g.w.Dispatchers, 1) {
		return
	}
	for _, r := range s.runs {
		for bit := uint8(atTheEnd); bit <= now; bit <<= 1 {
			if r.messages&bit == 0 || bit == atTheEnd && r.past == 0 {
				continue
			}
			t := *s
			t.hands[k] = joiner{at: joinLook, id: r.id, message: bit}
			g.emit(&t, false, "%s receives the message of run %d", joinWho(k), r.id)
		}
	}
}

func (g *joining) step(s joint, k int) {
	h, who := &s.hands[k], joinWho(k)
	e := int(h.end)
	switch h.at {
	case joinDraw:
		h.id, h.at = s.draw(), joinStore
		g.emit(&s, false, "%s draws ID %d", who, h.id)
	case joinStore: // C1
		g.write(s, who+" stores the ID that "+endName(e)+" owes", func(t *joint) bool {
			x := &t.ends[e]
			if x.is != endOwes || x.id != 0 {
				return false
			}
			x.id = t.hands[k].id
			return true
		}, func(t *joint, a answer) {
			x := &t.hands[k]
			switch {
			case a == ok:
				x.at = joinNote
			case a != throttled && t.ends[e].is == endOwes && t.ends[e].id != 0:
				x.at, x.id = joinNote, t.ends[e].id
			case a == unknown:
				x.at, x.id = joinDraw, 0
			default:
				*x = joiner{}
			}
		}, nil)
	case joinNote:
		g.note(s, k)
	case joinAwait:
		g.write(s, who+" stores the run of the round", func(t *joint) bool {
			r := t.run(t.hands[k].id)
			if r.is != joinAbsent {
				return false
			}
			r.is = joinWaits
			return true
		}, then(k, joinAwaitSend), nil)
	case joinAwaitSend: // as it is stored
		g.write(s, who+" sends the run of the round", func(t *joint) bool {
			switch r := t.run(t.hands[k].id); r.is {
			case joinWaits:
				r.messages |= atTheEnd
			case joinOnItsWay:
				r.messages |= now
			}
			return true
		}, then(k, joinForget), nil)
	case joinMake:
		g.make(s, k)
	case joinMakeSend:
		g.write(s, who+" sends the run of the full round", func(t *joint) bool {
			if r := t.run(t.hands[k].round); r.is == joinOnItsWay {
				r.messages |= now
			}
			return true
		}, func(t *joint, a answer) {
			if then(k, joinClear)(t, a); a == ok && g.w.ClearedFirst {
				t.after(k)
			}
		}, nil)
	case joinClear: // N3
		g.clear(s, k)
	case joinForget: // F4
		g.write(s, who+" notes that "+endName(e)+" owes nothing", func(t *joint) bool {
			if x := &t.ends[e]; x.is == endOwes {
				*x = end{is: endNoted, counted: x.counted}
			}
			return true
		}, func(t *joint, a answer) {
			switch {
			case a == unknown:
			case a == ok && g.w.NotedFirst && t.hands[k].noted == 2:
				t.hands[k].at, t.hands[k].noted = joinAwait, 0
			default:
				t.hands[k] = joiner{}
			}
		}, nil)
	case joinLook:
		switch r := s.run(h.id); {
		case r.is == joinWaits && g.w.DueSkips:
			h.at = joinSkip
		case r.is == joinWaits:
			h.at = joinDue
		case r.is == joinOnItsWay:
			h.at = joinSend
		default:
			h.at = joinAck
		}
		g.emit(&s, false, "%s looks at run %d: %s", who, h.id, joinState(s.run(h.id).is))
	case joinDue:
		g.due(s, k)
	case joinSkip:
		g.write(s, who+" closes the run as skipped", func(t *joint) bool { return g.skip(t, t.hands[k].id) }, then(k, joinAck), nil)
	case joinSend:
		g.write(s, who+" claims and sends the run", func(t *joint) bool {
			r := t.run(t.hands[k].id)
			if r.is != joinOnItsWay {
				return false
			}
			r.is = joinSent
			return true
		}, then(k, joinAck), nil)
	case joinAck:
		s.run(h.id).messages &^= h.message
		*h = joiner{}
		g.emit(&s, false, "%s acks its message", who)
	}
}

// then is after a write that is made again if there is no answer.
func then(k int, at uint8) func(*joint, answer) {
	return func(t *joint, a answer) {
		switch a {
		case ok, refusedAnswer:
			t.hands[k].at = at
		case throttled:
			t.hands[k] = joiner{}
		}
	}
}

// put writes the item: an actor without an answer reads and evaluates it again.
func (g *joining) put(s joint, k int, what string, after round, next func(*joint)) {
	before := s.item
	var later func(*joint)
	if g.w.Late && s.late == (round{}) {
		later = func(t *joint) { t.late, t.before = after, before }
	}
	g.write(s, joinWho(k)+what, func(t *joint) bool {
		g.written(t, after)
		return true
	}, func(t *joint, a answer) {
		switch a {
		case ok:
			next(t)
		case throttled:
			t.hands[k] = joiner{}
		}
	}, later)
}

// written stores an item and asserts the rules for its change.
func (g *joining) written(s *joint, is round) {
	was := s.item
	s.item = is
	for p, m := range is.marks {
		if m.counts == 0 || m == was.marks[p] {
			continue
		}
		if s.since |= 1 << p; was.id != 0 && s.run(was.id).past == 1 && !g.w.Late {
			g.breaks("5: an end counts after the window")
		}
	}
	if is.full > was.full {
		s.since, s.run(is.id).full = 0, 1
		for _, m := range is.marks {
			if x := &s.ends[m.end]; x.counted == 1 {
				g.breaks("5: an end counts in two rounds")
			} else {
				x.counted = 1
			}
		}
	}
	if is.over > was.over {
		s.since = 0
	}
	if s.since == 3 {
		g.breaks("5: each parent has ended, and the round is not full")
	}
	if is.id != 0 {
		s.run(is.id)
	}
}

// note makes step F2 of a child that is a join, by its item.
func (g *joining) note(s joint, k int) {
	h, item := &s.hands[k], s.item
	m := &item.marks[h.end/2]
	noted := m.id >= h.id && !g.w.MarksAreOne || m.id == h.id
	is := joiner{at: g.toMake(), end: h.end, id: h.id, round: item.id, over: item.over}
	switch {
	case item.full == 1 || item.over == 1:
		if noted {
			is.noted = 1
		}
		*h = is
		g.emit(&s, false, "%s reads the item: its round is full, or over", joinWho(k))
	case noted:
		if h.at = joinForget; item.id == h.id && !g.w.AwaitedByNobody {
			h.at = joinAwait
		}
		g.emit(&s, false, "%s reads the item: the end is noted", joinWho(k))
	case item.id != 0 && s.run(item.id).past == 1 && !g.w.EndIgnored:
		is.over = 1
		g.end(s, k, item, is)
	default:
		*m = mark{end: h.end, id: h.id, counts: 1}
		if item.id == 0 {
			item.id = h.id
		}
		if item.marks[0].counts == 1 && item.marks[1].counts == 1 {
			item.full = 1
		}
		is.round, is.noted = item.id, 1
		switch {
		case item.full == 1:
		case item.id == h.id && g.w.NotedFirst:
			is.at, is.noted = joinForget, 2
		case item.id == h.id && !g.w.AwaitedByNobody:
			is.at = joinAwait
		default:
			is.at = joinForget
		}
		g.put(s, k, " notes "+endName(int(h.end)), item, func(t *joint) { t.hands[k] = is })
	}
}

// end writes that a round is over.
func (g *joining) end(s joint, k int, item round, is joiner) {
	if g.w.OverUnwritten {
		s.hands[k] = is
		g.emit(&s, false, "%s finds the window over", joinWho(k))
		return
	}
	item.over = 1
	g.put(s, k, " writes that the round is over", item, func(t *joint) { t.hands[k] = is })
}

func (g *joining) toMake() uint8 {
	if g.w.ClearedFirst {
		return joinClear
	}
	return joinMake
}

// make is N1 or N2.
func (g *joining) make(s joint, k int) {
	h := s.hands[k]
	if h.over == 1 {
		g.write(s, joinWho(k)+" skips the run of the round", func(t *joint) bool { return g.skip(t, h.round) }, func(t *joint, a answer) {
			if then(k, joinClear)(t, a); t.hands[k].at == joinClear && g.w.ClearedFirst {
				t.after(k)
			}
		}, nil)
		return
	}
	g.write(s, joinWho(k)+" makes the run of the full round", func(t *joint) bool {
		r := t.run(h.round)
		if r.is != joinAbsent && r.is != joinWaits {
			return false
		}
		if r.is = joinOnItsWay; r.full == 0 {
			g.breaks("5: the run of a round that is not full is sent")
		}
		return true
	}, then(k, joinMakeSend), nil)
}

// skip closes a run that waits, or creates it as skipped.
func (g *joining) skip(s *joint, id uint8) bool {
	r := s.run(id)
	if r.is != joinAbsent && r.is != joinWaits && !g.w.SkipsSent {
		return false
	}
	if r.is = joinSkipped; r.full == 1 {
		g.breaks("5: the run of a full round is skipped")
	}
	return true
}

// clear is N3.
func (g *joining) clear(s joint, k int) {
	next := func(t *joint) {
		if g.w.ClearedFirst {
			t.hands[k].at = joinMake
			return
		}
		t.after(k)
	}
	item := s.item
	if item.id != s.hands[k].round && !g.w.ClearedBlindly {
		next(&s)
		g.emit(&s, false, "%s reads the item: that round is gone", joinWho(k))
		return
	}
	item.id, item.full, item.over = 0, 0, 0
	for p := range item.marks {
		if item.marks[p].counts = 0; g.w.MarksGo {
			item.marks[p] = mark{}
		}
	}
	g.put(s, k, " lets the round go", item, next)
}

// due selects a dispatcher's next step for a run whose window is over.
func (g *joining) due(s joint, k int) {
	h, item := s.hands[k], s.item
	is := joiner{at: g.toMake(), id: h.id, message: h.message, round: h.id, over: item.over}
	switch {
	case item.id != h.id:
		s.hands[k].at = joinSkip
		g.emit(&s, false, "%s reads the item: its round is not that of the run", joinWho(k))
	case item.full == 1 || item.over == 1:
		s.hands[k] = is
		g.emit(&s, false, "%s reads the item: its round is full, or over", joinWho(k))
	default:
		is.over = 1
		g.end(s, k, item, is)
	}
}

// after selects the next step once a round has its final state.
func (s *joint) after(k int) {
	h := &s.hands[k]
	switch {
	case k >= handDispatcher:
		h.at = joinAck
	case h.noted == 1:
		h.at = joinForget
	default:
		h.at = joinNote
	}
	h.round, h.over, h.noted = 0, 0, 0
}

// run is the run of an ID, or a place for it.
func (s *joint) run(id uint8) *joined {
	free := 0
	for i := range s.runs {
		switch s.runs[i].id {
		case id:
			return &s.runs[i]
		case 0:
			free = i
		}
	}
	s.runs[free] = joined{id: id}
	return &s.runs[free]
}

// ids calls f for each place that holds an ID.
func (s *joint) ids(f func(*uint8)) {
	for _, r := range []*round{&s.item, &s.late, &s.before} {
		f(&r.id)
		f(&r.marks[0].id)
		f(&r.marks[1].id)
	}
	for i := range s.ends {
		f(&s.ends[i].id)
	}
	for i := range s.runs {
		f(&s.runs[i].id)
	}
	for k := range s.hands {
		f(&s.hands[k].id)
		f(&s.hands[k].round)
	}
}

// draw returns an ID that is higher than any.
func (s *joint) draw() (id uint8) {
	s.ids(func(i *uint8) { id = max(id, *i) })
	return id + 1
}

// rest: each end is recorded, and each round has its run, or was skipped.
func (w *Join) rest(s *joint) (far int, why string) {
	if s.hands != [4]joiner{} || s.late != (round{}) {
		return 0, "somebody is at work"
	}
	for i := range s.ends {
		if s.ends[i].is != endNoted {
			return 1, endName(i) + " is not noted"
		}
	}
	for _, r := range s.runs {
		switch {
		case r.id == 0:
		case r.full == 1 && (r.is != joinSent || r.messages&now != 0):
			return 2, "the run of a full round is not sent"
		case r.full == 0 && r.is != joinSkipped && (w.Windows || r.is != joinWaits || r.messages == 0):
			return 3, "the run of a round that is not full is neither skipped nor on its way to the end of its window"
		}
	}
	if s.item.id != 0 && w.Windows && s.item.full == 0 && s.item.over == 0 { // else the next note lets it go
		return 4, "a round is left"
	}
	return 5, ""
}

// tidy makes states equal that differ only in fields that no step reads, in gaps between
// numbers, or in the order of hands.
func (w *Join) tidy(s *joint) (swapped swaps, _ string) {
	if l := &s.left; l.all == 0 {
		l.crash, l.write = 0, 0
	}
	for i := range s.runs {
		if r := &s.runs[i]; r.is >= joinSent && r.messages == 0 {
			refs := 0
			s.ids(func(id *uint8) {
				if *id == r.id {
					refs++
				}
			})
			for _, m := range s.item.marks { // these are marks of other runs
				if m.id == r.id {
					refs--
				}
			}
			if refs == 1 {
				*r = joined{}
			}
		}
	}
	slices.SortFunc(s.runs[:], func(a, b joined) int { return cmp.Compare(a.id-1, b.id-1) })
	var used [64]bool
	s.ids(func(id *uint8) { used[*id] = true })
	var to [64]uint8
	n := uint8(0)
	for i := 1; i < len(used); i++ {
		if used[i] {
			n++
			to[i] = n
		}
	}
	s.ids(func(id *uint8) { *id = to[*id] })
	if s.hands[0].key() < s.hands[1].key() {
		s.hands[0], s.hands[1] = s.hands[1], s.hands[0]
		swapped.disp = true
	}
	if s.hands[2].key() < s.hands[3].key() {
		s.hands[2], s.hands[3] = s.hands[3], s.hands[2]
		swapped.people = true
	}
	return swapped, ""
}

func (h joiner) key() uint64 { return pack(h.at, h.end, h.id, h.round, h.over, h.noted, h.message) }

func joinWho(k int) string { return [...]string{"D1", "D2", "P1", "P2"}[k] }

func endName(i int) string {
	return [...]string{"A's run 1", "A's run 2", "B's run 1", "B's run 2"}[i]
}

func joinState(is uint8) string {
	return [...]string{"absent", "waits", "on its way", "sent", "skipped"}[is]
}
