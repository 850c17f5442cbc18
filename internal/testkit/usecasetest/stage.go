package usecasetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/story"
)

// Stage is a Fixture for stories. Its first jobs have the IDs 1, 2 and so on, in the order of their creation.
type Stage struct {
	*story.Data
	F     *Fixture
	Actor core.Actor
}

// NewStage returns a stage with the verbs that most stories of user operations need.
func NewStage(t *testing.T) *Stage {
	f := New(t)
	f.Clock = story.Begin
	s := &Stage{F: f, Actor: Ann}
	s.Data = story.NewData(&story.Stage{T: t, Now: f.Now, Sleep: func(d time.Duration) { f.Clock = f.Clock.Add(d) }},
		&fixture.Store{Store: f.E, T: t}, "shop")
	s.Add(map[string]func(string){"job": s.job, "delete": func(name string) { f.Delete("shop/" + name) }, "app": s.app, "run": s.runs,
		"close": s.closes, "skip": s.skip, "next": s.next, "hours": s.hours, "empty": func(string) { f.Fires() },
		"quiet": func(string) { f.Quiet() },
		"by":    func(name string) { s.Actor.Name = name }})
	s.Do = map[string]func(string){"pause": s.pauses, "resume": s.resumes, "end": s.ends, "clean": s.cleans}
	see := s.See
	s.See = func() map[string][]string {
		all := see()
		for _, fields := range all {
			for i := range fields {
				fields[i] = core.Truncate(fields[i])
			}
		}
		return all
	}
	return s
}

// Failed reports the error of a call.
func (s *Stage) Failed(err error) bool {
	if err != nil {
		s.Say("%s: %v", core.CodeOf(err), err)
	}
	return err != nil
}

// Result reports the result of a call.
func (s *Stage) Result(of any, err error, without ...string) {
	if fields := story.Fields(of, without...); len(fields) > 0 || err == nil {
		s.Say("result: %s", strings.Join(fields, " "))
	}
	s.Failed(err)
}

// Job returns the job of a text: "sweep every=1h params=x".
func (s *Stage) Job(args string) manage.JobSpec {
	name, rest, _ := strings.Cut(args, " ")
	j := Spec(name, core.Schedule{})
	s.SetJob(rest, &j.Schedule, &j, &j.Def)
	return j
}

func (s *Stage) cleans(args string) {
	var q operate.CleanRequest
	s.Set(args, &q)
	res, err := s.F.M.Clean(Ctx, s.Actor, q)
	s.Result(res, err, "failed")
}

// Seen shows the runs of a job, and what else belongs to it.
func (s *Stage) Seen(name string) { s.Jobs[s.F.Job(name).Def.ID] = true }

// job saves a job as a user does. A second one of the name replaces the first.
func (s *Stage) job(args string) {
	j := s.Job(args)
	check.OK(s.T, s.F.Save(j)[0].Err)
	s.Seen(j.Def.App + "/" + j.Def.Name)
}

// app saves an app as a user does: the app of the fixture, or "NAME FIELDS".
func (s *Stage) app(args string) {
	a := manage.AppSpec{Name: "shop", Allow: []string{"10.0.0.0/8"}}
	if name, rest, _ := strings.Cut(args, " "); !strings.Contains(name, "=") {
		a.Name, args = name, rest
	}
	s.Set(args, &a)
	s.F.Must(s.F.M.SaveApp(Ctx, Ann, a))
}

// runs stores a run of the job as it is now: "1#7 failed:handler address=http://a:1". Its slot is now, or its scheduled time.
func (s *Stage) runs(args string) {
	words := strings.SplitN(args+" ", " ", 3)
	id := s.Run(words[0])
	state, reason, _ := strings.Cut(words[1], ":")
	r := Run(id, core.State(state), core.InstantOf(s.Now()))
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
	s.F.Put(r)
}

// closes closes a run without its follow-ups: "1#7 skipped:overlap".
func (s *Stage) closes(args string) {
	name, end, _ := strings.Cut(args, " ")
	state, reason, _ := strings.Cut(end, ":")
	to := core.Run{State: core.State(state), Reason: core.Reason(reason), EndedAt: s.Now()}
	check.OK(s.T, errors.Join(s.F.E.ChangeRuns(Ctx, []core.RunPut{core.End(s.Run(name), to)})...))
}

func (s *Stage) skip(args string) {
	var skip core.Skip
	s.Set(args, &skip)
	check.OK(s.T, errors.Join(s.F.E.PutSkips(Ctx, []core.Skip{skip})...))
}

// next sets the time up to which a job is planned, and the first run of its open chain, if it has one: "1 +90s 1@80s".
func (s *Stage) next(args string) {
	id, rest := s.ID(args)
	at, tail, _ := strings.Cut(rest, " ")
	s.F.PushNext(id, core.InstantOf(s.Time(at)), append(s.Runs(tail), 0)...)
}

// hours runs a job at each of the next hours, except some: "1 72 20,60". It leaves the clock a minute after the last.
func (s *Stage) hours(args string) {
	id, rest := s.ID(args)
	var q struct {
		N    int
		Lost []int
	}
	n, lost, _ := strings.Cut(rest, " ")
	s.Set("n="+n+" lost="+lost, &q)
	at := core.InstantOf(s.F.Clock)/3600*3600 + 3600
	for i := range q.N {
		s.F.Clock = at.Time().Add(20 * time.Millisecond)
		if !slices.Contains(q.Lost, i) {
			s.F.Ran(id, at, 0)
		}
		at += 3600
	}
	s.F.PushNext(id, at)
	s.F.Clock = s.F.Clock.Add(time.Minute)
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

// pauses pauses a job, an app or all: "shop/sweep until=+1h why=flood". A $long reason is too long by one byte.
func (s *Stage) pauses(args string) {
	of, rest, _ := strings.Cut(args, " ")
	var r manage.PauseRequest
	s.Set(strings.ReplaceAll(rest, "$long", strings.Repeat("x", 1001)), &r)
	_, err := s.F.M.Pause(Ctx, s.Actor, target(of), r)
	s.Failed(err)
}

func (s *Stage) resumes(name string) {
	s.F.Resume(target(name))
	if !strings.Contains(name, "/") {
		s.F.Resumed()
	}
}

// ends ends a run as its executor reports: "1#7 failed:handler".
func (s *Stage) ends(args string) {
	name, end, _ := strings.Cut(args, " ")
	state, reason, _ := strings.Cut(end, ":")
	f := finish.New(s.F.E, finish.Options{Now: s.F.Now})
	check.OK(s.T, errors.Join(f.End(Ctx, []finish.Result{{Run: s.Run(name), State: core.State(state), Reason: core.Reason(reason),
		Reported: true}})...))
}
