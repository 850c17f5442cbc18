package console

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/manifest"
	"github.com/tickring/tickring/words"
)

type changesPage struct {
	Filter  client.ListChangesParams
	Changes []change
	NowRev  int64                  // current revision of the job; 0: the job is deleted
	Gone    bool                   // whether the job was deleted
	Back    []manifest.FieldChange // difference from the current job to the job before the open change
	Looked  time.Time              // time down to which the changes were searched, if the search ended before the page was full
	Next    string                 // URL of the next page
	Verbs   []string
	People  []string // authors of the changes on the page
	Apps    []string
	Open    *change // the change that is shown as a text difference
	Diff    []diffLine
}

func (p *changesPage) Ref() string { return p.Filter.Job }

type change struct {
	client.Change
	manifest.ChangeRecord
	Restore bool     // whether the job before the change is known
	Jobs    []string // further jobs of a bulk operation
}

func changeOf(c *client.Change) change {
	out := change{Change: *c, ChangeRecord: manifest.ReadChange(c)}
	out.Restore = out.Before != nil && out.Rev != 0 && (c.Verb == core.VerbUpdated || c.Verb == core.VerbDeleted)
	return out
}

const (
	changesShown = 100 // lines of a page, approximately
	// changesAsked is the maximum number of requests for one page. A page can need several, because a bulk operation
	// is one line.
	changesAsked = 10
)

func (a *ask) auditLog() (any, error) {
	p := &changesPage{Verbs: core.Verbs}
	s := a.spanOf()
	p.Filter = client.ListChangesParams{Job: strings.TrimSpace(a.Q("job")), App: a.Q("app"), By: strings.TrimSpace(a.Q("by")),
		Verb: a.Q("verb"), Operation: a.Q("operation"), Channel: a.Q("channel"), User: a.Q("user"), From: s.From, To: s.To,
		After: a.Q("after")}
	if a.Path("name") != "" {
		p.Filter.Job = a.ref()
		a.page = "audit-log"
	}
	p.Apps, _ = a.appNames() // the page works without it
	a.findChanges(p)
	if rev := a.Q("diff"); rev != "" {
		if p.open(rev); p.Open == nil && p.Filter.Job != "" { // it is on a later page: start the page with it
			p.Filter.To, p.Filter.After = madeBy(rev), ""
			a.findChanges(p)
			p.open(rev)
		}
	}
	if p.Open == nil || p.Filter.Job == "" {
		return p, nil
	}
	app, name, _ := strings.Cut(p.Filter.Job, "/")
	now, err := a.GetJob(a.Ctx(), app, name)
	if status(err) == http.StatusNotFound {
		p.Gone = true
		return p, nil
	}
	must.Get(now, err)
	p.NowRev, p.Back = now.Rev, manifest.Diff(&now, p.Open.Before)
	return p, nil
}

func (a *ask) findChanges(p *changesPage) {
	f := p.Filter
	f.Limit = changesShown
	p.Changes, p.People, p.Next, p.Looked = nil, nil, "", time.Time{}
	for range changesAsked {
		list := must.Get(a.ListChanges(a.Ctx(), f))
		for i := range list.Changes {
			c := &list.Changes[i]
			if !slices.Contains(p.People, c.By) {
				p.People = append(p.People, c.By)
			}
			if one, ok := together(p.Changes, c); ok {
				one.Jobs = append(one.Jobs, c.Job)
				continue
			}
			p.Changes = append(p.Changes, changeOf(c))
		}
		f.After, p.Next, p.Looked = list.Next, "", list.ScannedTo
		if list.Next != "" {
			p.Next = a.With("after", list.Next, "diff", "", "panel", "")
		}
		if list.Next == "" || !list.ScannedTo.IsZero() || len(p.Changes) >= changesShown/2 {
			break
		}
	}
	slices.Sort(p.People)
}

