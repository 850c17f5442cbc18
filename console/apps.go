package console

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/manifest"
)

type appForm struct {
	Name, Title, Executors, Allow, Wait string
	HasToken                            bool
	Placed                              bool   // whether the form has the fields Executors and Allow
	Token                               string // what to do with the token: keep, set or none
	Secret                              string // the new token, if Token is set
	InFlight, PerSecond                 string
	Limit, Full                         string // the overlap settings
	To, On, Quiet, Late, Slow           string // the notify settings
	Rev                                 string
}

func formOf(app client.App) appForm {
	return appForm{Name: app.Name, Title: app.Title, Executors: strings.Join(app.Executors, "\n"), Allow: strings.Join(app.Allow, "\n"),
		Wait: app.WaitForExecutor, HasToken: app.HasToken, Token: "keep", InFlight: number(app.Limits.InFlight),
		PerSecond: number(app.Limits.PerSecond), Limit: number(app.Overlap.Limit), Full: app.Overlap.WhenFull,
		To: strings.Join(app.Notify.To, " "), On: strings.Join(app.Notify.On, " "), Quiet: app.Notify.Quiet, Late: app.Notify.Late,
		Slow: app.Notify.Slow, Rev: strconv.FormatInt(app.Rev, 10)}
}

func (a *ask) appForm() appForm {
	return appForm{Name: strings.TrimSpace(a.Form("name")), Title: a.Form("title"), Executors: a.Form("executors"), Allow: a.Form("allow"),
		Placed: a.r.PostForm.Has("executors"), Wait: a.Form("wait"), HasToken: a.Form("hastoken") != "", Token: a.Form("token"),
		Secret: a.Form("secret"), InFlight: a.Form("inflight"), PerSecond: a.Form("persecond"), Limit: a.Form("limit"), Full: a.Form("full"),
		To: a.Form("to"), On: strings.Join(a.r.PostForm["on"], " "), Quiet: a.Form("quiet"), Late: a.Form("late"), Slow: a.Form("slow"),
		Rev: a.Form("rev")}
}

func (f appForm) Told(event core.Event) bool {
	return slices.Contains(strings.Fields(f.On), string(event))
}

func specOf(app client.App) client.AppSpec {
	return client.AppSpec{Name: app.Name, Title: app.Title, Set: app.Set, Executors: app.Executors, Allow: app.Allow, Call: app.Call,
		WaitForExecutor: app.WaitForExecutor, Overlap: app.Overlap, Limits: app.Limits, Notify: app.Notify}
}

// into sets the fields of the form in spec; the other fields of the app stay.
func (f appForm) into(spec *client.AppSpec) {
	spec.Title, spec.WaitForExecutor = strings.TrimSpace(f.Title), strings.TrimSpace(f.Wait)
	if f.Placed {
		spec.Executors, spec.Allow = strings.Fields(f.Executors), strings.Fields(f.Allow)
	}
	switch f.Token {
	case "set":
		if f.Secret == "" {
			must.Do(core.Invalid("token", "", "enter the new token"))
		}
		spec.Token = &f.Secret
	case "none":
		spec.Token = new(string)
	}
	spec.Notify.To, spec.Notify.On = strings.Fields(f.To), strings.Fields(f.On)
	spec.Notify.Quiet, spec.Notify.Late, spec.Notify.Slow = strings.TrimSpace(f.Quiet), strings.TrimSpace(f.Late), strings.TrimSpace(f.Slow)
	spec.Overlap.WhenFull = f.Full
	for _, n := range []struct {
		name, text string
		to         *int
	}{{"limits.inFlight", f.InFlight, &spec.Limits.InFlight}, {"limits.perSecond", f.PerSecond, &spec.Limits.PerSecond},
		{"overlap.limit", f.Limit, &spec.Overlap.Limit}} {
		*n.to = wholeNumber(n.name, n.text)
	}
	if spec.Overlap.Limit == 0 {
		spec.Overlap = client.Overlap{}
	}
	if f.Rev != "" {
		rev, err := strconv.ParseInt(f.Rev, 10, 64)
		if err != nil {
			must.Do(core.Invalid("rev", f.Rev, "a whole number is expected"))
		}
		spec.IfRev = &rev
	}
}

// differs returns the differences between the stored app and the form.
func (f appForm) differs(now client.App) []manifest.FieldChange {
	spec, mine := specOf(now), now
	f.into(&spec) // valid, or there would be no conflict
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

type pauseForm struct{ Reason, Until string }

func (a *ask) pauseForm() pauseForm {
	return pauseForm{Reason: a.Form("reason"), Until: a.Form("until")}
}

func (f pauseForm) request(a *ask) client.PauseRequest {
	return client.PauseRequest{Reason: strings.TrimSpace(f.Reason), Until: must.Get(a.when("until", f.Until, a.typedBy()))}
}

func (a *ask) Events() []core.Event { return core.Events }
