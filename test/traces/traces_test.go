// Package traces_test holds the spans of the real server against the receiver of
// OpenTelemetry's collector, and the server against a collector that hangs.
package traces_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	sdk "github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/test/harness"
)

var bin string

func TestMain(m *testing.M) { harness.Main(m, &bin) }

// receiver starts the collector's own, on a port that was free.
func receiver(t *testing.T) (endpoint string, sink *consumertest.TracesSink) {
	t.Helper()
	address := "127.0.0.1:" + freeport.Free(t)
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = address
	sink = &consumertest.TracesSink{}
	r, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(factory.Type()), config, sink)
	check.OK(t, err)
	check.OK(t, r.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() {
		check.NoError(t, r.Shutdown(context.Background()))
	})
	return "http://" + address, sink
}

const manifest = `version: 1
apps:
  - {name: golang, token: executors-token}
  - {name: web, executors: ["call:%s"]}
jobs:
  - {app: golang, name: twice, handler: twice, retry: {max: 1, delay: 1s}}
  - {app: web, name: after, handler: POST /work, after: [{job: golang/twice}]}
`

// seen has the traceparents that executors received, by job and attempt.
type seen struct {
	mu   sync.Mutex
	told map[string]string
}

func (s *seen) add(what, traceparent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[what] = traceparent
}

// start creates executors, jobs and one trigger.
func start(t *testing.T, s *harness.Server) *seen {
	t.Helper()
	saw := &seen{told: map[string]string{}}
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		saw.add("after 1", r.Header.Get("traceparent"))
	}))
	t.Cleanup(web.Close)
	s.OK(t, fmt.Sprintf(manifest, web.URL), "apply", "-f", "-")
	mux := sdk.NewMux()
	mux.Register("twice", func(_ context.Context, r *sdk.Run) error {
		saw.add(fmt.Sprintf("twice %d", r.Attempt), r.Traceparent)
		if r.Attempt == 1 {
			return errors.New("not yet")
		}
		return nil
	})
	s.Execute(t, mux, sdk.Options{App: "golang", Token: "executors-token"}, nil)
	s.OK(t, "", "trigger", "golang/twice")
	check.OK(t, waiting.For(time.Minute, func() error {
		saw.mu.Lock()
		defer saw.mu.Unlock()
		if len(saw.told) < 3 {
			return fmt.Errorf("only %v came", saw.told)
		}
		return nil
	}))
	return saw
}

// stopping is the limit of a stop: 10 s of --drain and 2 s for the collector at most.
const stopping = 20 * time.Second

// TestSpansArrive: the traceparents at executors match the collector's spans: a trace for each run, the span of its send below the
// span of the run, links from a retry and a child.
func TestSpansArrive(t *testing.T) {
	endpoint, sink := receiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	s := harness.Start(t, bin, t.TempDir())
	saw := start(t, s)
	// The last one's end is a span, too.
	check.OK(t, waiting.For(time.Minute, func() error {
		if out := s.OK(t, "", "runs", "web/after", "-o", "json"); !strings.Contains(out, `"succeeded"`) {
			return errors.New(out)
		}
		return nil
	}))
	check.OK(t, s.Stop(stopping)) // it sends the remaining spans

	runs, sends := map[string]ptrace.Span{}, map[string]ptrace.Span{}
	for _, traces := range sink.AllTraces() {
		for _, rs := range traces.ResourceSpans().All() {
			if name, _ := rs.Resource().Attributes().Get("service.name"); name.AsString() != "tickring" {
				t.Errorf("service %s", name.AsString())
			}
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					switch span.Name() {
					case "run":
						runs[span.TraceID().String()] = span
					case "send":
						sends[fmt.Sprintf("00-%s-%s-01", span.TraceID(), span.SpanID())] = span
					}
				}
			}
		}
	}
	if len(runs) != 3 || len(sends) != 3 {
		t.Fatalf("%d runs, %d sends", len(runs), len(sends))
	}
	ofs := map[string]ptrace.Span{}
	for what, parent := range saw.told {
		send, ok := sends[parent]
		if !ok {
			t.Fatalf("%s: no span %q", what, parent)
		}
		run := runs[send.TraceID().String()]
		if run == (ptrace.Span{}) || run.SpanID() != send.ParentSpanID() || !run.ParentSpanID().IsEmpty() {
			t.Fatalf("%s: the spans of the run and its send do not belong together", what)
		}
		ofs[what] = run
		about := map[string]any{}
		for k, v := range run.Attributes().All() {
			about[k] = v.AsString()
		}
		want := "succeeded "
		if what == "twice 1" {
			want = "failed handler"
		}
		reason, _ := about["tickring.reason"].(string)
		if got := fmt.Sprint(about["tickring.state"], " ", reason); got != want ||
			!strings.HasSuffix(what, fmt.Sprint(" ", about["tickring.attempt"])) {
			t.Errorf("%s: %v", what, about)
		}
	}
	for what, of := range map[string]string{"twice 2": "twice 1", "after 1": "twice 2"} {
		links := ofs[what].Links()
		if links.Len() != 1 || links.At(0).TraceID() != ofs[of].TraceID() || links.At(0).SpanID() != ofs[of].SpanID() {
			t.Errorf("%s is not linked to %s", what, of)
		}
	}
	if ofs["twice 1"].Links().Len() != 0 || ofs["twice 1"].Status().Code() != ptrace.StatusCodeError {
		t.Error("the first attempt")
	}
}

// TestCollectorHangs: a hanging collector delays no run, retry or child, and no stop; lost spans are in the metrics.
func TestCollectorHangs(t *testing.T) {
	release := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer collector.Close()
	defer close(release)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
	s := harness.Start(t, bin, t.TempDir())
	saw := start(t, s)
	for what, parent := range saw.told {
		check.Equal(t, len(parent), 55, "%s: traceparent %q", what, parent)
	}
	check.NoError(t, waiting.For(time.Minute, func() error {
		resp, err := http.Get(s.URL + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if text := string(b); strings.Contains(text, `tickring_spans_total{result="lost"} 0`) ||
			!strings.Contains(text, `tickring_spans_total{result="exported"} 0`) {
			return errors.New("no span was lost")
		}
		return nil
	}))
	check.OK(t, s.Stop(stopping))
}
