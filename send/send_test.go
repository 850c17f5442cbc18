package send

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/wire"
)

var local = safedial.Policy{AllowLoopback: true}

func shipment(address, handler string) dispatch.SendRequest {
	job := core.Job{Def: core.Def{ID: 7, App: "web", Name: "warm", Handler: handler, Params: `{"depth":2}`}}
	at := core.Instant(1800000000)
	run := core.Run{ID: core.PlannedRun(7, at), App: "web", At: at, Slot: at, SentAt: at.Time().Add(3 * time.Millisecond), Attempt: 2,
		Cause: core.CauseRetry}
	return dispatch.SendRequest{Run: &run, Job: &job, App: &core.App{Name: "web", Token: "web-token"}, Address: address,
		Params: job.Def.Params}
}

func newSender(t *testing.T, o Options) *Sender {
	if !o.Policy.AllowLoopback {
		o.Policy = local
	}
	s := New(o)
	t.Cleanup(s.Close)
	return s
}

// serve starts a server that closes with the test.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// sends checks the kind of the answer to a send.
func sends(ctx context.Context, t *testing.T, s *Sender, sh dispatch.SendRequest, kind dispatch.AnswerKind) {
	t.Helper()
	if a := s.Send(ctx, sh); a.Kind != kind {
		t.Errorf("sent to %s: %+v, want kind %d", sh.Address, a, kind)
	}
}

// TestCall checks the meaning of each answer of a plain HTTP endpoint.
func TestCall(t *testing.T) {
	hang := make(chan struct{})
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/base/ok":
			io.WriteString(w, strings.Repeat("x", 5000)+"end")
		case "/base/later":
			w.WriteHeader(http.StatusAccepted)
		case "/base/busy":
			w.WriteHeader(http.StatusTooManyRequests)
		case "/base/bad":
			http.Error(w, "no such report", http.StatusUnprocessableEntity)
		case "/base/moved":
			http.Redirect(w, r, "/base/ok", http.StatusFound)
		case "/base/hang":
			<-hang
		case "/base/cut":
			panic(http.ErrAbortHandler)
		}
	})
	defer close(hang)
	s := newSender(t, Options{CallTimeout: 2 * time.Second})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	nobody := "http://" + closed.Addr().String()
	closed.Close()
	texts := golden.New(t)
	for _, c := range []struct {
		handler, base string
		kind          dispatch.AnswerKind
		state         core.State
		says          string // of the endpoint
	}{
		{"/ok", "", dispatch.AnswerEnded, core.Succeeded, "xend"},
		{"GET /ok", "", dispatch.AnswerEnded, core.Succeeded, "xend"},
		{"POST /later", "", dispatch.AnswerAccepted, "", ""},
		{"/busy", "", dispatch.AnswerBusy, "", ""},
		{"/bad", "", dispatch.AnswerEnded, core.Failed, "no such report"},
		{"/moved", "", dispatch.AnswerEnded, core.Failed, ""},
		{"/hang", "", dispatch.AnswerEnded, core.TimedOut, ""},
		{"/cut", "", dispatch.AnswerUnconfirmed, "", ""},
		{"/ok", nobody, dispatch.AnswerRefused, "", ""},
		{"/ok", "http://169.254.169.254", dispatch.AnswerRefused, "", ""},
		{"BREW /ok", "", dispatch.AnswerRefused, "", ""},
	} {
		base := c.base
		if base == "" {
			base = srv.URL + "/base"
		}
		a := s.Send(t.Context(), shipment("call:"+base, c.handler))
		if a.Kind != c.kind || a.State != c.state || !strings.Contains(a.Message, c.says) {
			t.Errorf("%s %s: kind %d state %q message %q, want %d %q %q", base, c.handler, a.Kind, a.State, a.Message, c.kind, c.state, c.says)
		}
		if c.says == "" && a.Message != "" && c.kind != dispatch.AnswerUnconfirmed {
			key := fmt.Sprint(c.handler, " ", strings.Replace(c.base, nobody, "nobody", 1))
			texts.Equal(t, strings.TrimSpace(key), a.Message, strings.TrimPrefix(nobody, "http://"), "NOBODY")
		}
		if len(a.Message) > messageTail {
			t.Errorf("%s: message of %d bytes", c.handler, len(a.Message))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sends(ctx, t, s, shipment("call:"+srv.URL, "/ok"), dispatch.AnswerBusy)
}

// TestCallOnce: an executor that begins a call on a connection that was used
// before, and dies, is not called again in the same send; and what keeps the
// transport from it is not seen on the wire.
func TestCallOnce(t *testing.T) {
	for _, c := range []struct{ handler, params, want string }{
		{"POST /x", `{"a":1}`, "Content-Length: 7"},
		{"POST /x", "", "Content-Length: 0"},
		{"PUT /x", "{}", "Content-Length: 2"},
		{"DELETE /x", "", ""},
		{"GET /x", "{}", ""},
	} {
		t.Run(c.handler+" "+c.params, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			check.OK(t, err)
			defer l.Close()
			requests, conns := make(chan string, 10), make(chan int, 10)
			go func() { // answers the first request of a connection, and cuts at the second
				for n := 0; ; n++ {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					conns <- n
					go func() {
						defer conn.Close()
						buf := make([]byte, 8<<10)
						for i := range 2 {
							n, err := conn.Read(buf)
							if err != nil {
								return
							}
							for !whole(buf[:n]) {
								m, err := conn.Read(buf[n:])
								if err != nil {
									return
								}
								n += m
							}
							requests <- string(buf[:n])
							if i == 0 {
								io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
							}
						}
					}()
				}
			}()
			s := newSender(t, Options{Timeout: 3 * time.Second})
			sh := shipment("call:http://"+l.Addr().String(), c.handler)
			sh.Params = c.params
			for _, kind := range []dispatch.AnswerKind{dispatch.AnswerEnded, dispatch.AnswerUnconfirmed} {
				sends(t.Context(), t, s, sh, kind)
			}
			if len(requests) != 2 || len(conns) != 1 {
				t.Fatalf("two sends brought %d requests on %d connections", len(requests), len(conns))
			}
			head, _, _ := strings.Cut(<-requests, "\r\n\r\n")
			if strings.Contains(head, "Transfer-Encoding") || c.want == "" && strings.Contains(head, "Content-Length") ||
				!strings.Contains(head, c.want) {
				t.Errorf("the request is\n%s\nwant %q", head, c.want)
			}
		})
	}
}

