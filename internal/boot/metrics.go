package boot

import (
	"encoding/json"
	"io"
	"slices"
	"time"
)

// Metrics are the few numbers that functions tell CloudWatch beside those that
// AWS counts: lines of its embedded metric format in the log. Nothing is written
// for what is zero, so that they cost nothing while all is well.
type Metrics struct {
	of  string
	out io.Writer
}

// The metrics. Alarms and dashboards of infra name them.
const (
	// seconds: how long after its time the oldest due job was planned, or for how long nobody came to a partition, from two minutes; or for
	// how long what was due waits to be compared with its runs, from thirty
	DueLag    = "DueLag"
	Recovered = "Recovered" // fires that were lost and sent again
	Lateness  = "Lateness"  // seconds: the latest send of an invocation after its slot, from one
	LateFires = "LateFires" // how many were later than that
)

// MetricNamespace is where they are, MetricDimension what tells deployments apart.
const (
	MetricNamespace = "Tickring"
	MetricDimension = "Scheduler"
)

var units = map[string]string{DueLag: "Seconds", Recovered: "Count", Lateness: "Seconds", LateFires: "Count"}

// NewMetrics makes Metrics of a deployment; without a name nothing is written.
func NewMetrics(of string, out io.Writer) *Metrics { return &Metrics{of: of, out: out} }

// Put writes what is not zero.
func (m *Metrics) Put(now time.Time, values map[string]float64) {
	if m == nil || m.of == "" {
		return
	}
	type metric struct{ Name, Unit string }
	var list []metric
	line := map[string]any{MetricDimension: m.of}
	for name, v := range values {
		if v != 0 {
			list = append(list, metric{name, units[name]})
			line[name] = v
		}
	}
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b metric) int { return len(a.Name) - len(b.Name) })
	line["_aws"] = map[string]any{"Timestamp": now.UnixMilli(), "CloudWatchMetrics": []any{map[string]any{
		"Namespace": MetricNamespace, "Dimensions": [][]string{{MetricDimension}}, "Metrics": list}}}
	b, err := json.Marshal(line)
	if err == nil { // numbers and texts always can be
		_, _ = m.out.Write(append(b, '\n')) // a log that cannot be written has nobody to be told
	}
}
