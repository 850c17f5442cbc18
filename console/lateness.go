package console

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/words"
)

type latenessPage struct {
	Span   span
	Asked  client.GetLatenessParams
	Answer client.Lateness
	Width  time.Duration
	Rows   []lateRow
	Cut    int
	Worst  *lateCell // the cell with the highest lateness of all rows
	Of     *lateRow  // the row that has the cell Worst
}

type lateRow struct {
	App, Job string
	JobID    int32
	Cells    []lateCell
	Worst    int64 // maximum lateness of a run in the row, in milliseconds
	Marks    int64 // number of lost and skipped runs
}

// lateCell is one bucket of a row; the zero value means that nothing was due.
type lateCell struct {
	At            time.Time
	Late          client.ReportTimes
	Lost, Skipped int64
	Due           bool
}

type degree struct {
	below time.Duration
	text  core.Text
}

// heats are the upper limits of lateness for each color, from light to dark.
var heats = []degree{
	{100 * time.Millisecond, core.Say("below 0.1 s")}, {time.Second, core.Say("below 1 s")}, {5 * time.Second, core.Say("below 5 s")},
	{30 * time.Second, core.Say("below 30 s")}, {5 * time.Minute, core.Say("below 5 min")}, {1 << 62, core.Say("later")},
}

func heat(ms int64) int {
	return slices.IndexFunc(heats, func(d degree) bool { return time.Duration(ms)*time.Millisecond < d.below })
}

// Limits of the heat map.
const (
	lateBuckets = 96
	lateRows    = 100
)

// lateness shows the heat map; without a start it covers 24 hours.
func (a *ask) lateness() (any, error) {
	p := &latenessPage{}
	return a.orWrong("lateness", p, func() { a.late(p) })
}

func (a *ask) late(p *latenessPage) {
	p.Span = a.spanOf()
	switch {
	case p.Span.When != "" || !p.Span.From.IsZero():
	case p.Span.To.IsZero():
		p.Span.When, p.Span.From = "24h", a.Now.Add(-24*time.Hour).Truncate(time.Minute)
	default:
		p.Span.From = p.Span.To.Add(-24 * time.Hour)
	}
	p.Asked = client.GetLatenessParams{App: a.Q("app"), Job: strings.TrimSpace(a.Q("job")), Each: a.Q("each"), From: p.Span.From,
		To: p.Span.To, Buckets: lateBuckets}
	if !a.r.URL.Query().Has("each") {
		p.Asked.Each = "app"
	}
	if p.Asked.Job != "" {
		p.Asked.App, p.Asked.Each = "", "job"
	}
	p.Answer = must.Get(a.GetLateness(a.Ctx(), p.Asked))
	var err error
	if p.Width, err = time.ParseDuration(p.Answer.Width); err != nil || p.Width <= 0 {
		must.Do(core.Errorf(core.CodeInternal, "the width of a bucket is %q", p.Answer.Width))
	}
	n := int(p.Answer.To.Sub(p.Answer.From) / p.Width)
	for _, row := range p.Answer.Rows {
		r := lateRow{App: row.App, Job: row.Job, JobID: row.JobID, Cells: make([]lateCell, n)}
		for _, c := range row.Cells {
			i := int(c.At.Sub(p.Answer.From) / p.Width)
			if i < 0 || i >= n {
				continue
			}
			if c.Late.Runs+c.Lost+c.Skipped == 0 { // no scheduled runs were due
				continue
			}
			cell := &r.Cells[i]
			*cell = lateCell{At: c.At, Late: c.Late, Lost: c.Lost, Skipped: c.Skipped, Due: true}
			r.Worst, r.Marks = max(r.Worst, c.Late.MaxMs), r.Marks+c.Lost+c.Skipped
			if c.Late.Runs > 0 && (p.Worst == nil || c.Late.MaxMs > p.Worst.Late.MaxMs) {
				p.Worst, p.Of = cell, &r
			}
		}
		if slices.ContainsFunc(r.Cells, func(c lateCell) bool { return c.Due }) {
			p.Rows = append(p.Rows, r)
		}
	}
	slices.SortStableFunc(p.Rows, func(x, y lateRow) int {
		return cmp.Or(cmp.Compare(y.Worst, x.Worst), cmp.Compare(y.Marks, x.Marks), cmp.Compare(x.App, y.App), cmp.Compare(x.Job, y.Job))
	})
	if len(p.Rows) > lateRows {
		p.Cut, p.Rows = len(p.Rows)-lateRows, p.Rows[:lateRows]
	}
}

