package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/storetest"
)

// TestEngine runs the cases on SQLite in memory, in the virtual time of bubbles.
func TestEngine(t *testing.T) {
	clocks := map[*store.Store]*time.Duration{}
	h := storetest.Harness{Open: func(t *testing.T) *store.Store {
		passed := new(time.Duration)
		s := memory.Open(t, memory.Options{Visibility: storetest.Visibility, Now: func() time.Time { return time.Now().Add(*passed) }})
		clocks[s] = passed
		return s
	}, Wait: func(s *store.Store, d time.Duration) { *clocks[s] += d }}
	for _, c := range storetest.Cases {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, h) })
		})
	}
}
