package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

const (
	MaxPage     = 1000
	DefaultPage = 100
	MaxUpcoming = 366 * 24 * time.Hour
	// firstInstant is the earliest scheduled time that a run ID can hold.
	firstInstant = core.Instant(1577836800)
)

// JobFilter selects jobs. The zero value selects all jobs.
type JobFilter struct {
	App    string
	Labels map[string]string // the job must have all of these labels; an empty value matches any value
	States []core.JobState
	Set    string
	Text   string     // part of the name, title, author, handler, params or schedule, ignoring case; or the job number
	After  core.JobID // job number after which the page begins
	Limit  int        // maximum number of jobs, at most 1000; 0: 100
	Last   bool       // the page includes the last run of each job
	Job    core.JobID // only for Upcoming: selects this job
	// Sees reports whether the caller can see an app; nil: the caller can see all apps. If Sees is set, unreadable
	// jobs are included only if App is set too.
	Sees func(app string) bool
}

// JobPage is one page of jobs, ordered by job number.
type JobPage struct {
	Jobs []core.Job
	Last []*core.Run // last run of each job in Jobs, nil if the job has no run; empty unless JobFilter.Last is set
	// Failed has the unreadable jobs, which are not in Jobs.
	Failed map[core.JobID]error
	Next   core.JobID // value of After for the next page; 0: this is the last page
}

// RunView is one run, or a skip record instead of a run.
type RunView struct {
	Run core.Run
	// Skip is the skip record of the scheduled time if no run exists. If Skip is set, Run has only ID, App, At, State
	// and Reason.
	Skip   *core.Skip
	Job    *core.Job    // nil if the job was deleted
	ThenAt core.Instant // due time of the next attempt; 0: no attempt followed, or its record was removed
	// Waits is when the run stops waiting for an executor; zero: the run does not wait.
	Waits time.Time
	// Permits is the state of a concurrency limit that applies to the open run. If the run waits for a slot, this is
	// the limit without a free slot.
	Permits *core.Permits
	// Missing lists the parents that have not ended, if the run waits for a join.
	Missing []string
	// Answer is the executor's answer to the send of an open run, if the answer was inconclusive.
	Answer string
	Away   core.Text // text about a server outage at the scheduled time of Skip; zero: no outage is known
}

// RunPage is one page of runs, newest first.
type RunPage struct {
	Runs []core.Run
	// Skips lists the skip records that overlap the time span of the page, if RunFilter.Job is set.
	Skips []core.Skip
	Next  string // value of After for the next page; empty: this is the last page
	// LookedTo is the time back to which the page has searched; zero if the page is full or the last one.
	LookedTo time.Time
	// NoWaiting is true if the page cannot contain runs that wait for their due time. Only pages of one job can
	// contain these runs.
	NoWaiting bool
	// Jobs has the jobs of the runs in Runs, except deleted jobs.
	Jobs map[core.JobID]*core.Job
	// ThenAt maps the IDs of the retries that followed the runs in Runs to their due times. Removed retries are left
	// out.
	ThenAt map[core.RunID]core.Instant
	// Waits has the times when runs stop waiting for an executor. Runs with a concurrency limit are left out.
	Waits map[core.RunID]time.Time
}

// Coming is one future run.
type Coming struct {
	At   core.Instant
	Job  core.JobID
	App  string
	Name string
	// Timezone is the time zone of the job.
	Timezone string
	Cause    core.Cause
	Run      core.RunID // ID that the run will have
}

func comingOf(j *core.Job, at core.Instant) Coming {
	return Coming{At: at, Job: j.Def.ID, App: j.Def.App, Name: j.Def.Name, Timezone: j.Sched.Schedule.Timezone,
		Cause: core.CauseSchedule, Run: core.PlannedRun(j.Def.ID, at)}
}

// UpcomingResult lists future runs, earliest first.
type UpcomingResult struct {
	Coming []Coming
	// Partial is true if the list leaves out further runs of the jobs that were read, or if some jobs cannot be read.
	Partial bool
	Next    core.JobID // value of After for the next page, which has the runs of further jobs; 0: this is the last page
}

type Preview struct {
	Words core.Text      // description of the schedule
	Next  []core.Instant // next scheduled times
	Ends  bool           // the schedule has no times after the last time in Next
	Traps []core.Text    // warnings about unexpected effects of the schedule
}

// ExecutorView is one executor as shown to users.
type ExecutorView struct {
	core.Executor
	Live bool
	Used bool // false if the executor has registered itself, but the app has fixed addresses
	// Replaced is true if the executor has stopped and a later registration replaced it.
	Replaced bool
}

// RunRef is a reference to a run: a run ID, or the job and scheduled time as in app/name@2026-11-20T02:30, in the
// job's time zone. A waiting trigger with a key can be written as app/name#key.
type RunRef = string

func limitOf(limit int) (int, error) {
	if limit < 0 || limit > MaxPage {
		return 0, core.Invalid("limit", strconv.Itoa(limit), "allowed values: 1 to %d", MaxPage)
	}
	return cmp.Or(limit, DefaultPage), nil
}

// checkPeriod checks the optional bounds of a period.
func checkPeriod(from, to time.Time) error {
	if !from.IsZero() && !to.IsZero() && from.After(to) {
		return core.Invalid("from", from.Format(time.RFC3339), "must be earlier than the end of the period (`to`), %s",
			to.Format(time.RFC3339))
	}
	return nil
}

