package console

import (
	"crypto/rand"
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
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/words"
)

type runsPage struct {
	Span   span
	Filter client.ListRunsParams
	Runs   []client.Run
	Skips  []client.Skip
	Shape  *client.Histogram // histogram of the runs; nil: unknown
	Width  time.Duration     // width of a bucket in the histogram
	Next   string
	Looked time.Time // time down to which the runs were searched, if the page is not full
	ByJob  bool      // whether waiting runs are shown only on the pages of their jobs
	Again  *rerunPanel
}

// Filtered reports whether a filter other than the time range is set.
func (p *runsPage) Filtered() bool {
	f := p.Filter
	return f.Job != "" || f.App != "" || len(f.State) > 0 || len(f.Cause) > 0 || f.Address != "" || f.Longer != "" || f.Shorter != "" ||
		f.Late != "" || f.Text != "" || f.Failed
}

type rerunPanel struct {
	Key    string
	Of     span
	Fit    int // number of runs to rerun that were counted so far
	Left   []client.Rerun
	Sample []client.Rerun
	More   bool
}

func (a *ask) runs() (any, error) {
	if id, err := core.ParseRunID(strings.TrimSpace(a.Q("job"))); err == nil && id.Job() != 0 {
		http.Redirect(a.w, a.r, a.RunPath(id.String()), http.StatusSeeOther) // the ID of a run in place of a job
		return nil, errShown
	}
	p := &runsPage{}
	return a.orWrong("runs", p, func() {
		p.Span = a.spanOf()
		p.Filter = a.runFilter(a.r.URL.Query(), p.Span)
		p.Filter.After = a.Q("after")
		p.Filter.Limit = rowsOf(a.r.URL.Query())
		if a.Partial() && a.Q("shape") != "" {
			p.Filter.Limit = 1 // the page already has its rows
		}
		a.findRuns(p)
		if a.Panel() == "rerun" && (p.Filter.Job != "" || p.Filter.App != "") {
			p.Again = a.wouldRerun(p)
		}
	})
}

func (a *ask) runFilter(q url.Values, s span) client.ListRunsParams {
	f := client.ListRunsParams{Job: strings.TrimSpace(q.Get("job")), App: q.Get("app"), State: given(q, "state"),
		Cause:  given(q, "cause"),
		Failed: q.Get("failed") != "", Address: strings.TrimSpace(q.Get("address")), From: s.From, To: s.Last(),
		Longer: strings.TrimSpace(q.Get("longer")), Shorter: strings.TrimSpace(q.Get("shorter")), Late: strings.TrimSpace(q.Get("late")),
		Text: strings.TrimSpace(q.Get("text"))}
	if f.Job != "" {
		f.App = ""
	}
	return f
}

// rowsOf returns the number of rows of a page from its query. The default fills a screen or two, which a browser
// draws at once.
func rowsOf(q url.Values) int {
	rows := q.Get("rows")
	if rows == "" {
		return rowsShown
	}
	n, err := strconv.Atoi(rows)
	if err != nil || !slices.Contains(rowsMay, n) {
		must.Do(core.Invalid("rows", rows, "allowed values: %s", core.JoinAllowed([]string{"10", "25", "50", "100"})))
	}
	return n
}

const rowsShown = 50

var rowsMay = []int{10, 25, 50, 100}

// Rows returns the choices for the number of rows of a page. The default has no value.
func (a *ask) Rows() (list []option) {
	for _, n := range rowsMay {
		c := option{Value: strconv.Itoa(n), Text: a.Say("%d rows", n)}
		if n == rowsShown {
			c.Value = ""
		}
		c.On = a.Q("rows") == c.Value || a.Q("rows") == strconv.Itoa(n)
		list = append(list, c)
	}
	return list
}

func (a *ask) findRuns(p *runsPage) {
	page := must.Get(a.ListRuns(a.Ctx(), p.Filter))
	p.Runs, p.Skips, p.Looked, p.ByJob = page.Runs, page.Skips, page.ScannedTo, page.NoWaiting
	if page.Next != "" {
		p.Next = a.With("panel", "", "after", page.Next)
	}
	if a.Q("shape") == "" { // rows come first: the page then requests its histogram
		return
	}
	f := &p.Filter
	shape, err := a.GetHistogram(a.Ctx(), client.GetHistogramParams{App: f.App, Job: f.Job, From: f.From, To: p.Span.To, Late: f.Late})
	if err != nil {
		return // show the rows without it
	}
	if width, err := time.ParseDuration(shape.Width); err == nil && len(shape.Buckets) > 0 {
		p.Shape, p.Width = &shape, width
	}
}

// Endings returns the filters by result, with the number of runs with each result in the time range.
func (a *ask) Endings(p *runsPage) template.HTML {
	var b markup
	var sum counts
	if p.Shape != nil {
		sum = sumOf(p.stretches())
	}
	for i, k := range kinds {
		states := namesOf(k.states)
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
		b.add("%s", a.chip(a.r.URL.EscapedPath()+"?"+q.Encode(), word, on))
	}
	return b.html()
}

// Beyond reports whether the list has a filter that does not apply to the histogram.
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

