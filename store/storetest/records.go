package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

func record(name string, v int64, body string) store.Record {
	return store.Record{Key: store.Key{Kind: "storetest", Name: name}, V: v, Body: []byte(body)}
}

func single(r store.Record, was int64) store.Group {
	return store.Group{Writes: []store.Write{{Record: r, Was: was}}}
}

// Conditions tests each condition of a write, met and not met, for stores and deletes.
func Conditions(t *testing.T, r store.Records) {
	for _, c := range []struct {
		name   string
		stored int64 // version; 0: no record
		v, was int64
		del    bool
		met    bool
	}{
		{"create", 0, 5, store.Absent, false, true},
		{"create an existing record", 5, 6, store.Absent, false, false},
		{"update", 5, 6, 5, false, true},
		{"update another version", 5, 7, 6, false, false},
		{"update a missing record", 0, 6, 5, false, false},
		{"any, missing", 0, 5, store.Any, false, true},
		{"any, existing", 5, 4, store.Any, false, true},
		{"lower, missing", 0, 5, store.Lower, false, true},
		{"lower, lower", 4, 5, store.Lower, false, true},
		{"lower, equal", 5, 5, store.Lower, false, false},
		{"lower, higher", 6, 5, store.Lower, false, false},
		{"delete", 5, 0, 5, true, true},
		{"delete another version", 5, 0, 4, true, false},
		{"delete any, missing", 0, 0, store.Any, true, true},
		{"delete lower", 5, 6, store.Lower, true, true},
		{"delete lower, higher", 6, 6, store.Lower, true, false},
	} {
		old := record(c.name, c.stored, `{"old":1}`)
		old.Expires = time.Unix(4_000_000_000, 0).UTC() // an update without an expiry removes it
		if c.stored != 0 {
			ok(t, r.Write(t.Context(), single(old, store.Absent))[0])
		}
		w := store.Write{Record: record(c.name, c.v, `{"new":1}`), Was: c.was, Delete: c.del}
		err := r.Write(t.Context(), store.Group{Writes: []store.Write{w}})[0]
		if c.met != (err == nil) || err != nil && !errors.Is(err, core.ErrRefused) {
			t.Errorf("%s: %v", c.name, err)
		}
		want := map[store.Key]store.Record{}
		switch {
		case c.met && !c.del:
			want[old.Key] = w.Record
		case !c.met && c.stored != 0:
			want[old.Key] = old
		}
		found, err := r.Get(t.Context(), old.Key)
		ok(t, err)
		if d := cmp.Diff(want, found, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, d)
		}
	}
}

// Groups tests that a group is written completely or not at all, and that a refused or too large group fails no other.
func Groups(t *testing.T, r store.Records) {
	ctx := t.Context()
	ok(t, r.Write(ctx, single(record("a", 1, "a"), store.Absent))[0])
	both := store.Group{Writes: []store.Write{{Record: record("b", 1, "b"), Was: store.Absent}, {Record: record("a", 2, "aa"), Was: 7}}}
	large := single(record("large", 1, strings.Repeat("x", store.MaxBody+1)), store.Any)
	long := single(record(strings.Repeat("x", store.MaxName+1), 1, ""), store.Any)
	many := store.Group{Writes: make([]store.Write, store.MaxGroup+1)}
	for i := range many.Writes {
		many.Writes[i] = store.Write{Record: record(fmt.Sprint("many", i), 1, ""), Was: store.Absent}
	}
	most := store.Group{Writes: many.Writes[:store.MaxGroup]}
	full := single(record("full", 1, strings.Repeat("x", store.MaxBody)), store.Absent)
	errs := r.Write(ctx, both, large, long, many, single(record("", 1, ""), store.Any), single(record("zero", 0, ""), store.Any),
		most, full, single(record("c", 1, "c"), store.Absent))
	want := []string{"refused", "too-large", "too-large", "too-large", "too-large", "bad version", "", "", ""}
	for i, err := range errs {
		got := ""
		if errors.Is(err, core.ErrRefused) {
			got = "refused"
		} else if e, is := errors.AsType[*core.Error](err); is {
			got = string(e.Code)
		} else if err != nil {
			got = "bad version"
		}
		if got != want[i] {
			t.Errorf("group %d: %q, want %q", i, got, want[i])
		}
	}
	found, err := r.Get(ctx, record("a", 0, "").Key, record("b", 0, "").Key, record("c", 0, "").Key, record("full", 0, "").Key,
		record("many44", 0, "").Key, record("many45", 0, "").Key)
	ok(t, err)
	if len(found) != 4 || string(found[record("a", 0, "").Key].Body) != "a" || len(found[record("full", 0, "").Key].Body) != store.MaxBody {
		t.Errorf("stored: %d records", len(found))
	}
	// Writes without a condition, which an engine may join.
	free := make([]store.Group, 60)
	for i := range free {
		free[i] = single(record(fmt.Sprint("free", i%55), int64(i+1), fmt.Sprint(i)), store.Any)
	}
	ok(t, r.Write(ctx, free...)...)
	found, err = r.Get(ctx, record("free0", 0, "").Key, record("free54", 0, "").Key)
	if ok(t, err); string(found[record("free0", 0, "").Key].Body) != "55" || len(found) != 2 {
		t.Errorf("of two writes of a record the first stayed: %v", found)
	}
}

