// Package aws_test holds the engine on DynamoDB and SQS to the suite that all
// engines pass, against DynamoDB Local and an SQS server on this machine.
package aws_test

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/store/storetest"
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

func open(t *testing.T) *store.Store {
	t.Helper()
	return on(t, fresh(t))
}

// on is a store on these tables and queues.
func on(t *testing.T, names dynamo.Names) *store.Store {
	t.Helper()
	db, queues := clients(t)
	e, err := load.Open(db, queues, dynamo.Options{Names: names, Visibility: visibility})
	check.OK(t, err)
	opened.Store(e, names)
	return e
}

// opened maps each store to its names.
var opened sync.Map

// reopen is another process on the same tables and queues.
func reopen(t *testing.T, s *store.Store) *store.Store {
	t.Helper()
	check.OK(t, s.Close())
	names, _ := opened.Load(s)
	return on(t, names.(dynamo.Names))
}

func takeLetters(ctx context.Context, s *store.Store) error {
	_, err := s.Records.(*dynamo.Store).TakeLetters(ctx, func(context.Context, *core.Letter) error { return nil })
	return err
}

func TestEngine(t *testing.T) {
	h := storetest.Harness{Open: open, Reopen: reopen, Visibility: visibility, Coarse: time.Second, Expires: true, Patience: 2 * time.Second,
		TakeLetters: takeLetters}
	storetest.Run(t, h)
}
