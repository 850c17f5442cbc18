package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// message returns a message of the delay queue with runs of a due time.
func message(slot core.Instant, runs ...core.RunID) ring.Message {
	m := ring.Message{Kind: ring.KindFires, Slot: slot}
	for i, r := range runs {
		at, is := r.Planned()
		if !is {
			at = slot
		}
		m.Fires = append(m.Fires, core.Fire{Run: r, Rev: 100, At: at, Slot: slot, Cause: core.CauseSchedule, Seq: int64(i)})
	}
	return m
}

// out returns a message of one numbered run of job 1.
func out(at time.Time, slot core.Instant, number int) ring.Out {
	return ring.Out{NotBefore: at, Message: message(slot, core.NumberedRun(1, uint32(number)))}
}

// limited returns a context that ends with the test, or a while after Visibility.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// receive waits for messages of runs.
func receive(t *testing.T, s *store.Store, limit int) []store.Delivery {
	t.Helper()
	got, err := s.Queue.Receive(limited(t), ring.KindFires, limit)
	if ok(t, err); len(got) == 0 || len(got) > limit {
		t.Fatalf("%d messages, 1 to %d were asked for", len(got), limit)
	}
	return got
}

// nothing checks that no message is visible for a while.
func nothing(t *testing.T, s *store.Store, kind ring.Kind, for_ time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), for_)
	defer cancel()
	if got, err := s.Queue.Receive(ctx, kind, 10); err == nil || len(got) > 0 {
		t.Fatalf("%s: got %v, want nothing", kind, got)
	}
}

// depth compares the number of due, waiting and in-flight messages of runs.
func depth(t *testing.T, s *store.Store, want ...int) {
	t.Helper()
	due, waiting, inFlight, err := s.Queue.Depth(t.Context(), ring.KindFires)
	ok(t, err)
	same(t, "depth", []int{due, waiting, inFlight}, want)
}

// queues: messages of each kind come only from their queue, unchanged, until they are acked. Post-run work does not count for the
// oldest message.
func queues(t *testing.T, h Harness) {
	s, ctx, now := h.Open(t), t.Context(), time.Now()
	slot := core.InstantOf(now)
	oldest := func() time.Time {
		t.Helper()
		got, err := s.Queue.Oldest(ctx)
		ok(t, err)
		return got.First()
	}
	j := journal(1000, "n", 2, 3)
	fast, slow := message(slot, core.PlannedRun(1, slot), core.NumberedRun(2, 7)), message(slot-3600, core.PlannedRun(2, slot-3600))
	fast.Try, slow.Slow, slow.Try = 2, true, 3
	want := map[ring.Kind]ring.Message{ring.KindFires: fast, ring.KindSlow: slow,
		ring.KindCheck: {Kind: ring.KindCheck, Slot: slot,
			Check: &ring.Check{Runs: []core.RunID{core.PlannedRun(1, slot)}, Idle: true, Journal: &j}},
		ring.KindPostRun: {Kind: ring.KindPostRun, Slot: slot - 5000, Try: 2, Unread: 7,
			PostRun: &ring.PostRun{Run: core.PlannedRun(1, at(60))}}}
	kinds := []ring.Kind{ring.KindPostRun, ring.KindFires, ring.KindSlow, ring.KindCheck}
	for i, kind := range kinds {
		ok(t, s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: want[kind]}})...)
		for _, other := range kinds[i+1:] {
			nothing(t, s, other, 20*time.Millisecond)
		}
		if i == 0 && !oldest().IsZero() {
			t.Errorf("a message of the post-run queue makes the delay queue look late since %s", oldest())
		}
	}
	if at := oldest(); at.IsZero() || at.After(slow.Slot.Time()) {
		t.Errorf("the oldest message is of %s; one of %s is on the slow queue", at, slow.Slot)
	}
	for receives := range 2 {
		for _, kind := range kinds {
			got, err := s.Queue.Receive(limited(t), kind, 10)
			if ok(t, err); len(got) != 1 || got[0].Receives != receives+1 {
				t.Fatalf("%s: received %+v", kind, got)
			}
			same(t, string(kind), got[0].Message, want[kind])
			_, _, inFlight, err := s.Queue.Depth(ctx, kind)
			ok(t, err)
			same(t, "in flight on "+string(kind), inFlight, 1)
			if receives == 0 {
				ok(t, s.Queue.Release(ctx, got, now)...)
			} else {
				ok(t, s.Queue.Ack(ctx, got)...)
			}
		}
	}
	nothing(t, s, ring.KindFires, h.visibility()+50*time.Millisecond)
	ok(t, s.Queue.Bury(ctx, fast, "no such job"))
	for _, kind := range kinds {
		nothing(t, s, kind, time.Millisecond)
	}
}