// JobID returns the ID of a job from a reference, which is app/name or the job's number. It does not check whether a
// job with the number exists.
func (q *Queries) JobID(ctx context.Context, ref string) (core.JobID, error) {
	app, name, named := strings.Cut(ref, "/")
	if !named {
		n, err := strconv.ParseInt(ref, 10, 32)
		if err != nil || n <= 0 {
			return 0, core.Invalid("job", ref, "write a job as app/name or as its number")
		}
		return core.JobID(n), nil
	}
	if err := core.CheckAppName("job", app); err != nil {
		return 0, err
	}
	if err := core.CheckName("job", name); err != nil {
		return 0, err
	}
	ids, err := q.store.Jobs.Named(ctx, app, []string{name})
	if err != nil {
		return 0, core.Retryable(err)
	}
	id, ok := ids[name]
	if !ok {
		return 0, core.Errorf(core.CodeNotFound, "job %s does not exist", ref)
	}
	return id, nil
}

func (q *Queries) Job(ctx context.Context, ref string) (core.Job, error) {
	id, err := q.JobID(ctx, ref)
	if err != nil {
		return core.Job{}, err
	}
	j, err := q.storedJob(ctx, id)
	if err == nil && j == nil {
		err = core.Errorf(core.CodeNotFound, "job %s does not exist", ref)
	}
	if err != nil {
		return core.Job{}, err
	}
	return *j, nil
}

// storedJob reads a job, with locked secrets like FindApp; nil if there is none.
func (q *Queries) storedJob(ctx context.Context, id core.JobID) (*core.Job, error) {
	found, bad, err := store.Split(store.Unlocked(q.store.Jobs.Get(ctx, store.Whole, []core.JobID{id})))
	return found[id], cmp.Or(core.Retryable(err), core.UnreadableJob(id, bad[id]))
}

// tells returns the unreadable jobs that the caller may see. Their apps are known only if the filter has an app.
func (f *JobFilter) tells(bad map[core.JobID]error) map[core.JobID]error {
	if f.Sees != nil && (f.App == "" || !f.Sees(f.App)) {
		return nil
	}
	return bad
}

func (f *JobFilter) takes(j *core.Job) bool {
	if f.Sees != nil && !f.Sees(j.Def.App) {
		return false
	}
	if f.Set != "" && j.Def.Set != f.Set {
		return false
	}
	if len(f.States) > 0 && !slices.Contains(f.States, j.Sched.State) {
		return false
	}
	for key, want := range f.Labels {
		if got, ok := j.Def.Labels[key]; !ok || want != "" && got != want {
			return false
		}
	}
	return f.Text == "" || has(j, strings.ToLower(f.Text))
}

func (f *JobFilter) check() (limit int, err error) {
	if f.App != "" {
		if err := core.CheckAppName("app", f.App); err != nil {
			return 0, err
		}
	}
	for _, s := range f.States {
		if !slices.Contains(core.JobStates, s) {
			return 0, core.Invalid("state", string(s), "allowed values: started, paused, ended")
		}
	}
	if len(f.Labels) > core.MaxLabels || len(f.Text) > core.MaxTitle {
		return 0, core.Invalid("filter", "", "too long")
	}
	return limitOf(f.Limit)
}

// Jobs returns one page of jobs, ordered by number. The page ends after Options.PageFor, or when the maximum size is
// reached. So a page with fewer jobs than the limit, or without jobs, can still have a next page.
func (q *Queries) Jobs(ctx context.Context, f JobFilter) (JobPage, error) {
	limit, err := f.check()
	if err != nil {
		return JobPage{}, err
	}
	var res JobPage
	p := q.Page()
	if res.Next, err = q.EachJob(ctx, f.App, f.After, p, func(j *core.Job) bool {
		switch {
		case !f.takes(j):
		case len(res.Jobs) == limit:
			return false
		default:
			res.Jobs = append(res.Jobs, *j)
		}
		return true
	}); err != nil {
		return JobPage{}, err
	}
	fit := len(res.Jobs)
	if f.Last {
		last := make([]*core.Run, fit)
		if fit, err = p.SideBySide(fit, func(i int) (err error) {
			last[i], err = q.last(ctx, res.Jobs[i].Def.ID, p.Until)
			return err
		}); err != nil {
			return JobPage{}, err
		}
		res.Last = last
	}
	for i := range fit {
		if !p.Takes(&res.Jobs[i]) || f.Last && i > 0 && !p.Takes(res.Last[i]) {
			fit = i
			break
		}
	}
	if fit < len(res.Jobs) {
		res.Jobs, res.Next = res.Jobs[:fit], res.Jobs[fit-1].Def.ID
	}
	res.Failed = f.tells(p.Passed(res.Next))
	return res, nil
}

func (q *Queries) Last(ctx context.Context, job core.JobID) (*core.Run, error) {
	return q.last(ctx, job, q.Page().Until)
}

func (q *Queries) last(ctx context.Context, job core.JobID, until time.Time) (*core.Run, error) {
	p := q.Page()
	p.Until = until
	res, err := q.runs(ctx, RunFilter{Job: job.String(), Limit: 1, To: q.o.Now()}, p)
	if err != nil || len(res.Runs) == 0 {
		return nil, err
	}
	return &res.Runs[0], nil
}

