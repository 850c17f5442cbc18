package model

import "slices"

// Broadcast models a broadcast run with three shards and at most two attempts for each shard
// (docs/internals/claim-protocol.md, section 10). The search of World covers the claim of a single run.
//
// The model is simpler than the protocol. The claim time `until` passes when the owner of the claim is dead. Each
// shard has one address. A run is read together with its journal. All shards are read in one step, because an ended
// shard does not change.
type Broadcast struct {
	Shards      int  // number of shards; 0: three
	ByHand      bool // whether a user triggered the broadcast, so that the run is stored before its claim
	Fails       int  // maximum number of attempts that fail or whose end is never reported
	Cancels     int  // maximum number of cancels by users, of a waiting run or of the broadcast
	Dispatchers int  // number of concurrent dispatchers; 0: one
	// NoWalk reports whether the watchdog never runs. Every end is then reported, and the runs must not need the
	// watchdog.
	NoWalk bool

	Crashes, Writes, Seconds, All int

	BroadcastRules
}

// BroadcastRules lists faults in the broadcast rules. A field that is true breaks one rule, and its comment describes
// the faulty behavior. The zero value follows the protocol.
type BroadcastRules struct {
	SpreadFirst           bool // the dispatcher sends the shards before it stores the broadcast
	SpreadOwn             bool // a dispatcher that lost the claim sends shards with IDs that it allocated
	OpenIsDone            bool // a dispatcher that finds the broadcast open does not send its missing shards
	ReadFirst             bool // the result of the other shards is read before the shard is closed
	FirstsCount           bool // the first attempts of the shards decide the result, instead of the last attempts
	ClosedShardIsDone     bool // a dispatcher that finds a closed shard does not process its follow-ups
	WalkForgetsShards     bool // the watchdog ignores a closed shard without pending follow-ups
	ClosedBroadcastIsDone bool // a dispatcher that finds a closed broadcast ignores its pending follow-ups
	ClosedBlindly         bool // a broadcast is closed without a check that it is open
	CancelIgnoresState    bool // a cancel of a waiting run also ends a broadcast that was already sent
	CancelSparesUnclaimed bool // a kill of the broadcast ignores shards that have no stored run
	CancelIgnoresClaim    bool // shards that a dispatcher claimed are stored as skipped
	ShardIgnoresKill      bool // a shard is sent although its broadcast was killed
	EndIgnoresKill        bool // the end of the broadcast ignores a kill that was stored after the end was read
}

const shardsOf = 3

// cast is a state of Broadcast; message counts the copies of the broadcast's message on the ring.
type cast struct {
	whole                   whole
	shards                  [shardsOf]shard
	message, fails, cancels uint8
	hands                   [5]hand
	left                    budget
}

// whole is the run of the broadcast. kill is 1 once the kill is recorded, 2 once the shards
// without an owner are cancelled.
type whole struct{ is, kill, owes, made uint8 }

// shard has an attempt and its retry, which the first may owe.
type shard struct {
	tries [2]try
	owes  uint8
}

// try is an attempt. owner is 1 + the dispatcher, or dead; known: a journal names the attempt.
type try struct{ is, owner, maybeSent, exec, known, message uint8 }

// States that World's run does not have, and the owner that died.
const (
	planned   = 6
	succeeded = 7
	dead      = 9
)

// hand is an actor with its work. fails is the state in which it closes an attempt, kill the broadcast's kill as read.
// verdict is the state in which it closes the broadcast; for a user who cancels shards, two bits for each shard.
type hand struct{ at, holds, shard, try, fails, verdict, kill uint8 }

// The hands; the first two are dispatchers.
const (
	handCallback = 2 + iota
	handWatchdog
	handPerson
)

// Stations of a hand.
const (
	castIdle = iota
	castLook
	castClaim
	castSpread
	castShard
	castShardLook
	castShardClaim
	castSkip
	castSend
	castJournal
	castLeft
	castAck
	castEnd
	castRead
	castCreate
	castSendRetry
	castNote
	castGather
	castClose
	castChild
	castNoted
	castCancel
	castMark
	castReadShards
	castCancelShards
)

