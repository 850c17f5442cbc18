package executor

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

var (
	flatRuns = flag.Int("flat.runs", 30_000, "how many runs TestMemoryIsFlat works on; CI takes 1,000,000")
	flatMax  = flag.Int("flat.max", 0, "MB that the heap may grow from the first half to the end; 0: a half")
)

// A counter is the server: it accepts callbacks and counts results.
type counter struct {
	n    atomic.Int64
	bad  atomic.Int64
	mu   sync.Mutex
	want int64
	done chan struct{}
}

func (c *counter) after(n int64) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want, c.done = n, make(chan struct{})
	if c.n.Load() >= n {
		close(c.done)
		c.want = -1
	}
	return c.done
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == wire.PathCallback {
		body, _ := io.ReadAll(r.Body)
		cb, err := wire.DecodeCallback(body, 0)
		if err != nil {
			c.bad.Add(1)
		}
		for _, it := range cb.Items {
			if it.Code != wire.CodeSuccess {
				c.bad.Add(1)
			}
		}
		n := c.n.Add(int64(len(cb.Items)))
		c.mu.Lock()
		if c.want >= 0 && c.done != nil && n >= c.want {
			close(c.done)
			c.want = -1
		}
		c.mu.Unlock()
	}
	_, _ = io.WriteString(w, taken)
}

// A sender sends runs on one connection, several at a time, and reads the answers. It costs little, so the benchmark
// measures the executor.
type sender struct {
	c   net.Conn
	r   *bufio.Reader
	buf []byte
}

func newSender(tb testing.TB, address string) *sender {
	c, err := net.Dial("tcp", address)
	check.OK(tb, err)
	tb.Cleanup(func() { c.Close() })
	return &sender{c: c, r: bufio.NewReaderSize(c, 64<<10)}
}

// send sends the runs from first on and returns how many were accepted.
func (s *sender) send(first, n int64) (ok int64, err error) {
	s.buf = s.buf[:0]
	var body []byte
	for id := first; id < first+n; id++ {
		run := wire.Run{JobID: int32(id%64) + 1, Handler: "empty", BlockStrategy: wire.BlockSerial, LogID: id, LogTime: 1_700_000_000_000,
			GlueType: wire.GlueBean, BroadcastTotal: 1}
		body = wire.AppendRun(body[:0], &run)
		s.buf = fmt.Appendf(s.buf, "POST /run HTTP/1.1\r\nHost: x\r\nXXL-JOB-ACCESS-TOKEN: secret\r\nContent-Length: %d\r\n\r\n%s",
			len(body), body)
	}
	if _, err := s.c.Write(s.buf); err != nil {
		return 0, err
	}
	for range n {
		length := 0
		for {
			line, err := s.r.ReadSlice('\n')
			if err != nil {
				return ok, err
			}
			if len(line) <= 2 {
				break
			}
			if v, is := bytes.CutPrefix(line, []byte("Content-Length: ")); is {
				length, _ = strconv.Atoi(string(bytes.TrimSpace(v)))
			}
		}
		reply := make([]byte, length)
		if _, err := io.ReadFull(s.r, reply); err != nil {
			return ok, err
		}
		if bytes.HasPrefix(reply, accepted[:len(`{"code":200`)]) {
			ok++
		}
	}
	return ok, nil
}

// load is an executor on a port, with a server that counts.
func load(tb testing.TB, change func(*Options)) (e *Executor, c *counter, send func(first, n int64) (refused int64)) {
	tb.Helper()
	mux := muxOf("empty", func(context.Context, *Run) error { return nil })
	c = &counter{}
	server := httptest.NewServer(c)
	tb.Cleanup(server.Close)
	o := Options{App: "demo", Servers: []string{server.URL}, Token: "secret", Address: "http://here", Dir: tb.TempDir(), LogMax: -1,
		Log: quiet, QueueSize: 100_000}
	change(&o)
	e, err := New(mux, o)
	check.OK(tb, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ctx, ln) }()
	tb.Cleanup(func() {
		cancel()
		check.NoError(tb, <-ended)
	})
	const conns = 64
	var senders []*sender
	for range conns {
		senders = append(senders, newSender(tb, ln.Addr().String()))
	}
	return e, c, func(first, n int64) int64 {
		var next, refused atomic.Int64
		next.Store(first)
		var wg sync.WaitGroup
		for _, s := range senders {
			wg.Go(func() {
				for {
					const at = 16
					from := next.Add(at) - at
					if from >= first+n {
						return
					}
					want := min(at, first+n-from)
					ok, err := s.send(from, want)
					if err != nil {
						tb.Error(err)
						return
					}
					refused.Add(want - ok)
				}
			})
		}
		wg.Wait()
		return refused.Load()
	}
}

// BenchmarkRuns: accept, journal, queue, run, callback, all over HTTP. runs/s counts a run when the server has its result.
// Senders and server use the same CPU cores.
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
			_, count, send := load(b, c.change)
			refused := send(1, 1000)
			<-count.after(1000 - refused)
			b.ReportAllocs()
			b.ResetTimer()
			refused += send(1001, int64(b.N))
			<-count.after(1000 + int64(b.N) - refused)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
			if refused > 0 || count.bad.Load() > 0 {
				b.Errorf("%d refused, %d bad results", refused, count.bad.Load())
			}
		})
	}
}

// Memory does not grow with the number of runs, nor do goroutines or files.
func TestMemoryIsFlat(t *testing.T) {
	if raceEnabled && *flatRuns == 30_000 {
		*flatRuns = 6_000
	}
	// The memory of past runs is full after the first tenth.
	step := int64(*flatRuns / 10)
	e, count, send := load(t, func(o *Options) { o.NoSync = true; o.RememberMax = int(min(step, 100_000)) })
	var first, last runtime.MemStats
	heap := func(m *runtime.MemStats) {
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(m)
	}
	first1 := 0
	for i := range int64(10) {
		if n := send(1+i*step, step); n > 0 {
			t.Fatalf("%d refused", n)
		}
		<-count.after((i + 1) * step)
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
	most := int64(*flatMax) << 20
	if most == 0 {
		most = 512 << 10
	}
	files, err := os.ReadDir(e.o.Dir)
	check.OK(t, err)
	t.Logf("%d runs: heap %.1f MB in the first half, %.1f MB at the end; %d goroutines, then %d; %d files", 10*step,
		float64(first.HeapAlloc)/1e6, float64(last.HeapAlloc)/1e6, first1, runtime.NumGoroutine(), len(files))
	if grown > most {
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
	if count.bad.Load() > 0 {
		t.Errorf("%d bad results", count.bad.Load())
	}
}
