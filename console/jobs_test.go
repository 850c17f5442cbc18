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

// formTo returns the values of the form that posts to an address.
func formTo(t *testing.T, body, action string) url.Values {
	t.Helper()
	form := cutOut(body, `action="`+action+`"`, "</form>")
	if form == "" {
		t.Fatalf("no form for %s in %s", action, body)
	}
	return fields(form)
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
