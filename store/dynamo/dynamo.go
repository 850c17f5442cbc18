// Package dynamo is the engine on DynamoDB and SQS: three tables, five queues, and no process that must keep running.
// Each condition is one conditional write; claims, advances and ends go 25 to a request. The package decides nothing about
// runs, and creates tables and queues only on request, for local use.
package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/store"
)

type DynamoDB = items.DynamoDB

type SQS interface {
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput,
		...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
}

// Names holds the names of the tables and the URLs of the queues.
type Names struct {
	Jobs, Runs, State string // tables
	Fires, Slow       string // queues of runs: the delay queue and the slow queue
	Checks            string // the queue of checks
	PostRun           string // the post-run queue
	Dead              string // the dead-letter queue
}

// Options of Open. Zero durations and numbers are the defaults.
type Options struct {
	Names Names
	// Visibility is how long a received message is invisible to other receivers, in whole seconds. Zero: 25 s.
	Visibility time.Duration
	// Insist is how long a throttled part of a batch request is retried. Zero: 1 s.
	Insist time.Duration
	// Secrets encrypts the secrets of apps, jobs and channels; nil stores them as they are.
	Secrets *secretbox.Box
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Store implements the interfaces of package store. It stores times in whole milliseconds.
type Store struct {
	*store.Store
	store.Receiver // nil: Lambda receives messages, and the functions call ComeAgain and Done

	db   items.Client
	sqs  SQS
	o    Options
	defs defs
}

// New returns a store. Its error names the first field of o.Names that is empty.
func New(db DynamoDB, queues SQS, o Options) (*Store, error) {
	for _, n := range []struct{ what, name string }{
		{"jobs table", o.Names.Jobs}, {"runs table", o.Names.Runs}, {"state table", o.Names.State},
		{"fires queue", o.Names.Fires}, {"slow queue", o.Names.Slow}, {"checks queue", o.Names.Checks}, {"postrun queue", o.Names.PostRun},
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
	o.Insist = cmp.Or(o.Insist, time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{db: items.Client{DB: db, Keys: []string{"id", "part", "job", "run", "of", "key"}, Insist: o.Insist}, sqs: queues, o: o,
		defs: defs{is: map[core.JobID]known{}}}
	s.Store = &store.Store{Records: s, Jobs: jobs{s}, Runs: runs{s}, Queue: s, Box: o.Secrets, Now: o.Now, Keep: s.keep,
		KeepJournals: keepJournals, ByJournal: true, Shared: true, Newest: s.Newest, Defs: jobs{s}, Close: func() error { return nil },
		// DynamoDB removes expired items by itself.
		Sweep: func(context.Context, time.Time, time.Duration, time.Duration, int) (int, error) { return 0, nil }}
	s.Failed = store.NewFailedJobs(s.Store)
	return s, nil
}
