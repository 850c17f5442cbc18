package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
)

type upcomeCmd struct {
	App   string `arg:"" optional:"" placeholder:"APP" help:"Of one app."`
	For   string `default:"1h" placeholder:"SPAN" help:"How far: 10m, 1h, 7d."`
	Limit int    `default:"100" help:"At most so many."`
}

func (c *upcomeCmd) Run(e *Env) error {
	cl, err := e.api()
	if err != nil {
		return err
	}
	res := api.Upcoming{Upcoming: []api.Coming{}}
	params := api.ListUpcomingParams{App: c.App, For: c.For, Limit: c.Limit}
	_, err = pages(e, "", pageOf[api.Upcoming]{
		ask: func(string) (api.Upcoming, error) {
			return cl.ListUpcoming(e.Ctx, params)
		},
		add: func(page *api.Upcoming) string {
			addUpcoming(&res, page, c.Limit)
			params.After = page.Next
			return behind(page.Next)
		},
		told: func() string { return fmt.Sprintf("looked at the jobs up to number %d", params.After) },
	})
	if err == nil && len(res.Upcoming) == 0 && c.App != "" {
		_, err = e.app(c.App) // nothing comes of what is not there
	}
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(res)
	}
	if len(res.Upcoming) == 0 {
		e.printf("nothing within %s   further: --for 7d\n", c.For)
		return nil
	}
	now := time.Now()
	rows := [][]string{{"SCHEDULED", "", "APP/JOB", "CAUSE"}}
	for _, u := range res.Upcoming {
		rows = append(rows, []string{e.full(u.ScheduledAt, u.Timezone), "in " + span(max(0, u.ScheduledAt.Sub(now))), u.Job, u.Cause})
	}
	table(e.Stdout, rows)
	if res.Partial {
		e.printf("there is more: --limit %d\n", min(c.Limit*5, 1000))
	}
	return nil
}

type auditCmd struct {
	Job  string `arg:"" optional:"" placeholder:"JOB" help:"One job; all if left out."`
	From string `default:"24h" placeholder:"TIME" help:"After: 2026-11-20, 02:30, 24h (ago)."`
	To   string `default:"now" placeholder:"TIME" help:"Up to."`
	goOn
}

// goOn is the flag of a command that a failure or Ctrl-C cut off.
type goOn struct {
	After string `placeholder:"PLACE" help:"Go on there, as the command that was cut off said; the sums are of the rest."`
}

