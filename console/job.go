package console

import (
	"cmp"
	"context"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
)

type jobPage struct {
	client.Job
	Ref       string // the job, as app/name
	Next      []coming
	Runs      []client.Run // the latest runs, newest first
	AtWork    []client.Run // all open runs, including runs that are older than the runs in Runs
	Executors []client.Executor
	Of        client.App // the app of the job, whose settings apply if the job does not set them
	Text      string     // text of the manifest, in the manifest view
	View      string
	Typed     bool     // whether the text is input that is not saved
	Problems  []string // errors of the input that is not saved
	Clash     *clash
}

type coming struct {
	At    time.Time
	Run   string // ID of the waiting run; empty: the time comes from the schedule
	Cause string // cause of the waiting run
	Note  string // a clock change before this time, such as the start of daylight saving time
}

// shownNext and shownRuns are the numbers of scheduled times and runs on the page of a job. lookedBack times the time
// range of these runs is searched for older unfinished runs.
const (
	shownNext  = 10
	shownRuns  = 30
	lookedBack = 30
	atWorkWait = 500 * time.Millisecond
)

func (a *ask) ref() string { return a.Path("app") + "/" + a.Path("name") }

func (a *ask) job() (any, error) {
	j := must.Get(a.GetJob(a.Ctx(), a.Path("app"), a.Path("name")))
	a.page = "jobs"
	if a.Q("view") == "edit" {
		a.render(http.StatusOK, "jobform", a.editJob(j))
		return nil, errShown
	}
	return a.jobPage(j), nil
}

func (a *ask) jobPage(j client.Job) *jobPage {
	p := &jobPage{Job: j, Ref: j.App + "/" + j.Name, View: a.Q("view")}
	if a.still = p.View == "manifest"; a.still {
		p.Text = a.manifest(j)
	}
	p.Runs = must.Get(a.ListRuns(a.Ctx(), client.ListRunsParams{Job: p.Ref, Limit: shownRuns})).Runs
	p.Next = a.nextOf(&j)
	p.Of = must.Get(a.GetApp(a.Ctx(), j.App))
	p.AtWork = a.atWork(p)
	if j.Command.Line == "" {
		p.Executors = must.Get(a.ListExecutors(a.Ctx(), j.App)).Executors
	}
	return p
}

// atWork returns the unfinished runs of a job, which can be older than the newest runs: a hanging run has many
// skipped or waiting runs after it. It searches older runs only if there are such runs. If other runs ended since, it
// searches a limited range, otherwise until it finds the maximum number of concurrent runs. A slow search is given
// up.
func (a *ask) atWork(p *jobPage) (list []client.Run) {
	held, over := false, false
	for _, r := range p.Runs {
		switch state := core.State(r.State); {
		case state.Open() && !r.SentAt.IsZero():
			list = append(list, r)
		case state == core.Queued && r.WaitsUntil.IsZero() || isHeld(&r): // not a run that waits for an executor
			held = true
		case !state.Open():
			over = true
		}
	}
	most := max(1, cmp.Or(p.Overlap.Limit, p.Of.Overlap.Limit))
	if p.Overlap.Key != "" || p.Of.Overlap.Key != "" { // the limit applies to each value of the key
		most = shownRuns
	}
	if !held || len(p.Runs) < shownRuns || len(list) >= most {
		return list
	}
	first, last := p.Runs[0].DueAt, p.Runs[len(p.Runs)-1].DueAt
	q := client.ListRunsParams{Job: p.Ref, State: []string{string(core.Running)}, To: last, Limit: shownRuns}
	if over {
		q.From = last.Add(-lookedBack * first.Sub(last))
	} else {
		q.Limit = most
	}
	ctx, cancel := context.WithTimeout(a.Ctx(), atWorkWait)
	defer cancel()
	behind, err := a.ListRuns(ctx, q)
	if err != nil {
		return list
	}
	for _, r := range behind.Runs {
		if !slices.ContainsFunc(p.Runs, func(n client.Run) bool { return n.ID == r.ID }) {
			list = append(list, r)
		}
	}
	return list
}

// isHeld reports whether a run was skipped because of other running ones.
func isHeld(r *client.Run) bool {
	return r.Reason == string(core.ReasonOverlap) || r.Reason == string(core.ReasonQueueFull)
}

// nextOf returns the upcoming runs of a job, as the engine plans them.
func (a *ask) nextOf(j *client.Job) []coming {
	page := must.Get(a.ListUpcoming(a.Ctx(), client.ListUpcomingParams{Job: j.App + "/" + j.Name, For: "366d", Limit: shownNext}))
	loc := locationOf(j.Schedule.Timezone)
	if len(page.Upcoming) == 0 { // none within that time
		for _, at := range j.Next {
			page.Upcoming = append(page.Upcoming, client.Coming{ScheduledAt: at, Cause: string(core.CauseSchedule)})
		}
	}
	list, before := make([]coming, len(page.Upcoming)), a.Now
	for i, c := range page.Upcoming {
		list[i] = coming{At: c.ScheduledAt, Note: a.clockChange(before, c.ScheduledAt, loc)}
		if c.Cause != string(core.CauseSchedule) {
			list[i].Run, list[i].Cause = c.Run, c.Cause
		}
		before = c.ScheduledAt
	}
	return list
}

// clockChange returns a message if the clocks of a zone change between two times, otherwise an empty text.
func (a *ask) clockChange(from, to time.Time, loc *time.Location) string {
	was, is := from.In(loc).Format("-07:00"), to.In(loc).Format("-07:00")
	if was == is {
		return ""
	}
	return a.Say("the clocks change before this time: %s becomes %s", was, is)
}

