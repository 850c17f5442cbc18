package fakeaws_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
)

var names = fakeaws.Names

type attrs = map[string]types.AttributeValue

func text(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }

func key(of string, k int) attrs { return attrs{"of": text(of), "key": text(fmt.Sprint(k))} }

// account holds the fakes, and sends requests to them.
type account struct {
	t  *testing.T
	db *fakeaws.DynamoDB
	q  *fakeaws.SQS
}

// with has f happen in a bubble, over fakes that behave like the account.
func with(t *testing.T, a fakeaws.Account, f func(*account)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &account{t: t}
		x.db, x.q = fakeaws.New(t.Errorf)
		a.Use(x.db, x.q, 1)
		f(x)
	})
}

func (x *account) ok(err error) {
	x.t.Helper()
	check.OK(x.t, err)
}

func (x *account) put(of string, k int) error {
	_, err := x.db.PutItem(x.t.Context(), &dynamodb.PutItemInput{TableName: &names.State, Item: key(of, k)})
	return err
}

func (x *account) read(keys ...attrs) *dynamodb.BatchGetItemOutput {
	x.t.Helper()
	out, err := x.db.BatchGetItem(x.t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		names.State: {Keys: keys, ConsistentRead: aws.Bool(true)}}})
	x.ok(err)
	return out
}

func (x *account) there(of string, k int) bool {
	x.t.Helper()
	return len(x.read(key(of, k)).Responses[names.State]) > 0
}

// write puts items in one batch.
func (x *account) write(items ...attrs) *dynamodb.BatchWriteItemOutput {
	x.t.Helper()
	list := make([]types.WriteRequest, len(items))
	for i, it := range items {
		list[i].PutRequest = &types.PutRequest{Item: it}
	}
	out, err := x.db.BatchWriteItem(x.t.Context(),
		&dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{names.State: list}})
	x.ok(err)
	return out
}

func keys(of string, n int) []attrs {
	list := make([]attrs, n)
	for k := range list {
		list[k] = key(of, k)
	}
	return list
}

func (x *account) send(n int) {
	x.t.Helper()
	for i := range n {
		_, err := x.q.SendMessage(x.t.Context(), &sqs.SendMessageInput{QueueUrl: &names.Fires, MessageBody: aws.String(fmt.Sprint(i))})
		x.ok(err)
	}
}

func (x *account) receive() []sqstypes.Message {
	x.t.Helper()
	out, err := x.q.ReceiveMessage(x.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &names.Fires, MaxNumberOfMessages: 10,
		VisibilityTimeout:           30,
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameApproximateReceiveCount}})
	x.ok(err)
	return out.Messages
}

func TestThrottledDroppedAndLost(t *testing.T) {
	for _, c := range []struct {
		name string
		a    fakeaws.Account
		done bool
	}{{"throttled", fakeaws.Account{Throttled: 1}, false}, {"cut", fakeaws.Account{Dropped: 1}, false},
		{"lost", fakeaws.Account{Lost: 1}, true}} {
		with(t, c.a, func(x *account) {
			if err := x.put("a", 1); err == nil {
				t.Errorf("%s: answered well", c.name)
			}
			if x.db.Faults = nil; x.there("a", 1) != c.done {
				t.Errorf("%s: done is %t", c.name, !c.done)
			}
		})
	}
}

func TestSlow(t *testing.T) {
	with(t, fakeaws.Account{Slow: 1, SlowFor: time.Minute}, func(x *account) {
		began, early, late := time.Now(), 0, 0
		for k := range 20 {
			ctx, cancel := context.WithTimeout(x.t.Context(), 5*time.Second)
			_, err := x.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &names.State, Item: key("a", k)})
			if cancel(); errors.Is(err, context.DeadlineExceeded) {
				faults := x.db.Faults
				if x.db.Faults = nil; x.there("a", k) {
					late++
				} else {
					early++
				}
				x.db.Faults = faults
			}
		}
		if took := time.Since(began); took < 20*time.Second || early == 0 || late == 0 {
			t.Errorf("20 requests of up to a minute took %s; %d were given up before they were done, and %d after", took, early, late)
		}
	})
}

