// Package items reads and writes items of DynamoDB. A condition or a change is written once, and becomes an expression or PartiQL. The
// package makes batches and transactions, repeats the parts that were throttled, and converts each error of AWS into one of the four
// results of a write. It knows nothing of jobs and runs.
package items

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is a stored item or its key.
type Item = map[string]types.AttributeValue

// Text and Number return the values of attributes.
func Text(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
func Number[N ~int | ~int32 | ~int64 | ~uint32](v N) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(v), 10)}
}

// TextOf returns a text of an item; empty if it has none.
func TextOf(it Item, name string) string {
	if v, ok := it[name].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

func IntOf(it Item, name string) (int64, error) {
	v, ok := it[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("an item has no number %q", name)
	}
	return strconv.ParseInt(v.Value, 10, 64)
}

// Test is a condition on an attribute: a comparison, BETWEEN, IN, exists or missing.
type Test struct {
	name, op string
	values   []types.AttributeValue
}

func Where(name, op string, values ...types.AttributeValue) Test { return Test{name, op, values} }

// Has is the condition that an attribute has a value; nil: that it is missing.
func Has(name string, v types.AttributeValue) Test {
	if v == nil {
		return Where(name, "missing")
	}
	return Where(name, "=", v)
}

// Expr is a change of an item with its condition: each of conds, which are lists of alternatives.
type Expr struct {
	sets    []Test
	removes []string
	conds   [][]Test
}

// When returns an Expr with the condition that one of the tests is met.
func When(of ...Test) *Expr { return (&Expr{}).And(of...) }

func Equal(name string, v types.AttributeValue) *Expr { return When(Has(name, v)) }

// Missing returns an Expr with the condition that an attribute is missing: if it is part of the key, that there is no item.
func Missing(name string) *Expr { return Equal(name, nil) }

// And adds the condition that one of the tests is met, and returns e.
func (e *Expr) And(of ...Test) *Expr {
	e.conds = append(e.conds, of)
	return e
}

// Put sets an attribute, or removes it if v is nil, and returns e.
func (e *Expr) Put(name string, v types.AttributeValue) *Expr {
	if v != nil {
		e.sets = append(e.sets, Where(name, "=", v))
	} else {
		e.removes = append(e.removes, name)
	}
	return e
}

// words writes an Expr: as expressions with names and values, or as PartiQL with args.
type words struct {
	partiQL bool
	names   map[string]string
	values  Item
	args    []types.AttributeValue
}

func (w *words) name(name string) string {
	if w.partiQL {
		return `"` + name + `"` // many names are reserved words
	}
	if w.names == nil {
		w.names = map[string]string{}
	}
	w.names["#"+name] = name
	return "#" + name
}

func (w *words) value(v types.AttributeValue) string {
	if w.partiQL {
		w.args = append(w.args, v)
		return "?"
	}
	if w.values == nil {
		w.values = Item{} // DynamoDB rejects an empty map
	}
	name := ":" + strconv.Itoa(len(w.values))
	w.values[name] = v
	return name
}

func (w *words) test(t *Test) string {
	name := w.name(t.name)
	values := make([]string, len(t.values))
	for i, v := range t.values {
		if s, is := v.(*types.AttributeValueMemberS); is && w.partiQL && t.op == "IN" {
			values[i] = "'" + s.Value + "'" // a literal: the values are constants
			continue
		}
		values[i] = w.value(v)
	}
	switch {
	case t.op == "missing" && w.partiQL:
		return name + " IS MISSING"
	case t.op == "missing":
		return "attribute_not_exists(" + name + ")"
	case t.op == "exists":
		return "attribute_exists(" + name + ")"
	case t.op == "IN":
		return name + " IN (" + strings.Join(values, ", ") + ")"
	}
	return name + " " + t.op + " " + strings.Join(values, " AND ")
}

// condition returns nil if there is no condition.
func (w *words) condition(conds [][]Test) *string {
	all := make([]string, len(conds))
	for i, of := range conds {
		tests := make([]string, len(of))
		for k := range of {
			tests[k] = w.test(&of[k])
		}
		if all[i] = strings.Join(tests, " OR "); len(tests) > 1 {
			all[i] = "(" + all[i] + ")"
		}
	}
	if len(all) == 0 {
		return nil
	}
	return aws.String(strings.Join(all, " AND "))
}

// change repeats its verbs in PartiQL.
func (w *words) change(e *Expr) string {
	var sets, removes []string
	for i := range e.sets {
		sets = append(sets, w.test(&e.sets[i]))
	}
	for _, name := range e.removes {
		removes = append(removes, w.name(name))
	}
	join := func(verb string, list []string) string {
		switch {
		case len(list) == 0:
			return ""
		case w.partiQL:
			return verb + strings.Join(list, verb)
		}
		return verb + strings.Join(list, ", ")
	}
	return strings.TrimSpace(join(" SET ", sets) + join(" REMOVE ", removes))
}

// Verb is the action of a Write.
type Verb int

const (
	Put Verb = iota
	Update
	Delete
	Check // rejects a transaction if the item does not meet the condition
)

// Write is the write of one item.
type Write struct {
	Expr
	does  Verb
	table string
	item  Item // the new item of a put, otherwise the key
}

func (e *Expr) To(does Verb, table string, it Item) Write { return Write{*e, does, table, it} }

// Plain returns a write without a condition.
func Plain(does Verb, table string, it Item) Write { return Write{does: does, table: table, item: it} }

// action returns a write as a part of a transaction.
func (w *Write) action() (a types.TransactWriteItem) {
	var p words
	change, cond := p.change(&w.Expr), p.condition(w.conds)
	switch w.does {
	case Put:
		a.Put = &types.Put{TableName: &w.table, Item: w.item,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values}
	case Update:
		a.Update = &types.Update{TableName: &w.table, Key: w.item, UpdateExpression: &change,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values}
	case Delete:
		a.Delete = &types.Delete{TableName: &w.table, Key: w.item,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values}
	case Check:
		a.ConditionCheck = &types.ConditionCheck{TableName: &w.table, Key: w.item,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values}
	}
	return a
}

// request makes a write as a request of its own, and returns the old item of an update.
func (c *Client) request(ctx context.Context, w *Write) (old Item, err error) {
	var p words
	change, cond := p.change(&w.Expr), p.condition(w.conds)
	switch w.does {
	case Put:
		_, err = c.DB.PutItem(ctx, &dynamodb.PutItemInput{TableName: &w.table, Item: w.item,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values})
	case Delete:
		_, err = c.DB.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &w.table, Key: w.item,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values})
	default:
		var out *dynamodb.UpdateItemOutput
		if out, err = c.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &w.table, Key: w.item, UpdateExpression: &change,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values,
			ReturnValues: types.ReturnValueAllOld}); err == nil {
			old = out.Attributes
		}
	}
	return old, err
}

