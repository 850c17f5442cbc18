package traces

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector answers at once, or with answer.
type collector struct {
	*httptest.Server
	asked  chan struct{} // one for each request, up to 100
	answer http.HandlerFunc

	mu       sync.Mutex
	spans    []*tracepb.Span
	resource map[string]string
	header   http.Header
	bad      error
}

func newCollector(t *testing.T, answer http.HandlerFunc) *collector {
	c := &collector{asked: make(chan struct{}, 100), answer: answer}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := c.read(r); err != nil {
		c.mu.Lock()
		c.bad = err
		c.mu.Unlock()
	}
	select {
	case c.asked <- struct{}{}:
	default:
	}
	if c.answer != nil {
		c.answer(w, r)
	}
}

func (c *collector) read(r *http.Request) error {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return err
		}
		body = z
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var req coltracepb.ExportTraceServiceRequest
	if err := proto.Unmarshal(b, &req); err != nil || r.Method != "POST" || r.URL.Path != "/v1/traces" {
		return fmt.Errorf("%s %s: %w", r.Method, r.URL, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = r.Header
	for _, rs := range req.ResourceSpans {
		c.resource = texts(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	return nil
}

func texts(list []*commonpb.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			m[kv.Key] = fmt.Sprint(v.IntValue)
		}
	}
	return m
}

// counts holds the numbers of spans passed to Count.
type counts struct {
	mu             sync.Mutex
	exported, lost int
}

func (c *counts) add(exported, lost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exported, c.lost = c.exported+exported, c.lost+lost
}

func (c *counts) get() (exported, lost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exported, c.lost
}

// executor returns a fixed answer.
type executor struct {
	dispatch.Sender
	answer dispatch.Answer
	got    []string
}

func (e *executor) Send(_ context.Context, sh dispatch.SendRequest) dispatch.Answer {
	if len(e.got) < 10_000 {
		e.got = append(e.got, sh.Traceparent)
	}
	return e.answer
}

const slot = core.Instant(1_800_000_000)

func run(n uint32) *core.Run {
	at := slot.Time()
	id := core.NumberedRun(7, n)
	return &core.Run{ID: id, App: "shop", State: core.Succeeded, Cause: core.CauseSchedule, At: slot - 3, Slot: slot, Attempt: 1, First: id,
		Address: "http://10.0.0.1", SentAt: at.Add(40 * time.Millisecond), EndedAt: at.Add(2 * time.Second)}
}

func shipment(r *core.Run) dispatch.SendRequest {
	return dispatch.SendRequest{Run: r, Job: &core.Job{Def: core.Def{ID: 7, App: "shop", Name: "sweep"}}, App: &core.App{Name: "shop"},
		Address: r.Address}
}

func open(t *testing.T, o Options) *Traces {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []*time.Duration{&o.Timeout, &o.FlushFor, &o.CloseFor} { // a busy machine is no bad collector
		*d = cmp.Or(*d, time.Minute)
	}
	tr, err := New(o)
	if err != nil || tr == nil {
		t.Fatal(tr, err)
	}
	return tr
}

func TestARunIsOneTrace(t *testing.T) {
	c := newCollector(t, nil)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod")
	var n counts
	// Two processes of a deployment, one sends and one closes; and a process of another deployment.
	sends := open(t, Options{Salt: []byte("here"), Version: "v1", Count: n.add})
	closes := open(t, Options{Salt: []byte("here"), Version: "v1", Count: n.add})
	other := open(t, Options{Salt: []byte("there")})
	defer other.Close(t.Context())
	e := &executor{answer: dispatch.Answer{Kind: dispatch.AnswerAccepted, Code: 200}}
	r := run(1)
	r.State, r.Reason, r.Code = core.Failed, core.ReasonHandler, 500
	sends.Sender(e).Send(t.Context(), shipment(r))
	sends.Sender(e).Send(t.Context(), shipment(r)) // it is sent again
	closes.Closed(r)
	retry := run(2)
	retry.First, retry.Attempt, retry.Parent, retry.RerunOf = r.ID, 2, core.NumberedRun(8, 1), core.NumberedRun(7, 9)
	retry.Shard.Of = core.NumberedRun(9, 1)
	closes.Closed(retry)
	sends.Close(t.Context())
	closes.Close(t.Context())

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bad != nil || len(c.spans) != 4 || c.header.Get("Api-Key") != "s3cret" {
		t.Fatal(c.bad, c.spans, c.header)
	}
	if c.resource["service.name"] != "tickring" || c.resource["service.version"] != "v1" || c.resource["deployment.environment"] != "prod" {
		t.Error(c.resource)
	}
	if exported, lost := n.get(); exported != 4 || lost != 0 {
		t.Error(exported, lost)
	}
	of := closes.of(r.ID)
	trace, root := of.TraceID(), of.SpanID()
	for i, s := range c.spans[:2] {
		if !bytes.Equal(s.TraceId, trace[:]) || !bytes.Equal(s.ParentSpanId, root[:]) || s.Name != "send" ||
			s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			t.Errorf("send %d: %v", i, s)
		}
		check.Equal(t, e.got[i], fmt.Sprintf("00-%x-%x-01", s.TraceId, s.SpanId), "the executor")
	}
	if bytes.Equal(c.spans[0].SpanId, c.spans[1].SpanId) {
		t.Error("two sends are one span")
	}
	common := map[string]string{"tickring.app": "shop", "tickring.jobId": "7", "tickring.run": r.ID.String(), "tickring.attempt": "1",
		"tickring.instant": (slot - 3).String(), "tickring.cause": "schedule", "tickring.latenessMs": "40"}
	want := func(more ...string) map[string]string {
		m := map[string]string{}
		for k, v := range common {
			m[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	if d := gocmp.Diff(want("tickring.job", "shop/sweep", "tickring.address", r.Address, "tickring.answer", "accepted",
		"tickring.code", "200"), texts(c.spans[0].Attributes)); d != "" {
		t.Error(d)
	}
	end := c.spans[2]
	if !bytes.Equal(end.TraceId, trace[:]) || !bytes.Equal(end.SpanId, root[:]) || len(end.ParentSpanId) > 0 || end.Name != "run" ||
		end.StartTimeUnixNano != uint64(slot.Time().UnixNano()) || end.EndTimeUnixNano != uint64(r.EndedAt.UnixNano()) ||
		end.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || len(end.Events) != 1 || len(end.Links) != 0 {
		t.Error(end)
	}
	if d := gocmp.Diff(want("tickring.state", "failed", "tickring.reason", "handler", "tickring.code", "500"),
		texts(end.Attributes)); d != "" {
		t.Error(d)
	}
	links := map[string]string{}
	for _, l := range c.spans[3].Links {
		links[texts(l.Attributes)["tickring.link"]] = fmt.Sprintf("%x %x", l.TraceId, l.SpanId)
	}
	for as, id := range map[string]core.RunID{"first-attempt": r.ID, "parent": retry.Parent, "run-again": retry.RerunOf,
		"broadcast": retry.Shard.Of} {
		if o := closes.of(id); links[as] != fmt.Sprintf("%s %s", o.TraceID(), o.SpanID()) {
			t.Errorf("link %s: %q", as, links[as])
		}
	}
	if bytes.Equal(c.spans[3].TraceId, trace[:]) || other.of(r.ID).TraceID() == trace {
		t.Error("two runs, or the same of two deployments, are one trace")
	}
}

// A run that was never sent has a trace too, which begins no later than it ends.
func TestARunThatWasNotSent(t *testing.T) {
	c := newCollector(t, nil)
	tr := open(t, Options{})
	r := run(1)
	r.State, r.Reason, r.SentAt, r.EndedAt = core.Skipped, core.ReasonCancelled, time.Time{}, slot.Time().Add(-time.Hour)
	tr.Closed(r)
	tr.Close(t.Context())
	if s := c.spans[0]; s.StartTimeUnixNano != s.EndTimeUnixNano || len(s.Events) != 0 ||
		s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		t.Error(s)
	}
}

// An executor's answer shows in the span of its send.
func TestAnswers(t *testing.T) {
	c := newCollector(t, nil)
	tr := open(t, Options{})
	for _, a := range []struct {
		answer dispatch.Answer
		want   string
	}{
		{dispatch.Answer{Kind: dispatch.AnswerUnconfirmed}, "unconfirmed STATUS_CODE_ERROR"},
		{dispatch.Answer{Kind: dispatch.AnswerRepeat}, "repeat STATUS_CODE_UNSET"},
		{dispatch.Answer{Kind: dispatch.AnswerRefused}, "refused STATUS_CODE_ERROR"},
		{dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded}, "ended STATUS_CODE_UNSET"},
		{dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Failed}, "ended STATUS_CODE_ERROR"},
	} {
		if got := tr.Sender(&executor{answer: a.answer}).Send(t.Context(), shipment(run(1))); got.Kind != a.answer.Kind {
			t.Error(got)
		}
		tr.Flush(t.Context())
		s := c.spans[len(c.spans)-1]
		check.Equal(t, texts(s.Attributes)["tickring.answer"]+" "+s.Status.GetCode().String(), a.want)
	}
	tr.Close(t.Context())
}

