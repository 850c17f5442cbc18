package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/server"
)

// table prints rows in columns; the first row is the heading.
func table(w io.Writer, rows [][]string, colors ...paint) {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	all := make([][]string, len(rows))
	for r, row := range rows {
		for _, cell := range row {
			all[r] = append(all[r], oneLine(cell))
		}
		fmt.Fprintln(tw, strings.Join(all[r], "\t"))
	}
	tw.Flush()
	r := 0
	for line := range strings.Lines(b.String()) {
		line = strings.TrimRight(line, " \n")
		if len(colors) > 0 {
			line = paints(colors).on(r, all[r], line)
		}
		fmt.Fprintln(w, line)
		r++
	}
}

// card is a table of names and values; its first row is the title.
type card [][]string

// add adds a row unless value is empty.
func (c *card) add(name, value string) {
	if value != "" {
		*c = append(*c, []string{"  " + name, value})
	}
}

// oneLine is text that cannot break a table or steer a terminal.
func oneLine(text string) string {
	return visible(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return ' '
		}
		return r
	}, text))
}

// visible escapes characters in a text of several lines that could control a terminal or disguise the text, as JSON would. All
// output for people passes through it, because texts come from servers, executors and anything in their place.
func visible(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if !strings.ContainsFunc(text, steers) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if steers(r) && r != '\n' && r != '\t' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// steers reports whether a terminal does something else with a character than to show
// it: control characters, and what turns the direction of a text.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// zone is where times of a job are shown.
func (e *Env) zone(name string) *time.Location {
	if e.UTC || name == "" {
		return time.UTC
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return loc
}

const fullForm = "2006-01-02 15:04:05 Z07:00"

func (e *Env) full(t time.Time, zone string) string {
	if t.IsZero() {
		return "-"
	}
	form := fullForm
	if t.Nanosecond() != 0 {
		form = "2006-01-02 15:04:05.000 Z07:00"
	}
	return t.In(e.zone(zone)).Format(form)
}

// fullOr is full, with another text for the zero time.
func (e *Env) fullOr(t time.Time, zone, none string) string {
	if t.IsZero() {
		return none
	}
	return e.full(t, zone)
}

// short formats t without the parts that t and now share.
func (e *Env) short(t, now time.Time, zone string) string {
	loc := e.zone(zone)
	t, now = t.In(loc), now.In(loc)
	clock := "15:04 Z07:00"
	if t.Second() != 0 {
		clock = "15:04:05 Z07:00"
	}
	away := t.Sub(now).Abs()
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04:05 Z07:00")
	case away < 300*24*time.Hour:
		return t.Format("Mon 2 Jan " + clock)
	}
	return t.Format("2006-01-02 " + clock)
}

// soon is short with how long that is away.
func (e *Env) soon(t, now time.Time, zone string) string {
	away := t.Sub(now)
	switch {
	case e.still:
		return e.short(t, now, zone)
	case away < 0:
		return e.short(t, now, zone) + " (now)"
	case away < time.Second:
		return fmt.Sprintf("%s (in %.1f s)", e.short(t, now, zone), away.Seconds())
	}
	return e.short(t, now, zone) + " (in " + span(away) + ")"
}

// span is how long d is, in the words of the server's own lines.
func span(d time.Duration) string { return server.Span(d) }

// parseTime reads a time as people write it: with an offset, or in loc as date
// and time, date, time of day, or as a span from now. In the past, a span and a
// time of day count back.
func parseTime(field, text string, loc *time.Location, now time.Time, past bool) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil && t.Unix() > 0 {
		return t, nil
	}
	for _, form := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil && t.Unix() > 0 { // the server would treat a zero time as omitted
			return schedule.WallTime(t, loc), nil
		}
	}
	for _, form := range []string{"15:04:05", "15:04"} {
		c, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		day := now.In(loc)
		at := func(days int) time.Time {
			return schedule.WallTime(time.Date(day.Year(), day.Month(), day.Day()+days, c.Hour(), c.Minute(), c.Second(), 0, time.UTC), loc)
		}
		switch t := at(0); {
		case !past && !t.After(now):
			return at(1), nil
		case past && t.After(now):
			return at(-1), nil
		default:
			return t, nil
		}
	}
	if text == "now" {
		return now, nil
	}
	if d, err := api.ParseDuration(strings.TrimLeft(text, "+-")); err == nil {
		if past {
			d = -d
		}
		return now.Add(d), nil
	}
	return time.Time{}, core.Invalid(field, text,
		"allowed values: 2026-11-20T02:30:00+01:00, 2026-11-20T02:30, 2026-11-20, 02:30 and a duration such as 10m")
}

