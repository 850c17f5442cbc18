package server

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// series are names of metrics, their labels, and the values of those.
type series map[string]map[string][]string

var (
	sampleLine = regexp.MustCompile(`(?m)^(tickring_\w+)(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	selector   = regexp.MustCompile(`(tickring_\w+)(?:\{([^}]*)\})?`)
	grouping   = regexp.MustCompile(`by \(([^)]*)\)`)
)

// exposed returns the series of /metrics after every kind of event has occurred.
func exposed(t *testing.T) series {
	t.Helper()
	m := newMetrics()
	r := &core.Run{ID: core.PlannedRun(7, 1_800_000_000), App: "shop", State: core.Failed, Cause: core.CauseSchedule, Slot: 1_800_000_000,
		SentAt: core.Instant(1_800_000_001).Time()}
	m.sent(r, r.SentAt, dispatch.AnswerAccepted)
	m.closed(r)
	m.pass(tick.Result{Fires: 1, Skipped: 1}, time.Now())
	m.refused.WithLabelValues("registry", "token").Inc()
	m.spansWent(1, 1)
	rec := httptest.NewRecorder()
	e := memory.Open(t, memory.Options{})
	p := &parts{store: e, reports: report.New(e, report.Options{})}
	m.handler(p).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	s := series{}
	for _, line := range sampleLine.FindAllStringSubmatch(rec.Body.String(), -1) {
		labels := s[line[1]]
		if labels == nil {
			labels = map[string][]string{}
			s[line[1]] = labels
		}
		for _, pair := range labelPair.FindAllStringSubmatch(line[2], -1) {
			labels[pair[1]] = append(labels[pair[1]], pair[3])
		}
	}
	if len(s) < 10 {
		t.Fatalf("only %v in\n%s", s, rec.Body)
	}
	return s
}

// check reports the metrics and labels that expr names and the server does not expose, and returns the metrics named.
func (s series) check(t *testing.T, where, expr string) (named []string) {
	t.Helper()
	by := map[string]bool{}
	for _, found := range selector.FindAllStringSubmatch(expr, -1) {
		name := found[1]
		named = append(named, name)
		labels, ok := s[name]
		if !ok {
			t.Errorf("%s: there is no metric %s", where, name)
			continue
		}
		for label := range labels {
			by[label] = true
		}
		for _, pair := range labelPair.FindAllStringSubmatch(found[2], -1) {
			values, ok := labels[pair[1]]
			if !ok {
				t.Errorf("%s: %s has no label %s", where, name, pair[1])
			}
			for value := range strings.SplitSeq(pair[3], "|") {
				if regexp.QuoteMeta(value) == value || strings.Trim(value, "abcdefghijklmnopqrstuvwxyz-") == "" {
					if !slices.Contains(values, value) {
						t.Errorf("%s: no %s has %s %q", where, name, pair[1], value)
					}
				}
			}
		}
	}
	for _, found := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(found[1], ",") {
			if !by[strings.TrimSpace(label)] {
				t.Errorf("%s: nothing in it has the label %s", where, label)
			}
		}
	}
	if len(named) == 0 {
		t.Errorf("%s names no metric of ours: %s", where, expr)
	}
	return named
}

// TestMonitoringNamesWhatIsExposed: the server exposes each metric and label that the dashboard and the alert rules query, and the
// dashboard shows every metric.
func TestMonitoringNamesWhatIsExposed(t *testing.T) {
	s := exposed(t)
	b, err := os.ReadFile("../docs/monitoring/grafana.json")
	check.OK(t, err)
	type panel struct {
		Title   string
		Targets []struct{ Expr, Namespace string }
		Panels  []json.RawMessage // of a row that is folded
	}
	var dashboard struct {
		Panels     []panel
		Templating struct {
			List []struct {
				Type  string
				Query any
			}
		}
	}
	check.OK(t, json.Unmarshal(b, &dashboard))
	var shown []string
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			shown = append(shown, s.check(t, "the panel "+p.Title, target.Expr)...)
		}
	}
	for _, v := range dashboard.Templating.List {
		if q, ok := v.Query.(map[string]any); ok && v.Type == "query" {
			text, _ := q["query"].(string)
			s.check(t, "a variable", text)
		}
	}
	for name := range s {
		if base := strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"); base == name && !slices.Contains(shown, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}

	b, err = os.ReadFile("../docs/monitoring/alerts.yaml")
	check.OK(t, err)
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	check.OK(t, yaml.Unmarshal(b, &rules))
	page, err := os.ReadFile("../docs/how-to/monitor.md")
	check.OK(t, err)
	n := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			n++
			s.check(t, r.Alert, r.Expr)
			check.Contains(t, string(page), "`"+r.Alert+"`", "docs/how-to/monitor.md does not explain %s", r.Alert)
		}
	}
	if n < 7 {
		t.Errorf("only %d rules", n)
	}
}
