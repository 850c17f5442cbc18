package operate_test

import (
	"context"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/ring"
	kit "github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/story"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// stage has the operations on runs, and records the messages and kills that they send.
type stage struct {
	*usecasetest.Stage
	told  int // kills that the executors got in earlier steps
	mu    sync.Mutex
	calls map[string]func(*hook.Call) error // before calls of the store, by operation
}

func newStage(t *testing.T) *story.Stage {
	s := &stage{Stage: usecasetest.NewStage(t), calls: map[string]func(*hook.Call) error{}}
	s.F.M = s.F.Fresh(&faults{Store: hook.Over(s.F.E, s.tell)})
	s.Add(map[string]func(string){"letter": s.letter, "owed": s.owed, "message": s.message, "fault": s.fault, "before": s.before,
		"torn": s.torn, "aws": func(string) { s.F.M = (&fixture{s.F}).inAWS(hook.Over(s.F.E, s.tell), 0) }})
	maps.Copy(s.Do, map[string]func(string){"trigger": s.triggers, "change": s.changes, "cancel": s.cancels, "kill": s.kills,
		"rerun": s.reruns, "replan": s.replans, "heal": s.heals, "redrive": s.redrives, "record": s.record,
		"claim": s.claims})
	see := s.See
	s.See = func() map[string][]string {
		all := see()
		list, err := s.F.E.Letters(ctx, "", 100)
		must(t, err)
		for _, l := range list {
			all["letter "+l.Reason] = []string{"at=" + story.Since(l.At)}
		}
		return all
	}
	return s.Data.Stage
}

// tell reports the messages that an operation enqueued.
func (s *stage) tell(_ context.Context, c *hook.Call, next func() []error) []error {
	op := ""
	switch {
	case c.Open:
		op = "open"
	case c.PutRun != nil:
		op = "put"
	case c.Out != nil:
		op = "enqueue"
	}
	s.mu.Lock()
	before := s.calls[op]
	s.mu.Unlock()
	if before != nil {
		if err := before(c); err != nil {
			return hook.Fail(err, max(1, len(c.PutRun), len(c.Out)))
		}
	}
	errs := next()
	for i, o := range c.Out {
		if errs[i] == nil {
			s.Say("%s", story.Enqueued(o))
		}
	}
	return errs
}

// torn makes the first runs of dead-letter messages unreadable, and their checks.
func (s *stage) torn(string) {
	with := *s.F.E
	with.Records = torn{with.Records}
	s.F.M = s.F.Fresh(&faults{Store: hook.Over(&with, s.tell)})
}

// fault lets the calls of an operation fail: the calls for one run, "put 1#7", or all calls from the nth on, "open 2". Without either it
// fails no more.
func (s *stage) fault(args string) {
	op, which, _ := strings.Cut(args, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.calls, op); which == "" {
		return
	}
	var left struct{ N int }
	run := core.RunID(0)
	if names.MatchString(which) {
		run = s.Run(which)
	} else {
		s.Set("n="+which, &left)
	}
	s.calls[op] = func(c *hook.Call) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if left.N--; run == 0 && left.N < 1 || run != 0 && c.PutRun[0].Change.ID == run {
			return core.ErrThrottled
		}
		return nil
	}
}

// before plays steps once, before the next call of an operation.
func (s *stage) before(args string) {
	op, steps, _ := strings.Cut(args, " ")
	s.calls[op] = func(*hook.Call) error {
		s.mu.Lock()
		delete(s.calls, op)
		s.mu.Unlock()
		s.Steps(steps)
		return nil
	}
}

// names matches the names of runs.
var names = regexp.MustCompile(`^\d+[@#]`)

// ref returns the ID of a run that has a name, and other references as they are.
func (s *stage) ref(text string) string {
	if names.MatchString(text) {
		return s.Run(text).String()
	}
	return text
}

// ---- verbs that prepare a story

