package model

import "slices"

// PauseAfter models the pause of a job after consecutive failures (docs/internals/claim-protocol.md, section 5, "A
// pause after failures"). Up to three runs of a job end. During this time, a scheduled time becomes due, the tick
// plans its run, and a user changes the job. Times are increasing numbers; each write of an end allocates the next
// number. The search of World covers closes and sends.
type PauseAfter struct {
	After   int // number of consecutive failures after which the job is paused
	Runs    int // number of runs, at most 3
	Fails   int // maximum number of runs that fail
	Changes int // maximum number of edits, pauses and resumes by a user, at most 2
	Instant bool

	Crashes, Writes, All int

	PauseRules
}

// PauseRules lists faults in the rules of pauses. A field that is true breaks one rule, and its comment describes the
// faulty behavior. The zero value follows the protocol.
type PauseRules struct {
	OldFailures    bool // runs that ended before the last change of the job also count as failures
	SuccessIgnored bool // failures count although a success is between them
	PausedBlindly  bool // the job is paused without a check of its revision
	RefusedIsDone  bool // the pause is not retried after its write was rejected
	PauseNoted     bool // the follow-up of the run is cleared before the job is paused
	ReadEarly      bool // the results of other runs are read before the run is closed
	CoversNothing  bool // due scheduled times are not stored as skipped when the job is paused
	PausesPaused   bool // a job that a user has paused is paused a second time
}

// halt is a state of PauseAfter.
type halt struct {
	job     halted
	revised [4]revision // that made revisions 2 to 5
	runs    [3]finished
	fire    instant
	hands   [4]halter
	fails   uint8
	changes uint8
	left    budget
}

// halted is the job: next is 1 once the instant lies behind it.
type halted struct{ rev, paused, next uint8 }

// revision records when it was made and whether it pauses the job.
type revision struct{ at, paused uint8 }

// finished is a run. at is when it ended; owes: its close owes a pause; spared: its job was
// paused when that was checked.
type finished struct{ is, at, owes, spared uint8 }

// instant is one that comes due; message is 1 + the revision of the one on the ring.
type instant struct{ at, is, covered, message uint8 }

// halter is an actor with its work: two close runs, the others are a user and the tick. rev, next and since
// come from the job as read, now is the time of the change, row is the early read of the other runs.
type halter struct{ at, run, is, rev, next, since, now, row, paused uint8 }

const (
	haltPerson = 2 + iota
	haltTick
)

// Stations.
const (
	haltIdle = iota
	haltClose
	haltLook
	haltJob
	haltRuns
	haltCover
	haltChange
	haltNote
	haltEnqueue
	haltAdvance
)

// Search visits every state, or approximately most states if they exceed the limit.
func (w *PauseAfter) Search(most int) Report { return look[halt](w, most) }

func (w *PauseAfter) start() halt {
	s := halt{job: halted{rev: 1}, fails: uint8(w.Fails), changes: uint8(w.Changes)}
	for i := range w.Runs {
		s.runs[i].is = open
	}
	s.left = budget{crash: uint8(w.Crashes), write: uint8(w.Writes), all: uint8(w.All)}
	return s
}

// halting makes the steps from a state.
type halting struct {
	pen[halt]
	w *PauseAfter
}

func (w *PauseAfter) moves(say bool) func(*halt) []move[halt] {
	g := &halting{w: w, pen: pen[halt]{say: say, left: func(s *halt) *budget { return &s.left }, tidy: w.tidy}}
	return g.from
}

func (g *halting) from(s *halt) []move[halt] {
	g.out = g.out[:0]
	if g.w.Instant && s.fire.at == 0 {
		t := *s
		t.fire.at = s.clock()
		g.emit(&t, false, "the instant comes due")
	}
	if s.fire.message != 0 {
		g.dispatch(*s)
	}
	for k := range s.hands {
		if s.hands[k].at == haltIdle {
			g.begin(s, k)
			continue
		}
		g.step(*s, k)
		if s.left.crash > 0 {
			t := *s
			t.hands[k] = halter{}
			g.dies(t, haltWho(k))
		}
	}
	return g.out
}

// begin lets an actor find work.
func (g *halting) begin(s *halt, k int) {
	switch k {
	case haltPerson:
		if s.changes > 0 {
			t := *s
			t.changes--
			x := halter{at: haltCover, rev: s.job.rev, next: s.job.next, paused: 1 - s.job.paused}
			t.hands[k] = x
			g.emit(&t, true, "P reads the job to %s it", [...]string{"resume", "pause"}[x.paused])
			if s.job.paused == 0 {
				x.paused = 0
				t.hands[k] = x
				g.emit(&t, true, "P reads the job to edit it")
			}
		}
	case haltTick:
		if s.job.paused == 0 && s.fire.at != 0 && s.job.next == 0 && s.fire.message == 0 {
			t := *s
			t.hands[k] = halter{at: haltEnqueue, rev: s.job.rev, next: s.job.next}
			g.emit(&t, false, "the tick reads the job: revision %d", s.job.rev)
		}
	default:
		for i := range s.runs {
			x := halter{at: haltClose, run: uint8(i), is: succeeded}
			switch {
			case s.runs[i].is == open:
				if g.w.ReadEarly && g.inRow(s, i, s.since()) {
					x.row = 1
				}
				t := *s
				t.hands[k] = x
				g.emit(&t, false, "%s is told the success of r%d", haltWho(k), i+1)
				if s.fails > 0 {
					x.is = failed
					t.hands[k] = x
					g.emit(&t, false, "%s is told the failure of r%d", haltWho(k), i+1)
				}
			case s.runs[i].owes == 1:
				t := *s
				t.hands[k] = halter{at: haltJob, run: uint8(i)}
				g.emit(&t, false, "%s finds that r%d owes a pause", haltWho(k), i+1)
			}
		}
	}
}

