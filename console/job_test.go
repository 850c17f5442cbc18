package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/peopletest"
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

// loses requests a page that must fail with a status.
func (s *site) loses(path string, status int, texts ...string) {
	s.t.Helper()
	w := s.get(path)
	if w.Code != status {
		s.t.Errorf("%s: %d", path, w.Code)
	}
	for _, text := range texts {
		if !strings.Contains(w.Body.String(), text) {
			s.t.Errorf("%s does not say %q", path, text)
		}
	}
}

const pay = `{"handler":"sweep","title":"Ledger to bank","author":"lina","params":"{\"since\":\"13:40\"}",` +
	`"schedule":{"crontab":"0 3 * * *","timezone":"Europe/Berlin"},"labels":{"team":"pay"},"retry":{"max":2}}`

// TestJobPage: the page shows the status of a job in one line, its next runs in its zone, its settings, and its
// executors.
func TestJobPage(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	s.ask("PUT", "/v1/jobs/shop/mail", `{"handler":"sweep","after":[{"job":"shop/ledger","when":"failed"}]}`)
	body := s.says("/console/jobs/shop/ledger", "at 03:00, Europe/Berlin", "next <time", "Ledger to bank", "lina", "team=pay", "sweep",
		"2 retries", "no executor of shop has registered yet", "The job has never run", "tickring trigger shop/ledger", "shop/mail",
		"when it failed",
		"tomorrow 03:00", "in 14 h", "No notifications: neither the job nor its app", "/console/jobs/shop/ledger/audit-log")
	if n := strings.Count(body, `class="muted rel"`); n < 10 {
		t.Errorf("%d instants are shown", n)
	}
	s.says("/console/jobs/shop/mail", "shop/ledger", "after", "No scheduled runs: the job runs when triggered")
	s.loses("/console/jobs/shop/none", http.StatusNotFound, "Not found")
	s.loses("/console/jobs/nope/none", http.StatusNotFound)
}

// TestClockChange: a message before the first run with another offset reports that the clocks change.
func TestClockChange(t *testing.T) {
	s := newConsole(t)
	s.Clock = time.Date(2027, 3, 25, 12, 0, 0, 0, time.UTC)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	body := s.says("/console/jobs/shop/ledger", "the clocks change before this time: +01:00 becomes +02:00")
	if strings.Count(body, "the clocks change") != 1 {
		t.Error("it is shown more than once")
	}
}

// TestFailingSince: the line has the first failure in the newest series of failures.
func TestFailingSince(t *testing.T) {
	s := newConsole(t)
	j := s.Create(peopletest.Spec("tick", peopletest.Every(time.Minute)))
	s.Clock = s.Clock.Add(10 * time.Minute)
	at := core.InstantOf(peopletest.Start).Time().Truncate(time.Minute)
	for i, state := range []core.State{core.Succeeded, core.Succeeded, core.Failed, core.Failed} {
		due := core.InstantOf(at.Add(time.Duration(i) * time.Minute))
		run := core.Run{ID: core.PlannedRun(j.Def.ID, due), App: "shop", State: state, Cause: core.CauseSchedule, At: due, Slot: due,
			Attempt: 1, First: core.PlannedRun(j.Def.ID, due), SentAt: due.Time(), EndedAt: due.Time().Add(time.Second)}
		if state == core.Failed {
			run.Reason, run.Message = core.ReasonHandler, "<b>no</b> luck"
		}
		if err := s.E.Finish.Create(peopletest.Ctx, []core.Run{run})[0]; err != nil {
			t.Fatal(err)
		}
	}
	s.says("/console/jobs/shop/tick", "failing since", "12:02", "Last 4 runs", "the handler reported a failure: <b>no")
	s.never(s.get("/console/jobs/shop/tick").Body.String(), "<b>no")
}