// NextOf returns the next scheduled times of a job outside its own pause and the given pauses. It returns no times if
// a pause has no end. For a fixed delay, NextOf returns at most one time, because later times are unknown.
func (q *Queries) NextOf(job *core.Job, count int, pauses ...core.Pause) []core.Instant {
	return nextOf(&job.Sched, core.InstantOf(q.o.Now()), core.Horizon, min(count, MaxPage), pauses...)
}

// nextOf returns the scheduled times of a job with after < t <= end that are outside its own pause and the given
// pauses.
func nextOf(s *core.Sched, after, end core.Instant, count int, pauses ...core.Pause) []core.Instant {
	switch {
	case s.State != core.Paused: // an ended job's last run may be on its way
	case s.PauseUntil != 0:
		after = max(after, s.PauseUntil)
	default:
		return nil
	}
	if _, fixed := s.Schedule.FixedDelay(); fixed {
		paused := slices.ContainsFunc(pauses, func(p core.Pause) bool { return p.Covers(s.Next.Time()) })
		if s.State == core.Started && s.Tail == 0 && s.Next > after && s.Next <= end && count > 0 && !paused {
			return []core.Instant{s.Next}
		}
		return nil
	}
	sch, err := schedule.Compile(s.Schedule, s.ID)
	if err != nil {
		return nil
	}
	var next []core.Instant
	at, ok := sch.Next(after)
	for ok && at <= end && len(next) < count {
		i := slices.IndexFunc(pauses, func(p core.Pause) bool { return p.Covers(at.Time()) })
		switch {
		case i < 0:
			next = append(next, at)
		case pauses[i].To.IsZero():
			return next
		default: // continue with the first time after the pause
			at = core.Ceil(pauses[i].To) - 1
		}
		at, ok = sch.Next(at)
	}
	return next
}

// Preview returns a description of a schedule in words, its next scheduled times, and warnings. Scheduled times can
// depend on the job number. For the number 0, Preview uses an example number.
func (q *Queries) Preview(s core.Schedule, of core.JobID, from core.Instant, count int) (Preview, error) {
	if of < 0 {
		return Preview{}, core.Invalid("jobId", of.String(), "expected a job number")
	}
	if count < 0 || count > MaxPage {
		return Preview{}, core.Invalid("count", strconv.Itoa(count), "allowed values: 0 to %d", MaxPage)
	}
	j := core.Job{Sched: core.Sched{Schedule: s}}
	j.Normalize()
	sch, err := schedule.Compile(j.Sched.Schedule, cmp.Or(of, 1))
	if err != nil {
		return Preview{}, err
	}
	p := Preview{Words: sch.Describe(), Traps: sch.Traps(from)}
	at, ok := sch.Next(from)
	for ; ok && len(p.Next) < count; at, ok = sch.Next(at) {
		p.Next = append(p.Next, at)
	}
	p.Ends = !ok
	return p, nil
}

// nameJobs adds job names to change records that have only the number, because such a record looks like a change of
// the app. The automatic end of a pause writes them.
func (q *Queries) nameJobs(ctx context.Context, changes []core.Change) error {
	var jobs []core.JobID
	for i := range changes {
		if c := &changes[i]; c.Job != 0 && c.Name == "" && !slices.Contains(jobs, c.Job) {
			jobs = append(jobs, c.Job)
		}
	}
	names, err := q.Names(ctx, jobs)
	for i := range changes {
		if c := &changes[i]; c.Job != 0 && c.Name == "" {
			_, c.Name, _ = strings.Cut(names[c.Job], "/")
		}
	}
	return err
}

// Find reads the run that a reference names, or returns an error if the run does not exist.
func (q *Queries) Find(ctx context.Context, ref RunRef) (core.Run, error) {
	if job, key, ok := strings.Cut(ref, "#"); ok {
		id, err := q.JobID(ctx, job)
		if err != nil {
			return core.Run{}, err
		}
		return q.byKey(ctx, id, key)
	}
	v, err := q.Run(ctx, ref)
	if err != nil {
		return core.Run{}, err
	}
	if v.Skip != nil {
		return core.Run{}, core.Errorf(core.CodeRefused, "no run exists for %s: the scheduled time was skipped: %s", v.Run.At, v.Skip.Reason)
	}
	return v.Run, nil
}

// byKey finds the run with a key among the waiting runs and the newest other runs.
func (q *Queries) byKey(ctx context.Context, job core.JobID, key string) (core.Run, error) {
	if err := core.CheckKey(key); err != nil || key == "" {
		return core.Run{}, core.Invalid("key", key, "a key has 1 to 128 printable ASCII characters")
	}
	runs, _, err := q.waiting(ctx, job, 0, nil)
	if err != nil {
		return core.Run{}, err
	}
	low, high := core.NumberedRange(job)
	recent, err := q.store.Runs.Span(ctx, high, low, MaxPage)
	if err != nil {
		return core.Run{}, core.Retryable(err)
	}
	for _, r := range append(runs, recent...) {
		if r.Key == key && r.Attempt <= 1 {
			return r, nil
		}
	}
	return core.Run{}, core.Errorf(core.CodeNotFound, "no run with the key %q exists among the waiting runs and the last %d runs",
		key, MaxPage)
}

