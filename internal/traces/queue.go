package traces

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// queue is around the batch processor of the SDK, which would drop spans without a report, and would wait for the collector at a
// shutdown. As the exporter of the processor, queue counts and logs the spans of each request.
type queue struct {
	o         *Options
	exporter  sdktrace.SpanExporter // sends the requests
	processor sdktrace.SpanProcessor
	waiting   atomic.Int64 // spans in the processor, including the spans of a request
	closing   context.Context
	stop      context.CancelFunc // ends closing, and so every request
	drained   chan struct{}      // closed when the processor has ended
	quiet     time.Time          // no flush before

	mu      sync.Mutex // held during a request
	failing bool
	missed  int // spans lost since failing
}

func newQueue(o *Options, to sdktrace.SpanExporter) *queue {
	q := &queue{o: o, exporter: to, drained: make(chan struct{})}
	q.closing, q.stop = context.WithCancel(context.Background())
	q.processor = sdktrace.NewBatchSpanProcessor(q, sdktrace.WithMaxQueueSize(o.Queue), sdktrace.WithBatchTimeout(o.Every),
		sdktrace.WithExportTimeout(o.Timeout))
	return q
}

// bounded is the batch processor with at most Options.Queue spans.
type bounded struct {
	sdktrace.SpanProcessor
	q *queue
}

// OnEnd adds a span to the queue, or drops the span if the queue is full.
func (b bounded) OnEnd(s sdktrace.ReadOnlySpan) {
	if b.q.waiting.Add(1) > int64(b.q.o.Queue) {
		b.q.waiting.Add(-1)
		b.q.count(0, 1)
		return
	}
	b.SpanProcessor.OnEnd(s)
}

func (q *queue) count(exported, lost int) {
	if q.o.Count != nil {
		q.o.Count(exported, lost)
	}
}

// ExportSpans implements sdktrace.SpanExporter. It reports errors itself and returns nil.
func (q *queue) ExportSpans(ctx context.Context, list []sdktrace.ReadOnlySpan) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(q.closing, cancel)()
	err := q.exporter.ExportSpans(ctx, list)
	q.waiting.Add(-int64(len(list)))
	if err == nil {
		q.count(len(list), 0)
		if q.failing {
			q.o.Log.Info("the collector accepts spans again", "lost", q.missed)
		}
		q.failing, q.missed = false, 0
		return nil
	}
	q.count(0, len(list))
	if !q.failing && q.closing.Err() == nil { // once, until it works again; Close reports the rest
		q.o.Log.Warn("spans lost: the collector does not accept spans", "spans", len(list), "err", shortened(err))
	}
	q.failing, q.missed = true, q.missed+len(list)
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (q *queue) Shutdown(ctx context.Context) error {
	defer close(q.drained)
	return q.exporter.Shutdown(ctx)
}

// Flush sends the spans in the queue to the collector, until Options.FlushFor has passed or ctx ends, and a request that has
// begun before ends. A process that may be frozen between two pieces of work calls Flush.
func (t *Traces) Flush(ctx context.Context) {
	if t == nil {
		return
	}
	q := t.queue
	if q.waiting.Load() == 0 || time.Now().Before(q.quiet) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, q.o.FlushFor)
	defer cancel()
	_ = q.processor.ForceFlush(ctx) // ExportSpans has reported the error
	q.mu.Lock()                     // after the end of a request that ctx ended
	defer q.mu.Unlock()
	if q.failing {
		q.quiet = time.Now().Add(q.o.Pause)
	}
}

// Close sends the remaining spans to the collector, until Options.CloseFor has passed or ctx ends. Spans that the collector
// does not accept in this time are dropped.
func (t *Traces) Close(ctx context.Context) {
	if t == nil {
		return
	}
	q := t.queue
	defer q.stop()
	ctx, cancel := context.WithTimeout(ctx, q.o.CloseFor)
	defer cancel()
	if q.processor.Shutdown(ctx) == nil {
		return
	}
	if left := q.waiting.Load(); left > 0 {
		q.o.Log.Warn("spans lost at shutdown: the collector did not accept them in time", "spans", left)
	}
	q.stop()
	<-q.drained
}

// shortened returns the text of an error, cut because it may hold an unknown server's answer.
func shortened(err error) slog.Value {
	text := []rune(strings.ToValidUTF8(err.Error(), "\uFFFD"))
	return slog.StringValue(string(text[:min(len(text), 300)]))
}
