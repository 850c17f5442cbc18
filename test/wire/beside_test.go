package wire_test

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/wire"
)

var away = flag.Duration("beside.away", time.Second, "how long BenchmarkBeside's server is away")

// BenchmarkBeside sends runs of an empty handler to our SDK and to
// xxl-job-executor-go, each in a process of its own with its defaults, and
// counts a run when its result has come. Then the server is away while 500 runs
// end; lost/500 is how many of them never come.
func BenchmarkBeside(b *testing.B) {
	for _, kind := range []string{"sdk", "xxl"} {
		b.Run(kind, func(b *testing.B) {
			var mu sync.Mutex
			var down atomic.Bool
			var last time.Time // of the newest result
			results := map[int64]bool{}
			changed := make(chan struct{}, 1)
			registered := make(chan struct{}, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				switch r.URL.Path {
				case wire.PathRegistry:
					select {
					case registered <- struct{}{}:
					default:
					}
				case wire.PathCallback:
					if down.Load() {
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					c, err := wire.DecodeCallback(body, 0)
					if err != nil {
						b.Error(err)
					}
					mu.Lock()
					for _, it := range c.Items {
						results[it.LogID] = true
					}
					last = time.Now()
					mu.Unlock()
					select {
					case changed <- struct{}{}:
					default:
					}
				}
				io.WriteString(w, `{"code":200,"msg":null}`)
			}))
			defer server.Close()
			// until waits for n results, or until none comes for as long.
			until := func(n int, quiet time.Duration) int {
				for {
					mu.Lock()
					have := len(results)
					mu.Unlock()
					if have >= n {
						return have
					}
					select {
					case <-changed:
					case <-time.After(quiet):
						return have
					}
				}
			}
			port := freePort(b)
			cmd := self(kind, server.URL, port, b.TempDir())
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			<-registered
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			var next atomic.Int64
			send := func(n int) (ok int) {
				var taken, left atomic.Int64
				left.Store(int64(n))
				var wg sync.WaitGroup
				for range 64 {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							id := next.Add(1)
							// Each of a job of its own: the other one refuses a
							// second run of a job at work.
							body := wire.AppendRun(nil, &wire.Run{JobID: int32(id%100_000) + 1, LogID: id, LogTime: 1, Handler: "empty", BlockStrategy: wire.BlockSerial, GlueType: wire.GlueBean, BroadcastTotal: 1})
							for range 50 { // it may be on its way to its port
								req, _ := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+port+"/run", bytes.NewReader(body))
								req.Header.Set(wire.HeaderToken, "executors-token")
								res, err := client.Do(req)
								if err != nil {
									<-time.After(20 * time.Millisecond)
									continue
								}
								reply, _ := io.ReadAll(res.Body)
								res.Body.Close()
								if r, err := wire.DecodeReply(reply); err == nil && r.OK() {
									taken.Add(1)
								}
								break
							}
						}
					})
				}
				wg.Wait()
				return int(taken.Load())
			}
			sum := send(100)
			until(sum, 5*time.Second)
			b.ResetTimer()
			began := time.Now()
			sum += send(b.N)
			have := until(sum, 5*time.Second)
			b.StopTimer()
			mu.Lock()
			b.ReportMetric(float64(b.N)/last.Sub(began).Seconds(), "runs/s")
			mu.Unlock()
			b.ReportMetric(float64(sum-have), "missing")
			b.ReportMetric(0, "ns/op") // it waits for what does not come
			down.Store(true)
			ended := time.After(*away)
			more := send(500)
			<-ended
			down.Store(false)
			got := until(have+more, 35*time.Second) - have
			b.ReportMetric(float64(more-got), "lost/500")
		})
	}
}
