package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/cron"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/manifest"
	"github.com/tickring/tickring/words"
)

// The form of a job: its fields are turned into a manifest of the job, which is then parsed and checked.

// jobForm is the form as the page shows it.
type jobForm struct {
	Ref      string // the job to edit, as app/name; empty: a new job
	From     string // the job to copy, as app/name; empty: no copy
	Rev      int64
	Groups   []shownGroup
	What     string // kind of work that the job runs: handler, script or command
	Rules    []shownRule
	Zone     string
	Parents  []shownParent // choices for the field after
	Unshown  []shownField
	Apps     []string
	Handlers []string // handlers of existing jobs, as suggestions
	Jobs     []string
	Typed    bool // whether the form shows input that is not saved
	AsIs     bool // whether to save params that are invalid JSON
	NewApp   bool // whether the app does not exist, so that the form offers to create the app
	Made     bool // whether to create the app
	Address  string
	Problems []string // errors that concern the whole form
	Errors   int
	Preview  *shownPreview
	Text     string // the text of the manifest
	Command  string
	Clash    *clash
}

type shownGroup struct {
	group
	Fields []shownField
	Wrong  bool // whether a field of the group has an error
	Said   bool // whether a field of the group has a value
}

type shownField struct {
	field
	Options      []option
	Value, Error string
}

// An option is a choice with its displayed text.
type option struct {
	Value, Text string
	On          bool
}

type shownRule struct {
	N                         int
	Kind, Expr, Offset, Error string
	Caret                     string // spaces up to the wrong character, followed by ^
}

// shownParent is a parent job in the form.
type shownParent struct {
	N    int
	Job  string
	When []option
}

// shownPreview describes a schedule and its next times.
type shownPreview struct {
	Words string
	Next  []coming
	Ends  bool
	Traps []string
}

// maxRules is the maximum number of schedules of a job.
const maxRules = 16

// newJob shows the form of a new job; from names a job to copy.
func (a *ask) newJob() (any, error) {
	a.page = "jobs"
	if a.Q("view") == "manifest" {
		a.render(http.StatusOK, "jobtext", &jobPage{Text: exampleJob})
		return nil, errShown
	}
	o := object{}
	if from := a.Q("from"); from != "" {
		app, name, _ := strings.Cut(from, "/")
		j := must.Get(a.GetJob(a.Ctx(), app, name))
		o, _ = a.objectOf(j)
		o["name"] = j.Name + "-copy"
	} else if app := a.Q("app"); app != "" {
		o["app"] = app
	}
	v := valuesOf(o)
	if a.Q("from") == "" {
		v.Set("kind.0", "crontab")
	}
	return a.shownForm(v, o, "", subject{From: a.Q("from")}), nil
}

// editJob returns the form of an existing job.
func (a *ask) editJob(j client.Job) *jobForm {
	o, set := a.objectOf(j)
	return a.shownForm(valuesOf(o), o, set, subject{Ref: j.App + "/" + j.Name, Rev: j.Rev})
}

// A subject is the job that a form edits (Ref) or copies (From), with its revision.
type subject struct {
	Ref, From string
	Rev       int64
}

