package model

// Kind is the kind of the scheduled or triggered runs in a World.
type Kind int

const (
	// Scheduled runs are planned together in one window and share a message.
	Scheduled Kind = iota
	// Trigger is a single run that a user triggers. The run has its own record and its own due entry.
	Trigger
	// FixedDelay is a chain of runs: the end of each run creates the next run.
	FixedDelay
)

// World describes the objects, the possible events, and the number of faults of a search. In the comments, a fire is a scheduled
// or triggered run, `until` is the expiry time of a claim, and the tail is the last run of a fixed-delay chain.
type World struct {
	Kind    Kind
	Fires   int // number of fires, at most 2
	Tickers int // number of tickers, 1 or 2
	People  int // number of users who act at the same time; 0: one

	Changes int   // total number of changes by users
	Allowed uint8 // kinds of changes that users make, as bits
	Due     int   // number of fires that were due before each change; -1: any number
	EndsBy  bool  // whether a pause has an end, which a tick stores

	CoverEarly bool // whether a second copy of a run at the executor ends the first copy, which reports "killed"
	Kills      int  // maximum number of kills by users
	Timeouts   bool // whether a running attempt may exceed its timeout at any time
	AppPauses  bool // whether the app of the trigger is paused
	Waits      bool // whether runs wait for an executor: none is available at first, and executors later come and go
	Strangers  bool // whether executors report the end of runs that have no owner
	Children   int  // number of child runs of a run, at most 2; there are no retries
	Words      bool // whether a handler may request a retry after a time, or no retry
	Spent      bool // whether a run has used all its retries

	// Each field is the maximum number of faults of one kind. All is the maximum of all faults together. Busy counts temporary
	// rejections. Seconds counts repeated reports, and receipts of a message that another dispatcher has.
	Crashes, Writes, Busy, Seconds, Slow, All int
	Late                                      bool // whether one write may take effect at any later time
	Checks                                    bool // whether the store may reject a journal permanently
	// BetweenCheckAndSend reports whether a slow owner may also be stopped between its check of `until` and its send.
	BetweenCheckAndSend bool
	// Few reduces the number of states: a send is accepted or unanswered, and a journal is stored only at the end.
	Few bool

	Rules
}

// Rules lists faults in the rules of the protocol. A field that is true breaks one rule, and its comment describes the
// faulty behavior. The zero value follows the protocol.
type Rules struct {
	NoRangeAtChange bool // V1: a change of the job does not first record due fires as skipped
	GiveBackForgets bool // V2: a released claim loses the record that an earlier owner may have sent the run
	// V3: a dispatcher treats a fire that it cannot judge as done, instead of leaving its message
	SilentFallIsDone      bool
	FallTakesOver         bool // V6: a dispatcher also takes over a claimed fire that must not be sent
	ClosedIsDone          bool // V7: a dispatcher treats a closed run as done, although its follow-ups are pending
	UnconfirmedIsNotDone  bool // V8: a dispatcher does not treat a run with the journal entry unconfirmed as done
	JournalBeforeUntil    bool // V9: a dispatcher reads the journal before it checks the claim's `until`
	JournalWithoutVersion bool // V10: a journal is stored without a check of the stored version
	BegunIsJudged         bool // V11: the watchdog judges runs for which the journal has only a begun entry
	GiveBackDeletes       bool // V12: the release of a claim deletes the run
	CheckOnlyNames        bool // V13: a check message names the runs, and does not have their journal entries

	GiveBackEmptiesUntil bool // the release of a claim clears `until` (the rule before decision 016)
	ChangeKeepsUntil     bool // the change of a trigger keeps `until` (see decision 010)
	UntilComesTwice      bool // a takeover may write a value of `until` that another actor has already read
	TakeIgnoresAddress   bool
	SkipIgnoresUntil     bool
	RecordBeforeWrite    bool // the audit record of a change is stored before the change
	ResumePlansAll       bool // a resume also plans fires that were due during the pause
	AdvanceIgnoresRev    bool
	EntryRemovedFirst    bool // a due entry is removed before the message is sent
	EntryRemovedBlindly  bool // a due entry is removed without a check of its time
	ChainIgnoresTail     bool // the end of a run that is not the tail also advances the job
	NoLookAtTail         bool // the tick does not check whether the tail was sent
	ClaimedTailIsOut     bool // the tick never resends a claimed tail
	WaitIsDone           bool // a fire that waits for an executor is not put into the delay queue
	KilledCloses         bool // a reported kill closes a run that may have been sent twice
	ReportEndsUnsent     bool // a report ends a run without an owner, although the run was certainly not sent
	TimeoutIsAKill       bool // a run that exceeded its timeout ends as killed
	KillIsNotSeen        bool // a close ignores a kill that was stored after the run was read
	OwnIDs               bool // a close without an answer continues with the IDs that it allocated
	OwesNotedFirst       bool // a pending follow-up is cleared before the following run is sent
	NotedUnsent          bool // the position after a child is stored before the child is sent
	DrawIgnoresPlace     bool // allocated child IDs are stored without a check of the stored position
	NoteIgnoresPlace     bool // the next position is stored without a check of the stored position
	WordBeatsKill        bool // a run that was killed or exceeded its timeout ends with the result of the handler
	WordMakesAttempt     bool // a late report creates a further attempt of a run that was already closed
	WordNeedsRetries     bool // a handler can snooze only if the run has a retry left
	CancelIsAFailure     bool // a cancelled run counts as failed and is retried
}

