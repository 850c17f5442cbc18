package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

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
var throttles = []string{
	"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "Throttling", "RequestThrottled",
	"TooManyRequestsException",
	"ProvisionedThroughputExceeded", "ThrottlingError", "TransactionConflict", "TransactionConflictException", "LimitExceededException",
	"OverLimit", "KmsThrottled",
}

// answer converts the error of an AWS call into one of the four results of a write. The error names the table or queue
// (what) if it does not exist.
func answer(what string, err error) error {
	if err == nil {
		return nil
	}
	if _, refused := errors.AsType[*types.ConditionalCheckFailedException](err); refused {
		return core.ErrRefused
	}
	if canceled, is := errors.AsType[*types.TransactionCanceledException](err); is {
		return canceledAnswer(what, canceled)
	}
	if api, is := errors.AsType[smithy.APIError](err); is {
		code := api.ErrorCode()
		if slices.Contains(throttles, code) {
			return core.ErrThrottled
		}
		if err := tooLarge(what, api.ErrorMessage()); err != nil {
			return err
		}
		if _, noTable := errors.AsType[*types.ResourceNotFoundException](err); noTable ||
			strings.Contains(code, "NonExistentQueue") || strings.Contains(code, "QueueDoesNotExist") {
			return fmt.Errorf("%s does not exist: %w", what, err)
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// tooLarge returns an error if an item is too large. DynamoDB reports this only in the message.
func tooLarge(what, message string) error {
	if !strings.Contains(message, "maximum allowed size") {
		return nil
	}
	return core.Errorf(core.CodeTooLarge, "%s: an item would exceed 400 KB, the limit of DynamoDB", what)
}

// canceledAnswer returns ErrRefused if a condition failed, and ErrThrottled if capacity was missing or another transaction
// used the same items.
func canceledAnswer(what string, c *types.TransactionCanceledException) error {
	passing, why := false, ""
	for _, r := range c.CancellationReasons {
		switch code := aws.ToString(r.Code); {
		case code == "ConditionalCheckFailed":
			return core.ErrRefused
		case slices.Contains(throttles, code):
			passing = true
		case code != "None" && code != "" && why == "":
			why = code + ": " + aws.ToString(r.Message)
		}
	}
	switch large := tooLarge(what, why); {
	case large != nil:
		return large
	case why != "":
		return fmt.Errorf("%s: %s: %w", what, why, c)
	case passing:
		return core.ErrThrottled
	}
	return fmt.Errorf("%s: %w", what, c)
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
		if time.Until(end) <= w || !pause(ctx, w) {
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

// entries sends n entries to a queue, ten in each request, and retries an entry that failed through no fault of its own.
// send gets the indices to send, which are also the names of the entries, and returns the rejected entries.
func (s *Store) entries(ctx context.Context, queue string, n int, send func(of []int) ([]sqstypes.BatchResultErrorEntry, error)) []error {
	errs := make([]error, n)
	for left := range slices.Chunk(upTo(n), entriesPerBatch) {
		s.insist(ctx, func() bool {
			err := ctx.Err()
			var failed []sqstypes.BatchResultErrorEntry
			if err == nil {
				if failed, err = send(left); err != nil {
					err = answer("queue "+queue, err)
				}
			}
			fill(errs, left, err)
			left = nil
			for k := range failed {
				i, err := strconv.Atoi(aws.ToString(failed[k].Id))
				if err != nil || i < 0 || i >= n {
					continue
				}
				errs[i] = failedEntry(queue, &failed[k])
				if !failed[k].SenderFault || errors.Is(errs[i], core.ErrThrottled) {
					left = append(left, i)
				}
			}
			return len(left) > 0
		})
	}
	return errs
}

func failedEntry(queue string, f *sqstypes.BatchResultErrorEntry) error {
	if slices.Contains(throttles, aws.ToString(f.Code)) {
		return core.ErrThrottled
	}
	return fmt.Errorf("queue %s: %s: %s", queue, aws.ToString(f.Code), aws.ToString(f.Message))
}

// statement is one PartiQL write of one item; key identifies the item.
type statement struct {
	table string
	key   string
	text  string
	args  []types.AttributeValue
}

// execute writes statements, 25 to a request; each succeeds or fails alone. Two statements for one item never share a
// request: the second waits for the first.
func (s *Store) execute(ctx context.Context, list []statement) []error {
	errs := make([]error, len(list))
	for wave := range waves(upTo(len(list)), func(i int) string { return list[i].table + "\x00" + list[i].key }) {
		batches := slices.Collect(slices.Chunk(wave, statementsPerBatch))
		store.AtOnce(len(batches), func(b int) {
			left := batches[b]
			s.insist(ctx, func() bool {
				left = s.executeOnce(ctx, list, left, errs)
				return len(left) > 0
			})
		})
	}
	return errs
}

// waves yields indices, each wave with no item twice.
func waves(left []int, key func(i int) string) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		for len(left) > 0 {
			var now, later []int
			seen := make(map[string]bool, len(left))
			for _, i := range left {
				if k := key(i); seen[k] {
					later = append(later, i)
				} else {
					seen[k] = true
					now = append(now, i)
				}
			}
			if !yield(now) {
				return
			}
			left = later
		}
	}
}

// executeOnce makes one request of statements and returns the throttled ones, which did nothing.
func (s *Store) executeOnce(ctx context.Context, list []statement, batch []int, errs []error) (left []int) {
	if err := ctx.Err(); err != nil {
		fill(errs, batch, err)
		return nil
	}
	in := &dynamodb.BatchExecuteStatementInput{Statements: make([]types.BatchStatementRequest, len(batch))}
	for k, i := range batch {
		in.Statements[k] = types.BatchStatementRequest{Statement: &list[i].text, Parameters: list[i].args}
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
		switch errs[i] = statementAnswer(list[i].table, out.Responses[k].Error); {
		case !errors.Is(errs[i], core.ErrThrottled):
		case unsure:
			errs[i] = errors.New("an attempt got no answer, and a later one was throttled")
		default:
			left = append(left, i)
		}
	}
	return left
}

func statementAnswer(table string, e *types.BatchStatementError) error {
	if e == nil {
		return nil
	}
	switch e.Code {
	case types.BatchStatementErrorCodeEnumConditionalCheckFailed, types.BatchStatementErrorCodeEnumDuplicateItem:
		return core.ErrRefused
	case types.BatchStatementErrorCodeEnumThrottlingError, types.BatchStatementErrorCodeEnumRequestLimitExceeded,
		types.BatchStatementErrorCodeEnumProvisionedThroughputExceeded, types.BatchStatementErrorCodeEnumTransactionConflict:
		return core.ErrThrottled
	case types.BatchStatementErrorCodeEnumResourceNotFound:
		return fmt.Errorf("table %s does not exist", table)
	}
	if err := tooLarge("table "+table, aws.ToString(e.Message)); err != nil {
		return err
	}
	return fmt.Errorf("table %s: %s: %s", table, e.Code, aws.ToString(e.Message))
}

// consistency returns how a call reads: strongly, or for a page eventually consistent and counted, which costs half.
func consistency(ctx context.Context) (strong *bool, count types.ReturnConsumedCapacity) {
	if glance.Of(ctx) != nil {
		return nil, types.ReturnConsumedCapacityTotal
	}
	return aws.Bool(true), ""
}

// spend records the cost of a read for a page.
func spend(ctx context.Context, consumed ...types.ConsumedCapacity) {
	if g := glance.Of(ctx); g != nil {
		for i := range consumed {
			g.Spend(aws.ToFloat64(consumed[i].CapacityUnits))
		}
	}
}

// get reads items by key. unread holds the indices of the keys that were throttled.
func (s *Store) get(ctx context.Context, table string, keys []item, found func(item) error) (unread map[int]bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	unread = map[int]bool{}
	index := map[string]int{}
	var unique []int
	for i, k := range keys {
		id := keyText(k)
		if _, twice := index[id]; !twice {
			index[id] = i
			unique = append(unique, i)
		}
	}
	batches := slices.Collect(slices.Chunk(unique, keysPerGet))
	items := make([][]item, len(batches))
	left := make([][]item, len(batches))
	errs := make([]error, len(batches))
	strong, count := consistency(ctx)
	store.AtOnce(len(batches), func(b int) {
		want := make([]item, len(batches[b]))
		for k, i := range batches[b] {
			want[k] = keys[i]
		}
		s.insist(ctx, func() bool {
			out, err := s.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{ReturnConsumedCapacity: count,
				RequestItems: map[string]types.KeysAndAttributes{table: {Keys: want, ConsistentRead: strong}}})
			if err != nil {
				if errs[b] = answer("table "+table, err); errors.Is(errs[b], core.ErrThrottled) {
					errs[b] = nil
				}
				return false
			}
			spend(ctx, out.ConsumedCapacity...)
			items[b] = append(items[b], out.Responses[table]...)
			want = out.UnprocessedKeys[table].Keys
			return len(want) > 0
		})
		left[b] = want
	})
	for b := range batches {
		if errs[b] != nil {
			return nil, errs[b]
		}
		for _, it := range items[b] {
			if err := found(it); err != nil {
				return nil, err
			}
		}
		for _, k := range left[b] {
			unread[index[keyText(k)]] = true
		}
	}
	return unread, nil
}

// getAll is get for callers that need every item.
func (s *Store) getAll(ctx context.Context, table string, keys []item, found func(item) error) error {
	unread, err := s.get(ctx, table, keys, found)
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	return err
}

// keyText returns a text that identifies a key in its table.
func keyText(k item) string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(k)) {
		switch v := k[n].(type) {
		case *types.AttributeValueMemberS:
			b.WriteString(v.Value)
		case *types.AttributeValueMemberN:
			b.WriteString(v.Value)
		}
		b.WriteByte(0)
	}
	return b.String()
}

