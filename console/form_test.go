package console_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// lineEnds converts the line ends of a page as a browser does.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// fields returns the values of a form by name, as a browser reads them.
func fields(body string) url.Values {
	v := url.Values{}
	body = lineEnds.Replace(body)
	for _, tag := range strings.Split(body, "<")[1:] {
		name := cutOut(tag, ` name="`, `"`)
		if name == "" || strings.HasPrefix(tag, "button") {
			continue
		}
		switch {
		case strings.HasPrefix(tag, "textarea"):
			_, text, _ := strings.Cut(tag, ">")
			v.Set(name, html.UnescapeString(strings.TrimPrefix(text, "\n")))
		case strings.HasPrefix(tag, "select"):
			rest := body[strings.Index(body, "<"+tag):]
			rest, _, _ = strings.Cut(rest, "</select>")
			for _, option := range strings.Split(rest, "<option")[1:] {
				if strings.Contains(option, " selected") || !v.Has(name) {
					value, text, _ := strings.Cut(option, ">")
					if text, _, _ = strings.Cut(text, "<"); strings.Contains(value, `value="`) {
						text = cutOut(value, `value="`, `"`)
					}
					v.Set(name, text)
				}
			}
		case strings.Contains(tag, `type="radio"`), strings.Contains(tag, `type="checkbox"`):
			if strings.Contains(tag, " checked") {
				v.Add(name, cutOut(tag, ` value="`, `"`))
			}
		case strings.HasPrefix(tag, "input"):
			value := html.UnescapeString(cutOut(tag, ` value="`, `"`))
			if strings.Contains(tag, `type="hidden"`) {
				v.Add(name, value)
			} else {
				v.Set(name, strings.ReplaceAll(value, "\n", ""))
			}
		}
	}
	return v
}

func cutOut(s, begin, end string) string {
	_, rest, ok := strings.Cut(s, begin)
	if !ok {
		return ""
	}
	text, _, _ := strings.Cut(rest, end)
	return text
}

// form returns the values that a form on a page would send, with other values in pairs.
func (s *site) form(path string, pairs ...string) url.Values {
	s.t.Helper()
	body := cutOut(s.get(path).Body.String(), `<form class="stack full"`, "</form>")
	return with(fields(body), pairs...)
}

func with(v url.Values, pairs ...string) url.Values {
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

// holds checks the values of a form, given as pairs of name and value.
func holds(t *testing.T, form url.Values, pairs ...string) {
	t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		check.Equal(t, form.Get(pairs[i]), pairs[i+1], "%s", pairs[i])
	}
}

// again posts a form that is shown again with a status and the texts, and returns its values.
func (s *site) again(path string, form url.Values, texts ...string) url.Values {
	s.t.Helper()
	return fields(s.posts(path, form, http.StatusOK, texts...).Body.String())
}

// typing sends a form as an open page does while the user types.
func (s *site) typing(path string, form url.Values) string {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://console.test"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("HX-Request", "true")
	w := s.do(r)
	check.Equal(s.t, w.Code, http.StatusOK, "typing")
	return html.UnescapeString(w.Body.String())
}

// TestPreviewIsOfTheJob: if times depend on the job, the preview of an existing job has its own times, and of a new
// job example times.
func TestPreviewIsOfTheJob(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/first", `{"handler":"x"}`)
	s.ask("PUT", "/v1/jobs/shop/spread", `{"handler":"x","schedule":{"every":"1h"}}`)
	const path = "/console/jobs/shop/spread/edit"
	form := s.form("/console/jobs/shop/spread?view=edit", "expr.0", "10h")
	typed := s.typing(path, form)
	s.never(typed, `class="warn"`)
	s.typing("/console/jobs/new", s.form("/console/jobs/new?app=shop", "name", "new", "handler", "x", "kind.0", "every", "expr.0", "10h"))
	s.compare("a new job has examples", ".warn")
	s.done(path, form)
	j := s.Job("shop/spread")
	for _, at := range s.M.NextOf(&j, 2) {
		if clock := at.Time().Format("15:04"); !strings.Contains(typed, clock) {
			t.Errorf("it runs at %s, but its form showed\n%s", clock, cutOut(typed, `id="check"`, "</form>"))
		}
	}
	s.ask("POST", "/v1/jobs/shop/spread/pause", `{}`)
	s.says("/console/jobs/shop/spread?panel=resume", s.M.NextOf(&j, 1)[0].Time().Format("15:04"))
}