// Kinds of messages that a dispatcher holds.
const (
	holdsWhole = 1 + iota
	holdsShard
)

// Search visits every state, or approximately most states if they exceed the limit.
func (w *Broadcast) Search(most int) Report { return look[cast](w, most) }

func (w *Broadcast) start() cast {
	s := cast{message: 1, fails: uint8(w.Fails), cancels: uint8(w.Cancels)}
	if w.ByHand {
		s.whole.is = planned
	}
	for i := w.Shards; i < shardsOf && i > 0; i++ {
		s.shards[i].tries[0].is = succeeded // stands for no shard: it never runs
	}
	s.left = budget{crash: uint8(w.Crashes), write: uint8(w.Writes), second: uint8(w.Seconds), all: uint8(w.All)}
	return s
}

// casting makes the steps from a state.
type casting struct {
	pen[cast]
	w *Broadcast
}

func (w *Broadcast) moves(say bool) func(*cast) []move[cast] {
	g := &casting{w: w, pen: pen[cast]{say: say, left: func(s *cast) *budget { return &s.left }, tidy: w.tidy}}
	return g.from
}

func (g *casting) from(s *cast) []move[cast] {
	g.out = g.out[:0]
	for k := range max(g.w.Dispatchers, 1) {
		g.receive(s, k)
	}
	if s.hands[handCallback].at == castIdle {
		g.report(s)
	}
	if s.hands[handWatchdog].at == castIdle && !g.w.NoWalk {
		g.walk(s)
	}
	if s.hands[handPerson].at == castIdle && s.cancels > 0 {
		g.person(s)
	}
	for k := range s.hands {
		if s.hands[k].at == castIdle {
			continue
		}
		g.step(*s, k)
		if s.left.crash > 0 {
			t := *s
			t.leave(k)
			g.dies(t, castWho(k))
		}
	}
	return g.out
}

// receive lets a dispatcher have a message, perhaps one that another holds.
func (g *casting) receive(s *cast, k int) {
	if s.hands[k].at != castIdle {
		return
	}
	take := func(copies uint8, h hand, words string, args ...any) {
		x, t := s.hands[1-k], *s
		again := copies == 1 && x.holds == h.holds && x.shard == h.shard && x.try == h.try
		if copies == 0 || again && s.left.second == 0 {
			return
		}
		if again {
			t.left.spend(&t.left.second)
		}
		t.hands[k] = h
		g.emit(&t, again, castWho(k)+" receives the message of "+words, args...)
	}
	take(s.message, hand{at: castLook, holds: holdsWhole}, "the broadcast")
	for i := range s.shards {
		for j := range s.shards[i].tries {
			take(s.shards[i].tries[j].message, hand{at: castShard, shard: uint8(i), try: uint8(j), holds: holdsShard}, shardName(i, j))
		}
	}
}

// report lets executors end their attempts.
func (g *casting) report(s *cast) {
	for i := range s.shards {
		for j := range s.shards[i].tries {
			h := hand{at: castEnd, shard: uint8(i), try: uint8(j)}
			h.verdict = g.readFirst(s, i)
			t := *s
			x := &t.shards[i].tries[j]
			switch {
			case x.exec == reported && s.left.second > 0:
				t.left.spend(&t.left.second)
				t.hands[handCallback] = h
				g.emit(&t, true, "the executor reports the end of %s once more", shardName(i, j))
			case x.exec == running:
				x.exec, t.hands[handCallback] = reported, h
				u := t
				g.emit(&t, false, "the executor reports the success of %s", shardName(i, j))
				if s.fails == 0 {
					continue
				}
				u.fails--
				t = u
				t.hands[handCallback].fails = failed
				g.emit(&t, true, "the executor reports the failure of %s", shardName(i, j))
				if g.w.NoWalk {
					continue
				}
				u.hands[handCallback] = hand{}
				g.emit(&u, true, "the executor of %s dies, and reports nothing", shardName(i, j))
			}
		}
	}
}

