package console_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"net/http"
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
	raw := s.gets(page, http.StatusOK, ">red<", "&lt;script&gt;alert", `bell\x07 and \x00 and \u202eturned`, `class="t-late"`, `id="L5"`, "log.js")
	s.never(raw.Body.String(), "<script>alert", "\x1b", "\x00", "\a", "\u202e")
	s.says(page+"/lines?from=1", `"red"`, `\\x07`, `"next":6`, `"end":true`)
	h := s.gets(page+"/text", http.StatusOK, markup).Header()
	check.Equal(t, h.Get("Content-Type"), "text/plain; charset=utf-8")
	check.Contains(t, h.Get("Content-Disposition"), "attachment")
	s.gets(page+"?from=x", http.StatusBadRequest)
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
	s.never(s.says(page, ">line 1<", ">line 1000<", page+"?from=1001"), ">line 1001<")
	s.says(page+"?from=4001", "line 5000")
	s.never(s.says(page+"?last=200", ">line 5000<", ">line 4801<", page+"#L5000"), ">line 4800<")
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

// TestManyExecutors: 1,000 executors of an app are on one page, which stays small.
func TestManyExecutors(t *testing.T) {
	s := newConsole(t)
	for i := range 1000 {
		check.OK(t, s.E.PutExecutor(t.Context(), core.Executor{App: "shop", Address: fmt.Sprintf("http://127.0.0.1:%d", 10_000+i),
			Beat: s.Clock, Since: s.Clock}))
	}
	s.in("en")
	s.says("/console/executors", "1000 live")
	body := s.says("/console/executors/shop", "http://127.0.0.1:10000", "http://127.0.0.1:10999")
	if n := strings.Count(body, "<"); n > 60_000 { // the start and the end of an element
		t.Errorf("the page has %d tags", n)
	}
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
		check.Equal(t, len(lines), 4, "lines, and then %.200s", note)
		s.texts.Equal(t, "too long", note)
		piece, slow = 100, 7*time.Second
		began := time.Now()
		if lines, note = last(); time.Since(began) > 22*time.Second || len(lines) > 5 {
			t.Errorf("after %v: %d lines, and then %.200s", time.Since(began), len(lines), note)
		}
		s.texts.Equal(t, "too slow", note)
		piece, slow = 1_500_000, 0
		s.h = console.New(console.Options{API: s.api, Access: s.access, Writes: func() uint64 { return 0 }})
		lines, _ = last()
		check.Equal(t, len(lines), 10, "lines of a server")
	})
}

// TestLogThatBreaksOff: if a later piece of a log cannot be read, users see that the rest is missing, and why. This
// applies to the script, the page of the run, and later pages. The saved log replaces the lines so far if lines in
// between would be missing.
func TestLogThatBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := goldenConsole(t)
		job := s.Create(usecasetest.Spec("long", usecasetest.Every(time.Minute)))
		r := s.ended(&job, 1, func(*core.Run) {})
		var rest error
		s.log = func(_ *core.Run, from int) (string, int, bool, error) {
			if from > 1 {
				return "", from, false, rest
			}
			return "one\ntwo\n", 3, false, nil
		}
		page := "/console/runs/" + r.ID.String() + "/log"
		for _, rest = range []error{core.Errorf(core.CodeUnavailable, "the executor is gone"), errHangs} {
			s.note(page+"/lines?from=3", `"broken":true`)
			s.shows(".warn", page+"?last=200", ">one<", ">two<")
			s.shows(".warn", page+"?from=3")
			s.never(s.says(page+"/lines?from=1"), "broken")
		}

		rest = core.Errorf(core.CodeUnavailable, "the executor is gone")
		kept := core.KeptLog{Run: r.ID, At: s.Clock, From: 50, Text: zipped(t, "fifty\nlast\n")}
		check.OK(t, s.E.PutLog(t.Context(), &r, kept))
		s.never(s.note(page+"/lines?from=3", `"from":50`, `"next":52`), "broken")
		s.never(s.shows(".warn", page+"?last=200", page+"#L50", page+"#L51", ">last<"), ">two<", "#L49")

		r = s.ended(&job, 2, func(*core.Run) {})
		page = "/console/runs/" + r.ID.String() + "/log"
		kept = core.KeptLog{Run: r.ID, At: s.Clock, Why: "it was too long"}
		check.OK(t, s.E.PutLog(t.Context(), &r, kept))
		s.note(page+"/lines?from=3", `"broken":true`)
		s.shows(".warn", page+"?last=200", ">two<")
	})
}

