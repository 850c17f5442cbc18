package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

const day = 24 * time.Hour

// sweepAll sweeps until nothing more can be removed.
func sweepAll(t *testing.T, s *store.Store, now time.Time, runs, journals time.Duration) {
	t.Helper()
	for idle := 0; idle < 2; idle++ {
		n, err := s.Sweep(t.Context(), now, runs, journals, 10)
		if ok(t, err); n > 10 {
			t.Fatalf("%d removed, 10 were allowed", n)
		}
		if n > 0 {
			idle = -1
		}
	}
}

// swept runs a case of a store that does not remove expired items by itself.
func swept(test func(*testing.T, Harness)) func(*testing.T, Harness) {
	return func(t *testing.T, h Harness) {
		if h.Expires {
			t.Skip("this store removes expired items by itself")
		}
		test(t, h)
	}
}

// passing is a store on which time passes.
type passing struct {
	*store.Store
	h   Harness
	now time.Time
}

// pass lets a while pass and removes items that expired in it; journals are kept 20 days, and runs as long as their jobs set.
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
	if ok(t, err); got != want {
		t.Errorf("the key %s is bound to %d, want %d", key, got, want)
	}
}

// kept checks which runs exist.
func kept(t *testing.T, s *store.Store, want bool, why string, runs ...core.RunID) {
	t.Helper()
	found := getRuns(t, s, runs...)
	for _, id := range runs {
		if _, is := found[id]; is != want {
			t.Errorf("run %d exists: %t; %s", id, is, why)
		}
	}
}

// keeping returns a job that keeps its runs for days.
func keeping(id core.JobID, days int) core.Job {
	return with(job(id), func(j *core.Job) { j.Def.Keep.Days = days })
}

// expiry: each kind of record stays for its time, and then goes.
func expiry(t *testing.T, h Harness) {
	if h.Wait == nil {
		t.Skip("no time passes for this store")
	}
	p := &passing{Store: h.Open(t), h: h, now: time.Now().UTC().Truncate(time.Second)}
	s, ctx := p.Store, t.Context()
	createJobs(t, s, keeping(1, 7), keeping(2, 100), keeping(3, core.KeepForever))
	skip := func(job core.JobID) func() error {
		return func() error {
			return s.PutSkips(ctx, []core.Skip{{Job: job, First: at(0), Last: at(1), Count: 2, Reason: core.ReasonMisfire, Made: p.now}})[0]
		}
	}
	beat := func(address string) func() error {
		return func() error {
			return s.PutExecutor(ctx, core.Executor{App: "a", Address: address, Beat: p.now, Since: p.now})
		}
	}
	permit := func(name string, holders ...core.Holder) func() error {
		return func() error {
			return s.PutPermits(ctx, []core.Permits{{Name: name, V: 1, Limit: 1, Holders: holders}})[0]
		}
	}
	skipKind := func(job core.JobID) store.Key {
		return store.Key{Kind: "skip#" + job.String(), Name: fmt.Sprintf("%010d#%s", at(0), core.ReasonMisfire)}
	}
	letter := store.NewLetter(p.now, []byte("x"), "why")
	rows := []struct {
		key         store.Key
		put         func() error
		lives, gone time.Duration // 0: forever
	}{
		{store.Key{Kind: store.KindHealth, Name: "job/1"}, func() error {
			return s.PutHealths(ctx, []core.Health{{Of: "job/1", Slow: true, At: p.now}})[0]
		}, 20 * time.Hour, 30 * time.Hour},
		{store.Key{Kind: "uses#1", Name: "-"}, func() error {
			return s.PutUses(ctx, []core.Uses{{Job: 1, Since: p.now, Counts: map[string]int64{"a": 1}}})[0]
		}, 30 * time.Hour, 50 * time.Hour},
		{store.Key{Kind: "permit#free", Name: "-"}, permit("free"), 30 * time.Hour, 50 * time.Hour},
		{store.Key{Kind: "permit#held", Name: "-"}, permit("held", core.Holder{First: 7, Until: p.now}), 0, 0},
		{store.Key{Kind: store.KindLetter, Name: letter.ID}, func() error { return s.KeepLetter(ctx, letter) }, 19 * day, 25 * day},
		{store.Key{Kind: store.KindExecutors("a"), Name: "http://died"}, beat("http://died"), 19 * day, 25 * day},
		{store.Key{Kind: store.KindExecutors("a"), Name: "http://lives"}, beat("http://lives"), 25 * day, 27 * day}, // again after 6 days
		{store.Key{Kind: store.KindExecutors("a"), Name: "http://fixed"}, func() error {
			return s.PutExecutor(ctx, core.Executor{App: "a", Address: "http://fixed", Fixed: true})
		}, 0, 0},
		{skipKind(1), skip(1), 6 * day, 27 * day}, {skipKind(2), skip(2), 90 * day, 130 * day}, {skipKind(3), skip(3), 0, 0},
	}
	for _, r := range rows {
		ok(t, r.put())
	}
	age := time.Duration(0)
	for _, to := range []time.Duration{20 * time.Hour, 30 * time.Hour, 50 * time.Hour, 6 * day, 19 * day, 25 * day, 27 * day, 90 * day,
		130 * day} {
		p.pass(t, to-age)
		if age = to; age == 6*day {
			ok(t, beat("http://lives")())
		}
		for _, r := range rows {
			got, err := s.Read(ctx, r.key)
			if ok(t, err); got.V != 0 && r.gone != 0 && to >= r.gone || got.V == 0 && (r.gone == 0 || to <= r.lives) {
				t.Errorf("%v after %s: version %d", r.key, to, got.V)
			}
		}
	}
	ok(t, beat("http://removed")(), s.RemoveExecutor(ctx, "a", "http://removed", time.Time{})) // whatever its heartbeat is
	reads(t, "executors", map[string][]core.Executor{"a": {{App: "a", Address: "http://fixed", Fixed: true}}})(s.Executors(ctx, []string{"a"}))
}

