// Package traces makes OpenTelemetry spans of runs and sends them to a collector by OTLP over
// HTTP if the environment names one. Otherwise there is a nil *Traces, which does nothing, and
// no executor gets a header.
//
// A run is a trace: its span "run", from its due time to its end, has a child span "send" for
// each send to an executor, which gets that span as traceparent. The IDs of the trace and of
// its span "run" follow from the run's ID and a salt of the deployment, so nothing is stored or
// carried for them: any process that sends or closes a run computes equal IDs. A retry, a
// child, a shard and a rerun are traces of their own, linked to the trace of their origin.
//
// Spans wait in a bounded queue of this package, in memory alone. Only Run, Flush and Close
// wait for a collector, each for a bounded time. A span that finds the queue full, or that a
// collector does not accept, is lost, counted and logged.
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

// Options of Traces. The zero value of a field means its default.
type Options struct {
	// Salt separates the traces of deployments: equal run IDs in two deployments have two traces.
	Salt    []byte
	Version string // version of the program, as shown to the collector
	Log     *slog.Logger
	// Wrap wraps the transport of requests to the collector; nil: requests are not changed.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Count gets the numbers of exported and lost spans; it must not block. May be nil.
	Count func(exported, lost int)

	// Every is the maximum time for which Run holds a span back to send it with others.
	Every time.Duration // 1 s
	// Timeout of one request to the collector with its retries; each try is also bounded by
	// OTEL_EXPORTER_OTLP_TIMEOUT.
	Timeout time.Duration // 10 s
	// FlushFor bounds a Flush. After a failed Flush, none is tried for Pause.
	FlushFor, Pause time.Duration // 1 s, 30 s
	// CloseFor is the longest time that a Close waits for the collector.
	CloseFor time.Duration // 2 s
	// Queue is the maximum number of waiting spans.
	Queue int // 8192
}

// Traces makes spans. A nil Traces does nothing.
type Traces struct {
	salt   []byte
	tracer trace.Tracer
	queue  *queue
}

// New returns the traces that the environment asks for: nil if it names no collector. The error
// names a variable that is wrong, or that asks for an unsupported feature.
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
	q := newQueue(exporter, &o)
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(what), sdktrace.WithSpanProcessor(q), sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSampler(env.sampler))
	return &Traces{salt: o.Salt, tracer: provider.Tracer("github.com/tickring/tickring"), queue: q}, nil
}

// Run sends spans to the collector until ctx ends.
func (t *Traces) Run(ctx context.Context) {
	if t != nil {
		t.queue.run(ctx)
	}
}

// Flush sends the queued spans to the collector within Options.FlushFor and ctx. A process that is frozen between two pieces
// of work calls it, but not while Run runs.
func (t *Traces) Flush(ctx context.Context) {
	if t != nil {
		t.queue.flush(ctx)
	}
}

// Close sends the remaining spans to the collector after Run, within Options.CloseFor and ctx.
// Spans that the collector does not accept by then are lost.
func (t *Traces) Close(ctx context.Context) {
	if t != nil {
		t.queue.close(ctx)
	}
}

// of is the trace of a run and its span "run".
func (t *Traces) of(run core.RunID) trace.SpanContext {
	m := hmac.New(sha256.New, t.salt)
	_, _ = m.Write(binary.BigEndian.AppendUint64([]byte("trace\n"), uint64(run))) // a hash accepts all writes
	sum := m.Sum(nil)
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]), Remote: true})
}

// Sender returns a Sender that sends by to, with a span for each send.
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