// madeBy returns a time just after a revision was made, computed from its number.
func madeBy(rev string) time.Time {
	n, err := strconv.ParseInt(rev, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return core.FromMillis(n + 1)
}

// together returns the last change of the list if c is a part of it: a bulk operation is one line.
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

var verbTexts = map[string]core.Text{
	core.VerbCreated:   core.Say("created"),
	core.VerbUpdated:   core.Say("changed"),
	core.VerbPaused:    core.Say("paused"),
	core.VerbResumed:   core.Say("resumed"),
	core.VerbDeleted:   core.Say("deleted"),
	core.VerbTriggered: core.Say("triggered by hand"),
	core.VerbChanged:   core.Say("changed a waiting run"),
	core.VerbCancelled: core.Say("cancelled a run"),
	core.VerbKilled:    core.Say("killed runs"),
	core.VerbFenced:    core.Say("fenced"),
	core.VerbRestored:  core.Say("restored"),
	core.VerbTested:    core.Say("tested"),
	core.VerbCleaned:   core.Say("cleaned up runs"),
	core.VerbRemoved:   core.Say("removed an executor"),
	core.VerbRotated:   core.Say("replaced the secret key"),
	core.VerbActed:     core.Say("started a bulk operation"),
}

func (a *ask) Verb(verb string) string {
	if text, is := verbTexts[verb]; is {
		return words.Say(a.Lang, text)
	}
	return verb
}

// Origin describes the address and the client that a change came from. The result is empty if neither was recorded.
func (a *ask) Origin(from, via string) string {
	token, byToken := core.TokenOf(via)
	switch from = cmp.Or(from, "-"); {
	case byToken:
		return a.Say("from %s, with token %s", from, token)
	case via == core.BySession:
		return a.Say("from %s, logged in", from)
	case from == "-":
		return ""
	}
	return a.Say("from %s", from)
}

// open shows a change as a text difference of the job.
func (p *changesPage) open(rev string) {
	for i := range p.Changes {
		c := &p.Changes[i]
		if rev == "" || !c.Restore || itoa(c.Rev) != rev {
			continue
		}
		p.Open = c
		p.Diff = diffOf(jobText(c.Before), jobText(c.After))
	}
}

// jobText returns the manifest of a job; a script is shown as its hash.
func jobText(j *client.Job) string {
	if j == nil {
		return ""
	}
	if j.Script.Kind != "" && j.Script.Source == "" {
		j.Script.Source = "sha256 " + j.Script.Hash
	}
	text, err := manifest.Export(nil, []client.Job{*j})
	if err != nil {
		return ""
	}
	return string(text)
}

// restoreJob restores a job to its state before a change.
func (a *ask) restoreJob() (string, core.Text, error) {
	rev := a.Form("change")
	f := client.ListChangesParams{Job: a.ref(), To: madeBy(rev), Limit: changesShown}
	list := must.Get(a.ListChanges(a.Ctx(), f))
	for i := range list.Changes {
		c := changeOf(&list.Changes[i])
		if !c.Restore || itoa(c.Rev) != rev {
			continue
		}
		spec := sameSpec(c.Before)
		now, err := a.GetJob(a.Ctx(), a.Path("app"), a.Path("name"))
		rev := now.Rev
		if err != nil && status(err) != http.StatusNotFound {
			return "", core.Text{}, err
		}
		spec.App, spec.Name, spec.IfRev = a.Path("app"), a.Path("name"), &rev
		if seen := a.Form("rev"); seen != "" && seen != itoa(rev) {
			return "", core.Text{}, core.Errorf(core.CodeConflict, "%s was changed after you opened this page: review its changes again", a.ref())
		}
		must.Get(a.PutJob(a.Ctx(), spec.App, spec.Name, spec))
		return a.JobPath(a.ref()), core.Say("%s is restored to its state before that change", a.ref()), nil
	}
	return "", core.Text{}, core.Errorf(core.CodeNotFound, "%s: the change was not found or cannot be restored", a.ref())
}
