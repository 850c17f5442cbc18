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

// Queue is one queue of one app.
type Queue struct{ App, Name string }

// Address returns the queue as an address of its app.
func (q Queue) Address() string { return string(core.SchemeQueue) + ":" + q.Name }

// Item is a run in a queue.
type Item struct {
	Queue Queue
	Run   core.RunID
	Body  []byte
}

// Receipt identifies one delivery of a run to an executor: the run and the number of its deliveries.
type Receipt struct {
	Run core.RunID
	N   int
}

func (r Receipt) String() string { return r.Run.String() + "." + strconv.Itoa(r.N) }

// ParseReceipt reads the output of Receipt.String.
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

// Held is a delivered run.
type Held struct {
	Receipt Receipt
	Body    []byte
}

// Listed is a place in a queue.
type Listed struct {
	ID    int64 // IDs are in the order of arrival
	Queue Queue
	Run   core.RunID
	N     int // number of deliveries
}

// ErrFull means that a queue has no room for a run.
var ErrFull = errors.New("the queue is full")

// Store stores the queues durably. Writes return core.ErrRefused and core.ErrThrottled as package core documents.
type Store interface {
	// PutPulled adds a visible run to the end of a queue; an existing run stays unchanged. ErrFull: the queue already has
	// the number of runs in most.
	PutPulled(ctx context.Context, it Item, most int) error
	// TakePulled delivers at most limit runs that are visible at now, the longest visible
	// first, and hides them until the given time. next is when the next one becomes visible; zero if there
	// is none.
	TakePulled(ctx context.Context, q Queue, now, until time.Time, limit int) (held []Held, next time.Time, err error)
	// HidePulled hides a run until a time and sets its deliveries to n; condition: it exists and was not
	// delivered after the receipt.
	HidePulled(ctx context.Context, q Queue, r Receipt, until time.Time, n int) error
	// DropPulled removes a run; condition as HidePulled.
	DropPulled(ctx context.Context, q Queue, r Receipt) error
	// RemovePulled removes places by ID.
	RemovePulled(ctx context.Context, ids []int64) error
	// HasPulled reports whether a run of the job is in the queue, hidden or not.
	HasPulled(ctx context.Context, q Queue, job core.JobID) (bool, error)
	// ListPulled reads places of all queues in the order of IDs.
	ListPulled(ctx context.Context, after int64, limit int) ([]Listed, error)
}

// Runs reads runs strongly consistently.
type Runs interface {
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
}

// Finisher ends runs; *finish.Finish implements it.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
}

func passing(action string, err error) error {
	return &core.Error{Code: core.CodeUnavailable, Reason: core.Say("the database did not answer: try again"),
		Err: fmt.Errorf("%s: %w", action, err)}
}
