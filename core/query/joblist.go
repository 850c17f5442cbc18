package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/glance"
)

// Standing is a status of a job. A job can have several statuses at once.
type Standing string

const (
	IsFailing  Standing = "failing"   // the job's last closed retry chain failed
	IsLate     Standing = "late"      // the last run was sent later than the job's grace, or a due run has not been sent within the grace
	IsHeld     Standing = "paused"    // the job, its app or all jobs are paused
	IsStarted  Standing = "started"   // the job is neither paused nor ended, so its schedule applies
	IsNeverRan Standing = "never-ran" // the job has no run
	IsOver     Standing = "ended"     // the job's schedule has no further scheduled time
)

var Standings = []Standing{IsFailing, IsLate, IsHeld, IsStarted, IsNeverRan, IsOver}

// Order is the sort order of a job list.
type Order string

const (
	ByNumber Order = "number"
	ByName   Order = "name"
	ByNext   Order = "next" // next scheduled time
	ByLast   Order = "last" // due time of the job's last run
)

var Orders = []Order{ByNumber, ByName, ByNext, ByLast}

// MaxRecent is the maximum number of last runs of each job in a list.
const MaxRecent = 30

// JobsAsk selects and sorts a list of jobs.
type JobsAsk struct {
	JobFilter            // After and Last are ignored
	Is        []Standing // the job must have all of these statuses; empty: any status
	By        Order      // sort order; empty: ByNumber
	Down      bool
	Cursor    string // value of Next from the previous page
	Recent    int    // number of last runs of each job
}

// JobsNow is one page of a list of jobs, with the number of jobs for each status.
type JobsNow struct {
	Jobs   []core.Job
	Recent [][]core.Run // last runs of each job in Jobs, newest first
	Failed map[core.JobID]error
	// All is the number of jobs that the filter selects, ignoring Is. Of is the number of these jobs for each status.
	All int
	Of  map[Standing]int
	// Partial is true if the status of some jobs is unknown, or if not all jobs were read.
	Partial bool
	// Unread is true if the last runs of most jobs were not read. Then Of counts for IsLate only jobs that the ticker
	// did not plan in time, and no jobs for IsNeverRan.
	Unread bool
	// Unchecked is the number of further jobs that may be failing but were not checked.
	Unchecked int
	Next      string
}

// JobsNow returns one page of the selected jobs. It reads all jobs, and caches the last runs of the jobs.
func (q *Queries) JobsNow(ctx context.Context, a JobsAsk) (JobsNow, error) {
	limit, err := a.check()
	if err != nil {
		return JobsNow{}, err
	}
	p := q.Page()
	f, err := q.find(ctx, &a)
	if err != nil {
		return JobsNow{}, err
	}
	res, list := f.JobsNow, f.jobs
	slices.SortFunc(list, func(x, y ranked) int { return x.compare(&y.rank, a.Down) })
	if a.Cursor != "" {
		from, err := a.rank()
		if err != nil {
			return JobsNow{}, err
		}
		i, is := slices.BinarySearchFunc(list, from, func(x ranked, from rank) int { return x.compare(&from, a.Down) })
		if is {
			i++
		}
		list = list[i:]
	}
	jobs := make([]*core.Job, min(limit, len(list)))
	for i := range jobs {
		jobs[i] = list[i].job
	}
	fit, err := q.withLast(ctx, p, jobs, a.Recent, func(j *core.Job, runs []core.Run) {
		res.Jobs, res.Recent = append(res.Jobs, *j), append(res.Recent, runs)
	})
	if err != nil {
		return JobsNow{}, err
	}
	if fit < len(list) && fit > 0 {
		res.Next = list[fit-1].String()
	}
	return res, nil
}

// CountFailing returns the number of failing jobs in the apps for which the function `sees` returns true. A nil function
// selects all apps. The result partial is true if the status of some jobs is unknown.
func (q *Queries) CountFailing(ctx context.Context, sees func(app string) bool) (jobs int, partial bool, err error) {
	f, err := q.find(ctx, &JobsAsk{JobFilter: JobFilter{Sees: sees}})
	if err != nil {
		return 0, false, err
	}
	return f.Of[IsFailing], f.Partial || f.Unchecked > 0, nil
}

// found are the jobs that match a filter.
type found struct {
	JobsNow // of the whole list, without Jobs, Recent and Next
	jobs    []ranked
	more    bool // more jobs exist
	bad     int  // number of unreadable jobs
	holds
	stand *standing
	next  func(j *core.Job) core.Instant // returns the next scheduled time outside pauses; 0: none
}

// stands reads the status of jobs from their last runs. If a store lists possibly failing jobs, a page reads only
// their runs, unless it needs the runs of all jobs.
func (q *Queries) stands(ctx context.Context, a *JobsAsk, ids []core.JobID) (s *standing, unread bool, err error) {
	unread = q.store.Failed != nil && glance.Of(ctx) != nil && a.By != ByLast && !slices.Contains(a.Is, IsLate) &&
		!slices.Contains(a.Is, IsNeverRan)
	if unread {
		s, err = q.mayFail(ctx, ids)
	} else {
		s, err = q.lately.look(ctx, q, ids)
	}
	return s, unread, err
}

