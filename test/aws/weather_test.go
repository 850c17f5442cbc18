package aws_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/engine/awsengine"
	"github.com/tickring/tickring/engine/enginetest"
)

// weather stands between the engine and the stand-ins, and does what AWS may do
// and they never do: it leaves part of a batch unprocessed, cuts pages short,
// and answers a query of the index with what it was a moment ago.
type weather struct {
	awsengine.DynamoDB
	mu   sync.Mutex
	left map[string]bool    // what was left unprocessed once
	old  map[string]reading // answers of the index
	did  map[string]int
}

type reading struct {
	at  time.Time
	out *dynamodb.QueryOutput
}

// stale is how long the index is behind.
const stale = 200 * time.Millisecond

// once reports whether this is the first time that a part of a batch is asked for.
func (w *weather) once(what string, part any) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := what + text(part)
	first := !w.left[k]
	w.left[k] = first // the time after the next it is left again
	if first {
		w.did[what]++
	}
	return first
}

// text is the same for the same attributes.
func text(v any) string {
	switch x := v.(type) {
	case map[string]types.AttributeValue:
		names := make([]string, 0, len(x))
		for n := range x {
			names = append(names, n)
		}
		slices.Sort(names)
		var b strings.Builder
		for _, n := range names {
			b.WriteString(n + "=" + text(x[n]) + ";")
		}
		return b.String()
	case *types.AttributeValueMemberS:
		return x.Value
	case *types.AttributeValueMemberN:
		return x.Value
	case types.WriteRequest:
		if x.PutRequest != nil {
			return "put " + text(x.PutRequest.Item)
		}
		return "delete " + text(x.DeleteRequest.Key)
	}
	return fmt.Sprintf("%T", v)
}

func (w *weather) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	ask := &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{}}
	left := map[string]types.KeysAndAttributes{}
	for table, k := range in.RequestItems {
		now, later := k, k
		now.Keys, later.Keys = nil, nil
		for i, key := range k.Keys {
			if i%2 == 1 && w.once("read", key) {
				later.Keys = append(later.Keys, key)
			} else {
				now.Keys = append(now.Keys, key)
			}
		}
		ask.RequestItems[table] = now
		if len(later.Keys) > 0 {
			left[table] = later
		}
	}
	out, err := w.DynamoDB.BatchGetItem(ctx, ask, o...)
	if err == nil {
		out.UnprocessedKeys = left
	}
	return out, err
}

func (w *weather) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	ask := &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{}}
	left := map[string][]types.WriteRequest{}
	for table, writes := range in.RequestItems {
		for i, write := range writes {
			if i%2 == 1 && w.once("write", write) {
				left[table] = append(left[table], write)
			} else {
				ask.RequestItems[table] = append(ask.RequestItems[table], write)
			}
		}
	}
	out, err := w.DynamoDB.BatchWriteItem(ctx, ask, o...)
	if err == nil {
		out.UnprocessedItems = left
	}
	return out, err
}

func (w *weather) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	short := *in
	if n := aws.ToInt32(in.Limit); n == 0 || n > 2 {
		short.Limit = aws.Int32(2)
		w.mu.Lock()
		w.did["page"]++
		w.mu.Unlock()
	}
	if in.IndexName == nil {
		return w.DynamoDB.Query(ctx, &short, o...)
	}
	k := text(in.ExpressionAttributeValues)
	w.mu.Lock()
	before, known := w.old[k]
	w.mu.Unlock()
	if known && time.Since(before.at) < stale {
		w.mu.Lock()
		w.did["stale"]++
		w.mu.Unlock()
		return before.out, nil
	}
	out, err := w.DynamoDB.Query(ctx, &short, o...)
	if err == nil {
		w.mu.Lock()
		w.old[k] = reading{time.Now(), out}
		w.mu.Unlock()
	}
	return out, err
}

// oneByOne gives one message to a receipt, however many there are.
type oneByOne struct{ awsengine.SQS }

func (q oneByOne) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, o ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	one := *in
	one.MaxNumberOfMessages = 1
	return q.SQS.ReceiveMessage(ctx, &one, o...)
}

// TestEngineInWeather: the suite again, with what AWS does and the stand-ins do not.
func TestEngineInWeather(t *testing.T) {
	var mu sync.Mutex
	did := map[string]int{}
	t.Run("all", func(t *testing.T) {
		h := enginetest.Harness{Visibility: visibility, Coarse: time.Second, Expires: true, Patience: 3 * time.Second, Open: func(t *testing.T) *engine.Engine {
			db, queues := clients(t)
			w := &weather{DynamoDB: db, left: map[string]bool{}, old: map[string]reading{}, did: map[string]int{}}
			e, err := awsengine.Open(w, oneByOne{queues}, awsengine.Options{Names: fresh(t), Visibility: visibility})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				mu.Lock()
				defer mu.Unlock()
				for k, n := range w.did {
					did[k] += n
				}
			})
			return e
		}}
		for _, c := range enginetest.Cases {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				c.Run(t, h)
			})
		}
	})
	for _, k := range []string{"read", "write", "page", "stale"} {
		if did[k] == 0 {
			t.Errorf("nothing happened to any %s: nothing is proven", k)
		}
	}
	t.Logf("left for later, cut short or old: %v", did)
}
