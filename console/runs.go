package console

import (
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/words"
)

type runsPage struct {
	Span   span
	Filter client.ListRunsParams
	Runs   []client.Run
	Skips  []client.Skip
	Shape  *client.Shape // nil where nobody knows it
	Width  time.Duration // of one of its buckets
	Next   string
	Looked time.Time // how far back it was looked, where the page is not full
	ByJob  bool      // runs that wait for their time are on the pages of their jobs only
	Wrong  string    // what of the filter is not understood
	Panel  string
	Again  *rerunPanel
}

// Filtered reports whether anything is left out but by time.
func (p *runsPage) Filtered() bool {
	f := p.Filter
	return f.Job != "" || f.App != "" || len(f.State) > 0 || len(f.Cause) > 0 || f.Address != "" || f.Longer != "" || f.Shorter != "" ||
		f.Late != "" || f.Text != "" || f.Failed
}

type rerunPanel struct {
	Key    string
	Of     span
	Fit    int // of those looked at
	Left   []client.Rerun
	Sample []client.Rerun
	More   bool
}

func (a *ask) runs() (any, error) {
	if id, err := core.ParseRunID(strings.TrimSpace(a.Q("job"))); err == nil && id.Job() != 0 {
		http.Redirect(a.w, a.r, a.RunPath(id.String()), http.StatusSeeOther) // the ID of a run, in the place of a job
		return nil, errShown
	}
	p := &runsPage{Panel: a.Q("panel")}
	var err error
	if p.Span, err = a.spanOf(); err == nil {
		p.Filter = a.runFilter(a.r.URL.Query(), p.Span)
		p.Filter.After = a.Q("after")
		p.Filter.Limit, err = rowsOf(a.r.URL.Query())
		if a.partial() && a.Q("shape") != "" {
			p.Filter.Limit = 1 // the page has its rows
		}
	}
	if err == nil {
		err = a.findRuns(p)
	}
	if err == nil && p.Panel == "rerun" && (p.Filter.Job != "" || p.Filter.App != "") {
		p.Again, err = a.wouldRerun(p)
	}
	if err != nil {
		p.Panel = ""
	}
	return a.orWrong(err, "runs", p, &p.Wrong)
}

// orWrong is a page, or where what was asked for cannot be answered that page with what was
// wrong: its filters stay, so that they can be put right.
func (a *ask) orWrong(err error, name string, page any, wrong *string) (any, error) {
	if err == nil || errors.Is(err, errShown) {
		return page, err
	}
	p := a.problemOf(err)
	if p.Status < 400 || p.Status >= 500 {
		return page, err
	}
	*wrong = p.Message
	a.render(p.Status, name, page)
	return nil, errShown
}

func (a *ask) runFilter(q url.Values, s span) client.ListRunsParams {
	all := func(name string) (list []string) {
		for _, v := range q[name] {
			if v != "" {
				list = append(list, v)
			}
		}
		return list
	}
	f := client.ListRunsParams{Job: strings.TrimSpace(q.Get("job")), App: q.Get("app"), State: all("state"), Cause: all("cause"),
		Failed: q.Get("failed") != "", Address: strings.TrimSpace(q.Get("address")), From: s.From, To: s.last(),
		Longer: strings.TrimSpace(q.Get("longer")), Shorter: strings.TrimSpace(q.Get("shorter")), Late: strings.TrimSpace(q.Get("late")),
		Text: strings.TrimSpace(q.Get("text"))}
	if f.Job != "" {
		f.App = ""
	}
	return f
}

