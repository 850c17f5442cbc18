package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/manifest"
)

// changesPage is who changed what.
type changesPage struct {
	Changes []change
	Ref     string // of one job
	App     string
	NowRev  int64        // of the job; 0: it is gone
	Gone    bool         // it was deleted
	Back    []difference // from what it is to what it was before the open change
	Looked  int          // how many changes were looked at
	Whole   bool         // there are no older ones
	Oldest  time.Time
	After   string // the page behind this one
	Verbs   []string
	People  []string // who is found among them
	Apps    []string
	Open    *change // whose difference is shown as text
	Diff    []diffLine
}

// Command is the command line that shows the same.
func (p *changesPage) Command() string {
	return strings.TrimSpace("tickring changes " + cmp.Or(p.Ref, p.App))
}

// change is one change.
type change struct {
	client.Change
	Rev     int64 // of the job since; 0: it is no revision of a job
	Fields  []difference
	Restore bool     // the job before it is known
	Runs    []string // those that it made
	Jobs    []string // of an act on many: those that it concerns too
}

// difference is a field that differs.
type difference struct{ Path, Old, New string }

func differences(list []manifest.FieldChange) []difference {
	out := make([]difference, len(list))
	for i, d := range list {
		out[i] = difference{d.Path, d.Old, d.New}
	}
	return out
}

// changeOf is a change, with what it changed.
func (a *ask) changeOf(c *client.Change) change {
	out := change{Change: *c}
	if c.Job == "" && c.JobID == 0 {
		if c.Channel == "" && c.App != "" && c.Verb == core.VerbUpdated {
			out.Fields = differences(manifest.DiffApp(manifest.RecordedApp(c.Old), manifest.RecordedApp(c.New)))
		}
		return out
	}
	old, _ := manifest.Recorded(c.Old)
	now, rev := manifest.Recorded(c.New)
	out.Rev = rev
	out.Restore = old != nil && rev != 0 && (c.Verb == core.VerbUpdated || c.Verb == core.VerbDeleted)
	if old != nil && now != nil && c.Verb == core.VerbUpdated {
		out.Fields = differences(manifest.Diff(old, now))
	}
	var made struct {
		Run  string
		Runs []string
	}
	if rev == 0 && json.Unmarshal(c.New, &made) == nil {
		if out.Runs = made.Runs; made.Run != "" {
			out.Runs = append(out.Runs, made.Run)
		}
	}
	return out
}

// maxChanges is how many changes are looked at, the newest, for those that a filter finds.
const maxChanges = 1000

// shownChanges is how many of them a page has.
const shownChanges = 100

// changes lists changes by app, job, person, verb and time, the newest first.
func (a *ask) changes() (any, error) {
	p := &changesPage{Ref: a.Q("job"), App: a.Q("app"), Verbs: verbs}
	if a.Path("name") != "" {
		p.Ref = a.ref()
		a.page = "changes"
	}
	list, err := a.changesOf(p.Ref, p.App)
	if err != nil {
		return nil, err
	}
	if apps, err := a.ListApps(a.Ctx()); err == nil {
		for i := range apps.Apps {
			p.Apps = append(p.Apps, apps.Apps[i].Name)
		}
	}
	from, err := a.when("from", a.Q("from"), "")
	if err != nil {
		return nil, err
	}
	to, err := a.when("to", a.Q("to"), "")
	if err != nil {
		return nil, err
	}
	before, err := a.after()
	if err != nil {
		return nil, err
	}
	p.Looked, p.Whole = len(list), len(list) < maxChanges
	for i := range list {
		c := &list[i]
		p.Oldest = c.At
		if !slices.Contains(p.People, c.By) && len(p.People) < 200 {
			p.People = append(p.People, c.By)
		}
		if a.Q("by") != "" && c.By != a.Q("by") || a.Q("verb") != "" && c.Verb != a.Q("verb") ||
			!from.IsZero() && c.At.Before(from) || !to.IsZero() && c.At.After(to) || !before.IsZero() && !c.At.Before(before) {
			continue
		}
		if one, ok := together(p.Changes, c); ok {
			one.Jobs = append(one.Jobs, c.Job)
			continue
		}
		if n := len(p.Changes); n >= shownChanges && !c.At.Equal(p.Changes[n-1].At) { // those of one moment stay together
			p.After = p.Changes[n-1].At.UTC().Format(time.RFC3339Nano)
			break
		}
		p.Changes = append(p.Changes, a.changeOf(c))
	}
	slices.Sort(p.People)
	p.open(a.Q("diff"))
	if p.Open == nil || p.Ref == "" {
		return p, nil
	}
	app, name, _ := strings.Cut(p.Ref, "/")
	now, err := a.GetJob(a.Ctx(), app, name)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status == http.StatusNotFound {
		p.Gone = true
		return p, nil
	} else if err != nil {
		return nil, err
	}
	old, _ := manifest.Recorded(p.Open.Old)
	p.NowRev, p.Back = now.Rev, differences(manifest.Diff(&now, old))
	return p, nil
}

