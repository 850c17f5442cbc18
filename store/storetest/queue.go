package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/store"

	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

func queue(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	now := time.Now()
	slot := core.InstantOf(now)
	j := journal(1000, "n", 2, 3)
	m := message(slot, core.PlannedRun(1, slot), core.NumberedRun(2, 7))
	m.Try = 2
	check := ring.Message{Kind: ring.KindCheck, Slot: slot, Check: &ring.Check{Runs: []core.RunID{core.PlannedRun(1, slot)}, Idle: true,
		Journal: &j}}
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: m}, {NotBefore: now, Message: check}})...)
	got := receive(t, s, 10)
	if len(got) != 1 || got[0].Receives != 1 {
		t.Fatalf("received %+v", got)
	}
	same(t, "message", got[0].Message, m)
	checks, err := s.Queue.Receive(limited(t), ring.KindCheck, 10)
	ok(t, err)
	if len(checks) != 1 {
		t.Fatalf("received %+v", checks)
	}
	same(t, "check", checks[0].Message, check)
	_, _, inFlight, err := s.Queue.Depth(ctx, ring.KindFires)
	ok(t, err)
	if inFlight != 1 {
		t.Fatalf("%d in flight", inFlight)
	}
	ok(t, s.Queue.Ack(ctx, got)...)
	ok(t, s.Queue.Ack(ctx, checks)...)
	nothing(t, s, ring.KindFires, h.visibility()+50*time.Millisecond)
	nothing(t, s, ring.KindCheck, time.Millisecond)
	ok(t, s.Queue.Bury(ctx, m, "no such job"))
	nothing(t, s, ring.KindFires, time.Millisecond)
}

func queueOrder(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	now := time.Now()
	slot := core.InstantOf(now)
	var out []ring.Out
	for i := range 20 {
		out = append(out, ring.Out{NotBefore: now.Add(-time.Duration(i*7%20+1) * time.Millisecond),
			Message: message(slot, core.NumberedRun(1, uint32(i)))})
	}
	out = append(out, ring.Out{NotBefore: now.Add(time.Hour), Message: message(slot, core.NumberedRun(9, 9))})
	ok(t, s.Queue.Enqueue(ctx, out)...)
	due, waiting, inFlight, err := s.Queue.Depth(ctx, ring.KindFires)
	ok(t, err)
	same(t, "depth", []int{due, waiting, inFlight}, []int{20, 1, 0})
	sorted := slices.Clone(out[:20])
	slices.SortFunc(sorted, func(a, b ring.Out) int { return a.NotBefore.Compare(b.NotBefore) })
	var got []ring.Message
	for len(got) < 20 {
		page := receive(t, s, 7)
		for _, d := range page {
			if h.Coarse == 0 {
				same(t, "in the order of NotBefore", d.Message, sorted[len(got)].Message)
			}
			got = append(got, d.Message)
		}
		ok(t, s.Queue.Ack(ctx, page)...)
	}
	due, waiting, inFlight, err = s.Queue.Depth(ctx, ring.KindFires)
	ok(t, err)
	same(t, "depth", []int{due, waiting, inFlight}, []int{0, 1, 0})
}

func queueVisibility(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	now := time.Now()
	slot := core.InstantOf(now)
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: message(slot, core.NumberedRun(1, 1))},
		{NotBefore: now, Message: message(slot, core.NumberedRun(1, 2))}})...)
	var first []store.Delivery
	var started time.Time // the last receipt, at the earliest
	for len(first) < 2 {
		started = time.Now()
		first = append(first, receive(t, s, 10)...)
	}
	ok(t, s.Queue.Ack(ctx, first[:1])...)
	second := receive(t, s, 10) // the other comes again
	if took := time.Since(started); took < h.visibility()/2 {
		t.Fatalf("visible again after %s", took)
	}
	if len(second) != 1 || second[0].Receives != 2 {
		t.Fatalf("received %+v", second)
	}
	same(t, "the other", second[0].Message, first[1].Message)
	// Release at once, and then for a while.
	ok(t, s.Queue.Release(ctx, second, time.Now())...)
	third := receive(t, s, 10)
	if len(third) != 1 || third[0].Receives != 3 {
		t.Fatalf("received %+v", third)
	}
	until := time.Now().Add(100 * time.Millisecond)
	ok(t, s.Queue.Release(ctx, third, until)...)
	fourth := receive(t, s, 10)
	if now := time.Now(); now.Before(until) {
		t.Fatalf("visible %s early", until.Sub(now))
	}
	ok(t, s.Queue.Ack(ctx, fourth)...)
	nothing(t, s, ring.KindFires, h.visibility()+50*time.Millisecond)
}

