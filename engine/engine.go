// Package engine is where state lives: the ports of all use cases as one
// struct of small interfaces. An engine (memory, sqlite, awsengine) fills it;
// enginetest holds what all of them must do. It decides nothing about fires.
package engine

import (
	"context"
	"time"

	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
)

// Engine is one open store with its queues.
type Engine struct {
	Tick     tick.Store
	Leases   tick.Leases
	Dispatch dispatch.Store
	Finish   finish.Store
	Watch    finish.Watch
	Registry registry.Store
	Manage   manage.Store
	Ring     Ring
	Queue    Queue
	Upkeep   Upkeep
	// Close ends what the engine runs and releases its files.
	Close func() error
}

// Ring is the sending side of the queues; it is the Ring port of every use case.
type Ring interface {
	// Enqueue puts messages on the ring durably, fires on one queue, checks on
	// another. Answers nil, core.ErrThrottled or unknown for each.
	Enqueue(ctx context.Context, out []ring.Out) []error
	// Bury keeps a message among the dead letters with the reason: what can
	// never be dispatched is not thrown away.
	Bury(ctx context.Context, m ring.Message, reason string) error
}

// Queue is the receiving side, for what drives dispatch on one machine.
type Queue interface {
	// Receive waits until a message of the kind is visible or ctx ends, and
	// answers the visible ones in the order of NotBefore, at most limit. A
	// received message is invisible to others for the engine's visibility, and
	// then comes again.
	Receive(ctx context.Context, kind ring.Kind, limit int) ([]Delivery, error)
	// Ack removes deliveries for good.
	Ack(ctx context.Context, done []Delivery) []error
	// Release makes deliveries visible again at a moment, without an ack.
	Release(ctx context.Context, back []Delivery, at time.Time) []error
	// Depth counts messages of a kind: due, waiting for their time, and in flight.
	Depth(ctx context.Context, kind ring.Kind) (due, waiting, inFlight int, err error)
}

// Delivery is one message as received.
type Delivery struct {
	ID       int64
	Receives int // how often it was received, this time included
	Message  ring.Message
}

// Upkeep keeps the store small.
type Upkeep interface {
	// Sweep removes what is past its keeping, at most limit things, and tells
	// how many it removed: closed runs older than their job's keep (or than
	// runs, if that is not zero), skipped records and change records of the
	// same age, journals and tombstones older than journals, keys older than a day.
	Sweep(ctx context.Context, now time.Time, runs, journals time.Duration, limit int) (removed int, err error)
	// Alive notes that the scheduler is alive at now, and answers the moment noted before.
	Alive(ctx context.Context, now time.Time) (before time.Time, err error)
}
