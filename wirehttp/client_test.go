package wirehttp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var local = safedial.Policy{AllowLoopback: true}

// each runs a test with http and with https, which must return the same for the same executor.
func each(t *testing.T, test func(t *testing.T, scheme string)) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) { test(t, scheme) })
	}
}

// newClient returns a client that trusts the certificate of serve, and closes with the test.
func newClient(t testing.TB, o ClientOptions) *Client {
	_, roots := certificate()
	o.TLS = &tls.Config{RootCAs: roots, ServerName: "example.com"}
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

// certificate returns the certificate of net/http/httptest for example.com, and the pool that a client verifies it with.
var certificate = sync.OnceValues(func() (tls.Certificate, *x509.CertPool) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s.TLS.Certificates[0], pool
})

// server speaks to each connection by script, below HTTP.
type server struct {
	conns atomic.Int64 // accepted
	reqs  atomic.Int64 // read whole by read
	last  atomic.Pointer[request]
}

type request struct {
	*http.Request
	body []byte
}

// serve starts a server whose every connection is handled by script, and
// closed after it. The end of the test ends the connections, and waits for the scripts.
func serve(t testing.TB, scheme string, script func(s *server, c net.Conn, br *bufio.Reader)) (s *server, base string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	base = scheme + "://" + ln.Addr().String() + "/"
	if scheme == "https" {
		cert, _ := certificate()
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}})
	}
	s = &server{}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	context.AfterFunc(t.Context(), func() { ln.Close() })
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			context.AfterFunc(t.Context(), func() { c.Close() })
			running.Go(func() {
				defer c.Close()
				script(s, c, bufio.NewReader(c))
			})
		}
	})
	return s, base
}

// read reads one complete request; nil: there is none.
func (s *server) read(br *bufio.Reader) *request {
	r, err := http.ReadRequest(br)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	s.reqs.Add(1)
	s.last.Store(&request{r, body})
	return &request{r, body}
}

// answering sends the same bytes to every request.
func answering(response string) func(s *server, c net.Conn, br *bufio.Reader) {
	return func(s *server, c net.Conn, br *bufio.Reader) {
		for s.read(br) != nil {
			if _, err := io.WriteString(c, response); err != nil {
				return
			}
		}
	}
}

// once is answering for a response that ends with its connection.
func once(response string) func(s *server, c net.Conn, br *bufio.Reader) {
	return func(s *server, c net.Conn, br *bufio.Reader) {
		if s.read(br) != nil {
			_, _ = io.WriteString(c, response)
		}
	}
}

