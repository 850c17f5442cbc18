package console

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/words"
)

// Formats that all pages share. A template.HTML result contains only text that html has escaped here.

// html fills markup with text. It escapes every argument that is not markup already.
func html(format string, args ...any) template.HTML {
	for i, arg := range args {
		switch arg := arg.(type) {
		case template.HTML:
			args[i] = string(arg)
		case string:
			args[i] = template.HTMLEscapeString(arg)
		case int, int64, int32, float64:
		default:
			args[i] = template.HTMLEscapeString(fmt.Sprint(arg))
		}
	}
	return template.HTML(fmt.Sprintf(format, args...))
}

// markup is HTML under construction.
type markup struct{ strings.Builder }

// add adds markup filled with text, as html returns it.
func (m *markup) add(format string, args ...any) { m.WriteString(string(html(format, args...))) }

func (m *markup) html() template.HTML { return template.HTML(m.String()) }

// HTML is html for templates.
func (a *ask) HTML(format string, args ...any) template.HTML { return html(format, args...) }

// lists are the values of fields with a closed list, and suggestions for some others.
var lists = map[string]any{"audit": []string{"24h", "1h", "7d", "31d"}, "causes": core.Causes, "channels": core.ChannelKinds,
	"ends":   slices.DeleteFunc(slices.Clone(core.States), core.State.Open),
	"events": core.Events, "languages": namesOf(words.Languages), "roles": access.Roles, "tls": []string{"starttls", "implicit", "none"},
	"zones": zones}

func (a *ask) List(name string) any { return lists[name] }

// LanguageOf returns the name of a language in this language, such as "中文".
func (a *ask) LanguageOf(l string) string { return words.Name(words.Language(l)) }

// Say returns a sentence in the user's language.
func (a *ask) Say(code string, args ...any) string { return words.Say(a.Lang, core.Say(code, args...)) }

// Text returns a text in the user's language.
func (a *ask) Text(t core.Text) string { return words.Say(a.Lang, t) }

// zone is the user's choice of time zone.
type zone struct {
	mode string // job, mine, utc
	mine *time.Location
}

func zoneOf(r *http.Request) zone {
	z := zone{mode: "job", mine: time.UTC}
	if k, err := r.Cookie(tzCookie); err == nil {
		z.mine = locationOf(strings.ReplaceAll(k.Value, "%2F", "/"))
	}
	if k, err := r.Cookie(zoneCookie); err == nil && (k.Value == "mine" || k.Value == "utc") {
		z.mode = k.Value
	}
	return z
}

// ZoneMode returns the time zones in which times are shown: "job" for the job's zone, "mine" for the user's zone, or
// "utc".
func (a *ask) ZoneMode() string { return a.zone.mode }

func (a *ask) Mine() string { return a.zone.mine.String() }

// In returns the time zone in which the times of a job are shown. The parameter name is the name of the job's time zone.
func (a *ask) In(name string) *time.Location {
	switch {
	case a.zone.mode == "utc":
		return time.UTC
	case a.zone.mode == "job" && name != "":
		return locationOf(name)
	}
	return a.zone.mine
}

// City returns the short name of a time zone for display after a time: the last part of the zone's name.
func City(loc *time.Location) string {
	name := loc.String()
	return strings.ReplaceAll(name[strings.LastIndex(name, "/")+1:], "_", " ")
}

// Time formats a time with its time zone, in the zone that the user selected. The parameter zone is the name of the job's
// time zone, or empty. The day is left out if it is today. The seconds are left out if they are 0.
func (a *ask) Time(t time.Time, zone string) template.HTML {
	if t.IsZero() {
		return html(`<span class=muted>–</span>`)
	}
	return a.momentIn(t, a.In(zone), true)
}

// At formats a time in a time zone whose name the page shows in another place.
func (a *ask) At(t time.Time, loc *time.Location) template.HTML { return a.momentIn(t, loc, false) }

