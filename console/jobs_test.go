package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
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
		check.Contains(t, row, text)
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
		s.gets(path, http.StatusBadRequest, names)
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

// TestViews: a list with its filters is saved under a name, for oneself or for all users. It opens as saved, and its
// owner can delete it.
func TestViews(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "x", "labels": {"team": "a&b"}}`)
	s.never(s.says("/console/jobs"), `id="views"`)
	s.person("vera", access.Grant{Role: access.Viewer})
	s.person("anna", access.Grant{Role: access.Viewer})
	s.logInAs("vera")
	const query = "app=shop&label=team%3Da%26b"
	at := "/console/jobs?" + query
	s.shows("#views", at, "panel=view")
	_, form := firstForm(s.get(at + "&after=&panel=view").Body.String())
	holds(t, form, "query", query, "page", "jobs")
	s.shows("dialog", at+"&panel=view")
	typed := func(pairs ...string) url.Values { return with(maps.Clone(form), pairs...) }
	s.done("/console/views", typed("name", "Mine & ours"), `aria-current="true">Mine & ours</a>`,
		"shop/stock")
	s.done("/console/views", typed("name", "Everybody's", "shared", "1"), "Everybody's")
	body := s.get("/console/jobs").Body.String()
	check.Contains(t, body, `href="/console/jobs?app=shop&amp;label=team%3Da%26b">Mine &amp; ours`, "it does not lead where it")
	s.done("/console/views", typed("page", "runs", "query", "failed=1", "name", "Red"), "Red")
	s.never(s.says("/console/jobs"), ">Red<")
	s.wrong("/console/views", typed("name", ""), http.StatusBadRequest, `name="shared"`)
	s.wrong("/console/views", typed("name", strings.Repeat("x", 65)), http.StatusBadRequest, strings.Repeat("x", 65))
	s.wrong("/console/views", typed("name", "x", "page", "//evil.test"), http.StatusBadRequest)

	s.logInAs("anna")
	s.never(s.says("/console/jobs", "Everybody's", "vera"), "Mine & ours")
	s.never(s.shows("dialog", "/console/jobs?panel=view"), `value="delete"`)
	gone := url.Values{"do": {"delete"}, "page": {"jobs"}, "query": {""}, "name": {"Everybody's"}, "shared": {"1"}}
	s.wrong("/console/views", gone, http.StatusForbidden)
	s.wrong("/console/views", typed("name", "Everybody's", "shared", "1", "query", "status=late"), http.StatusConflict)
	s.logInAs("vera")
	s.never(s.done("/console/views", gone), ">Everybody's")
}

// formTo returns the values of the form that posts to an address.
func formTo(t *testing.T, body, action string) url.Values {
	t.Helper()
	form := cutOut(body, `action="`+action+`"`, "</form>")
	if form == "" {
		t.Fatalf("no form for %s in %s", action, body)
	}
	return fields(form)
}

// TestPauseMany: the selected jobs, or all that match the filter, are counted and then paused with a reason as one
// operation. An undo ends only that pause.
func TestPauseMany(t *testing.T) {
	s := goldenConsole(t)
	for i := range 5 {
		s.ask("PUT", fmt.Sprint("/v1/jobs/shop/job-", i), `{"handler": "x", "schedule": {"every": "1h"}}`)
	}
	s.ask("POST", "/v1/jobs/shop/job-0/pause", `{"reason": "before"}`)
	panel := s.shows("dialog", "/console/jobs?panel=pause&pick=shop/job-1&pick=shop/job-2")
	q := formTo(t, panel, "/console/jobs/bulk")
	q.Set("which", "picked")
	s.wrong("/console/jobs/bulk", q, http.StatusBadRequest, `role="alert"`)
	q.Set("reason", "a new bank")
	s.wrong("/console/jobs/bulk", q, http.StatusOK)
	s.compare("picked", ".head")
	s.shows(".why,.chip", "/console/jobs?status=paused")

	q = formTo(t, s.shows("dialog", "/console/jobs?text=job-&panel=pause"), "/console/jobs/bulk")
	q.Set("which", "all")
	q.Set("reason", "all of them")
	undo := formTo(t, s.wrong("/console/jobs/bulk", q, http.StatusOK), "/console/jobs/bulk")
	s.compare("all", ".head")
	s.wrong("/console/jobs/bulk", undo, http.StatusOK)
	s.compare("undone", ".head")
	s.shows(".why,.chip", "/console/jobs?status=paused")
}

// TestDeleteManyOfSomeApps: a user with the permission in some apps sees the number of jobs in those apps, and types
// that number. If another job was created since, the number is wrong.
func TestDeleteManyOfSomeApps(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/pay", `{"allow": ["10.0.0.0/8"]}`)
	for _, job := range []string{"shop/a", "pay/b", "pay/c"} {
		s.ask("PUT", "/v1/jobs/"+job, `{"handler": "x"}`)
	}
	s.person("lina", access.Grant{Role: access.Viewer}, access.Grant{App: "shop", Role: access.Editor})
	s.logInAs("lina")
	s.says("/console/jobs", "panel=delete", `href="/console/jobs/new"`)
	panel := s.shows("dialog", "/console/jobs?panel=delete")
	dialog := cutOut(panel, "<dialog", "</dialog>")
	s.never(dialog, "pay/")
	q := formTo(t, panel, "/console/jobs/bulk")
	q.Set("which", "all")
	q.Set("count", "3")
	s.posts("/console/jobs/bulk", q, http.StatusBadRequest)
	q.Set("count", "1")
	s.ask("PUT", "/v1/jobs/shop/newcomer", `{"handler": "x"}`)
	s.posts("/console/jobs/bulk", q, http.StatusBadRequest)
	s.ask("DELETE", "/v1/jobs/shop/newcomer", "")
	s.wrong("/console/jobs/bulk", q, http.StatusOK)
	s.compare("the deletion", ".head")
	s.says("/console/jobs", `id="job-2"`, `id="job-3"`)
	s.shows("dialog", "/console/jobs?panel=pause&app=shop") // one app needs no note on permissions
}

// TestRunManyOnce: a form that is sent twice runs each job once.
func TestRunManyOnce(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/job", `{"handler": "x"}`)
	q := formTo(t, s.says("/console/jobs?panel=trigger&pick=shop/job"), "/console/jobs/bulk")
	q.Set("which", "picked")
	for range 2 {
		s.posts("/console/jobs/bulk", q, http.StatusOK)
	}
	body := s.says("/console/runs?job=shop/job")
	check.Equal(t, strings.Count(body, `<tr id="run-`), 1, "runs")
}

