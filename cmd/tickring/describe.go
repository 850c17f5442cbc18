package main

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/paging"
	"github.com/tickring/tickring/manifest"
)

type descCmd struct {
	What string `arg:"" placeholder:"JOB|APP|RUN" help:"Job, app or run to describe. To describe a channel: 'tickring describe channel NAME'."`
	Name string `arg:"" optional:"" placeholder:"CHANNEL" help:"Name of the channel, after 'channel'."`
}

func (c *descCmd) Run(e *conn) error {
	switch {
	case c.What == channelWord && c.Name != "":
		return e.describeChannel(c.Name)
	case c.Name != "":
		return usagef("describe shows one object: %s, or for a channel: describe channel NAME", c.What)
	}
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
	of, err := e.ofApp(&j)
	if err != nil {
		e.notef("the settings of app %s for its jobs cannot be read: %s\n", j.App, e.errorText(err))
	}
	if e.json() {
		return e.printJSON(struct {
			client.Job
			OfApp *ofApp `json:"ofApp,omitempty"`
		}{j, of})
	}
	var waiting []client.Run
	_, err = pages(e, "", paging.Pages[client.RunPage]{
		Ask: func(after string) (client.RunPage, error) {
			return e.ListWaiting(e.Ctx, j.App, j.Name, client.ListWaitingParams{After: after})
		},
		Add: func(page *client.RunPage) string {
			waiting = append(waiting, page.Runs...)
			return page.Next
		},
		Progress: func() string { return plural(len(waiting), "waiting run") + " read" },
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(waiting, func(a, b client.Run) int { return a.DueAt.Compare(b.DueAt) })
	now, zone := time.Now(), j.Schedule.Timezone
	state := j.State
	if j.Pause != nil {
		state = "paused" + pausedWith[j.Pause.Of]
	}
	about := &card{{j.App + "/" + j.Name, fmt.Sprintf("job %d   %s", j.ID, state)}}
	var colors paints
	add := about.add
	add("title", j.Title)
	add("author", j.Author)
	if p := j.Pause; p != nil {
		with := map[string]string{"app": "together with app " + j.App + " since ", "everything": "together with all jobs since "}[p.Of]
		add("paused", with+e.pauseText(p, zone))
	}
	if j.Problem != "" {
		colors = append(colors, paint{len(*about), 1, "", red})
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
		add(name, text)
	}
	for _, trap := range j.Warnings {
		add("note", trap)
	}
	if j.Last != nil {
		colors = append(colors, paint{len(*about), 1, howText(j.Last), stateColor(j.Last.State)})
		add("last", fmt.Sprintf("%s   %s   %s", j.Last.ID, e.full(j.Last.ScheduledAt, zone), e.stateText(j.Last)))
		add("waits", e.waitText(j.Last))
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
		add("declared", "by code, which can change the job")
	case core.DeclaredTaken:
		add("declared", "by code, then changed by a user; to let code change the job again: tickring return-to-code "+j.App+"/"+j.Name)
	}
	for _, p := range j.After {
		add("after", fmt.Sprintf("%s   %s", p.Job, p.When))
	}
	if j.Within != "" {
		add("", "after all of these parent jobs have ended, at most "+j.Within+" after the first end")
	}
	for i, p := range j.Children {
		if i == 10 && len(j.Children) > 11 {
			add("then", fmt.Sprintf("and %d more jobs", len(j.Children)-i))
			break
		}
		add("then", fmt.Sprintf("%s   when it is %s", p.Job, p.When))
	}
	add("handler", j.Handler)
	if s := &j.Script; s.Kind != "" {
		add("script", scriptText(s))
		add("", fmt.Sprintf("created %s by %s   tickring script versions %s/%s", e.full(s.At, zone), s.By, j.App, j.Name))
	}
	e.addLines(add, "params", j.Params, "")
	if j.Template {
		add("template", "placeholders in the params are replaced for each run")
	}
	add("misfire", j.Misfire)
	add("grace", j.Grace)
	add("deadline", cmp.Or(j.Deadline, "none"))
	route := j.Route
	switch core.BroadcastFail(j.Broadcast.Fail) {
	case core.BroadcastFailAny:
		route += "   fails if any shard fails"
	case core.BroadcastFailAll:
		route += "   fails if all shards fail"
	}
	add("route", route)
	add("block", j.Block)
	add("timeout", cmp.Or(j.Timeout, "none"))
	retry := fmt.Sprintf("%d", j.Retry.Max)
	if j.Retry.Max > 0 {
		retry += fmt.Sprintf(", delay %s (%s), if %s", j.Retry.Delay, j.Retry.Backoff, strings.Join(j.Retry.On, ", "))
	}
	add("retry", retry)
	add("waits for executor", waitsFor(j.WaitForExecutor))
	add("overlap", overlapText(j.Overlap, "this job"))
	if of != nil {
		inherited := func(name, value string) {
			if value != "" {
				add(name, value+"   (from the app)")
			}
		}
		inherited("waits for executor", waitsFor(of.WaitForExecutor))
		inherited("overlap", overlapText(of.Overlap, "this job"))
		limitsText(inherited, of.Limits)
		callText(inherited, of.Call)
	}
	if j.PauseAfter > 0 {
		add("paused after", fmt.Sprintf("%d failures in a row", j.PauseAfter))
	}
	add("lost after", j.LostAfter)
	var notify client.Notify
	if of != nil {
		notify = of.Notify
	}
	told, err := e.noticesText(add, &j, notify, zone)
	if err != nil {
		return err
	}
	add("retention", keptText(j.Retention))
	var labels []string
	for key, value := range j.Labels {
		labels = append(labels, key+"="+value)
	}
	slices.Sort(labels)
	add("labels", strings.Join(labels, ", "))
	add("set", j.Set)
	for _, c := range manifest.Diff(nil, &j) { // fields without a row of their own are shown as in a manifest
		first, _, _ := strings.Cut(c.Path, ".")
		if first = strings.SplitN(first, "[", 2)[0]; !slices.Contains(described, first) && !(told && first == "notify") {
			add(c.Path, c.New)
		}
	}
	add("created", e.full(j.CreatedAt, zone))
	add("changed", e.full(j.RevAt, zone))
	table(e.Stdout, *about, e.paints(colors)...)
	e.printf("more: tickring runs %s/%s · tickring changes %s/%s\n", j.App, j.Name, j.App, j.Name)
	return nil
}

var described = []string{"app", "name", "title", "author", "labels", "handler", "script", "params", "template", "schedule", "misfire",
	"grace", "deadline",
	"block", "route", "broadcast", "timeout", "retry", "overlap", "waitForExecutor", "after", "within", "pauseAfter", "lostAfter", "retention",
	"paused", "set"}

func (e *Env) pauseText(p *client.Pause, zone string) string {
	text := e.full(p.From, zone) + why(p)
	if !p.Until.IsZero() {
		text += ", until " + e.full(p.Until, zone)
	}
	return text
}

// ofApp holds the app's defaults for settings that a job omits, and the limits of the app, which count all its runs.
type ofApp struct {
	WaitForExecutor string           `json:"waitForExecutor,omitempty"`
	Overlap         client.Overlap   `json:"overlap,omitzero"`
	Limits          client.AppLimits `json:"limits,omitzero"`
	Call            client.Call      `json:"call,omitzero"`
	Notify          client.Notify    `json:"notify,omitzero"`
}

// ofApp reads it, nil where that is nothing.
func (e *conn) ofApp(j *client.Job) (*ofApp, error) {
	a, err := e.GetApp(e.Ctx, j.App)
	if err != nil {
		return nil, err
	}
	app, err := api.ManageApp(client.AppSpec{Overlap: a.Overlap, Call: a.Call})
	if err != nil {
		return nil, err
	}
	job, err := api.ManageJob(client.JobSpec{Route: j.Route, Overlap: j.Overlap, Call: j.Call})
	if err != nil {
		return nil, err
	}
	is := core.App{Call: app.Call.Besides(job.Def.Call)}
	if j.Overlap.Limit == 0 {
		is.Overlap = (&core.Job{Def: job.Def}).Overlap(&core.App{Overlap: app.Overlap})
	}
	shown := api.AppOf(&is)
	of := ofApp{Overlap: shown.Overlap, Limits: a.Limits, Call: shown.Call, Notify: a.Notify}
	if j.WaitForExecutor == "" {
		of.WaitForExecutor = a.WaitForExecutor
	}
	if reflect.ValueOf(of).IsZero() {
		return nil, nil
	}
	return &of, nil
}

func waitsFor(span string) string {
	if span == "" {
		return ""
	}
	return span + ", if no executor is available"
}

func limitsText(add func(name, value string), l client.AppLimits) {
	if l.InFlight > 0 {
		add("limit of all runs", fmt.Sprintf("at most %d running", l.InFlight))
	}
	if l.PerSecond > 0 {
		add("limit of starts", fmt.Sprintf("at most %d per second", l.PerSecond))
	}
}

// callText adds the settings of an app's calls as a manifest has them.
func callText(add func(name, value string), call client.Call) {
	for _, c := range manifest.DiffApp(nil, &client.App{Call: call}) {
		if strings.HasPrefix(c.Path, "call.") {
			add(c.Path, c.New)
		}
	}
}

// written is a schedule as its owner wrote it.
func written(s *client.Schedule) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	rules := s.Any
	if len(rules) == 0 {
		rules = []client.Rule{{Cron: s.Cron, Crontab: s.Crontab, Every: s.Every, Offset: s.Offset, FixedDelay: s.FixedDelay, At: s.At}}
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

func (c *descCmd) app(e *conn) error {
	a, err := e.app(c.What)
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(a)
	}
	list, err := e.ListExecutors(e.Ctx, a.Name)
	if err != nil {
		return err
	}
	about := &card{{a.Name, "app"}}
	add := about.add
	add("title", a.Title)
	if covers(a.Pause, time.Now()) {
		add("paused", e.pauseText(a.Pause, ""))
	}
	token := "none"
	if a.HasToken {
		token = "set"
	}
	add("token", token)
	add("allow", strings.Join(a.Allow, ", "))
	add("jobs wait for executor", a.WaitForExecutor)
	add("overlap of jobs", overlapText(a.Overlap, "each job without its own limit"))
	limitsText(add, a.Limits)
	add("set", a.Set)
	callText(add, a.Call)
	if len(a.Withheld) > 0 {
		add("suppressed", strings.Join(a.Withheld, ", ")+": deleted by a user; to let code create a deleted job again: "+
			"tickring return-to-code "+a.Name+"/JOB")
	}
	for _, x := range list.Executors {
		add("executor", x.Address+"   "+liveText(e.Env, &x))
	}
	if len(list.Executors) == 0 {
		add("executors", "none registered yet")
	}
	table(e.Stdout, *about)
	e.printf("more: tickring get %s · tickring changes %s\n", a.Name, a.Name)
	return nil
}

func keptText(k client.Retention) string {
	logs := map[string]string{string(core.KeepLogNever): "no logs", string(core.KeepLogAlways): "logs of all runs"}[k.Log]
	logs = "   " + cmp.Or(logs, "logs of failed runs")
	if days := k.Days; days != nil && *days > 0 {
		return fmt.Sprintf("%d days", *days) + logs
	}
	return "forever" + logs
}

// overlapText is a limit in words, empty of none.
func overlapText(o client.Overlap, of string) string {
	if o.Limit == 0 {
		return ""
	}
	if o.Group != "" {
		of = "all jobs of group " + o.Group
	}
	if o.Key != "" {
		of += " with equal values of " + o.Key + " in their params"
	}
	beyond := "further runs are skipped"
	switch core.Full(o.WhenFull) {
	case core.FullQueue:
		beyond = fmt.Sprintf("at most %d further runs wait", o.Max)
	case core.FullReplace:
		beyond = "a further run replaces the longest-running run, which is killed"
	}
	return fmt.Sprintf("at most %d at the same time, counting runs of %s; %s", o.Limit, of, beyond)
}
