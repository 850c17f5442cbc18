package main

import (
	"strings"

	"github.com/tickring/tickring/api/client"
)

type giveCmd struct {
	Job string `arg:"" placeholder:"JOB" help:"The job, as app/name; it may be deleted."`
}

func (c *giveCmd) Run(env *Env) error {
	app, name, ok := strings.Cut(c.Job, "/")
	if !ok {
		return usagef("a job that may be gone is named as app/name, not as %s", c.Job)
	}
	e, err := env.connect()
	if err != nil {
		return err
	}
	res, err := e.GiveBackJob(e.Ctx, app, name)
	return e.show(appliedOf(&client.ApplyResult{Applied: true, Jobs: []client.JobResult{res}}), err, func() {
		e.printf("%s/%s is its code's: the next executor that starts with a declaration of it makes or changes it\n", res.App, res.Name)
	})
}