// queueWakes: a waiter gets later messages, not before their time.
func queueWakes(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	slot := core.InstantOf(time.Now())
	got := make(chan []store.Delivery, 1)
	wait, cancel := context.WithCancel(limited(t))
	defer cancel()
	go func() {
		d, err := s.Queue.Receive(wait, ring.KindFires, 10)
		if err != nil {
			d = nil
		}
		got <- d
	}()
	until := time.Now().Add(40 * time.Millisecond)
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: time.Now().Add(time.Hour), Message: message(slot, core.NumberedRun(1, 1))}})...)
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: until, Message: message(slot, core.NumberedRun(1, 2))}})...)
	d := <-got
	if now := time.Now(); now.Add(h.Coarse).Before(until) {
		t.Fatalf("visible %s early", until.Sub(now))
	}
	if len(d) != 1 || d[0].Message.Fires[0].Run != core.NumberedRun(1, 2) {
		t.Fatalf("received %+v", d)
	}
	// An end of ctx ends the wait.
	go func() {
		_, err := s.Queue.Receive(wait, ring.KindCheck, 10)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of ctx", err)
		}
		got <- nil
	}()
	cancel()
	<-got
}

// queueAcross: several receivers get every message once.
func queueAcross(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	now := time.Now()
	slot := core.InstantOf(now)
	const n = 200
	var out []ring.Out
	for i := range n {
		out = append(out, ring.Out{NotBefore: now.Add(time.Duration(i%5) * time.Millisecond),
			Message: message(slot, core.NumberedRun(1, uint32(i)))})
	}
	var mu sync.Mutex
	seen := map[core.RunID]int{}
	wait, cancel := context.WithCancel(limited(t))
	defer cancel()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				got, err := s.Queue.Receive(wait, ring.KindFires, 10)
				if err != nil {
					return
				}
				s.Queue.Ack(ctx, got)
				mu.Lock()
				for _, d := range got {
					seen[d.Message.Fires[0].Run]++
				}
				if len(seen) == n {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	ok(t, s.Queue.Enqueue(ctx, out)...)
	all.Wait()
	if len(seen) != n {
		t.Fatalf("%d of %d messages came", len(seen), n)
	}
}

func oldestMessage(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	now := time.Now().Truncate(time.Millisecond)
	slot := core.InstantOf(now)
	want := func(w time.Time, back ...core.Instant) {
		t.Helper()
		got, err := s.Queue.Oldest(ctx)
		ok(t, err)
		if !slices.IsSorted(got.Back) || h.Coarse == 0 && !slices.Equal(got.Back, back) {
			t.Fatalf("requeued are %v, want %v", got.Back, back)
		}
		for _, slot := range back {
			if !got.PutBack(slot, slot) {
				t.Fatalf("requeued are %v, and %d is missing", got.Back, slot)
			}
		}
		if h.Coarse > 0 { // a bound on the safe side
			if !w.IsZero() && (got.First().IsZero() || got.First().After(w)) {
				t.Fatalf("the oldest is of %s, but reported as of %s", w, got.First())
			}
			return
		}
		if !got.Due.Equal(w) {
			t.Fatalf("the oldest is of %s, want %s", got.Due, w)
		}
	}
	want(time.Time{})
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now.Add(time.Hour), Message: message(slot+3600, core.NumberedRun(1, 1))}})...)
	want(time.Time{})
	minute, hour := slot-60, slot-3600
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{
		{NotBefore: minute.Time(), Message: message(minute, core.NumberedRun(1, 2))},
		{NotBefore: hour.Time(), Message: message(hour, core.NumberedRun(1, 3))}})...)
	want(hour.Time())
	got := receive(t, s, 1)
	want(hour.Time()) // in flight is not acked
	ok(t, s.Queue.Ack(ctx, got)...)
	if h.Coarse == 0 { // a queue without order may have given the other
		want(minute.Time())
	}
	ok(t, s.Queue.Ack(ctx, receive(t, s, 1))...)
	if h.Coarse == 0 {
		want(time.Time{})
	}
	// A requeued message may wait for hours, so it does not make the ring look behind: its slot
	// is named, once.
	old, older := slot-100, slot-4*3600
	back := func(slot core.Instant, wait time.Duration) ring.Out {
		return ring.Out{NotBefore: now.Add(wait), Message: message(slot, core.NumberedRun(1, 4))}
	}
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{back(old, time.Minute), back(older, 2*time.Minute), back(old, 30*time.Second)})...)
	want(time.Time{}, older, old)
	if got, err := s.Queue.Oldest(ctx); err != nil || !got.Due.IsZero() && got.Due.Before(now.Add(-time.Hour)) {
		t.Fatalf("a requeued message makes the delay queue look late since %s: %v", got.Due, err)
	}
	if h.Coarse > 0 { // it reports no ages, and names no message by itself
		return
	}
	// So it is with one that is released until the claim of another ends, also while it
	// is in flight again.
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: hour.Time(), Message: message(hour, core.NumberedRun(1, 5))}})...)
	got = receive(t, s, 1)
	want(hour.Time(), older, old)
	ok(t, s.Queue.Release(ctx, got, now.Add(time.Hour))...)
	want(time.Time{}, older, hour, old)
	ok(t, s.Queue.Ack(ctx, got)...)
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: hour.Time(), Message: message(hour, core.NumberedRun(1, 6))}})...)
	ok(t, s.Queue.Release(ctx, receive(t, s, 1), time.Now())...)
	got = receive(t, s, 1)
	if got, err := s.Queue.Oldest(ctx); err != nil || !got.PutBack(hour, hour) || got.Due.Before(now) {
		t.Fatalf("a requeued message in flight makes the delay queue look late since %s, requeued are %v, %v", got.Due, got.Back, err)
	}
	ok(t, s.Queue.Ack(ctx, got)...)
	want(time.Time{}, older, old)
}

