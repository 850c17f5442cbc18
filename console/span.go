package console

import (
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/words"
)

// span is the time range of a page: from and to of its URL, or one of presets.
type span struct {
	When     string // name of a preset time range; empty: from and to are set, or no range is set
	From, To time.Time
}

// presets are the time ranges that links can name.
var presets = []struct {
	Name string
	Text core.Text
	back time.Duration
}{
	{"1h", core.Say("last hour"), time.Hour}, {"today", core.Say("today"), 0}, {"yesterday", core.Say("yesterday"), 0},
	{"24h", core.Say("24 hours"), 24 * time.Hour}, {"7d", core.Say("7 days"), 7 * 24 * time.Hour},
	{"month", core.Say("this month"), 0}, {"last-month", core.Say("last month"), 0},
	{"30d", core.Say("30 days"), 30 * 24 * time.Hour}, {"365d", core.Say("a year"), 365 * 24 * time.Hour},
}

// spanOf parses when, from and to of the query. A time without a zone is in the zone that its field named, else in
// the user's zone. The browser is then redirected to a link with zones, which means the same for all users. If a
// field is unchanged, its exact time (SpanFields) is used.
func (a *ask) spanOf() (s span) {
	loc, typed := a.typedIn(a.r.URL.Query()), a.Q("zone") != ""
	for name, at := range map[string]*time.Time{"from": &s.From, "to": &s.To} {
		given, made := a.Q(name), a.Q(name+madeFrom)
		typed = typed || made != ""
		if exact, err := time.Parse(time.RFC3339, made); err == nil && given == fieldOf(exact, loc) {
			*at = exact
			continue
		}
		if given != "" {
			when, bare, err := momentOf(name, given, loc)
			*at = must.Get(when, err)
			typed = typed || bare
		}
	}
	if typed {
		full := map[string]string{}
		for name, at := range map[string]time.Time{"from": s.From, "to": s.To} {
			if !at.IsZero() {
				full[name] = at.Format(time.RFC3339Nano)
			}
		}
		when := a.Q("when")
		if len(full) > 0 {
			when = ""
		}
		to := a.With("from", full["from"], "to", full["to"], "when", when, "zone", "", "from"+madeFrom, "", "to"+madeFrom, "")
		http.Redirect(a.w, a.r, to, http.StatusSeeOther)
		must.Do(errShown)
	}
	if s.When = a.Q("when"); s.When == "" || !s.From.IsZero() || !s.To.IsZero() {
		s.When = ""
		return s
	}
	year, moon, day := a.Now.In(loc).Date()
	today, month := time.Date(year, moon, day, 0, 0, 0, 0, loc), time.Date(year, moon, 1, 0, 0, 0, 0, loc)
	var names []string
	for _, p := range presets {
		names = append(names, p.Name)
		if p.Name != s.When {
			continue
		}
		switch p.Name {
		case "today":
			s.From = today
		case "yesterday":
			s.From, s.To = today.AddDate(0, 0, -1), today
		case "month":
			s.From = month
		case "last-month":
			s.From, s.To = month.AddDate(0, -1, 0), month
		default:
			s.From = a.Now.Add(-p.back).Truncate(time.Minute)
		}
		return s
	}
	must.Do(core.Invalid("when", s.When, "allowed values: %s", strings.Join(names, ", ")))
	return s
}

// Last returns the last moment of a range. Counts exclude To, but lists include it, so it is just before To. For an
// empty range it is To.
func (s span) Last() time.Time {
	if s.To.After(s.From) {
		return s.To.Add(-1)
	}
	return s.To
}

// momentOf parses a time; bare reports that it has no zone.
func momentOf(field, given string, loc *time.Location) (at time.Time, bare bool, err error) {
	if at, err = time.Parse(time.RFC3339, given); err == nil && at.Unix() > 0 { // the API would treat a zero time as absent
		return at, false, nil
	}
	for _, form := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02"} {
		if at, err = time.Parse(form, given); err == nil && at.Unix() > 0 {
			return schedule.WallTime(at, loc), true, nil
		}
	}
	return at, false, core.Invalid(field, given, "must be a time such as 2026-11-20T02:30")
}

func (a *ask) SpanLinks(s span, names ...string) template.HTML {
	var b markup
	for _, p := range presets {
		for _, name := range names {
			if name == p.Name {
				b.add("%s", a.chip(a.With("when", p.Name, "from", "", "to", ""), words.Say(a.Lang, p.Text), s.When == p.Name))
			}
		}
	}
	return b.html()
}

// chip returns a filter link, and marks it if it is on.
func (a *ask) chip(to string, word any, on bool) template.HTML {
	current := template.HTML("")
	if on {
		current = ` aria-current="true"`
	}
	return html(`<a class=chip href="%s"%s>%s</a> `, to, current, word)
}

// madeFrom is the suffix of the hidden field with the exact time of a field.
const madeFrom = "-at"

// SpanFields returns the input fields of a time range that is not a preset, in the user's time zone. An input field
// has no fractions of a second, and an hour is ambiguous when clocks are set back. Therefore each field has the exact
// time in a second field. The form also has the time zone, because the user can change the time zone before sending
// the form.
func (a *ask) SpanFields(when string, from, to time.Time) template.HTML {
	if when != "" {
		from, to = time.Time{}, time.Time{}
	}
	field := func(name, label string, at time.Time) (out template.HTML) {
		value, more := fieldOf(at, a.In("")), template.HTML("")
		if len(value) > len("2006-01-02T15:04") {
			more = ` step="1"`
		}
		out = html(`%s <input type="datetime-local" name="%s" value="%s"%s>`, label, name, value, more)
		if !at.IsZero() {
			out += html(`<input type="hidden" name="%s" value="%s">`, name+madeFrom, at.Format(time.RFC3339Nano))
		}
		return out
	}
	return html(`<label class="muted">%s</label> <label class="muted">%s %s</label><input type="hidden" name="zone" value="%s">`,
		field("from", a.Say("from"), from), field("to", a.Say("to"), to), City(a.In("")), a.Reader())
}

// fieldOf formats a time as a browser keeps it in a field: with seconds only if they are not 0.
func fieldOf(t time.Time, loc *time.Location) string {
	if t.IsZero() {
		return ""
	}
	return strings.TrimSuffix(t.In(loc).Format("2006-01-02T15:04:05"), ":00")
}

// Reader returns the time zone for times that belong to no job, in output and input.
func (a *ask) Reader() string { return a.In("").String() }

func (a *ask) RFC(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func rfc(t time.Time) string { return t.UTC().Format(time.RFC3339) }
