package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/executor/queueexec"
	"github.com/tickring/tickring/store"
)

// byQueue pulls runs from the queue of the counter, and counts messages: the time
// of a run is that at which it was put there. The jobs do nothing: the proof is about sending them.
func (p *proof) byQueue(ctx context.Context) error {
	mux := executor.NewMux()
	mux.Register("work", func(context.Context, *executor.Run) error { return nil })
	return queueexec.Run(ctx, mux, queueexec.Options{
		Queue: p.counts["Work"], Client: &watched{p.sqs, p.ledger}, App: "queue", Servers: []string{p.server.URL}, Token: p.executorToken,
		Concurrency: 40, Log: slog.New(slog.DiscardHandler), Change: func(o *executor.Options) { o.Dir = p.dir },
	})
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
func (p *proof) byFunction(ctx context.Context) error {
	queue := p.counts["Arrivals"]
	for ctx.Err() == nil {
		out, err := p.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 10})
		if err != nil {
			store.Sleep(ctx, time.Second)
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