// sweep: runs are removed after the time of their job, or after the given time; open runs stay. Young keys stay.
func sweep(t *testing.T, h Harness) {
	s, now := h.Open(t), time.Now()
	createJobs(t, s, keeping(1, 7), keeping(2, 100), keeping(3, core.KeepForever))
	ended := func(r *core.Run) { r.State, r.EndedAt, r.Key = core.Succeeded, now, "k" }
	var gone []core.RunID
	for i := range 30 {
		gone = append(gone, put(t, s, core.NumberedRun(1, uint32(i)), ended).ID)
	}
	open, long, ever := put(t, s, core.NumberedRun(1, 99), nil).ID, put(t, s, core.NumberedRun(2, 1), ended).ID,
		put(t, s, core.NumberedRun(3, 1), ended).ID
	bound := (&passing{Store: s}).bound
	bound(t, "k", gone[1], gone[1])
	sweepAll(t, s, now, 0, 30*time.Minute)
	kept(t, s, true, "it is young", append(gone, open, long, ever)...)
	bound(t, "k", gone[2], gone[1])
	sweepAll(t, s, now.Add(10*day), 0, 365*day)
	kept(t, s, false, "ten days are over", gone...)
	kept(t, s, true, "its job keeps it", open, long, ever)
	bound(t, "k", gone[2], gone[2])
	sweepAll(t, s, now.Add(100*365*day), 0, 365*day)
	kept(t, s, false, "a hundred days are over", long)
	kept(t, s, true, "its job keeps it forever", ever)
	sweepAll(t, s, now.Add(10*day), day, 365*day)
	kept(t, s, false, "the given time is over", ever)
	kept(t, s, true, "it is open", open)
}

