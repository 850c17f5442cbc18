package lambdaboot

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestMetrics: a line has CloudWatch's format for metrics. Each event that a user must handle also counts in the metric of its alarm.
// Only the metrics of units cost money. A healthy function writes none.
func TestMetrics(t *testing.T) {
	texts, now := golden.New(t), time.UnixMilli(1_795_000_000_123)
	for name, values := range map[string]map[string]float64{
		"healthy":                {Recovered: 0, PlanningLag: 0},
		"recovered runs":         {Recovered: 2, PlanningLag: 5},
		"dropped notification":   {NotificationsDropped: 1},
		"dead letters":           {DeadLetters: 3},
		"failed invocation":      {FunctionErrors: 1},
		"throttled requests":     {TableThrottles: 2},
		"normal planning lag":    {Recovered: 0, PlanningLag: 180},
		"long planning lag":      {PlanningLag: 180.5},
		"failed chain of a user": {Failed: 1},
	} {
		var out bytes.Buffer
		NewMetrics("", &out).Put(now, values)
		NewMetrics("Tickring-Scheduler", &out).Put(now, values)
		texts.Equal(t, name, out.String())
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
		o.APIOptions = append(o.APIOptions, items.Throttled(func() { n++ }))
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
