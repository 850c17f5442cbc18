package sqlite

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// TestRunsOfSlots: a search finds exactly the runs of a span of due times, newest first, whenever they were made.
func TestRunsOfSlots(t *testing.T) {
	clock := time.Unix(1_800_000_000, 0)
	base := core.InstantOf(clock)
	s := testStore(t, t.TempDir(), Options{Gather: -1, Synchronous: "OFF", Now: func() time.Time { return clock }})
	rng := rand.New(rand.NewPCG(1, 2))
	var all []core.Run
	made := map[core.RunID]int64{}
	for n := range 3000 {
		clock = clock.Add(time.Duration(rng.IntN(5000)) * time.Millisecond)
		if n%400 == 0 {
			clock = clock.Add(time.Duration(rng.IntN(120)-60) * time.Minute)
		}
		r := claim(n)
		r.ID = core.NumberedRun(core.JobID(n%7+1), uint32(n))
		r.First, r.App = r.ID, []string{"a", "b"}[n%2]
		r.Slot = core.InstantOf(clock) - core.Instant(rng.IntN(50))
		switch rng.IntN(40) {
		case 0:
			r.Slot -= core.Instant(60 + rng.IntN(4000)) // after an outage
		case 1:
			r.Slot += core.Instant(60 + rng.IntN(4000)) // it waits
		}
		r.At = r.Slot
		if n%5 == 0 {
			r.State, r.Reason, r.EndedAt = core.Failed, core.ReasonHandler, clock
		}
		check.OK(t, s.CreateRuns(t.Context(), []core.Run{r})[0])
		all, made[r.ID] = append(all, r), core.Millis(clock)
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b core.Run) int { return cmp.Compare(made[b.ID], made[a.ID]) })
	span := max(int(core.InstantOf(clock)-base), 3600)
	few := 0
	for n := range 200 {
		of := store.Recent{From: base + core.Instant(rng.IntN(span)), App: []string{"", "a"}[n%2]}
		if of.To = of.From + core.Instant(rng.IntN(600)); n%9 == 0 {
			of.To = 0
		} else if n%11 == 0 {
			of.From = 0
		}
		if n%3 == 0 {
			of.States = []core.State{core.Failed}
		}
		var want, got []core.RunID
		for i := range all {
			r := &all[i]
			if r.Slot >= of.From && r.Slot <= cmp.Or(of.To, core.Horizon) && (of.App == "" || r.App == of.App) &&
				(of.States == nil || r.State == core.Failed) {
				want = append(want, r.ID)
			}
		}
		for from, pages := (store.RunPlace{}), 0; ; pages++ {
			list, next, err := s.Runs.Recent(t.Context(), of, from, 7)
			if err != nil || pages > 3000 {
				t.Fatal(pages, err)
			}
			for i := range list {
				got = append(got, list[i].ID)
			}
			if from = next; next == (store.RunPlace{}) {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %d runs, want %d", fmt.Sprintf("%+v", of), len(got), len(want))
		}
		if len(want) > 0 && len(want) < 50 {
			few++
		}
	}
	if few < 50 {
		t.Fatalf("only %d spans were short", few)
	}
}
