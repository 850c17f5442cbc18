package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/testkit/enginetest"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestEngine runs the cases on SQLite in memory, in the virtual time of bubbles.
func TestEngine(t *testing.T) {
	clocks := map[*engine.Engine]*time.Duration{}
	h := enginetest.Harness{Open: func(t *testing.T) *engine.Engine {
		passed := new(time.Duration)
		e := memory.Open(t, memory.Options{Visibility: enginetest.Visibility, Now: func() time.Time { return time.Now().Add(*passed) }})
		clocks[e] = passed
		return e
	}, Wait: func(e *engine.Engine, d time.Duration) { *clocks[e] += d }}
	for _, c := range enginetest.Cases {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, h) })
		})
	}
}
