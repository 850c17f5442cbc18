package executor

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

// A load is an executor with a server that counts results, and keeps none.
type load struct {
	*fake
	e      *Executor
	n, bad int64
}

func newLoad(tb testing.TB, change func(*Options)) *load {
	tb.Helper()
	l := &load{fake: newFake()}
	l.answer = func(_, path string, body []byte) string {
		if path == wire.PathCallback {
			cb, err := wire.DecodeCallback(body, 0)
			check.NoError(tb, err)
			for _, it := range cb.Items {
				if l.n++; it.Code != wire.CodeSuccess {
					l.bad++
				}
			}
		}
		return taken + "\n"
	}
	l.e = start(tb, muxOf("empty", func(context.Context, *Run) error { return nil }), l.fake, func(o *Options) {
		o.LogMax, o.QueueSize, o.NoSync = -1, 100_000, false
		change(o)
	})
	return l
}

// work sends the runs from first on, many at a time, and waits until the server has the results of these runs and all before.
func (l *load) work(tb testing.TB, first, n int64) {
	var next atomic.Int64
	next.Store(first)
	var senders sync.WaitGroup
	for range 64 {
		senders.Go(func() {
			for id := next.Add(1) - 1; id < first+n; id = next.Add(1) - 1 {
				if r := send(l.e, order(int32(id%64)+1, id, "empty")); !r.OK() {
					tb.Errorf("run %d: %s", id, r.Msg)
				}
			}
		})
	}
	senders.Wait()
	l.until(tb, func() bool { return tb.Failed() || l.n >= first+n-1 })
}

// BenchmarkRuns: accept, journal, queue, run, callback. runs/s counts a run when the server has its result.
func BenchmarkRuns(b *testing.B) {
	for _, c := range []struct {
		name   string
		change func(*Options)
	}{
		{"sync", func(*Options) {}},
		{"nosync", func(o *Options) { o.NoSync = true }},
		{"logs", func(o *Options) { o.LogMax = 0 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := newLoad(b, c.change)
			l.work(b, 1, 1000)
			b.ReportAllocs()
			b.ResetTimer()
			l.work(b, 1001, int64(b.N))
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// Memory does not grow with the number of runs, nor do goroutines or files.
func TestMemoryIsFlat(t *testing.T) {
	const step = 1000 // the memory of past runs is full after the first
	l := newLoad(t, func(o *Options) { o.NoSync, o.RememberMax = true, step })
	e := l.e
	var first, last runtime.MemStats
	heap := func(m *runtime.MemStats) {
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(m)
	}
	first1 := 0
	for i := range int64(10) {
		l.work(t, 1+i*step, step)
		if i < 5 { // the least of the first half: a burst leaves buffers behind
			var m runtime.MemStats
			if heap(&m); i == 0 || m.HeapAlloc < first.HeapAlloc {
				first = m
			}
			first1 = runtime.NumGoroutine()
		}
	}
	heap(&last)
	grown := int64(last.HeapAlloc) - int64(first.HeapAlloc)
	files, err := os.ReadDir(e.o.Dir)
	check.OK(t, err)
	t.Logf("%d runs: heap %.1f MB in the first half, %.1f MB at the end; %d goroutines, then %d; %d files", 10*step,
		float64(first.HeapAlloc)/1e6, float64(last.HeapAlloc)/1e6, first1, runtime.NumGoroutine(), len(files))
	if grown > 512<<10 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if n := runtime.NumGoroutine(); n > first1+5 {
		t.Errorf("%d goroutines, %d before", n, first1)
	}
	e.mu.Lock()
	if n := len(e.past.at); n > e.o.RememberMax {
		t.Errorf("%d runs are remembered, %d may be", n, e.o.RememberMax)
	}
	if len(e.open) > 0 {
		t.Errorf("%d runs are open", len(e.open))
	}
	e.mu.Unlock()
	if len(files) > 4 {
		t.Errorf("%d files", len(files))
	}
	check.Equal(t, l.bad, 0, "bad results")
}
