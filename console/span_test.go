package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// TestFieldsKeepTheSpan: the fields of a time range are less exact than its times. Sent unchanged with other input,
// they keep the exact times; a changed field is parsed. Both use the zone that the form names, even if the user has
// selected another one since.
func TestFieldsKeepTheSpan(t *testing.T) {
	s := newConsole(t)
	s.cookies["tickring_zone"], s.cookies["tickring_tz"] = "mine", "Europe/Berlin"
	for _, page := range []string{"runs", "audit-log", "reports"} {
		for name, c := range map[string]struct {
			from, to  string // in the page
			typed, at string // in place of from; empty: unchanged
		}{
			"seconds":          {from: "2026-11-20T10:15:10Z", to: "2026-11-20T10:15:40Z"},
			"part of a second": {from: "2026-11-20T10:15:10.25Z", to: "2026-11-20T10:15:10.5Z"},
			"the second 02:30": {from: "2026-10-25T01:30:00Z", to: "2026-10-25T02:30:00Z"},
			"the first 02:30":  {from: "2026-10-25T00:30:00Z", to: "2026-10-25T01:30:00Z"},
			"an end":           {to: "2026-11-20T10:15:10Z"},
			"another is typed": {from: "2026-11-20T10:15:10Z", to: "2026-11-20T10:15:40Z", typed: "2026-11-20T11:00",
				at: "2026-11-20T11:00:00+01:00"},
			"the first is emptied": {from: "2026-11-20T10:15:10Z", to: "2026-11-20T10:15:40Z", typed: " "},
		} {
			u := url.URL{Path: "/console/" + page}
			q := url.Values{"to": {c.to}}
			if c.from != "" {
				q.Set("from", c.from)
			}
			u.RawQuery = q.Encode()
			body := s.says(u.String())
			if seconds := strings.Contains(c.to, "10:15:"); strings.Contains(body, `step="1"`) != seconds {
				t.Errorf("%s, %s: its fields take seconds: %v", page, name, !seconds)
			}
			form := fields(cutOut(body, `<form class="filters"`, "</form>"))
			want := c.from
			if page == "reports" && c.from == "" { // the default is seven days
				want = "2026-11-13T10:15:10Z"
			}
			if form.Set("job", "shop/a"); c.typed != "" {
				form.Set("from", strings.TrimSpace(c.typed))
				want = c.at
			}
			s.cookies["tickring_zone"] = "utc" // in another tab
			w := s.get("/console/" + page + "?" + form.Encode())
			s.cookies["tickring_zone"] = "mine"
			to, err := url.Parse(w.Header().Get("Location"))
			if err != nil || w.Code != http.StatusSeeOther {
				t.Fatalf("%s, %s: %d %s", page, name, w.Code, w.Body)
			}
			if got := to.Query(); got.Get("from") != want || got.Get("to") != c.to || got.Get("job") != "shop/a" || got.Has("to-at") ||
				got.Has("zone") {
				t.Errorf("%s, %s: the form leads to %s", page, name, to)
			}
		}
	}
	w := s.get("/console/runs?app=shop&when=24h&from=&to=&zone=Europe%2FBerlin")
	check.Equal(t, w.Header().Get("Location"), "/console/runs?app=shop&when=24h", "a preset leads to")
}

// TestRemovedByTheClockThatWasNamed: a deletion by time uses the zone that its field named. The time is the same when
// the runs are counted, shown again and deleted.
func TestRemovedByTheClockThatWasNamed(t *testing.T) {
	s := newConsole(t)
	s.Create(usecasetest.Spec("old", usecasetest.Every(time.Minute)))
	s.cookies["tickring_zone"], s.cookies["tickring_tz"] = "mine", "Asia/Shanghai"
	form := fields(cutOut(s.says("/console/runs/clean", "a time in Asia/Shanghai"), `action="/console/runs/clean"`, "</form>"))
	s.cookies["tickring_zone"] = "utc"
	w := s.get("/console/runs/clean?" + with(form, "job", "shop/old", "older", "2026-11-10").Encode())
	to, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if q := to.Query(); q.Get("older") != "2026-11-10T00:00:00+08:00" || q.Has("zone") || q.Get("job") != "shop/old" {
		t.Errorf("it leads to %s", to)
	}
	s.says(to.String(), `value="2026-11-10T00:00:00+08:00"`, "--older 2026-11-10T00:00:00+08:00")
	w = s.get("/console/runs/clean?" + with(form, "older", "30d").Encode())
	if to, err := url.Parse(w.Header().Get("Location")); err != nil || to.Query().Get("older") != "30d" || to.Query().Has("zone") {
		t.Errorf("too many days lead to %s", to)
	}
}
