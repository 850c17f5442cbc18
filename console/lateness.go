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

// heats are the upper limits of lateness for each color but the last, from light to dark. The legend has a text for each.
var heats = []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second, 5 * time.Minute}

func heat(ms int64) int {
	n, at := slices.BinarySearch(heats, time.Duration(ms)*time.Millisecond)
	if at { // a limit belongs to the darker color
		n++
	}
	return n
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

// LateRuns returns the link to the runs of a row in the bucket that starts at a time.
func (a *ask) LateRuns(p *latenessPage, r *lateRow, at time.Time) string {
	return runsIn(jobIn(r.Job, r.JobID), cmp.Or(r.App, p.Asked.App), "", at, at.Add(p.Width))
}

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
		b.add(`<a href="%s" tabindex="-1" aria-label="%s"><title>%s</title>%s</a>`, a.LateRuns(p, &r, c.At), said, said, field)
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

func (a *ask) LateAxis(p *latenessPage) template.HTML { return a.axis(p.Answer.From, p.Answer.To) }