func http11(status, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

const yes = `{"code":200,"msg":"","content":null}`

var aRun = wire.Run{JobID: 3, Handler: "demo", Params: "p\n\u2028", BlockStrategy: wire.BlockSerial, LogID: 3<<32 | 7,
	LogTime: 1586629003729, GlueType: wire.GlueBean, BroadcastTotal: 1}

// Every answer leads to the kind that the claim protocol needs, whatever
// carries it.
func TestOutcomes(t *testing.T) {
	goRefusal := `[{"logId":7,"logDateTim":1,"executeResult":{"code":500,"msg":"Task not registered"},"handleCode":500,"handleMsg":"Task not registered"}]`
	for _, c := range []struct {
		name   string
		script func(s *server, c net.Conn, br *bufio.Reader)
		want   string // kind, HTTP status, code and message, and * if there is an error
	}{
		{"accepted", answering(http11("200 OK", yes)), "accepted 200 200"},
		{"accepted, status without reason", answering(strings.Replace(http11("200 OK", yes), " OK", "", 1)), "accepted 200 200"},
		{"accepted, chunked", answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"cod\r\n8;x=y\r\ne\": 200}\r\n0\r\nX: " +
			"y\r\n\r\n"), "accepted 200 200"},
		{"accepted, body until the end", once("HTTP/1.1 200 OK\r\n\r\n" + yes), "accepted 200 200"},
		{"accepted, HTTP/1.0", once("HTTP/1.0 200 OK\r\n\r\n" + yes), "accepted 200 200"},
		{"accepted after 103", answering("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + http11("200 OK", yes)), "accepted 200 200"},
		{"accepted with 201", answering(http11("201 Created", yes)), "accepted 201 200"},
		{"repeat", answering(http11("200 OK", `{"code":500,"msg":"repeate trigger job, logId:7"}`)), "repeat 200 500 repeate trigger job, logId:7"},
		{"refused", answering(http11("200 OK", `{"code":500,"msg":"job handler [x] not found."}`)), "refused 200 500 job handler [x] not found."},
		{"blocked", answering(http11("200 OK", `{"code":500,"msg":"block strategy effect：Discard Later"}`)), "refused 200 500 block strategy effect：Discard Later"},
		{"refused by Go", answering(http11("200 OK", goRefusal)), "refused 200 500 Task not registered"},
		{"queue full", answering(http11("200 OK", `{"code":429,"msg":"queue full"}`)), "rejected temporarily 200 429 queue full"},
		{"HTTP 429", answering(http11("429 Too Many Requests", "slow down")), "rejected temporarily 429 0 *"},
		{"HTTP 404", answering(http11("404 Not Found", "404 page not found")), "refused 404 0 *"},
		{"HTTP 401 with envelope", answering(http11("401 Unauthorized", `{"code":401,"msg":"no"}`)), "refused 401 401 no *"},
		{"HTTP 400 with envelope of success", answering(http11("400 Bad Request", yes)), "unknown 400 200 *"},
		{"HTTP 404 of 1 MB", once(http11("404 Not Found", strings.Repeat("x", 1<<20))), "refused 404 0 *"},
		{"redirect", answering("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"),
			"refused 307 0 *"},
		{"see other", answering("HTTP/1.1 303 See Other\r\nLocation: /done\r\nContent-Length: 0\r\n\r\n"), "unknown 303 0 *"},
		{"HTTP 500 with envelope", answering(http11("500 Internal Server Error", `{"code":500,"msg":"no"}`)), "refused 500 500 no"},
		{"HTTP 500 with HTML", answering(http11("500 Internal Server Error", "<html>")), "unknown 500 0 *"},
		{"HTTP 500 of Spring", answering(http11("500 Internal Server Error", `{"timestamp":1,"status":500}`)), "unknown 500 0 *"},
		{"HTTP 504 of a gateway", answering(http11("504 Gateway Timeout", `{"code":504,"msg":"upstream timed out"}`)), "unknown 504 504 upstream timed out *"},
		{"HTTP 204", answering("HTTP/1.1 204 No Content\r\n\r\n"), "unknown 204 0 *"},
		{"HTML", answering(http11("200 OK", "<html>ok</html>")), "unknown 200 0 *"},
		{"empty", answering(http11("200 OK", "")), "unknown 200 0 *"},
		{"cut envelope", once("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + yes), "unknown 200 0 *"},
		{"cut chunk", once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n" + yes), "unknown 200 0 *"},
		{"too large", once(http11("200 OK", `{"code":200,"msg":"`+strings.Repeat("x", maxReply)+`"}`)), "unknown 200 0 *"},
		{"too large, chunked", once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1000\r\n"+strings.Repeat(" ", 0x1000)+"\r\n", 17)), "unknown 200 0 *"},
		{"head without end", once("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 20_000)), "unknown 0 0 *"},
		{"not HTTP", once("SSH-2.0-OpenSSH_9.6\r\n\r\n"), "unknown 0 0 *"},
		{"cut after reading", once(""), "unknown 0 0 *"},
		{"cut before reading", func(s *server, c net.Conn, br *bufio.Reader) { _, _ = br.Peek(1) }, "unknown 0 0 *"},
		{"hangs", nil, "unknown 0 0 *"},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, scheme string) {
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				script := c.script
				if c.name == "hangs" {
					script = func(s *server, _ net.Conn, br *bufio.Reader) {
						s.read(br)
						giveUp()
						_, _ = br.ReadByte() // until the client has given up
					}
				}
				s, base := serve(t, scheme, script)
				out := newClient(t, ClientOptions{Policy: local}).Run(ctx, base, Auth{Token: "secret", App: "demo"}, &aRun)
				got := strings.TrimRight(fmt.Sprint(out.Kind, " ", out.HTTPStatus, " ", out.Code, " ", out.Msg), " ")
				if out.Err != nil {
					got += " *"
				}
				if got != c.want || out.Took <= 0 || (out.Verdict == wire.VerdictBlockStrategy) != (c.name == "blocked") {
					t.Errorf("got %q, want %q: %+v", got, c.want, out)
				}
				if s.conns.Load() != 1 || s.reqs.Load() > 1 {
					t.Errorf("%d connections, %d requests", s.conns.Load(), s.reqs.Load())
				}
			})
		})
	}
}

// TestRequests: every transport sends the same requests.
func TestRequests(t *testing.T) {
	each(t, func(t *testing.T, scheme string) {
		s, base := serve(t, scheme,
			answering(http11("200 OK\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT",
				`{"code":200,"content":{"fromLineNum":1,"toLineNum":2,"logContent":"a\nb","isEnd":true}}`)))
		c := newClient(t, ClientOptions{Policy: local})
		auth := Auth{Token: "secret", App: "demo"}
		run := aRun
		run.About = wire.About{Attempt: 2, Instant: 1767319445, Cause: "retry"}
		look := func(out Outcome, path, body string) {
			t.Helper()
			if r := s.last.Load(); out.Kind != Accepted || r.URL.Path != path || string(r.body) != body {
				t.Errorf("%+v, got %s %q", out, r.URL.Path, r.body)
			}
		}
		body := string(wire.AppendRun(nil, &aRun))
		headers := http.Header{"User-Agent": {"tickring"}, "Content-Type": {wire.ContentType}, "Content-Length": {strconv.Itoa(len(body))},
			http.CanonicalHeaderKey(wire.HeaderToken): {"secret"}, http.CanonicalHeaderKey(wire.HeaderApp): {"demo"}}
		look(c.Run(t.Context(), base, auth, &aRun), "/run", body)
		r := s.last.Load()
		check.Equal(t, cmp.Diff(headers, r.Header), "", "headers")
		check.Equal(t, r.Host, strings.Trim(strings.SplitN(base, "://", 2)[1], "/"), "host")
		look(c.Run(t.Context(), base, auth, &run), "/run", body)
		r = s.last.Load()
		headers["Tickring-Attempt"], headers["Tickring-Scheduled-At"], headers["Tickring-Cause"] =
			[]string{"2"}, []string{"2026-01-02T02:04:05Z"}, []string{"retry"}
		check.Equal(t, cmp.Diff(headers, r.Header), "", "headers")
		beat := c.Beat(t.Context(), base, auth)
		look(beat, "/beat", "")
		if !beat.Date.Equal(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)) {
			t.Errorf("of its clock is known %s", beat.Date)
		}
		look(c.IdleBeat(t.Context(), base+"x//", auth, 5), "/x/idleBeat", `{"jobId":5}`)
		look(c.Kill(t.Context(), strings.TrimSuffix(base, "/"), Auth{}, 5), "/kill", `{"jobId":5}`)
		if r := s.last.Load(); r.Header[http.CanonicalHeaderKey(wire.HeaderToken)] != nil {
			t.Error("an empty token was sent")
		}
		res, out := c.Log(t.Context(), base, auth, wire.LogRequest{LogID: 7, LogTime: 9, FromLine: 1})
		look(out, "/log", `{"logId":7,"logDateTim":9,"logDateTime":9,"fromLineNum":1}`)
		check.Equal(t, res, (wire.LogResult{FromLine: 1, ToLine: 2, Content: "a\nb", End: true}), "log")
		check.Equal(t, s.conns.Load(), 3, "connections, one for each base")
	})
}

func TestLogIsLargerThanAReply(t *testing.T) {
	line := strings.Repeat("x", 1<<20)
	for body, want := range map[string]Kind{`{"code":200,"data":null}`: Unknown,
		`{"code":200,"data":{"fromLineNum":1,"toLineNum":1,"logContent":"` + line + `","isEnd":false}}`: Accepted} {
		_, base := serve(t, "http", answering(http11("200 OK", body)))
		res, out := newClient(t, ClientOptions{Policy: local}).Log(t.Context(), base, Auth{}, wire.LogRequest{LogID: 7, FromLine: 1})
		accepted := want == Accepted
		if out.Kind != want || (out.Err == nil) != accepted || (res.Content == line) != accepted || (out.Dialect == wire.DialectC) != accepted {
			t.Errorf("%+v, %d bytes", out, len(res.Content))
		}
	}
}

// A log of any length is read to 4 MB, and to a whole line of that; the executor is not listened
// to any longer.
func TestLogOfAnyLength(t *testing.T) {
	line := `2026-11-28T08:00:00Z \"quoted\" \\n and more` + `\n`
	head, data := `{"code":200,"msg":null,"content":{"fromLineNum":7,"toLineNum":100000,"logContent":"`, `{"data":{"logContent":"`
	for name, c := range map[string]struct {
		head, line string
		lines      int
	}{
		"lines":      {head, line, (4<<20 - len(head)) / len(line)},
		"data first": {data, line, (4<<20 - len(data)) / len(line)},
		"one line":   {head, "x", 1},
		"refused":    {`{"code":500,"content":{"logContent":"`, line, 0},
		"no log":     {`{"code":200,"content":{"other":"`, line, 0},
	} {
		for _, how := range []string{"Connection: close", "Transfer-Encoding: chunked", "Content-Length: 900000000"} {
			each(t, func(t *testing.T, scheme string) {
				ended := make(chan int64, 1)
				_, base := serve(t, scheme, func(s *server, conn net.Conn, br *bufio.Reader) {
					s.read(br)
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", how)
					to := io.Writer(conn)
					if how == "Transfer-Encoding: chunked" {
						to = httputil.NewChunkedWriter(conn)
					}
					sent, _ := io.CopyN(to, io.MultiReader(strings.NewReader(c.head), endless(c.line)), 100<<20)
					ended <- sent
				})
				res, out := newClient(t, ClientOptions{Policy: local}).Log(t.Context(), base, Auth{}, wire.LogRequest{LogID: 7, FromLine: 7})
				if c.lines == 0 {
					if out.Kind != Unknown || !errors.Is(out.Err, ErrTooLarge) {
						t.Errorf("%s, %s: %+v", name, how, out)
					}
				} else if want := `2026-11-28T08:00:00Z "quoted" \n and more`; out.Kind != Accepted || res.FromLine != 7 || int(res.ToLine) != 6+c.lines ||
					strings.Count(res.Content, "\n") != c.lines || c.lines > 1 && !strings.HasSuffix(res.Content, want+"\n") ||
					c.lines == 1 && !strings.HasSuffix(res.Content, "xx… (the line is cut)\n") {
					t.Errorf("%s, %s: %+v, to %d, %d bytes: …%q", name, how, out, res.ToLine, len(res.Content), res.Content[max(0, len(res.Content)-99):])
				}
				if n := <-ended; n > 50<<20 {
					t.Errorf("%s, %s: %d bytes were taken", name, how, n)
				}
			})
		}
	}
}

// endless repeats a text for ever.
type endless string

func (e endless) Read(b []byte) (int, error) {
	return copy(b, strings.Repeat(string(e), max(1, len(b)/len(e)))), nil
}

// A run goes to the other path only if the first is proven unknown.
func TestRunFindsThePath(t *testing.T) {
	java := func(path string) string {
		return http11("200 OK", `{"code":500,"msg":"invalid request, uri-mapping(`+path+`) not found."}`)
	}
	goes := func(string) string { return http11("404 Not Found", "404 page not found") }
	for _, c := range []struct {
		name    string
		known   string
		unknown func(string) string
		guess   wire.Dialect
		kind    Kind
		reqs    int64
		found   wire.Dialect
	}{
		{"D, not known yet", "/trigger", java, wire.DialectUnknown, Accepted, 2, wire.DialectD},
		{"D, known", "/trigger", java, wire.DialectD, Accepted, 1, wire.DialectUnknown},
		{"B taken for D", "/run", java, wire.DialectD, Accepted, 2, wire.DialectB},
		{"Go taken for D", "/run", goes, wire.DialectD, Accepted, 2, wire.DialectB},
		{"404 at /run proves nothing about /trigger", "/trigger", goes, wire.DialectB, Refused, 1, wire.DialectUnknown},
		{"neither", "/none", java, wire.DialectUnknown, Refused, 2, wire.DialectUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, base := serve(t, "http", func(s *server, conn net.Conn, br *bufio.Reader) {
				for r := s.read(br); r != nil; r = s.read(br) {
					answer := http11("200 OK", yes)
					if r.URL.Path != c.known {
						answer = c.unknown(r.URL.Path)
					}
					_, _ = io.WriteString(conn, answer)
				}
			})
			out := newClient(t, ClientOptions{Policy: local}).Run(t.Context(), base, Auth{Dialect: c.guess}, &aRun)
			if out.Kind != c.kind || out.Dialect != c.found || s.reqs.Load() != c.reqs {
				t.Errorf("%+v after %d requests", out, s.reqs.Load())
			}
		})
	}
}

func TestBeforeFirstByte(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer ln.Close()
	// The client port of a connection is in use, so no server can listen there.
	taken, err := net.Dial("tcp", ln.Addr().String())
	check.OK(t, err)
	defer taken.Close()
	closed := taken.LocalAddr().String()
	each(t, func(t *testing.T, scheme string) {
		s, base := serve(t, scheme, answering(http11("200 OK", yes)))
		strict, c := newClient(t, ClientOptions{}), newClient(t, ClientOptions{Policy: local})
		slow := newClient(t, ClientOptions{Timeout: 20 * time.Millisecond, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		big := aRun
		big.GlueSource = strings.Repeat("x", wire.MaxBody)
		why := errors.New("shutting down")
		over, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		soon, end := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer end()
		type call struct {
			name string
			out  Outcome
			kind Kind
			err  error // nil: any
		}
		calls := []call{
			{"the caller's own deadline", slow.Run(soon, scheme+"://127.0.0.1:1", Auth{}, &aRun), RefusedPassing, nil},
			{"not allowed", strict.Run(t.Context(), base, Auth{}, &aRun), BeforeFirstByte, safedial.ErrNotAllowed},
			{"nobody there", c.Run(t.Context(), scheme+"://"+closed, Auth{}, &aRun), BeforeFirstByte, nil},
			{"too large for any executor", c.Run(t.Context(), base, Auth{}, &big), Refused, nil},
			{"cancelled before", c.Run(over, base, Auth{}, &aRun), RefusedPassing, why},
			{"time-out of the dial", slow.Run(t.Context(), scheme+"://127.0.0.1:1", Auth{}, &aRun), BeforeFirstByte, nil},
		}
		for _, bad := range []string{"", "ftp://x", scheme + "://u@127.0.0.1:1"} {
			calls = append(calls, call{bad, c.Run(t.Context(), bad, Auth{}, &aRun), BeforeFirstByte, nil})
		}
		for _, bad := range []string{"a\r\nX: y", "a\x00", " a", "a\n"} {
			calls = append(calls, call{bad, c.Run(t.Context(), base, Auth{Token: bad}, &aRun), BeforeFirstByte, ErrBadHeader},
				call{bad, c.Run(t.Context(), base, Auth{App: bad}, &aRun), BeforeFirstByte, ErrBadHeader})
		}
		for _, c := range calls {
			if c.out.Kind != c.kind || c.out.Err == nil || c.err != nil && !errors.Is(c.out.Err, c.err) {
				t.Errorf("%q: %+v", c.name, c.out)
			}
		}
		check.Equal(t, s.reqs.Load(), 0, "requests arrived")
	})
	t.Run("TLS fails", func(t *testing.T) {
		s, base := serve(t, "http", func(s *server, c net.Conn, br *bufio.Reader) { _, _ = io.WriteString(c, "no TLS here, ever\r\n\r\n") })
		c := newClient(t, ClientOptions{Policy: local})
		if out := c.Run(t.Context(), "https"+strings.TrimPrefix(base, "http"), Auth{}, &aRun); out.Kind != BeforeFirstByte || s.reqs.Load() != 0 {
			t.Errorf("no TLS: %+v", out)
		}
		_, base = serve(t, "https", answering(http11("200 OK", yes)))
		untrusting := New(ClientOptions{Policy: local})
		defer untrusting.Close()
		if out := untrusting.Run(t.Context(), base, Auth{}, &aRun); out.Kind != BeforeFirstByte {
			t.Errorf("an untrusted certificate: %+v", out)
		}
	})
}

// TestCancelUnblocks: canceling a context ends a call at once, and its result is unknown if bytes were written.
func TestCancelUnblocks(t *testing.T) {
	each(t, func(t *testing.T, scheme string) {
		got := make(chan struct{}, 1)
		_, base := serve(t, scheme, func(s *server, c net.Conn, br *bufio.Reader) {
			s.read(br)
			got <- struct{}{}
			_, _ = br.ReadByte()
		})
		c := newClient(t, ClientOptions{Policy: local, Timeout: time.Minute})
		why := errors.New("the invocation ends")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan Outcome)
		go func() { done <- c.Run(ctx, base, Auth{}, &aRun) }()
		<-got
		cancel(why)
		if out := <-done; out.Kind != Unknown || !errors.Is(out.Err, why) {
			t.Errorf("%+v", out)
		}
	})
}

// A connection that the executor closed, spoiled, or that is too old is not
// used again, and no run is in doubt for it.
func TestDeadConnectionsAreNotUsed(t *testing.T) {
	closed, accepted := make(chan struct{}, 1), http11("200 OK", yes)
	for name, c := range map[string]struct {
		response string
		after    func(c net.Conn)
	}{
		"closed without a word": {accepted, func(c net.Conn) { c.Close() }},
		"announced close":       {strings.Replace(accepted, "\r\n", "\r\nConnection: Keep-Alive, Close\r\n", 1), nil},
		"half closed":           {accepted, func(c net.Conn) { c.(interface{ CloseWrite() error }).CloseWrite() }},
		"reset": {accepted, func(c net.Conn) {
			if secure, ok := c.(*tls.Conn); ok {
				c = secure.NetConn()
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}},
		"more than was asked for": {accepted + http11("200 OK", `{"code":500,"msg":"of another run"}`), nil},
	} {
		each(t, func(t *testing.T, scheme string) {
			s, base := serve(t, scheme, func(s *server, conn net.Conn, br *bufio.Reader) {
				if s.read(br) != nil {
					_, _ = io.WriteString(conn, c.response)
				}
				if c.after != nil {
					c.after(conn)
				}
				closed <- struct{}{}
				_, _ = br.ReadByte() // until the client closes it, if it is still open
			})
			client := newClient(t, ClientOptions{Policy: local})
			for i := range 20 {
				if out := client.Run(t.Context(), base, Auth{}, &aRun); out.Kind != Accepted && (name != "reset" || out.Kind != Unknown) {
					// A reset may overtake the answer: then the run is in
					// doubt, but never sent twice.
					t.Fatalf("%s, call %d: %+v", name, i, out)
				}
				<-closed
			}
			check.Equal(t, s.reqs.Load(), 20, "%s: requests for 20 calls", name)
		})
	}
}

// age makes all idle connections too old to use.
func age(p *pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hosts {
		for _, c := range h.idle {
			c.idleSince = c.idleSince.Add(-2 * idleLimit)
		}
	}
}

func TestSweepAndClose(t *testing.T) {
	s, base := serve(t, "http", answering(http11("200 OK", yes)))
	c := newClient(t, ClientOptions{Policy: local})
	state := func(what string, hosts, idle int) {
		t.Helper()
		c.pool.mu.Lock()
		defer c.pool.mu.Unlock()
		n := 0
		for _, h := range c.pool.hosts {
			n += len(h.idle)
		}
		if len(c.pool.hosts) != hosts || n != idle || (c.pool.sweep != nil) != (idle > 0) {
			t.Errorf("%s: %d hosts, %d idle, sweep %v", what, len(c.pool.hosts), n, c.pool.sweep)
		}
	}
	c.Run(t.Context(), base, Auth{}, &aRun)
	state("after a call", 1, 1)
	age(c.pool)
	c.Run(t.Context(), base, Auth{}, &aRun)
	check.Equal(t, s.conns.Load(), 2, "connections, of which the first is too old")
	c.pool.sweepNow()
	state("after a sweep", 1, 1)
	age(c.pool)
	c.pool.sweepNow()
	state("after the time of idle connections", 0, 0)
	for range 3 { // the slots are all free again
		c.Run(t.Context(), base, Auth{}, &aRun)
	}
	c.Close()
	c.Close()
	state("after Close", 0, 0)
	for _, raw := range []string{base, "https" + strings.TrimPrefix(base, "http")} {
		if out := c.Run(t.Context(), raw, Auth{}, &aRun); out.Kind != RefusedPassing || !errors.Is(out.Err, ErrClosed) {
			t.Errorf("after Close: %+v", out)
		}
	}
	check.Equal(t, s.reqs.Load(), 5, "requests")
}

// Close does not wait for calls under way, but keeps none of their connections.
func TestCloseDuringACall(t *testing.T) {
	got, free := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	_, base := serve(t, "http", func(s *server, c net.Conn, br *bufio.Reader) {
		s.read(br)
		close(got)
		<-free
		_, _ = io.WriteString(c, http11("200 OK", yes))
		_, _ = br.ReadByte() // until the client closes it
		close(ended)
	})
	c := New(ClientOptions{Policy: local})
	done := make(chan Outcome)
	go func() { done <- c.Run(t.Context(), base, Auth{}, &aRun) }()
	<-got
	c.Close()
	close(free)
	if out := <-done; out.Kind != Accepted {
		t.Errorf("%+v", out)
	}
	<-ended
}

func TestBoundOfConnections(t *testing.T) {
	got, free := make(chan struct{}), make(chan struct{})
	s, base := serve(t, "http", func(s *server, c net.Conn, br *bufio.Reader) {
		for s.read(br) != nil {
			got <- struct{}{}
			<-free
			_, _ = io.WriteString(c, http11("200 OK", yes))
		}
	})
	c := newClient(t, ClientOptions{Policy: local, MaxConnsPerHost: 1, Timeout: time.Minute})
	done := make(chan Outcome)
	run := func(ctx context.Context) { done <- c.Run(ctx, base, Auth{}, &aRun) }
	go run(t.Context())
	<-got

	// Waiting ends with the caller's context and with the time allowed.
	ctx, cancel := context.WithCancel(t.Context())
	go run(ctx)
	waiting(c.pool)
	cancel()
	if out := <-done; out.Kind != RefusedPassing || !errors.Is(out.Err, context.Canceled) {
		t.Errorf("cancelled while waiting: %+v", out)
	}
	if _, err := c.pool.acquire(t.Context(), base, time.Now().Add(time.Millisecond)); !errors.Is(err, errBusy) {
		t.Errorf("the time is over: %v", err)
	}
	check.Equal(t, notBegun(t.Context(), errBusy).Kind, RefusedPassing, "no slot in time")

	// A freed slot goes to the waiting call.
	go run(t.Context())
	waiting(c.pool)
	free <- struct{}{}
	<-got
	free <- struct{}{}
	for range 2 {
		if out := <-done; out.Kind != Accepted {
			t.Errorf("%+v", out)
		}
	}
	if conns, reqs := s.conns.Load(), s.reqs.Load(); conns != 1 || reqs != 2 {
		t.Errorf("%d connections, %d requests", conns, reqs)
	}
	if h := c.pool.hosts[base]; len(c.pool.hosts) != 1 || h.refs != 0 || len(h.slots) != 0 {
		t.Errorf("slots leak: %+v", h)
	}
}

// waiting returns when a second call waits for the only slot of the only host.
func waiting(p *pool) {
	for refs := 0; refs < 2; {
		p.mu.Lock()
		for _, h := range p.hosts {
			refs = h.refs
		}
		p.mu.Unlock()
	}
}

// A kept connection is judged again for each call: the list of allowed
// addresses may have changed, or be another app's.
func TestPolicyHoldsForKeptConnections(t *testing.T) {
	each(t, func(t *testing.T, scheme string) {
		s, base := serve(t, scheme, answering(http11("200 OK", yes)))
		c := newClient(t, ClientOptions{Policy: safedial.Policy{ListLoopback: true}})
		wide := safedial.WithAllow(t.Context(), []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
		if out := c.Run(wide, base, Auth{}, &aRun); out.Kind != Accepted {
			t.Fatalf("%+v", out)
		}
		if out := c.Run(t.Context(), base, Auth{}, &aRun); out.Kind != BeforeFirstByte || !errors.Is(out.Err, safedial.ErrNotAllowed) {
			t.Errorf("%+v", out)
		}
		check.Equal(t, s.reqs.Load(), 1, "requests")
	})
}

// faulty passes writes while fine is positive, accepts `take` bytes of the next one and then fails.
type faulty struct {
	net.Conn
	fine *atomic.Int64
	take int
}

func (f *faulty) Write(b []byte) (int, error) {
	if f.fine.Add(-1) >= 0 {
		return f.Conn.Write(b)
	}
	n, _ := f.Conn.Write(b[:f.take])
	return n, errors.New("broken")
}

// Whether one byte went out, with TLS one record, decides between a second try and doubt.
func TestOneByteDecides(t *testing.T) {
	const unlimited = 1 << 40
	for _, c := range []struct {
		name, scheme string
		fine, kept   int64 // writes before the fault of the first connection, from its start and after the first call
		take         int
		calls        []Kind
		reqs, conns  int64
	}{
		{"nothing of a fresh connection", "http", 0, 0, 0, []Kind{BeforeFirstByte}, 0, 1},
		{"one byte of a fresh connection", "http", 0, 0, 1, []Kind{Unknown}, 0, 1},
		{"nothing of a kept one", "http", unlimited, 0, 0, []Kind{Accepted, Accepted}, 2, 2},
		{"one byte of a kept one", "http", unlimited, 0, 1, []Kind{Accepted, Unknown}, 1, 1},
		{"all but one byte of a kept one", "http", unlimited, 0, 300, []Kind{Accepted, Unknown}, 1, 1},
		{"a part of a record of a kept one", "https", unlimited, 0, 100, []Kind{Accepted, Accepted}, 2, 2},
		{"one record of a kept one", "https", unlimited, 1, 0, []Kind{Accepted, Unknown}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, base := serve(t, c.scheme, answering(http11("200 OK", yes)))
			var dials, fine atomic.Int64
			fine.Store(c.fine)
			client := newClient(t, ClientOptions{Policy: local, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				nc, err := (&net.Dialer{}).DialContext(ctx, network, address)
				if dials.Add(1) > 1 || err != nil {
					return nc, err
				}
				return &faulty{nc, &fine, c.take}, nil
			}})
			run := aRun
			if c.scheme == "https" {
				run.Params = strings.Repeat("of several records ", 1000)
			}
			for i, want := range c.calls {
				if out := client.Run(t.Context(), base, Auth{}, &run); out.Kind != want || out.Kind == Unknown && out.Err == nil {
					t.Errorf("call %d: %+v, want %v", i, out, want)
				}
				fine.Store(c.kept)
			}
			check.Equal(t, s.reqs.Load(), c.reqs, "requests")
			check.Equal(t, dials.Load(), c.conns, "dials")
		})
	}
}

// TestConcurrentCalls: many goroutines share few connections to an executor that sometimes hangs up. Each request arrives at most
// once, and each accepted one arrived.
func TestConcurrentCalls(t *testing.T) {
	each(t, func(t *testing.T, scheme string) {
		var mu sync.Mutex
		seen := map[string]int{}
		_, base := serve(t, scheme, func(s *server, c net.Conn, br *bufio.Reader) {
			for r := s.read(br); r != nil; r = s.read(br) {
				mu.Lock()
				seen[string(r.body)]++
				n := len(seen)
				mu.Unlock()
				if n%17 == 0 {
					return
				}
				_, _ = io.WriteString(c, http11("200 OK", yes))
				if n%13 == 0 {
					return
				}
			}
		})
		c := newClient(t, ClientOptions{Policy: local, MaxConnsPerHost: 4, Timeout: time.Minute})
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for i := range 50 {
					r := aRun
					r.LogID = int64(g*1000 + i + 1)
					out := c.Run(ctx, base, Auth{}, &r)
					mu.Lock()
					n := seen[string(wire.AppendRun(nil, &r))]
					mu.Unlock()
					least, most := 0, 0
					switch out.Kind {
					case Accepted:
						least, most = 1, 1
					case Unknown:
						most = 1
					case Refused, Repeat:
						most = -1
					}
					if n < least || n > most {
						t.Errorf("seen %d times: %+v", n, out)
					}
				}
			})
		}
		wg.Wait()
	})
}

