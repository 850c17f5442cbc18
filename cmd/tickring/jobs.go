package main

import (
	"bufio"
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/manifest"
	"github.com/tickring/tickring/server"
)

type applyCmd struct {
	File   []string `short:"f" required:"" placeholder:"FILE|DIR|-" help:"What to apply: files, folders, or - for standard input."`
	DryRun bool     `help:"Say what would change, and change nothing."`
	Prune  bool     `help:"Delete what the file's set made and the file does not name any more; lists it first and asks."`
	Yes    bool     `help:"Do not ask."`
}

// applied is what apply -o json prints; its shape is stable.
type applied struct {
	Applied bool         `json:"applied"`
	Apps    []appliedApp `json:"apps"`
	Jobs    []appliedJob `json:"jobs"`
}

type appliedApp struct {
	Name   string     `json:"name"`
	Change string     `json:"change"`
	Error  *api.Error `json:"error,omitempty"`
}

type appliedJob struct {
	App      string     `json:"app"`
	Name     string     `json:"name"`
	ID       int32      `json:"id"`
	Change   string     `json:"change"`
	Error    *api.Error `json:"error,omitempty"`
	Withheld bool       `json:"withheld,omitempty"`
}

func (c *applyCmd) Run(e *Env) error {
	doc, err := manifest.Load(c.File, e.Stdin, manifest.Options{Getenv: e.Getenv, ReadFile: os.ReadFile})
	if err != nil {
		return badManifest(err)
	}
	for _, w := range doc.Warnings {
		e.notef("warning: %s\n", oneLine(w.Error()))
	}
	if c.Prune && doc.Set == "" {
		return usagef("--prune needs the manifest to say its set: only what a set made is deleted")
	}
	cl, err := e.api()
	if err != nil {
		return err
	}
	a := newApplying(e, cl, doc, c.Prune)
	if err := c.do(e, a); err != nil {
		return err
	}
	res := a.res
	code := c.exit(&res)
	if e.json() {
		if err := e.printJSON(appliedOf(&res)); err != nil {
			return err
		}
		return exitWith(code)
	}
	c.print(e, doc, &res)
	return exitWith(code)
}

// do checks all, asks before anything is deleted, and stores it.
func (c *applyCmd) do(e *Env, a *applying) error {
	if a.small() {
		return a.ask(true, a.allApps(), spanOfJobs{0, len(a.jobs)}, c.DryRun)
	}
	if err := a.check(); err != nil || c.DryRun || a.refused() {
		return err
	}
	if c.Prune && !c.Yes {
		if ok, err := c.ask(e, &a.res); err != nil || !ok {
			return err
		}
	}
	return a.store()
}

// badManifest makes what is wrong with a file a matter of usage.
func badManifest(err error) error {
	return &exitError{exitUsage, err}
}

// ask lists what would be deleted, and asks whether to go on.
func (c *applyCmd) ask(e *Env, res *api.ApplyResult) (bool, error) {
	var names []string
	for _, j := range res.Jobs {
		if j.Change == "deleted" {
			names = append(names, j.App+"/"+j.Name)
		}
	}
	for _, a := range res.Apps {
		if a.Change == "deleted" {
			names = append(names, a.Name+" (app)")
		}
	}
	if len(names) == 0 {
		return true, nil
	}
	e.notef("to be deleted:\n")
	for _, name := range names {
		e.notef("  - %s\n", name)
	}
	if slices.Contains(c.File, "-") || !terminal(e.Stdin) {
		return false, usagef("--prune deletes %s: say --yes to do so", plural(len(names), "thing"))
	}
	e.notef("delete %s? [y/N] ", plural(len(names), "thing"))
	line, _ := bufio.NewReader(e.Stdin).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		e.notef("nothing was changed\n")
		return false, exitWith(exitRefused)
	}
	return true, nil
}

// exit is the worst of what was refused.
func (c *applyCmd) exit(res *api.ApplyResult) int {
	code := exitDone
	note := func(err *api.Error) {
		if err != nil && code == exitDone {
			code = exitOfCode(err.Code)
		}
	}
	for _, a := range res.Apps {
		note(a.Error)
	}
	for _, j := range res.Jobs {
		note(j.Error)
	}
	return code
}

func appliedOf(res *api.ApplyResult) applied {
	out := applied{Applied: res.Applied, Apps: make([]appliedApp, len(res.Apps)), Jobs: make([]appliedJob, len(res.Jobs))}
	for i, a := range res.Apps {
		out.Apps[i] = appliedApp{a.Name, a.Change, a.Error}
	}
	for i, j := range res.Jobs {
		out.Jobs[i] = appliedJob{j.App, j.Name, j.ID, j.Change, j.Error, j.Withheld}
	}
	return out
}