// Each batch succeeds, and lists the rejected items, which were not done.
func TestRefused(t *testing.T) {
	with(t, fakeaws.Account{Refused: 1}, func(x *account) {
		ctx := x.t.Context()
		var statements []types.BatchStatementRequest
		for k := range 25 {
			statements = append(statements, types.BatchStatementRequest{Statement: aws.String(`INSERT INTO "state" VALUE {'of': ?, 'key': ?}`),
				Parameters: []types.AttributeValue{text("b"), text(fmt.Sprint(k))}})
		}
		some := func(what string, refused, of, done int) {
			t.Helper()
			if refused == 0 || refused == of || done != of-refused {
				t.Errorf("%s: %d of %d are refused, and %d are done", what, refused, of, done)
			}
		}
		count := func(of string) int {
			faults := x.db.Faults
			x.db.Faults = nil
			defer func() { x.db.Faults = faults }()
			return len(x.read(keys(of, 25)...).Responses[names.State])
		}
		some("BatchWriteItem", len(x.write(keys("a", 25)...).UnprocessedItems[names.State]), 25, count("a"))
		if unread := len(x.read(keys("a", 25)...).UnprocessedKeys[names.State].Keys); unread == 0 || unread == 25 {
			t.Errorf("BatchGetItem: %d of 25 are unread", unread)
		}
		did, err := x.db.BatchExecuteStatement(ctx, &dynamodb.BatchExecuteStatementInput{Statements: statements})
		x.ok(err)
		throttled := 0
		for _, r := range did.Responses {
			if r.Error != nil && r.Error.Code == types.BatchStatementErrorCodeEnumThrottlingError {
				throttled++
			}
		}
		some("BatchExecuteStatement", throttled, 25, count("b"))

		in := &sqs.SendMessageBatchInput{QueueUrl: &names.Fires}
		for i := range 10 {
			in.Entries = append(in.Entries, sqstypes.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), MessageBody: aws.String("m")})
		}
		sent, err := x.q.SendMessageBatch(ctx, in)
		x.ok(err)
		some("SendMessageBatch", len(sent.Failed), 10, len(x.q.Messages(names.Fires)))
		on := len(x.q.Messages(names.Fires))
		hide := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &names.Fires}
		drop := &sqs.DeleteMessageBatchInput{QueueUrl: &names.Fires}
		for i, m := range x.receive() {
			hide.Entries = append(hide.Entries, sqstypes.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(fmt.Sprint(i)),
				ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 300})
			drop.Entries = append(drop.Entries, sqstypes.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)),
				ReceiptHandle: m.ReceiptHandle})
		}
		hidden, err := x.q.ChangeMessageVisibilityBatch(ctx, hide)
		x.ok(err)
		long := 0
		for _, m := range x.q.Messages(names.Fires) {
			if time.Until(m.Hidden) == 5*time.Minute {
				long++
			}
		}
		some("ChangeMessageVisibilityBatch", len(hidden.Failed), on, long)
		gone, err := x.q.DeleteMessageBatch(ctx, drop)
		x.ok(err)
		some("DeleteMessageBatch", len(gone.Failed), on, on-len(x.q.Messages(names.Fires)))
	})
}

