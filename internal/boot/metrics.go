package boot

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/internal/refusal"
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
	Refused   = "Refused"   // requests that were refused at a door: a wrong token, too much, a page in a browser
	SpansLost = "SpansLost" // spans of traces that the collector did not take
	Failed    = "Failed"    // chains of attempts that failed for good; the log names each
	LogsLost  = "LogsLost"  // logs that were to be kept and could not be read; the log names each
	// notices that were given up; the log names each, doctor the channels
	NoticesLost = "NoticesLost"
	// invocations that failed, panicked, ended with their time or with their process, and functions that could not start
	FunctionErrors = "FunctionErrors"
	TableThrottles = "TableThrottles" // requests that DynamoDB throttled, each attempt
)

// MetricNamespace is where they are, MetricDimension what tells deployments apart.
const (
	MetricNamespace = "Tickring"
	MetricDimension = "Scheduler"
)

var units = map[string]string{DueLag: "Seconds", Recovered: "Count", Lateness: "Seconds", LateFires: "Count", Refused: "Count",
	Failed: "Count", SpansLost: "Count", LogsLost: "Count", NoticesLost: "Count",
	FunctionErrors: "Count", TableThrottles: "Count"}

// toldEvery is how often a process writes a metric of what may come in any number.
const toldEvery = 10 * time.Second

// Trace is where who is refused by a function leaves a trace: lines in its log, and
// Refused. Nobody waits there, for each moment of a function costs.
func (m *Metrics) Trace(log *slog.Logger) *refusal.Trace {
	count := m.counter(Refused)
	return refusal.New(refusal.Options{Log: log, Count: func(string, string) { count() }})
}

// counter counts a metric and writes the first at once, and those that follow together.
func (m *Metrics) counter(name string) (count func()) {
	var mu sync.Mutex
	var n float64
	var told time.Time
	return func() {
		mu.Lock()
		defer mu.Unlock()
		n++
		if now := time.Now(); now.Sub(told).Abs() >= toldEvery {
			m.Put(now, map[string]float64{name: n})
			n, told = 0, now
		}
	}
}

// failing is a handler whose failed invocations are counted. The file under way exists during an
// invocation: a process without memory cannot count itself, so the next one in its place does.
type failing struct {
	awslambda.Handler
	m        *Metrics
	underWay string
}

func newFailing(h awslambda.Handler, m *Metrics, dir string) failing {
	f := failing{h, m, filepath.Join(dir, "tickring-under-way-"+os.Getenv("AWS_LAMBDA_FUNCTION_NAME"))}
	if _, err := os.Stat(f.underWay); err == nil {
		f.count()
	}
	return f
}

func (f failing) count() {
	_ = os.Remove(f.underWay)
	f.m.Put(time.Now(), map[string]float64{FunctionErrors: 1})
}

func (f failing) Invoke(ctx context.Context, payload []byte) (out []byte, err error) {
	_ = os.WriteFile(f.underWay, nil, 0o600)
	var once sync.Once
	failed := func() { once.Do(f.count) }
	if end, ok := ctx.Deadline(); ok { // Lambda stops the function then
		defer time.AfterFunc(time.Until(end)-AnswerIn/8, failed).Stop()
	}
	done := false
	defer func() {
		if !done || err != nil {
			failed()
		}
		_ = os.Remove(f.underWay)
	}()
	out, err = f.Handler.Invoke(ctx, payload)
	done = true
	return out, err
}

// spans tells of those that were lost.
func (m *Metrics) spans(_, lost int) { m.Put(time.Now(), map[string]float64{SpansLost: float64(lost)}) }

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
