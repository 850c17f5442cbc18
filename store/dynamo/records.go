package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// A record is an item of the state table: its kind is in "of", its name in "key". The definitions of jobs are in the jobs table, in
// "id" and "part": a table that AWS restores then has both items of a job from one moment.

func isDef(k store.Key) bool { return strings.HasPrefix(k.Kind, store.JobDefs.Kind+"#") }

func recordKey(k store.Key) item {
	if isDef(k) {
		return item{"id": text(k.Kind), "part": text(k.Name)}
	}
	return stateKey(k.Kind, k.Name)
}

func (s *Store) tableOf(k store.Key) string {
	if isDef(k) {
		return s.o.Names.Jobs
	}
	return s.o.Names.State
}

func decodeRecord(it item) (r store.Record) {
	r.Key = store.Key{Kind: stringOf(it, "of") + stringOf(it, "id"), Name: stringOf(it, "key") + stringOf(it, "part")}
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

// Get implements store.Records. Several reads of a page can share the read of one record.
func (s *Store) Get(ctx context.Context, keys ...store.Key) (map[store.Key]store.Record, error) {
	if len(keys) != 1 {
		return s.records(ctx, keys)
	}
	found, err := once(ctx, fmt.Sprintf("one %s %s", keys[0].Kind, keys[0].Name), func() (map[store.Key]store.Record, error) {
		return s.records(ctx, keys)
	})
	return maps.Clone(found), err
}

// records reads records of one table.
func (s *Store) records(ctx context.Context, keys []store.Key) (map[store.Key]store.Record, error) {
	found := make(map[store.Key]store.Record, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	unread, err := s.get(ctx, s.tableOf(keys[0]), keysOf(keys, recordKey), func(it item) error {
		r := decodeRecord(it)
		found[r.Key] = r
		return nil
	})
	for i := range unread {
		found[keys[i]] = store.Record{Key: keys[i], Err: core.ErrThrottled}
	}
	return found, err
}

// List implements store.Records. A page reads a list once.
func (s *Store) List(ctx context.Context, kind, after, before string, limit int) ([]store.Record, error) {
	list, err := once(ctx, fmt.Sprintf("list %s %q %q %d", kind, after, before, limit), func() ([]store.Record, error) {
		return s.list(ctx, kind, after, before, limit)
	})
	return slices.Clone(list), err
}

func (s *Store) list(ctx context.Context, kind, after, before string, limit int) (list []store.Record, err error) {
	low := after + "\x00" // the first name after it
	e := equal("of", text(kind))
	switch {
	case before == "" && after != "":
		e.any(where("key", ">", text(after)))
	case before != "" && low >= before:
		return nil, ctx.Err()
	case before != "":
		e.any(where("key", "BETWEEN", text(low), text(before)))
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
	var free []store.Write
	var of, bound []int // indices of groups
	for i := range groups {
		g := &groups[i]
		switch errs[i] = g.Check(); {
		case errs[i] != nil:
		case len(g.Writes) == 0:
			for k := range g.Changes {
				for _, w := range s.changeWrites(&g.Changes[k]) {
					free, of = append(free, w), append(of, i)
				}
			}
		case len(groups) > 1 && len(g.Writes) == 1 && len(g.Changes) == 0 && g.Writes[0].Was == store.Any && !deletesApp(g.Writes[0]):
			free, of = append(free, g.Writes[0]), append(of, i)
		default:
			bound = append(bound, i)
		}
	}
	for k, err := range s.batchWrite(ctx, s.o.Names.State, s.recordsOf(free, 0)) {
		errs[of[k]] = cmp.Or(errs[of[k]], err)
	}
	store.AtOnce(len(bound), func(k int) { errs[bound[k]] = s.writeGroup(ctx, &groups[bound[k]]) })
	return errs
}

// changeWrites returns the writes of a change record.
func (s *Store) changeWrites(c *core.Change) []store.Write {
	return store.ChangeWrites(c, s.o.Now().Add(core.Keep{}.For()))
}

func (s *Store) writeGroup(ctx context.Context, g *store.Group) error {
	if i := slices.IndexFunc(g.Writes, deletesApp); i >= 0 {
		return s.deleteApp(ctx, g, &g.Writes[i])
	}
	return s.transact(ctx, append(s.changesOf(g.Changes), s.recordsOf(g.Writes, 0)...)...)
}

// recordsOf returns the writes of records. An app is deleted on the condition that it is marked as leaving until the given time.
func (s *Store) recordsOf(writes []store.Write, leaving int64) (list []write) {
	for k := range writes {
		w, e := &writes[k], condition(&writes[k])
		if deletesApp(*w) {
			e.equals("leaving", number(leaving))
		}
		if w.Delete {
			list = append(list, e.to(deleteItem, s.tableOf(w.Key), recordKey(w.Key)))
		} else {
			list = append(list, e.to(putItem, s.tableOf(w.Key), encodeRecord(&w.Record)))
		}
	}
	return list
}

// deletion returns the write that deletes a record without a condition.
func deletion(k store.Key) store.Write {
	return store.Write{Record: store.Record{Key: k}, Was: store.Any, Delete: true}
}

// condition returns the condition of a write.
func condition(w *store.Write) *expr {
	switch w.Was {
	case store.Any:
		return &expr{}
	case store.Lower:
		return when(has("v", nil), where("v", "<", number(w.V)))
	case store.Absent:
		return none("v")
	}
	return equal("v", number(w.Was))
}
