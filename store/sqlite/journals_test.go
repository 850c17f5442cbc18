package sqlite

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// TestJournalsGoWhenNobodyAsks: runs end, and have pending follow-ups for a while, during constant sweeps. A removed
// journal names no open run and no pending follow-up, and finally all are removed.
func TestJournalsGoWhenNobodyAsks(t *testing.T) {
	s := testStore(t, t.TempDir(), Options{Gather: -1, Synchronous: "OFF"})
	const journals, each = 3 * sweepSlice, 4
	key := func(j int) core.JournalKey {
		return core.JournalKey{Minute: int64(j / 100), Suffix: j % core.JournalSuffixes, Nonce: fmt.Sprint("n", j)}
	}
	var runs []core.Run
	for i := range journals * each {
		r := claim(i)
		r.Journal = key(i / each)
		runs = append(runs, r)
	}
	for _, err := range s.CreateRuns(t.Context(), runs) {
		check.OK(t, err)
	}
	for j := range journals {
		body := core.Journal{Key: key(j), V: 1}
		for _, r := range runs[j*each : (j+1)*each] {
			body.Entries = append(body.Entries, core.Entry{Run: r.ID, Address: r.Address, Outcome: core.Accepted})
		}
		check.OK(t, s.PutJournal(t.Context(), body))
	}

	sweep := func() (n int) {
		n, err := s.Sweep(t.Context(), time.UnixMilli(2000), time.Hour, 20*24*time.Hour, 500)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	ended := make(chan struct{})
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for {
			sweep()
			select {
			case <-ended:
				return
			default:
			}
		}
	})
	missing := 0
	check := func(j int) {
		found, err := s.Journals(t.Context(), []core.JournalKey{key(j)})
		check.OK(t, err)
		if len(found) > 0 {
			return
		}
		missing++
		var ids []core.RunID
		for _, r := range runs[j*each : (j+1)*each] {
			ids = append(ids, r.ID)
		}
		stored, err := store.Complete(s.Runs.Get(t.Context(), ids))
		check.OK(t, err)
		for _, r := range stored {
			if r.State.Open() || len(r.Owes) > 0 {
				t.Fatalf("journal %s is gone, and run %d is %s and owes %v", key(j), r.ID, r.State, r.Owes)
			}
		}
	}
	d := rand.New(rand.NewPCG(1, 2))
	order := d.Perm(len(runs))
	for len(order) > 0 {
		var closes []core.RunPut
		var owing []core.RunPut
		for _, i := range order[:min(200, len(order))] {
			c := core.End(runs[i].ID, core.Run{State: core.Failed, Reason: core.ReasonHandler, EndedAt: time.UnixMilli(2000)})
			if d.IntN(4) == 0 {
				c.To.Then = core.NumberedRun(100, uint32(i))
				c.To.Owes = []core.Owed{{Run: c.To.Then, Kind: core.CauseRetry}}
				owing = append(owing, (&core.Run{ID: c.ID, State: core.Failed, Owes: c.To.Owes}).ClearOwed())
			}
			closes = append(closes, c)
		}
		order = order[len(closes):]
		s.ChangeRuns(t.Context(), closes)
		for range 20 {
			check(d.IntN(journals))
		}
		s.ChangeRuns(t.Context(), owing)
	}
	close(ended)
	sweeper.Wait()
	if missing == 0 {
		t.Error("none went while runs were open")
	}
	for range journals / 500 * 3 {
		sweep()
	}
	if n := tell(t, s, "SELECT count(*) FROM records WHERE kind > 'journal#' AND kind < 'journal$'"); n != 0 {
		t.Errorf("%d journals in the end", n)
	}
	if n := tell(t, s, "SELECT count(*) FROM runs"); n != int64(len(runs)) {
		t.Errorf("%d runs, want %d", n, len(runs))
	}
}
