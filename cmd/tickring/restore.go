package main

import (
	"fmt"
	"time"

	"github.com/tickring/tickring/api/client"
)

type fenceCmd struct{}

func (c *fenceCmd) Run(e *conn) error {
	e.sayWhere()
	res, err := e.Fence(e.Ctx)
	return e.show(res, err, func() {
		e.printf("generation %d is fenced: nothing is planned or sent any more, and what was begun ends within 30 s\ngo on with: tickring "+
			"restore, or tickring takeover, on the deployment that is to work\n", res.Generation)
	})
}

// restoreFlags are the flags of restore and takeover. Both make the data of an earlier moment, or of another Region, this
// deployment's data.
type restoreFlags struct {
	From     string `placeholder:"TIME" help:"Of which moment the data is: 2026-11-20T02:30, 02:30, 24h (ago). Left out: a minute before the last sign of life in it."`
	LiftJobs int    `placeholder:"N" help:"How many jobs may have been made since (default: 100,000 and 100 for each second since)."`
	LiftRuns int    `placeholder:"N" help:"How many runs of one job may have been triggered or retried since (default: 10,000 and 1,000 for each second since)."`
	RunsLost bool   `help:"The table of runs is empty: send no run again that was due up to --from."`
	Again    bool   `help:"Also where this deployment works on the data already."`
}

type (
	restoreCmd  struct{ restoreFlags }
	takeoverCmd struct{ restoreFlags }
)

func (c *restoreCmd) Run(e *conn) error  { return c.run(e, "restored") }
func (c *takeoverCmd) Run(e *conn) error { return c.run(e, "taken over") }

// beforeCopy is how long before the moment of a copy the scheduled time of a message in transit can be.
const beforeCopy = 15 * time.Minute

func (c *restoreFlags) run(e *conn, done string) error {
	req := client.RestoreRequest{LiftJobs: c.LiftJobs, LiftRuns: c.LiftRuns, RunsLost: c.RunsLost, Again: c.Again}
	if c.From != "" {
		from, _, err := e.spanOf(c.From, "now", "")
		if err != nil {
			return err
		}
		req.From = from
	}
	e.sayWhere()
	var sum client.RestoreResult
	for {
		res, err := e.Restore(e.Ctx, req)
		if err != nil {
			if sum.Jobs > 0 {
				return fmt.Errorf("%w\n%d jobs are done, and nothing works meanwhile: say the same again", err, sum.Jobs)
			}
			return err
		}
		sum = client.RestoreResult{Generation: res.Generation, From: res.From, LiftJobs: res.LiftJobs, LiftRuns: res.LiftRuns,
			Jobs: sum.Jobs + res.Jobs, Leases: sum.Leases + res.Leases,
			Waiting: sum.Waiting + res.Waiting, Watched: sum.Watched + res.Watched, Owing: sum.Owing + res.Owing,
			Full: append(sum.Full, res.Full...)}
		if res.Next == 0 {
			break
		}
		req.After, req.From, req.LiftJobs, req.LiftRuns = res.Next, res.From, res.LiftJobs, res.LiftRuns
	}
	plan, err := e.replanAll(client.ReplanRequest{From: sum.From.Add(-beforeCopy)})
	if err != nil {
		return fmt.Errorf("generation %d works, but what has no run could not be sent: %w\ngo on with: tickring replan --from %s", sum.Generation,
			err, sum.From.Add(-beforeCopy).UTC().Format(time.RFC3339))
	}
	if e.json() {
		return e.printJSON(struct {
			Restore client.RestoreResult `json:"restore"`
			Replan  client.ReplanResult  `json:"replan"`
		}{sum, plan})
	}
	e.printf("%s: generation %d, of %s; %s\n", done, sum.Generation, e.full(sum.From, ""), plural(sum.Jobs, "job"))
	e.printf("numbers of new jobs begin %d higher, those of runs %d higher\n", sum.LiftJobs, sum.LiftRuns)
	e.printf("%d runs that waited are sent, %d that may be with an executor are asked after, %d owed follow-ups\n", sum.Waiting, sum.Watched,
		sum.Owing)
	for _, id := range sum.Full {
		e.printf("job %d has no run numbers left: make it anew before it is triggered\n", id)
	}
	from := sum.From.Add(-beforeCopy).UTC().Format(time.RFC3339)
	e.printf("%d instants had no run, %d sent again\nin a few minutes, until nothing is unaccounted for: tickring replan --from %s   and: "+
		"tickring audit --from %s\n", plan.Missing, plan.Sent, from, from)
	return nil
}
