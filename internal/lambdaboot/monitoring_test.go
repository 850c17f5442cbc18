package lambdaboot

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestDashboardShowsTheMetrics: the dashboard shows exactly the metrics that functions write.
func TestDashboardShowsTheMetrics(t *testing.T) {
	b, err := os.ReadFile("../../docs/monitoring/grafana.json")
	check.OK(t, err)
	type target struct {
		Namespace, MetricName string
		Dimensions            map[string]string
	}
	type panel struct {
		Targets []target
		Panels  []struct{ Targets []target }
	}
	var dashboard struct{ Panels []panel }
	check.OK(t, json.Unmarshal(b, &dashboard))
	var shown []string
	for _, p := range dashboard.Panels {
		for _, inner := range p.Panels {
			for _, m := range inner.Targets {
				shown = append(shown, m.MetricName)
				if m.Namespace != MetricNamespace || len(m.Dimensions) != 1 || m.Dimensions[MetricDimension] == "" {
					t.Errorf("%+v", m)
				}
			}
		}
	}
	slices.Sort(shown)
	if want := slices.Sorted(maps.Keys(units)); !slices.Equal(shown, want) {
		t.Errorf("it shows %v, not %v", shown, want)
	}
}
