package fakeaws

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/store/dynamo"
)

// DynamoDB is an in-memory fake of DynamoDB with the tables of dynamo. Set its fields before the first request.
type DynamoDB struct {
	front
	// Lag returns the time from a write until an index has the write. If nil, this time is 0.
	Lag func() time.Duration
	// TTL returns the time between the expiry of an item, in its attribute "expires", and its removal. If nil, no item is
	// removed. During this time, reads return the item. DynamoDB takes up to 48 h and guarantees no time.
	TTL func() time.Duration

	mu       sync.Mutex
	expiries []expiry // by when they are due
	tables   map[string]*table
	// busy has the items of open transactions. If two transactions check or write one item, the later one is cancelled with
	// TransactionConflict. Every other write of an item in an open transaction is also cancelled (AWS: "Transactional conflicts" in
	// the developer guide of DynamoDB; re:Post knowledge center, "dynamodb-transactwriteitems"). A transaction is open from its
	// request to its answer, so two transactions overlap only during a Wait.
	busy       map[spot]bool
	conds      map[string]*cond
	updates    map[string]*update
	statements map[string]*statement
}

var _ dynamo.DynamoDB = (*DynamoDB)(nil)

// isA reports whether an error has a type.
func isA[E error](err error) bool {
	_, has := errors.AsType[E](err)
	return has
}

// use records capacity that a table used.
func (d *DynamoDB) use(t *table, hash value, read, write float64) {
	d.meter.add(read, write, 0)
	t.room.takes(hash, time.Now(), read, write)
}

func (d *DynamoDB) table(name *string) (*table, error) {
	t := d.tables[aws.ToString(name)]
	if t == nil {
		return nil, &types.ResourceNotFoundException{Message: aws.String("Requested resource not found")}
	}
	return t, nil
}

func remembered[T any](of *map[string]T, text string, parse func(string) (T, error)) (T, error) {
	if v, ok := (*of)[text]; ok {
		return v, nil
	}
	v, err := parse(text)
	if err != nil {
		return v, err
	}
	if *of == nil {
		*of = map[string]T{}
	}
	(*of)[text] = v
	return v, nil
}

func (d *DynamoDB) cond(text *string) (*cond, error) {
	if text == nil {
		return nil, nil
	}
	return remembered(&d.conds, *text, parseCond)
}

func (d *DynamoDB) lag() time.Duration {
	if d.Lag == nil {
		return 0
	}
	return d.Lag()
}

// spot is one item of the tables, there or not.
type spot struct {
	t *table
	p place
}

// conflict is the error of a write that meets a transaction under way.
func conflict() error {
	return &types.TransactionConflictException{Message: aws.String("Transaction is ongoing for the item")}
}

// write is one write of one item, checked and then done.
type write struct {
	table *table
	at    place
	cond  *cond
	env   env
	// One of them:
	put    item
	update *update
	remove bool
	check  bool
	key    item
}

// judge returns the item before and after a write; it changes nothing.
func (d *DynamoDB) judge(w *write) (was, is item, err error) {
	if e := w.table.get(w.at); e != nil {
		was = e.it
	}
	if !w.env.holds(w.cond, was) {
		return was, nil, &types.ConditionalCheckFailedException{Message: aws.String("The conditional request failed")}
	}
	switch {
	case w.check:
		return was, was, nil
	case w.remove:
		return was, nil, nil
	case w.put != nil:
		is = copied(w.put)
	case w.update == nil:
		return was, nil, strange("an update without its expression")
	default:
		base := was
		if base == nil {
			base = w.key
		}
		if is, err = w.env.apply(w.update, base); err != nil {
			return was, nil, err
		}
		if p, err := w.table.place(is); err != nil || p != w.at {
			return was, nil, invalid("Cannot update attribute %s. This attribute is part of the key", w.table.sort.name)
		}
		is = copied(is)
	}
	if err := whole(is); err != nil {
		return was, nil, err
	}
	if x := w.table.index; x != nil {
		for _, k := range []key{x.hash, x.sort} {
			if is[k.name] != nil {
				if _, err := k.of(is); err != nil {
					return was, nil, err
				}
			}
		}
	}
	if sizeOf(is) > maxItem {
		return was, nil, invalid("Item size has exceeded the maximum allowed size")
	}
	return was, is, nil
}