// TestCommonSchedules: the form offers common schedules, each with a description in the user's language. Without the
// script, a button applies one.
func TestCommonSchedules(t *testing.T) {
	s := goldenConsole(t)
	body := s.shows("[name=common]", "/console/jobs/new", `value="crontab 0 9 * * 1-5">`, `value="cron 0 0 18 L * ?"`)
	presets := strings.Split(cutOut(body, "data-common>", "</select>"), `<option value="`)[2:]
	check.Equal(t, len(presets), 13, "are offered")
	form := s.form("/console/jobs/new?app=shop", "name", "ledger", "handler", "h")
	for _, preset := range presets {
		value, _, _ := strings.Cut(preset, `"`)
		kind, expr, _ := strings.Cut(value, " ")
		s.never(s.typing("/console/jobs/new", with(form, "kind.0", kind, "expr.0", expr)), `class="error"`)
	}
	with(form, "kind.1", "every", "expr.1", "1h", "do", "common", "common", "cron 0 0 18 L * ?")
	holds(t, s.again("/console/jobs/new", form), "kind.1", "cron", "expr.1", "0 0 18 L * ?", "name", "ledger")
	holds(t, s.again("/console/jobs/new", with(form, "common", "")), "kind.1", "every", "expr.1", "1h") // no schedule is selected
	s.in("zh")
	s.shows("[name=common]", "/console/jobs/new")
}

// TestTwoViewsLoseNothing: fields that the form does not show, and secrets, survive a change of view in both
// directions, and both views store them. The preview beside the form shows no secret.
func TestTwoViewsLoseNothing(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/apps/web", `{"executors": ["call:https://example.com"]}`)
	text := "version: 1\nset: nightly\n\njobs:\n  - app: web\n    name: ping\n    handler: GET /ping\n" +
		"    schedule: {crontab: \"0 3 * * *\"}\n    call: {headers: {X-Key: k-1}, hidden: [X-Key], auth: {bearer: b-1}}\n    paused: true\n"
	form := s.again("/console/jobs/new?view=manifest", url.Values{"text": {text}, "rev": {"0"}, "do": {"form"}})
	holds(t, form, "call.auth.bearer", "b-1", "call.headers", "X-Key=k-1")
	s.never(html.UnescapeString(cutOut(s.page, `class="file"`, "</pre>")), "b-1", "k-1")
	s.posts("/console/jobs/new", with(form, "do", "manifest"), http.StatusOK, "set: nightly", "k-1", "X-Key]", "b-1", "paused: true")
	s.done("/console/jobs/new", with(form, "do", ""))
	stored := func(set, key, bearer string, state core.JobState) {
		t.Helper()
		j := s.Job("web/ping")
		if c := j.Def.Call; j.Def.Set != set || c.Headers["X-Key"] != key || len(c.Hidden) != 1 || c.Auth.Bearer != bearer ||
			j.Sched.State != state {
			t.Errorf("%s %s %+v", j.Def.Set, j.Sched.State, c)
		}
	}
	stored("nightly", "k-1", "b-1", core.Paused)

	// In an existing job, the state and the secrets without input stay.
	const edit, manifest = "/console/jobs/web/ping/edit", "/console/jobs/web/ping/manifest"
	form = s.form("/console/jobs/web/ping?view=edit", "do", "manifest")
	typed := s.again(edit, form)
	text = strings.ReplaceAll(typed.Get("text"), "auth: {bearer: \"***\"}", "auth: {bearer: b-2}")
	text += "    paused: false\n"
	form = s.again(manifest, with(typed, "text", text, "do", "form"))
	typed = s.again(edit, with(form, "do", "manifest"))
	form = s.again(manifest, with(typed, "do", "form"))
	s.done(edit, with(form, "do", ""))
	stored("nightly", "k-1", "b-2", core.Started)
	s.done(edit, s.form("/console/jobs/web/ping?view=edit", "title", "T"))
	stored("nightly", "k-1", "b-2", core.Started)

	// A hidden header can be removed or renamed.
	s.done(edit, s.form("/console/jobs/web/ping?view=edit", "call.headers", "Y-Key=k-2"))
	call := s.Job("web/ping").Def.Call
	check.Equal(t, fmt.Sprint(call.Hidden, call.Headers), "[] map[Y-Key:k-2]")
	s.done(edit, s.form("/console/jobs/web/ping?view=edit", "call.headers", "X-Key=k-1", "call.hidden", "X-Key"))

	// If two users change only a secret, the second gets a conflict.
	form = s.form("/console/jobs/web/ping?view=edit")
	s.done(edit, with(form, "call.auth.bearer", "b-3"))
	s.posts(edit, with(form, "call.auth.bearer", "b-4"), http.StatusConflict)
	stored("nightly", "k-1", "b-3", core.Started)
}

