package fakeaws

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Account describes faults that a real AWS account has and that emulators leave out. Each fault is off if its field is
// 0. A chance is a probability from 0 to 1, and applies to each request of the fault's kind.
type Account struct {
	// Throttled is the chance that a request is rejected as a whole.
	Throttled float64
	// Dropped is the chance that a connection ends before the request arrives. Lost is the chance that a
	// connection ends after AWS executed the request. The client cannot distinguish these faults. (AWS SDKs and
	// tools reference guide, "Retry behavior": transient errors.)
	Dropped, Lost float64
	// Refused is the chance that AWS answers a batch with status 200 and rejects two of five entries. AWS does
	// not execute the rejected entries. (API references: UnprocessedKeys of BatchGetItem, UnprocessedItems of
	// BatchWriteItem, the Error ThrottlingError of a statement of BatchExecuteStatement, Failed of
	// SendMessageBatch, DeleteMessageBatch and ChangeMessageVisibilityBatch.)
	Refused float64
	// Conflict is the chance that DynamoDB cancels a transaction because of a simulated second transaction on
	// one of its items. (DynamoDB developer guide, "Transaction conflict handling in DynamoDB".)
	Conflict float64
	// Slow is the chance that a request is delayed before or after its execution. SlowFor is the maximum delay;
	// 0 means 3 s. (AWS SDK for Go v2, "Customize the HTTP client": there is no time limit by default.)
	Slow    float64
	SlowFor time.Duration
	// Torn is the chance that another client writes between two reads of a BatchGetItem. (DynamoDB developer
	// guide, "DynamoDB transactions": a batch is serializable item by item, not as a unit.)
	Torn float64
	// Short is the chance that a query page or a receive returns fewer items than exist. (API references: Query ends at 1 MB;
	// ReceiveMessage "never returns more messages than this value (however, fewer messages might be returned)".)
	Short float64
	// Stale is the chance that a read of an index returns a state that is up to 8 s old. Lag is added to this age. (DynamoDB
	// developer guide, "Using Global Secondary Indexes": eventually consistent, also from one read to the next.)
	Stale float64
	// Twice is the chance that half of the received messages stay visible to other clients, or that half of the
	// removed messages are delivered again. (SQS developer guide, "At-least-once delivery": a server that cannot
	// be reached when a message is received or deleted keeps its copy.)
	Twice float64
	// Spent is the chance that a throttled poller takes half of the visible messages before a receive. No client
	// gets these messages. They count as received, and are hidden until their visibility timeout ends. (Reports
	// of users of Lambda's event source mappings whose function has no concurrency left.)
	Spent float64

	// Lag is the maximum time from a write until an index has the write. (DynamoDB developer guide, "Using
	// Global Secondary Indexes".)
	Lag time.Duration
	// TTL is the maximum time between the expiry of an item and its removal. During this time, reads return the
	// item. (DynamoDB developer guide, "Using time to live (TTL)": within a few days.)
	TTL time.Duration
	// Capacity is the fraction of AWS's request rate for a new on-demand table that the fake serves; 1 is the
	// full rate. (See capacity.go.)
	Capacity float64
}

// errReset is the answer to a request whose connection ended.
var errReset = errors.New("connection reset by peer")

// Fault returns a fault, chosen at random, for one request.
func (a *Account) Fault(c Call, r *rand.Rand) (f Fault) {
	f.Capacity = a.Capacity
	is := func(chance float64) bool { return chance > 0 && r.Float64() < chance }
	if is(a.Slow) {
		most := a.SlowFor
		if most == 0 {
			most = 3 * time.Second
		}
		if wait := time.Duration(r.Int64N(int64(most))); is(0.5) {
			f.Wait = wait
		} else {
			f.Late = wait
		}
	}
	switch {
	case is(a.Dropped):
		f.Before = errReset
	case is(a.Throttled):
		f.Before = Throttled()
	case is(a.Lost):
		f.After = errReset
	}
	some := func(share float64) func(int) bool {
		draws := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		return func(int) bool { return draws.Float64() < share }
	}
	switch c.Op {
	case "BatchGetItem":
		if is(a.Refused) {
			f.Part = some(0.4)
		}
		if c.N > 1 && is(a.Torn) {
			at, pause := 1+r.IntN(c.N-1), time.Duration(r.Int64N(int64(200*time.Millisecond)))
			f.Between = func() {
				if at--; at == 0 {
					time.Sleep(pause)
				}
			}
		}
	case "TransactWriteItems":
		if f.Before == nil && is(a.Conflict) {
			f.Before = conflicting(c.N)
		}
	case "BatchWriteItem", "BatchExecuteStatement", "SendMessageBatch", "ChangeMessageVisibilityBatch":
		if is(a.Refused) {
			f.Part = some(0.4)
		}
	case "DeleteMessageBatch":
		if is(a.Refused) {
			f.Part = some(0.4)
		}
		if is(a.Twice) {
			f.Again = some(0.5)
		}
	case "Query":
		if is(a.Short) {
			f.Short = 1 + r.IntN(5)
		}
		if strings.Contains(c.On, "/") && is(a.Stale) {
			f.Stale = time.Duration(r.Int64N(int64(8 * time.Second)))
		}
	case "ReceiveMessage":
		if is(a.Short) {
			f.Short = 1
		}
		if is(a.Twice) {
			f.Again = some(0.5)
		}
		if is(a.Spent) {
			takes := some(0.5)
			f.Spent = func(Message) bool { return takes(0) }
		}
	}
	return f
}

// conflicting cancels a transaction of n actions for the last of them.
func conflicting(n int) error {
	reasons := slices.Repeat([]types.CancellationReason{{Code: aws.String("None")}}, n)
	reasons[n-1].Code = aws.String("TransactionConflict")
	return &types.TransactionCanceledException{CancellationReasons: reasons,
		Message: aws.String("Transaction cancelled, please refer cancellation reasons for specific reasons")}
}

// Use makes the fakes of DynamoDB and SQS have the faults of the account. The seed determines the random choices.
func (a Account) Use(db *DynamoDB, q *SQS, seed uint64) {
	r := rand.New(&shared{s: rand.NewPCG(seed, 1)})
	faults := func(_ context.Context, c Call) Fault { return a.Fault(c, r) }
	db.Faults, q.Faults = faults, faults
	// Most messages come at once: a late one is the exception.
	late := func(most time.Duration) func() time.Duration {
		if most == 0 {
			return nil
		}
		return func() (late time.Duration) {
			if r.Float64() < 0.3 {
				late = time.Duration(r.Int64N(int64(most)))
			}
			return late
		}
	}
	db.Lag, db.TTL = late(a.Lag), late(a.TTL)
	q.Shuffle = r.Shuffle
}

// shared is a random source for concurrent use.
type shared struct {
	mu sync.Mutex
	s  rand.Source
}

func (s *shared) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s.Uint64()
}