// rowsOf is how many rows a page of a list has by its query; if that says nothing a screen or two,
// which a browser draws at once.
func rowsOf(q url.Values) (int, error) {
	given := q.Get("rows")
	if given == "" {
		return rowsShown, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || !slices.Contains(rowsMay, n) {
		return 0, core.Invalid("rows", given, "allowed values: %s", core.Words([]string{"10", "25", "50", "100"}))
	}
	return n, nil
}

const rowsShown = 50

var rowsMay = []int{10, 25, 50, 100}

func (a *ask) Rows() (list []rowsChoice) {
	for _, n := range rowsMay {
		c := rowsChoice{N: n, Value: strconv.Itoa(n)}
		if c.On = a.Q("rows") == c.Value; n == rowsShown {
			c.Value, c.On = "", c.On || a.Q("rows") == ""
		}
		list = append(list, c)
	}
	return list
}

type rowsChoice struct {
	N     int
	Value string
	On    bool
}

func (a *ask) findRuns(p *runsPage) error {
	page, err := a.ListRuns(a.Ctx(), p.Filter)
	if err != nil {
		return err
	}
	p.Runs, p.Skips, p.Looked, p.ByJob = page.Runs, page.Skips, page.LookedTo, page.NoWaiting
	if page.Next != "" {
		p.Next = a.With("panel", "") // without after
		u, _ := url.Parse(p.Next)
		q := u.Query()
		q.Set("after", page.Next)
		u.RawQuery = q.Encode()
		p.Next = u.String()
	}
	if a.Q("shape") == "" { // rows come first: the page asks for its shape once it is there
		return nil
	}
	f := &p.Filter
	shape, err := a.GetShape(a.Ctx(), client.GetShapeParams{App: f.App, Job: f.Job, From: f.From, To: p.Span.To, Late: f.Late})
	if err != nil {
		return nil // the rows are what was asked for
	}
	if width, err := time.ParseDuration(shape.Width); err == nil && len(shape.Buckets) > 0 {
		p.Shape, p.Width = &shape, width
	}
	return nil
}

// Endings are the filters by how runs ended, with how many there are of each in the span.
func (a *ask) Endings(p *runsPage) template.HTML {
	var b strings.Builder
	var sum counts
	if p.Shape != nil {
		sum = sumOf(p.stretches())
	}
	for i, k := range kinds {
		states := make([]string, len(k.states))
		for i, s := range k.states {
			states[i] = string(s)
		}
		on := slices.Equal(p.Filter.State, states)
		word := html(`<span class="s %s">%s</span>`, k.class, words.Say(a.Lang, k.text))
		if p.Shape != nil {
			word = html(`%s %d`, word, sum[i])
		}
		q := a.r.URL.Query()
		for _, name := range []string{"after", "state", "failed", "panel", "shape"} {
			q.Del(name)
		}
		if !on {
			q["state"] = states
		}
		b.WriteString(string(a.chip(a.r.URL.EscapedPath()+"?"+q.Encode(), word, on)))
	}
	return template.HTML(b.String())
}

// Beyond reports whether the list is filtered by what its shape does not know.
func (p *runsPage) Beyond() bool {
	f := p.Filter
	return len(f.Cause) > 0 || f.Address != "" || f.Longer != "" || f.Shorter != "" || f.Text != ""
}

func (p *runsPage) stretches() []stretch {
	list := make([]stretch, len(p.Shape.Buckets))
	for i := range list {
		b := &p.Shape.Buckets[i]
		list[i] = stretch{From: b.At, To: b.At.Add(p.Width), N: counts{b.Succeeded, b.Running, b.Skipped, b.Killed, b.Failed}, Late: b.Late}
	}
	return list
}

func (p *runsPage) ShapeSum() (n struct{ Runs, Failed int64 }) {
	sum := sumOf(p.stretches())
	n.Runs, n.Failed = sum.all(), sum[failedKind]
	return n
}

// ShapeChart draws the shape: each bar leads to its runs.
func (a *ask) ShapeChart(p *runsPage) template.HTML {
	return a.chart(p.stretches(), func(s *stretch) string {
		return a.With("from", rfc(s.From), "to", rfc(s.To), "when", "", "panel", "", "shape", "")
	})
}

// Wider is the URL of a span twice as long, around the one that is shown; empty where none is.
func (a *ask) Wider(p *runsPage) string {
	from, to := p.Span.From, p.Span.To
	if from.IsZero() {
		return ""
	}
	if to.IsZero() {
		to = a.Now
	}
	d := to.Sub(from) / 2
	return a.With("from", rfc(from.Add(-d)), "to", rfc(earlier(to.Add(d), a.Now)), "when", "", "shape", "")
}

func earlier(x, y time.Time) time.Time {
	if x.Before(y) {
		return x
	}
	return y
}

// RowNote is what is to be said of a run in a list: why it ended so, or what it waits for.
func (a *ask) RowNote(r *client.Run) template.HTML {
	switch {
	case r.Then != "" && !r.ThenAt.IsZero():
		return a.Mark("%s; retry at %s", text(a.ReasonName(r.Reason)), a.Time(r.ThenAt, r.Timezone))
	case r.Reason != "":
		return text(a.ReasonName(r.Reason) + "  " + firstLine(r.Message))
	case r.State == string(core.Queued) && !r.WaitsUntil.IsZero():
		return a.Mark("waits for an executor of app %s, until %s", text(r.App), a.Time(r.WaitsUntil, r.Timezone))
	}
	return ""
}

// RunSaid is what a run that did not succeed has to say, in whole.
func (a *ask) RunSaid(r *client.Run) string {
	if r.Reason == "" {
		return ""
	}
	return strings.TrimSpace(a.ReasonName(r.Reason) + "\n" + firstLine(r.Message))
}

// Causes and States are what a filter may name.
func (a *ask) Causes() []core.Cause { return core.Causes }
func (a *ask) States() []core.State { return core.States }

// Has reports whether a list has a word.
func (a *ask) Has(list []string, word any) bool { return slices.Contains(list, fmt.Sprint(word)) }

// rerunRequest is what the API is asked for to run again what a filter finds.
func rerunRequest(f client.ListRunsParams) client.RerunRequest {
	return client.RerunRequest{Job: f.Job, App: f.App, State: f.State, Cause: f.Cause, Failed: f.Failed, Address: f.Address, From: f.From,
		To: f.To, Longer: f.Longer, Shorter: f.Shorter, Late: f.Late, Text: f.Text, As: string(core.CauseManual), Limit: 100}
}

// wouldRerun counts what would be run again, and shows some, for as long as an answer may take
// from its beginning on: a filter that fits little makes each part of it, and the list before, slow.
func (a *ask) wouldRerun(p *runsPage) (*rerunPanel, error) {
	out := &rerunPanel{Key: "console-" + rand.Text()[:12], Of: p.Span}
	if out.Of.To.IsZero() { // what comes later is not meant
		out.Of.To = a.Now.Truncate(time.Second).Add(time.Second)
	}
	body := rerunRequest(p.Filter)
	body.Key, body.DryRun, body.To = out.Key, true, out.Of.last()
	for n := 1; ; n++ {
		res, err := a.Rerun(a.Ctx(), body)
		if err != nil {
			return nil, err
		}
		for _, one := range res.Runs {
			switch {
			case one.Why != "":
				out.Left = append(out.Left, one)
			default:
				if out.Fit++; len(out.Sample) < 10 {
					out.Sample = append(out.Sample, one)
				}
			}
		}
		body.After = res.Next
		out.More = body.After != "" && (n == 10 || a.c.o.Now().Sub(a.Now) > countWithin)
		if body.After == "" || out.More {
			return out, nil
		}
	}
}

// reasons are those for which runs are left, each with how many.
type reasons map[string]int

// reasonsKept bounds how many of them go from part to part.
const reasonsKept = 100

// reasonsOf are those of the parts before, as the form brings them.
func reasonsOf(q url.Values) reasons {
	n := reasons{}
	for _, one := range q["why"][:min(len(q["why"]), reasonsKept)] {
		count, why, _ := strings.Cut(one, ": ")
		n[why], _ = strconv.Atoi(count)
	}
	return n
}

func (n reasons) add(left []client.Rerun) {
	for _, one := range left {
		n[core.Truncate(strings.ReplaceAll(one.Why, one.Of.ID, "…"))]++ // each names its run
	}
}

func (n reasons) lines() (list []string) {
	for why, count := range n {
		list = append(list, fmt.Sprintf("%d: %s", count, why))
	}
	slices.Sort(list)
	return list
}

// LeftWhy are the reasons for which runs are left.
func (a *ask) LeftWhy(p *rerunPanel) []string {
	n := reasons{}
	n.add(p.Left)
	return a.whys(n)
}

const whysShown = 10

func (a *ask) whys(n reasons) []string {
	list := n.lines()
	if more := len(list) - whysShown; more > 0 {
		list = append(list[:whysShown:whysShown], a.Say("and %d more", more))
	}
	return list
}

// rerunsPage is how far running again has come.
type rerunsPage struct {
	Form   url.Values // goes on with the next part; none: it is done
	Done   int
	Left   int
	Last   []client.Rerun
	Why    []string
	Halted bool // before its end
	Wrong  string
	Back   string
}

// listed sends on who asks for what answers forms only.
func (a *ask) listed() (any, error) {
	http.Redirect(a.w, a.r, Root+"runs", http.StatusSeeOther)
	return nil, errShown
}

// rerunRuns does a part of running again what a filter finds, and shows how far that has come.
func (a *ask) rerunRuns() (string, core.Text, error) {
	q := a.r.PostForm
	s := span{}
	for name, at := range map[string]*time.Time{"from": &s.From, "to": &s.To} {
		if given := q.Get(name); given != "" {
			var err error
			if *at, _, err = momentOf(name, given, time.UTC); err != nil {
				return "", core.Text{}, err
			}
		}
	}
	body := rerunRequest(a.runFilter(q, s))
	body.Key, body.After = q.Get("key"), q.Get("next")
	if params := typedText(q.Get("params")); q.Get("with") == "other" || params != "" { // who types some means them
		body.Params = &params
	}
	var p rerunsPage
	p.Done, _ = strconv.Atoi(q.Get("done")) // they are told, and nothing goes by them
	p.Left, _ = strconv.Atoi(q.Get("left"))
	p.Back = addressOf(Root+"runs", q, []string{"job", "app", "state", "cause", "failed", "address", "longer", "shorter", "late", "text",
		"from", "to"})
	if p.Halted = q.Get("stop") != ""; p.Halted {
		p.Why = a.whys(reasonsOf(q))
		a.render(http.StatusOK, "reruns", p)
		return "", core.Text{}, errShown
	}
	res, err := a.Rerun(a.Ctx(), body)
	if err != nil {
		problem := a.problemOf(err)
		p.Form, p.Wrong, p.Why = q, problem.Message, a.whys(reasonsOf(q))
		a.render(problem.Status, "reruns", p)
		return "", core.Text{}, errShown
	}
	var left []client.Rerun
	for _, one := range res.Runs {
		if one.Why != "" {
			left = append(left, one)
			continue
		}
		p.Done++
		p.Last = append(p.Last, one)
	}
	why := reasonsOf(q)
	why.add(left)
	p.Left, p.Why = p.Left+len(left), a.whys(why)
	if res.Next != "" {
		p.Form = q
		q.Set("next", res.Next)
		q.Set("done", fmt.Sprint(p.Done))
		q.Set("left", fmt.Sprint(p.Left))
		lines := why.lines()
		q["why"] = lines[:min(len(lines), reasonsKept)]
	} else if p.Left == 0 {
		return p.Back, core.Say("%d runs were rerun, %d were skipped", p.Done, p.Left), nil
	}
	a.render(http.StatusOK, "reruns", p)
	return "", core.Text{}, errShown
}
