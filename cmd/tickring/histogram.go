package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tickring/tickring/api/client"
)

type spanFlags struct {
	What    string `arg:"" optional:"" placeholder:"JOB|APP" help:"Job or app (default: all)."`
	From    string `placeholder:"TIME" help:"Start of the period, such as 2026-11-20, 02:30 or 2h for 2 hours ago (default: a day ago)."`
	To      string `placeholder:"TIME" help:"End of the period (default: now)."`
	Buckets int    `default:"24" help:"Maximum number of rows; all rows cover equally long time spans. At most 120."`
}

// of is the app or the job, and the span, in the job's zone.
func (c *spanFlags) of(e *conn) (app, job, zone string, from, to time.Time, err error) {
	if app, job = appOrJob(c.What); job != "" {
		if zone, err = e.zoneOf(job); err != nil {
			return "", "", "", from, to, err
		}
	}
	from, to, err = e.spanOf(c.From, c.To, zone)
	return app, job, zone, from, to, err
}

type histogramCmd struct {
	spanFlags
	Late string `default:"1m" placeholder:"SPAN" help:"Count a run as late if it was sent more than this after its due time, such as 5s."`
}

func (c *histogramCmd) Run(e *conn) error {
	app, job, zone, from, to, err := c.of(e)
	if err != nil {
		return err
	}
	s, err := e.GetHistogram(e.Ctx, client.GetHistogramParams{App: app, Job: job, From: from, To: to, Buckets: c.Buckets, Late: c.Late})
	return e.show(s, err, func() {
		rows := [][]string{{"FROM", "SUCCEEDED", "FAILED", "KILLED", "SKIPPED", "RUNNING", "LATE"}}
		for _, b := range s.Buckets {
			row := []string{e.full(b.At, zone)}
			for _, n := range []int64{b.Succeeded, b.Failed, b.Killed, b.Skipped, b.Running, b.Late} {
				row = append(row, fmt.Sprint(n))
			}
			rows = append(rows, row)
		}
		table(e.Stdout, rows)
		e.counted(s.Partial, s.CountedFrom, s.CountedTo, zone)
	})
}

// counted prints which part of a span is counted, unless all of it is.
func (e *Env) counted(partial bool, from, to time.Time, zone string) {
	if partial {
		e.printf("incomplete: only runs that began from %s to %s are counted\n", e.full(from, zone), e.full(to, zone))
	}
}

type lateCmd struct {
	spanFlags
	Each string `default:"" enum:"app,job," placeholder:"app|job" help:"Show a separate row for each app or each job."`
}

func (c *lateCmd) Run(e *conn) error {
	app, job, zone, from, to, err := c.of(e)
	if err != nil {
		return err
	}
	l, err := e.GetLateness(e.Ctx, client.GetLatenessParams{App: app, Job: job, Each: c.Each, From: from, To: to, Buckets: c.Buckets})
	return e.show(l, err, func() {
		rows := [][]string{{"FROM", "OF", "SENT", "LATE", "LOST", "SKIPPED"}}
		for _, r := range l.Rows {
			of := cmp.Or(r.Job, r.App, "all")
			if r.Job == "" && r.JobID != 0 {
				of = fmt.Sprintf("%s, job %d", r.App, r.JobID)
			}
			for _, cell := range r.Cells {
				rows = append(rows, []string{e.full(cell.At, zone), of, fmt.Sprint(cell.Late.Runs), reportTimes(cell.Late),
					fmt.Sprint(cell.Lost), fmt.Sprint(cell.Skipped)})
			}
		}
		table(e.Stdout, rows)
		e.printf("late: median, 99th percentile and maximum\n")
		e.counted(l.Partial, l.CountedFrom, l.CountedTo, zone)
	})
}
