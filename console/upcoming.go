package console

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/internal/paging"
)

// Limits of the page.
const (
	crowdFrom = 10 // jobs in one second that count as a peak
	crowdsMax = 5  // peaks that are named
	comeRows  = 200
	heldEach  = 3 // times of a paused job
	comeAsked = 1000
	comeMost  = 20_000
	comeFor   = 2 * time.Second
	comeLanes = 40
	comePause = 5   // paused apps that are named
	comeWaits = 100 // jobs: for more, the API does not list waiting runs
	// comeListed is the length of the list if the chosen range has no end, or if there are too many runs.
	comeListed = 15 * time.Minute
)

// upcomingPage shows upcoming runs on a time axis, and lists the jobs in a part of it.
type upcomingPage struct {
	Days     int // number of days on the time axis, 1 or 7
	From, To time.Time
	Fires    int // number of runs on the time axis
	Jobs     int
	More     bool // whether further runs may exist that were not counted
	Lanes    []*lane
	Hidden   int                   // number of rows that are left out
	Crowds   []client.UpcomingPeak // peaks of many jobs in one second
	At, End  time.Time             // time range of the list
	Chosen   bool
	Rows     []comeRow
	MoreRows bool
	// MoreHeld reports whether some scheduled times during a pause are not listed.
	MoreHeld bool
	// Unlisted reports whether waiting runs are not listed, because too many jobs exist.
	Unlisted bool
	// MoreCrowds is the number of peaks that are not named on the page.
	MoreCrowds int
	Crowd      *client.UpcomingPeak // the peak whose jobs are listed
	// All is the pause of everything. HeldApps are the paused apps among the shown apps. The page does not show
	// runs during these pauses.
	All      *client.Pause
	HeldApps []client.App
	// MoreApps is the number of paused apps that are not named on the page.
	MoreApps int
	held     []comeRow
	Known    map[string]*client.Job // jobs of the rows, by name
}

type lane struct {
	App   string
	Dense []string          // whether frequent jobs are drawn as a band
	Many  int               // number of runs of the frequent jobs
	At    []int             // number of runs by place on the axis
	peak  map[int]time.Time // by place on the axis: a time of a peak
}

type comeRow struct {
	client.Coming
	Held  bool
	Times int // number of runs of a frequent job; the last run is at Until
	Until time.Time
}

// places24 is the number of places on the axis.
const places24 = 288

func (a *ask) upcoming() (any, error) {
	p := &upcomingPage{Days: 1, From: a.Now.Truncate(time.Minute), Known: map[string]*client.Job{}}
	if a.Q("days") == "7" {
		p.Days = 7
	}
	p.To = p.From.Add(time.Duration(p.Days) * 24 * time.Hour)
	s := a.spanOf()
	p.At, p.End, p.Chosen = s.From, s.To, !s.From.IsZero() || !s.To.IsZero()
	if p.At.IsZero() {
		p.At = a.Now
	}
	switch {
	case !p.Chosen:
		p.End = p.To
	case p.End.IsZero() || !p.End.After(p.At):
		p.End = p.At.Add(comeListed)
	}
	a.drawn(p)
	a.over(p)
	if !p.Chosen && p.Fires > comeAsked { // too many runs: list the first ones
		p.End = p.At.Add(comeListed)
		p.held = slices.DeleteFunc(p.held, func(r comeRow) bool { return !r.ScheduledAt.Before(p.End) })
		if p.Crowd != nil && !p.Crowd.At.Before(p.End) {
			p.Crowd = nil
		}
	}
	a.firesOf(p)
	return p, nil
}