// sweepNeeded: items that may still be read stay, however old they are.
func sweepNeeded(t *testing.T, h Harness) {
	s, ctx, now := h.Open(t), t.Context(), time.Now()
	slot, n := core.InstantOf(now), uint32(0)
	all := func() { sweepAll(t, s, now.Add(100*day), day, day) }
	old := func(id core.RunID, change func(*core.Run)) core.RunID {
		return put(t, s, id, func(r *core.Run) {
			closed(r)
			r.Slot, r.EndedAt = slot, now
			change(r)
		}).ID
	}
	gone := func(why string, ids ...core.RunID) { t.Helper(); all(); kept(t, s, false, why, ids...) }
	stay := func(why string, ids ...core.RunID) { t.Helper(); all(); kept(t, s, true, why, ids...) }
	follow := func(then core.RunID) func(*core.Run) {
		return func(r *core.Run) { r.State, r.Then = core.Failed, then }
	}
	end := func(ids ...core.RunID) {
		t.Helper()
		for _, id := range ids {
			endRun(t, s, id, core.Run{State: core.Succeeded, EndedAt: now})
		}
	}
	number := func(job core.JobID) core.RunID { n++; return core.NumberedRun(job, n) }

	// A run with follow-ups, and the runs that lead to it.
	owing := number(1)
	first := old(number(1), follow(owing))
	old(owing, func(r *core.Run) {
		r.State, r.Then = core.Failed, core.NumberedRun(1, 999)
		r.Owes = []core.Owed{{Run: r.Then, Kind: core.CauseRetry, Slot: slot}}
	})
	stay("it has a follow-up", first, owing)
	clearOwed(t, s, owing)
	gone("no follow-up is left", first, owing)

	// Attempts before an open one.
	last, second := number(1), number(1)
	first = old(number(1), follow(second))
	old(second, follow(last))
	put(t, s, last, nil)
	stay("its chain is open", first, second, last)
	end(last)
	gone("its chain is closed", first, second, last)

	// The attempts of a tail, and planned runs that a planner pass may enqueue once more.
	j := with(job(2), func(j *core.Job) { j.Sched.Next, j.Sched.Tail = at(60), core.PlannedRun(2, at(60)) })
	createJobs(t, s, j)
	second = number(2)
	first = old(j.Sched.Tail, follow(second))
	old(second, func(r *core.Run) { r.First = first })
	ahead, before := old(core.PlannedRun(2, at(120)), func(*core.Run) {}), old(core.PlannedRun(2, at(10)), func(*core.Run) {})
	stay("its chain is the job's tail, or it is not before the job's next time", first, second, ahead)
	gone("the job is past it", before)
	move := j.Sched.Stay()
	move.NewTail, move.NewNext = 0, at(121)
	ok(t, s.Advance(ctx, []core.Advance{move})...)
	gone("the job is past it", first, second, ahead)

	// A shard, and its other attempts, while its broadcast is open. Shards of other broadcasts go.
	whole := put(t, s, number(1), func(r *core.Run) { r.Spread(core.NumberedRun(1, n+2), []string{"http://a", "http://b"}, false) })
	n++
	again := n + 3
	shards := []core.RunID{
		old(number(1), func(r *core.Run) { follow(core.NumberedRun(1, again))(r); r.Shard.Of = whole.ID }),
		old(number(1), func(r *core.Run) { r.Shard.Of = whole.ID }),
		old(number(1), func(r *core.Run) { r.First, r.Shard.Of = core.NumberedRun(1, again-2), whole.ID }),
	}
	other := old(number(1), func(r *core.Run) { r.Shard.Of = core.NumberedRun(1, 9999) })
	stay("its broadcast is open", shards...)
	gone("its broadcast does not exist", other)
	end(whole.ID)
	gone("its broadcast is closed", append(shards, whole.ID)...)

	sweepMessages(t, s, now, number, old, gone, stay)
	sweepTombstone(t, s, now, number(3), number(3), all)
}

// sweepMessages: a message that was not acked may name runs of its due time, and no others, however long it waits.
func sweepMessages(t *testing.T, s *store.Store, now time.Time, number func(job core.JobID) core.RunID,
	old func(id core.RunID, change func(*core.Run)) core.RunID, gone, stay func(why string, ids ...core.RunID)) {
	ctx, slot := t.Context(), core.InstantOf(now)
	same, younger := old(number(1), func(*core.Run) {}), old(number(1), func(r *core.Run) { r.Slot = slot + 1 })
	older := old(number(1), func(r *core.Run) { r.Slot = slot - 1 })
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: message(slot, same)}})...)
	got := receive(t, s, 1)
	stay("a message may name it", same)
	gone("no message is of its due time", older, younger)
	ok(t, s.Queue.Ack(ctx, got)...)
	gone("no message exists", same)
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now.Add(time.Hour), Message: message(slot-1, number(1))}})...) // and stays
}

