package manage

import (
	"context"
	"errors"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

// MaxPause is the maximum duration of a pause that ends automatically.
const MaxPause = 10 * 366 * 24 * time.Hour

// Pause stops the schedules of a job, an app, or all jobs from now on. If the target is already paused as requested,
// Pause changes nothing.
func (m *Manage) Pause(ctx context.Context, actor core.Actor, t Target, r PauseRequest) (StateResult, error) {
	if err := m.checkTarget(actor, t, r.Why); err != nil {
		return StateResult{}, err
	}
	until, err := m.until(r.Until)
	if err != nil {
		return StateResult{}, err
	}
	switch {
	case t.Job != "":
		return m.editState(ctx, t.Job, m.pausing(actor, r, until))
	case t.App != "":
		return m.editApp(ctx, actor, t.App, r.Why, pauseOf(actor, r.Why, until))
	}
	return m.editGlobal(ctx, actor, r.Why, pauseOf(actor, r.Why, until))
}

// Resume ends the pause of a job immediately, and the pause of an app or of all jobs after Options.ResumeAhead.
// Scheduled times during the pause are never run.
func (m *Manage) Resume(ctx context.Context, actor core.Actor, t Target, why string) (StateResult, error) {
	if err := m.checkTarget(actor, t, why); err != nil {
		return StateResult{}, err
	}
	switch {
	case t.Job != "":
		return m.editState(ctx, t.Job, m.resuming(actor, why))
	case t.App != "":
		return m.editApp(ctx, actor, t.App, why, m.resumeOf)
	}
	return m.editGlobal(ctx, actor, why, m.resumeOf)
}

func (m *Manage) checkTarget(actor core.Actor, t Target, why string) error {
	if err := actor.Validate(); err != nil {
		return err
	}
	n := 0
	for _, named := range []bool{t.Job != "", t.App != "", t.All} {
		if named {
			n++
		}
	}
	if n != 1 {
		return core.Invalid("target", "", "name exactly one of: a job, an app, or everything")
	}
	return CheckWhy(why)
}

// editState pauses or resumes a job.
func (m *Manage) editState(ctx context.Context, ref string, build buildEdit) (StateResult, error) {
	job, changed, err := m.editJob(ctx, ref, build)
	if err != nil {
		return StateResult{}, err
	}
	return StateResult{Changed: changed, State: job.Sched.State, Rev: job.Sched.Rev, Until: job.Sched.PauseUntil.Time()}, nil
}

// pausing returns the edit that pauses a job.
func (m *Manage) pausing(actor core.Actor, r PauseRequest, until time.Time) buildEdit {
	end := core.Instant(0)
	if !until.IsZero() {
		end = core.InstantOf(until)
	}
	return func(old *core.Job) (*edit, error) {
		if err := revIs(old, r.IfRev); err != nil {
			return nil, err
		}
		s := &old.Sched
		if s.State == core.Paused && s.PauseUntil == end && (r.Why == "" || r.Why == s.PauseWhy) {
			return nil, nil
		}
		e := newEdit(old, actor, core.VerbPaused, r.Why, m.ask.Stamp())
		e.want.Sched = plan.Pause(e.want.Sched, actor.Name, r.Why, end, m.plans)
		return e, nil
	}
}

func revIs(old *core.Job, want *int64) error {
	if want != nil && *want != old.Sched.Rev {
		return core.Errorf(core.CodeConflict, "job %s was changed in the meantime: reload the job and try again", old.Name())
	}
	return nil
}

// resuming returns the edit that ends the pause of a job.
func (m *Manage) resuming(actor core.Actor, why string) buildEdit {
	return func(old *core.Job) (*edit, error) {
		if old.Sched.State != core.Paused {
			return nil, nil
		}
		e := newEdit(old, actor, core.VerbResumed, why, m.ask.Stamp())
		return e, m.start(e)
	}
}

// start starts the schedule of an edit's job again.
func (m *Manage) start(e *edit) error {
	sch, err := schedule.Compile(e.want.Sched.Schedule, e.want.Def.ID)
	if err != nil {
		return core.Errorf(core.CodeRefused, "the schedule of job %s cannot be started: %v", e.want.Name(), err)
	}
	e.want.Sched = plan.Start(e.want.Sched, sch, m.plans)
	return nil
}

// buildEdit returns the edit of a job as read, or nil if the job is already as wanted.
type buildEdit func(old *core.Job) (*edit, error)

// editJob changes one job.
func (m *Manage) editJob(ctx context.Context, ref string, build buildEdit) (job core.Job, changed bool, err error) {
	var attempts []core.Job
	unclear := core.Say("could not confirm that the change of job %s was stored: reload the job and try again", ref)
	err = budget.UpdateWithRetry(ctx, unclear, func() (done bool, err error) {
		if job, err = m.ask.Job(ctx, ref); err != nil {
			return false, err
		}
		old := job
		if changed = mine(&old, attempts); changed {
			m.plan(ctx, old.Sched)
			return true, nil
		}
		if some, err := m.pausesEnded(ctx, []*core.Job{&old}); some || err != nil {
			return false, err
		}
		e, err := build(&old)
		if err != nil || e == nil {
			return true, err
		}
		g, err := m.ask.Global(ctx)
		if err != nil {
			return false, err
		}
		attempts = append(attempts, e.want)
		if changed, err = budget.WriteResult(m.commit(ctx, []*edit{e}, g)[0]); changed {
			job = e.want
			m.plan(ctx, job.Sched)
		}
		return changed, err
	})
	return job, changed, err
}

// pausesEnded stores pauses of jobs that have ended before a tick stored their end. Runs since that end are expected, and a
// change of the paused job would lose them. If it stored some, it returns true and all jobs must be read again.
func (m *Manage) pausesEnded(ctx context.Context, jobs []*core.Job) (some bool, err error) {
	var moves []store.JobPut
	for _, j := range jobs {
		s := j.Sched
		if s.State != core.Paused || s.PauseUntil == 0 || s.PauseUntil > core.InstantOf(m.ask.Now()) {
			continue
		}
		sch, err := schedule.Compile(s.Schedule, s.ID)
		if err != nil {
			continue // it expects no runs, and this change is how a user repairs it
		}
		move, change := plan.EndPause(s, sch, m.plans)
		moves = append(moves, store.JobPut{Advance: &move, Changes: []core.Change{change}})
	}
	if len(moves) == 0 {
		return false, nil
	}
	for _, err := range m.store.Jobs.Put(ctx, moves) {
		switch {
		case errors.Is(err, core.ErrThrottled):
			return false, core.Retryable(err)
		case ctx.Err() != nil:
			return false, core.Retryable(ctx.Err())
		}
	}
	return true, nil
}

// plan plans the jobs that are due at once.
func (m *Manage) plan(ctx context.Context, scheds ...core.Sched) {
	var due []toPlan
	for i := range scheds {
		if s := &scheds[i]; duePlan(s, m.ask.Now()) {
			if sch, err := schedule.Compile(s.Schedule, s.ID); err == nil {
				due = append(due, toPlan{*s, sch})
			}
		}
	}
	m.planNow(ctx, due)
}

// changePause returns the pause after the last one, and its verb; an empty verb changes nothing.
type changePause func(last core.Pause, now time.Time) (next core.Pause, verb string)

func pauseOf(actor core.Actor, why string, until time.Time) changePause {
	return func(last core.Pause, now time.Time) (core.Pause, string) {
		if !last.Covers(now) {
			return core.Pause{From: now, To: until, By: actor.Name, Why: why}, core.VerbPaused
		}
		if last.To.Equal(until) && (why == "" || why == last.Why) {
			return last, ""
		}
		return core.Pause{From: last.From, To: until, By: actor.Name, Why: why}, core.VerbPaused
	}
}

// resumeOf ends a pause after ResumeAhead. A dispatcher that read the pause without its end drops
// the runs in it. So no run may be due before every dispatcher has read the end.
func (m *Manage) resumeOf(last core.Pause, now time.Time) (core.Pause, string) {
	to := now.Add(m.o.ResumeAhead)
	if !last.Covers(now) || !last.To.IsZero() && !last.To.After(to) {
		return last, "" // it has ended or is about to
	}
	last.To = to
	return last, core.VerbResumed
}

// tooNear reports whether the end of a pause was stored too late. A dispatcher with a fast clock
// may then have dropped a run after the end. The end must be written again, further ahead.
func (m *Manage) tooNear(verb string, p core.Pause) bool {
	return verb == core.VerbResumed && m.ask.Now().After(p.To.Add(-m.o.ResumeAhead*4/5))
}

// reopened removes the end of a pause if it is the one that was written too late.
func reopened(p, near core.Pause) core.Pause {
	if !near.To.IsZero() && samePause(p, near) {
		p.To = time.Time{}
	}
	return p
}

// pauseResult returns the state after a change, or without one. A resumed target is Started, from Until on.
func pauseResult(p core.Pause, now time.Time, rev int64, verb string) StateResult {
	r := StateResult{Changed: verb != "", State: core.Started, Rev: rev}
	if p.Covers(now) {
		r.State, r.Until = core.Paused, p.To
	}
	if verb == core.VerbResumed {
		r.State = core.Started
	}
	return r
}

// pausable is an app or the global item as read. put stores it with another pause, and sets the old and new values of the record.
type pausable struct {
	rev   int64
	pause core.Pause
	put   func(next core.Pause, c *core.Change) error
}

func (m *Manage) editApp(ctx context.Context, actor core.Actor, name, why string, change changePause) (StateResult, error) {
	return m.editPause(ctx, core.Say("the change of app %s", name), actor.Did(core.Change{App: name, Why: why}), change,
		func() (pausable, error) {
			old, err := m.ask.App(ctx, name)
			return pausable{old.Rev, old.Pause, func(next core.Pause, c *core.Change) error {
				want := old
				want.Pause, want.Rev = next, c.ID
				c.Old, c.New = core.AppRecordOf(&old).String(), core.AppRecordOf(&want).String()
				return m.store.PutApp(ctx, old.Rev, want, *c)
			}}, err
		})
}

// editGlobal changes the pause of everything. The record is written after the change. If that fails, the item still names the
// user and the reason, and the next record has them as the old value.
func (m *Manage) editGlobal(ctx context.Context, actor core.Actor, why string, change changePause) (StateResult, error) {
	return m.editPause(ctx, core.Say("the change"), actor.Did(core.Change{Why: why}), change, func() (pausable, error) {
		old, err := m.ask.Global(ctx)
		return pausable{old.Rev, old.Pause, func(next core.Pause, c *core.Change) error {
			want := old
			want.Pause, want.Rev = next, c.ID
			c.Old, c.New = core.GlobalRecordOf(&old).String(), core.GlobalRecordOf(&want).String()
			return m.store.PutGlobal(ctx, old.Rev, want)
		}}, err
	})
}

// editPause changes the pause of an app or of everything.
func (m *Manage) editPause(
	ctx context.Context, what core.Text, c core.Change, change changePause, read func() (pausable, error),
) (res StateResult, err error) {
	type attempt struct {
		pause core.Pause
		c     core.Change
	}
	var attempts []attempt
	var near core.Pause
	stands := func(a *attempt) bool {
		if m.tooNear(a.c.Verb, a.pause) {
			near = a.pause
			return false
		}
		if a.c.App == "" {
			m.record(ctx, a.c)
		}
		res = pauseResult(a.pause, a.c.At, a.c.ID, a.c.Verb)
		return true
	}
	err = budget.UpdateWithRetry(ctx, core.Say("could not confirm that %s was stored: check the stored value, then try again",
		what), func() (bool, error) {
		old, err := read()
		if err != nil {
			return false, err
		}
		for i := range attempts {
			// Another user may have changed something else since.
			if a := &attempts[i]; a.c.ID <= old.rev && samePause(a.pause, old.pause) && stands(a) {
				return true, nil
			}
		}
		now := m.ask.Stamp()
		a := attempt{c: c}
		if a.pause, a.c.Verb = change(reopened(old.pause, near), now); a.c.Verb == "" {
			res = pauseResult(old.pause, now, old.rev, "")
			return true, nil
		}
		a.c.ID, a.c.At = max(core.Millis(now), old.rev+1), now
		done, err := budget.WriteResult(old.put(a.pause, &a.c))
		attempts = append(attempts, a)
		return done && stands(&a), err
	})
	if res.Changed && res.State == core.Paused {
		m.wake(ctx, c.App)
	}
	return res, err
}

// wake wakes the waiting runs of an app, or of all apps if the name is empty.
func (m *Manage) wake(ctx context.Context, app string) {
	if app != "" {
		m.finish.WakeApp(ctx, app)
		return
	}
	apps, _, _ := m.ask.Apps(ctx) // without it, the runs find the pause at their next check
	for i := range apps {
		m.finish.WakeApp(ctx, apps[i].Name)
	}
}

func samePause(a, b core.Pause) bool {
	return a.From.Equal(b.From) && a.To.Equal(b.To) && a.By == b.By && a.Why == b.Why
}