// A message is received by two at a time, and comes again after it was removed.
func TestTwice(t *testing.T) {
	with(t, fakeaws.Account{Twice: 1}, func(x *account) {
		x.send(10)
		x.receive()
		if n := len(x.receive()); n == 0 || n == 10 {
			t.Errorf("%d of 10 were received by two", n)
		}
		x.q.Lose(names.Fires, func(fakeaws.Message) bool { return true })
		x.send(10)
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &names.Fires}
		for i, m := range x.receive() {
			in.Entries = append(in.Entries, sqstypes.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), ReceiptHandle: m.ReceiptHandle})
		}
		out, err := x.q.DeleteMessageBatch(x.t.Context(), in)
		x.ok(err)
		if n := len(x.q.Messages(names.Fires)); len(out.Failed) > 0 || n == 0 || n == 10 {
			t.Errorf("%d of 10 come again after they were removed, and %d were refused", n, len(out.Failed))
		}
	})
}

// Others write while a batch is read: the result mixes items from before and after their write.
func TestTorn(t *testing.T) {
	with(t, fakeaws.Account{Torn: 1}, func(x *account) {
		const n = 10
		write := func(v int) {
			list := keys("a", n)
			for _, it := range list {
				it["v"] = text(fmt.Sprint(v))
			}
			x.write(list...)
		}
		write(0)
		torn := 0
		for v := range 20 {
			began := time.Now()
			time.AfterFunc(time.Millisecond, func() { write(v + 1) })
			out := x.read(keys("a", n)...)
			if took := time.Since(began); took == 0 || took >= 200*time.Millisecond {
				t.Errorf("it took %s", took)
			}
			of := map[string]int{}
			for _, it := range out.Responses[names.State] {
				of[it["v"].(*types.AttributeValueMemberS).Value]++
			}
			if len(of) == 2 && of[fmt.Sprint(v)]+of[fmt.Sprint(v+1)] == n {
				torn++
			}
			time.Sleep(time.Second)
		}
		if torn < 15 {
			t.Errorf("%d of 20 reads were torn", torn)
		}
	})
}

// A page, and a receipt, has less than there is, and the next has the rest.
func TestShort(t *testing.T) {
	with(t, fakeaws.Account{Short: 1}, func(x *account) {
		for k := range 20 {
			x.ok(x.put("a", k))
		}
		in := &dynamodb.QueryInput{TableName: &names.State, ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("#o = :o"),
			ExpressionAttributeNames: map[string]string{"#o": "of"}, ExpressionAttributeValues: attrs{":o": text("a")}}
		seen := 0
		for {
			out, err := x.db.Query(x.t.Context(), in)
			x.ok(err)
			if n := len(out.Items); n > 5 {
				t.Errorf("a page has %d", n)
			}
			seen += len(out.Items)
			if in.ExclusiveStartKey = out.LastEvaluatedKey; out.LastEvaluatedKey == nil {
				break
			}
		}
		check.Equal(t, seen, 20, "of 20 were read")
		x.send(10)
		for range 10 {
			check.Equal(t, len(x.receive()), 1, "a receipt has")
		}
	})
}

// A transaction is cancelled as if by another, it is not done, and single writes do not fail.
func TestConflict(t *testing.T) {
	with(t, fakeaws.Account{Conflict: 1}, func(x *account) {
		_, err := x.db.TransactWriteItems(x.t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: &names.State, Item: key("a", 1)}}, {Put: &types.Put{TableName: &names.State, Item: key("a", 2)}},
			{Put: &types.Put{TableName: &names.State, Item: key("a", 3)}}}})
		var canceled *types.TransactionCanceledException
		if !errors.As(err, &canceled) || len(canceled.CancellationReasons) != 3 || !slices.ContainsFunc(canceled.CancellationReasons,
			func(r types.CancellationReason) bool {
				return aws.ToString(r.Code) == "TransactionConflict"
			}) {
			t.Errorf("it is answered %v", err)
		}
		if x.there("a", 1) || x.there("a", 2) || x.there("a", 3) {
			t.Error("something of it happened")
		}
		x.ok(x.put("a", 1))
	})
}