// Run reads the run that a reference names. If the scheduled time has no run but a skip record, Run returns the skip
// record.
func (q *Queries) Run(ctx context.Context, ref RunRef) (RunView, error) {
	if job, at, ok := strings.Cut(ref, "@"); ok {
		return q.runAt(ctx, job, at)
	}
	if strings.Contains(ref, "#") {
		r, err := q.Find(ctx, ref)
		if err != nil {
			return RunView{}, err
		}
		return q.view(ctx, r)
	}
	id, err := core.ParseRunID(ref)
	if err != nil {
		return RunView{}, err
	}
	r, ok, err := q.Stored(ctx, id)
	if err != nil {
		return RunView{}, err
	}
	if ok {
		return q.view(ctx, r)
	}
	if at, planned := id.Planned(); planned {
		if v, ok, err := q.skipped(ctx, id.Job(), at); err != nil || ok {
			return v, err
		}
	}
	return RunView{}, core.Errorf(core.CodeNotFound, "run %d does not exist", id)
}

func (q *Queries) view(ctx context.Context, r core.Run) (RunView, error) {
	jobs, err := q.jobsOf(ctx, []core.Run{r})
	if err != nil {
		return RunView{}, err
	}
	at, err := q.thenAt(ctx, []core.Run{r})
	if err != nil {
		return RunView{}, err
	}
	waits, err := q.waits(ctx, []core.Run{r}, jobs)
	if err != nil {
		return RunView{}, err
	}
	v := RunView{Run: r, Job: jobs[r.ID.Job()], ThenAt: at[r.Then]}
	if r.State == core.Running && !r.Journal.IsZero() {
		found, err := q.store.Journals(ctx, []core.JournalKey{r.Journal})
		if err != nil {
			return RunView{}, core.Retryable(err)
		}
		j := found[r.Journal]
		e, _ := j.Find(r.ID)
		v.Answer = e.Answer
	}
	if r.AwaitsJoin() && v.Job != nil {
		name := v.Job.Def.JoinName()
		found, err := q.store.Permits(ctx, []string{name})
		if err != nil {
			return RunView{}, core.Retryable(err)
		}
		if j := found[name].Join; j != nil && j.Round == r.ID {
			v.Missing = j.Missing(&v.Job.Def)
		}
	}
	if r.Permit != "" && r.State.Open() {
		names := core.PermitNames(r.Permit)
		found, err := q.store.Permits(ctx, names)
		if err != nil {
			return RunView{}, core.Retryable(err)
		}
		for _, name := range names { // the limit that the run waits for, or else the last
			p, is := found[name]
			if !is {
				continue
			}
			if v.Permits = &p; !p.Holds(r.First) {
				break
			}
		}
	}
	if p := v.Permits; p == nil || !slices.Contains(p.Queue, r.First) && !p.From(r.First).Time().After(q.o.Now()) {
		v.Waits = waits[r.ID] // else it waits for a slot
	}
	return v, nil
}

// skipped returns the skip record that covers a scheduled time of a job.
func (q *Queries) skipped(ctx context.Context, job core.JobID, at core.Instant) (RunView, bool, error) {
	skips, err := q.store.Skips(ctx, job, at, at)
	if err != nil {
		return RunView{}, false, core.Retryable(err)
	}
	if len(skips) == 0 {
		return RunView{}, false, nil
	}
	s := skips[0]
	v, err := q.view(ctx, core.Run{ID: core.PlannedRun(job, at), At: at, Slot: at, State: core.Skipped, Reason: s.Reason,
		Rev: s.Rev, EndedAt: s.Made, Cause: core.CauseSchedule})
	if err != nil {
		return RunView{}, false, err
	}
	if v.Job != nil {
		v.Run.App = v.Job.Def.App
		if v.Away, err = q.outage(ctx, at, zoneOf(v.Job)); err != nil {
			return RunView{}, false, err
		}
	}
	v.Skip = &s
	return v, true, nil
}

func (q *Queries) runAt(ctx context.Context, ref, text string) (RunView, error) {
	job, err := q.Job(ctx, ref)
	if err != nil {
		return RunView{}, err
	}
	instants, err := instantsOf(text, job.Sched.Schedule.Timezone, q.o.Now())
	if err != nil {
		return RunView{}, err
	}
	ids := make([]core.RunID, len(instants))
	for i, at := range instants {
		ids[i] = core.PlannedRun(job.Def.ID, at)
	}
	found, err := store.Complete(q.store.Runs.Get(ctx, ids))
	if err != nil {
		return RunView{}, core.Retryable(err)
	}
	for _, id := range ids {
		if r := found[id]; r != nil {
			return q.view(ctx, *r)
		}
	}
	for _, at := range instants {
		if v, ok, err := q.skipped(ctx, job.Def.ID, at); err != nil || ok {
			return v, err
		}
	}
	at := instants[0]
	why, err := q.whyNone(ctx, &job, at)
	if err != nil {
		return RunView{}, err
	}
	return RunView{}, core.Errorf(core.CodeNotFound, "%s has no run at %s: %s", job.Name(), at, why)
}