// command is the words that go on at a place.
func (g goOn) command(name, job string, at string, from, to time.Time) []string {
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

func (c *auditCmd) Run(e *Env) error {
	cl, err := e.api()
	if err != nil {
		return err
	}
	zone := ""
	if c.Job != "" {
		if kindOf(c.Job) != jobKind {
			return core.Invalid("job", c.Job, "a job is written app/name, or as its number")
		}
		j, err := e.job(c.Job)
		switch {
		case err == nil:
			zone = j.Schedule.Timezone
		case exitOf(err) == exitNotFound && !strings.Contains(c.Job, "/"): // deleted: its runs stay
		default:
			return err
		}
	}
	params := api.AuditParams{Job: c.Job}
	if params.From, params.To, err = e.spanOf(c.From, c.To, zone); err != nil {
		return err
	}
	a := api.Audit{Skipped: map[string]int64{}}
	at, err := pages(e, c.After, pageOf[api.Audit]{
		ask: func(after string) (api.Audit, error) {
			params.After = after
			return cl.Audit(e.Ctx, params)
		},
		add: func(page *api.Audit) string { return addAudit(&a, page) },
		told: func() string {
			return fmt.Sprintf("%s audited, %d unaccounted for", plural(a.Jobs, "job"), a.Unaccounted)
		},
	})
	switch {
	case err != nil && at == c.After:
		return err
	case err != nil:
		if err := c.tell(e, &a, zone); err != nil && exitOf(err) != exitFailed {
			return err
		}
		return e.cutOff(err, "what is said above is of "+plural(a.Jobs, "job")+", and there are more", c.command("audit", c.Job, at, params.From, params.To)...)
	}
	return c.tell(e, &a, zone)
}

// tell prints an audit.
func (c *auditCmd) tell(e *Env, a *api.Audit, zone string) error {
	code := exitDone
	if a.Unaccounted > 0 || a.Overdue > 0 || len(a.Failed) > 0 {
		code = exitFailed
	}
	if e.json() {
		if err := e.printJSON(a); err != nil {
			return err
		}
		return exitWith(code)
	}
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
	e.printf("%d instants were due: %d sent on time, %d sent more than 1 s late%s%s, %d skipped%s, %d pending%s, %d unaccounted for\n",
		a.Demanded, a.OnTime, a.Late, worst, nobody, skipped, why, a.Pending, more, a.Unaccounted)
	for _, m := range a.Missing {
		for _, at := range m.Missing {
			e.printf("unaccounted for: %s   %s\n", m.Job, e.full(at, zone))
		}
		for _, at := range m.Waiting {
			e.printf("overdue: %s   %s: tickring run %s@%s says why\n", m.Job, e.full(at, zone), m.Job, at.UTC().Format(time.RFC3339))
		}
	}
	if !a.Behind.IsZero() {
		e.printf("a message that is still on its way may have been due as early as %s: what is unaccounted for after that may be on its way too, "+
			"or lost; tickring replan sends it again, and it runs once all the same\n", e.full(a.Behind, zone))
	}
	if a.OutOfReach > 0 {
		e.printf("out of reach: so old that what became of them may be kept no more (a job's keep.days; 30 days once it is deleted)\n")
	}
	for _, f := range a.Failed {
		e.printf("not looked at: %s\n", f)
	}
	if a.Partial {
		e.printf("some changes of this span are no longer kept: what they demanded is not known\n")
	}
	return exitWith(code)
}

type replanCmd struct {
	Job  string `arg:"" optional:"" placeholder:"JOB" help:"One job; all if left out."`
	From string `required:"" placeholder:"TIME" help:"After: 2026-11-20, 02:30, 24h (ago)."`
	To   string `placeholder:"TIME" help:"Up to, and only what an audit finds unaccounted for. Left out: also what would be on its way, up to what is planned ahead; what is there twice runs once."`
	goOn
}

func (c *replanCmd) Run(e *Env) error {
	cl, err := e.api()
	if err != nil {
		return err
	}
	zone := ""
	if c.Job != "" {
		j, err := e.job(c.Job)
		if err != nil {
			return err
		}
		zone = j.Schedule.Timezone
	}
	body := api.ReplanRequest{Job: c.Job, After: c.After}
	if body.From, body.To, err = e.spanOf(c.From, c.To, zone); err != nil {
		return err
	}
	res, err := e.replanAll(cl, body)
	if err != nil && res.Next == c.After {
		return err
	}
	if e.json() {
		if err := e.printJSON(res); err != nil {
			return err
		}
	} else {
		c.tell(e, &res, zone)
	}
	if err != nil {
		return e.cutOff(err, plural(res.Jobs, "job")+" are done, and there are more", c.command("replan", c.Job, res.Next, body.From, body.To)...)
	}
	if len(res.Failed) > 0 {
		return exitWith(exitFailed)
	}
	return nil
}

// tell prints what a replan did.
func (c *replanCmd) tell(e *Env, res *api.ReplanResult, zone string) {
	what := cmp.Or(c.Job, plural(res.Jobs, "job"))
	to, missing := "to "+e.full(res.To, zone), "unaccounted for"
	if c.To == "" {
		to, missing = "up to what is planned ahead", "without a run that anybody is at"
	}
	e.printf("%s, from %s %s: %d instants were due, %d %s, %d sent again\n", what,
		e.full(res.From, zone), to, res.Demanded, res.Missing, missing, res.Sent)
	if res.OutOfReach > 0 {
		e.printf("%d were left alone: they may have run, and their runs may be kept no more\n", res.OutOfReach)
	}
	for _, f := range res.Failed {
		e.printf("not looked at: %s\n", f)
	}
	if res.Partial {
		e.printf("some changes of this span are no longer kept: what they demanded is not known\n")
	}
}

type execsCmd struct {
	App string `arg:"" optional:"" placeholder:"APP" help:"One app; all if left out."`
}

func (c *execsCmd) Run(e *Env) error {
	cl, err := e.api()
	if err != nil {
		return err
	}
	names := []string{c.App}
	if c.App != "" {
		if err := core.CheckAppName("app", c.App); err != nil {
			return err
		}
	} else {
		apps, err := e.apps()
		if err != nil {
			return err
		}
		names = nil
		for _, a := range apps {
			names = append(names, a.Name)
		}
	}
	all := api.ExecutorList{Executors: []api.Executor{}}
	for _, name := range names {
		list, err := cl.ListExecutors(e.Ctx, name)
		if err != nil {
			return err
		}
		all.Executors = append(all.Executors, list.Executors...)
	}
	if e.json() {
		return e.printJSON(all)
	}
	if len(all.Executors) == 0 {
		e.printf("no executors%s: start one that registers, or name fixed addresses in the app\n", of(c.App))
		return nil
	}
	rows := [][]string{{"APP", "ADDRESS", "STATE"}}
	for i := range all.Executors {
		x := &all.Executors[i]
		rows = append(rows, []string{x.App, x.Address, liveText(e, x)})
	}
	table(e.Stdout, rows)
	return nil
}

type changeCmd struct {
	What  string `arg:"" optional:"" placeholder:"JOB|APP" help:"Of one job or app; of all if left out."`
	Limit int    `default:"20" help:"At most so many."`
}

func (c *changeCmd) Run(e *Env) error {
	cl, err := e.api()
	if err != nil {
		return err
	}
	params := api.ListChangesParams{Limit: c.Limit}
	switch {
	case c.What == "":
	case kindOf(c.What) == appKind:
		params.App = c.What
	case kindOf(c.What) == jobKind:
		params.Job = c.What
	default:
		return core.Invalid("what", c.What, "a job (app/name) or an app is expected")
	}
	list, err := cl.ListChanges(e.Ctx, params)
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(list)
	}
	if len(list.Changes) == 0 {
		e.printf("no changes%s\n", of(c.What))
		return nil
	}
	rows := [][]string{{"WHEN", "WHO", "WHAT", "", "WHY"}}
	for i := range list.Changes {
		ch := &list.Changes[i]
		subject := firstOf(ch.Job, ch.App, "everything")
		if ch.Job == "" && ch.JobID != 0 {
			subject = fmt.Sprintf("%s, job %d", ch.App, ch.JobID) // its name is forgotten
		}
		rows = append(rows, []string{e.full(ch.At, ""), ch.By, ch.Verb, subject + changedFields(ch), ch.Reason})
	}
	table(e.Stdout, rows)
	return nil
}

// changedFields names the fields in which the records of a change differ.
func changedFields(c *api.Change) string {
	old, want := map[string]any{}, map[string]any{}
	if json.Unmarshal(c.Old, &old) != nil || json.Unmarshal(c.New, &want) != nil || c.Verb != core.VerbUpdated {
		return ""
	}
	var names []string
	compare := func(a, b map[string]any) {
		for key := range b {
			if key != "rev" && key != "revAt" && key != "def" && !equalJSON(a[key], b[key]) && !slices.Contains(names, key) {
				names = append(names, key)
			}
		}
	}
	both := func(a, b map[string]any) {
		compare(a, b)
		compare(b, a)
	}
	both(old, want)
	a, _ := old["def"].(map[string]any)
	b, _ := want["def"].(map[string]any)
	if a != nil && b != nil {
		both(a, b)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ": " + strings.Join(names, ", ")
}

func equalJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}
