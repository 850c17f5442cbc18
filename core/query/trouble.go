package query

import (
	"context"
	"slices"

	"github.com/tickring/tickring/core"
)

const (
	maxTroubled  = 10_000 // jobs scanned for one page
	lookedAtOnce = 256    // jobs whose runs are read before more jobs are read
	failsInARow  = 3      // failed chains in a row that make a job failing
	maxFailing   = 100    // failing jobs listed by name
	maxUntold    = 100    // missing channels listed by name
	maxPast      = 100    // runs read for one job
)

// Problems lists failing jobs, jobs that cannot run, and missing notification channels.
type Problems struct {
	Looked int  // number of jobs that were checked
	More   bool // true if not all jobs were checked
	// Deserted lists the apps that have scheduled jobs but no executor. Jobs with a command need no executor.
	Deserted []AppWithoutExecutor
	Failing  []Failing        // at most 100
	Fail     int              // number of failing jobs
	Untold   []MissingChannel // at most 100
	Locked   []Locked         // at most 100; includes unreadable jobs only if the caller can see all apps
	Pending  *core.Run        // the oldest run that is due but was not sent; nil: none
	// Named has the jobs of the runs in Failing and Pending, by job ID.
	Named map[core.JobID]*core.Job
}

// AppWithoutExecutor is an app that has scheduled jobs but no executor.
type AppWithoutExecutor struct {
	App   string
	Jobs  int    // number of scheduled jobs
	First string // name of the app's first scheduled job
}

// MissingChannel is an app or a job with a channel in its notification settings that does not exist.
type MissingChannel struct {
	Subject string // name of the app, or app/name of the job
	Channel string
}

// Locked is a job that is unreadable, or has secrets that cannot be decrypted.
type Locked struct {
	Job string
	Why *core.Error
}

// Failing is a job whose last three retry chains failed. If the job has fewer closed chains, all of them failed.
type Failing struct {
	Times int      // number of consecutive failed retry chains, at most 3
	Last  core.Run // newest failed run
}

// Trouble returns the failing jobs, and the jobs that cannot run, in the apps for which the function `sees` returns true.
// A nil function selects all apps. Paused jobs are not checked for failures.
func (q *Queries) Trouble(ctx context.Context, sees func(app string) bool) (Problems, error) {
	res := Problems{Named: map[core.JobID]*core.Job{}}
	g, apps, _, err := q.allPaused(ctx) // unreadable apps are reported elsewhere
	if err != nil {
		return res, err
	}
	deserted, err := q.deserted(ctx, apps, g)
	if err != nil {
		return res, err
	}
	paused := pausedApps(apps, g, q.o.Now())
	channels, err := q.Channels(ctx)
	if err != nil {
		return res, err
	}
	untold := func(subject string, n *core.Notify) {
		for _, c := range n.To {
			if len(res.Untold) < maxUntold && !slices.ContainsFunc(channels, func(is core.Channel) bool { return is.Name == c }) {
				res.Untold = append(res.Untold, MissingChannel{subject, c})
			}
		}
	}
	for i := range apps {
		if sees == nil || sees(apps[i].Name) {
			untold(apps[i].Name, &apps[i].Notify)
		}
	}
	var batch []core.Job
	p := q.Page()
	look := func() (done bool, err error) {
		found := make([]fares, len(batch))
		n, err := p.SideBySide(len(batch), func(i int) (err error) {
			if s := batch[i].Sched.State; s == core.Started && !paused[batch[i].Def.App] {
				found[i], err = q.fares(ctx, batch[i].Def.ID)
			}
			return err
		})
		for i := range n {
			j, f := &batch[i], &found[i]
			res.Looked++
			untold(j.Name(), &j.Def.Notify)
			if why := j.LockedSecrets(); why != nil && len(res.Locked) < maxUntold {
				res.Locked = append(res.Locked, Locked{j.Name(), why})
			}
			if j.Sched.State == core.Started && deserted[j.Def.App] && !paused[j.Def.App] {
				res.Deserted = alone(res.Deserted, j)
			}
			if f.fails() {
				res.fails(j, f)
			}
			if f.pending != nil && (res.Pending == nil || f.pending.Slot < res.Pending.Slot) {
				res.Pending, res.Named[j.Def.ID] = f.pending, j
			}
		}
		done = n == len(batch)
		batch = nil
		return done, err
	}
	all := true
	next, walked := q.EachJob(ctx, "", 0, p, func(j *core.Job) bool {
		if res.Looked+len(batch) == maxTroubled {
			return false
		}
		if sees != nil && !sees(j.Def.App) {
			return true
		}
		if batch = append(batch, *j); len(batch) == lookedAtOnce {
			all, err = look()
		}
		return all && err == nil
	})
	if err == nil && walked == nil && all {
		all, err = look()
	}
	if err == nil {
		err = walked
	}
	for id, why := range p.Bad {
		if sees == nil && len(res.Locked) < maxUntold { // the app of an unreadable job is unknown
			res.Locked = append(res.Locked, Locked{id.String(), core.Errorf(core.CodeRefused,
				"job %d cannot be read: %v; a failed run with retries left stays open until the job can be read", id, why)})
		}
	}
	res.More = next != 0 || !all
	return res, err
}

