// Package traces creates OpenTelemetry spans of runs. It sends the spans to a collector by OTLP over HTTP, if the
// environment names a collector. Otherwise the *Traces is nil and does nothing, and executors get no trace header.
//
// Each run has one trace. The span "run" lasts from the due time to the end of the run. It has a child span "send" for
// each send to an executor, and the executor gets the ID of this span in the header traceparent. The IDs of the trace
// and of the span "run" are computed from the run's ID and a salt of the deployment. Therefore no IDs are stored:
// every process that sends or closes a run computes equal IDs. A retry, a child run, a shard and a rerun each have a
// trace of their own, with a link to the trace of the original run.
//
// Spans wait in a queue in memory with a maximum size. Only Flush and Close wait for the collector, each for a
// limited time. If the queue is full or the collector does not accept a span, the span is dropped, counted and logged.
package traces

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
)

// Options has the settings of Traces. The zero value of a field means its default.
type Options struct {
	// Salt makes the trace IDs of deployments different. Without a salt, runs with equal IDs in two deployments
	// have equal trace IDs.
	Salt    []byte
	Version string // version of the program, as shown in the collector
	Log     *slog.Logger
	// Wrap wraps the HTTP transport of requests to the collector; nil: the transport is not wrapped.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Count is called with the numbers of exported and dropped spans, and must not block; nil: no call.
	Count func(exported, lost int)

	// Every is the maximum time for which a span is held back, to send several spans in one request.
	Every time.Duration // default: 1 s
	// Timeout is the timeout of one request to the collector, including its retries. OTEL_EXPORTER_OTLP_TIMEOUT
	// also limits each single attempt.
	Timeout time.Duration // default: 10 s
	// FlushFor is the maximum duration of a Flush. Pause is the time after a failed Flush in which no further
	// Flush is tried.
	FlushFor, Pause time.Duration // default: 1 s for FlushFor, 30 s for Pause
	// CloseFor is the maximum time for which Close waits for the collector.
	CloseFor time.Duration // default: 2 s
	// Queue is the maximum number of spans in the queue.
	Queue int // default: 8192
}

// Traces creates spans. A nil Traces does nothing.
type Traces struct {
	salt   []byte
	tracer trace.Tracer
	queue  *queue
}

// New returns Traces with the settings in the environment; nil if the environment names no collector. The error names
// a variable that is invalid or requests an unsupported feature. Call Close at the end.
func New(o Options) (*Traces, error) {
	env, err := read(os.Getenv)
	if err != nil || env == nil {
		return nil, err
	}
	if o.Wrap != nil {
		env.client.Transport = o.Wrap(env.client.Transport)
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	for d, to := range map[*time.Duration]time.Duration{&o.Every: time.Second, &o.Timeout: 10 * time.Second, &o.FlushFor: time.Second,
		&o.Pause: 30 * time.Second, &o.CloseFor: 2 * time.Second} {
		*d = cmp.Or(*d, to)
	}
	o.Queue = cmp.Or(o.Queue, 8192)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Warn("traces", "err", shortened(err)) }))
	ctx := context.Background()
	exporter, err := otlptrace.New(ctx, otlptracehttp.NewClient(otlptracehttp.WithHTTPClient(env.client),
		otlptracehttp.WithMaxResponseSize(64<<10), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true,
			InitialInterval: min(500*time.Millisecond, o.Timeout/4), MaxInterval: 5 * time.Second, MaxElapsedTime: o.Timeout})))
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	what, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attribute.String("service.name", "tickring"),
		attribute.String("service.version", o.Version)), resource.WithFromEnv()) // the environment's word is the last
	if err != nil {
		return nil, core.Invalid("OTEL_RESOURCE_ATTRIBUTES", os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), "name=value,name=value is expected: %v", err)
	}
	q := newQueue(&o, exporter)
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(what), sdktrace.WithSpanProcessor(bounded{q.processor, q}),
		sdktrace.WithIDGenerator(ids{}), sdktrace.WithSampler(env.sampler))
	return &Traces{salt: o.Salt, tracer: provider.Tracer("github.com/tickring/tickring"), queue: q}, nil
}

// of is the trace of a run and its span "run".
func (t *Traces) of(run core.RunID) trace.SpanContext {
	m := hmac.New(sha256.New, t.salt)
	_, _ = m.Write(binary.BigEndian.AppendUint64([]byte("trace\n"), uint64(run))) // a hash accepts all writes
	sum := m.Sum(nil)
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]), Remote: true})
}

