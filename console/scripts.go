package console

import (
	"cmp"
	"embed"
	"strconv"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
)

type scriptsPage struct {
	Jobs   []client.Job
	Looked int    // number of jobs that were read
	Next   string // URL of the next page
}

// scriptPages is the maximum number of pages of jobs that are searched for scripts.
const scriptPages = 10

func (a *ask) scripts() (any, error) {
	p := client.ListJobsParams{App: a.Q("app"), Text: a.Q("text"), Limit: 1000}
	if n, err := strconv.ParseInt(a.Q("after"), 10, 32); err == nil {
		p.After = int32(n)
	}
	out := scriptsPage{}
	for range scriptPages {
		page := must.Get(a.ListJobs(a.Ctx(), p))
		out.Looked += len(page.Jobs)
		for i := range page.Jobs {
			if page.Jobs[i].Script.Kind != "" {
				out.Jobs = append(out.Jobs, page.Jobs[i])
			}
		}
		if p.After = page.Next; p.After == 0 || len(out.Jobs) >= 100 {
			break
		}
	}
	if p.After != 0 {
		out.Next = a.With("after", strconv.Itoa(int(p.After)))
	}
	return out, nil
}

type scriptPage struct {
	client.Job
	Ref      string
	Versions []client.Script
	Shown    client.Script // the shown version, with its source
	Source   string        // text in the editor
	Note     string
	Kind     string
	Kinds    []string
	Diff     []diffLine
	From, To int // version to compare the shown version with
	Used     []used
	Error    string
	Theirs   []diffLine // differences between the stored script and the input
	Fresh    bool       // whether the job has no script yet
	Lines    int
}

// Other returns the version that the restore button uses. If the page shows an old version, this version is used.
// Otherwise it is the version before the current version; 0 if none exists.
func (p *scriptPage) Other() int {
	if p.Old() {
		return p.Shown.Version
	}
	for _, v := range p.Versions {
		if v.Version != p.Script.Version {
			return v.Version
		}
	}
	return 0
}

// used is a run with the version of its script.
type used struct {
	client.Run
	Version int
}

const usedRuns = 6

func (a *ask) script() (any, error) {
	j := must.Get(a.GetJob(a.Ctx(), a.Path("app"), a.Path("name")))
	return a.scriptPage(j), nil
}

func (a *ask) scriptPage(j client.Job) *scriptPage {
	a.page, a.still = "scripts", true
	p := &scriptPage{Job: j, Ref: j.App + "/" + j.Name, Fresh: j.Script.Kind == "", Kinds: namesOf(core.ScriptKinds),
		Kind: cmp.Or(j.Script.Kind, a.Q("kind"), string(core.ScriptShell))}
	p.Versions = must.Get(a.ListScripts(a.Ctx(), j.App, j.Name)).Versions
	if p.Fresh {
		p.Source = templateOfKind(p.Kind)
		p.Lines = lines(p.Source)
		return p
	}
	version := a.version("version")
	p.Shown = must.Get(a.GetScript(a.Ctx(), j.App, j.Name, strconv.Itoa(version)))
	p.Source, p.Kind = p.Shown.Source, p.Shown.Kind
	p.Lines = lines(p.Source)
	if a.Q("diff") != "" {
		to := a.version("diff")
		d := must.Get(a.DiffScripts(a.Ctx(), j.App, j.Name, strconv.Itoa(to), client.DiffScriptsParams{}))
		p.From, p.To, p.Diff = d.From, d.To, diffLines(d.Text)
	}
	for _, run := range must.Get(a.ListRuns(a.Ctx(), client.ListRunsParams{Job: p.Ref, Limit: usedRuns})).Runs {
		one := used{Run: run}
		if r, err := a.GetRun(a.Ctx(), one.ID); err == nil && r.With != nil {
			one.Version = r.With.Script.Version
		}
		p.Used = append(p.Used, one)
	}
	return p
}

// version returns a version number of the query; 0 is the present version.
func (a *ask) version(name string) int {
	text := a.Q(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		must.Do(core.Invalid(name, core.Truncate(text), "version numbers start at 1"))
	}
	return int(n)
}

func lines(text string) int { return strings.Count(text, "\n") + 1 }

func (p *scriptPage) Numbers() string {
	var b strings.Builder
	for i := range min(p.Lines, 20_000) {
		b.WriteString(strconv.Itoa(i+1) + "\n")
	}
	return b.String()
}

func (p *scriptPage) Rows() int { return min(max(p.Lines+2, 12), 5_000) }

func (p *scriptPage) Old() bool { return !p.Fresh && p.Shown.Version != p.Script.Version }

func (a *ask) saveScript() (string, core.Text, error) {
	source := typedText(a.Form("source"))
	if shown := a.Form("shown"); shown != "" {
		if was, err := a.GetScript(a.Ctx(), a.Path("app"), a.Path("name"), shown); err == nil {
			source = keptText(source, was.Source)
		}
	}
	rev, _ := strconv.ParseInt(a.Form("rev"), 10, 64)
	to := a.JobPath(a.ref()) + "/script"
	change := client.ScriptChange{Kind: a.Form("kind"), Note: a.Form("note"), Source: source, IfRev: &rev}
	if a.Form("version") != "" {
		n, err := strconv.Atoi(a.Form("version"))
		if err != nil {
			return "", core.Text{}, core.Invalid("version", core.Truncate(a.Form("version")), "version numbers start at 1")
		}
		change = client.ScriptChange{Version: n, Note: a.Say("same as version %d", n), IfRev: &rev}
	}
	res, err := a.putScript(change, a.Form("fresh") != "")
	if err == nil {
		if res.Change == "unchanged" {
			return to, core.Say("%s already has this script", a.ref()), nil
		}
		return to, core.Say("%s has a new script version; the next run uses this version", a.ref()), nil
	}
	if !rejected(err) || change.Version != 0 {
		return "", core.Text{}, err
	}
	p := a.scriptPage(must.Get(a.GetJob(a.Ctx(), a.Path("app"), a.Path("name"))))
	if isConflict(err) {
		if p.Theirs = diffOf(p.Shown.Source, source); len(p.Theirs) == 0 && p.Kind == change.Kind { // the form was sent twice
			return to, core.Say("%s already has this script", a.ref()), nil
		}
	} else {
		p.Rev = rev
	}
	p.Error, p.Source, p.Note, p.Kind, p.Lines = err.Error(), source, change.Note, cmp.Or(change.Kind, p.Kind), lines(source)
	return a.again(err, "script", p)
}

// putScript gives the job in the path a version; fresh replaces its handler or command.
func (a *ask) putScript(change client.ScriptChange, fresh bool) (client.JobResult, error) {
	if !fresh {
		return a.PutScript(a.Ctx(), a.Path("app"), a.Path("name"), change)
	}
	j := must.Get(a.GetJob(a.Ctx(), a.Path("app"), a.Path("name")))
	spec := sameSpec(&j)
	spec.Handler, spec.Command, spec.IfRev = "", client.Command{}, change.IfRev
	spec.Script = client.ScriptSpec{Kind: change.Kind, Note: change.Note, Source: change.Source}
	return a.PutJob(a.Ctx(), j.App, j.Name, spec)
}

// templateFiles has the template of a new script in each language. It shows how to read the params and the shard, and
// how to fail.
//
//go:embed templates
var templateFiles embed.FS

// templateOfKind returns the template of a new script in a language; empty if the language is unknown.
func templateOfKind(kind string) string {
	text, _ := templateFiles.ReadFile("templates/" + kind)
	return string(text)
}