func (a *ask) lateRuns(p *latenessPage, r *lateRow, at time.Time) string {
	return runsIn(jobIn(r.Job, r.JobID), cmp.Or(r.App, p.Asked.App), "", at, at.Add(p.Width))
}

// WorstRuns returns the link to the runs of the cell with the highest lateness.
func (a *ask) WorstRuns(p *latenessPage) string { return a.lateRuns(p, p.Of, p.Worst.At) }

// LateMap draws one row of the heat map, with a field for each bucket. A field is darker if its runs were later, empty
// if no run was due, and crossed if a run was lost or skipped. Each field links to its runs.
func (a *ask) LateMap(p *latenessPage, r lateRow) template.HTML {
	var b markup
	b.add(`<svg class="heat" viewBox="0 0 %d 22" preserveAspectRatio="none" role="group" aria-label="%s" data-from="%d" data-step="%d">`,
		len(r.Cells)*8, a.LateName(r), p.Answer.From.UnixMilli(), p.Width.Milliseconds())
	for i := range r.Cells {
		c := &r.Cells[i]
		if !c.Due {
			continue
		}
		said := a.Moment(c.At, "") + ": "
		field := html(`<rect class="hole" x="%d" y="1" width="8" height="20"/>`, i*8)
		if c.Late.Runs > 0 {
			field = html(`<rect class="h%d" x="%d" y="1" width="8" height="20"/>`, heat(c.Late.P99Ms), i*8)
			said += a.Say("p99 %s, max %s, runs: %d", a.Ms(c.Late.P99Ms), a.Ms(c.Late.MaxMs), c.Late.Runs)
		}
		if c.Lost+c.Skipped > 0 {
			field += html(`<path class="cross" d="M%d 6l6 10m0-10l-6 10"/>`, i*8+1)
			said += " " + a.Say("%d lost, %d skipped", c.Lost, c.Skipped)
		}
		b.add(`<a href="%s" tabindex="-1" aria-label="%s"><title>%s</title>%s</a>`, a.lateRuns(p, &r, c.At), said, said, field)
	}
	b.add(`<rect class="brush" x="0" y="0" width="0" height="22" hidden="hidden"/></svg>`)
	return b.html()
}

// LateName returns the display name of a row.
func (a *ask) LateName(r lateRow) string {
	switch {
	case r.Job != "":
		return r.Job
	case r.JobID != 0:
		return a.Say("a deleted job") + fmt.Sprintf(" %d", r.JobID)
	case r.App != "":
		return r.App
	}
	return a.Say("all")
}

// LateOpen returns the link of a row. The row of an app links to its jobs, and the row of a job links to its runs.
func (a *ask) LateOpen(p *latenessPage, r lateRow) string {
	switch {
	case r.Job != "" && p.Asked.Job == "":
		return a.With("job", r.Job, "app", "", "each", "")
	case r.Job != "":
		return jobPath(r.Job)
	case r.JobID == 0 && r.App != "":
		return a.With("app", r.App, "job", "", "each", "job")
	}
	return a.lateRuns(p, &r, p.Answer.From)
}

func (a *ask) LateAxis(p *latenessPage) template.HTML { return a.axis(p.Answer.From, p.Answer.To) }

// Heats returns the texts of the legend, from light to dark.
func (a *ask) Heats() (list []string) {
	for _, h := range heats {
		list = append(list, words.Say(a.Lang, h.text))
	}
	return list
}

func (a *ask) LatenessCli(p *latenessPage) template.HTML {
	each := p.Asked.Each
	if p.Asked.Job != "" {
		each = ""
	}
	return a.Cli("tickring lateness" + word(cmp.Or(p.Asked.Job, p.Asked.App)) + flag("each", each) + rangeFlags(p.Asked.From, time.Time{}))
}