// ask makes one request of a query. Requests for a page are not strongly consistent.
func (s *Store) ask(ctx context.Context, in *dynamodb.QueryInput) (*dynamodb.QueryOutput, error) {
	if glance.Of(ctx) != nil {
		in.ConsistentRead, in.ReturnConsumedCapacity = consistency(ctx)
	}
	out, err := s.db.Query(ctx, in)
	if err == nil && out.ConsumedCapacity != nil {
		spend(ctx, *out.ConsumedCapacity)
	}
	return out, err
}

// query reads all pages of a query, until each has had enough.
func (s *Store) query(ctx context.Context, in *dynamodb.QueryInput, each func(item) (more bool, err error)) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		out, err := s.ask(ctx, in)
		if err != nil {
			return answer("table "+aws.ToString(in.TableName), err)
		}
		for _, it := range out.Items {
			if more, err := each(it); err != nil || !more {
				return err
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// batchWrite puts and deletes items without conditions, and returns an error for each.
func (s *Store) batchWrite(ctx context.Context, table string, writes []types.WriteRequest, keys []string) []error {
	errs := make([]error, len(writes))
	first := map[string]int{} // a request may contain an item once: of equal writes the first counts for all
	var unique []int
	for i, k := range keys {
		if _, twice := first[k]; !twice {
			first[k] = i
			unique = append(unique, i)
		}
	}
	batches := slices.Collect(slices.Chunk(unique, writesPerBatch))
	store.AtOnce(len(batches), func(b int) {
		left := batches[b]
		fail := func(err error) { fill(errs, left, err) }
		if err := ctx.Err(); err != nil {
			fail(err)
			return
		}
		s.insist(ctx, func() bool {
			list := make([]types.WriteRequest, len(left))
			for k, i := range left {
				list[k] = writes[i]
			}
			out, err := s.db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: list}})
			if err != nil {
				fail(answer("table "+table, err))
				return false
			}
			fail(nil)
			rest := out.UnprocessedItems[table]
			again := slices.DeleteFunc(slices.Clone(left), func(i int) bool {
				return !slices.ContainsFunc(rest, func(w types.WriteRequest) bool { return reflect.DeepEqual(w, writes[i]) })
			})
			if len(again) == len(rest) { // else all are repeated: a put or a delete can be
				left = again
			}
			fail(core.ErrThrottled)
			return len(left) > 0
		})
	})
	for i, k := range keys {
		errs[i] = errs[first[k]]
	}
	return errs
}

// transact writes all items or none. It retries a transaction that conflicted with another one at an item, or whose items
// were throttled: the SDK only retries a request that is throttled as a whole.
func (s *Store) transact(ctx context.Context, actions []types.TransactWriteItem) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var answered error
	s.insist(ctx, func() bool {
		_, err := s.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
		if answered = err; err != nil {
			answered = answer("table "+strings.Join(tablesOf(actions), " or "), err)
		}
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

// tablesOf names the tables of a transaction, for one that does not exist.
func tablesOf(actions []types.TransactWriteItem) []string {
	var list []string
	for i := range actions {
		a := &actions[i]
		switch {
		case a.Put != nil:
			list = append(list, *a.Put.TableName)
		case a.Update != nil:
			list = append(list, *a.Update.TableName)
		case a.Delete != nil:
			list = append(list, *a.Delete.TableName)
		case a.ConditionCheck != nil:
			list = append(list, *a.ConditionCheck.TableName)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
