package store_test

import (
	"context"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// searching is a store without an index of open runs.
type searching struct {
	store.Runs
	pages map[core.RunID]int // of each span
}

func (s searching) Open(_ context.Context, first, last core.RunID, _ bool, _ int) ([]core.Run, core.RunID, error) {
	next := first - 1
	if s.pages[last]++; s.pages[last] == 3 {
		next = 0
	}
	return []core.Run{{ID: first}}, next, nil
}

// TestOpenRunsStopsWhereAStoreSearches: after a short page of a store without an index, OpenRuns continues
// only if more allows it, and reports that runs are left.
func TestOpenRunsStopsWhereAStoreSearches(t *testing.T) {
	for _, c := range []struct {
		name string
		more func() bool
		want int
		all  bool
	}{
		{"not asked", nil, 2, false},
		{"out of time", func() bool { return false }, 2, false},
		{"asked", func() bool { return true }, 6, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, n := store.Store{Runs: searching{pages: map[core.RunID]int{}}}, 0
			all, err := s.OpenRuns(t.Context(), 7, c.more, func(*core.Run) bool { n++; return true })
			if n != c.want || all != c.all || err != nil {
				t.Errorf("%d runs, all %t, %v; want %d, %t", n, all, err, c.want, c.all)
			}
		})
	}
}
