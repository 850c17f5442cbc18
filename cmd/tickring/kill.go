package main

import (
	"fmt"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/paging"
)

type killCmd struct {
	What  []string `arg:"" optional:"" placeholder:"RUN|JOB" help:"Run (its ID, app/name@TIME or app/name#KEY), or a job whose runs are all killed."`
	Label []string `short:"l" placeholder:"KEY=VALUE" help:"${label}"`
}

func (c *killCmd) Run(e *conn) error { return e.each(c.What, c.Label, e.kill) }

func (e *conn) kill(name string) error {
	var ask func(after string) (client.StopResult, error)
	what := name
	switch kindOf(name) {
	case appKind:
		return usagef("name a run or a job (app/name); to pause an app: tickring pause %s", name)
	case jobKind:
		app, job, err := e.jobName(name)
		if err != nil {
			return notRun(err, name)
		}
		ask = func(after string) (client.StopResult, error) {
			return e.KillJob(e.Ctx, app, job, client.KillJobParams{After: after})
		}
	case runKind:
		run, err := e.run(name)
		if err != nil {
			return err
		}
		what = "run " + run.ID
		ask = func(after string) (client.StopResult, error) {
			return e.KillRun(e.Ctx, run.ID, client.KillRunParams{After: after})
		}
	}
	res := client.StopResult{Cancelled: []string{}, Killed: []string{}}
	progress := func() string {
		return fmt.Sprintf("%s marked to be killed, %d addresses notified", plural(len(res.Killed), "run"), len(res.Sent))
	}
	_, err := pages(e, "", paging.Pages[client.StopResult]{
		Ask:      ask,
		Add:      func(page *client.StopResult) string { return paging.AddStop(&res, page) },
		Progress: progress,
	})
	if err != nil {
		if res.Changed {
			err = e.interrupted(err, progress()+"; more jobs remain", "tickring", "kill", name)
		}
		return err
	}
	return e.show(res, nil, func() {
		for _, id := range res.Cancelled {
			e.printf("cancelled run %s, which was not sent yet\n", id)
		}
		for _, id := range res.Killed {
			e.printf("killing run %s   to follow: tickring run %s\n", id, id)
		}
		for _, a := range res.Sent {
			if a.Problem != "" {
				e.printf("%s: %s\n", a.Address, oneLine(a.Problem))
			}
		}
		if res.Partial {
			e.printf("one command kills only some of the open runs: after these runs have ended, repeat: tickring kill %s\n", name)
		}
		if len(res.Cancelled)+len(res.Killed) == 0 {
			e.printf("%s: no running or waiting runs\n", what)
		}
	})
}
