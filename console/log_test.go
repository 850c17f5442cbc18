package console_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

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
