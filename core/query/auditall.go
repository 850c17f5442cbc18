package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
)

// auditedAtOnce is how many jobs, and how many tombstones, are read at a time.
const auditedAtOnce = 500

// AuditAsk selects the jobs and the time span of an audit or a replan. If Job is empty, the audit covers all jobs,
// including jobs that were deleted after From.
type AuditAsk struct {
	Job      string       // the job, as app/name or number
	From, To core.Instant // scheduled times after From and at most To
	After    string       // value of Next from the previous page
	// Sees reports whether the caller can see an app; nil: the caller can see all apps. If Sees is set, unreadable
	// jobs are left out.
	Sees func(app string) bool
}

// place is the position after a page: after a job, or within it. If at is not 0, the page continues after this
// scheduled time; if below is not 0, at the job's runs with lower IDs.
type place struct {
	job   core.JobID
	at    core.Instant
	below core.RunID
}

func (p place) within() bool { return p.at != 0 || p.below != 0 }

func (p place) String() string {
	switch {
	case p.below != 0:
		return p.job.String() + "#" + strconv.FormatInt(int64(p.below), 10)
	case p.at != 0:
		return p.job.String() + "@" + strconv.FormatInt(int64(p.at), 10)
	}
	return p.job.String()
}

func placeOf(ask *AuditAsk, ahead bool) (p place, err error) {
	if ask.After == "" {
		return p, nil
	}
	job, at, within := strings.Cut(ask.After, "@")
	job, below, numbered := strings.Cut(job, "#")
	n, err := strconv.ParseInt(job, 10, 32)
	p.job = core.JobID(n)
	if err == nil && within {
		n, err = strconv.ParseInt(at, 10, 64)
		p.at = core.Instant(n)
	}
	if err == nil && numbered {
		n, err = strconv.ParseInt(below, 10, 64)
		p.below = core.RunID(n)
	}
	low, _ := core.RunRange(p.job, 0, 0)
	_, high := core.NumberedRange(p.job)
	switch {
	case err != nil, p.job < 0, within && (numbered || p.at <= ask.From), numbered && (!ahead || p.below < low || p.below > high):
		return place{}, core.Invalid("after", ask.After, "not the value of `next` from a page of this time range")
	}
	return p, nil
}

// AuditPage audits jobs until Options.PageFor has passed. AuditSum.Next is the After for the next page.
func (q *Queries) AuditPage(ctx context.Context, ask AuditAsk) (AuditSum, error) {
	sum := AuditSum{From: ask.From, To: ask.To}
	return sum, q.addPage(ctx, &sum, &ask)
}

// addPage adds one page to a sum.
func (q *Queries) addPage(ctx context.Context, sum *AuditSum, ask *AuditAsk) error {
	var err error
	sum.Next, err = q.auditPage(ctx, &auditing{}, ask, func(reports []AuditReport) error {
		for i := range reports {
			sum.report(&reports[i])
		}
		return nil
	})
	return err
}

// report adds one report. The job is counted with its last report.
func (s *AuditSum) report(r *AuditReport) {
	if r.Failed != "" {
		s.Failed = AtMost(s.Failed, r.Failure())
		return
	}
	if r.Next == 0 {
		s.Jobs++
	}
	s.AuditCount.add(&r.AuditCount)
	s.Partial = s.Partial || r.Partial
	if !r.Well() && len(s.Missing) < budget.Missing {
		s.Missing = append(s.Missing, *r)
	}
	if !r.Behind.IsZero() {
		s.Behind = r.Behind
	}
}

// Lost audits one page of jobs, and calls the function each with the reports of each job, in order. AuditReport.Again
// lists the missing runs. If ahead is not 0, Again also lists open runs, runs with pending follow-ups, and runs that
// may be on the delay queue. If the function returns an error, Lost stops.
func (q *Queries) Lost(
	ctx context.Context, ask AuditAsk, ahead time.Duration, each func(p *budget.Page, reports []AuditReport) error,
) (next string, err error) {
	a := &auditing{again: true, ahead: ahead > 0, window: ahead}
	return q.auditPage(ctx, a, &ask, func(reports []AuditReport) error { return each(a.page, reports) })
}