// saveJob handles the form. While the user types or adds a schedule, it only shows a preview.
func (a *ask) saveJob() (string, core.Text, error) {
	a.page = "jobs"
	if a.Path("name") == "" && a.Q("view") == "manifest" {
		return a.saveManifest()
	}
	v, of, base, set := a.r.PostForm, subject{From: a.Form("copyof")}, object{}, ""
	of.Rev, _ = strconv.ParseInt(a.Form("rev"), 10, 64)
	from := of.From
	if a.Path("name") != "" {
		of.Ref, from = a.ref(), a.ref()
		v.Set("app", a.Path("app"))
		v.Set("name", a.Path("name"))
	}
	if from != "" { // fields that the form does not show stay
		app, name, _ := strings.Cut(from, "/")
		j := must.Get(a.GetJob(a.Ctx(), app, name))
		base, set = a.objectOf(j)
		if of.Ref == "" {
			set = ""
		}
	}
	set = cmp.Or(a.Form("set"), set)
	if a.Form("do") == "common" && a.Form("common") != "" { // add it as the last schedule
		n := 0
		for n+1 < maxRules && v.Has("kind."+strconv.Itoa(n+1)) {
			n++
		}
		kind, expr, _ := strings.Cut(a.Form("common"), " ")
		v.Set("kind."+strconv.Itoa(n), kind)
		v.Set("expr."+strconv.Itoa(n), expr)
	}
	o, own := objectFrom(v, base, a)
	f, spec := a.judged(v, o, set, of, own)
	f.Typed = true
	if do := a.Form("do"); do != "" && (do != "manifest" || spec != nil) || a.Partial() {
		switch n := len(f.Rules); {
		case do == "more" && n < maxRules && f.Rules[n-1].Kind != "":
			f.Rules = append(f.Rules, shownRule{N: n})
		case do == "template":
			f.template(a.Form("script.kind"))
		case do == "manifest":
			return a.shownAsManifest(spec, of.Rev)
		}
		return a.shown(http.StatusOK, "jobform", f)
	}
	if spec == nil {
		return a.shown(http.StatusBadRequest, "jobform", f)
	}
	if f.Made = a.Form("newapp") != ""; f.Made {
		none := int64(0)
		_, err := a.PutApp(a.Ctx(), spec.Def.App, client.AppSpec{Name: spec.Def.App, Executors: strings.Fields(a.Form("address")), IfRev: &none})
		if err != nil && !isConflict(err) {
			return a.refuseForm(f, err)
		}
	}
	res, err := a.put(spec, of.Rev)
	if err == nil {
		return a.JobPath(res.App + "/" + res.Name), changedTo(res), nil
	}
	if isConflict(err) && of.Ref != "" {
		now, gone := a.GetJob(a.Ctx(), a.Path("app"), a.Path("name"))
		if gone == nil && now.Rev != of.Rev {
			f.Clash = a.clash(&now, of.Rev, new(asJob(spec)))
			f.Rev = now.Rev
			return a.shown(http.StatusConflict, "jobform", f)
		}
	}
	return a.refuseForm(f, err)
}

// refuseForm shows the form with an error of the API.
func (a *ask) refuseForm(f *jobForm, err error) (string, core.Text, error) {
	if !rejected(err) {
		return "", core.Text{}, err
	}
	e, _ := errors.AsType[*client.Error](err)
	message := e.Message
	if e.Value != "" {
		message = fmt.Sprintf("%q: %s", e.Value, e.Message)
	}
	if e.Field == "app" && e.Status == http.StatusNotFound {
		f.NewApp = true
	}
	f.wrong(e.Field, message, "")
	return a.shown(e.Status, "jobform", f)
}

// shownForm returns the form of a job without errors for fields that are still empty.
func (a *ask) shownForm(v url.Values, o object, set string, of subject) *jobForm {
	a.still = true
	f, _ := a.judged(v, o, set, of, nil)
	if of.Ref == "" && of.From == "" { // the user has not typed anything yet
		f.quiet()
	}
	return f
}

// judged returns the form with its errors, and the spec if there are none.
func (a *ask) judged(v url.Values, o object, set string, of subject, own map[string]core.Text) (*jobForm, *manage.JobSpec) {
	f := a.filled(v, of)
	f.Apps = must.Get(a.appNames())
	if !a.Partial() { // the preview while the user types has no lists
		a.offer(f, v.Get("app"))
	}
	for name, why := range own {
		f.wrong(name, words.Say(a.Lang, why), "")
	}
	spec, err := readObject(o, set)
	if errs, ok := errors.AsType[manifest.Errors](err); ok {
		for _, e := range errs {
			f.wrong(strings.TrimPrefix(strings.TrimPrefix(e.Path, "jobs[0]"), "."), words.Say(a.Lang, e.Reason), caretOf(e.Reason))
		}
	} else if err != nil {
		must.Do(err)
	}
	a.previewOf(f, o)
	f.Command = commandOf(o, of.Ref)
	if f.Errors > 0 {
		return f, nil
	}
	f.Text = string(must.Get(manifest.Export(nil, []client.Job{asJob(&spec)})))
	return f, &spec
}

