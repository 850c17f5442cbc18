package server

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/traces"
)

// TestTraces: with a collector in its environment, a server exports a span of a run and one of its send, and passes the trace to
// the executor. Without a collector it sends no trace headers.
func TestTraces(t *testing.T) {
	var mu sync.Mutex
	told := make(chan http.Header, 10)
	web := serve(t, func(_ http.ResponseWriter, r *http.Request) { told <- r.Header })
	spans := map[string]string{} // name by IDs
	collector := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var req coltracepb.ExportTraceServiceRequest
		check.NoError(t, proto.Unmarshal(b, &req))
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					spans[fmt.Sprintf("00-%x-%x-01", s.TraceId, s.SpanId)] = fmt.Sprintf("%s below %x", s.Name, s.ParentSpanId)
				}
			}
		}
	})
	run := func() string {
		s := start(t, Options{Traces: traces.Options{CloseFor: time.Minute}})
		defer s.stop() // which sends the remaining spans
		s.app(t, "web", "call:"+web.URL)
		spec := manage.JobSpec{Def: core.Def{App: "web", Name: "now", Handler: "GET /"}}
		saveAll(t, s, spec)
		id := s.trigger(t, "web/now")
		header := <-told
		s.until(t, id, core.Succeeded)
		if _, ok := header["Traceparent"]; ok != (s.traces != nil) {
			t.Errorf("traces %v, header %v", s.traces != nil, ok)
		}
		return header.Get("traceparent")
	}
	run()
	if len(spans) > 0 {
		t.Error(spans)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	parent := run()
	mu.Lock()
	defer mu.Unlock()
	var root string
	for id, name := range spans {
		if name == "run below " && len(parent) == 55 && id[:36] == parent[:36] {
			root = id[36:52]
		}
	}
	if len(spans) != 2 || root == "" || spans[parent] != "send below "+root {
		t.Errorf("the executor got %s; spans are %v", parent, spans)
	}
}

// TestTracesRefuseAWrongEnvironment: unsupported trace settings keep the server from starting.
func TestTracesRefuseAWrongEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")
	_, err := New(Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	check.Equal(t, core.CodeOf(err), core.CodeInvalid, "%v", err)
}