// sweepAll sweeps until nothing more goes.
func sweepAll(t *testing.T, s *store.Store, now time.Time, runs, journals time.Duration) {
	t.Helper()
	for idle := 0; idle < 2; {
		n, err := s.Sweep(t.Context(), now, runs, journals, 10)
		ok(t, err)
		if n > 10 {
			t.Fatalf("%d removed, 10 were allowed", n)
		}
		if n == 0 {
			idle++
		} else {
			idle = 0
		}
	}
}

func sweep(t *testing.T, h Harness) {
	if h.Expires {
		t.Skip("this store sweeps itself")
	}
	s, ctx := h.Open(t), t.Context()
	now := time.Now()
	long := job(2)
	long.Def.Keep.Days = 100
	ever := job(3)
	ever.Def.Keep.Days = core.KeepForever
	createJobs(t, s, job(1), long, ever)
	var gone, stay []core.RunID
	ended := func(r *core.Run) { r.State, r.EndedAt = core.Succeeded, now }
	for i := range 30 {
		put(t, s, core.NumberedRun(1, uint32(i)), func(r *core.Run) { ended(r); r.Key = "k" })
		gone = append(gone, core.NumberedRun(1, uint32(i)))
	}
	put(t, s, core.NumberedRun(1, 99), nil)
	put(t, s, core.NumberedRun(2, 1), ended)
	put(t, s, core.NumberedRun(3, 1), ended)
	stay = append(stay, core.NumberedRun(1, 99), core.NumberedRun(2, 1), core.NumberedRun(3, 1))
	minute := now.Unix() / 60
	old, young := journal(minute-60, "old", 1, 2), journal(minute, "new", 1, 2)
	old.Entries[0].Run, young.Entries[0].Run = core.NumberedRun(1, 99), core.NumberedRun(1, 99) // open
	ok(t, s.PutJournal(ctx, old))
	ok(t, s.PutJournal(ctx, young))
	ok(t, s.PutSkips(ctx, []core.Skip{
		{Job: 1, First: at(0), Last: at(1), Count: 2, Reason: core.ReasonMisfire, Made: now},
		{Job: 2, First: at(0), Last: at(1), Count: 2, Reason: core.ReasonMisfire, Made: now},
		{Job: 3, First: at(0), Last: at(1), Count: 2, Reason: core.ReasonMisfire, Made: now}})...)
	_, err := s.PutKey(ctx, 1, "k", core.NumberedRun(1, 1))
	ok(t, err)

	ok(t, s.MoveCursor(ctx, 0, minute+1))
	sweepAll(t, s, now, 0, 30*time.Minute)
	for _, id := range slices.Concat(gone, stay) {
		mustRun(t, s, id)
	}
	js, err := s.JournalsAt(ctx, minute-60, core.JournalKey{}, 1000)
	ok(t, err)
	if len(js) != 0 {
		t.Fatalf("old journals: %v", js)
	}
	js, err = s.JournalsAt(ctx, minute, core.JournalKey{}, 1000)
	ok(t, err)
	if len(js) != 1 {
		t.Fatalf("new journals: %v", js)
	}
	if id, err := s.PutKey(ctx, 1, "k", core.NumberedRun(1, 2)); err != nil || id != core.NumberedRun(1, 1) {
		t.Fatalf("a young key is bound to %d, %v", id, err)
	}

	sweepAll(t, s, now.Add(10*24*time.Hour), 0, 365*24*time.Hour)
	for _, id := range gone {
		if _, is := readRun(t, s, id); is {
			t.Fatalf("run %d is still there", id)
		}
	}
	for _, id := range stay {
		mustRun(t, s, id)
	}
	for job, want := range map[core.JobID]int{1: 0, 2: 1, 3: 1} {
		list, err := s.Skips(ctx, job, at(0), at(9))
		ok(t, err)
		if len(list) != want {
			t.Fatalf("skips of job %d: %v", job, list)
		}
	}
	if id, err := s.PutKey(ctx, 1, "k", core.NumberedRun(1, 2)); err != nil || id != core.NumberedRun(1, 2) {
		t.Fatalf("an old key is bound to %d, %v", id, err)
	}
	sweepAll(t, s, now.Add(100*365*24*time.Hour), 0, 365*24*time.Hour)
	if _, is := readRun(t, s, core.NumberedRun(2, 1)); is {
		t.Fatal("a hundred days are over")
	}
	mustRun(t, s, core.NumberedRun(3, 1))
	if list, err := s.Skips(ctx, 3, at(0), at(9)); err != nil || len(list) != 1 {
		t.Fatalf("skips that are kept for ever: %v, %v", list, err)
	}
	sweepAll(t, s, now.Add(10*24*time.Hour), 24*time.Hour, 365*24*time.Hour)
	if _, is := readRun(t, s, core.NumberedRun(3, 1)); is {
		t.Fatal("the given keeping does not count")
	}
	mustRun(t, s, core.NumberedRun(1, 99)) // it is open
}

