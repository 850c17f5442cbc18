package main

import (
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

type pauseCmd struct {
	What  []string `arg:"" optional:"" placeholder:"JOB|APP" help:"Whose schedule to stop."`
	Label []string `short:"l" placeholder:"KEY=VALUE" help:"${label}"`
	findFlags
	All    bool   `help:"Everything."`
	Reason string `placeholder:"TEXT" help:"Why; others see it."`
	Until  string `placeholder:"TIME" help:"Go on by itself: 06:00, 2h, 2026-12-24T18:00."`
}

func (c *pauseCmd) Run(e *Env) error { return c.run(e, true) }

// stopCmd is pause under its other name, which may be meant for the server.
type stopCmd struct{ pauseCmd }

func (c *stopCmd) Run(e *Env) error {
	if len(c.What)+len(c.Label) == 0 && !c.given() {
		return usagef("every schedule stops with: tickring pause --all   one with: tickring pause JOB\n" +
			"the server itself with Ctrl-C where it runs, or a SIGTERM, as systemctl stop sends it")
	}
	return c.run(e, true)
}

type resumeCmd struct {
	What  []string `arg:"" optional:"" placeholder:"JOB|APP" help:"What is to go on."`
	Label []string `short:"l" placeholder:"KEY=VALUE" help:"${label}"`
	findFlags
	Act    string `placeholder:"ACT" help:"What this act paused, and nobody changed since; pause and changes name acts."`
	All    bool   `help:"Everything."`
	Reason string `placeholder:"TEXT" help:"Why; others see it."`
}

func (c *resumeCmd) Run(e *Env) error {
	if c.Act == "" {
		return (&pauseCmd{What: c.What, Label: c.Label, findFlags: c.findFlags, All: c.All, Reason: c.Reason}).run(e, false)
	}
	if len(c.What)+len(c.Label) > 0 || c.given() || c.All {
		return usagef("--act says what to resume: leave out the rest")
	}
	conn, err := e.connect()
	if err != nil {
		return err
	}
	return conn.bulk(client.BulkRequest{Verb: "resume", Undo: c.Act, Reason: c.Reason})
}

func (c *pauseCmd) run(env *Env, pause bool) error {
	if (len(c.What)+len(c.Label) == 0 && !c.given()) != c.All {
		return usagef("name jobs or apps, or those of a label with -l KEY=VALUE, or say --all")
	}
	e, err := env.connect()
	if err != nil {
		return err
	}
	if c.All {
		e.sayWhere()
		return c.one(e, "", pause)
	}
	if c.given() || len(c.Label) == 0 && allJobs(c.What) { // as one bulk operation
		b := bulkCmd{Verb: "resume", What: c.What, Label: c.Label, findFlags: c.findFlags, Reason: c.Reason, Until: c.Until, Yes: true}
		if pause {
			b.Verb = "pause"
		}
		return b.Run(e)
	}
	return e.each(c.What, c.Label, func(what string) error { return c.one(e, what, pause) })
}

func (c *pauseCmd) one(e *conn, what string, pause bool) (err error) {
	all, zone := c.All, ""
	var app, name string
	if !all && kindOf(what) != appKind {
		j, err := e.job(what)
		if err != nil {
			return err
		}
		app, name, zone = j.App, j.Name, j.Schedule.Timezone
		what = app + "/" + name
	} else if !all {
		if err := core.CheckAppName("app", what); err != nil {
			return err
		}
	}
	body := client.PauseRequest{Reason: c.Reason}
	if c.Until != "" {
		if body.Until, err = parseTime("until", c.Until, e.zone(zone), time.Now(), false); err != nil {
			return err
		}
	}
	goOn := client.ResumeRequest{Reason: c.Reason}
	var res client.StateResult
	switch {
	case all && pause:
		res, err = e.PauseAll(e.Ctx, body)
	case all:
		res, err = e.ResumeAll(e.Ctx, goOn)
	case name != "" && pause:
		res, err = e.PauseJob(e.Ctx, app, name, body)
	case name != "":
		res, err = e.ResumeJob(e.Ctx, app, name, goOn)
	case pause:
		res, err = e.PauseApp(e.Ctx, what, body)
	default:
		res, err = e.ResumeApp(e.Ctx, what, goOn)
	}
	return e.show(res, err, func() {
		target := what
		if all {
			what, target = "everything", "--all"
		}
		switch {
		case !res.Changed:
			e.printf("%s was %s already\n", what, res.State)
		case pause && !res.Until.IsZero():
			e.printf("paused %s until %s   sooner: tickring resume %s\n", what, e.full(res.Until, zone), target)
		case pause:
			e.printf("paused %s   go on: tickring resume %s\n", what, target)
		case !res.Until.IsZero():
			e.printf("resumed %s from %s on; what passed meanwhile is not run   next: tickring upcoming\n", what, e.full(res.Until, zone))
		default:
			e.printf("resumed %s; what passed meanwhile is not run   next: tickring upcoming\n", what)
		}
	})
}
