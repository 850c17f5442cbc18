package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tickring/tickring/core"
)

// Pull stores the queues of a server on one machine, which executors poll. Writes return core.ErrRefused and
// core.ErrThrottled as package core documents.
type Pull interface {
	// PutPulled adds a visible run to the end of a queue. If the queue has the run, nothing changes. If the queue has most
	// runs, PutPulled returns ErrFull.
	PutPulled(ctx context.Context, it PullItem, most int) error
	// TakePulled returns at most limit runs that are visible at now, and hides them until the time until. The first run is the
	// one that has been visible for longest. The result next is when the next run becomes visible; zero: no further run is in
	// the queue.
	TakePulled(ctx context.Context, q PullQueue, now, until time.Time, limit int) (held []Held, next time.Time, err error)
	// HidePulled hides a run until a time and sets its number of deliveries to n. The condition is that the run is in the
	// queue, and that r is the receipt of its last delivery.
	HidePulled(ctx context.Context, q PullQueue, r Receipt, until time.Time, n int) error
	// DropPulled removes a run, on the condition of HidePulled.
	DropPulled(ctx context.Context, q PullQueue, r Receipt) error
	// RemovePulled removes entries by ID.
	RemovePulled(ctx context.Context, ids []int64) error
	// HasPulled reports whether the queue has a run of the job, hidden or visible.
	HasPulled(ctx context.Context, q PullQueue, job core.JobID) (bool, error)
	// ListPulled reads at most limit entries of all queues with IDs after the given ID, sorted by ID.
	ListPulled(ctx context.Context, after int64, limit int) ([]Listed, error)
}

// ErrFull means that a queue has its maximum number of runs.
var ErrFull = errors.New("the queue is full")

// A PullQueue is one queue of one app.
type PullQueue struct{ App, Name string }

// Address returns the address of the queue, as used in the app's executors list.
func (q PullQueue) Address() string { return string(core.SchemeQueue) + ":" + q.Name }

// A PullItem is a run to add to a queue.
type PullItem struct {
	Queue PullQueue
	Run   core.RunID
	Body  []byte
}

// A Receipt identifies one delivery of a run to an executor. N is the number of deliveries of the run, including this one.
type Receipt struct {
	Run core.RunID
	N   int
}

func (r Receipt) String() string { return r.Run.String() + "." + strconv.Itoa(r.N) }

// A Held is a run that was delivered to an executor.
type Held struct {
	Receipt Receipt
	Body    []byte
}

// A Listed is an entry of a queue.
type Listed struct {
	ID    int64 // IDs increase in the order of arrival
	Queue PullQueue
	Run   core.RunID
	N     int // number of deliveries; 0: not delivered
}
