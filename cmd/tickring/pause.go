package main

import (
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

type pauseCmd struct {
	What  []string `arg:"" optional:"" placeholder:"JOB|APP" help:"Jobs or apps to pause."`
	Label []string `short:"l" placeholder:"KEY=VALUE" help:"${label}"`
	findFlags
	All    bool   `help:"Pause the schedules of all jobs."`
	Reason string `placeholder:"TEXT" help:"Reason for the change, shown to other users."`
	Until  string `placeholder:"TIME" help:"When to resume, such as 06:00, 2h or 2026-12-24T18:00."`
}

func (c *pauseCmd) Run(e *Env) error { return c.run(e, true) }

// stopCmd is pause under its other name, which may be meant for the server.
type stopCmd struct{ pauseCmd }

func (c *stopCmd) Run(e *Env) error {
	if len(c.What)+len(c.Label) == 0 && !c.given() {
		return usagef("to pause all schedules: tickring pause --all   one job: tickring pause JOB\nto stop the server: Ctrl-C in its " +
			"terminal, or SIGTERM, as sent by systemctl stop")
	}
	return c.run(e, true)
}

type resumeCmd struct {
	What  []string `arg:"" optional:"" placeholder:"JOB|APP" help:"Jobs or apps to resume."`
	Label []string `short:"l" placeholder:"KEY=VALUE" help:"${label}"`
	findFlags
	Operation string `placeholder:"OPERATION" help:"Resume the jobs that this bulk operation paused, except jobs that were changed since. 'tickring pause' and 'tickring changes' show the names of operations."`
	All       bool   `help:"End the pause that 'tickring pause --all' started."`
	Reason    string `placeholder:"TEXT" help:"Reason for the change, shown to other users."`
}

func (c *resumeCmd) Run(e *Env) error {
	if c.Operation == "" {
		return (&pauseCmd{What: c.What, Label: c.Label, findFlags: c.findFlags, All: c.All, Reason: c.Reason}).run(e, false)
	}
	if len(c.What)+len(c.Label) > 0 || c.given() || c.All {
		return usagef("--operation selects the jobs to resume: leave out the other arguments")
	}
	conn, err := e.connect()
	if err != nil {
		return err
	}
	return conn.bulk(client.BulkRequest{Verb: "resume", Undo: c.Operation, Reason: c.Reason})
}

func (c *pauseCmd) run(env *Env, pause bool) error {
	if (len(c.What)+len(c.Label) == 0 && !c.given()) != c.All {
		return usagef("name jobs or apps, select jobs by label with -l KEY=VALUE, or use --all")
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
	if body.Until, err = e.timeOf("until", c.Until, zone, false); err != nil {
		return err
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
			e.printf("paused %s until %s   to resume earlier: tickring resume %s\n", what, e.full(res.Until, zone), target)
		case pause:
			e.printf("paused %s   to resume: tickring resume %s\n", what, target)
		case !res.Until.IsZero():
			e.printf("resumed %s from %s on; missed runs do not run later   next: tickring upcoming\n", what, e.full(res.Until, zone))
		default:
			e.printf("resumed %s; missed runs do not run later   next: tickring upcoming\n", what)
		}
	})
}