// sweepTombstone: a tombstone stays while its job has a run, an entry, a message or a follow-up.
func sweepTombstone(t *testing.T, s *store.Store, now time.Time, id, retry core.RunID, all func()) {
	ctx, slot := t.Context(), core.InstantOf(now)
	createJobs(t, s, job(3))
	ok(t, s.Jobs.Put(ctx, []store.JobPut{deletesAt(3, 100, now)})...)
	stone := func(want bool, why string) {
		t.Helper()
		all()
		found, err := s.Tombstones(ctx, []core.JobID{3})
		ok(t, err)
		if _, is := found[3]; is != want {
			t.Errorf("the tombstone exists: %t; %s", is, why)
		}
	}
	put(t, s, id, unowned)
	stone(true, "a run is open")
	entry := core.DueItem{PlanAt: slot, Job: 3, Run: id}
	ok(t, s.Enter(ctx, []core.DueItem{entry})...)
	endRun(t, s, id, core.Run{State: core.Failed, EndedAt: now, Then: retry,
		Owes: []core.Owed{{Run: retry, Kind: core.CauseRetry, Slot: slot}}})
	stone(true, "an entry waits")
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: message(slot, core.PlannedRun(3, slot))}})...)
	ok(t, s.Leave(ctx, []core.DueItem{entry})...)
	got := receive(t, s, 1)
	stone(true, "a message waits")
	ok(t, s.Queue.Ack(ctx, got)...)
	stone(true, "a retry is pending")
	clearOwed(t, s, id)
	stone(false, "nothing needs it")
}

// sweepCursor: an old journal of an open run stays until the watchdog has passed it and its revisits.
func sweepCursor(t *testing.T, h Harness) {
	s, ctx, now := h.Open(t), t.Context(), time.Now()
	minute := now.Unix() / 60
	j := journal(minute, "n", 1, 2)
	j.Entries[1].Run = put(t, s, core.NumberedRun(1, 1), nil).ID
	ok(t, s.PutJournal(ctx, j))
	stored := func(later time.Duration, want int, why string) {
		t.Helper()
		sweepAll(t, s, now.Add(later), 100*day, day)
		if list, err := s.JournalsAt(ctx, minute, core.JournalKey{}, 1000); err != nil || len(list) != want {
			t.Errorf("%d journals, want %d; %s; %v", len(list), want, why, err)
		}
	}
	stored(100*day, 1, "the watchdog has not read it")
	ok(t, s.MoveCursor(ctx, 0, minute-1))
	stored(100*day, 1, "the watchdog has not read it")
	ok(t, s.PutRevisits(ctx, minute+20, []core.JournalKey{j.Key}))
	ok(t, s.MoveCursor(ctx, minute-1, minute+19))
	stored(100*day, 1, "it must be read again")
	ok(t, s.MoveCursor(ctx, minute+19, minute+21))
	stored(time.Hour, 1, "it is young")
	stored(100*day, 0, "it was read again")
	reads[[]core.JournalKey](t, "revisits of a minute that is over", nil)(s.Revisits(ctx, minute+20, core.JournalKey{}, 1000))
}

