package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// handler processes batches of the queues of runs and of checks.
type handler struct {
	look  func(context.Context) error // for an outage that has just ended; may be nil
	fires func(context.Context, []ring.Message) []dispatch.Verdict
	check func(context.Context, *ring.Check) error
	bury  func(ctx context.Context, body, reason string) error
	slow  string // the name of the slow queue
	// returned is called with messages that were received before; may be nil.
	returned func(context.Context, []ring.Message)
	// again sets when messages of a queue are delivered again; nil: when their visibility ends, the longest wait.
	again func(ctx context.Context, queue string, list []dynamo.Again) []error
	// done removes messages of a batch that fails as a whole; nil: they come again, and
	// are found done.
	done       func(ctx context.Context, queue string, receipts []string) []error
	visibility time.Duration
	log        *slog.Logger
	ended      func() // at the end of a batch; may be nil
}

// queueName is the last part of the URL of a queue, and of its ARN.
func queueName(of string) string { return of[strings.LastIndexAny(of, "/:")+1:] }

// handle returns the messages to deliver again. It moves an unreadable message to the dead-letter queue with the reason and
// continues. A message of a newer version is delivered again, for a newer function to read. If more than half of a batch fail, the
// whole batch fails, so that the event source mapping backs off. handle then removes the finished messages from the queue first.
func (h *handler) handle(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
	if err := lambdaboot.CheckBatch(&e); err != nil {
		return events.SQSEventResponse{}, err
	}
	whole := ctx
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-lambdaboot.AnswerIn))
		defer cancel()
	}
	if h.ended != nil {
		defer h.ended()
	}
	if h.look != nil {
		if err := h.look(ctx); err != nil {
			var all []failure
			for i := range e.Records {
				all = append(all, failure{r: &e.Records[i], err: err})
			}
			h.comeAgain(whole, all)
			return events.SQSEventResponse{}, fmt.Errorf("all messages are redelivered: %w", err)
		}
	}
	res := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	var msgs, before []ring.Message
	var of, checkOf []*events.SQSMessage
	var checks []*ring.Check
	var failures []failure // to be delivered again as soon as possible
	fail := func(f failure) {
		res.BatchItemFailures = append(res.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: f.r.MessageId})
		if !errors.Is(f.err, ring.ErrNewer) {
			failures = append(failures, f)
		}
	}
	buried := 0
	for i := range e.Records {
		r := &e.Records[i]
		m, err := ring.Decode([]byte(r.Body))
		switch {
		case errors.Is(err, ring.ErrNewer):
			h.log.Warn("message of a newer version redelivered", "message", r.MessageId)
			fail(failure{r: r, err: err})
		case err != nil:
			if berr := h.bury(ctx, r.Body, err.Error()); berr != nil {
				h.log.Error("unreadable message not moved to the dead-letter queue: it is redelivered", "message", r.MessageId,
					"why", err.Error(), "err", berr)
				fail(failure{r: r, err: berr})
				continue
			}
			buried++
			h.log.Error("unreadable message moved to the dead-letter queue", "message", r.MessageId, "why", err.Error())
		case m.Kind == ring.KindCheck:
			checks, checkOf = append(checks, m.Check), append(checkOf, r)
		default:
			m.Slow = queueName(r.EventSourceARN) == h.slow
			msgs, of = append(msgs, m), append(of, r)
			if receives(r) > 1 {
				before = append(before, m)
			}
		}
	}
	var beside sync.WaitGroup
	if h.returned != nil && len(before) > 0 {
		beside.Go(func() {
			c, cancel := context.WithTimeout(ctx, lambdaboot.AnswerIn)
			defer cancel()
			h.returned(c, before)
		})
	}
	checked := make([]error, len(checks))
	store.AtOnce(len(checks), func(i int) { checked[i] = h.check(ctx, checks[i]) }) // a silent executor costs the others no time
	for i, err := range checked {
		if err != nil {
			h.log.Warn("check redelivered", "message", checkOf[i].MessageId, "err", err)
			fail(failure{r: checkOf[i], err: err})
		}
	}
	if len(msgs) > 0 {
		for i, v := range h.fires(ctx, msgs) {
			if !v.Ack {
				h.log.Warn("message redelivered", "message", of[i].MessageId, "slot", msgs[i].Slot, "err", v.Err)
				fail(failure{r: of[i], at: v.RetryAt, err: v.Err, slot: msgs[i].Slot})
			}
		}
	}
	beside.Wait()
	h.comeAgain(whole, failures)
	// If a message was moved to the dead-letter queue, do not fail the batch: the message could return and be moved again.
	if n := len(failures); n > 1 && 2*n > len(e.Records) && buried == 0 {
		h.remove(whole, &e, &res)
		return events.SQSEventResponse{}, fmt.Errorf("%d of %d messages failed, the first: %w", n, len(e.Records), failures[0].err)
	}
	return res, nil
}

// remove deletes the finished messages of a batch that fails as a whole. Otherwise they would be delivered again and use scarce
// capacity.
func (h *handler) remove(ctx context.Context, e *events.SQSEvent, res *events.SQSEventResponse) {
	var receipts []string
	for i := range e.Records {
		r := &e.Records[i]
		if !slices.Contains(res.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: r.MessageId}) {
			receipts = append(receipts, r.ReceiptHandle)
		}
	}
	if h.done == nil || len(receipts) == 0 {
		return
	}
	ctx, cancel := telling(ctx)
	defer cancel()
	if err := errors.Join(h.done(ctx, queueName(e.Records[0].EventSourceARN), receipts)...); err != nil {
		h.log.Warn("finished messages redelivered", "err", err)
	}
}

// telling limits ctx to the time reserved for requests to a queue.
func telling(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Now().Add(lambdaboot.AnswerIn)
	}
	return context.WithDeadline(ctx, end.Add(-lambdaboot.AnswerIn/2))
}

// failure is a message that is not done, and when it may be tried again; zero:
// whenever it comes.
type failure struct {
	r    *events.SQSMessage
	at   time.Time
	err  error
	slot core.Instant // due time of its runs
}

// comeAgain sets when the queue delivers messages again. Otherwise it would wait until their visibility ends. That time is chosen
// for functions that died, and is longer than most failures last.
func (h *handler) comeAgain(ctx context.Context, failures []failure) {
	if h.again == nil || len(failures) == 0 {
		return
	}
	ctx, cancel := telling(ctx)
	defer cancel()
	now := time.Now()
	queue := queueName(failures[0].r.EventSourceARN)
	list := make([]dynamo.Again, len(failures))
	for i, f := range failures {
		list[i] = dynamo.Again{Receipt: f.r.ReceiptHandle, At: h.when(&f, now), Slot: f.slot}
	}
	for i, err := range h.again(ctx, queue, list) {
		if err != nil {
			h.log.Warn("message not released: it is redelivered when its visibility timeout ends", "message", failures[i].r.MessageId, "err", err)
		}
	}
}

// when returns when a message is delivered again: at the time that its failure names, or after a wait. The wait doubles with each
// receipt up to the visibility, and is randomized so that messages that failed together do not return together. Shorter waits would
// use up a message's receipts within minutes.
func (h *handler) when(f *failure, now time.Time) time.Time {
	if f.at.After(now) {
		return f.at
	}
	wait := time.Second << min(max(receives(f.r)-1, 0), 16)
	return now.Add(min(wait+rand.N(wait/4), h.visibility))
}

// receives is how often a message was received, this time too.
func receives(r *events.SQSMessage) int {
	n, _ := strconv.Atoi(r.Attributes["ApproximateReceiveCount"])
	return n
}
