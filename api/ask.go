package api

import (
	"cmp"
	"net/http"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/words"
)

func (s *server) ListUpcoming(r *http.Request, params client.ListUpcomingParams) (any, error) {
	span, err := parseDuration("for", params.For)
	if err != nil {
		return nil, err
	}
	if params.For == "" {
		span = time.Hour
	}
	if span > query.MaxUpcoming {
		return nil, core.Invalid("for", params.For, "allowed values: 1s to 366d")
	}
	sees, err := s.sift(r, params.Job, params.App)
	if err != nil {
		return nil, err
	}
	f := query.JobFilter{App: params.App, After: core.JobID(params.After), Sees: sees}
	if params.Job != "" {
		if f.Job, err = s.m.JobID(r.Context(), params.Job); err != nil {
			return nil, err
		}
	}
	res, err := s.m.Upcoming(r.Context(), f, params.From, span, params.Limit)
	if err != nil {
		return nil, err
	}
	return client.Upcoming{Upcoming: each(res.Coming, comingOf), Partial: res.Partial, Next: int32(res.Next)}, nil
}

func comingOf(c *query.Coming) client.Coming {
	out := client.Coming{ScheduledAt: c.At.Time(), Job: c.App + "/" + c.Name, JobID: int32(c.Job), Timezone: c.Timezone,
		Cause: string(c.Cause)}
	if c.Run != 0 {
		out.Run = c.Run.String()
	}
	return out
}

func (s *server) Preview(r *http.Request, body client.PreviewRequest) (any, error) {
	sched, err := coreSchedule(body.Schedule)
	if err != nil {
		return nil, err
	}
	from := core.InstantOf(time.Now())
	if !body.From.IsZero() {
		from = core.InstantOf(body.From)
	}
	p, err := s.m.Preview(sched, core.JobID(body.JobID), from, *cmp.Or(body.Count, new(10)))
	l := language(r)
	return client.Preview{Description: words.Say(l, p.Words), Next: timesOf(p.Next), Ends: p.Ends, Warnings: allSaid(l, p.Traps)}, err
}

// ListChanges returns the change records that the caller may see. A caller who cannot see all apps gets only the
// records of visible apps.
func (s *server) ListChanges(r *http.Request, params client.ListChangesParams) (any, error) {
	if _, err := s.sift(r, params.Job, params.App); err != nil {
		return nil, err
	}
	f := query.ChangeFilter{Job: params.Job, App: params.App, Channel: params.Channel, Person: params.User, By: params.By, Verb: params.Verb,
		Act: params.Operation, From: params.From, To: params.To, Limit: params.Limit, After: params.After}
	f.NoPeople = callerOf(r).May(access.Administer, "") != nil
	if apps, all := callerOf(r).Apps(); !all {
		f.Apps = append([]string{}, apps...) // nil would be all
	}
	page, err := s.m.Changes(r.Context(), f)
	return client.ChangeList{Changes: each(page.Changes, changeOf), Next: page.Next, ScannedTo: page.LookedTo}, err
}

func (s *server) Audit(r *http.Request, params client.AuditParams) (any, error) {
	sees, err := s.sift(r, params.Job, "")
	if err != nil {
		return nil, err
	}
	sum, err := s.m.AuditPage(r.Context(), query.AuditAsk{Sees: sees, Job: params.Job, From: core.InstantOf(params.From),
		To:    core.InstantOf(params.To),
		After: params.After})
	out := client.Audit{From: sum.From.Time(), To: sum.To.Time(), Jobs: sum.Jobs, Failed: sum.Failed, Partial: sum.Partial, Behind: sum.Behind,
		Next: sum.Next, Missing: each(sum.Missing, jobAudit)}
	fill(&out, countOf(&sum.AuditCount))
	return out, err
}

func (s *server) Replan(r *http.Request, body client.ReplanRequest) (any, error) {
	if err := s.mayThese(r, access.Operate, body.Job, ""); err != nil {
		return nil, err
	}
	of := query.AuditAsk{Job: body.Job, From: core.InstantOf(body.From), After: body.After}
	if !body.To.IsZero() {
		of.To = core.InstantOf(body.To)
	}
	res, err := s.m.ReplanPage(r.Context(), actor(r), of)
	return client.ReplanResult{From: res.From.Time(), To: res.To.Time(), Jobs: res.Jobs, Expected: res.Demanded, Missing: res.Missing,
		Sent: res.Sent, OutOfReach: res.OutOfReach, Failed: res.Failed, Partial: res.Partial, Next: res.Next}, err
}

// countOf converts the counts that the audit of a job and the total share.
func countOf(c *query.AuditCount) client.AuditCount {
	out := client.AuditCount{Expected: c.Demanded, OnTime: c.OnTime, Late: c.Late, WorstMs: c.Worst.Milliseconds(), NotSent: c.NotSent(),
		Pending: c.Pending, Overdue: c.Overdue, OutOfReach: c.OutOfReach, Unaccounted: c.Unaccounted, Skipped: map[string]int64{}}
	for reason, n := range c.Skipped {
		out.Skipped[string(reason)] = n
	}
	return out
}

func jobAudit(r *query.AuditReport) client.JobAudit {
	out := client.JobAudit{Job: r.App + "/" + r.Name, JobID: int32(r.Job), From: r.From.Time(), To: r.To.Time(), Missing: timesOf(r.Missing),
		Waiting: timesOf(r.Waiting)}
	fill(&out, countOf(&r.AuditCount))
	return out
}
