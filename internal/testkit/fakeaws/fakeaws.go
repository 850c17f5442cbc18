// Package fakeaws has in-memory fakes of DynamoDB and SQS, with the features that dynamo uses. DynamoDB:
// conditional writes, an index with a lag, partly failed batches, transactions and consumed units. SQS: unordered
// queues that deliver each message at least once.
//
// The fakes reject and report unknown input, so that the test fails. They wait only on timers of package time, and
// hold no lock while they wait. A test can therefore run them in a testing/synctest bubble.
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
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// Call describes one request to a function that chooses the request's fault. The request is not executed yet.
type Call struct {
	Op    string // name of the client method, such as PutItem
	On    string // the name of the table, table/index for an index, or the URL of the queue
	N     int    // number of items, statements, actions or entries in the request
	Write bool   // whether the request changes data
}

// Fault is the fault of one request. The zero value is no fault.
type Fault struct {
	// Wait is the delay before the execution of the request.
	Wait time.Duration
	// Before is the error that the client gets instead of the execution. If nil, the request is executed.
	Before error
	// After is the error that the client gets after the execution. If nil, the client gets the real answer.
	After error
	// Late is the delay between the execution of the request and its answer.
	Late time.Duration
	// Part reports whether an item of a batch is not executed. Keys and writes are returned as unprocessed,
	// statements as throttled, and queue entries as failed.
	Part func(i int) bool
	// Again reports whether a received message stays visible to other clients, or whether a removed message is delivered again.
	Again func(i int) bool
	// Spent reports whether a message is taken by another receive whose answer is lost. Spent must not call the fake.
	Spent func(m Message) bool
	// Stale is the age of the index state that a read returns. The lag of the index is added to this age.
	Stale time.Duration
	// Short is the maximum number of items on a page; 0 means that only the general limit applies.
	Short int
	// Between is called before each item of a BatchGetItem except the first item, and can write other items.
	// Such a read is not a snapshot.
	Between func()
	// Capacity is the fraction of AWS's request rate that the fake serves. Requests above the rate are
	// throttled; in a batch, single items are throttled. 0 means no limit.
	Capacity float64
	// Dry is called each time Capacity throttles a request; nil means no call.
	Dry func()
}

// Faults returns the fault of a request. The fake calls Faults once for each request, also concurrently. If nil, no
// request has a fault.
type Faults func(context.Context, Call) Fault

// Allow reports whether the caller named in the context may do an action. The action is applied to a table, an index
// such as "jobs/due", or the URL of a queue. The name of the action is the name in IAM: a transaction or batch has one
// action for each of its items or statements. If nil, every action is allowed.
type Allow func(ctx context.Context, action, on string) bool

// denied is the answer where it is not allowed.
func (a Allow) denied(ctx context.Context, action, on string) error {
	if a == nil || a(ctx, action, on) {
		return nil
	}
	return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: fmt.Sprintf("not authorized to perform %s on %s", action, on),
		Fault: smithy.FaultClient}
}

// Names has the names of the tables and queues that New creates.
var Names = dynamo.Names{Jobs: "jobs", Runs: "runs", State: "state", Fires: "https://sqs/fires", Slow: "https://sqs/slow",
	Checks: "https://sqs/checks", PostRun: "https://sqs/postrun", Dead: "https://sqs/dead"}

// New creates empty tables and queues with the names in Names. New passes input that the fakes do not know to the
// function `report`, usually t.Errorf.
func New(report func(format string, args ...any)) (*DynamoDB, *SQS) {
	db := &DynamoDB{front: front{report: report}, tables: map[string]*table{
		Names.Jobs: newTable(Names.Jobs, key{"id", 'S'}, key{"part", 'S'}, &index{name: "due", hash: key{"partition", 'N'},
			sort: key{"planAt", 'S'}}),
		Names.Runs:  newTable(Names.Runs, key{"job", 'N'}, key{"run", 'N'}, nil),
		Names.State: newTable(Names.State, key{"of", 'S'}, key{"key", 'S'}, nil),
	}}
	q := &SQS{front: front{report: report}, MaxReceives: ring.MaxReceives, queues: map[string]*queue{}}
	for _, url := range []string{Names.Fires, Names.Slow, Names.Checks, Names.PostRun, Names.Dead} {
		q.queues[url] = &queue{}
	}
	return db, q
}

