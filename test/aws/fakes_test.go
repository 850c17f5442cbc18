package aws_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store/dynamo"
)

type attrs = map[string]types.AttributeValue

func s(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
func n(v int) types.AttributeValue    { return &types.AttributeValueMemberN{Value: fmt.Sprint(v)} }

// said describes an answer in the same form for both implementations of DynamoDB.
func said(err error) string {
	var canceled *types.TransactionCanceledException
	var refused *types.ConditionalCheckFailedException
	var gone *types.ResourceNotFoundException
	var api smithy.APIError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &canceled):
		var codes []string
		for _, r := range canceled.CancellationReasons {
			codes = append(codes, aws.ToString(r.Code))
		}
		return "canceled " + strings.Join(codes, ",")
	case errors.As(err, &refused):
		return "refused"
	case errors.As(err, &gone):
		return "no table"
	case errors.As(err, &api):
		return api.ErrorCode()
	}
	return err.Error()
}

func shown(items ...attrs) string {
	var list []string
	for _, it := range items {
		var parts []string
		for name, v := range it {
			switch v := v.(type) {
			case *types.AttributeValueMemberS:
				parts = append(parts, fmt.Sprintf("%s=%.20q", name, v.Value))
			case *types.AttributeValueMemberN:
				parts = append(parts, name+"="+v.Value)
			default:
				parts = append(parts, fmt.Sprintf("%s=%T", name, v))
			}
		}
		slices.Sort(parts)
		list = append(list, strings.Join(parts, " "))
	}
	return strings.Join(list, "; ")
}

