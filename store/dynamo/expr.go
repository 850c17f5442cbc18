package dynamo

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
)

// edits is a conditional write of one item in the making: a statement's or an
// expression's.
type edits interface {
	set(name string, v types.AttributeValue)
	remove(name string)
	equals(name string, v types.AttributeValue)
	missing(name string)
	open()
}

// put sets an attribute that there is, and removes one that there is not.
func put(w edits, name string, there bool, v types.AttributeValue) {
	if there {
		w.set(name, v)
	} else {
		w.remove(name)
	}
}

// expr builds the write of one item with its condition, as writer does for a statement. nil is a write without a
// condition.
type expr struct {
	sets, removes, conds []string
	names                map[string]string
	values               item
}

func (e *expr) name(name string) string {
	if e.names == nil {
		e.names = map[string]string{}
	}
	e.names["#"+name] = name
	return "#" + name
}

func (e *expr) value(name string, v types.AttributeValue) string {
	if e.values == nil {
		e.values = item{} // DynamoDB rejects an empty map
	}
	e.values[":"+name] = v
	return ":" + name
}

func (e *expr) set(name string, v types.AttributeValue) {
	e.sets = append(e.sets, e.name(name)+" = "+e.value(name, v))
}

func (e *expr) remove(name string) { e.removes = append(e.removes, e.name(name)) }

func (e *expr) test(name, op string, v types.AttributeValue) {
	e.conds = append(e.conds, e.name(name)+" "+op+" "+e.value("is"+name, v))
}

func (e *expr) equals(name string, v types.AttributeValue) { e.test(name, "=", v) }

// between includes both values.
func (e *expr) between(name string, low, high types.AttributeValue) {
	e.conds = append(e.conds, e.name(name)+" BETWEEN "+e.value("low", low)+" AND "+e.value("high", high))
}

func (e *expr) missing(name string) {
	e.conds = append(e.conds, "attribute_not_exists("+e.name(name)+")")
}

// exists is the condition that there is one of these.
func (e *expr) exists(of ...string) {
	var any []string
	for _, name := range of {
		any = append(any, "attribute_exists("+e.name(name)+")")
	}
	e.conds = append(e.conds, "("+strings.Join(any, " OR ")+")")
}

func (e *expr) open() {
	var list []string
	for _, s := range core.States {
		if s.Open() {
			list = append(list, e.value(string(s), text(string(s))))
		}
	}
	e.conds = append(e.conds, e.name("state")+" IN ("+strings.Join(list, ", ")+")")
}

func equal(name string, v types.AttributeValue) *expr { e := &expr{}; e.equals(name, v); return e }
func none(name string) *expr                          { e := &expr{}; e.missing(name); return e }

// noneOr returns the condition that an attribute is missing, or compares with v by op.
func noneOr(name, op string, v types.AttributeValue) *expr {
	e := none(name)
	e.test(name, op, v)
	e.conds = []string{strings.Join(e.conds, " OR ")}
	return e
}

// was is the condition that a number is the one that was seen; 0: that there is none.
func was(name string, seen int64) *expr {
	if seen == 0 {
		return none(name)
	}
	return equal(name, number(seen))
}

func (e *expr) does() *string {
	var does []string
	if len(e.sets) > 0 {
		does = append(does, "SET "+strings.Join(e.sets, ", "))
	}
	if len(e.removes) > 0 {
		does = append(does, "REMOVE "+strings.Join(e.removes, ", "))
	}
	all := strings.Join(does, " ")
	return &all
}

func (e *expr) conditions() *string {
	if len(e.conds) == 0 {
		return nil
	}
	all := strings.Join(e.conds, " AND ")
	return &all
}

func (e *expr) put(table string, it item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: it,
		ConditionExpression: e.conditions(), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values}}
}

func (e *expr) update(table string, key item) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{TableName: &table, Key: key, UpdateExpression: e.does(),
		ConditionExpression: e.conditions(), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values}}
}

func (e *expr) delete(table string, key item) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: &table, Key: key,
		ConditionExpression: e.conditions(), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values}}
}

// check makes a transaction conflict if the item does not meet the condition.
func (e *expr) check(table string, key item) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &table, Key: key,
		ConditionExpression: e.conditions(), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values}}
}

// alone is the write as a request of its own.
func (e *expr) alone(table string, key item) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{TableName: &table, Key: key, UpdateExpression: e.does(),
		ConditionExpression: e.conditions(), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values}
}

// query uses the condition as the key condition of a query: strongly consistent, unless ask makes it for a page.
func (e *expr) query(table string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{TableName: &table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression: e.conditions(), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values}
}

// newest returns a query from the end, limit items at a time.
func (e *expr) newest(table string, limit int) *dynamodb.QueryInput {
	in := e.query(table)
	in.ScanIndexForward, in.Limit = aws.Bool(false), aws.Int32(int32(limit))
	return in
}

// putIf puts an item of the state table on a condition; nil is none.
func (s *Store) putIf(ctx context.Context, it item, e *expr) error {
	in := &dynamodb.PutItemInput{TableName: &s.o.Names.State, Item: it}
	if e != nil {
		in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.conditions(), e.names, e.values
	}
	return s.writeState(ctx, func() error {
		_, err := s.db.PutItem(ctx, in)
		return err
	})
}

// deleteIf removes an item of the state table on a condition.
func (s *Store) deleteIf(ctx context.Context, key item, e *expr) error {
	in := &dynamodb.DeleteItemInput{TableName: &s.o.Names.State, Key: key,
		ConditionExpression: e.conditions(), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values}
	return s.writeState(ctx, func() error {
		_, err := s.db.DeleteItem(ctx, in)
		return err
	})
}

// writeState makes one request that writes to the state table, and repeats it if a transaction was writing the item.
func (s *Store) writeState(ctx context.Context, request func() error) (answered error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.insist(ctx, func() bool {
		err := request()
		answered = answer("table "+s.o.Names.State, err)
		return met(err)
	})
	return answered
}
