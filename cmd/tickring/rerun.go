package main

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/parts"
)

type rerunCmd struct {
	What   string   `arg:"" placeholder:"RUN|JOB|APP" help:"A run that has ended, or the job or app whose runs --failed, --state, --from and --to find."`
	Failed bool     `help:"Those that failed for good."`
	State  []string `placeholder:"STATE" enum:"${states}" help:"Those that ended so: ${states}."`
	From   string   `placeholder:"TIME" help:"From: 2026-11-20, 02:30, 2h (ago)."`
	To     string   `placeholder:"TIME" help:"Up to."`
	RanAt  string   `placeholder:"ADDRESS" help:"Those that ran there."`
	runFlags
	Limit   int      `default:"1000" help:"At most so many, and at most 1000."`
	Params  *string  `placeholder:"TEXT" help:"In place of those that the first was sent with."`
	Address []string `placeholder:"ADDRESS" help:"In place of those that its trigger gave, or else the app's executors."`
	Same    bool     `name:"same-address" help:"To the address where the first ran."`
	Retry   *int     `placeholder:"N" help:"In place of the job's."`
	Key     string   `placeholder:"KEY" help:"The same key makes no run twice."`
	DryRun  bool     `help:"Only list them, and say why any is left."`
	Yes     bool     `short:"y" help:"Do not ask."`
	goOn
}

// maxReruns is how many runs one command runs again.
const maxReruns = 1000

func (c *rerunCmd) Run(e *conn) error {
	body := client.RerunRequest{Params: c.Params, Addresses: c.Address, SameAddress: c.Same, Retries: c.Retry, Key: c.Key, DryRun: c.DryRun,
		As: string(core.CauseManual)}
	if kindOf(c.What) == runKind {
		return c.one(e, body)
	}
	if !c.Failed && len(c.State) == 0 && c.From == "" && c.To == "" {
		return usagef("say which runs of %s: --failed, --state, --from or --to; --dry-run lists them", c.What)
	}
	if c.Limit < 1 || c.Limit > maxReruns {
		return core.Invalid("limit", fmt.Sprint(c.Limit), "1 to %d are allowed", maxReruns)
	}
	zone := ""
	body.Failed, body.State, body.After = c.Failed, c.State, c.After
	body.Cause, body.Address, body.Longer, body.Shorter, body.Late, body.Text = c.Cause, c.RanAt, c.Longer, c.Shorter, c.Late, c.Text
	if kindOf(c.What) == jobKind {
		j, err := e.job(c.What)
		if err != nil {
			return err
		}
		body.Job, zone = j.App+"/"+j.Name, j.Schedule.Timezone
	} else {
		a, err := e.app(c.What)
		if err != nil {
			return err
		}
		body.App = a.Name
	}
	var err error
	if body.From, body.To, err = e.spanOf(c.From, c.To, zone); err != nil {
		return err
	}
	if body.To.IsZero() {
		body.To = time.Now().Truncate(time.Second)
	}
	body.Key = cmp.Or(c.Key, "rerun-"+rand.Text()[:12])
	if !c.DryRun && !c.Yes {
		ask := body
		ask.DryRun = true
		found, err := c.all(e, ask)
		if err != nil {
			return err
		}
		n := 0
		for i := range found.Runs {
			if found.Runs[i].Why == "" {
				n++
			}
		}
		if n == 0 {
			return c.tell(e, &found)
		}
		if err := e.sure("run again", []string{plural(n, "run") + of(c.What)}); err != nil {
			return err
		}
	}
	sum, err := c.all(e, body)
	if err == nil {
		return c.tell(e, &sum)
	}
	if len(sum.Runs) > 0 {
		_ = c.tell(e, &sum)
	}
	return e.interrupted(err, plural(len(sum.Runs), "run")+" are done, and there may be more", c.command(&body, sum.Next)...)
}

// command is the words that go on at a place.
func (c *rerunCmd) command(body *client.RerunRequest, next string) []string {
	words := []string{"tickring", "rerun", c.What, "--key", body.Key, "--to", body.To.UTC().Format(time.RFC3339)}
	if c.Failed {
		words = append(words, "--failed")
	}
	for _, state := range c.State {
		words = append(words, "--state", state)
	}
	if !body.From.IsZero() {
		words = append(words, "--from", body.From.UTC().Format(time.RFC3339))
	}
	if next != "" {
		words = append(words, "--after", next)
	}
	return append(words, "and the same other flags, if any")
}

// one runs one run again.
func (c *rerunCmd) one(e *conn, body client.RerunRequest) error {
	run, err := e.run(c.What)
	if err != nil {
		return err
	}
	body.Run = run.ID
	res, err := e.Rerun(e.Ctx, body)
	if err != nil {
		return err
	}
	return c.tell(e, &res)
}

// all asks for all pages; what was done is in the sum also where it fails.
func (c *rerunCmd) all(e *conn, body client.RerunRequest) (sum client.RerunResult, err error) {
	sum.Runs = []client.Rerun{}
	rest := ""
	sum.Next, err = pages(e, body.After, parts.Pages[client.RerunResult]{
		Ask: func(after string) (client.RerunResult, error) {
			body.After, body.Limit = after, min(c.Limit-len(sum.Runs), 100)
			return e.Rerun(e.Ctx, body)
		},
		Add: func(page *client.RerunResult) string {
			sum.Runs = append(sum.Runs, page.Runs...)
			if len(sum.Runs) >= c.Limit {
				rest = page.Next
				return ""
			}
			return page.Next
		},
		Progress: func() string { return plural(len(sum.Runs), "run") + " looked at" },
	})
	sum.Next = cmp.Or(sum.Next, rest)
	return sum, err
}

func (c *rerunCmd) tell(e *conn, res *client.RerunResult) error {
	return e.show(res, func() {
		made, left := 0, 0
		for i := range res.Runs {
			x := &res.Runs[i]
			what := "would be run again"
			switch {
			case x.Why != "":
				left++
				what = "left: " + x.Why
			case x.Existing:
				made++
				what = "the key was used before: it is run again as " + x.As.ID
			case !c.DryRun && x.As != nil:
				made++
				what = "is run again as " + x.As.ID
			default:
				made++
			}
			e.printf("run %s   %s   %s   %s\n", x.Of.ID, runName(&x.Of), e.stateText(&x.Of), oneLine(what))
		}
		switch {
		case len(res.Runs) == 0:
			e.printf("no runs%s to be run again\n", of(c.What))
		case len(res.Runs) > 1 && c.DryRun:
			e.printf("%s would be run again, %d left\n", plural(made, "run"), left)
		case len(res.Runs) > 1:
			e.printf("%s are run again, %d left\n", plural(made, "run"), left)
		case left == 0 && !c.DryRun && res.Runs[0].As != nil:
			e.printf("how it goes: tickring run %s\n", res.Runs[0].As.ID)
		}
		if res.Next != "" {
			e.printf("there are more: they are older   go on with: --after %s\n", res.Next)
		}
	})
}
