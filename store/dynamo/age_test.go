package dynamo_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// receiveOne receives one message of runs, now or later.
func (f *fakes) receiveOne(t *testing.T) store.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	got, err := f.store.Queue.Receive(ctx, ring.KindFires, 1)
	ok(t, err)
	if len(got) != 1 {
		t.Fatalf("%d messages came, want 1", len(got))
	}
	return got[0]
}

func (f *fakes) enqueueAt(slot core.Instant, n uint32) {
	f.T.Helper()
	m := ring.Message{Kind: ring.KindFires, Slot: slot,
		Fires: []core.Fire{{Run: core.NumberedRun(1, n), Rev: 1, At: slot, Slot: slot, Cause: core.CauseManual}}}
	f.Enqueue(slot.Time(), m)
}

// enqueued returns a store whose queue was seen empty and then got a message.
func enqueued(t *testing.T) (*fakes, core.Instant) {
	t.Helper()
	f := newFakes(t, dynamo.Options{Visibility: 25 * time.Second})
	_, err := f.store.Oldest(t.Context())
	ok(t, err)
	slot := core.InstantOf(time.Now())
	f.enqueueAt(slot, 1)
	return f, slot
}

func onRing(o ring.Oldest, slot core.Instant) bool {
	return o.PutBack(slot, slot) || !o.Due.IsZero() && !o.Due.After(slot.Time())
}

// TestAMessageThatIsNeverDoneIsOnTheRing: a message whose receiver always dies counts as on the delay queue, by age or by
// due time, as long as the queue delivers it. It may never be seen to be due. It does not stop the comparison of later
// messages.
func TestAMessageThatIsNeverDoneIsOnTheRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		f, slot := enqueued(t)
		var last store.Delivery
		for last.Receives < ring.MaxReceives {
			last = f.receiveOne(t)
			time.Sleep(20 * time.Second)
			o, err := f.store.Oldest(t.Context()) // a planner pass during the processing
			ok(t, err)
			if !onRing(o, slot) {
				t.Fatalf("a message of %s ago is on the delay queue, the oldest is reported as of %s ago, and requeued are %v", time.Since(slot.Time()),
					time.Since(o.Due), o.Back)
			}
			if age := time.Since(o.Due); age > 10*time.Minute {
				t.Fatalf("nothing of the last %s is compared, for one message that fails", age)
			}
		}
		f.Ack(last)
		time.Sleep(time.Minute) // as long as its record would last
		if o, err := f.store.Oldest(t.Context()); err != nil || onRing(o, slot) {
			t.Fatalf("it is done, but reported as still on the delay queue: %+v, %v", o, err)
		}
	})
}

// TestAMessageThatWaitsInFlight: a message that waits for another claim to end is listed for as long as it waits, and
// later messages are compared.
func TestAMessageThatWaitsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, slot := enqueued(t)
		got := f.receiveOne(t)
		ok(t, f.Queue.Release(t.Context(), []store.Delivery{got}, time.Now().Add(time.Hour))...)
		for range 59 {
			time.Sleep(time.Minute)
			o, err := f.store.Oldest(t.Context())
			ok(t, err)
			if !onRing(o, slot) || time.Since(o.Due) > 10*time.Minute {
				t.Fatalf("a message of %s ago waits, the oldest is reported as of %s ago, and requeued are %v", time.Since(slot.Time()),
					time.Since(o.Due), o.Back)
			}
		}
	})
}

// TestInFlightAfterABacklog: a message that waited for long and was then received keeps its age, even if nothing else is
// due.
func TestInFlightAfterABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, slot := enqueued(t)
		for range 20 { // no process receives
			time.Sleep(time.Minute)
			o, err := f.store.Oldest(t.Context())
			ok(t, err)
			if !onRing(o, slot) {
				t.Fatalf("a message of %s ago is due, the oldest is reported as of %s ago", time.Since(slot.Time()), time.Since(o.Due))
			}
		}
		f.receiveOne(t)
		if o, err := f.store.Oldest(t.Context()); err != nil || !onRing(o, slot) {
			t.Fatalf("a message of %s ago is in flight, the oldest is reported as of %s ago: %v", time.Since(slot.Time()), time.Since(o.Due), err)
		}
	})
}

// TestAgeIsNeverOlderThanSQS: if the delay queue was never seen empty, no message counts as older than SQS keeps one.
func TestAgeIsNeverOlderThanSQS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, dynamo.Options{})
		f.enqueueAt(core.InstantOf(time.Now()), 1)
		o, err := f.store.Oldest(t.Context())
		ok(t, err)
		check.Equal(t, time.Since(o.Due), 14*24*time.Hour, "the age that a message may have")
	})
}

// TestAgeReadsNoSlotsThatAreOver: an hour after 300 due times were requeued, computing the age of the delay queue reads no
// more than before. While they wait, each is listed once.
func TestAgeReadsNoSlotsThatAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, dynamo.Options{})
		f.db.TTL = func() time.Duration { return 0 }
		read := func(want int) float64 {
			f.db.Units()
			o, err := f.store.Oldest(t.Context())
			ok(t, err)
			check.Equal(t, len(o.Back), want, "slots that are behind")
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
		for range 12 { // three minutes of checks
			f.store.Returned(t.Context(), list)
			read(len(list))
			time.Sleep(15 * time.Second)
		}
		time.Sleep(time.Hour)
		if after := read(0); after > before+1 {
			t.Errorf("a check reads %v units, %v before", after, before)
		}
	})
}
