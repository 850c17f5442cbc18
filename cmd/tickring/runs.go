package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

type runsCmd struct {
	What   string   `arg:"" optional:"" placeholder:"JOB|APP" help:"Of one job or app; of all if left out."`
	State  []string `placeholder:"STATE" enum:"${states}" help:"Only these: ${states}."`
	Failed bool     `help:"Only those that failed for good: what is tried again is left out."`
	From   string   `placeholder:"TIME" help:"From: 2026-11-20, 02:30, 2h (ago)."`
	To     string   `placeholder:"TIME" help:"Up to."`
	RanAt  string   `name:"address" placeholder:"ADDRESS" help:"Only those that ran there."`
	runFlags
	Limit int `default:"20" help:"At most so many."`
	watchFlags
}

// runFlags select runs by everything except state and time.
type runFlags struct {
	Cause   []string `placeholder:"CAUSE" enum:"${causes}" help:"Only of these causes: ${causes}."`
	Longer  string   `placeholder:"SPAN" help:"Only those that took longer, or run for longer, such as 5m."`
	Shorter string   `placeholder:"SPAN" help:"Only those that took shorter."`
	Late    string   `placeholder:"SPAN" help:"Only those that were sent so long after they were due, such as 5s."`
	Text    string   `placeholder:"TEXT" help:"Only those with this in their message, or in the params that their trigger gave."`
}

func (c *runsCmd) Run(e *conn) error { return c.watchFlags.run(e, c.once) }

func (c *runsCmd) once(e *conn) error {
	if c.Limit < 1 {
		return core.Invalid("limit", fmt.Sprint(c.Limit), "at least 1")
	}
	params := client.ListRunsParams{State: c.State, Failed: c.Failed, Cause: c.Cause, Address: c.RanAt, Longer: c.Longer, Shorter: c.Shorter,
		Late: c.Late, Text: c.Text}
	var zone string
	var err error
	switch {
	case c.What == "":
	case kindOf(c.What) == appKind:
		a, err := e.app(c.What)
		if err != nil {
			return err
		}
		params.App = a.Name
	case kindOf(c.What) == jobKind:
		params.Job = c.What
		if zone, err = e.zoneOf(c.What); err != nil {
			return err
		}
	default:
		return (&runCmd{Name: c.What}).Run(e)
	}
	if params.From, params.To, err = e.spanOf(c.From, c.To, zone); err != nil {
		return err
	}
	page, more, err := e.runPage(params, c.Limit)
	return e.show(page, err, func() {
		if len(page.Runs) == 0 && len(page.Skips) == 0 {
			e.printf("no runs%s   what comes: tickring upcoming\n", of(c.What))
		} else {
			e.printRuns(&page, zone)
		}
		if more {
			e.printf("there are more: --limit %d\n", c.Limit*5)
		}
		if page.NoWaiting {
			e.printf("not listed: runs that wait for their scheduled time or were cancelled before it: tickring runs APP/JOB\n")
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
	var colours paints
	for i := range page.Runs {
		r := &page.Runs[i]
		colours = append(colours, paint{len(rows), 3, "", lateColour(r)}, paint{len(rows), 6, howText(r), stateColour(r.State)})
		rows = append(rows, []string{r.ID, runName(r), e.full(r.ScheduledAt, r.Timezone), lateness(r), took(r), r.Cause,
			e.stateText(r), cmp.Or(e.waitText(r), e.firstLine(r.Message))})
	}
	table(e.Stdout, rows, e.paints(colours)...)
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
		of += " without a value at its key"
	default:
		of += " with value " + p.Value + " at its key"
	}
	switch {
	case !core.State(r.State).Open():
		return "of " + of
	case p.Has && r.State == string(core.Queued) && !p.Begins.IsZero():
		return fmt.Sprintf("it has one of %s, of %d, and begins at %s, when so many in a second have their turn", of, p.Limit,
			e.full(p.Begins, ""))
	case p.Has:
		return fmt.Sprintf("it has one of %s, of %d", of, p.Limit)
	case p.Place == 0:
		return fmt.Sprintf("it will ask for one of %s, of %d", of, p.Limit)
	}
	held := "another run"
	if n := len(p.HeldBy); n > 0 {
		held = "run " + strings.Join(p.HeldBy[:min(n, heldShown)], ", ")
		if n > heldShown {
			held += fmt.Sprintf(" and %d more", n-heldShown)
		}
	}
	return fmt.Sprintf("waits for one of %s, of %d, held by %s: place %d of %d", of, p.Limit, held, p.Place, p.Waiting)
}

// heldShown is the maximum number of permit holders to name.
const heldShown = 3

func (e *Env) skipLine(s *client.Skip, zone string) string {
	if s.Count == 1 {
		return fmt.Sprintf("skipped: %s   %s", s.Reason, e.full(s.FirstAt, zone))
	}
	return fmt.Sprintf("skipped: %s   %d instants from %s to %s", s.Reason, s.Count, e.full(s.FirstAt, zone), e.full(s.LastAt, zone))
}