// maxOffered is the maximum number of jobs in the list of parents: the app's jobs come first. Users can type any
// other.
const maxOffered = 500

// offer lists the handlers of an app's jobs, and possible parents.
func (a *ask) offer(f *jobForm, app string) {
	handlers, jobs := map[string]bool{}, map[string]bool{}
	list := func(of string) {
		page, err := a.ListJobs(a.Ctx(), client.ListJobsParams{App: of, Limit: maxOffered})
		if err != nil {
			return // the form works without it
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if j.Handler != "" && (app == "" || j.App == app) {
				handlers[j.Handler] = true
			}
			if ref := j.App + "/" + j.Name; ref != f.Ref && len(jobs) < maxOffered {
				jobs[ref] = true
			}
		}
	}
	if app != "" {
		list(app)
	}
	if len(jobs) < maxOffered {
		list("")
	}
	f.Handlers, f.Jobs = slices.Sorted(maps.Keys(handlers)), slices.Sorted(maps.Keys(jobs))
}

// previewOf describes the schedule, even if other fields are wrong.
func (a *ask) previewOf(f *jobForm, o object) {
	if o["schedule"] == nil {
		return
	}
	spec, err := readObject(object{"app": "x", "name": "x", "handler": "x", "schedule": o["schedule"]}, "")
	if err != nil {
		return // its field shows the error
	}
	s := api.JobSpecOf(spec).Schedule
	q := client.PreviewRequest{Schedule: s, From: a.Now, Count: new(shownNext)}
	if app, name, edited := strings.Cut(f.Ref, "/"); edited && spreads(&s) {
		if j, err := a.GetJob(a.Ctx(), app, name); err == nil { // else the times are an example, as for a new job
			q.JobID = j.ID
		}
	}
	p, err := a.Preview(a.Ctx(), q)
	if e, _ := errors.AsType[*client.Error](err); rejected(err) {
		f.wrong("schedule", e.Message, "")
		return
	}
	must.Get(p, err)
	shown, loc, before := &shownPreview{Words: p.Description, Ends: p.Ends, Traps: p.Warnings}, locationOf(s.Timezone), a.Now
	for _, at := range p.Next {
		shown.Next = append(shown.Next, coming{At: at, Note: a.clockChange(before, at, loc)})
		before = at
	}
	if spreads(&s) && q.JobID == 0 {
		shown.Traps = append(shown.Traps, a.Say("Each job has its own offset within its period, so that jobs do not all fire at once. The "+
			"times here are an example. With the offset 0s, jobs with the same period fire together."))
	}
	f.Preview = shown
}

// spreads reports whether the times of a schedule depend on the number of its job.
func spreads(s *client.Schedule) bool {
	return slices.ContainsFunc(append([]client.Rule{{Every: s.Every, Offset: s.Offset}}, s.Any...), func(r client.Rule) bool {
		return r.Every != "" && r.Offset == nil
	})
}