// gen makes the steps from a state.
type gen struct {
	pen[state]
	w *World
}

func (w *World) gen(say bool) *gen {
	return &gen{w: w, pen: pen[state]{say: say, left: func(s *state) *budget { return &s.left }, tidy: w.tidy}}
}

func (w *World) moves(say bool) func(*state) []move[state] { return w.gen(say).from }

// tidy makes a step's state canonical, and returns the rule that the state breaks.
func (w *World) tidy(s *state) (swapped swaps, broken string) {
	swapped = w.canonical(s)
	if f, ok := w.unnamed(s); ok {
		broken = "1: an open run that nothing names: " + fireName(f)
	}
	return swapped, broken
}

// The windows of section 8, in its order; the second and the third are one here.
const (
	windowStopped  = "an owner that was stopped between check and send"
	windowStored   = "an answer that was stored late, or is in a check"
	windowCallback = "a callback between take-over and re-send"
	windowChain    = "a fixed delay that was changed between its fire and the advance"
)

// write is pen's; on is how it is if it arrives late.
func (g *gen) write(s state, what string, do func(*state) bool, then func(*state, answer), on late) {
	if !g.w.Late || on.what == lateNone || s.late.what != lateNone {
		g.pen.write(s, what, do, then, nil)
		return
	}
	g.pen.write(s, what, do, then, func(t *state) { t.late = on })
}

// from makes all steps from s.
func (g *gen) from(s *state) []move[state] {
	g.out = g.out[:0]
	for k := range g.w.Tickers {
		g.tick(s, k)
	}
	for k := range s.disp {
		g.dispatch(s, k)
	}
	g.callbacks(s)
	g.watch(s)
	for k := range max(g.w.People, 1) {
		g.people(s, k)
	}
	g.untils(s)
	g.executors(s)
	if s.check.nonce != 0 {
		g.consumeCheck(*s)
	}
	if s.late.what != lateNone {
		g.arriveLate(*s)
	}
	return g.out
}

// untils lets the untils of owners pass: of dead ones, and of slow ones within their bound.
func (g *gen) untils(s *state) {
	for f := range g.w.Fires {
		r := &s.runs[f]
		owner := r.owner
		if r.is != open || owner == 0 || r.past != 0 {
			continue
		}
		t := *s
		for o := range g.w.Fires { // all claims of an invocation share it
			if t.runs[o].owner == owner {
				t.runs[o].past = 1
			}
		}
		k, alive := s.alive(owner)
		switch {
		case !alive:
			g.emit(&t, false, "until of the dead owner of %s passes", fireName(f))
		case s.left.slow > 0 && (g.w.BetweenCheckAndSend || !s.disp[k].aboutToSend()):
			t.left.spend(&t.left.slow)
			t.disp[k].past = 1
			g.emit(&t, true, "until of %s passes while its owner D%d is slow", fireName(f), k+1)
		}
	}
}

