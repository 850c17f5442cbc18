package items_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
)

var table = fakeaws.Names.State

// stored returns a client of fake tables, and the key of an item that is stored.
func stored(t *testing.T) (*items.Client, *fakeaws.DynamoDB, items.Item) {
	t.Helper()
	db, _ := fakeaws.New(t.Errorf)
	c := &items.Client{DB: db, Keys: []string{"of", "key"}, Insist: time.Second}
	it := items.Item{"of": items.Text("list"), "key": items.Text("1"), "v": items.Number(1), "s": items.Text("b")}
	check.OK(t, c.Transact(t.Context(), items.Plain(items.Put, table, it)))
	return c, db, items.Item{"of": it["of"], "key": it["key"]}
}

// read returns the number v of an item; 0: it has none.
func read(t *testing.T, c *items.Client, key items.Item) (v int64) {
	t.Helper()
	check.OK(t, c.GetAll(t.Context(), table, []items.Item{key, key}, func(it items.Item) (err error) {
		v, err = items.IntOf(it, "v")
		return err
	}))
	return v
}

// TestConditionInEachKindOfRequest checks that a condition decides alike in a request of its own, in a transaction, and as a
// statement.
func TestConditionInEachKindOfRequest(t *testing.T) {
	one, is := items.Has("v", items.Number(1)), items.Has("s", items.Text("b"))
	for what, x := range map[string]struct {
		all []items.Test
		met bool
	}{
		"a value":           {[]items.Test{one}, true},
		"another value":     {[]items.Test{items.Has("v", items.Number(2))}, false},
		"two values":        {[]items.Test{one, is}, true},
		"only one of two":   {[]items.Test{one, items.Has("s", items.Text("c"))}, false},
		"missing":           {[]items.Test{items.Has("w", nil)}, true},
		"not missing":       {[]items.Test{items.Has("s", nil)}, false},
		"one of a list":     {[]items.Test{items.Where("s", "IN", items.Text("a"), items.Text("b"))}, true},
		"not one of a list": {[]items.Test{items.Where("s", "IN", items.Text("a"), items.Text("c"))}, false},
	} {
		for how, do := range map[string]func(*items.Client, items.Write) error{
			"alone": func(c *items.Client, w items.Write) error { return c.Transact(t.Context(), w) },
			"in a transaction": func(c *items.Client, w items.Write) error {
				other := items.Item{"of": items.Text("list"), "key": items.Text("2")}
				return c.Transact(t.Context(), w, items.Missing("of").To(items.Put, table, other))
			},
			"as a statement": func(c *items.Client, w items.Write) error { return c.Execute(t.Context(), []items.Write{w})[0] },
		} {
			t.Run(what+" "+how, func(t *testing.T) {
				c, _, key := stored(t)
				e := (&items.Expr{}).Put("v", items.Number(7)).Put("s", nil)
				for _, test := range x.all {
					e.And(test)
				}
				err := do(c, e.To(items.Update, table, key))
				if want := map[bool]int64{true: 7, false: 1}[x.met]; errors.Is(err, core.ErrRefused) == x.met || read(t, c, key) != want {
					t.Errorf("the answer is %v, and v is %d, want %d", err, read(t, c, key), want)
				}
			})
		}
	}
}

// TestThrottledUpdateIsRepeated checks that an update that is alone is repeated if it was throttled, and returns the old item. A put is
// not repeated: the client has done that.
func TestThrottledUpdateIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, db, key := stored(t)
		asked := 0
		db.Faults = func(context.Context, fakeaws.Call) fakeaws.Fault {
			if asked++; asked < 3 {
				return fakeaws.Fault{Before: fakeaws.Throttled()}
			}
			return fakeaws.Fault{}
		}
		old, err := c.TransactOld(t.Context(), (&items.Expr{}).Put("v", items.Number(2)).To(items.Update, table, key))
		check.OK(t, err)
		if v, err := items.IntOf(old, "v"); err != nil || v != 1 || asked != 3 || read(t, c, key) != 2 {
			t.Errorf("asked %d times, the old v is %d, %v", asked, v, err)
		}
		asked = 0
		if err := c.Transact(t.Context(), items.Plain(items.Put, table, key)); !errors.Is(err, core.ErrThrottled) || asked != 1 {
			t.Errorf("a put: asked %d times, %v", asked, err)
		}
	})
}

// TestLastWriteOfAnItemCounts checks that a batch with several writes of an item makes the last one.
func TestLastWriteOfAnItemCounts(t *testing.T) {
	c, _, key := stored(t)
	with := func(v int) items.Item { return items.Item{"of": key["of"], "key": key["key"], "v": items.Number(v)} }
	check.OK(t, errors.Join(c.BatchWrite(t.Context(), table, []items.Write{items.Plain(items.Put, table, with(2)),
		items.Plain(items.Delete, table, key), items.Plain(items.Put, table, with(3))})...))
	if v := read(t, c, key); v != 3 {
		t.Errorf("v is %d, want 3", v)
	}
}

// TestAdd checks that a number begins at 0.
func TestAdd(t *testing.T) {
	c, _, key := stored(t)
	for _, want := range []int64{5, 10} {
		got, err := c.Add(t.Context(), table, key, "n", 5)
		check.OK(t, err)
		check.Equal(t, got, want)
	}
}
