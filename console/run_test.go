package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// markup is data that pages must show as text.
const markup = `<script>alert("x")</script>&amp;`

// ended stores a run of a job that has ended.
func (s *site) ended(job *core.Job, n int, change func(*core.Run)) core.Run {
	s.t.Helper()
	at := core.InstantOf(s.Clock.Truncate(time.Minute)) - core.Instant(60*n)
	id := core.PlannedRun(job.Def.ID, at)
	r := core.Run{ID: id, App: job.Def.App, State: core.Succeeded, Cause: core.CauseSchedule, At: at, Slot: at, Attempt: 1, First: id,
		Rev: job.Sched.Rev, Address: "http://10.0.0.7:9999", SentAt: at.Time().Add(20 * time.Millisecond),
		EndedAt: at.Time().Add(2 * time.Second)}
	change(&r)
	defer func(now time.Time) { s.Clock = now }(s.Clock)
	if s.Clock = r.SentAt; r.SentAt.IsZero() {
		s.Clock = r.EndedAt
	}
	check.OK(s.t, s.E.CreateRuns(usecasetest.Ctx, []core.Run{r})[0])
	return r
}

func (s *site) in(lang string) { s.cookies["tickring_lang"] = lang }

// TestEachEndHasItsSentence: for each result of a run, the page shows the reason and the next step, in both
// languages.
func TestEachEndHasItsSentence(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("nightly", usecasetest.Every(time.Minute)))
	n := 0
	for _, state := range slices.Sorted(maps.Keys(core.Reasons)) {
		for _, reason := range core.Reasons[state] {
			n++
			r := s.ended(&job, n, func(r *core.Run) {
				if r.State, r.Reason = state, reason; state == core.Skipped {
					r.SentAt = time.Time{}
				}
			})
			for _, lang := range []string{"en", "zh"} {
				s.in(lang)
				s.never(s.says("/console/runs/"+r.ID.String(), `<p class="text"><b>`), ": "+string(reason)+"<")
				s.compare(fmt.Sprint(state, " ", reason, " ", lang), "p")
			}
		}
	}
}

// TestRunsStory: the page of each attempt shows all attempts in order, with the cause of the run, the messages, and
// that no attempt is left. All data is text.
func TestRunsStory(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("ledger", usecasetest.Every(time.Minute)))
	second := core.RunID(int64(job.Def.ID)<<32 | 1)
	first := s.ended(&job, 3, func(r *core.Run) {
		r.State, r.Reason, r.Message, r.Retries, r.Then = core.Failed, core.ReasonHandler, markup, 1, second
	})
	s.ended(&job, 3, func(r *core.Run) {
		r.ID, r.First, r.Attempt, r.Cause, r.Slot = second, first.ID, 2, core.CauseRetry, r.Slot+10
		r.SentAt, r.EndedAt = r.SentAt.Add(10*time.Second), r.EndedAt.Add(10*time.Second)
		r.State, r.Reason, r.Message, r.MaybeSent = core.Lost, core.ReasonGone, "second", true
		r.Late = &core.LateResult{At: r.EndedAt.Add(time.Minute), Code: 200, Message: "it was done after all"}
	})
	for _, id := range []core.RunID{first.ID, second} {
		s.shows(".head,.story,.text", "/console/runs/"+id.String(), markup)
	}
	if raw := s.get("/console/runs/" + first.ID.String()).Body.String(); strings.Contains(raw, "<script>alert") {
		t.Error("a message is taken for markup")
	}
}

