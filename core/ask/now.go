package ask

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
	"github.com/tickring/tickring/core/bound"
	"github.com/tickring/tickring/core/glance"
)

// Standing is how a job stands now, in a word.
type Standing string

const (
	IsFailing  Standing = "failing"   // its last chain that ended failed
	IsLate     Standing = "late"      // what is due is not sent within its grace, or was sent late
	IsHeld     Standing = "paused"    // by itself, its app or everything
	IsStarted  Standing = "started"   // neither paused nor ended: what its schedule says happens
	IsNeverRan Standing = "never-ran" // it has no run
	IsOver     Standing = "ended"     // its schedule has no further instant
)

var Standings = []Standing{IsFailing, IsLate, IsHeld, IsStarted, IsNeverRan, IsOver}

// Order is by what jobs are listed.
type Order string

const (
	ByNumber Order = "number"
	ByName   Order = "name"
	ByNext   Order = "next" // when they fire next
	ByLast   Order = "last" // the instant of their last run
)

var Orders = []Order{ByNumber, ByName, ByNext, ByLast}

// MaxRecent is how many of the last runs of each job a list may have.
const MaxRecent = 30

// JobsAsk is how jobs are listed by how they stand.
type JobsAsk struct {
	JobFilter            // but After and Last
	Is        []Standing // each of these; empty: any
	By        Order      // ByNumber if empty
	Down      bool
	Cursor    string // Next of the page before
	Recent    int    // of each job so many of its last runs
}

// JobsNow is a page of jobs by how they stand.
type JobsNow struct {
	Jobs   []core.Job
	Recent [][]core.Run // of each of Jobs, the newest first
	Failed core.Unreadable
	// Of says how many of those that the filter takes, but for Is, stand so; All are all of
	// these.
	All int
	Of  map[Standing]int
	// Partial says that of some it is not known how they stand, or that there are more than
	// one look takes.
	Partial bool
	// Unread reports that the last runs of most jobs were not read: Of has only those that are late because they are
	// not planned, and none that never ran.
	Unread bool
	// Unchecked is how many more jobs may be failing, see bound.FailingRead.
	Unchecked int
	Next      string
}

