package console

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
)

type reportsPage struct {
	Span   span
	Asked  client.GetReportParams
	Report client.Report
	Whole  []stretch   // one row with the totals of the whole period
	Rows   []reportRow // rows by hour or day, newest first, or rows by app or job
	Cut    int         // number of rows that are left out
}

type reportRow struct {
	At, To time.Time
	App    string
	Job    string
	JobID  int32
	N      counts
	Ends   []client.ReportEnd
	Took   client.ReportTimes
	Late   client.ReportTimes
	Over   []stretch
}

const maxReportRows = 500

// Rate returns the percentage of ended runs that succeeded.
func (r reportRow) Rate() string {
	ended := r.N.All() - r.N[1]
	switch {
	case ended == 0:
		return ""
	case r.N[0] == ended:
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", min(99.9, 100*float64(r.N[0])/float64(ended)))
}

// reports shows a time range; without a start, the seven days before its end.
func (a *ask) reports() (any, error) {
	p := &reportsPage{}
	return a.orWrong("reports", p, func() { a.report(p) })
}

func (a *ask) report(p *reportsPage) {
	p.Span = a.spanOf()
	end := p.Span.To
	if end.IsZero() {
		end = a.Now
	}
	if p.Span.When == "" && p.Span.From.IsZero() {
		if p.Span.From = end.AddDate(0, 0, -7); p.Span.To.IsZero() {
			p.Span.When = "7d"
		}
	}
	by := cmp.Or(a.Q("by"), "day")
	if a.Q("by") == "" && end.Sub(p.Span.From) <= 2*24*time.Hour {
		by = "hour"
	}
	p.Asked = client.GetReportParams{By: by, Each: a.Q("each"), From: p.Span.From, To: p.Span.To, App: a.Q("app"),
		Job: strings.TrimSpace(a.Q("job")), State: a.Q("state"), Reason: a.Q("reason")}
	if p.Asked.Job != "" {
		p.Asked.App = ""
	}
	if by == "hour" && end.Sub(p.Span.From) > 40*24*time.Hour {
		must.Do(core.Invalid("by", by, "at most 40 days can be shown by hour"))
	}
	p.Report = must.Get(a.GetReport(a.Ctx(), p.Asked))
	p.Whole = emptyStretches(&p.Report)
	at := map[int64]int{}
	for i := range p.Whole {
		at[p.Whole[i].From.Unix()] = i
	}
	subjects := map[string]*reportRow{}
	for i := range p.Report.Rows {
		row := &p.Report.Rows[i]
		n := countsOf(row)
		k, known := at[row.At.Unix()]
		if !known {
			continue
		}
		p.Whole[k].N.add(n)
		if p.Asked.Each == "" {
			p.Rows = append(p.Rows, reportRow{At: row.At, To: p.Whole[k].To, N: n, Ends: row.Ends, Took: row.Took, Late: row.Late})
			continue
		}
		key := fmt.Sprintf("%s %d", row.App, row.JobID)
		s := subjects[key]
		if s == nil {
			s = &reportRow{App: row.App, Job: row.Job, JobID: row.JobID, Over: emptyStretches(&p.Report)}
			subjects[key] = s
		}
		s.N.add(n)
		s.Over[k].N.add(n)
		s.Took, s.Late = worst(s.Took, row.Took), worst(s.Late, row.Late)
		s.Ends = mergeEnds(s.Ends, row.Ends)
	}
	for _, s := range subjects {
		p.Rows = append(p.Rows, *s)
	}
	if p.Asked.Each == "" {
		slices.Reverse(p.Rows)
	} else { // most failures first
		slices.SortFunc(p.Rows, func(x, y reportRow) int {
			return cmp.Or(cmp.Compare(y.N.Failed(), x.N.Failed()), cmp.Compare(y.N.All(), x.N.All()), cmp.Compare(x.Job, y.Job),
				cmp.Compare(x.App, y.App))
		})
	}
	if len(p.Rows) > maxReportRows {
		p.Cut, p.Rows = len(p.Rows)-maxReportRows, p.Rows[:maxReportRows]
	}
}

func emptyStretches(r *client.Report) (list []stretch) {
	loc := locationOf(r.Zone)
	for at := r.From.In(loc); at.Before(r.To) && len(list) < 1200; {
		next := at.Add(time.Hour)
		if r.By == "day" {
			next = time.Date(at.Year(), at.Month(), at.Day()+1, at.Hour(), at.Minute(), 0, 0, loc)
		}
		list = append(list, stretch{From: at, To: next})
		at = next
	}
	return list
}

func countsOf(row *client.ReportRow) (n counts) {
	for _, e := range row.Ends {
		for k := range kinds {
			if slices.Contains(kinds[k].states, core.State(e.State)) {
				n[k] += e.Runs
			}
		}
	}
	n[1] += row.Open
	return n
}

// worst returns the larger percentiles of two distributions, because the merged percentiles are unknown.
func worst(x, y client.ReportTimes) client.ReportTimes {
	return client.ReportTimes{Runs: x.Runs + y.Runs, P50Ms: max(x.P50Ms, y.P50Ms), P99Ms: max(x.P99Ms, y.P99Ms), MaxMs: max(x.MaxMs, y.MaxMs)}
}

func mergeEnds(sum, more []client.ReportEnd) []client.ReportEnd {
	for _, e := range more {
		i := slices.IndexFunc(sum, func(o client.ReportEnd) bool { return o.State == e.State && o.Reason == e.Reason })
		if i < 0 {
			sum = append(sum, e)
		} else {
			sum[i].Runs += e.Runs
		}
	}
	return sum
}

// ReportChart draws the totals over time. Each bar links to its runs.
func (a *ask) ReportChart(p *reportsPage) template.HTML {
	return a.chart(p.Whole, func(s *stretch) string {
		return a.runsOf(p, &reportRow{At: s.From, To: s.To}, "")
	})
}

func (a *ask) runsOf(p *reportsPage, r *reportRow, state string) string {
	from, to := r.At, r.To
	if from.IsZero() {
		from, to = p.Report.From, p.Report.To
	}
	return runsIn(cmp.Or(jobIn(r.Job, r.JobID), p.Asked.Job), cmp.Or(r.App, p.Asked.App), cmp.Or(state, p.Asked.State), from, to)
}

// runsIn returns the URL of the runs of a job, or of an app if no job is given, in a time range.
func runsIn(job, app, state string, from, to time.Time) string {
	q := url.Values{"state": {state}, "job": {job}, "from": {rfc(from)}, "to": {rfc(to)}}
	if job == "" {
		q.Set("app", app)
	}
	return addressOf(Root+"runs", q, slices.Collect(maps.Keys(q)))
}

// jobIn returns the job of a row in a query: its name or, if the job is deleted, its number; empty if the row has no job.
func jobIn(name string, id int32) string {
	if name == "" && id != 0 {
		return fmt.Sprint(id)
	}
	return name
}

// RowRuns returns the URL of the runs of a row; with a state, of its runs in that state.
func (a *ask) RowRuns(p *reportsPage, r reportRow, state string) string {
	return a.runsOf(p, &r, state)
}

func (p *reportsPage) Sum() counts { return sumOf(p.Whole) }

// Chip returns a filter button that sets one query value.
func (a *ask) Chip(name, value, word string, on bool) template.HTML {
	return a.chip(a.With(name, value), word, on)
}
