package manage

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

// Save creates or changes jobs. Each job succeeds or fails independently, and the results are in the order of specs.
// A job that is already as wanted is not written.
func (m *Manage) Save(ctx context.Context, actor core.Actor, specs []JobSpec) []SaveResult {
	if err := actor.Validate(); err != nil {
		return refuseAll(specs, err)
	}
	return m.save(ctx, actor, specs, apply, nil, nil)
}

// Check returns the results that Save would return, and changes nothing. beside has the parents of further jobs,
// which other calls save together with specs. apps are saved before the jobs.
func (m *Manage) Check(ctx context.Context, specs []JobSpec, beside After, apps ...AppSpec) []SaveResult {
	return m.save(ctx, core.Actor{}, specs, check, beside, apps)
}

// purpose is the purpose of a save.
type purpose int

const (
	check    purpose = iota // writes nothing
	apply                   // creates or changes jobs as in specs
	giveBack                // returns the jobs to their code, unchanged
)

func refuseAll(specs []JobSpec, err error) []SaveResult {
	results := make([]SaveResult, len(specs))
	for i := range specs {
		results[i] = SaveResult{App: specs[i].Def.App, Name: specs[i].Def.Name, Change: Refused, Err: err}
	}
	return results
}

// saving is one spec of a Save in progress.
type saving struct {
	spec     *JobSpec
	job      core.Job // wanted: normalized, without ID and revision
	result   *SaveResult
	attempts []core.Job
	change   string // result if an attempt was stored
	unclear  int    // number of attempts without a clear answer
	full     bool   // the last attempt was throttled, and nothing of it was stored
	id       core.JobID
	old      *core.Job // the stored job, or nil
	sch      *schedule.Schedule
	schOf    core.JobID
}

func (s *saving) refuse(err error) {
	s.result.Change, s.result.Err = Refused, err
}

func (m *Manage) save(ctx context.Context, actor core.Actor, specs []JobSpec, to purpose, beside After, made []AppSpec) []SaveResult {
	if len(specs) > MaxSave {
		return refuseAll(specs, core.Errorf(core.CodeTooLarge, "%d jobs in one request; at most %d are allowed", len(specs), MaxSave))
	}
	results := make([]SaveResult, len(specs))
	seen := make(map[string]bool, len(specs))
	todo := make([]*saving, 0, len(specs))
	for i := range specs {
		spec := &specs[i]
		d := &spec.Def
		results[i] = SaveResult{App: d.App, Name: d.Name, Change: Refused}
		s := &saving{spec: spec, result: &results[i], job: core.Job{Def: *d, Sched: core.Sched{
			Schedule: spec.Schedule, Misfire: spec.Misfire, Grace: spec.Grace, Deadline: spec.Deadline}}}
		s.job.Def.ID, s.job.Def.Declared = 0, ""
		s.job.Normalize()
		if err := m.checkSpec(s); err != nil {
			s.refuse(err)
			continue
		}
		if name := s.job.Name(); seen[name] {
			s.refuse(core.Invalid("name", name, "named twice"))
			continue
		}
		seen[s.job.Name()] = true
		todo = append(todo, s)
	}
	if to == check {
		beside = maps.Clone(beside)
		for _, s := range todo {
			if beside == nil {
				beside = After{}
			}
			beside[s.job.Name()] = s.job.Def.After
		}
	}
	w := &waits{most: m.o.Backoff, wait: m.o.Backoff, moved: time.Now(), end: time.Now().Add(2 * saveRoom)}
	for _, level := range levels(todo) {
		for part := range slices.Chunk(level, budget.AtOnce) {
			for len(part) > 0 {
				r := round{m: m, actor: actor, to: to, beside: beside, made: made}
				left := r.save(ctx, part)
				part = w.again(ctx, left, len(left) < len(part))
			}
		}
	}
	return results
}

