package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// maxFew is the number of matching jobs up to which Upcoming lists waiting runs.
const maxFew = 100

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
	h, err := q.holds(ctx)
	if err != nil {
		return UpcomingResult{}, err
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
		if why := h.bad[j.Def.App]; why != nil { // the pause of its app is unknown
			p.Bad[j.Def.ID] = core.UnreadableApp(j.Def.App, why)
			return true
		}
		if fit++; fit <= maxFew {
			few = append(few, *j)
		}
		for _, at := range nextOf(&j.Sched, after, end, limit+1, h.global.Pause, h.of[j.Def.App]) {
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
					c := comingOf(&few[i], r.Slot)
					c.Cause, c.Run = r.Cause, r.ID
					res.Coming = append(res.Coming, c)
				}
			}
		}
	}
	trim()
	res.Partial = res.Partial || len(p.Passed(res.Next)) > 0
	return res, nil
}
