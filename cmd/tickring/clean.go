package main

import (
	"errors"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/paging"
)

type cleanCmd struct {
	What   string   `arg:"" placeholder:"JOB|APP" help:"Job or app whose run records are deleted. Name a deleted job by its number."`
	Older  string   `placeholder:"TIME" help:"Only runs that ended before this time, such as 2026-11-20, or 90d for 90 days ago. Runs that ended in the last 24 hours are kept."`
	Keep   int      `placeholder:"N" help:"Number of newest matching runs to keep for each job."`
	State  []string `placeholder:"STATE" help:"Only runs that ended in these states: succeeded, failed, timed-out, killed, lost, skipped."`
	DryRun bool     `help:"Count the runs without deleting them."`
	Yes    bool     `short:"y" help:"Skip the confirmation."`
}

func (c *cleanCmd) Run(e *conn) error {
	if c.Older == "" && c.Keep == 0 {
		return usagef("clean %s: no runs selected: set --older or --keep; --dry-run counts the selected runs", c.What)
	}
	body := client.CleanRequest{State: c.State, Keep: c.Keep, DryRun: c.DryRun}
	var err error
	if body.App, body.Job = appOrJob(c.What); body.Job == "" {
		if _, err := e.app(c.What); err != nil {
			return err
		}
	}
	if body.Before, err = e.timeOf("older", c.Older, "", true); err != nil {
		return err
	}
	if !c.DryRun && !c.Yes {
		ask := body
		ask.DryRun = true
		found, err := c.all(e, ask)
		if err != nil {
			return err
		}
		if found.Cleaned == 0 {
			return c.tell(e, &found)
		}
		if err := e.sure("delete", []string{plural(int(found.Cleaned), "run") + of(c.What)}); err != nil {
			return err
		}
	}
	sum, err := c.all(e, body)
	switch {
	case err == nil:
		return c.tell(e, &sum)
	case c.DryRun, sum.Cleaned == 0: // nothing is deleted
		return err
	}
	return e.interrupted(err, plural(int(sum.Cleaned), "run")+" deleted", "repeat the command")
}

// all asks for all pages, and adds them up.
func (c *cleanCmd) all(e *conn, body client.CleanRequest) (sum client.CleanResult, err error) {
	_, err = pages(e, "", paging.Pages[client.CleanResult]{
		Ask: func(after string) (client.CleanResult, error) {
			body.After = after
			page, err := e.Clean(e.Ctx, body)
			if r, ok := errors.AsType[*client.Error](err); ok && r.Field == "before" {
				r.Field, r.Value = "older", c.Older // as the user wrote it
			}
			return page, err
		},
		Add: func(page *client.CleanResult) string {
			sum.Cleaned, sum.Held, sum.Failed = sum.Cleaned+page.Cleaned, sum.Held+page.Held, page.Failed
			if page.Failed != "" {
				return ""
			}
			return page.Next
		},
		Progress: func() string { return plural(int(sum.Cleaned), "run") },
	})
	if err == nil && sum.Failed != "" {
		err = errors.New(sum.Failed)
	}
	return sum, err
}

func (c *cleanCmd) tell(e *conn, sum *client.CleanResult) error {
	return e.show(sum, nil, func() {
		verb := "deleted"
		if c.DryRun {
			verb = "would be deleted"
		}
		e.printf("%s%s %s\n", plural(int(sum.Cleaned), "run"), of(c.What), verb)
		if sum.Held > 0 {
			e.printf("%s more kept, because these runs are still in use or not counted in reports yet\n", plural(int(sum.Held), "run"))
		}
	})
}
