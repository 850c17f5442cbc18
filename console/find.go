package console

import (
	"html/template"
	"net/url"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/words"
)

// Limits of a search.
const (
	findText = 200 // bytes of the search text
	findMany = 12  // jobs, and the same number of apps
)

type findPage struct {
	Text  string
	Found []hit
}

// A hit is one search result.
type hit struct{ Path, Name, Note, Kind string }

func (a *ask) find() (any, error) {
	p := findPage{Text: strings.TrimSpace(cut(a.Q("text"), findText))}
	p.Found = a.found(p.Text)
	return p, nil
}

// findList returns only the list of results, while the user types.
func (a *ask) findList() error {
	a.part("find", "found", must.Get(a.find()))
	return nil
}

// NamesOf returns the HTML attributes with which an input field suggests names of jobs or apps. The suggestions come
// from the page part "names".
func (a *ask) NamesOf(kind string) template.HTMLAttr {
	list := kind + "s-named"
	return template.HTMLAttr(`list="` + list + `" autocomplete="off" data-hx-get="` + Root + "find/names?of=" + kind +
		`" data-hx-trigger="focus once, input changed delay:120ms" data-hx-target="#` + list + `" data-hx-swap="innerHTML"`)
}

// findNames suggests jobs or apps for a filter field while the user types.
func (a *ask) findNames() error {
	of := a.Q("of")
	text, names := strings.TrimSpace(cut(a.Q(of), findText)), []string{}
	if of == "app" {
		for _, name := range must.Get(a.appNames()) {
			if len(names) < findMany && has(name, text) {
				names = append(names, name)
			}
		}
	} else {
		for _, j := range a.findJobs(text) {
			names = append(names, j.App+"/"+j.Name)
		}
	}
	a.part("find", "named", names)
	return nil
}

func (a *ask) appNames() (names []string, err error) {
	list, err := a.ListApps(a.Ctx())
	for i := range list.Apps {
		names = append(names, list.Apps[i].Name)
	}
	return names, err
}

func (a *ask) found(text string) (list []hit) {
	if text != "" {
		list = append(list, a.exactly(text)...)
	}
	do, rest := a.command(text)
	list = append(list, a.actions(text)...)
	if text == "" {
		return list
	}
	for _, j := range a.findJobs(rest) {
		name := j.App + "/" + j.Name
		if do == nil || !a.May(string(do.deed), j.App) {
			list = append(list, hit{a.JobPath(name), name, j.Title, a.Say("job")})
		} else {
			list = append(list, hit{a.JobPath(name) + do.at, words.Say(a.Lang, do.text) + " " + name, j.Title, a.Say("action")})
		}
	}
	n := 0
	for _, app := range must.Get(a.ListApps(a.Ctx())).Apps {
		if n < findMany && (has(app.Name, text) || has(app.Title, text)) {
			list = append(list, hit{a.AppPath(app.Name), app.Name, app.Title, a.Say("app")})
			n++
		}
	}
	return list
}

// cut returns the first n bytes of a text.
func cut(text string, n int) string { return strings.ToValidUTF8(text[:min(n, len(text))], "") }

// has reports whether s contains text, ignoring case.
func has(s, text string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(text)) }

func (a *ask) findJobs(text string) []client.Job {
	p := client.ListJobsParams{Text: text, Limit: findMany}
	if app, name, ok := strings.Cut(text, "/"); ok && core.CheckAppName("app", app) == nil {
		p.App, p.Text = app, name
	}
	page, err := a.ListJobs(a.Ctx(), p)
	if rejected(err) { // the text cannot be a job name
		return nil
	}
	return must.Get(page, err).Jobs
}