// filled returns the form with the values of v.
func (a *ask) filled(v url.Values, of subject) *jobForm {
	f := &jobForm{Ref: of.Ref, From: of.From, Rev: of.Rev, What: v.Get("what"), Zone: v.Get("timezone"), Address: v.Get("address")}
	if f.What == "" {
		f.What = "handler"
	}
	show := func(d field) shownField {
		one := shownField{field: d, Value: typedOf(v, d)}
		chosen := []string{one.Value}
		if d.Kind == "marks" {
			chosen = strings.Fields(one.Value)
		}
		for _, value := range d.Options {
			one.Options = append(one.Options, option{value, a.ChoiceText(d.Name, value), slices.Contains(chosen, value)})
		}
		return one
	}
	for _, g := range formGroups {
		shown := shownGroup{group: g}
		for _, d := range g.Fields {
			one := show(d)
			if one.Value != "" && (d.Kind != "choice" || one.Value != d.Options[0]) {
				shown.Said = true
			}
			shown.Fields = append(shown.Fields, one)
		}
		f.Groups = append(f.Groups, shown)
	}
	for i := range maxRules {
		n := strconv.Itoa(i)
		if kind, expr := v.Get("kind."+n), v.Get("expr."+n); kind != "" || expr != "" {
			f.Rules = append(f.Rules, shownRule{N: len(f.Rules), Kind: kind, Expr: expr, Offset: v.Get("offset." + n)})
		}
	}
	if len(f.Rules) == 0 {
		f.Rules = []shownRule{{}}
	}
	for i := range core.MaxParents {
		n := strconv.Itoa(i)
		if job := v.Get("after." + n); job != "" {
			f.Parents = append(f.Parents, a.parent(len(f.Parents), job, v.Get("when."+n)))
		}
	}
	if n := len(f.Parents); n < core.MaxParents {
		f.Parents = append(f.Parents, a.parent(n, "", ""))
	}
	for _, d := range unshown {
		if v.Has(d.Name) {
			f.Unshown = append(f.Unshown, show(d))
		}
	}
	f.AsIs = v.Get("asis") != ""
	return f
}

func (a *ask) parent(n int, job, when string) shownParent {
	p := shownParent{N: n, Job: job}
	for _, u := range core.Upons {
		p.When = append(p.When, option{string(u), a.ChoiceText("after.when", string(u)), string(u) == when})
	}
	return p
}

// When returns the fields of the group "when": from, until and jitter, then after and within.
func (f *jobForm) When() []shownField {
	return f.Groups[slices.IndexFunc(f.Groups, func(g shownGroup) bool { return g.Name == whenGroup.Name })].Fields
}

// fields returns the fields of the form, each with its group.
func (f *jobForm) fields() iter.Seq2[*shownGroup, *shownField] {
	return func(yield func(*shownGroup, *shownField) bool) {
		for i := range f.Groups {
			for k := range f.Groups[i].Fields {
				if !yield(&f.Groups[i], &f.Groups[i].Fields[k]) {
					return
				}
			}
		}
	}
}

// template puts the template of a language into the script field.
func (f *jobForm) template(kind string) {
	for _, d := range f.fields() {
		if d.Name == "script.source" {
			d.Value, d.Error = templateOfKind(kind), ""
		}
	}
}

// Template returns the initial text of a script in a script language.
func (a *ask) Template(kind string) string { return templateOfKind(kind) }

// Common returns frequently used schedules, each with its kind, expression and description.
func (a *ask) Common() (list []option) {
	for _, one := range commonSchedules {
		kind, expr, _ := strings.Cut(one, " ")
		read := cron.ParseCrontab
		if kind == string(core.KindCron) {
			read = cron.ParseQuartz
		}
		if e, err := read(expr); err == nil {
			list = append(list, option{Value: one, Text: a.Say("%s – %s", words.Say(a.Lang, e.Describe()), expr)})
		}
	}
	return list
}

// typedOf returns the value of a field; for marks, the selected values, one a line.
func typedOf(v url.Values, d field) string {
	if d.Kind == "marks" {
		return strings.Join(v[d.Name], "\n")
	}
	return typedText(v.Get(d.Name))
}

// Choice returns the display name of a field's value.
func (a *ask) Choice(field, value string) string { return words.Choice(a.Lang, field, value) }

