package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/peopletest"
)

// TestRowsOfJobs: a row has the labels of its job, and of one that is paused its last result too,
// with whose clock says until when; how many are started is a filter.
func TestRowsOfJobs(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	job, err := s.M.Job(t.Context(), "shop/ledger")
	if err != nil {
		t.Fatal(err)
	}
	s.ended(&job, 3, func(r *core.Run) { r.State, r.Reason = core.Failed, core.ReasonHandler })
	s.ask("POST", "/v1/jobs/shop/ledger/pause", `{"reason": "a new bank", "until": "2026-11-24T12:00:00Z"}`)
	s.ask("PUT", "/v1/jobs/shop/other", `{"handler":"x"}`)
	s.Clock = s.Clock.Add(2 * time.Second)
	body := s.says("/console/jobs", `href="/console/jobs?label=team%3Dpay"`, ">team=pay<", "until 2026-11-24 12:00 UTC: a new bank",
		"Started 1", "Paused 1")
	_, row, _ := strings.Cut(body, `<tr id="job-1"`)
	row, _, _ = strings.Cut(row, "</tr>")
	for _, text := range []string{`class="s pause"`, `class="s fail"`} {
		if !strings.Contains(row, text) {
			t.Errorf("the row of what is paused has no %s:\n%s", text, row)
		}
	}
	s.never(s.says("/console/jobs?is=started", "shop/other", "tickring get --is started"), "shop/ledger<")
}

// TestZoneOfTimes: the axis of what comes, and each of the runs around one, name whose clock it is.
func TestZoneOfTimes(t *testing.T) {
	s := newConsole(t)
	s.cookies["tickring_tz"], s.cookies["tickring_zone"] = "America/New_York", "mine"
	job := s.Create(peopletest.Spec("a", peopletest.Every(time.Minute)))
	s.ended(&job, 1, func(*core.Run) {})
	run := s.ended(&job, 2, func(*core.Run) {})
	_, around, _ := strings.Cut(s.says("/console/runs/"+run.ID.String(), "The runs around it"), "The runs around it")
	around, _, _ = strings.Cut(around, "</table>")
	if n := strings.Count(around, "<span class=zone>New York<"); n != strings.Count(around, "<tr") || n < 2 {
		t.Errorf("%d times have a zone:\n%s", n, around)
	}
	s.says("/console/upcoming", `y="12">New York</text>`)
}
