package console

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bulk"
	"github.com/tickring/tickring/internal/must"
)

// bulkPanel is the form of a bulk operation on the selected jobs, or on all jobs that match the filters of the list.
type bulkPanel struct {
	Verb   string
	Picked []string
	Found  int
	Sample []string
	Filter *client.BulkFilter
	Held   [][2]string
	Back   string // URL of the list; empty: this page
	Some   bool   // whether the number of found jobs covers only apps in which the user has the permission
	Act    string // ID of the bulk operation: if the form is sent twice, the operation runs once
}

var bulkVerbs = []string{"pause", "resume", "trigger", "kill", "label", "delete"}

// filterFields are the fields of the list that select jobs.
var filterFields = []string{"app", "text", "label", "status"}

// shownFields are the fields that set how the list is shown.
var shownFields = []string{"sort", "reverse", "cols", "rows"}

// bulkPanel counts the jobs that match the filters; nil if the page has no such panel.
func (a *ask) bulkPanel(verb string, picked []string, q url.Values) *bulkPanel {
	if !slices.Contains(bulkVerbs, verb) {
		return nil
	}
	p := &bulkPanel{Verb: verb, Picked: picked, Filter: bulkFilter(q), Held: held(q, shownFields), Act: "console-" + rand.Text()[:16]}
	res := must.Get(a.Bulk(a.Ctx(), client.BulkRequest{Verb: verb, Filter: p.Filter, DryRun: true}))
	p.Found, p.Sample = res.Found, res.Sample
	p.Some = q.Get("app") == "" && a.who.May(bulk.Verb(verb).Deed(), "") != nil
	return p
}

func bulkFilter(q url.Values) *client.BulkFilter {
	return &client.BulkFilter{App: q.Get("app"), Text: strings.TrimSpace(q.Get("text")), Label: given(q, "label"), Status: given(q, "status")}
}

type bulkPage struct {
	Verb   string
	Form   url.Values // form that continues with the next part; nil: the operation is done
	Found  int
	Done   int
	Same   int
	Fail   int
	Failed []client.BulkFailure // the first jobs that could not be changed
	Halted bool                 // whether the user stopped the operation
	Undo   string               // name of the operation; empty: the operation cannot be undone
	Held   [][2]string          // form fields of the list where the operation started
	Back   string
}

func (a *ask) bulk() (string, core.Text, error) {
	q := a.r.PostForm
	req := client.BulkRequest{Verb: q.Get("verb"), Reason: strings.TrimSpace(q.Get("reason")), Operation: q.Get("operation"),
		Undo: q.Get("undo"), Cause: string(core.CauseManual)}
	switch {
	case req.Undo != "":
	case q.Get("which") == "all":
		req.Filter = bulkFilter(q)
	default:
		req.Jobs = q["pick"]
	}
	p := bulkPage{Verb: req.Verb, Held: held(q, slices.Concat(filterFields, shownFields)), Back: listOf(q), Failed: failuresOf(q)}
	for name, n := range map[string]*int{"done": &p.Done, "same": &p.Same, "fail": &p.Fail, "found": &p.Found} {
		*n, _ = strconv.Atoi(q.Get(name)) // only shown, so it need not be valid
	}
	next, _ := strconv.ParseInt(q.Get("next"), 10, 32)
	req.After = int32(next)
	if req.Verb == "pause" && req.After != 0 {
		p.Undo = req.Operation
	}
	if q.Get("stop") != "" {
		p.Halted, a.page = true, "jobs"
		return a.shown(http.StatusOK, "bulk", p)
	}
	var res client.BulkResult
	err := must.Caught(func() (err error) {
		a.bulkForm(&req)
		res, err = a.Bulk(a.Ctx(), req)
		return err
	})
	switch {
	case err != nil && req.After == 0 && req.Undo == "": // nothing is done yet: show the input again
		return a.bulkAgain(err, req.Verb)
	case err != nil:
		a.reject(err)
		p.Form = q
		return a.again(err, "bulk", p)
	}
	p.Found = max(p.Found, res.Found)
	p.Done, p.Same, p.Fail = p.Done+res.Done, p.Same+res.Same, p.Fail+res.Fail
	p.Failed = append(p.Failed, res.Failed...)
	p.Failed = p.Failed[:min(len(p.Failed), failuresKept)]
	if req.Verb == "pause" {
		p.Undo = res.Operation
	}
	if res.Next != 0 {
		p.Form = q
		q.Set("operation", res.Operation)
		if !req.Until.IsZero() { // the same end for all parts
			q.Set("until", req.Until.Format(time.RFC3339Nano))
		}
		q.Del("failed")
		for _, f := range p.Failed {
			q.Add("failed", f.Job+" "+core.Truncate(f.Message))
		}
		for name, n := range map[string]int{"next": int(res.Next), "done": p.Done, "same": p.Same, "fail": p.Fail, "found": p.Found} {
			q.Set(name, strconv.Itoa(n))
		}
	}
	a.page = "jobs"
	return a.shown(http.StatusOK, "bulk", p)
}

