package store_test

import (
	"context"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/store"
)

// searching is a store without an index of open runs.
type searching struct {
	store.Runs
	pages map[core.RunID]int // of each span
	full  bool
}

func (s searching) Open(_ context.Context, first, last core.RunID, _ bool, limit int) ([]core.Run, core.RunID, error) {
	next := first - 1
	if s.pages[last]++; s.pages[last] == 3 {
		next = 0
	}
	if s.full {
		return make([]core.Run, limit), next, nil
	}
	return []core.Run{{ID: first}}, next, nil
}

// TestOpenRunsStopsWhereAStoreSearches: after a short page of a store without an index, OpenRuns continues
// only if more allows it, and reports that runs are left. After a full page it always continues.
func TestOpenRunsStopsWhereAStoreSearches(t *testing.T) {
	for _, c := range []struct {
		name string
		more func() bool
		full bool
		want int
		all  bool
	}{
		{"not asked", nil, false, 2, false},
		{"out of time", func() bool { return false }, false, 2, false},
		{"asked", func() bool { return true }, false, 6, true},
		{"full pages", nil, true, 6 * budget.OpenAtOnce, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, n := store.Store{Runs: searching{pages: map[core.RunID]int{}, full: c.full}}, 0
			all, err := s.OpenRuns(t.Context(), 7, c.more, func(*core.Run) bool { n++; return true })
			if n != c.want || all != c.all || err != nil {
				t.Errorf("%d runs, all %t, %v; want %d, %t", n, all, err, c.want, c.all)
			}
		})
	}
}