// TestOpenTransaction: of two open transactions that share an item, the later is cancelled. A check counts too, and other
// writes of such an item are rejected. Reads work, and after the transaction everything does.
func TestOpenTransaction(t *testing.T) {
	const written, checked, other = 1, 2, 3
	put := func(k int) types.TransactWriteItem {
		return types.TransactWriteItem{Put: &types.Put{TableName: &names.State, Item: key("a", k)}}
	}
	look := func(k int) types.TransactWriteItem {
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &names.State, Key: key("a", k),
			ConditionExpression: aws.String("attribute_not_exists(#n)"), ExpressionAttributeNames: map[string]string{"#n": "none"}}}
	}
	transact := func(list ...types.TransactWriteItem) func(x *account) string {
		return func(x *account) (codes string) {
			_, err := x.db.TransactWriteItems(x.t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: list})
			if c, is := errors.AsType[*types.TransactionCanceledException](err); is {
				for _, r := range c.CancellationReasons {
					codes += *r.Code + " "
				}
				return codes
			}
			x.ok(err)
			return codes
		}
	}
	update := aws.String(`UPDATE "state" SET "v" = ? WHERE "of" = ? AND "key" = ?`)
	for name, c := range map[string]struct {
		second func(x *account) string
		during string // its answer while the first, of a put and a check, is in progress
	}{
		"a put of an item being written":   {transact(put(other), put(written)), "None TransactionConflict "},
		"a check of an item being checked": {transact(look(checked), put(other)), "TransactionConflict None "},
		"another item":                     {transact(put(other), look(4)), ""},
		"a plain put": {func(x *account) string {
			if _, is := errors.AsType[*types.TransactionConflictException](x.put("a", checked)); is {
				return "conflict"
			}
			return ""
		}, "conflict"},
		"writes of a batch": {func(x *account) string {
			return strings.Repeat("unprocessed", len(x.write(key("a", other), key("a", written)).UnprocessedItems[names.State]))
		}, "unprocessed"},
		"a statement": {func(x *account) string {
			x.ok(x.put("a", other))
			in := &dynamodb.BatchExecuteStatementInput{}
			for _, k := range []int{written, other} {
				in.Statements = append(in.Statements, types.BatchStatementRequest{Statement: update,
					Parameters: []types.AttributeValue{text("1"), text("a"), text(fmt.Sprint(k))}})
			}
			out, err := x.db.BatchExecuteStatement(x.t.Context(), in)
			if x.ok(err); out.Responses[0].Error == nil || out.Responses[1].Error != nil {
				return ""
			}
			return string(out.Responses[0].Error.Code)
		}, "TransactionConflict"},
		"a read": {func(x *account) string { x.there("a", written); return "" }, ""},
	} {
		with(t, fakeaws.Account{}, func(x *account) {
			x.db.Faults = func(_ context.Context, c fakeaws.Call) (f fakeaws.Fault) {
				if c.Op == "TransactWriteItems" {
					f.Wait = 10 * time.Millisecond
				}
				return f
			}
			var first sync.WaitGroup
			first.Go(func() { check.Equal(t, transact(put(written), look(checked))(x), "", "%s: the first answers", name) })
			synctest.Wait()
			check.Equal(t, c.second(x), c.during, "%s: beside the first it answers", name)
			first.Wait()
			check.Equal(t, c.second(x), "", "%s: after the first it answers", name)
		})
	}
}

// Messages come in any order.
func TestShuffled(t *testing.T) {
	with(t, fakeaws.Account{}, func(x *account) {
		x.send(10)
		var bodies []string
		for _, m := range x.receive() {
			bodies = append(bodies, *m.Body)
		}
		if len(bodies) != 10 || slices.IsSorted(bodies) {
			t.Errorf("received %v", bodies)
		}
	})
}

