package lambdaboot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store/dynamo"
)

// TestMetrics: a line has CloudWatch's format for metrics. A healthy function writes none.
func TestMetrics(t *testing.T) {
	var out bytes.Buffer
	now := time.UnixMilli(1_795_000_000_123)
	m := NewMetrics("Tickring-Scheduler", &out)
	m.Put(now, map[string]float64{Recovered: 0, PlanningLag: 0})
	NewMetrics("", &out).Put(now, map[string]float64{Recovered: 1})
	if out.Len() > 0 {
		t.Errorf("written for nothing: %s", out.String())
	}
	m.Put(now, map[string]float64{Recovered: 0, PlanningLag: 179.5})
	var line struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
		Scheduler   string
		PlanningLag float64
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
		t.Fatalf("%v: %s", err, out.String())
	}
	d := line.AWS.CloudWatchMetrics[0]
	if line.AWS.Timestamp != now.UnixMilli() || d.Namespace != "Tickring" || d.Dimensions[0][0] != "Scheduler" ||
		line.Scheduler != "Tickring-Scheduler" ||
		len(d.Metrics) != 1 || d.Metrics[0].Name != "PlanningLag" || d.Metrics[0].Unit != "Seconds" || line.PlanningLag != 179.5 {
		t.Errorf("%s", out.String())
	}
}

// TestAlarmedEvents: each event that a user must handle counts in the metric of its alarm, and the line names the event. Only
// the metrics of units cost money.
func TestAlarmedEvents(t *testing.T) {
	for _, c := range []struct {
		values  map[string]float64
		metrics string
		adds    float64
	}{
		{map[string]float64{Recovered: 2, PlanningLag: 5}, "PlanningLag Problems Recovered", 2},
		{map[string]float64{NotificationsDropped: 1}, "NotificationsDropped Problems", 1},
		{map[string]float64{DeadLetters: 3}, "Problems", 3},
		{map[string]float64{FunctionErrors: 1}, "Faults", 1},
		{map[string]float64{TableThrottles: 2}, "Faults", 6},
		{map[string]float64{PlanningLag: 180}, "PlanningLag", 0},
		{map[string]float64{PlanningLag: 180.5}, "Faults PlanningLag", 3},
		{map[string]float64{Failed: 1}, "Failed", 0},
	} {
		var out bytes.Buffer
		NewMetrics("prod", &out).Put(time.Now(), c.values)
		var line struct {
			AWS struct {
				CloudWatchMetrics []struct{ Metrics []struct{ Name string } }
			} `json:"_aws"`
		}
		var fields map[string]any
		check.OK(t, errors.Join(json.Unmarshal(out.Bytes(), &line), json.Unmarshal(out.Bytes(), &fields)))
		var names []string
		for _, m := range line.AWS.CloudWatchMetrics[0].Metrics {
			names = append(names, m.Name)
		}
		slices.Sort(names)
		sum, _ := fields[Problems].(float64)
		if f, ok := fields[Faults].(float64); ok {
			sum += f
		}
		if strings.Join(names, " ") != c.metrics || sum != c.adds {
			t.Errorf("%v: metrics %v, adds %v; want %s, %v", c.values, names, sum, c.metrics, c.adds)
		}
		for name, v := range c.values {
			check.Equal[any](t, fields[name], v, "%v: the field %s of the line %s", c.values, name, &out)
		}
	}
}

// TestFewMetrics: each metric costs money, so there are few, and each has its unit.
func TestFewMetrics(t *testing.T) {
	if len(units) > 11 {
		t.Errorf("%d metrics; at most 11 are allowed", len(units))
	}
}

// TestRefusalsAreToldTogether: unknown clients do not cause a line of metrics for each request.
func TestRefusalsAreToldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		trace := NewMetrics("prod", &out).Trace(slog.New(slog.DiscardHandler))
		for range 1000 { // in 20 s
			trace.Note(t.Context(), rejectlog.Refusal{Door: rejectlog.Callback, Reason: rejectlog.Token, Remote: "10.0.0.1:1"})
			time.Sleep(20 * time.Millisecond)
		}
		if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), `"Refused":1,`) ||
			!strings.Contains(out.String(), `"Refused":500,`) {
			t.Errorf("%d lines: %s", n, &out)
		}
	})
}

// TestFailedInvocationsAreCounted: once each, whether the handler fails, panics or ends with its time.
func TestFailedInvocationsAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(context.Context) error
		n      int
	}{
		"done":   {func(context.Context) error { return nil }, 0},
		"failed": {func(context.Context) error { return errors.New("no table") }, 1},
		"panic":  {func(context.Context) error { panic("nil") }, 1},
		"hangs":  {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				func() {
					defer func() { _ = recover() }()
					_, _ = newFailing(awslambda.NewHandler(c.handle), NewMetrics("prod", &out), t.TempDir()).Invoke(ctx, []byte(`{}`))
				}()
				synctest.Wait()
				if n := strings.Count(out.String(), `"FunctionErrors":1`); n != c.n || strings.Count(out.String(), "\n") != c.n {
					t.Errorf("it is counted %d times, want %d: %s", n, c.n, out.String())
				}
			})
		})
	}
}

// TestADeadProcessIsCounted: its successor counts a process that ran out of memory.
func TestADeadProcessIsCounted(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	begin := func(handle func(context.Context) error) {
		t.Helper()
		_, err := newFailing(awslambda.NewHandler(handle), NewMetrics("prod", &out), dir).Invoke(t.Context(), []byte(`{}`))
		check.OK(t, err)
	}
	inside := func(context.Context) error { // another process starts, as if this one were dead
		newFailing(nil, NewMetrics("prod", &out), dir)
		return nil
	}
	begin(inside)
	begin(func(context.Context) error { return nil })
	begin(func(context.Context) error { return nil })
	check.Equal(t, strings.Count(out.String(), `"FunctionErrors":1`), 1, "it is counted: %s", &out)
}

// TestThrottledRequestsAreCounted: requests to a table that are throttled completely or in part.
func TestThrottledRequestsAreCounted(t *testing.T) {
	c := newCloud(t)
	n := 0
	plain, _ := c.clients(Clients{Attempts: 1})
	db := dynamodb.New(plain.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, dynamo.Throttled(func() { n++ }))
	})
	get := func() error {
		_, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: new("t"), Key: map[string]types.AttributeValue{}})
		return err
	}
	batch := func() error {
		_, err := db.BatchExecuteStatement(t.Context(), &dynamodb.BatchExecuteStatementInput{
			Statements: []types.BatchStatementRequest{{Statement: new("s")}}})
		return err
	}
	for _, tt := range []struct {
		do     func() error
		status int
		body   string
		counts int
	}{
		{get, 200, `{}`, 0},
		{get, 400, `{"__type": "x#ConditionalCheckFailedException"}`, 0},
		{get, 400, `{"__type": "x#ProvisionedThroughputExceededException"}`, 1},
		{get, 400, `{"__type": "x#ThrottlingException"}`, 1},
		{get, 400, `{"__type": "x#TransactionCanceledException", "CancellationReasons": [{"Code": "TransactionConflict"}]}`, 0},
		{batch, 200, `{"Responses": [{"Error": {"Code": "DuplicateItem"}}]}`, 0},
		{batch, 200, `{"Responses": [{"Error": {"Code": "ThrottlingError"}}]}`, 1},
	} {
		n = 0
		c.answers = func() (int, string) { return tt.status, tt.body }
		if err := tt.do(); n != tt.counts || (err != nil) != (tt.status != 200) {
			t.Errorf("%s is counted %d times, want %d (%v)", tt.body, n, tt.counts, err)
		}
	}
}