// marks stand before what changes.
var marks = map[string]string{"created": "+", "updated": "~", "deleted": "-", "refused": "!"}

// shownChanges bounds how many lines apply prints.
const shownChanges = 200

func (c *applyCmd) print(e *Env, doc *manifest.Document, res *api.ApplyResult) {
	now := time.Now()
	counts := map[string]int{}
	rows := [][]string{}
	for i, a := range res.Apps {
		counts[a.Change]++
		mark := marks[a.Change]
		if mark == "" {
			continue
		}
		lines := []string{""}
		switch {
		case a.Error != nil:
			lines = []string{place(a.Error, appPos(doc, i))}
		case a.Old != nil && a.New != nil:
			lines = e.appDiff(a.Old, a.New)
		}
		rows = append(rows, changeRows(mark+" "+a.Name+" (app)", lines)...)
	}
	for i, j := range res.Jobs {
		counts[j.Change]++
		mark := marks[j.Change]
		if mark == "" {
			continue
		}
		lines := []string{""}
		switch {
		case j.Error != nil:
			lines = []string{place(j.Error, jobPos(doc, i))}
		case j.Old != nil && j.New != nil:
			lines = e.diffLines(manifest.Diff(j.Old, j.New))
			if len(j.New.Next) > 0 && j.Old.Words != j.New.Words {
				lines[0] += "   next: " + e.short(j.New.Next[0], now, j.New.Schedule.Timezone)
			}
		}
		rows = append(rows, changeRows(mark+" "+j.App+"/"+j.Name, lines)...)
	}
	if len(rows) > shownChanges {
		rows = append(rows[:shownChanges], []string{fmt.Sprintf("… and %d more lines; all with -o json", len(rows)-shownChanges)})
	}
	table(e.Stdout, rows)
	verb := map[string]string{"created": "created", "updated": "changed", "deleted": "deleted", "refused": "refused", "unchanged": "unchanged"}
	if !res.Applied {
		verb["created"], verb["updated"], verb["deleted"] = "to create", "to change", "to delete"
	}
	var sums []string
	for _, change := range []string{"refused", "updated", "created", "deleted", "unchanged"} {
		if n := counts[change]; n > 0 {
			sums = append(sums, fmt.Sprintf("%d %s", n, verb[change]))
		}
	}
	if len(sums) == 0 {
		sums = []string{"nothing to do"}
	}
	text := strings.Join(sums, ", ")
	switch {
	case counts["refused"] > 0 && !res.Applied:
		text += ": nothing was changed"
	case c.DryRun && counts["updated"]+counts["created"]+counts["deleted"] > 0:
		text += "   do it: leave out --dry-run"
	}
	e.printf("%s\n", text)
	for _, j := range res.Jobs {
		if j.Error != nil && j.Error.Field == "app" && j.Error.Code == string(core.CodeNotFound) {
			e.printf("an app that is not there yet goes into the same file: apps: [{name: %s}]\n", oneLine(j.App))
			break
		}
	}
}

func changeRows(name string, lines []string) [][]string {
	var rows [][]string
	for i, line := range lines {
		if i > 0 {
			name = ""
		}
		rows = append(rows, []string{name, line})
	}
	return rows
}

func appPos(doc *manifest.Document, i int) manifest.Pos {
	if i < len(doc.Apps) {
		return doc.Apps[i].Pos
	}
	return manifest.Pos{}
}

func jobPos(doc *manifest.Document, i int) manifest.Pos {
	if i < len(doc.Jobs) {
		return doc.Jobs[i].Pos
	}
	return manifest.Pos{}
}

// place is an error with its place in the file.
func place(err *api.Error, at manifest.Pos) string {
	text := (&core.Error{Field: err.Field, Value: err.Value, Reason: err.Message}).Error()
	if at.File != "" {
		text += fmt.Sprintf("   (%s:%d)", at.File, at.Line)
	}
	return text
}

func (e *Env) appDiff(before, after *api.App) []string {
	lines := e.diffLines(manifest.DiffApp(before, after))
	if len(lines) == 1 && lines[0] == "" {
		return []string{"token changed"} // the only thing that is not shown
	}
	return lines
}