// Without a collector there is nothing: no span, no header, no allocation.
func TestNotConfigured(t *testing.T) {
	for _, off := range [][2]string{{}, {"OTEL_TRACES_EXPORTER", "none"}, {"OTEL_SDK_DISABLED", "true"}} {
		if off[0] != "" {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(off[0], off[1])
		}
		tr, err := New(Options{})
		if tr != nil || err != nil {
			t.Fatal(off, tr, err)
		}
		e := &executor{}
		check.Equal(t, tr.Sender(e), dispatch.Sender(e), "something is between dispatch and sender")
		r := run(1)
		if n := testing.AllocsPerRun(100, func() { tr.Closed(r); tr.Flush(t.Context()); tr.Close(t.Context()) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
		t.Setenv("OTEL_TRACES_EXPORTER", "")
	}
}

// A bad collector delays no send and no end, and the lost spans are counted.
func TestBadCollectors(t *testing.T) {
	elsewhere := newCollector(t, nil)
	for name, answer := range map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"hangs in its answer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"fails": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("no \x00\xff", 100_000), http.StatusInternalServerError)
		},
		"has no place for ever": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "100000")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/v1/traces", http.StatusTemporaryRedirect)
		},
		"redirects to a page": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/v1/traces", http.StatusFound)
		},
		"refuses": nil,
		"cuts":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			if c := newCollector(t, answer); answer == nil {
				c.Server.Close()
			}
			var log bytes.Buffer
			var n counts
			tr := open(t, Options{Every: time.Millisecond, Timeout: 50 * time.Millisecond, CloseFor: 50 * time.Millisecond, Queue: 16, Count: n.add,
				Log: slog.New(slog.NewTextHandler(&log, nil))})
			e := &executor{answer: dispatch.Answer{Kind: dispatch.AnswerAccepted}}
			for range 1000 { // many times the size of the queue
				tr.Sender(e).Send(t.Context(), shipment(run(1)))
			}
			tr.Close(t.Context())
			if exported, lost := n.get(); exported != 0 || lost != 1000 {
				t.Errorf("%d exported, %d lost", exported, lost)
			}
			if text := log.String(); strings.Count(text, "the collector does not take them\"") > 1 ||
				!strings.Contains(text, "spans") || len(text) > 4000 {
				t.Errorf("log: %.5000s", text)
			}
		})
	}
	if len(elsewhere.spans) > 0 || len(elsewhere.asked) > 0 {
		t.Error("a redirect was followed")
	}
}