// Lists tests the order of names, pages, bounds and kinds, and bodies of any bytes.
func Lists(t *testing.T, r store.Records) {
	ctx := t.Context()
	names := []string{"a", "a#1", "a/b", "b", "中文", "🙂"}
	for i, name := range names {
		rec := record(name, int64(i+1), "")
		rec.Kind, rec.Body, rec.Expires = "list", []byte{0, 0xff, byte(i)}, time.Unix(4_000_000_000+int64(i), 0).UTC()
		other := rec
		other.Kind = "list2"
		ok(t, r.Write(ctx, single(rec, store.Absent), single(other, store.Absent))...)
	}
	var got []string
	for after := ""; ; {
		page, err := r.List(ctx, "list", after, "", 4)
		ok(t, err)
		for _, rec := range page {
			i := len(got)
			got = append(got, rec.Name)
			if rec.Kind != "list" || rec.V != int64(i+1) || string(rec.Body) != string([]byte{0, 0xff, byte(i)}) ||
				rec.Expires.Unix() != 4_000_000_000+int64(i) {
				t.Errorf("listed: %+v", rec)
			}
		}
		if len(page) < 4 {
			break
		}
		after = page[len(page)-1].Name
	}
	if d := cmp.Diff(names, got); d != "" {
		t.Errorf("names: (-want +got)\n%s", d)
	}
	for _, c := range []struct {
		after, before string
		limit         int
		want          []string
	}{
		{"", "a", 9, nil}, {"", "a#", 9, names[:1]}, {"a", "b", 9, names[1:3]}, {"a", "b", 1, names[1:2]}, {"b", "b", 9, nil},
		{"b", "a", 9, nil}, {"a/", "中", 9, names[2:4]}, {"b", "", 9, names[4:]},
	} {
		page, err := r.List(ctx, "list", c.after, c.before, c.limit)
		ok(t, err)
		got = nil
		for i := range page {
			got = append(got, page[i].Name)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("names after %q and before %q: (-want +got)\n%s", c.after, c.before, d)
		}
	}
	if page, err := r.List(ctx, "none", "", "", 4); err != nil || len(page) != 0 {
		t.Errorf("a kind without records: %v, %v", page, err)
	}
}

// Races tests that one writer succeeds if many writers read the same version.
func Races(t *testing.T, r store.Records) {
	const writers = 20
	ok(t, r.Write(t.Context(), single(record("race", 1, ""), store.Absent))[0])
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() { errs[i] = r.Write(t.Context(), single(record("race", int64(i+2), fmt.Sprint(i)), 1))[0] })
	}
	all.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Fatalf("writers %d and %d both succeeded", won, i)
		case err == nil:
			won = i
		case !errors.Is(err, core.ErrRefused) && !errors.Is(err, core.ErrThrottled):
			t.Errorf("writer %d: %v", i, err)
		}
	}
	found, err := r.Get(t.Context(), record("race", 0, "").Key)
	if ok(t, err); won < 0 || string(found[record("race", 0, "").Key].Body) != fmt.Sprint(won) {
		t.Errorf("writer %d won, stored: %v", won, found)
	}
}

// Tables tests a read of a record that cannot be decoded, and of a record of a newer version, which has unknown fields. Other
// records are not affected.
func Tables(t *testing.T, r store.Records) {
	type value struct {
		Name string `json:"name"`
		V    int64  `json:"v"`
	}
	table := store.Table[value]{Kind: "table", Name: func(v *value) string { return v.Name }, Version: func(v *value) int64 { return v.V }}
	var groups []store.Group
	for name, body := range map[string]string{"a": `{"name":"a","v":1}`, "broken": `{"name":"bro`, "empty": "", "newer": `{"name":"newer",
		"v":1,"since":{"next":"version"}}`, "type": `{"name":7}`, "z": `{"name":"z","v":1}`} {
		rec := record(name, 1, body)
		rec.Kind = table.Kind
		groups = append(groups, single(rec, store.Absent))
	}
	ok(t, r.Write(t.Context(), groups...)...)
	names := []string{"a", "broken", "empty", "missing", "newer", "type", "z"}
	listed, err := table.All(t.Context(), &store.Store{Records: r})
	ok(t, err)
	found, err := table.Get(t.Context(), &store.Store{Records: r}, names...)
	ok(t, err)
	alone, err := table.Get(t.Context(), &store.Store{Records: r}, "broken")
	if ok(t, err); len(listed) != 6 || len(found) != 6 || alone["broken"].Err == nil {
		t.Fatalf("listed %d, found %d, alone %v", len(listed), len(found), alone)
	}
	for _, v := range listed {
		good := v.Name == "a" || v.Name == "newer" || v.Name == "z"
		for _, got := range []store.Value[value]{v, found[v.Name]} {
			if got.Name != v.Name || got.V != 1 || (got.Err == nil) != good || good && got.Is != (value{v.Name, 1}) {
				t.Errorf("%s: %+v", v.Name, got)
			}
		}
	}
	// A record that cannot be decoded can be replaced and deleted.
	w, err := table.Put(nil, value{"broken", 2}, 1)
	ok(t, err)
	repair := store.Group{Writes: []store.Write{w, table.Delete("type", 1)}}
	ok(t, r.Write(t.Context(), repair)[0])
	found, err = table.Get(t.Context(), &store.Store{Records: r}, "broken", "type")
	if ok(t, err); len(found) != 1 || found["broken"].Err != nil || found["broken"].Is.V != 2 {
		t.Errorf("repaired: %+v", found)
	}
}