// after is the moment of the last change on the page before.
func (a *ask) after() (time.Time, error) {
	text := a.Q("after")
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, core.Invalid("after", core.Truncate(text), "it is no moment of this list: begin at its top")
	}
	return t, nil
}

// together is the change on the page that one more is of: an act on many jobs is one line.
func together(list []change, c *client.Change) (*change, bool) {
	if len(list) == 0 || c.Job == "" || c.Verb == core.VerbUpdated || c.Verb == core.VerbTriggered {
		return nil, false
	}
	last := &list[len(list)-1]
	if last.Job == "" || last.By != c.By || last.Verb != c.Verb || last.Reason != c.Reason || last.At.Sub(c.At).Abs() > 2*time.Second ||
		last.Job == c.Job || c.Reason == "" && c.Verb != core.VerbCreated {
		return nil, false
	}
	return last, true
}

// changesOf are the changes of a job (also of one that is deleted), of an app, or of all.
func (a *ask) changesOf(job, app string) ([]client.Change, error) {
	if job != "" {
		list, err := a.ListChanges(a.Ctx(), client.ListChangesParams{Job: job, Limit: maxChanges})
		e, ok := errors.AsType[*client.Error](err)
		of, _, named := strings.Cut(job, "/")
		if !ok || e.Status != http.StatusNotFound || !named {
			return list.Changes, err
		}
		// A job that was deleted has no name any more, but the changes of its app have it.
		all, other := a.ListChanges(a.Ctx(), client.ListChangesParams{App: of, Limit: maxChanges})
		if other != nil {
			return nil, err
		}
		found := slices.DeleteFunc(all.Changes, func(c client.Change) bool { return c.Job != job })
		if len(found) == 0 {
			return nil, err
		}
		return found, nil
	}
	list, err := a.ListChanges(a.Ctx(), client.ListChangesParams{App: app, Limit: maxChanges})
	return list.Changes, err
}

var verbs = []string{core.VerbCreated, core.VerbUpdated, core.VerbPaused, core.VerbResumed, core.VerbDeleted, core.VerbTriggered,
	core.VerbChanged, core.VerbCancelled, core.VerbKilled, core.VerbFenced, core.VerbRestored, core.VerbTested}

// Verb is what was done, in words.
func (a *ask) Verb(verb string) string {
	switch verb {
	case core.VerbCreated:
		return a.Say("made")
	case core.VerbUpdated:
		return a.Say("changed")
	case core.VerbPaused:
		return a.Say("paused")
	case core.VerbResumed:
		return a.Say("resumed")
	case core.VerbDeleted:
		return a.Say("deleted")
	case core.VerbTriggered:
		return a.Say("ran by hand")
	case core.VerbChanged:
		return a.Say("changed a run that waits")
	case core.VerbCancelled:
		return a.Say("cancelled a run")
	case core.VerbKilled:
		return a.Say("killed runs")
	case core.VerbFenced:
		return a.Say("fenced")
	case core.VerbRestored:
		return a.Say("restored")
	case core.VerbTested:
		return a.Say("tested")
	}
	return verb
}