func (e *Env) diffLines(changes []manifest.FieldChange) []string {
	var lines []string
	for _, c := range changes {
		switch {
		case c.Old == "":
			lines = append(lines, c.Path+"  set to "+e.cut(c.New, 100))
		case c.New == "":
			lines = append(lines, c.Path+"  "+e.cut(c.Old, 100)+" -> left out")
		default:
			lines = append(lines, c.Path+"  "+e.cut(c.Old, 100)+" -> "+e.cut(c.New, 100))
		}
	}
	if len(lines) == 0 {
		return []string{""}
	}
	return lines
}

type createCmd struct {
	Job        string            `arg:"" placeholder:"APP/NAME" help:"app/name; the app is made if it is not there."`
	Cron       string            `placeholder:"EXPR" help:"Quartz, 6 or 7 fields: '0 30 2 * * ?'." group:"Schedule"`
	Crontab    string            `placeholder:"EXPR" help:"Unix, 5 fields: '30 2 * * *'." group:"Schedule"`
	Every      string            `placeholder:"SPAN" help:"10s, 5m, 2h." group:"Schedule"`
	Offset     string            `placeholder:"SPAN" help:"Of --every; 0s aligns it." group:"Schedule"`
	FixedDelay string            `placeholder:"SPAN" help:"From the end of the last run." group:"Schedule"`
	At         string            `placeholder:"TIME" help:"Once: 2026-12-24T18:00, 18:00, 10m." group:"Schedule"`
	Timezone   string            `aliases:"tz" placeholder:"ZONE" help:"Such as Europe/Berlin; UTC if left out." group:"Schedule"`
	From       string            `placeholder:"TIME" help:"The first that counts." group:"Schedule"`
	Until      string            `placeholder:"TIME" help:"The last that counts." group:"Schedule"`
	Jitter     string            `placeholder:"SPAN" group:"Schedule" help:"Spread over this span."`
	Call       string            `placeholder:"URL" help:"Call this URL: 'https://example.com/warm', 'GET https://…'." group:"What to run"`
	Handler    string            `placeholder:"NAME" help:"The handler of an xxl-job executor." group:"What to run"`
	Params     string            `placeholder:"TEXT" help:"What the handler gets; the body of a call." group:"What to run"`
	Executor   []string          `placeholder:"ADDRESS" help:"Fixed address of the app, when it is made." group:"What to run"`
	Timeout    string            `placeholder:"SPAN" help:"End a run after this." group:"Policy"`
	Retry      int               `placeholder:"N" help:"Attempts after the first." group:"Policy"`
	RetryDelay string            `placeholder:"SPAN" help:"Between attempts; 30s if left out." group:"Policy"`
	Backoff    string            `placeholder:"HOW" help:"constant or exponential." group:"Policy"`
	Misfire    string            `placeholder:"HOW" help:"Late fires: latest, all or skip." group:"Policy"`
	Grace      string            `placeholder:"SPAN" help:"Later than this is late; 60s if left out." group:"Policy"`
	Deadline   string            `placeholder:"SPAN" help:"Later than this is skipped." group:"Policy"`
	Route      string            `placeholder:"HOW" help:"Which executor: ${routes}." group:"Policy"`
	Block      string            `placeholder:"HOW" help:"serial, discard-later or cover-early." group:"Policy"`
	Title      string            `placeholder:"TEXT" help:"Free text." group:"Policy"`
	Label      map[string]string `placeholder:"KEY=VALUE" help:"Labels." group:"Policy"`
	Paused     bool              `help:"Make it paused." group:"Policy"`
}