// keepsOpen: open runs stay with all that belongs to them, and closed runs stay for as long as their job sets.
func keepsOpen(t *testing.T, h Harness) {
	if h.Expires && h.Wait == nil {
		t.Skip("this store removes expired items by itself, and not in time")
	}
	p := &passing{Store: h.Open(t), h: h, now: time.Now()}
	s, ctx := p.Store, t.Context()
	createJobs(t, s, keeping(1, 7))
	number := func(n uint32) core.RunID { return core.NumberedRun(1, n) }
	long := strings.Repeat("what it is to do ", 100)
	waits := run(number(1)) // for a year and more
	unowned(&waits)
	waits.Params, waits.Key, waits.Cause = &long, "waits", core.CauseAPI
	waits.At = core.InstantOf(p.now.Add(366 * day))
	waits.Slot = waits.At
	entry := core.DueItem{PlanAt: waits.Slot, Job: 1, Run: waits.ID}
	p.bound(t, "waits", waits.ID, waits.ID)
	ok(t, s.Runs.Put(ctx, []store.RunPut{{Create: &waits, Enter: &entry}})...)
	runs := put(t, s, number(2), func(r *core.Run) { r.Params, r.Key = &long, "runs" })
	p.bound(t, "runs", runs.ID, runs.ID)
	first := put(t, s, number(3), func(r *core.Run) { r.Params, r.Key = &long, "first" })
	p.bound(t, "first", first.ID, first.ID)
	endRun(t, s, first.ID, core.Run{State: core.Failed, Reason: core.ReasonHandler, Message: long, EndedAt: p.now,
		Owes: []core.Owed{{Run: number(4), Kind: core.CauseRetry, Slot: at(9)}}, Then: number(4)})
	second := put(t, s, number(4), func(r *core.Run) { r.First, r.Attempt = first.ID, 2 })
	clearOwed(t, s, first.ID)
	first = mustRun(t, s, first.ID)
	given := put(t, s, number(5), unowned)
	all := []core.Run{waits, runs, first, second, given}

	minute := p.now.Unix() / 60
	j := journal(minute, "n", 1, 2)
	j.Entries[0].Run, j.Entries[1].Run = runs.ID, second.ID
	ok(t, s.PutJournal(ctx, j))
	ok(t, s.MoveCursor(ctx, 0, minute))
	cursor := minute
	for range 80 { // as the watchdog does, except that it checks every four hours
		next := p.now.Add(5*day).Unix() / 60
		ok(t, s.PutRevisits(ctx, next, []core.JournalKey{j.Key}))
		p.pass(t, 5*day)
		reads(t, "revisits", []core.JournalKey{j.Key})(s.Revisits(ctx, next, core.JournalKey{}, 10))
		reads(t, "journal of open runs", map[core.JournalKey]core.Journal{j.Key: j})(s.Journals(ctx, []core.JournalKey{j.Key}))
		ok(t, s.MoveCursor(ctx, cursor, next), s.DropRevisits(ctx, next))
		cursor = next
	}
	for _, r := range all {
		sameRun(t, s, r)
	}
	reads(t, "entries", []core.DueItem{entry})(s.Jobs.Entries(ctx, 1))
	p.bound(t, "waits", number(9), waits.ID)
	p.bound(t, "runs", number(9), runs.ID)
	p.bound(t, "first", number(9), number(9)) // its run ended long ago

	// All of them end, and stay for their time from then on.
	read := mustRun(t, s, runs.ID)
	cancel := core.End(waits.ID, core.Run{State: core.Skipped, Reason: core.ReasonCancelled, Message: "cancelled", EndedAt: p.now})
	cancel.If = core.RunOwner | core.RunMaybeSent
	end := core.End(runs.ID, core.Run{State: core.Succeeded, Code: 200, Message: long, EndedAt: p.now})
	end.Seen = &read
	ok(t, s.ChangeRuns(ctx, []core.RunPut{cancel, end, core.End(second.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: p.now}),
		given.SkipUnsent(core.ReasonPaused, p.now)})...)
	ok(t, s.Leave(ctx, []core.DueItem{entry})...)
	p.pass(t, 23*time.Hour)
	p.bound(t, "waits", number(9), waits.ID)
	p.bound(t, "runs", number(9), runs.ID)
	p.pass(t, 2*time.Hour)
	p.bound(t, "waits", number(9), number(9))
	p.bound(t, "runs", number(9), number(9))
	p.pass(t, 5*day)
	for _, r := range []core.Run{waits, runs, second, given} {
		if got := mustRun(t, s, r.ID); r.Params != nil && (got.Params == nil || *got.Params != long) {
			t.Errorf("run %d lost its params", r.ID)
		}
	}
	p.pass(t, 30*day)
	for _, r := range all {
		kept(t, s, false, "its time is over", r.ID)
	}
	reads[[]core.Journal](t, "journals of runs that have ended", nil)(s.JournalsAt(ctx, minute, core.JournalKey{}, 10))
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
	if key, err := p.Read(t.Context(), store.IdempotencyKey(1, "k")); err != nil || key.V != 0 && !h.Expires {
		t.Errorf("the key stays: %+v, %v", key, err)
	}
	p.bound(t, "k", other, other)
}

