package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/engine/awsengine"
)

// handler takes batches of the queues of fires, of checks and of dead letters.
type handler struct {
	look  func(context.Context) error // for an outage that has just ended; may be nil
	fires func(context.Context, []ring.Message) []dispatch.Verdict
	check func(context.Context, *ring.Check) error
	bury  func(ctx context.Context, body, reason string) error
	slow  string // the name of the queue of the slow lane
	// letter takes what comes from the queue of dead letters, which is named dead.
	letter func(context.Context, core.Letter) error
	dead   string
	log    *slog.Logger
	told   func() // at the end of a batch; may be nil
}

// queueName is the last part of the URL of a queue, and of its ARN.
func queueName(of string) string { return of[strings.LastIndexAny(of, "/:")+1:] }

// maxRecords is what a mapping may be set to.
const maxRecords = 10_000

// answerIn is how long before the end of an invocation all work ends: time to
// store what was begun and to say which messages are done.
const answerIn = 2 * time.Second

// handle answers which messages are to come again. One that cannot be read is
// buried with its reason and stops nobody; one of a newer version comes again,
// for a newer function to read. Where more than half of a batch failed it
// fails whole, so that the mapping backs off: what was done is found done.
func (h *handler) handle(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
	if err := check(&e); err != nil {
		return events.SQSEventResponse{}, err
	}
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-answerIn))
		defer cancel()
	}
	if h.dead != "" && queueName(e.Records[0].EventSourceARN) == h.dead {
		return h.letters(ctx, e.Records)
	}
	if h.told != nil {
		defer h.told()
	}
	if h.look != nil {
		if err := h.look(ctx); err != nil {
			return events.SQSEventResponse{}, fmt.Errorf("all messages come again: %w", err)
		}
	}
	res := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	var msgs []ring.Message
	var of []string // message IDs
	var checks []*ring.Check
	var checkOf []string
	var causes []error
	fail := func(id string, err error) {
		res.BatchItemFailures = append(res.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: id})
		if !errors.Is(err, ring.ErrNewer) {
			causes = append(causes, err)
		}
	}
	buried := 0
	for i := range e.Records {
		r := &e.Records[i]
		m, err := ring.Decode([]byte(r.Body))
		switch {
		case errors.Is(err, ring.ErrNewer):
			h.log.Warn("message of a newer version comes again", "message", r.MessageId)
			fail(r.MessageId, err)
		case err != nil:
			if berr := h.bury(ctx, r.Body, err.Error()); berr != nil {
				h.log.Error("unreadable message could not be buried and comes again", "message", r.MessageId, "why", err.Error(), "err", berr)
				fail(r.MessageId, berr)
				continue
			}
			buried++
			h.log.Error("unreadable message is among the dead letters", "message", r.MessageId, "why", err.Error())
		case m.Kind == ring.KindCheck:
			checks, checkOf = append(checks, m.Check), append(checkOf, r.MessageId)
		default:
			m.Slow = queueName(r.EventSourceARN) == h.slow
			msgs, of = append(msgs, m), append(of, r.MessageId)
		}
	}
	for i, err := range h.checked(ctx, checks) {
		if err != nil {
			h.log.Warn("check comes again", "message", checkOf[i], "err", err)
			fail(checkOf[i], err)
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
	// Not where something was buried: it would be buried again.
	if n := len(causes); n > 1 && 2*n > len(e.Records) && buried == 0 {
		return events.SQSEventResponse{}, fmt.Errorf("%d of %d messages failed, the first: %w", n, len(e.Records), causes[0])
	}
	return res, nil
}

// checksAtOnce bounds how many checks of a batch are made side by side.
const checksAtOnce = 32

// checked makes checks side by side: an executor that is asked and gives no answer
// costs the others no time.
func (h *handler) checked(ctx context.Context, checks []*ring.Check) []error {
	errs := make([]error, len(checks))
	lanes := make(chan struct{}, checksAtOnce)
	var under sync.WaitGroup
	for i, c := range checks {
		lanes <- struct{}{}
		under.Go(func() {
			defer func() { <-lanes }()
			errs[i] = h.check(ctx, c)
		})
	}
	under.Wait()
	return errs
}

// letters takes a batch of the queue of dead letters. What cannot be kept and
// recorded now comes again; nothing of it is ever buried once more.
func (h *handler) letters(ctx context.Context, records []events.SQSMessage) (events.SQSEventResponse, error) {
	res := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for i := range records {
		r := &records[i]
		ms, err := strconv.ParseInt(r.Attributes["SentTimestamp"], 10, 64)
		if err != nil {
			return res, fmt.Errorf("record %d of the event has no SentTimestamp", i)
		}
		l := core.Letter{At: time.UnixMilli(ms).UTC(), Body: r.Body}
		l.ID = awsengine.LetterID(l.At, r.MessageId)
		if a := r.MessageAttributes["reason"]; a.StringValue != nil {
			l.Reason = *a.StringValue
		} else { // moved here by the queue itself
			l.Reason = "it was received as often as its queue allows, and never acked"
		}
		if err := h.letter(ctx, l); err != nil {
			h.log.Error("dead letter comes again", "message", r.MessageId, "err", err)
			res.BatchItemFailures = append(res.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: r.MessageId})
		}
	}
	return res, nil
}

// check looks at the whole event before anything of it is done: an event that
// cannot be answered for comes again as a whole.
func check(e *events.SQSEvent) error {
	switch n := len(e.Records); {
	case n == 0:
		return errors.New("the event is no batch of a queue: it has no Records")
	case n > maxRecords:
		return fmt.Errorf("a batch of %d messages; at most %d are allowed", n, maxRecords)
	}
	for i := range e.Records {
		if e.Records[i].MessageId == "" {
			return fmt.Errorf("record %d of the event has no messageId", i)
		}
	}
	return nil
}