func (c *createCmd) Run(e *Env) error {
	app, name, found := strings.Cut(c.Job, "/")
	if !found {
		return core.Invalid("job", c.Job, "a job is written app/name, such as web/"+cmp.Or(c.Job, "warmup"))
	}
	if err := core.CheckAppName("job", app); err != nil {
		return err
	}
	if err := core.CheckName("job", name); err != nil {
		return err
	}
	none := int64(0)
	spec := api.JobSpec{App: app, Name: name, Title: c.Title, Labels: c.Label, Handler: c.Handler, Params: c.Params,
		Schedule: api.Schedule{Cron: c.Cron, Crontab: c.Crontab, Every: c.Every, FixedDelay: c.FixedDelay,
			Timezone: c.Timezone, From: c.From, Until: c.Until, Jitter: c.Jitter},
		Timeout: c.Timeout, Misfire: c.Misfire, Grace: c.Grace, Deadline: c.Deadline, Route: c.Route, Block: c.Block,
		Retry: api.Retry{Max: c.Retry, Delay: c.RetryDelay, Backoff: c.Backoff}, IfRev: &none}
	if c.Offset != "" {
		spec.Schedule.Offset = &c.Offset
	}
	if c.Paused {
		spec.Paused = &c.Paused
	}
	if c.At != "" {
		loc, err := time.LoadLocation(c.Timezone)
		if err != nil {
			return core.Invalid("timezone", c.Timezone, "an IANA name such as Europe/Berlin is expected")
		}
		at, err := parseTime("at", c.At, loc, time.Now(), false)
		if err != nil {
			return err
		}
		spec.Schedule.At = at.Truncate(time.Second)
	}
	if c.Call == "" && c.Handler == "" {
		return usagef("what is it to run? --call URL for a plain HTTP endpoint, --handler NAME for an xxl-job executor")
	}
	cl, err := e.api()
	if err != nil {
		return err
	}
	body := api.ApplyRequest{}
	known, err := cl.GetApp(e.Ctx, app)
	switch {
	case err == nil:
	case exitOf(err) == exitNotFound:
		known = api.App{Name: app}
	default:
		return err
	}
	fresh := known.Rev == 0
	executors := c.Executor
	if c.Call != "" {
		if c.Handler != "" {
			return usagef("either --call or --handler, not both: the handler of a call is its path")
		}
		var base string
		if base, spec.Handler, err = callOf(c.Call, known.Executors); err != nil {
			return err
		}
		if err := neverCalled(c.Call, base); err != nil {
			return err
		}
		if !fresh && !slices.Contains(known.Executors, base) {
			return core.Invalid("call", c.Call, fmt.Sprintf("app %s %s: name another app, such as %s-call/%s", app, reaches(known.Executors), app, name))
		}
		executors = append(executors, base)
	} else if !fresh && len(c.Executor) > 0 {
		return usagef("app %s is there already: its executors are changed in a file for apply (tickring get %s -o yaml)", app, app)
	}
	if fresh {
		body.Apps = []api.AppSpec{{Name: app, Executors: executors, IfRev: &none}}
	}
	body.Jobs = []api.JobSpec{spec}
	res, err := cl.Apply(e.Ctx, body)
	if err != nil {
		return err
	}
	for _, a := range res.Apps {
		if a.Error != nil {
			return a.Error
		}
	}
	if len(res.Jobs) != 1 {
		return fmt.Errorf("the server did not say what became of %s", c.Job)
	}
	if err := res.Jobs[0].Error; err != nil {
		return c.hint(err)
	}
	if e.json() {
		return e.printJSON(appliedOf(&res))
	}
	j, err := cl.GetJob(e.Ctx, app, name)
	if err != nil {
		return err
	}
	e.printf("created %s (%d)   %s\n", c.Job, j.ID, scheduleText(&j))
	if fresh && len(executors) == 0 {
		e.printf("app %s was made too: start an executor that registers as %s\n", app, app)
	}
	for _, trap := range j.Traps {
		e.printf("note: %s\n", trap)
	}
	if c.Every != "" && c.Offset == "" {
		e.printf("note: it has an offset of its own within its period, so that such jobs spread; --offset 0s aligns it\n")
	}
	if next := e.nextLine(&j, time.Now()); next != "" {
		e.printf("next: %s   ", next)
	} else {
		e.printf("run it: tickring trigger %s   ", c.Job)
	}
	e.printf("the same as a file: tickring get %s -o yaml\n", c.Job)
	return nil
}

// hint adds to a refusal which flag is meant by a field of the file.
func (c *createCmd) hint(r *api.Error) error {
	switch {
	case c.Cron != "" && strings.HasPrefix(r.Field, "schedule.cron") && len(strings.Fields(c.Cron)) == 5:
		r.Message += fmt.Sprintf(" (here: --crontab '%s')", c.Cron)
	case c.Crontab != "" && strings.HasPrefix(r.Field, "schedule.crontab") && len(strings.Fields(c.Crontab)) > 5:
		r.Message += fmt.Sprintf(" (here: --cron '%s')", c.Crontab)
	}
	return r
}

// neverCalled refuses a URL whose host is an IP address that no server may call.
func neverCalled(text, base string) error {
	u, err := url.Parse(strings.TrimPrefix(base, "call:"))
	if err != nil {
		return nil
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil // a name: judged when it is dialled
	}
	if err := server.LocalPolicy().Check(ip); err != nil {
		return core.Invalid("call", text, err.Error()+". Never allowed are link-local addresses and metadata services (169.254.0.0/16, fe80::/10), 0.0.0.0, multicast and reserved ranges")
	}
	return nil
}