// Origin is where a change came from and by what, empty where neither was written down.
func (a *ask) Origin(from, via string) string {
	token, byToken := core.TokenOf(via)
	switch from = cmp.Or(from, "-"); {
	case byToken:
		return a.Say("from %s, by the token %s", from, token)
	case via == core.BySession:
		return a.Say("from %s, logged in", from)
	case from == "-":
		return ""
	}
	return a.Say("from %s", from)
}

// Subject is what a change concerns, with a link where it has a page.
func (a *ask) Subject(c change) template.HTML {
	switch {
	case c.Job != "" && len(c.Jobs) > 0:
		return html(`%s %s`, a.JobLink(c.Job), a.Say("and %d more jobs", len(c.Jobs)))
	case c.Job != "":
		return a.JobLink(c.Job)
	case c.JobID != 0:
		return html("%s", a.Say("job %d", c.JobID))
	case c.Channel != "":
		return html("%s", a.Say("channel %s", c.Channel))
	case c.Person != "":
		return html("%s", a.Say("person %s", c.Person))
	case c.App != "":
		return html("%s", a.Say("app %s", c.App))
	}
	return html("%s", a.Say("everything"))
}

// FieldText says how a field changed.
func (a *ask) FieldText(d difference) string {
	old, now := clip(d.Old, 100), clip(d.New, 100)
	switch {
	case d.Old == "":
		return a.Say("%s set to %s", d.Path, now)
	case d.New == "":
		return a.Say("%s taken out, was %s", d.Path, old)
	}
	return a.Say("%s: %s became %s", d.Path, old, now)
}

// open shows a change as text: the job before it and after it.
func (p *changesPage) open(rev string) {
	for i := range p.Changes {
		c := &p.Changes[i]
		if rev == "" || !c.Restore || itoa(c.Rev) != rev {
			continue
		}
		p.Open = c
		p.Diff = diffOf(recordText(c.Old), recordText(c.New))
	}
}

// recordText is the manifest of the job that a record holds; of a script it has the hash.
func recordText(record json.RawMessage) string {
	j, _ := manifest.Recorded(record)
	if j == nil {
		return ""
	}
	if j.Script.Kind != "" && j.Script.Source == "" {
		j.Script.Source = "sha256 " + j.Script.Hash
	}
	text, err := manifest.Export(nil, []api.Job{*j})
	if err != nil {
		return ""
	}
	return string(text)
}

// restoreJob makes a job as it was before a change.
func (a *ask) restoreJob() (string, core.Text, error) {
	list, err := a.changesOf(a.ref(), "")
	if err != nil {
		return "", core.Text{}, err
	}
	for i := range list {
		c := a.changeOf(&list[i])
		if !c.Restore || itoa(c.Rev) != a.Form("change") {
			continue
		}
		old, _ := manifest.Recorded(c.Old)
		spec, err := sameSpec(old)
		if err != nil {
			return "", core.Text{}, err
		}
		now, err := a.GetJob(a.Ctx(), a.Path("app"), a.Path("name"))
		rev := now.Rev
		if e, ok := errors.AsType[*client.Error](err); err != nil && (!ok || e.Status != http.StatusNotFound) {
			return "", core.Text{}, err
		}
		spec.App, spec.Name, spec.IfRev = a.Path("app"), a.Path("name"), &rev
		if seen := a.Form("rev"); seen != "" && seen != itoa(rev) {
			return "", core.Text{}, core.Errorf(core.CodeConflict, "%s was changed meanwhile: look at its changes again", a.ref())
		}
		if _, err := a.PutJob(a.Ctx(), spec.App, spec.Name, spec); err != nil {
			return "", core.Text{}, err
		}
		return jobPath(a.ref()), core.Say("%s is as it was before that change", a.ref()), nil
	}
	return "", core.Text{}, core.Errorf(core.CodeNotFound, "%s has no such change that can be taken back", a.ref())
}