// checkSpec checks a spec without reading the store.
func (m *Manage) checkSpec(s *saving) error {
	err := s.script()
	if err == nil {
		err = s.job.Validate()
	}
	command := s.job.Def.Command
	switch {
	case err != nil:
		return err
	case s.spec.Declared && s.spec.Paused != nil:
		return core.Invalid("paused", "", "not allowed for a job that code declares: only users pause and resume the job")
	case command == nil:
		return nil
	case s.spec.Declared:
		return core.Errorf(core.CodeForbidden, "code cannot declare a job with a command, because the server runs "+
			"commands on its own machine: use the admin token")
	}
	return m.o.Command(command)
}

// saveRoom is how long a save waits for an overloaded store. If the store accepts some jobs, the save waits for at most
// twice saveRoom in total.
const saveRoom = 10 * time.Second

// waits limits how long a save waits for a throttled store.
type waits struct {
	most  time.Duration // limit of the first wait after progress
	wait  time.Duration // limit of the next wait
	moved time.Time     // when a job was last stored or rejected
	end   time.Time
}

func (w *waits) over() bool { return time.Since(w.moved) >= saveRoom || !time.Now().Before(w.end) }

// again returns the savings to try again, after a wait if the store was throttled. The wait is
// random, since other saves wait too. It rejects the others.
func (w *waits) again(ctx context.Context, left []*saving, moved bool) []*saving {
	if moved {
		w.moved, w.wait = time.Now(), w.most
	}
	isFull := func(s *saving) bool { return s.full }
	if slices.ContainsFunc(left, isFull) && !w.over() {
		store.Sleep(ctx, rand.N(w.wait)+1)
		w.wait = min(2*w.wait, max(saveRoom/10, w.most))
	}
	over := ctx.Err() != nil || w.over()
	return slices.DeleteFunc(left, func(s *saving) bool {
		switch {
		case s.unclear == budget.Tries || s.unclear > 0 && s.full && over:
			s.refuse(core.Errorf(core.CodeUnavailable, "could not confirm that the job was stored: reload the job and try "+
				"again"))
		case s.full && over:
			reason := core.Say("the database was overloaded, and the job was not changed: try again")
			if len(s.attempts) > 0 { // an answer may be lost, and its repetition was throttled
				reason = core.Say("the database was overloaded, and the job may not be stored: apply again")
			}
			s.refuse(&core.Error{Code: core.CodeUnavailable, Err: core.ErrThrottled, Reason: reason})
		case ctx.Err() != nil:
			s.refuse(core.Retryable(ctx.Err()))
		default:
			s.full = false
			return false
		}
		return true
	})
}

// later handles jobs whose read failed: it returns them if the store was throttled, and rejects them otherwise.
func later(part []*saving, err error) []*saving {
	for _, s := range part {
		if s.full = errors.Is(err, core.ErrThrottled); !s.full {
			s.refuse(core.Retryable(err))
		}
	}
	if len(part) > 0 && part[0].full {
		return part
	}
	return nil
}

// inApps returns the jobs whose apps exist and accept them. The apps in made count as saved.
func (r *round) inApps(ctx context.Context, todo []*saving) ([]*saving, error) {
	var names []string
	for _, s := range todo {
		names = append(names, s.job.Def.App)
	}
	slices.Sort(names)
	apps, bad, err := store.Split(r.m.store.Apps(ctx, slices.Compact(names)...))
	if err != nil {
		return nil, core.Retryable(err)
	}
	for _, a := range r.made {
		apps[a.Name] = core.App{Name: a.Name, Executors: core.NormalAddresses(a.Executors)}
	}
	ready := make([]*saving, 0, len(todo))
	for _, s := range todo {
		app := apps[s.job.Def.App]
		err := app.CheckWork(&s.job.Def)
		if err == nil {
			err = app.CheckRoute(s.job.Def.Route)
		}
		if err == nil {
			err = app.CheckCall(s.job.Def.Call)
		}
		switch {
		case bad[s.job.Def.App] != nil:
			s.refuse(core.UnreadableApp(s.job.Def.App, bad[s.job.Def.App]))
		case app.Name == "":
			s.refuse(&core.Error{Code: core.CodeNotFound, Field: "app", Value: s.job.Def.App,
				Reason: core.Say("the app does not exist: create it first")})
		case err != nil:
			s.refuse(err)
		default:
			ready = append(ready, s)
		}
	}
	return ready, nil
}