func reaches(executors []string) string {
	if len(executors) == 0 {
		return "takes executors that register"
	}
	return "calls " + strings.Join(executors, ", ")
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
		return "", "", core.Invalid("call", text, "a URL such as https://example.com/warm is expected, or with a method: 'GET https://example.com/warm'")
	}
	executor = "call:" + u.Scheme + "://" + u.Host
	for _, address := range known {
		base := strings.TrimSuffix(strings.TrimPrefix(address, "call:"), "/")
		if strings.HasPrefix(address, "call:") && (raw == base || strings.HasPrefix(raw, base+"/")) && len(address) >= len(executor) {
			return address, method + " " + cmp.Or(raw[len(base):], "/"), nil
		}
	}
	return executor, method + " " + cmp.Or(raw[len(u.Scheme+"://"+u.Host):], "/"), nil
}

// nextLine is the next instants of a job; empty if there are none. What does not
// change from one to the next is said once.
func (e *Env) nextLine(j *api.Job, now time.Time) string {
	loc := e.zone(j.Schedule.Timezone)
	var b strings.Builder
	day, offset := now.In(loc).Format("Mon 2 Jan"), ""
	for i, t := range j.Next[:min(len(j.Next), 3)] {
		t = t.In(loc)
		if o := t.Format("Z07:00"); o != offset {
			if offset != "" {
				b.WriteString(" " + offset)
			}
			offset = o
		}
		if i > 0 {
			b.WriteString(", ")
		}
		if d := t.Format("Mon 2 Jan"); d != day {
			b.WriteString(d + " ")
			day = d
		}
		if t.Second() == 0 {
			b.WriteString(t.Format("15:04"))
		} else {
			b.WriteString(t.Format("15:04:05"))
		}
	}
	if offset != "" {
		b.WriteString(" " + offset)
	}
	if len(j.Next) > 3 {
		b.WriteString(" …")
	}
	return b.String()
}

type getCmd struct {
	What string `arg:"" optional:"" placeholder:"APP|JOB" help:"One app or job; all if left out."`
}

func (c *getCmd) Run(e *Env) error {
	var apps []api.App
	var jobs []api.Job
	var err error
	switch {
	case c.What == "":
		if apps, err = e.apps(); err == nil {
			jobs, err = e.jobs("", e.Output == "text")
		}
	case kindOf(c.What) == jobKind:
		var j api.Job
		j, err = e.job(c.What)
		if err == nil && e.json() {
			return e.printJSON(j)
		}
		jobs = []api.Job{j}
	case kindOf(c.What) == runKind:
		return (&runCmd{Name: c.What}).Run(e)
	default:
		var a api.App
		if a, err = e.app(c.What); err == nil {
			apps = []api.App{a}
			jobs, err = e.jobs(c.What, e.Output == "text")
		}
	}
	if err != nil {
		return err
	}
	switch e.Output {
	case "json":
		if apps == nil {
			apps = []api.App{}
		}
		return e.printJSON(map[string]any{"apps": apps, "jobs": jobs})
	case "yaml":
		return e.export(apps, jobs)
	}
	if len(jobs) == 0 {
		e.printf("no jobs yet: tickring create --help, or tickring apply -f FILE\n")
		return nil
	}
	return e.printJobs(jobs)
}

func (e *Env) app(name string) (api.App, error) {
	if err := core.CheckAppName("app", name); err != nil {
		return api.App{}, err
	}
	c, err := e.api()
	if err != nil {
		return api.App{}, err
	}
	return c.GetApp(e.Ctx, name)
}

func (e *Env) export(apps []api.App, jobs []api.Job) error {
	for _, a := range apps {
		if a.HasToken {
			e.notef("warning: app %s has a token, which is not in this file\n", a.Name)
		}
	}
	data, err := manifest.Export(apps, jobs)
	if err != nil {
		return err
	}
	_, err = e.Stdout.Write(data)
	return err
}

func (e *Env) printJobs(jobs []api.Job) error {
	c, err := e.api()
	if err != nil {
		return err
	}
	status, err := c.GetStatus(e.Ctx)
	if err != nil {
		return err
	}
	now := status.Now
	if now.IsZero() {
		now = time.Now()
	}
	if covers(status.Pause, now) {
		e.notef("everything is paused%s   go on: tickring resume --all\n", why(status.Pause))
	}
	rows := [][]string{{"APP/JOB", "SCHEDULE", "NEXT", "LAST", "STATE"}}
	for i := range jobs {
		j := &jobs[i]
		next, last, state := "-", "-", j.State
		if len(j.Next) > 0 {
			next = e.soon(j.Next[0], now, j.Schedule.Timezone)
		}
		if j.Last != nil {
			last = j.Last.State
		}
		switch {
		case j.Problem != "":
			state = "cannot be planned: " + j.Problem
		case j.Pause != nil:
			state = "paused" + pausedWith[j.Pause.Of]
			if !j.Pause.Until.IsZero() {
				state += " until " + e.short(j.Pause.Until, now, j.Schedule.Timezone)
			}
		}
		rows = append(rows, []string{j.App + "/" + j.Name, scheduleText(j), next, last, state})
	}
	table(e.Stdout, rows)
	return nil
}