// ChoiceText returns the display name of a field's value, followed by the effect of the value.
func (a *ask) ChoiceText(field, value string) string {
	name, means := a.Choice(field, value), words.Means(a.Lang, field, value)
	if means == "" {
		return name
	}
	return a.Say("%s – %s", name, means)
}

// BadRule reports whether a schedule in the form has an error.
func (f *jobForm) BadRule() bool {
	return slices.ContainsFunc(f.Rules, func(r shownRule) bool { return r.Error != "" })
}

// Elsewhere reports whether a field outside the schedules has an error.
func (f *jobForm) Elsewhere() bool {
	wrong := 0
	for _, r := range f.Rules {
		if r.Error != "" {
			wrong++
		}
	}
	return f.Errors > wrong
}

// quiet removes the errors of a form without input.
func (f *jobForm) quiet() {
	for g, d := range f.fields() {
		g.Wrong, d.Error = false, ""
	}
	for i := range f.Rules {
		f.Rules[i].Error, f.Rules[i].Caret = "", ""
	}
	f.Errors, f.Problems = 0, nil
}

// wrong adds an error to its field, or to the form as a whole.
func (f *jobForm) wrong(path, why, caret string) {
	f.Errors++
	add := func(to *string) { *to = strings.TrimPrefix(*to+"; "+why, "; ") }
	if rest, is := strings.CutPrefix(path, "schedule"); is {
		n := 0
		if index, below, ok := strings.Cut(strings.TrimPrefix(rest, "["), "]"); ok && rest != "" && rest[0] == '[' {
			n, _ = strconv.Atoi(index)
			rest = below
		}
		name := strings.TrimPrefix(rest, ".")
		for i, d := range f.When() {
			if d.Name == name {
				add(&f.When()[i].Error)
				return
			}
		}
		if n >= len(f.Rules) || name == "timezone" {
			n = len(f.Rules) - 1
		}
		add(&f.Rules[n].Error)
		f.Rules[n].Caret = cmp.Or(caret, f.Rules[n].Caret)
		return
	}
	switch {
	case path == "after.within":
		path = "within"
	case strings.HasPrefix(path, "after.all"):
		path = "after"
	}
	of := func(d *shownField) bool {
		return path == d.Name || strings.HasPrefix(path, d.Name+".") || strings.HasPrefix(path, d.Name+"[")
	}
	// An error of a path without a field, such as call.auth.basic, goes to the first field below it.
	below := func(d *shownField) bool { return path != "" && strings.HasPrefix(d.Name, path+".") }
	for _, is := range []func(*shownField) bool{of, below} {
		for g, d := range f.fields() {
			if is(d) {
				add(&d.Error)
				g.Wrong = true
				return
			}
		}
	}
	f.Problems = append(f.Problems, strings.TrimPrefix(path+": "+why, ": "))
}

// caretOf returns a line that marks the wrong character of an expression, to be shown below the expression; empty if
// the reason names no character.
func caretOf(t core.Text) string {
	for _, arg := range t.Args() {
		if n, ok := arg.(int); ok && n >= 0 && n < 1000 && strings.Contains(t.Code(), "at offset %d") {
			return strings.Repeat(" ", n) + "^"
		}
		if below, ok := arg.(core.Text); ok {
			if caret := caretOf(below); caret != "" {
				return caret
			}
		}
	}
	return ""
}

// at returns the value at a path of a job.
func at(o object, path string) any {
	first, rest, more := strings.Cut(path, ".")
	if !more {
		return o[first]
	}
	below, _ := o[first].(object)
	return at(below, rest)
}

// onlyNamesOf removes the names from a list that are not in a table: a header that was removed or renamed is no
// longer hidden.
func onlyNamesOf(o object, list, table string) {
	names, _ := at(o, list).([]any)
	of, _ := at(o, table).(object)
	names = slices.DeleteFunc(slices.Clone(names), func(name any) bool {
		text, _ := name.(string)
		_, is := of[text]
		return !is
	})
	if setAt(o, list, nil); len(names) > 0 {
		setAt(o, list, names)
	}
}

