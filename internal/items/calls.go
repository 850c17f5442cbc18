package items

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/store"
)

// DynamoDB has the requests of this package.
type DynamoDB interface {
	BatchExecuteStatement(context.Context, *dynamodb.BatchExecuteStatementInput,
		...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput,
		...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// Client makes the requests of an engine.
type Client struct {
	DB     DynamoDB
	Keys   []string      // the names of the key attributes of all tables
	Insist time.Duration // how long a throttled part of a batch request is retried
}

// Bounds of DynamoDB's requests.
const (
	statementsPerBatch = 25
	KeysPerGet         = 100
	writesPerBatch     = 25
	ActionsPerTransact = 100
)

// throttles are the error codes of requests that did nothing and may succeed later.
var throttles = slices.Concat(noRoom, []string{"Throttling", "RequestThrottled", "TooManyRequestsException", "TransactionConflict",
	"TransactionConflictException", "LimitExceededException", "OverLimit", "KmsThrottled"})

// Answer converts the error of an AWS call into one of the four results of a write. The error names the table or queue
// (what) if it does not exist.
func Answer(what string, err error) error {
	if canceled, is := errors.AsType[*types.TransactionCanceledException](err); is {
		return canceledAnswer(what, canceled)
	}
	if api, is := errors.AsType[smithy.APIError](err); is {
		return Outcome(what, api.ErrorCode(), api.ErrorMessage(), err)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// Outcome converts the error of a request or of a part of one. DynamoDB reports only in the message that an item is too large.
func Outcome(what, code, message string, err error) error {
	switch {
	case strings.HasPrefix(code, "ConditionalCheckFailed") || code == "DuplicateItem":
		return core.ErrRefused
	case slices.Contains(throttles, code):
		return core.ErrThrottled
	case strings.Contains(message, "maximum allowed size"):
		return core.Errorf(core.CodeTooLarge, "%s: an item would exceed 400 KB, the limit of DynamoDB", what)
	case code == "ResourceNotFound": // of a statement
		return fmt.Errorf("%s does not exist", what)
	case code == "ResourceNotFoundException" || strings.Contains(code, "NonExistentQueue") || strings.Contains(code, "QueueDoesNotExist"):
		return fmt.Errorf("%s does not exist: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// canceledAnswer returns ErrRefused if a condition failed, and ErrThrottled if capacity was missing or another transaction
// used the same items.
func canceledAnswer(what string, all *types.TransactionCanceledException) (err error) {
	for _, r := range all.CancellationReasons {
		code, message := aws.ToString(r.Code), aws.ToString(r.Message)
		if code == "" || code == "None" {
			continue
		}
		is := Outcome(what, code, message, fmt.Errorf("%s: %s: %w", code, message, all))
		switch {
		case errors.Is(is, core.ErrRefused):
			return is
		case err == nil || errors.Is(err, core.ErrThrottled):
			err = is
		}
	}
	return cmp.Or(err, fmt.Errorf("%s: %w", what, all))
}

// insistFrom is the wait before the first retry of a rejected part of a request. Each further wait is twice as long, up to
// insistMost, so that the end of a long lock is noticed soon.
const insistFrom, insistMost = 25 * time.Millisecond, 500 * time.Millisecond

// insist repeats a request until nothing of it is left. A batch can succeed although parts of it were throttled; the SDK
// does not retry those parts. The delay grows, with jitter, for c.Insist in total and at most until ctx ends. The last
// answer then stands for the parts that remain.
func (c *Client) insist(ctx context.Context, try func() (left bool)) {
	end := time.Now().Add(c.Insist)
	if limit, ok := ctx.Deadline(); ok && limit.Before(end) {
		end = limit
	}
	for wait := insistFrom; try(); wait = min(2*wait, insistMost) {
		w := wait/2 + rand.N(wait/2)
		if time.Until(end) <= w || !store.Sleep(ctx, w) {
			return
		}
	}
}

// Batches makes each batch of a call, several at once. do makes one request and returns the throttled part, which did nothing.
func (c *Client) Batches(ctx context.Context, list [][]int, errs []error, do func(batch []int) (throttled []int)) {
	store.AtOnce(len(list), func(b int) {
		left := list[b]
		if err := ctx.Err(); err != nil {
			Fill(errs, left, err)
			return
		}
		c.insist(ctx, func() bool {
			left = do(left)
			return len(left) > 0
		})
	})
}

// Fill is the answer of some writes.
func Fill(errs []error, of []int, err error) {
	for _, i := range of {
		errs[i] = err
	}
}

// Execute makes puts and updates as statements, 25 to a request; each succeeds or fails alone. Two statements for one item never
// share a request: the second waits for the first.
func (c *Client) Execute(ctx context.Context, list []Write) []error {
	errs := make([]error, len(list))
	for _, wave := range Waves(len(list), func(i int) string { return list[i].table + c.keyText(list[i].item) }) {
		c.Batches(ctx, slices.Collect(slices.Chunk(wave, statementsPerBatch)), errs, func(batch []int) []int {
			return c.executeOnce(ctx, list, batch, errs)
		})
	}
	return errs
}

// Waves splits the indices from 0 to n-1: the n-th write of an item is in the n-th wave.
func Waves(n int, key func(i int) string) (list [][]int) {
	wave := make(map[string]int, n)
	for i := range n {
		k := key(i)
		if wave[k] == len(list) {
			list = append(list, nil)
		}
		list[wave[k]] = append(list[wave[k]], i)
		wave[k]++
	}
	return list
}

// executeOnce makes one request of statements and returns the throttled ones, which did nothing.
func (c *Client) executeOnce(ctx context.Context, list []Write, batch []int, errs []error) (left []int) {
	in := &dynamodb.BatchExecuteStatementInput{Statements: make([]types.BatchStatementRequest, len(batch))}
	for k, i := range batch {
		in.Statements[k] = list[i].statement()
	}
	out, err := c.DB.BatchExecuteStatement(ctx, in)
	if err != nil {
		for _, i := range batch {
			errs[i] = Answer("table "+list[i].table, err)
		}
		return nil
	}
	unsure := leftOpen(out.ResultMetadata)
	for k, i := range batch {
		if k >= len(out.Responses) {
			errs[i] = errors.New("no answer to a statement")
			continue
		}
		errs[i] = nil
		if e := out.Responses[k].Error; e != nil {
			message := aws.ToString(e.Message)
			errs[i] = Outcome("table "+list[i].table, string(e.Code), message, fmt.Errorf("%s: %s", e.Code, message))
		}
		switch {
		case !errors.Is(errs[i], core.ErrThrottled):
		case unsure:
			errs[i] = errors.New("an attempt got no answer, and a later one was throttled")
		default:
			left = append(left, i)
		}
	}
	return left
}

// consistency returns how a call reads: strongly, or for a page eventually consistent and counted, which costs half.
func consistency(ctx context.Context) (strong *bool, count types.ReturnConsumedCapacity) {
	if glance.Of(ctx) != nil {
		return nil, types.ReturnConsumedCapacityTotal
	}
	return aws.Bool(true), ""
}

// spend records the cost of a read for a page.
func spend(ctx context.Context, consumed *types.ConsumedCapacity) {
	if g := glance.Of(ctx); g != nil && consumed != nil {
		g.Spend(aws.ToFloat64(consumed.CapacityUnits))
	}
}

// Get reads items by key. unread are the indices of the keys that were throttled.
func (c *Client) Get(ctx context.Context, table string, keys []Item, found func(Item) error) (unread []int, failed error) {
	last, unique := distinct(len(keys), func(i int) string { return c.keyText(keys[i]) })
	errs := make([]error, len(keys))
	var mu sync.Mutex
	strong, count := consistency(ctx)
	c.Batches(ctx, slices.Collect(slices.Chunk(unique, KeysPerGet)), errs, func(batch []int) (left []int) {
		want := make([]Item, len(batch))
		for k, i := range batch {
			want[k] = keys[i]
		}
		out, err := c.DB.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{ReturnConsumedCapacity: count,
			RequestItems: map[string]types.KeysAndAttributes{table: {Keys: want, ConsistentRead: strong}}})
		if Fill(errs, batch, Answer("table "+table, err)); err != nil {
			return nil
		}
		for i := range out.ConsumedCapacity {
			spend(ctx, &out.ConsumedCapacity[i])
		}
		for _, k := range out.UnprocessedKeys[table].Keys {
			left = append(left, last[c.keyText(k)])
		}
		Fill(errs, left, core.ErrThrottled)
		mu.Lock()
		defer mu.Unlock()
		for _, it := range out.Responses[table] {
			failed = cmp.Or(failed, found(it))
		}
		return left
	})
	for i, err := range errs {
		if errors.Is(err, core.ErrThrottled) {
			unread = append(unread, i)
		} else {
			failed = cmp.Or(failed, err)
		}
	}
	return unread, failed
}

// distinct returns the last index of each key, because a request may contain an item once.
func distinct(n int, key func(i int) string) (last map[string]int, unique []int) {
	last = make(map[string]int, n)
	for i := range n {
		last[key(i)] = i
	}
	return last, slices.Sorted(maps.Values(last))
}

// GetAll is Get for callers that need every item.
func (c *Client) GetAll(ctx context.Context, table string, keys []Item, found func(Item) error) error {
	unread, err := c.Get(ctx, table, keys, found)
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	return err
}

// keyText returns a text that identifies an item of a table, or its key.
func (c *Client) keyText(it Item) (id string) {
	for _, name := range c.Keys {
		switch v := it[name].(type) {
		case *types.AttributeValueMemberS:
			id += "\x00" + v.Value
		case *types.AttributeValueMemberN:
			id += "\x00" + v.Value
		}
	}
	return id
}

// Query reads all pages of a query, until each has had enough. Requests for a page are not strongly consistent.
func (c *Client) Query(ctx context.Context, in *dynamodb.QueryInput, each func(Item) (more bool, err error)) error {
	if glance.Of(ctx) != nil {
		in.ConsistentRead, in.ReturnConsumedCapacity = consistency(ctx)
	}
	for pages := dynamodb.NewQueryPaginator(c.DB, in); pages.HasMorePages(); {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return Answer("table "+aws.ToString(in.TableName), err)
		}
		spend(ctx, out.ConsumedCapacity)
		for _, it := range out.Items {
			if more, err := each(it); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// List reads and decodes the items of a query, at most limit of them; 0: all.
func List[T any](ctx context.Context, c *Client, in *dynamodb.QueryInput, limit int, decode func(Item) (T, error)) (list []T, err error) {
	if limit > 0 {
		in.Limit = aws.Int32(int32(limit))
	}
	err = c.Query(ctx, in, func(it Item) (bool, error) {
		v, err := decode(it)
		list = append(list, v)
		return len(list) != limit, err
	})
	return list, err
}

// BatchWrite puts and deletes items of a table without conditions, and returns an error for each. The last write of an item
// counts.
func (c *Client) BatchWrite(ctx context.Context, table string, writes []Write) []error {
	errs := make([]error, len(writes))
	key := func(i int) string { return c.keyText(writes[i].item) }
	last, unique := distinct(len(writes), key)
	c.Batches(ctx, slices.Collect(slices.Chunk(unique, writesPerBatch)), errs, func(batch []int) (left []int) {
		list := make([]types.WriteRequest, len(batch))
		for k, i := range batch {
			if writes[i].does == Put {
				list[k].PutRequest = &types.PutRequest{Item: writes[i].item}
			} else {
				list[k].DeleteRequest = &types.DeleteRequest{Key: writes[i].item}
			}
		}
		out, err := c.DB.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: list}})
		if Fill(errs, batch, Answer("table "+table, err)); err != nil {
			return nil
		}
		for _, w := range out.UnprocessedItems[table] {
			if w.PutRequest != nil {
				left = append(left, last[c.keyText(w.PutRequest.Item)])
			} else if w.DeleteRequest != nil {
				left = append(left, last[c.keyText(w.DeleteRequest.Key)])
			}
		}
		Fill(errs, left, core.ErrThrottled)
		return left
	})
	for i := range errs {
		errs[i] = errs[last[key(i)]]
	}
	return errs
}

// Transact makes all writes or none. One write is a request of its own, which costs half.
func (c *Client) Transact(ctx context.Context, writes ...Write) error {
	_, err := c.TransactOld(ctx, writes...)
	return err
}

// TransactOld is Transact, and returns the old item of an update that is the only write. A write that met another transaction at an
// item is repeated, and so are a throttled update and a transaction whose items were throttled: the SDK only repeats a request that is
// throttled as a whole.
func (c *Client) TransactOld(ctx context.Context, writes ...Write) (old Item, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	actions, tables := make([]types.TransactWriteItem, len(writes)), make([]string, len(writes))
	for i := range writes {
		actions[i], tables[i] = writes[i].action(), writes[i].table
	}
	slices.Sort(tables)
	what := "table " + strings.Join(slices.Compact(tables), " or ")
	c.insist(ctx, func() bool {
		var answered error
		if len(writes) == 1 {
			old, answered = c.request(ctx, &writes[0])
		} else {
			_, answered = c.DB.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
		}
		err = Answer(what, answered)
		return errors.Is(err, core.ErrThrottled) && (met(answered) || len(writes) == 1 && writes[0].does == Update)
	})
	return old, err
}

// met reports that a write met a transaction, or was one and met something.
func met(err error) bool {
	var canceled *types.TransactionCanceledException
	var conflict *types.TransactionConflictException
	return errors.As(err, &canceled) || errors.As(err, &conflict)
}

// Add adds to a number of an item, and returns the sum.
func (c *Client) Add(ctx context.Context, table string, key Item, name string, n int) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	out, err := c.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &table, Key: key,
		UpdateExpression: aws.String("ADD #n :n"), ExpressionAttributeNames: map[string]string{"#n": name},
		ExpressionAttributeValues: Item{":n": Number(n)}, ReturnValues: types.ReturnValueUpdatedNew})
	if err != nil {
		return 0, Answer("table "+table, err)
	}
	return IntOf(out.Attributes, name)
}
