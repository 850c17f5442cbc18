package console

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/manifest"
)

// appForm returns the values of an app's form. The form has the token only as input: the value token is what to do with
// it (keep, set or none).
func appForm(app client.App) url.Values {
	f := url.Values{"name": {app.Name}, "rev": {itoa(app.Rev)}, "title": {app.Title}, "token": {"keep"},
		"executors": {strings.Join(app.Executors, "\n")}, "allow": {strings.Join(app.Allow, "\n")}, "wait": {app.WaitForExecutor},
		"inflight": {number(app.Limits.InFlight)}, "persecond": {number(app.Limits.PerSecond)},
		"limit": {number(app.Overlap.Limit)}, "full": {app.Overlap.WhenFull},
		"to": {strings.Join(app.Notify.To, " ")}, "on": app.Notify.On, "quiet": {app.Notify.Quiet}, "late": {app.Notify.Late},
		"slow": {app.Notify.Slow}}
	mark(f, "hastoken", app.HasToken)
	return f
}

// mark sets a value of a form that is set or absent.
func mark(f url.Values, name string, is bool) {
	if f.Del(name); is {
		f.Set(name, "1")
	}
}

func specOf(app client.App) client.AppSpec {
	return client.AppSpec{Name: app.Name, Title: app.Title, Set: app.Set, Executors: app.Executors, Allow: app.Allow, Call: app.Call,
		WaitForExecutor: app.WaitForExecutor, Overlap: app.Overlap, Limits: app.Limits, Notify: app.Notify}
}

// fillApp sets the values of a form in spec; the other fields of the app stay.
func fillApp(spec *client.AppSpec, f url.Values) {
	text := func(name string) string { return strings.TrimSpace(f.Get(name)) }
	spec.Title, spec.WaitForExecutor = text("title"), text("wait")
	if f.Has("executors") { // only users with the permission have these fields
		spec.Executors, spec.Allow = strings.Fields(f.Get("executors")), strings.Fields(f.Get("allow"))
	}
	switch f.Get("token") {
	case "set":
		if f.Get("secret") == "" {
			must.Do(core.Invalid("token", "", "enter the new token"))
		}
		spec.Token = new(f.Get("secret"))
	case "none":
		spec.Token = new(string)
	}
	spec.Notify.To, spec.Notify.On = strings.Fields(f.Get("to")), f["on"]
	spec.Notify.Quiet, spec.Notify.Late, spec.Notify.Slow = text("quiet"), text("late"), text("slow")
	spec.Limits.InFlight = wholeNumber("limits.inFlight", f.Get("inflight"))
	spec.Limits.PerSecond = wholeNumber("limits.perSecond", f.Get("persecond"))
	spec.Overlap.WhenFull = f.Get("full")
	if spec.Overlap.Limit = wholeNumber("overlap.limit", f.Get("limit")); spec.Overlap.Limit == 0 {
		spec.Overlap = client.Overlap{}
	}
	if f.Get("rev") != "" {
		spec.IfRev = revisionIn(f)
	}
}

// revisionIn returns the revision that a form changes.
func revisionIn(f url.Values) *int64 {
	rev, err := strconv.ParseInt(f.Get("rev"), 10, 64)
	if err != nil {
		must.Do(core.Invalid("rev", f.Get("rev"), "a whole number is expected"))
	}
	return &rev
}

// appDiffers returns the differences between the stored app and a form.
func appDiffers(now client.App, f url.Values) []manifest.FieldChange {
	spec, mine := specOf(now), now
	fillApp(&spec, f) // valid, or there would be no conflict
	mine.Title, mine.Executors, mine.Allow, mine.WaitForExecutor = spec.Title, spec.Executors, spec.Allow, spec.WaitForExecutor
	mine.Overlap, mine.Limits, mine.Notify = spec.Overlap, spec.Limits, spec.Notify
	if spec.Token != nil {
		mine.HasToken = *spec.Token != ""
	}
	return manifest.DiffApp(&now, &mine)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// wholeNumber parses an optional number; empty is 0.
func wholeNumber(name, text string) int {
	if text = strings.TrimSpace(text); text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		must.Do(core.Invalid(name, text, "a whole number is expected"))
	}
	return n
}

// pauseRequest reads the form of a pause.
func (a *ask) pauseRequest() client.PauseRequest {
	return client.PauseRequest{Reason: strings.TrimSpace(a.Form("reason")), Until: must.Get(a.when("until", a.Form("until"), a.typedBy()))}
}

func (a *ask) Events() []core.Event { return core.Events }
