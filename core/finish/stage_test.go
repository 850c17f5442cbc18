package finish_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/testkit/story"
)

// stage is a Finish and a watchdog over a store, with an executor whose answers the story sets.
type stage struct {
	*watchRig
	*story.Data
	sight core.Run // a run as the story read it
	// entries are in the journal of the story.
	entries []core.Entry
}

func newStage(t *testing.T) *story.Stage { return onStage(t).Data.Stage }

func onStage(t *testing.T) *stage {
	r := newWatchRig(t)
	s := &stage{watchRig: r, Data: story.NewData(&story.Stage{T: t, Now: r.clocked, Sleep: func(d time.Duration) { r.now = r.now.Add(d) }},
		r.rig.Store, "orders")}
	r.say = s.Say
	s.Beats = address
	s.Base = func(j *core.Job) { j.Def.Retry = core.Retry{Max: 2, Delay: 5 * time.Second} }
	s.Extra = func(run *core.Run) (fields []string) {
		if j := s.JournalOf(*run); s.with.ByJournal && j.V > 0 {
			fields = append(fields, fmt.Sprint("listed=", len(j.Entries)))
		}
		return fields
	}
	s.Add(map[string]func(string){"run": s.runs, "children": s.children, "join": s.comesAfter, "executor": s.executor, "fault": s.fault,
		"before": s.before, "set": s.sets, "damage": s.damages, "cursor": s.cursor, "read": s.reads, "ring": s.rings,
		"parent": func(args string) { s.runs(args + " place=1 retries=0") }, "loses": s.loses, "kills": s.kills})
	s.Do = map[string]func(string){"end": s.ends, "mend": s.mends, "check": s.checks, "pass": s.passes, "due": s.joinDue,
		"claim": s.claims, "unclaim": s.unclaims, "asks": s.asksFor, "release": s.releases, "settle": s.settles, "calls": s.counts}
	return s
}

// runs stores a run that was sent. The last field sets its outcome in the journal of the story.
func (s *stage) runs(args string) {
	name, rest, _ := strings.Cut(args, " ")
	id := s.Run(name)
	s.Jobs[id.Job()] = true
	rest, outcome, listed := strings.Cut(rest, "listed=")
	run := s.run(id, func(x *core.Run) {
		if listed {
			x.SentAt, x.Journal, x.Retries = begin, key, 0
		}
		s.Set(rest, x)
	})
	for o := core.Begun; listed && o <= core.Left; o++ {
		if o.String() == outcome {
			s.entries = append(s.entries, core.Entry{Run: id, Address: run.Address, Outcome: o})
			check.OK(s.T, s.PutJournal(s.T.Context(), core.Journal{Key: key, V: len(s.entries), Entries: s.entries}))
		}
	}
}

func (s *stage) children(args string) {
	n, err := strconv.Atoi(args)
	check.OK(s.T, err)
	s.family(n)
	for k := range n {
		s.Jobs[core.JobID(100+k)], s.Jobs[core.JobID(200+k)], s.Jobs[core.JobID(300+k)] = true, true, true
	}
}

// comesAfter stores parents, and a job that comes after all of them.
func (s *stage) comesAfter(args string) {
	n, rest := s.ID(args)
	s.join(int(n), func(j *core.Job) { s.Set(rest, &j.Def, &j.Sched) })
	s.Jobs[joinJob], s.Limits = true, append(s.Limits, "join/100")
}

// errs are the errors that a story names.
var errs = map[string]error{"unknown": errUnknown, "unasked": errOurs, "throttled": core.ErrThrottled, "refused": core.ErrRefused,
	"ok": nil}

// executor sets the answers of the executor.
func (s *stage) executor(args string) {
	for word := range strings.FieldsSeq(args) {
		question, answer, _ := strings.Cut(word, "=")
		err, is := errs[answer]
		switch {
		case question == "idle" && is:
			s.p.idle, s.p.idleErr = true, err
		case question == "idle", question == "busy":
			s.p.idle, s.p.idleErr = question == "idle", nil
		case question == "beat":
			s.p.beat = err
		case question == "kill":
			s.p.killErr = err
		case question == "limit" && is:
			s.p.limitErr = err
		default:
			limit, err := time.ParseDuration(answer)
			check.OK(s.T, err)
			s.p.limit = limit
		}
	}
}

// fault lets the next calls of an operation fail: "close unknown x2", or "close unknown done" if they take effect.
func (s *stage) fault(args string) {
	words, times := strings.Fields(args), 1
	if last := words[len(words)-1]; last[0] == 'x' {
		n, err := strconv.Atoi(last[1:])
		check.OK(s.T, err)
		times = n
	}
	f := fault{err: errs[words[1]], done: slices.Contains(words, "done")}
	for range times {
		s.faults.faults[words[0]] = append(s.faults.faults[words[0]], f)
	}
}

// before plays steps before the next call of an operation.
func (s *stage) before(args string) {
	op, steps, _ := strings.Cut(args, " ")
	s.faults.faults[op] = append(s.faults.faults[op], fault{between: func() { s.Steps(steps) }})
}

// sets makes lists use journals, or adds a slow queue.
func (s *stage) sets(what string) {
	o := plan.Local()
	s.with.ByJournal, o.SlowLane = what == "journals", what == "slow"
	s.f = s.finish(o)
}

