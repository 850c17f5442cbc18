package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/cron"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/server"
)

type createCmd struct {
	Job        string            `arg:"" placeholder:"APP/NAME" help:"Job as app/name; the app is created if it does not exist."`
	Cron       string            `placeholder:"EXPR" help:"Quartz expression with 6 or 7 fields, such as '0 30 2 * * ?'." group:"Schedule"`
	Crontab    string            `placeholder:"EXPR" help:"Unix expression with 5 fields, such as '30 2 * * *'." group:"Schedule"`
	Every      string            `placeholder:"SPAN" help:"Interval, such as 10s, 5m or 2h." group:"Schedule"`
	Offset     string            `placeholder:"SPAN" help:"Offset within the interval of --every (default: a different offset for each job); 0s starts jobs with the same interval together." group:"Schedule"`
	FixedDelay string            `placeholder:"SPAN" help:"Delay from the end of one run to the start of the next, such as 5m." group:"Schedule"`
	At         string            `placeholder:"TIME" help:"Time of a single run, such as 2026-12-24T18:00, 18:00 or 10m." group:"Schedule"`
	Timezone   string            `aliases:"tz" placeholder:"ZONE" help:"Time zone of the schedule, such as Europe/Berlin (default: UTC)." group:"Schedule"`
	From       string            `placeholder:"TIME" help:"First day or time of the schedule." group:"Schedule"`
	Until      string            `placeholder:"TIME" help:"Last day or time of the schedule." group:"Schedule"`
	Jitter     string            `placeholder:"SPAN" group:"Schedule" help:"Maximum random delay of each run, such as 30s."`
	Call       string            `placeholder:"URL" help:"URL to call, such as 'https://example.com/warm' or 'GET https://…'." group:"What to run"`
	Handler    string            `placeholder:"NAME" help:"Handler of an xxl-job executor." group:"What to run"`
	Command    string            `placeholder:"LINE" help:"Command that the server runs on its own machine, such as './backup.sh --all'. The server must allow commands." group:"What to run"`
	Dir        string            `placeholder:"FOLDER" help:"Working directory of the command." group:"What to run"`
	User       string            `placeholder:"USER" help:"Operating system user that runs the command." group:"What to run"`
	Env        map[string]string `placeholder:"NAME=VALUE" mapsep:"none" help:"Environment variable of the command. Repeat for several. To set a secret, use 'tickring apply' with a file." group:"What to run"`
	MaxOutput  string            `placeholder:"SIZE" help:"Maximum size of the command's output to keep in the log (default: 1MB)." group:"What to run"`
	Params     string            `placeholder:"TEXT" help:"Params of the handler or command, or the request body of --call." group:"What to run"`
	Executor   []string          `placeholder:"ADDRESS" help:"Fixed executor address of the app. Allowed only if the command creates the app." group:"What to run"`
	Timeout    string            `placeholder:"SPAN" help:"Maximum duration of a run; tickring ends longer runs." group:"Policy"`
	Retry      int               `placeholder:"N" help:"Number of retries after the first attempt." group:"Policy"`
	RetryDelay string            `placeholder:"SPAN" help:"Delay before the first retry (default: 30s)." group:"Policy"`
	Backoff    string            `placeholder:"HOW" help:"How --retry-delay grows with each retry: constant or exponential." group:"Policy"`
	Misfire    string            `placeholder:"HOW" help:"Which late runs are sent: latest (only the newest missed run), all, or skip (none)." group:"Policy"`
	Grace      string            `placeholder:"SPAN" help:"How long after its due time a run still counts as on time (default: 60s)." group:"Policy"`
	Deadline   string            `placeholder:"SPAN" help:"Maximum lateness; a run that is later is skipped." group:"Policy"`
	Route      string            `placeholder:"HOW" help:"How tickring chooses the executor of a run: ${routes}." group:"Policy"`
	Block      string            `placeholder:"HOW" help:"What an executor does with a new run while it still runs this job: serial (wait), discard-later (reject) or cover-early (end the earlier run)." group:"Policy"`
	Title      string            `placeholder:"TEXT" help:"Title of the job; free text." group:"Policy"`
	Author     string            `placeholder:"TEXT" help:"Contact for questions about the job." group:"Policy"`
	Label      map[string]string `placeholder:"KEY=VALUE" help:"Label of the job. Repeat for several." group:"Policy"`
	Paused     bool              `help:"Create the job paused." group:"Policy"`
}

func (c *createCmd) Help() string {
	return `Some settings have no flag, such as limits, parent jobs and the headers of a call. Set them in a file with
'tickring apply -f FILE', or change the created job with 'tickring edit APP/NAME'.`
}