// commit does a write that judge accepted, and counts its units; times is 2 in a transaction.
func (d *DynamoDB) commit(w *write, was, is item, times float64) {
	if !w.check {
		if index := w.table.put(w.at, is, time.Now(), d.lag()); index > 0 {
			d.meter.add(0, 0, index)
		}
		d.watchExpiry(w, was, is)
	}
	d.use(w.table, w.at.hash, 0, times*writeUnits(max(sizeOf(was), sizeOf(is))))
}

func (w *write) spot() spot { return spot{w.table, w.at} }

// one does a write alone; a failed condition costs the size of the read item.
func (d *DynamoDB) one(f *Fault, w *write) (was, is item, err error) {
	if d.busy[w.spot()] {
		return nil, nil, conflict()
	}
	if !f.served(&w.table.room, w.at.hash, true) {
		return nil, nil, Throttled()
	}
	was, is, err = d.judge(w)
	if err == nil && !w.table.index.serves(f, was, is) {
		err = Throttled()
	}
	if err != nil {
		if isA[*types.ConditionalCheckFailedException](err) {
			d.use(w.table, w.at.hash, 0, writeUnits(sizeOf(was)))
		}
		return was, nil, err
	}
	d.commit(w, was, is, 1)
	return was, is, nil
}

// request has the parameters that puts, updates, removals and checks share.
type request struct {
	TableName, UpdateExpression, ConditionExpression *string
	Key, Item, ExpressionAttributeValues             item
	ExpressionAttributeNames                         map[string]string
}

// requestOf reads a write of one item, which may also have other fields.
func requestOf(in any, others ...string) (r request, err error) {
	from, to := reflect.Indirect(reflect.ValueOf(in)), reflect.ValueOf(&r).Elem()
	for i := range to.NumField() {
		name := to.Type().Field(i).Name
		if v := from.FieldByName(name); v.IsValid() {
			to.Field(i).Set(v)
			others = append(others, name)
		}
	}
	return r, understood(in, others...)
}

func (d *DynamoDB) prepare(r request) (*write, error) {
	t, err := d.table(r.TableName)
	if err != nil {
		return nil, err
	}
	w := &write{table: t, put: r.Item, env: env{names: r.ExpressionAttributeNames, values: r.ExpressionAttributeValues}, key: r.Key}
	if r.Item == nil {
		w.at, err = t.keyOnly(r.Key)
	} else if w.at, err = t.place(r.Item); err == nil {
		err = whole(r.Item)
	}
	if err != nil {
		return nil, err
	}
	if w.cond, err = d.cond(r.ConditionExpression); err != nil {
		return nil, err
	}
	if r.UpdateExpression != nil {
		if w.update, err = remembered(&d.updates, *r.UpdateExpression, parseUpdate); err != nil {
			return nil, err
		}
	}
	return w, w.env.check(w.cond, w.update)
}

// share returns the cost of a read as a share of a strong one. Only reads for a page may be weak.
func share(ctx context.Context, strong *bool) (float64, error) {
	switch {
	case aws.ToBool(strong):
		return 1, nil
	case glance.Of(ctx) != nil:
		return 0.5, nil
	}
	return 0, strange("a read that is not strong")
}

// consumed returns the cost of a request, if the request asks for it.
func consumed(count types.ReturnConsumedCapacity, units float64) *types.ConsumedCapacity {
	if count == "" {
		return nil
	}
	return &types.ConsumedCapacity{CapacityUnits: &units}
}

// answered drops the output if there is an error.
func answered[T any](out *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}

// alone makes a request of one write.
func (d *DynamoDB) alone(ctx context.Context, op string, in any, others ...string) (w *write, was, is item, err error) {
	r, bad := requestOf(in, others...)
	err = d.call(ctx, Call{op, aws.ToString(r.TableName), 1, true}, func(f *Fault) (err error) {
		if bad != nil {
			return bad
		}
		d.lock()
		defer d.mu.Unlock()
		if w, err = d.prepare(r); err == nil {
			w.remove = op == "DeleteItem"
			was, is, err = d.one(f, w)
		}
		return err
	})
	return w, was, is, err
}

// PutItem implements dynamo.DynamoDB.
func (d *DynamoDB) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	_, _, _, err := d.alone(ctx, "PutItem", in)
	return answered(&dynamodb.PutItemOutput{}, err)
}