// TestManyInParts: the page shows the failures of all parts together. A pause that was stopped between two parts can
// be undone.
func TestManyInParts(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/job", `{"handler": "x"}`)
	panel := s.says("/console/jobs?panel=pause")
	parts := []string{`{"operation": "a-1", "found": 4, "done": 1, "fail": 1, "next": 7, "failed": [{"job": "shop/first", "message": "it is <b>gone"}]}`,
		`{"operation": "a-1", "found": 4, "done": 1, "fail": 1, "next": 8, "failed": [{"job": "shop/second", "message": "in the way"}]}`}
	asked := 0
	s.stub("/v1/bulk", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(parts[asked]))
		asked++
	})
	q := with(formTo(t, panel, "/console/jobs/bulk"), "which", "all", "reason", "why")
	first := s.wrong("/console/jobs/bulk", q, http.StatusOK, "shop/first", "data-goon")
	s.never(first, `name="undo"`)
	second := s.post("/console/jobs/bulk", formTo(t, s.page, "/console/jobs/bulk")).Body.String()
	s.compare("the second part", "#live")
	_, stop, _ := strings.Cut(second, `id="stop"`)
	s.wrong("/console/jobs/bulk", formTo(t, stop, "/console/jobs/bulk"), http.StatusOK, `name="undo" value="a-1"`)
	s.compare("stopped", "#live")
	check.Equal(t, asked, 2, "parts were done")
}

// TestRefusedManyKeepTheirFilter: a rejected panel applies to the same jobs when it is sent again. The links back,
// from the panel, its result and an undo, lead to the list as it was shown.
func TestRefusedManyKeepTheirFilter(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/one", `{"handler": "x"}`)
	s.ask("PUT", "/v1/jobs/shop/other", `{"handler": "x"}`)
	const list = "/console/jobs?cols=job&cols=author&reverse=true&rows=25&sort=name&text=one"
	q := formTo(t, s.shows("dialog", list+"&panel=pause"), "/console/jobs/bulk")
	body := s.wrong("/console/jobs/bulk", with(q, "which", "all", "reason", "why", "until", "soon"), http.StatusBadRequest,
		`data-back="`+list+`"`, `<th class="hide">Author</th>`, `aria-sort="descending"`)
	s.compare("the rejected panel", "dialog")
	q = with(formTo(t, body, "/console/jobs/bulk"), "which", "all", "reason", "why", "until", "")
	body = s.wrong("/console/jobs/bulk", q, http.StatusOK, `href="`+list+`"`)
	s.wrong("/console/jobs/bulk", formTo(t, body, "/console/jobs/bulk"), http.StatusOK, `href="`+list+`"`)
}
