// Package peak measures the peak memory use of a function, for tests of memory limits.
package peak

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Of runs f and returns the peak heap size during the call minus the heap size before the call, in bytes. Frequent
// garbage collection keeps nearly all garbage out of the result. On a busy machine the result can be too small but
// never too large, so a test of an upper limit does not fail because of load.
func Of(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	before := heap()
	var most int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Microsecond)
		defer tick.Stop()
		for {
			most = max(most, heap()-before)
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
	return most
}

// heap returns the bytes of all objects on the heap.
func heap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}