// Sender returns a Sender that sends runs through the given Sender, and creates a span for each send.
func (t *Traces) Sender(to dispatch.Sender) dispatch.Sender {
	if t == nil {
		return to
	}
	return sender{to, t}
}

type sender struct {
	dispatch.Sender
	t *Traces
}

func (s sender) Send(ctx context.Context, sh dispatch.SendRequest) dispatch.Answer {
	attributes := append(about(sh.Run), attribute.String("tickring.job", sh.Job.Name()), attribute.String("tickring.address", sh.Address))
	if sh.Run.HasLateness() {
		attributes = append(attributes, attribute.Int64("tickring.latenessMs", sh.Run.Lateness().Milliseconds()))
	}
	_, span := s.t.tracer.Start(trace.ContextWithSpanContext(context.Background(), s.t.of(sh.Run.ID)), "send",
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	defer span.End()
	c := span.SpanContext()
	sh.Traceparent = fmt.Sprintf("00-%s-%s-%s", c.TraceID(), c.SpanID(), c.TraceFlags())
	a := s.Sender.Send(ctx, sh)
	span.SetAttributes(attribute.String("tickring.answer", a.Kind.String()), attribute.Int("tickring.code", a.Code))
	if a.Kind != dispatch.AnswerAccepted && a.Kind != dispatch.AnswerRepeat && (a.Kind != dispatch.AnswerEnded || a.State.Failure()) {
		span.SetStatus(codes.Error, a.Kind.String())
	}
	return a
}

// about returns the attributes that identify a run.
func about(r *core.Run) []attribute.KeyValue {
	return append(make([]attribute.KeyValue, 0, 12), attribute.String("tickring.app", r.App), attribute.Int("tickring.jobId", int(r.ID.Job())),
		attribute.String("tickring.run", r.ID.String()), attribute.String("tickring.instant", r.At.String()),
		attribute.Int("tickring.attempt", r.Attempt), attribute.String("tickring.cause", string(r.Cause)))
}

// Closed creates the span of a run that has ended.
func (t *Traces) Closed(r *core.Run) {
	if t == nil {
		return
	}
	attributes := append(about(r), attribute.String("tickring.state", string(r.State)))
	if r.Reason != "" {
		attributes = append(attributes, attribute.String("tickring.reason", string(r.Reason)))
	}
	if r.Code != 0 {
		attributes = append(attributes, attribute.Int("tickring.code", r.Code))
	}
	from, end := r.EndedAt, cmp.Or(r.EndedAt, time.Now())
	switch {
	case r.HasLateness():
		from = r.Slot.Time()
		attributes = append(attributes, attribute.Int64("tickring.latenessMs", r.Lateness().Milliseconds()))
	case !r.SentAt.IsZero():
		from = r.SentAt
	case r.Slot != 0:
		from = r.Slot.Time()
	}
	if from.IsZero() || from.After(end) {
		from = end
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(from), trace.WithAttributes(attributes...)}
	if links := t.links(r); len(links) > 0 {
		options = append(options, trace.WithLinks(links...))
	}
	_, span := t.tracer.Start(context.WithValue(context.Background(), ofRun{}, t.of(r.ID)), "run", options...)
	if r.Sent() {
		span.AddEvent("sent", trace.WithTimestamp(r.SentAt))
	}
	if r.State.Failure() {
		span.SetStatus(codes.Error, string(r.Reason))
	}
	span.End(trace.WithTimestamp(end))
}

// links returns links to the runs from which a run originates.
func (t *Traces) links(r *core.Run) (links []trace.Link) {
	for _, of := range []struct {
		run core.RunID
		as  string
	}{{r.First, "first-attempt"}, {r.Parent, "parent"}, {r.Shard.Of, "broadcast"}, {r.RerunOf, "run-again"}} {
		if of.run != 0 && of.run != r.ID {
			links = append(links, trace.Link{SpanContext: t.of(of.run), Attributes: []attribute.KeyValue{
				attribute.String("tickring.link", of.as), attribute.String("tickring.run", of.run.String())}})
		}
	}
	return links
}

// ofRun is the key of a span's IDs in the context that it is started with.
type ofRun struct{}

// ids generates the IDs of the span "run" from its run, and random IDs for other spans.
type ids struct{}

func (i ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c, _ := ctx.Value(ofRun{}).(trace.SpanContext)
	return c.TraceID(), c.SpanID()
}

func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