// TestFakesAnswerAsDynamoDB: the fakes of dynamo and DynamoDB Local give the same answers to valid and invalid requests.
func TestFakesAnswerAsDynamoDB(t *testing.T) {
	local, _ := clients(t)
	names := fresh(t)
	fake, _ := fakeaws.New(t.Errorf)
	type target struct {
		db dynamo.DynamoDB
		n  dynamo.Names
	}
	key := func(k string) attrs { return attrs{"of": s("x"), "key": s(k)} }
	with := func(k attrs, more attrs) attrs {
		out := attrs{}
		for n, v := range k {
			out[n] = v
		}
		for n, v := range more {
			out[n] = v
		}
		return out
	}
	put := func(it attrs, cond string, names map[string]string, values attrs) func(context.Context, target) string {
		return func(ctx context.Context, g target) string {
			in := &dynamodb.PutItemInput{TableName: &g.n.State, Item: it, ExpressionAttributeNames: names, ExpressionAttributeValues: values}
			if cond != "" {
				in.ConditionExpression = &cond
			}
			_, err := g.db.PutItem(ctx, in)
			return said(err)
		}
	}
	update := func(k attrs, does, cond string, names map[string]string, values attrs) func(context.Context, target) string {
		return func(ctx context.Context, g target) string {
			in := &dynamodb.UpdateItemInput{TableName: &g.n.State, Key: k, UpdateExpression: &does, ExpressionAttributeNames: names,
				ExpressionAttributeValues: values, ReturnValues: types.ReturnValueUpdatedNew}
			if cond != "" {
				in.ConditionExpression = &cond
			}
			out, err := g.db.UpdateItem(ctx, in)
			if err != nil {
				return said(err)
			}
			return shown(out.Attributes)
		}
	}
	type st struct {
		text string
		args []types.AttributeValue
	}
	run := func(list ...st) func(context.Context, target) string {
		return func(ctx context.Context, g target) string {
			in := &dynamodb.BatchExecuteStatementInput{}
			for _, x := range list {
				in.Statements = append(in.Statements, types.BatchStatementRequest{Statement: aws.String(strings.ReplaceAll(x.text, "STATE", g.n.State)),
					Parameters: x.args})
			}
			out, err := g.db.BatchExecuteStatement(ctx, in)
			if err != nil {
				return said(err)
			}
			var codes []string
			for _, r := range out.Responses {
				if r.Error == nil {
					codes = append(codes, "ok")
				} else {
					codes = append(codes, string(r.Error.Code))
				}
			}
			return strings.Join(codes, ",")
		}
	}
	query := func(in dynamodb.QueryInput) func(context.Context, target) string {
		return func(ctx context.Context, g target) string {
			q := in
			q.TableName, q.ConsistentRead = &g.n.State, aws.Bool(true)
			if q.IndexName != nil {
				q.TableName, q.ConsistentRead = &g.n.Jobs, nil
			}
			var pages []string
			for range 20 {
				out, err := g.db.Query(ctx, &q)
				if err != nil {
					return said(err)
				}
				pages = append(pages, fmt.Sprintf("[%s] of %d", shown(out.Items...), out.ScannedCount))
				if q.ExclusiveStartKey = out.LastEvaluatedKey; len(q.ExclusiveStartKey) == 0 {
					break
				}
			}
			return strings.Join(pages, " ")
		}
	}
	transact := func(do func(g target) []types.TransactWriteItem) func(context.Context, target) string {
		return func(ctx context.Context, g target) string {
			_, err := g.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: do(g)})
			return said(err)
		}
	}
	write := func(list ...types.WriteRequest) func(context.Context, target) string {
		return func(ctx context.Context, g target) string {
			out, err := g.db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{g.n.State: list}})
			if err != nil {
				return said(err)
			}
			return fmt.Sprint(len(out.UnprocessedItems))
		}
	}
	read := func(keys ...attrs) func(context.Context, target) string {
		return func(ctx context.Context, g target) string {
			out, err := g.db.BatchGetItem(ctx,
				&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{g.n.State: {Keys: keys, ConsistentRead: aws.Bool(true)}}})
			if err != nil {
				return said(err)
			}
			items := out.Responses[g.n.State]
			slices.SortFunc(items, func(a, b attrs) int { return cmp.Compare(shown(a), shown(b)) })
			return shown(items...)
		}
	}
	many := func(n int) (keys []attrs, puts []types.WriteRequest, sts []st) {
		for i := range n {
			k := key(fmt.Sprintf("many-%03d", i))
			keys, puts = append(keys, k), append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: k}})
			sts = append(sts, st{`INSERT INTO "STATE" VALUE {'of':?,'key':?}`, []types.AttributeValue{s("x"), s(fmt.Sprintf("st-%03d", i))}})
		}
		return keys, puts, sts
	}
	keys101, _, _ := many(101)
	_, puts26, sts26 := many(26)
	_, puts25, sts25 := many(25)
	long := strings.Repeat("l", 450<<10)
	a, v := map[string]string{"#a": "a"}, attrs{":a": n(1)}
	upd := func(k string, cond string, args ...types.AttributeValue) st {
		return st{`UPDATE "STATE" SET "b" = ? REMOVE "gone" WHERE "of" = ? AND "key" = ? AND ` + cond,
			append([]types.AttributeValue{n(9), s("x"), s(k)}, args...)}
	}
	ofX := func(more string, names map[string]string, values attrs) dynamodb.QueryInput {
		in := dynamodb.QueryInput{KeyConditionExpression: aws.String("#of = :of" + more),
			ExpressionAttributeNames: map[string]string{"#of": "of"}, ExpressionAttributeValues: attrs{":of": s("x")}}
		for k, n := range names {
			in.ExpressionAttributeNames[k] = n
		}
		for k, v := range values {
			in.ExpressionAttributeValues[k] = v
		}
		return in
	}
	k := map[string]string{"#k": "key"}
	limited := ofX(" AND #k BETWEEN :p AND :q", k, attrs{":p": s("many"), ":q": s("manz")})
	limited.Limit = aws.Int32(7)
	down := ofX(" AND #k BETWEEN :p AND :q", k, attrs{":p": s("many-003"), ":q": s("many-007")})
	down.ScanIndexForward, down.Limit = aws.Bool(false), aws.Int32(2)
	for _, c := range []struct {
		name string
		do   func(context.Context, target) string
	}{
		{"put where there is none", put(with(key("1"), attrs{"a": n(1), "s": s("")}), "attribute_not_exists(#a)", a, nil)},
		{"put where there is one", put(with(key("1"), attrs{"a": n(2)}), "attribute_not_exists(#a)", a, nil)},
		{"put on a condition that holds", put(with(key("1"), attrs{"a": n(5)}), "attribute_not_exists(#a) OR #a < :a", a, attrs{":a": n(5)})},
		{"put on a condition that does not", put(with(key("1"), attrs{"a": n(5)}), "attribute_not_exists(#a) OR #a < :a", a, attrs{":a": n(5)})},
		{"a value that nothing uses", put(key("2"), "attribute_not_exists(#a)", a, v)},
		{"a name that nothing uses", put(key("2"), "attribute_not_exists(#a)", map[string]string{"#a": "a", "#b": "b"}, nil)},
		{"a name that is not defined", put(key("2"), "#b = :a", a, v)},
		{"a comparison of other types", put(with(key("1"), attrs{"a": n(6)}), "#a < :a", a, attrs{":a": s("9")})},
		{"no sort key", put(attrs{"of": s("x")}, "", nil, nil)},
		{"an empty sort key", put(key(""), "", nil, nil)},
		{"a key of another type", put(attrs{"of": s("x"), "key": n(1)}, "", nil, nil)},
		{"an item too large", put(with(key("2"), attrs{"a": s(long)}), "", nil, nil)},
		{"read", read(key("1"))},
		{"read by half a key", read(attrs{"of": s("x")})},
		{"count from nothing", update(key("c"), "ADD #a :a", "", a, v)},
		{"count on", update(key("c"), "ADD #a :a", "", a, v)},
		{"set two", update(key("c"), "SET #b = :b, #a = :a", "", map[string]string{"#a": "a", "#b": "b"}, attrs{":a": n(8), ":b": n(2)})},
		{"set and remove", update(key("c"), "SET #a = :a REMOVE #b", "#a = :old", map[string]string{"#a": "a", "#b": "b"},
			attrs{":a": n(9), ":old": n(8)})},
		{"update that is refused", update(key("c"), "REMOVE #a", "#a = :old", a, attrs{":old": n(8)})},
		{"update of nothing on a condition", update(key("none"), "REMOVE #a", "#a = :old", a, attrs{":old": n(8)})},
		{"one name twice", update(key("c"), "SET #a = :a REMOVE #a", "", a, v)},
		{"a part of the key", update(key("c"), "SET #k = :a", "", k, attrs{":a": s("d")})},
		{"update to an item too large", update(key("c"), "SET #a = :a", "", a, attrs{":a": s(long)})},
		{"existing item", read(key("c"))},
		{"25 puts", write(puts25...)},
		{"26 puts", write(puts26...)},
		{"two writes of one item", write(puts25[0], puts25[0])},
		{"101 keys", read(keys101...)},
		{"a key twice", read(key("1"), key("1"))},
		{"some that are there", read(key("1"), key("none"), key("c"))},
		{"statements", run(upd("c", `"a" = ?`, n(9)), upd("1", `"a" = ?`, n(9)), upd("none", `"a" IS MISSING`))},
		{"insert, and again", run(st{`INSERT INTO "STATE" VALUE {'of':?,'key':?,'a':?}`, []types.AttributeValue{s("x"), s("i"), n(1)}},
			st{`INSERT INTO "STATE" VALUE {'of':?,'key':?}`, []types.AttributeValue{s("x"), s("1")}})},
		{"two statements of one item", run(upd("c", `"a" = ?`, n(9)), upd("c", `"b" = ?`, n(9)))},
		{"25 statements", run(sts25...)},
		{"26 statements", run(sts26...)},
		{"is missing", run(upd("c", `"a" IS MISSING`), upd("1", `"z" IS MISSING`))},
		{"in of texts", run(upd("c", `"a" IN ('9','10')`), upd("1", `"a" IN ('9','10')`))},
		{"too few parameters", run(st{`UPDATE "STATE" SET "b" = ? WHERE "of" = ? AND "key" = ?`, []types.AttributeValue{n(1), s("x")}})},
		{"no sort key in a statement", run(st{`UPDATE "STATE" SET "b" = ? WHERE "of" = ?`, []types.AttributeValue{n(1), s("x")}})},
		{"after the statements", read(key("1"), key("c"), key("i"))},
		{"a transaction", transact(func(g target) []types.TransactWriteItem {
			return []types.TransactWriteItem{
				{Put: &types.Put{TableName: &g.n.State, Item: with(key("t"), attrs{"a": n(1)}),
					ConditionExpression: aws.String("attribute_not_exists(#a)"), ExpressionAttributeNames: a}},
				{Delete: &types.Delete{TableName: &g.n.State, Key: key("none")}},
				{ConditionCheck: &types.ConditionCheck{TableName: &g.n.State, Key: key("gone"),
					ConditionExpression: aws.String("attribute_not_exists(#a)"), ExpressionAttributeNames: a}}}
		})},
		{"a transaction that is refused", transact(func(g target) []types.TransactWriteItem {
			return []types.TransactWriteItem{
				{Put: &types.Put{TableName: &g.n.State, Item: with(key("u"), attrs{"a": n(1)})}},
				{Put: &types.Put{TableName: &g.n.State, Item: with(key("t"), attrs{"a": n(1)}),
					ConditionExpression: aws.String("attribute_not_exists(#a)"), ExpressionAttributeNames: a}}}
		})},
		{"an item twice in a transaction", transact(func(g target) []types.TransactWriteItem {
			return []types.TransactWriteItem{{Put: &types.Put{TableName: &g.n.State, Item: key("u")}},
				{Delete: &types.Delete{TableName: &g.n.State, Key: key("u")}}}
		})},
		{"after the transactions", read(key("t"), key("u"))},
		{"pages", query(limited)},
		{"downwards", query(down)},
		{"bounds the wrong way round", query(ofX(" AND #k BETWEEN :p AND :q", k, attrs{":p": s("b"), ":q": s("a")}))},
		{"no hash key", query(dynamodb.QueryInput{KeyConditionExpression: aws.String("#k = :p"), ExpressionAttributeNames: k,
			ExpressionAttributeValues: attrs{":p": s("a")}})},
		{"a query of another attribute", query(ofX(" AND #a = :a", a, v))},
		{"a table that is not there", func(ctx context.Context, g target) string {
			_, err := g.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("nothing"), Item: key("1")})
			return said(err)
		}},
	} {
		want := c.do(t.Context(), target{local, names})
		if got := c.do(t.Context(), target{fake, fakeaws.Names}); got != want {
			t.Errorf("%s:\nthe fake returns %s\nDynamoDB returns %s", c.name, got, want)
		}
	}
}