// sweepNeeded: items that may still be read stay, however old they are.
func sweepNeeded(t *testing.T, h Harness) {
	if h.Expires {
		t.Skip("this store sweeps itself")
	}
	s, ctx := h.Open(t), t.Context()
	now := time.Now()
	slot := core.InstantOf(now)
	later := now.Add(100 * 24 * time.Hour)
	all := func() { sweepAll(t, s, later, 24*time.Hour, 24*time.Hour) }
	old := func(id core.RunID, change func(*core.Run)) core.RunID {
		put(t, s, id, func(r *core.Run) {
			closed(r)
			r.Slot, r.EndedAt = slot, now
			change(r)
		})
		return id
	}
	gone := func(why string, ids ...core.RunID) {
		t.Helper()
		all()
		for _, id := range ids {
			if _, is := readRun(t, s, id); is {
				t.Errorf("run %d is still there: %s", id, why)
			}
		}
	}
	stay := func(why string, ids ...core.RunID) {
		t.Helper()
		all()
		for _, id := range ids {
			if _, is := readRun(t, s, id); !is {
				t.Errorf("run %d was removed: %s", id, why)
			}
		}
	}
	follow := func(then core.RunID) func(*core.Run) {
		return func(r *core.Run) { r.State, r.Then = core.Failed, then }
	}
	end := func(ids ...core.RunID) {
		t.Helper()
		for _, id := range ids {
			ok(t, s.ChangeRuns(ctx, []core.RunPut{core.End(id, core.Run{State: core.Succeeded, EndedAt: now})})...)
		}
	}
	n := uint32(0)
	number := func(job core.JobID) core.RunID { n++; return core.NumberedRun(job, n) }

	// A run with follow-ups, and the runs that lead to it.
	owing := number(1)
	first := old(number(1), follow(owing))
	old(owing, func(r *core.Run) {
		r.State, r.Then = core.Failed, core.NumberedRun(1, 999)
		r.Owes = []core.Owed{{Run: r.Then, Kind: core.CauseRetry, Slot: slot}}
	})
	stay("it owes", first, owing)
	clearOwed(t, s, owing)
	gone("nothing is owed any more", first, owing)

	// Attempts before an open one.
	last, second := number(1), number(1)
	first = old(number(1), follow(second))
	old(second, follow(last))
	put(t, s, last, nil)
	stay("its chain is open", first, second, last)
	end(last)
	gone("its chain is closed", first, second, last)

	// The attempts of a tail, and planned runs that a tick may send once more.
	j := job(2)
	j.Sched.Next, j.Sched.Tail = at(60), core.PlannedRun(2, at(60))
	createJobs(t, s, j)
	second = number(2)
	first = old(j.Sched.Tail, follow(second))
	old(second, func(r *core.Run) { r.First = first })
	ahead, before := old(core.PlannedRun(2, at(120)), func(*core.Run) {}), old(core.PlannedRun(2, at(10)), func(*core.Run) {})
	stay("its chain is the job's tail, or it is not before the job's next", first, second, ahead)
	gone("the job is past it", before)
	move := j.Sched.Stay()
	move.NewTail, move.NewNext = 0, at(121)
	ok(t, s.Advance(ctx, []core.Advance{move})...)
	gone("the job is past it", first, second, ahead)

	// A shard, and its other attempts, while its broadcast is open. Shards of others go.
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
	gone("its broadcast is not there any more", other)
	end(whole.ID)
	gone("its broadcast is closed", append(shards, whole.ID)...)

	// An unacked message may name runs of its slot, and no others, however long it waits.
	same, younger := old(number(1), func(*core.Run) {}), old(number(1), func(r *core.Run) { r.Slot = slot + 1 })
	older := old(number(1), func(r *core.Run) { r.Slot = slot - 1 })
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: message(slot, same)}})...)
	got := receive(t, s, 1)
	stay("a message may name it", same)
	gone("no message is of its slot", older, younger)
	ok(t, s.Queue.Ack(ctx, got)...)
	gone("no message is there", same)
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now.Add(time.Hour), Message: message(slot-1, number(1))}})...) // and stays

	// The key of an open run.
	id := put(t, s, number(1), func(r *core.Run) { unowned(r); r.Key = "key" }).ID
	other = number(1)
	for i, want := range []core.RunID{id, id, other} {
		if i == 2 {
			end(id)
		}
		all()
		if bound, err := s.PutKey(ctx, 1, "key", []core.RunID{id, other, other}[i]); err != nil || bound != want {
			t.Errorf("the key is bound to %d, want %d, %v", bound, want, err)
		}
	}

	// A tombstone.
	createJobs(t, s, job(3))
	ok(t, s.Jobs.Put(ctx, []store.JobPut{deletesAt(3, 100, now)})[0])
	stone := func(want bool, why string) {
		t.Helper()
		all()
		found, err := s.Tombstones(ctx, []core.JobID{3})
		ok(t, err)
		if _, is := found[3]; is != want {
			t.Errorf("the tombstone exists: %t; %s", is, why)
		}
	}
	id = put(t, s, number(3), unowned).ID
	stone(true, "a run is open")
	entry := core.DueItem{PlanAt: slot, Job: 3, Run: id}
	ok(t, s.Enter(ctx, []core.DueItem{entry})...)
	owed := []core.Owed{{Run: number(3), Kind: core.CauseRetry, Slot: slot}}
	ok(t, s.ChangeRuns(ctx, []core.RunPut{core.End(id, core.Run{State: core.Failed, EndedAt: now, Owes: owed, Then: owed[0].Run})})...)
	stone(true, "an entry waits")
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: message(slot, core.PlannedRun(3, slot))}})...)
	ok(t, s.Leave(ctx, []core.DueItem{entry})...)
	got = receive(t, s, 1)
	stone(true, "a message waits")
	ok(t, s.Queue.Ack(ctx, got)...)
	stone(true, "a retry is owed")
	clearOwed(t, s, id)
	stone(false, "nothing asks for it")

	// A journal of an open run.
	minute := now.Unix() / 60
	key := journal(minute, "n", 1, 2)
	key.Entries[1].Run = put(t, s, number(1), nil).ID
	ok(t, s.PutJournal(ctx, key))
	stored := func(want int, why string) {
		t.Helper()
		all()
		list, err := s.JournalsAt(ctx, minute, core.JournalKey{}, 1000)
		ok(t, err)
		if len(list) != want {
			t.Errorf("%d journals, want %d; %s", len(list), want, why)
		}
	}
	stored(1, "the watchdog has not been there")
	ok(t, s.MoveCursor(ctx, 0, minute-1))
	stored(1, "the watchdog has not been there")
	ok(t, s.PutRevisits(ctx, minute+20, []core.JournalKey{key.Key}))
	ok(t, s.MoveCursor(ctx, minute-1, minute+19))
	stored(1, "it is to be read again")
	ok(t, s.MoveCursor(ctx, minute+19, minute+21))
	stored(0, "it was read again")
	if keys, err := s.Revisits(ctx, minute+20, core.JournalKey{}, 1000); err != nil || len(keys) > 0 {
		t.Errorf("revisits of a minute that is over: %v, %v", keys, err)
	}
}

