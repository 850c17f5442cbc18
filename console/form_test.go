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

// TestNewJob: the form creates a job, only once if it is sent twice.
func TestNewJob(t *testing.T) {
	s := goldenConsole(t)
	s.never(s.shows("#check", "/console/jobs/new?app=shop", `value="shop"`), "bad-field")
	form := s.form("/console/jobs/new?app=shop", "name", "ledger", "handler", "sweep", "kind.0", "crontab", "expr.0", "30 2 * * 1-5",
		"timezone", "Europe/Berlin", "labels", "team=pay", "retry.max", "2", "after.0", "shop/first", "when.0", "failed")
	s.wrong("/console/jobs/new", form, http.StatusNotFound)
	form.Del("after.0")
	s.done("/console/jobs/new", form, "team=pay")
	s.compare("the new job", ".answer,dl")
	s.done("/console/jobs/new", form)
	changes, err := s.Changes("", "shop/ledger", 10)
	if err != nil || len(changes) != 1 {
		t.Errorf("%d changes, %v", len(changes), err)
	}
	s.wrong("/console/jobs/new", with(form, "expr.0", "0 3 * * *"), http.StatusConflict)
	s.wrong("/console/jobs/new", with(form, "app", "fresh"), http.StatusNotFound, `name="newapp"`)
	s.compare("an app that does not exist", ".line")
	s.done("/console/jobs/new", with(form, "app", "fresh", "newapp", "1"))
}

