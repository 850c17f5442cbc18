package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

type runsCmd struct {
	What   string   `arg:"" optional:"" placeholder:"JOB|APP" help:"Job or app (default: all)."`
	State  []string `placeholder:"STATE" enum:"${states}" help:"Only runs in these states: ${states}."`
	Failed bool     `help:"Only failed runs that were not retried."`
	From   string   `placeholder:"TIME" help:"Start of the period, such as 2026-11-20, 02:30 or 2h (2 hours ago)."`
	To     string   `placeholder:"TIME" help:"End of the period (default: no end)."`
	RanAt  string   `name:"address" placeholder:"ADDRESS" help:"Only runs that were sent to this executor address."`
	runFlags
	Limit int `default:"20" help:"Maximum number of runs."`
	watchFlags
}

// runFlags select runs by everything except state and time.
type runFlags struct {
	Cause   []string `placeholder:"CAUSE" enum:"${causes}" help:"Only runs with these causes: ${causes}."`
	Longer  string   `placeholder:"SPAN" help:"Only runs that took longer than this, or have been running for longer, such as 5m."`
	Shorter string   `placeholder:"SPAN" help:"Only runs that took less time than this, such as 10s."`
	Late    string   `placeholder:"SPAN" help:"Only runs that were sent more than this after their due time, such as 5s."`
	Text    string   `placeholder:"TEXT" help:"Only runs with this text in their message or in the params of their trigger."`
}

func (c *runsCmd) Run(e *conn) error { return c.watchFlags.run(e, c.once) }

func (c *runsCmd) once(e *conn) error {
	if c.Limit < 1 {
		return core.Invalid("limit", fmt.Sprint(c.Limit), "at least 1")
	}
	params := client.ListRunsParams{State: c.State, Failed: c.Failed, Cause: c.Cause, Address: c.RanAt, Longer: c.Longer, Shorter: c.Shorter,
		Late: c.Late, Text: c.Text}
	if kindOf(c.What) == runKind {
		return (&runCmd{Name: c.What}).Run(e)
	}
	var zone string
	var err error
	flags := spanFlags{What: c.What, From: c.From, To: c.To}
	if params.App, params.Job, zone, params.From, params.To, err = flags.of(e); err != nil {
		return err
	}
	if params.App != "" {
		if _, err := e.app(params.App); err != nil {
			return err
		}
	}
	page, more, err := e.runPage(params, c.Limit)
	return e.show(page, err, func() {
		if len(page.Runs) == 0 && len(page.Skips) == 0 {
			e.printf("no runs%s   upcoming runs: tickring upcoming\n", of(c.What))
		} else {
			e.printRuns(&page, zone)
		}
		if more {
			e.printf("more runs exist: --limit %d\n", c.Limit*5)
		}
		if page.NoWaiting {
			e.printf("runs that wait for their scheduled time are not listed; to list them: tickring runs APP/JOB\n")
		}
	})
}

func of(what string) string {
	if what == "" {
		return ""
	}
	return " of " + what
}

func (e *Env) printRuns(page *client.RunPage, zone string) {
	rows := [][]string{{"RUN", "APP/JOB", "SCHEDULED", "LATE", "TOOK", "CAUSE", "STATE", ""}}
	var colors paints
	for i := range page.Runs {
		r := &page.Runs[i]
		colors = append(colors, paint{len(rows), 3, "", lateColor(r)}, paint{len(rows), 6, howText(r), stateColor(r.State)})
		rows = append(rows, []string{r.ID, runName(r), e.full(r.ScheduledAt, r.Timezone), lateness(r), took(r), r.Cause,
			e.stateText(r), cmp.Or(e.waitText(r), e.firstLine(r.Message))})
	}
	table(e.Stdout, rows, e.paints(colors)...)
	for _, s := range page.Skips {
		e.printf("%s\n", e.skipLine(&s, zone))
	}
}

func (e *Env) waitText(r *client.Run) string {
	if r.WaitsUntil.IsZero() {
		return ""
	}
	return "for an executor of app " + r.App + ", until " + e.full(r.WaitsUntil, r.Timezone)
}

func (e *Env) permitText(r *client.Run) string {
	p := r.Permit
	if p == nil {
		return ""
	}
	of := p.Of
	if r.Job != "" && of == fmt.Sprintf("job %d", r.JobID) {
		of = "job " + r.Job
	}
	switch p.Value {
	case "":
	case core.NoValue:
		of += " for runs without a value of its key"
	default:
		of += " with value " + p.Value + " of its key"
	}
	switch {
	case !core.State(r.State).Open():
		return "of " + of
	case p.Has && r.State == string(core.Queued) && !p.Begins.IsZero():
		return fmt.Sprintf("has a slot of %s, limit %d, starts at %s because of the limit per second", of, p.Limit,
			e.full(p.Begins, ""))
	case p.Has:
		return fmt.Sprintf("has a slot of %s, limit %d", of, p.Limit)
	case p.Place == 0:
		return fmt.Sprintf("will request a slot of %s, limit %d", of, p.Limit)
	}
	held := "another run"
	if n := len(p.HeldBy); n > 0 {
		held = "run " + strings.Join(p.HeldBy[:min(n, heldShown)], ", ")
		if n > heldShown {
			held += fmt.Sprintf(" and %d more", n-heldShown)
		}
	}
	return fmt.Sprintf("waits for a slot of %s, limit %d, used by %s: position %d of %d in the queue", of, p.Limit, held, p.Place, p.Waiting)
}

// heldShown is the maximum number of permit holders to name.
const heldShown = 3

func (e *Env) skipLine(s *client.Skip, zone string) string {
	if s.Count == 1 {
		return fmt.Sprintf("skipped: %s   %s", s.Reason, e.full(s.FirstAt, zone))
	}
	return fmt.Sprintf("skipped: %s   %d scheduled times from %s to %s", s.Reason, s.Count, e.full(s.FirstAt, zone), e.full(s.LastAt, zone))
}