func (a *ask) momentIn(t time.Time, loc *time.Location, named bool) template.HTML {
	at, now := t.In(loc), a.Now.In(loc)
	form := "15:04"
	if at.Second() != 0 {
		form = "15:04:05"
	}
	days := int(midnight(at).Sub(midnight(now)).Round(24*time.Hour) / (24 * time.Hour))
	text := at.Format(form)
	switch {
	case days == 0:
	case days == 1:
		text = a.Say("tomorrow %s", text)
	case days == -1:
		text = a.Say("yesterday %s", text)
	case days > 1 && days < 7:
		text = a.Weekday(at) + " " + text
	case at.Year() == now.Year():
		text = at.Format("01-02 ") + text
	default:
		text = at.Format("2006-01-02 ") + text
	}
	tail := template.HTML("")
	if named {
		tail = html(` <span class=zone>%s</span>`, City(loc))
	}
	return timeTag(at, text) + tail
}

// timeTag returns a text for a time, with the exact time as its title.
func timeTag(at time.Time, text string) template.HTML {
	return html(`<time datetime="%s" title="%s">%s</time>`, at.UTC().Format(time.RFC3339Nano),
		at.Format("2006-01-02 15:04:05.000 -07:00 ")+at.Location().String(), text)
}

func midnight(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 12, 0, 0, 0, time.UTC)
}

func (a *ask) Weekday(t time.Time) string {
	return words.Say(a.Lang, weekdays[t.Weekday()])
}

var weekdays = []core.Text{core.Say("Sun"), core.Say("Mon"), core.Say("Tue"), core.Say("Wed"), core.Say("Thu"),
	core.Say("Fri"), core.Say("Sat")}

// Rel formats the difference between a time and the current time, such as "in 12 h" or "3 min ago". The page's script
// keeps the text current.
func (a *ask) Rel(t time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	d := t.Sub(a.Now)
	whole := max(d, -d).Round(time.Second)
	text := a.Say("in %s", a.Whole(whole))
	if d < 0 {
		text = a.Say("%s ago", a.Whole(whole))
	}
	return html(`<span class="muted rel" data-at="%d">%s</span>`, t.UnixMilli(), text)
}

// Far returns the translated phrases and time units, separated by |, that the page's script needs to keep relative times
// such as "3 min ago" current. See Rel.
func (a *ask) Far() string {
	return strings.Join([]string{a.Say("in %s", "{}"), a.Say("%s ago", "{}"), a.Whole(0), a.Whole(time.Minute),
		a.Whole(2 * time.Hour), a.Whole(48 * time.Hour)}, "|")
}

// Clock shows the time of the server, which the page's script keeps current. When a page refreshes, Clock is empty, so
// that an unchanged page has unchanged HTML.
func (a *ask) Clock() template.HTML {
	if a.Partial() {
		return ""
	}
	loc := a.In("")
	return html(`<span data-clock="%d" data-zone="%s">%s</span> <span class=zone>%s</span>`, a.Now.Unix(), loc.String(),
		a.Now.In(loc).Format("15:04:05"), City(loc))
}

