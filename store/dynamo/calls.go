package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/store"
)

// item is a stored item or its key.
type item = map[string]types.AttributeValue

// Bounds of DynamoDB's requests.
const (
	statementsPerBatch = 25
	keysPerGet         = 100
	writesPerBatch     = 25
	actionsPerTransact = 100
)

// throttles are the error codes of requests that did nothing and may succeed later.
var throttles = slices.Concat(noRoom, []string{"Throttling", "RequestThrottled", "TooManyRequestsException", "TransactionConflict",
	"TransactionConflictException", "LimitExceededException", "OverLimit", "KmsThrottled"})

// answer converts the error of an AWS call into one of the four results of a write. The error names the table or queue
// (what) if it does not exist.
func answer(what string, err error) error {
	if canceled, is := errors.AsType[*types.TransactionCanceledException](err); is {
		return canceledAnswer(what, canceled)
	}
	if api, is := errors.AsType[smithy.APIError](err); is {
		return outcome(what, api.ErrorCode(), api.ErrorMessage(), err)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// outcome converts the error of a request or of a part of one. DynamoDB reports only in the message that an item is too large.
func outcome(what, code, message string, err error) error {
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
func canceledAnswer(what string, c *types.TransactionCanceledException) (err error) {
	for _, r := range c.CancellationReasons {
		code, message := aws.ToString(r.Code), aws.ToString(r.Message)
		if code == "" || code == "None" {
			continue
		}
		is := outcome(what, code, message, fmt.Errorf("%s: %s: %w", code, message, c))
		switch {
		case errors.Is(is, core.ErrRefused):
			return is
		case err == nil || errors.Is(err, core.ErrThrottled):
			err = is
		}
	}
	return cmp.Or(err, fmt.Errorf("%s: %w", what, c))
}

// insistFrom is the wait before the first retry of a rejected part of a request. Each further wait is twice as long, up to
// insistMost, so that the end of a long lock is noticed soon.
const insistFrom, insistMost = 25 * time.Millisecond, 500 * time.Millisecond

// insist repeats a request until nothing of it is left. A batch can succeed although parts of it were throttled; the SDK
// does not retry those parts. The delay grows, with jitter, for o.Insist in total and at most until ctx ends. The last
// answer then stands for the parts that remain.
func (s *Store) insist(ctx context.Context, try func() (left bool)) {
	end := time.Now().Add(s.o.Insist)
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

// upTo returns the indices 0 to n-1.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// batches makes each batch of a call, several at once. do makes one request and returns the throttled part, which did nothing.
func (s *Store) batches(ctx context.Context, list [][]int, errs []error, do func(batch []int) (throttled []int)) {
	store.AtOnce(len(list), func(b int) {
		left := list[b]
		if err := ctx.Err(); err != nil {
			fill(errs, left, err)
			return
		}
		s.insist(ctx, func() bool {
			left = do(left)
			return len(left) > 0
		})
	})
}

// chunks splits indices into batches.
func chunks(of []int, most int) [][]int { return slices.Collect(slices.Chunk(of, most)) }

// entries sends entries to their queues, and repeats an entry that failed through no fault of its own. send gets the indices
// to send to a queue, which are also the names of the entries, and returns the rejected entries.
func (s *Store) entries(ctx context.Context, queues []string, batches [][]int, errs []error,
	send func(queue *string, of []int) ([]sqstypes.BatchResultErrorEntry, error)) {
	s.batches(ctx, batches, errs, func(batch []int) (left []int) {
		what := "queue " + queues[batch[0]]
		failed, err := send(&queues[batch[0]], batch)
		fill(errs, batch, answer(what, err))
		for k := range failed {
			f := &failed[k]
			i, err := strconv.Atoi(aws.ToString(f.Id))
			if err != nil || i < 0 || i >= len(errs) {
				continue
			}
			code, message := aws.ToString(f.Code), aws.ToString(f.Message)
			errs[i] = outcome(what, code, message, fmt.Errorf("%s: %s", code, message))
			if !f.SenderFault || errors.Is(errs[i], core.ErrThrottled) {
				left = append(left, i)
			}
		}
		return left
	})
}

// execute makes puts and updates as statements, 25 to a request; each succeeds or fails alone. Two statements for one item never
// share a request: the second waits for the first.
func (s *Store) execute(ctx context.Context, list []write) []error {
	errs := make([]error, len(list))
	for _, wave := range waves(len(list), func(i int) string { return keyText(list[i].table, list[i].item) }) {
		s.batches(ctx, chunks(wave, statementsPerBatch), errs, func(batch []int) []int { return s.executeOnce(ctx, list, batch, errs) })
	}
	return errs
}

// waves splits the indices from 0 to n-1: the n-th write of an item is in the n-th wave.
func waves(n int, key func(i int) string) (list [][]int) {
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
func (s *Store) executeOnce(ctx context.Context, list []write, batch []int, errs []error) (left []int) {
	in := &dynamodb.BatchExecuteStatementInput{Statements: make([]types.BatchStatementRequest, len(batch))}
	for k, i := range batch {
		in.Statements[k] = list[i].statement()
	}
	out, err := s.db.BatchExecuteStatement(ctx, in)
	if err != nil {
		for _, i := range batch {
			errs[i] = answer("table "+list[i].table, err)
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
			errs[i] = outcome("table "+list[i].table, string(e.Code), message, fmt.Errorf("%s: %s", e.Code, message))
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

// get reads items by key. unread holds the indices of the keys that were throttled.
func (s *Store) get(ctx context.Context, table string, keys []item, found func(item) error) (unread map[int]bool, err error) {
	last, unique := distinct(len(keys), func(i int) string { return keyText(table, keys[i]) })
	errs := make([]error, len(keys))
	var items []item
	var mu sync.Mutex
	strong, count := consistency(ctx)
	s.batches(ctx, chunks(unique, keysPerGet), errs, func(batch []int) (left []int) {
		want := make([]item, len(batch))
		for k, i := range batch {
			want[k] = keys[i]
		}
		out, err := s.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{ReturnConsumedCapacity: count,
			RequestItems: map[string]types.KeysAndAttributes{table: {Keys: want, ConsistentRead: strong}}})
		if fill(errs, batch, answer("table "+table, err)); err != nil {
			return nil
		}
		for i := range out.ConsumedCapacity {
			spend(ctx, &out.ConsumedCapacity[i])
		}
		for _, k := range out.UnprocessedKeys[table].Keys {
			left = append(left, last[keyText(table, k)])
		}
		fill(errs, left, core.ErrThrottled)
		mu.Lock()
		defer mu.Unlock()
		items = append(items, out.Responses[table]...)
		return left
	})
	unread = map[int]bool{}
	for i, err := range errs {
		if errors.Is(err, core.ErrThrottled) {
			unread[i] = true
		} else if err != nil {
			return nil, err
		}
	}
	for _, it := range items {
		if err := found(it); err != nil {
			return nil, err
		}
	}
	return unread, nil
}

// distinct returns the last index of each key, because a request may contain an item once.
func distinct(n int, key func(i int) string) (last map[string]int, unique []int) {
	last = make(map[string]int, n)
	for i := range n {
		last[key(i)] = i
	}
	return last, slices.Sorted(maps.Values(last))
}

// getAll is get for callers that need every item.
func (s *Store) getAll(ctx context.Context, table string, keys []item, found func(item) error) error {
	unread, err := s.get(ctx, table, keys, found)
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	return err
}

// keyText returns a text that identifies an item, or its key.
func keyText(table string, it item) string {
	id := table
	for _, name := range []string{"id", "part", "job", "run", "of", "key"} { // of all tables
		switch v := it[name].(type) {
		case *types.AttributeValueMemberS:
			id += "\x00" + v.Value
		case *types.AttributeValueMemberN:
			id += "\x00" + v.Value
		}
	}
	return id
}

// query reads all pages of a query, until each has had enough. Requests for a page are not strongly consistent.
func (s *Store) query(ctx context.Context, in *dynamodb.QueryInput, each func(item) (more bool, err error)) error {
	if glance.Of(ctx) != nil {
		in.ConsistentRead, in.ReturnConsumedCapacity = consistency(ctx)
	}
	for pages := dynamodb.NewQueryPaginator(s.db, in); pages.HasMorePages(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		out, err := pages.NextPage(ctx)
		if err != nil {
			return answer("table "+aws.ToString(in.TableName), err)
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

// batchWrite puts and deletes items of a table without conditions, and returns an error for each. The last write of an item
// counts.
func (s *Store) batchWrite(ctx context.Context, table string, writes []write) []error {
	errs := make([]error, len(writes))
	key := func(i int) string { return keyText(table, writes[i].item) }
	last, unique := distinct(len(writes), key)
	s.batches(ctx, chunks(unique, writesPerBatch), errs, func(batch []int) (left []int) {
		list := make([]types.WriteRequest, len(batch))
		for k, i := range batch {
			if writes[i].does == putItem {
				list[k].PutRequest = &types.PutRequest{Item: writes[i].item}
			} else {
				list[k].DeleteRequest = &types.DeleteRequest{Key: writes[i].item}
			}
		}
		out, err := s.db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: list}})
		if fill(errs, batch, answer("table "+table, err)); err != nil {
			return nil
		}
		for _, w := range out.UnprocessedItems[table] {
			it := item{}
			if w.PutRequest != nil {
				it = w.PutRequest.Item
			} else if w.DeleteRequest != nil {
				it = w.DeleteRequest.Key
			}
			left = append(left, last[keyText(table, it)])
		}
		fill(errs, left, core.ErrThrottled)
		return left
	})
	for i := range errs {
		errs[i] = errs[last[key(i)]]
	}
	return errs
}

// transact makes all writes or none. One write is a request of its own, which costs half. A write that met another transaction
// at an item is repeated, and so is a transaction whose items were throttled: the SDK only repeats a request that is throttled
// as a whole.
func (s *Store) transact(ctx context.Context, writes ...write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	actions, tables := make([]types.TransactWriteItem, len(writes)), make([]string, len(writes))
	for i := range writes {
		actions[i], tables[i] = writes[i].action(), writes[i].table
	}
	slices.Sort(tables)
	what := "table " + strings.Join(slices.Compact(tables), " or ")
	var answered error
	s.insist(ctx, func() bool {
		var err error
		if len(writes) == 1 {
			_, err = s.request(ctx, &writes[0])
		} else {
			_, err = s.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
		}
		answered = answer(what, err)
		return met(err) && errors.Is(answered, core.ErrThrottled)
	})
	return answered
}

// met reports that a write met a transaction, or was one and met something.
func met(err error) bool {
	var canceled *types.TransactionCanceledException
	var conflict *types.TransactionConflictException
	return errors.As(err, &canceled) || errors.As(err, &conflict)
}

// Sure is an option for AWS clients that retry by themselves. If an attempt gets no answer and a
// later attempt is throttled, the first attempt may have done the request: the result is unknown, not "nothing happened".
func Sure(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("tickringSure",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
			middleware.FinalizeOutput, middleware.Metadata, error,
		) {
			out, meta, err := next.HandleFinalize(ctx, in)
			if err != nil && leftOpen(meta) && errors.Is(answer("", err), core.ErrThrottled) {
				err = fmt.Errorf("an attempt had no answer, and a later one: %s", err.Error())
			}
			return out, meta, err
		}), (*retry.Attempt)(nil).ID(), middleware.Before)
}

// leftOpen reports whether an earlier attempt of a request had no answer or one that leaves its result open.
func leftOpen(meta middleware.Metadata) bool {
	attempts, _ := retry.GetAttemptResults(meta)
	for i := range len(attempts.Results) - 1 {
		var answered *awshttp.ResponseError // of status 0 if there was none
		if !errors.As(attempts.Results[i].Err, &answered) || answered.HTTPStatusCode() == 0 || answered.HTTPStatusCode() >= 500 {
			return true
		}
	}
	return false
}

// noRoom are the codes of requests that DynamoDB rejects because capacity is missing.
var noRoom = []string{"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded",
	"ProvisionedThroughputExceeded", "ThrottlingError"}

// Throttled is an option for the clients of a Store: it calls count for each attempt of a request that DynamoDB throttles,
// completely or in part.
func Throttled(count func()) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("tickringThrottled",
			func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
				middleware.DeserializeOutput, middleware.Metadata, error,
			) {
				out, meta, err := next.HandleDeserialize(ctx, in)
				if throttledIn(out.Result, err) {
					count()
				}
				return out, meta, err
			}), middleware.Before)
	}
}

func throttledIn(result any, err error) bool {
	var canceled *types.TransactionCanceledException
	if errors.As(err, &canceled) {
		return slices.ContainsFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
			return slices.Contains(noRoom, aws.ToString(r.Code))
		})
	}
	if api, is := errors.AsType[smithy.APIError](err); is {
		return slices.Contains(noRoom, api.ErrorCode())
	}
	switch out := result.(type) {
	case *dynamodb.BatchGetItemOutput:
		return len(out.UnprocessedKeys) > 0
	case *dynamodb.BatchWriteItemOutput:
		return len(out.UnprocessedItems) > 0
	case *dynamodb.BatchExecuteStatementOutput:
		return slices.ContainsFunc(out.Responses, func(r types.BatchStatementResponse) bool {
			return r.Error != nil && slices.Contains(noRoom, string(r.Error.Code))
		})
	}
	return false
}