// drawn fills the axis with the runs of all jobs. It also collects the runs of some paused jobs.
func (a *ask) drawn(p *upcomingPage) {
	shape := must.Get(a.GetUpcomingHistogram(a.Ctx(), client.GetUpcomingHistogramParams{App: a.Q("app"), From: p.From,
		For: fmt.Sprintf("%dh", 24*p.Days), Buckets: places24}))
	p.From, p.To, p.Jobs, p.More, p.Hidden = shape.From, shape.To, shape.Jobs, shape.Partial, shape.MoreApps
	lanes := map[string]*lane{}
	for i := range shape.Apps {
		app := &shape.Apps[i]
		l := &lane{App: app.App, At: app.Fires, peak: map[int]time.Time{}}
		for _, n := range app.Fires {
			p.Fires += n
		}
		if app.Frequent != nil {
			l.Many, l.Dense, p.Fires = int(app.Frequent.Fires), app.Frequent.Names, p.Fires+int(app.Frequent.Fires)
		}
		lanes[l.App] = l
		p.Lanes = append(p.Lanes, l)
	}
	if more := len(p.Lanes) - comeLanes; more > 0 {
		p.Lanes, p.Hidden = p.Lanes[:comeLanes], p.Hidden+more
	}
	for _, pile := range shape.Peaks {
		if pile.Jobs < crowdFrom {
			continue
		}
		for _, name := range pile.Names {
			app, _, _ := strings.Cut(name, "/")
			if l := lanes[app]; l != nil {
				l.peak[int(pile.At.Sub(p.From)*places24/p.To.Sub(p.From))] = pile.At
			}
		}
		if p.Crowds = append(p.Crowds, pile); !pile.At.Before(p.At) && pile.At.Before(p.End) && p.Crowd == nil {
			p.Crowd = &pile
		}
	}
	if p.MoreCrowds = max(0, len(p.Crowds)-crowdsMax); p.MoreCrowds > 0 {
		p.Crowds = p.Crowds[:crowdsMax]
	}
	paused := must.Get(a.ListJobs(a.Ctx(), client.ListJobsParams{App: a.Q("app"), State: []string{string(core.Paused)}, Limit: comeRows}))
	p.MoreHeld = paused.Next != 0
	memo := map[string][]time.Time{}
	for i := range paused.Jobs {
		j := &paused.Jobs[i]
		until := p.To
		if j.Pause != nil && !j.Pause.Until.IsZero() && j.Pause.Until.Before(until) {
			until = j.Pause.Until
		}
		p.Known[j.App+"/"+j.Name] = j
		a.hold(p, j, until, memo)
	}
	some := must.Get(a.ListJobs(a.Ctx(), client.ListJobsParams{App: a.Q("app"), Limit: comeWaits + 1}))
	p.Unlisted = len(some.Jobs) > comeWaits || some.Next != 0
}

// Paused reports whether a pause covers a scheduled run on the page.
func (p *upcomingPage) Paused() bool {
	return p.All != nil || len(p.HeldApps)+len(p.held) > 0 || p.MoreHeld
}

// over finds the active pauses of apps and of everything.
func (a *ask) over(p *upcomingPage) {
	p.All = a.holds(must.Get(a.GetStatus(a.Ctx())).Pause)
	for _, app := range must.Get(a.ListApps(a.Ctx())).Apps {
		if app.Pause = a.holds(app.Pause); app.Pause == nil || !slices.Contains([]string{"", app.Name}, a.Q("app")) {
			continue
		}
		if p.HeldApps = append(p.HeldApps, app); len(p.HeldApps) > comePause {
			p.HeldApps, p.MoreApps = p.HeldApps[:comePause], p.MoreApps+1
		}
	}
}

// hold collects a job's listed times that a pause holds.
func (a *ask) hold(p *upcomingPage, j *client.Job, until time.Time, memo map[string][]time.Time) {
	if until.After(p.End) {
		until = p.End
	}
	for i, t := range a.previewed(j, p.At, until, memo) {
		if i == heldEach || len(p.held) == comeRows {
			p.MoreHeld = true
			return
		}
		p.held = append(p.held, comeRow{Held: true, Coming: client.Coming{Job: j.App + "/" + j.Name, ScheduledAt: t,
			Timezone: j.Schedule.Timezone}})
	}
}

// previewed returns the first scheduled times of a job in a range, more than are listed. Jobs with the same schedule
// share one request, unless their times depend on the job.
func (a *ask) previewed(j *client.Job, from, to time.Time, memo map[string][]time.Time) []time.Time {
	if j.Schedule.FixedDelay != "" {
		return slices.DeleteFunc(slices.Clone(j.Next), func(t time.Time) bool { return t.Before(from) || !t.Before(to) })
	}
	of := int32(0)
	if spreads(&j.Schedule) {
		of = j.ID
	}
	key, err := json.Marshal([]any{j.Schedule, of, from, to})
	if err != nil {
		return nil
	}
	if list, ok := memo[string(key)]; ok {
		return list
	}
	res, err := a.Preview(a.Ctx(), client.PreviewRequest{Schedule: j.Schedule, JobID: of, From: from.Add(-time.Second),
		Count: new(heldEach + 2)})
	if err != nil { // the page of the job shows the error
		return nil
	}
	list := slices.DeleteFunc(res.Next, func(t time.Time) bool { return t.Before(from) || !t.Before(to) })
	memo[string(key)] = list
	return list
}

