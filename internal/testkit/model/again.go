package model

// Again models a rerun (docs/internals/claim-protocol.md, section 4). Two users rerun a run with one key, or one user
// repeats the request. The original run may be running or waiting for a retry. The search treats the new run as a
// trigger; the search of World covers its claim.
type Again struct {
	Asks  int  // total number of rerun requests, at most 3
	Shard bool // whether the original run was a shard of a broadcast that has ended

	Crashes, Writes, All int

	AgainRules
}

// AgainRules lists faults in the rerun rules. A field that is true breaks one rule, and its comment describes the
// faulty behavior. The zero value follows the protocol.
type AgainRules struct {
	KeyUnbound   bool // the request stores the new run before it binds the key to the run's ID
	BoundIsMade  bool // a user who bound the key does not check that the run is stored
	OwnAgain     bool // a user who finds a bound key stores a run with a new ID
	OpenAgain    bool // a rerun of a run that is still running is accepted
	TriedAgain   bool // a rerun of a run that will be retried is accepted
	EntryApart   bool // the due entry of the new run is written after the run, not in one transaction
	EntryRemoved bool // the due entry of the new run is removed before the message is sent
	StillShard   bool // the new run stays a shard of the original broadcast
}

const maxAsks = 3

// againState is a state of Again: first and retry are the states of the original run and of its
// retry, bound is the ID that the key has.
type againState struct {
	first, retry, owes, bound, asks uint8
	made                            [maxAsks]newRun
	people                          [2]asker
	tick, disp                      asker
	left                            budget
}

type newRun struct{ is, entry, messages uint8 }

type asker struct{ at, id uint8 }

// Stations of an asker, of the tick and of a dispatcher.
const (
	askIdle = iota
	askBind
	askLook
	askPut
	askEntry
	askSend
	askRemove
	askTick
	askDispatch
	askAck
)

// Search visits every state, or approximately most states if they exceed the limit.
func (w *Again) Search(most int) Report { return look[againState](w, most) }

func (w *Again) start() againState {
	s := againState{first: open, asks: uint8(w.Asks)}
	s.left = budget{crash: uint8(w.Crashes), write: uint8(w.Writes), all: uint8(w.All)}
	return s
}

// asking makes the steps from a state.
type asking struct {
	pen[againState]
	w *Again
}

func (w *Again) moves(say bool) func(*againState) []move[againState] {
	g := &asking{w: w, pen: pen[againState]{say: say, left: func(s *againState) *budget { return &s.left }, tidy: w.tidy}}
	return g.from
}

func (g *asking) from(s *againState) []move[againState] {
	g.out = g.out[:0]
	g.ends(s)
	for k := range s.people {
		at := func(t *againState) *asker { return &t.people[k] }
		if s.people[k].at == askIdle {
			g.read(s, k)
		} else {
			g.step(*s, [...]string{"P1", "P2"}[k], at)
		}
	}
	if s.tick.at != askIdle {
		g.step(*s, "the tick", func(t *againState) *asker { return &t.tick })
	}
	if s.disp.at != askIdle {
		g.step(*s, "D", func(t *againState) *asker { return &t.disp })
	}
	for i, r := range s.made {
		if s.tick.at == askIdle && r.entry == 1 {
			t := *s
			t.tick = asker{at: askTick, id: uint8(i + 1)}
			g.emit(&t, false, "the tick finds the entry of new run %d", i+1)
		}
		if s.disp.at == askIdle && r.messages > 0 {
			t := *s
			t.disp = asker{at: askDispatch, id: uint8(i + 1)}
			g.emit(&t, false, "D receives the message of new run %d", i+1)
		}
	}
	return g.out
}

// ends lets the run that is run again end, and its retry.
func (g *asking) ends(s *againState) {
	t := *s
	switch {
	case s.first == open:
		t.first = failed
		u := t
		g.emit(&t, false, "the run fails for good")
		u.owes = 1
		g.emit(&u, false, "the run fails, and owes its retry")
	case s.owes == 1:
		t.owes, t.retry = 0, open
		g.emit(&t, false, "the retry of the run is made")
	case s.retry == open:
		t.retry = failed
		g.emit(&t, false, "the retry of the run ends")
	}
}

// read lets a user ask for a rerun; the user reads the run first.
func (g *asking) read(s *againState, k int) {
	if s.asks == 0 {
		return
	}
	t := *s
	t.asks--
	tried := s.owes == 1 || s.retry != absent
	if s.first == open && !g.w.OpenAgain || tried && !g.w.TriedAgain {
		g.emit(&t, true, "P%d asks for the run again: refused, for it has not ended, or was tried again", k+1)
		return
	}
	for i := range s.made {
		if s.used(uint8(i + 1)) {
			continue
		}
		t.people[k] = asker{at: askBind, id: uint8(i + 1)}
		break
	}
	if g.w.KeyUnbound {
		t.people[k].at = askPut
	}
	g.emit(&t, true, "P%d asks for the run again, and draws ID %d", k+1, t.people[k].id)
}

