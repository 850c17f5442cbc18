package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// TestFileLockedByOthers: while another program holds the lock of the file, such as a backup tool, a write is throttled, and
// reads work. When the lock is free, writes work, and nothing is lost.
func TestFileLockedByOthers(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir, Options{Gather: -1})
	other, err := sqlite.OpenConn(filepath.Join(dir, "tickring.db"), sqlite.OpenReadWrite)
	check.OK(t, err)
	defer other.Close()
	check.OK(t, s.CreateRuns(t.Context(), []core.Run{claim(1)})[0])
	// A checkpoint can restore the long timeout; then the test takes as long.
	check.OK(t, s.write(t.Context(), true, 1, func(tx *tx) { tx.SetBusyTimeout(10 * time.Millisecond) }))
	locked := conn{Conn: other}
	locked.exec("BEGIN IMMEDIATE")
	err = s.CreateRuns(t.Context(), []core.Run{claim(2)})[0]
	if !errors.Is(err, core.ErrThrottled) || !strings.Contains(err.Error(), "locked") {
		t.Fatalf("a write to a locked file: %v", err)
	}
	ids := []core.RunID{claim(1).ID, claim(2).ID, claim(3).ID}
	found, err := runs{s}.Get(t.Context(), ids)
	if _, is := found[ids[0]]; err != nil || !is || len(found) != 1 {
		t.Fatalf("read of a locked file: %v, %v", found, err)
	}
	if locked.exec("ROLLBACK"); locked.err != nil {
		t.Fatal(locked.err)
	}
	for _, i := range []int{2, 3} {
		check.OK(t, s.CreateRuns(t.Context(), []core.Run{claim(i)})[0])
	}
	if found, err = (runs{s}).Get(t.Context(), ids); err != nil || len(found) != 3 {
		t.Fatalf("%d runs of 3, %v", len(found), err)
	}
}

// TestFullDisk: on a full disk, writes that do not fit are throttled, and nothing of them is stored. Other writes, and reads, work.
func TestFullDisk(t *testing.T) {
	s := testStore(t, t.TempDir(), Options{Gather: -1})
	app := store.Write{Record: store.Record{Key: store.Key{Kind: "app", Name: "a"}, V: 1, Body: []byte("{}")}, Was: store.Absent}
	small := store.Group{Writes: []store.Write{app}}
	check.OK(t, s.Write(t.Context(), small)[0])
	raw(t, s, fmt.Sprintf("PRAGMA max_page_count = %d", tell(t, s, "PRAGMA page_count")+2))
	long := strings.Repeat("x", 100_000)
	big := small
	big.Writes = []store.Write{{Record: store.Record{Key: store.Key{Kind: "app", Name: "b"}, V: 1, Body: []byte(long)}, Was: store.Absent},
		{Record: app.Record, Was: 1}}
	big.Writes[1].V = 2
	job := core.Job{Def: core.Def{ID: 1, App: "a", Name: "j", Params: long}, Sched: core.Sched{ID: 1, App: "a", State: core.Started, Rev: 1}}
	run := claim(1)
	run.Data = long
	m := ring.Message{Kind: ring.KindFires, Slot: 1}
	for i := range 2000 {
		m.Fires = append(m.Fires, core.Fire{Run: core.NumberedRun(1, uint32(i)), At: 1, Slot: 1, Cause: core.CauseAPI})
	}
	for what, err := range map[string]error{
		"group": s.Write(t.Context(), big)[0], "job": jobs{s}.Put(t.Context(), []store.JobPut{{Create: &job}})[0],
		"run":     s.CreateRuns(t.Context(), []core.Run{run})[0],
		"message": s.Enqueue(t.Context(), []ring.Out{{NotBefore: time.Now(), Message: m}})[0],
	} {
		if !errors.Is(err, core.ErrThrottled) || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if found, err := s.Get(t.Context(), app.Key); err != nil || found[app.Key].V != 1 {
		t.Errorf("a record of the group that did not fit: %+v, %v", found, err)
	}
	if due, waiting, inFlight, err := s.Depth(t.Context(), ring.KindFires); err != nil || due+waiting+inFlight != 0 {
		t.Errorf("messages after a full disk: %d, %d, %d, %v", due, waiting, inFlight, err)
	}
	if n := tell(t, s, "SELECT (SELECT count(*) FROM sched) + (SELECT count(*) FROM def) + (SELECT count(*) FROM ring) + "+
		"(SELECT count(*) FROM runs)"); n != 0 {
		t.Errorf("%d rows of writes that failed", n)
	}
	check.OK(t, s.CreateRuns(t.Context(), []core.Run{claim(2)})[0])
	raw(t, s, "PRAGMA max_page_count = 1000000")
	check.OK(t, s.CreateRuns(t.Context(), []core.Run{run})[0])
}

// backlog enqueues n messages in a different order from their times.
func backlog(tb testing.TB, s *Store, start time.Time, n int) {
	tb.Helper()
	const batch = 500
	out := make([]ring.Out, batch)
	for i := 0; i < n; i += batch {
		for k := range out {
			number := (i + k) * 7919 % n // 7919 is a prime
			at := start.Add(time.Duration(number) * time.Millisecond)
			out[k] = ring.Out{NotBefore: at, Message: ring.Message{Kind: ring.KindFires, Slot: core.InstantOf(at),
				Fires: []core.Fire{{Run: core.NumberedRun(1, uint32(number)), At: core.InstantOf(at), Slot: core.InstantOf(at), Cause: core.CauseAPI}}}}
		}
		check.OK(tb, errors.Join(s.Enqueue(tb.Context(), out)...))
	}
}

// TestBacklogIsBounded: of a large backlog, the memory holds only the messages in flight.
func TestBacklogIsBounded(t *testing.T) {
	const n = 20_000
	s := testStore(t, t.TempDir(), Options{Gather: -1, Synchronous: "OFF"})
	backlog(t, s, time.Now().Add(-time.Hour).Truncate(time.Second), n)
	for left := n; left > 0; {
		check.Equal(t, len(s.queues[0].out), 0, "messages in memory")
		got, err := s.Receive(t.Context(), ring.KindFires, 50)
		check.OK(t, err)
		left -= len(got)
		check.Equal(t, len(s.queues[0].out), len(got), "messages in memory")
		check.OK(t, errors.Join(s.Ack(t.Context(), got)...))
	}
}

// BenchmarkBacklog receives and acknowledges messages in front of a backlog.
func BenchmarkBacklog(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := testStore(b, b.TempDir(), Options{Gather: -1, Synchronous: "OFF"})
			backlog(b, s, time.Now().Add(-24*time.Hour).Truncate(time.Second), n)
			b.ResetTimer()
			for b.Loop() {
				got, err := s.Receive(b.Context(), ring.KindFires, 50)
				check.OK(b, err)
				back := make([]ring.Out, len(got))
				for i := range got {
					back[i] = ring.Out{NotBefore: time.Now().Add(-48 * time.Hour), Message: got[i].Message}
				}
				s.Ack(b.Context(), got)
				s.Enqueue(b.Context(), back) // the backlog keeps its size
			}
		})
	}
}