// readFirst is 1 where the others are read before shard i is closed, and have ended.
func (g *casting) readFirst(s *cast, i int) uint8 {
	if g.w.ReadFirst && g.over(s, i) {
		return 1
	}
	return 0
}

// walk lets the watchdog begin on each attempt that a journal names and no hand holds.
func (g *casting) walk(s *cast) {
	for i := range s.shards {
		for j := range s.shards[i].tries {
			x, busy := s.shards[i].tries[j], false
			for k := range handWatchdog {
				h := s.hands[k]
				busy = busy || h.at != castIdle && h.holds != holdsWhole && int(h.shard) == i
			}
			if x.known == 0 || x.exec == running || busy {
				continue
			}
			at := uint8(castGather)
			switch {
			case x.is == open:
				at = castEnd
			case j == 0 && s.shards[i].owes == 1:
				at = castCreate
			case g.w.WalkForgetsShards || !s.shards[i].ended() || x.goesOn(j) || s.whole.closed() && s.whole.owes == 0:
				continue
			}
			t := *s
			t.hands[handWatchdog] = hand{at: at, shard: uint8(i), try: uint8(j), fails: lost}
			g.emit(&t, false, "the watchdog looks at %s", shardName(i, j))
		}
	}
}

// person lets a user cancel the waiting run, or kill the broadcast.
func (g *casting) person(s *cast) {
	t := *s
	t.cancels--
	switch s.whole.is {
	case planned:
		t.hands[handPerson].at = castCancel
		g.emit(&t, true, "P reads the run, which waits, to cancel it")
	case open:
		t.hands[handPerson].at = castMark
		g.emit(&t, true, "P wants the broadcast killed")
	}
}

// step is the next step of a hand.
func (g *casting) step(s cast, k int) {
	i, j := int(s.hands[k].shard), int(s.hands[k].try)
	switch s.hands[k].at {
	case castLook:
		g.lookAtWhole(s, k)
	case castClaim:
		g.claimWhole(s, k)
	case castSpread:
		g.spread(s, k)
	case castShard:
		g.readWhole(s, k)
	case castShardLook:
		g.lookAtShard(s, k)
	case castShardClaim:
		g.claimShard(s, k)
	case castSkip:
		g.skipShard(s, k, i, j, func(t *cast, a answer) {
			if t.hands[k].at = castShardLook; a == ok {
				t.hands[k].at = castGather
			} else if a == throttled {
				t.leave(k)
			}
		})
	case castSend:
		g.sendShard(s, k)
	case castJournal:
		g.write(s, castWho(k)+" stores its journal", func(t *cast) bool {
			t.shards[i].tries[j].known = 1
			return true
		}, func(t *cast, a answer) {
			if a == ok {
				t.hands[k].at = castAck
			}
		}, nil)
	case castLeft:
		s.shards[i].tries[j].known, s.hands[k].at = 1, castAck
		g.emit(&s, false, "%s lists %s as left", castWho(k), shardName(i, j))
	case castAck:
		g.ack(s, k)
	case castEnd:
		g.endShard(s, k)
	case castRead:
		g.readShard(s, k)
	case castCreate, castSendRetry, castNote:
		g.retry(s, k)
	case castGather:
		g.gather(s, k)
	case castClose:
		g.closeWhole(s, k)
	case castChild, castNoted:
		g.child(s, k)
	case castCancel:
		g.cancel(s, k)
	case castMark, castReadShards, castCancelShards:
		g.killWhole(s, k)
	}
}

func (g *casting) lookAtWhole(s cast, k int) {
	h := &s.hands[k]
	switch h.at = castSpread; {
	case s.whole.closed():
		h.at = castGather
	case s.whole.is != open && !(g.w.SpreadFirst && h.verdict == 0):
		h.at = castClaim
	case s.whole.is == open && g.w.OpenIsDone:
		h.at = castAck
	}
	g.emit(&s, false, "%s looks at the broadcast: %s", castWho(k), castState(s.whole.is))
}