// failuresKept is the number of failures of an operation that are named, over all its parts; further ones are only
// counted.
const failuresKept = 100

// failuresOf returns the failures of earlier parts, which the form carries.
func failuresOf(q url.Values) (list []client.BulkFailure) {
	for _, one := range q["failed"][:min(len(q["failed"]), failuresKept)] {
		job, message, _ := strings.Cut(one, " ")
		list = append(list, client.BulkFailure{Job: job, Message: message})
	}
	return list
}

// bulkForm reads the fields that depend on the verb.
func (a *ask) bulkForm(req *client.BulkRequest) {
	switch req.Verb {
	case "pause":
		if req.Reason == "" {
			must.Do(core.Invalid("reason", "", "required: the reason is shown to users who see the paused job"))
		}
		req.Until = must.Get(a.when("until", a.Form("until"), a.typedBy()))
	case "trigger":
		req.Cause = string(core.CauseManual)
		if params := a.Form("params"); params != "" {
			req.Params = &params
		}
	case "label":
		req.Labels = map[string]string{}
		for line := range strings.Lines(a.Form("labels")) {
			if key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key != "" {
				req.Labels[key] = value
			}
		}
	case "delete":
		n, _ := strconv.Atoi(a.Form("counted"))
		n = cmp.Or(len(req.Jobs), n)
		if req.Filter != nil && req.After == 0 { // it can match other jobs than when the panel was shown
			now := must.Get(a.Bulk(a.Ctx(), client.BulkRequest{Verb: req.Verb, Filter: req.Filter, DryRun: true}))
			n = cmp.Or(now.Found, n)
		}
		if strings.TrimSpace(a.Form("count")) != strconv.Itoa(n) {
			must.Do(core.Invalid("count", core.Truncate(a.Form("count")), "type the number of jobs to delete, to confirm"))
		}
	}
}

// bulkAgain shows the list with the rejected panel.
func (a *ask) bulkAgain(err error, verb string) (string, core.Text, error) {
	page := a.jobsList(a.r.PostForm)
	panel := a.bulkPanel(verb, a.r.PostForm["pick"], a.r.PostForm)
	if panel == nil {
		return "", core.Text{}, err
	}
	panel.Back = listOf(a.r.PostForm)
	a.reject(err)
	page.Panel, a.page = panel, "jobs"
	return a.again(err, "jobs", page)
}

// listOf returns the URL of the list with the filters of a form.
func listOf(q url.Values) string {
	return addressOf(Root+"jobs", q, slices.Concat(filterFields, shownFields))
}

// addressOf returns the URL of a page with the named values of a form.
func addressOf(page string, q url.Values, names []string) string {
	kept := url.Values{}
	for _, name := range names {
		if q.Get(name) != "" {
			kept[name] = q[name]
		}
	}
	return withQuery(page, kept.Encode())
}
