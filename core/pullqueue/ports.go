package pullqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
)

// A Queue is one queue of one app.
type Queue struct{ App, Name string }

// Address returns the address of the queue, as used in the app's executors list.
func (q Queue) Address() string { return string(core.SchemeQueue) + ":" + q.Name }

// An Item is a run to add to a queue.
type Item struct {
	Queue Queue
	Run   core.RunID
	Body  []byte
}

// A Receipt identifies one delivery of a run to an executor. N is the number of deliveries of the run, including this one.
type Receipt struct {
	Run core.RunID
	N   int
}

func (r Receipt) String() string { return r.Run.String() + "." + strconv.Itoa(r.N) }

// ParseReceipt parses the result of Receipt.String.
func ParseReceipt(text string) (Receipt, error) {
	run, n, _ := strings.Cut(text, ".")
	id, err := core.ParseRunID(run)
	if err == nil && len(n) <= 9 {
		var k int
		if k, err = strconv.Atoi(n); err == nil && k > 0 {
			return Receipt{id, k}, nil
		}
	}
	return Receipt{}, core.Invalid("receipts", text, "expected a receipt exactly as received with the run")
}

// A Held is a run that was delivered to an executor.
type Held struct {
	Receipt Receipt
	Body    []byte
}

// A Listed is an entry of a queue.
type Listed struct {
	ID    int64 // IDs increase in the order of arrival
	Queue Queue
	Run   core.RunID
	N     int // number of deliveries; 0: not delivered
}

// ErrFull means that a queue has its maximum number of runs.
var ErrFull = errors.New("the queue is full")

// A Store stores the queues durably. Writes return core.ErrRefused and core.ErrThrottled as package core documents.
type Store interface {
	// PutPulled adds a visible run to the end of a queue. If the queue has the run, nothing changes. If the queue has most
	// runs, PutPulled returns ErrFull.
	PutPulled(ctx context.Context, it Item, most int) error
	// TakePulled returns at most limit runs that are visible at now, and hides them until the time until. The first run is the
	// one that has been visible for longest. The result next is when the next run becomes visible; zero: no further run is in
	// the queue.
	TakePulled(ctx context.Context, q Queue, now, until time.Time, limit int) (held []Held, next time.Time, err error)
	// HidePulled hides a run until a time and sets its number of deliveries to n. The condition is that the run is in the
	// queue, and that r is the receipt of its last delivery.
	HidePulled(ctx context.Context, q Queue, r Receipt, until time.Time, n int) error
	// DropPulled removes a run, on the condition of HidePulled.
	DropPulled(ctx context.Context, q Queue, r Receipt) error
	// RemovePulled removes entries by ID.
	RemovePulled(ctx context.Context, ids []int64) error
	// HasPulled reports whether the queue has a run of the job, hidden or visible.
	HasPulled(ctx context.Context, q Queue, job core.JobID) (bool, error)
	// ListPulled reads at most limit entries of all queues with IDs after the given ID, sorted by ID.
	ListPulled(ctx context.Context, after int64, limit int) ([]Listed, error)
}

// Runs reads runs with strongly consistent reads.
type Runs interface {
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
}

// A Finisher ends runs. *finish.Finish implements it.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
}

func passing(action string, err error) error {
	return &core.Error{Code: core.CodeUnavailable, Reason: core.Say("the database did not answer: try again"),
		Err: fmt.Errorf("%s: %w", action, err)}
}
