package pull

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

// Address is the queue as an address of its app.
func (q Queue) Address() string { return string(core.SchemeQueue) + ":" + q.Name }

// Item is a run in a queue.
type Item struct {
	Queue Queue
	Run   core.RunID
	Body  []byte
}

// Receipt is what an executor shows for a run that it was handed: the run, and
// how often it had been handed out by then.
type Receipt struct {
	Run core.RunID
	N   int
}

func (r Receipt) String() string { return r.Run.String() + "." + strconv.Itoa(r.N) }

// ParseReceipt reads what String wrote.
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

// Held is a run as handed out.
type Held struct {
	Receipt Receipt
	Body    []byte
}

// Listed is a place in a queue.
type Listed struct {
	ID    int64 // in the order in which they came
	Queue Queue
	Run   core.RunID
	N     int // how often it was handed out
}

// ErrFull is in the answer to a run for which its queue has no room.
var ErrFull = errors.New("the queue is full")

// Store keeps the queues durably. Answers of writes as core.ErrRefused and
// core.ErrThrottled say.
type Store interface {
	// PutPulled puts a run at the end of a queue, visible; one that is there
	// stays as it is. ErrFull where the queue has most already.
	PutPulled(ctx context.Context, it Item, most int) error
	// TakePulled hands out at most limit runs of those that are visible at now,
	// who became visible first first, and hides them until then. next is when
	// the next one becomes visible; zero if none is there.
	TakePulled(ctx context.Context, q Queue, now, until time.Time, limit int) (held []Held, next time.Time, err error)
	// HidePulled hides a run until then, as one that was handed out n times; condition: it is
	// there, and was not handed out after the receipt.
	HidePulled(ctx context.Context, q Queue, r Receipt, until time.Time, n int) error
	// DropPulled removes a run; condition as HidePulled.
	DropPulled(ctx context.Context, q Queue, r Receipt) error
	// RemovePulled removes what stands at places.
	RemovePulled(ctx context.Context, ids []int64) error
	// HasPulled reports whether a run of the job is in the queue, hidden or not.
	HasPulled(ctx context.Context, q Queue, job core.JobID) (bool, error)
	// ListPulled reads places of all queues in the order of IDs.
	ListPulled(ctx context.Context, after int64, limit int) ([]Listed, error)
}

// Runs reads runs, strongly.
type Runs interface {
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
}

// Finisher ends runs; *finish.Finish does.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
}

func passing(action string, err error) error {
	return &core.Error{Code: core.CodeUnavailable, Reason: core.Say("the store did not answer: try again"),
		Err: fmt.Errorf("%s: %w", action, err)}
}