// dispatch has the fire sent, recorded or left, by the revision of its message.
func (g *halting) dispatch(s halt) {
	f := &s.fire
	words := "left"
	switch {
	case f.message == s.job.rev+1:
		f.is, words = open, "sent"
	case f.at < s.since() && f.is == absent:
		f.is, words = skipped, "recorded as skipped"
	}
	f.message = 0
	g.emit(&s, false, "a dispatcher reads the job: the instant is %s", words)
}

// since is when the job's revision was made.
func (s *halt) since() uint8 {
	if s.job.rev == 1 {
		return 0
	}
	return s.revised[s.job.rev-2].at
}

func (g *halting) step(s halt, k int) {
	h, who := s.hands[k], haltWho(k)
	i := int(h.run)
	switch h.at {
	case haltClose: // F1
		g.write(s, who+" closes r"+number(i + 1)[1:]+" as "+castState(h.is), func(t *halt) bool {
			r := &t.runs[i]
			if r.is != open || h.is == failed && t.fails == 0 {
				return false
			}
			*r = finished{is: h.is, at: t.clock()}
			if h.is == failed {
				t.fails--
				r.owes = 1
			}
			return true
		}, func(t *halt, a answer) {
			switch x := &t.hands[k]; {
			case a == throttled: // the report comes again
			case a == ok && h.is == failed:
				x.at = haltJob
				if g.w.PauseNoted {
					t.runs[i].owes = 0
				}
			case a == ok:
				*x = halter{}
			default:
				x.at = haltLook
			}
		}, nil)
	case haltLook:
		switch x := &s.hands[k]; {
		case s.runs[i].is == open && (h.is != failed || s.fails > 0):
			x.at = haltClose
		case s.runs[i].owes == 1:
			x.at = haltJob
		default:
			*x = halter{}
		}
		g.emit(&s, false, "%s reads r%d: %s", who, i+1, castState(s.runs[i].is))
	case haltJob: // 1
		x := &s.hands[k]
		if x.at, x.rev, x.next, x.since = haltRuns, s.job.rev, s.job.next, s.since(); s.job.paused == 1 && !g.w.PausesPaused {
			x.at, s.runs[i].spared = haltNote, 1
		}
		g.emit(&s, false, "%s reads the job: revision %d, paused %d", who, s.job.rev, s.job.paused)
	case haltRuns:
		x := &s.hands[k]
		if x.at = haltNote; g.inRow(&s, -1, h.since) && !(g.w.ReadEarly && h.row == 0) {
			x.at = haltCover
		}
		x.paused = 1
		g.emit(&s, false, "%s reads how its chains fared", who)
	case haltCover: // 2
		g.cover(s, k)
	case haltChange: // 3
		g.change(s, k)
	case haltNote: // F4
		g.write(s, who+" notes that r"+number(i + 1)[1:]+" owes nothing", func(t *halt) bool {
			t.runs[i].owes = 0
			return true
		}, func(t *halt, a answer) {
			if a != unknown {
				t.hands[k] = halter{}
			}
		}, nil)
	case haltEnqueue:
		g.write(s, who+" puts the instant on the ring", func(t *halt) bool {
			t.fire.message = h.rev + 1
			return true
		}, func(t *halt, a answer) {
			if t.hands[k].at = haltAdvance; a != ok {
				t.hands[k] = halter{}
			}
		}, nil)
	case haltAdvance:
		g.write(s, who+" advances the job", func(t *halt) bool {
			if t.job.rev != h.rev || t.job.next != h.next {
				return false
			}
			t.job.next = 1
			return true
		}, func(t *halt, _ answer) { t.hands[k] = halter{} }, nil)
	}
}

// inRow reports whether the last pauseAfter chains that ended after since all failed; extra is
// a run to count as a failure, or -1.
func (g *halting) inRow(s *halt, extra int, since uint8) bool {
	var ends []finished
	for i, r := range s.runs {
		switch {
		case i == extra:
			ends = append(ends, finished{is: failed, at: 99})
		case r.is <= open || r.at <= since && !g.w.OldFailures || r.is == succeeded && g.w.SuccessIgnored:
		default:
			ends = append(ends, r)
		}
	}
	return inARow(ends, g.w.After)
}

