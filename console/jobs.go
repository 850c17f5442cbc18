package console

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
)

type jobsPage struct {
	client.JobPage
	Next    string // URL of the next page
	Columns []column
	Apps    []string
	Filter  bool // whether a filter is set
	Asked   client.ListJobsParams
	Panel   *bulkPanel
}

// Wide reports whether the list can be wider than the screen. The list then has a scroll bar of its own.
func (p *jobsPage) Wide() bool {
	n := 0
	for _, c := range p.Columns {
		if c.On {
			n++
		}
	}
	return n > len(columnsShown)
}

// A column is a column of the list; To sorts by it.
type column struct {
	Name, Label, To, Order string // value for the attribute aria-sort
	Class                  string
	On                     bool
}

// barsShown is the number of runs of a job that are shown as bars. If the store charges for reads it is fewBars,
// which costs the minimum of one request.
const barsShown, fewBars = 30, 8

func (a *ask) bars() int {
	if a.c.o.Newest != nil {
		return fewBars
	}
	return barsShown
}

func (p *jobsPage) On(name string) bool {
	return slices.ContainsFunc(p.Columns, func(c column) bool { return c.Name == name && c.On })
}

func (a *ask) jobs() (any, error) {
	q := a.r.URL.Query()
	page := a.jobsList(q)
	page.Panel = a.bulkPanel(a.Panel(), q["pick"], q)
	return page, nil
}

func (a *ask) jobsList(q url.Values) *jobsPage {
	p := client.ListJobsParams{App: q.Get("app"), Text: strings.TrimSpace(q.Get("text")), Sort: q.Get("sort"),
		Reverse: q.Get("reverse") == "true", Last: true, Runs: a.bars(), Counts: true, Cursor: q.Get("after"),
		Label: given(q, "label"), Status: given(q, "status")}
	p.Limit = rowsOf(q)
	columns := a.columns(q["cols"], p.Sort, p.Reverse)
	is := q.Get("status")
	page := must.Get(a.ListJobs(a.Ctx(), p))
	if page.Partial {
		a.unsure()
	}
	out := &jobsPage{JobPage: page, Columns: columns, Apps: must.Get(a.appNames()), Asked: p,
		Filter: p.App+p.Text+is+q.Get("label") != ""}
	if page.Cursor != "" {
		out.Next = a.With("after", page.Cursor)
	}
	return out
}

// columnsShown are the default columns. The job column is always shown.
var columnsShown = []string{"job", "schedule", "next", "runs", "last", "took"}

// columns returns all columns that the list can have. A column with a sort order links to it, and to the reverse
// order if the list is sorted by it.
func (a *ask) columns(shown []string, sort string, down bool) []column {
	columns := []column{{Name: "number", Label: a.Say("Number"), To: "number", Class: "num hide"},
		{Name: "job", Label: a.Say("Job"), To: "name"},
		{Name: "author", Label: a.Say("Author"), Class: "hide"}, {Name: "handler", Label: a.Say("Handler"), Class: "hide"},
		{Name: "schedule", Label: a.Say("Schedule"), Class: "hide"}, {Name: "next", Label: a.Say("Next"), To: "next"},
		{Name: "runs", Label: a.Say("Last %d runs", a.bars()), Class: "hide"}, {Name: "last", Label: a.Say("Last result"), To: "last"},
		{Name: "took", Label: a.Say("Took"), Class: "num hide"}}
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	for _, name := range shown {
		if !slices.Contains(names, name) {
			must.Do(core.Invalid("cols", name, "allowed values: %s", core.JoinAllowed(names)))
		}
	}
	if len(shown) == 0 {
		shown = columnsShown
	}
	for i := range columns {
		c := &columns[i]
		if c.On = c.Name == "job" || slices.Contains(shown, c.Name); c.To == "" {
			continue
		}
		turn := ""
		if sort == c.To {
			c.Order = "ascending"
			if turn = "true"; down {
				c.Order, turn = "descending", ""
			}
		}
		c.To = a.With("sort", c.To, "reverse", turn)
	}
	return columns
}

// JobNote returns the additional line below a job; empty if the job has no problem to report.
func (a *ask) JobNote(j client.Job) string {
	switch {
	case j.Problem != "":
		return j.Problem
	case j.Pause != nil:
		return a.PauseNote(j.Pause)
	case j.Last != nil && a.Shape(j.Last.State) == "fail":
		since, n := failuresInARow(j.Recent)
		if n > 1 {
			return a.Say("failing since %s, %d times in a row: %s", a.Moment(since, j.Schedule.Timezone), n, a.ReasonName(j.Last.Reason))
		}
		return a.ReasonName(j.Last.Reason)
	}
	return ""
}

func (a *ask) Labels(j client.Job) []string { return pairs(j.Labels) }

// failuresInARow returns the time of the first in the newest series of failures, and its length. runs has the newest
// first.
func failuresInARow(runs []client.RunBrief) (since time.Time, n int) {
	for _, r := range runs {
		switch shapes[core.State(r.State)] {
		case "fail":
			since, n = r.At, n+1
		case "ok", "stop":
			return since, n
		}
	}
	return since, n
}

// NextOf returns the next scheduled time of a job; zero if no time is scheduled.
func (a *ask) NextOf(j client.Job) time.Time {
	if len(j.Next) == 0 {
		return time.Time{}
	}
	return j.Next[0]
}

// BriefBars returns the given runs as bars, oldest first. The given runs are newest first.
func (a *ask) BriefBars(runs []client.RunBrief) any {
	list := make([]Bar, len(runs))
	for i, r := range runs {
		list[i] = Bar{Shape: shapes[core.State(r.State)]}
		if r.DurationMs != nil {
			list[i].Took = time.Duration(*r.DurationMs) * time.Millisecond
		}
		if list[i].Shape == "ok" && r.LatenessMs != nil && *r.LatenessMs >= lateMs {
			list[i].Shape = "late"
		}
	}
	slices.Reverse(list)
	return a.Bars(list)
}
