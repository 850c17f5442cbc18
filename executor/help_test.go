package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}

// A fake replaces every server: an http.RoundTripper that accepts registrations and callbacks.
type fake struct {
	mu      sync.Mutex
	changed chan struct{}
	calls   []string // host and path, in order
	regs    []wire.Registration
	items   []wire.CallbackItem
	shapes  []wire.Dialect
	tokens  []string

	// answer, if set, replaces the answer. "" cuts the connection; silence answers nothing until the client gives up.
	answer func(host, path string, body []byte) string
}

const (
	taken   = `{"code":200,"msg":null}`
	silence = "silence"
)

func newFake() *fake { return &fake{changed: make(chan struct{})} }

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	locked := true
	defer func() {
		if locked {
			f.mu.Unlock()
		}
	}()
	f.calls = append(f.calls, r.URL.Host+r.URL.Path)
	f.tokens = append(f.tokens, r.Header.Get(wire.HeaderToken)+"/"+r.Header.Get(wire.HeaderApp))
	reply := taken
	if f.answer != nil {
		reply = f.answer(r.URL.Host, r.URL.Path, body)
	}
	defer func() {
		close(f.changed)
		f.changed = make(chan struct{})
	}()
	switch reply {
	case "":
		return nil, errors.New("connection refused")
	case silence:
		f.mu.Unlock()
		locked = false
		<-r.Context().Done()
		f.mu.Lock()
		locked = true
		return nil, r.Context().Err()
	}
	if reply == taken {
		switch r.URL.Path {
		case wire.PathCallback:
			c, err := wire.DecodeCallback(body, 0)
			if err != nil {
				return nil, err
			}
			f.items = append(f.items, c.Items...)
			f.shapes = append(f.shapes, c.Dialect)
		case wire.PathRegistry:
			reg, err := wire.DecodeRegistration(body)
			if err != nil {
				return nil, err
			}
			if at, err := http.ParseTime(r.Header.Get("Date")); err != nil || time.Since(at).Abs() > time.Minute {
				return nil, fmt.Errorf("a registration has the date %q", r.Header.Get("Date"))
			}
			f.regs = append(f.regs, reg)
		}
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(reply)), Request: r}, nil
}

func (f *fake) set(answer func(host, path string, body []byte) string) {
	f.locked(func() { f.answer = answer })
}

// locked calls a function while no request is answered.
func (f *fake) locked(call func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	call()
}

// atPath is the answer to requests at one path; all others are taken.
func atPath(path, reply string) func(host, path string, body []byte) string {
	return func(_, at string, _ []byte) string {
		if at == path {
			return reply
		}
		return taken
	}
}

// oneGives is the answer of host one; others take everything.
func oneGives(reply string) func(host, path string, body []byte) string {
	return func(host, _ string, _ []byte) string {
		if host == "one" {
			return reply
		}
		return taken
	}
}

func twoServers(o *Options) { o.Servers = []string{"http://one", "http://two"} }

// until waits until ok holds, which is asked after each request.
func (f *fake) until(tb testing.TB, ok func() bool) {
	tb.Helper()
	limit := time.NewTimer(10 * time.Hour) // of a bubble; elsewhere go test's own
	defer limit.Stop()
	for {
		f.mu.Lock()
		done, changed := ok(), f.changed
		f.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			tb.Fatal("it did not come")
		}
	}
}

// result waits for the result of a run.
func (f *fake) result(tb testing.TB, id int64) wire.CallbackItem {
	tb.Helper()
	var it wire.CallbackItem
	f.until(tb, func() bool {
		for _, i := range f.items {
			if i.LogID == id {
				it = i
				return true
			}
		}
		return false
	})
	return it
}

func (f *fake) want(tb testing.TB, id int64, code int, msg string) {
	tb.Helper()
	if it := f.result(tb, id); it.Code != code || it.Msg != msg {
		tb.Errorf("run %d: result %d %q, want %d %q", id, it.Code, it.Msg, code, msg)
	}
}

var quiet = slog.New(slog.DiscardHandler)

