package lambdaboot

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
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store/dynamo"
)

// cloud is a fake AWS server. It answers each request with an empty object, unless stalls selects it to get no answer, or
// answers has another answer.
type cloud struct {
	*httptest.Server
	conns   atomic.Int32 // number of connections made
	asked   atomic.Int32
	stalls  func(r *http.Request) bool
	answers func() (status int, body string)
}

// of is the context key of a request's connection.
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
	t.Cleanup(func() { close(done) }) // before Close, which waits for open requests
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

// TestAnAnswerThatDoesNotComeIsAskedForAgain: if one answer in fifty is missing, its request takes one short attempt more,
// and no other request is affected.
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
				check.NoError(t, get(ctx, db))
			}
		})
	}
	all.Wait()
	if stalled.Load() < calls/50 || c.asked.Load() < calls+stalled.Load() {
		t.Errorf("%d requests for %d calls, of which %d had no answer", c.asked.Load(), calls, stalled.Load())
	}
}

// TestAttemptsEnd: a request without an answer ends by itself. A request whose caller limits the time is sent once.
func TestAttemptsEnd(t *testing.T) {
	c := newCloud(t)
	c.stalls = func(*http.Request) bool { return true }
	db, functions := c.clients(Clients{Attempt: 200 * time.Millisecond, AttemptMax: 800 * time.Millisecond})
	if err := get(t.Context(), db); err == nil || c.asked.Load() != 4 {
		t.Errorf("asked %d times: %v; want an error after 4", c.asked.Load(), err)
	}
	c.asked.Store(0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := functions.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String("f")}); err == nil || ctx.Err() == nil ||
		c.asked.Load() != 1 {
		t.Errorf("invoked %d times: %v; its caller's time is over: %v", c.asked.Load(), err, ctx.Err())
	}
}

// TestConnectionsAreKept: concurrent requests keep their connections for later ones.
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
				check.NoError(t, get(t.Context(), db))
			})
		}
		all.Wait()
	}
	// A connection is free a moment after its answer has arrived, so a few more may be made.
	if n := c.conns.Load(); n > together*3/2 {
		t.Errorf("%d connections for %d requests at a time", n, together)
	}
}

// TestDeadConnectionsCostOneAttempt: a frozen function finds all its connections dead. A request notices that with one
// short attempt, and the next attempt uses a new connection.
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
			check.NoError(t, get(t.Context(), db))
		})
	}
	all.Wait()
	dead.Store(c.conns.Load())
	if err := get(t.Context(), db); err != nil || lost.Load() != 1 {
		t.Errorf("%d attempts were lost to dead connections, want 1: %v", lost.Load(), err)
	}
}

// TestRequestsBeginTheirOwnChain: invocations and messages belong to no chain that Lambda would stop as a loop at the
// sixteenth invocation.
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

// TestThrottledAfterNoAnswer: a throttled request did nothing, unless an earlier attempt had no answer, because that one
// may have been done.
func TestThrottledAfterNoAnswer(t *testing.T) {
	const whole = `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"more than there is"}`
	const part = `{"Responses":[{"Error":{"Code":"ProvisionedThroughputExceeded","Message":"more than there is"}}]}`
	for _, x := range []struct {
		name    string
		status  int
		body    string
		silent  int32 // attempts without an answer, first
		nothing bool  // the error reports that nothing happened
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
			s, err := dynamo.New(db, nil, dynamo.Options{Insist: time.Millisecond,
				Names: dynamo.Names{Jobs: "j", Runs: "r", State: "s", Fires: "f", Slow: "l", Checks: "c", PostRun: "a", Dead: "d"}})
			check.OK(t, err)
			if x.status == http.StatusOK {
				id := core.PlannedRun(1, 1)
				err = s.CreateRuns(t.Context(), []core.Run{{ID: id, First: id, Attempt: 1, State: core.Running}})[0]
			} else {
				err = s.PutLease(t.Context(), core.Lease{}, core.Lease{Name: "p0", Owner: "me", Epoch: 1})
			}
			if err == nil || errors.Is(err, core.ErrThrottled) != x.nothing {
				t.Errorf("answered %v", err)
			}
		})
	}
}
