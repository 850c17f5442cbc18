package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/store"
)

// A record is an item of the state table: its kind is in "of", its name in "key".

func recordKey(k store.Key) item { return stateKey(k.Kind, k.Name) }

func decodeRecord(it item) (r store.Record) {
	r.Key = store.Key{Kind: stringOf(it, "of"), Name: stringOf(it, "key")}
	r.V, r.Err = intOf(it, "v")
	if it["expires"] != nil && r.Err == nil {
		var at int64
		at, r.Err = intOf(it, "expires")
		r.Expires = time.Unix(at, 0).UTC()
	}
	switch body := it["body"].(type) {
	case *types.AttributeValueMemberS:
		r.Body = []byte(body.Value)
	case *types.AttributeValueMemberB:
		r.Body = body.Value
	}
	return r
}

func decodeJournal(it item) (core.Journal, error) {
	r := decodeRecord(it)
	return store.DecodeJournal(&r)
}

// encodeRecord stores a body as text if possible, so that users can read it in the console of AWS.
func encodeRecord(r *store.Record) item {
	it := recordKey(r.Key)
	it["v"] = number(r.V)
	switch {
	case len(r.Body) == 0: // DynamoDB has no reason to store it
	case utf8.Valid(r.Body):
		it["body"] = text(string(r.Body))
	default:
		it["body"] = &types.AttributeValueMemberB{Value: r.Body}
	}
	if !r.Expires.IsZero() {
		it["expires"] = number(r.Expires.Unix())
	}
	return it
}

// Get implements store.Records.
func (s *Store) Get(ctx context.Context, keys ...store.Key) (map[store.Key]store.Record, error) {
	found := make(map[store.Key]store.Record, len(keys))
	take := func(it item) error {
		r := decodeRecord(it)
		found[r.Key] = r
		return nil
	}
	if len(keys) == 1 { // several reads of a page can share it
		it, err := s.one(ctx, recordKey(keys[0]))
		switch {
		case errors.Is(err, core.ErrThrottled):
			found[keys[0]], err = store.Record{Key: keys[0], Err: err}, nil
		case it != nil:
			err = take(it)
		}
		return found, err
	}
	items := make([]item, len(keys))
	for i, k := range keys {
		items[i] = recordKey(k)
	}
	unread, err := s.get(ctx, s.o.Names.State, items, take)
	for i := range unread {
		found[keys[i]] = store.Record{Key: keys[i], Err: core.ErrThrottled}
	}
	return found, err
}

// List implements store.Records. A page reads a list once.
func (s *Store) List(ctx context.Context, kind, after, before string, limit int) ([]store.Record, error) {
	g := glance.Of(ctx)
	if g == nil {
		return s.list(ctx, kind, after, before, limit)
	}
	list, err := g.Once(fmt.Sprintf("list %s %q %q %d", kind, after, before, limit), func() (any, error) {
		return s.list(ctx, kind, after, before, limit)
	})
	if err != nil {
		return nil, err
	}
	return slices.Clone(list.([]store.Record)), nil
}

func (s *Store) list(ctx context.Context, kind, after, before string, limit int) (list []store.Record, err error) {
	low := after + "\x00" // the first name after it
	e := equal("of", text(kind))
	switch {
	case before == "" && after != "":
		e.test("key", ">", text(after))
	case before != "" && low >= before:
		return nil, ctx.Err()
	case before != "":
		e.between("key", low, before)
	}
	in := e.query(s.o.Names.State)
	in.Limit, in.ConsistentRead = aws.Int32(int32(limit)), aws.Bool(kind != store.KindHealth) // a strong read costs twice as much
	err = s.query(ctx, in, func(it item) (bool, error) {
		r := decodeRecord(it)
		if r.Name == before { // BETWEEN includes it
			return false, nil
		}
		list = append(list, r)
		return len(list) < limit, nil
	})
	return list, err
}

