package fakeaws

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// item is a stored item or a key.
type item = map[string]types.AttributeValue

// Bounds of DynamoDB.
const (
	maxItem   = 400 << 10
	pageBytes = 1 << 20
)

// key is one attribute of a key.
type key struct {
	name string
	kind byte // 'S' or 'N'
}

// value is the value of a key attribute in a comparable form.
type value struct {
	n int64
	s string
}

func (v value) compare(o value) int { return cmp.Or(cmp.Compare(v.n, o.n), cmp.Compare(v.s, o.s)) }

// of reads the value of a key attribute.
func (k key) of(it item) (value, error) {
	switch v := it[k.name].(type) {
	case *types.AttributeValueMemberS:
		if k.kind == 'S' && v.Value != "" {
			return value{s: v.Value}, nil
		}
	case *types.AttributeValueMemberN:
		if n, err := strconv.ParseInt(v.Value, 10, 64); k.kind == 'N' && err == nil {
			return value{n: n}, nil
		}
	}
	return value{}, invalid("the key attribute %s has no value of the type %c", k.name, k.kind)
}

// entry is one item in its place.
type entry struct {
	sort value
	it   item
	size int
}

type table struct {
	name       string
	hash, sort key
	parts      map[value][]*entry
	index      *index
	room       room
}

func newTable(name string, hash, sort key, x *index) *table {
	if x != nil {
		x.states = map[place][]state{}
	}
	return &table{name: name, hash: hash, sort: sort, parts: map[value][]*entry{}, index: x}
}

// place is the key of an item.
type place struct{ hash, sort value }

func (t *table) place(it item) (p place, err error) {
	if p.hash, err = t.hash.of(it); err != nil {
		return p, err
	}
	p.sort, err = t.sort.of(it)
	return p, err
}

// keyOnly rejects a key with more attributes, or fewer.
func (t *table) keyOnly(k item) (place, error) {
	if len(k) != 2 {
		return place{}, invalid("the provided key element does not match the schema: %d attributes", len(k))
	}
	return t.place(k)
}

func (t *table) find(p place) (at int, e *entry) {
	list := t.parts[p.hash]
	at = sort.Search(len(list), func(i int) bool { return list[i].sort.compare(p.sort) >= 0 })
	if at < len(list) && list[at].sort == p.sort {
		return at, list[at]
	}
	return at, nil
}

func (t *table) get(p place) *entry {
	_, e := t.find(p)
	return e
}

// put stores an item, or removes it (nil), and returns the units of the index.
func (t *table) put(p place, it item, now time.Time, lag time.Duration) (indexUnits float64) {
	at, old := t.find(p)
	var was item
	if old != nil {
		was = old.it
	}
	switch list := t.parts[p.hash]; {
	case it == nil && old == nil:
		return 0
	case it == nil:
		t.parts[p.hash] = slices.Delete(list, at, at+1)
	case old == nil:
		t.parts[p.hash] = slices.Insert(list, at, &entry{p.sort, it, sizeOf(it)})
	default:
		list[at] = &entry{p.sort, it, sizeOf(it)}
	}
	if t.index != nil {
		return t.index.follow(p, was, it, now, lag)
	}
	return 0
}

// index has the items of its table by another key, and is behind the table.
type index struct {
	name       string
	hash, sort key
	states     map[place][]state // of each item, the oldest first
	room       room
}

// state is an item of the table as the index has it from a moment on.
type state struct {
	from time.Time
	projected
	it item
}

// kept is how long the index keeps its former states.
const kept = time.Minute

// placed is an item in the result of a query: its sort key there, and its place in the table.
type placed struct {
	sort value
	of   place
	it   item
}

// order is the one in which a query returns the items.
func (a placed) order(b placed) int {
	return cmp.Or(a.sort.compare(b.sort), a.of.hash.compare(b.of.hash), a.of.sort.compare(b.of.sort))
}

// projected is an item in the form of an index; in: it is in there.
type projected struct {
	in         bool
	hash, sort value
}

func (x *index) project(it item) projected {
	hash, err := x.hash.of(it)
	sort, err2 := x.sort.of(it)
	if err != nil || err2 != nil {
		return projected{}
	}
	return projected{true, hash, sort}
}

// changes returns an item before and after a write, and whether that changes the index.
func (x *index) changes(was, is item) (old, next projected, does bool) {
	old, next = x.project(was), x.project(is)
	return old, next, old != next || !maps.EqualFunc(was, is, equal)
}