// UpdateItem implements dynamo.DynamoDB.
func (d *DynamoDB) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (
	*dynamodb.UpdateItemOutput, error,
) {
	w, was, is, err := d.alone(ctx, "UpdateItem", in, "ReturnValues")
	if err != nil {
		return nil, err
	}
	out := &dynamodb.UpdateItemOutput{}
	switch in.ReturnValues {
	case "":
	case types.ReturnValueAllOld:
		out.Attributes = copied(was)
	case types.ReturnValueUpdatedNew:
		out.Attributes = item{}
		for _, s := range slices.Concat(w.update.sets, w.update.adds) {
			n := w.env.name(s.name)
			out.Attributes[n] = copiedValue(is[n])
		}
	default:
		d.report("ReturnValues %s of an update", in.ReturnValues)
	}
	return out, nil
}

// DeleteItem implements dynamo.DynamoDB.
func (d *DynamoDB) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (
	*dynamodb.DeleteItemOutput, error,
) {
	_, _, _, err := d.alone(ctx, "DeleteItem", in)
	return answered(&dynamodb.DeleteItemOutput{}, err)
}

// BatchGetItem implements dynamo.DynamoDB. The result is not a snapshot: it can have a concurrent write of one item
// and miss a concurrent write of another item.
func (d *DynamoDB) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput,
	_ ...func(*dynamodb.Options)) (out *dynamodb.BatchGetItemOutput, err error) {
	var name string
	var of types.KeysAndAttributes
	for name, of = range in.RequestItems {
	}
	err = d.call(ctx, Call{Op: "BatchGetItem", On: name, N: len(of.Keys)}, func(f *Fault) error {
		if err := understood(in, "RequestItems", "ReturnConsumedCapacity"); err != nil {
			return err
		}
		if err := understood(of, "Keys", "ConsistentRead"); err != nil {
			return err
		}
		if len(in.RequestItems) != 1 {
			return strange("a read of several tables")
		}
		part, err := share(ctx, of.ConsistentRead)
		if err != nil {
			return err
		}
		if n := len(of.Keys); n < 1 || n > 100 {
			return invalid("Too many items requested for the BatchGetItem call: %d", n)
		}
		out = &dynamodb.BatchGetItemOutput{Responses: map[string][]item{name: {}}, UnprocessedKeys: map[string]types.KeysAndAttributes{}}
		seen := map[place]bool{}
		size, units := 0, 0.0
		use := func(t *table, p place, n float64) {
			d.use(t, p.hash, part*n, 0)
			units += part * n
		}
		for i, k := range of.Keys {
			if i > 0 && f.Between != nil {
				f.Between()
			}
			err := func() error {
				d.lock()
				defer d.mu.Unlock()
				t, err := d.table(&name)
				if err != nil {
					return err
				}
				p, err := t.keyOnly(k)
				if err != nil {
					return err
				}
				if seen[p] {
					return invalid("Provided list of item keys contains duplicates")
				}
				seen[p] = true
				if f.Part != nil && f.Part(i) || size > 16<<20 || !f.served(&t.room, p.hash, false) {
					left := out.UnprocessedKeys[name]
					left.ConsistentRead = of.ConsistentRead
					left.Keys = append(left.Keys, copied(k))
					out.UnprocessedKeys[name] = left
					return nil
				}
				e := t.get(p)
				if e == nil {
					use(t, p, 1)
					return nil
				}
				size += e.size
				use(t, p, readUnits(e.size))
				out.Responses[name] = append(out.Responses[name], copied(e.it))
				return nil
			}()
			if err != nil {
				return err
			}
		}
		// They come in no order.
		slices.Reverse(out.Responses[name])
		if c := consumed(in.ReturnConsumedCapacity, units); c != nil {
			out.ConsumedCapacity = []types.ConsumedCapacity{*c}
		}
		return nil
	})
	return answered(out, err)
}

