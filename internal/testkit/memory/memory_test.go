package memory_test

import (
	"testing"
	"testing/synctest"

	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/testkit/enginetest"
	"github.com/tickring/tickring/internal/testkit/memory"
)

func open(testing.TB) *engine.Engine {
	return memory.Open(memory.Options{Visibility: enginetest.Visibility})
}

func TestEngine(t *testing.T) {
	h := enginetest.Harness{Open: func(t *testing.T) *engine.Engine { return open(t) }}
	for _, c := range enginetest.Cases {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, h) })
		})
	}
}

func BenchmarkEngine(b *testing.B) {
	enginetest.Benchmarks(b, func(b *testing.B) *engine.Engine { return open(b) })
}