// whole reports whether b contains a request with its complete body.
func whole(b []byte) bool {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return false
	}
	_, err = io.ReadAll(r.Body)
	return err == nil
}

// TestCallHeaders checks the request to an endpoint and its signature.
func TestCallHeaders(t *testing.T) {
	got := make(chan *http.Request, 1)
	body := make(chan string, 1)
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r
		body <- string(b)
	})
	now := time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
	s := newSender(t, Options{ReportURL: "http://tickring.example:7700", ReportKey: known([]byte("key")),
		Now: func() time.Time { return now }})
	sh := shipment("call:"+srv.URL+"/in/", "PUT /warm?x=1")
	s.Send(t.Context(), sh)
	r, b := <-got, <-body
	run := sh.Run.ID.String()
	want := map[string]string{
		HeaderRun: run, "Idempotency-Key": run, HeaderJob: "web/warm", wire.HeaderScheduledAt: "2027-01-15T08:00:00Z", wire.HeaderAttempt: "2",
		wire.HeaderCause: "retry",
		HeaderCallback:   "http://tickring.example:7700/v1/report/" + run + "?key=" + ReportSignature([]byte("key"), sh.Run.ID),
		HeaderTime:       "2027-01-15T08:00:00Z", "Content-Type": "application/json",
		HeaderSignature: Signature("web-token", "PUT", r.Host, "/in/warm?x=1", r.Header, b),
	}
	for name, value := range want {
		check.Equal(t, r.Header.Get(name), value, "%s", name)
	}
	if r.Method != "PUT" || r.URL.RequestURI() != "/in/warm?x=1" || b != `{"depth":2}` {
		t.Errorf("%s %s %s", r.Method, r.URL, b)
	}
	if ReportSignature([]byte("key"), sh.Run.ID) == ReportSignature([]byte("key"), sh.Run.ID+1) {
		t.Error("signatures of different runs are equal")
	}
}

func known(key []byte) Key { return func(context.Context) ([]byte, error) { return key, nil } }