// claimWhole makes steps B1 and B2: allocated IDs that are not stored are forgotten.
func (g *casting) claimWhole(s cast, k int) {
	g.write(s, castWho(k)+" draws shards, and claims the broadcast", func(t *cast) bool {
		if t.whole.is != absent && t.whole.is != planned {
			return false
		}
		t.whole.is = open
		return true
	}, func(t *cast, a answer) {
		h := &t.hands[k]
		switch h.at = castLook; {
		case a == ok:
			h.at = castSpread
		case a == refusedAnswer && g.w.SpreadOwn:
			h.at, h.verdict = castSpread, 1
		case a == throttled:
			t.leave(k)
		}
	}, nil)
}

// spread is B3.
func (g *casting) spread(s cast, k int) {
	g.write(s, castWho(k)+" puts the shards on the ring", func(t *cast) bool {
		if g.w.SpreadOwn && t.hands[k].verdict == 1 {
			g.breaks("10: shards of a draw that is not stored")
		}
		for i := range t.shards {
			if x := &t.shards[i].tries[0]; x.is != succeeded || x.exec != idle {
				x.put()
			}
		}
		return true
	}, func(t *cast, a answer) {
		h := &t.hands[k]
		switch {
		case a != ok:
			t.leave(k)
		case t.whole.is == absent:
			h.at, h.verdict = castLook, 1
		default:
			h.at = castAck
		}
	}, nil)
}

// readWhole reads the broadcast before the dispatcher evaluates the fire of a shard.
func (g *casting) readWhole(s cast, k int) {
	h := &s.hands[k]
	sh := &s.shards[h.shard]
	if s.whole.is == absent || s.whole.is == planned {
		g.breaks("10: a shard of what is no broadcast")
	}
	if s.whole.kill != 0 && !g.w.ShardIgnoresKill {
		h.kill = 1
	}
	switch h.at = castShardClaim; {
	case s.whole.closed() && sh.owes == 1:
		h.at = castCreate
	case s.whole.closed():
		h.at = castGather
	case h.try == 1:
		h.at = castShardLook
	case h.kill == 1:
		h.at = castSkip
	}
	g.emit(&s, false, "%s reads the broadcast: %s, kill %d", castWho(k), castState(s.whole.is), s.whole.kill)
}

func (g *casting) lookAtShard(s cast, k int) {
	h := &s.hands[k]
	i, j := int(h.shard), int(h.try)
	x := &s.shards[i].tries[j]
	words := castState(x.is)
	switch {
	case x.is == absent && j == 1:
		g.breaks("5: the message of a retry that is not there")
		h.at = castAck
	case x.is == absent, x.is == planned:
		if h.at = castShardClaim; h.kill == 1 {
			h.at = castSkip
		}
	case x.is != open:
		if g.afterShard(&s, k); g.w.ClosedShardIsDone && h.at == castGather {
			h.at = castAck
		}
	case x.owner == uint8(k+1):
		h.at = castSend
	case x.owner != dead:
		words += ", another's"
		s.leave(k)
	case x.known == 1:
		h.at = castAck
	case h.kill == 1:
		h.at = castLeft
	default:
		h.at = castShardClaim
	}
	g.emit(&s, false, "%s looks at %s: %s", castWho(k), shardName(i, j), words)
}

// claimShard is the first write of a shard, or a takeover.
func (g *casting) claimShard(s cast, k int) {
	i, j := int(s.hands[k].shard), int(s.hands[k].try)
	g.write(s, castWho(k)+" claims "+shardName(i, j), func(t *cast) bool {
		x := &t.shards[i].tries[j]
		switch {
		case x.is == planned, x.is == absent && j == 0:
			if t.whole.kill == 2 {
				g.breaks("10: a shard is claimed though its broadcast was killed")
			}
		case x.is == open && x.owner == dead && x.known == 0:
			x.maybeSent = 1
		default:
			return false
		}
		if t.whole.closed() {
			g.breaks("10: a shard is claimed though its broadcast has ended")
		}
		x.is, x.owner = open, uint8(k+1)
		return true
	}, func(t *cast, a answer) {
		if t.hands[k].at = castShardLook; a == ok {
			t.hands[k].at = castSend
		} else if a == throttled {
			t.leave(k)
		}
	}, nil)
}