// follow copies a change of the table, a lag later, and returns its units: a change of the key
// is a removal and a put, any other of the item a put.
func (x *index) follow(p place, was, is item, now time.Time, lag time.Duration) (units float64) {
	old, next, does := x.changes(was, is)
	if !does || !old.in && !next.in {
		return 0
	}
	states, from := x.states[p], now.Add(lag)
	if n := len(states); n > 0 && states[n-1].from.After(from) {
		from = states[n-1].from // changes of one item keep their order
	}
	for len(states) > 1 && now.Sub(states[1].from) > kept {
		states = states[1:]
	}
	x.states[p] = append(states, state{from, next, is})
	part := old.hash
	if old.in && old != next {
		units += writeUnits(sizeOf(was))
	}
	if next.in {
		part = next.hash
		units += writeUnits(sizeOf(is))
	}
	x.room.takes(part, now, 0, units)
	return units
}

// serves reports whether there is capacity for a write's changes in the index; a throttled index pushes back on its table.
func (x *index) serves(f *Fault, was, is item) bool {
	if x == nil {
		return true
	}
	old, next, does := x.changes(was, is)
	return !does || (!old.in || f.served(&x.room, old.hash, true)) && (!next.in || f.served(&x.room, next.hash, true))
}

// at returns a part of the index as it was at a moment.
func (x *index) at(hash value, when time.Time) (rows []placed) {
	for p, states := range x.states {
		i := len(states) - 1
		for i >= 0 && states[i].from.After(when) {
			i--
		}
		if i >= 0 && states[i].in && states[i].hash == hash {
			rows = append(rows, placed{states[i].sort, p, states[i].it})
		}
	}
	slices.SortFunc(rows, placed.order)
	return rows
}

// Sizes and units.

func sizeOf(it item) int {
	n := 0
	for name, v := range it {
		n += len(name) + sizeOfValue(v)
	}
	return n
}

func sizeOfValue(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return (len(v.Value)+1)/2 + 1
	case *types.AttributeValueMemberB:
		return len(v.Value)
	}
	return 1
}

func writeUnits(size int) float64 { return float64(max(1, (size+1023)/1024)) }
func readUnits(size int) float64  { return float64(max(1, (size+4095)/4096)) }

// whole rejects values that DynamoDB does not accept.
func whole(it item) error {
	for name, v := range it {
		switch v := v.(type) {
		case nil:
			return invalid("the attribute %s has no value", name)
		case *types.AttributeValueMemberN:
			if _, err := strconv.ParseInt(v.Value, 10, 64); err != nil {
				return invalid("the attribute %s is %q, which is no whole number", name, v.Value)
			}
		case *types.AttributeValueMemberS, *types.AttributeValueMemberBOOL, *types.AttributeValueMemberB:
		default:
			return strange("the type %T of %s", v, name)
		}
	}
	return nil
}

func equal(a, b types.AttributeValue) bool {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		b, ok := b.(*types.AttributeValueMemberS)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberN:
		b, ok := b.(*types.AttributeValueMemberN)
		return ok && intOf(a) == intOf(b)
	case *types.AttributeValueMemberBOOL:
		b, ok := b.(*types.AttributeValueMemberBOOL)
		return ok && a.Value == b.Value
	}
	return false
}

// less reports whether a is before b, which has the same type.
func less(a, b types.AttributeValue) bool {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		b, ok := b.(*types.AttributeValueMemberS)
		return ok && a.Value < b.Value
	case *types.AttributeValueMemberN:
		b, ok := b.(*types.AttributeValueMemberN)
		return ok && intOf(a) < intOf(b)
	}
	return false
}

func intOf(v *types.AttributeValueMemberN) int64 {
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("a number that was let in: %q", v.Value)) // whole refuses it
	}
	return n
}

// copied returns a copy of an item that shares no memory with the store.
func copied(it item) item {
	if it == nil {
		return nil
	}
	out := maps.Clone(it)
	for name, v := range out {
		out[name] = copiedValue(v)
	}
	return out
}

func copiedValue(v types.AttributeValue) types.AttributeValue {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		c := *v
		return &c
	case *types.AttributeValueMemberN:
		c := *v
		return &c
	case *types.AttributeValueMemberB:
		return &types.AttributeValueMemberB{Value: slices.Clone(v.Value)}
	}
	return v
}