// sweepJournals: a journal goes once no reader can need it, and not before. sweepExecutors: an
// executor without a beat for as long as journals are kept is forgotten.
func sweepExecutors(t *testing.T, h Harness) {
	if h.Expires && h.Wait == nil {
		t.Skip("this store sweeps itself, and time cannot be let pass")
	}
	const keep, day = 20 * 24 * time.Hour, 24 * time.Hour
	s, ctx, now := h.Open(t), t.Context(), time.Now()
	pass := func(d time.Duration) {
		if now = now.Add(d); h.Expires {
			h.Wait(s, d)
		} else {
			sweepAll(t, s, now, keep, keep)
		}
	}
	beat := func(address string) {
		ok(t, s.PutExecutor(ctx, core.Executor{App: "a", Address: address, Beat: now, Since: now}))
	}
	there := func(want ...string) {
		t.Helper()
		found, err := s.Executors(ctx, []string{"a"})
		ok(t, err)
		var is []string
		for _, x := range found["a"] {
			is = append(is, x.Address)
		}
		slices.Sort(is)
		same(t, "executors", is, want)
	}
	beat("http://died")
	beat("http://lives")
	pass(keep - day)
	there("http://died", "http://lives")
	beat("http://lives")
	pass(2 * day)
	there("http://lives")
	pass(keep)
	there()
	beat("http://removed")
	ok(t, s.RemoveExecutor(ctx, "a", "http://removed", time.Time{})) // whatever its heartbeat is
	there()
}