// skipShard records a shard that nothing has claimed as skipped.
func (g *casting) skipShard(s cast, k, i, j int, then func(*cast, answer)) {
	g.write(s, castWho(k)+" records "+shardName(i, j)+" as skipped", func(t *cast) bool {
		x := &t.shards[i].tries[j]
		switch {
		case x.is == planned, x.is == absent && j == 0:
		case g.w.CancelIgnoresClaim:
			if x.is == open {
				g.breaks("10: a shard that is claimed is recorded as skipped")
			}
		default:
			return false
		}
		x.is = skipped
		return true
	}, then, nil)
}

// sendShard emits all outcomes of a send; a rejected send fails the attempt.
func (g *casting) sendShard(s cast, k int) {
	h := s.hands[k]
	i, j := int(h.shard), int(h.try)
	t := s
	x := &t.shards[i].tries[j]
	if x.exec == idle {
		x.exec = running
	}
	if j == 1 && t.shards[i].tries[0].exec == running {
		g.breaks("10: a shard runs twice at once")
	}
	t.hands[k].at = castJournal
	g.emit(&t, false, "%s sends %s: accepted", castWho(k), shardName(i, j))
	if s.fails == 0 {
		return
	}
	s.fails--
	if t = s; !g.w.NoWalk {
		t.hands[k].at = castJournal
		g.emit(&t, true, "%s sends %s: it does not arrive, no answer", castWho(k), shardName(i, j))
	}
	if s.shards[i].tries[j].maybeSent == 0 {
		s.hands[k].at, s.hands[k].fails, s.hands[k].verdict = castEnd, failed, g.readFirst(&s, i)
		g.emit(&s, true, "%s sends %s: refused with proof", castWho(k), shardName(i, j))
	}
}

func (g *casting) ack(s cast, k int) {
	t := s
	m := &s.message
	if h := s.hands[k]; h.holds == holdsShard {
		m = &s.shards[h.shard].tries[h.try].message
	}
	*m = max(*m, 1) - 1
	s.leave(k)
	g.emit(&s, false, "%s acks its message", castWho(k))
	if t.left.write > 0 {
		t.left.spend(&t.left.write)
		t.leave(k)
		g.emit(&t, true, "%s acks its message, without effect", castWho(k))
	}
}

// endShard is F1.
func (g *casting) endShard(s cast, k int) {
	h := s.hands[k]
	i, j := int(h.shard), int(h.try)
	is := h.fails
	if is == 0 {
		is = succeeded
	}
	g.write(s, castWho(k)+" closes "+shardName(i, j)+" as "+castState(is), func(t *cast) bool {
		x := &t.shards[i].tries[j]
		if x.is != open || k < handCallback && x.owner != uint8(k+1) {
			return false
		}
		x.is = is
		if x.goesOn(j) {
			t.shards[i].owes = 1
		}
		return true
	}, func(t *cast, a answer) {
		switch {
		case a == ok && t.shards[i].owes == 1:
			t.hands[k].at = castCreate
		case a == ok && g.w.ReadFirst && h.verdict == 0:
			t.done(k)
		case a == ok:
			t.hands[k].at = castGather
		case a == throttled && k == handCallback: // it comes again, from a queue
		case a == throttled:
			t.leave(k)
		case k < handCallback:
			t.hands[k].at = castShardLook
		default:
			t.hands[k].at = castRead
		}
	}, nil)
}

// readShard is the read of F1 after a rejection or a lost answer.
func (g *casting) readShard(s cast, k int) {
	h := &s.hands[k]
	i, j := int(h.shard), int(h.try)
	x := s.shards[i].tries[j]
	if h.at = castEnd; x.is != open {
		g.afterShard(&s, k)
	}
	g.emit(&s, false, "%s reads %s: %s", castWho(k), shardName(i, j), castState(x.is))
}

// afterShard selects the next step for a shard that is found closed.
func (g *casting) afterShard(s *cast, k int) {
	h := &s.hands[k]
	switch sh := &s.shards[h.shard]; {
	case h.try == 0 && sh.owes == 1:
		h.at = castCreate
	case sh.tries[h.try].goesOn(int(h.try)):
		s.done(k)
	default:
		h.at = castGather
	}
}