func (p *runsPage) ShapeSum() counts { return sumOf(p.stretches()) }

// ShapeChart draws the histogram. Each bar links to its runs.
func (a *ask) ShapeChart(p *runsPage) template.HTML {
	return a.chart(p.stretches(), func(s *stretch) string {
		return a.With("from", rfc(s.From), "to", rfc(s.To), "when", "", "panel", "", "shape", "")
	})
}

// Wider returns the URL of a time range around the shown range that is up to twice as long and does not end in the
// future. The result is empty if the shown range has no start.
func (a *ask) Wider(p *runsPage) string {
	from, to := p.Span.From, p.Span.To
	if from.IsZero() {
		return ""
	}
	if to.IsZero() {
		to = a.Now
	}
	d := to.Sub(from) / 2
	if to = to.Add(d); to.After(a.Now) {
		to = a.Now
	}
	return a.With("from", rfc(from.Add(-d)), "to", rfc(to), "when", "", "shape", "")
}

// Has reports whether a list contains a text.
func (a *ask) Has(list []string, word any) bool { return slices.Contains(list, fmt.Sprint(word)) }

// rerunRequest returns the request to rerun the runs that match a filter.
func rerunRequest(f client.ListRunsParams) client.RerunRequest {
	return client.RerunRequest{Job: f.Job, App: f.App, State: f.State, Cause: f.Cause, Failed: f.Failed, Address: f.Address, From: f.From,
		To: f.To, Longer: f.Longer, Shorter: f.Shorter, Late: f.Late, Text: f.Text, As: string(core.CauseManual), Limit: 100}
}

// wouldRerun counts the runs to rerun and lists some, within the time limit of an answer. If the filter matches few
// runs, each page and the list before it are slow.
func (a *ask) wouldRerun(p *runsPage) *rerunPanel {
	out := &rerunPanel{Key: "console-" + rand.Text()[:12], Of: p.Span}
	if out.Of.To.IsZero() { // exclude later runs
		out.Of.To = a.Now.Truncate(time.Second).Add(time.Second)
	}
	body := rerunRequest(p.Filter)
	body.Key, body.DryRun, body.To = out.Key, true, out.Of.Last()
	for n := 1; ; n++ {
		res := must.Get(a.Rerun(a.Ctx(), body))
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
			return out
		}
	}
}

// reasons has the reasons why runs are not rerun, each with a count.
type reasons map[string]int

// reasonsKept is the maximum number of reasons that are carried from part to part.
const reasonsKept = 100

// reasonsOf returns the reasons of earlier parts, which the form carries.
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
		n[core.Truncate(strings.ReplaceAll(one.Why, one.Of.ID, "…"))]++ // each message names its run
	}
}

func (n reasons) lines() (list []string) {
	for why, count := range n {
		list = append(list, fmt.Sprintf("%d: %s", count, why))
	}
	slices.Sort(list)
	return list
}

// LeftWhy returns the reasons why some runs are not rerun.
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

// rerunsPage shows the progress of a rerun of many runs.
type rerunsPage struct {
	Form   url.Values // form that continues with the next part; nil: the operation is done
	Done   int
	Left   int
	Last   []client.Rerun
	Why    []string
	Halted bool // whether the user stopped the operation
	Back   string
}

// listed redirects from the URL of a form, which has no page.
func (a *ask) listed() (any, error) {
	http.Redirect(a.w, a.r, Root+"runs", http.StatusSeeOther)
	return nil, errShown
}

// rerunRuns reruns a part of the runs that match a filter, and shows the progress.
func (a *ask) rerunRuns() (string, core.Text, error) {
	q := a.r.PostForm
	s := span{}
	for name, at := range map[string]*time.Time{"from": &s.From, "to": &s.To} {
		if text := q.Get(name); text != "" {
			when, _, err := momentOf(name, text, time.UTC)
			*at = must.Get(when, err)
		}
	}
	body := rerunRequest(a.runFilter(q, s))
	body.Key, body.After = q.Get("key"), q.Get("next")
	if params := typedText(q.Get("params")); q.Get("with") == "other" || params != "" { // params in the form are meant to be used
		body.Params = &params
	}
	var p rerunsPage
	p.Done, _ = strconv.Atoi(q.Get("done")) // only shown, so they need not be valid
	p.Left, _ = strconv.Atoi(q.Get("left"))
	p.Back = addressOf(Root+"runs", q, []string{"job", "app", "state", "cause", "failed", "address", "longer", "shorter", "late", "text",
		"from", "to"})
	if p.Halted = q.Get("stop") != ""; p.Halted {
		p.Why = a.whys(reasonsOf(q))
		return a.shown(http.StatusOK, "reruns", p)
	}
	res, err := a.Rerun(a.Ctx(), body)
	if err != nil {
		a.reject(err)
		p.Form, p.Why = q, a.whys(reasonsOf(q))
		return a.again(err, "reruns", p)
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
		return p.Back, core.Say("rerun: %d, skipped: %d", p.Done, p.Left), nil
	}
	return a.shown(http.StatusOK, "reruns", p)
}