func sweepJournals(t *testing.T, h Harness) {
	if h.Expires {
		t.Skip("this store sweeps itself")
	}
	s, ctx := h.Open(t), t.Context()
	now := time.Now()
	minute := now.Unix() / 60
	const week = 7 * 24 * time.Hour
	there := func(nonce string, want bool, why string) {
		t.Helper()
		sweepAll(t, s, now, week, week)
		key := core.JournalKey{Minute: minute, Suffix: 3, Nonce: nonce}
		found, err := s.Journals(ctx, []core.JournalKey{key})
		ok(t, err)
		if _, is := found[key]; is != want {
			t.Errorf("journal %s exists: %t; %s", nonce, is, why)
		}
	}
	write := func(nonce string, v int, entries ...core.Entry) core.Journal {
		t.Helper()
		j := core.Journal{Key: core.JournalKey{Minute: minute, Suffix: 3, Nonce: nonce}, V: v, Entries: entries}
		ok(t, s.PutJournal(ctx, j))
		return j
	}
	end := func(id core.RunID, owes ...core.Owed) {
		t.Helper()
		to := core.Run{State: core.Failed, Reason: core.ReasonHandler, EndedAt: now, Owes: owes}
		if len(owes) > 0 {
			to.Then = owes[0].Run
		}
		ok(t, s.ChangeRuns(ctx, []core.RunPut{core.End(id, to)})...)
	}
	n := 0
	entry := func(o core.Outcome) core.Entry {
		n++
		return core.Entry{Run: core.PlannedRun(1, at(n)), Address: "http://a", Outcome: o}
	}
	claim := func(o core.Outcome) core.Entry {
		x := entry(o)
		put(t, s, x.Run, nil)
		return x
	}

	ok(t, s.MoveCursor(ctx, 0, minute-20))
	for _, o := range []core.Outcome{core.Begun, core.Accepted, core.Unconfirmed} {
		a, b := claim(o), claim(core.Accepted)
		name := o.String()
		write(name, 1, a, b)
		end(b.Run)
		there(name, true, "a run is open")
		owed := core.Owed{Run: core.NumberedRun(1, uint32(n)), Kind: core.CauseRetry, Slot: at(9)}
		end(a.Run, owed)
		there(name, true, "a retry is owed")
		clearOwed(t, s, a.Run)
		there(name, false, "all is closed, and nothing owed")
	}

	// A shard's journal stays while its broadcast is open; the journal of another broadcast's shard goes.
	whole := put(t, s, core.NumberedRun(1, 1000), func(r *core.Run) {
		r.Spread(core.NumberedRun(1, 1001), []string{"http://a", "http://b"}, false)
	})
	retry := core.NumberedRun(1, 1003) // of the first shard
	put(t, s, retry, func(r *core.Run) { r.First, r.Shard.Of = core.NumberedRun(1, 1001), whole.ID })
	old := put(t, s, core.NumberedRun(1, 900), func(r *core.Run) { r.Shard.Of = core.NumberedRun(1, 899) }).ID
	end(retry)
	end(old)
	write("shard", 1, core.Entry{Run: retry, Address: "http://a", Outcome: core.Accepted})
	write("old shard", 1, core.Entry{Run: old, Address: "http://a", Outcome: core.Accepted})
	there("old shard", false, "its broadcast is not open")
	there("shard", true, "its broadcast is open")
	end(whole.ID)
	there("shard", false, "its broadcast is closed")

	// Written again with more runs after its first form went.
	a := claim(core.Accepted)
	end(a.Run)
	write("again", 1, a)
	there("again", false, "all is closed")
	b := claim(core.Begun)
	write("again", 2, a, b)
	there("again", true, "a run is open")
	end(b.Run)
	there("again", false, "all is closed")

	// Until the watchdog has read it, an untouched run may be claimed by another that holds a
	// copy.
	left := entry(core.Left)
	j := write("left", 1, left)
	there("left", true, "the watchdog has not been there")
	late := left
	late.Outcome = core.Begun
	put(t, s, late.Run, nil)
	ok(t, s.PutRevisits(ctx, minute+10, []core.JournalKey{j.Key}))
	ok(t, s.MoveCursor(ctx, minute-20, minute))
	there("left", true, "its run is open")
	end(left.Run)
	there("left", true, "the watchdog is to read it again")
	ok(t, s.MoveCursor(ctx, minute, minute+10))
	there("left", false, "the watchdog was there")
}

// noAliasing: callers may change arguments and results without an effect on the store, except jobs, which are shared.
func noAliasing(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	j := job(1)
	createJobs(t, s, j)
	j.Def.Labels["team"], j.Def.Retry.On[0], j.Sched.Schedule.Any[0].Expr = "x", core.Lost, "x"
	same(t, "job", mustJob(t, s, 1), job(1))
	r := fullRun(core.NumberedRun(1, 1))
	r.State = core.Running
	r.EndedAt, r.Owes, r.Late = time.Time{}, nil, nil
	ok(t, s.CreateRuns(ctx, []core.Run{r})...)
	want := mustRun(t, s, r.ID)
	*r.Params, r.Addresses[0], r.Tries[0].Address = "x", "x", "x"
	for range 2 {
		got := mustRun(t, s, r.ID)
		same(t, "run", got, want)
		*got.Params, got.Addresses[0], got.Tries[0].Address = "y", "y", "y"
		want = mustRun(t, s, r.ID)
		if *want.Params == "y" || want.Addresses[0] == "y" {
			t.Fatal("a run shares memory with the store")
		}
	}
	now := time.Now()
	slot := core.InstantOf(now)
	m := message(slot, core.NumberedRun(1, 1))
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: m}})...)
	m.Fires[0].Run = 1
	for range 2 {
		got := receive(t, s, 1)
		if d := cmp.Diff(message(slot, core.NumberedRun(1, 1)), got[0].Message); d != "" {
			t.Fatal(d)
		}
		got[0].Message.Fires[0].Run = 2
		ok(t, s.Queue.Release(ctx, got, now)...)
	}
	jn := journal(5, "n", 1, 3)
	ok(t, s.PutJournal(ctx, jn))
	jn.Entries[0].Run = 9
	for range 2 {
		got, err := s.Journals(ctx, []core.JournalKey{jn.Key})
		ok(t, err)
		same(t, "journal", got[jn.Key], journal(5, "n", 1, 3))
		got[jn.Key].Entries[0].Run = 9
	}
}

