// Package awsengine is the engine on DynamoDB and SQS: three tables, five
// queues, and nothing that has to be kept running. Every condition is one
// conditional write; claims, advances and ends travel 25 to a request. It
// decides nothing about fires, and creates tables and queues only when asked
// to, for local use.
package awsengine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/secretbox"
)

type DynamoDB interface {
	BatchExecuteStatement(context.Context, *dynamodb.BatchExecuteStatementInput,
		...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput,
		...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

type SQS interface {
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput,
		...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
}

// Names are those of the tables, and the URLs of the queues.
type Names struct {
	Jobs, Runs, State string // tables
	Fires, Slow       string // queues of fires: the ring, and its slow lane
	Checks            string // the queue of checks
	Aside             string // the queue of the aside lane
	Dead              string // the queue of dead letters
}

// Options of Open. Zero durations and numbers are the defaults.
type Options struct {
	Names Names
	// Visibility is how long a received message is invisible to others, whole
	// seconds: 25 s.
	Visibility time.Duration
	// KeepRuns is how long runs, skipped and change records stay that no job's
	// keep says more of: 30 days; no run goes before 15, the longest that its
	// message can live. KeepJournals is that of journals, and of
	// executors since their last beat: 20 days.
	KeepRuns, KeepJournals time.Duration
	// Parallel is how many requests of one call are under way at a time: 16.
	Parallel int
	// Insist is for how long a part of a request that found no room, as the request's
	// answer says, is tried again: 1 s.
	Insist time.Duration
	// Secrets encrypts the secrets of apps, jobs and channels; nil stores them as they are.
	Secrets *secretbox.Box
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Store implements all ports. Times are kept in whole milliseconds.
type Store struct {
	db  DynamoDB
	sqs SQS
	o   Options

	defs     defs
	receipts receipts
	failed   sync.Map // when this process put a core.JobID on the list of those that may be failing
}

// New makes a store; what is missing in o.Names is named in the error.
func New(db DynamoDB, queues SQS, o Options) (*Store, error) {
	for _, n := range []struct{ what, name string }{
		{"jobs table", o.Names.Jobs}, {"runs table", o.Names.Runs}, {"state table", o.Names.State},
		{"fires queue", o.Names.Fires}, {"slow queue", o.Names.Slow}, {"checks queue", o.Names.Checks}, {"aside queue", o.Names.Aside},
		{"dead letter queue", o.Names.Dead},
	} {
		if n.name == "" {
			return nil, fmt.Errorf("the name of the %s is missing", n.what)
		}
	}
	o.Visibility = cmp.Or(o.Visibility, 25*time.Second)
	if o.Visibility%time.Second != 0 || o.Visibility < 0 || o.Visibility > 12*time.Hour {
		return nil, fmt.Errorf("visibility %s: it is whole seconds, at most 12 h", o.Visibility)
	}
	o.KeepRuns = cmp.Or(o.KeepRuns, 30*24*time.Hour)
	o.KeepJournals = cmp.Or(o.KeepJournals, 20*24*time.Hour)
	o.Parallel = cmp.Or(o.Parallel, 16)
	o.Insist = cmp.Or(o.Insist, time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{db: db, sqs: queues, o: o, defs: defs{is: map[core.JobID]known{}}, receipts: receipts{of: map[int64]receipt{}}}, nil
}

// Engine is the store as an engine. Closing it ends nothing: clients have no state.
func (s *Store) Engine() *engine.Engine {
	return &engine.Engine{
		Tick: s, Leases: s, Dispatch: s, Finish: s, Watch: s, Registry: s, Manage: s,
		Ring: s, Queue: s, Health: s, Uses: s, Dead: s, Aside: s, Notices: s, Upkeep: s, Report: s, People: s, Secrets: s,
		ByJournal: true,
		Newest:    s.Newest,
		Failed:    s,
		Close:     func() error { return nil },
	}
}

// parallel calls f for 0 … n-1, a bounded number at a time, and waits for all.
func (s *Store) parallel(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, s.o.Parallel)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}

// Sweep implements engine.Upkeep: DynamoDB removes what has expired by itself.
func (s *Store) Sweep(context.Context, time.Time, time.Duration, time.Duration, int) (int, error) {
	return 0, nil
}
