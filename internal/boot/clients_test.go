package boot

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine/awsengine"
)

// cloud is AWS as a server here: what is asked is answered with an empty object,
// unless stalls says of a request that it is to have no answer, or answers has another.
type cloud struct {
	*httptest.Server
	conns   atomic.Int32 // that were made
	asked   atomic.Int32
	stalls  func(r *http.Request) bool
	answers func() (status int, body string)
}

// of is the connection by which a request came.
type of struct{}

func newCloud(t *testing.T) *cloud {
	c := &cloud{stalls: func(*http.Request) bool { return false }, answers: func() (int, string) { return http.StatusOK, "{}" }}
	done := make(chan struct{})
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		if c.stalls(r) {
			<-done
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		status, body := c.answers()
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	c.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, of{}, int(c.conns.Add(1)))
	}
	c.Start()
	t.Cleanup(c.Close)
	t.Cleanup(func() { close(done) }) // before: Close waits for who is asked
	return c
}

func (c *cloud) clients(o Clients) (*dynamodb.Client, *lambda.Client) {
	sdk := aws.Config{Region: "us-east-1", BaseEndpoint: &c.URL,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		})}
	store, others := o.Of(sdk)
	return dynamodb.NewFromConfig(store), lambda.NewFromConfig(others)
}

func get(ctx context.Context, db *dynamodb.Client) error {
	_, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("jobs"),
		Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}}})
	return err
}

// One answer in fifty that does not come costs its request one short attempt more,
// and no other request anything.
func TestAnAnswerThatDoesNotComeIsAskedForAgain(t *testing.T) {
	c := newCloud(t)
	var n, stalled atomic.Int32
	c.stalls = func(*http.Request) bool {
		stall := n.Add(1)%50 == 0
		if stall {
			stalled.Add(1)
		}
		return stall
	}
	db, _ := c.clients(Clients{Attempt: 250 * time.Millisecond})
	const calls = 400
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range calls / 16 {
				if err := get(ctx, db); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if stalled.Load() < calls/50 || c.asked.Load() < calls+stalled.Load() {
		t.Errorf("%d requests for %d calls, of which %d had no answer", c.asked.Load(), calls, stalled.Load())
	}
}

// A request that never has an answer ends by itself; what is bounded by who makes it
// is made once, and waited for.
func TestAttemptsEnd(t *testing.T) {
	c := newCloud(t)
	c.stalls = func(*http.Request) bool { return true }
	db, functions := c.clients(Clients{Attempt: 10 * time.Millisecond, AttemptMax: 40 * time.Millisecond})
	if err := get(t.Context(), db); err == nil || c.asked.Load() != 4 {
		t.Errorf("asked %d times: %v; want an error after 4", c.asked.Load(), err)
	}
	c.asked.Store(0)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := functions.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String("f")}); err == nil || ctx.Err() == nil ||
		c.asked.Load() != 1 {
		t.Errorf("invoked %d times: %v; its caller's time is over: %v", c.asked.Load(), err, ctx.Err())
	}
}

// Requests that are under way together keep their connections, each for the next one.
func TestConnectionsAreKept(t *testing.T) {
	c := newCloud(t)
	const together = 48
	var arrived atomic.Pointer[sync.WaitGroup]
	c.stalls = func(*http.Request) bool { // until all of a round are there
		w := arrived.Load()
		w.Done()
		w.Wait()
		return false
	}
	db, _ := c.clients(Clients{Attempt: time.Minute, AttemptMax: time.Minute})
	for range 5 {
		var round, all sync.WaitGroup
		round.Add(together)
		arrived.Store(&round)
		for range together {
			all.Go(func() {
				if err := get(t.Context(), db); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	// A connection is free a moment after its answer has come, so a few more may be made.
	if n := c.conns.Load(); n > together*3/2 {
		t.Errorf("%d connections for %d requests at a time", n, together)
	}
}

// A function that was frozen finds all its connections dead: a request learns that
// once, by one short attempt, and the next is made by a new connection.
func TestDeadConnectionsCostOneAttempt(t *testing.T) {
	c := newCloud(t)
	var dead atomic.Int32 // up to this one connections are dead
	var lost atomic.Int32
	const together = 20
	var arrived sync.WaitGroup
	arrived.Add(together)
	c.stalls = func(r *http.Request) bool {
		if dead.Load() == 0 {
			arrived.Done()
			arrived.Wait()
			return false
		}
		if r.Context().Value(of{}).(int) <= int(dead.Load()) {
			lost.Add(1)
			return true
		}
		return false
	}
	db, _ := c.clients(Clients{Attempt: 300 * time.Millisecond})
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			if err := get(t.Context(), db); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	dead.Store(c.conns.Load())
	if err := get(t.Context(), db); err != nil || lost.Load() != 1 {
		t.Errorf("%d attempts were lost to dead connections, want 1: %v", lost.Load(), err)
	}
}

// What is invoked, or put on a queue, belongs to no chain of invocations that Lambda
// would take for a loop at the sixteenth.
func TestRequestsBeginTheirOwnChain(t *testing.T) {
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "dispatch")
	t.Setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793;Lineage=a87bd80c:15")
	c := newCloud(t)
	var chain atomic.Value
	c.stalls = func(r *http.Request) bool {
		chain.Store(r.Header.Get("X-Amzn-Trace-Id"))
		return false
	}
	db, functions := c.clients(Clients{})
	if _, err := functions.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String("payroll")}); err != nil || chain.Load() != "" {
		t.Errorf("an invocation of the chain %q, %v", chain.Load(), err)
	}
	if err := get(t.Context(), db); err != nil || chain.Load() != "" {
		t.Errorf("a request of the chain %q, %v", chain.Load(), err)
	}
}

// A request that was throttled says that nothing happened; not where an attempt of it
// before had no answer, for that one may have been done.
func TestThrottledAfterNoAnswer(t *testing.T) {
	const whole = `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"more than there is"}`
	const part = `{"Responses":[{"Error":{"Code":"ProvisionedThroughputExceeded","Message":"more than there is"}}]}`
	for _, x := range []struct {
		name    string
		status  int
		body    string
		silent  int32 // attempts without an answer, first
		nothing bool  // it says that nothing happened
	}{
		{"throttled", http.StatusBadRequest, whole, 0, true},
		{"no answer, then throttled", http.StatusBadRequest, whole, 1, false},
		{"a statement throttled", http.StatusOK, part, 0, true},
		{"no answer, then a statement throttled", http.StatusOK, part, 1, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := newCloud(t)
			var n atomic.Int32
			c.stalls = func(*http.Request) bool { return n.Add(1) <= x.silent }
			c.answers = func() (int, string) { return x.status, x.body }
			db, _ := c.clients(Clients{Attempt: 50 * time.Millisecond, BackoffMax: time.Millisecond})
			s, err := awsengine.New(db, nil, awsengine.Options{Insist: time.Millisecond,
				Names: awsengine.Names{Jobs: "j", Runs: "r", State: "s", Fires: "f", Slow: "l", Checks: "c", Aside: "a", Dead: "d"}})
			if err != nil {
				t.Fatal(err)
			}
			if x.status == http.StatusOK {
				id := core.PlannedRun(1, 1)
				err = s.Create(t.Context(), []core.Run{{ID: id, First: id, Attempt: 1, State: core.Running}})[0]
			} else {
				err = s.PutLease(t.Context(), core.Lease{}, core.Lease{Name: "p0", Owner: "me", Epoch: 1})
			}
			if err == nil || errors.Is(err, core.ErrThrottled) != x.nothing {
				t.Errorf("answered %v", err)
			}
		})
	}
}