// BatchWriteItem implements dynamo.DynamoDB.
func (d *DynamoDB) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput,
	_ ...func(*dynamodb.Options)) (out *dynamodb.BatchWriteItemOutput, err error) {
	var name string
	var list []types.WriteRequest
	for name, list = range in.RequestItems {
	}
	err = d.call(ctx, Call{"BatchWriteItem", name, len(list), true}, func(f *Fault) error {
		if err := understood(in, "RequestItems"); err != nil {
			return err
		}
		if len(in.RequestItems) != 1 {
			return strange("writes of %d tables", len(in.RequestItems))
		}
		if n := len(list); n < 1 || n > 25 {
			return invalid("1 validation error detected: %d writes", n)
		}
		d.lock()
		defer d.mu.Unlock()
		writes := make([]*write, len(list))
		seen := map[place]bool{}
		for i, r := range list {
			var err error
			switch {
			case r.PutRequest != nil && r.DeleteRequest == nil:
				writes[i], err = d.prepare(request{TableName: &name, Item: r.PutRequest.Item})
			case r.DeleteRequest != nil && r.PutRequest == nil:
				if writes[i], err = d.prepare(request{TableName: &name, Key: r.DeleteRequest.Key}); err == nil {
					writes[i].remove = true
				}
			default:
				err = strange("a write that is neither a put nor a removal")
			}
			if err != nil {
				return err
			}
			if seen[writes[i].at] {
				return invalid("Provided list of item keys contains duplicates")
			}
			seen[writes[i].at] = true
			if _, _, err := d.judge(writes[i]); err != nil {
				return err
			}
		}
		out = &dynamodb.BatchWriteItemOutput{UnprocessedItems: map[string][]types.WriteRequest{}}
		for i, w := range writes {
			if f.Part != nil && f.Part(i) || d.busy[w.spot()] {
				out.UnprocessedItems[name] = append(out.UnprocessedItems[name], list[i])
				continue
			}
			switch _, _, err := d.one(f, w); {
			case IsThrottled(err):
				out.UnprocessedItems[name] = append(out.UnprocessedItems[name], list[i])
			case err != nil:
				return err
			}
		}
		return nil
	})
	return answered(out, err)
}

// TransactWriteItems implements dynamo.DynamoDB.
func (d *DynamoDB) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput,
	_ ...func(*dynamodb.Options)) (out *dynamodb.TransactWriteItemsOutput, err error) {
	writes, bad := d.actions(in)
	held, clash := d.hold(writes)
	defer d.free(held)
	err = d.call(ctx, Call{"TransactWriteItems", "", len(in.TransactItems), true}, func(f *Fault) error {
		if bad != nil {
			return bad
		}
		for i := range writes {
			if err := d.Allow.denied(ctx, needed(&in.TransactItems[i]), writes[i].table.name); err != nil {
				return err
			}
		}
		d.lock()
		defer d.mu.Unlock()
		was, is := make([]item, len(writes)), make([]item, len(writes))
		reasons := make([]types.CancellationReason, len(writes))
		failed := false
		for i, w := range writes {
			var err error
			reasons[i].Code = aws.String("None")
			switch {
			case clash != nil && clash[i]:
				err = conflict()
			case clash == nil:
				was[i], is[i], err = d.judge(w)
				if !f.served(&w.table.room, w.at.hash, true) || err == nil && !w.table.index.serves(f, was[i], is[i]) {
					err = Throttled()
				}
			}
			if isA[*unknown](err) {
				return err
			}
			if err != nil {
				failed = true
				reasons[i].Code, reasons[i].Message = aws.String(reason(err)), aws.String(err.Error())
			}
		}
		if failed {
			for i := range writes {
				d.use(writes[i].table, writes[i].at.hash, 0, 2*writeUnits(sizeOf(was[i])))
			}
			return &types.TransactionCanceledException{Message: aws.String("Transaction cancelled, please refer cancellation reasons for " +
				"specific reasons"), CancellationReasons: reasons}
		}
		for i, w := range writes {
			d.commit(w, was[i], is[i], 2)
		}
		out = &dynamodb.TransactWriteItemsOutput{}
		return nil
	})
	return answered(out, err)
}

// actions parses the actions of a transaction.
func (d *DynamoDB) actions(in *dynamodb.TransactWriteItemsInput) ([]*write, error) {
	if err := understood(in, "TransactItems"); err != nil {
		return nil, err
	}
	if n := len(in.TransactItems); n < 1 || n > 100 {
		return nil, invalid("Member must have length less than or equal to 100: %d actions", n)
	}
	d.lock()
	defer d.mu.Unlock()
	writes := make([]*write, len(in.TransactItems))
	seen := map[spot]bool{}
	for i, a := range in.TransactItems {
		w, err := d.action(&a)
		if err != nil {
			return nil, err
		}
		if seen[w.spot()] {
			return nil, invalid("Transaction request cannot include multiple operations on one item")
		}
		seen[w.spot()] = true
		writes[i] = w
	}
	return writes, nil
}

