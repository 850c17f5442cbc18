package main

import (
	"strings"

	"github.com/tickring/tickring/api/client"
)

type returnCmd struct {
	Job string `arg:"" placeholder:"JOB" help:"Job as app/name. The job can be deleted."`
}

func (c *returnCmd) Run(env *Env) error {
	app, name, ok := strings.Cut(c.Job, "/")
	if !ok {
		return usagef("%s: expected app/name, because a deleted job cannot be given by its number", c.Job)
	}
	e, err := env.connect()
	if err != nil {
		return err
	}
	res, err := e.ReturnJobToCode(e.Ctx, app, name)
	return e.show(appliedOf(&client.ApplyResult{Applied: true, Jobs: []client.JobResult{res}}), err, func() {
		e.printf("returned %s/%s to its code: the next executor that declares the job creates or updates it\n", res.App, res.Name)
	})
}