// FuzzReadResponse compares our parser with net/http's: responses that both accept have the same result.
func FuzzReadResponse(f *testing.F) {
	for _, s := range []string{
		http11("200 OK", yes), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "HTTP/1.0 200\r\n\r\nx",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 204 No Content\nX: y\n\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	req, err := http.NewRequest(http.MethodPost, "http://executor/run", nil)
	check.OK(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1000
		br := bufio.NewReaderSize(bytes.NewReader(b), lineBuffer)
		status, body, reuse, err := readResponse(br, nil, most, nil)
		if len(body) > most+lineBuffer {
			t.Fatalf("a body of %d bytes", len(body))
		}
		if err != nil {
			if reuse {
				t.Fatal("an error and the connection is kept")
			}
			return
		}
		theirs := bufio.NewReader(bytes.NewReader(b))
		res, err := http.ReadResponse(theirs, req)
		for err == nil && res.StatusCode < 200 {
			res, err = http.ReadResponse(theirs, req)
		}
		if err != nil {
			return // it checks header names more strictly
		}
		want, err := io.ReadAll(res.Body)
		if err != nil {
			return
		}
		if status != res.StatusCode || !bytes.Equal(body, want) {
			t.Fatalf("ours %d %q, theirs %d %q", status, body, res.StatusCode, want)
		}
		if reuse && res.Close {
			t.Fatal("kept, and they close it")
		}
	})
}

