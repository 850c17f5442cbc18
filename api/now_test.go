package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestJobsNow: the list of jobs with their status has counts, the last runs in brief and a cursor.
func TestJobsNow(t *testing.T) {
	f := newFixture(t)
	f.shop()
	f.must("PUT", "/v1/jobs/shop/second", `{"handler":"x","schedule":{"every":"1h"}}`)
	f.must("POST", "/v1/jobs/shop/second/trigger", `{}`)
	f.must("POST", "/v1/jobs/shop/report/pause", `{"reason":"broken"}`)
	page, err := f.c.ListJobs(t.Context(), client.ListJobsParams{Sort: "name", Reverse: true, Counts: true, Runs: 3, Limit: 1})
	check.OK(t, err)
	want := client.JobCounts{All: 2, Paused: 1, Started: 1, NeverRan: 1}
	if page.Counts == nil || *page.Counts != want || len(page.Jobs) != 1 || page.Jobs[0].Name != "second" || len(page.Jobs[0].Recent) != 1 ||
		page.Cursor == "" {
		t.Errorf("%+v", page)
	}
	page, err = f.c.ListJobs(t.Context(), client.ListJobsParams{Sort: "name", Reverse: true, Limit: 1, Cursor: page.Cursor})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Name != "report" || page.Cursor != "" {
		t.Errorf("%+v, %v", page, err)
	}
	page, err = f.c.ListJobs(t.Context(), client.ListJobsParams{Status: []string{"paused"}})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Pause.Reason != "broken" {
		t.Errorf("%+v, %v", page, err)
	}
	for query, field := range map[string]string{"status=odd": "status", "sort=odd": "sort", "runs=31": "runs", "sort=name&after=3": "after",
		"counts=true&cursor=x": "cursor"} {
		if status, answer := f.ask("GET", "/v1/jobs?"+query, ""); status != 400 || !strings.Contains(answer, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", query, status, answer)
		}
	}
}

// TestHome: the answer has the number of jobs in each status, and the state of the scheduler.
func TestHome(t *testing.T) {
	f := newFixture(t)
	f.shop()
	f.must("PUT", "/v1/jobs/shop/soon", `{"handler":"x","schedule":{"every":"5m"}}`)
	later := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339) // so that it is not among the jobs of the next minutes
	f.must("PUT", "/v1/jobs/shop/report", `{"handler":"x","schedule":{"at":"`+later+`"}}`)
	h, err := f.c.GetOverview(t.Context())
	if err != nil || h.Coming.Jobs != 1 || len(h.Coming.First) != 1 || h.Coming.First[0].Job != "shop/soon" ||
		len(h.AppsWithoutExecutor) != 1 || h.AppsWithoutExecutor[0].Jobs != 2 || h.Failing.Count != 0 {
		t.Errorf("%+v, %v", h, err)
	}
}