// Write implements store.Records. A group of one record is a plain write, which costs half of a transaction; such records
// without conditions are written 25 at a time. So are change records alone: a repeated write completes them.
func (s *Store) Write(ctx context.Context, groups ...store.Group) []error {
	if err := s.keepJournals(ctx, groups); err != nil {
		return slices.Repeat([]error{err}, len(groups))
	}
	errs := make([]error, len(groups))
	var free []freeWrite
	var bound []int // indices of groups
	for i := range groups {
		g := &groups[i]
		switch errs[i] = g.Check(); {
		case errs[i] != nil:
		case len(g.Writes) == 0:
			for k := range g.Changes {
				for _, w := range s.changeWrites(&g.Changes[k]) {
					free = append(free, freeWrite{w, i})
				}
			}
		case len(groups) > 1 && len(g.Writes) == 1 && len(g.Changes) == 0 && g.Writes[0].Was == store.Any && !deletesApp(g.Writes[0]):
			free = append(free, freeWrite{g.Writes[0], i})
		default:
			bound = append(bound, i)
		}
	}
	s.writeFree(ctx, free, errs)
	s.parallel(len(bound), func(k int) { errs[bound[k]] = s.writeGroup(ctx, &groups[bound[k]]) })
	return errs
}

// changeWrites returns the writes of a change record.
func (s *Store) changeWrites(c *core.Change) []store.Write {
	return store.ChangeWrites(c, s.o.Now().Add(s.o.KeepRuns))
}

// freeWrite is a write without a condition, and the index of its group.
type freeWrite struct {
	store.Write
	group int
}

// writeFree makes writes without a condition. The last write of a record counts.
func (s *Store) writeFree(ctx context.Context, free []freeWrite, errs []error) {
	if len(free) == 0 {
		return
	}
	last := map[store.Key]int{}
	for i := range free {
		last[free[i].Key] = i
	}
	writes, keys := make([]types.WriteRequest, len(free)), make([]string, len(free))
	for i := range free {
		w := &free[last[free[i].Key]]
		keys[i] = w.Kind + "\x00" + w.Name
		if w.Delete {
			writes[i].DeleteRequest = &types.DeleteRequest{Key: recordKey(w.Key)}
		} else {
			writes[i].PutRequest = &types.PutRequest{Item: encodeRecord(&w.Record)}
		}
	}
	for i, err := range s.batchWrite(ctx, s.o.Names.State, writes, keys) {
		errs[free[i].group] = cmp.Or(errs[free[i].group], err)
	}
}

func (s *Store) writeGroup(ctx context.Context, g *store.Group) error {
	if i := slices.IndexFunc(g.Writes, deletesApp); i >= 0 {
		return s.deleteApp(ctx, g, &g.Writes[i])
	}
	if len(g.Writes) == 1 && len(g.Changes) == 0 {
		w := &g.Writes[0]
		if w.Delete {
			return s.deleteIf(ctx, recordKey(w.Key), condition(w))
		}
		return s.putIf(ctx, encodeRecord(&w.Record), condition(w))
	}
	return s.transact(ctx, append(s.changesActions(g.Changes), s.recordActions(g.Writes, 0)...))
}

// recordActions make writes. An app is deleted on the condition that it is marked as leaving until the given time.
func (s *Store) recordActions(writes []store.Write, leaving int64) (actions []types.TransactWriteItem) {
	for k := range writes {
		w, e := &writes[k], condition(&writes[k])
		switch {
		case !w.Delete:
			actions = append(actions, e.put(s.o.Names.State, encodeRecord(&w.Record)))
		case deletesApp(*w):
			e.equals("leaving", number(leaving))
			fallthrough
		default:
			actions = append(actions, e.delete(s.o.Names.State, recordKey(w.Key)))
		}
	}
	return actions
}

// condition returns the condition of a write.
func condition(w *store.Write) *expr {
	switch w.Was {
	case store.Any:
		return &expr{}
	case store.Lower:
		return noneOr("v", "<", number(w.V))
	}
	return was("v", w.Was)
}
