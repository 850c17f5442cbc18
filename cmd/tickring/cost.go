package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/cost"
	"github.com/tickring/tickring/manifest"
)

type costCmd struct {
	File      []string `short:"f" placeholder:"FILE|DIR|-" help:"The jobs; none: what an idle deployment costs."`
	URL       bool     `name:"function-url" help:"With a function URL in front, the default of a deployment; else an HTTP API."`
	Executors int      `default:"1" help:"Executors that beat; those at fixed addresses, functions and queues do not."`
	Alarms    int      `default:"0" help:"Metrics that CloudWatch alarms look at: 25 with all alarms of the stack."`
	Canary    bool     `help:"With the canary job, each minute."`
	Provision bool     `name:"provisioned" help:"With provisioned tables and fires spread over the minute: the capacity that takes, beside the price on demand."`
	Took      string   `default:"1s" placeholder:"SPAN" help:"How long a run of a fixed delay takes."`
}

func (c *costCmd) Run(e *Env) error {
	took, err := api.ParseDuration(c.Took)
	switch {
	case err != nil:
		return core.Invalid("took", c.Took, "%v", err)
	case took < 0 || took > 24*time.Hour:
		return core.Invalid("took", c.Took, "allowed are 0s to 24h")
	case c.Executors < 0 || c.Executors > 100_000:
		return core.Invalid("executors", strconv.Itoa(c.Executors), "allowed are 0 to 100000")
	case c.Alarms < 0 || c.Alarms > 10_000:
		return core.Invalid("alarms", strconv.Itoa(c.Alarms), "allowed are 0 to 10000")
	}
	var jobs []cost.Job
	if len(c.File) > 0 {
		doc, err := manifest.Load(c.File, e.Stdin, manifest.Options{Getenv: e.Getenv, ReadFile: namedFile,
			Parameter: func(string) (string, error) { return core.AsStored, nil }}) // which costs nothing
		if err != nil {
			return badManifest(err)
		}
		for _, j := range doc.Jobs {
			s := &j.Spec
			if s.Paused != nil && *s.Paused {
				continue
			}
			jobs = append(jobs, cost.Job{Name: s.Def.App + "/" + s.Def.Name, Schedule: s.Schedule, Took: took, Keep: cost.Kept(s.Def)})
		}
	}
	if c.Provision && len(jobs) == 0 {
		return core.Invalid("provisioned", "true", "it is for jobs: name them with -f")
	}
	d := cost.Standard()
	d.Executors, d.Alarms, d.Provisioned = c.Executors, c.Alarms, c.Provision
	if c.URL {
		d = d.FunctionURL()
	}
	res, err := cost.Virginia.Of(jobs, time.Now(), d, c.Canary)
	return e.show(res, err, func() {
		rows := [][]string{{"A MONTH", "AMOUNT", "", "DOLLARS"}}
		bill := func(of string, lines []cost.Line) {
			for _, l := range lines {
				rows = append(rows, []string{of + ": " + l.What, count(l.Amount), l.Unit, cost.Dollars(l.Dollars)})
			}
		}
		bill("idle", res.Idle)
		if len(jobs) > 0 {
			bill(fmt.Sprintf("%d jobs", len(jobs)), res.Jobs)
		}
		table(e.Stdout, append(rows, []string{"in all", "", "", cost.Dollars(res.DollarsPerMonth)}))
		if res.FiresPerMonth > 0 {
			e.printf("%s fires a month, %s a million", count(res.FiresPerMonth), cost.Dollars(res.DollarsPerMillion))
			if d.HTTPAPI {
				e.printf(" behind an HTTP API; behind a function URL %s", cost.Dollars(res.BehindURL))
			}
			if c.Provision {
				e.printf("; on demand, as they are, %s", cost.Dollars(res.OnDemand))
			}
			e.printf("\n")
		}
		if c.Provision {
			rows := [][]string{{"CAPACITY", "WRITES/S", "READS/S"}}
			for _, of := range res.Capacity {
				rows = append(rows, []string{of.Of, fmt.Sprintf("%.1f", of.Write), fmt.Sprintf("%.1f", of.Read)})
			}
			table(e.Stdout, rows)
			e.printf("-c tickring:provisioned=%s\n", res.Provisioned)
			e.printf("Of fires that come anywhere in the minute (jitter: 59s where they all come at its beginning), evenly all day, with %.0f "+
				"%% used.\n", 100*cost.UsedEvenly)
		}
		e.printf("Prices of us-east-1, %s; no free tier, no discount, no tax. Retries and triggers by hand come on top.\n",
			map[bool]string{false: "on demand", true: "provisioned tables"}[c.Provision])
	})
}

func count(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2f million", n/1e6)
	case n >= 100:
		return fmt.Sprintf("%.0f", n)
	case n == float64(int(n)):
		return fmt.Sprintf("%.0f", n)
	default:
		return fmt.Sprintf("%.2g", n)
	}
}
