// Package fakeaws is DynamoDB and SQS in memory, as far as awsengine uses them: conditional writes, an index with a lag,
// partly failed batches, transactions, consumed units, and queues without order that deliver at least once. It never
// guesses: it rejects and reports unknown input, so that the test fails. It waits on standard timers only, and holds no lock
// while it waits, so that it runs in a testing/synctest bubble.
package fakeaws

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/aws/smithy-go"

	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/engine/awsengine"
)

// Call describes one request to a fault function, before it happens.
type Call struct {
	Op    string // method of the client
	On    string // the table, the table/index, or the URL of the queue
	N     int    // number of items, statements, actions or entries
	Write bool   // the request changes something
}

// Fault is the fault of a request; the zero value means none.
type Fault struct {
	// Wait is the time before the execution.
	Wait time.Duration
	// Before is the answer of a request that is not executed.
	Before error
	// After is the answer of a request that is executed.
	After error
	// Late is the time between the execution and the answer.
	Late time.Duration
	// Part reports whether an item of a batch is not done: keys and writes are returned as
	// unprocessed, statements as throttled, entries as failed.
	Part func(i int) bool
	// Again reports whether a message of a receipt stays visible to others, or whether a
	// removed message comes again.
	Again func(i int) bool
	// Spent reports whether another receipt, whose answer is lost, takes a message first. It
	// may not call back.
	Spent func(m Message) bool
	// Stale is how old an index is read, in addition to its lag.
	Stale time.Duration
	// Short is the maximum number of items in a page; 0: no separate bound.
	Short int
	// Between is called before each item of a BatchGetItem except the first, because such a read is not a snapshot.
	Between func()
	// Capacity is the share of an account's rate; requests beyond it are throttled, in a batch
	// item by item. 0: no bound.
	Capacity float64
	// Dry is called when Capacity throttles; nil: no call.
	Dry func()
}

// Faults returns the fault of a request and is called once for each request; nil: none. It may be called concurrently.
type Faults func(context.Context, Call) Fault

// Allow reports whether the caller, as its context names it, may do an action on a table, an
// index ("jobs/due") or the URL of a queue; nil: every caller may do all. An action is named as
// IAM does: by a statement or a transaction's item, not by the request.
type Allow func(ctx context.Context, action, on string) bool

// denied is the answer where it is not allowed.
func (a Allow) denied(ctx context.Context, action, on string) error {
	if a == nil || a(ctx, action, on) {
		return nil
	}
	return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: fmt.Sprintf("not authorized to perform %s on %s", action, on),
		Fault: smithy.FaultClient}
}

// Names holds the names of the tables and queues that New makes.
var Names = awsengine.Names{Jobs: "jobs", Runs: "runs", State: "state", Fires: "https://sqs/fires", Slow: "https://sqs/slow",
	Checks: "https://sqs/checks", PostRun: "https://sqs/postrun", Dead: "https://sqs/dead"}

// New makes empty tables and queues under Names; report gets unknown input, and is usually
// t.Errorf.
func New(report func(format string, args ...any)) (*DynamoDB, *SQS) {
	db := &DynamoDB{report: report, PageBytes: pageBytes, tables: map[string]*table{
		Names.Jobs: newTable(Names.Jobs, key{"id", 'S'}, key{"part", 'S'}, &index{name: "due", hash: key{"partition", 'N'},
			sort: key{"planAt", 'S'}}),
		Names.Runs:  newTable(Names.Runs, key{"job", 'N'}, key{"run", 'N'}, nil),
		Names.State: newTable(Names.State, key{"of", 'S'}, key{"key", 'S'}, nil),
	}}
	q := &SQS{report: report, MaxReceives: ring.MaxReceives, queues: map[string]*queue{Names.Fires: {}, Names.Slow: {}, Names.Checks: {},
		Names.PostRun: {},
		Names.Dead:    {}}}
	return db, q
}

// begin waits like a request, and returns the fault's error.
func (f *Fault) begin(ctx context.Context, call Call) error {
	if err := ctx.Err(); err != nil {
		return operation(call.Op, err)
	}
	if err := wait(ctx, f.Wait); err != nil {
		return operation(call.Op, err)
	}
	if f.Before != nil {
		return operation(call.Op, f.Before)
	}
	return nil
}

// end waits like an answer, and returns the fault's error.
func (f *Fault) end(ctx context.Context, call Call) error {
	err := wait(ctx, f.Late)
	if err == nil {
		err = f.After
	}
	if err != nil {
		return operation(call.Op, err)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// operation wraps an error as the clients do.
func operation(op string, err error) error {
	return &smithy.OperationError{ServiceID: "fake", OperationName: op, Err: err}
}

func invalid(format string, args ...any) error {
	return &smithy.GenericAPIError{Code: "ValidationException", Message: fmt.Sprintf(format, args...), Fault: smithy.FaultClient}
}

// Throttled returns the error of a request for which there is no capacity.
func Throttled() error {
	return &smithy.GenericAPIError{Code: "ThrottlingException", Message: "Rate exceeded", Fault: smithy.FaultClient}
}

// IsThrottled reports whether an error is from Throttled.
func IsThrottled(err error) bool { return err != nil && err.Error() == Throttled().Error() }

// only returns an error that names a set field of an input which is not in names.
func only(in any, names ...string) error {
	v := reflect.Indirect(reflect.ValueOf(in))
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() && !slices.Contains(names, f.Name) {
			return fmt.Errorf("%s.%s is not understood", v.Type().Name(), f.Name)
		}
	}
	return nil
}

// Units are the units that requests consumed, by their kind.
type Units struct {
	Read, Write float64 // of tables
	Index       float64 // written to indexes
	On          map[string]Used
	Requests    map[string]int
}

// Used holds the units read from and written to a table, or an index by its own name.
type Used struct{ Read, Write float64 }

// meter counts units.
type meter struct {
	mu sync.Mutex
	u  Units
}

func (m *meter) request(op string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.u.Requests == nil {
		m.u.Requests = map[string]int{}
	}
	m.u.Requests[op]++
}

func (m *meter) add(on string, read, write float64) {
	if m.u.On == nil {
		m.u.On = map[string]Used{}
	}
	was := m.u.On[on]
	m.u.On[on] = Used{was.Read + read, was.Write + write}
}

func (m *meter) table(t *table, read, write float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.u.Read, m.u.Write = m.u.Read+read, m.u.Write+write
	m.add(t.name, read, write)
}

func (m *meter) index(x *index, read, write float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.u.Read, m.u.Index = m.u.Read+read, m.u.Index+write
	m.add(x.name, read, write)
}

// take returns the counts since the last call.
func (m *meter) take() Units {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.u
	m.u = Units{}
	return u
}

// Dump returns the text of all items of all tables.
func (d *DynamoDB) Dump() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []byte
	for _, t := range d.tables {
		for _, part := range t.parts {
			for _, e := range part {
				for name, v := range e.it {
					all = fmt.Appendf(all, "%s: %+v\n", name, reflect.Indirect(reflect.ValueOf(v)))
				}
			}
		}
	}
	return all
}