// inARow reports whether the last n of some ends are failures.
func inARow(ends []finished, n int) bool {
	slices.SortFunc(ends, func(a, b finished) int { return int(b.at) - int(a.at) })
	return len(ends) >= n && !slices.ContainsFunc(ends[:n], func(r finished) bool { return r.is != failed })
}

// cover stores due instants as skipped if the change leaves them behind.
func (g *halting) cover(s halt, k int) {
	x := &s.hands[k]
	x.at, x.now = haltChange, s.clock()
	who := haltWho(k)
	if s.job.paused == 1 && k == haltPerson || s.fire.at == 0 || x.next == 1 || g.w.CoversNothing && k != haltPerson {
		g.emit(&s, false, "%s finds nothing due that is on no message", who)
		return
	}
	g.write(s, who+" stores that the instant is skipped", func(t *halt) bool {
		t.fire.covered = 1
		return true
	}, func(t *halt, a answer) {
		if a == throttled || a == unknown && k == haltPerson {
			t.hands[k] = halter{}
		} else if a == unknown {
			t.hands[k] = halter{at: haltJob, run: x.run}
		}
	}, nil)
}

// change stores the advance that pauses the job, or a user's change.
func (g *halting) change(s halt, k int) {
	h := s.hands[k]
	g.write(s, haltWho(k)+" stores the change", func(t *halt) bool {
		j := &t.job
		blind := g.w.PausedBlindly && k != haltPerson
		if j.rev != h.rev && !blind || j.next != h.next && !blind {
			return false
		}
		if k != haltPerson {
			g.pauses(t)
		}
		t.revised[j.rev-1] = revision{h.now, h.paused}
		j.rev++
		if j.paused = h.paused; t.fire.at != 0 && t.fire.at < h.now {
			j.next = 1
		}
		return true
	}, func(t *halt, a answer) {
		x := &t.hands[k]
		switch {
		case k == haltPerson, a == throttled:
			*x = halter{}
		case a == ok, a == refusedAnswer && g.w.RefusedIsDone:
			x.at = haltNote
		default:
			*x = halter{at: haltJob, run: h.run, row: h.row}
		}
	}, nil)
}

// pauses asserts that, at some moment, the last After runs since the last change had failed.
func (g *halting) pauses(s *halt) {
	if s.job.paused == 1 {
		g.breaks("5: a job is paused that somebody paused meanwhile")
	}
	for _, last := range s.runs {
		var ends []finished
		for _, r := range s.runs {
			if r.is > open && r.at > s.since() && r.at <= last.at {
				ends = append(ends, r)
			}
		}
		if inARow(ends, g.w.After) {
			return
		}
	}
	g.breaks("5: a job is paused, and so many in a row have not failed since its last change")
}

// clock is a time after all that there are.
func (s *halt) clock() (t uint8) {
	s.times(func(i *uint8) { t = max(t, *i) })
	return t + 1
}

// times calls f for each place that holds a time.
func (s *halt) times(f func(*uint8)) {
	for i := range s.runs {
		f(&s.runs[i].at)
	}
	for i := range s.revised {
		f(&s.revised[i].at)
	}
	f(&s.fire.at)
	for k := range s.hands {
		f(&s.hands[k].since)
		f(&s.hands[k].now)
	}
}

// rest: no failures in a row that have paused nothing, and the instant has a run or record.
func (w *PauseAfter) rest(s *halt) (far int, why string) {
	if s.hands != [4]halter{} || s.fire.message != 0 || w.Instant && s.fire.at == 0 {
		return 0, "somebody is at work"
	}
	var ends []finished
	for _, r := range s.runs {
		if r.is == open || r.owes == 1 {
			return 1, "a run is open, or owes a pause"
		}
		if r.is != absent && r.at > s.since() && r.spared == 0 {
			ends = append(ends, r)
		}
	}
	if s.job.paused == 0 && inARow(ends, w.After) {
		return 2, "so many failed in a row, and the job goes on"
	}
	if w.Instant && s.fire.is == absent && s.fire.covered == 0 {
		paused := uint8(0)
		for i := range s.job.rev - 1 {
			if r := s.revised[i]; r.at < s.fire.at {
				paused = r.paused
			}
		}
		if paused == 0 {
			return 2, "the instant was demanded, and has neither run nor record"
		}
	}
	return 3, ""
}

func (w *PauseAfter) tidy(s *halt) (swapped swaps, _ string) {
	if l := &s.left; l.all == 0 {
		l.crash, l.write = 0, 0
	}
	var used, to [128]uint8
	s.times(func(t *uint8) { used[*t] = 1 })
	n := uint8(0)
	for i := 1; i < len(used); i++ {
		if used[i] == 1 {
			n++
			to[i] = n
		}
	}
	s.times(func(t *uint8) { *t = to[*t] })
	if a, b := s.hands[0], s.hands[1]; a.key() < b.key() {
		s.hands[0], s.hands[1] = b, a
		swapped.disp = true
	}
	return swapped, ""
}

func (h halter) key() uint64 {
	return pack(h.at, h.run, h.is, h.rev, h.next<<2|h.row<<1|h.paused, h.since, h.now)
}

func haltWho(k int) string { return [...]string{"D1", "D2", "P", "the tick"}[k] }