// hold locks the items of a transaction; clash marks items that another holds.
func (d *DynamoDB) hold(writes []*write) (held []spot, clash []bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, w := range writes {
		if d.busy[w.spot()] {
			if clash == nil {
				clash = make([]bool, len(writes))
			}
			clash[i] = true
		}
	}
	if clash != nil {
		return nil, clash
	}
	if d.busy == nil {
		d.busy = map[spot]bool{}
	}
	for _, w := range writes {
		d.busy[w.spot()] = true
		held = append(held, w.spot())
	}
	return held, nil
}

func (d *DynamoDB) free(held []spot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range held {
		delete(d.busy, at)
	}
}

// needed is the action that an item of a transaction needs.
func needed(a *types.TransactWriteItem) string {
	switch {
	case a.Put != nil:
		return "PutItem"
	case a.Update != nil:
		return "UpdateItem"
	case a.Delete != nil:
		return "DeleteItem"
	}
	return "ConditionCheckItem"
}

func (d *DynamoDB) action(a *types.TransactWriteItem) (*write, error) {
	var in any
	n := 0
	for _, one := range []any{a.Put, a.Update, a.Delete, a.ConditionCheck} {
		if !reflect.ValueOf(one).IsNil() {
			in, n = one, n+1
		}
	}
	if n != 1 {
		return nil, invalid("TransactItems can only contain one of Check, Put, Update or Delete")
	}
	r, err := requestOf(in)
	if err != nil {
		return nil, err
	}
	w, err := d.prepare(r)
	if err != nil {
		return nil, err
	}
	w.remove, w.check = a.Delete != nil, a.ConditionCheck != nil
	return w, nil
}

// BatchExecuteStatement implements dynamo.DynamoDB.
func (d *DynamoDB) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput,
	_ ...func(*dynamodb.Options)) (out *dynamodb.BatchExecuteStatementOutput, err error) {
	name := ""
	if len(in.Statements) > 0 {
		if st, err := d.statement(aws.ToString(in.Statements[0].Statement)); err == nil {
			name = st.table
		}
	}
	err = d.call(ctx, Call{"BatchExecuteStatement", name, len(in.Statements), true}, func(f *Fault) error {
		if err := understood(in, "Statements"); err != nil {
			return err
		}
		if n := len(in.Statements); n < 1 || n > 25 {
			return invalid("1 validation error detected: Value at 'statements' failed to satisfy constraint: %d statements", n)
		}
		d.lock()
		defer d.mu.Unlock()
		seen := map[spot]bool{}
		writes := make([]*write, len(in.Statements))
		errs := make([]error, len(in.Statements))
		for i := range in.Statements {
			if err := understood(&in.Statements[i], "Statement", "Parameters"); err != nil {
				return err
			}
			st, err := remembered(&d.statements, aws.ToString(in.Statements[i].Statement), parseStatement)
			if err != nil {
				return err
			}
			action := "PartiQLUpdate"
			if st.insert != nil {
				action = "PartiQLInsert"
			}
			if err := d.Allow.denied(ctx, action, st.table); err != nil {
				return err
			}
			writes[i], errs[i] = d.partiql(st, in.Statements[i].Parameters)
			if isA[*unknown](errs[i]) {
				return errs[i]
			}
			if errs[i] != nil {
				continue
			}
			if seen[writes[i].spot()] {
				return invalid("Batch statements are not allowed to contain several statements of one item")
			}
			seen[writes[i].spot()] = true
		}
		out = &dynamodb.BatchExecuteStatementOutput{Responses: make([]types.BatchStatementResponse, len(writes))}
		for i, w := range writes {
			err := errs[i]
			switch {
			case f.Part != nil && f.Part(i):
				err = Throttled()
			case err == nil:
				_, _, err = d.one(f, w)
			}
			if isA[*unknown](err) {
				return err
			}
			out.Responses[i].TableName = aws.String(name)
			out.Responses[i].Error = statementError(err, err == nil || w == nil || w.put == nil)
		}
		return nil
	})
	return answered(out, err)
}

func (d *DynamoDB) statement(text string) (*statement, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return remembered(&d.statements, text, parseStatement)
}