// TestUnchangedTextsKeepTheirBytes: browsers change the line ends of each text that they show. A text without input
// stays as stored, whatever else changes in the form.
func TestUnchangedTextsKeepTheirBytes(t *testing.T) {
	const crlf = "\nfirst\r\nsecond\rthird\n"
	quoted := strconv.Quote(crlf)
	s := newConsole(t)
	s.Commands = true
	s.ask("PUT", "/v1/jobs/shop/params", `{"handler":"x","params":`+quoted+`}`)
	s.ask("PUT", "/v1/jobs/shop/script", `{"script":{"kind":"shell","source":`+quoted+`}}`)
	s.ask("PUT", "/v1/jobs/shop/line", `{"command":{"line":"\na\nb","env":{"A":" x\r\ny "}}}`)
	for job, text := range map[string]func(core.Def) string{
		"params": func(d core.Def) string { return d.Params },
		"script": func(d core.Def) string { return d.Script.Hash },
		"line":   func(d core.Def) string { return d.Command.Line + d.Command.Env["A"] },
	} {
		ref := "/console/jobs/shop/" + job
		stored := s.Job("shop/" + job)
		before := stored.Def
		for _, view := range []string{"edit", "manifest"} {
			s.done(ref+"/"+view, s.form(ref+"?view="+view))
			if rev := s.Job("shop/" + job).Sched.Rev; rev != stored.Sched.Rev {
				t.Errorf("%s: revision %d became %d", job, stored.Sched.Rev, rev)
			}
		}
		s.done(ref+"/edit", s.form(ref+"?view=edit", "title", "T"))
		if now := s.Job("shop/" + job).Def; text(now) != text(before) || now.Title != "T" {
			t.Errorf("%s: %q became %q", job, text(before), text(now))
		}
		s.done("/console/jobs/new", s.form("/console/jobs/new?from=shop/"+job))
		if now := s.Job("shop/" + job + "-copy").Def; text(now) != text(before) {
			t.Errorf("the copy of %s: %q became %q", job, text(before), text(now))
		}
	}
	const script = "/console/jobs/shop/script/script"
	s.done(script, s.form(script))
	first := s.Job("shop/script").Def.Script.Hash
	s.done(script, s.form(script, "source", "other\n"))
	s.done(script, s.form(script+"?version=1"))
	if now := s.Job("shop/script").Def.Script; now.Hash != first || now.Version != 3 {
		t.Errorf("version 1 saved again is %+v", now)
	}

	run := func(w *httptest.ResponseRecorder) (r struct{ Params *string }) {
		t.Helper()
		s.answer("/v1/runs/"+path.Base(w.Header().Get("Location")), &r)
		return r
	}
	panel := fields(cutOut(s.says("/console/jobs/shop/params?panel=run"), "<dialog", "</dialog>"))
	if r := run(s.post("/console/jobs/shop/params/trigger", panel)); r.Params != nil {
		t.Errorf("run now sends %q", *r.Params)
	}
	for _, with := range []string{"same", "other"} {
		s.Clock = s.Clock.Add(time.Minute)
		first := s.ended(new(s.Job("shop/params")), 1, func(*core.Run) {})
		at := "/console/runs/" + first.ID.String()
		panel := fields(cutOut(s.says(at+"?panel=rerun"), "<dialog", "</dialog>"))
		panel.Set("with", with)
		if r := run(s.post(at+"/rerun", panel)); r.Params == nil || *r.Params != crlf {
			t.Errorf("run again with %s params sends %v", with, r.Params)
		}
	}
}