// retry is F2 to F4.
func (g *casting) retry(s cast, k int) {
	at, i := s.hands[k].at, int(s.hands[k].shard)
	g.write(s, castWho(k)+" "+owedName(at-castCreate)+" the retry of "+shardName(i, 0), func(t *cast) bool {
		sh := &t.shards[i]
		switch x := &sh.tries[1]; {
		case at == castCreate && x.is == absent:
			x.is = planned
		case at == castSendRetry:
			x.put()
		case at == castNote:
			if x.is == absent {
				g.breaks("5: nothing is owed any more, and the retry is not on its way")
			}
			sh.owes = 0
		}
		return true
	}, func(t *cast, a answer) { t.next(k, a, at == castNote) }, nil)
}

// gather is G1.
func (g *casting) gather(s cast, k int) {
	h := &s.hands[k]
	words := "one is open"
	switch {
	case s.whole.closed() && s.whole.owes == 1 && !g.w.ClosedBroadcastIsDone:
		h.at, words = castChild, "the broadcast is closed, and owes"
	case s.whole.closed():
		s.done(k)
		words = "the broadcast is closed"
	case g.w.ReadFirst && h.verdict == 1, g.over(&s, -1):
		h.at, h.kill, h.verdict, words = castClose, s.whole.kill, s.verdict(), "all have ended"
	default:
		s.done(k)
	}
	g.emit(&s, false, "%s reads the broadcast and its shards: %s", castWho(k), words)
}

// over reports whether all shards but one have ended, as a reader sees them.
func (g *casting) over(s *cast, but int) bool {
	for i := range s.shards {
		if i == but || s.shards[i].ended() || g.w.FirstsCount && closed(s.shards[i].tries[0].is) {
			continue
		}
		return false
	}
	return true
}

// closeWhole is G2.
func (g *casting) closeWhole(s cast, k int) {
	h := s.hands[k]
	is := h.verdict
	if h.kill != 0 && is != succeeded {
		is = killed
	}
	g.write(s, castWho(k)+" closes the broadcast as "+castState(is), func(t *cast) bool {
		if t.whole.is != open && !g.w.ClosedBlindly || min(t.whole.kill, 1) != min(h.kill, 1) && !g.w.EndIgnoresKill {
			return false
		}
		g.closes(t, is)
		return true
	}, func(t *cast, a answer) {
		switch {
		case a == throttled:
			t.stop(k)
		case a != ok:
			t.hands[k].at = castGather
		case t.whole.owes == 1:
			t.hands[k].at = castChild
		default:
			t.done(k)
		}
	}, nil)
}

// closes asserts the rules for the end of a broadcast.
func (g *casting) closes(s *cast, is uint8) {
	for i := range s.shards {
		if !s.shards[i].ended() {
			g.breaks("10: a broadcast ends before its shards")
		}
	}
	if want := s.verdict(); is != want && !(is == killed && s.whole.kill != 0 && want != succeeded) {
		g.breaks("10: a broadcast ends otherwise than its shards")
	}
	if s.whole.kill != 0 && is != killed && is != succeeded {
		g.breaks("10: a broadcast that a person killed ends otherwise")
	}
	if s.whole.closed() {
		g.breaks("5: a broadcast ends twice")
	}
	s.whole.is, s.whole.owes = is, 1
	if is == skipped {
		s.whole.owes = 0
	}
}

// child makes steps F2 to F4 for the child that the broadcast owes.
func (g *casting) child(s cast, k int) {
	at := s.hands[k].at
	g.write(s, castWho(k)+[...]string{" makes", " notes"}[at-castChild]+" the child of the broadcast", func(t *cast) bool {
		if at == castChild {
			t.whole.made = 1
		} else {
			t.whole.owes = 0
		}
		return true
	}, func(t *cast, a answer) { t.next(k, a, at == castNoted) }, nil)
}

