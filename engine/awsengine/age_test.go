package awsengine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/engine/awsengine"
)

// receiveOne takes one message of fires, which there is or will be.
func (f *fakes) receiveOne(t *testing.T) engine.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	got, err := f.store.Receive(ctx, ring.KindFires, 1)
	ok(t, err)
	if len(got) != 1 {
		t.Fatalf("%d messages came, want 1", len(got))
	}
	return got[0]
}

func (f *fakes) enqueueAt(t *testing.T, slot core.Instant, n uint32) {
	t.Helper()
	m := ring.Message{Kind: ring.KindFires, Slot: slot,
		Fires: []core.Fire{{Run: core.NumberedRun(1, n), Rev: 1, At: slot, Slot: slot, Cause: core.CauseManual}}}
	for _, err := range f.store.Enqueue(t.Context(), []ring.Out{{NotBefore: slot.Time(), Message: m}}) {
		ok(t, err)
	}
}

func onRing(o ring.Oldest, slot core.Instant) bool {
	return o.PutBack(slot, slot) || !o.Due.IsZero() && !o.Due.After(slot.Time())
}

// TestAMessageThatIsNeverDoneIsOnTheRing: one that is received again and again, for
// whatever receives it dies, is on the ring by the age or by its slot, for as long as
// its queue gives it out and though it is never seen to be due; and it does not hold up the
// comparison of what came after it.
func TestAMessageThatIsNeverDoneIsOnTheRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, awsengine.Options{Visibility: 25 * time.Second})
		time.Sleep(time.Hour)
		_, err := f.store.OldestMessage(t.Context())
		ok(t, err)
		slot := core.InstantOf(time.Now())
		f.enqueueAt(t, slot, 1)
		var last engine.Delivery
		for last.Receives < ring.MaxReceives {
			last = f.receiveOne(t)
			time.Sleep(20 * time.Second)
			o, err := f.store.OldestMessage(t.Context()) // a tick, meanwhile
			ok(t, err)
			if !onRing(o, slot) {
				t.Fatalf("a message of %s ago is on the ring, the oldest is said to be of %s ago, and put back are %v", time.Since(slot.Time()),
					time.Since(o.Due), o.Back)
			}
			if age := time.Since(o.Due); age > 10*time.Minute {
				t.Fatalf("nothing of the last %s is compared, for one message that fails", age)
			}
		}
		for _, err := range f.store.Ack(t.Context(), []engine.Delivery{last}) {
			ok(t, err)
		}
		time.Sleep(time.Minute) // as long as it would be noted
		if o, err := f.store.OldestMessage(t.Context()); err != nil || onRing(o, slot) {
			t.Fatalf("it is done, and still said to be on the ring: %+v, %v", o, err)
		}
	})
}

// TestAMessageThatWaitsInFlight: one that waits for the claim of another to end is
// named, for as long as that takes, and what came after it is compared.
func TestAMessageThatWaitsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, awsengine.Options{Visibility: 25 * time.Second})
		_, err := f.store.OldestMessage(t.Context())
		ok(t, err)
		slot := core.InstantOf(time.Now())
		f.enqueueAt(t, slot, 1)
		got := f.receiveOne(t)
		for _, err := range f.store.Release(t.Context(), []engine.Delivery{got}, time.Now().Add(time.Hour)) {
			ok(t, err)
		}
		for range 59 {
			time.Sleep(time.Minute)
			o, err := f.store.OldestMessage(t.Context())
			ok(t, err)
			if !onRing(o, slot) || time.Since(o.Due) > 10*time.Minute {
				t.Fatalf("a message of %s ago waits, the oldest is said to be of %s ago, and put back are %v", time.Since(slot.Time()),
					time.Since(o.Due), o.Back)
			}
		}
	})
}

// TestInFlightAfterABacklog: what waited for long and was then received at once is as
// old as it was, though nothing is due any more.
func TestInFlightAfterABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, awsengine.Options{Visibility: 25 * time.Second})
		_, err := f.store.OldestMessage(t.Context())
		ok(t, err)
		slot := core.InstantOf(time.Now())
		f.enqueueAt(t, slot, 1)
		for range 20 { // nobody receives
			time.Sleep(time.Minute)
			o, err := f.store.OldestMessage(t.Context())
			ok(t, err)
			if !onRing(o, slot) {
				t.Fatalf("a message of %s ago is due, the oldest is said to be of %s ago", time.Since(slot.Time()), time.Since(o.Due))
			}
		}
		f.receiveOne(t)
		if o, err := f.store.OldestMessage(t.Context()); err != nil || !onRing(o, slot) {
			t.Fatalf("a message of %s ago is in flight, the oldest is said to be of %s ago: %v", time.Since(slot.Time()), time.Since(o.Due), err)
		}
	})
}

// TestAgeIsNeverOlderThanSQS: where the ring was never seen clear, no message is
// older than a queue keeps one.
func TestAgeIsNeverOlderThanSQS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, awsengine.Options{})
		f.enqueueAt(t, core.InstantOf(time.Now()), 1)
		o, err := f.store.OldestMessage(t.Context())
		ok(t, err)
		if age := time.Since(o.Due); age != 14*24*time.Hour {
			t.Fatalf("a message may be as old as %s", age)
		}
	})
}

// TestAgeReadsNoSlotsThatAreOver: an hour after 300 slots were put back, a look at the age of
// the ring reads what it read before; while they are behind, each is named once.
func TestAgeReadsNoSlotsThatAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, awsengine.Options{})
		f.db.TTL = func() time.Duration { return 0 }
		read := func(want int) float64 {
			f.db.Units()
			o, err := f.store.OldestMessage(t.Context())
			ok(t, err)
			if len(o.Back) != want {
				t.Fatalf("%d slots are behind, want %d", len(o.Back), want)
			}
			return f.db.Units().Read
		}
		before := read(0)
		time.Sleep(time.Hour)
		var list []ring.Message
		for i := range 300 {
			at := core.InstantOf(time.Now()) - 40 - core.Instant(i)
			list = append(list, ring.Message{Kind: ring.KindFires, Slot: at,
				Fires: []core.Fire{{Run: core.PlannedRun(1, at), Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}}})
		}
		for range 12 { // three minutes of looks
			f.store.Returned(t.Context(), list)
			read(len(list))
			time.Sleep(15 * time.Second)
		}
		time.Sleep(time.Hour)
		if after := read(0); after > before+1 {
			t.Errorf("a look reads %v units, %v before", after, before)
		}
	})
}
