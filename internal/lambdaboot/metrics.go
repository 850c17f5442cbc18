package lambdaboot

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/internal/rejectlog"
)

// Metrics writes the CloudWatch metrics that AWS does not count itself. Each metric is a log line in the embedded
// metric format. A value of 0 is not written, so a healthy deployment pays nothing for these metrics.
type Metrics struct {
	of  string
	out io.Writer
}

// Names of the metrics. The alarms and dashboards of package infra use these names.
const (
	// PlanningLag is the largest of three times, in seconds: the delay with which the oldest due job was planned;
	// the time since a process last scanned a partition, from 120 s on; the time that due runs wait for their
	// comparison, from 30 s on.
	PlanningLag = "PlanningLag"
	Recovered   = "Recovered" // number of lost runs that were resent
	// Lateness is the largest lateness of a send in an invocation, in seconds after the due time; written from 1 s
	// on.
	Lateness  = "Lateness"
	LateFires = "LateFires" // number of runs that were sent 1 s or more after the due time
	// Refused is the number of rejected requests: a wrong token, a body that is too large, or a web page in a
	// browser.
	Refused   = "Refused"
	SpansLost = "SpansLost" // number of spans that the collector did not accept
	Failed    = "Failed"    // number of retry chains that failed for good; the log names each chain
	LogsLost  = "LogsLost"  // number of run logs that could not be read from the executor; a log line of the function names each run
	// NotificationsDropped is the number of notifications that were dropped; the log names each notification, and
	// `tickring doctor` names the channels.
	NotificationsDropped = "NotificationsDropped"
	Problems             = "Problems" // number of events that a user must handle; see the variable alarmed
	// Faults is the number of events that a user must handle if they continue; see the variable alarmed.
	Faults = "Faults"
)

// Names of log fields that are not metrics, because each metric costs money.
const (
	DeadLetters = "DeadLetters" // number of messages that moved to the dead-letter queue
	// FunctionErrors is the number of failed invocations: errors, panics, timeouts, crashes, and functions that
	// could not start.
	FunctionErrors = "FunctionErrors"
	TableThrottles = "TableThrottles" // number of requests that DynamoDB throttled; each attempt counts
)

// alarmed lists the metric that an alarm watches for several kinds of events, and the number that each event adds to it. The
// alarms are raised above 0 Problems in five minutes, and above FaultsMost Faults in each of two consecutive periods.
var alarmed = map[string]struct {
	metric string
	adds   float64
}{
	Recovered: {Problems, 1}, NotificationsDropped: {Problems, 1}, DeadLetters: {Problems, 1},
	FunctionErrors: {Faults, 1}, TableThrottles: {Faults, FaultsMost + 1},
}

// FaultsMost is the number of faults in five minutes that is still normal. PlanningLagMost is the planning lag that is
// still normal, in seconds.
const (
	FaultsMost      = 2
	PlanningLagMost = 180
)

// MetricNamespace is the CloudWatch namespace of the metrics. MetricDimension is the name of the dimension with the
// name of the deployment.
const (
	MetricNamespace = "Tickring"
	MetricDimension = "Scheduler"
)

var units = map[string]string{PlanningLag: "Seconds", Recovered: "Count", Lateness: "Seconds", LateFires: "Count", Refused: "Count",
	Failed: "Count", SpansLost: "Count", LogsLost: "Count", NotificationsDropped: "Count", Problems: "Count", Faults: "Count"}

// toldEvery is how often a process writes a metric of events that clients cause.
const toldEvery = 10 * time.Second

// Trace returns a rejectlog.Trace that records rejected requests of a function, as log lines and in the metric
// Refused. The trace does not delay answers, because the running time of a function costs money.
func (m *Metrics) Trace(log *slog.Logger) *rejectlog.Trace {
	count := m.counter(Refused)
	return rejectlog.New(rejectlog.Options{Log: log, Count: func(string, string) { count() }})
}

// counter returns a function that counts a metric. The first count is written at once, later ones together.
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

// failing counts the failed invocations of a handler. The file underWay exists during an invocation: a process without
// memory cannot count itself, so its successor does.
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

// spans reports the lost spans.
func (m *Metrics) spans(_, lost int) { m.Put(time.Now(), map[string]float64{SpansLost: float64(lost)}) }

// NewMetrics returns the Metrics of a deployment. If the name is empty, these Metrics write nothing.
func NewMetrics(of string, out io.Writer) *Metrics { return &Metrics{of: of, out: out} }

// Put writes the values that are not 0, and adds their events to the metrics Problems and Faults.
func (m *Metrics) Put(now time.Time, values map[string]float64) {
	if m == nil || m.of == "" {
		return
	}
	all := maps.Clone(values)
	for name, v := range values {
		if a, ok := alarmed[name]; ok {
			all[a.metric] += a.adds * v
		}
	}
	if values[PlanningLag] > PlanningLagMost {
		all[Faults] += FaultsMost + 1
	}
	type metric struct{ Name, Unit string }
	var list []metric
	line := map[string]any{MetricDimension: m.of}
	for name, v := range all {
		if v == 0 {
			continue
		}
		line[name] = v
		if unit, ok := units[name]; ok {
			list = append(list, metric{name, unit})
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
		_, _ = m.out.Write(append(b, '\n')) // a failure cannot be reported anywhere
	}
}