// TestWhatComesOfAJob: the page does not claim that a job has no schedule, if the job or its app is paused. The same
// holds if its fixed delay starts after the present run, or if the next run is over a year away. If a fixed delay has
// ended or cannot be planned, there is no next run.
func TestWhatComesOfAJob(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	const none = "No scheduled runs: the job runs when triggered"
	s.ask("PUT", "/v1/jobs/shop/a", `{"handler": "x", "schedule": {"every": "1h"}}`)
	s.ask("PUT", "/v1/jobs/shop/after", `{"handler": "x", "schedule": {"fixedDelay": "90s"}}`)
	s.ask("PUT", "/v1/jobs/shop/once", `{"handler": "x", "schedule": {"at": "2037-01-01T01:00:00Z"}}`)
	s.never(s.says("/console/jobs/shop/once", "next <time", "2037-01-01 01:00"), none)
	after := s.Job("shop/after")
	move := func(change func(*core.Advance)) {
		to := s.Job("shop/after").Sched.Stay()
		change(&to)
		if err := s.E.Tick.Advance(t.Context(), []core.Advance{to})[0]; err != nil {
			t.Fatal(err)
		}
	}
	const more = "Next run: 1m30s after the last run has ended."
	move(func(to *core.Advance) { to.NewTail = core.PlannedRun(after.Def.ID, after.Sched.Next) })
	s.never(s.says("/console/jobs/shop/after", more), none)
	move(func(to *core.Advance) { to.PlanError = "no such zone" })
	s.never(s.says("/console/jobs/shop/after", "the schedule cannot be computed: no such zone"), more)
	move(func(to *core.Advance) { to.PlanError, to.NewState = "", core.Ended })
	s.never(s.says("/console/jobs/shop/after", "the schedule has ended"), more)
	move(func(to *core.Advance) { to.NewState = core.Started })
	s.ask("POST", "/v1/apps/shop/pause", `{"reason": "stock-taking"}`)
	for _, name := range []string{"a", "after", "once"} {
		s.never(s.says("/console/jobs/shop/"+name, "No runs while the job is paused."), none)
	}
}

// TestResumeThatIsHeld: the panel of a paused job shows the runs after a resume, outside the pauses of its app and of
// everything, and names these pauses.
func TestResumeThatIsHeld(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	s.ask("POST", "/v1/jobs/shop/ledger/pause", `{"reason": "itself"}`)
	const panel = "/console/jobs/shop/ledger?panel=resume"
	first := "2026-11-21T02:00:00Z"
	of := func() string { return cutOut(s.says(panel), "Missed runs do not run later", "</dialog>") }
	if body := of(); !strings.Contains(body, first) || strings.Contains(body, "The job stays paused:") {
		t.Errorf("nothing else holds it: %s", body)
	}
	s.ask("POST", "/v1/apps/shop/pause", `{"reason": "stock-<b>taking", "until": "2026-11-22T02:00:00Z"}`)
	if body := of(); strings.Contains(body, first) || !strings.Contains(body, "2026-11-22T02:00:00Z") ||
		!strings.Contains(body, "The job stays paused: paused with its app") || !strings.Contains(body, "stock-<b>taking") {
		t.Errorf("its app is paused: %s", body)
	}
	s.ask("POST", "/v1/pause", `{"reason": "a move"}`)
	if body := of(); strings.Contains(body, "<li>") || strings.Contains(body, "no scheduled runs") ||
		!strings.Contains(body, "paused with its app") || !strings.Contains(body, "paused with everything") {
		t.Errorf("everything is paused: %s", body)
	}
}

// TestActsOnAJob: each action does its work, requires its fields, and keeps the input after an error.
func TestActsOnAJob(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	const at = "/console/jobs/shop/ledger"
	s.says(at+"?panel=pause", "Pause shop/ledger", "continue to their end", "tickring pause shop/ledger")
	s.wrong(at+"/pause", url.Values{"reason": {" "}, "until": {"2h"}}, http.StatusBadRequest, "ask for the reason", `value="2h"`)
	s.wrong(at+"/pause", url.Values{"reason": {"bank"}, "until": {"soon"}}, http.StatusBadRequest, "allowed formats: 06:00", `value="bank"`,
		`value="soon"`)
	s.done(at+"/pause", url.Values{"reason": {"<i>bank</i>"}, "until": {"06:00"}, "zone": {"Europe/Berlin"}}, "shop/ledger is paused",
		"paused by", "<i>bank", "tomorrow 06:00", "Resume…")
	s.never(s.get(at).Body.String(), "<i>bank")
	s.says(at+"?panel=resume", "Missed runs do not run later", "tomorrow 03:00")
	s.done(at+"/resume", url.Values{}, "shop/ledger is resumed", "next <time")
	s.done(at+"/label", url.Values{"labels": {"team=bank\r\ntier=1\r\n"}}, "team=bank", "tier=1")
	s.wrong(at+"/label", url.Values{"labels": {"nonsense"}}, http.StatusBadRequest, "must be key=value", "nonsense</textarea>")
	s.done(at+"/kill", url.Values{}, "no run of the job was in progress")
	s.wrong(at+"/delete", url.Values{"name": {"shop/other"}}, http.StatusBadRequest, "type shop/ledger")
	s.says(at+"?panel=delete", "Runs and their logs are kept", "Type shop/ledger")
	s.done(at+"/delete", url.Values{"name": {"shop/ledger"}}, "shop/ledger is deleted")
	s.loses(at, http.StatusNotFound)
}