// fires returns a message with runs: "1@10s 1#7 rev=-1m of=1#3". Runs that are not stored are of the first revision, Begin.
func (s *stage) fires(args string) ring.Message {
	m, rev, of := ring.Message{Kind: ring.KindFires}, story.Begin, core.RunID(0)
	for word := range strings.FieldsSeq(args) {
		if at, is := strings.CutPrefix(word, "rev="); is {
			rev = s.Time(at)
			continue
		} else if name, is := strings.CutPrefix(word, "of="); is {
			of = s.Run(name)
			continue
		}
		id, now := s.Run(word), core.InstantOf(s.Now())
		x := s.Store.Run(id)
		f := x.Fire()
		if at, planned := id.Planned(); x.ID == 0 && planned {
			f = kit.Planned(id.Job(), at)
		} else if x.ID == 0 {
			f = core.Fire{Run: id, At: now, Slot: now, Cause: core.CauseRetry}
		}
		m.Fires = append(m.Fires, f)
	}
	m.Slot = m.Fires[0].Slot
	for i := range m.Fires {
		f := &m.Fires[i]
		if f.Slot, f.Of = m.Slot, of; f.Rev < 2 {
			f.Rev = rev.UnixMilli()
		}
	}
	return m
}

// letter moves a message with runs to the dead-letter queue. The first word is the reason.
func (s *stage) letter(args string) {
	why, rest, _ := strings.Cut(args, " ")
	must(s.T, s.F.E.Queue.Bury(ctx, s.fires(rest), why))
}

// owed moves a message of the post-run queue to the dead-letter queue: "why 1#7". Without a run it has a note, and
// with the word check it is a check.
func (s *stage) owed(args string) {
	words := strings.Fields(args)
	m := ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(s.Now()), Try: 3, PostRun: &ring.PostRun{}}
	switch words[1] {
	case "note":
		m.PostRun.Notes = []ring.Note{{Job: 1, Event: core.EventLate, Run: s.Run("1#3"), At: m.Slot, When: s.Now()}}
	case "check":
		m = ring.Message{Kind: ring.KindCheck, Slot: m.Slot, Check: &ring.Check{Runs: []core.RunID{s.Run("1#3")}}}
	default:
		m.PostRun.Run = s.Run(words[1])
	}
	must(s.T, s.F.E.Queue.Bury(ctx, m, words[0]))
}

// message puts a message with runs on the delay queue: "+1h 1@10s".
func (s *stage) message(args string) {
	at, rest, _ := strings.Cut(args, " ")
	s.Store.Enqueue(s.Time(at), s.fires(rest))
}

// ---- verbs that do something

// with sets the fields of an operation. A $long text is one byte longer than params can be, and a $wide one has 2,000 letters.
func (s *stage) with(args string, to any) {
	s.Set(strings.NewReplacer("$long", strings.Repeat("x", 64<<10+1), "$wide", strings.Repeat("ä", 2000)).Replace(args), to)
}

func (s *stage) triggers(args string) {
	job, rest, _ := strings.Cut(args, " ")
	q := operate.TriggerRequest{Job: job}
	s.with(rest, &q)
	s.triggered(s.F.M.Trigger(ctx, s.Actor, q))
}

func (s *stage) triggered(r operate.TriggerResult, err error) {
	if !s.Failed(err) {
		s.Say("%s, existing: %t, waiting: %t", story.Name(r.Run.ID), r.Existing, r.Waiting)
	}
}

func (s *stage) changes(args string) {
	name, rest, _ := strings.Cut(args, " ")
	var c operate.TriggerChange
	s.with(rest, &c)
	s.triggered(s.F.M.ChangeTrigger(ctx, s.Actor, s.ref(name), c))
}

func (s *stage) cancels(name string) { s.stopped(s.F.M.Cancel(ctx, s.Actor, s.ref(name))) }

// kills kills a run, or all runs of a job: "job shop/sweep".
func (s *stage) kills(args string) {
	if job, is := strings.CutPrefix(args, "job "); is {
		s.stopped(s.F.M.KillJob(ctx, s.Actor, job, ""))
		return
	}
	s.stopped(s.F.M.KillRun(ctx, s.Actor, s.ref(args), ""))
}

