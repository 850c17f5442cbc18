package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/lambdaboot"
)

// handler processes batches of the post-run queue.
type handler struct {
	look func(context.Context) error // for an outage that has just ended, and whose data it is
	make func(context.Context, []ring.Message) []error
	bury func(ctx context.Context, body, reason string) error
	log  *slog.Logger
}

// handle returns the messages to deliver again. It moves an unreadable message to the dead-letter queue with the reason and
// continues. A message of a newer version is delivered again, for a newer function.
func (h *handler) handle(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
	if err := lambdaboot.CheckBatch(&e); err != nil {
		return events.SQSEventResponse{}, err
	}
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-lambdaboot.AnswerIn))
		defer cancel()
	}
	if err := h.look(ctx); err != nil {
		return events.SQSEventResponse{}, fmt.Errorf("all messages are redelivered: %w", err)
	}
	res := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	again := func(r *events.SQSMessage, what string, err error) {
		h.log.Warn(what+" redelivered", "message", r.MessageId, "err", err)
		res.BatchItemFailures = append(res.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: r.MessageId})
	}
	var list []ring.Message
	var of []*events.SQSMessage
	for i := range e.Records {
		r := &e.Records[i]
		m, err := ring.Decode([]byte(r.Body))
		if err == nil && m.Kind != ring.KindPostRun {
			err = fmt.Errorf("the post-run queue cannot process messages of the kind %q", m.Kind)
		}
		switch {
		case errors.Is(err, ring.ErrNewer):
			again(r, "message of a newer version", err)
		case err == nil:
			list, of = append(list, m), append(of, r)
		default:
			h.log.Error("unreadable message moved to the dead-letter queue", "message", r.MessageId, "why", err.Error())
			if berr := h.bury(ctx, r.Body, err.Error()); berr != nil {
				again(r, "unreadable message not moved to the dead-letter queue", berr)
			}
		}
	}
	for i, err := range h.make(ctx, list) {
		if err != nil {
			again(of[i], "a message", err)
		}
	}
	return res, nil
}