// queueOrder: a large backlog comes completely and, if the queue has an order, in order.
func queueOrder(t *testing.T, h Harness) {
	const n = 2000
	s, ctx, now := h.Open(t), t.Context(), time.Now()
	slot := core.InstantOf(now)
	list := []ring.Out{out(now.Add(time.Hour), slot+3600, n)}
	for i := range n {
		k := (i * 777) % n // not in order
		list = append(list, out(now.Add(time.Duration(k-2*n)*time.Millisecond), slot, k))
	}
	ok(t, s.Queue.Enqueue(ctx, list)...)
	depth(t, s, n, 1, 0)
	seen := map[core.RunID]bool{}
	for len(seen) < n {
		got := receive(t, s, 10)
		for _, d := range got {
			id := d.Message.Fires[0].Run
			if number, _ := id.Number(); h.Coarse == 0 && int(number) != len(seen) {
				t.Fatalf("message %d came as number %d", number, len(seen))
			}
			seen[id] = true
		}
		ok(t, s.Queue.Ack(ctx, got)...)
	}
	if h.Coarse == 0 {
		depth(t, s, 0, 1, 0)
	}
}

func queueVisibility(t *testing.T, h Harness) {
	s, ctx, now := h.Open(t), t.Context(), time.Now()
	slot := core.InstantOf(now)
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{out(now, slot, 1), out(now, slot, 2)})...)
	var first []store.Delivery
	var started time.Time // the last receipt, at the earliest
	for len(first) < 2 {
		started = time.Now()
		first = append(first, receive(t, s, 10)...)
	}
	ok(t, s.Queue.Ack(ctx, first[:1])...)
	again := func(receives int) []store.Delivery {
		t.Helper()
		got := receive(t, s, 10)
		if len(got) != 1 || got[0].Receives != receives {
			t.Fatalf("received %+v", got)
		}
		same(t, "the other message", got[0].Message, first[1].Message)
		return got
	}
	got := again(2)
	if took := time.Since(started); took < h.visibility()/2 {
		t.Fatalf("visible again after %s", took)
	}
	ok(t, s.Queue.Release(ctx, got, time.Now())...)
	got = again(3)
	until := time.Now().Add(100 * time.Millisecond)
	ok(t, s.Queue.Release(ctx, got, until)...)
	got = receive(t, s, 10)
	if now := time.Now(); now.Before(until) {
		t.Fatalf("visible %s early", until.Sub(now))
	}
	ok(t, s.Queue.Ack(ctx, got)...)
	nothing(t, s, ring.KindFires, h.visibility()+50*time.Millisecond)
}

// queueWakes: a waiting receiver gets later messages, not before their time.
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
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{out(time.Now().Add(time.Hour), slot, 1)})...)
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{out(until, slot, 2)})...)
	d := <-got
	if now := time.Now(); now.Add(h.Coarse).Before(until) {
		t.Fatalf("visible %s early", until.Sub(now))
	}
	if len(d) != 1 || d[0].Message.Fires[0].Run != core.NumberedRun(1, 2) {
		t.Fatalf("received %+v", d)
	}
	go func() { // an end of the context ends the wait
		_, err := s.Queue.Receive(wait, ring.KindCheck, 10)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of ctx", err)
		}
		got <- nil
	}()
	cancel()
	<-got
}

// queueAcross: several receivers get every message.
func queueAcross(t *testing.T, h Harness) {
	const n = 200
	s, ctx, now := h.Open(t), t.Context(), time.Now()
	var list []ring.Out
	for i := range n {
		list = append(list, out(now.Add(time.Duration(i%5)*time.Millisecond), core.InstantOf(now), i))
	}
	var mu sync.Mutex
	seen := map[core.RunID]bool{}
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
					seen[d.Message.Fires[0].Run] = true
				}
				if len(seen) == n {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	ok(t, s.Queue.Enqueue(ctx, list)...)
	if all.Wait(); len(seen) != n {
		t.Fatalf("%d of %d messages came", len(seen), n)
	}
}