// A span that finds the queue full is lost at once, even while a request runs.
func TestFullQueueLosesAtOnce(t *testing.T) {
	newCollector(t, nil)
	var n counts
	tr := open(t, Options{Queue: 16, Every: time.Hour, Count: n.add})
	for range 20 { // before the first request
		tr.Closed(run(1))
	}
	if exported, lost := n.get(); exported != 0 || lost != 4 {
		t.Error(exported, lost)
	}
	tr.Close(t.Context())
	if exported, lost := n.get(); exported != 16 || lost != 4 {
		t.Error(exported, lost)
	}
}

// It is in the log once that a collector fails, and once that it works again.
func TestFailureIsToldOnce(t *testing.T) {
	fails := true
	newCollector(t, func(w http.ResponseWriter, _ *http.Request) {
		if fails {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	var log bytes.Buffer
	tr := open(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Pause: time.Nanosecond})
	for range 3 {
		tr.Closed(run(1))
		tr.Flush(t.Context())
	}
	fails = false
	tr.Closed(run(1))
	tr.Close(t.Context())
	if text := log.String(); strings.Count(text, "does not accept spans") != 1 || strings.Count(text, "accepts spans again\" lost=3") != 1 {
		t.Error(text)
	}
}

// A function waits for its collector within a bound, and after a failure not at all for a while.
func TestFlushIsBounded(t *testing.T) {
	c := newCollector(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	var n counts
	tr := open(t, Options{Every: time.Hour, FlushFor: 300 * time.Millisecond, CloseFor: time.Millisecond, Count: n.add})
	for range 3 {
		tr.Closed(run(1))
		tr.Flush(t.Context()) // hangs where it has no bound
	}
	if len(c.asked) > 1 {
		t.Errorf("a collector that hangs was asked %d times", len(c.asked))
	}
	tr.Close(t.Context())
	if exported, lost := n.get(); exported != 0 || lost != 3 {
		t.Error(exported, lost)
	}
}

// Enough spans for a request do not wait.
func TestFullRequestsGoAtOnce(t *testing.T) {
	c := newCollector(t, nil)
	tr := open(t, Options{Every: time.Hour})
	for range sdktrace.DefaultMaxExportBatchSize {
		tr.Closed(run(1))
	}
	<-c.asked
	tr.Close(t.Context())
}

// All spans of a run are sampled, or none.
func TestSamplingIsByRun(t *testing.T) {
	c := newCollector(t, nil)
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
	tr := open(t, Options{Salt: []byte("x")})
	e := &executor{answer: dispatch.Answer{Kind: dispatch.AnswerAccepted}}
	for i := range uint32(100) {
		tr.Sender(e).Send(t.Context(), shipment(run(i)))
		tr.Closed(run(i))
	}
	tr.Close(t.Context())
	spans := map[string]int{}
	for _, s := range c.spans {
		spans[fmt.Sprintf("%x", s.TraceId)]++
	}
	if len(spans) < 20 || len(spans) > 80 {
		t.Errorf("%d of 100 traces", len(spans))
	}
	for id, n := range spans {
		check.Equal(t, n, 2, "trace %s has N spans", id)
	}
	for _, parent := range e.got {
		if _, kept := spans[parent[3:35]]; kept != strings.HasSuffix(parent, "-01") {
			t.Errorf("%s, kept %v", parent, kept)
		}
	}
}

func TestEnvironment(t *testing.T) {
	texts := golden.New(t)
	_, none := os.ReadFile("/there/is/none")
	_, empty := os.ReadFile("")
	for _, c := range []struct{ name, value string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://user:s3cret@host/"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http:///x"},
		{"OTEL_TRACES_EXPORTER", "zipkin"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s"},
		{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "-1"},
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "s3cret"},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote"},
		{"OTEL_TRACES_SAMPLER_ARG", "2"},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/there/is/none"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "traces_test.go"},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "traces_test.go"},
	} {
		vars := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://127.0.0.1:4318", "OTEL_TRACES_SAMPLER": "traceidratio", c.name: c.value}
		_, err := read(func(name string) string { return vars[name] })
		if core.CodeOf(err) != core.CodeInvalid || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
		texts.Equal(t, c.name+"="+c.value, fmt.Sprint(err), none.Error(), "ERROR", empty.Error(), "ERROR")
	}
}

// BenchmarkRun measures the cost of traces for a run that is sent once, on the way of a fire.
func BenchmarkRun(b *testing.B) {
	b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
	tr, err := New(Options{Log: slog.New(slog.DiscardHandler)})
	check.OK(b, err)
	s := tr.Sender(&executor{})
	r := run(1)
	sh := shipment(r)
	for b.Loop() {
		s.Send(context.Background(), sh)
		tr.Closed(r)
	}
}