// TestKeyIsAwaited: while the key for reports cannot be read, a run that needs a signed report is not sent and does not fail; runs
// without signatures are sent.
func TestKeyIsAwaited(t *testing.T) {
	texts := golden.New(t)
	exec := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(wire.AppendReply(nil, 200, "")) })
	var f handedTo
	s := newSender(t, Options{ReportURL: "http://tickring.example", Functions: &f, ReportKey: func(ctx context.Context) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	for _, address := range []string{"lambda:payroll", "call:" + exec.URL} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		a := s.Send(ctx, shipment(address, "POST /work"))
		if a.Kind != dispatch.AnswerBusy || f != 0 {
			t.Errorf("%s: %+v, sent %d times", address, a, f)
		}
		texts.Equal(t, "not signed", a.Message)
	}
	sends(t.Context(), t, s, shipment(exec.URL, "work"), dispatch.AnswerAccepted)
}

// handedTo counts invocations.
type handedTo int

func (h *handedTo) Invoke(context.Context, string, []byte) dispatch.Answer {
	*h++
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}

func (*handedTo) Limit(context.Context, string) (time.Duration, error) { return time.Minute, nil }

func (*handedTo) Log(context.Context, string, *core.Run, int) (string, int, bool, error) {
	return "", 0, true, nil
}

// TestWire checks how dispatch reads the answers of an xxl-job executor.
func TestWire(t *testing.T) {
	envelope := func(code int, msg string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.Write(wire.AppendReply(nil, code, msg)) }
	}
	s := newSender(t, Options{Timeout: 2 * time.Second})
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		kind   dispatch.AnswerKind
	}{
		{"accepts", envelope(200, ""), dispatch.AnswerAccepted},
		{"has no such handler", envelope(500, "job handler [x] not found."), dispatch.AnswerRefused},
		{"has it already", envelope(500, "repeate trigger job, logId:7"), dispatch.AnswerRepeat},
		{"has another of the job", envelope(500, "block strategy effect：Discard Later"), dispatch.AnswerBlocked},
		{"is too busy", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, dispatch.AnswerBusy},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, dispatch.AnswerUnconfirmed},
		{"cuts", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, dispatch.AnswerUnconfirmed},
		{"talks nonsense", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, dispatch.AnswerUnconfirmed},
	} {
		exec := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if _, err := wire.DecodeRun(body); r.URL.Path != "/run" || err != nil {
				t.Errorf("%s: %v", r.URL.Path, err)
			}
			got := wire.ParseAbout(r.Header.Get)
			check.Equal(t, got, (wire.About{Attempt: 2, Instant: 1800000000, Cause: "retry"}), "the executor")
			c.answer(w, r)
		}))
		if a := s.Send(t.Context(), shipment(exec.URL, "work")); a.Kind != c.kind {
			t.Errorf("it %s: kind %d (%s), want %d", c.name, a.Kind, a.Message, c.kind)
		}
		exec.Close()
	}
}

// The path at which an executor takes runs is known from its registration, or learnt from
// its answers: only the first run after it was exchanged costs two calls.
func TestPathIsLearnt(t *testing.T) {
	var calls []string
	var path atomic.Value
	path.Store("/trigger")
	exec := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		calls = append(calls, r.URL.Path)
		if r.URL.Path != path.Load() {
			w.Write(wire.AppendReply(nil, 500, "invalid request, uri-mapping("+r.URL.Path+") not found."))
			return
		}
		w.Write(wire.AppendReply(nil, 200, ""))
	})
	s := newSender(t, Options{})
	for _, c := range []struct{ path, registered, want string }{
		{"/trigger", "D", "[/trigger]"}, {"/trigger", "", "[/run /trigger]"}, {"/trigger", "", "[/trigger]"},
		{"/run", "D", "[/trigger /run]"}, {"/run", "D", "[/run]"},
	} {
		calls = nil
		path.Store(c.path)
		sh := shipment(exec.URL, "work")
		sh.Dialect = c.registered
		if a := s.Send(t.Context(), sh); a.Kind != dispatch.AnswerAccepted || fmt.Sprint(calls) != c.want {
			t.Errorf("kind %d (%s) after %v, want %s", a.Kind, a.Message, calls, c.want)
		}
	}
}

