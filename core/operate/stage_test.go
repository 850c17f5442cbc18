package operate_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/ring"
	kit "github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/story"
)

// stage is the operations for users over a store. Its first jobs have the IDs 1, 2 and so on, in the order of their creation.
type stage struct {
	*story.Data
	f     *fixture
	actor core.Actor
	told  int // kills that the executors got in earlier steps
	mu    sync.Mutex
	calls map[string]func(*hook.Call) error // before calls of the store, by operation
}

func newStage(t *testing.T) *story.Stage {
	s := &stage{f: newFixture(t), actor: ann, calls: map[string]func(*hook.Call) error{}}
	s.f.Clock = story.Begin
	s.f.M = s.f.Fresh(&faults{Store: hook.Over(s.f.E, s.tell)})
	s.Data = story.NewData(&story.Stage{T: t, Now: s.f.Now, Sleep: func(d time.Duration) { s.f.Clock = s.f.Clock.Add(d) }},
		&kit.Store{Store: s.f.E, T: t}, "shop")
	s.Add(map[string]func(string){"job": s.job, "delete": func(name string) { s.f.Delete("shop/" + name) }, "app": s.app, "run": s.runs,
		"close": s.closes, "letter": s.letter, "owed": s.owed, "skip": s.skip, "next": s.next, "message": s.message,
		"empty": func(string) { s.f.Fires() }, "quiet": func(string) { s.f.Quiet() }, "by": func(name string) { s.actor.Name = name },
		"aws": func(string) { s.f.M = s.f.inAWS(hook.Over(s.f.E, s.tell), 0) }, "fault": s.fault, "before": s.before, "torn": s.torn})
	s.Do = map[string]func(string){"trigger": s.triggers, "change": s.changes, "cancel": s.cancels, "kill": s.kills, "rerun": s.reruns,
		"replan": s.replans, "heal": s.heals, "redrive": s.redrives, "clean": s.cleans, "pause": s.pauses, "resume": s.resumes,
		"end": s.ends, "record": s.record, "claim": s.claims}
	see := s.See
	s.See = func() map[string][]string {
		all := see()
		list, err := s.f.E.Letters(ctx, "", 100)
		must(t, err)
		for _, l := range list {
			all["letter "+l.Reason] = []string{"at=" + story.Since(l.At)}
		}
		for _, fields := range all {
			for i := range fields {
				fields[i] = core.Truncate(fields[i])
			}
		}
		return all
	}
	return s.Stage
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
	with := *s.f.E
	with.Records = torn{with.Records}
	s.f.M = s.f.Fresh(&faults{Store: hook.Over(&with, s.tell)})
}

// fault lets the calls of an operation fail: those of a run, "put 1#7", or those from the nth on, "open 2". Without either it
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

// failed reports the error of a call.
func (s *stage) failed(err error) bool {
	if err != nil {
		s.Say("%s: %v", core.CodeOf(err), err)
	}
	return err != nil
}

// result reports the result of a call.
func (s *stage) result(of any, err error, without ...string) {
	if fields := story.Fields(of, without...); len(fields) > 0 || err == nil {
		s.Say("result: %s", strings.Join(fields, " "))
	}
	s.failed(err)
}

// ---- verbs that prepare a story

// job saves a job as a user does: "sweep every=1h params=x". A second one of the name replaces the first.
func (s *stage) job(args string) {
	name, rest, _ := strings.Cut(args, " ")
	j := spec(name, core.Schedule{})
	kinds := struct{ Every time.Duration }{}
	if s.Set(rest, &kinds, &j, &j.Def); kinds.Every > 0 {
		j.Schedule = every(kinds.Every)
	}
	must(s.T, s.f.Save(j)[0].Err)
	s.Jobs[s.f.Job("shop/"+name).Def.ID] = true
}

func (s *stage) app(args string) {
	a := manage.AppSpec{Name: "shop", Allow: []string{"10.0.0.0/8"}}
	s.Set(args, &a)
	s.f.Must(s.f.M.SaveApp(ctx, ann, a))
}

// runs stores a run of the job as it is now: "1#7 failed:handler address=http://a:1". Its slot is now, or its scheduled time.
func (s *stage) runs(args string) {
	words := strings.SplitN(args+" ", " ", 3)
	id := s.Run(words[0])
	state, reason, _ := strings.Cut(words[1], ":")
	r := newRun(id, core.State(state), core.InstantOf(s.Now()))
	if at, is := id.Planned(); is {
		r.At, r.Slot = at, at
	}
	r.Reason, r.Rev = core.Reason(reason), s.Store.JobOf(id.Job()).Sched.Rev
	if r.State != core.Planned && r.State != core.Queued {
		r.SentAt, r.Address = r.Slot.Time(), "http://10.0.0.1:9999"
	}
	if r.State == core.Running {
		r.Owner, r.Until = "me", s.Now().Add(time.Minute)
	} else if !r.State.Open() {
		r.EndedAt = r.SentAt.Add(time.Second)
	}
	s.Jobs[id.Job()] = true
	s.Set(words[2], &r)
	s.f.Put(r)
}

// closes closes a run without its follow-ups: "1#7 skipped:overlap".
func (s *stage) closes(args string) {
	name, end, _ := strings.Cut(args, " ")
	state, reason, _ := strings.Cut(end, ":")
	to := core.Run{State: core.State(state), Reason: core.Reason(reason), EndedAt: s.Now()}
	must(s.T, s.f.E.ChangeRuns(ctx, []core.RunPut{core.End(s.Run(name), to)})...)
}

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
	must(s.T, s.f.E.Queue.Bury(ctx, s.fires(rest), why))
}

