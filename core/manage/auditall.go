package manage

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
)

// auditedAtOnce is how many jobs, and how many tombstones, are read at a time.
const auditedAtOnce = 500

// AuditAsk says what is audited, or planned again: a span of one job, or with an
// empty Job of all, those deleted since From included.
type AuditAsk struct {
	Job      string       // app/name or number
	From, To core.Instant // From < instant <= To
	After    string       // Next of the page before
}

// place is where a page goes on: behind a job, or where at is not 0 within it,
// behind that instant, or where below is not 0 with its runs that have lower numbers.
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
	low, high := core.NumberedRange(p.job)
	switch {
	case err != nil, p.job < 0, within && (numbered || p.at <= ask.From), numbered && (!ahead || p.below < low || p.below > high):
		return place{}, core.Invalid("after", ask.After, "not the next of a page of this span")
	}
	return p, nil
}

// AuditPage sums over as many jobs as it comes to in Options.PageFor; Next of the
// answer is where to go on.
func (m *Manage) AuditPage(ctx context.Context, ask AuditAsk) (AuditSum, error) {
	if err := checkSpan(ask.From, ask.To); err != nil {
		return AuditSum{}, err
	}
	a, err := m.newAudit(ctx, ask.From)
	if err != nil {
		return AuditSum{}, err
	}
	sum := AuditSum{From: ask.From, To: ask.To}
	sum.Next, err = m.auditPage(ctx, a, &ask, func(reports []AuditReport) error {
		for i := range reports {
			sum.report(&reports[i])
		}
		return nil
	})
	return sum, err
}

// report adds one report. A job is counted with its last.
func (s *AuditSum) report(r *AuditReport) {
	if r.Failed != "" {
		s.Failed = atMost(s.Failed, r.failure())
		return
	}
	if r.Next == 0 {
		s.Jobs++
	}
	s.AuditCount.add(&r.AuditCount)
	s.Partial = s.Partial || r.Partial
	if !r.Well() && len(s.Missing) < maxMissing {
		s.Missing = append(s.Missing, *r)
	}
	if !r.Behind.IsZero() {
		s.Behind = r.Behind
	}
}

// AuditAll sums over all jobs, page after page.
func (m *Manage) AuditAll(ctx context.Context, from, to core.Instant) (AuditSum, error) {
	sum := AuditSum{From: from, To: to}
	for ask := (AuditAsk{From: from, To: to}); ; ask.After = sum.Next {
		page, err := m.AuditPage(ctx, ask)
		if err != nil {
			return AuditSum{}, err
		}
		sum.join(&page)
		if sum.Next == "" {
			return sum, nil
		}
	}
}

// failure names the job and why it could not be looked at.
func (r *AuditReport) failure() string {
	if r.Name == "" {
		return "job " + r.Job.String() + ": " + r.Failed
	}
	return r.App + "/" + r.Name + ": " + r.Failed
}

// atMost adds to a list that is shown.
func atMost(list []string, more ...string) []string {
	return append(list, more[:min(len(more), max(0, maxMissing-len(list)))]...)
}

// join adds the page that goes on after s.
func (s *AuditSum) join(page *AuditSum) {
	s.Jobs += page.Jobs
	s.AuditCount.add(&page.AuditCount)
	s.Missing = append(s.Missing, page.Missing[:min(len(page.Missing), maxMissing-len(s.Missing))]...)
	if !page.Behind.IsZero() {
		s.Behind = page.Behind
	}
	s.Failed = atMost(s.Failed, page.Failed...)
	s.Partial = s.Partial || page.Partial
	s.Next = page.Next
}

// subject is a job that is audited: as it stands, or where it was deleted what
// its tombstone says of it.
type subject struct {
	id        core.JobID
	app, name string
	job       *core.Job
	bad       error // it cannot be read
}