// note requests lines of a log for the script, checks that the answer has the texts, and compares its note with the
// golden file.
func (s *site) note(path string, texts ...string) string {
	s.t.Helper()
	body := s.says(path, texts...)
	s.equal("GET "+path, cutOut(body, `"note":"`, `"`))
	return body
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	check.Call(t)(w.Write([]byte(text)))
	check.OK(t, w.Close())
	return b.Bytes()
}

// TestLogOfAnOpenRun: if an executor does not answer, the page shows that and retries. It reports "no lines yet" for
// an executor that returns none, for a function before its first line, and for a run that was not sent.
func TestLogOfAnOpenRun(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("long", usecasetest.Every(time.Minute)))
	r := s.ended(&job, 1, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} })
	page := "/console/runs/" + r.ID.String() + "/log"
	s.shows(".warn", page)
	s.shows(".warn", page+"?last=200")
	s.note(page + "/lines?from=1")
	s.note(page+"/lines?from=7", `"end":false`, `"broken":true`)
	s.log = func(_ *core.Run, from int) (string, int, bool, error) { return "", from, false, nil }
	s.shows(".warn", page)
	s.never(s.note(page+"/lines?from=1", `"end":false`), "broken")
	s.log = func(_ *core.Run, from int) (string, int, bool, error) {
		return "", from, false, core.Errorf(core.CodeNotFound, "the log group does not exist")
	}
	s.never(s.note(page+"/lines?from=1", `"end":false`), "broken")
	s.note(page+"/lines?from=7", `"broken":true`)
	over := s.ended(&job, 3, func(*core.Run) {})
	s.note("/console/runs/"+over.ID.String()+"/log/lines?from=1", `"broken":true`)
	s.log = nil
	r = s.ended(&job, 2, func(r *core.Run) { r.State, r.SentAt, r.EndedAt = core.Queued, time.Time{}, time.Time{} })
	s.never(s.note("/console/runs/"+r.ID.String()+"/log/lines?from=1", `"end":false`), "broken")
}

// TestLogPageComesSoon: the page of a log waits one second for a hanging executor; its script continues.
func TestLogPageComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := goldenConsole(t)
		job := s.Create(usecasetest.Spec("long", usecasetest.Every(time.Minute)))
		r := s.ended(&job, 1, func(*core.Run) {})
		s.log = func(_ *core.Run, from int) (string, int, bool, error) { return "", from, false, errHangs }
		began := time.Now()
		body := s.shows(".warn", "/console/runs/"+r.ID.String()+"/log")
		if took := time.Since(began); took > time.Second || !strings.Contains(body, "log.js") {
			t.Errorf("the page came after %v", took)
		}
	})
}

