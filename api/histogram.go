package api

import (
	"net/http"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
)

// shape counts runs over time, by default in the last day.
func (s *server) shape(r *http.Request, job, app, each string, buckets int, from, to time.Time) (report.Shape, error) {
	q, err := s.question(r, job, app, each)
	if err != nil {
		return report.Shape{}, err
	}
	if to.IsZero() {
		to = s.m.Now()
	}
	if from.IsZero() {
		from = to.Add(-24 * time.Hour)
	}
	q.From, q.To, q.Buckets = core.InstantOf(from), core.Ceil(to), buckets
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
	a, err := s.shape(r, params.Job, params.App, "", params.Buckets, params.From, params.To)
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
	a, err := s.shape(r, params.Job, params.App, params.Each, params.Buckets, params.From, params.To)
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
