package main

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/paging"
)

type rerunCmd struct {
	What   string   `arg:"" optional:"" placeholder:"RUN|JOB|APP" help:"Finished run to rerun; or a job or app whose runs the other flags select (default: all apps)."`
	Failed bool     `help:"Only failed runs that were not retried."`
	State  []string `placeholder:"STATE" enum:"succeeded,failed,timed-out,killed,lost,skipped" help:"Only runs that ended in these states: succeeded, failed, timed-out, killed, lost, skipped."`
	From   string   `placeholder:"TIME" help:"Start of the period, such as 2026-11-20, 02:30 or 2h (2 hours ago)."`
	To     string   `placeholder:"TIME" help:"End of the period (default: now)."`
	RanAt  string   `placeholder:"ADDRESS" help:"Only runs that were sent to this executor address."`
	runFlags
	Limit   int      `default:"1000" help:"Maximum number of runs, up to 10000. If more runs match, no run is rerun."`
	Params  *string  `placeholder:"TEXT" help:"Params of the rerun (default: the params of the original run)."`
	Address []string `placeholder:"ADDRESS" help:"Executor address of the rerun (default: the addresses of the original trigger, else the app's executors)."`
	Same    bool     `name:"same-address" help:"Use the executor address of the original run."`
	Retry   *int     `placeholder:"N" help:"Number of retries (default: the job's retry.max)."`
	Key     string   `placeholder:"KEY" help:"Idempotency key. If you repeat the command with this key, each run is rerun only once."`
	DryRun  bool     `help:"List the runs without rerunning them, and the reasons why some runs cannot be rerun."`
	Yes     bool     `short:"y" help:"Skip the confirmation."`
}

const maxReruns = 10_000

func (c *rerunCmd) Run(e *conn) error {
	body := client.RerunRequest{Params: c.Params, Addresses: c.Address, SameAddress: c.Same, Retries: c.Retry, Key: c.Key, DryRun: c.DryRun,
		As: string(core.CauseManual)}
	if kindOf(c.What) == runKind {
		return c.one(e, body)
	}
	if !c.Failed && len(c.State) == 0 && c.From == "" && c.To == "" {
		return usagef("%s: no runs selected: set --failed, --state, --from or --to; --dry-run lists the selected runs",
			strings.TrimSpace("rerun "+c.What))
	}
	if c.Limit < 1 || c.Limit > maxReruns {
		return core.Invalid("limit", fmt.Sprint(c.Limit), "1 to %d are allowed", maxReruns)
	}
	zone := ""
	body.Failed, body.State = c.Failed, c.State
	body.Cause, body.Address, body.Longer, body.Shorter, body.Late, body.Text = c.Cause, c.RanAt, c.Longer, c.Shorter, c.Late, c.Text
	if kindOf(c.What) == jobKind {
		j, err := e.job(c.What)
		if err != nil {
			return err
		}
		body.Job, zone = j.App+"/"+j.Name, j.Schedule.Timezone
	} else if c.What != "" {
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
	found, err := c.find(e, body)
	if err != nil {
		return err
	}
	n := 0
	for i := range found.runs.Runs {
		if found.runs.Runs[i].Why == "" {
			n++
		}
	}
	if n == 0 || c.DryRun {
		return c.tell(e, &found.runs)
	}
	if !c.Yes {
		if err := e.sure("rerun", []string{plural(n, "run") + of(c.What)}); err != nil {
			return err
		}
	}
	sum, err := found.all(e, body)
	if err == nil {
		return c.tell(e, &sum)
	}
	if len(sum.Runs) > 0 {
		_ = c.tell(e, &sum)
	}
	again := []string{"repeat the command with --key", body.Key, "--to", body.To.UTC().Format(time.RFC3339)}
	if !body.From.IsZero() {
		again = append(again, "--from", body.From.UTC().Format(time.RFC3339))
	}
	return e.interrupted(err, plural(len(sum.Runs), "run")+" processed; more runs may match", again...)
}

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

// found is the result of a filter: the runs, oldest first, and the tokens of its pages, newest first.
type found struct {
	runs   client.RerunResult
	starts []string
}

// find asks which runs would be run again.
func (c *rerunCmd) find(e *conn, body client.RerunRequest) (f found, err error) {
	body.DryRun, f.runs.Runs = true, []client.Rerun{}
	_, err = pages(e, "", paging.Pages[client.RerunResult]{
		Ask: func(after string) (client.RerunResult, error) {
			body.After, f.starts = after, append(f.starts, after)
			return e.Rerun(e.Ctx, body)
		},
		Add: func(page *client.RerunResult) string {
			if f.runs.Runs = append(f.runs.Runs, page.Runs...); len(f.runs.Runs) > c.Limit {
				return ""
			}
			return page.Next
		},
		Progress: func() string { return plural(len(f.runs.Runs), "run") + " found" },
	})
	if err == nil && len(f.runs.Runs) > c.Limit {
		err = core.Invalid("limit", strconv.Itoa(c.Limit),
			"more runs match than the limit, so no run was rerun: raise the limit (at most %d), or choose a shorter period "+
				"with --from and --to", maxReruns)
	}
	slices.Reverse(f.runs.Runs)
	return f, err
}

// all reruns the found runs, the oldest page first. On an error, sum still has the work done.
func (f *found) all(e *conn, body client.RerunRequest) (sum client.RerunResult, err error) {
	sum.Runs = []client.Rerun{}
	at, end := len(f.starts)-1, ""
	const mark = "@" // before a place: an empty one is the first page
	_, err = pages(e, mark+f.starts[at], paging.Pages[client.RerunResult]{
		Ask: func(after string) (client.RerunResult, error) {
			body.After = after[len(mark):]
			return e.Rerun(e.Ctx, body)
		},
		Add: func(page *client.RerunResult) string {
			slices.Reverse(page.Runs)
			sum.Runs = append(sum.Runs, page.Runs...)
			switch {
			case page.Next != end && page.Next != "": // more runs match than when the pages were found
				return mark + page.Next
			case at == 0:
				return ""
			}
			end, at = f.starts[at], at-1
			return mark + f.starts[at]
		},
		Progress: func() string { return plural(len(sum.Runs), "run") + " processed" },
	})
	return sum, err
}

func (c *rerunCmd) tell(e *conn, res *client.RerunResult) error {
	return e.show(res, nil, func() {
		made, left := 0, 0
		for i := range res.Runs {
			x := &res.Runs[i]
			what := "would be rerun"
			switch {
			case x.Why != "":
				left++
				what = "not rerun: " + x.Why
			case x.Existing:
				made++
				what = "the key was already used: rerun as " + x.As.ID
			case !c.DryRun && x.As != nil:
				made++
				what = "rerun as " + x.As.ID
			default:
				made++
			}
			e.printf("run %s   %s   %s   %s\n", x.Of.ID, runName(&x.Of), e.stateText(&x.Of), oneLine(what))
		}
		switch {
		case len(res.Runs) == 0:
			e.printf("no runs%s to rerun\n", of(c.What))
		case len(res.Runs) > 1 && c.DryRun:
			e.printf("%s would be rerun, %d would not\n", plural(made, "run"), left)
		case len(res.Runs) > 1:
			e.printf("%s rerun, %d not rerun\n", plural(made, "run"), left)
		case left == 0 && !c.DryRun && res.Runs[0].As != nil:
			e.printf("to follow: tickring run %s\n", res.Runs[0].As.ID)
		}
	})
}
