package dynamo

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
)

// test is a condition on an attribute: a comparison, BETWEEN, IN, exists or missing.
type test struct {
	name, op string
	values   []types.AttributeValue
}

func where(name, op string, values ...types.AttributeValue) test { return test{name, op, values} }

// expr is a change of an item with its condition: each of conds, which are lists of alternatives.
type expr struct {
	sets    []test
	removes []string
	conds   [][]test
}

func (e *expr) set(name string, v types.AttributeValue) { e.sets = append(e.sets, where(name, "=", v)) }
func (e *expr) remove(name string)                      { e.removes = append(e.removes, name) }

// put sets an attribute; nil removes it.
func (e *expr) put(name string, v types.AttributeValue) {
	if v != nil {
		e.set(name, v)
	} else {
		e.remove(name)
	}
}

func (e *expr) any(of ...test) { e.conds = append(e.conds, of) }

// equals is the condition that an attribute has a value; nil: that it is missing.
func (e *expr) equals(name string, v types.AttributeValue) { e.any(has(name, v)) }

func has(name string, v types.AttributeValue) test {
	if v == nil {
		return where(name, "missing")
	}
	return where(name, "=", v)
}

// open is the condition that a run is open.
func (e *expr) open() {
	var open []types.AttributeValue
	for _, s := range core.States {
		if s.Open() {
			open = append(open, text(string(s)))
		}
	}
	e.any(where("State", "IN", open...))
}

func when(of ...test) *expr                           { return &expr{conds: [][]test{of}} }
func equal(name string, v types.AttributeValue) *expr { return when(has(name, v)) }
func none(name string) *expr                          { return equal(name, nil) }

// words writes an expr: as expressions with names and values, or as PartiQL with args.
type words struct {
	partiQL bool
	names   map[string]string
	values  item
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
		w.values = item{} // DynamoDB rejects an empty map
	}
	name := ":" + strconv.Itoa(len(w.values))
	w.values[name] = v
	return name
}

func (w *words) test(t *test) string {
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
func (w *words) condition(conds [][]test) *string {
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
func (w *words) change(e *expr) string {
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

type verb int

const (
	putItem verb = iota
	updateItem
	deleteItem
	checkItem // rejects a transaction if the item does not meet the condition
)

// write is the write of one item.
type write struct {
	expr
	does  verb
	table string
	item  item // the new item of a put, otherwise the key
}

func (e *expr) to(does verb, table string, it item) write { return write{*e, does, table, it} }

// plain returns a write without a condition.
func plain(does verb, table string, it item) write { return write{does: does, table: table, item: it} }

// action returns a write as a part of a transaction.
func (w *write) action() (a types.TransactWriteItem) {
	var p words
	change, cond := p.change(&w.expr), p.condition(w.conds)
	switch w.does {
	case putItem:
		a.Put = &types.Put{TableName: &w.table, Item: w.item,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values}
	case updateItem:
		a.Update = &types.Update{TableName: &w.table, Key: w.item, UpdateExpression: &change,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values}
	case deleteItem:
		a.Delete = &types.Delete{TableName: &w.table, Key: w.item,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values}
	case checkItem:
		a.ConditionCheck = &types.ConditionCheck{TableName: &w.table, Key: w.item,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values}
	}
	return a
}

// request makes a write as a request of its own, and returns the old item of an update.
func (s *Store) request(ctx context.Context, w *write) (old item, err error) {
	var p words
	change, cond := p.change(&w.expr), p.condition(w.conds)
	switch w.does {
	case putItem:
		_, err = s.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &w.table, Item: w.item,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values})
	case deleteItem:
		_, err = s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &w.table, Key: w.item,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values})
	default:
		var out *dynamodb.UpdateItemOutput
		if out, err = s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &w.table, Key: w.item, UpdateExpression: &change,
			ConditionExpression: cond, ExpressionAttributeNames: p.names, ExpressionAttributeValues: p.values,
			ReturnValues: types.ReturnValueAllOld}); err == nil {
			old = out.Attributes
		}
	}
	return old, err
}

// statement returns a put of an item that does not exist, or an update, as PartiQL. A statement has no alternatives in its
// condition.
func (w *write) statement() types.BatchStatementRequest {
	p := words{partiQL: true}
	names := slices.Sorted(maps.Keys(w.item))
	if w.does == putItem {
		values := make([]string, len(names))
		for i, name := range names {
			values[i] = "'" + name + "':" + p.value(w.item[name])
		}
		return types.BatchStatementRequest{Parameters: p.args,
			Statement: aws.String("INSERT INTO " + p.name(w.table) + " VALUE {" + strings.Join(values, ",") + "}")}
	}
	var key [][]test
	for _, name := range names {
		key = append(key, []test{where(name, "=", w.item[name])})
	}
	text := "UPDATE " + p.name(w.table) + " " + p.change(&w.expr) + " WHERE " + *p.condition(append(key, w.conds...))
	return types.BatchStatementRequest{Statement: &text, Parameters: p.args}
}

// query uses the condition as the key condition of a query: strongly consistent, unless it is for a page.
func (e *expr) query(table string) *dynamodb.QueryInput {
	var p words
	in := &dynamodb.QueryInput{TableName: &table, ConsistentRead: aws.Bool(true), KeyConditionExpression: p.condition(e.conds)}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = p.names, p.values
	return in
}

// newest returns a query from the end, limit items at a time.
func (e *expr) newest(table string, limit int) *dynamodb.QueryInput {
	in := e.query(table)
	in.ScanIndexForward, in.Limit = aws.Bool(false), aws.Int32(int32(limit))
	return in
}
