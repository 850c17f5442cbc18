package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
)

// handler takes batches of the fires queue and of the checks queue.
type handler struct {
	fires func(context.Context, []ring.Message) []dispatch.Verdict
	check func(context.Context, *ring.Check) error
	bury  func(ctx context.Context, body, reason string) error
	log   *slog.Logger
}

// maxRecords is what a mapping may be set to.
const maxRecords = 10_000

// handle answers which messages are to come again. One that cannot be read is
// buried with its reason and stops nobody; one of a newer version comes again,
// for a newer function to read. Where more than half of a batch failed it
// fails whole, so that the mapping backs off: what was done is found done.
func (h *handler) handle(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
	var res events.SQSEventResponse
	if len(e.Records) > maxRecords {
		return res, fmt.Errorf("a batch of %d messages; at most %d are allowed", len(e.Records), maxRecords)
	}
	var msgs []ring.Message
	var of []string // message IDs
	var causes []error
	fail := func(id string, err error) {
		res.BatchItemFailures = append(res.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: id})
		causes = append(causes, err)
	}
	for i := range e.Records {
		r := &e.Records[i]
		if r.MessageId == "" {
			return events.SQSEventResponse{}, fmt.Errorf("record %d of the event has no messageId", i)
		}
		m, err := ring.Decode([]byte(r.Body))
		switch {
		case errors.Is(err, ring.ErrNewer):
			h.log.Warn("message of a newer version comes again", "message", r.MessageId)
			fail(r.MessageId, err)
		case err != nil:
			if berr := h.bury(ctx, r.Body, err.Error()); berr != nil {
				fail(r.MessageId, berr)
				continue
			}
			h.log.Error("unreadable message is among the dead letters", "message", r.MessageId, "why", err.Error())
		case m.Kind == ring.KindCheck:
			if err := h.check(ctx, m.Check); err != nil {
				h.log.Warn("check comes again", "message", r.MessageId, "err", err)
				fail(r.MessageId, err)
			}
		default:
			msgs, of = append(msgs, m), append(of, r.MessageId)
		}
	}
	if len(msgs) > 0 {
		for i, v := range h.fires(ctx, msgs) {
			if !v.Ack {
				h.log.Warn("message comes again", "message", of[i], "slot", msgs[i].Slot, "err", v.Err)
				fail(of[i], v.Err)
			}
		}
	}
	if n := len(res.BatchItemFailures); n > 1 && 2*n > len(e.Records) {
		if cause := first(causes); cause != nil && !errors.Is(cause, ring.ErrNewer) {
			return events.SQSEventResponse{}, fmt.Errorf("%d of %d messages failed, the first: %w", n, len(e.Records), cause)
		}
	}
	return res, nil
}

func first(errs []error) error {
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}
