package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// TestRowsOfJobs: a row has the labels of its job. The row of a paused job has its last result, and its end with the
// zone. The status is a filter with a count.
func TestRowsOfJobs(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	job, err := s.M.Job(t.Context(), "shop/ledger")
	check.OK(t, err)
	s.ended(&job, 3, func(r *core.Run) { r.State, r.Reason = core.Failed, core.ReasonHandler })
	s.ask("POST", "/v1/jobs/shop/ledger/pause", `{"reason": "a new bank", "until": "2026-11-24T12:00:00Z"}`)
	s.ask("PUT", "/v1/jobs/shop/other", `{"handler":"x"}`)
	s.Clock = s.Clock.Add(2 * time.Second)
	body := s.says("/console/jobs", `href="/console/jobs?label=team%3Dpay"`, ">team=pay<")
	s.compare("two jobs", ".chip,.why")
	row := cutOut(body, `<tr id="job-1"`, "</tr>")
	for _, text := range []string{`class="s pause"`, `class="s fail"`} {
		if !strings.Contains(row, text) {
			t.Errorf("the row of a paused job has no %s:\n%s", text, row)
		}
	}
	s.never(s.shows(".cli", "/console/jobs?status=started", "shop/other"), "shop/ledger<")
}

// TestColumnsOfJobs: number and author are optional columns, and others can be omitted. The URL of the list has the
// columns, and its filters, its sort order and a view keep them.
func TestColumnsOfJobs(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", `{"handler":"pay","author":"vera"}`)
	s.never(s.says("/console/jobs", ">Schedule<", ">Took<"), ">vera<", ">Number<")
	const cols = "cols=job&cols=number&cols=author&cols=next"
	body := s.says("/console/jobs?rows=25&"+cols, ">vera<", ">Author<", `<td class="num muted hide">1</td>`,
		`href="/console/jobs?`+cols+`&rows=25&sort=number">Number`, `<input type="hidden" name="cols" value="author">`,
		`<option value="25" selected>25 rows`, cols+`&rows=25&sort=next`)
	s.never(body, ">Schedule<", ">Took<")
	s.never(body, `class="scroll wide"`)
	s.says("/console/jobs?cols=number&cols=author&cols=handler&cols=schedule&cols=next&cols=last", `<div class="scroll wide"><table`)
	panel := s.says("/console/jobs?app=shop&rows=25&panel=columns&"+cols, `value="author" checked`, `name="rows" value="25"`)
	s.never(panel, `value="took" checked`)
	s.post("/console/views", url.Values{"do": {"save"}, "page": {"jobs"}, "query": {cols + "&rows=25"}, "name": {"Mine"}})
	s.says("/console/jobs", `href="/console/jobs?`+cols+`&rows=25">Mine`)
	for path, names := range map[string]string{"/console/jobs?cols=moon": "number, job", "/console/jobs?rows=1000": "10, 25, 50, 100",
		"/console/runs?rows=x": "10, 25, 50, 100"} {
		if w := s.get(path); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), names) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestRowsOfPages: a page of jobs or runs has the number of rows in its URL.
func TestRowsOfPages(t *testing.T) {
	s := newConsole(t)
	for n := range 30 {
		job := s.Create(usecasetest.Spec(fmt.Sprintf("job-%d", n), usecasetest.Every(time.Minute)))
		s.ended(&job, 1, func(*core.Run) {})
	}
	for path, want := range map[string]int{"jobs?rows=10": 10, "jobs?rows=25": 25, "jobs": 30, "runs?rows=25": 25, "runs?rows=100": 30} {
		check.Equal(t, strings.Count(s.says("/console/"+path), `<tr id="`), want, "%s has N rows", path)
	}
}

// TestZoneOfTimes: the axis of upcoming runs, and each of the neighboring runs, show their time zone.
func TestZoneOfTimes(t *testing.T) {
	s := newConsole(t)
	s.cookies["tickring_tz"], s.cookies["tickring_zone"] = "America/New_York", "mine"
	job := s.Create(usecasetest.Spec("a", usecasetest.Every(time.Minute)))
	s.ended(&job, 1, func(*core.Run) {})
	run := s.ended(&job, 2, func(*core.Run) {})
	around := cutOut(s.says("/console/runs/"+run.ID.String()), "<tbody>", "</table>")
	if n := strings.Count(around, "<span class=zone>New York<"); n != strings.Count(around, `<tr id="run-`) || n < 2 {
		t.Errorf("%d times have a zone:\n%s", n, around)
	}
	s.says("/console/upcoming", `y="12">New York</text>`)
}