// exactly returns exact matches: a run by its ID, a job by its number, a run by its scheduled time.
func (a *ask) exactly(text string) (list []hit) {
	if strings.Trim(text, "0123456789") == "" {
		if r, err := a.GetRun(a.Ctx(), text); err == nil {
			list = append(list, hit{a.RunPath(r.ID), r.ID, r.Job + " · " + a.StateName(r.State), a.Say("run")})
		}
		if j, err := a.GetJobByNumber(a.Ctx(), text); err == nil {
			list = append(list, hit{a.JobPath(j.App + "/" + j.Name), j.App + "/" + j.Name, j.Title, a.Say("job")})
		}
	}
	if job, at, ok := strings.Cut(text, "@"); ok && strings.Count(job, "/") == 1 {
		list = append(list, hit{a.JobPath(job) + "/at/" + url.PathEscape(at), text, "", a.Say("run")})
	}
	return list
}

// An action is a link that every page offers to users with the permission.
type action struct {
	text core.Text
	path string
	deed access.Deed
	some bool // the permission for any app is enough; else for all apps
}

var actions = []action{
	{core.Say("Failing jobs"), Root + "jobs?status=failing", access.Enter, false},
	{core.Say("Late jobs"), Root + "jobs?status=late", access.Enter, false},
	{core.Say("Paused jobs"), Root + "jobs?status=paused", access.Enter, false},
	{core.Say("New app"), Root + "executors?panel=new", access.Edit, true},
	{core.Say("New channel"), Root + "notifications?panel=new", access.Secret, false},
	{core.Say("Failed runs"), Root + "runs?failed=1", access.Enter, false},
	{core.Say("Upcoming in the next 7 days"), Root + "upcoming?days=7", access.Enter, false},
	{core.Say("Pause everything"), Root + "system?panel=pause", access.Operate, false},
	{core.Say("Resume everything"), Root + "system?panel=resume", access.Operate, false},
	{core.Say("Dead-letter messages"), Root + "system#letters", access.See, false},
	{core.Say("Audit the last 24 hours"), Root + "system?audit=24h#audit", access.Enter, false},
	{core.Say("Resend missing runs"), Root + "system?panel=replan", access.Operate, true},
	{core.Say("Clean up runs"), Root + "runs/clean", access.Edit, true},
	{core.Say("Shortcuts"), Root + "keys", access.Known, false},
}

func (a *ask) actions(text string) (list []hit) {
	add := func(t core.Text, path, kind string) {
		if name := words.Say(a.Lang, t); has(name, text) || has(t.String(), text) {
			list = append(list, hit{path, name, "", kind})
		}
	}
	for _, part := range a.Menu() {
		for _, e := range part {
			add(e.Text, e.Path, a.Say("page"))
		}
	}
	for _, x := range actions {
		if deed := string(x.deed); a.May(deed, "") || x.some && a.MaySome(deed) {
			add(x.text, x.path, a.Say("action"))
		}
	}
	return list
}

// A command is an operation on a job: "pause nightly" links to its panel.
type command struct {
	text core.Text
	at   string // below the page of the job
	deed access.Deed
}

var commands = []command{
	{core.Say("run now"), "?panel=run", access.Operate},
	{core.Say("pause job"), "?panel=pause", access.Operate},
	{core.Say("resume job"), "?panel=resume", access.Operate},
	{core.Say("kill runs of"), "?panel=kill", access.Operate},
	{core.Say("delete job"), "?panel=delete", access.Edit},
	{core.Say("changes of"), "/audit-log", access.See},
}

// command splits a text into the command that it starts with and the rest; nil if it starts with none.
func (a *ask) command(text string) (*command, string) {
	first, rest, ok := strings.Cut(text, " ")
	if !ok || strings.TrimSpace(rest) == "" {
		return nil, text
	}
	for i := range commands {
		word, _, _ := strings.Cut(commands[i].text.String(), " ")
		if strings.EqualFold(first, word) || strings.HasPrefix(words.Say(a.Lang, commands[i].text), first) {
			return &commands[i], strings.TrimSpace(rest)
		}
	}
	return nil, text
}

// Over reports whether the page is shown over another page, as a panel.
func (a *ask) Over() bool { return a.r.Header.Get("X-Panel") != "" }

// keys lists the keyboard shortcuts, which are in the template.
func (a *ask) keys() (any, error) { return nil, nil }
