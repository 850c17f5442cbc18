package ask

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// Bounds of what needs somebody now.
const (
	maxHome = 20 // jobs, runs or apps that are named of each kind
	// homeAhead is how far ahead it looks for what fires.
	homeAhead = 15 * time.Minute
	// A run is long where it has taken so many times as long as those before it, and that
	// much longer.
	longTimes = 3
	longMore  = time.Minute
)

// Home is what needs somebody now: how many of each kind, and the first ones, those since
// when it is so the longest last.
type Home struct {
	Fail     int
	Failing  []HomeJob
	Delayed  int
	Late     []HomeJob
	Linger   int
	Long     []LongRun
	Alone    int
	Deserted []Deserted // apps without an executor whose jobs fire
	Soon     int        // jobs that fire within homeAhead
	Coming   []Coming   // the first instants
	// Partial says that of some jobs it is not known yet how they stand.
	Partial bool
}

// HomeJob is a job with its last run, nil where it is none that is due.
type HomeJob struct {
	Job  core.Job
	Last *core.Run
}

// LongRun is a run that takes longer than those before it took.
type LongRun struct {
	Job   core.Job
	Run   core.RunID
	Since time.Time     // of its send
	Usual time.Duration // the middle of those before it
}

// Home answers what needs somebody now, of the apps that are seen; nil: of all.
func (q *Ask) Home(ctx context.Context, sees func(app string) bool) (Home, error) {
	f, err := q.find(ctx, &JobsAsk{JobFilter: JobFilter{Sees: sees}})
	if err != nil {
		return Home{}, err
	}
	apps, _, err := q.Apps(ctx)
	if err != nil {
		return Home{}, err
	}
	deserted, paused, err := q.standing(ctx, apps)
	if err != nil {
		return Home{}, err
	}
	h := Home{Partial: f.partial}
	now := core.InstantOf(f.stand.now)
	var failing, late, soon []*core.Job
	alone := map[string]int{}
	for i := range f.jobs {
		j := f.jobs[i].job
		held := paused(j.Def.App) || j.Sched.PausedAt(f.stand.now)
		if f.stand.failing(j.Def.ID) {
			failing = append(failing, j)
		}
		if long, is := f.stand.long(j); is {
			h.Linger++
			h.Long = append(h.Long, long)
		}
		if held || j.Sched.State != core.Started {
			continue
		}
		if f.stand.late(j) {
			late = append(late, j)
		}
		if s := &j.Sched; s.Next != 0 && s.Next <= now+core.Instant(homeAhead/time.Second) {
			soon = append(soon, j)
		}
		if len(j.Sched.Schedule.Any) > 0 && j.Def.Command == nil && deserted[j.Def.App] {
			k, is := alone[j.Def.App]
			if !is {
				k, alone[j.Def.App] = len(h.Deserted), len(h.Deserted)
				h.Deserted = append(h.Deserted, Deserted{App: j.Def.App, First: j.Name()})
			}
			h.Deserted[k].Jobs++
		}
	}
	h.Fail, h.Delayed, h.Soon = len(failing), len(late), len(soon)
	h.Alone, h.Deserted = len(h.Deserted), h.Deserted[:min(len(h.Deserted), maxHome)]
	slices.SortFunc(h.Long, func(a, b LongRun) int { return a.Since.Compare(b.Since) })
	h.Long = h.Long[:min(len(h.Long), maxHome)]
	newest := func(list []*core.Job) []*core.Job {
		slices.SortStableFunc(list, func(a, b *core.Job) int {
			x, y := f.stand.last(a.Def.ID), f.stand.last(b.Def.ID)
			switch {
			case x == nil || y == nil:
				return cmp.Compare(a.Def.ID, b.Def.ID)
			}
			return cmp.Compare(y.slot, x.slot)
		})
		return list[:min(len(list), maxHome)]
	}
	if h.Failing, err = q.withLast(ctx, newest(failing)); err == nil {
		h.Late, err = q.withLast(ctx, newest(late))
	}
	slices.SortFunc(soon, func(a, b *core.Job) int { return cmp.Compare(a.Sched.Next, b.Sched.Next) })
	for _, j := range soon[:min(len(soon), maxHome)] {
		h.Coming = append(h.Coming, Coming{At: j.Sched.Next, Job: j.Def.ID, App: j.Def.App, Name: j.Def.Name,
			Timezone: j.Sched.Schedule.Timezone, Cause: core.CauseSchedule, Run: core.PlannedRun(j.Def.ID, j.Sched.Next)})
	}
	return h, err
}

// withLast reads the last run of jobs.
func (q *Ask) withLast(ctx context.Context, jobs []*core.Job) (list []HomeJob, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	ids := make([]core.JobID, len(jobs))
	for i, j := range jobs {
		ids[i] = j.Def.ID
	}
	last, err := q.store.LastRuns(ctx, ids, core.InstantOf(q.o.Now()), 1)
	if err != nil {
		return nil, core.Passing(err)
	}
	for _, j := range jobs {
		h := HomeJob{Job: *j}
		if runs := last[j.Def.ID]; len(runs) > 0 {
			h.Last = &runs[0]
		}
		list = append(list, h)
	}
	return list, nil
}

// long is the oldest run of a job that takes longer than those before it took.
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
