package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// Bounds of the list of problems.
const (
	maxHome = 20 // jobs, runs or apps that are named of each kind
	// homeAhead is the time span for the next scheduled runs.
	homeAhead = 15 * time.Minute
	// A run is long if it takes longTimes the usual duration, and longMore more than that duration.
	longTimes = 3
	longMore  = time.Minute
)

// Home has the number of current problems of each kind, and lists the first problems of each kind.
type Home struct {
	Fail     int // number of failing jobs
	Failing  []HomeJob
	Delayed  int // number of late jobs
	Late     []HomeJob
	Linger   int // number of runs that take much longer than usual
	Long     []LongRun
	Alone    int                  // number of apps with scheduled jobs but without an executor
	Deserted []AppWithoutExecutor // apps with scheduled jobs but without an executor
	Soon     int                  // number of jobs with scheduled runs in the next 15 minutes
	Coming   []Coming             // the first scheduled runs in the next 15 minutes
	// Partial is true if the status of some jobs is unknown.
	Partial bool
	// Unread is true if the last runs of most jobs were not read. Then Late has only jobs that the ticker did not
	// plan in time, and Long has only runs of jobs that may be failing.
	Unread bool
	// Unchecked is the number of further jobs that may be failing but were not checked.
	Unchecked int
}

// HomeJob is a failing or late job. Last is the run that failed or was late. Due is the due time that the ticker did
// not plan; 0: none.
type HomeJob struct {
	Job  core.Job
	Last *core.Run // nil if no such run exists, or if the run was removed
	Due  core.Instant
}

// LongRun is an open run that takes much longer than earlier runs of its job.
type LongRun struct {
	Job   core.Job
	Run   core.RunID
	Since time.Time     // when the run was sent
	Usual time.Duration // median duration of the earlier runs
}

// Home returns the current problems of the apps for which the function `sees` returns true. A nil function selects all
// apps.
func (q *Queries) Home(ctx context.Context, sees func(app string) bool) (Home, error) {
	f, err := q.find(ctx, &JobsAsk{JobFilter: JobFilter{Sees: sees}})
	if err != nil {
		return Home{}, err
	}
	deserted, err := q.deserted(ctx, &f.holds)
	if err != nil {
		return Home{}, err
	}
	h := Home{Partial: f.Partial, Unread: f.Unread, Unchecked: f.Unchecked}
	now := core.InstantOf(f.stand.now)
	var failing, late []homeRow
	var soon []Coming
	for i := range f.jobs {
		j := f.jobs[i].job
		if at := f.next(j); at != 0 && at <= now+core.Instant(homeAhead/time.Second) {
			soon = append(soon, comingOf(j, at))
		}
		held := f.covers(j.Def.App, f.stand.now) || j.Sched.PausedAt(f.stand.now)
		if b := f.stand.failing(j.Def.ID); b != nil {
			failing = append(failing, homeRow{job: j, run: b.id, since: b.slot})
		}
		if long, is := f.stand.long(j); is {
			h.Linger++
			h.Long = append(h.Long, long)
		}
		if held || j.Sched.State != core.Started {
			continue
		}
		if due := f.stand.overdue(j); due != 0 {
			late = append(late, homeRow{job: j, due: due, since: due})
		} else if f.stand.late(j) {
			b := f.stand.last(j.Def.ID)
			late = append(late, homeRow{job: j, run: b.id, since: b.slot})
		}
		if deserted[j.Def.App] {
			h.Deserted = alone(h.Deserted, j)
		}
	}
	h.Fail, h.Delayed, h.Soon = len(failing), len(late), len(soon)
	h.Alone, h.Deserted = len(h.Deserted), h.Deserted[:min(len(h.Deserted), maxHome)]
	slices.SortFunc(h.Long, func(a, b LongRun) int { return a.Since.Compare(b.Since) })
	h.Long = h.Long[:min(len(h.Long), maxHome)]
	if h.Failing, err = q.withRuns(ctx, failing); err == nil {
		h.Late, err = q.withRuns(ctx, late)
	}
	slices.SortFunc(soon, func(a, b Coming) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Job, b.Job)) })
	h.Coming = soon[:min(len(soon), maxHome)]
	return h, err
}

// homeRow is a job with a problem, and the run or due time that shows it.
type homeRow struct {
	job   *core.Job
	run   core.RunID // 0: none
	due   core.Instant
	since core.Instant
}

// withRuns reads the runs of the first rows.
func (q *Queries) withRuns(ctx context.Context, rows []homeRow) (list []HomeJob, err error) {
	slices.SortFunc(rows, func(a, b homeRow) int {
		return cmp.Or(cmp.Compare(b.since, a.since), cmp.Compare(a.job.Def.ID, b.job.Def.ID))
	})
	rows = rows[:min(len(rows), maxHome)]
	var ids []core.RunID
	for _, r := range rows {
		if r.run != 0 {
			ids = append(ids, r.run)
		}
	}
	var runs map[core.RunID]*core.Run
	if len(ids) > 0 {
		if runs, err = store.Complete(q.store.Runs.Get(ctx, ids)); err != nil {
			return nil, core.Retryable(err)
		}
	}
	for _, r := range rows {
		list = append(list, HomeJob{Job: *r.job, Due: r.due, Last: runs[r.run]})
	}
	return list, nil
}

// long returns the oldest run of a job that takes longer than earlier runs did.
func (s *standing) long(j *core.Job) (long LongRun, is bool) {
	list, _ := s.due(j.Def.ID)
	var took []time.Duration
	for _, b := range list {
		if b.over() && !b.sent.IsZero() {
			took = append(took, b.ended.Sub(b.sent))
		}
	}
	if len(took) == 0 {
		return long, false
	}
	slices.Sort(took)
	usual := took[len(took)/2]
	for _, b := range list {
		if b.state != core.Running || b.sent.IsZero() {
			continue
		}
		if runs := s.now.Sub(b.sent); runs > longTimes*usual && runs > usual+longMore {
			long, is = LongRun{Job: *j, Run: b.id, Since: b.sent, Usual: usual}, true
		}
	}
	return long, is
}
