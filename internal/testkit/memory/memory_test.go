package memory_test

import (
	"testing"
	"testing/synctest"

	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/testkit/enginetest"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestEngine runs the cases on SQLite in memory, in the virtual time of bubbles.
func TestEngine(t *testing.T) {
	h := enginetest.Harness{Open: func(t *testing.T) *engine.Engine {
		return memory.Open(t, memory.Options{Visibility: enginetest.Visibility})
	}}
	for _, c := range enginetest.Cases {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, h) })
		})
	}
}