// setAt sets the value at a path of a job; nil removes it.
func setAt(o object, path string, v any) {
	first, rest, more := strings.Cut(path, ".")
	switch below, _ := o[first].(object); {
	case !more && v == nil:
		delete(o, first)
	case !more:
		o[first] = v
	case below == nil && v == nil:
	default:
		if below == nil {
			below = object{}
			o[first] = below
		}
		if setAt(below, rest, v); len(below) == 0 {
			delete(o, first)
		}
	}
}

// valuesOf returns the form values of a job's manifest.
func valuesOf(o object) url.Values {
	v := url.Values{}
	for _, g := range groups {
		for _, d := range g.Fields {
			text := textOf(d.Kind, at(o, d.Name))
			switch {
			case text == "":
			case d.Kind == "marks":
				v[d.Name] = strings.Fields(text)
			default:
				v.Set(d.Name, text)
			}
		}
	}
	for _, d := range unshown {
		if text := textOf(d.Kind, at(o, d.Name)); text != "" {
			v.Set(d.Name, text)
		}
	}
	v.Set("what", "handler")
	for _, what := range []string{"command", "script"} {
		if o[what] != nil {
			v.Set("what", what)
		}
	}
	if o["script"] == nil { // hidden until the user selects a script
		v.Set("script.source", templateOfKind(string(core.ScriptShell)))
	}
	parents := o["after"]
	if join, is := parents.(object); is {
		parents = join["all"]
		v.Set("within", textOf("text", join["within"]))
	}
	list, _ := parents.([]any)
	for i, one := range list {
		if p, is := one.(object); is {
			v.Set("after."+strconv.Itoa(i), textOf("text", p["job"]))
			v.Set("when."+strconv.Itoa(i), textOf("text", p["when"]))
		}
	}
	rules, several := o["schedule"].([]any)
	if !several {
		rules = []any{o["schedule"]}
	}
	n := 0
	for _, r := range rules {
		rule, _ := r.(object)
		for _, name := range []string{"timezone", "from", "until", "jitter"} {
			if text := textOf("text", rule[name]); text != "" {
				v.Set(name, text)
			}
		}
		for _, kind := range core.Kinds {
			if text := textOf("text", rule[string(kind)]); text != "" {
				v.Set("kind."+strconv.Itoa(n), string(kind))
				v.Set("expr."+strconv.Itoa(n), text)
				v.Set("offset."+strconv.Itoa(n), textOf("text", rule["offset"]))
				n++
			}
		}
	}
	return v
}

// textOf formats a manifest value as input of a field.
func textOf(kind string, v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case time.Time:
		return v.Format(time.RFC3339)
	case object:
		list := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			list = append(list, key+"="+fmt.Sprint(v[key]))
		}
		return strings.Join(list, "\n")
	case []any:
		list := make([]string, len(v))
		for i, one := range v {
			list[i] = fmt.Sprint(one)
		}
		return strings.Join(list, "\n")
	case bool:
		if kind == "check" && v {
			return "on"
		}
	}
	return fmt.Sprint(v)
}