// TestTriggerOnce: a form that is sent twice creates one run and links to it. Params that are no longer valid JSON
// need a confirmation.
func TestTriggerOnce(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	const at = "/console/jobs/shop/ledger"
	s.says(at+"?panel=run", "Run shop/ledger now", `{"since":"13:40"}`, "The job's params, as JSON", `name="key" value="console-`)
	was := `{"since":"13:40"}`
	form := url.Values{"key": {"console-1"}, "was": {was}, "params": {`{"since":"14:00"}`}}
	first := s.post(at+"/trigger", form).Header().Get("Location")
	again := s.post(at+"/trigger", form).Header().Get("Location")
	if !strings.HasPrefix(first, "/console/runs/") || first != again {
		t.Errorf("it leads to %q, and then to %q", first, again)
	}
	bad := url.Values{"key": {"console-2"}, "was": {was}, "params": {`{"since":`}, "retries": {"0"}}
	s.wrong(at+"/trigger", bad, http.StatusBadRequest, "are not", `{"since":</textarea>`, "send the params as they are")
	bad.Set("asis", "1")
	if w := s.post(at+"/trigger", bad); w.Code != http.StatusSeeOther {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.wrong(at+"/trigger", url.Values{"key": {"console-3"}, "retries": {"many"}}, http.StatusBadRequest, "a whole number")
}

// TestSmallFormsOfTwo: if two users label, pause or delete one job, the second sees the present state and the input,
// and can send it again. An earlier input error does not hide the conflict.
func TestSmallFormsOfTwo(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	const at = "/console/jobs/shop/ledger"
	rev := func(page string) string { return between(page, `name="rev" value="`, `"`) }
	seen := rev(s.says(at+"?panel=label", "team=pay"))
	s.ask("PUT", "/v1/jobs/shop/ledger", strings.Replace(pay, `"team":"pay"`, `"team":"pay","tier":"gold"`, 1))
	mine := url.Values{"rev": {seen}, "labels": {"team=pay\r\nnonsense"}}
	kept := rev(s.wrong(at+"/label", mine, http.StatusBadRequest, "must be key=value", "nonsense</textarea>"))
	if kept != seen {
		t.Errorf("after a mistake the form is of revision %s, but %s was shown", kept, seen)
	}
	mine.Set("labels", "team=pay\r\nowner=x")
	now := rev(s.wrong(at+"/label", mine, http.StatusConflict, "Another user changed this", "labels.tier removed, was gold",
		"labels.owner set to x", "owner=x</textarea>", "Overwrite with mine"))
	s.says(at, "tier=gold")
	mine.Set("rev", now)
	s.never(s.done(at+"/label", mine, "the labels of shop/ledger are saved", "owner=x"), "tier=gold")
	s.done(at+"/label", mine, "the labels of shop/ledger are saved") // sent twice, it changes once

	seen = rev(s.says(at + "?panel=pause"))
	s.ask("POST", "/v1/jobs/shop/ledger/pause", `{"reason":"the bank is closed till Monday"}`)
	mine = url.Values{"rev": {seen}, "reason": {"lunch"}, "until": {"2h"}}
	now = rev(s.wrong(at+"/pause", mine, http.StatusConflict, "changed in the meantime", "the bank is closed till Monday</p>", `value="lunch"`))
	mine.Set("rev", now)
	s.done(at+"/pause", mine, "is paused", "lunch")
	s.Clock = s.Clock.Add(20 * time.Second)
	s.done(at+"/pause", mine, "was already paused")
	for _, until := range []string{"3h", ""} { // another end is not a repeated form
		s.wrong(at+"/pause", with(mine, "until", until), http.StatusConflict, "changed in the meantime")
	}
	mine.Set("rev", rev(s.says(at+"?panel=pause")))
	s.done(at+"/pause", mine, "shop/ledger is paused")
	s.done(at+"/pause", mine, "was already paused")

	seen = rev(s.says(at + "?panel=delete"))
	s.ask("POST", "/v1/jobs/shop/ledger/pause", `{"reason":"it is needed after all"}`)
	mine = url.Values{"rev": {seen}, "name": {"ledger"}}
	if kept := rev(s.wrong(at+"/delete", mine, http.StatusBadRequest, "type shop/ledger")); kept != seen {
		t.Errorf("after a mistake the form is of revision %s, but %s was shown", kept, seen)
	}
	mine.Set("name", "shop/ledger")
	mine.Set("rev", rev(s.wrong(at+"/delete", mine, http.StatusConflict, "changed in the meantime", "it is needed after all")))
	s.done(at+"/delete", mine, "is deleted")
}

// TestManifestView: the manifest of a job can be edited. Errors have line numbers, and the slower of two users sees
// who changed what.
func TestManifestView(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	const at = "/console/jobs/shop/ledger"
	body := s.says(at+"?view=manifest", "app: shop", "crontab: \"0 3 * * *\"", "tickring apply -f job.yaml")
	_, rest, _ := strings.Cut(body, `name="rev" value="`)
	rev, _, _ := strings.Cut(rest, `"`)
	_, rest, _ = strings.Cut(body, "data-code>")
	text, _, _ := strings.Cut(rest, "</textarea>")
	s.wrong(at+"/manifest", url.Values{"rev": {rev}, "text": {strings.Replace(text, "0 3 * * *", "0 33 * * *", 1) + "    color: red\n"}},
		http.StatusBadRequest, "The job was not saved", "line ", "schedule.crontab", "color", "0 33 * * *")
	s.wrong(at+"/manifest", url.Values{"rev": {rev}, "text": {strings.Replace(text, "name: ledger", "name: other", 1)}},
		http.StatusBadRequest, "the app and the name of a job cannot be changed")
	s.wrong(at+"/manifest", url.Values{"rev": {rev}, "text": {"version: 1\n"}}, http.StatusBadRequest, "only one job can be edited here")
	mine := url.Values{"rev": {rev}, "text": {strings.Replace(text, "0 3 * * *", "0 4 * * *", 1)}}
	s.done(at+"/manifest", mine, "is changed", "at 04:00")
	s.done(at+"/manifest", mine, "already matches your input") // sent twice, it changes once
	body = s.wrong(at+"/manifest", url.Values{"rev": {rev}, "text": {strings.Replace(text, "0 3 * * *", "0 5 * * *", 1)}},
		http.StatusConflict, "Another user changed this", "0 3 * * *", "0 5 * * *", "Overwrite with mine", "Use theirs")
	_, rest, _ = strings.Cut(body, `name="rev" value="`)
	now, _, _ := strings.Cut(rest, `"`)
	s.done(at+"/manifest", url.Values{"rev": {now}, "text": {strings.Replace(text, "0 3 * * *", "0 5 * * *", 1)}}, "at 05:00")
}

// TestChanges: changes are found by job, app, user, verb and time, are shown with their differences, and can be
// undone.
func TestChanges(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	s.Clock = s.Clock.Add(time.Minute)
	s.ask("PUT", "/v1/jobs/shop/ledger", strings.Replace(pay, "0 3", "0 4", 1))
	s.Clock = s.Clock.Add(time.Minute)
	for _, name := range []string{"a", "b", "c"} {
		s.ask("PUT", "/v1/jobs/shop/"+name, `{"handler":"sweep"}`)
	}
	body := s.says("/console/audit-log", "shop/ledger", "created", "changed", "schedule.crontab", "0 3 * * *", "0 4 * * *", "app shop",
		"and 2 more jobs", "difference", "tickring changes")
	if strings.Count(body, `id="change-`) != 5 { // who logged in is one that was made
		t.Errorf("%d lines", strings.Count(body, `id="change-`))
	}
	s.never(s.says("/console/audit-log?verb=updated", "schedule.crontab"), "and 2 more jobs", "/jobs/shop/a\"")
	s.says("/console/audit-log?by=nobody", "No changes found.")
	s.never(s.says("/console/audit-log?to=2026-11-20T12:00:30Z", "created"), "schedule.crontab")
	s.never(s.says("/console/audit-log?from=2026-11-20T12:00:30Z", "schedule.crontab"), "made app shop")
	s.loses("/console/audit-log?from=whenever", http.StatusBadRequest, "whenever")
	s.loses("/console/audit-log?after=x", http.StatusBadRequest)
	s.never(s.says("/console/audit-log?user=admin", "user admin", "tickring changes --user 'admin'"), "shop/ledger")
	s.loses("/console/jobs/shop/none/audit-log", http.StatusNotFound)
	body = s.says("/console/jobs/shop/ledger/audit-log", "Audit log of shop/ledger", "schedule.crontab")
	_, rest, _ := strings.Cut(body, "audit-log?diff=")
	rev, _, _ := strings.Cut(rest, `"`)
	s.says("/console/jobs/shop/ledger/audit-log?diff="+rev, `d-del`, `d-add`, "0 3 * * *")
	body = s.says("/console/jobs/shop/ledger/audit-log?diff="+rev+"&panel=restore", "Restore shop/ledger", "changed from")
	_, rest, _ = strings.Cut(body, `name="rev" value="`)
	seen, _, _ := strings.Cut(rest, `"`)
	s.wrong("/console/jobs/shop/ledger/restore", url.Values{"change": {rev}, "rev": {"1"}}, http.StatusConflict,
		"was changed after you opened this page")
	s.done("/console/jobs/shop/ledger/restore", url.Values{"change": {rev}, "rev": {seen}}, "is restored to its state before that change",
		"at 03:00")
	s.wrong("/console/jobs/shop/ledger/restore", url.Values{"change": {"7000"}}, http.StatusNotFound)
	s.says("/console/jobs/shop/ledger/audit-log", "from 192.0.2.1, logged in")
	// A deleted job is restored.
	s.ask("DELETE", "/v1/jobs/shop/ledger", "")
	body = s.says("/console/jobs/shop/ledger/audit-log", "deleted")
	_, rest, _ = strings.Cut(body, "audit-log?diff=")
	rev, _, _ = strings.Cut(rest, `"`)
	s.says("/console/jobs/shop/ledger/audit-log?diff="+rev+"&panel=restore", "under a new number")
	s.done("/console/jobs/shop/ledger/restore", url.Values{"change": {rev}, "rev": {"0"}}, "at 03:00", "lina")
}

// TestChangesOfOthers: the changes of a user and of a channel are shown without secrets.
func TestChangesOfOthers(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/users/lina", `{"grants": [{"app": "shop", "role": "viewer"}], "password": "correct horse battery"}`)
	s.ask("PUT", "/v1/users/lina", `{"grants": [{"app": "shop", "role": "editor", "rights": ["scripts"]}], "disabled": true}`)
	s.never(s.says("/console/audit-log?user=lina", "roles set to shop:viewer", "password set to (set)",
		"roles: changed from shop:viewer to shop:editor+scripts", "disabled set to true"), "correct horse", "argon2")
	s.ask("PUT", "/v1/channels/oncall", `{"webhook": {"url": "https://a.example/hook", "secret": "hush-hush-hush-hush"}}`)
	s.ask("PUT", "/v1/channels/oncall", `{"webhook": {"url": "https://b.example/hook", "secret": "hush-hush-hush-hush"}}`)
	s.never(s.says("/console/audit-log?channel=oncall", "oncall"), "hush", "/hook")
}

// TestManyChanges: a page has a limited number of changes and a link to the next page, which keeps the filter. A
// difference far back can be opened and undone.
func TestManyChanges(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	for i := range 250 {
		s.Clock = s.Clock.Add(time.Second)
		s.ask("PUT", "/v1/jobs/shop/ledger", strings.Replace(pay, "0 3", fmt.Sprintf("%d %d", i%60, i%24), 1))
	}
	body := s.says("/console/audit-log?by=admin-token&app=shop", `value="admin-token"`, `rel="next"`, "--by 'admin-token'")
	first := strings.Count(body, `id="change-`)
	_, rest, _ := strings.Cut(body, `rel="next" href="`)
	next, _, _ := strings.Cut(rest, `"`)
	if !strings.Contains(next, "by=admin-token") || !strings.Contains(next, "app=shop") || first != 100 {
		t.Fatalf("%d lines, then %s", first, next)
	}
	body = s.says(next, `id="change-`, `rel="next"`)
	_, rest, _ = strings.Cut(body, `rel="next" href="`)
	next, _, _ = strings.Cut(rest, `"`)
	body = s.says(next, "created")
	all := strings.Split(body, "audit-log?diff=")
	rev, _, _ := strings.Cut(all[len(all)-1], `&`) // of the first change of all
	rev, _, _ = strings.Cut(rev, `"`)
	if strings.Contains(s.get("/console/jobs/shop/ledger/audit-log").Body.String(), rev) {
		t.Fatalf("%s is among the first", rev)
	}
	body = s.says("/console/jobs/shop/ledger/audit-log?diff="+rev+"&panel=restore", `d-del`, `d-add`, "0 3 * * *", "Restore shop/ledger")
	if strings.Contains(body, `rel="next"`) {
		t.Error("there is more behind the first change of all")
	}
	newest, _, _ := strings.Cut(strings.Split(s.says("/console/jobs/shop/ledger/audit-log"), "audit-log?diff=")[1], `"`)
	_, rest, _ = strings.Cut(s.says("/console/jobs/shop/ledger/audit-log?diff="+newest, "d-add"), `rel="next" href="`)
	next, _, _ = strings.Cut(rest, `"`)
	s.never(s.says(next, `id="change-`), newest) // it continues, and does not return to the open changes
	s.done("/console/jobs/shop/ledger/restore", url.Values{"change": {rev}}, "at 03:00")
}

// TestWhatWaitsIsNamed: the page of a job names each waiting run by its cause.
func TestWhatWaitsIsNamed(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", `{"handler":"ledger","retry":{"max":2,"delay":"2h"}}`)
	at := s.Clock.Add(time.Hour).UTC().Format(time.RFC3339)
	for cause, says := range map[string]string{"manual": "waiting manual run", "api": "waiting API run"} {
		s.ask("POST", "/v1/jobs/shop/ledger/trigger", fmt.Sprintf(`{"at":%q,"cause":%q,"key":%q}`, at, cause, cause))
		s.says("/console/jobs/shop/ledger", says)
		s.ask("DELETE", "/v1/jobs/shop/ledger/waiting/"+cause, "")
	}
	s.ask("POST", "/v1/jobs/shop/ledger/trigger", `{"key":"now"}`)
	run, err := s.M.Find(t.Context(), "shop/ledger#now")
	if err != nil {
		t.Fatal(err)
	}
	end := finish.New(s.E.Finish, s.E.Ring, finish.Options{Plan: plan.Local(), Now: func() time.Time { return s.Clock }})
	if err := end.End(t.Context(), []finish.Result{{Run: run.ID, State: core.Failed, Reason: core.ReasonHandler, Code: 500}})[0]; err != nil {
		t.Fatal(err)
	}
	s.never(s.says("/console/jobs/shop/ledger", "waiting retry"), "waiting manual run")
}

// TestNotFailingWhileTriedAgain: a job whose last attempt is retried is not failing, as on the overview page.
func TestNotFailingWhileTriedAgain(t *testing.T) {
	s := newConsole(t)
	j := s.Create(peopletest.Spec("tick", peopletest.Every(time.Minute)))
	s.ended(&j, 2, func(*core.Run) {})
	tried := func(r *core.Run) { r.State, r.Reason, r.Then = core.Failed, core.ReasonHandler, r.ID+100 }
	s.ended(&j, 1, tried)
	s.never(s.says("/console/jobs/shop/tick", "Last 2 runs"), "failing since")
	s.ended(&j, 0, func(r *core.Run) { tried(r); r.Then = 0 })
	s.says("/console/jobs/shop/tick", "failing since "+"<time")
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
		s := newConsole(t)
		spec := peopletest.Spec("tick", peopletest.Every(time.Minute))
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
			s.says(at, "Kill runs…")
			s.says(at+"?panel=kill", "/console/runs/"+hangs.ID.String(), "http://10.0.0.7:9999")
			s.says(at+"?panel=run", "1 runs of this job are in progress.", "At most 1 can run")
			s.says(at+"?panel=pause", "continue to their end (1 now)")
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
		spec := peopletest.Spec("tick", peopletest.Every(time.Minute))
		spec.Def.Overlap = core.Overlap{Limit: 1, Full: core.FullSkip}
		j := s.Create(spec)
		sought := 0
		s.h = console.New(console.Options{Access: s.access, Now: func() time.Time { return s.Clock },
			API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/runs" && r.URL.Query().Get("state") == "running" {
					sought++
					<-r.Context().Done()
				}
				s.api.ServeHTTP(w, r)
			})})
		for n := range 40 {
			s.skipped(&j, 100-n)
		}
		const at = "/console/jobs/shop/tick"
		s.never(s.says(at, "Last 30 runs"), "Kill runs…")
		if sought == 0 {
			t.Error("none was sought")
		}
		sought = 0
		s.ended(&j, 50, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} }) // the maximum number of runs
		if s.says(at, "Kill runs…"); sought > 0 {
			t.Error("one more than may was sought")
		}
	})
}