// pausedWith says what else was paused when a job is.
var pausedWith = map[string]string{"app": " with its app", "everything": " with everything"}

func why(p *api.Pause) string {
	text := ""
	if p.By != "" {
		text += " by " + oneLine(p.By)
	}
	if p.Reason != "" {
		text += ": " + oneLine(p.Reason)
	}
	return text
}

type descCmd struct {
	What string `arg:"" placeholder:"JOB|APP|RUN" help:"What to describe."`
}

func (c *descCmd) Run(e *Env) error {
	switch kindOf(c.What) {
	case runKind:
		return (&runCmd{Name: c.What}).Run(e)
	case appKind:
		return c.app(e)
	}
	j, err := e.job(c.What)
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(j)
	}
	cl, err := e.api()
	if err != nil {
		return err
	}
	var waiting []api.Run
	_, err = pages(e, "", pageOf[api.RunPage]{
		ask: func(after string) (api.RunPage, error) {
			return cl.ListWaiting(e.Ctx, j.App, j.Name, api.ListWaitingParams{After: after})
		},
		add: func(page *api.RunPage) string {
			waiting = append(waiting, page.Runs...)
			return page.Next
		},
		told: func() string { return plural(len(waiting), "run") + " that wait read" },
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(waiting, func(a, b api.Run) int { return a.DueAt.Compare(b.DueAt) })
	now, zone := time.Now(), j.Schedule.Timezone
	state := j.State
	if j.Pause != nil {
		state = "paused" + pausedWith[j.Pause.Of]
	}
	rows := [][]string{{j.App + "/" + j.Name, fmt.Sprintf("job %d   %s", j.ID, state)}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{"  " + name, value})
		}
	}
	add("title", j.Title)
	if p := j.Pause; p != nil {
		until := ""
		if !p.Until.IsZero() {
			until = ", until " + e.full(p.Until, zone)
		}
		with := ""
		switch p.Of {
		case "app":
			with = "with app " + j.App + " since "
		case "everything":
			with = "with everything since "
		}
		add("paused", with+e.full(p.From, zone)+why(p)+until)
	}
	add("problem", j.Problem)
	add("schedule", scheduleText(&j))
	add("as written", written(&j.Schedule))
	for i, t := range j.Next {
		name := "next"
		if i > 0 {
			name = ""
		}
		text := e.full(t, zone)
		if i == 0 {
			text += "   in " + span(max(0, t.Sub(now)))
		}
		rows = append(rows, []string{"  " + name, text})
	}
	for _, trap := range j.Traps {
		add("note", trap)
	}
	if j.Last != nil {
		add("last", fmt.Sprintf("%s   %s   %s", j.Last.ID, e.full(j.Last.ScheduledAt, zone), stateText(j.Last)))
	}
	for i := range waiting {
		r := &waiting[i]
		text := fmt.Sprintf("%s   %s   %s", r.ID, e.full(r.DueAt, zone), r.Cause)
		if r.Key != "" {
			text += "   key " + r.Key
		}
		add("waits", text)
		if i == 9 && len(waiting) > 10 {
			add("", fmt.Sprintf("and %d more: tickring runs %s/%s --state planned", len(waiting)-10, j.App, j.Name))
			break
		}
	}
	switch core.Declared(j.Declared) {
	case core.DeclaredCode:
		add("declared", "in code, which may change it")
	case core.DeclaredTaken:
		add("declared", "in code, and changed by somebody else since: code leaves it alone until tickring give-back "+j.App+"/"+j.Name)
	}
	add("handler", j.Handler)
	add("params", e.firstLine(j.Params))
	add("misfire", j.Misfire)
	add("grace", j.Grace)
	add("deadline", cmp.Or(j.Deadline, "none"))
	add("route", j.Route)
	add("block", j.Block)
	add("timeout", cmp.Or(j.Timeout, "none"))
	retry := fmt.Sprintf("%d", j.Retry.Max)
	if j.Retry.Max > 0 {
		retry += fmt.Sprintf(", after %s, %s, on %s", j.Retry.Delay, j.Retry.Backoff, strings.Join(j.Retry.On, ", "))
	}
	add("retry", retry)
	add("lost after", j.LostAfter)
	add("kept", fmt.Sprintf("%d days", j.Keep.Days))
	var labels []string
	for key, value := range j.Labels {
		labels = append(labels, key+"="+value)
	}
	slices.Sort(labels)
	add("labels", strings.Join(labels, ", "))
	add("set", j.Set)
	for _, c := range manifest.Diff(nil, &j) { // what has no words of its own here is shown as a file has it
		if first, _, _ := strings.Cut(c.Path, "."); !slices.Contains(described, strings.SplitN(first, "[", 2)[0]) {
			add(c.Path, c.New)
		}
	}
	add("made", e.full(j.CreatedAt, zone))
	add("changed", e.full(j.RevAt, zone))
	table(e.Stdout, rows)
	e.printf("more: tickring runs %s/%s · tickring changes %s/%s\n", j.App, j.Name, j.App, j.Name)
	return nil
}

