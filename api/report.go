package api

import (
	"net/http"
	"slices"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
)

func (s *server) GetReport(r *http.Request, params client.GetReportParams) (any, error) {
	if s.o.Reports == nil {
		return nil, core.Errorf(core.CodeRefused, "this deployment has no reports")
	}
	q, err := s.question(r, &params)
	if err != nil {
		return nil, err
	}
	a, err := s.o.Reports.Answer(r.Context(), q)
	if err != nil {
		return nil, err
	}
	out := client.Report{By: params.By, Zone: a.Zone.String(), From: a.From.Time(), To: a.To.Time(), Since: a.Since.Time(),
		Until: a.Until.Time(), Rows: each(a.Rows, reportRow)}
	if q.ByDay {
		out.By = "day"
	}
	var jobs []core.JobID
	for i := range a.Rows {
		if job := a.Rows[i].Job; job != 0 {
			jobs = append(jobs, job)
		}
	}
	slices.Sort(jobs)
	names, err := s.m.Names(r.Context(), slices.Compact(jobs))
	for i := range out.Rows {
		out.Rows[i].Job = names[core.JobID(out.Rows[i].JobID)]
	}
	return out, err
}

// question converts the parameters of a report. Its errors name the parameter.
func (s *server) question(r *http.Request, params *client.GetReportParams) (q report.Question, err error) {
	sees, err := s.sift(r, params.Job, params.App)
	if err != nil {
		return q, err
	}
	q = report.Question{Sees: sees, From: core.InstantOf(params.From), To: core.InstantOf(s.m.Now()) + 1, App: params.App,
		Each:  report.Each(params.Each),
		State: core.State(params.State), Reason: core.Reason(params.Reason)}
	if !params.To.IsZero() {
		q.To = core.Ceil(params.To)
	}
	switch params.By {
	case "", "day":
		q.ByDay = true
	case "hour":
	default:
		return q, core.Invalid("by", params.By, "allowed values: hour and day")
	}
	switch q.Each {
	case report.EachAll, report.EachApp, report.EachJob:
	default:
		return q, core.Invalid("each", params.Each, "allowed values: app and job")
	}
	if params.App != "" {
		if err := core.CheckAppName("app", params.App); err != nil {
			return q, err
		}
	}
	if params.Job != "" {
		if q.Job, err = s.m.JobID(r.Context(), params.Job); err != nil {
			return q, err
		}
	}
	if q.State != "" {
		if err := q.State.CheckEnd("state"); err != nil {
			return q, err
		}
	}
	if q.Reason != "" && !slices.Contains(core.Reasons[q.State], q.Reason) {
		return q, core.Invalid("reason", params.Reason, "the requested state does not have this reason")
	}
	if params.Zone != "" {
		q.Zone, err = report.Zone(params.Zone)
	}
	return q, err
}

func reportRow(r *report.Row) client.ReportRow {
	took, late := r.Times()
	out := client.ReportRow{At: r.At.Time(), App: r.App, JobID: int32(r.Job), Runs: r.Runs(), Open: r.Open, Took: timesOfReport(&took),
		Late: timesOfReport(&late)}
	for _, e := range r.Ends {
		out.Ends = append(out.Ends, client.ReportEnd{State: string(e.State), Reason: string(e.Reason), Runs: e.N})
	}
	return out
}

func timesOfReport(h *report.Histogram) client.ReportTimes {
	return client.ReportTimes{Runs: h.N(), P50Ms: h.Quantile(0.5).Milliseconds(), P99Ms: h.Quantile(0.99).Milliseconds(),
		MaxMs: h.Most.Milliseconds()}
}
