package console_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/peopletest"
)

// hrefs returns the links of a page that start with begin.
func hrefs(body, begin string) (list []string) {
	for _, part := range strings.Split(body, `href="`+begin)[1:] {
		to, _, _ := strings.Cut(part, `"`)
		list = append(list, begin+html.UnescapeString(to))
	}
	return list
}

// reportsSince lets reports start that long before now.
func (s *site) reportsSince(ago time.Duration) {
	s.t.Helper()
	now := s.Clock
	s.Clock = now.Add(-ago)
	if err := s.reports.Pass(peopletest.Ctx); err != nil {
		s.t.Fatal(err)
	}
	s.Clock = now
}

// TestReports: there are reports by hour and day, in total and by app and job, with bars. Each number links to its
// runs.
func TestReports(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	s.reportsSince(2 * time.Hour)
	job, other := s.Create(peopletest.Spec("a", peopletest.Every(time.Minute))), s.Create(peopletest.Spec("b", peopletest.Every(time.Minute)))
	for n := range 50 {
		s.ended(&job, n+1, func(r *core.Run) {
			if n < 20 {
				r.State, r.Reason = core.Failed, core.ReasonHandler
			}
		})
	}
	s.ended(&other, 3, func(*core.Run) {})
	s.says("/console/reports", "51 runs started, 20 failed", "60.8 %", "20 failed: the handler reported a failure", "by hour",
		"tickring report --by day")
	body := s.says("/console/reports?each=job&by=hour&when=24h", "shop/a", "60.0 %", "shop/b", "100 %")
	if strings.Index(body, ">shop/a<") > strings.Index(body, ">shop/b<") {
		t.Error("the job with the most failures is not first")
	}
	s.says("/console/reports?each=app&when=24h", ">shop<")
	s.says("/console/reports?job=shop/b&when=24h", "1 runs started, 0 failed")
	s.says("/console/reports?when=yesterday", "No runs started in this time range.", "tickring trigger app/name")
	for _, to := range hrefs(body, "/console/runs?") {
		u, err := url.Parse(to)
		if err != nil || u.Query().Get("from") == "" || u.Query().Get("to") == "" {
			t.Fatalf("a link leads to %s", to)
		}
		s.says(to)
	}
	s.in("zh")
	s.says("/console/reports?each=job", "运行报表", "成功率")
	s.in("en")
	s.Clock = time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	s.says("/console/reports?when=today", "--from 2027-01-31T00:00:00Z", "today")
	s.says("/console/reports?when=month", "--from 2027-01-01T00:00:00Z", "this month")
	s.says("/console/reports?when=last-month", "--from 2026-12-01T00:00:00Z --to 2027-01-01T00:00:00Z", "last month")
	for _, query := range []string{"by=week", "each=moon", "when=x", "by=hour&when=365d", "job=shop/none", "from=soon", "state=gone",
		"from=0001-01-01T00:00:00Z", "to=1970-01-01"} {
		w := s.get("/console/reports?" + query)
		if w.Code < 400 || w.Code > 499 || !strings.Contains(w.Body.String(), "Invalid query") {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
}

// TestLateness: a stall is a dark field with a link to its runs. Lost and skipped runs are crossed, and a field
// without due runs is empty.
func TestLateness(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	job := s.Create(peopletest.Spec("a", peopletest.Every(time.Minute)))
	late := s.ended(&job, 5, func(r *core.Run) {
		r.SentAt = r.SentAt.Add(3 * time.Second)
		r.EndedAt = r.EndedAt.Add(3 * time.Second)
	})
	s.ended(&job, 20, func(*core.Run) {})
	s.ended(&job, 40, func(r *core.Run) { r.State, r.Reason, r.SentAt = core.Skipped, core.ReasonOverlap, time.Time{} })
	body := s.says("/console/lateness?when=1h&each=job", "at most 3.0 s late: shop/a", "p99 ", `class="h2"`, `class="h0"`,
		`class="cross"`, "0 lost, 1 skipped")
	if n := strings.Count(body, "<title>") - 1; n != 3 {
		t.Errorf("%d fields are drawn", n)
	}
	_, worst, _ := strings.Cut(body, "at most")
	to := hrefs(worst, "/console/runs?")[0]
	if shown := s.says(to); !strings.Contains(shown, "run-"+late.ID.String()+`"`) {
		t.Errorf("%s does not show the late run", to)
	}
	const day = `aria-current="true">24 hours`
	s.says("/console/lateness", ">shop<", day)
	s.never(s.says("/console/lateness?to=2026-11-20T12:40:00Z", ">shop<"), day)
	s.says("/console/lateness?job=shop/a&when=1h", "shop/a")
	s.says("/console/lateness?when=yesterday", "no runs were due", "tickring create web/ping")
	for _, query := range []string{"each=moon", "when=x", "job=shop/none", "from=2026-11-20T12:00:00Z&to=2026-11-20T11:00:00Z"} {
		if w := s.get("/console/lateness?" + query); w.Code < http.StatusBadRequest || w.Code > 499 ||
			!strings.Contains(w.Body.String(), "Invalid query") {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
}

// TestWorstIsTheLatest: one very late run is the worst, however many others were on time. Its row shows its lateness,
// and the link leads to the runs of its field alone.
func TestWorstIsTheLatest(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	many := s.Create(peopletest.Spec("many", peopletest.Every(time.Second)))
	few := s.Create(peopletest.Spec("few", peopletest.Every(time.Minute)))
	var latest core.RunID
	for n := range 200 {
		s.ended(&many, 30, func(r *core.Run) {
			at := r.At + core.Instant(n)
			r.ID = core.PlannedRun(many.Def.ID, at)
			r.First, r.At, r.Slot, r.SentAt, r.EndedAt = r.ID, at, at, at.Time(), at.Time().Add(time.Second)
			if n == 70 {
				r.SentAt = r.SentAt.Add(10 * time.Minute)
				r.EndedAt, latest = r.SentAt, r.ID
			}
		})
	}
	other := s.ended(&few, 29, func(r *core.Run) { r.SentAt, r.EndedAt = r.SentAt.Add(6*time.Second), r.EndedAt.Add(6*time.Second) })
	for _, query := range []string{"each=job", "job=shop/many", "app=shop&each=job"} {
		body := s.says("/console/lateness?"+query, "at most 10 min late: shop/many,", `t-late">10 min`)
		_, worst, _ := strings.Cut(body, "at most")
		list := s.says(hrefs(worst, "/console/runs?")[0] + "&late=1m")
		if !strings.Contains(list, "run-"+latest.String()+`"`) {
			t.Errorf("%s: the latest run is not listed", query)
		}
		s.never(s.says(hrefs(worst, "/console/runs?")[0]), "run-"+other.ID.String()+`"`)
	}
}