// reason is the code of the error of one item of a request.
func reason(err error) string {
	api, _ := errors.AsType[smithy.APIError](err) // as all but unknown are
	code := strings.TrimSuffix(api.ErrorCode(), "Exception")
	if code == "Validation" || code == "Throttling" {
		code += "Error"
	}
	return code
}

func statementError(err error, update bool) *types.BatchStatementError {
	if err == nil {
		return nil
	}
	code := types.BatchStatementErrorCodeEnum(reason(err))
	if code == types.BatchStatementErrorCodeEnumConditionalCheckFailed && !update {
		code = types.BatchStatementErrorCodeEnumDuplicateItem
	}
	return &types.BatchStatementError{Code: code, Message: aws.String(err.Error())}
}

// partiql makes the write of a statement: an insert is a put where there is
// none, an update has the whole key among its conditions and finds its item.
func (d *DynamoDB) partiql(st *statement, params []types.AttributeValue) (*write, error) {
	t, err := d.table(&st.table)
	if err != nil {
		return nil, err
	}
	if len(params) != st.params {
		return nil, invalid("Number of parameters in request and statement don't match.")
	}
	w := &write{table: t, env: env{params: params}, update: st.update}
	if st.insert != nil {
		w.put = item{}
		for _, s := range st.insert {
			if _, twice := w.put[s.name.text]; twice {
				return nil, invalid("Item with the name %s more than once", s.name.text)
			}
			w.put[s.name.text] = w.env.value(s.value)
		}
		if err := whole(w.put); err != nil {
			return nil, err
		}
		w.cond = &cond{op: "missing", args: []operand{{kind: '"', text: t.hash.name}}}
		w.at, err = t.place(w.put)
		return w, err
	}
	if err := w.env.check(st.where, st.update); err != nil {
		return nil, err
	}
	if len(st.update.sets)+len(st.update.removes) == 0 {
		return nil, strange("an update that does nothing")
	}
	list := []*cond{st.where}
	if st.where.op == "and" {
		list = st.where.subs
	}
	w.key = item{}
	for _, c := range list {
		if c.op == "or" {
			return nil, strange("an \"or\" beside the key of a statement: not all that stand in for DynamoDB find the key then")
		}
		if c.op == "=" {
			if n := w.env.name(c.args[0]); n == t.hash.name || n == t.sort.name {
				w.key[n] = w.env.value(c.args[1])
			}
		}
	}
	if w.at, err = t.keyOnly(w.key); err != nil {
		return nil, invalid("Where clause does not contain a mandatory equality on all key attributes")
	}
	// The key is among the conditions, so that an item that is not there fails them.
	w.cond = st.where
	return w, nil
}

// Query implements dynamo.DynamoDB.
func (d *DynamoDB) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (out *dynamodb.QueryOutput,
	err error) {
	on := aws.ToString(in.TableName)
	if in.IndexName != nil {
		on += "/" + *in.IndexName
	}
	err = d.call(ctx, Call{Op: "Query", On: on, N: 1}, func(f *Fault) error {
		if err := understood(in, "TableName", "IndexName", "KeyConditionExpression", "ExpressionAttributeNames",
			"ExpressionAttributeValues", "Limit", "ExclusiveStartKey", "ScanIndexForward", "ConsistentRead", "ReturnConsumedCapacity"); err != nil {
			return err
		}
		d.lock()
		defer d.mu.Unlock()
		out, err = d.query(in, f, glance.Of(ctx) != nil)
		return err
	})
	return answered(out, err)
}

