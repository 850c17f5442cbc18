package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
)

// cleanPage removes runs of a job or app, part by part, after it has counted them.
type cleanPage struct {
	Asked   client.CleanRequest
	Older   string // minimum age of the runs: a number of days, or a time with its time zone
	Counted *client.CleanResult
	More    bool       // whether some runs were not counted
	Form    url.Values // form that starts or continues the removal
	Begun   bool
	Done    int64
	Held    int64
	Back    string
}

// countWithin is the time limit of a count.
const countWithin = 10 * time.Second

func (a *ask) clean() (any, error) {
	p := &cleanPage{Older: a.Q("older"), Back: Root + "runs"}
	if a.r.URL.RawQuery == "" { // the form is still empty
		return p, nil
	}
	return a.orWrong("clean", p, func() {
		a.cleanAsked(p, a.r.URL.Query())
		if p.Older != a.Q("older") || a.Q("zone") != "" { // so that the link means the same for all users
			http.Redirect(a.w, a.r, a.With("older", p.Older, "zone", ""), http.StatusSeeOther)
			must.Do(errShown)
		}
		if p.Older != "" || p.Asked.Keep > 0 {
			a.countClean(p)
		}
	})
}

func (a *ask) cleanAsked(p *cleanPage, q url.Values) {
	p.Asked = client.CleanRequest{Job: strings.TrimSpace(q.Get("job")), App: q.Get("app"), State: given(q, "state")}
	if p.Asked.Job != "" {
		p.Asked.App = ""
	}
	p.Back = addressOf(Root+"runs", url.Values{"job": {p.Asked.Job}, "app": {p.Asked.App}}, []string{"job", "app"})
	if p.Asked.Job == "" && p.Asked.App == "" {
		must.Do(core.Errorf(core.CodeInvalid, "required: a job or an app"))
	}
	p.Asked.Keep = atLeast(q, "keep", 0)
	older := q.Get("older")
	if older == "" {
		return
	}
	if age, err := api.ParseDuration(older); err == nil {
		p.Asked.Before = a.Now.Add(-age).Truncate(time.Second)
		return
	}
	at, bare, err := momentOf("older", older, a.typedIn(q))
	if err != nil {
		must.Do(core.Invalid("older", older, "must be a number of days such as 90d, or a time such as 2026-11-20"))
	}
	if p.Asked.Before = at; bare {
		p.Older = at.Format(time.RFC3339)
	}
}

func (a *ask) countClean(p *cleanPage) {
	body, sum := p.Asked, client.CleanResult{}
	body.DryRun = true
	for end := time.Now().Add(countWithin); ; {
		page := must.Get(a.Clean(a.Ctx(), body))
		sum.Cleaned, sum.Held = sum.Cleaned+page.Cleaned, sum.Held+page.Held
		if body.After = page.Next; body.After == "" || page.Failed != "" {
			break
		}
		if p.More = time.Now().After(end); p.More {
			break
		}
	}
	p.Counted = &sum
	p.Form = url.Values{"job": {p.Asked.Job}, "app": {p.Asked.App}, "state": p.Asked.State, "older": {rfc(p.Asked.Before)}}
	if p.Asked.Before.IsZero() {
		p.Form.Del("older")
	}
	if p.Asked.Keep > 0 {
		p.Form.Set("keep", strconv.Itoa(p.Asked.Keep))
	}
}

func (a *ask) cleanRuns() (string, core.Text, error) {
	q := a.r.PostForm
	p := &cleanPage{Older: q.Get("older"), Begun: true}
	a.cleanAsked(p, q)
	if p.Older == "" && p.Asked.Keep == 0 {
		return "", core.Text{}, core.Errorf(core.CodeInvalid, "required: the age of the runs to delete, or the number of runs to keep")
	}
	p.Done, _ = strconv.ParseInt(q.Get("done"), 10, 64) // only shown, so they need not be valid
	p.Held, _ = strconv.ParseInt(q.Get("held"), 10, 64)
	p.Asked.After = q.Get("next")
	res, err := a.Clean(a.Ctx(), p.Asked)
	if err != nil {
		a.reject(err)
		p.Form = q
		return a.again(err, "clean", p)
	}
	p.Done, p.Held, a.wrong = p.Done+res.Cleaned, p.Held+res.Held, res.Failed
	if res.Next == "" && res.Failed == "" {
		return p.Back, core.Say("runs deleted: %d, kept: %d", p.Done, p.Held), nil
	}
	p.Form = q
	q.Set("next", res.Next)
	q.Set("done", strconv.FormatInt(p.Done, 10))
	q.Set("held", strconv.FormatInt(p.Held, 10))
	return a.shown(http.StatusOK, "clean", p)
}
