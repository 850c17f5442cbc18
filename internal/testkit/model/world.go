package model

// Kind is the kind of fire that a world has.
type Kind int

const (
	// Scheduled fires are planned in one window and share a message.
	Scheduled Kind = iota
	// Trigger is one run by hand, with a record and an entry of its own.
	Trigger
	// FixedDelay is a chain: each fire is made by the end of the one before.
	FixedDelay
)

// World describes the objects, the possible events, and the number of faults.
type World struct {
	Kind    Kind
	Fires   int // at most 2
	Tickers int // 1 or 2
	People  int // users at the same time; 0: one

	Changes int   // changes by users, in all
	Allowed uint8 // bits of the allowed kinds of changes
	Due     int   // number of Fires that were due before each change; -1: any number
	EndsBy  bool  // a pause has an end, which a tick stores

	CoverEarly bool // a second arrival ends the first copy, which reports "killed"
	Kills      int  // kills by users
	Timeouts   bool // a running attempt may pass its timeout at any moment
	AppPauses  bool // the trigger's app is paused
	Waits      bool // runs wait for an executor: none is available at first, and executors come and go
	Strangers  bool // executors report runs without an owner
	Limit      bool // one of the fires runs at a time; there are no retries
	Children   int  // children of a run, at most 2; there are no retries
	Words      bool // a report may ask for a retry after a time, or for none
	Spent      bool // no retries are left

	// All is the maximum of all faults together; each kind has its own too. Busy are temporary
	// rejections, Seconds are receipts of a message that another holds, and repeated reports.
	Crashes, Writes, Busy, Seconds, Slow, All int
	Late                                      bool // one write may arrive at any later moment
	Checks                                    bool // a journal may be impossible to store
	BetweenCheckAndSend                       bool // slow owners may be stopped there too
	Few                                       bool // a send is accepted or without answer, a journal is stored at the end only

	Rules
}

// Rules are the rules of the protocol that can be broken, each by its name. The
// zero value is the protocol as it is written.
type Rules struct {
	NoRangeAtChange       bool // V1
	GiveBackForgets       bool // V2: a release forgets that an earlier owner may have sent the run
	SilentFallIsDone      bool // V3: a fire that is not judged is done, not left
	FallTakesOver         bool // V6
	ClosedIsDone          bool // V7: a closed run is done, even with pending follow-ups
	UnconfirmedIsNotDone  bool // V8
	JournalBeforeUntil    bool // V9
	JournalWithoutVersion bool // V10
	BegunIsJudged         bool // V11: the watchdog judges runs that only begun entries name
	GiveBackDeletes       bool // V12
	CheckOnlyNames        bool // V13: a check carries no entries

	GiveBackEmptiesUntil bool // a release clears until: before decision 016
	ChangeKeepsUntil     bool // the change of a trigger keeps until: decision 010
	UntilComesTwice      bool // a takeover may write an until that another actor has read
	TakeIgnoresAddress   bool
	SkipIgnoresUntil     bool
	RecordBeforeWrite    bool // the record of a change is stored before the change
	ResumePlansAll       bool // a resume also plans fires in the pause
	AdvanceIgnoresRev    bool
	EntryRemovedFirst    bool // an entry is removed before the message is sent
	EntryRemovedBlindly  bool // an entry is removed whatever time it has
	ChainIgnoresTail     bool // a run that is not the tail advances the job
	NoLookAtTail         bool // the tick does not check the tail
	ClaimedTailIsOut     bool // the tick never sends a claimed tail again
	WaitIsDone           bool // a fire that waits for an executor is not put on the ring again
	KilledCloses         bool // a reported kill closes a run that may have been sent twice
	ReportEndsUnsent     bool // a report ends a run without an owner that was certainly not sent
	TimeoutIsAKill       bool // a run past its timeout ends as killed
	KillIsNotSeen        bool // a close that read the run before the kill ignores the kill
	OwnIDs               bool // a close without an answer goes on with its own IDs
	OwesNotedFirst       bool // a follow-up is cleared before the owed run is sent
	NotedUnsent          bool // a place is recorded before its child is sent
	DrawIgnoresPlace     bool // allocated IDs are stored whatever the place
	NoteIgnoresPlace     bool // the next place is stored whatever the place
	TimeFreesPermit      bool // time frees the permit of a stored run
	ResendAsksNot        bool // a run that is sent again does not ask for its permit
	OverIsNotSeen        bool // a run that wants a permit ignores a holder that is over
	ReleasedFirst        bool // a permit is released before the close
	WordBeatsKill        bool // a run that is killed or past its timeout ends with the handler's result
	WordMakesAttempt     bool // a late report creates an attempt of a run that was closed otherwise
	WordNeedsRetries     bool // a snooze needs a retry that is left
	CancelIsAFailure     bool // a cancel is a failure that is retried
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

// untils lets the untils of owners pass: of dead ones, and of slow ones within
// their bound.
func (g *gen) untils(s *state) {
	for f := range g.w.Fires {
		r := &s.runs[f]
		owner := r.owner
		switch p := &s.permits; {
		case r.is == open && r.owner != 0 && r.past == 0:
		case r.is == absent && p.holder == uint8(f+1) && p.until != 0 && p.past == 0:
			owner = p.until
		default:
			continue
		}
		t := *s
		for o := range g.w.Fires { // all claims of an invocation share it
			if t.runs[o].owner == owner {
				t.runs[o].past = 1
			}
		}
		if t.permits.until == owner {
			t.permits.past = 1
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
	case latePermit:
		what = "ask"
		if s.permits == l.before {
			s.permits = l.after
		}
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

func fireName(f int) string      { return [...]string{"f1", "f2"}[f] }
func addressName(a uint8) string { return [...]string{"none", "A", "B"}[a] }
func firesName(m uint8) string {
	return [...]string{"nothing", "f1", "f2", "f1 and f2"}[m]
}
