package sqlite

import (
	"errors"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// TestFullQueueSlowsNobody: all writes share one writer, so adding a run to a long or full queue may not cost more than
// the first one.
func TestFullQueueSlowsNobody(t *testing.T) {
	s := testStore(t, t.TempDir(), Options{Synchronous: "OFF", Gather: -1})
	const most = 10_000
	raw(t, s, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9900)
INSERT INTO pulled (app, queue, run, visible, receives, body) SELECT 'a', 'long', 4294967296 + i, 0, 0, zeroblob(400) FROM n`)
	raw(t, s, "INSERT INTO pulled_size VALUES ('a', 'long', 9900)")
	quickest := func(queue string, from int, want error) time.Duration {
		t.Helper()
		best := time.Hour
		for i := range 100 {
			it := store.PullItem{Queue: store.PullQueue{App: "a", Name: queue}, Run: core.NumberedRun(2, uint32(from+i)), Body: make([]byte, 400)}
			start := time.Now()
			if err := s.PutPulled(t.Context(), it, most); !errors.Is(err, want) {
				t.Fatalf("put %d into %s: %v", i, queue, err)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	first := quickest("short", 0, nil)
	for what, took := range map[string]time.Duration{"the last of 10,000": quickest("long", 0, nil),
		"one for which there is no room": quickest("long", 1000, store.ErrFull)} {
		if took > 4*first {
			t.Errorf("%s takes %s, the first %s", what, took, first)
		}
	}
}

// TestQueueIsCounted: a queue accepts exactly its maximum, however puts and removals share transactions with failing
// writes.
func TestQueueIsCounted(t *testing.T) {
	s := testStore(t, t.TempDir(), Options{Synchronous: "OFF"})
	q, other := store.PullQueue{App: "a", Name: "q"}, store.PullQueue{App: "b", Name: "q"}
	const most = 40
	put := func(q store.PullQueue, n int) error {
		return s.PutPulled(t.Context(), store.PullItem{Queue: q, Run: core.NumberedRun(1, uint32(n))}, most)
	}
	for round := range 12 {
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				if err := put(q, i); err != nil && !errors.Is(err, store.ErrFull) {
					t.Error(err)
				}
			})
			if round%3 == 2 && i%20 == 0 { // the transaction is undone, and its other ops are done again alone
				all.Go(func() {
					if s.write(t.Context(), false, 1, func(tx *tx) { tx.fail(errors.New("no")) }) == nil {
						t.Error("a write that fails is answered with nil")
					}
				})
			}
			if i%6 == 0 {
				all.Go(func() {
					if err := put(other, 100*round+i); err != nil && !errors.Is(err, store.ErrFull) {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		if n := tell(t, s, "SELECT count(*) FROM pulled WHERE app = 'a'"); n != most {
			t.Fatalf("round %d: %d runs in a queue for %d", round, n, most)
		}
		held, _, err := s.TakePulled(t.Context(), q, time.Now(), time.Now().Add(-time.Hour), 25)
		if err != nil || len(held) != 25 {
			t.Fatalf("%d taken, %v", len(held), err)
		}
		for _, h := range held {
			all.Go(func() {
				if err := s.DropPulled(t.Context(), q, h.Receipt); err != nil && !errors.Is(err, core.ErrRefused) { // removed as well
					t.Error(err)
				}
			})
		}
		list, err := s.ListPulled(t.Context(), 0, 2*most)
		check.OK(t, err)
		var ids []int64
		for _, l := range list[len(list)-12:] {
			ids = append(ids, l.ID, l.ID) // twice: it counts once
		}
		all.Go(func() {
			if err := s.RemovePulled(t.Context(), ids); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		if round == 6 { // a failed commit may or may not have happened
			raw(t, s, "DELETE FROM pulled WHERE app = 'a'")
			raw(t, s, "DELETE FROM pulled_size WHERE app = 'a'")
			_ = s.write(t.Context(), false, 1, func(tx *tx) { tx.fail(sqlite.ResultFull.ToError()) })
		}
	}
}
