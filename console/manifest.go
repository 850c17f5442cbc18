package console

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/manifest"
	"github.com/tickring/tickring/words"
)

// A job as text: the form and the manifest are two views of the same job. Package manifest parses the input of both,
// as `tickring apply` parses a file.

// manifest returns a job in the format of `tickring get -o yaml`.
func (a *ask) manifest(j client.Job) string {
	if j.Script.Kind != "" && j.Script.Source == "" {
		s, err := a.GetScript(a.Ctx(), j.App, j.Name, strconv.Itoa(j.Script.Version))
		if status(err) == http.StatusNotFound {
			must.Do(core.Errorf(core.CodeNotFound, "version %d of the script of %s is not stored: set another script for the job",
				j.Script.Version, j.App+"/"+j.Name))
		}
		j.Script.Source = must.Get(s, err).Source
	}
	return string(must.Get(manifest.Export(nil, []client.Job{j})))
}

// read parses a manifest with one job. Its errors are manifest.Errors.
func read(text string) (manage.JobSpec, error) {
	doc, err := manifest.Parse("", []byte(text), manifest.Options{Small: true})
	switch {
	case err != nil:
		return manage.JobSpec{}, err
	case len(doc.Jobs) != 1 || len(doc.Apps) != 0 || len(doc.Channels) != 0 || doc.Notify != nil:
		return manage.JobSpec{}, manifest.Errors{{Reason: core.Say("only one job can be edited on this page")}}
	}
	return api.ManageJob(doc.Jobs[0])
}

// asJob returns the job that a spec creates.
func asJob(spec *manage.JobSpec) client.Job {
	wanted := api.Wanted(spec, nil)
	j := api.JobOf(&wanted)
	j.Script.Source = spec.Source
	return j
}

// written is asJob with the secrets in the input, which a change to the other view needs.
func written(spec *manage.JobSpec) client.Job {
	j, typed := asJob(spec), api.JobSpecOf(*spec)
	j.Call, j.Command = typed.Call, typed.Command
	return j
}

func (a *ask) lines(errs manifest.Errors) (list []string) {
	for _, e := range errs {
		reason := words.Say(a.Lang, e.Reason)
		if e.Path != "" {
			reason = e.Path + ": " + reason
		}
		if e.Line > 0 {
			reason = a.Say("line %d, column %d: %s", e.Line, e.Column, reason)
		}
		list = append(list, reason)
	}
	return list
}

// put stores a job if its revision is still rev; 0 means that there is none. A form that is sent twice succeeds
// twice, unless it has a secret: the answer must not reveal whether the secret is the stored one.
func (a *ask) put(spec *manage.JobSpec, rev int64) (client.JobResult, error) {
	body := api.JobSpecOf(*spec)
	body.IfRev = &rev
	res, err := a.PutJob(a.Ctx(), body.App, body.Name, body)
	if !isConflict(err) {
		return res, err
	}
	now, other := a.GetJob(a.Ctx(), body.App, body.Name)
	if other != nil {
		return res, err
	}
	want := written(spec)
	if len(manifest.Diff(&now, &want)) == 0 {
		return client.JobResult{App: now.App, Name: now.Name, ID: now.ID, Rev: now.Rev, Change: manage.Unchanged}, nil
	}
	return res, err
}

// isConflict reports whether another user has changed the object first.
func isConflict(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Code == string(core.CodeConflict)
}

// changedTo returns the message after a job was saved.
func changedTo(res client.JobResult) core.Text {
	switch res.Change {
	case manage.Created:
		return core.Say("%s is created", res.App+"/"+res.Name)
	case manage.Unchanged:
		return core.Say("%s is unchanged: it already matches your input", res.App+"/"+res.Name)
	}
	return core.Say("%s was changed", res.App+"/"+res.Name)
}

const exampleJob = `version: 1

jobs:
  - app: web
    name: ping
    title: Is the shop there?
    handler: ping
    schedule: {crontab: "*/5 8-18 * * 1-5", timezone: Europe/Berlin}
    retry: {max: 2, delay: 30s}
    timeout: 5m
`