func (q *Queries) find(ctx context.Context, a *JobsAsk) (*found, error) {
	h, err := q.holds(ctx)
	if err != nil {
		return nil, err
	}
	now := q.o.Now()
	p := q.Page()
	var jobs []*core.Job
	var ids []core.JobID
	next, err := q.EachJob(ctx, a.App, 0, p, func(j *core.Job) bool {
		if len(jobs) == mostLately {
			return false
		}
		if a.takes(j) {
			jobs, ids = append(jobs, j), append(ids, j.Def.ID)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	s, unread, err := q.stands(ctx, a, ids)
	if err != nil {
		return nil, err
	}
	f := &found{JobsNow: JobsNow{All: len(jobs), Of: map[Standing]int{}, Partial: next != 0 || !s.all, Unread: unread,
		Unchecked: s.unchecked, Failed: a.tells(p.Passed(0))}, more: next != 0, bad: len(p.Bad),
		holds: h, stand: s, jobs: make([]ranked, 0, len(jobs)),
		next: func(j *core.Job) core.Instant {
			return q.nexts.next(&j.Sched, core.InstantOf(now), h.global.Pause, h.of[j.Def.App])
		}}
	for _, j := range jobs {
		held := h.covers(j.Def.App, now) || j.Sched.PausedAt(now)
		takes := true
		for _, stands := range [...]struct {
			so Standing
			is bool
		}{
			{IsFailing, s.failing(j.Def.ID) != nil}, {IsLate, !held && s.late(j)}, {IsHeld, held},
			{IsStarted, !held && j.Sched.State != core.Ended}, {IsNeverRan, s.neverRan(j.Def.ID)},
			{IsOver, j.Sched.State == core.Ended},
		} {
			if stands.is {
				f.Of[stands.so]++
			} else if slices.Contains(a.Is, stands.so) {
				takes = false
			}
		}
		if takes {
			f.jobs = append(f.jobs, ranked{a.of(j, f), j})
		}
	}
	return f, nil
}

func (a *JobsAsk) check() (limit int, err error) {
	for _, s := range a.Is {
		if !slices.Contains(Standings, s) {
			return 0, core.Invalid("status", string(s), "allowed values: %s", core.JoinAllowed(Standings))
		}
	}
	if a.By = cmp.Or(a.By, ByNumber); !slices.Contains(Orders, a.By) {
		return 0, core.Invalid("sort", string(a.By), "allowed values: %s", core.JoinAllowed(Orders))
	}
	if a.Recent < 0 || a.Recent > MaxRecent {
		return 0, core.Invalid("runs", strconv.Itoa(a.Recent), "allowed values: 0 to %d", MaxRecent)
	}
	return a.JobFilter.check()
}

// rank is the position of a job in an order; a job without a time is last in both directions.
type rank struct {
	none bool
	at   int64
	name string
	id   core.JobID
}

type ranked struct {
	rank
	job *core.Job
}

func (a *JobsAsk) of(j *core.Job, f *found) rank {
	p := rank{id: j.Def.ID}
	switch a.By {
	case ByName:
		p.name = j.Name()
	case ByNext:
		p.at = int64(f.next(j))
		p.none = p.at == 0
	case ByLast:
		if b := f.stand.last(j.Def.ID); b != nil {
			p.at = int64(b.slot)
		} else {
			p.none = true
		}
	}
	return p
}

func (p *rank) compare(o *rank, down bool) int {
	if p.none != o.none {
		if p.none {
			return 1
		}
		return -1
	}
	n := cmp.Or(cmp.Compare(p.at, o.at), strings.Compare(p.name, o.name), cmp.Compare(p.id, o.id))
	if down {
		return -n
	}
	return n
}

// String returns the position in the form of JobsNow.Next.
func (p *rank) String() string {
	at := p.name
	switch {
	case p.none:
		at = "-"
	case p.name == "":
		at = strconv.FormatInt(p.at, 10)
	}
	return at + "@" + p.id.String()
}

// rank parses the cursor.
func (a *JobsAsk) rank() (p rank, err error) {
	at, number, ok := strings.Cut(a.Cursor, "@")
	id, err := strconv.ParseInt(number, 10, 32)
	bad := core.Invalid("cursor", a.Cursor, "not the value of `cursor` from a page of this list")
	if !ok || err != nil || id <= 0 {
		return p, bad
	}
	p.id = core.JobID(id)
	switch {
	case at == "-" && (a.By == ByNext || a.By == ByLast):
		p.none = true
	case a.By == ByName:
		p.name = at
	default:
		if p.at, err = strconv.ParseInt(at, 10, 64); err != nil || p.at == math.MinInt64 {
			return p, bad
		}
	}
	return p, nil
}

// Select returns the selected jobs with an ID above the parameter after, ordered by ID, for a bulk operation. The result
// all is the number of all selected jobs. The result bad has the unreadable jobs, which might match the filter too.
// Select waits until the status of all jobs is known.
func (q *Queries) Select(ctx context.Context, a JobsAsk, after core.JobID) (jobs []core.Job, all int, bad map[core.JobID]error, err error) {
	if _, err := a.check(); err != nil {
		return nil, 0, nil, err
	}
	p := q.Page()
	for {
		f, err := q.find(ctx, &a)
		switch {
		case err != nil:
			return nil, 0, nil, err
		case f.more && f.bad >= budget.Missing: // after this many unreadable jobs the scan stops
			return nil, 0, nil, core.Errorf(core.CodeRefused, "too many jobs cannot be read: `tickring doctor` lists these "+
				"jobs")
		case f.more:
			return nil, 0, nil, core.Errorf(core.CodeTooLarge, "too many jobs: choose an app")
		case slices.Contains(a.Is, IsFailing) && f.Unchecked > 0:
			return nil, 0, nil, core.Errorf(core.CodeTooLarge, "more than %d jobs could be failing: choose an app",
				budget.FailingRead)
		case len(a.Is) > 0 && f.Partial && p.Over():
			return nil, 0, nil, core.Retryable(core.ErrThrottled)
		case len(a.Is) > 0 && f.Partial:
			continue
		}
		for i := range f.jobs {
			if j := f.jobs[i].job; j.Def.ID > after {
				jobs = append(jobs, *j)
			}
		}
		return jobs, len(f.jobs), f.Failed, nil
	}
}
