package main

import (
	"slices"

	"github.com/tickring/tickring/api/client"
)

type editCmd struct {
	What    string   `arg:"" name:"run" placeholder:"RUN" help:"Waiting run: its ID, or app/name#KEY with the --key of its trigger."`
	At      string   `placeholder:"TIME" help:"New time, such as 18:00, 10m or 2026-12-24T18:00 in the job's zone."`
	Params  *string  `placeholder:"TEXT" help:"Params of the run (default: the job's params)."`
	Address []string `placeholder:"ADDRESS" help:"Executor address to use instead of the app's executors; \"\" selects the app's executors again."`
}

func (c *editCmd) Run(env *Env) error {
	if c.At == "" && c.Params == nil && c.Address == nil {
		return usagef("set the change: --at, --params or --address")
	}
	e, err := env.connect()
	if err != nil {
		return err
	}
	run, err := e.run(c.What)
	if err != nil {
		return err
	}
	body := client.TriggerChange{Params: c.Params}
	if c.Address != nil {
		list := slices.DeleteFunc(slices.Clone(c.Address), func(a string) bool { return a == "" })
		body.Addresses = &list
	}
	if body.At, err = e.timeOf("at", c.At, run.Timezone, false); err != nil {
		return err
	}
	res, err := e.ChangeRun(e.Ctx, run.ID, body)
	return e.show(res, err, func() {
		r := &res.Run
		if !res.Waiting {
			e.printf("run %s   %s   due at %s   to follow: tickring run %s\n", r.ID, runName(r), e.full(r.DueAt, r.Timezone), r.ID)
			return
		}
		e.printWaits(r)
	})
}

func (e *Env) printWaits(r *client.Run) {
	e.printf("run %s   %s   waits for %s   to change: tickring edit-trigger %s   to cancel: tickring kill %s\n",
		r.ID, runName(r), e.full(r.DueAt, r.Timezone), r.ID, r.ID)
}