// TestWhatAQueuedRunWaitsFor: the story of a run, its next step and its row in a list agree on the reason why it
// waits: an executor, another run, or a start limit. A limit that counts the run does not by itself make it wait.
func TestWhatAQueuedRunWaitsFor(t *testing.T) {
	s := goldenConsole(t)
	spec := usecasetest.Spec("pay", usecasetest.Every(time.Minute))
	spec.Def.Overlap, spec.Def.WaitForExecutor = core.Overlap{Limit: 5}, time.Hour
	job := s.Create(spec)
	free := usecasetest.Spec("free", usecasetest.Every(time.Minute))
	free.Def.WaitForExecutor = time.Hour
	other := s.Create(free)
	const at = core.RunID(1)
	for n, c := range []struct {
		name string
		job  core.Job
		item core.Permits // at is the run
	}{
		{"no limit", other, core.Permits{}},
		{"nobody starts", job, core.Permits{}},
		{"another run holds", job, core.Permits{Holders: []core.Holder{{First: 9}}}},
		{"queued behind a run", job, core.Permits{Holders: []core.Holder{{First: 9}}, Queue: []core.RunID{at}}},
		{"queued alone", job, core.Permits{Holders: []core.Holder{}, Queue: []core.RunID{at}}},
		{"starts in a minute", job, core.Permits{Holders: []core.Holder{{First: at, From: core.InstantOf(s.Clock) + 60}}}},
		{"may start", job, core.Permits{Holders: []core.Holder{{First: at, From: core.InstantOf(s.Clock) - 1}}}},
	} {
		r := s.ended(&c.job, 0, func(r *core.Run) {
			r.At -= core.Instant(n)
			r.ID, r.Slot = core.PlannedRun(c.job.Def.ID, r.At), r.At
			r.First, r.State, r.SentAt, r.EndedAt, r.Address = r.ID, core.Queued, time.Time{}, time.Time{}, ""
			r.Permit = c.job.Permit(nil, r)
		})
		if c.item.Holders != nil {
			c.item.Name, c.item.Limit, c.item.V = r.Permit, 5, 1
			if old, err := s.E.Permits(usecasetest.Ctx, []string{r.Permit}); err != nil {
				t.Fatal(err)
			} else if is := old[r.Permit]; is.V > 0 {
				c.item.V = is.V + 1
			}
			for i := range c.item.Queue {
				c.item.Queue[i] = r.ID
			}
			for i := range c.item.Holders {
				if h := &c.item.Holders[i]; h.First == at {
					h.First, h.Attempt, c.item.Second = r.ID, 1, h.From
				}
			}
			check.OK(t, s.E.PutPermits(usecasetest.Ctx, []core.Permits{c.item})[0])
		}
		s.says("/console/runs/" + r.ID.String())
		s.compare(c.name, ".story,p")
		s.says("/console/runs?job=shop/" + c.job.Def.Name)
		s.compare("row, "+c.name, "#run-"+r.ID.String())
	}
}

// TestJoinThatWaitsSaysForWhom: the run of a job with several parents starts when they have ended, and is skipped
// otherwise. It does not start by itself.
func TestJoinThatWaitsSaysForWhom(t *testing.T) {
	s := goldenConsole(t)
	parent := s.Create(usecasetest.Spec("a", usecasetest.Every(time.Hour)))
	s.Create(usecasetest.Spec("b", usecasetest.Every(time.Hour)))
	spec := usecasetest.Spec("sums", core.Schedule{})
	spec.Def.Within = time.Hour
	spec.Def.After = []core.Parent{{Job: "shop/a", When: core.UponClose}, {Job: "shop/b", When: core.UponClose}}
	job := s.Create(spec)
	now, id := core.InstantOf(s.Clock), core.NumberedRun(job.Def.ID, 1)
	j := core.Join{}
	j.Note(&job.Def, &core.Run{ID: core.PlannedRun(parent.Def.ID, now)}, id, now)
	s.ended(&job, 0, func(r *core.Run) {
		*r = core.Run{ID: id, App: "shop", State: core.Planned, Cause: core.CauseParent, At: j.Begun, Slot: j.End, Attempt: 1, First: id,
			Parent: j.Parent}
	})
	item := core.Permits{Name: job.Def.JoinName(), V: 1, Join: &j}
	check.OK(t, s.E.PutPermits(usecasetest.Ctx, []core.Permits{item})[0])
	s.in("en")
	s.shows(".story,p", "/console/runs/"+id.String(), j.End.Time().Format(time.DateTime))
}

// TestKillInParts: the message after a kill of a job's runs covers all its parts: an executor that did not get the
// kill, the cancelled runs, and whether more remain.
func TestKillInParts(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/job", `{"handler": "x"}`)
	var parts []string
	const next, told = `{"killed": [], "cancelled": ["3"], "next": "+a"}`, `{"killed": ["1", "2"], "cancelled": []}`
	const untold = `{"killed": ["1"], "cancelled": [], "sent": [{"address": "http://b/", "problem": "no answer"}]}`
	s.stub("/v1/jobs/shop/job/kill", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(parts[0]))
		if parts = parts[1:]; len(parts) == 0 {
			parts = []string{next}
		}
	})
	for _, parts = range [][]string{{next, told}, {next, untold}, {next}, {strings.Replace(untold, "}]", `}], "next": "+b"`, 1)}} {
		s.done("/console/jobs/shop/job/kill", nil)
	}
}
