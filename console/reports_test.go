package console_test

import (
	"html"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
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
	check.OK(s.t, s.reports.Pass(usecasetest.Ctx))
	s.Clock = now
}

// TestReports: there are reports by hour and day, in total and by app and job, with bars. Each number links to its
// runs.
func TestReports(t *testing.T) {
	s := goldenConsole(t)
	s.reportsSince(2 * time.Hour)
	job := s.Create(usecasetest.Spec("a", usecasetest.Every(time.Minute)))
	other := s.Create(usecasetest.Spec("b", usecasetest.Every(time.Minute)))
	for n := range 50 {
		s.ended(&job, n+1, func(r *core.Run) {
			if n < 20 {
				r.State, r.Reason = core.Failed, core.ReasonHandler
			}
		})
	}
	s.ended(&other, 3, func(*core.Run) {})
	s.shows(".head,.filters,tr,.cli", "/console/reports")
	body := s.shows("tr", "/console/reports?each=job&by=hour&when=24h")
	if strings.Index(body, ">shop/a<") > strings.Index(body, ">shop/b<") {
		t.Error("the job with the most failures is not first")
	}
	s.says("/console/reports?each=app&when=24h", ">shop<")
	s.shows(".head", "/console/reports?job=shop/b&when=24h")
	s.shows("#first,.cli", "/console/reports?when=yesterday")
	for _, to := range hrefs(body, "/console/runs?") {
		u, err := url.Parse(to)
		if err != nil || u.Query().Get("from") == "" || u.Query().Get("to") == "" {
			t.Fatalf("a link leads to %s", to)
		}
		s.says(to)
	}
	s.in("zh")
	s.shows("h1,th", "/console/reports?each=job")
	s.in("en")
	s.Clock = time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	s.says("/console/reports?when=today", "--from 2027-01-31T00:00:00Z")
	s.says("/console/reports?when=month", "--from 2027-01-01T00:00:00Z")
	s.says("/console/reports?when=last-month", "--from 2026-12-01T00:00:00Z --to 2027-01-01T00:00:00Z")
	for _, query := range []string{"by=week", "each=moon", "when=x", "by=hour&when=365d", "job=shop/none", "from=soon", "state=gone",
		"from=0001-01-01T00:00:00Z", "to=1970-01-01"} {
		check.Equal(t, s.get("/console/reports?"+query).Code/100, 4, "%s", query)
		s.compare(query, "[role=alert]")
	}
}

// TestLateness: a stall is a dark field with a link to its runs. Lost and skipped runs are crossed, and a field
// without due runs is empty.
func TestLateness(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("a", usecasetest.Every(time.Minute)))
	late := s.ended(&job, 5, func(r *core.Run) {
		r.SentAt = r.SentAt.Add(3 * time.Second)
		r.EndedAt = r.EndedAt.Add(3 * time.Second)
	})
	s.ended(&job, 20, func(*core.Run) {})
	s.ended(&job, 40, func(r *core.Run) { r.State, r.Reason, r.SentAt = core.Skipped, core.ReasonOverlap, time.Time{} })
	body := s.says("/console/lateness?when=1h&each=job", `class="h2"`, `class="h0"`, `class="cross"`)
	s.compare("lateness", ".head,title")
	check.Equal(t, strings.Count(body, "<title>")-1, 3, "fields are drawn")
	_, worst, _ := strings.Cut(body, `class="head"`)
	to := hrefs(worst, "/console/runs?")[0]
	check.Contains(t, s.says(to), "run-"+late.ID.String()+`"`, "%s does not show the late run", to)
	const day = `when=24h" aria-current="true"`
	s.says("/console/lateness", ">shop<", day)
	s.never(s.says("/console/lateness?to=2026-11-20T12:40:00Z", ">shop<"), day)
	s.says("/console/lateness?job=shop/a&when=1h", "shop/a")
	s.shows(".head,#first,.cli", "/console/lateness?when=yesterday")
	for _, query := range []string{"each=moon", "when=x", "job=shop/none", "from=2026-11-20T12:00:00Z&to=2026-11-20T11:00:00Z"} {
		check.Equal(t, s.get("/console/lateness?"+query).Code/100, 4, "%s", query)
		s.compare("lateness "+query, "[role=alert]")
	}
}

// TestWorstIsTheLatest: one very late run is the worst, however many others were on time. Its row shows its lateness,
// and the link leads to the runs of its field alone.
func TestWorstIsTheLatest(t *testing.T) {
	s := goldenConsole(t)
	many := s.Create(usecasetest.Spec("many", usecasetest.Every(time.Second)))
	few := s.Create(usecasetest.Spec("few", usecasetest.Every(time.Minute)))
	var latest core.RunID
	for n := range 80 {
		s.ended(&many, 30, func(r *core.Run) {
			at := r.At + core.Instant(n)
			r.ID = core.PlannedRun(many.Def.ID, at)
			r.First, r.At, r.Slot, r.SentAt, r.EndedAt = r.ID, at, at, at.Time(), at.Time().Add(time.Second)
			if n == 30 {
				r.SentAt = r.SentAt.Add(10 * time.Minute)
				r.EndedAt, latest = r.SentAt, r.ID
			}
		})
	}
	other := s.ended(&few, 29, func(r *core.Run) { r.SentAt, r.EndedAt = r.SentAt.Add(6*time.Second), r.EndedAt.Add(6*time.Second) })
	for _, query := range []string{"each=job", "job=shop/many", "app=shop&each=job"} {
		body := s.shows(".head", "/console/lateness?"+query, `t-late">10 min`)
		_, worst, _ := strings.Cut(body, `class="head"`)
		list := s.says(hrefs(worst, "/console/runs?")[0] + "&late=1m")
		check.Contains(t, list, "run-"+latest.String()+`"`, "%s: the latest run is not listed", query)
		s.never(s.says(hrefs(worst, "/console/runs?")[0]), "run-"+other.ID.String()+`"`)
	}
}