func (c *createCmd) Run(env *Env) error {
	app, name, found := strings.Cut(c.Job, "/")
	if !found {
		such := c.Job
		if core.CheckName("job", such) != nil {
			such = "warmup"
		}
		return core.Invalid("job", c.Job, "write a job as app/name, such as web/%s", such)
	}
	if err := core.CheckAppName("job", app); err != nil {
		return err
	}
	if err := core.CheckName("job", name); err != nil {
		return err
	}
	if expr, command, ok := cron.Line(cmp.Or(c.Crontab, c.Cron)); ok {
		return usagef("crontab: %q is a command, which is not part of a schedule: %s", command,
			commandJob(app, cmp.Or(c.Handler, name), c.Job, expr, command))
	}
	none := int64(0)
	spec := client.JobSpec{App: app, Name: name, Title: c.Title, Author: c.Author, Labels: c.Label, Handler: c.Handler, Params: c.Params,
		Command: client.Command{Line: c.Command, Dir: c.Dir, User: c.User, Env: c.Env, MaxOutput: c.MaxOutput},
		Schedule: client.Schedule{Cron: c.Cron, Crontab: c.Crontab, Every: c.Every, FixedDelay: c.FixedDelay,
			Timezone: c.Timezone, From: c.From, Until: c.Until, Jitter: c.Jitter},
		Timeout: c.Timeout, Misfire: c.Misfire, Grace: c.Grace, Deadline: c.Deadline, Route: c.Route, Block: c.Block,
		Retry: client.Retry{Max: c.Retry, Delay: c.RetryDelay, Backoff: c.Backoff}, IfRev: &none}
	if c.Offset != "" {
		spec.Schedule.Offset = &c.Offset
	}
	if c.Paused {
		spec.Paused = &c.Paused
	}
	if c.At != "" {
		if err := schedule.CheckZone("timezone", c.Timezone); err != nil {
			return err
		}
		loc, err := time.LoadLocation(c.Timezone)
		if err != nil {
			return err
		}
		at, err := parseTime("at", c.At, loc, time.Now(), false)
		if err != nil {
			return err
		}
		spec.Schedule.At = at.Truncate(time.Second)
	}
	switch {
	case c.Call == "" && c.Handler == "" && c.Command == "":
		return usagef("set what the job runs: --call URL for an HTTP endpoint, --handler NAME for an xxl-job executor, or --command LINE for " +
			"a command on the server's machine")
	case c.Command != "" && (c.Call != "" || c.Handler != ""):
		return usagef("--command, --call and --handler: set only one of them")
	case c.Command == "" && (c.Dir != "" || c.User != "" || len(c.Env) > 0 || c.MaxOutput != ""):
		return usagef("--dir, --user, --env and --max-output require --command")
	}
	e, err := env.connect()
	if err != nil {
		return err
	}
	body := client.ApplyRequest{}
	known, err := e.GetApp(e.Ctx, app)
	switch {
	case err == nil:
	case exitOf(err) == exitNotFound:
		known = client.App{Name: app}
	default:
		return err
	}
	fresh := known.Rev == 0
	near := ""
	if fresh {
		near = e.appLike(app)
	}
	executors := c.Executor
	if c.Call != "" {
		if c.Handler != "" {
			return usagef("--call and --handler: set only one of them: the handler of a call is its path")
		}
		var base string
		if base, spec.Handler, err = callOf(c.Call, known.Executors); err != nil {
			return err
		}
		if err := neverCalled(c.Call, base); err != nil {
			return err
		}
		if !fresh && !slices.Contains(known.Executors, base) {
			return core.Invalid("call", c.Call, "app %s %s: create the job in another app, such as %s-call/%s",
				app, reaches(known.Executors), app, name)
		}
		executors = append(executors, base)
	} else if !fresh && len(c.Executor) > 0 {
		return usagef("app %s exists: to change its executors, apply a file (tickring get %s -o yaml)", app, app)
	}
	if fresh {
		body.Apps = []client.AppSpec{{Name: app, Executors: executors, IfRev: &none}}
	}
	body.Jobs = []client.JobSpec{spec}
	res, err := e.Apply(e.Ctx, body)
	if err != nil {
		return err
	}
	for _, a := range res.Apps {
		if a.Error != nil {
			return a.Error
		}
	}
	if len(res.Jobs) != 1 {
		return fmt.Errorf("the server returned no result for %s", c.Job)
	}
	if err := res.Jobs[0].Error; err != nil {
		return c.hint(err)
	}
	if e.json() {
		return e.printJSON(appliedOf(&res))
	}
	j, err := e.GetJob(e.Ctx, app, name)
	if err != nil {
		return err
	}
	e.printf("created %s (%d)   %s\n", c.Job, j.ID, scheduleText(&j))
	if fresh && len(executors) == 0 && c.Command == "" {
		e.printf("app %s was also created: start an executor that registers with the app name %s\n", app, app)
	}
	if near != "" && near != app {
		e.notef("warning: app %s was created, but an app with a similar name exists: %s. If you meant %[2]s, delete the job and the new "+
			"app: tickring delete %[3]s %[4]s\n", app, near, c.Job, app)
	}
	for _, trap := range j.Warnings {
		e.printf("note: %s\n", trap)
	}
	if c.Every != "" && c.Offset == "" {
		e.printf("note: the job has its own offset within its interval, so that jobs with the same interval start at different times; " +
			"--offset 0s starts them together\n")
	}
	if next := e.nextLine(&j, time.Now()); next != "" {
		e.printf("next: %s   ", next)
	} else {
		e.printf("to run it: tickring trigger %s   ", c.Job)
	}
	e.printf("as a file: tickring get %s -o yaml\n", c.Job)
	return nil
}

