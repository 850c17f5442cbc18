package console_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/peopletest"
)

// TestLogThatBreaksOff: if a later piece of a log cannot be read, users see that the rest is missing, and why. This
// applies to the script, the page of the run, and later pages. The saved log replaces the lines so far if lines in
// between would be missing.
func TestLogThatBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConsole(t)
		s.in("en")
		job := s.Create(peopletest.Spec("long", peopletest.Every(time.Minute)))
		r := s.ended(&job, 1, func(*core.Run) {})
		var rest error
		s.log = func(_ *core.Run, from int) (string, int, bool, error) {
			if from > 1 {
				return "", from, false, rest
			}
			return "one\ntwo\n", 3, false, nil
		}
		page := "/console/runs/" + r.ID.String() + "/log"
		for _, c := range []struct {
			rest error
			says string
		}{
			{core.Errorf(core.CodeUnavailable, "the executor is gone"), "The rest is missing: the executor is gone"},
			{errHangs, "The rest is missing: The executor did not return the log in time"},
		} {
			rest = c.rest
			s.says(page+"/lines?from=3", `"broken":true`, c.says)
			s.says(page+"?last=200", ">one<", ">two<", c.says)
			s.says(page+"?from=3", c.says)
			s.never(s.says(page+"/lines?from=1"), "broken")
		}

		rest = core.Errorf(core.CodeUnavailable, "the executor is gone")
		kept := core.KeptLog{Run: r.ID, At: s.Clock, From: 50, Text: zipped(t, "fifty\nlast\n")}
		if err := s.E.Aside.PutLog(t.Context(), &r, kept); err != nil {
			t.Fatal(err)
		}
		s.never(s.says(page+"/lines?from=3", `"from":50`, `"next":52`, "Lines 1 to 49 are missing"), "broken")
		s.never(s.says(page+"?last=200", page+"#L50", page+"#L51", ">last<", "Lines 1 to 49 are missing"), ">two<", "#L49")

		r = s.ended(&job, 2, func(*core.Run) {})
		page = "/console/runs/" + r.ID.String() + "/log"
		kept = core.KeptLog{Run: r.ID, At: s.Clock, Why: "it was too long"}
		if err := s.E.Aside.PutLog(t.Context(), &r, kept); err != nil {
			t.Fatal(err)
		}
		s.says(page+"/lines?from=3", `"broken":true`, "could not be saved (it was too long)")
		s.says(page+"?last=200", ">two<", "The rest is missing: The log could not be saved (it was too long)")
	})
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestLogOfAnOpenRun: if an executor does not answer, the page shows that and retries. It reports "no lines yet" for
// an executor that returns none, for a function before its first line, and for a run that was not sent.
func TestLogOfAnOpenRun(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	job := s.Create(peopletest.Spec("long", peopletest.Every(time.Minute)))
	const none, gone = "No log lines yet", "did not return the log: refused"
	r := s.ended(&job, 1, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} })
	page := "/console/runs/" + r.ID.String() + "/log"
	for _, path := range []string{page, page + "?last=200", page + "/lines?from=1", page + "/lines?from=7"} {
		s.never(s.says(path, gone), none)
	}
	s.says(page+"/lines?from=7", `"end":false`, `"broken":true`)
	s.log = func(_ *core.Run, from int) (string, int, bool, error) { return "", from, false, nil }
	s.says(page, none)
	s.never(s.says(page+"/lines?from=1", none, `"end":false`), "broken")
	s.log = func(_ *core.Run, from int) (string, int, bool, error) {
		return "", from, false, core.Errorf(core.CodeNotFound, "the log group does not exist")
	}
	s.never(s.says(page+"/lines?from=1", none, `"end":false`), "broken")
	s.says(page+"/lines?from=7", `"broken":true`, "the log group does not exist")
	over := s.ended(&job, 3, func(*core.Run) {})
	s.never(s.says("/console/runs/"+over.ID.String()+"/log/lines?from=1", `"broken":true`, "the log group does not exist"), none)
	s.log = nil
	r = s.ended(&job, 2, func(r *core.Run) { r.State, r.SentAt, r.EndedAt = core.Queued, time.Time{}, time.Time{} })
	s.never(s.says("/console/runs/"+r.ID.String()+"/log/lines?from=1", none, `"end":false`), "broken")
}

// TestLogPageComesSoon: the page of a log waits one second for a hanging executor; its script continues.
func TestLogPageComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConsole(t)
		s.in("en")
		job := s.Create(peopletest.Spec("long", peopletest.Every(time.Minute)))
		r := s.ended(&job, 1, func(*core.Run) {})
		s.log = func(_ *core.Run, from int) (string, int, bool, error) { return "", from, false, errHangs }
		began := time.Now()
		body := s.says("/console/runs/"+r.ID.String()+"/log", "did not return the log in time")
		if took := time.Since(began); took > time.Second || !strings.Contains(body, "log.js") {
			t.Errorf("the page came after %v", took)
		}
	})
}