// firesOf lists the upcoming runs in the chosen range with notes. A job with more than a few runs is one row.
func (a *ask) firesOf(p *upcomingPage) {
	all := a.comingIn(p)
	times, at := map[string]int{}, map[string]int{}
	for _, c := range all {
		times[c.Job]++
	}
	for _, c := range all {
		if times[c.Job] > 3 {
			if i, ok := at[c.Job]; ok {
				p.Rows[i].Until = c.ScheduledAt
				continue
			}
			at[c.Job] = len(p.Rows)
			p.Rows = append(p.Rows, comeRow{Coming: c, Times: times[c.Job]})
			continue
		}
		p.Rows = append(p.Rows, comeRow{Coming: c})
	}
	p.Rows = append(p.Rows, p.held...)
	slices.SortStableFunc(p.Rows, func(x, y comeRow) int { return x.ScheduledAt.Compare(y.ScheduledAt) })
	if len(p.Rows) > comeRows {
		p.Rows, p.MoreRows = p.Rows[:comeRows], true
	}
	a.know(p)
}

// know reads the jobs of the listed runs. A job that was deleted since has no notes.
func (a *ask) know(p *upcomingPage) {
	var missing []string
	for i := range p.Rows {
		if name := p.Rows[i].Job; p.Known[name] == nil && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if a.c.o.Newest != nil && len(missing) > 0 { // single reads cost more, because each one includes the last run
		for after := int32(0); ; {
			page, err := a.ListJobs(a.Ctx(), client.ListJobsParams{App: a.Q("app"), After: after, Limit: comeAsked})
			for i := range page.Jobs {
				p.Known[page.Jobs[i].App+"/"+page.Jobs[i].Name] = &page.Jobs[i]
			}
			if after = page.Next; err != nil || after == 0 {
				return
			}
		}
	}
	jobs := make([]*client.Job, len(missing))
	each(len(missing), func(i int) {
		app, name, _ := strings.Cut(missing[i], "/")
		if j, err := a.GetJob(a.Ctx(), app, name); err == nil {
			jobs[i] = &j
		}
	})
	for i, j := range jobs {
		p.Known[missing[i]] = j
	}
}

// comingIn reads the upcoming runs in the chosen range, a thousand at a time.
func (a *ask) comingIn(p *upcomingPage) (all []client.Coming) {
	seen := map[client.Coming]bool{}
	from := p.At.Add(-time.Second)
	for began := time.Now(); ; {
		ahead := max(time.Second, p.End.Sub(from).Truncate(time.Second))
		params := client.ListUpcomingParams{App: a.Q("app"), From: from, For: fmt.Sprintf("%ds", int(ahead.Seconds())), Limit: comeAsked}
		var sum client.Upcoming
		for {
			page := must.Get(a.ListUpcoming(a.Ctx(), params))
			paging.AddUpcoming(&sum, &page, comeAsked)
			if params.After = page.Next; params.After == 0 || time.Since(began) > workFor {
				break
			}
		}
		for _, c := range sum.Upcoming {
			if !seen[c] && c.ScheduledAt.Before(p.End) {
				seen[c] = true
				all = append(all, c)
			}
		}
		if !sum.Partial {
			return all
		}
		// The last second may be incomplete: read it again.
		next := sum.Upcoming[len(sum.Upcoming)-1].ScheduledAt.Add(-time.Second)
		if !next.After(from) || time.Since(began) > comeFor || len(all) > comeMost {
			p.MoreRows = true
			return all
		}
		from = next
	}
}

// Sizes of the axis.
const (
	axisLeft, axisWidth = 110, 890
	laneHigh, axisTop   = 44, 24
)

// Axis draws the rows of the time axis, the hours above the rows, and a link for each part of the axis.
func (a *ask) Axis(p *upcomingPage) template.HTML {
	var b markup
	high := axisTop + laneHigh*max(1, len(p.Lanes)) + 8
	span := p.To.Sub(p.From)
	x := func(t time.Time) float64 { return axisLeft + axisWidth*float64(t.Sub(p.From))/float64(span) }
	b.add(`<svg class=axis viewBox="0 0 %d %d" role=group aria-label="%s">`, axisLeft+axisWidth+12, high,
		a.Say("upcoming runs, by app and time"))
	step, loc := time.Duration(p.Days)*time.Hour, a.In("")
	if p.Days == 7 {
		step = 6 * time.Hour
	}
	if p.Chosen {
		left, right := max(x(p.At), axisLeft), min(x(p.End), axisLeft+axisWidth)
		if right > left {
			b.add(`<rect class=at x="%.1f" y="%d" width="%.1f" height="%d"/>`, left, axisTop-4, max(2, right-left), high-axisTop)
		}
	}
	a.hours(&b, p, loc, step, high, x)
	width := float64(axisWidth) / places24
	for i, l := range p.Lanes {
		base := axisTop + laneHigh*(i+1) - 6
		b.add(`<a href="%s"><text x="0" y="%d">%s</text></a><line class=base x1="%d" y1="%d" x2="%d" y2="%d"/>`,
			a.With("app", l.App), base-6, short(l.App, 16), axisLeft, base, axisLeft+axisWidth, base)
		if l.Many > 0 {
			names := short(strings.Join(l.Dense, ", "), 60)
			b.add(`<g pointer-events=none><rect class=band x="%d" y="%d" width="%d" height="8"/><text x="%d" y="%d">%s</text></g>`,
				axisLeft, base-8, axisWidth, axisLeft+6, base-26, a.Say("%s: %d", names, l.Many))
		}
		for place, n := range l.At {
			if n == 0 {
				continue
			}
			from := p.From.Add(span / places24 * time.Duration(place))
			to, class := from.Add(span/places24), "fire"
			tall := min(26, 5+6*math.Log2(float64(n+1)))
			if at, ok := l.peak[place]; ok {
				from, to, class = at, at.Add(time.Second), "crowd"
			}
			b.add(`<a href="%s" tabindex="-1" aria-label="%s"><rect class=%s x="%.1f" y="%.1f" width="%.1f" height="%.1f"/></a>`,
				a.between(from, to), a.Say("scheduled runs: %d, at %s", n, from.In(loc).Format("15:04 ")+City(loc)), class,
				axisLeft+float64(place)*width, float64(base)-tall, max(2, width), tall)
		}
	}
	b.add(`</svg>`)
	return b.html()
}

func (a *ask) hours(b *markup, p *upcomingPage, loc *time.Location, step time.Duration, high int, x func(time.Time) float64) {
	first := p.From.In(loc)
	at := time.Date(first.Year(), first.Month(), first.Day(), first.Hour(), 0, 0, 0, loc)
	for at.Hour()%int(step/time.Hour) != 0 {
		at = at.Add(-time.Hour)
	}
	b.add(`<text class=tick x="0" y="12">%s</text>`, City(loc))
	for n := 0; at.Before(p.To) && n < 200; at = at.Add(step) {
		end := at.Add(step)
		left, right := max(x(at), axisLeft), min(x(end), axisLeft+axisWidth)
		label := at.Format("15:04")
		if p.Days == 7 {
			label = a.Weekday(at) + " " + label
		}
		b.add(`<a href="%s" aria-label="%s"><rect class=hour x="%.1f" y="0" width="%.1f" height="%d"/></a>`,
			a.between(at, end), a.Say("%s to %s", label, end.Format("15:04 ")+City(loc)), left, right-left, high)
		every := map[int]int{1: 3, 7: 4}[p.Days] // only some parts have a label
		if x(at) >= axisLeft && (at.Hour()/int(step/time.Hour))%every == 0 && x(at) < axisLeft+axisWidth-24 {
			if p.Days == 7 {
				label = a.Weekday(at)
			}
			b.add(`<text class=tick x="%.1f" y="12">%s</text><line class=tick x1="%.1f" y1="18" x2="%.1f" y2="%d"/>`, x(at), label, x(at), x(at), high)
		}
		n++
	}
}

func (a *ask) between(from, to time.Time) string {
	return a.With("from", rfc(from), "to", rfc(to)) + "#listed"
}

func (a *ask) Between(at time.Time) string { return a.between(at, at.Add(time.Second)) }

// short returns the start of a text that is too long for its place.
func short(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return clip(text, n-1)
}