func locationOf(name string) *time.Location {
	if len(name) <= 64 && name != "Local" {
		if loc, err := time.LoadLocation(name); err == nil {
			return loc
		}
	}
	return time.UTC
}

// FailingSince returns the scheduled time of the first in the series of failures that the newest runs are; zero if
// the newest run did not fail. A run that is retried has not failed.
func (p *jobPage) FailingSince() (since time.Time) {
	for i := range p.Runs {
		switch shape := shapes[core.State(p.Runs[i].State)]; {
		case p.Runs[i].Then != "":
		case shape == "fail":
			since = p.Runs[i].ScheduledAt
		case shape == "ok", shape == "stop":
			return since
		}
	}
	return since
}

// PauseText describes a pause: its author, the paused object, its end and its reason.
func (a *ask) PauseText(p *client.Pause, zone string) template.HTML {
	by := cmp.Or(p.By, "–")
	note := a.Mark("paused by %s since %s", by, a.Time(p.From, zone))
	switch p.Of {
	case "app":
		note = a.Mark("paused with its app by %s since %s", by, a.Time(p.From, zone))
	case "everything":
		note = a.Mark("paused with everything by %s since %s", by, a.Time(p.From, zone))
	}
	if !p.Until.IsZero() {
		note = a.Mark("%s, until %s %s", note, a.Time(p.Until, zone), a.Rel(p.Until))
	}
	if p.Reason != "" {
		note = html("%s: %s", note, p.Reason)
	}
	return note
}

// Barred returns runs as bars, oldest first. The given runs are newest first.
func (a *ask) Barred(runs []client.Run) template.HTML {
	list := make([]Bar, len(runs))
	for i := range runs {
		list[i] = a.barOf(&runs[len(runs)-1-i])
	}
	return a.Bars(list)
}

func (a *ask) RunNote(r client.Run) string {
	if r.State == string(core.Succeeded) || r.Reason == "" && r.Message == "" {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(r.Message), "\n")
	line = clip(line, 120)
	switch {
	case line == "":
		return a.ReasonName(r.Reason)
	case r.Reason == "":
		return line
	}
	return a.ReasonName(r.Reason) + ": " + line
}

// clip returns the first n characters of a text.
func clip(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n]) + "…"
	}
	return text
}

func (p *jobPage) Pairs() []string { return pairs(p.Labels) }

func pairs(m map[string]string) []string {
	list := make([]string, 0, len(m))
	for k, v := range m {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

// Open returns the number of runs that have not ended.
func (p *jobPage) Open() int { return len(p.AtWork) }

// Alive returns the executors that answered their last check.
func (p *jobPage) Alive() (list []client.Executor) {
	for _, x := range p.Executors {
		if x.Live && x.Used {
			list = append(list, x)
		}
	}
	return list
}

// Newest returns the runs that the page shows as rows.
func (p *jobPage) Newest() []client.Run { return p.Runs[:min(len(p.Runs), 12)] }

func (p *jobPage) Paused() bool { return p.State == string(core.Paused) }

func (p *jobPage) IsJSON() bool { return p.Params != "" && json.Valid([]byte(p.Params)) }

// ZoneName returns the name of the job's time zone; UTC if the job has no time zone.
func (a *ask) ZoneName(zone string) string { return cmp.Or(zone, "UTC") }

// Both reports whether the page shows times in two zones, because the user's time zone differs from the job's time zone.
func (a *ask) Both(zone string) bool { return a.Mine() != a.ZoneName(zone) }

func (a *ask) Location(name string) *time.Location { return locationOf(name) }

func (a *ask) Join(by string, list []string) string { return strings.Join(list, by) }

// Beyond describes what happens to runs above the limit.
func (a *ask) Beyond(o *client.Overlap) string {
	switch core.Full(o.WhenFull) {
	case core.FullReplace:
		return a.Say("the next run replaces the longest-running run, which is killed")
	case core.FullQueue:
		return a.Say("the next run waits; at most %d runs wait", o.Max)
	}
	return a.Say("the next run is skipped")
}

// ifResumed describes a paused job if it were resumed now: its next times, and the pauses that would still hold it.
type ifResumed struct {
	Next []time.Time
	Held []*client.Pause
}

// IfResumed describes what would happen if the user resumed the job. Pauses of the app and of everything are included.
func (a *ask) IfResumed(p *jobPage) (out ifResumed) {
	from := a.Now
	hold := func(of string, pause *client.Pause) {
		if pause = a.holds(pause); pause == nil {
			return
		}
		held := *pause
		held.Of = of
		out.Held = append(out.Held, &held)
		if last := pause.Until.Add(-1); last.After(from) { // fires again at the end of a pause
			from = last
		}
	}
	hold("app", p.Of.Pause)
	if status, err := a.GetStatus(a.Ctx()); err == nil {
		hold("everything", status.Pause)
	}
	if slices.ContainsFunc(out.Held, func(h *client.Pause) bool { return h.Until.IsZero() }) {
		return out
	}
	if res, err := a.Preview(a.Ctx(), client.PreviewRequest{Schedule: p.Schedule, JobID: p.ID, From: from, Count: new(5)}); err == nil {
		out.Next = res.Next
	}
	return out
}

// PlainTime formats a time for the middle of a sentence.
func (a *ask) PlainTime(t time.Time, zone string) string {
	return t.In(a.In(zone)).Format("2006-01-02 15:04 MST")
}