// TestInstantWithoutRun: the page of a scheduled time shows its run, or the reason why there is none.
func TestInstantWithoutRun(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("hourly", usecasetest.Every(time.Hour)))
	s.Clock = s.Clock.Add(3 * time.Hour)
	s.shows(".head,#first", "/console/jobs/shop/hourly/at/2026-11-20T13:30:00Z")
	s.shows(".head,#first", "/console/jobs/shop/hourly/at/2026-11-20T11:00:00Z")
	at := core.InstantOf(usecasetest.Start.Truncate(time.Hour).Add(time.Hour))
	check.OK(t, s.E.PutSkips(usecasetest.Ctx, []core.Skip{{Job: job.Def.ID, First: at, Last: at, Count: 1, Reason: core.ReasonMisfire,
		Made: s.Clock}})[0])
	s.shows(".head,#first", "/console/jobs/shop/hourly/at/2026-11-20T13:00:00Z")
	for _, at := range []string{"2026-11-20T13:30", "13:30"} {
		s.never(s.says("/console/jobs/shop/hourly/at/"+at, "tickring run shop/hourly@"+at+"<"), "0001")
	}
	if w := s.get("/console/jobs/shop/none/at/2026-11-20T13:00:00Z"); w.Code != http.StatusNotFound {
		t.Errorf("of no job: %d", w.Code)
	}
	if w := s.get("/console/jobs/shop/hourly/at/yesterday"); w.Code != http.StatusBadRequest {
		t.Errorf("an instant that is none: %d", w.Code)
	}
}

// TestRunThatIsGone: a deleted run and an invalid run ID show an error.
func TestRunThatIsGone(t *testing.T) {
	s := goldenConsole(t)
	for path, want := range map[string]int{"/console/runs/4294967297": 404, "/console/runs/x": 400, "/console/runs/4294967297/log": 404,
		"/console/runs/4294967297/log/lines": 404, "/console/runs/4294967297/log/text": 404,
		"/console/runs/" + strings.Repeat("9", 5000): 400} {
		if w := s.get(path); w.Code != want || !strings.Contains(w.Body.String(), "run") {
			t.Errorf("%.60s: %d %.300s", path, w.Code, w.Body)
		}
	}
	s.loses("/console/runs/4294967297", http.StatusNotFound)
}

// TestKillCancelRunAgain: the page of an open run can kill or cancel it. A finished run can be rerun with its params
// or others, once even if the form is sent twice. An error keeps the input.
func TestKillCancelRunAgain(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("pay", usecasetest.Every(time.Minute)))
	done := s.ended(&job, 2, func(r *core.Run) { r.State, r.Reason = core.Failed, core.ReasonHandler })
	open := s.ended(&job, 1, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} })
	path := "/console/runs/"

	s.shows("dialog", path+open.ID.String()+"?panel=kill")
	if w := s.post(path+open.ID.String()+"/kill", nil); w.Code != http.StatusSeeOther {
		t.Fatalf("kill: %d %s", w.Code, w.Body)
	}
	s.shows(".story,.text,[role=status]", path+open.ID.String())

	form := url.Values{"key": {"k1"}, "with": {"other"}, "params": {markup}, "where": {""}}
	w := s.post(path+done.ID.String()+"/rerun", form)
	to := w.Header().Get("Location")
	if w.Code != http.StatusSeeOther || to == path+done.ID.String() {
		t.Fatalf("run again: %d %q %s", w.Code, to, w.Body)
	}
	s.shows(".story,.text,[role=status]", to, markup)
	if again := s.post(path+done.ID.String()+"/rerun", form).Header().Get("Location"); again != to {
		t.Errorf("sent twice it is run as %s and %s", to, again)
	}
	s.shows(".story,.text", path+done.ID.String())

	typed := url.Values{"key": {"k3"}, "with": {"same"}, "was": {"a\r\nb"}, "params": {"a\r\nb\r\nc"}}
	s.says(s.post(path+done.ID.String()+"/rerun", typed).Header().Get("Location"), "a\nb\nc")
	typed = url.Values{"key": {"k4"}, "with": {"same"}, "was": {"a\r\nb"}, "params": {"a\r\nb"}}
	if body := s.says(s.post(path+done.ID.String()+"/rerun", typed).Header().Get("Location"), "rerun"); strings.Contains(body, "a\nb") {
		t.Error("unchanged params differ")
	}

	new := strings.TrimPrefix(to, path)
	if w := s.post(path+new+"/cancel", nil); w.Code != http.StatusSeeOther {
		t.Errorf("cancel: %d %s", w.Code, w.Body)
	}
	w = s.post(path+open.ID.String()+"/rerun", url.Values{"key": {"k2"}, "with": {"other"}, "params": {"typed-" + markup}})
	body := w.Body.String()
	if w.Code != http.StatusConflict || !strings.Contains(body, "typed-&lt;script") || strings.Contains(body, markup) {
		t.Errorf("of one that is open: %d %s", w.Code, body)
	}
	if w := s.get(path + open.ID.String() + "/kill"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != path+open.ID.String() {
		t.Errorf("a kill by GET: %d", w.Code)
	}
	s.says(path+open.ID.String(), "?panel=kill")
}

