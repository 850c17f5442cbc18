package api

import (
	"net/http"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/query"
)

// jobsAsk converts the parameters of a job list.
func jobsAsk(p *client.ListJobsParams, f query.JobFilter) query.JobsAsk {
	a := query.JobsAsk{JobFilter: f, Is: as[query.Standing](p.Status), By: query.Order(p.Sort), Down: p.Reverse, Cursor: p.Cursor,
		Recent: p.Runs}
	if p.Last {
		a.Recent = max(a.Recent, 1)
	}
	return a
}

// jobsNow lists jobs with their current status.
func (s *server) jobsNow(r *http.Request, params *client.ListJobsParams, f query.JobFilter) (any, error) {
	if params.After != 0 {
		return nil, core.Invalid("after", r.URL.Query().Get("after"), "not allowed for this list: continue the list with "+
			"`cursor`")
	}
	page, err := s.m.JobsNow(r.Context(), jobsAsk(params, f))
	if err != nil {
		return nil, err
	}
	held, err := s.pauses(r)
	if err != nil {
		return nil, err
	}
	out := client.JobPage{Jobs: make([]client.Job, len(page.Jobs)), Cursor: page.Next, Partial: page.Partial}
	for i := range page.Jobs {
		j := &page.Jobs[i]
		out.Jobs[i] = held.show(s, j, 1)
		runs := page.Recent[i]
		if params.Last && len(runs) > 0 {
			out.Jobs[i].Last = held.last(&runs[0], j)
		}
		for k := range runs[:min(len(runs), params.Runs)] {
			out.Jobs[i].Recent = append(out.Jobs[i].Recent, briefOf(&runs[k], held.now))
		}
	}
	out.Failed = failedJobs(page.Jobs, page.Failed)
	if params.Counts {
		out.Counts = &client.JobCounts{All: page.All, Failing: page.Of[query.IsFailing], Late: page.Of[query.IsLate],
			Paused:   page.Of[query.IsHeld],
			Started:  page.Of[query.IsStarted],
			NeverRan: page.Of[query.IsNeverRan], Ended: page.Of[query.IsOver], Unread: page.Unread, Unchecked: page.Unchecked}
	}
	return out, nil
}

// briefOf returns the fields of a run that its bar shows.
func briefOf(r *core.Run, now time.Time) client.RunBrief {
	b := client.RunBrief{ID: r.ID.String(), State: string(r.State), Reason: string(r.Reason), At: r.At.Time()}
	if r.Sent() {
		until := now
		if !r.State.Open() {
			until = r.EndedAt
		}
		b.DurationMs = new(max(until.Sub(r.SentAt), 0).Milliseconds())
	}
	if r.HasLateness() {
		b.LatenessMs = new(r.Lateness().Milliseconds())
	}
	return b
}
