package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/executor/queueexec"
	"github.com/tickring/tickring/wire"
)

// nothing returns an executor whose jobs do nothing: the proof is about sending them.
func nothing() *executor.Mux {
	mux := executor.NewMux()
	mux.Register("work", func(context.Context, *executor.Run) error { return nil })
	return mux
}

func quiet(o *executor.Options) { o.InMemory, o.Log = true, slog.New(slog.DiscardHandler) }

// counting counts the runs that a request brings. arrived is called before one is answered.
func (p *proof) counting(next http.Handler, arrived func()) http.Handler {
	var requests atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathRun || r.URL.Path == wire.PathTrigger {
			now := time.Now()
			body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
			var run struct{ LogID int64 }
			if err != nil || json.Unmarshal(body, &run) != nil {
				http.Error(w, "that is no run", http.StatusBadRequest)
				return
			}
			p.ledger.add(core.RunID(run.LogID), fmt.Sprint("request ", requests.Add(1)), now)
			r.Body = io.NopCloser(bytes.NewReader(body))
			arrived()
		}
		next.ServeHTTP(w, r)
	})
}

// overHTTP is an executor in this process, which counts requests. arrived is
// called before one is answered.
func (p *proof) overHTTP(app string, arrived func()) (stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the executor's endpoint: %w", err)
	}
	var e *executor.Executor
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.ServeHTTP(w, r) })
	door := &http.Server{ReadHeaderTimeout: time.Minute, Handler: p.counting(served, arrived)}
	o := executor.Options{App: app, Token: p.executorToken, Servers: []string{p.url}, Address: "http://" + l.Addr().String(), Dir: p.dir}
	quiet(&o)
	if e, err = executor.New(nothing(), o); err == nil {
		go func() { _ = door.Serve(l) }() // until stop
		err = e.Start()
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := e.Stop(ctx)
		door.Close()
		return err
	}, err
}

// byQueue pulls runs from the queue of the counter, and counts messages: the time
// of a run is that at which it was put there.
func (p *proof) byQueue(app string) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- queueexec.Run(ctx, nothing(), queueexec.Options{
			Queue: p.counts["Work"], Client: &watched{p.sqs, p.ledger}, App: app, Servers: []string{p.url}, Token: p.executorToken, Concurrency: 40,
			Log: slog.New(slog.DiscardHandler), Change: func(o *executor.Options) { quiet(o); o.Dir = p.dir },
		})
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// watched records each received message in the ledger.
type watched struct {
	*sqs.Client
	ledger *ledger
}

func (w *watched) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, opts ...func(*sqs.Options)) (
	*sqs.ReceiveMessageOutput, error,
) {
	more := *in
	more.MessageSystemAttributeNames = append(more.MessageSystemAttributeNames, sqstypes.MessageSystemAttributeNameSentTimestamp)
	out, err := w.Client.ReceiveMessage(ctx, &more, opts...)
	if err != nil {
		return out, err
	}
	for _, m := range out.Messages {
		var run struct{ LogID int64 }
		at, ok := sentAt(m)
		if ok && json.Unmarshal([]byte(*m.Body), &run) == nil {
			w.ledger.add(core.RunID(run.LogID), "message "+*m.MessageId, at)
		}
	}
	return out, nil
}

// sentAt returns when a message was put into its queue.
func sentAt(m sqstypes.Message) (time.Time, bool) {
	return stamp(m, sqstypes.MessageSystemAttributeNameSentTimestamp)
}

func stamp(m sqstypes.Message, name sqstypes.MessageSystemAttributeName) (time.Time, bool) {
	var ms int64
	if _, err := fmt.Sscan(m.Attributes[string(name)], &ms); err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(ms), true
}

// byFunction reads the arrivals that the counter's function recorded.
func (p *proof) byFunction() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.readArrivals(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func (p *proof) readArrivals(ctx context.Context) error {
	queue := p.counts["Arrivals"]
	for ctx.Err() == nil {
		out, err := p.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 10})
		if err != nil {
			wait(ctx, time.Second)
			continue
		}
		var gone []sqstypes.DeleteMessageBatchRequestEntry
		for _, m := range out.Messages {
			var a struct {
				Run     core.RunID `json:",string"`
				Request string
				At      float64
			}
			if err := json.Unmarshal([]byte(*m.Body), &a); err != nil {
				return fmt.Errorf("an arrival that cannot be read: %s: %w", *m.Body, err)
			}
			p.ledger.add(a.Run, "invocation "+a.Request, time.UnixMilli(int64(a.At*1000)))
			gone = append(gone, sqstypes.DeleteMessageBatchRequestEntry{Id: m.MessageId, ReceiptHandle: m.ReceiptHandle})
		}
		if len(gone) > 0 { // duplicates are recognized by their request
			_, _ = p.sqs.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &queue, Entries: gone})
		}
	}
	return nil
}
