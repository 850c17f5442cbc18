package dynamo_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// recent returns fakes, and functions that create a journal of a minute and its runs.
func recent(t *testing.T) (f *fakes, name func(minute int64, suffix int, ids ...core.RunID),
	store func(minute int64, app string, id core.RunID)) {
	f = newFakes(t, dynamo.Options{Now: func() time.Time { return base }})
	name = func(minute int64, suffix int, ids ...core.RunID) {
		j := core.Journal{Key: core.JournalKey{Minute: minute, Suffix: suffix, Nonce: "nonce-1"}, V: 1}
		for _, id := range ids {
			j.Entries = append(j.Entries, core.Entry{Run: id, Address: "http://10.0.0.1:9999/", Outcome: core.Accepted})
		}
		ok(t, f.store.PutJournal(t.Context(), j))
	}
	store = func(minute int64, app string, id core.RunID) {
		r := oneRun(id)
		r.App, r.Journal.Minute = app, minute
		ok(t, f.store.CreateRuns(t.Context(), []core.Run{r})...)
	}
	return f, name, store
}

// recentPages reads from a place to the end, and checks the size of each page.
func recentPages(t *testing.T, f *fakes, app string, before int64, limit, most int) (ids []core.RunID, pages int) {
	t.Helper()
	for from := (store.RunPlace{Before: before}); ; {
		f.db.Units()
		runs, next, err := f.store.Runs.Recent(t.Context(), store.Recent{App: app}, from, limit)
		ok(t, err)
		requests := 0
		for _, n := range f.db.Units().Requests {
			requests += n
		}
		if pages++; requests > most {
			t.Fatalf("page %d made %d requests", pages, requests)
		}
		for i := range runs {
			ids = append(ids, runs[i].ID)
		}
		if next == (store.RunPlace{}) {
			return ids, pages
		}
		if len(runs) > limit || from.Before != 0 && (next.Before > from.Before || next.Before == from.Before && next.Row <= from.Row) {
			t.Fatalf("%d runs, and it goes on from %v after %v", len(runs), next, from)
		}
		from = next
	}
}

// TestRecentRunsIsBounded: a call makes about a hundred requests, wherever in the past week the requested runs are.
func TestRecentRunsIsBounded(t *testing.T) {
	f, name, store := recent(t)
	now := base.Unix() / 60
	id := func(i int) core.RunID { return core.NumberedRun(7, uint32(i)) }
	for i := range 300 { // each minute of five hours has runs that were removed
		name(now-int64(i), 0, id(i+1))
	}
	old, older := now-6*24*60, now-8*24*60
	name(old, 0, id(1000))
	store(old, "orders", id(1000))
	name(older, 0, id(2000))
	store(older, "orders", id(2000))
	ids, pages := recentPages(t, f, "orders", 0, 10, 101)
	if !slices.Equal(ids, []core.RunID{id(1000)}) {
		t.Errorf("runs of a week: %v", ids)
	}
	if pages < 4 {
		t.Errorf("%d pages of more than 400 requests", pages)
	}
	ids, _ = recentPages(t, f, "orders", (now-7*24*60)*60_000, 10, 0)
	check.Equal(t, len(ids), 0, "runs of more than a week ago: %v", ids)
}

// TestRecentRunsOfAFullMinute: all runs of a minute are listed page by page, however many there are.
func TestRecentRunsOfAFullMinute(t *testing.T) {
	f, name, store := recent(t)
	now := base.Unix() / 60
	id := func(i int) core.RunID { return core.NumberedRun(7, uint32(i)) }
	for part := range 4 {
		var named []core.RunID
		for i := range 16_000 {
			named = append(named, id(part*16_000+i+1))
		}
		name(now, part, named...)
	}
	for _, i := range []int{64_000, 63_999, 30_000, 2, 1} {
		store(now, "orders", id(i))
	}
	name(now-1, 0, id(70_000))
	store(now-1, "orders", id(70_000))
	ids, pages := recentPages(t, f, "orders", 0, 1, 102)
	if !slices.Equal(ids, []core.RunID{id(64_000), id(63_999), id(30_000), id(2), id(1), id(70_000)}) {
		t.Errorf("runs of both minutes: %v", ids)
	}
	if pages < 7 {
		t.Errorf("%d pages of more than 640 requests", pages)
	}
}

// TestRecentRunsOfTheMinuteAhead: a dispatcher's clock can be ahead. The pages of its minute are listed once each.
func TestRecentRunsOfTheMinuteAhead(t *testing.T) {
	f, name, store := recent(t)
	ahead := base.Unix()/60 + 1
	id := func(i int) core.RunID { return core.NumberedRun(7, uint32(i)) }
	name(ahead, 0, id(1), id(2), id(3))
	for i := range 3 {
		store(ahead, "orders", id(i+1))
	}
	ids, _ := recentPages(t, f, "orders", 0, 1, 101)
	check.Equal(t, len(ids), 3, "runs of the minute ahead: %v", ids)
}

// TestOpenRunsIsBounded: one call reads 20,000 runs of a job and returns where to continue.
func TestOpenRunsIsBounded(t *testing.T) {
	f := newFakes(t, dynamo.Options{Now: func() time.Time { return base }})
	var runs []core.Run
	for i := range uint32(20_001) {
		r := oneRun(core.NumberedRun(7, i))
		if i > 0 {
			r.State, r.EndedAt = core.Succeeded, base
		}
		runs = append(runs, r)
	}
	ok(t, f.store.CreateRuns(t.Context(), runs)...)
	low, high := core.NumberedRange(7)
	list, next, err := f.store.Runs.Open(t.Context(), high, low, false, 10)
	ok(t, err)
	if len(list) > 0 || next != low {
		t.Fatalf("%d runs, and it goes on at %d, want none and %d", len(list), next, low)
	}
	list, next, err = f.store.Runs.Open(t.Context(), next, low, false, 10)
	ok(t, err)
	if len(list) != 1 || list[0].ID != low || next != 0 {
		t.Errorf("%d runs, and it goes on at %d, want the oldest and 0", len(list), next)
	}
}
