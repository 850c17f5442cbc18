package main

import (
	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
)

type deleteCmd struct {
	What string `arg:"" placeholder:"JOB|APP" help:"What to delete; runs are kept."`
}

func (c *deleteCmd) Run(e *conn) error {
	if kindOf(c.What) == appKind {
		if err := core.CheckAppName("app", c.What); err != nil {
			return err
		}
		res, err := e.DeleteApp(e.Ctx, c.What)
		if err != nil {
			return err
		}
		if e.json() {
			return e.printJSON(appliedOf(&api.ApplyResult{Applied: true, Apps: []api.AppResult{res}}))
		}
		e.printf("deleted app %s\n", res.Name)
		return nil
	}
	if kindOf(c.What) == runKind {
		return usagef("runs are not deleted; end one with: tickring kill %s", c.What)
	}
	app, name, err := e.jobName(c.What)
	if err != nil {
		return err
	}
	res, err := e.DeleteJob(e.Ctx, app, name, api.DeleteJobParams{})
	if err != nil {
		return err
	}
	return e.show(appliedOf(&api.ApplyResult{Applied: true, Jobs: []api.JobResult{res}}), func() {
		e.printf("deleted %s/%s (%d)   its runs stay: tickring runs %d\n", res.App, res.Name, res.ID, res.ID)
		if res.Withheld {
			e.printf("code that declares it does not make it again until tickring give-back %s/%s\n", res.App, res.Name)
		}
	})
}
