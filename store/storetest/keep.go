package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/store"

	"github.com/tickring/tickring/core"
)

const day = 24 * time.Hour

// passing is an engine on which time passes.
type passing struct {
	*store.Store
	h   Harness
	now time.Time
}

// pass lets a while pass and removes items that expired in it; journals are kept 20 days, and
// runs as long as their jobs set.
func (p *passing) pass(t *testing.T, d time.Duration) {
	t.Helper()
	p.now = p.now.Add(d)
	if p.h.Wait != nil {
		p.h.Wait(p.Store, d)
	}
	if !p.h.Expires {
		sweepAll(t, p.Store, p.now, 0, 20*day)
	}
}

func (p *passing) bound(t *testing.T, key string, run, want core.RunID) {
	t.Helper()
	got, err := p.PutKey(t.Context(), run.Job(), key, run)
	ok(t, err)
	if got != want {
		t.Errorf("the key %s is bound to %d, want %d", key, got, want)
	}
}

// keeping: open runs stay with all that belongs to them, and closed runs stay for as long as
// their job sets.
func keeping(t *testing.T, h Harness) {
	if h.Expires && h.Wait == nil {
		t.Skip("this store forgets by itself, and not in time")
	}
	p := &passing{Store: h.Open(t), h: h, now: time.Now()}
	ctx := t.Context()
	createJobs(t, p.Store, job(1)) // kept 7 days
	number := func(n uint32) core.RunID { return core.NumberedRun(1, n) }
	long := strings.Repeat("what it is to do ", 100)

	waits := run(number(1)) // for a year and more
	unowned(&waits)
	waits.Params, waits.Key, waits.Cause = &long, "waits", core.CauseAPI
	waits.At = core.InstantOf(p.now.Add(366 * day))
	waits.Slot = waits.At
	entry := core.DueItem{PlanAt: waits.Slot, Job: 1, Run: waits.ID}
	p.bound(t, "waits", waits.ID, waits.ID)
	ok(t, p.Runs.Put(ctx, []store.RunPut{{Create: &waits, Enter: &entry}})[0])
	runs := put(t, p.Store, number(2), func(r *core.Run) { r.Params, r.Key = &long, "runs" })
	p.bound(t, "runs", runs.ID, runs.ID)
	first := put(t, p.Store, number(3), func(r *core.Run) { r.Params, r.Key = &long, "first" })
	p.bound(t, "first", first.ID, first.ID)
	owed := []core.Owed{{Run: number(4), Kind: core.CauseRetry, Slot: at(9)}}
	ok(t, p.ChangeRuns(ctx, []core.RunPut{core.End(first.ID,
		core.Run{State: core.Failed, Reason: core.ReasonHandler, Message: long, EndedAt: p.now, Owes: owed, Then: number(4)})})...)
	second := put(t, p.Store, number(4), func(r *core.Run) { r.First, r.Attempt = first.ID, 2 })
	first = mustRun(t, p.Store, first.ID)
	ok(t, p.ChangeRuns(ctx, []core.RunPut{first.ClearOwed()})...)
	first.Owes = nil
	given := put(t, p.Store, number(5), unowned)

	minute := p.now.Unix() / 60
	j := journal(minute, "n", 1, 2)
	j.Entries[0].Run, j.Entries[1].Run = runs.ID, second.ID
	ok(t, p.PutJournal(ctx, j))
	cursor := minute
	ok(t, p.MoveCursor(ctx, 0, cursor))
	for range 80 { // as the watchdog does, but that it looks each four hours
		next := p.now.Add(5*day).Unix() / 60
		ok(t, p.PutRevisits(ctx, next, []core.JournalKey{j.Key}))
		p.pass(t, 5*day)
		if keys, err := p.Revisits(ctx, next, core.JournalKey{}, 10); err != nil || len(keys) != 1 {
			t.Fatalf("asked to be read again: %v, %v", keys, err)
		}
		found, err := p.Journals(ctx, []core.JournalKey{j.Key})
		ok(t, err)
		same(t, "journal of open runs", found[j.Key], j)
		ok(t, p.MoveCursor(ctx, cursor, next))
		ok(t, p.DropRevisits(ctx, next))
		cursor = next
	}
	for _, r := range []core.Run{waits, runs, first, second, given} {
		sameRun(t, p.Store, r)
	}
	entries, err := p.Jobs.Entries(ctx, 1)
	ok(t, err)
	same(t, "entries", entries, []core.DueItem{entry})
	p.bound(t, "waits", number(9), waits.ID)
	p.bound(t, "runs", number(9), runs.ID)
	p.bound(t, "first", number(9), number(9)) // its run ended long ago

	// All of them end, and stay for their time from then on.
	read := mustRun(t, p.Store, runs.ID)
	cancel := core.End(waits.ID, core.Run{State: core.Skipped, Reason: core.ReasonCancelled, Message: "cancelled", EndedAt: p.now})
	cancel.If = core.RunOwner | core.RunMaybeSent
	end := core.End(runs.ID, core.Run{State: core.Succeeded, Code: 200, Message: long, EndedAt: p.now})
	end.Seen = &read
	ok(t, p.ChangeRuns(ctx, []core.RunPut{
		cancel,
		end,
		core.End(second.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: p.now}),
	})...)
	ok(t, p.ChangeRuns(ctx, []core.RunPut{given.SkipUnsent(core.ReasonPaused, p.now)})...)
	ok(t, p.Leave(ctx, []core.DueItem{entry})...)
	p.pass(t, 23*time.Hour)
	p.bound(t, "waits", number(9), waits.ID)
	p.bound(t, "runs", number(9), runs.ID)
	p.pass(t, 2*time.Hour)
	p.bound(t, "waits", number(9), number(9))
	p.bound(t, "runs", number(9), number(9))
	p.pass(t, 5*day)
	for _, r := range []core.Run{waits, runs, second, given} {
		if got := mustRun(t, p.Store, r.ID); r.Params != nil && (got.Params == nil || *got.Params != long) {
			t.Errorf("run %d lost its params", r.ID)
		}
	}
	p.pass(t, 30*day)
	for _, r := range []core.Run{waits, runs, first, second, given} {
		if _, is := readRun(t, p.Store, r.ID); is {
			t.Errorf("run %d is still there", r.ID)
		}
	}
	if list, err := p.JournalsAt(ctx, minute, core.JournalKey{}, 10); err != nil || len(list) > 0 {
		t.Errorf("journals of runs that have ended: %v, %v", list, err)
	}
}