// endedContext: a write whose context ended before the call is not done.
func endedContext(t *testing.T, h Harness) {
	s := h.Open(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r := run(core.NumberedRun(1, 1))
	errs := s.CreateRuns(ended, []core.Run{r})
	if errs[0] == nil {
		t.Fatal("a write with an ended context was answered ok")
	}
	if _, is := readRun(t, s, r.ID); is {
		t.Fatal("a write with an ended context was done")
	}
	if _, err := s.Jobs.Get(ended, store.Whole, []core.JobID{1}); err == nil {
		t.Fatal("a read with an ended context was answered")
	}
	errs = s.Queue.Enqueue(ended, []ring.Out{{NotBefore: time.Now(), Message: message(at(1), r.ID)}})
	if errs[0] == nil {
		t.Fatal("a message with an ended context was answered ok")
	}
}

// empty: no items, no answers, no errors.
func empty(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	for _, errs := range [][]error{
		s.CreateRuns(ctx, nil), s.ChangeRuns(ctx, nil),
		s.Enter(ctx, nil), s.Advance(ctx, nil), s.PutSkips(ctx, nil),
		s.Jobs.Put(ctx, nil), s.Queue.Enqueue(ctx, nil), s.Queue.Ack(ctx, nil), s.Queue.Release(ctx,
			nil, base),
	} {
		if len(errs) != 0 {
			t.Fatalf("answers to nothing: %v", errs)
		}
	}
	_, err := s.Jobs.Get(ctx, store.Whole, nil)
	ok(t, err)
	_, err = s.Runs.Get(ctx, nil)
	ok(t, err)
	_, err = s.Apps(ctx)
	ok(t, err)
	_, err = s.Executors(ctx, nil)
	ok(t, err)
	_, err = s.Journals(ctx, nil)
	ok(t, err)
	ok(t, s.PutChanges(ctx, nil))
	ok(t, s.PutRevisits(ctx, 1, nil))
}

// reopen: acknowledged writes are there after the engine was closed.
func reopen(t *testing.T, h Harness) {
	if h.Reopen == nil {
		t.Skip("this engine keeps nothing")
	}
	s, ctx := h.Open(t), t.Context()
	createJobs(t, s, job(1), job(2))
	a := job(1).Sched.Stay()
	a.NewNext, a.NewPlanAt = at(500), at(490)
	ok(t, s.Advance(ctx, []core.Advance{a})...)
	id := ids(3)
	r := put(t, s, id[0], nil)
	put(t, s, id[1], nil)
	ok(t, s.ChangeRuns(ctx, []core.RunPut{core.End(id[1], core.Run{State: core.Succeeded, Code: 200, EndedAt: base})})...)
	ok(t, s.PutJournal(ctx, journal(9, "n", 1, 3)))
	ok(t, s.MoveCursor(ctx, 0, 44))
	ok(t, s.PutGlobal(ctx, 0, core.Global{Rev: 3, Partitions: 1, Readable: 1}))
	firstJob, err := s.JobIDs(ctx, 5)
	ok(t, err)
	first, err := s.RunNumbers(ctx, 1, 3)
	ok(t, err)
	now := time.Now()
	slot := core.InstantOf(now)
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{
		{NotBefore: now, Message: message(slot, core.NumberedRun(1, 1))},
		{NotBefore: now.Add(time.Millisecond), Message: message(slot, core.NumberedRun(1, 2))}})...)
	got := receive(t, s, 1)
	ok(t, s.Queue.Ack(ctx, got)...)

	s = h.Reopen(t, s)
	want := job(1)
	want.Sched = want.Sched.Moved(a)
	same(t, "job", mustJob(t, s, 1), want)
	sameRun(t, s, r)
	if mustRun(t, s, id[1]).State != core.Succeeded {
		t.Fatal("a close is lost")
	}
	refused(t, s.CreateRuns(ctx, []core.Run{run(id[0])})[0])
	wantDue(t, h, s, 0, core.Horizon, 10, core.DueItem{PlanAt: at(55), Job: 2}, core.DueItem{PlanAt: at(490), Job: 1})
	js, err := s.JournalsAt(ctx, 9, core.JournalKey{}, 1000)
	ok(t, err)
	same(t, "journals", js, []core.Journal{journal(9, "n", 1, 3)})
	cursor, err := s.Cursor(ctx)
	ok(t, err)
	g, err := s.Global(ctx)
	ok(t, err)
	if cursor != 44 || g.Rev != 3 {
		t.Fatalf("cursor %d, global %+v", cursor, g)
	}
	if id, err := s.JobIDs(ctx, 1); err != nil || id < firstJob+5 {
		t.Fatalf("job number %d, %v", id, err)
	}
	if n, err := s.RunNumbers(ctx, 1, 1); err != nil || n < first+3 {
		t.Fatalf("number %d, %v", n, err)
	}
	left := receive(t, s, 10)
	if len(left) != 1 || left[0].Message.Fires[0].Run == got[0].Message.Fires[0].Run {
		t.Fatalf("on the ring: %+v", left)
	}
}