var clockNamed = regexp.MustCompile(`Time zone: ([A-Za-z/_]+)`)

// answer reads an answer of the API into v.
func (s *site) answer(path string, v any) {
	s.t.Helper()
	check.OK(s.t, json.Unmarshal([]byte(s.ask(http.MethodGet, path, "")), v))
}

// TestTypedTimes: a time field names a zone beside it, and its input is parsed in that zone. Neither the zone of the
// page nor a later selection changes that.
func TestTypedTimes(t *testing.T) {
	const typed = "2026-12-24 18:00"
	for _, f := range []struct{ page, action, stored string }{
		{"jobs/shop/JOB?panel=pause", "jobs/shop/JOB/pause", "/v1/jobs/shop/JOB"},
		{"jobs/shop/JOB?panel=run", "jobs/shop/JOB/trigger", ""}, // in the new run
		{"jobs?panel=pause&pick=shop/JOB", "jobs/bulk", "/v1/jobs/shop/JOB"},
		{"executors/shop?panel=pause", "executors/shop?panel=pause", "/v1/apps/shop"},
		{"system?panel=pause", "system?panel=pause", "/v1/status"},
	} {
		for job, zone := range map[string]string{"here": `, "timezone": "Europe/Berlin"`, "nowhere": ""} {
			for _, mode := range []string{"job", "mine", "utc"} {
				s := newConsole(t)
				s.ask("PUT", "/v1/jobs/shop/"+job, `{"handler": "x", "schedule": {"crontab": "0 3 * * *"`+zone+`}}`)
				of := func(path string) string { return strings.ReplaceAll(path, "JOB", job) }
				s.cookies["tickring_tz"], s.cookies["tickring_zone"] = "Asia%2FShanghai", mode
				panel := cutOut(s.says("/console/"+of(f.page)), "<dialog", "</dialog>")
				named := clockNamed.FindStringSubmatch(panel)
				if named == nil {
					t.Fatalf("%s of %s: no clock is named: %s", f.page, job, panel)
				}
				loc, err := time.LoadLocation(named[1])
				check.OK(t, err)
				s.cookies["tickring_tz"], s.cookies["tickring_zone"] = "America%2FNew_York", "mine"
				form := with(fields(panel), "until", typed, "at", typed, "reason", "why", "which", "picked")
				w := s.post("/console/"+of(f.action), form)
				var state struct {
					DueAt time.Time
					Pause struct{ Until time.Time }
				}
				s.answer(cmp.Or(of(f.stored), "/v1/runs/"+path.Base(w.Header().Get("Location"))), &state)
				got := state.Pause.Until
				if f.stored == "" {
					got = state.DueAt
				}
				want, _ := time.ParseInLocation("2006-01-02 15:04", typed, loc)
				if !got.Equal(want) {
					t.Errorf("%s of %s, times %s: by the clock of %s it is %v, and %v is stored", f.page, job, mode, loc, want, got)
				}
			}
		}
	}
}

// TestOnceAtIsOfItsZone: the time of a schedule is in the zone of the form.
func TestOnceAtIsOfItsZone(t *testing.T) {
	for zone, want := range map[string]string{"Europe/Berlin": "2026-12-24T17:00:00Z", "": "2026-12-24T18:00:00Z"} {
		for _, mode := range []string{"job", "mine", "utc"} {
			s := newConsole(t)
			s.cookies["tickring_tz"], s.cookies["tickring_zone"] = "Asia%2FShanghai", mode
			s.says("/console/jobs/new", `class="hint at"`)
			form := s.form("/console/jobs/new?app=shop", "name", "once", "handler", "x", "kind.0", "at", "expr.0", "2026-12-24 18:00",
				"timezone", zone)
			s.done("/console/jobs/new", form)
			var job struct{ Schedule struct{ At time.Time } }
			if s.answer("/v1/jobs/shop/once", &job); job.Schedule.At.UTC().Format(time.RFC3339) != want {
				t.Errorf("in %q, times %s: %v is stored", zone, mode, job.Schedule.At)
			}
		}
	}
}