// commandJob explains the two ways to run a crontab line as a job.
func commandJob(app, handler, job, expr, command string) string {
	return fmt.Sprintf("make the command the handler of an executor:\n  tickring exec --app %s --handler %s -- %s\n  tickring create %s "+
		"--handler "+
		"%s --crontab '%s'\nor let 'tickring serve' run the command, if the server allows commands (--commands-user, --commands-dir):\n  "+
		"tickring create %s "+
		"--crontab '%s' --command '%s'",
		app, handler, command, job, handler, expr, job, expr, strings.ReplaceAll(command, "'", `'\''`))
}

// hint adds to a refusal which flag is meant by a field of the file.
func (c *createCmd) hint(r *client.Error) error {
	switch {
	case c.Cron != "" && strings.HasPrefix(r.Field, "schedule.cron") && len(strings.Fields(c.Cron)) == 5:
		r.Message += fmt.Sprintf(" (use --crontab '%s')", c.Cron)
	case c.Crontab != "" && strings.HasPrefix(r.Field, "schedule.crontab") && len(strings.Fields(c.Crontab)) > 5:
		r.Message += fmt.Sprintf(" (use --cron '%s')", c.Crontab)
	}
	return r
}

// neverCalled rejects a URL whose host is an IP address that no server may call.
func neverCalled(text, base string) error {
	u, err := url.Parse(strings.TrimPrefix(base, "call:"))
	if err != nil {
		return nil
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil // a name: checked when it is dialed
	}
	if err := server.LocalPolicy().Check(ip); err != nil {
		return core.Invalid("call", text,
			"%v. Link-local addresses and metadata services (169.254.0.0/16, fe80::/10), 0.0.0.0, "+
				"multicast and reserved ranges are never allowed", err)
	}
	return nil
}

func reaches(executors []string) core.Text {
	if len(executors) == 0 {
		return core.Say("uses executors that register")
	}
	return core.Say("has the executor %s", strings.Join(executors, ", "))
}

// callOf is the executor and the handler that make a call of a URL, with one of
// the known executors if it begins with that.
func callOf(text string, known []string) (executor, handler string, err error) {
	method, raw, found := strings.Cut(text, " ")
	if !found {
		method, raw = "POST", text
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		return "", "", core.Invalid("call", text,
			"expected a URL such as https://example.com/warm, optionally with a method: 'GET https://example.com/warm'")
	}
	executor = core.NormalAddress("call:" + u.Scheme + "://" + u.Host)
	for _, address := range known {
		base := strings.TrimSuffix(strings.TrimPrefix(address, "call:"), "/")
		if strings.HasPrefix(address, "call:") && (raw == base || strings.HasPrefix(raw, base+"/")) && len(address) >= len(executor) {
			return address, method + " " + cmp.Or(raw[len(base):], "/"), nil
		}
	}
	return executor, method + " " + cmp.Or(raw[len(u.Scheme+"://"+u.Host):], "/"), nil
}

// nextLine formats the next scheduled times of a job; it is empty if there are none. Parts that do not change from one time to the
// next are printed once.
func (e *Env) nextLine(j *client.Job, now time.Time) string {
	if len(j.Next) == 0 {
		return ""
	}
	loc := e.zone(j.Schedule.Timezone)
	text, day, offset := "", now.In(loc).Format("Mon 2 Jan"), j.Next[0].In(loc).Format("Z07:00")
	for i, t := range j.Next[:min(len(j.Next), 3)] {
		t = t.In(loc)
		if o := t.Format("Z07:00"); o != offset {
			text, offset = text+" "+offset, o
		}
		if i > 0 {
			text += ", "
		}
		if d := t.Format("Mon 2 Jan"); d != day {
			text, day = text+d+" ", d
		}
		text += strings.TrimSuffix(t.Format(time.TimeOnly), ":00")
	}
	if text += " " + offset; len(j.Next) > 3 {
		text += " …"
	}
	return text
}