func (s *stage) stopped(r operate.StopResult, err error) {
	s.Result(r, err, "job", "sent")
	for _, x := range r.Sent {
		s.Say("answer of %s: %v", x.Address, errText(x.Err))
	}
	for ; s.told < len(s.F.Killer.Sent); s.told++ {
		s.Say("kill sent: %s", s.F.Killer.Sent[s.told])
	}
}

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// reruns runs ended runs again, page by page. With the word forbidden at the end, the caller may not name addresses.
func (s *stage) reruns(args string) {
	rest, forbidden := strings.CutSuffix(args, " forbidden")
	var q operate.RerunRequest
	s.with(rest, &q)
	if q.Run = s.ref(q.Run); forbidden {
		q.Direct = func(app string) error { return core.Errorf(core.CodeForbidden, "not %s", app) }
	}
	for {
		res, err := s.F.M.Rerun(ctx, s.Actor, q)
		if s.Failed(err) {
			return
		}
		for _, x := range res.Runs {
			switch of := story.Name(x.Of.ID); {
			case x.Why != nil:
				s.Say("not %s: %s: %v", of, core.CodeOf(x.Why), x.Why)
			case x.As.ID == 0:
				s.Say("would run %s again", of)
			default:
				s.Say("%s again as %s, existing: %t", of, story.Name(x.As.ID), x.Existing)
			}
		}
		if q.Filter.After = res.Next; res.Next == "" {
			return
		}
		s.Say("and a next page")
	}
}

// replans sends missing runs of a job or of all: "all 0s +100s". Without an end, the delay queue counts as empty.
func (s *stage) replans(args string) {
	words := strings.Fields(args + " +0s")
	to := core.InstantOf(s.Time(words[2]))
	if len(words) == 3 {
		to = 0
	}
	r, err := s.F.M.Replan(ctx, s.Actor, strings.TrimPrefix(words[0], "all"), core.InstantOf(s.Time(words[1])), to)
	s.Result(r, err, "from", "to")
}

// heals sends lost runs again, in pages of one job.
func (s *stage) heals(string) {
	m := people.New(hook.Over(s.F.E, s.tell), nil, nil, people.Options{Plan: plan.Local(),
		Ask: query.Options{Now: s.F.Now, PageFor: 1, Together: 1}})
	sent, err := m.Heal(ctx)
	s.Say("%d sent", sent)
	s.Failed(err)
	g, err := s.F.E.Global(ctx)
	must(s.T, err)
	s.Say("noted: %s", strings.Join(story.Fields(g.Loss), " "))
}

// redrives sends dead-letter messages again, page by page.
func (s *stage) redrives(args string) {
	var q operate.RedriveRequest
	for s.Set(args, &q); ; {
		res, err := s.F.M.Redrive(ctx, s.Actor, q)
		if s.Failed(err) {
			return
		}
		for _, l := range res.Letters {
			line := "letter " + l.Reason + ": " + l.Asks.String()
			for _, f := range l.Fires {
				line += " " + story.Name(f.Run) + " " + f.Why.String()
			}
			if l.Dropped {
				line += ", dropped"
			}
			s.Say("%s", line)
		}
		s.Say("%d sent, %d left, %d dropped", res.Sent, res.Left, res.Dropped)
		if q.After = res.Next; q.After == "" {
			return
		}
	}
}

// claims creates a run that is not stored, as a dispatcher does that sends it.
func (s *stage) claims(args string) {
	r := newRun(s.Run(args), core.Running, core.InstantOf(s.Now()))
	s.Failed(s.F.E.CreateRuns(ctx, []core.Run{r})[0])
}

// record reports the values of the newest change of a job.
func (s *stage) record(job string) {
	list, err := s.F.Changes("", job, 1)
	must(s.T, err)
	c := list[0]
	s.Say("%s %s, %d bytes: %s, before: %s", c.By, c.Verb, len(c.New), core.Truncate(c.New), core.Truncate(c.Old))
}