// front makes the requests of both fakes, with their faults, and counts them.
type front struct {
	// Faults returns the fault of each request. If nil, no request has a fault.
	Faults Faults
	// Allow is called for each action of a request, and reports whether the action is allowed. If nil, every action is allowed.
	Allow Allow

	report func(format string, args ...any)
	meter  meter
}

// Units returns the requests, and the capacity units that they consumed, since the previous call of Units.
func (x *front) Units() Units { return x.meter.take() }

// call is one request: the fault first, then the effect.
func (x *front) call(ctx context.Context, c Call, do func(f *Fault) error) error {
	x.meter.request(c.Op)
	var f Fault
	if x.Faults != nil {
		f = x.Faults(ctx, c)
	}
	if err := f.begin(ctx, c); err != nil {
		return err
	}
	if c.Op != "TransactWriteItems" && c.Op != "BatchExecuteStatement" { // these have an action for each item
		if err := x.Allow.denied(ctx, c.Op, c.On); err != nil {
			return operation(c.Op, err)
		}
	}
	if err := do(&f); err != nil {
		if isA[*unknown](err) {
			x.report("%s of %s: %v", c.Op, c.On, err)
		}
		return operation(c.Op, err)
	}
	return f.end(ctx, c)
}

// begin waits like a request, and returns the fault's error.
func (f *Fault) begin(ctx context.Context, call Call) error {
	if err := ctx.Err(); err != nil {
		return operation(call.Op, err)
	}
	if f.Wait > 0 && !store.Sleep(ctx, f.Wait) {
		return operation(call.Op, ctx.Err())
	}
	if f.Before != nil {
		return operation(call.Op, f.Before)
	}
	return nil
}

// end waits like an answer, and returns the fault's error.
func (f *Fault) end(ctx context.Context, call Call) error {
	err := f.After
	if f.Late > 0 && !store.Sleep(ctx, f.Late) {
		err = ctx.Err()
	}
	if err != nil {
		return operation(call.Op, err)
	}
	return nil
}

// operation wraps an error as the clients do.
func operation(op string, err error) error {
	return &smithy.OperationError{ServiceID: "fake", OperationName: op, Err: err}
}

func invalid(format string, args ...any) error {
	return &smithy.GenericAPIError{Code: "ValidationException", Message: fmt.Sprintf(format, args...), Fault: smithy.FaultClient}
}

// Throttled returns the error of a request that AWS rejects because the table has no capacity left.
func Throttled() error {
	return &smithy.GenericAPIError{Code: "ThrottlingException", Message: "Rate exceeded", Fault: smithy.FaultClient}
}

// IsThrottled reports whether an error was returned by Throttled.
func IsThrottled(err error) bool { return err != nil && err.Error() == Throttled().Error() }

// understood returns an error that names a set field of an input which is not in names.
func understood(in any, names ...string) error {
	v := reflect.Indirect(reflect.ValueOf(in))
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() && !slices.Contains(names, f.Name) {
			return strange("%s.%s is not understood", v.Type().Name(), f.Name)
		}
	}
	return nil
}

// Units is the number of capacity units that requests consumed, by kind.
type Units struct {
	Read, Write float64 // units read from and written to tables
	Index       float64 // units written to indexes
	Requests    map[string]int
}

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

// add counts units that a request read from and wrote to a table, or to an index.
func (m *meter) add(read, table, index float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.u.Read, m.u.Write, m.u.Index = m.u.Read+read, m.u.Write+table, m.u.Index+index
}

// take returns the counts since the last call.
func (m *meter) take() Units {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.u
	m.u = Units{}
	return u
}

// Dump returns all items of all tables as text.
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
