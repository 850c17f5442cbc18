// Package aws_test holds the engine on DynamoDB and SQS to the suite that all
// engines pass, against DynamoDB Local and an SQS server on this machine.
package aws_test

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/enginetest"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/test/load"
)

var made atomic.Int64

// clients returns clients of the local emulators. Without their addresses in the environment (localaws/start.sh prints them) the
// test fails, because a suite that skips itself proves nothing.
func clients(t testing.TB) (*dynamodb.Client, *sqs.Client) {
	t.Helper()
	if os.Getenv("TICKRING_TEST_DYNAMODB") == "" || os.Getenv("TICKRING_TEST_SQS") == "" {
		t.Fatal("TICKRING_TEST_DYNAMODB and TICKRING_TEST_SQS are not set: run localaws/start.sh FOLDER")
	}
	return place(t).Clients()
}

const visibility = 4 * time.Second

func open(t *testing.T) *engine.Engine {
	t.Helper()
	db, queues := clients(t)
	names, err := load.CreateLocal(t.Context(), db, queues, fmt.Sprintf("t%d-%d", os.Getpid(), made.Add(1)))
	check.OK(t, err)
	return on(t, names)
}

// on is an engine on these tables and queues.
func on(t *testing.T, names dynamo.Names) *engine.Engine {
	t.Helper()
	db, queues := clients(t)
	e, err := load.Open(db, queues, dynamo.Options{Names: names, Visibility: visibility})
	check.OK(t, err)
	opened.Store(e, names)
	return e
}

// opened maps each engine to its names.
var opened sync.Map

// reopen is another process on the same tables and queues.
func reopen(t *testing.T, e *engine.Engine) *engine.Engine {
	t.Helper()
	check.OK(t, e.Close())
	names, _ := opened.Load(e)
	return on(t, names.(dynamo.Names))
}

func TestEngine(t *testing.T) {
	h := enginetest.Harness{Open: open, Reopen: reopen, Visibility: visibility, Coarse: time.Second, Expires: true, Patience: 2 * time.Second}
	enginetest.Run(t, h)
}

// TestEngineInAnAccount runs the suite again, on the emulators, in an account with short pages and receipts, which rejects parts of
// batches and whole transactions.
func TestEngineInAnAccount(t *testing.T) {
	in, leave, err := place(t).In(fakeaws.Account{Short: 0.7, Refused: 0.5, Conflict: 0.1})
	check.OK(t, err)
	t.Cleanup(leave)
	h := enginetest.Harness{Visibility: visibility, Coarse: time.Second, Expires: true, Patience: 3 * time.Second,
		Open: func(t *testing.T) *engine.Engine {
			db, queues := in.Clients()
			e, err := load.Open(db, queues, dynamo.Options{Names: fresh(t), Visibility: visibility, Insist: time.Minute})
			check.OK(t, err)
			return e
		}}
	enginetest.Run(t, h)
}