// round is one read, comparison and write of some jobs.
type round struct {
	m      *Manage
	actor  core.Actor
	to     purpose
	beside After
	made   []AppSpec
	global core.Global
	now    time.Time
	edits  []*edit
	of     []*saving // the job of each edit
	plans  []toPlan
}

// save returns the jobs without a clear answer.
func (r *round) save(ctx context.Context, part []*saving) (left []*saving) {
	m, write := r.m, r.to != check
	for _, step := range []func(context.Context, []*saving) ([]*saving, error){r.inApps, r.toKnown, r.read} {
		ready, err := step(ctx, part)
		if err != nil {
			return later(part, err)
		}
		part = ready
	}
	if write {
		some, err := r.pausesEnded(ctx, part)
		if err != nil {
			return later(part, err)
		}
		if some {
			return part
		}
	}
	part, err := m.before(ctx, part, r.beside)
	if err != nil {
		return later(part, err)
	}
	r.now = m.ask.Stamp()
	var fresh []*saving
	for _, s := range part {
		if s.old != nil && mine(s.old, s.attempts) {
			r.finish(s, s.old)
		} else if err := s.expect(); err != nil {
			s.refuse(err)
		} else if s.old == nil {
			fresh = append(fresh, s)
		} else {
			r.edit(s)
		}
	}
	fresh = m.notWithheld(ctx, fresh)
	if err := m.number(ctx, fresh, write); err != nil {
		left, fresh = later(fresh, err), nil
	}
	for _, s := range fresh {
		r.edit(s)
	}
	if r.edits, r.of, err = m.edges(ctx, r.edits, r.of, r.beside); err != nil {
		return later(part, err)
	}
	if write {
		return append(left, r.write(ctx)...)
	}
	for _, s := range r.of {
		s.is(cmp.Or(s.old, &core.Job{}), s.change)
		s.result.Old = s.old
	}
	return left
}

// is sets the result of a job.
func (s *saving) is(j *core.Job, change string) {
	s.result.ID, s.result.Rev, s.result.Change, s.result.Err = j.Def.ID, j.Sched.Rev, change, nil
}

// finish sets the result of a stored job, and plans the job if it is due.
func (r *round) finish(s *saving, j *core.Job) {
	s.is(j, s.change)
	if s.sch != nil && s.schOf == j.Def.ID {
		r.plans = append(r.plans, toPlan{j.Sched, s.sch})
	}
}

// edit adds the edit of a job, or rejects it.
func (r *round) edit(s *saving) {
	e, err := r.m.editOf(s, r.actor, r.to, r.now)
	switch {
	case err != nil:
		s.refuse(err)
	case e == nil:
		s.is(s.old, Unchanged)
	default:
		s.change = changeOf(s.old == nil)
		r.edits, r.of = append(r.edits, e), append(r.of, s)
	}
}

// write stores the edits, and returns the jobs without a clear answer.
func (r *round) write(ctx context.Context) (left []*saving) {
	m := r.m
	if err := m.looked(ctx, r.edits); err != nil {
		return later(r.of, core.Retryable(err))
	}
	for i, err := range m.commit(ctx, r.edits, r.global) {
		s := r.of[i]
		s.attempts = append(s.attempts, r.edits[i].want)
		switch done, failed := budget.WriteResult(err); {
		case done:
			r.finish(s, &r.edits[i].want)
		case forGood(err):
			s.refuse(err)
		case failed != nil:
			s.full = true
			left = append(left, s)
		default:
			s.unclear++
			left = append(left, s)
		}
	}
	m.planNow(ctx, r.plans)
	return left
}