// damages makes a job, or with the word schedule its schedule too, or a run or an app unreadable. Job 0 repairs all.
func (s *stage) damages(args string) {
	what, schedule, _ := strings.Cut(args, " ")
	if what == "app" {
		memory.DamageApp(s.T, s.Data.Store.Records, schedule)
		return
	}
	if strings.ContainsAny(what, "@#") {
		s.damagedRun = s.Run(what)
		return
	}
	n, err := strconv.Atoi(what)
	check.OK(s.T, err)
	if s.damaged = core.JobID(n); schedule != "" {
		s.damagedSched = s.damaged
	}
}

// loses closes a run as another process does.
func (s *stage) loses(args string) {
	check.OK(s.T, s.Change(core.End(s.Run(args), core.Run{State: core.Lost, Reason: core.ReasonNoReport, EndedAt: s.Now()})))
}

func (s *stage) kills(args string) {
	run := s.Store.Run(s.Run(args))
	check.OK(s.T, s.Change(run.Kill("ann", s.Now())))
}

func (s *stage) cursor(args string) {
	at, err := s.Cursor(s.T.Context())
	check.OK(s.T, err)
	check.OK(s.T, s.MoveCursor(s.T.Context(), at, s.Time(args).Unix()/60))
}

func (s *stage) reads(args string) { s.sight = s.Store.Run(s.Stage.Run(args)) }

// rings puts a message of another job on the delay queue: "AT SLOT TRY".
func (s *stage) rings(args string) {
	words := strings.Fields(args)
	slot, try := core.InstantOf(s.Time(words[1])), 0
	if len(words) > 2 {
		try = 9
	}
	s.Enqueue(s.Time(words[0]), ring.Message{Kind: ring.KindFires, Slot: slot, Try: try, Fires: []core.Fire{{Run: core.PlannedRun(2, slot)}}})
}

// ---- verbs that do something

// answer reports why a call failed.
func (s *stage) answer(what string, err error) {
	if err != nil {
		s.Say("%s: %s: %v", what, core.CodeOf(err), err)
	}
}

// ends reports the ends of runs in one call: "1@0s failed:handler code=500 + 2@0s succeeded".
func (s *stage) ends(args string) {
	var list []finish.Result
	for end := range strings.SplitSeq(args, " + ") {
		words := strings.Fields(end)
		state, reason, _ := strings.Cut(words[1], ":")
		r := finish.Result{Run: s.Stage.Run(words[0]), State: core.State(state), Reason: core.Reason(reason)}
		for _, word := range words[2:] {
			if word == "seen" {
				r.Seen = &s.sight
			} else {
				s.Set(word, &r)
			}
		}
		list = append(list, r)
	}
	for i, err := range s.f.End(s.T.Context(), list) {
		s.answer("end of "+story.Name(list[i].Run), err)
	}
}

func (s *stage) mends(args string) {
	run := s.Store.Run(s.Stage.Run(args))
	s.answer("mend", s.f.Mend(s.T.Context(), &run))
}

// checks has the watchdog check runs: "1@0s idle".
func (s *stage) checks(args string) {
	rest, idle := strings.CutSuffix(args, " idle")
	c := &ring.Check{Runs: s.Stage.Runs(rest), Idle: idle}
	s.answer("check", s.w.Check(s.T.Context(), c))
	s.asked()
}

// passes makes passes of the watchdog, one a minute, and delivers the checks that it requests.
func (s *stage) passes(args string) {
	n := 1
	if args != "" {
		var err error
		n, err = strconv.Atoi(args)
		check.OK(s.T, err)
	}
	for i := range n {
		if i > 0 {
			s.now = s.now.Add(time.Minute)
		}
		_, err := s.w.Pass(s.T.Context())
		s.answer("pass", err)
	}
	s.asked()
}

// asked reports the number of questions to the executor.
func (s *stage) asked() {
	if p := s.p; p.beats+p.idles+p.kills > 0 {
		s.Say("asked: %d beats, %d idle, %d kills", p.beats, p.idles, p.kills)
		p.beats, p.idles, p.kills = 0, 0, 0
	}
}

func (s *stage) joinDue(string) {
	if err := s.watchRig.due(); err != nil {
		s.Say("due: %v", err)
	}
}

// claims claims a run as the story read it, as a dispatcher does after it asked for the permits of the run.
func (s *stage) claims(string) { s.answer("claim", s.claim(&s.sight)) }

// unclaims releases the claim of a run as the story read it.
func (s *stage) unclaims(string) { s.answer("unclaim", s.Change(s.sight.GiveBack())) }

func (s *stage) asksFor(args string) { s.asks(s.sight.ID, strings.Fields(args)...) }

func (s *stage) releases(args string) {
	run := s.Store.Run(s.Stage.Run(args))
	s.f.ReleasePermits(s.T.Context(), &run, s.Limits)
}

// settles settles the doubtful slots of a limit, and with "ended" also the slots of ended chains.
func (s *stage) settles(args string) {
	name, ended, _ := strings.Cut(args, " ")
	p := s.PermitsOf(name)
	changed, err := s.f.Settle(s.T.Context(), &p, ended != "")
	if s.answer("settle", err); changed {
		p.V++
		s.SavePermits(p)
	}
}

// counts reports how often operations were called in the story.
func (s *stage) counts(args string) {
	for op := range strings.FieldsSeq(args) {
		s.Say("%s: %d", op, s.calls[op])
	}
}