// scheduleText is the schedule of a job in words, or as written if there are none.
func scheduleText(j *client.Job) string {
	if j.Description != "" {
		return j.Description
	}
	s := j.Schedule
	switch {
	case s.Cron != "":
		return "cron " + s.Cron
	case s.Crontab != "":
		return "crontab " + s.Crontab
	case s.Every != "":
		return "every " + s.Every
	case s.FixedDelay != "":
		return s.FixedDelay + " after the last run"
	case !s.At.IsZero():
		return "once"
	case len(s.Any) > 0:
		return fmt.Sprintf("%d schedules", len(s.Any))
	}
	if len(j.After) > 0 {
		return "after other jobs"
	}
	return "manual triggers only"
}

// stateText returns the state of a run and when it is retried. A failed run without a retry has failed for good.
func (e *Env) stateText(r *client.Run) string { return howText(r) + e.againText(r) }

// howText returns a state with its reason, which it omits for timeouts, and the attempt if the run can be retried.
func howText(r *client.Run) string {
	text := r.State
	if total := r.Attempt + r.Retries; total > 1 && (r.Attempt > 1 || core.State(r.State).Failure()) {
		text += fmt.Sprintf(" %d/%d", r.Attempt, total)
	}
	if r.Reason != "" && r.Reason != string(core.ReasonTimeout) {
		text += ": " + r.Reason
	}
	return text
}

func (e *Env) againText(r *client.Run) string {
	switch {
	case r.Then == "":
		return ""
	case r.ThenAt.IsZero():
		return ", retried"
	}
	return ", retry at " + e.short(r.ThenAt, time.Now(), r.Timezone)
}

func runName(r *client.Run) string {
	if r.Job != "" {
		return r.Job
	}
	return fmt.Sprintf("%s/%d (deleted)", r.App, r.JobID)
}

func lateness(r *client.Run) string {
	if r.LatenessMs == nil {
		return "-"
	}
	return "+" + span(time.Duration(*r.LatenessMs)*time.Millisecond)
}

func took(r *client.Run) string {
	if r.SentAt.IsZero() || r.EndedAt.IsZero() {
		return "-"
	}
	return span(r.EndedAt.Sub(r.SentAt))
}

// firstLine is the first line of a message.
func (e *Env) firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return e.truncate(line, 80)
}

// shownLines is how many lines of a text a card shows.
const shownLines = 20

// addLines adds each line of a text as a row; note ends the first.
func (e *Env) addLines(add func(name, value string), name, text, note string) {
	lines := strings.Split(strings.TrimRight(text, "\r\n"), "\n")
	for i, line := range lines[:min(len(lines), shownLines)] {
		if line = e.truncate(line, 80); i == 0 {
			line += note
		}
		if line == "" && len(lines) > 1 {
			line = " " // add would drop an empty row
		}
		add(name, line)
		name = ""
	}
	if more := len(lines) - shownLines; more > 0 {
		add("", "and "+plural(more, "more line")+": -o json has all")
	}
}

// truncate is a text that leaves room for others on a terminal. Programs get all of it.
func (e *Env) truncate(text string, n int) string {
	if r := []rune(text); len(r) > n && terminal(e.Stdout) {
		return string(r[:n-1]) + "…"
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// timeOf reads a time in a zone as parseTime does; zero without a text.
func (e *Env) timeOf(field, text, zone string, past bool) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return parseTime(field, text, e.zone(zone), time.Now(), past)
}

// spanOf reads the two ends of a span in the past; empty ends stay open.
func (e *Env) spanOf(from, to, zone string) (f, t time.Time, err error) {
	if f, err = e.timeOf("from", from, zone, true); err != nil {
		return f, t, err
	}
	t, err = e.timeOf("to", to, zone, true)
	return f, t, err
}
