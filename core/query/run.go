package query

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

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

// RunRef is a reference to a run: a run ID, or the job and scheduled time as in app/name@2026-11-20T02:30, in the
// job's time zone. A waiting trigger with a key can be written as app/name#key.
type RunRef = string

func (q *Queries) Stored(ctx context.Context, id core.RunID) (core.Run, bool, error) {
	r, err := q.store.Run(ctx, id)
	if r == nil || err != nil {
		return core.Run{}, false, core.Retryable(err)
	}
	return *r, true, nil
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
