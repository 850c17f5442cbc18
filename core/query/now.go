package query

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/store"
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
	fit := 0
	for part := range slices.Chunk(list[:min(limit, len(list))], lastAtOnce) {
		last, err := q.lastOf(ctx, part, a.Recent)
		if err != nil {
			return JobsNow{}, err
		}
		took := 0
		for took < len(part) {
			j, runs := part[took].job, last[part[took].job.Def.ID]
			if !p.Takes(j) || fit+took > 0 && !p.Takes(runs) {
				break
			}
			res.Jobs, res.Recent = append(res.Jobs, *j), append(res.Recent, runs)
			took++
		}
		if fit += took; took < len(part) {
			break
		}
	}
	if fit < len(list) && fit > 0 {
		res.Next = list[fit-1].String()
	}
	return res, nil
}

// lastAtOnce is for how many jobs the last runs are read at once. Each can have thirty runs with a long message, and
// the page keeps one.
const lastAtOnce = 25

// lastOf reads the last runs of jobs, with only the main fields except for the newest.
func (q *Queries) lastOf(ctx context.Context, jobs []ranked, recent int) (map[core.JobID][]core.Run, error) {
	if recent == 0 {
		return nil, nil
	}
	ids := make([]core.JobID, len(jobs))
	for i := range ids {
		ids[i] = jobs[i].job.Def.ID
	}
	last, err := q.store.Runs.Last(ctx, ids, core.InstantOf(q.o.Now()), recent)
	if err != nil {
		return nil, core.Retryable(err)
	}
	for _, runs := range last {
		for k := range runs {
			if k > 0 {
				runs[k].Message, runs[k].Params, runs[k].Data, runs[k].Tries = "", nil, "", nil
			}
		}
	}
	return last, nil
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
	apps    []core.App
	global  core.Global
	paused  map[string]bool // apps that are paused, alone or with everything
	stand   *standing
	next    func(j *core.Job) core.Instant // returns the next scheduled time outside pauses; 0: none
}

// pausedApps returns whether each app is paused, alone or with everything.
func pausedApps(apps []core.App, g core.Global, now time.Time) map[string]bool {
	paused := make(map[string]bool, len(apps))
	for i := range apps {
		paused[apps[i].Name] = apps[i].Pause.Covers(now) || g.Pause.Covers(now)
	}
	return paused
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
	g, apps, _, err := q.allPaused(ctx)
	if err != nil {
		return nil, err
	}
	now := q.o.Now()
	paused, pauses := pausedApps(apps, g, now), make(map[string]core.Pause, len(apps))
	for i := range apps {
		pauses[apps[i].Name] = apps[i].Pause
	}
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
		apps: apps, global: g, paused: paused, stand: s, jobs: make([]ranked, 0, len(jobs)),
		next: func(j *core.Job) core.Instant {
			return q.nexts.next(&j.Sched, core.InstantOf(now), g.Pause, pauses[j.Def.App])
		}}
	for _, j := range jobs {
		held := paused[j.Def.App] || j.Sched.PausedAt(now)
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

// has reports whether a text, in lower case, is in the searched texts of a job, or is its number.
func has(j *core.Job, text string) bool {
	if n, err := strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 32); err == nil && core.JobID(n) == j.Def.ID {
		return true
	}
	d := &j.Def
	texts := []string{j.Name(), d.Title, d.Handler, d.Author, d.Params}
	for _, w := range j.Sched.Schedule.Any {
		switch w.Kind {
		case core.KindEvery, core.KindFixedDelay:
			texts = append(texts, w.Every.String())
		case core.KindAt:
			texts = append(texts, w.At.Time().Format(time.RFC3339))
		default:
			texts = append(texts, w.Expr)
		}
	}
	return slices.ContainsFunc(texts, func(of string) bool { return len(of) >= len(text) && contains(of, text) })
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

// Named returns the jobs that the references name, without duplicates and ordered by ID. missing has the references
// to jobs that do not exist, and bad has the unreadable jobs.
func (q *Queries) Named(ctx context.Context, refs []string) (jobs []core.Job, missing []string, bad map[core.JobID]error, err error) {
	of := map[core.JobID]string{}
	for _, ref := range refs {
		id, err := q.JobID(ctx, ref)
		switch {
		case core.CodeOf(err) == core.CodeNotFound:
			missing = append(missing, ref)
		case err != nil:
			return nil, nil, nil, err
		default:
			of[id] = ref
		}
	}
	ids := slices.Sorted(maps.Keys(of))
	found, bad, err := store.Split(store.Unlocked(q.store.Jobs.Get(ctx, store.Whole, ids)))
	if err != nil {
		return nil, nil, nil, core.Retryable(err)
	}
	for _, id := range ids {
		if j := found[id]; j != nil {
			jobs = append(jobs, *j)
		} else if bad[id] == nil {
			missing = append(missing, of[id])
		}
	}
	return jobs, missing, bad, nil
}

// ChangedBy reports whether the bulk operation with the ID act made the last change of a job.
func (q *Queries) ChangedBy(ctx context.Context, j *core.Job, act string) (bool, error) {
	changes, err := q.store.Changes(ctx, "", j.Def.ID, j.Sched.Rev, 1)
	if err != nil {
		return false, core.Retryable(err)
	}
	return len(changes) > 0 && changes[0].ID == j.Sched.Rev && changes[0].Act == act, nil
}
