package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
)

var clockNamed = regexp.MustCompile(`Time zone: ([A-Za-z/_]+)`)

// answer reads an answer of the API into v.
func (s *site) answer(path string, v any) {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://console.test"+path, nil)
	r.Header.Set("Authorization", "Bearer "+adminToken)
	w := httptest.NewRecorder()
	if s.api.ServeHTTP(w, r); w.Code != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	check.OK(s.t, json.Unmarshal(w.Body.Bytes(), v))
}

// TestTypedTimes: a time field names a zone beside it, and its input is parsed in that zone. Neither the zone of the
// page nor a later selection changes that.
func TestTypedTimes(t *testing.T) {
	const typed = "2026-12-24 18:00"
	var state struct{ Pause struct{ Until time.Time } }
	forms := []struct {
		name, page, action, field string
		extra                     []string
		stored                    func(s *site, job, to string) time.Time
	}{
		{"pause", "/console/jobs/shop/%s?panel=pause", "/console/jobs/shop/%s/pause", "until", nil, func(s *site, job, _ string) time.Time {
			s.answer("/v1/jobs/shop/"+job, &state)
			return state.Pause.Until
		}},
		{"later", "/console/jobs/shop/%s?panel=run", "/console/jobs/shop/%s/trigger", "at", nil, func(s *site, _, to string) time.Time {
			var run struct{ DueAt time.Time }
			s.answer("/v1/runs/"+to[strings.LastIndex(to, "/")+1:], &run)
			return run.DueAt
		}},
		{"many", "/console/jobs?panel=pause&pick=shop/%s", "/console/jobs/bulk", "until", []string{"which", "picked"},
			func(s *site, job, _ string) time.Time {
				s.answer("/v1/jobs/shop/"+job, &state)
				return state.Pause.Until
			}},
		{"app", "/console/executors/shop?panel=pause", "/console/executors/shop?panel=pause", "until", nil,
			func(s *site, job, _ string) time.Time {
				s.answer("/v1/apps/shop", &state)
				return state.Pause.Until
			}},
		{"all", "/console/system?panel=pause", "/console/system?panel=pause", "until", nil, func(s *site, job, _ string) time.Time {
			s.answer("/v1/status", &state)
			return state.Pause.Until
		}},
	}
	for _, job := range []string{"here", "nowhere"} {
		for _, mode := range []string{"job", "mine", "utc"} {
			for _, f := range forms {
				s := newConsole(t)
				s.ask("PUT", "/v1/jobs/shop/here", `{"handler": "x", "schedule": {"crontab": "0 3 * * *", "timezone": "Europe/Berlin"}}`)
				s.ask("PUT", "/v1/jobs/shop/nowhere", `{"handler": "x", "schedule": {"crontab": "0 3 * * *"}}`)
				of := func(path string) string { return strings.ReplaceAll(path, "%s", job) }
				s.cookies["tickring_tz"], s.cookies["tickring_zone"] = "Asia%2FShanghai", mode
				panel := s.says(of(f.page))
				panel = panel[strings.Index(panel, "<dialog"):]
				named := clockNamed.FindStringSubmatch(panel)
				if named == nil {
					t.Errorf("%s of %s: no clock is named: %s", f.name, job, panel)
					continue
				}
				loc, err := time.LoadLocation(named[1])
				if err != nil {
					t.Errorf("%s of %s: %v", f.name, job, err)
					continue
				}
				form := cutOut(panel, "<form", "</form>")
				s.cookies["tickring_tz"], s.cookies["tickring_zone"] = "America%2FNew_York", "mine"
				w := s.post(of(f.action), with(fields(form), append(f.extra, f.field, typed, "reason", "why")...))
				if w.Code >= 400 {
					t.Errorf("%s of %s, times %s: %d %s", f.name, job, mode, w.Code, w.Body)
					continue
				}
				want, _ := time.ParseInLocation("2006-01-02 15:04", typed, loc)
				if got := f.stored(s, job, w.Header().Get("Location")); !got.Equal(want) {
					t.Errorf("%s of %s, times %s: by the clock of %s it is %v, and %v is stored", f.name, job, mode, loc, want, got)
				}
			}
		}
	}
}

// TestOnceAtIsOfItsZone: the time of a schedule is in the zone of the form.
func TestOnceAtIsOfItsZone(t *testing.T) {
	for zone, want := range map[string]string{"Europe/Berlin": "2026-12-24T17:00:00Z", "": "2026-12-24T18:00:00Z"} {
		for _, mode := range []string{"job", "mine", "utc"} {
			s := newConsole(t)
			s.cookies["tickring_tz"], s.cookies["tickring_zone"] = "Asia%2FShanghai", mode
			s.says("/console/jobs/new", `class="hint at"`)
			form := s.form("/console/jobs/new?app=shop", "name", "once", "handler", "x", "kind.0", "at", "expr.0", "2026-12-24 18:00",
				"timezone", zone)
			s.done("/console/jobs/new", form)
			var job struct{ Schedule struct{ At time.Time } }
			if s.answer("/v1/jobs/shop/once", &job); job.Schedule.At.UTC().Format(time.RFC3339) != want {
				t.Errorf("in %q, times %s: %v is stored", zone, mode, job.Schedule.At)
			}
		}
	}
}
