package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/paging"
)

type bulkCmd struct {
	Verb  string   `arg:"" enum:"${bulkVerbs}" help:"Operation: ${bulkVerbs}."`
	What  []string `arg:"" optional:"" placeholder:"JOB|APP" help:"Jobs to change. With -l, --status, --text or --all: app whose jobs to change (default: all apps)."`
	Label []string `short:"l" placeholder:"KEY=VALUE" help:"${label}"`
	findFlags
	All    bool              `help:"Select all jobs, or all jobs of the named app."`
	Reason string            `placeholder:"TEXT" help:"Reason for the change, shown to other users."`
	Until  string            `placeholder:"TIME" help:"For pause: when to resume, such as 06:00, 2h or 2026-12-24T18:00."`
	Params *string           `placeholder:"TEXT" help:"For trigger: params of the runs (default: the job's params)."`
	Set    map[string]string `placeholder:"KEY=VALUE" help:"For label: label to set on the jobs; KEY= removes the label KEY."`
	DryRun bool              `help:"Count the jobs without changing them."`
	Yes    bool              `short:"y" help:"Skip the confirmation."`
}

func (c *bulkCmd) Run(e *conn) error {
	body := client.BulkRequest{Verb: c.Verb, Reason: c.Reason, Params: c.Params, Labels: c.Set, Cause: "manual", DryRun: c.DryRun}
	if c.Verb != "trigger" {
		body.Cause = ""
	}
	var err error
	if body.Until, err = e.timeOf("until", c.Until, "", false); err != nil {
		return err
	}
	if err := c.whom(&body); err != nil {
		return err
	}
	if !c.DryRun && !c.Yes {
		dry := body
		dry.DryRun = true
		found, err := e.Bulk(e.Ctx, dry)
		if err != nil {
			return err
		}
		if found.Found > 0 {
			if err := e.sure(c.Verb, []string{manyOf(&found)}); err != nil {
				return err
			}
		}
	}
	return e.bulk(body)
}

// whom sets the jobs of body: the named ones, or the jobs that match the filter flags.
func (c *bulkCmd) whom(body *client.BulkRequest) error {
	if len(c.Label) == 0 && !c.given() && !c.All {
		body.Jobs = c.What
		return nil
	}
	f := &client.BulkFilter{Label: c.Label, Status: c.Status, Text: c.Text}
	switch {
	case len(c.What) > 1 || len(c.What) == 1 && kindOf(c.What[0]) != appKind:
		return usagef("-l, --status, --text and --all select jobs: with these flags, name at most one app")
	case len(c.What) == 1:
		f.App = c.What[0]
	}
	body.Filter = f
	return nil
}

func manyOf(r *client.BulkResult) string {
	if len(r.Sample) == 0 {
		return plural(r.Found, "job")
	}
	names := strings.Join(r.Sample, ", ")
	if r.Found > len(r.Sample) {
		names += ", …"
	}
	return plural(r.Found, "job") + " (" + names + ")"
}

func (e *conn) bulk(body client.BulkRequest) error {
	var sum client.BulkResult
	_, err := pages(e, "", paging.Pages[client.BulkResult]{
		Ask: func(string) (client.BulkResult, error) { return e.Bulk(e.Ctx, body) },
		Add: func(part *client.BulkResult) string {
			sum.Operation, sum.Found, sum.Sample = part.Operation, part.Found, part.Sample
			sum.Done, sum.Same, sum.Fail = sum.Done+part.Done, sum.Same+part.Same, sum.Fail+part.Fail
			sum.Failed = append(sum.Failed, part.Failed...)
			body.Operation, body.After = part.Operation, part.Next
			return behind(part.Next)
		},
		Progress: func() string { return fmt.Sprintf("%d of %s done", sum.Done+sum.Same, plural(sum.Found, "job")) },
	})
	if err := e.show(sum, err, func() {
		if body.DryRun {
			e.printf("%s\n", manyOf(&sum))
			return
		}
		e.printf("%s: %d of %s changed, %d needed no change", body.Verb, sum.Done, plural(sum.Found, "job"), sum.Same)
		if body.Verb == "pause" && sum.Done > 0 {
			e.printf("   to resume: tickring resume --operation %s", sum.Operation)
		}
		e.printf("\n")
	}); err != nil {
		return err
	}
	for _, f := range sum.Failed {
		e.notef("tickring: %s: %s\n", f.Job, oneLine(f.Message))
	}
	if sum.Fail > 0 {
		return exitWith(exitOfCode(sum.Failed[0].Code))
	}
	return nil
}

func allJobs(names []string) bool {
	return len(names) > 1 && !slices.ContainsFunc(names, func(name string) bool { return kindOf(name) != jobKind })
}