// auditPage audits what comes after ask.After, until the page is over; each is told of
// the reports in the order of the jobs. What an error cut off is left to the next
// page, unless this one came to nothing.
func (m *Manage) auditPage(ctx context.Context, a *auditing, ask *AuditAsk, each func([]AuditReport) error) (next string, err error) {
	at, err := placeOf(ask, a.ahead)
	if err != nil {
		return "", err
	}
	a.until = time.Now().Add(m.o.PageFor)
	begun := at
	for {
		list, last, err := m.subjects(ctx, ask, at)
		for err == nil && len(list) > 0 {
			var n int
			var within place
			n, within, err = m.auditSome(ctx, a, list[:min(len(list), m.o.Together)], ask, at, each)
			if n > 0 {
				at = place{job: list[n-1].id}
			}
			if list = list[n:]; within.within() {
				at = within
			}
			if err == nil && a.over() && (len(list) > 0 || last != 0) {
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

// subjects reads the next jobs in the order of their numbers, the deleted ones
// among them; last is the number behind which there may be more, 0 if there are none.
// Tombstones are read after the jobs, so that whoever is deleted meanwhile is
// among the ones or the others.
func (m *Manage) subjects(ctx context.Context, ask *AuditAsk, at place) (list []subject, last core.JobID, err error) {
	if ask.Job != "" {
		one, err := m.subject(ctx, ask.Job)
		return []subject{one}, 0, err
	}
	after := at.job
	if at.within() {
		after--
	}
	jobs, next, err := m.store.ListJobs(ctx, "", after, auditedAtOnce)
	bad, err := core.Besides(err)
	if err != nil {
		return nil, 0, passing(err)
	}
	tombs, err := m.store.ListTombstones(ctx, after, auditedAtOnce)
	if err != nil {
		return nil, 0, passing(err)
	}
	last = cmp.Or(next, math.MaxInt32)
	if n := len(tombs); n == auditedAtOnce {
		last = min(last, tombs[n-1].Job)
	}
	there := make(map[core.JobID]bool, len(jobs))
	for id, why := range bad {
		if id <= last {
			there[id] = true
			list = append(list, subject{id: id, bad: why})
		}
	}
	for i := range jobs {
		if d := &jobs[i].Def; d.ID <= last {
			there[d.ID] = true
			list = append(list, subject{d.ID, d.App, d.Name, &jobs[i], nil})
		}
	}
	for _, t := range tombs {
		if t.Job <= last && !there[t.Job] && t.RevAt.After(ask.From.Time()) {
			list = append(list, subject{t.Job, t.App, t.Name, nil, nil})
		}
	}
	slices.SortFunc(list, func(a, b subject) int { return cmp.Compare(a.id, b.id) })
	if last == math.MaxInt32 {
		last = 0
	}
	return list, last, nil
}

// subject finds one job, deleted or not.
func (m *Manage) subject(ctx context.Context, ref string) (subject, error) {
	id, err := m.jobID(ctx, ref)
	if err != nil {
		return subject{}, err
	}
	found, left, err := m.store.Jobs(ctx, []core.JobID{id})
	if err := unread(left, err); err != nil {
		return subject{}, err
	}
	if j, ok := found[id]; ok {
		return subject{id, j.Def.App, j.Def.Name, j, nil}, nil
	}
	gone, err := m.store.Tombstones(ctx, []core.JobID{id})
	if err != nil {
		return subject{}, passing(err)
	}
	t, ok := gone[id]
	if !ok {
		return subject{}, core.Errorf(core.CodeNotFound, "there is no job %s", ref)
	}
	return subject{id, t.App, t.Name, nil, nil}, nil
}

// auditSome audits some jobs side by side, and tells each of those that were
// finished, in their order: n of them, and within the next up to a place if that
// is within it. What was found of those behind it is found again.
func (m *Manage) auditSome(ctx context.Context, a *auditing, list []subject, ask *AuditAsk, at place,
	each func([]AuditReport) error) (n int, within place, err error) {
	paused := make([]pauses, len(list))
	for i := range list {
		if list[i].bad != nil {
			continue
		}
		if paused[i], err = m.pausesOf(ctx, a, list[i].app, ask.From); err != nil {
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
			if list[i].id == at.job && at.below != 0 { // its instants are looked at
				reports[i] = []AuditReport{{Job: at.job, App: list[i].app, Name: list[i].name, below: at.below}}
				return
			}
			if list[i].id == at.job && at.at != 0 {
				start = at.at
			}
			reports[i], errs[i] = m.auditWhole(ctx, a, &list[i], paused[i], start, ask.To)
			// What cannot be read of one job stays so: those behind it do not wait for it.
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
			within = place{job: last.Job, at: last.Next, below: last.below}
		}
		if errs[i] != nil || within.within() {
			return i, within, errs[i]
		}
	}
	return len(list), place{}, nil
}

// auditWhole is the reports of one job up to the end of the span, or of the page.
func (m *Manage) auditWhole(ctx context.Context, a *auditing, s *subject, paused pauses, from, to core.Instant) (list []AuditReport, err error) {
	for {
		r, err := m.audit(ctx, a, s, paused, from, to)
		if err != nil {
			return list, err
		}
		if list = append(list, r); r.Next == 0 || a.over() {
			return list, nil
		}
		from = r.Next
	}
}

// over reports that the page is over. It is measured by a clock that nobody sets.
func (a *auditing) over() bool { return !a.until.IsZero() && time.Now().After(a.until) }

// Replan sends again, with the same IDs, what an audit of the span finds
// unaccounted for: of one job, or with an empty ref of all; see ReplanPage.
func (m *Manage) Replan(ctx context.Context, actor Actor, ref string, from, to core.Instant) (ReplanResult, error) {
	res := ReplanResult{From: from, To: to}
	for ask := (AuditAsk{Job: ref, From: from, To: to}); ; ask.After = res.Next {
		page, err := m.ReplanPage(ctx, actor, ask)
		res.Jobs += page.Jobs
		res.Demanded += page.Demanded
		res.Missing += page.Missing
		res.Sent += page.Sent
		res.OutOfReach += page.OutOfReach
		res.Failed = atMost(res.Failed, page.Failed...)
		res.Partial = res.Partial || page.Partial
		res.To, res.Next = page.To, page.Next
		if err != nil || res.Next == "" {
			return res, err
		}
	}
}
