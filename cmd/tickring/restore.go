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
		e.printf("generation %d is fenced: no runs are planned or sent; operations in progress end within 30 s\nto continue: 'tickring "+
			"restore', "+
			"or 'tickring takeover' on the deployment that takes over\n", res.Generation)
	})
}

// restoreFlags are the flags of restore and takeover. Both make the data of an earlier moment, or of another Region, this
// deployment's data.
type restoreFlags struct {
	From          string `placeholder:"TIME" help:"Time up to which the tables contain data, such as 2026-11-20T02:30, 02:30 or 24h for 24 hours ago (default: a minute before the last activity in the data)."`
	AdvanceJobIds int    `placeholder:"N" help:"Number of job IDs to skip, so that no ID is used twice. Set at least the number of jobs that were created after --from (default: 100,000, plus 100 for each second since --from)."`
	AdvanceRunIds int    `placeholder:"N" help:"Number of run IDs to skip in each job, so that no ID is used twice. Set at least the number of triggers and retries of the busiest job after --from (default: 10,000, plus 1,000 for each second since --from)."`
	RunsLost      bool   `help:"Do not resend runs that were due before --from. Set it if the runs table is empty."`
	Again         bool   `help:"Restore even if this deployment already uses these tables."`
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
	req := client.RestoreRequest{AdvanceJobIds: c.AdvanceJobIds, AdvanceRunIds: c.AdvanceRunIds, RunsLost: c.RunsLost, Again: c.Again}
	var err error
	if req.From, err = e.timeOf("from", c.From, "", true); err != nil {
		return err
	}
	e.sayWhere()
	var sum client.RestoreResult
	for {
		res, err := e.Restore(e.Ctx, req)
		if err != nil {
			if sum.Jobs > 0 {
				return fmt.Errorf("%w\n%d jobs are restored; no runs are planned or sent until the restore is complete: repeat the "+
					"command", err, sum.Jobs)
			}
			return err
		}
		sum = client.RestoreResult{Generation: res.Generation, From: res.From, AdvanceJobIds: res.AdvanceJobIds, AdvanceRunIds: res.AdvanceRunIds,
			Jobs: sum.Jobs + res.Jobs, Leases: sum.Leases + res.Leases,
			Waiting: sum.Waiting + res.Waiting, Watched: sum.Watched + res.Watched, Owing: sum.Owing + res.Owing,
			Full: append(sum.Full, res.Full...)}
		if res.Next == 0 {
			break
		}
		req.After, req.From, req.AdvanceJobIds, req.AdvanceRunIds = res.Next, res.From, res.AdvanceJobIds, res.AdvanceRunIds
	}
	plan, err := e.replanAll(client.ReplanRequest{From: sum.From.Add(-beforeCopy)})
	if err != nil {
		return fmt.Errorf("generation %d is active, but missing runs could not be sent: %w\nto continue: tickring replan --from %s",
			sum.Generation,
			err, sum.From.Add(-beforeCopy).UTC().Format(time.RFC3339))
	}
	if e.json() {
		return e.printJSON(struct {
			Restore client.RestoreResult `json:"restore"`
			Replan  client.ReplanResult  `json:"replan"`
		}{sum, plan})
	}
	e.printf("%s: generation %d, data up to %s; %s\n", done, sum.Generation, e.full(sum.From, ""), plural(sum.Jobs, "job"))
	e.printf("advanced ID counters: job IDs by %d, run IDs by %d\n", sum.AdvanceJobIds, sum.AdvanceRunIds)
	e.printf("waiting runs sent: %d; runs to check, because an executor may have received them: %d; pending follow-ups: "+
		"%d\n", sum.Waiting, sum.Watched,
		sum.Owing)
	for _, id := range sum.Full {
		e.printf("job %d has no run IDs left: create the job again before it is triggered\n", id)
	}
	from := sum.From.Add(-beforeCopy).UTC().Format(time.RFC3339)
	e.printf("%d scheduled times had no run, %d runs sent again\nin a few minutes, repeat this command until it finds no missing run: "+
		"tickring replan "+
		"--from %s   then: tickring audit --from %s\n", plan.Missing, plan.Sent, from, from)
	return nil
}