// keptLogs: a kept log is stored unchanged, a reason in its place never replaces it, and it is removed with its run.
func keptLogs(t *testing.T, h Harness) {
	p := &passing{Store: h.Open(t), h: h, now: time.Now()}
	s, ctx := p.Store, t.Context()
	createJobs(t, s, keeping(1, 7))
	ended := func(r *core.Run) { closed(r); r.EndedAt, r.Slot = p.now, core.InstantOf(p.now) }
	r, young := put(t, s, core.NumberedRun(1, 1), ended), put(t, s, core.NumberedRun(1, 2), ended)
	hard := make([]byte, core.KeptLogMax) // incompressible
	_, _ = rand.NewChaCha8([32]byte{1}).Read(hard)
	at := p.now.UTC().Truncate(time.Millisecond)
	why := core.KeptLog{Run: r.ID, At: at, Why: "10.0.0.1 gave no answer"}
	k := core.KeptLog{Run: r.ID, At: at, Text: hard, From: 990_001, Cut: 17, More: true}
	holds := func(want core.KeptLog, is bool) {
		t.Helper()
		got, found, err := s.KeptLog(ctx, want.Run)
		if ok(t, err); found != is || is && !bytes.Equal(got.Text, want.Text) {
			t.Fatalf("kept: %t, %d bytes of %d", found, len(got.Text), len(want.Text))
		}
		if got.Text, want.Text = nil, nil; is {
			same(t, "kept log", got, want)
		}
	}
	holds(k, false)
	ok(t, s.PutLog(ctx, &r, why))
	holds(why, true)
	for range 2 {
		ok(t, s.PutLog(ctx, &r, k))
		holds(k, true)
		refused(t, s.PutLog(ctx, &r, why))
		holds(k, true)
		k.From++
	}
	k.From--
	why.Run = young.ID
	ok(t, s.PutLog(ctx, &young, why))
	holds(why, true)
	if h.Expires && h.Wait == nil {
		return // this store removes expired items by itself, and not in time
	}
	p.pass(t, 6*day)
	holds(k, true)
	p.pass(t, 20*day)
	kept(t, s, false, "its time is over", r.ID, young.ID)
	holds(k, false)
	holds(why, false)
}

// sweepScripts: the scripts of a job are removed when nothing is left of the job, not even its tombstone.
func sweepScripts(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	createJobs(t, s, job(1), job(2))
	for _, id := range []core.JobID{1, 2} {
		ok(t, s.PutSource(ctx, id, "x", base))
		ok(t, s.PutScripts(ctx, core.Scripts{Job: id, V: 1, Stored: map[string]int64{core.HashScript("x"): 1}}))
	}
	ok(t, s.Jobs.Put(ctx, []store.JobPut{deletesAt(1, 100, base)})...)
	for _, c := range []struct {
		after time.Duration
		want  []core.JobID
	}{{10 * day, []core.JobID{1, 2}}, {30 * day, []core.JobID{2}}} {
		sweepAll(t, s, base.Add(c.after), 0, 20*day)
		for _, id := range []core.JobID{1, 2} {
			_, found, err := s.Source(ctx, id, core.HashScript("x"))
			rec, err2 := s.Scripts(ctx, id)
			if ok(t, err, err2); found != slices.Contains(c.want, id) || (rec.V > 0) != found {
				t.Errorf("after %s: source of job %d: %v, record %d", c.after, id, found, rec.V)
			}
		}
	}
}
