package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
)

type reportCmd struct {
	What   string `arg:"" optional:"" placeholder:"JOB|APP" help:"Job or app (default: all)."`
	By     string `default:"day" enum:"hour,day" help:"Time span of each row: hour or day."`
	Each   string `default:"" enum:"app,job," placeholder:"app|job" help:"Show a separate row for each app or each job."`
	State  string `placeholder:"STATE" help:"Only runs that ended in this state, such as failed."`
	Reason string `placeholder:"REASON" help:"Only runs that ended in the --state for this reason, such as no-executor."`
	From   string `placeholder:"TIME" help:"Start of the period, such as 2026-11-01, or 90d for 90 days ago (default: 14 days ago with --by day, a day ago with --by hour)."`
	To     string `placeholder:"TIME" help:"End of the period (default: now). Both ends are extended to whole days or hours."`
	Zone   string `placeholder:"ZONE" help:"Time zone in which days start and end, such as Europe/Berlin (default: the server's --report-zone)."`
}

func (c *reportCmd) Run(e *conn) error {
	params := client.GetReportParams{By: c.By, Each: c.Each, State: c.State, Reason: c.Reason, Zone: c.Zone}
	params.App, params.Job = appOrJob(c.What) // a job by its number may be deleted
	zone, err := report.Zone(c.Zone)
	if err != nil {
		return err
	}
	now := time.Now()
	from := cmp.Or(c.From, map[string]string{"day": "13d", "hour": "23h"}[c.By])
	if params.From, err = parseTime("from", from, zone, now, true); err != nil {
		return err
	}
	if c.To != "" {
		if params.To, err = parseTime("to", c.To, zone, now, true); err != nil {
			return err
		}
	}
	r, err := e.GetReport(e.Ctx, params)
	return e.show(r, err, func() { c.print(e.Env, &r) })
}

func (c *reportCmd) print(e *Env, r *client.Report) {
	if len(r.Rows) == 0 {
		e.printf("no runs%s began in this period\n", of(c.What))
	} else {
		head := []string{strings.ToUpper(r.By), "RUNS", "SUCCEEDED", "TOOK", "LATE", ""}
		if c.Each != "" {
			head = append([]string{head[0], strings.ToUpper(c.Each)}, head[1:]...)
		}
		rows := [][]string{head}
		for i := range r.Rows {
			row := &r.Rows[i]
			line := []string{reportDay(e, row.At, r)}
			switch c.Each {
			case "app":
				line = append(line, row.App)
			case "job":
				line = append(line, cmp.Or(row.Job, fmt.Sprintf("%s, job %d", row.App, row.JobID)))
			}
			rows = append(rows, append(line, fmt.Sprint(row.Runs+row.Open), succeeded(row), reportTimes(row.Took), reportTimes(row.Late),
				endsText(row)))
		}
		table(e.Stdout, rows)
		e.printf("took, late: median, 99th percentile and maximum\n")
	}
	if r.Since.After(r.From) {
		e.printf("reports begin at %s\n", e.full(r.Since, r.Zone))
	}
	if r.Until.Before(r.To) {
		e.printf("runs are counted up to %s\n", e.full(r.Until, r.Zone))
	}
}

func reportDay(e *Env, at time.Time, r *client.Report) string {
	if r.By == "day" {
		zone, err := report.Zone(r.Zone)
		if err != nil {
			zone = time.UTC
		}
		return at.In(zone).Format(time.DateOnly)
	}
	return e.full(at, r.Zone)
}

func succeeded(row *client.ReportRow) string {
	if row.Runs == 0 {
		return "-"
	}
	n := int64(0)
	for _, end := range row.Ends {
		if end.State == string(core.Succeeded) {
			n += end.Runs
		}
	}
	if n < row.Runs && n*1000 >= row.Runs*999 { // not all of them
		return "99.9 %"
	}
	return fmt.Sprintf("%.4g %%", float64(n*1000/row.Runs)/10)
}

// endsText is how runs ended that did not succeed.
func endsText(row *client.ReportRow) string {
	var list []string
	for _, end := range row.Ends {
		if end.State != string(core.Succeeded) {
			how := end.State
			if end.Reason != "" {
				how += ": " + end.Reason
			}
			list = append(list, fmt.Sprintf("%d %s", end.Runs, how))
		}
	}
	if row.Open > 0 {
		list = append(list, fmt.Sprintf("%d not ended", row.Open))
	}
	return strings.Join(list, ", ")
}

func reportTimes(t client.ReportTimes) string {
	if t.Runs == 0 {
		return "-"
	}
	ms := func(n int64) string { return span(time.Duration(n) * time.Millisecond) }
	return ms(t.P50Ms) + ", " + ms(t.P99Ms) + ", " + ms(t.MaxMs)
}
