package main

import (
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
)

type pauseCmd struct {
	What   string `arg:"" optional:"" placeholder:"JOB|APP" help:"Whose schedule to stop."`
	All    bool   `help:"Everything."`
	Reason string `placeholder:"TEXT" help:"Why; others see it."`
	Until  string `placeholder:"TIME" help:"Go on by itself: 06:00, 2h, 2026-12-24T18:00."`
}

func (c *pauseCmd) Run(e *Env) error { return pauseOrResume(e, c.What, c.All, c.Reason, c.Until, true) }

type resumeCmd struct {
	What   string `arg:"" optional:"" placeholder:"JOB|APP" help:"What is to go on."`
	All    bool   `help:"Everything."`
	Reason string `placeholder:"TEXT" help:"Why; others see it."`
}

func (c *resumeCmd) Run(e *Env) error {
	return pauseOrResume(e, c.What, c.All, c.Reason, "", false)
}

func pauseOrResume(env *Env, what string, all bool, reason, until string, pause bool) error {
	if (what == "") != all {
		return usagef("name a job or an app, or say --all")
	}
	e, err := env.connect()
	if err != nil {
		return err
	}
	zone := ""
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
	body := api.PauseRequest{Reason: reason}
	if until != "" {
		if body.Until, err = parseTime("until", until, e.zone(zone), time.Now(), false); err != nil {
			return err
		}
	}
	goOn := api.ResumeRequest{Reason: reason}
	var res api.StateResult
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
	if err != nil {
		return err
	}
	return e.show(res, func() {
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