// No client has the messages that a throttled poller took: they are hidden, and counted.
func TestSpent(t *testing.T) {
	with(t, fakeaws.Account{Spent: 1}, func(x *account) {
		x.send(10)
		n := len(x.receive())
		if n == 0 || n == 10 {
			t.Fatalf("%d of 10 were received", n)
		}
		for _, m := range x.q.Messages(names.Fires) {
			if m.Receives != 1 || !m.Hidden.After(time.Now()) {
				t.Errorf("%+v", m)
			}
		}
		x.q.Faults = nil
		time.Sleep(30 * time.Second)
		again := x.receive()
		for _, m := range again {
			check.Equal(t, m.Attributes["ApproximateReceiveCount"], "2", "received N times")
		}
		check.Equal(t, len(again), 10, "of 10 come again")
	})
}

// The index is behind a write, and is read as it was.
func TestLagAndStale(t *testing.T) {
	for _, a := range []fakeaws.Account{{Lag: time.Second}, {Stale: 0.5}} {
		with(t, a, func(x *account) {
			query := func() int {
				out, err := x.db.Query(x.t.Context(), &dynamodb.QueryInput{TableName: &names.Jobs, IndexName: aws.String("due"),
					KeyConditionExpression:    aws.String("#p = :p"),
					ExpressionAttributeNames:  map[string]string{"#p": "partition"},
					ExpressionAttributeValues: attrs{":p": &types.AttributeValueMemberN{Value: "1"}}})
				x.ok(err)
				return len(out.Items)
			}
			behind := 0
			for k := range 50 {
				_, err := x.db.PutItem(x.t.Context(), &dynamodb.PutItemInput{TableName: &names.Jobs,
					Item: attrs{"id": text(fmt.Sprint(k)), "part": text("sched"),
						"partition": &types.AttributeValueMemberN{Value: "1"}, "planAt": text(fmt.Sprint(k))}})
				x.ok(err)
				if query() < k+1 {
					behind++
				}
				time.Sleep(10 * time.Second)
				if a.Stale == 0 && query() < k+1 {
					t.Errorf("write %d is not there after 10 s", k)
				}
			}
			if behind == 0 || behind == 50 {
				t.Errorf("%+v: %d of 50 reads were behind", a, behind)
			}
		})
	}
}

// Expired items are read until they are removed, and they are removed in time.
func TestTTL(t *testing.T) {
	with(t, fakeaws.Account{TTL: 48 * time.Hour}, func(x *account) {
		at := time.Now().Add(time.Minute)
		list := keys("a", 25)
		for _, it := range list {
			it["expires"] = &types.AttributeValueMemberN{Value: fmt.Sprint(at.Unix())}
		}
		x.write(list...)
		left := func() int { return len(x.read(keys("a", 25)...).Responses[names.State]) }
		time.Sleep(time.Hour)
		if n := left(); n == 0 || n == 25 {
			t.Errorf("%d of 25 are there an hour past their time", n)
		}
		time.Sleep(48 * time.Hour)
		if n := left(); n > 0 {
			t.Errorf("%d of 25 are there two days past their time", n)
		}
	})
}

// TestRedrive: an empty queue shows a message at once when it is sent or released. A message that was received as often as its
// queue allows is a dead letter, whole, when it would be received once more; one of the dead letters stays.
func TestRedrive(t *testing.T) {
	with(t, fakeaws.Account{}, func(x *account) {
		want := func(queue string, n int, why string) (got []sqstypes.Message) {
			t.Helper()
			out, err := x.q.ReceiveMessage(x.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: 10,
				VisibilityTimeout: 30})
			x.ok(err)
			check.Equal(t, len(out.Messages), n, "%s N are received", why)
			return out.Messages
		}
		want(names.Dead, 0, "no message is dead")
		want(names.Fires, 0, "nothing was sent")
		x.send(1)
		sent := x.q.Messages(names.Fires)[0].ID
		for n := range x.q.MaxReceives {
			for _, m := range want(names.Fires, 1, fmt.Sprint("the time ", n+1)) {
				want(names.Fires, 0, "it is hidden")
				_, err := x.q.ChangeMessageVisibilityBatch(x.t.Context(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &names.Fires,
					Entries: []sqstypes.ChangeMessageVisibilityBatchRequestEntry{{Id: aws.String("0"), ReceiptHandle: m.ReceiptHandle}}})
				x.ok(err)
			}
		}
		check.Equal(t, len(x.q.Messages(names.Dead)), 0, "dead without another receive")
		want(names.Fires, 0, "it was received as often as may be")
		if dead := x.q.Messages(names.Dead); len(dead) != 1 || dead[0].ID != sent || dead[0].Body != "0" || dead[0].Receives != 0 {
			t.Fatalf("dead are %+v", dead)
		}
		for range x.q.MaxReceives + 1 {
			want(names.Dead, 1, "it is dead")
			time.Sleep(30 * time.Second)
		}
	})
}

