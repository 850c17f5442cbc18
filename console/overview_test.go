package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestUpcoming: each app has a lane, with a band for frequent jobs and marks for peaks. A time range in the URL lists
// its runs, with pauses. Invalid times show an error.
func TestUpcoming(t *testing.T) {
	s := goldenConsole(t)
	s.shows("p", "/console/upcoming")
	s.ask("PUT", "/v1/apps/pay", `{}`)
	s.ask("PUT", "/v1/jobs/pay/often", `{"handler": "x", "schedule": {"every": "10s"}}`)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		s.ask("PUT", "/v1/jobs/shop/"+name, `{"handler": "x", "title": "<b>t</b>", "route": "failover", "schedule": {"cron": "0 30 2 * * ?"}}`)
	}
	s.ask("POST", "/v1/jobs/shop/l/pause", `{"reason": "the <i>bank</i>"}`)
	page := s.shows(".head,p", "/console/upcoming", ">pay<", ">shop<", "often: 8640", "from=2026-11-21T02%3A00%3A00Z")
	if n := strings.Count(page, "class=fire"); n > 20 {
		t.Errorf("%d bars for a frequent job", n)
	}
	list := s.shows("details,#first,.cli", "/console/upcoming?from=2026-11-21T02:00:00Z&to=2026-11-21T03:00:00Z&app=shop",
		`href="/console/jobs/shop/a"`)
	s.never(list, "pay/often")
	check.Equal(t, strings.Count(list, `/at/2026-11-21T02:30:00Z`), 11, "of 11 instants are listed")
	check.Equal(t, strings.Count(list, "route failover"), 12, "the page shows the results of N of 12 jobs")
	s.shows(".head", "/console/upcoming?days=7", "often: 60480")
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"} {
		s.ask("PUT", "/v1/jobs/shop/"+name, `{"handler": "x", "schedule": {"cron": "0 30 2-9 * * ?"}}`)
	}
	page = s.shows(".hint", "/console/upcoming")
	s.never(page, `href="/console/jobs?status=paused"`)
	bar := regexp.MustCompile(`from=2026-11-21T(\d\d)[^"]*" tabindex="-1" aria-label="scheduled`)
	if bars := bar.FindAllString(page, -1); len(bars) < 8 || !slices.IsSorted(bars) {
		t.Errorf("the bars are not in the order of their times: %q", bars)
	}
	s.ask("POST", "/v1/jobs/pay/often/pause", `{}`)
	s.shows(".hint", "/console/upcoming", `href="/console/jobs?status=paused"`)
	for _, bad := range []url.Values{{"from": {"soon"}}, {"app": {"no app"}}, {"from": {"2990-01-01T00:00:00Z"}},
		{"from": {strings.Repeat("9", 5000)}}} {
		s.gets("/console/upcoming?"+bad.Encode(), http.StatusBadRequest)
	}
}

// TestMenuDoesNotWaitForACount: if a count takes too long, this page and the next one show the count before.
func TestMenuDoesNotWaitForACount(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock", "schedule": {"cron": "0 0 3 * * ?"}}`)
	slow, asked := false, 0
	s.stub("/v1/overview", func(w http.ResponseWriter, r *http.Request) {
		if !slow {
			s.api.ServeHTTP(w, r)
			return
		}
		asked++
		if until, ends := r.Context().Deadline(); !ends || time.Until(until) > 5*time.Second {
			t.Errorf("it is waited for as long as any call: until %s", until)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	const one = `: 1">1</span>`
	s.says("/console/runs", one)
	s.Clock, slow = s.Clock.Add(time.Minute), true
	s.says("/console/runs", one)
	s.says("/console/runs", one)
	check.Equal(t, asked, 1, "it was asked for N times")
}

// TestPagesSayWhatTheyDidNotCheck: if the runs of some jobs were not read, the overview page shows that, and does not claim that no
// job is late. If more jobs may be failing than a page checks, the overview page and the job list show how many, with a link. They
// do not claim that no job fails.
func TestPagesSayWhatTheyDidNotCheck(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.7:9999"]}`)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock", "schedule": {"every": "1m", "offset": "0s"}}`)
	with := strings.NewReplacer(`"long":`, `"unread": true, "long":`)
	s.remade(func(o *console.Options) {
		o.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			of := httptest.NewRecorder()
			s.api.ServeHTTP(of, r)
			maps.Copy(w.Header(), of.Header())
			w.WriteHeader(of.Code)
			fmt.Fprint(w, with.Replace(of.Body.String()))
		})
	})
	s.says("/console/", `href="/console/jobs?status=late"`)
	s.compare("runs were not read", ".head,.hint")
	with = strings.NewReplacer(`"long":`, `"unchecked": 9800, "long":`, `"counts":{`, `"counts":{"unchecked": 9800,`)
	for _, path := range []string{"/console/", "/console/jobs", "/console/jobs?status=failing"} {
		s.shows(".head,.hint", path)
	}
}