// described are the fields of a job that describe says in words.
var described = []string{"app", "name", "title", "labels", "handler", "params", "schedule", "misfire", "grace", "deadline",
	"block", "route", "timeout", "retry", "lostAfter", "keep", "paused", "set"}

// written is a schedule as its owner wrote it.
func written(s *api.Schedule) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	rules := s.Any
	if len(rules) == 0 {
		rules = []api.Rule{{Cron: s.Cron, Crontab: s.Crontab, Every: s.Every, Offset: s.Offset, FixedDelay: s.FixedDelay, At: s.At}}
	}
	for _, r := range rules {
		add("cron", r.Cron)
		add("crontab", r.Crontab)
		add("every", r.Every)
		if r.Offset != nil {
			add("offset", *r.Offset)
		}
		add("fixedDelay", r.FixedDelay)
		if !r.At.IsZero() {
			add("at", r.At.Format(time.RFC3339))
		}
	}
	add("timezone", s.Timezone)
	add("from", s.From)
	add("until", s.Until)
	add("jitter", s.Jitter)
	return strings.Join(parts, ", ")
}

func (c *descCmd) app(e *Env) error {
	a, err := e.app(c.What)
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(a)
	}
	cl, err := e.api()
	if err != nil {
		return err
	}
	list, err := cl.ListExecutors(e.Ctx, a.Name)
	if err != nil {
		return err
	}
	rows := [][]string{{a.Name, "app"}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{"  " + name, value})
		}
	}
	add("title", a.Title)
	if covers(a.Pause, time.Now()) {
		until := ""
		if !a.Pause.Until.IsZero() {
			until = ", until " + e.full(a.Pause.Until, "")
		}
		add("paused", e.full(a.Pause.From, "")+why(a.Pause)+until)
	}
	token := "none"
	if a.HasToken {
		token = "set"
	}
	add("token", token)
	add("allow", strings.Join(a.Allow, ", "))
	add("set", a.Set)
	if len(a.Withheld) > 0 {
		add("withheld", strings.Join(a.Withheld, ", ")+": deleted here, so code does not make them until tickring give-back "+a.Name+"/JOB")
	}
	for _, x := range list.Executors {
		add("executor", x.Address+"   "+liveText(e, &x))
	}
	if len(list.Executors) == 0 {
		add("executors", "none has registered yet")
	}
	table(e.Stdout, rows)
	e.printf("more: tickring get %s · tickring changes %s\n", a.Name, a.Name)
	return nil
}

func liveText(e *Env, x *api.Executor) string {
	switch {
	case x.Fixed:
		return "fixed"
	case !x.Used:
		return "registered, not used: the app has fixed addresses"
	case x.Live:
		return "live, last heard " + span(max(0, time.Since(x.BeatAt))) + " ago"
	}
	return "gone, last heard " + e.short(x.BeatAt, time.Now(), "")
}

type deleteCmd struct {
	What string `arg:"" placeholder:"JOB|APP" help:"What to delete; runs are kept."`
}