// start starts an executor that ends with the test. It has one server, a fake.
func start(tb testing.TB, mux *Mux, f *fake, change func(*Options)) *Executor {
	tb.Helper()
	e := prepare(tb, mux, f, change)
	check.OK(tb, e.Start())
	return e
}

// started starts an executor with a server of its own.
func started(tb testing.TB, mux *Mux, change func(*Options)) (*fake, *Executor) {
	tb.Helper()
	f := newFake()
	return f, start(tb, mux, f, change)
}

// startWaiting starts an executor whose only handler is "w", which waits.
func startWaiting(tb testing.TB, change func(*Options)) (*waiting, *fake, *Executor) {
	tb.Helper()
	w := newWaiting()
	f, e := started(tb, muxOf("w", w.handle), change)
	return w, f, e
}

// muxOf returns a mux with one handler.
func muxOf(name string, h Handler, more ...HandlerOption) *Mux {
	mux := NewMux()
	mux.Register(name, h, more...)
	return mux
}

func prepare(tb testing.TB, mux *Mux, f *fake, change func(*Options)) *Executor {
	tb.Helper()
	o := Options{App: "demo", Servers: []string{"http://one"}, Address: "http://here:1/", Dir: tb.TempDir(), NoSync: true, Log: quiet,
		Client: &http.Client{Transport: f}}
	if change != nil {
		change(&o)
	}
	e, err := New(mux, o)
	check.OK(tb, err)
	tb.Cleanup(func() { _ = e.Stop(context.Background()) })
	return e
}

// post sends a request to the executor and returns its answer.
func post(e *Executor, path string, body []byte, header ...string) wire.Reply {
	r := httptest.NewRequest(http.MethodPost, "http://here"+path, bytes.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	reply, err := wire.DecodeReply(w.Body.Bytes())
	if err != nil {
		panic(err)
	}
	return reply
}

func order(job int32, id int64, handler string) wire.Run {
	return wire.Run{JobID: job, LogID: id, LogTime: time.Now().UnixMilli(), Handler: handler, GlueType: wire.GlueBean,
		BlockStrategy: wire.BlockSerial, BroadcastTotal: 1}
}

func send(e *Executor, run wire.Run) wire.Reply {
	return post(e, wire.PathRun, wire.AppendOrder(nil, &run))
}

func mustSend(tb testing.TB, e *Executor, run wire.Run) {
	tb.Helper()
	if r := send(e, run); !r.OK() {
		tb.Fatalf("run %d: answered %d %q", run.LogID, r.Code, r.Msg)
	}
}

func refused(tb testing.TB, r wire.Reply, code int, msg string) {
	tb.Helper()
	if r.Code != code || !strings.HasPrefix(r.Msg, msg) {
		tb.Errorf("answered %d %q, want %d %q", r.Code, r.Msg, code, msg)
	}
}

// readLog reads the whole log of a run as a scheduler does.
func readLog(tb testing.TB, e *Executor, run wire.Run) string {
	tb.Helper()
	var all strings.Builder
	for from := int32(1); ; {
		r := post(e, wire.PathLog, wire.AppendLogRequest(nil, wire.LogRequest{LogID: run.LogID, LogTime: run.LogTime, FromLine: from}))
		res, err := r.LogResult()
		check.OK(tb, err)
		if res.FromLine != from {
			tb.Fatalf("asked from line %d, answered from %d", from, res.FromLine)
		}
		all.WriteString(res.Content)
		if res.ToLine < from {
			return all.String()
		}
		from = res.ToLine + 1
	}
}

// waiting is a handler that reports each start and then waits for its context or for a value of word, which it returns.
type waiting struct {
	began chan int64
	word  chan error
	ended chan error // causes of contexts that ended
}

func newWaiting() *waiting {
	return &waiting{began: make(chan int64, 100), word: make(chan error), ended: make(chan error, 100)}
}

func (w *waiting) handle(ctx context.Context, run *Run) error {
	w.began <- run.ID
	select {
	case err := <-w.word:
		return err
	case <-ctx.Done():
		w.ended <- context.Cause(ctx)
		return ctx.Err()
	}
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }
