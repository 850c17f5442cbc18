package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// never fails if a page has one of the texts.
func (s *site) never(body string, texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if strings.Contains(body, text) {
			s.t.Errorf("it says %q:\n%s", text, body)
		}
	}
}

const pay = `{"handler":"sweep","title":"Ledger to bank","author":"lina","params":"{\"since\":\"13:40\"}",` +
	`"schedule":{"crontab":"0 3 * * *","timezone":"Europe/Berlin"},"labels":{"team":"pay"},"retry":{"max":2}}`

// TestJobPage: the page shows the status of a job in one line, its next runs in its zone, its settings, and its
// executors.
func TestJobPage(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	s.ask("PUT", "/v1/jobs/shop/mail", `{"handler":"sweep","after":[{"job":"shop/ledger","when":"failed"}]}`)
	body := s.shows("#live", "/console/jobs/shop/ledger", "next <time", "/console/jobs/shop/ledger/audit-log")
	if n := strings.Count(body, `class="muted rel"`); n < 10 {
		t.Errorf("%d instants are shown", n)
	}
	s.shows(".cols", "/console/jobs/shop/mail")
	s.loses("/console/jobs/shop/none", http.StatusNotFound)
	s.loses("/console/jobs/nope/none", http.StatusNotFound)
}

// TestClockChange: a message before the first run with another offset reports that the clocks change.
func TestClockChange(t *testing.T) {
	s := goldenConsole(t)
	s.Clock = time.Date(2027, 3, 25, 12, 0, 0, 0, time.UTC)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	s.shows("table", "/console/jobs/shop/ledger")
}

// TestFailingSince: the line has the first failure in the newest series of failures.
func TestFailingSince(t *testing.T) {
	s := goldenConsole(t)
	j := s.Create(usecasetest.Spec("tick", usecasetest.Every(time.Minute)))
	s.Clock = s.Clock.Add(10 * time.Minute)
	for n, state := range []core.State{core.Failed, core.Failed, core.Succeeded, core.Succeeded} {
		s.ended(&j, 7+n, func(r *core.Run) {
			if r.State = state; state == core.Failed {
				r.Reason, r.Message = core.ReasonHandler, "<b>no</b> luck"
			}
		})
	}
	s.shows(".answer,h2,.rows", "/console/jobs/shop/tick")
}

// TestWhatComesOfAJob: the page does not claim that a job has no schedule, if the job or its app is paused. The same
// holds if its fixed delay starts after the present run, or if the next run is over a year away. If a fixed delay has
// ended or cannot be planned, there is no next run.
func TestWhatComesOfAJob(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/a", `{"handler": "x", "schedule": {"every": "1h"}}`)
	s.ask("PUT", "/v1/jobs/shop/after", `{"handler": "x", "schedule": {"fixedDelay": "90s"}}`)
	s.ask("PUT", "/v1/jobs/shop/once", `{"handler": "x", "schedule": {"at": "2037-01-01T01:00:00Z"}}`)
	const page = "/console/jobs/shop/after"
	s.shows(".answer,.cols", "/console/jobs/shop/once", "next <time")
	after := s.Job("shop/after")
	move := func(change func(*core.Advance)) {
		to := s.Job("shop/after").Sched.Stay()
		change(&to)
		check.OK(t, s.E.Advance(t.Context(), []core.Advance{to})[0])
	}
	move(func(to *core.Advance) { to.NewTail = core.PlannedRun(after.Def.ID, after.Sched.Next) })
	s.shows(".answer,.muted", page)
	move(func(to *core.Advance) { to.PlanError = "no such zone" })
	s.shows(".answer,.muted", page)
	move(func(to *core.Advance) { to.PlanError, to.NewState = "", core.Ended })
	s.shows(".answer,.muted", page)
	move(func(to *core.Advance) { to.NewState = core.Started })
	s.ask("POST", "/v1/apps/shop/pause", `{"reason": "stock-taking"}`)
	for _, name := range []string{"a", "after", "once"} {
		s.shows(".answer,.muted", "/console/jobs/shop/"+name)
	}
}

// TestResumeThatIsHeld: the panel of a paused job shows the runs after a resume, outside the pauses of its app and of
// everything, and names these pauses.
func TestResumeThatIsHeld(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	s.ask("POST", "/v1/jobs/shop/ledger/pause", `{"reason": "itself"}`)
	const panel = "/console/jobs/shop/ledger?panel=resume"
	first := "2026-11-21T02:00:00Z"
	of := func() string { return cutOut(s.shows("dialog", panel), "<dialog", "</dialog>") }
	const held = `class="warn"` // a pause that stays
	if body := of(); !strings.Contains(body, first) || strings.Contains(body, held) {
		t.Errorf("nothing else holds it: %s", body)
	}
	s.ask("POST", "/v1/apps/shop/pause", `{"reason": "stock-<b>taking", "until": "2026-11-22T02:00:00Z"}`)
	if body := of(); strings.Contains(body, first) || !strings.Contains(body, "2026-11-22T02:00:00Z") ||
		strings.Count(body, held) != 1 || !strings.Contains(body, "stock-<b>taking") {
		t.Errorf("its app is paused: %s", body)
	}
	s.ask("POST", "/v1/pause", `{"reason": "a move"}`)
	if body := of(); strings.Contains(body, "<li>") || strings.Count(body, held) != 2 {
		t.Errorf("everything is paused: %s", body)
	}
}

// TestActsOnAJob: each action does its work, requires its fields, and keeps the input after an error.
func TestActsOnAJob(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	const at = "/console/jobs/shop/ledger"
	s.shows("dialog", at+"?panel=pause")
	s.wrong(at+"/pause", url.Values{"reason": {" "}, "until": {"2h"}}, http.StatusBadRequest, `value="2h"`)
	s.wrong(at+"/pause", url.Values{"reason": {"bank"}, "until": {"soon"}}, http.StatusBadRequest, `value="bank"`,
		`value="soon"`)
	s.done(at+"/pause", url.Values{"reason": {"<i>bank</i>"}, "until": {"06:00"}, "zone": {"Europe/Berlin"}}, "<i>bank", "panel=resume")
	s.compare("paused", ".answer")
	s.shows("dialog", at+"?panel=resume")
	s.done(at+"/resume", url.Values{}, "next <time")
	s.done(at+"/label", url.Values{"labels": {"team=bank\r\ntier=1\r\n"}}, "team=bank", "tier=1")
	s.wrong(at+"/label", url.Values{"labels": {"nonsense"}}, http.StatusBadRequest, "nonsense</textarea>")
	s.done(at+"/kill", url.Values{})
	s.wrong(at+"/delete", url.Values{"name": {"shop/other"}}, http.StatusBadRequest)
	s.shows("dialog", at+"?panel=delete")
	s.done(at+"/delete", url.Values{"name": {"shop/ledger"}})
	s.loses(at, http.StatusNotFound)
}

// TestTriggerOnce: a form that is sent twice creates one run and links to it. Params that are no longer valid JSON
// need a confirmation.
func TestTriggerOnce(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	const at = "/console/jobs/shop/ledger"
	s.shows("dialog", at+"?panel=run", `{"since":"13:40"}`, `name="key" value="console-`)
	was := `{"since":"13:40"}`
	form := url.Values{"key": {"console-1"}, "was": {was}, "params": {`{"since":"14:00"}`}}
	first := s.post(at+"/trigger", form).Header().Get("Location")
	again := s.post(at+"/trigger", form).Header().Get("Location")
	check.Contains(t, first, "/console/runs/")
	check.Equal(t, again, first)
	bad := url.Values{"key": {"console-2"}, "was": {was}, "params": {`{"since":`}, "retries": {"0"}}
	s.wrong(at+"/trigger", bad, http.StatusBadRequest, `{"since":</textarea>`, `name="asis"`)
	bad.Set("asis", "1")
	s.posts(at+"/trigger", bad, http.StatusSeeOther)
	s.wrong(at+"/trigger", url.Values{"key": {"console-3"}, "retries": {"many"}}, http.StatusBadRequest)
}

// TestSmallFormsOfTwo: if two users label, pause or delete one job, the second sees the present state and the input,
// and can send it again. An earlier input error does not hide the conflict.
func TestSmallFormsOfTwo(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	const at = "/console/jobs/shop/ledger"
	rev := func(page string) string { return cutOut(page, `name="rev" value="`, `"`) }
	seen := rev(s.says(at+"?panel=label", "team=pay"))
	s.ask("PUT", "/v1/jobs/shop/ledger", strings.Replace(pay, `"team":"pay"`, `"team":"pay","tier":"gold"`, 1))
	mine := url.Values{"rev": {seen}, "labels": {"team=pay\r\nnonsense"}}
	kept := rev(s.wrong(at+"/label", mine, http.StatusBadRequest, "nonsense</textarea>"))
	check.Equal(t, kept, seen, "the revision after a mistake")
	mine.Set("labels", "team=pay\r\nowner=x")
	now := rev(s.wrong(at+"/label", mine, http.StatusConflict, "owner=x</textarea>"))
	s.says(at, "tier=gold")
	mine.Set("rev", now)
	s.never(s.done(at+"/label", mine, "owner=x"), "tier=gold")
	s.done(at+"/label", mine) // sent twice, it changes once

	seen = rev(s.says(at + "?panel=pause"))
	s.ask("POST", "/v1/jobs/shop/ledger/pause", `{"reason":"the bank is closed till Monday"}`)
	mine = url.Values{"rev": {seen}, "reason": {"lunch"}, "until": {"2h"}}
	now = rev(s.wrong(at+"/pause", mine, http.StatusConflict, "the bank is closed till Monday</p>", `value="lunch"`))
	mine.Set("rev", now)
	s.done(at+"/pause", mine, "lunch")
	s.Clock = s.Clock.Add(20 * time.Second)
	s.done(at+"/pause", mine)
	for _, until := range []string{"3h", ""} { // another end is not a repeated form
		s.wrong(at+"/pause", with(mine, "until", until), http.StatusConflict)
	}
	mine.Set("rev", rev(s.says(at+"?panel=pause")))
	s.done(at+"/pause", mine)
	s.done(at+"/pause", mine)

	seen = rev(s.says(at + "?panel=delete"))
	s.ask("POST", "/v1/jobs/shop/ledger/pause", `{"reason":"it is needed after all"}`)
	mine = url.Values{"rev": {seen}, "name": {"ledger"}}
	check.Equal(t, rev(s.wrong(at+"/delete", mine, http.StatusBadRequest)), seen, "the revision after a mistake")
	mine.Set("name", "shop/ledger")
	mine.Set("rev", rev(s.wrong(at+"/delete", mine, http.StatusConflict, "it is needed after all")))
	s.done(at+"/delete", mine)
}

// TestManifestView: the manifest of a job can be edited. Errors have line numbers, and the slower of two users sees
// who changed what.
func TestManifestView(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	const at = "/console/jobs/shop/ledger"
	body := s.shows(".hint,.cli", at+"?view=manifest", "app: shop", "crontab: \"0 3 * * *\"")
	rev := cutOut(body, `name="rev" value="`, `"`)
	text := cutOut(body, "data-code>", "</textarea>")
	s.wrong(at+"/manifest", url.Values{"rev": {rev}, "text": {strings.Replace(text, "0 3 * * *", "0 33 * * *", 1) + "    color: red\n"}},
		http.StatusBadRequest, "line ", "schedule.crontab", "color", "0 33 * * *")
	s.wrong(at+"/manifest", url.Values{"rev": {rev}, "text": {strings.Replace(text, "name: ledger", "name: other", 1)}}, http.StatusBadRequest)
	s.wrong(at+"/manifest", url.Values{"rev": {rev}, "text": {"version: 1\n"}}, http.StatusBadRequest)
	mine := url.Values{"rev": {rev}, "text": {strings.Replace(text, "0 3 * * *", "0 4 * * *", 1)}}
	s.done(at+"/manifest", mine)
	s.compare("the changed job", ".answer")
	s.done(at+"/manifest", mine) // sent twice, it changes once
	body = s.wrong(at+"/manifest", url.Values{"rev": {rev}, "text": {strings.Replace(text, "0 3 * * *", "0 5 * * *", 1)}},
		http.StatusConflict, "0 3 * * *", "0 5 * * *")
	now := cutOut(body, `name="rev" value="`, `"`)
	s.done(at+"/manifest", url.Values{"rev": {now}, "text": {strings.Replace(text, "0 3 * * *", "0 5 * * *", 1)}})
	s.compare("the overwritten job", ".answer")
}

// TestChanges: changes are found by job, app, user, verb and time, are shown with their differences, and can be
// undone.
func TestChanges(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	s.Clock = s.Clock.Add(time.Minute)
	s.ask("PUT", "/v1/jobs/shop/ledger", strings.Replace(pay, "0 3", "0 4", 1))
	s.Clock = s.Clock.Add(time.Minute)
	for _, name := range []string{"a", "b", "c"} {
		s.ask("PUT", "/v1/jobs/shop/"+name, `{"handler":"sweep"}`)
	}
	body := s.says("/console/audit-log")
	if strings.Count(body, `id="change-`) != 5 { // who logged in is one that was made
		t.Errorf("%d lines", strings.Count(body, `id="change-`))
	}
	s.shows(".wide", "/console/audit-log?app=shop")
	s.shows(".wide", "/console/audit-log?verb=updated")
	s.shows("#first", "/console/audit-log?by=nobody")
	s.shows(".wide", "/console/audit-log?app=shop&to=2026-11-20T12:00:30Z")
	s.shows(".wide", "/console/audit-log?app=shop&from=2026-11-20T12:00:30Z")
	s.loses("/console/audit-log?from=whenever", http.StatusBadRequest, "whenever")
	s.loses("/console/audit-log?after=x", http.StatusBadRequest)
	s.shows(".wide,.cli", "/console/audit-log?user=admin")
	s.loses("/console/jobs/shop/none/audit-log", http.StatusNotFound)
	body = s.shows("h1,.wide", "/console/jobs/shop/ledger/audit-log")
	rev := cutOut(body, "audit-log?diff=", `"`)
	s.says("/console/jobs/shop/ledger/audit-log?diff="+rev, `d-del`, `d-add`, "0 3 * * *")
	body = s.says("/console/jobs/shop/ledger/audit-log?diff=" + rev + "&panel=restore")
	s.compare("the panel", "h2,li")
	seen := cutOut(body, `name="rev" value="`, `"`)
	s.wrong("/console/jobs/shop/ledger/restore", url.Values{"change": {rev}, "rev": {"1"}}, http.StatusConflict)
	s.done("/console/jobs/shop/ledger/restore", url.Values{"change": {rev}, "rev": {seen}})
	s.compare("the restored job", ".answer")
	s.wrong("/console/jobs/shop/ledger/restore", url.Values{"change": {"7000"}}, http.StatusNotFound)
	s.shows(".break", "/console/jobs/shop/ledger/audit-log")
	// A deleted job is restored.
	s.ask("DELETE", "/v1/jobs/shop/ledger", "")
	body = s.shows(".wide", "/console/jobs/shop/ledger/audit-log")
	rev = cutOut(body, "audit-log?diff=", `"`)
	s.says("/console/jobs/shop/ledger/audit-log?diff=" + rev + "&panel=restore")
	s.compare("the panel of the deleted job", "h2,p")
	s.done("/console/jobs/shop/ledger/restore", url.Values{"change": {rev}, "rev": {"0"}}, "lina")
	s.compare("the new job", ".answer")
}

// TestChangesOfOthers: the changes of a user and of a channel are shown without secrets.
func TestChangesOfOthers(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/users/lina", `{"grants": [{"app": "shop", "role": "viewer"}], "password": "correct horse battery"}`)
	s.ask("PUT", "/v1/users/lina", `{"grants": [{"app": "shop", "role": "editor", "rights": ["scripts"]}], "disabled": true}`)
	s.never(s.shows(".wide", "/console/audit-log?user=lina"), "correct horse", "argon2")
	s.ask("PUT", "/v1/channels/oncall", `{"webhook": {"url": "https://a.example/hook", "secret": "hush-hush-hush-hush"}}`)
	s.ask("PUT", "/v1/channels/oncall", `{"webhook": {"url": "https://b.example/hook", "secret": "hush-hush-hush-hush"}}`)
	s.never(s.shows(".wide", "/console/audit-log?channel=oncall"), "hush", "/hook")
}

// TestManyChanges: a page has a limited number of changes and a link to the next page, which keeps the filter. A
// difference far back can be opened and undone.
func TestManyChanges(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	for i := range 250 {
		s.Clock = s.Clock.Add(time.Second)
		s.ask("PUT", "/v1/jobs/shop/ledger", strings.Replace(pay, "0 3", fmt.Sprintf("%d %d", i%60, i%24), 1))
	}
	body := s.says("/console/audit-log?by=admin-token&app=shop", `value="admin-token"`, `rel="next"`)
	s.compare("the command", ".cli")
	first := strings.Count(body, `id="change-`)
	next := cutOut(body, `rel="next" href="`, `"`)
	if !strings.Contains(next, "by=admin-token") || !strings.Contains(next, "app=shop") || first != 100 {
		t.Fatalf("%d lines, then %s", first, next)
	}
	body = s.says(next, `id="change-`, `rel="next"`)
	next = cutOut(body, `rel="next" href="`, `"`)
	body = s.says(next)
	all := strings.Split(body, "audit-log?diff=")
	rev, _, _ := strings.Cut(all[len(all)-1], `&`) // of the first change of all
	rev, _, _ = strings.Cut(rev, `"`)
	s.never(s.get("/console/jobs/shop/ledger/audit-log").Body.String(), rev)
	body = s.says("/console/jobs/shop/ledger/audit-log?diff="+rev+"&panel=restore", `d-del`, `d-add`, "0 3 * * *", "<dialog")
	s.never(body, `rel="next"`)
	newest, _, _ := strings.Cut(strings.Split(s.says("/console/jobs/shop/ledger/audit-log"), "audit-log?diff=")[1], `"`)
	next = cutOut(s.says("/console/jobs/shop/ledger/audit-log?diff="+newest, "d-add"), `rel="next" href="`, `"`)
	s.never(s.says(next, `id="change-`), newest) // it continues, and does not return to the open changes
	s.done("/console/jobs/shop/ledger/restore", url.Values{"change": {rev}})
	s.compare("the restored job", ".answer")
}

// TestWhatWaitsIsNamed: the page of a job names each waiting run by its cause.
func TestWhatWaitsIsNamed(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", `{"handler":"ledger","retry":{"max":2,"delay":"2h"}}`)
	at := s.Clock.Add(time.Hour).UTC().Format(time.RFC3339)
	const page = "/console/jobs/shop/ledger"
	for _, cause := range []string{"manual", "api"} {
		s.ask("POST", "/v1/jobs/shop/ledger/trigger", fmt.Sprintf(`{"at":%q,"cause":%q,"key":%q}`, at, cause, cause))
		s.shows("table", page)
		s.ask("DELETE", "/v1/jobs/shop/ledger/waiting/"+cause, "")
	}
	s.ask("POST", "/v1/jobs/shop/ledger/trigger", `{"key":"now"}`)
	run, err := s.M.Find(t.Context(), "shop/ledger#now")
	check.OK(t, err)
	end := finish.New(s.E, finish.Options{Plan: plan.Local(), Now: func() time.Time { return s.Clock }})
	check.OK(t, end.End(t.Context(), []finish.Result{{Run: run.ID, State: core.Failed, Reason: core.ReasonHandler, Code: 500}})[0])
	s.shows("table", page)
}

// TestNotFailingWhileTriedAgain: a job whose last attempt is retried is not failing, as on the overview page.
func TestNotFailingWhileTriedAgain(t *testing.T) {
	s := goldenConsole(t)
	j := s.Create(usecasetest.Spec("tick", usecasetest.Every(time.Minute)))
	s.ended(&j, 2, func(*core.Run) {})
	tried := func(r *core.Run) { r.State, r.Reason, r.Then = core.Failed, core.ReasonHandler, r.ID+100 }
	s.ended(&j, 1, tried)
	s.shows(".answer,h2", "/console/jobs/shop/tick")
	s.ended(&j, 0, func(r *core.Run) { tried(r); r.Then = 0 })
	s.shows(".answer,h2", "/console/jobs/shop/tick")
}

// skipped stores a run that was skipped n minutes ago because other runs were in progress.
func (s *site) skipped(j *core.Job, n int) core.Run {
	return s.ended(j, n, func(r *core.Run) {
		r.State, r.Reason, r.SentAt, r.Address = core.Skipped, core.ReasonOverlap, time.Time{}, ""
	})
}

// TestAtWorkBehindWhatWasSkipped: a hanging run is shown where its job is killed, paused or run by hand, however many
// runs were skipped since. The next step of the skipped runs links to it.
func TestAtWorkBehindWhatWasSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // synctest: a slow machine does not exceed the time limit
		s := goldenConsole(t)
		spec := usecasetest.Spec("tick", usecasetest.Every(time.Minute))
		spec.Def.Overlap = core.Overlap{Limit: 1, Full: core.FullSkip}
		j := s.Create(spec)
		for n := range 3 {
			s.ended(&j, 3000+n, func(*core.Run) {})
		}
		hanging := func(n int) core.Run {
			return s.ended(&j, n, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} })
		}
		for n := range 40 {
			s.skipped(&j, 100-n)
		}
		const at = "/console/jobs/shop/tick"
		check := func(hangs core.Run) {
			t.Helper()
			s.says(at, "panel=kill")
			s.says(at+"?panel=kill", "/console/runs/"+hangs.ID.String(), "http://10.0.0.7:9999")
			s.shows(".hint", at+"?panel=run")
			s.shows("fieldset", at+"?panel=pause")
		}
		check(hanging(2000))
		last := s.skipped(&j, 50)
		s.says("/console/runs/"+last.ID.String(), "/console/runs?job=shop%2ftick&state=running")
		s.ended(&j, 49, func(*core.Run) {}) // another run ended since, elsewhere
		check(hanging(150))
	})
}

// TestAtWorkIsSoughtOnlyThere: older runs are searched for running ones only if there can be one more. If the search
// takes too long, the page is shown without it.
func TestAtWorkIsSoughtOnlyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // synctest: a slow machine does not exceed the time limit
		s := newConsole(t)
		spec := usecasetest.Spec("tick", usecasetest.Every(time.Minute))
		spec.Def.Overlap = core.Overlap{Limit: 1, Full: core.FullSkip}
		j := s.Create(spec)
		sought := 0
		s.stub("/v1/runs", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("state") == "running" {
				sought++
				<-r.Context().Done()
			}
			s.api.ServeHTTP(w, r)
		})
		for n := range 40 {
			s.skipped(&j, 100-n)
		}
		const at = "/console/jobs/shop/tick"
		s.never(s.says(at), "panel=kill")
		check.Contains(t, textOf(t, s.page, "#first"), "30")
		if sought == 0 {
			t.Error("none was sought")
		}
		sought = 0
		s.ended(&j, 50, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} }) // the maximum number of runs
		if s.says(at, "panel=kill"); sought > 0 {
			t.Error("one more than may was sought")
		}
	})
}
