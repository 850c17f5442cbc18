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

// appInputs are the inputs of an app's form except the token.
var appInputs = []input{{"title", "title", "text"}, {"executors", "executors", "lines"}, {"allow", "allow", "lines"},
	{"wait", "waitForExecutor", "text"}, {"inflight", "limits.inFlight", "number"}, {"persecond", "limits.perSecond", "number"},
	{"limit", "overlap.limit", "number"}, {"full", "overlap.whenFull", "raw"}, {"to", "notify.to", "words"}, {"on", "notify.on", "marks"},
	{"quiet", "notify.quiet", "text"}, {"late", "notify.late", "text"}, {"slow", "notify.slow", "text"}}

// appForm returns the values of an app's form. The form has the token only as input: the value token is what to do with
// it (keep, set or none).
func appForm(app client.App) url.Values {
	f := url.Values{"name": {app.Name}, "rev": {itoa(app.Rev)}, "token": {"keep"}}
	mark(f, "hastoken", app.HasToken)
	show(f, as[object](app), appInputs)
	return f
}

// mark sets a value of a form that is set or absent.
func mark(f url.Values, name string, is bool) {
	if f.Del(name); is {
		f.Set(name, "1")
	}
}

// appSpec returns the app with the values of a form; the other fields of the app stay.
func appSpec(app client.App, f url.Values) client.AppSpec {
	o := as[object](app)
	for _, in := range appInputs {
		if in.name != "executors" && in.name != "allow" || f.Has("executors") { // only users with the permission have these fields
			in.read(o, f, in.path)
		}
	}
	spec := as[client.AppSpec](o)
	if spec.Overlap.Limit == 0 {
		spec.Overlap = client.Overlap{}
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
	if f.Get("rev") != "" {
		spec.IfRev = revisionIn(f)
	}
	return spec
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
	spec := appSpec(now, f) // valid, or there would be no conflict
	mine := as[client.App](spec)
	if mine.HasToken = now.HasToken; spec.Token != nil {
		mine.HasToken = *spec.Token != ""
	}
	return manifest.DiffApp(&now, &mine)
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