func oldestMessage(t *testing.T, h Harness) {
	s, ctx, now := h.Open(t), t.Context(), time.Now().Truncate(time.Millisecond)
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
		switch late := !w.IsZero() && (got.First().IsZero() || got.First().After(w)); {
		case h.Coarse > 0 && late: // a bound on the safe side
			t.Fatalf("the oldest is of %s, but reported as of %s", w, got.First())
		case h.Coarse == 0 && !got.Due.Equal(w):
			t.Fatalf("the oldest is of %s, want %s", got.Due, w)
		}
	}
	exact := func(w time.Time) { // a queue without order may have received another message
		t.Helper()
		if h.Coarse == 0 {
			want(w)
		}
	}
	enqueue := func(list ...ring.Out) { t.Helper(); ok(t, s.Queue.Enqueue(ctx, list)...) }
	want(time.Time{})
	enqueue(out(now.Add(time.Hour), slot+3600, 1))
	want(time.Time{})
	minute, hour := slot-60, slot-3600
	enqueue(out(minute.Time(), minute, 2), out(hour.Time(), hour, 3))
	want(hour.Time())
	got := receive(t, s, 1)
	want(hour.Time()) // in flight is not acked
	ok(t, s.Queue.Ack(ctx, got)...)
	exact(minute.Time())
	ok(t, s.Queue.Ack(ctx, receive(t, s, 1))...)
	exact(time.Time{})
	// A requeued message may wait for hours: it does not make the queue look late, and its slot is named once.
	old, older := slot-100, slot-4*3600
	enqueue(out(now.Add(time.Minute), old, 4), out(now.Add(2*time.Minute), older, 4), out(now.Add(30*time.Second), old, 4))
	want(time.Time{}, older, old)
	if got, err := s.Queue.Oldest(ctx); err != nil || !got.Due.IsZero() && got.Due.Before(now.Add(-time.Hour)) {
		t.Fatalf("a requeued message makes the delay queue look late since %s: %v", got.Due, err)
	}
	if h.Coarse > 0 { // it reports no ages, and names no message by itself
		return
	}
	// The same is true of a message that is released until the claim of another process ends, also while it is in flight again.
	enqueue(out(hour.Time(), hour, 5))
	got = receive(t, s, 1)
	want(hour.Time(), older, old)
	ok(t, s.Queue.Release(ctx, got, now.Add(time.Hour))...)
	want(time.Time{}, older, hour, old)
	ok(t, s.Queue.Ack(ctx, got)...)
	enqueue(out(hour.Time(), hour, 6))
	ok(t, s.Queue.Release(ctx, receive(t, s, 1), time.Now())...)
	got = receive(t, s, 1)
	if got, err := s.Queue.Oldest(ctx); err != nil || !got.PutBack(hour, hour) || got.Due.Before(now) {
		t.Fatalf("a requeued message in flight makes the delay queue look late since %s, requeued are %v, %v", got.Due, got.Back, err)
	}
	ok(t, s.Queue.Ack(ctx, got)...)
	want(time.Time{}, older, old)
}

// letters: dead-letter messages are listed, newest first, until they are dropped.
func letters(t *testing.T, h Harness) {
	s, ctx, began := h.Open(t), t.Context(), time.Now().Add(-time.Minute)
	slot := core.InstantOf(time.Now())
	bodies := map[string]string{} // by reason
	bury := func(reason string, m ring.Message) {
		ok(t, s.Queue.Bury(ctx, m, reason))
		bodies[reason] = string(ring.Encode(m))
	}
	for i := range 3 {
		bury("reason "+strings.Repeat("a", i), message(slot, core.PlannedRun(core.JobID(i+1), slot)))
	}
	read := func(n int) (list []core.Letter) {
		t.Helper()
		eventually(t, h, func() (missing string) {
			if h.TakeLetters != nil {
				ok(t, h.TakeLetters(ctx, s))
			}
			var err error
			list, err = s.Letters(ctx, "", 10)
			if ok(t, err); len(list) != n {
				missing = "a message"
			}
			return missing
		})
		for i, l := range list {
			if l.ID == "" || l.At.Before(began) || l.At.After(time.Now().Add(time.Minute)) || bodies[l.Reason] != l.Body ||
				i > 0 && l.At.After(list[i-1].At) {
				t.Errorf("dead-letter message %d: %+v", i, l)
			}
		}
		return list
	}
	list := read(3)
	reads(t, "the message after the first", list[1:2])(s.Letters(ctx, list[0].ID, 1))
	for _, id := range []string{list[1].ID, list[1].ID, "no such message"} {
		ok(t, s.DropLetter(ctx, id))
	}
	reads(t, "the messages that are left", []core.Letter{list[0], list[2]})(s.Letters(ctx, "", 10))
	// No dead-letter message reuses the ID of a removed one: the ID serves as the position in a list, and a second removal would
	// remove the new message.
	ok(t, s.DropLetter(ctx, list[0].ID))
	bury("one more", ring.Message{Kind: ring.KindCheck, Slot: at(1), Check: &ring.Check{Runs: ids(1)}})
	for _, l := range read(2) {
		if l.Reason == "one more" && (l.ID == list[0].ID || l.ID == list[1].ID) {
			t.Errorf("a message with the ID of a removed one: %+v", l)
		}
	}
}