// pausesEnded stores the ends of pauses of the jobs. If there are some, all jobs must be read again.
func (r *round) pausesEnded(ctx context.Context, part []*saving) (some bool, err error) {
	var jobs []*core.Job
	for _, s := range part {
		if s.old != nil {
			jobs = append(jobs, s.old)
		}
	}
	if some, err = r.m.pausesEnded(ctx, jobs); some {
		for _, s := range part {
			s.unclear++
		}
	}
	return some, err
}

// read reads the stored jobs of the specs, and returns the specs without the ones whose job is unreadable.
func (r *round) read(ctx context.Context, part []*saving) (ready []*saving, err error) {
	if r.global, err = r.m.ask.Global(ctx); err != nil {
		return nil, err
	}
	stored, bad, err := r.m.stored(ctx, part)
	if err != nil {
		return nil, err
	}
	for _, s := range part {
		s.old = stored[s.job.Name()]
		if why := bad[s.job.Name()]; why != nil {
			s.refuse(why)
		} else {
			ready = append(ready, s)
		}
	}
	return ready, nil
}

// stored reads the jobs that the specs name, by app/name. bad has the unreadable ones.
func (m *Manage) stored(ctx context.Context, part []*saving) (stored map[string]*core.Job, bad map[string]error, err error) {
	byApp := map[string][]string{}
	for _, s := range part {
		byApp[s.job.Def.App] = append(byApp[s.job.Def.App], s.job.Def.Name)
	}
	var ids []core.JobID
	names := map[core.JobID]string{}
	for app, of := range byApp {
		found, err := m.store.Jobs.Named(ctx, app, of)
		if err != nil {
			return nil, nil, core.Retryable(err)
		}
		for name, id := range found {
			ids = append(ids, id)
			names[id] = app + "/" + name
		}
	}
	stored, bad = make(map[string]*core.Job, len(ids)), map[string]error{}
	for some := range slices.Chunk(ids, budget.AtOnce) {
		found, worse, err := store.Split(store.Unlocked(m.store.Jobs.Get(ctx, store.Whole, some)))
		if err != nil {
			return nil, nil, core.Retryable(err)
		}
		for id, why := range worse {
			bad[names[id]] = core.UnreadableJob(id, why)
		}
		for _, j := range found {
			stored[j.Name()] = j
		}
	}
	return stored, bad, nil
}

// expect checks the revision and set that the owner expects.
func (s *saving) expect() error {
	is := cmp.Or(s.old, &core.Job{})
	return expect("job "+s.job.Name(), s.spec.IfRev, s.old != nil, is.Sched.Rev, s.job.Def.Set, is.Def.Set)
}

func (s *saving) compile(id core.JobID) error {
	if s.sch != nil && s.schOf == id {
		return nil
	}
	sch, err := schedule.Compile(s.job.Sched.Schedule, id)
	if err != nil {
		return err
	}
	s.sch, s.schOf = sch, id
	return nil
}

// never rejects a schedule that never fires.
func (s *saving) never(e *edit) error {
	if s.sch.Never(core.InstantOf(e.want.Sched.RevAt)) {
		return core.Invalid("schedule", s.sch.Describe().String(), "the schedule has no scheduled time after %s",
			core.InstantOf(e.want.Sched.RevAt))
	}
	return nil
}

