package wire_test

import (
	"bytes"
	"flag"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/wire"
)

var (
	away   = flag.Duration("beside.away", time.Second, "how long the server of BenchmarkBeside is away")
	during = flag.Int("beside.runs", 500, "how many runs end while it is away")
)

// A bench is a server and one executor, in its own process with its defaults.
type bench struct {
	*testing.B
	addr    string
	srv     *http.Server
	client  *http.Client
	port    string
	next    atomic.Int64
	changed chan struct{}
	beat    chan struct{}

	mu      sync.Mutex
	results map[int64]bool
	last    time.Time // of the newest result
}

func beside(b *testing.B, kind string) *bench {
	s := &bench{B: b, addr: "127.0.0.1:0", port: freeport.Free(b), results: map[int64]bool{}, changed: make(chan struct{}, 1),
		beat:   make(chan struct{}, 1),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}}
	s.up()
	b.Cleanup(s.down)
	b.Cleanup(s.client.CloseIdleConnections)
	cmd := self(kind, "http://"+s.addr, s.port, "golang", b.TempDir())
	check.OK(b, cmd.Start())
	b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	<-s.beat
	s.until(s.send(100, 0), 5*time.Second)
	return s
}

// up has the server listen, at the address that it had before.
func (s *bench) up() {
	ln, err := net.Listen("tcp", s.addr)
	check.OK(s, err)
	s.addr = ln.Addr().String()
	s.srv = &http.Server{Handler: s}
	go s.srv.Serve(ln)
}

// down stops listening, and closes open connections.
func (s *bench) down() { s.srv.Close() }

func (s *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	signal := s.beat
	if r.URL.Path == wire.PathCallback {
		c, err := wire.DecodeCallback(body, 0)
		if err != nil {
			s.Error(err)
		}
		s.mu.Lock()
		for _, it := range c.Items {
			s.results[it.LogID] = true
		}
		s.last = time.Now()
		s.mu.Unlock()
		signal = s.changed
	}
	select {
	case signal <- struct{}{}:
	default:
	}
	io.WriteString(w, `{"code":200,"msg":null}`)
}

// until waits for n results in all, or until none comes for as long; how many
// there are.
func (s *bench) until(n int, quiet time.Duration) int {
	for {
		s.mu.Lock()
		have := len(s.results)
		s.mu.Unlock()
		if have >= n {
			return have
		}
		select {
		case <-s.changed:
		case <-time.After(quiet):
			return have
		}
	}
}

// send sends n runs of an empty handler, spread over a time; how many of all
// were taken.
func (s *bench) send(n int, over time.Duration) (taken int) {
	var ok, left atomic.Int64
	left.Store(int64(n))
	began := time.Now()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				i := int64(n) - left.Add(-1) - 1
				if i >= int64(n) {
					return
				}
				<-time.After(time.Until(began.Add(over * time.Duration(i) / time.Duration(n))))
				if s.sendOne() {
					ok.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(ok.Load())
}

func (s *bench) sendOne() bool {
	id := s.next.Add(1)
	// Each of a job of its own: the other one refuses a second run of a job at
	// work.
	body := wire.AppendRun(nil, &wire.Run{JobID: int32(id%100_000) + 1, LogID: id, LogTime: time.Now().UnixMilli(), Handler: "empty",
		BlockStrategy: wire.BlockSerial, GlueType: wire.GlueBean, BroadcastTotal: 1})
	for range 50 { // it may be on its way to its port
		req, _ := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+s.port+"/run", bytes.NewReader(body))
		req.Header.Set(wire.HeaderToken, "executors-token")
		res, err := s.client.Do(req)
		if err != nil {
			<-time.After(20 * time.Millisecond)
			continue
		}
		reply, _ := io.ReadAll(res.Body)
		res.Body.Close()
		r, err := wire.DecodeReply(reply)
		return err == nil && r.OK()
	}
	return false
}

// BenchmarkBeside sends runs of an empty handler to our SDK and to xxl-job-executor-go. "runs" counts results a second. In "away"
// the server's address is closed for -beside.away, while -beside.runs end, spread over that time. lost is the number of runs
// without a result in the 40 s after its return, and back-s the time of the last result:
//
//	go test -run ^$ -bench Beside/.*/runs -benchtime 30000x ./wire
//	go test -run ^$ -bench Beside/.*/away -benchtime 1x ./wire -beside.away 1m
func BenchmarkBeside(b *testing.B) {
	for _, kind := range []string{"sdk", "xxl"} {
		b.Run(kind+"/runs", func(b *testing.B) {
			s := beside(b, kind)
			b.ResetTimer()
			began := time.Now()
			before := s.until(0, 0)
			want := before + s.send(b.N, 0)
			have := s.until(want, 5*time.Second)
			b.StopTimer()
			s.mu.Lock()
			b.ReportMetric(float64(b.N)/s.last.Sub(began).Seconds(), "runs/s")
			s.mu.Unlock()
			b.ReportMetric(float64(want-have), "missing")
			b.ReportMetric(0, "ns/op") // the time is a wait for missing results
		})
		b.Run(kind+"/away", func(b *testing.B) {
			s := beside(b, kind)
			var sent, lost int
			var back time.Duration
			for b.Loop() {
				before := s.until(0, 0)
				s.down()
				returns := time.After(*away)
				taken := s.send(*during, *away*9/10)
				<-returns
				s.up()
				returned := time.Now()
				have := s.until(before+taken, 40*time.Second)
				sent, lost = sent+taken, lost+before+taken-have
				s.mu.Lock()
				back = max(back, s.last.Sub(returned))
				s.mu.Unlock()
			}
			b.ReportMetric(float64(sent), "sent")
			b.ReportMetric(float64(lost), "lost")
			b.ReportMetric(back.Seconds(), "back-s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
