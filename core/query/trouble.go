package query

import (
	"context"
	"maps"
	"slices"

	"github.com/tickring/tickring/core"
)

const (
	maxTroubled = 10_000 // jobs scanned for one page
	failsInARow = 3      // failed chains in a row that make a job failing
	maxFailing  = 100    // failing jobs listed by name
	maxUntold   = 100    // missing channels listed by name
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
	h, err := q.holds(ctx) // unreadable apps are reported elsewhere
	if err != nil {
		return res, err
	}
	deserted, err := q.deserted(ctx, &h)
	if err != nil {
		return res, err
	}
	now := q.o.Now()
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
	for i := range h.apps {
		if a := &h.apps[i]; sees == nil || sees(a.Name) {
			untold(a.Name, &a.Notify)
		}
	}
	var jobs []*core.Job
	p := q.Page()
	next, err := q.EachJob(ctx, "", 0, p, func(j *core.Job) bool {
		if len(jobs) == maxTroubled {
			return false
		}
		if sees == nil || sees(j.Def.App) {
			jobs = append(jobs, j)
		}
		return true
	})
	if err != nil {
		return res, err
	}
	for part := range slices.Chunk(jobs, lastAtOnce) {
		if res.Looked > 0 && p.Over() {
			break
		}
		found, err := q.fares(ctx, slices.DeleteFunc(slices.Clone(part), func(j *core.Job) bool {
			return j.Sched.State != core.Started || h.covers(j.Def.App, now)
		}))
		if err != nil {
			return res, err
		}
		for _, j := range part {
			res.Looked++
			untold(j.Name(), &j.Def.Notify)
			if why := j.LockedSecrets(); why != nil && len(res.Locked) < maxUntold {
				res.Locked = append(res.Locked, Locked{j.Name(), why})
			}
			f := found[j.Def.ID]
			if f == nil { // it is paused or has ended
				continue
			}
			if deserted[j.Def.App] {
				res.Deserted = alone(res.Deserted, j)
			}
			if f.fails() {
				res.fails(j, f)
			}
			if f.pending != nil && (res.Pending == nil || f.pending.Slot < res.Pending.Slot) {
				res.Pending, res.Named[j.Def.ID] = f.pending, j
			}
		}
	}
	for id, why := range p.Bad {
		if sees == nil && len(res.Locked) < maxUntold { // the app of an unreadable job is unknown
			res.Locked = append(res.Locked, Locked{id.String(), core.Errorf(core.CodeRefused,
				"job %d cannot be read: %v; a failed run with retries left stays open until the job can be read", id, why)})
		}
	}
	res.More = next != 0 || res.Looked < len(jobs)
	return res, nil
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
func (q *Queries) deserted(ctx context.Context, h *holds) (map[string]bool, error) {
	stored, err := q.store.Executors(ctx, slices.Collect(maps.Keys(h.of)))
	if err != nil {
		return nil, core.Retryable(err)
	}
	deserted := make(map[string]bool, len(h.apps))
	for i := range h.apps {
		a := &h.apps[i]
		deserted[a.Name] = len(a.Candidates(stored[a.Name], h.global, q.o.Now(), q.o.Expiry)) == 0
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
	times   int       // failed chains in a row
	all     bool      // every ended chain that was read failed
	last    core.Run  // newest failure
	pending *core.Run // oldest due run that was not sent; nil: none
}

func (f *fares) fails() bool { return f.times >= failsInARow || f.times > 0 && f.all }

// fares reads the runs of jobs from the newest due run backwards, until a chain ended without a failure.
func (q *Queries) fares(ctx context.Context, jobs []*core.Job) (map[core.JobID]*fares, error) {
	ids, found := make([]core.JobID, len(jobs)), make(map[core.JobID]*fares, len(jobs))
	for i, j := range jobs {
		ids[i] = j.Def.ID
	}
	err := q.lastRuns(ctx, ids, q.o.Now(), func(job core.JobID, runs []core.Run) (enough bool) {
		f := &fares{all: true}
		found[job] = f
		for i := range runs {
			switch r := &runs[i]; {
			case r.State == core.Planned || r.State == core.Queued:
				f.pending = r
			case !endsChain(r):
			case !r.FailedForGood():
				f.all = false
				return true
			default:
				if f.times++; f.times == 1 {
					f.last = *r
				}
				if f.times == failsInARow {
					return true
				}
			}
		}
		return false
	})
	return found, err
}