// owed moves a message of the post-run queue to the dead-letter queue: "why 1#7 log notice". Without a run it has a note, and
// with the word check it is a check.
func (s *stage) owed(args string) {
	words := strings.SplitN(args+" ", " ", 3)
	m := ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(s.Now()), Try: 3, PostRun: &ring.PostRun{}}
	switch words[1] {
	case "note":
		m.PostRun.Notes = []ring.Note{{Job: 1, Event: core.EventLate, Run: s.Run("1#3"), At: m.Slot, When: s.Now()}}
	case "check":
		m = ring.Message{Kind: ring.KindCheck, Slot: m.Slot, Check: &ring.Check{Runs: []core.RunID{s.Run("1#3")}}}
	default:
		m.PostRun.Run = s.Run(words[1])
		s.Set(words[2], &m.PostRun.PostRun)
	}
	must(s.T, s.f.E.Queue.Bury(ctx, m, words[0]))
}

// message puts a message with runs on the delay queue: "+1h 1@10s".
func (s *stage) message(args string) {
	at, rest, _ := strings.Cut(args, " ")
	s.Store.Enqueue(s.Time(at), s.fires(rest))
}

func (s *stage) skip(args string) {
	var skip core.Skip
	s.Set(args, &skip)
	must(s.T, s.f.E.PutSkips(ctx, []core.Skip{skip})...)
}

// next sets the time up to which a job is planned.
func (s *stage) next(args string) {
	id, at := s.ID(args)
	s.f.PushNext(id, core.InstantOf(s.Time(at)))
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
	s.triggered(s.f.M.Trigger(ctx, s.actor, q))
}

func (s *stage) triggered(r operate.TriggerResult, err error) {
	if !s.failed(err) {
		s.Say("%s, existing: %t, waiting: %t", story.Name(r.Run.ID), r.Existing, r.Waiting)
	}
}

func (s *stage) changes(args string) {
	name, rest, _ := strings.Cut(args, " ")
	var c operate.TriggerChange
	s.with(rest, &c)
	s.triggered(s.f.M.ChangeTrigger(ctx, s.actor, s.ref(name), c))
}

func (s *stage) cancels(name string) { s.stopped(s.f.M.Cancel(ctx, s.actor, s.ref(name))) }

// kills kills a run, or all runs of a job: "job shop/sweep".
func (s *stage) kills(args string) {
	if job, is := strings.CutPrefix(args, "job "); is {
		s.stopped(s.f.M.KillJob(ctx, s.actor, job, ""))
		return
	}
	s.stopped(s.f.M.KillRun(ctx, s.actor, s.ref(args), ""))
}

func (s *stage) stopped(r operate.StopResult, err error) {
	s.result(r, err, "job", "sent")
	for _, x := range r.Sent {
		s.Say("answer of %s: %v", x.Address, errText(x.Err))
	}
	for ; s.told < len(s.f.Killer.Sent); s.told++ {
		s.Say("kill sent: %s", s.f.Killer.Sent[s.told])
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
		res, err := s.f.M.Rerun(ctx, s.actor, q)
		if s.failed(err) {
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
	r, err := s.f.M.Replan(ctx, s.actor, strings.TrimPrefix(words[0], "all"), core.InstantOf(s.Time(words[1])), to)
	s.result(r, err, "from", "to")
}

// heals sends lost runs again, in pages of one job.
func (s *stage) heals(string) {
	m := people.New(hook.Over(s.f.E, s.tell), nil, nil, people.Options{Plan: plan.Local(),
		Ask: query.Options{Now: s.f.Now, PageFor: 1, Together: 1}})
	sent, err := m.Heal(ctx)
	s.Say("%d sent", sent)
	s.failed(err)
	g, err := s.f.E.Global(ctx)
	must(s.T, err)
	s.Say("noted: %s", strings.Join(story.Fields(g.Loss), " "))
}

// redrives sends dead-letter messages again, page by page.
func (s *stage) redrives(args string) {
	var q operate.RedriveRequest
	for s.Set(args, &q); ; {
		res, err := s.f.M.Redrive(ctx, s.actor, q)
		if s.failed(err) {
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

func (s *stage) cleans(args string) {
	var q operate.CleanRequest
	s.Set(args, &q)
	res, err := s.f.M.Clean(ctx, s.actor, q)
	s.result(res, err, "failed")
}

func target(name string) manage.Target {
	switch {
	case name == "all":
		return manage.Target{All: true}
	case strings.Contains(name, "/"):
		return manage.Target{Job: name}
	}
	return manage.Target{App: name}
}

func (s *stage) pauses(name string) { s.f.Pause(target(name)) }

func (s *stage) resumes(name string) {
	s.f.Resume(target(name))
	s.f.Resumed()
}

// ends ends a run as its executor reports: "1#7 failed:handler".
func (s *stage) ends(args string) {
	name, end, _ := strings.Cut(args, " ")
	state, reason, _ := strings.Cut(end, ":")
	f := finish.New(s.f.E, finish.Options{Now: s.f.Now})
	must(s.T, f.End(ctx, []finish.Result{{Run: s.Run(name), State: core.State(state), Reason: core.Reason(reason), Reported: true}})...)
}

// claims creates a run that is not stored, as a dispatcher does that sends it.
func (s *stage) claims(args string) {
	r := newRun(s.Run(args), core.Running, core.InstantOf(s.Now()))
	s.failed(s.f.E.CreateRuns(ctx, []core.Run{r})[0])
}

// record reports the values of the newest change of a job.
func (s *stage) record(job string) {
	list, err := s.f.Changes("", job, 1)
	must(s.T, err)
	c := list[0]
	s.Say("%s %s, %d bytes: %s, before: %s", c.By, c.Verb, len(c.New), core.Truncate(c.New), core.Truncate(c.Old))
}