// whyNone returns why a scheduled time of a job has neither a run nor a record.
func (q *Queries) whyNone(ctx context.Context, job *core.Job, at core.Instant) (core.Text, error) {
	s, in := &job.Sched, zoneOf(job)
	if at.Time().Before(job.Def.Created) {
		return core.Say("the job was created later, at %s", text(job.Def.Created, in)), nil
	}
	h, err := q.history(ctx, job.Def.ID, job.Def.App, job, firstInstant-1, at)
	if err != nil {
		return core.Text{}, err
	}
	i := slices.IndexFunc(h.revs, func(r revision) bool { return r.at < at && at <= r.end })
	if i < 0 {
		return core.Say("the schedule or state was changed later, at %s, and the earlier value was not stored", text(s.RevAt, in)), nil
	}
	r := &h.revs[i]
	switch names, err := r.names(s, at); {
	case err != nil:
		return core.Text{}, err
	case !names:
		return q.unnamed(ctx, job, h.revs, i)
	}
	if r.State == core.Paused && (r.PauseUntil == 0 || at <= r.PauseUntil) {
		return core.Say("the job %s", q.describePause(pauseAt(h.revs, i), in)), nil
	}
	if why, err := q.fell(ctx, job.Def.App, at, in); err != nil || why.String() != "" {
		return why, err
	}
	away, err := q.outage(ctx, at, in)
	if err != nil || away.Code() == "" {
		return q.unplanned(job, at), err
	}
	return core.Say("%s; %s", away, q.unplanned(job, at)), nil
}

// unplanned returns the status of a valid scheduled time without a run.
func (q *Queries) unplanned(job *core.Job, at core.Instant) core.Text {
	s, now := &job.Sched, q.o.Now()
	switch {
	case at > core.InstantOf(now):
		return core.Say("the scheduled time is in the future")
	case now.Sub(at.Time()) < patience:
		return core.Say("the run is pending")
	case s.State == core.Started && s.Next != 0 && at >= s.Next && s.PlanError != "":
		return core.Say("the job could not be planned: %s", s.PlanError)
	case s.State == core.Started && s.Next != 0 && at >= s.Next:
		return core.Say("the run is late, because the job is not planned yet: `tickring doctor` shows the reason")
	}
	return core.Say("the record of the run was deleted, or the run was lost: tickring audit %s shows which of both happened", job.Name())
}

// unnamed returns the text that the schedule of revision i does not include a time. It names the author of the next
// schedule change or, if there is none, of the last one.
func (q *Queries) unnamed(ctx context.Context, job *core.Job, revs []revision, i int) (core.Text, error) {
	code := core.Say("the schedule in effect at that time did not include this time")
	k := i + 1
	for k < len(revs) && revs[k].Schedule.Equal(revs[i].Schedule) {
		k++
	}
	if k == len(revs) {
		code = core.Say("the current schedule does not include this time")
		for k = i; k > 0 && revs[k-1].Schedule.Equal(revs[i].Schedule); {
			k--
		}
		if k == 0 {
			return code, nil
		}
	}
	by, in := core.Say("a user"), zoneOf(job)
	changes, err := q.store.Changes(ctx, "", job.Def.ID, revs[k].Rev, 1)
	if err != nil {
		return core.Text{}, core.Retryable(err)
	}
	if len(changes) > 0 && changes[0].ID == revs[k].Rev {
		by = core.Say("%s", changes[0].By)
	}
	return core.Say("%s; %s changed the schedule at %s; to see the change: tickring changes %s", code, by,
		text(core.FromMillis(revs[k].RevAt), in), job.Name()), nil
}

// outage returns the text about a server outage at a time. It knows only the last outage; empty: none.
func (q *Queries) outage(ctx context.Context, at core.Instant, in *time.Location) (core.Text, error) {
	g, err := q.Global(ctx)
	if t := at.Time(); err != nil || t.Before(g.DownAt) || !t.Before(g.UpSince) {
		return core.Text{}, err
	}
	return core.Say("the server was down from %s to %s", text(g.DownAt, in), text(g.UpSince, in)), nil
}

// pauseAt returns the pause to which a revision of a job belongs, across edits of the paused job.
func pauseAt(revs []revision, i int) core.Pause {
	first, last := i, i
	for first > 0 && revs[first-1].State == core.Paused {
		first--
	}
	for last+1 < len(revs) && revs[last+1].State == core.Paused {
		last++
	}
	p := core.Pause{From: core.FromMillis(revs[first].RevAt), By: revs[i].PauseBy, Why: revs[i].PauseWhy}
	if last+1 < len(revs) {
		p.To = core.FromMillis(revs[last+1].RevAt)
	} else if revs[last].PauseUntil != 0 {
		p.To = revs[last].PauseUntil.Time()
	}
	return p
}

func text(t time.Time, in *time.Location) string { return t.In(in).Format(time.RFC3339) }

// zoneOf returns the zone of a job's schedule; UTC if this system does not know it.
func zoneOf(j *core.Job) *time.Location {
	in, err := time.LoadLocation(j.Sched.Schedule.Timezone) // empty means UTC
	if err != nil {
		return time.UTC
	}
	return in
}

// names reports whether the schedule of a revision includes a scheduled time. The times of a fixed delay depend on
// its runs: only the next is known, and a pause hides it.
func (r *revision) names(s *core.Sched, at core.Instant) (bool, error) {
	if _, fixed := r.Schedule.FixedDelay(); fixed {
		return r.State == core.Paused || r.last && len(nextOf(s, at-1, at, 1)) > 0, nil
	}
	sch, err := schedule.Compile(r.Schedule, s.ID)
	if err != nil {
		return false, core.Errorf(core.CodeInternal, "the schedule of revision %d of job %d: %v", r.Rev, s.ID, err)
	}
	next, ok := sch.Next(at - 1)
	return ok && next == at, nil
}

