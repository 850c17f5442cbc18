// Package poller passes due messages from a queue of a server to its workers.
package poller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// Poller passes due messages from a queue to a dispatcher, or checks to a watchdog, in many batches at a time. A batch
// occupies a place until only executors are left to wait for. The dispatcher limits those waits for each app, so a hanging
// executor never holds a place; a watchdog waits at most some seconds.
type Poller struct {
	Queue    store.Queue
	Kind     ring.Kind
	Messages int // maximum in one batch
	Places   int
	// Handle is dispatch.Dispatcher.HandleFreeing for the received messages. For checks too it returns one verdict a message.
	Handle func(ctx context.Context, got []store.Delivery, free func()) []dispatch.Verdict
	// Ready is called before each batch; if it fails, the messages are released. nil: always ready.
	Ready func(ctx context.Context) error
	Now   func() time.Time // the clock of the queue; nil: time.Now
	Log   *slog.Logger
}

const (
	// soonest is the shortest delay before a message that was not acked becomes visible again.
	soonest = time.Second
	// returnIn is the maximum time of an ack or a release. If it fails, the message is redelivered after its visibility
	// timeout, and then found done or handled again.
	returnIn = 10 * time.Second
)

// Messages returns the messages of deliveries.
func Messages(got []store.Delivery) []ring.Message {
	msgs := make([]ring.Message, len(got))
	for i := range got {
		msgs[i] = got[i].Message
	}
	return msgs
}

// Run takes batches until receive ends, then waits for the batches in progress, which use the context handle.
func (in *Poller) Run(receive, handle context.Context) {
	places := make(chan struct{}, in.Places)
	var batches sync.WaitGroup
	defer batches.Wait()
	for {
		select {
		case places <- struct{}{}:
		case <-receive.Done():
			return
		}
		got, err := in.Queue.Receive(receive, in.Kind, in.Messages)
		if err != nil {
			<-places
			if receive.Err() != nil {
				return
			}
			in.Log.Error("receive failed", "err", err)
			store.Sleep(receive, time.Second)
			continue
		}
		batches.Go(func() {
			free := sync.OnceFunc(func() { <-places })
			defer free()
			in.batch(handle, got, free)
		})
	}
}

func (in *Poller) batch(ctx context.Context, got []store.Delivery, free func()) {
	if in.Ready != nil {
		if err := in.Ready(ctx); err != nil {
			in.Log.Error("messages redelivered", "err", err)
			in.back(ctx, got, time.Time{})
			return
		}
	}
	var acks []store.Delivery
	for i, v := range in.Handle(ctx, got, free) {
		if v.Ack {
			acks = append(acks, got[i])
			continue
		}
		in.Log.Debug("message redelivered", "slot", got[i].Message.Slot, "err", v.Err)
		in.back(ctx, got[i:i+1], v.RetryAt)
	}
	if len(acks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnIn)
	defer cancel()
	for _, err := range in.Queue.Ack(ctx, acks) {
		if err != nil {
			in.Log.Warn("ack failed", "err", err)
			break
		}
	}
}

// back releases deliveries until at, but for at least soonest.
func (in *Poller) back(ctx context.Context, d []store.Delivery, at time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnIn)
	defer cancel()
	now := time.Now
	if in.Now != nil {
		now = in.Now
	}
	if soon := now().Add(soonest); at.Before(soon) {
		at = soon
	}
	for _, err := range in.Queue.Release(ctx, d, at) {
		if err != nil {
			in.Log.Warn("message not released: it is redelivered when its visibility timeout ends", "err", err)
		}
	}
}
