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
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/store"
)

// A record is an item of the state table: its kind is in "of", its name in "key". The definitions of jobs are in the jobs table, in
// "id" and "part": a table that AWS restores then has both items of a job from one moment.

func isDef(k store.Key) bool { return strings.HasPrefix(k.Kind, store.JobDefs.Kind+"#") }

func recordKey(k store.Key) item {
	if isDef(k) {
		return item{"id": items.Text(k.Kind), "part": items.Text(k.Name)}
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
	r.Key = store.Key{Kind: items.TextOf(it, "of") + items.TextOf(it, "id"), Name: items.TextOf(it, "key") + items.TextOf(it, "part")}
	r.V, r.Err = items.IntOf(it, "v")
	if it["expires"] != nil && r.Err == nil {
		var at int64
		at, r.Err = items.IntOf(it, "expires")
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
	it["v"] = items.Number(r.V)
	switch {
	case len(r.Body) == 0: // DynamoDB has no reason to store it
	case utf8.Valid(r.Body):
		it["body"] = items.Text(string(r.Body))
	default:
		it["body"] = &types.AttributeValueMemberB{Value: r.Body}
	}
	if !r.Expires.IsZero() {
		it["expires"] = items.Number(r.Expires.Unix())
	}
	return it
}

// Get implements store.Records. Several reads of a page can share the read of one record.
func (s *Store) Get(ctx context.Context, keys ...store.Key) (map[store.Key]store.Record, error) {
	if len(keys) != 1 {
		return s.records(ctx, keys)
	}
	found, err := glance.Once(ctx, fmt.Sprintf("one %s %s", keys[0].Kind, keys[0].Name), func() (map[store.Key]store.Record, error) {
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
	unread, err := s.db.Get(ctx, s.tableOf(keys[0]), each(keys, recordKey), func(it item) error {
		r := decodeRecord(it)
		found[r.Key] = r
		return nil
	})
	for _, i := range unread {
		found[keys[i]] = store.Record{Key: keys[i], Err: core.ErrThrottled}
	}
	return found, err
}

// List implements store.Records. A page reads a list once.
func (s *Store) List(ctx context.Context, kind, after, before string, limit int) ([]store.Record, error) {
	list, err := glance.Once(ctx, fmt.Sprintf("list %s %q %q %d", kind, after, before, limit), func() ([]store.Record, error) {
		return s.list(ctx, kind, after, before, limit)
	})
	return slices.Clone(list), err
}

func (s *Store) list(ctx context.Context, kind, after, before string, limit int) ([]store.Record, error) {
	low, high := after+"\x00", cmp.Or(before, lastName) // low is the first name after it
	if low >= high {
		return nil, ctx.Err()
	}
	in := items.Equal("of", items.Text(kind)).And(items.Where("key", "BETWEEN", items.Text(low), items.Text(high))).Query(s.o.Names.State)
	in.ConsistentRead = aws.Bool(kind != store.KindHealth) // a strong read costs twice as much
	list, err := items.List(ctx, &s.db, in, limit, func(it item) (store.Record, error) { return decodeRecord(it), nil })
	if n := len(list); n > 0 && list[n-1].Name == before { // BETWEEN includes it
		list = list[:n-1]
	}
	return list, err
}

// lastName is the last of all names.
var lastName = strings.Repeat("\U0010FFFF", store.MaxName/4)

// Write implements store.Records. A group of one record is a plain write, which costs half of a transaction; such records
// without conditions are written 25 at a time. So are change records alone: a repeated write completes them.
func (s *Store) Write(ctx context.Context, groups ...store.Group) []error {
	errs := make([]error, len(groups))
	var free []store.Write
	var of, bound []int // indices of groups
	for i := range groups {
		g := &groups[i]
		switch errs[i] = g.Check(); {
		case errs[i] != nil:
		case len(g.Writes) == 0:
			for _, w := range s.changeWrites(g.Changes) {
				free, of = append(free, w), append(of, i)
			}
		case len(groups) > 1 && len(g.Writes) == 1 && len(g.Changes) == 0 && g.Writes[0].Was == store.Any && !deletesApp(g.Writes[0]):
			free, of = append(free, g.Writes[0]), append(of, i)
		default:
			bound = append(bound, i)
		}
	}
	for k, err := range s.db.BatchWrite(ctx, s.o.Names.State, s.recordsOf(free)) {
		errs[of[k]] = cmp.Or(errs[of[k]], err)
	}
	store.AtOnce(len(bound), func(k int) { errs[bound[k]] = s.writeGroup(ctx, &groups[bound[k]]) })
	return errs
}

// changeWrites returns the writes of change records: for the history of each job, and of its app.
func (s *Store) changeWrites(changes []core.Change) (list []store.Write) {
	for i := range changes {
		list = append(list, store.ChangeWrites(&changes[i], s.o.Now().Add(core.Keep{}.For()))...)
	}
	return list
}

func (s *Store) writeGroup(ctx context.Context, g *store.Group) error {
	if i := slices.IndexFunc(g.Writes, deletesApp); i >= 0 {
		return s.deleteApp(ctx, g, &g.Writes[i])
	}
	return s.db.Transact(ctx, s.recordsOf(append(s.changeWrites(g.Changes), g.Writes...))...)
}

// recordsOf returns the writes of records.
func (s *Store) recordsOf(writes []store.Write) []items.Write {
	list := make([]items.Write, len(writes))
	for k := range writes {
		w := &writes[k]
		if w.Delete {
			list[k] = condition(w).To(items.Delete, s.tableOf(w.Key), recordKey(w.Key))
		} else {
			list[k] = condition(w).To(items.Put, s.tableOf(w.Key), encodeRecord(&w.Record))
		}
	}
	return list
}

// deletion returns the write that deletes a record without a condition.
func deletion(k store.Key) store.Write {
	return store.Write{Record: store.Record{Key: k}, Was: store.Any, Delete: true}
}

// condition returns the condition of a write.
func condition(w *store.Write) *items.Expr {
	switch w.Was {
	case store.Any:
		return &items.Expr{}
	case store.Lower:
		return items.When(items.Has("v", nil), items.Where("v", "<", items.Number(w.V)))
	case store.Absent:
		return items.Missing("v")
	}
	return items.Equal("v", items.Number(w.Was))
}