// TestLogIsText: a log is shown without terminal colors, with control characters as escapes, and with markup as text.
// This applies to the page, the pieces for its script and the file.
func TestLogIsText(t *testing.T) {
	s := newConsole(t)
	job := s.Create(usecasetest.Spec("colors", usecasetest.Every(time.Minute)))
	r := s.ended(&job, 1, func(*core.Run) {})
	s.log = func(_ *core.Run, from int) (string, int, bool, error) {
		return "\x1b[31mred\x1b[0m\n" + markup + "\nbell\a and \x00 and \u202eturned\n\x1b]0;title\x07WARN x\nlast\n", 6, true, nil
	}
	page := "/console/runs/" + r.ID.String() + "/log"
	raw := s.get(page).Body.String()
	for _, want := range []string{">red<", "&lt;script&gt;alert", `bell\x07 and \x00 and \u202eturned`, `class="t-late"`, `id="L5"`, "log.js"} {
		if !strings.Contains(raw, want) {
			t.Errorf("the page has no %q: %s", want, raw)
		}
	}
	if strings.Contains(raw, "<script>alert") || strings.ContainsAny(raw, "\x1b\x00\a\u202e") {
		t.Error("the page has control characters")
	}
	s.says(page+"/lines?from=1", `"red"`, `\\x07`, `"next":6`, `"end":true`)
	w := s.get(page + "/text")
	h := w.Header()
	if h.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(h.Get("Content-Disposition"), "attachment") ||
		!strings.Contains(w.Body.String(), markup) {
		t.Errorf("the file: %v %s", h, w.Body)
	}
	if w := s.get(page + "?from=x"); w.Code != http.StatusBadRequest {
		t.Errorf("from=x: %d", w.Code)
	}
}

// TestKillFromTheLog: the log of an open run links to the kill panel for users with the permission. The log of a
// finished run does not.
func TestKillFromTheLog(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("long", usecasetest.Every(time.Minute)))
	open := s.ended(&job, 1, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} })
	over := s.ended(&job, 2, func(*core.Run) {})
	at := "/console/runs/" + open.ID.String()
	s.says(at+"/log", `href="`+at+`?panel=kill"`)
	s.shows("h2,.buttons", at+"?panel=kill")
	s.never(s.says("/console/runs/"+over.ID.String()+"/log"), "?panel=kill")
}

// TestLogThatIsKept: if the executor does not return the log, the page shows that. If no log was saved, it shows that
// too.
func TestLogThatIsKept(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("gone", usecasetest.Every(time.Minute)))
	r := s.ended(&job, 1, func(*core.Run) {})
	s.shows(".warn", "/console/runs/"+r.ID.String()+"/log")
	never := s.ended(&job, 2, func(r *core.Run) { r.State, r.Reason, r.SentAt = core.Skipped, core.ReasonOverlap, time.Time{} })
	s.shows(".warn", "/console/runs/"+never.ID.String()+"/log")
	call := s.ended(&job, 3, func(r *core.Run) { r.Address, r.Message = "call:https://pay.test", "answered 502" })
	s.log = func(r *core.Run, from int) (string, int, bool, error) { return r.Message + "\n", 2, true, nil }
	s.shows(".warn,#log", "/console/runs/"+call.ID.String()+"/log")
}