func (d *DynamoDB) query(in *dynamodb.QueryInput, f *Fault, page bool) (*dynamodb.QueryOutput, error) {
	t, err := d.table(in.TableName)
	if err != nil {
		return nil, err
	}
	hash, sort := t.hash, t.sort
	if in.IndexName != nil {
		if t.index == nil || t.index.name != *in.IndexName {
			return nil, invalid("The table does not have the specified index: %s", *in.IndexName)
		}
		if aws.ToBool(in.ConsistentRead) {
			return nil, invalid("Consistent reads are not supported on global secondary indexes")
		}
		hash, sort = t.index.hash, t.index.sort
	}
	if in.Limit != nil && *in.Limit < 1 {
		return nil, invalid("Limit %d: it is at least 1", *in.Limit)
	}
	e := env{names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues}
	keys, err := d.cond(in.KeyConditionExpression)
	if err != nil {
		return nil, err
	}
	if err := e.check(keys, nil); err != nil {
		return nil, err
	}
	part, err := keyCondition(&e, keys, hash, sort)
	if err != nil {
		return nil, err
	}
	weak := !aws.ToBool(in.ConsistentRead)
	if weak && in.IndexName == nil && part.s != "health" && !page { // slow items and pages may be read late
		return nil, strange("a read of a table that is not strong")
	}
	room := &t.room
	if in.IndexName != nil {
		room = &t.index.room
	}
	if !f.served(room, part, false) {
		return nil, Throttled()
	}
	var rows []placed
	if in.IndexName != nil {
		rows = t.index.at(part, time.Now().Add(-f.Stale))
	} else {
		for _, o := range t.parts[part] {
			rows = append(rows, placed{sort: o.sort, of: place{part, o.sort}, it: o.it})
		}
	}
	back := in.ScanIndexForward != nil && !*in.ScanIndexForward
	if back {
		slices.Reverse(rows)
	}
	from := 0
	if len(in.ExclusiveStartKey) > 0 {
		start, err := startRow(in, t, part, hash, sort)
		if err != nil {
			return nil, err
		}
		for from < len(rows) && (!back && rows[from].order(start) <= 0 || back && rows[from].order(start) >= 0) {
			from++
		}
	}
	out := &dynamodb.QueryOutput{}
	most := len(rows) + 1
	for _, n := range []int{int(aws.ToInt32(in.Limit)), f.Short} {
		if n > 0 {
			most = min(most, n)
		}
	}
	size := 0
	for ; from < len(rows); from++ {
		r := rows[from]
		if !e.holds(keys, r.it) {
			continue
		}
		size += sizeOf(r.it)
		out.Items = append(out.Items, copied(r.it))
		if len(out.Items) >= most || size >= pageBytes {
			out.LastEvaluatedKey = item{}
			for _, n := range []string{t.hash.name, t.sort.name, hash.name, sort.name} {
				out.LastEvaluatedKey[n] = copiedValue(r.it[n])
			}
			break
		}
	}
	out.Count, out.ScannedCount = int32(len(out.Items)), int32(len(out.Items))
	units := readUnits(size)
	if weak {
		units /= 2
	}
	d.meter.add(units, 0, 0)
	room.takes(part, time.Now(), units, 0)
	out.ConsumedCapacity = consumed(in.ReturnConsumedCapacity, units)
	return out, nil
}

// keyCondition accepts an equality of the hash key, and at most one condition of the sort key:
// a key condition can have no other form.
func keyCondition(e *env, c *cond, hash, sort key) (part value, err error) {
	if c == nil {
		return part, invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified")
	}
	list := []*cond{c}
	if c.op == "and" {
		list = c.subs
	}
	hashes := 0
	for _, s := range list {
		switch n := s.op; {
		case n == "or" || n == "and" || n == "in" || n == "missing" || n == "exists":
			return part, invalid("Invalid operator used in KeyConditionExpression: %s", n)
		case e.name(s.args[0]) == hash.name && n == "=":
			hashes++
			if part, err = hash.of(item{hash.name: e.value(s.args[1])}); err != nil {
				return part, err
			}
		case e.name(s.args[0]) != sort.name:
			return part, invalid("Query key condition not supported: %s", e.name(s.args[0]))
		default:
			for _, a := range s.args[1:] {
				if _, err := sort.of(item{sort.name: e.value(a)}); err != nil {
					return part, err
				}
			}
			if n == "between" {
				if over := less(e.value(s.args[2]), e.value(s.args[1])); over {
					return part, invalid("The BETWEEN operator requires upper bound to be greater than or equal to lower bound")
				}
			}
		}
	}
	if hashes != 1 || len(list) > 2 {
		return part, invalid("Query condition missed key schema element: %s", hash.name)
	}
	return part, nil
}

func startRow(in *dynamodb.QueryInput, t *table, part value, hash, sort key) (r placed, err error) {
	k := in.ExclusiveStartKey
	want := 2
	if in.IndexName != nil {
		want = 4
	}
	if len(k) != want {
		return r, invalid("The provided starting key is invalid")
	}
	if h, err := hash.of(k); err != nil || h != part {
		return r, invalid("The provided starting key is outside query boundaries")
	}
	if r.sort, err = sort.of(k); err != nil {
		return r, err
	}
	r.of, err = t.place(k)
	return r, err
}