// used reports whether an ID is in use.
func (s *againState) used(id uint8) bool {
	return s.bound == id || s.made[id-1] != newRun{} || s.people[0].id == id || s.people[1].id == id
}

// step makes the next step of one asker; of finds that asker in a state.
func (g *asking) step(s againState, who string, of func(*againState) *asker) {
	x := *of(&s)
	i := int(x.id) - 1
	// to moves on to a station; after a lost answer it retries, and a throttled step stays.
	to := func(at uint8) func(*againState, answer) {
		return func(t *againState, a answer) {
			switch a {
			case ok, refusedAnswer:
				if of(t).at = at; at == askIdle {
					*of(t) = asker{}
				}
			case throttled:
				*of(t) = asker{}
			}
		}
	}
	switch x.at {
	case askBind:
		g.write(s, who+" binds the key", func(t *againState) bool {
			if t.bound == 0 {
				t.bound = x.id
			}
			return true
		}, func(t *againState, a answer) {
			if to(askPut)(t, a); a == ok && t.bound != x.id {
				if of(t).at = askLook; g.w.OwnAgain {
					of(t).at = askPut
				}
			}
		}, nil)
	case askLook:
		y := of(&s)
		y.id = s.bound
		words := "never stored"
		switch r := s.made[s.bound-1]; {
		case r.is == absent && !g.w.BoundIsMade:
			y.at = askPut
		case r.is == planned:
			y.at, words = askSend, "it waits"
		default:
			g.answer(&s)
			*y, words = asker{}, "it is there"
		}
		g.emit(&s, false, "%s looks at what the key has: %s", who, words)
	case askPut:
		g.write(s, who+" stores the new run and its entry", func(t *againState) bool {
			r := &t.made[i]
			if r.is != absent {
				return false
			}
			for o := range t.made {
				if o != i && t.made[o].is != absent {
					g.breaks("two runs of one key")
				}
			}
			if t.first == open || t.owes == 1 || t.retry == open {
				g.breaks("a run again of what has not ended")
			}
			if r.is = planned; !g.w.EntryApart {
				r.entry = 1
			}
			return true
		}, func(t *againState, a answer) {
			next := uint8(askSend)
			if g.w.EntryApart {
				next = askEntry
			}
			if to(next)(t, a); a == ok || a == refusedAnswer {
				g.answer(t)
			}
		}, nil)
	case askEntry:
		g.write(s, who+" stores the entry", func(t *againState) bool {
			t.made[i].entry = 1
			return true
		}, to(askSend), nil)
	case askSend, askTick:
		if x.at == askTick && s.made[i].is != planned {
			of(&s).at = askRemove
			g.emit(&s, false, "%s reads the new run: somebody had it", who)
			break
		}
		if g.w.EntryRemoved {
			s.made[i].entry = 0
		}
		g.write(s, who+" sends the new run", func(t *againState) bool {
			t.made[i].messages = min(t.made[i].messages+1, 2)
			return true
		}, func(t *againState, a answer) {
			if to(askRemove)(t, a); a == unknown {
				*of(t) = asker{} // its entry is there
			}
		}, nil)
	case askRemove:
		g.write(s, who+" removes the entry", func(t *againState) bool {
			t.made[i].entry = 0
			return true
		}, func(t *againState, _ answer) { *of(t) = asker{} }, nil)
	case askDispatch:
		if g.w.Shard && g.w.StillShard {
			of(&s).at = askAck
			g.emit(&s, false, "%s reads the broadcast of the new run: it has ended, and so have all its shards", who)
			break
		}
		g.write(s, who+" claims and sends the new run", func(t *againState) bool {
			if t.made[i].is != planned {
				return false
			}
			t.made[i].is = succeeded
			return true
		}, to(askAck), nil)
	case askAck:
		s.made[i].messages--
		*of(&s) = asker{}
		g.emit(&s, false, "%s acks its message", who)
	}
	if s.left.crash > 0 {
		t := s
		*of(&t) = asker{}
		g.dies(t, who)
	}
}

// answer checks the answer that the user gets about the new run.
func (g *asking) answer(s *againState) {
	if s.made == [maxAsks]newRun{} {
		g.breaks("who asked is told of a run that is not there")
	}
}

func (w *Again) rest(s *againState) (far int, why string) {
	if s.people != [2]asker{} || s.tick != (asker{}) || s.disp != (asker{}) {
		return 0, "somebody is at work"
	}
	for _, r := range s.made {
		switch {
		case r.messages > 0 || r.entry > 0:
			return 1, "the new run is on its way"
		case r.is == planned:
			return 2, "the new run is not run"
		}
	}
	if s.first == open || s.owes == 1 || s.retry == open {
		return 1, "the run has not ended"
	}
	return 3, ""
}

func (w *Again) tidy(s *againState) (swapped swaps, _ string) {
	if l := &s.left; l.all == 0 {
		l.crash, l.write = 0, 0
	}
	if a, b := s.people[0], s.people[1]; pack(a.at, a.id) < pack(b.at, b.id) {
		s.people[0], s.people[1] = b, a
		swapped.people = true
	}
	return swapped, ""
}