// TestKillWithoutConnection: if an executor cannot be reached for a kill, the error explains its effect; consumers of a queue read
// the record themselves.
func TestKillWithoutConnection(t *testing.T) {
	s := newSender(t, Options{})
	app := &core.App{Name: "pay"}
	err := s.Kill(t.Context(), app, "lambda:payroll", 7)
	check.Equal(t, core.CodeOf(err), core.CodeRefused, "%v", err)
	golden.New(t).Equal(t, "a function", fmt.Sprint(err))
	check.NoError(t, s.Kill(t.Context(), app, "queue:mail", 7))
	check.Equal(t, core.CodeOf(s.Kill(t.Context(), app, "call:https://x", 7)), core.CodeRefused, "kill of a call")
	if _, err := s.Idle(t.Context(), app, "lambda:payroll", 7); err == nil {
		t.Error("a function is reported as idle")
	}
	// Without a sender for its scheme, an address is rejected before a send.
	for _, address := range []string{"lambda:payroll", "queue:mail"} {
		sends(t.Context(), t, s, shipment(address, "h"), dispatch.AnswerRefused)
		if err := s.Beat(t.Context(), app, address); err == nil {
			t.Errorf("%s is reported as available", address)
		}
	}
}

// TestLogFromFar: executors count lines in 32 bits. A line beyond is never asked
// for as another one, and an answer leads to none beyond.
func TestLogFromFar(t *testing.T) {
	last := int32(0)
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		q, err := wire.DecodeLogRequest(body)
		if err != nil || q.FromLine < last {
			t.Errorf("asked %s after line %d, %v", body, last, err)
		}
		last = q.FromLine
		w.Write(wire.AppendLogReply(nil, wire.DialectD, 200, "", wire.LogResult{FromLine: q.FromLine, ToLine: math.MaxInt32,
			Content: "a line\n"}))
	})
	s := newSender(t, Options{})
	run := shipment(srv.URL, "work").Run
	run.Address, run.State = srv.URL, core.Running
	for _, from := range []int{1, 7, math.MaxInt32, math.MaxInt32 + 1, 1<<32 + 1, math.MaxInt64} {
		text, next, end, err := s.Log(t.Context(), &core.App{Name: "web"}, run, from)
		if err != nil || end {
			t.Errorf("from %d: end %t, %v", from, end, err)
		}
		if from > math.MaxInt32 && (text != "" || next != from) || from <= math.MaxInt32 && (text == "" || next != math.MaxInt32) {
			t.Errorf("from %d: %q, go on from %d", from, text, next)
		}
	}
}

// TestCallJudgedForEachApp: a connection that one app's allow list opened does not serve another app. Its call is rejected with the
// allowed addresses, and nothing is sent.
func TestCallJudgedForEachApp(t *testing.T) {
	var served, conns atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	s, texts := New(Options{Policy: safedial.Policy{ListLoopback: true}}), golden.New(t)
	defer s.Close()
	for _, handler := range []string{"POST /x", "GET /x"} {
		served.Store(0)
		mine, other := shipment("call:"+srv.URL, handler), shipment("call:"+srv.URL, handler)
		mine.App.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		for range 2 {
			before := conns.Load()
			for range 2 {
				if a := s.Send(t.Context(), mine); a.Kind != dispatch.AnswerEnded || a.State != core.Succeeded {
					t.Fatalf("%s: its own app: %+v", handler, a)
				}
			}
			check.Equal(t, conns.Load()-before, 1, "%s N connections: there is none kept to be taken", handler)
			a := s.Send(t.Context(), other)
			check.Equal(t, a.Kind, dispatch.AnswerRefused, "%s: another app: %+v", handler, a)
			texts.Equal(t, "another app", a.Message)
		}
		check.Equal(t, served.Load(), 4, "%s N calls came, want 4", handler)
	}
}

// TestAskClock computes the offset between a responder's clock and ours from its answer.
func TestAskClock(t *testing.T) {
	ahead := time.Duration(0)
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		if ahead < 0 {
			w.Header()["Date"] = nil // none, as executors in Java
		}
		_, _ = io.WriteString(w, `{"code":200}`)
	})
	s := newSender(t, Options{})
	for _, c := range []struct {
		ahead time.Duration
		want  core.Clock
	}{{0, core.Clock{Known: true}}, {time.Hour, core.Clock{Known: true, Ahead: 3600}}, {-1, core.Clock{}}} {
		ahead = c.ahead
		got, err := s.AskClock(t.Context(), &core.App{Name: "shop"}, server.URL)
		if off := got.Ahead - c.want.Ahead; err != nil || got.Known != c.want.Known || off < -1 || off > 1 {
			t.Errorf("%s ahead: %+v, %v", c.ahead, got, err)
		}
	}
	if got, err := s.AskClock(t.Context(), &core.App{Name: "shop"}, "call:"+server.URL); err != nil || got.Known {
		t.Errorf("of a call: %+v, %v", got, err)
	}
}