// executors lets them come and go, and the wait for one be over.
func (g *gen) executors(s *state) {
	if !g.w.Waits {
		return
	}
	t := *s
	t.away ^= nobody
	g.emit(&t, false, "an executor comes, or the last one goes")
	if s.away&over == 0 {
		t = *s
		t.away |= over
		g.emit(&t, false, "the wait for an executor is over")
	}
}

// waits reports whether the invocation found no executor, and the wait is not over.
func (d *invocation) waits() bool { return d.away == nobody }

// spend uses up a fault of one kind.
func (b *budget) spend(kind *uint8) {
	*kind--
	b.all--
}

func (d *invocation) aboutToSend() bool {
	for f := range d.of {
		if d.of[f].is == checked {
			return true
		}
	}
	return false
}

// alive finds the invocation with a nonce.
func (s *state) alive(nonce uint8) (k int, is bool) {
	for k := range s.disp {
		if s.disp[k].at != unborn && s.disp[k].nonce == nonce {
			return k, true
		}
	}
	return 0, false
}

// arriveLate lets a write arrive that was under way.
func (g *gen) arriveLate(s state) {
	l := s.late
	s.late = late{}
	f := int(l.fire)
	var what string
	switch l.what {
	case lateClaim:
		what = "claim"
		g.putClaim(f, l.nonce, l.address, l.rev)(&s)
	case lateGiveBack:
		what = "give-back"
		g.putGiveBack(f, l.nonce)(&s)
	case lateMove:
		what = "failover"
		g.putMove(f, l.nonce, l.address)(&s)
	case lateTake:
		what = "take-over"
		g.putTake(f, l.owner, l.until, l.seen, l.nonce, l.address)(&s)
	case lateJournal:
		what = "journal"
		g.putJournal(l.nonce, l.says)(&s)
	}
	g.emit(&s, false, "the %s that was on its way arrives", what)
}

func (w *World) start() state {
	s := state{job: job{rev: 1}}
	s.left = budget{crash: uint8(w.Crashes), write: uint8(w.Writes), busy: uint8(w.Busy), second: uint8(w.Seconds), slow: uint8(w.Slow),
		all: uint8(w.All), changes: uint8(w.Changes), kills: uint8(w.Kills)}
	if w.Waits {
		s.away = nobody
	}
	if w.Kind == Trigger {
		// Its record and its entry are one write; the same user sends it next.
		s.runs[0].is, s.entry = open, 1
		s.people[0] = person{at: toSendTrigger}
	}
	w.canonical(&s)
	return s
}

// paused reports whether the job's present revision demands nothing.
func (s *state) paused() bool { return s.job.rev > 1 && s.changes[s.job.rev-2].kind == pause }

// due is how many fires were due by the present revision's revAt.
func (s *state) due() uint8 {
	if s.job.rev == 1 {
		return 0
	}
	return s.changes[s.job.rev-2].due
}

func (w *World) all() uint8 { return 1<<w.Fires - 1 }

// freeMessage finds a place for a message.
func (s *state) freeMessage() (i int, found bool) {
	// One place stays free for a message that is acked while another invocation holds it.
	n := 0
	for j := range s.ring {
		if s.ring[j].at == nowhere {
			i, found = j, true
		}
		if s.ring[j].at == onRing {
			n++
		}
	}
	return i, found && n < maxMessages-1
}

// putMessage puts a message in a free place.
func putMessage(m message) func(*state) bool {
	return func(s *state) bool {
		i, _ := s.freeMessage()
		s.ring[i] = m
		return true
	}
}

func fireName(f int) string      { return [...]string{"f1", "f2"}[f] }
func addressName(a uint8) string { return [...]string{"none", "A", "B"}[a] }
func firesName(m uint8) string {
	return [...]string{"nothing", "f1", "f2", "f1 and f2"}[m]
}