// objectFrom returns the job in the form. Values that the form does not show come from base. Unreadable values are
// returned as errors, by field.
func objectFrom(v url.Values, base object, a *ask) (object, map[string]core.Text) {
	o, wrong := maps.Clone(base), map[string]core.Text{}
	what := v.Get("what")
	for _, g := range groups {
		for _, d := range g.Fields {
			text := typedOf(v, d)
			if text == shownText(textOf(d.Kind, at(base, d.Name))) && (d.For == "" || d.For == what) {
				continue // unchanged: the stored value stays, byte for byte
			}
			if d.Kind != "area" {
				text = strings.TrimSpace(text)
			}
			if text == "" || d.For != "" && d.For != what || d.Kind == "choice" && len(d.Options) > 0 && text == d.Options[0] && d.For == "" {
				setAt(o, d.Name, nil)
				continue
			}
			value, why := valueOf(d.Kind, text)
			if why.Code() != "" {
				wrong[d.Name] = why
			}
			setAt(o, d.Name, value)
		}
	}
	for _, d := range unshown {
		switch text := v.Get(d.Name); {
		case d.Name == "set" || text == "": // not a field of the job; it stays
		case d.For != "" && d.For != what:
			setAt(o, d.Name, nil)
		case d.Name == "paused":
			o["paused"] = text == "true"
		default:
			value, _ := valueOf(d.Kind, text)
			setAt(o, d.Name, value)
		}
	}
	for _, of := range [][2]string{{"call.hidden", "call.headers"}, {"command.hidden", "command.env"}} {
		onlyNamesOf(o, of[0], of[1])
	}
	if what == "script" { // the language is selected before there is a source
		setAt(o, "script.kind", v.Get("script.kind"))
	}
	if at(o, "script.source") == nil {
		if delete(o, "script"); what == "script" {
			wrong["script.source"] = core.Say("required: the text of the script")
			o["handler"] = "x" // a valid placeholder
		}
	}
	if what != "command" {
		delete(o, "command")
	}
	if params := at(o, "params"); params != at(base, "params") && v.Get("asis") == "" {
		if why := nearJSON(fmt.Sprint(params), o["template"] == true); params != nil && why.Code() != "" {
			wrong["params"] = core.Say("these params look like JSON, but are not valid JSON: %s", why)
		}
	}
	afterFrom(v, o, wrong)
	if s := scheduleFrom(v, a); s != nil {
		o["schedule"] = s
	} else {
		delete(o, "schedule")
	}
	return o, wrong
}

// valueOf parses the input of a field as a manifest value.
func valueOf(kind, text string) (any, core.Text) {
	var list []any
	switch kind {
	case "number":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, core.Text{}
		}
	case "check":
		return true, core.Text{}
	case "marks", "lines", "numbers":
		for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ',' || r == ' ' }) {
			one, _ := any(line), 0
			if n, err := strconv.ParseInt(line, 10, 64); err == nil && kind == "numbers" {
				one = n
			}
			list = append(list, one)
		}
		return list, core.Text{}
	case "pairs":
		pairs, err := pairsOf("", text)
		if e, ok := errors.AsType[*core.Error](err); ok {
			return nil, core.Say("%q: %s", e.Value, e.Reason)
		}
		o := object{}
		for k, v := range pairs {
			o[k] = v
		}
		return o, core.Text{}
	}
	return text, core.Text{}
}

// afterFrom reads the parent jobs.
func afterFrom(v url.Values, o object, wrong map[string]core.Text) {
	var list []any
	for i := range core.MaxParents {
		n := strconv.Itoa(i)
		if job := strings.TrimSpace(v.Get("after." + n)); job != "" {
			p := object{"job": job}
			if when := v.Get("when." + n); when != "" && when != string(core.UponSuccess) {
				p["when"] = when
			}
			list = append(list, p)
		}
	}
	within := strings.TrimSpace(v.Get("within"))
	switch {
	case list == nil && within != "":
		wrong["within"] = core.Say("this time limit is for parent jobs, but the job has no parent jobs")
		delete(o, "after")
	case list == nil:
		delete(o, "after")
	case within != "":
		o["after"] = object{"all": list, "within": within}
	default:
		o["after"] = list
	}
}