// JobsNow lists jobs by how they stand, in an order. It walks over all jobs and keeps what it
// knows of their last runs: see lately.
func (q *Ask) JobsNow(ctx context.Context, a JobsAsk) (JobsNow, error) {
	limit, err := a.check()
	if err != nil {
		return JobsNow{}, err
	}
	p := q.Page()
	f, err := q.find(ctx, &a)
	if err != nil {
		return JobsNow{}, err
	}
	res := JobsNow{All: f.all, Of: f.of, Partial: f.partial, Unread: f.unread, Unchecked: f.stand.unchecked, Failed: f.failed}
	list := f.jobs
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
	for part := range bound.Chunks(list[:min(limit, len(list))], lastAtOnce) {
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

// lastAtOnce is of how many jobs the last runs are read at once: each may have thirty with a long
// message, of which the page keeps one.
const lastAtOnce = 25

// lastOf reads the last runs of jobs, of which what is shown of all but the first is brief.
func (q *Ask) lastOf(ctx context.Context, jobs []ranked, recent int) (map[core.JobID][]core.Run, error) {
	if recent == 0 {
		return nil, nil
	}
	ids := make([]core.JobID, len(jobs))
	for i := range ids {
		ids[i] = jobs[i].job.Def.ID
	}
	last, err := q.store.LastRuns(ctx, ids, core.InstantOf(q.o.Now()), recent)
	if err != nil {
		return nil, core.Passing(err)
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

// CountFailing returns how many jobs of the apps that sees does not deny are failing; partial
// reports that the status of some jobs is not known.
func (q *Ask) CountFailing(ctx context.Context, sees func(app string) bool) (jobs int, partial bool, err error) {
	f, err := q.find(ctx, &JobsAsk{JobFilter: JobFilter{Sees: sees}})
	if err != nil {
		return 0, false, err
	}
	return f.of[IsFailing], f.partial || f.stand.unchecked > 0, nil
}

// Found are jobs that a filter finds.
type found struct {
	jobs    []ranked
	all     int
	of      map[Standing]int
	partial bool
	more    bool // there are more jobs
	bad     int  // cannot be read
	failed  core.Unreadable
	unread  bool // only of those that may be failing the last runs were read
	stand   *standing
	next    func(j *core.Job) core.Instant // when a job fires next, by what is paused; 0: it does not
}

// stands reads how jobs stand by their last runs. Where a store lists those that may be failing, a page reads
// the runs of these alone, unless it asks for what only the runs of all tell.
func (q *Ask) stands(ctx context.Context, a *JobsAsk, ids []core.JobID) (s *standing, unread bool, err error) {
	unread = q.o.Failed != nil && glance.Of(ctx) != nil && a.By != ByLast && !slices.Contains(a.Is, IsLate) &&
		!slices.Contains(a.Is, IsNeverRan)
	if unread {
		s, err = q.mayFail(ctx, ids)
	} else {
		s, err = q.lately.look(ctx, q, ids)
	}
	return s, unread, err
}

func (q *Ask) find(ctx context.Context, a *JobsAsk) (*found, error) {
	g, err := q.Global(ctx)
	if err != nil {
		return nil, err
	}
	apps, _, err := q.Apps(ctx)
	if err != nil {
		return nil, err
	}
	now := q.o.Now()
	paused, pauses := make(map[string]bool, len(apps)), make(map[string]core.Pause, len(apps))
	for i := range apps {
		paused[apps[i].Name] = apps[i].Pause.Covers(now) || g.Pause.Covers(now)
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
	f := &found{unread: unread, all: len(jobs), of: map[Standing]int{}, partial: next != 0 || !s.all, more: next != 0, bad: len(p.Bad),
		failed: a.tells(p.Passed(0)), stand: s, jobs: make([]ranked, 0, len(jobs)),
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
				f.of[stands.so]++
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
			return 0, core.Invalid("is", string(s), "allowed values: %s", core.Words(Standings))
		}
	}
	if a.By = cmp.Or(a.By, ByNumber); !slices.Contains(Orders, a.By) {
		return 0, core.Invalid("sort", string(a.By), "allowed values: %s", core.Words(Orders))
	}
	if a.Recent < 0 || a.Recent > MaxRecent {
		return 0, core.Invalid("runs", strconv.Itoa(a.Recent), "allowed are 0 to %d", MaxRecent)
	}
	return a.JobFilter.check()
}

// rank is where a job stands in an order: what has no moment comes last both ways.
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

// String is the place as a cursor.
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

// rank reads a cursor.
func (a *JobsAsk) rank() (p rank, err error) {
	at, number, ok := strings.Cut(a.Cursor, "@")
	id, err := strconv.ParseInt(number, 10, 32)
	bad := core.Invalid("cursor", a.Cursor, "not a cursor of a page of these jobs")
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

// texts are what of a job a text is looked for in.
func texts(j *core.Job, do func(string) bool) bool {
	d := &j.Def
	for _, text := range []string{d.App, d.Name, d.Title, d.Handler, d.Author, d.Params} {
		if do(text) {
			return true
		}
	}
	for _, w := range j.Sched.Schedule.Any {
		text := w.Expr
		switch w.Kind {
		case core.KindEvery, core.KindFixedDelay:
			text = w.Every.String()
		case core.KindAt:
			text = w.At.Time().Format(time.RFC3339)
		}
		if do(text) {
			return true
		}
	}
	return false
}

// has reports whether a job has a text, in lower case, in what is said of it, or is of that number.
func has(j *core.Job, text string) bool {
	if n, err := strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 32); err == nil && core.JobID(n) == j.Def.ID {
		return true
	}
	return strings.Contains(strings.ToLower(j.Name()), text) ||
		texts(j, func(of string) bool { return len(of) >= len(text) && strings.Contains(strings.ToLower(of), text) })
}

// Select is the jobs that a filter finds, behind a number, in the order of their numbers, and
// how many it finds in all; for who acts on them. It waits until it knows how all stand. Beside them
// are those that cannot be read, of which nobody knows whether the filter means them.
func (q *Ask) Select(ctx context.Context, a JobsAsk, after core.JobID) (jobs []core.Job, all int, bad core.Unreadable, err error) {
	if _, err := a.check(); err != nil {
		return nil, 0, nil, err
	}
	p := q.Page()
	for {
		f, err := q.find(ctx, &a)
		switch {
		case err != nil:
			return nil, 0, nil, err
		case f.more && f.bad >= bound.Missing: // behind so many nobody looks for others
			return nil, 0, nil, core.Errorf(core.CodeRefused, "too many jobs cannot be read: tickring doctor lists them")
		case f.more:
			return nil, 0, nil, core.Errorf(core.CodeTooLarge, "too many jobs: choose an app")
		case slices.Contains(a.Is, IsFailing) && f.stand.unchecked > 0:
			return nil, 0, nil, core.Errorf(core.CodeTooLarge, "more than %d jobs could be failing: choose an app, or use the command",
				bound.FailingRead)
		case len(a.Is) > 0 && f.partial && p.Over():
			return nil, 0, nil, core.Passing(core.ErrThrottled)
		case len(a.Is) > 0 && f.partial:
			continue
		}
		for i := range f.jobs {
			if j := f.jobs[i].job; j.Def.ID > after {
				jobs = append(jobs, *j)
			}
		}
		return jobs, len(f.jobs), f.failed, nil
	}
}

// Named is the jobs of references, each once and in the order of their numbers, and those of
// which there is none or that cannot be read.
func (q *Ask) Named(ctx context.Context, refs []string) (jobs []core.Job, missing []string, bad core.Unreadable, err error) {
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
	found, left, err := q.store.Jobs(ctx, ids)
	bad, err = core.Besides(err)
	if err := core.Unread(left, err); err != nil {
		return nil, nil, nil, err
	}
	bad.Unlock(func(j *core.Job) { found[j.Def.ID] = j })
	for _, id := range ids {
		if j := found[id]; j != nil {
			jobs = append(jobs, *j)
		} else if bad[id] == nil {
			missing = append(missing, of[id])
		}
	}
	return jobs, missing, bad, nil
}

// ChangedBy reports whether a job is as an act left it.
func (q *Ask) ChangedBy(ctx context.Context, j *core.Job, act string) (bool, error) {
	changes, err := q.store.Changes(ctx, "", j.Def.ID, j.Sched.Rev, 1)
	if err != nil {
		return false, core.Passing(err)
	}
	return len(changes) > 0 && changes[0].ID == j.Sched.Rev && changes[0].Act == act, nil
}