// cancel cancels the run that was read while it waited; a broadcast has no owner either.
func (g *casting) cancel(s cast, k int) {
	g.write(s, castWho(k)+" cancels the run", func(t *cast) bool {
		switch {
		case t.whole.is == open && g.w.CancelIgnoresState:
			g.closes(t, skipped)
		case t.whole.is != planned:
			return false
		}
		t.whole.is = skipped
		return true
	}, func(t *cast, _ answer) { t.leave(k) }, nil)
}

// killWhole records the kill, and then cancels the shards without an owner; running shards are killed like any run.
func (g *casting) killWhole(s cast, k int) {
	if s.hands[k].at == castMark {
		g.write(s, castWho(k)+" records that the broadcast is killed", func(t *cast) bool {
			if t.whole.is != open {
				return false
			}
			t.whole.kill = 1
			return true
		}, func(t *cast, a answer) {
			if t.leave(k); a == ok {
				t.hands[k].at = castReadShards
			}
		}, nil)
		return
	}
	h := &s.hands[k]
	if h.at == castReadShards {
		for i := range s.shards {
			for j, x := range s.shards[i].tries {
				if x.is == planned || x.is == absent && j == 0 && !g.w.CancelSparesUnclaimed {
					h.verdict |= 1 << (2*i + j)
				}
			}
		}
		h.at = castCancelShards
		g.emit(&s, false, "%s reads the shards", castWho(k))
		return
	}
	if h.verdict == 0 {
		s.whole.kill, h.at = 2, castGather
		g.emit(&s, false, "%s has cancelled what nobody had", castWho(k))
		return
	}
	for i := range s.shards {
		for j := range s.shards[i].tries {
			if bit := uint8(1) << (2*i + j); h.verdict&bit != 0 {
				g.skipShard(s, k, i, j, func(t *cast, a answer) {
					if a == ok || a == refusedAnswer {
						t.hands[k].verdict &^= bit
					}
				})
			}
		}
	}
}

// leave ends the work of a hand: its claims get a dead owner.
func (s *cast) leave(k int) {
	for i := range s.shards {
		for j := range s.shards[i].tries {
			if x := &s.shards[i].tries[j]; x.owner == uint8(k+1) {
				x.owner = dead
			}
		}
	}
	s.hands[k] = hand{}
}

// done is after the last write that follows of something.
func (s *cast) done(k int) {
	if k < handCallback {
		s.hands[k].at = castAck
		return
	}
	s.leave(k)
}

// stop leaves pending follow-ups to other actors.
func (s *cast) stop(k int) {
	switch {
	case k >= handCallback || s.hands[k].holds == holdsWhole:
		s.leave(k)
	default:
		s.hands[k].at = castLeft
	}
}

// next is after a write that is made again if there is no answer.
func (s *cast) next(k int, a answer, last bool) {
	switch {
	case a == throttled:
		s.stop(k)
	case a == unknown:
	case last:
		s.done(k)
	default:
		s.hands[k].at++
	}
}

func closed(is uint8) bool { return is != absent && is != open && is != planned }

func (w *whole) closed() bool { return closed(w.is) }

// goesOn reports whether attempt j has a retry.
func (x *try) goesOn(j int) bool { return j == 0 && (x.is == failed || x.is == lost) }

// put puts its message on the ring; more than two are as two.
func (x *try) put() { x.message = min(x.message+1, 2) }

// last is the last attempt that there is.
func (s *shard) last() try {
	if s.tries[0].goesOn(0) {
		return s.tries[1]
	}
	return s.tries[0]
}

func (s *shard) ended() bool { return closed(s.last().is) }

// verdict is how a broadcast ends by its shards.
func (s *cast) verdict() uint8 {
	var n [succeeded + 1]int
	for i := range s.shards {
		n[s.shards[i].last().is]++
	}
	switch shardsOf {
	case n[succeeded]:
		return succeeded
	case n[skipped]:
		return skipped
	}
	return failed
}