// AuditAll audits all jobs, page by page, and returns the sum.
func (q *Queries) AuditAll(ctx context.Context, from, to core.Instant) (AuditSum, error) {
	sum := AuditSum{From: from, To: to}
	for ask := (AuditAsk{From: from, To: to}); ; ask.After = sum.Next {
		if err := q.addPage(ctx, &sum, &ask); err != nil {
			return AuditSum{}, err
		}
		if sum.Next == "" {
			return sum, nil
		}
	}
}

// Failure returns a text with the job and the reason why the job could not be audited.
func (r *AuditReport) Failure() string {
	if r.Name == "" {
		return "job " + r.Job.String() + ": " + r.Failed
	}
	return r.App + "/" + r.Name + ": " + r.Failed
}

// AtMost appends the texts in more to a list, up to a total of 100 texts.
func AtMost(list []string, more ...string) []string {
	return append(list, more[:min(len(more), max(0, budget.Missing-len(list)))]...)
}

// subject is an audited job: the stored job or, if it was deleted, the data of its tombstone.
type subject struct {
	id        core.JobID
	app, name string
	job       *core.Job
	bad       error // why the job cannot be read; nil if it can
}

// auditPage audits the jobs after query.After until the page is over, and calls each with their reports in order. After
// an error it ends the page, and returns the error only if it made no progress.
func (q *Queries) auditPage(ctx context.Context, a *auditing, ask *AuditAsk, each func([]AuditReport) error) (next string, err error) {
	if err := checkSpan(ask.From, ask.To); err != nil {
		return "", err
	}
	if err := q.begin(ctx, a, ask.From); err != nil {
		return "", err
	}
	at, err := placeOf(ask, a.ahead)
	if err != nil {
		return "", err
	}
	begun := at
	for {
		list, last, err := q.subjects(ctx, ask, at)
		for err == nil && len(list) > 0 {
			var n int
			var within place
			n, within, err = q.auditSome(ctx, a, list[:min(len(list), q.o.Together)], ask, at, each)
			if n > 0 {
				at = place{job: list[n-1].id}
			}
			if list = list[n:]; within.within() {
				at = within
			}
			if err == nil && a.page.Over() && (len(list) > 0 || last != 0) {
				return at.String(), nil
			}
		}
		switch {
		case err != nil && at != begun:
			return at.String(), nil
		case err != nil:
			return "", err
		case last == 0:
			return "", nil
		}
		at = place{job: last}
	}
}

// subjects reads the next jobs, including deleted ones, ordered by number. last is the number after which more can
// follow; 0: none. Tombstones are read after the jobs, so that a job deleted in between is in one of the two.
func (q *Queries) subjects(ctx context.Context, ask *AuditAsk, at place) (list []subject, last core.JobID, err error) {
	if ask.Job != "" {
		one, err := q.subject(ctx, ask.Job)
		return []subject{one}, 0, err
	}
	after := at.job
	if at.within() {
		after--
	}
	jobs, next, err := q.store.Jobs.List(ctx, "", after, auditedAtOnce)
	if err != nil {
		return nil, 0, core.Retryable(err)
	}
	tombs, err := q.store.ListTombstones(ctx, after, auditedAtOnce)
	if err != nil {
		return nil, 0, core.Retryable(err)
	}
	last = cmp.Or(next, math.MaxInt32)
	if n := len(tombs); n == auditedAtOnce {
		last = min(last, tombs[n-1].Job)
	}
	there := make(map[core.JobID]bool, len(jobs))
	for _, g := range jobs {
		d := &g.Is.Def
		switch there[d.ID] = true; {
		case d.ID > last:
		case g.Err != nil:
			list = append(list, subject{id: d.ID, bad: g.Err})
		default:
			list = append(list, subject{d.ID, d.App, d.Name, g.Is, nil})
		}
	}
	for _, t := range tombs {
		if t.Job <= last && !there[t.Job] && t.RevAt.After(ask.From.Time()) {
			list = append(list, subject{t.Job, t.App, t.Name, nil, nil})
		}
	}
	if ask.Sees != nil {
		list = slices.DeleteFunc(list, func(s subject) bool { return s.bad != nil || !ask.Sees(s.app) })
	}
	slices.SortFunc(list, func(a, b subject) int { return cmp.Compare(a.id, b.id) })
	if last == math.MaxInt32 {
		last = 0
	}
	return list, last, nil
}