// TestLogOfManyLines: a page has the first thousand lines and a link to the next ones. The page of a run has the last
// lines.
func TestLogOfManyLines(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	job := s.Create(usecasetest.Spec("long", usecasetest.Every(time.Minute)))
	r := s.ended(&job, 1, func(*core.Run) {})
	const all, piece = 5000, 1500
	s.log = func(_ *core.Run, from int) (string, int, bool, error) {
		var b strings.Builder
		n := from
		for ; n <= all && n < from+piece; n++ {
			fmt.Fprintf(&b, "line %d\n", n)
		}
		return b.String(), n, n > all, nil
	}
	page := "/console/runs/" + r.ID.String() + "/log"
	if body := s.says(page, ">line 1<", ">line 1000<", page+"?from=1001"); strings.Contains(body, ">line 1001<") {
		t.Error("the page has more than a thousand lines")
	}
	s.says(page+"?from=4001", "line 5000")
	if body := s.says(page+"?last=200", ">line 5000<", ">line 4801<", page+"#L5000"); strings.Contains(body, ">line 4800<") {
		t.Error("more than the last 200 lines")
	}
	check.Equal(t, strings.Count(s.get(page+"/text").Body.String(), "\n"), all, "the file has N lines")
}

// TestRunAgainAmongMany: if there are many executors, some can be chosen, and the number of the others is shown.
func TestRunAgainAmongMany(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", `{"handler":"ledger"}`)
	for i := range 52 {
		check.OK(t, s.E.PutExecutor(t.Context(), core.Executor{App: "shop", Address: fmt.Sprintf("http://10.0.0.%d:9999/", i),
			Beat: s.Clock, Since: s.Clock}))
	}
	job := s.Job("shop/ledger")
	run := s.ended(&job, 1, func(*core.Run) {})
	body := s.says("/console/runs/"+run.ID.String()+"?panel=rerun", `<a href="/console/executors/shop">and 2 more</a>`)
	check.Equal(t, strings.Count(body, "<option>http://10.0.0."), 50, "can be chosen")
}

// TestDownloadEndsInTime: a function limits the size and time of a download, which then ends with the command for the
// full log. A server sends more.
func TestDownloadEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := goldenConsole(t)
		job := s.Create(usecasetest.Spec("long", usecasetest.Every(time.Minute)))
		r := s.ended(&job, 1, func(*core.Run) {})
		piece, slow := 1_500_000, time.Duration(0)
		s.log = func(_ *core.Run, from int) (string, int, bool, error) {
			<-time.After(slow)
			return strings.Repeat("x", piece-1) + "\n", from + 1, from == 10, nil
		}
		at := "/console/runs/" + r.ID.String() + "/log/text"
		last := func() (lines []string, note string) {
			lines = strings.Split(strings.TrimSuffix(s.get(at).Body.String(), "\n"), "\n")
			return lines, lines[len(lines)-1]
		}
		lines, note := last()
		if len(lines) != 4 {
			t.Errorf("%d lines, and then %.200s", len(lines), note)
		}
		s.texts.Equal(t, "too long", note)
		piece, slow = 100, 7*time.Second
		began := time.Now()
		if lines, note = last(); time.Since(began) > 22*time.Second || len(lines) > 5 {
			t.Errorf("after %v: %d lines, and then %.200s", time.Since(began), len(lines), note)
		}
		s.texts.Equal(t, "too slow", note)
		piece, slow = 1_500_000, 0
		s.h = console.New(console.Options{API: s.api, Access: s.access, Writes: func() uint64 { return 0 }})
		if lines, _ := last(); len(lines) != 10 {
			t.Errorf("a server: %d lines", len(lines))
		}
	})
}