// TestWhileTyping: while the user types, the form describes the schedule and marks the wrong character. Nothing is
// stored.
func TestWhileTyping(t *testing.T) {
	s := goldenConsole(t)
	form := s.form("/console/jobs/new?app=shop", "name", "ledger", "handler", "sweep", "expr.0", "30 2 * * 1-8")
	s.says("/console/jobs/new", "UTC")
	body := s.typing("/console/jobs/new", form)
	check.Contains(t, body, "30 2 * * 1-8\n           ^", "no caret")
	s.compare("the weekday is wrong", "#check")
	body = s.typing("/console/jobs/new", with(form, "expr.0", "61 2 * * 1-5"))
	check.Contains(t, body, "61 2 * * 1-5\n^", "no caret below the first character")
	s.compare("the minute is wrong", "#check")
	body = s.typing("/console/jobs/new", with(form, "expr.0", "30 2 * * 1-5", "timezone", "Europe/Berlin", "timeout", "soon",
		"retry.max", "x"))
	s.compare("two fields are wrong", "#check")
	if !strings.Contains(body, `id="e-timeout"`) || !strings.Contains(body, `id="e-retry.max"`) {
		t.Error("the fields have no errors")
	}
	s.typing("/console/jobs/new", with(form, "timeout", "5m", "retry.max", "1", "kind.1", "every", "expr.1", "7m"))
	s.compare("all is right", "#check")
	for _, kind := range [][2]string{{"cron", "0 30 2 * * ?"}, {"every", "90s"}, {"fixedDelay", "10s"}, {"at", "2027-01-01 10:00"}} {
		one := with(url.Values{}, "what", "handler", "app", "shop", "name", "x", "handler", "a'b", "kind.0", kind[0], "expr.0", kind[1])
		if body := s.typing("/console/jobs/new", one); !strings.Contains(body, `--handler 'a'\''b'`) || !strings.Contains(body, "tickring create shop/x") {
			t.Errorf("%v: %s", kind, cutOut(body, `id="check"`, "</form>"))
		}
	}
	s.loses("/console/jobs/shop/ledger", http.StatusNotFound)
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

// TestEditKeepsAll: a job with every field is the same after its form is sent unchanged, and so is a copy.
func TestEditKeepsAll(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/channels/oncall", `{"webhook":{"url":"https://hooks.example.com/x"}}`)
	s.ask("PUT", "/v1/apps/web", `{"executors":["call:https://example.com"]}`)
	s.ask("PUT", "/v1/jobs/web/parent", `{"handler":"POST /p"}`)
	s.ask("PUT", "/v1/jobs/web/full", `{"title":"T","author":"A","labels":{"a":"b","c":"d e"},"handler":"POST /x","params":"line\n two ",
		"template":true,"schedule":{"any":[{"cron":"0 0 3 * * ?"},{"every":"1h","offset":"5m"}],"timezone":"Asia/Shanghai","from":"2026-12-01",
		"until":"2027-12-01","jitter":"10s"},"after":[{"job":"web/parent","when":"finished"}],"misfire":"skip","grace":"30s","deadline":"10m",
		"route":"round","block":"discard-later","timeout":"5m","retry":{"max":3,"delay":"1m","backoff":"exponential","maxDelay":"1h",
		"on":["failed","lost"]},"lostAfter":"20m","waitForExecutor":"1m","overlap":{"limit":2,"whenFull":"queue","max":7,"key":"/t"},
		"pauseAfter":5,"retention":{"days":3,"log":"always"},"notify":{"to":["oncall"],"on":["failed","late","slow","overdue"],"late":"5m",
		"slow":"1h","quiet":"2h","overdue":{"by":"06:00"}},"call":{"headers":{"X-A":"b","X-Key":"open"},"expect":[200,204],"maxAnswer":"1MB",
		"auth":{"basic":{"user":"u","password":"p"}}}}`)
	before := s.Job("web/full")
	form := s.form("/console/jobs/web/full?view=edit")
	s.done("/console/jobs/web/full/edit", form)
	if after := s.Job("web/full"); after.Sched.Rev != before.Sched.Rev {
		t.Errorf("changed: %+v\n%+v\n%+v", before.Def, after.Def, form)
	}
	s.never(s.get("/console/jobs/web/full?view=edit").Body.String(), "secret\"", "value=\"p\"")
	again := s.form("/console/jobs/new?from=web/full")
	s.wrong("/console/jobs/new", again, http.StatusBadRequest) // the form does not have it
	s.done("/console/jobs/new", with(again, "call.auth.basic.password", "p"))
	s.done("/console/jobs/web/full/edit", with(form, "title", "other"), "other")
	s.shows("td", "/console/jobs/web/full/audit-log")
}

// TestTwoEdit: if two users edit one job, the second sees who changed what, loses no input, and may overwrite it.
func TestTwoEdit(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	const at = "/console/jobs/shop/ledger/edit"
	first, second := s.form("/console/jobs/shop/ledger?view=edit"), s.form("/console/jobs/shop/ledger?view=edit")
	s.done(at, with(first, "title", "<b>theirs</b>"))
	body := s.wrong(at, with(second, "title", "mine", "expr.0", "0 7 * * *"), http.StatusConflict, `value="mine"`, `value="0 7 * * *"`)
	_, body, _ = strings.Cut(body, `<form class="stack full"`)
	s.done(at, with(second, "rev", cutOut(body, `name="rev" value="`, `"`)), "mine", "at 07:00")
	s.ask("DELETE", "/v1/jobs/shop/ledger", "")
	s.wrong(at, second, http.StatusNotFound)
}

// TestFormOfScriptAndCommand: a job runs a handler, a script or a command.
func TestFormOfScriptAndCommand(t *testing.T) {
	s := goldenConsole(t)
	form := s.form("/console/jobs/new?app=shop", "name", "sweep", "what", "script", "script.kind", "python", "handler", "left",
		"script.source", "")
	s.wrong("/console/jobs/new", form, http.StatusBadRequest, `id="e-script.source"`)
	form = with(form, "script.source", "print(1)\r\n  # two\r\n", "script.note", "first")
	s.done("/console/jobs/new", form)
	s.compare("the script", "dl")
	again := s.form("/console/jobs/shop/sweep?view=edit")
	holds(t, again, "script.source", "print(1)\n  # two\n", "what", "script", "handler", "")
	s.done("/console/jobs/shop/sweep/edit", with(again, "what", "handler", "handler", "h"))
	if j := s.Job("shop/sweep"); j.Def.Handler != "h" || j.Def.Script != nil {
		t.Errorf("%+v", j.Def)
	}
	line := s.form("/console/jobs/new?app=shop", "name", "dump", "what", "command", "command.line", "./dump --all", "command.env", "A=b")
	if body := s.typing("/console/jobs/new", line); !strings.Contains(body, "tickring create shop/dump --command './dump --all' --env A=b") &&
		!strings.Contains(body, "--env A=b --command './dump --all'") {
		t.Errorf("%s", cutOut(body, `class=cli`, "</div>"))
	}
}

// TestChoicesAreSaid: choices are described in the user's language. Their values stay, because manifests have the
// values.
func TestChoicesAreSaid(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/channels/oncall", `{"webhook":{"url":"https://hooks.example.com/x"}}`)
	s.ask("PUT", "/v1/apps/shop", `{"notify":{"to":["oncall"],"on":["slow"],"slow":"1h"},"overlap":{"limit":1,"whenFull":"replace"}}`)
	s.ask("PUT", "/v1/jobs/shop/ledger", `{"handler":"h","route":"lfu","block":"cover-early","misfire":"skip",
		"retry":{"max":1,"backoff":"exponential","on":["failed","lost"]},"notify":{"to":["oncall"],"on":["late"]}}`)
	s.shows("#first", "/console/jobs/new", `value="round"`, `value="serial"`, `value="skip"`)
	s.shows("dl", "/console/jobs/shop/ledger")
	s.in("zh")
	form := s.shows("#first", "/console/jobs/shop/ledger?view=edit", `value="lfu" selected`, `value="cover-early" selected`,
		`value="lost" checked`, `value="late" checked`, `value="slow"> `)
	s.never(form, ">round<", ">any<", ">queue<", ">on-failure<")
	s.shows("dl", "/console/jobs/shop/ledger")
	s.shows("dl", "/console/executors/shop")
	s.ask("PUT", "/v1/jobs/shop/mend", `{"handler":"h","after":[{"job":"shop/ledger","when":"failed"}]}`)
	s.shows("dl", "/console/jobs/shop/mend")
	s.shows("fieldset", "/console/executors/shop?panel=edit", `value="slow" checked`)
	s.shows("td", "/console/notifications")
	s.shows("td", "/console/notifications/oncall")
	s.done("/console/jobs/shop/ledger/edit", with(s.form("/console/jobs/shop/ledger?view=edit"), "route", "hash"), "(hash)")
	def := s.Job("shop/ledger").Def
	check.Equal(t, fmt.Sprint(def.Retry.On, def.Notify.On), "[failed lost] [late]")
}

// TestScriptOfANewJob: a new script starts with the template of its language, in the form and on the script page. A
// change of language keeps the other fields. A job with a handler stores no template.
func TestScriptOfANewJob(t *testing.T) {
	s := goldenConsole(t)
	form := s.form("/console/jobs/new?app=shop", "name", "sweep", "what", "script")
	check.Contains(t, form.Get("script.source"), "#!/bin/bash\n")
	s.says("/console/jobs/new", `data-template="<?php`)
	s.ask("PUT", "/v1/jobs/shop/plain", `{"handler":"sweep"}`)
	s.says("/console/jobs/shop/plain/script", `data-template="<?php`)
	s.posts("/console/jobs/new", with(form, "script.kind", "python", "do", "template"), http.StatusOK, ">import sys", `value="sweep"`)
	form.Del("do")
	s.done("/console/jobs/new", with(form, "script.kind", "shell"))
	s.compare("the script", "dl")
	s.never(s.get("/console/jobs/shop/sweep/script").Body.String(), "data-template")
	s.done("/console/jobs/new", s.form("/console/jobs/new?app=shop", "name", "other", "handler", "h"))
	check.Equal(t, s.Job("shop/other").Def.Script, nil, "the script of a handler")
}

// TestPicked: the form suggests handlers of the app's jobs, and parent jobs.
func TestPicked(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/web", `{}`)
	s.ask("PUT", "/v1/jobs/shop/ledger", `{"handler":"sweep"}`)
	s.ask("PUT", "/v1/jobs/web/ping", `{"handler":"<i>ping"}`)
	const handlers = `<datalist id="handlers">`
	s.says("/console/jobs/new?app=web", `list="handlers"`, handlers+`<option value="<i>ping"></option></datalist>`,
		`<datalist id="jobs"><option value="shop/ledger"></option><option value="web/ping"></option></datalist>`)
	s.says("/console/jobs/new", handlers+`<option value="<i>ping"></option><option value="sweep"></option></datalist>`)
	s.never(s.says("/console/jobs/web/ping?view=edit", `value="shop/ledger"`), `<option value="web/ping">`)
	form := s.form("/console/jobs/new?app=shop", "name", "after", "handler", "h", "after.0", "web/ping",
		"after.3", "shop/ledger", "when.3", "finished")
	s.posts("/console/jobs/new", with(form, "do", "after"), http.StatusOK, `name="after.1" list="jobs" value="shop/ledger"`, `name="after.2"`)
	form.Del("do")
	s.done("/console/jobs/new", form)
	s.compare("the parents", "dl")
	check.Equal(t, fmt.Sprint(s.Job("shop/after").Def.After), "[{web/ping 2 succeeded} {shop/ledger 1 finished}]")
	again := s.form("/console/jobs/shop/after?view=edit")
	s.done("/console/jobs/shop/after/edit", again)
	s.wrong("/console/jobs/shop/after/edit", with(again, "after.1", "shop/none"), http.StatusNotFound, `id="e-after"`)
	again.Del("after.0")
	s.done("/console/jobs/shop/after/edit", with(again, "after.1", ""))
	check.Equal(t, len(s.Job("shop/after").Def.After), 0, "parents")
}

// TestNearlyJSON: params that start as JSON but are invalid are stored only if the user confirms it. The error has
// the position.
func TestNearlyJSON(t *testing.T) {
	s := goldenConsole(t)
	form := s.form("/console/jobs/new?app=shop", "name", "ledger", "handler", "h", "params", "{\"since\": 1,\n \"é\": 2,}")
	const why = "line 2, column 9:"
	check.Contains(t, s.typing("/console/jobs/new", form), why)
	s.wrong("/console/jobs/new", form, http.StatusBadRequest, why, `name="asis"`)
	s.wrong("/console/jobs/new", with(form, "params", "[1, 2"), http.StatusBadRequest, "line 1, column 6:")
	s.done("/console/jobs/new", with(form, "asis", "1"))
	s.done("/console/jobs/shop/ledger/edit", s.form("/console/jobs/shop/ledger?view=edit", "title", "T")) // unchanged
	for _, params := range []string{`{"a": [1]}`, "--since {x}", "", `{"n": {{attempt}}}`} {
		next := s.form("/console/jobs/shop/ledger?view=edit", "params", params)
		if strings.Contains(params, "{{") {
			next.Set("template", "on")
		}
		s.done("/console/jobs/shop/ledger/edit", next)
	}
	s.done("/console/jobs/shop/ledger/edit", s.form("/console/jobs/shop/ledger?view=edit", "params", `{"a": 1}`, "template", ""))
	s.wrong("/console/jobs/shop/ledger/trigger", url.Values{"was": {`{"a": 1}`}, "params": {"{\n\"a\": x}"}}, http.StatusBadRequest,
		"line 2, column 6:")
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

// TestTwoViews: the form and the manifest are two views of one job. A change of view keeps the input and stores
// nothing. Both can create a job.
func TestTwoViews(t *testing.T) {
	s := goldenConsole(t)
	text := strings.ReplaceAll(s.form("/console/jobs/new?view=manifest").Get("text"), "app: web", "app: shop")
	s.says("/console/jobs/new", `href="/console/jobs/new?view=manifest"`)
	s.never(s.says("/console/jobs/new?view=manifest", "tickring apply -f job.yaml"), "tickring get")
	form := s.again("/console/jobs/new?view=manifest", url.Values{"text": {text}, "rev": {"0"}, "do": {"form"}}, "data-changed")
	holds(t, form, "name", "ping", "expr.0", "*/5 8-18 * * 1-5", "retry.max", "2")
	again := s.again("/console/jobs/new", with(form, "title", "T 2", "do", "manifest"), "data-changed").Get("text")
	check.Contains(t, again, "title: T 2")
	s.loses("/console/jobs/shop/ping", http.StatusNotFound)
	s.wrong("/console/jobs/new", with(form, "expr.0", "61 * * * *", "do", "manifest"), http.StatusBadRequest, `value="61 * * * *"`)
	s.wrong("/console/jobs/new?view=manifest", url.Values{"text": {"jobs: 1"}, "rev": {"0"}}, http.StatusBadRequest, "jobs: 1", "line 1")
	s.done("/console/jobs/new?view=manifest", url.Values{"text": {again}, "rev": {"0"}}, "T 2")
	s.done("/console/jobs/new?view=manifest", url.Values{"text": {again}, "rev": {"0"}})
	s.wrong("/console/jobs/new?view=manifest", url.Values{"text": {strings.ReplaceAll(again, "T 2", "T 3")}, "rev": {"0"}},
		http.StatusConflict, "T 3")

	edit := s.form("/console/jobs/shop/ping?view=edit", "title", "T 4", "do", "manifest")
	s.posts("/console/jobs/shop/ping/edit", edit, http.StatusOK, "title: T 4", `action="/console/jobs/shop/ping/manifest"`,
		`name="rev" value="`+edit.Get("rev")+`"`)
	manifest := s.form("/console/jobs/shop/ping?view=manifest")
	manifest = with(manifest, "text", strings.ReplaceAll(manifest.Get("text"), "T 2", "T 5"), "do", "form")
	holds(t, s.again("/console/jobs/shop/ping/manifest", manifest), "title", "T 5", "rev", edit.Get("rev"))
	check.Equal(t, s.Job("shop/ping").Def.Title, "T 2")
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

// TestScripts: scripts are read, edited, compared and restored. The slower of two editors loses no input.
func TestScripts(t *testing.T) {
	s := goldenConsole(t)
	s.shows("#first,.cli", "/console/scripts")
	s.ask("PUT", "/v1/jobs/shop/plain", `{"handler":"sweep"}`)
	s.ask("PUT", "/v1/jobs/shop/sweep", `{"title":"<i>T</i>","script":{"kind":"shell","source":"echo </textarea><b>one</b>\n","note":"first"}}`)
	s.never(s.shows("#live", "/console/scripts", "shop/sweep"), "shop/plain")
	const at = "/console/jobs/shop/sweep/script"
	s.shows("#live", at, "echo </textarea><b>one</b>")
	form := s.form(at)
	s.done(at, with(form, "source", "echo two\r\nexit 0\r\n", "note", "second", "kind", "shell"), "echo two", "second")
	s.compare("two versions", ".rows,.cli")
	s.done(at, form)
	s.shows(".warn", at+"?version=1", "<b>one</b>")
	body := s.says(at, `href="/console/jobs/shop/sweep?panel=run" data-panel`)
	s.never(cutOut(body, `<tr id="version-2" aria-current="true">`, "</tr>"), "<form")
	s.never(cutOut(body, `<tr id="version-1"`, "</tr>"), "aria-current")
	s.never(s.get(at+"?version=1").Body.String(), "panel=run") // it would run the current version
	s.shows("td", at+"?diff=2", "d-add", "d-del", "+echo two")
	s.wrong(at, with(s.form(at), "rev", "1", "source", "echo mine"), http.StatusConflict, "echo mine", "-echo two")
	s.compare("the conflict", "p,.buttons")
	s.wrong(at, with(s.form(at), "source", ""), http.StatusBadRequest, "source")
	s.done(at, url.Values{"rev": {s.form(at).Get("rev")}, "version": {"1"}}, "<b>one</b>")
	s.compare("three versions", ".rows")
	s.loses(at+"?version=x", http.StatusBadRequest)
	s.loses(at+"?version=99", http.StatusNotFound)
	s.shows(".head,.warn", "/console/jobs/shop/plain/script?kind=python", "import sys")
	s.done("/console/jobs/shop/plain/script", s.form("/console/jobs/shop/plain/script?kind=python"))
	s.compare("the first version", ".head")
	s.loses("/console/jobs/shop/none/script", http.StatusNotFound)
}

var clockNamed = regexp.MustCompile(`Time zone: ([A-Za-z/_]+)`)

// answer reads an answer of the API into v.
func (s *site) answer(path string, v any) {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://console.test"+path, nil)
	r.Header.Set("Authorization", "Bearer "+adminToken)
	w := httptest.NewRecorder()
	if s.api.ServeHTTP(w, r); w.Code != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	check.OK(s.t, json.Unmarshal(w.Body.Bytes(), v))
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