// served is how many of n writes in this moment there is room for.
func (x *account) served(n int, of func(k int) string) (done int) {
	for k := range n {
		if x.put(of(k), k) == nil {
			done++
		}
	}
	return done
}

func TestPartitionIsThrottled(t *testing.T) {
	with(t, fakeaws.Account{Capacity: 1}, func(x *account) {
		dry := 0
		x.db.Faults = func(context.Context, fakeaws.Call) fakeaws.Fault {
			return fakeaws.Fault{Capacity: 1, Dry: func() { dry++ }}
		}
		one := func(int) string { return "one" }
		for range 2 {
			check.Equal(t, x.served(1500, one), 1000, "of 1,500 writes of one partition were served in a second")
			time.Sleep(time.Second)
		}
		check.Equal(t, dry, 1000, "told of")
		reads := 0
		for range 4000 {
			if len(x.read(key("one", 1)).UnprocessedKeys) == 0 {
				reads++
			}
		}
		check.Equal(t, reads, 3000, "of 4,000 reads of one partition were served in a second")
		if n := x.served(1500, func(k int) string { return fmt.Sprint(k) }); n != 1500 {
			t.Errorf("%d of 1,500 writes of as many partitions were served in a second", n)
		}
	})
}

// A batch and a transaction are throttled item by item, and an index pushes back.
func TestThrottledInParts(t *testing.T) {
	with(t, fakeaws.Account{Capacity: 0.01}, func(x *account) {
		ctx := x.t.Context()
		check.Equal(t, len(x.write(keys("one", 25)...).UnprocessedItems[names.State]), 15, "of 25 were not processed")
		_, err := x.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: &names.State, Item: key("two", 1)}}, {Put: &types.Put{TableName: &names.State, Item: key("one", 99)}}}})
		var canceled *types.TransactionCanceledException
		if !errors.As(err, &canceled) || aws.ToString(canceled.CancellationReasons[1].Code) != "ThrottlingError" || x.there("two", 1) {
			t.Errorf("a transaction without room was answered %v", err)
		}
		time.Sleep(time.Second)
		moved := 0
		for k := range 15 {
			_, err := x.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &names.Jobs, Item: attrs{"id": text(fmt.Sprint(k)), "part": text("sched"),
				"partition": &types.AttributeValueMemberN{Value: "1"}, "planAt": text(fmt.Sprint(k))}})
			if err == nil {
				moved++
			}
		}
		check.Equal(t, moved, 10, "of 15 writes of one partition of the index were served in a second")
	})
}

// A young table serves 4,000 writes a second, and later twice its former peak.
func TestYoungTable(t *testing.T) {
	with(t, fakeaws.Account{Capacity: 0.01}, func(x *account) {
		n := 0
		alone := func(int) string { n++; return fmt.Sprint(n) }
		for i, c := range []struct {
			after time.Duration
			want  int
		}{{0, 40}, {time.Second, 40}, {31 * time.Minute, 80}, {time.Second, 80}, {31 * time.Minute, 160}} {
			time.Sleep(c.after)
			check.Equal(t, x.served(500, alone), c.want, "%d N were served in a second", i)
		}
	})
}
