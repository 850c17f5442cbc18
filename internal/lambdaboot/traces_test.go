package lambdaboot

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/traces"
)

// TestTracesLeaveWithTheInvocation: the spans of an invocation are sent before it ends. A hanging collector delays the
// function only up to a limit, and lost spans are a metric.
func TestTracesLeaveWithTheInvocation(t *testing.T) {
	asked := make(chan struct{}, 10)
	release := make(chan struct{})
	hangs := false
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		if hangs {
			<-release
		}
	}))
	defer collector.Close()
	defer close(release)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	var lines strings.Builder
	c := Config{Metrics: NewMetrics("prod", &lines)}
	var err error
	if c.Traces, err = traces.New(traces.Options{Salt: []byte("x"), Count: c.Metrics.spans, FlushFor: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	a := c.Assemble(memory.Open(t, memory.Options{}), slog.New(slog.DiscardHandler))
	h := flushing(awslambda.NewHandler(func(context.Context) (string, error) {
		a.Finish.Ended(&core.Run{ID: core.NumberedRun(7, 1), App: "shop", State: core.Succeeded, Attempt: 1, EndedAt: time.Now()})
		return "done", nil
	}), c.Traces)
	for _, hangs = range []bool{false, true} {
		if out, err := h.Invoke(t.Context(), []byte("{}")); string(out) != `"done"` || err != nil {
			t.Error(string(out), err)
		}
		if len(asked) != 1 {
			t.Fatalf("the collector was asked %d times when the invocation had answered", len(asked))
		}
		<-asked
		check.Equal(t, strings.Contains(lines.String(), `"SpansLost":1`), hangs, "lost: %s", &lines)
	}
	if plain := awslambda.NewHandler(func() {}); flushing(plain, nil) != plain {
		t.Error("something is around a handler that makes no traces")
	}
}
