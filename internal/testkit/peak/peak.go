// Package peak measures the peak memory use of a function, for tests of memory limits.
package peak

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Allocated runs f and returns how many bytes were allocated during the call.
func Allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// Of returns the peak heap size during a call of f minus the heap size before the call, in bytes. If f allocates no
// more than most bytes, Of returns that number. Otherwise Of runs f again, and frequent garbage collection keeps nearly
// all garbage out of the result. On a busy machine the result can be too small but never too large, so a test of an
// upper limit does not fail because of load.
func Of(most int64, f func()) int64 {
	if all := Allocated(f); all <= most {
		return all
	}
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	before := heap()
	var peak int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Microsecond)
		defer tick.Stop()
		for {
			peak = max(peak, heap()-before)
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	f()
	close(done)
	wg.Wait()
	return peak
}

// heap returns the bytes of all objects on the heap.
func heap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}
