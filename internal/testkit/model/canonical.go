package model

import "slices"

// canonical makes equivalent states equal: it zeroes fields that no step will read, and sorts and renumbers fields without an
// order. It returns which pairs changed places; a trace shows them.
func (w *World) canonical(s *state) (swapped swaps) {
	l := &s.left
	if l.all == 0 {
		l.crash, l.write, l.busy, l.second, l.slow = 0, 0, 0, 0, 0
	}
	if l.changes == 0 {
		s.over = 0
	}
	for f := range w.Fires {
		w.forgetClosed(s, f)
	}
	for k := range s.disp {
		s.disp[k].forget(s)
	}
	w.sortRing(s)
	if a, b := s.disp[0].key(), s.disp[1].key(); slices.Compare(b[:], a[:]) > 0 {
		s.disp[0], s.disp[1] = s.disp[1], s.disp[0]
		swapped.disp = true
	}
	if a, b := &s.tickers[0], &s.tickers[1]; b.key() > a.key() {
		*a, *b = *b, *a
		swapped.tickers = true
	}
	if a, b := &s.people[0], &s.people[1]; b.key() > a.key() {
		*a, *b = *b, *a
		swapped.people = true
	}
	renumber(s)
	return swapped
}

// swaps are the pairs that canonical exchanged.
type swaps struct{ disp, tickers, people bool }

func (w *World) forgetClosed(s *state, f int) {
	r, m := &s.runs[f], &s.seen[f]
	if r.is <= open {
		return
	}
	r.owner, r.until, r.past, r.address, r.maybeSent, r.journal, r.kill, r.slot, r.params, r.rev, r.queued = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
	if r.owes == 0 && r.place == 0 {
		m.exec, m.known, m.reports, m.word = 0, 0, 0, 0
	}
	switch {
	case r.is != lost:
		m.tried = 0
	case m.arrived != 0:
		m.tried = 1
	}
}

// forget clears fields that this invocation does not read again.
func (d *invocation) forget(s *state) {
	if d.at != working {
		return
	}
	for f := range d.of {
		i := &d.of[f]
		was := *i
		i.falls, i.owner, i.until, i.address, i.maybeSent, i.slot, i.params, i.place, i.id = 0, 0, 0, 0, 0, 0, 0, 0, 0
		switch was.is {
		case toClaim, toRecord, toLook:
			i.falls = was.falls
		case judged, readPast, readLive, toTake:
			i.falls, i.owner, i.until, i.address, i.slot, i.params = was.falls, was.owner, was.until, was.address, was.slot, was.params
		case mine, checked:
			i.address, i.maybeSent, i.params = was.address, was.maybeSent, was.params
		case refused, movedUnknown:
			i.address, i.params = was.address, was.params
		case owing1, owing2, owing3, owing4:
			i.place, i.id = was.place, was.id
		}
		if e := entry(i.is); e >= accepted && i.stored == e {
			i.is = done
		}
		over := i.is == done || i.is == putBack || i.is == notDone || i.is == none
		if over && s.runs[f].owner != d.nonce && (s.late.what == lateNone || s.late.nonce != d.nonce) {
			i.stored = 0
		}
	}
}

// sortRing frees the messages that no invocation holds or will receive, and sorts them.
func (w *World) sortRing(s *state) {
	for i := range s.ring {
		if s.ring[i].at != acked {
			continue
		}
		s.ring[i] = message{at: acked}
		if !s.held(i, -1) {
			s.ring[i] = message{}
		}
	}
	for i := range s.ring {
		for j := range len(s.ring) - 1 - i {
			if s.ring[j].key() <= s.ring[j+1].key() {
				continue
			}
			s.ring[j], s.ring[j+1] = s.ring[j+1], s.ring[j]
			for k := range s.disp {
				d := &s.disp[k]
				switch {
				case d.at == unborn:
				case int(d.message) == j:
					d.message++
				case int(d.message) == j+1:
					d.message--
				}
			}
		}
	}
}

// held reports whether an invocation other than k holds message i.
func (s *state) held(i, k int) bool {
	for j := range s.disp {
		if j != k && s.disp[j].at != unborn && int(s.disp[j].message) == i {
			return true
		}
	}
	return false
}

// pack makes one number of small ones, in their order.
func pack(of ...uint8) (n uint64) {
	for _, x := range of {
		n = n<<8 | uint64(x)
	}
	return n
}

func (m message) key() uint64 {
	empty := uint8(0)
	if m.at == nowhere {
		empty = 1
	}
	return pack(empty, m.at, m.rev, m.slot, m.fires)
}

func (t ticker) key() uint64 { return pack(t.at, t.rev, t.next, t.tail, t.slot) }

func (p person) key() uint64 {
	return pack(p.at, p.kind, p.rev, p.next, p.tail, p.due, p.slot, p.params)
}

func (d *invocation) key() (k [8 + 9*maxFires]uint8) {
	n := copy(k[:], []uint8{d.at, d.fires, d.rev, d.slot, d.read, d.message, d.told, d.past})
	for f := range d.of {
		i := &d.of[f]
		n += copy(k[n:], []uint8{i.is, i.falls, i.address, i.maybeSent, i.slot, i.params, i.stored, i.place, i.id})
	}
	return k
}

// tokens calls f for each place that holds the token of an owner or an until.
func (s *state) tokens(f func(*uint8)) {
	for k := range s.disp {
		f(&s.disp[k].nonce)
		for i := range s.disp[k].of {
			f(&s.disp[k].of[i].owner)
			f(&s.disp[k].of[i].until)
		}
	}
	for i := range s.runs {
		f(&s.runs[i].owner)
		f(&s.runs[i].until)
	}
	for i := range s.people {
		f(&s.people[i].until)
	}
	f(&s.check.nonce)
	f(&s.late.nonce)
	f(&s.late.owner)
	f(&s.late.until)
}

// renumber gives the tokens the lowest numbers, in the order of their places.
func renumber(s *state) {
	var to [64]uint8
	next := uint8(1)
	s.tokens(func(t *uint8) {
		if *t == 0 {
			return
		}
		if to[*t] == 0 {
			to[*t] = next
			next++
		}
		*t = to[*t]
	})
}

// fresh returns an unused token.
func (s *state) fresh() uint8 {
	var used uint64
	s.tokens(func(t *uint8) { used |= 1 << *t })
	for t := uint8(1); ; t++ {
		if used&(1<<t) == 0 {
			return t
		}
	}
}