// fails counts a failing job. Failing keeps the maxFailing jobs with the most failures in a row.
func (t *Problems) fails(j *core.Job, f *fares) {
	t.Fail++
	x := Failing{f.times, f.last}
	if len(t.Failing) < maxFailing {
		t.Failing = append(t.Failing, x)
	} else if k := slices.IndexFunc(t.Failing, func(y Failing) bool { return y.Times < x.Times }); k >= 0 {
		t.Failing[k] = x
	} else {
		return
	}
	t.Named[j.Def.ID] = j
}

// deserted returns whether each app is without an executor.
func (q *Queries) deserted(ctx context.Context, apps []core.App, g core.Global) (map[string]bool, error) {
	names := make([]string, len(apps))
	for i := range apps {
		names[i] = apps[i].Name
	}
	stored, err := q.store.Executors(ctx, names)
	if err != nil {
		return nil, core.Retryable(err)
	}
	deserted := make(map[string]bool, len(apps))
	for i := range apps {
		deserted[apps[i].Name] = len(apps[i].Candidates(stored[apps[i].Name], g, q.o.Now(), q.o.Expiry)) == 0
	}
	return deserted, nil
}

// alone counts a job in the list of the apps without an executor, if it has a schedule and needs an executor.
func alone(list []AppWithoutExecutor, j *core.Job) []AppWithoutExecutor {
	if len(j.Sched.Schedule.Any) == 0 || j.Def.Command != nil {
		return list
	}
	i := slices.IndexFunc(list, func(a AppWithoutExecutor) bool { return a.App == j.Def.App })
	if i < 0 {
		i = len(list)
		list = append(list, AppWithoutExecutor{App: j.Def.App, First: j.Name()})
	}
	list[i].Jobs++
	return list
}

// fares describes the last ended runs of a job.
type fares struct {
	times   int       // failures in a row
	all     bool      // every ended run that was read failed
	last    core.Run  // newest failure
	pending *core.Run // oldest due run that was not sent; nil: none
}

func (f *fares) fails() bool { return f.times >= failsInARow || f.times > 0 && f.all }

// fares reads the runs of a job from the newest due run backwards, until a run ended without a failure.
func (q *Queries) fares(ctx context.Context, job core.JobID) (f fares, err error) {
	now := core.InstantOf(q.o.Now())
	low, high := core.RunRange(job, firstInstant, now)
	nlow, nhigh := core.NumberedRange(job)
	planned := &reader{q: q, at: high, to: low, down: true, n: failsInARow + 1}
	numbered := &reader{q: q, at: nhigh, to: nlow, down: true, n: failsInARow + 1}
	for range maxPast {
		take, r, err := newer(ctx, planned, numbered)
		if err != nil {
			return f, err
		}
		if r == nil {
			f.all = true
			return f, nil
		}
		switch {
		case r.State.Open():
			if (r.State == core.Planned || r.State == core.Queued) && r.Slot <= now {
				waits := *r
				f.pending = &waits
			}
		case r.FailedForGood():
			if f.times++; f.times == 1 {
				f.last = *r
			}
			if f.times == failsInARow {
				return f, nil
			}
		case r.Then == 0 && r.State != core.Skipped:
			return f, nil
		}
		take.drop()
	}
	return f, nil
}