// bare is an executor that costs next to nothing: it looks for the end of each
// request and writes the same answer.
func bare(b *testing.B) string {
	_, base := serve(b, "http", func(_ *server, c net.Conn, _ *bufio.Reader) {
		answer := []byte(http11("200 OK", yes))
		buf, n := make([]byte, 64<<10), 0
		for {
			m, err := c.Read(buf[n:])
			if err != nil {
				return
			}
			n += m
			if n > 0 && buf[n-1] == '}' { // the end of a run's body, which arrives in one piece
				n = 0
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
		}
	})
	return base
}

func BenchmarkClientRun(b *testing.B) {
	c, base := newClient(b, ClientOptions{Policy: local}), bare(b)
	r := wire.Run{JobID: 1, Handler: "demoJobHandler", Params: `{"day":"2026-01-01","shard":"a"}`, BlockStrategy: wire.BlockSerial,
		LogID: 1<<32 | 7, LogTime: 1586629003729, GlueType: wire.GlueBean, GlueUpdated: 1586629003727, BroadcastTotal: 1}
	auth := Auth{Token: "secret-token-of-demo", App: "demo"}
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour) // as a dispatcher's
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if out := c.Run(ctx, base, auth, &r); out.Kind != Accepted {
			b.Fatalf("%+v", out)
		}
	}
}