// TestFakesAnswerAsSQS: the same for queues.
func TestFakesAnswerAsSQS(t *testing.T) {
	_, queues := clients(t)
	names := fresh(t)
	_, fake := fakeaws.New(t.Errorf)
	entry := func(id string, delay int32, body string) sqstypes.SendMessageBatchRequestEntry {
		return sqstypes.SendMessageBatchRequestEntry{Id: &id, MessageBody: &body, DelaySeconds: delay}
	}
	for _, c := range []struct {
		name    string
		entries []sqstypes.SendMessageBatchRequestEntry
	}{
		{"two", []sqstypes.SendMessageBatchRequestEntry{entry("a", 0, "1"), entry("b", 900, "2")}},
		{"none", nil},
		{"eleven", func() (list []sqstypes.SendMessageBatchRequestEntry) {
			for i := range 11 {
				list = append(list, entry(fmt.Sprint(i), 0, "x"))
			}
			return list
		}()},
		{"one name twice", []sqstypes.SendMessageBatchRequestEntry{entry("a", 0, "1"), entry("a", 0, "2")}},
		{"more than 1 MiB in all", []sqstypes.SendMessageBatchRequestEntry{entry("a", 0, strings.Repeat("x", 600<<10)),
			entry("b", 0, strings.Repeat("x", 600<<10))}},
	} {
		ask := func(q dynamo.SQS, url string) string {
			out, err := q.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: c.entries})
			if err != nil {
				return "refused"
			}
			return fmt.Sprintf("%d taken, %d failed", len(out.Successful), len(out.Failed))
		}
		want := ask(queues, names.Fires)
		check.Equal(t, ask(fake, fakeaws.Names.Fires), want, "%s: the fake, and SQS", c.name)
	}
}