// subject finds one job, deleted or not.
func (q *Queries) subject(ctx context.Context, ref string) (subject, error) {
	id, err := q.JobID(ctx, ref)
	if err != nil {
		return subject{}, err
	}
	switch j, err := q.storedJob(ctx, id); {
	case err != nil:
		return subject{}, err
	case j != nil:
		return subject{id, j.Def.App, j.Def.Name, j, nil}, nil
	}
	gone, err := q.store.Tombstones(ctx, []core.JobID{id})
	if err != nil {
		return subject{}, core.Retryable(err)
	}
	t, ok := gone[id]
	if !ok {
		return subject{}, core.Errorf(core.CodeNotFound, "job %s does not exist", ref)
	}
	return subject{id, t.App, t.Name, nil, nil}, nil
}

// auditSome audits some jobs in parallel and calls each for the finished ones, in order. It returns their number n,
// and in within a position inside the next job if it is partly finished. Results after that position are discarded.
func (q *Queries) auditSome(ctx context.Context, a *auditing, list []subject, ask *AuditAsk, at place,
	each func([]AuditReport) error) (n int, within place, err error) {
	paused := make([]pauses, len(list))
	for i := range list {
		if list[i].bad != nil {
			continue
		}
		if paused[i], err = q.pausesOf(ctx, a, list[i].app, ask.From); err != nil {
			return 0, place{}, err
		}
	}
	reports, errs := make([][]AuditReport, len(list)), make([]error, len(list))
	var all sync.WaitGroup
	for i := range list {
		all.Go(func() {
			start := ask.From
			if list[i].bad != nil {
				reports[i] = []AuditReport{{Job: list[i].id, From: start, To: ask.To, Failed: "it cannot be read: " + list[i].bad.Error()}}
				return
			}
			if list[i].id == at.job && at.below != 0 { // its scheduled times are already audited
				reports[i] = []AuditReport{{Job: at.job, App: list[i].app, Name: list[i].name, Below: at.below}}
				return
			}
			if list[i].id == at.job && at.at != 0 {
				start = at.at
			}
			reports[i], errs[i] = q.auditWhole(ctx, a, &list[i], paused[i], start, ask.To)
			// An unreadable job does not recover by waiting, so the following jobs continue.
			if ask.Job == "" && errs[i] != nil && ctx.Err() == nil && core.CodeOf(errs[i]) == core.CodeInternal {
				failed := AuditReport{Job: list[i].id, App: list[i].app, Name: list[i].name, From: start, To: ask.To, Failed: errs[i].Error()}
				reports[i], errs[i] = append(reports[i], failed), nil
			}
		})
	}
	all.Wait()
	for i := range list {
		if len(reports[i]) > 0 {
			if err := each(reports[i]); err != nil {
				return i, place{}, err
			}
			last := &reports[i][len(reports[i])-1]
			within = place{job: last.Job, at: last.Next, below: last.Below}
		}
		if errs[i] != nil || within.within() {
			return i, within, errs[i]
		}
	}
	return len(list), place{}, nil
}

// auditWhole returns the reports of one job up to the end of the span or of the page.
func (q *Queries) auditWhole(ctx context.Context, a *auditing, s *subject, paused pauses, from, to core.Instant) (list []AuditReport,
	err error) {
	for {
		r, err := q.audit(ctx, a, s, paused, from, to)
		if err != nil {
			return list, err
		}
		if list = append(list, r); r.Next == 0 || a.page.Over() {
			return list, nil
		}
		from = r.Next
	}
}