// scheduleFrom reads the schedules.
func scheduleFrom(v url.Values, a *ask) any {
	shared := object{}
	for _, name := range []string{"timezone", "from", "until", "jitter"} {
		if text := strings.TrimSpace(v.Get(name)); text != "" {
			shared[name] = text
		}
	}
	var list []any
	for i := range maxRules {
		n := strconv.Itoa(i)
		kind, expr := v.Get("kind."+n), strings.TrimSpace(v.Get("expr."+n))
		if kind == "" && expr == "" || kind == "crontab" && expr == "" && v.Get("kind.1") == "" {
			continue
		}
		rule := object{kind: expr}
		if kind == string(core.KindAt) {
			if t, err := a.when("at", expr, locationOf(v.Get("timezone"))); err == nil && !t.IsZero() {
				rule[kind] = t.Truncate(time.Second).Format(time.RFC3339)
			}
		}
		if offset := strings.TrimSpace(v.Get("offset." + n)); offset != "" && kind == string(core.KindEvery) {
			rule["offset"] = offset
		}
		list = append(list, rule)
	}
	if len(list) == 0 {
		if len(shared) == 0 {
			return nil
		}
		return shared
	}
	maps.Copy(list[len(list)-1].(object), shared)
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// flags has the flag of `tickring create` for each field.
var flags = map[string]string{"title": "title", "author": "author", "handler": "handler", "params": "params", "timeout": "timeout",
	"misfire": "misfire", "grace": "grace", "deadline": "deadline", "route": "route", "block": "block", "retry.max": "retry",
	"retry.delay": "retry-delay", "retry.backoff": "backoff", "command.line": "command", "command.dir": "dir", "command.user": "user",
	"command.maxOutput": "max-output", "schedule.cron": "cron", "schedule.crontab": "crontab", "schedule.every": "every",
	"schedule.offset": "offset", "schedule.fixedDelay": "fixed-delay", "schedule.at": "at", "schedule.timezone": "timezone",
	"schedule.from": "from", "schedule.until": "until", "schedule.jitter": "jitter", "command.env": "env", "labels": "label"}

// commandOf returns the command with the effect of a form.
func commandOf(o object, ref string) string {
	if ref != "" {
		return "tickring edit " + ref
	}
	app, _ := o["app"].(string)
	name, _ := o["name"].(string)
	line, all := []string{"tickring create " + shellWord(app+"/"+name)}, true
	var walk func(o object, path string)
	walk = func(o object, path string) {
		for _, key := range slices.Sorted(maps.Keys(o)) {
			below := strings.TrimPrefix(path+"."+key, ".")
			v, flag := o[key], flags[below]
			in, is := v.(object)
			switch {
			case below == "app" || below == "name":
			case is && flag != "":
				for _, k := range slices.Sorted(maps.Keys(in)) {
					line = append(line, "--"+flag+" "+shellWord(k+"="+fmt.Sprint(in[k])))
				}
			case is:
				walk(in, below)
			case flag == "":
				all = false
			default:
				line = append(line, "--"+flag+" "+shellWord(fmt.Sprint(v)))
			}
		}
	}
	if walk(o, ""); !all {
		return "tickring apply -f job.yaml"
	}
	return strings.Join(line, " ")
}

// shellWord quotes a word for a shell if needed.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r > 0x7f || !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./=:,@%+", r))
	}) {
		return s
	}
	return quoted(s)
}

// quoted quotes a text as one word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// An object is a job in the format of a manifest.
type object = map[string]any

// objectOf returns the manifest of a job, and its set.
func (a *ask) objectOf(j client.Job) (object, string) {
	text := a.manifest(j)
	var doc struct {
		Set  string   `yaml:"set"`
		Jobs []object `yaml:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Jobs) != 1 {
		must.Do(fmt.Errorf("read the manifest of a job: %w", errors.Join(err, errors.New("one job is expected"))))
	}
	delete(doc.Jobs[0], "paused") // the form does not change the state
	return doc.Jobs[0], doc.Set
}

// readObject is read for a job from the form.
func readObject(o object, set string) (manage.JobSpec, error) {
	doc := object{"version": 1, "jobs": []object{o}}
	if set != "" {
		doc["set"] = set
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return manage.JobSpec{}, err
	}
	return read(string(text))
}