// fell returns the text about the pause of an app or of everything at a time; empty: none.
func (q *Queries) fell(ctx context.Context, name string, at core.Instant, in *time.Location) (core.Text, error) {
	app, err := q.App(ctx, name)
	if err != nil {
		return core.Text{}, err
	}
	g, err := q.Global(ctx)
	if err != nil {
		return core.Text{}, err
	}
	for _, of := range []struct {
		what core.Text
		app  string
		last core.Pause
		past core.PauseHistory
	}{{core.Say("everything"), "", g.Pause, g.Past}, {core.Say("app %s", name), name, app.Pause, app.Past}} {
		if of.last.Covers(at.Time()) {
			return core.Say("%s %s", of.what, q.describePause(of.last, in)), nil
		}
		if !of.past.Covers(at.Time()) && !of.past.From.After(at.Time()) && !of.last.From.After(at.Time()) {
			continue
		}
		list, _, err := q.recorded(ctx, of.app) // these have By and Why
		if err != nil {
			return core.Text{}, err
		}
		for _, p := range append(list, of.past.Pauses...) {
			if p.Covers(at.Time()) {
				return core.Say("%s %s", of.what, q.describePause(p, in)), nil
			}
		}
	}
	return core.Text{}, nil
}

// describePause returns the text about a past or current pause: by whom, when and why.
func (q *Queries) describePause(p core.Pause, in *time.Location) core.Text {
	said := core.Say("is paused")
	if !p.To.IsZero() && !p.To.After(q.o.Now()) {
		said = core.Say("was paused")
	}
	if p.By != "" {
		said = core.Say("%s by %s", said, p.By)
	}
	if p.To.IsZero() {
		said = core.Say("%s, from %s", said, text(p.From, in))
	} else {
		said = core.Say("%s, from %s to %s", said, text(p.From, in), text(p.To, in))
	}
	if p.Why != "" {
		said = core.Say("%s: %s", said, p.Why)
	}
	return said
}

// instantsOf parses a time from user input, with an offset or in the zone. A time of day means its latest occurrence
// before now. A time that occurs twice, when clocks go back, gives both.
func instantsOf(text, zone string, now time.Time) ([]core.Instant, error) {
	bad := core.Invalid("run", text,
		"write a scheduled time in the job's zone, as 02:30, 2026-11-20T02:30 or 2026-11-20T02:30:05; "+
			"after a date and time, an offset is allowed, as in 2026-11-20T02:30Z")
	var t time.Time
	var err error
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if t, err = time.Parse(layout, text); err == nil {
			return within(bad, t)
		}
	}
	loc, err := time.LoadLocation(cmp.Or(zone, "UTC"))
	if err != nil {
		return nil, core.Errorf(core.CodeInternal, "the zone of the job is unknown here: %s", zone)
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		wall, err := time.Parse(layout, text)
		if clock, cerr := time.Parse(layout[len("2006-01-02T"):], text); cerr == nil {
			year, month, day := now.In(loc).Date()
			wall, err = clock.AddDate(year, int(month)-1, day-1), nil // clock is a time on 1 January of year 0
			if schedule.WallTime(wall, loc).After(now) {
				wall = wall.AddDate(0, 0, -1)
			}
		}
		if err != nil {
			continue
		}
		t = schedule.WallTime(wall, loc)
		both := []time.Time{t}
		for _, d := range []time.Duration{-time.Hour, -30 * time.Minute, 30 * time.Minute, time.Hour} {
			if o := t.Add(d); o.Format(layout) == t.Format(layout) {
				both = append(both, o)
			}
		}
		slices.SortFunc(both, time.Time.Compare)
		return within(bad, both...)
	}
	return nil, bad
}

func within(bad error, times ...time.Time) ([]core.Instant, error) {
	instants := make([]core.Instant, len(times))
	for i, t := range times {
		instants[i] = core.InstantOf(t)
		if instants[i] < firstInstant || instants[i] > core.Horizon {
			return nil, bad
		}
	}
	return instants, nil
}

// Runs returns one page of runs, newest first. The page ends after Options.PageFor, or when the maximum size is
// reached. So a page with fewer runs than the limit, or without runs, can still have a next page.
func (q *Queries) Runs(ctx context.Context, f RunFilter) (RunPage, error) {
	res, err := q.runs(ctx, f, q.Page())
	if err == nil {
		res.Jobs, err = q.jobsOf(ctx, res.Runs)
	}
	if err == nil {
		res.ThenAt, err = q.thenAt(ctx, res.Runs)
	}
	if err == nil {
		// Runs with a limit may wait for a slot instead: only the page of one run reads that.
		free := slices.DeleteFunc(slices.Clone(res.Runs), func(r core.Run) bool { return r.Permit != "" })
		res.Waits, err = q.waits(ctx, free, res.Jobs)
	}
	return res, err
}

