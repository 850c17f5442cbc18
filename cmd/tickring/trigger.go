package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

type triggerCmd struct {
	Job     []string `arg:"" optional:"" placeholder:"JOB" help:"Jobs to run."`
	Label   []string `short:"l" placeholder:"KEY=VALUE" help:"${label}"`
	Params  *string  `placeholder:"TEXT" help:"Params of the run (default: the job's params)."`
	At      string   `placeholder:"TIME" help:"Time of the run, such as 18:00, 10m or 2026-12-24T18:00 in the job's zone (default: now)."`
	Address []string `placeholder:"ADDRESS" help:"Executor address to use instead of the app's executors."`
	Key     string   `placeholder:"KEY" help:"Idempotency key. Until a day after the run ended, a trigger with this key returns that run and creates no other."`
	Retry   *int     `placeholder:"N" help:"Number of retries (default: the job's retry.max)."`
	Wait    bool     `help:"Wait until the run ends; the exit code shows the result of the run."`
}

func (c *triggerCmd) Run(e *conn) error {
	var made []client.Run
	err := e.each(c.Job, c.Label, func(job string) error {
		run, err := c.one(e, job)
		if err == nil {
			made = append(made, run)
		}
		return err
	})
	if !c.Wait || len(made) == 0 {
		return err
	}
	code := exitOf(err)
	for _, run := range made {
		run, err := e.follow(run)
		if err := e.show(run, err, func() { e.printEnd(&run) }); err != nil {
			return err
		}
		code = cmp.Or(code, exitOfRun(&run))
	}
	return exitWith(code)
}

func (c *triggerCmd) one(e *conn, job string) (client.Run, error) {
	app, name, err := e.jobName(job)
	if err != nil {
		return client.Run{}, err
	}
	body := client.TriggerRequest{Params: c.Params, Addresses: c.Address, Key: c.Key, Retries: c.Retry, Cause: string(core.CauseManual)}
	if c.At != "" {
		j, err := e.GetJob(e.Ctx, app, name)
		if err != nil {
			return client.Run{}, err
		}
		if body.At, err = e.timeOf("at", c.At, j.Schedule.Timezone, false); err != nil {
			return client.Run{}, err
		}
	}
	res, err := e.TriggerJob(e.Ctx, app, name, body)
	if err != nil || c.Wait {
		return res.Run, err
	}
	r := &res.Run
	return *r, e.show(res, nil, func() {
		switch {
		case res.Existing:
			e.printf("run %s   %s   the key was already used   %s\n", r.ID, runName(r), e.stateText(r))
		case res.Waiting:
			e.printWaits(r)
		default:
			e.printf("run %s   %s   triggered   to follow: tickring run %s\n", r.ID, runName(r), r.ID)
		}
	})
}

// follow waits for the end of a run and of the retries that follow it.
func (e *conn) follow(run client.Run) (client.Run, error) {
	wait := 20 * time.Millisecond
	for fails := 0; ; {
		if !core.State(run.State).Open() {
			if run.Then == "" {
				return run, nil
			}
			if !e.json() {
				e.printEnd(&run)
			}
			run.ID, run.Then, run.State = run.Then, "", string(core.Planned)
		}
		if !e.wait(wait) {
			return run, fmt.Errorf("stopped waiting; the run continues; to follow: tickring run %s", run.ID)
		}
		wait = min(wait*3/2, time.Second)
		next, err := e.GetRun(e.Ctx, run.ID)
		switch {
		case err == nil:
			run, fails = next, 0
		case (exitOf(err) == exitNotFound || exitOf(err) == exitFailed) && fails < 30 && e.Ctx.Err() == nil:
			fails++ // a retry that is owed is not there at once; a server may restart
		case e.Ctx.Err() != nil:
		default:
			return run, err
		}
	}
}

func exitOfRun(r *client.Run) int {
	switch core.State(r.State) {
	case core.Succeeded:
		return exitDone
	case core.Skipped:
		return exitSkipped
	}
	return exitFailed
}

func (e *Env) printEnd(r *client.Run) {
	parts := []string{"run " + r.ID, runName(r)}
	if r.Address != "" {
		parts = append(parts, r.Address)
	}
	state := howText(r)
	if !r.SentAt.IsZero() && !r.EndedAt.IsZero() {
		state += " in " + took(r)
	}
	if r.Then != "" {
		state += e.againText(r) + " as " + r.Then
	}
	how := len(parts)
	parts = append(parts, state)
	if m := e.firstLine(r.Message); m != "" {
		parts = append(parts, m)
	}
	for i, part := range parts {
		if parts[i] = oneLine(part); i == how && e.colors() {
			parts[i] = stateColor(r.State).on(parts[i])
		}
	}
	fmt.Fprintln(e.Stdout, strings.Join(parts, "   "))
}