// editOf returns the edit that creates or changes a job, or nil if it is already as wanted.
func (m *Manage) editOf(s *saving, actor core.Actor, to purpose, now time.Time) (*edit, error) {
	if s.old == nil {
		return m.createOf(s, actor, now)
	}
	want, old := s.job, s.old
	want.Def.ID, want.Def.Created = old.Def.ID, old.Def.Created
	var err error
	if want.Def.Call, err = want.Def.Call.Kept(old.Def.Call); err != nil {
		return nil, err
	}
	if want.Def.Command, err = want.Def.Command.Kept(old.Def.Command); err != nil {
		return nil, err
	}
	if want.Def.Set == "" {
		want.Def.Set = old.Def.Set
	}
	if want.Def.Script.Same(old.Def.Script) { // the same version, perhaps with another note
		same := *old.Def.Script
		same.Note, want.Def.Script = want.Def.Script.Note, &same
	}
	isPaused := old.Sched.State == core.Paused
	toPause := isPaused
	if s.spec.Paused != nil {
		toPause = *s.spec.Paused
	}
	want.Def.Declared = old.Def.Declared
	if to == giveBack {
		want.Def.Declared = core.DeclaredCode
	}
	o, w := &old.Sched, &want.Sched
	rules := w.Schedule.Equal(o.Schedule)
	same := rules && want.Def.Equal(old.Def) && w.Misfire == o.Misfire && w.Grace == o.Grace && w.Deadline == o.Deadline
	switch {
	case same && toPause == isPaused:
		return nil, nil
	case same, to == giveBack: // a pause is not a change of a declaration
	case s.spec.Declared && old.Def.Declared != core.DeclaredCode:
		return nil, core.Errorf(core.CodeConflict, "job %s was created or changed by a user: code cannot change the job until "+
			"a user runs `tickring return-to-code`",
			old.Name())
	case !s.spec.Declared && old.Def.Declared != "":
		want.Def.Declared = core.DeclaredTaken
	}
	if err := s.compile(old.Def.ID); err != nil {
		return nil, err
	}
	verb := core.VerbUpdated
	if same {
		verb = core.VerbResumed
		if toPause {
			verb = core.VerbPaused
		}
	}
	e := newEdit(old, actor, verb, "", now)
	if !rules {
		if err := s.never(e); err != nil {
			return nil, err
		}
	}
	e.want.Def = want.Def
	if want.Def.Script != nil && !want.Def.Script.Same(old.Def.Script) {
		e.script(s.spec.Source)
	}
	n := &e.want.Sched
	n.Schedule, n.Misfire, n.Grace, n.Deadline = w.Schedule, w.Misfire, w.Grace, w.Deadline
	switch {
	case !toPause:
		*n = plan.Start(*n, s.sch, m.plans)
	case isPaused:
		*n = plan.Pause(*n, o.PauseBy, o.PauseWhy, o.PauseUntil, m.plans)
	default:
		*n = plan.Pause(*n, actor.Name, "", 0, m.plans)
	}
	return e, nil
}

// number allocates IDs for new jobs that have none yet.
func (m *Manage) number(ctx context.Context, fresh []*saving, write bool) error {
	var need []*saving
	for _, s := range fresh {
		if s.id == 0 {
			need = append(need, s)
		}
	}
	if len(need) == 0 {
		return nil
	}
	if !write {
		for _, s := range need {
			s.id = 1 // any ID: a check does not return it
		}
		return nil
	}
	var first core.JobID
	if err := budget.RetryUntilCertain(ctx, func() (err error) { first, err = m.store.JobIDs(ctx, len(need)); return err }); err != nil {
		return err
	}
	for i, s := range need {
		s.id = first + core.JobID(i)
	}
	return nil
}

// createOf returns the edit that creates a job.
func (m *Manage) createOf(s *saving, actor core.Actor, now time.Time) (*edit, error) {
	if err := s.compile(s.id); err != nil {
		return nil, err
	}
	e := &edit{want: s.job, verb: core.VerbCreated, by: actor, at: now}
	var err error
	if e.want.Def.Call, err = s.job.Def.Call.Kept(nil); err != nil {
		return nil, err
	}
	if e.want.Def.Command, err = s.job.Def.Command.Kept(nil); err != nil {
		return nil, err
	}
	e.want.Def.ID, e.want.Def.Created = s.id, now
	if s.spec.Declared {
		e.want.Def.Declared = core.DeclaredCode
	}
	n := &e.want.Sched
	n.ID = s.id
	n.Rev, n.RevAt = core.NextRev(0, time.Time{}, now)
	if e.want.Def.Script != nil {
		e.script(s.spec.Source)
	}
	if err := s.never(e); err != nil {
		return nil, err
	}
	if s.spec.Paused != nil && *s.spec.Paused {
		*n = plan.Pause(*n, actor.Name, "", 0, m.plans)
	} else {
		*n = plan.Start(*n, s.sch, m.plans)
	}
	return e, nil
}
