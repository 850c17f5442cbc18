package traces

import (
	"context"
	"log/slog"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// batch is how many spans go in one request.
const batch = 512

// queue holds spans until the collector has them. It is a span processor of the SDK. The SDK's
// own does not report dropped spans, and ends only when the collector answers.
type queue struct {
	o        *Options
	exporter sdktrace.SpanExporter
	spans    chan sdktrace.ReadOnlySpan
	kick     chan struct{} // there are enough for a request

	// State of Run, Flush and Close; only one of them runs at a time.
	failing bool
	missed  int       // since it fails
	quiet   time.Time // no flush before
}

// OnStart implements sdktrace.SpanProcessor.
func (q *queue) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd adds a span to the queue, or drops the span if the queue is full.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	select {
	case q.spans <- s:
	default:
		q.count(0, 1)
		return
	}
	if len(q.spans) >= min(batch, cap(q.spans)) {
		select {
		case q.kick <- struct{}{}:
		default:
		}
	}
}

// ForceFlush does nothing, because the owner of the queue sends the spans.
func (q *queue) ForceFlush(context.Context) error { return nil }

func (q *queue) Shutdown(context.Context) error { return nil }

func (q *queue) count(exported, lost int) {
	if q.o.Count != nil {
		q.o.Count(exported, lost)
	}
}

// Run sends spans to the collector until ctx ends.
func (t *Traces) Run(ctx context.Context) {
	if t == nil {
		return
	}
	q := t.queue
	tick := time.NewTicker(q.o.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-q.kick:
		}
		for ctx.Err() == nil && q.export(ctx) {
		}
	}
}

// Flush sends the spans in the queue to the collector, until Options.FlushFor has passed or ctx ends. A process that
// may be frozen between two pieces of work calls Flush. Do not call Flush while Run runs.
func (t *Traces) Flush(ctx context.Context) {
	if t == nil {
		return
	}
	q := t.queue
	if len(q.spans) == 0 || time.Now().Before(q.quiet) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, q.o.FlushFor)
	defer cancel()
	for ctx.Err() == nil && !q.failing && q.export(ctx) {
	}
	if q.failing {
		q.failing, q.quiet = false, time.Now().Add(q.o.Pause)
	}
}

// Close sends the remaining spans to the collector after Run has ended, until Options.CloseFor has passed or ctx ends.
// Spans that the collector does not accept in this time are dropped.
func (t *Traces) Close(ctx context.Context) {
	if t == nil {
		return
	}
	q := t.queue
	ctx, cancel := context.WithTimeout(ctx, q.o.CloseFor)
	defer cancel()
	for ctx.Err() == nil && q.export(ctx) {
	}
	if left := len(q.spans); left > 0 {
		q.count(0, left)
		q.o.Log.Warn("spans lost at shutdown: the collector did not accept them in time", "spans", left)
	}
	_ = q.exporter.Shutdown(ctx) // it ends open requests, and there are none
}

// export brings one batch to the collector; false where there was none.
func (q *queue) export(ctx context.Context) bool {
	var list []sdktrace.ReadOnlySpan
	for len(list) < batch {
		select {
		case s := <-q.spans:
			list = append(list, s)
			continue
		default:
		}
		break
	}
	if len(list) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, q.o.Timeout)
	defer cancel()
	err := q.exporter.ExportSpans(ctx, list)
	switch {
	case err != nil:
		q.count(0, len(list))
		if !q.failing { // once, until it works again
			q.o.Log.Warn("spans lost: the collector does not accept spans", "spans", len(list), "err", shortened(err))
		}
		q.failing, q.missed = true, q.missed+len(list)
	default:
		q.count(len(list), 0)
		if q.failing {
			q.o.Log.Info("the collector accepts spans again", "lost", q.missed)
		}
		q.failing, q.missed = false, 0
	}
	return true
}

// shortened returns the text of an error, cut because it may hold an unknown server's answer.
func shortened(err error) slog.Value {
	text := []rune(strings.ToValidUTF8(err.Error(), "\uFFFD"))
	return slog.StringValue(string(text[:min(len(text), 300)]))
}
