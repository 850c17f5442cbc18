package api

import (
	"net/http"
	"slices"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
)

// shape answers a histogram question whose job and time range are still as in the request.
func (s *server) shape(r *http.Request, q report.ShapeQuestion, job string, from, to time.Time) (report.Shape, error) {
	if s.o.Reports == nil {
		return report.Shape{}, core.Errorf(core.CodeRefused, "this deployment has no reports")
	}
	var err error
	if q.Sees, err = s.sift(r, job, q.App); err != nil {
		return report.Shape{}, err
	}
	if q.App != "" {
		if err := core.CheckAppName("app", q.App); err != nil {
			return report.Shape{}, err
		}
	}
	if job != "" {
		if q.Job, err = s.m.JobID(r.Context(), job); err != nil {
			return report.Shape{}, err
		}
	}
	if to.IsZero() {
		to = s.m.Now()
	}
	if from.IsZero() {
		from = to.Add(-24 * time.Hour)
	}
	q.From, q.To = core.InstantOf(from), core.Ceil(to)
	return s.o.Reports.Shape(r.Context(), q)
}

func (s *server) GetHistogram(r *http.Request, params client.GetHistogramParams) (any, error) {
	late := time.Minute
	if params.Late != "" {
		var err error
		if late, err = parseDuration("late", params.Late); err != nil {
			return nil, err
		}
	}
	a, err := s.shape(r, report.ShapeQuestion{App: params.App, Buckets: params.Buckets}, params.Job, params.From, params.To)
	if err != nil {
		return nil, err
	}
	out := client.Histogram{From: a.From.Time(), To: a.To.Time(), Width: core.FormatDuration(time.Duration(a.Width) * time.Second),
		CountedFrom: a.CountedFrom.Time(), CountedTo: a.CountedTo.Time(), Partial: s.partial(&a)}
	rows := a.Rows
	for at := a.From; at < a.To; at += a.Width {
		b := client.HistogramBucket{At: at.Time()}
		if len(rows) > 0 && rows[0].At == at {
			row := &rows[0]
			_, times := row.Times()
			b.Succeeded, b.Failed = row.Ended(core.Succeeded), row.Ended(core.Failed, core.TimedOut, core.Lost)
			b.Killed, b.Skipped, b.Running, b.Late = row.Ended(core.Killed), row.Ended(core.Skipped), row.Open, times.Over(late)
			rows = rows[1:]
		}
		out.Buckets = append(out.Buckets, b)
	}
	return out, nil
}

// partial reports whether part of the past time range is not counted.
func (s *server) partial(a *report.Shape) bool {
	return a.CountedFrom > a.From || a.CountedTo < min(a.To, core.InstantOf(s.m.Now()))
}

func (s *server) GetLateness(r *http.Request, params client.GetLatenessParams) (any, error) {
	each := report.Each(params.Each)
	if !slices.Contains([]report.Each{report.EachAll, report.EachApp, report.EachJob}, each) {
		return nil, core.Invalid("each", params.Each, "allowed values: app and job")
	}
	a, err := s.shape(r, report.ShapeQuestion{App: params.App, Each: each, Buckets: params.Buckets}, params.Job, params.From, params.To)
	if err != nil {
		return nil, err
	}
	out := client.Lateness{From: a.From.Time(), To: a.To.Time(), Width: core.FormatDuration(time.Duration(a.Width) * time.Second),
		CountedFrom: a.CountedFrom.Time(), CountedTo: a.CountedTo.Time(), Partial: s.partial(&a), Rows: []client.LatenessRow{}}
	type subject struct {
		app string
		job core.JobID
	}
	at, jobs := map[subject]int{}, []core.JobID{}
	for i := range a.Rows {
		row := &a.Rows[i]
		of := subject{row.App, row.Job}
		k, is := at[of]
		if !is {
			k, at[of] = len(out.Rows), len(out.Rows)
			out.Rows = append(out.Rows, client.LatenessRow{App: row.App, JobID: int32(row.Job)})
			if row.Job != 0 {
				jobs = append(jobs, row.Job)
			}
		}
		_, late := row.Times()
		out.Rows[k].Cells = append(out.Rows[k].Cells, client.LatenessCell{At: row.At.Time(), Late: timesOfReport(&late),
			Lost: row.Ended(core.Lost), Skipped: row.Ended(core.Skipped)})
	}
	names, err := s.m.Names(r.Context(), jobs)
	for i := range out.Rows {
		out.Rows[i].Job = names[core.JobID(out.Rows[i].JobID)]
	}
	return out, err
}
