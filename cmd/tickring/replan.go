package main

import (
	"cmp"
	"fmt"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/paging"
)

type replanCmd struct {
	Job  string `arg:"" optional:"" placeholder:"JOB" help:"Job to replan (default: all jobs)."`
	From string `required:"" placeholder:"TIME" help:"Start of the period, exclusive, such as 2026-11-20, 02:30 or 24h (24 hours ago)."`
	To   string `placeholder:"TIME" help:"End of the period. With --to, only the runs that are unaccounted for are sent. Without --to, all planned runs that have not ended are sent again, even runs that were already sent. A run that is sent twice runs once."`
	goOn
}

func (c *replanCmd) Run(e *conn) error {
	zone := ""
	if c.Job != "" {
		j, err := e.job(c.Job)
		if err != nil {
			return err
		}
		zone = j.Schedule.Timezone
	}
	from, to, err := e.spanOf(c.From, c.To, zone)
	if err != nil {
		return err
	}
	body := client.ReplanRequest{Job: c.Job, After: c.After, From: from, To: to}
	res, err := e.replanAll(body)
	if err != nil && res.Next == c.After {
		return err
	}
	if err := e.show(res, nil, func() { c.tell(e.Env, &res, zone) }); err != nil {
		return err
	}
	if err != nil {
		return e.interrupted(err, plural(res.Jobs, "job")+" done; more jobs remain", c.command("replan", c.Job, res.Next, body.From,
			body.To)...)
	}
	if len(res.Failed) > 0 {
		return exitWith(exitFailed)
	}
	return nil
}

func (c *replanCmd) tell(e *Env, res *client.ReplanResult, zone string) {
	what := cmp.Or(c.Job, plural(res.Jobs, "job"))
	to, missing := "to "+e.full(res.To, zone), "unaccounted for"
	if c.To == "" {
		to, missing = "up to the end of the planned period", "without an active run"
	}
	e.printf("%s, from %s %s: %d runs were due, %d %s, %d sent again\n", what,
		e.full(res.From, zone), to, res.Expected, res.Missing, missing, res.Sent)
	if res.OutOfReach > 0 {
		e.printf("%d runs were not sent again, because their records may have been deleted after the runs ended\n", res.OutOfReach)
	}
	for _, f := range res.Failed {
		e.printf("not checked: %s\n", f)
	}
	if res.Partial {
		e.printf("some change records of this period are deleted, so some missing runs may not be found\n")
	}
}

// replanAll reads all pages of a replan; on an error, sum still has the work done.
func (e *conn) replanAll(body client.ReplanRequest) (sum client.ReplanResult, err error) {
	sum.Next, err = pages(e, body.After, paging.Pages[client.ReplanResult]{
		Ask: func(after string) (client.ReplanResult, error) {
			body.After = after
			return e.Replan(e.Ctx, body)
		},
		Add:      func(page *client.ReplanResult) string { return paging.AddReplan(&sum, page) },
		Progress: func() string { return fmt.Sprintf("%s scanned, %d sent again", plural(sum.Jobs, "job"), sum.Sent) },
	})
	return sum, err
}
