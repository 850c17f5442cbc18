package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/tickring/tickring/console"

	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
)

// hidden returns the hidden fields of the form that posts to an address.
func hidden(t *testing.T, body, action string) url.Values {
	t.Helper()
	_, form, ok := strings.Cut(body, `action="`+action+`"`)
	if !ok {
		t.Fatalf("no form for %s in %s", action, body)
	}
	form, _, _ = strings.Cut(form, "</form>")
	q := url.Values{}
	for _, m := range regexp.MustCompile(`type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(form, -1) {
		q.Add(m[1], m[2])
	}
	return q
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
	q := hidden(t, panel, "/console/jobs/bulk")
	q.Set("which", "picked")
	s.wrong("/console/jobs/bulk", q, http.StatusBadRequest, `role="alert"`)
	q.Set("reason", "a new bank")
	s.wrong("/console/jobs/bulk", q, http.StatusOK)
	s.compare("picked", ".head")
	s.shows(".why,.chip", "/console/jobs?status=paused")

	q = hidden(t, s.shows("dialog", "/console/jobs?text=job-&panel=pause"), "/console/jobs/bulk")
	q.Set("which", "all")
	q.Set("reason", "all of them")
	undo := hidden(t, s.wrong("/console/jobs/bulk", q, http.StatusOK), "/console/jobs/bulk")
	s.compare("all", ".head")
	s.wrong("/console/jobs/bulk", undo, http.StatusOK)
	s.compare("undone", ".head")
	s.shows(".why,.chip", "/console/jobs?status=paused")
}

// TestDeleteMany: the user must type the number of jobs.
func TestDeleteMany(t *testing.T) {
	s := goldenConsole(t)
	for i := range 3 {
		s.ask("PUT", fmt.Sprint("/v1/jobs/shop/job-", i), `{"handler": "x"}`)
	}
	q := hidden(t, s.shows("dialog", "/console/jobs?panel=delete"), "/console/jobs/bulk")
	q.Set("which", "all")
	q.Set("count", "2")
	if w := s.post("/console/jobs/bulk", q); w.Code != http.StatusBadRequest {
		t.Errorf("another count: %d", w.Code)
	}
	s.shows(".head", "/console/jobs")
	q.Set("count", "3")
	s.ask("PUT", "/v1/jobs/shop/newcomer", `{"handler": "x"}`)
	if w := s.post("/console/jobs/bulk", q); w.Code != http.StatusBadRequest {
		t.Errorf("by now there are 4: %d", w.Code)
	}
	s.shows(".head", "/console/jobs")
	s.ask("DELETE", "/v1/jobs/shop/newcomer", "")
	if w := s.post("/console/jobs/bulk", q); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.shows("#first", "/console/jobs")
}

// TestDeleteManyOfSomeApps: a user with the permission in some apps sees the number of jobs in those apps, and types
// that number.
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
	q := hidden(t, panel, "/console/jobs/bulk")
	q.Set("which", "all")
	q.Set("count", "3")
	if w := s.post("/console/jobs/bulk", q); w.Code != http.StatusBadRequest {
		t.Errorf("the count of all: %d", w.Code)
	}
	q.Set("count", "1")
	s.wrong("/console/jobs/bulk", q, http.StatusOK)
	s.compare("the deletion", ".head")
	s.says("/console/jobs", `id="job-2"`, `id="job-3"`)
	s.shows("dialog", "/console/jobs?panel=pause&app=shop") // one app needs no note on permissions
}

// TestRunManyOnce: a form that is sent twice runs each job once.
func TestRunManyOnce(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/job", `{"handler": "x"}`)
	q := hidden(t, s.says("/console/jobs?panel=trigger&pick=shop/job"), "/console/jobs/bulk")
	q.Set("which", "picked")
	for range 2 {
		if w := s.post("/console/jobs/bulk", q); w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
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
	s.h = console.New(console.Options{Access: s.access, Log: slog.New(slog.DiscardHandler),
		API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/bulk" {
				s.api.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(parts[asked]))
			asked++
		})})
	q := with(hidden(t, panel, "/console/jobs/bulk"), "which", "all", "reason", "why")
	first := s.wrong("/console/jobs/bulk", q, http.StatusOK, "shop/first", "data-goon")
	s.never(first, `name="undo"`)
	second := s.post("/console/jobs/bulk", hidden(t, first, "/console/jobs/bulk")).Body.String()
	s.compare("the second part", "#live")
	_, stop, _ := strings.Cut(second, `id="stop"`)
	s.wrong("/console/jobs/bulk", hidden(t, stop, "/console/jobs/bulk"), http.StatusOK, `name="undo" value="a-1"`)
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
	q := hidden(t, s.shows("dialog", list+"&panel=pause"), "/console/jobs/bulk")
	body := s.wrong("/console/jobs/bulk", with(q, "which", "all", "reason", "why", "until", "soon"), http.StatusBadRequest,
		`data-back="`+list+`"`, `<th class="hide">Author</th>`, `aria-sort="descending"`)
	s.compare("the rejected panel", "dialog")
	q = with(hidden(t, body, "/console/jobs/bulk"), "which", "all", "reason", "why")
	body = s.wrong("/console/jobs/bulk", q, http.StatusOK, `href="`+list+`"`)
	s.wrong("/console/jobs/bulk", hidden(t, body, "/console/jobs/bulk"), http.StatusOK, `href="`+list+`"`)
}
