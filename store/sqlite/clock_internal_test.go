package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// TestClockSetBackHidesNoRun: two runs that one transaction makes far behind the history are found after a restart.
func TestClockSetBackHidesNoRun(t *testing.T) {
	dir, now := t.TempDir(), time.Now().Truncate(time.Second)
	o := Options{Gather: -1, Synchronous: "OFF", Now: func() time.Time { return now }}
	s := testStore(t, dir, o)
	check.OK(t, s.write(t.Context(), false, 1, func(*tx) { s.recent.size = 100 }))
	for i := range 500 {
		now = now.Add(10 * time.Second)
		check.OK(t, s.CreateRuns(t.Context(), []core.Run{claim(i)})[0])
	}
	now = now.Add(-4900 * time.Second)
	two := []core.Run{claim(500), claim(501)}
	check.OK(t, s.write(t.Context(), true, 2, func(tx *tx) {
		for _, r := range two {
			tx.fail(tx.putRun(&store.RunPut{Create: &r}))
		}
	}))
	for range 2 {
		for _, r := range two {
			open, _, err := s.Runs.Open(t.Context(), r.ID, r.ID, false, 10)
			check.OK(t, err)
			span, err := s.Runs.Span(t.Context(), r.ID, r.ID, 10)
			check.OK(t, err)
			if len(open) != 1 || len(span) != 1 {
				t.Errorf("run %d is missing", r.ID)
			}
		}
		check.OK(t, s.Close())
		s = testStore(t, dir, o)
	}
}

// TestClockBeforeTheFirstRow: a run that is made at a time before 2000 is in the list of recent runs.
func TestClockBeforeTheFirstRow(t *testing.T) {
	now := time.Now()
	s := testStore(t, t.TempDir(), Options{Gather: -1, Now: func() time.Time { return now }})
	check.OK(t, s.CreateRuns(t.Context(), []core.Run{claim(1)})[0])
	now = time.UnixMilli(5000)
	check.OK(t, s.CreateRuns(t.Context(), []core.Run{claim(2)})[0])
	list, _, err := s.Runs.Recent(t.Context(), store.Recent{}, store.RunPlace{}, 10)
	if check.OK(t, err); len(list) != 2 {
		t.Errorf("%d of 2 runs are listed", len(list))
	}
}

// TestFullDiskWhileBurying: a message that cannot be decoded stays if SQLite ends the transaction because the disk is full.
func TestFullDiskWhileBurying(t *testing.T) {
	s := testStore(t, t.TempDir(), Options{Gather: -1})
	raw(t, s, "INSERT INTO ring (id, kind, visible_at, slot, body) VALUES (50, 0, 1, 0, '"+strings.Repeat("x", 100_000)+"')")
	raw(t, s, fmt.Sprintf("PRAGMA max_page_count = %d", tell(t, s, "PRAGMA page_count")))
	if _, err := s.Receive(t.Context(), ring.KindFires, 10); err == nil {
		t.Error("the disk is full, and the message was moved")
	}
	raw(t, s, "PRAGMA max_page_count = 1000000")
	dead, err := s.Letters(t.Context(), "", 10)
	if n := tell(t, s, "SELECT count(*) FROM ring"); err != nil || n != 1 || len(dead) != 0 {
		t.Errorf("%d messages, %d dead letters, %v", n, len(dead), err)
	}
}

// TestTwoReceivers: a receiver is woken for a message that another receiver saw before it was announced.
func TestTwoReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := OpenMemory(Options{})
		check.OK(t, err)
		woke := make(chan int, 1)
		const ms = 1000
		go func() {
			got, _ := s.Receive(t.Context(), ring.KindFires, 1)
			woke <- len(got)
		}()
		synctest.Wait()
		m := ring.Message{Kind: ring.KindFires, Slot: 1, Fires: []core.Fire{{Run: core.NumberedRun(1, 1), At: 1, Slot: 1, Cause: core.CauseAPI}}}
		for id := range 2 {
			raw(t, s, fmt.Sprintf("INSERT INTO ring (id, kind, visible_at, slot, body) VALUES (%d, 0, %d, 1, '%s')", id+1, ms, ring.Encode(m)))
		}
		check.Call(t)(s.Receive(t.Context(), ring.KindFires, 1))
		s.queues[0].add(place{ms, 1, 1})
		s.queues[0].add(place{ms, 1, 2})
		if synctest.Wait(); len(woke) == 0 {
			t.Error("the other receiver sleeps, and a message is visible")
		}
		check.OK(t, s.Close())
	})
}

// TestRunsComeEarly: a message of runs comes 50 ms before its due time, or at its own time if that differs.
func TestRunsComeEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := OpenMemory(Options{})
		check.OK(t, err)
		m := ring.Message{Kind: ring.KindFires, Fires: []core.Fire{{Run: core.NumberedRun(1, 1), Cause: core.CauseAPI}}}
		for after, by := range map[time.Duration]time.Duration{0: early * time.Millisecond, time.Millisecond: 0} {
			m.Slot = core.InstantOf(time.Now()) + 9
			at := m.Slot.Time().Add(after)
			check.OK(t, s.Enqueue(t.Context(), []ring.Out{{NotBefore: at, Message: m}})...)
			got, err := s.Receive(t.Context(), ring.KindFires, 1)
			check.OK(t, errors.Join(append(s.Ack(t.Context(), got), err)...))
			check.Equal(t, time.Until(at), by)
		}
		check.OK(t, s.Close())
	})
}