// lanes: messages of the slow queue come only from it, unchanged, until they are acked, and
// count for the oldest message.
func lanes(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	now := time.Now()
	slot := core.InstantOf(now) - 3600
	fast, slow := message(slot+3600, core.PlannedRun(1, slot+3600)), message(slot, core.PlannedRun(2, slot))
	slow.Slow, slow.Try = true, 3
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: fast}, {NotBefore: now, Message: slow}})...)
	for kind, want := range map[ring.Kind]ring.Message{ring.KindFires: fast, ring.KindSlow: slow} {
		got, err := s.Queue.Receive(limited(t), kind, 10)
		ok(t, err)
		if len(got) != 1 {
			t.Fatalf("received %+v", got)
		}
		same(t, string(kind), got[0].Message, want)
		_, _, inFlight, err := s.Queue.Depth(ctx, kind)
		ok(t, err)
		same(t, "in flight on "+string(kind), inFlight, 1)
		ok(t, s.Queue.Release(ctx, got, now)...)
	}
	oldest, err := s.Queue.Oldest(ctx)
	ok(t, err)
	if at := oldest.First(); at.IsZero() || at.After(slot.Time()) {
		t.Errorf("the oldest message is of %s; one of %s is on the slow lane", at, slot)
	}
	for _, kind := range []ring.Kind{ring.KindFires, ring.KindSlow} {
		got, err := s.Queue.Receive(limited(t), kind, 10)
		ok(t, err)
		if len(got) != 1 || got[0].Receives != 2 {
			t.Fatalf("%s: released and received %+v", kind, got)
		}
		ok(t, s.Queue.Ack(ctx, got)...)
		nothing(t, s, kind, h.visibility()+50*time.Millisecond)
	}
}

// counted: the limits that count a run are stored when it is taken, or waits, with its other fields.
func counted(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	for i, long := range []int{1, 2000} {
		r := put(t, s, core.NumberedRun(9, uint32(i)), func(r *core.Run) {
			params := strings.Repeat("p", long)
			unowned(r)
			r.Params, r.Addresses, r.Key, r.By = &params, []string{"http://10.0.0.1:9999"}, "k", "ann"
		})
		waits := r.Wait().Counted("group/db")
		answers(t, s.ChangeRuns(ctx, []core.RunPut{waits}), "ok")
		waits.Apply(&r)
		sameRun(t, s, r)
		take := r.Take(core.Claim{Owner: "nonce-9", Until: base.Add(time.Minute)}, "", base, nil).Counted("group/db+app/orders")
		answers(t, s.ChangeRuns(ctx, []core.RunPut{take, waits}), "ok", "refused")
		if take.Apply(&r); r.Permit != "group/db+app/orders" || r.Key != "k" {
			t.Errorf("%+v", r)
		}
		sameRun(t, s, r)
	}
}

// letters: dead-letter messages are listed, newest first, until they are dropped.
func letters(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	slot := core.InstantOf(time.Now())
	began := time.Now().Add(-time.Minute)
	var want []core.Letter
	for i := range 3 {
		m := message(slot, core.PlannedRun(core.JobID(i+1), slot))
		l := core.Letter{Reason: "reason " + string(rune('a'+i)), Body: string(ring.Encode(m))}
		ok(t, s.Queue.Bury(ctx, m, l.Reason))
		want = append(want, l)
	}
	read := func(n int) (list []core.Letter) {
		t.Helper()
		eventually(t, h, func() string {
			if h.TakeLetters != nil {
				ok(t, h.TakeLetters(ctx, s))
			}
			var err error
			list, err = s.Letters(ctx, "", 10)
			ok(t, err)
			if len(list) != n {
				return "not all are there"
			}
			return ""
		})
		return list
	}
	list := read(len(want))
	for i, l := range list {
		if l.ID == "" || l.At.Before(began) || l.At.After(time.Now().Add(time.Minute)) {
			t.Errorf("letter %+v", l)
		}
		if i > 0 && l.At.After(list[i-1].At) {
			t.Errorf("letter %d is of %s, after one of %s", i, l.At, list[i-1].At)
		}
		if !slices.ContainsFunc(want, func(w core.Letter) bool { return w.Reason == l.Reason && w.Body == l.Body }) {
			t.Errorf("letter %+v", l)
		}
	}
	page, err := s.Letters(ctx, list[0].ID, 1)
	ok(t, err)
	same(t, "the letter after the first", page, list[1:2])
	ok(t, s.DropLetter(ctx, list[1].ID))
	ok(t, s.DropLetter(ctx, list[1].ID))
	ok(t, s.DropLetter(ctx, "no such letter"))
	page, err = s.Letters(ctx, "", 10)
	ok(t, err)
	same(t, "the letters that are left", page, []core.Letter{list[0], list[2]})

	// No dead-letter message reuses the ID of a removed one: the ID serves as the position in a
	// list, and a second removal would remove the new message.
	ok(t, s.DropLetter(ctx, list[0].ID))
	ok(t, s.Queue.Bury(ctx, ring.Message{Kind: ring.KindCheck, Slot: at(1), Check: &ring.Check{Runs: ids(1)}}, "one more"))
	for _, l := range read(2) {
		if l.Reason == "one more" && (l.ID == list[0].ID || l.ID == list[1].ID) {
			t.Errorf("a letter with the ID of one that is gone: %+v", l)
		}
	}
}
