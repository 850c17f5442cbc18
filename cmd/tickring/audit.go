package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/paging"
)

type auditCmd struct {
	Job  string `arg:"" optional:"" placeholder:"JOB" help:"Job to audit (default: all jobs)."`
	From string `default:"24h" placeholder:"TIME" help:"Start of the period, exclusive, such as 2026-11-20, 02:30 or 24h (24 hours ago)."`
	To   string `default:"now" placeholder:"TIME" help:"End of the period (default: now)."`
	goOn
}

// goOn is the flag of a command that a failure or Ctrl-C interrupted.
type goOn struct {
	After string `placeholder:"POSITION" help:"Position at which to continue, as printed by the interrupted command. The counts cover only the remaining jobs."`
}

// command returns the command that continues from a position.
func (g goOn) command(name, job, at string, from, to time.Time) []string {
	words := []string{"tickring", name}
	if job != "" {
		words = append(words, job)
	}
	words = append(words, "--from", from.UTC().Format(time.RFC3339))
	if !to.IsZero() {
		words = append(words, "--to", to.UTC().Format(time.RFC3339))
	}
	return append(words, "--after", at)
}

func (c *auditCmd) Run(e *conn) error {
	var zone string
	var err error
	if c.Job != "" {
		if kindOf(c.Job) != jobKind {
			return core.Invalid("job", c.Job, "expected one job (app/name or its number), or no name for all jobs")
		}
		if zone, err = e.zoneOf(c.Job); err != nil {
			return err
		}
	}
	params := client.AuditParams{Job: c.Job}
	if params.From, params.To, err = e.spanOf(c.From, c.To, zone); err != nil {
		return err
	}
	a := client.Audit{Skipped: map[string]int64{}}
	at, err := pages(e, c.After, paging.Pages[client.Audit]{
		Ask: func(after string) (client.Audit, error) {
			params.After = after
			return e.Audit(e.Ctx, params)
		},
		Add: func(page *client.Audit) string { return paging.AddAudit(&a, page) },
		Progress: func() string {
			return fmt.Sprintf("%s audited, %d unaccounted for", plural(a.Jobs, "job"), a.Unaccounted)
		},
	})
	switch {
	case err != nil && at == c.After:
		return err
	case err != nil:
		if err := c.tell(e.Env, &a, zone); err != nil && exitOf(err) != exitFailed {
			return err
		}
		return e.interrupted(err, "the counts cover "+plural(a.Jobs, "job")+"; more jobs remain",
			c.command("audit", c.Job, at, params.From, params.To)...)
	}
	return c.tell(e.Env, &a, zone)
}

func (c *auditCmd) tell(e *Env, a *client.Audit, zone string) error {
	complete := a.Unaccounted == 0 && a.Overdue == 0 && len(a.Failed) == 0
	return e.result(complete, a, nil, func() { c.print(e, a, zone) })
}

func (c *auditCmd) print(e *Env, a *client.Audit, zone string) {
	what := cmp.Or(c.Job, plural(a.Jobs, "job"))
	e.printf("%s, from %s to %s\n", what, e.full(a.From, zone), e.full(a.To, zone))
	worst := ""
	if a.Late > 0 {
		worst = fmt.Sprintf(" (worst %s)", span(time.Duration(a.WorstMs)*time.Millisecond))
	}
	var skipped int64
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(a.Skipped)) {
		skipped += a.Skipped[reason]
		reasons = append(reasons, fmt.Sprintf("%s %d", reason, a.Skipped[reason]))
	}
	why := ""
	if len(reasons) > 0 {
		why = " (" + strings.Join(reasons, ", ") + ")"
	}
	nobody := ""
	if a.NotSent > 0 {
		nobody = fmt.Sprintf(", %d not sent (no executor)", a.NotSent)
	}
	more := ""
	if a.Overdue > 0 {
		more += fmt.Sprintf(", %d overdue", a.Overdue)
	}
	if a.OutOfReach > 0 {
		more += fmt.Sprintf(", %d out of reach", a.OutOfReach)
	}
	e.printf("%d runs were due: %d sent on time, %d sent more than 1 s late%s%s, %d skipped%s, %d pending%s, %d unaccounted for\n",
		a.Expected, a.OnTime, a.Late, worst, nobody, skipped, why, a.Pending, more, a.Unaccounted)
	for _, m := range a.Missing {
		for _, at := range m.Missing {
			e.printf("unaccounted for: %s   %s\n", m.Job, e.full(at, zone))
		}
		for _, at := range m.Waiting {
			e.printf("overdue: %s   %s   for the reason: tickring run %s@%s\n", m.Job, e.full(at, zone), m.Job, at.UTC().Format(time.RFC3339))
		}
	}
	if !a.Behind.IsZero() {
		e.printf("messages that were due since %s may still be in transit: runs unaccounted for after this time are in transit or lost; "+
			"'tickring replan' sends these runs again, and a run that is sent twice runs once\n", e.full(a.Behind, zone))
	}
	if a.OutOfReach > 0 {
		e.printf("out of reach: runs so old that their records may have been deleted (after the job's retention.days, " +
			"or 30 days after the job was deleted)\n")
	}
	for _, f := range a.Failed {
		e.printf("not checked: %s\n", f)
	}
	if a.Partial {
		e.printf("some change records of this period are deleted, so the audit can be incomplete\n")
	}
}