// Span formats a duration in its largest unit, or in two units if one unit is not precise enough.
func (a *ask) Span(d time.Duration) string {
	switch {
	case d < 0:
		return a.Span(-d)
	case d < time.Second:
		return a.Say("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return a.Say("%s s", fmt.Sprintf("%.1f", d.Seconds()))
	case d < time.Minute:
		return a.Say("%d s", int(d.Seconds()))
	case d < 10*time.Minute:
		if s := int(d.Seconds()) % 60; s != 0 {
			return a.Say("%d min %d s", int(d.Minutes()), s)
		}
		return a.Say("%d min", int(d.Minutes()))
	case d < 2*time.Hour:
		return a.Say("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return a.Say("%d h", int(d.Hours()))
	}
	return a.Say("%d d", int(d.Hours()/24))
}

// Ms formats a duration that is given in milliseconds.
func (a *ask) Ms(ms int64) string { return a.Span(time.Duration(ms) * time.Millisecond) }

// Mark returns a sentence in which the arguments, which can be markup, replace each %s.
func (a *ask) Mark(code string, args ...any) template.HTML {
	places := make([]any, len(args))
	for i := range args {
		places[i] = fmt.Sprintf("\x00%d\x00", i) // no sentence has it, and no data is in the sentence yet
	}
	said := template.HTMLEscapeString(strings.ReplaceAll(a.Say(code, places...), "\x00", "\uE000"))
	pairs := make([]string, 0, 2*len(args))
	for i, arg := range args {
		pairs = append(pairs, fmt.Sprintf("\uE000%d\uE000", i), string(html("%v", arg)))
	}
	return template.HTML(strings.NewReplacer(pairs...).Replace(said)) // all at once, because inserted text can look like a place
}

func (a *ask) Moment(t time.Time, zone string) string {
	return t.In(a.In(zone)).Format("2006-01-02 15:04:05 ") + City(a.In(zone))
}

// Stamp formats a time with milliseconds, for a column of times that cover about one day.
func (a *ask) Stamp(t time.Time, zone string) template.HTML {
	if t.IsZero() {
		return ""
	}
	at, form := t.In(a.In(zone)), "15:04:05.000"
	if midnight(at) != midnight(a.Now.In(a.In(zone))) {
		form = "01-02 15:04:05"
	}
	return timeTag(at, at.Format(form))
}

// Whole formats a duration in whole seconds, or in its largest unit.
func (a *ask) Whole(d time.Duration) string {
	if d < time.Minute {
		return a.Say("%d s", int(d.Seconds()))
	}
	return a.Span(d.Truncate(time.Minute))
}

// StateName and ReasonName return the display names of a stored state and a stored reason.
func (a *ask) StateName(s string) string  { return words.State(a.Lang, core.State(s)) }
func (a *ask) ReasonName(s string) string { return words.Reason(a.Lang, core.Reason(s)) }

// shapes has the shape and color of each state: a class of app.css.
var shapes = map[core.State]string{core.Planned: "plan", core.Queued: "wait", core.Running: "run", core.Succeeded: "ok",
	core.Failed: "fail", core.TimedOut: "fail", core.Lost: "fail", core.Killed: "stop", core.Skipped: "skip"}

func (a *ask) Shape(state string) string { return shapes[core.State(state)] }

// State returns a run's state as a shape, a color and a word. A run that succeeded but was sent late is shown as late.
func (a *ask) State(r *client.Run) template.HTML {
	if r == nil {
		return html(`<span class=muted>%s</span>`, a.Say("never ran"))
	}
	if isLate(r) {
		return html(`<span class="s late">%s</span>`, a.Say("late"))
	}
	return html(`<span class="s %s">%s</span>`, shapes[core.State(r.State)], a.StateName(r.State))
}

// isLate reports whether a run succeeded, but was sent late.
func isLate(r *client.Run) bool {
	return r.State == string(core.Succeeded) && r.LatenessMs != nil && *r.LatenessMs >= lateMs
}

var causes = map[core.Cause]core.Text{core.CauseSchedule: core.Say("by schedule"), core.CauseMisfire: core.Say("late, by schedule"),
	core.CauseManual: core.Say("by hand"), core.CauseAPI: core.Say("by API"), core.CauseParent: core.Say("by parent job"),
	core.CauseRetry: core.Say("tried again")}

func (a *ask) CauseName(cause string) string { return words.Say(a.Lang, causes[core.Cause(cause)]) }

// lateMs is the lateness from which a run is shown as late: the default in core.
const lateMs = 60_000

func (a *ask) Took(r *client.Run) string {
	switch {
	case r == nil || r.SentAt.IsZero():
		return ""
	case r.EndedAt.IsZero():
		return a.Span(a.Now.Sub(r.SentAt))
	}
	return a.Span(r.EndedAt.Sub(r.SentAt))
}

// A Bar is one run in a row of bars.
type Bar struct {
	Shape string        // shape of the bar: a value of the variable shapes, or late
	Took  time.Duration // height of the bar, relative to the longest run
}

func (a *ask) Bars(list []Bar) template.HTML {
	if len(list) == 0 {
		return ""
	}
	longest, failed := time.Duration(0), 0
	for _, b := range list {
		if longest = max(longest, b.Took); b.Shape == "fail" {
			failed++
		}
	}
	var s markup
	s.add(`<svg class=bars viewBox="0 0 122 20" role=img aria-label="%s">`, a.Say("last runs: %d, failed: %d", len(list), failed))
	paths := map[string]*strings.Builder{} // one element for each color, because a list has thousands of bars
	for i, b := range list[max(0, len(list)-30):] {
		h := 4.0
		if longest > 0 {
			h = max(4, 18*float64(b.Took)/float64(longest))
		}
		if b.Shape == "skip" {
			h = 2
		}
		if paths[b.Shape] == nil {
			paths[b.Shape] = &strings.Builder{}
		}
		fmt.Fprintf(paths[b.Shape], "M%d %.1fh3V20h-3z", i*4+1, 20-h)
	}
	for _, shape := range slices.Sorted(maps.Keys(paths)) {
		s.add(`<path class="b-%s" d="%s"/>`, shape, paths[shape])
	}
	s.add(`</svg>`)
	return s.html()
}

// holds returns a pause of an app or of everything that has not ended, otherwise nil.
func (a *ask) holds(p *client.Pause) *client.Pause {
	if p == nil || !p.Until.IsZero() && !p.Until.After(a.Now) {
		return nil
	}
	return p
}

// PauseNote describes a pause: its author, its end and its reason.
func (a *ask) PauseNote(p *client.Pause) string {
	text := a.Say("paused by %s", cmp.Or(p.By, "?"))
	if !p.Until.IsZero() {
		text = a.Say("%s until %s", text, p.Until.In(a.In("")).Format("2006-01-02 15:04 ")+City(a.In("")))
	}
	if p.Reason != "" {
		text = a.Say("%s: %s", text, p.Reason)
	}
	return text
}

// Clip shortens a text.
func (a *ask) Clip(text string) string { return clip(text, 100) }

func (a *ask) JobLink(job string) template.HTML {
	if job == "" {
		return html(`<span class=muted>%s</span>`, a.Say("a deleted job"))
	}
	if !strings.Contains(job, "/") { // only the number is known
		return html(`<span class=muted>#%s</span>`, job)
	}
	return html(`<a class=job href="%s">%s</a>`, a.JobPath(job), job)
}

func (a *ask) RunPath(id string) string { return Root + "runs/" + id }

func (a *ask) RunLink(id string) template.HTML {
	return html(`<a class=mono href="%s">%s</a>`, a.RunPath(id), id)
}

func (a *ask) AppLink(app string) template.HTML {
	return html(`<a href="%sexecutors/%s">%s</a>`, Root, url.PathEscape(app), app)
}

// Cli shows a command, which is given in parts.
func (a *ask) Cli(parts ...string) template.HTML {
	return html(`<div class=cli tabindex=0>%s</div>`, strings.Join(parts, ""))
}

func (a *ask) Menu() (parts [][]entry) {
	for _, e := range a.c.menu {
		if e.Name == "users" && !a.IsAdmin() {
			continue
		}
		for len(parts) <= e.Part {
			parts = append(parts, nil)
		}
		parts[e.Part] = append(parts[e.Part], e)
	}
	return parts
}

func (a *ask) Current(e entry) bool { return a.page == e.Name }

func (a *ask) Deployment() string { return a.c.o.Name }

// Self returns the URL of this page. If the page is the answer to a form, Self returns the URL of the page with the
// form.
func (a *ask) Self() string {
	if from, err := url.Parse(a.r.Referer()); err == nil && a.Posted() {
		return here(from.RequestURI())
	}
	return a.r.URL.RequestURI()
}