// keyOfRemoved: a key binds for a day after the end of its run, also if the run is removed earlier.
func keyOfRemoved(t *testing.T, h Harness) {
	if h.Wait == nil {
		t.Skip("no time passes for this store")
	}
	p := &passing{Store: h.Open(t), h: h, now: time.Now()}
	createJobs(t, p.Store, job(1))
	old, other := core.NumberedRun(1, 1), core.NumberedRun(1, 2)
	p.bound(t, "k", old, old)
	r := put(t, p.Store, old, func(r *core.Run) { closed(r); r.Key, r.EndedAt = "k", p.now })
	ok(t, p.Runs.Put(t.Context(), []store.RunPut{{Drop: &r}})...)
	p.pass(t, 23*time.Hour)
	p.bound(t, "k", other, old)
	p.pass(t, 2*time.Hour)
	k := store.IdempotencyKey(1, "k")
	if found, err := p.Records.Get(t.Context(), k); err != nil || found[k].V != 0 && !h.Expires {
		t.Errorf("the key stays: %+v, %v", found[k], err)
	}
	p.bound(t, "k", other, other)
}

// copies: a repeated write is rejected and changes nothing of the stored run, including its
// long texts.
func copies(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	createJobs(t, s, job(1))
	text := strings.Repeat("what it did. ", 100)
	tries := func(say string) (list []core.Try) {
		for range 20 {
			list = append(list, core.Try{Address: "http://10.0.0.1:9999/", Message: "connect: connection refused, " + say})
		}
		return list
	}
	for i, end := range []core.Run{
		{State: core.Succeeded, Code: 200, Message: text, Data: "of use", EndedAt: base},
		{State: core.Failed, Reason: core.ReasonHandler, Code: 500, Message: "short", EndedAt: base, Then: core.NumberedRun(1, 99)},
	} {
		params := text + "params"
		id := core.NumberedRun(1, uint32(i+1))
		claim := put(t, s, id, func(r *core.Run) { r.Tries, r.Params = tries("at first"), &params })
		unchanged := func() {
			t.Helper()
			again := claim
			other := "other"
			again.Tries, again.Params = tries("by a copy"), &other
			refused(t, s.CreateRuns(ctx, []core.Run{again})[0])
			again.Params = &params
			refused(t, s.CreateRuns(ctx, []core.Run{again})[0])
			of := claim
			of.Owner = "nobody"
			take := of.Take(core.Claim{Owner: "me", Until: base.Add(time.Hour)}, "", base, tries("by a copy"))
			answers(t, s.ChangeRuns(ctx, []core.RunPut{take, of.Readdress("http://10.0.0.2:9999/", tries("by a copy"))}), "refused", "refused")
			sameRun(t, s, claim)
		}
		unchanged()
		ok(t, s.ChangeRuns(ctx, []core.RunPut{core.End(id, end)})...)
		put := core.End(id, end)
		put.Apply(&claim)
		unchanged()
	}
}