func (a *ask) saveManifest() (string, core.Text, error) {
	text := typedText(a.Form("text"))
	rev, _ := strconv.ParseInt(a.Form("rev"), 10, 64)
	spec, err := read(text)
	ref := spec.Def.App + "/" + spec.Def.Name
	if errs, ok := errors.AsType[manifest.Errors](err); ok {
		return a.shownManifest(text, rev, a.lines(errs), http.StatusBadRequest)
	} else if err != nil {
		return "", core.Text{}, err
	}
	if a.Path("name") != "" && ref != a.ref() {
		why := a.Say("the app and the name of a job cannot be changed: this job is %s; to create another job, copy this job", a.ref())
		return a.shownManifest(text, rev, []string{why}, http.StatusBadRequest)
	}
	if a.Form("do") == "form" {
		return a.shownAsForm(&spec, rev)
	}
	res, err := a.put(&spec, rev)
	if err == nil {
		return a.JobPath(ref), changedTo(res), nil
	}
	p := a.problemOf(err)
	if p.Status != http.StatusConflict || a.Path("name") == "" {
		return a.shownManifest(text, rev, []string{p.Message}, p.Status)
	}
	page := a.manifestPage(text)
	page.Problems = []string{p.Message}
	page.Clash = a.clash(&page.Job, rev, new(asJob(&spec)))
	return a.shown(p.Status, "job", page)
}

// manifestPage returns the page of the job in the path with unsaved text.
func (a *ask) manifestPage(text string) *jobPage {
	page := a.jobPage(must.Get(a.GetJob(a.Ctx(), a.Path("app"), a.Path("name"))))
	a.still = true
	page.View, page.Text, page.Typed = "manifest", text, true
	return page
}

// shownManifest shows unsaved text of a new job, or of a job as of a revision. The revision stays, so that a later
// save still detects changes by other users.
func (a *ask) shownManifest(text string, rev int64, problems []string, status int) (string, core.Text, error) {
	a.page = "jobs"
	name, page := "jobtext", &jobPage{Text: text, Typed: true}
	if a.Path("name") != "" {
		page = a.manifestPage(text)
		name, page.Rev = "job", rev
	}
	page.Problems = problems
	return a.shown(status, name, page)
}

func (a *ask) shownAsManifest(spec *manage.JobSpec, rev int64) (string, core.Text, error) {
	text := a.manifest(written(spec))
	if spec.Paused != nil && !*spec.Paused { // a manifest of a stored job omits it
		text += "    paused: false\n"
	}
	return a.shownManifest(text, rev, nil, http.StatusOK)
}

// shownAsForm shows a manifest in the form.
func (a *ask) shownAsForm(spec *manage.JobSpec, rev int64) (string, core.Text, error) {
	a.page = "jobs"
	o, set := a.objectOf(written(spec))
	if spec.Paused != nil {
		o["paused"] = *spec.Paused
	}
	v := valuesOf(o)
	v.Set("set", set)
	of := subject{Rev: rev}
	if a.Path("name") != "" {
		of.Ref = a.ref()
	}
	f, _ := a.judged(v, o, set, of, nil)
	f.Typed = true
	return a.shown(http.StatusOK, "jobform", f)
}

// A clash describes the changes by others since a form was shown.
type clash struct {
	Changes []change
	Differs []manifest.FieldChange // differences between the stored job and the input
}

// clash returns the changes of a job after a revision, and the differences from the stored job to the input.
func (a *ask) clash(now *client.Job, since int64, typed *client.Job) *clash {
	list := must.Get(a.ListChanges(a.Ctx(), client.ListChangesParams{Job: now.App + "/" + now.Name, Limit: 50}))
	c := &clash{Differs: manifest.Diff(now, typed)}
	for i := range list.Changes {
		one := changeOf(&list.Changes[i])
		if one.Rev > since {
			c.Changes = append(c.Changes, one)
		}
	}
	return c
}