// statement returns a put of an item that does not exist, or an update, as PartiQL. A statement has no alternatives in its
// condition.
func (w *Write) statement() types.BatchStatementRequest {
	p := words{partiQL: true}
	names := slices.Sorted(maps.Keys(w.item))
	if w.does == Put {
		values := make([]string, len(names))
		for i, name := range names {
			values[i] = "'" + name + "':" + p.value(w.item[name])
		}
		return types.BatchStatementRequest{Parameters: p.args,
			Statement: aws.String("INSERT INTO " + p.name(w.table) + " VALUE {" + strings.Join(values, ",") + "}")}
	}
	var key [][]Test
	for _, name := range names {
		key = append(key, []Test{Has(name, w.item[name])})
	}
	text := "UPDATE " + p.name(w.table) + " " + p.change(&w.Expr) + " WHERE " + *p.condition(append(key, w.conds...))
	return types.BatchStatementRequest{Statement: &text, Parameters: p.args}
}

// Query uses the condition as the key condition of a query: strongly consistent, unless it is for a page.
func (e *Expr) Query(table string) *dynamodb.QueryInput {
	var p words
	in := &dynamodb.QueryInput{TableName: &table, ConsistentRead: aws.Bool(true), KeyConditionExpression: p.condition(e.conds)}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = p.names, p.values
	return in
}

// Newest returns a query from the end, limit items at a time.
func (e *Expr) Newest(table string, limit int) *dynamodb.QueryInput {
	in := e.Query(table)
	in.ScanIndexForward, in.Limit = aws.Bool(false), aws.Int32(int32(limit))
	return in
}