// rest reports how far the state is from its end: all shards are final, and the child exists unless the broadcast was skipped.
func (w *Broadcast) rest(s *cast) (far int, why string) {
	messages := s.message
	for i := range s.shards {
		messages += s.shards[i].tries[0].message + s.shards[i].tries[1].message
	}
	if messages > 0 || s.hands != [5]hand{} {
		return 0, "a message is on the ring, or somebody is at work"
	}
	for i := range s.shards {
		if s.whole.is == skipped && s.shards[i].tries[0].is == absent { // cancelled before it was a broadcast
			continue
		}
		if !s.shards[i].ended() || s.shards[i].owes == 1 {
			return 1, shardName(i, 0) + " has not ended, or owes its retry"
		}
	}
	switch {
	case s.whole.is == skipped:
	case !s.whole.closed():
		return 2, "the broadcast is open, and its shards have ended"
	case s.whole.owes == 1 || s.whole.made == 0:
		return 3, "the broadcast owes its child"
	}
	return 4, ""
}

// tidy makes states equal that differ only in the order of shards or dispatchers, or in fields
// that no step reads.
func (w *Broadcast) tidy(s *cast) (swapped swaps, _ string) {
	for i := range s.shards {
		for j := range s.shards[i].tries {
			if x := &s.shards[i].tries[j]; closed(x.is) {
				x.owner, x.maybeSent = 0, 0
			}
		}
	}
	if l := &s.left; l.all == 0 {
		l.crash, l.write, l.second = 0, 0, 0
	}
	for range shardsOf - 1 {
		for i := range shardsOf - 1 {
			a, b := s.shardKey(i), s.shardKey(i+1)
			if slices.Compare(a[:], b[:]) > 0 {
				s.swapShards(i, i+1)
			}
		}
	}
	if s.hands[0].key() < s.hands[1].key() {
		swapped.disp = true
		s.hands[0], s.hands[1] = s.hands[1], s.hands[0]
		for i := range s.shards {
			for j := range s.shards[i].tries {
				if x := &s.shards[i].tries[j]; x.owner == 1 || x.owner == 2 {
					x.owner = 3 - x.owner
				}
			}
		}
	}
	return swapped, ""
}

// at reports whether a hand works on a shard.
func (s *cast) at(k, i int) bool {
	h := s.hands[k]
	return h.at != castIdle && k != handPerson && h.holds != holdsWhole && int(h.shard) == i
}

// shardKey orders shards.
func (s *cast) shardKey(i int) (key [2]uint64) {
	by := uint8(0)
	for k := range handPerson {
		if s.at(k, i) {
			by |= 1 << k
		}
	}
	if p := &s.hands[handPerson]; p.at == castCancelShards {
		by |= p.verdict >> (2 * i) & 3 << handPerson
	}
	a, b := s.shards[i].tries[0], s.shards[i].tries[1]
	return [2]uint64{pack(a.is, a.owner, a.maybeSent, a.exec, a.known, a.message, s.shards[i].owes, by),
		pack(b.is, b.owner, b.maybeSent, b.exec, b.known, b.message)}
}

func (s *cast) swapShards(i, o int) {
	for k := range s.hands {
		switch {
		case s.at(k, i):
			s.hands[k].shard = uint8(o)
		case s.at(k, o):
			s.hands[k].shard = uint8(i)
		}
	}
	if p := &s.hands[handPerson]; p.at == castCancelShards {
		a, b := p.verdict>>(2*i)&3, p.verdict>>(2*o)&3
		p.verdict = p.verdict&^(3<<(2*i)|3<<(2*o)) | b<<(2*i) | a<<(2*o)
	}
	s.shards[i], s.shards[o] = s.shards[o], s.shards[i]
}

func (h hand) key() uint64 { return pack(h.at, h.holds, h.shard, h.try, h.fails, h.verdict, h.kill) }

func castWho(k int) string { return [...]string{"D1", "D2", "the callback", "the watchdog", "P"}[k] }

func shardName(i, j int) string {
	return [...]string{"shard 1", "shard 2", "shard 3"}[i] + [...]string{"", ", attempt 2"}[j]
}

func castState(is uint8) string {
	return [...]string{"absent", "open", "failed", "skipped", "lost", "killed", "planned", "succeeded"}[is]
}