func (c *deleteCmd) Run(e *Env) error {
	cl, err := e.api()
	if err != nil {
		return err
	}
	if kindOf(c.What) == appKind {
		if err := core.CheckAppName("app", c.What); err != nil {
			return err
		}
		res, err := cl.DeleteApp(e.Ctx, c.What)
		if err != nil {
			return err
		}
		if e.json() {
			return e.printJSON(applied{Applied: true, Apps: []appliedApp{{res.Name, res.Change, nil}}, Jobs: []appliedJob{}})
		}
		e.printf("deleted app %s\n", res.Name)
		return nil
	}
	if kindOf(c.What) == runKind {
		return usagef("runs are not deleted; end one with: tickring kill %s", c.What)
	}
	app, name, err := e.jobName(c.What)
	if err != nil {
		return err
	}
	res, err := cl.DeleteJob(e.Ctx, app, name, api.DeleteJobParams{})
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(applied{Applied: true, Apps: []appliedApp{}, Jobs: []appliedJob{{res.App, res.Name, res.ID, res.Change, nil, res.Withheld}}})
	}
	e.printf("deleted %s/%s (%d)   its runs stay: tickring runs %d\n", res.App, res.Name, res.ID, res.ID)
	if res.Withheld {
		e.printf("code that declares it does not make it again until tickring give-back %s/%s\n", res.App, res.Name)
	}
	return nil
}

type giveCmd struct {
	Job string `arg:"" placeholder:"JOB" help:"The job, as app/name; it may be deleted."`
}

func (c *giveCmd) Run(e *Env) error {
	app, name, ok := strings.Cut(c.Job, "/")
	if !ok {
		return usagef("a job that may be gone is named as app/name, not as %s", c.Job)
	}
	cl, err := e.api()
	if err != nil {
		return err
	}
	res, err := cl.GiveBackJob(e.Ctx, app, name)
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(applied{Applied: true, Apps: []appliedApp{}, Jobs: []appliedJob{{res.App, res.Name, res.ID, res.Change, nil, res.Withheld}}})
	}
	e.printf("%s/%s is its code's: the next executor that starts with a declaration of it makes or changes it\n", res.App, res.Name)
	return nil
}

type pauseCmd struct {
	What   string `arg:"" optional:"" placeholder:"JOB|APP" help:"Whose schedule to stop."`
	All    bool   `help:"Everything."`
	Reason string `placeholder:"TEXT" help:"Why; others see it."`
	Until  string `placeholder:"TIME" help:"Go on by itself: 06:00, 2h, 2026-12-24T18:00."`
}

func (c *pauseCmd) Run(e *Env) error { return pauseOrResume(e, c.What, c.All, c.Reason, c.Until, true) }

type resumeCmd struct {
	What   string `arg:"" optional:"" placeholder:"JOB|APP" help:"What is to go on."`
	All    bool   `help:"Everything."`
	Reason string `placeholder:"TEXT" help:"Why; others see it."`
}

func (c *resumeCmd) Run(e *Env) error {
	return pauseOrResume(e, c.What, c.All, c.Reason, "", false)
}

func pauseOrResume(e *Env, what string, all bool, reason, until string, pause bool) error {
	if (what == "") != all {
		return usagef("name a job or an app, or say --all")
	}
	cl, err := e.api()
	if err != nil {
		return err
	}
	zone := ""
	var app, name string
	if !all && kindOf(what) != appKind {
		j, err := e.job(what)
		if err != nil {
			return err
		}
		app, name, zone = j.App, j.Name, j.Schedule.Timezone
		what = app + "/" + name
	} else if !all {
		if err := core.CheckAppName("app", what); err != nil {
			return err
		}
	}
	body := api.PauseRequest{Reason: reason}
	if until != "" {
		if body.Until, err = parseTime("until", until, e.zone(zone), time.Now(), false); err != nil {
			return err
		}
	}
	goOn := api.ResumeRequest{Reason: reason}
	var res api.StateResult
	switch {
	case all && pause:
		res, err = cl.PauseAll(e.Ctx, body)
	case all:
		res, err = cl.ResumeAll(e.Ctx, goOn)
	case name != "" && pause:
		res, err = cl.PauseJob(e.Ctx, app, name, body)
	case name != "":
		res, err = cl.ResumeJob(e.Ctx, app, name, goOn)
	case pause:
		res, err = cl.PauseApp(e.Ctx, what, body)
	default:
		res, err = cl.ResumeApp(e.Ctx, what, goOn)
	}
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(res)
	}
	target := what
	if all {
		what, target = "everything", "--all"
	}
	switch {
	case !res.Changed:
		e.printf("%s was %s already\n", what, res.State)
	case pause && !res.Until.IsZero():
		e.printf("paused %s until %s   sooner: tickring resume %s\n", what, e.full(res.Until, zone), target)
	case pause:
		e.printf("paused %s   go on: tickring resume %s\n", what, target)
	case !res.Until.IsZero():
		e.printf("resumed %s from %s on; what passed meanwhile is not run   next: tickring upcoming\n", what, e.full(res.Until, zone))
	default:
		e.printf("resumed %s; what passed meanwhile is not run   next: tickring upcoming\n", what)
	}
	return nil
}
