package store

import (
	"context"
	"time"

	"github.com/tickring/tickring/core/ring"
)

// Queue stores messages until their time. Runs, runs of the slow queue, checks and post-run work each have their own queue.
type Queue interface {
	Receiver
	// Enqueue stores messages durably. It returns nil, core.ErrThrottled or an unknown result for each message.
	Enqueue(ctx context.Context, out []ring.Out) []error
	// Depth counts messages of a kind: due, waiting for their time, and in flight.
	Depth(ctx context.Context, kind ring.Kind) (due, waiting, inFlight int, err error)
	// Oldest returns the due time, possibly estimated, of the oldest message of a run, including messages in flight.
	Oldest(ctx context.Context) (ring.Oldest, error)
	// Bury moves a message to the dead-letter queue with the reason, so that a message that can never be dispatched is not
	// lost.
	Bury(ctx context.Context, m ring.Message, reason string) error
}

// Receiver receives the messages of a Queue. An engine on AWS has none: Lambda receives messages.
type Receiver interface {
	// Receive waits until a message of the kind (ring.KindSlow: of the slow queue) is visible or ctx ends. It returns at most
	// limit visible messages in the order of NotBefore. A message of runs may come early: its consumer waits for its Slot. A
	// received message is invisible to other receivers for the store's visibility timeout, then becomes visible again.
	Receive(ctx context.Context, kind ring.Kind, limit int) ([]Delivery, error)
	// Ack removes deliveries permanently. A missing message is not an error.
	Ack(ctx context.Context, done []Delivery) []error
	// Release makes deliveries visible again at the given time, without an ack.
	Release(ctx context.Context, back []Delivery, at time.Time) []error
}

// Delivery is one message that Receive returned.
type Delivery struct {
	ID       int64
	Receives int // number of times that the message was received, including this time
	Message  ring.Message
}