// thenAt reads the due times of retries; most retries are among the given runs.
func (q *Queries) thenAt(ctx context.Context, runs []core.Run) (map[core.RunID]core.Instant, error) {
	at := map[core.RunID]core.Instant{}
	for i := range runs {
		at[runs[i].ID] = runs[i].Slot
	}
	var ids []core.RunID
	for i := range runs {
		if then := runs[i].Then; then != 0 && at[then] == 0 {
			ids = append(ids, then)
		}
	}
	if len(ids) == 0 {
		return at, nil
	}
	found, err := store.Complete(q.store.Runs.Get(ctx, ids))
	if err != nil {
		return nil, core.Retryable(err)
	}
	for id := range found {
		at[id] = found[id].Slot
	}
	return at, nil
}

// waits returns until when queued runs wait for an executor, by the current settings of their jobs and apps. Runs
// that wait for a slot are left out.
func (q *Queries) waits(ctx context.Context, runs []core.Run, jobs map[core.JobID]*core.Job) (map[core.RunID]time.Time, error) {
	var names []string
	for i := range runs {
		if runs[i].State == core.Queued {
			names = append(names, runs[i].App)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	apps, _, err := store.Split(q.store.Apps(ctx, slices.Compact(names)...))
	if err != nil {
		return nil, core.Retryable(err)
	}
	waits := map[core.RunID]time.Time{}
	for i := range runs {
		r := &runs[i]
		if app, is := apps[r.App]; is && jobs[r.ID.Job()] != nil && r.State == core.Queued {
			if until := jobs[r.ID.Job()].WaitsUntil(&app, r.Slot); r.Permit == "" || until.After(q.o.Now()) {
				waits[r.ID] = until // else it waits for a slot
			}
		}
	}
	return waits, nil
}

// jobsOf reads the jobs of runs; deleted and unreadable jobs are not in the result.
func (q *Queries) jobsOf(ctx context.Context, runs []core.Run) (map[core.JobID]*core.Job, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	ids := make([]core.JobID, len(runs))
	for i := range runs {
		ids[i] = runs[i].ID.Job()
	}
	slices.Sort(ids)
	found, _, err := store.Split(q.store.Jobs.Get(ctx, store.Whole, slices.Compact(ids)))
	return found, core.Retryable(err)
}

func (q *Queries) runs(ctx context.Context, f RunFilter, p *budget.Page) (RunPage, error) {
	limit, err := f.check()
	if err != nil {
		return RunPage{}, err
	}
	if f.Job == "" {
		return q.recent(ctx, &f, limit, p)
	}
	job, err := q.JobID(ctx, f.Job)
	if err != nil {
		return RunPage{}, err
	}
	from, to := firstInstant, core.Horizon
	if !f.From.IsZero() {
		from = max(core.Ceil(f.From.Add(-schedule.MaxJitter)), from) // because From refers to the due time
	}
	if !f.To.IsZero() {
		to = min(core.InstantOf(f.To), to)
	}
	low, high := core.RunRange(job, from, to)
	nlow, nhigh := core.NumberedRange(job)
	if f.After != "" {
		one, other, ok := strings.Cut(f.After, "-")
		a, err1 := core.ParseRunID(one)
		b, err2 := core.ParseRunID(other)
		if !ok || err1 != nil || err2 != nil || a < low-1 || a > high || b < nlow-1 || b > nhigh {
			return RunPage{}, core.Invalid("after", f.After, "not the value of `next` from a page of these runs")
		}
		high, nhigh = a, b
	}
	planned := &reader{q: q, at: high, to: low, down: true, n: limit + 1}
	numbered := &reader{q: q, at: nhigh, to: nlow, down: true, n: limit + 1}
	var res RunPage
	now := q.o.Now()
	first := f.After == ""
	full := false
	for looked := 0; ; looked++ {
		// Checked only before another read.
		if looked > 0 && (planned.empty() || numbered.empty()) && p.Over() {
			full = true
			break
		}
		take, r, err := newer(ctx, planned, numbered)
		if err != nil {
			return RunPage{}, err
		}
		if r == nil {
			break
		}
		fits := f.takes(r, now)
		if len(res.Runs) == limit || looked >= budget.Looked || fits && !p.Takes(r) {
			full = true
			break
		}
		if fits {
			res.Runs = append(res.Runs, *r)
		}
		take.drop()
	}
	// The skip records between the newest run of this page and the newest of the next.
	upper, lower := to, from
	if !first {
		if at, ok := (high + 1).Planned(); ok {
			upper = at
		}
	}
	if full {
		res.Next = fmt.Sprintf("%d-%d", planned.at, numbered.at)
		if at, ok := planned.at.Planned(); ok && len(res.Runs) < limit {
			res.LookedTo = at.Time()
		}
		if at, ok := (planned.at + 1).Planned(); ok {
			lower = at
		}
	}
	if lower <= upper && !f.Failed && (len(f.States) == 0 || slices.Contains(f.States, core.Skipped)) {
		skips, err := q.store.Skips(ctx, job, lower, upper)
		if err != nil {
			return RunPage{}, core.Retryable(err)
		}
		slices.SortFunc(skips, func(a, b core.Skip) int { return cmp.Compare(b.First, a.First) })
		res.Skips = skips
	}
	return res, nil
}

// reader reads the stored runs from at to to, in ascending or descending order of IDs.
type reader struct {
	q      *Queries
	at, to core.RunID // the part that is not consumed
	down   bool
	n      int // runs per read; it grows, because few of many may match
	buf    []core.Run
	end    bool
}

func (r *reader) empty() bool { return len(r.buf) == 0 && !r.end }

func (r *reader) peek(ctx context.Context) (*core.Run, error) {
	if r.empty() && (r.down && r.at < r.to || !r.down && r.at > r.to) {
		r.end = true
	}
	if r.empty() {
		runs, err := r.q.store.Runs.Span(ctx, r.at, r.to, min(r.n, budget.AtOnce))
		if err != nil {
			return nil, core.Retryable(err)
		}
		r.buf, r.end, r.n = runs, len(runs) == 0, 4*r.n
	}
	if len(r.buf) == 0 {
		return nil, nil
	}
	return &r.buf[0], nil
}

// newer returns the reader whose next run is due last, and this run; nil if both are at their end.
func newer(ctx context.Context, planned, numbered *reader) (*reader, *core.Run, error) {
	r, err := planned.peek(ctx)
	if err != nil {
		return nil, nil, err
	}
	n, err := numbered.peek(ctx)
	if err != nil {
		return nil, nil, err
	}
	if r == nil || n != nil && n.Slot > r.Slot {
		return numbered, n, nil
	}
	return planned, r, nil
}

// drop consumes the run that peek returned.
func (r *reader) drop() {
	if r.at = r.buf[0].ID + 1; r.down {
		r.at -= 2
	}
	r.buf = r.buf[1:]
}

// Upcoming lists the future scheduled runs of the selected jobs after from, earliest first. It leaves out times in a
// pause of the job, of its app or of all jobs. If at most 100 jobs match, the list includes their waiting triggers
// and retries. Upcoming reads jobs for at most Options.PageFor, and Next is the job after which the caller continues.
func (q *Queries) Upcoming(ctx context.Context, f JobFilter, from time.Time, ahead time.Duration, limit int) (UpcomingResult, error) {
	if _, err := f.check(); err != nil {
		return UpcomingResult{}, err
	}
	limit, err := limitOf(limit)
	if err != nil {
		return UpcomingResult{}, err
	}
	if ahead < 0 || ahead > MaxUpcoming {
		return UpcomingResult{}, core.Invalid("for", core.FormatDuration(ahead), "allowed values: 0s to 366d")
	}
	p := q.Page()
	g, all, bad, err := q.allPaused(ctx)
	if err != nil {
		return UpcomingResult{}, err
	}
	pauses := make(map[string]core.Pause, len(all))
	for _, a := range all {
		pauses[a.Name] = a.Pause
	}
	if now := q.o.Now(); from.Before(now) {
		from = now
	}
	if from.After(q.o.Now().Add(MaxUpcoming)) {
		return UpcomingResult{}, core.Invalid("from", from.Format(time.RFC3339), "at most 366 days from now are allowed")
	}
	after := core.InstantOf(from)
	end := min(core.InstantOf(from.Add(ahead)), core.Horizon)
	if f.Job != 0 {
		f.After = f.Job - 1
	}
	var res UpcomingResult
	order := func(a, b Coming) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Run, b.Run))
	}
	trim := func() {
		slices.SortFunc(res.Coming, order)
		if len(res.Coming) > limit {
			res.Coming, res.Partial = res.Coming[:limit], true
			end = res.Coming[limit-1].At // later times are not needed any more
		}
	}
	var few []core.Job
	fit := 0
	res.Next, err = q.EachJob(ctx, f.App, f.After, p, func(j *core.Job) bool {
		if f.Job != 0 && j.Def.ID > f.Job {
			return false
		}
		if !f.takes(j) {
			return true
		}
		if why := bad[j.Def.App]; why != nil { // the pause of its app is unknown
			p.Bad[j.Def.ID] = core.UnreadableApp(j.Def.App, why)
			return true
		}
		if fit++; fit <= maxFew {
			few = append(few, *j)
		}
		for _, at := range nextOf(&j.Sched, after, end, limit+1, g.Pause, pauses[j.Def.App]) {
			res.Coming = append(res.Coming, comingOf(j, at))
		}
		if len(res.Coming) > 4*limit {
			trim()
		}
		return true
	})
	if err != nil {
		return UpcomingResult{}, err
	}
	if f.Job != 0 {
		res.Next = 0
	}
	if fit <= maxFew {
		waiting := make([][]core.Run, fit)
		done, err := p.SideBySide(fit, func(i int) (err error) {
			waiting[i], _, err = q.waiting(ctx, few[i].Def.ID, 0, nil)
			return err
		})
		if err != nil {
			return UpcomingResult{}, err
		}
		if done < fit { // the next page has the jobs after it, with their waiting runs
			res.Next = few[done-1].Def.ID
			res.Coming = slices.DeleteFunc(res.Coming, func(c Coming) bool { return c.Job > res.Next })
		}
		for i := range done {
			for _, r := range waiting[i] {
				if r.Slot > after && r.Slot <= end {
					res.Coming = append(res.Coming, Coming{At: r.Slot, Job: few[i].Def.ID, App: r.App, Name: few[i].Def.Name,
						Timezone: few[i].Sched.Schedule.Timezone, Cause: r.Cause, Run: r.ID})
				}
			}
		}
	}
	trim()
	res.Partial = res.Partial || len(p.Passed(res.Next)) > 0
	return res, nil
}

// maxFew is the number of matching jobs up to which Upcoming lists waiting runs.
const maxFew = 100
