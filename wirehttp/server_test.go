package wirehttp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memlistener"
	"github.com/tickring/tickring/wire"
)

// ports records the handler's calls, and returns the configured errors.
type ports struct {
	caller  Caller
	added   []Registration
	removed []Registration
	batch   []wire.CallbackItem
	err     error
	perItem func(n int) []error
}

func (p *ports) Register(_ context.Context, c Caller, r Registration) error {
	p.caller = c
	p.added = append(p.added, r)
	return p.err
}

func (p *ports) Remove(_ context.Context, c Caller, r Registration) error {
	p.caller = c
	p.removed = append(p.removed, r)
	return p.err
}

func (p *ports) Callback(_ context.Context, c Caller, batch []wire.CallbackItem) []error {
	p.caller = c
	p.batch = append(p.batch, batch...)
	if p.perItem != nil {
		return p.perItem(len(batch))
	}
	return nil
}

// newHandler returns a handler with the default options, and its ports.
func newHandler() (*ports, http.Handler) {
	p := &ports{}
	return p, NewHandler(Ports{p, p}, Options{})
}

// ask sends one request and reads the envelope strictly: HTTP 200, all four
// keys, both payloads null.
func ask(t *testing.T, h http.Handler, method, path, body string, header ...string) (code int, msg string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	check.Equal(t, w.Code, 200, "%s %s: HTTP N want 200", method, path)
	var e map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || len(e) != 4 || e["content"] != nil || e["data"] != nil {
		t.Fatalf("%s %s: no envelope: %s", method, path, w.Body)
	}
	msg, _ = e["msg"].(string)
	return int(e["code"].(float64)), msg
}

const demo = `{"registryGroup":"EXECUTOR","registryKey":"demo","registryValue":"http://10.0.0.1:9999/"}`

func TestRegistration(t *testing.T) {
	date := []string{wire.HeaderToken, "secret", "Date", "Fri, 20 Nov 2026 12:00:00 GMT"}
	caller := Caller{Token: "secret", Remote: "192.0.2.1:1234", Date: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	longest := strings.Repeat(" ", MaxRegistration-len(demo)) + demo
	for _, c := range []struct {
		prefix, body string
		header       []string
		want         Caller
	}{
		{"", demo, date, caller},
		{"http://admin/xxl-job-admin", longest, date, caller},
		{"", demo, []string{wire.HeaderToken, "s", wire.HeaderApp, "demo"},
			Caller{Token: "s", App: "demo", Dialect: wire.DialectD, Remote: caller.Remote}},
	} {
		p, h := newHandler()
		for _, path := range []string{"/api/registry", "/api/registryRemove"} {
			if code, msg := ask(t, h, "POST", c.prefix+path, c.body, c.header...); code != 200 || msg != "" || p.caller != c.want {
				t.Errorf("%s%s: %d %q, caller %+v", c.prefix, path, code, msg, p.caller)
			}
		}
		want := []Registration{{App: "demo", Address: "http://10.0.0.1:9999/"}}
		if cmp.Diff(want, p.added) != "" || cmp.Diff(want, p.removed) != "" {
			t.Errorf("%s: added %v, removed %v", c.prefix, p.added, p.removed)
		}
	}
}

func TestHandlerRefuses(t *testing.T) {
	large := `[{"logId":1,"handleCode":200,"handleMsg":"` + strings.Repeat("x", 5<<20) + `"}]`
	long := strings.Repeat(" ", MaxRegistration+1) + demo
	for _, c := range []struct{ name, method, path, body, says string }{
		{"unknown path", "POST", "/api/addJob", demo, "/api/registryRemove"},
		{"other prefix", "POST", "/other/api/registry", demo, "not known"},
		{"method", "GET", "/api/callback", "", "use POST"},
		{"empty", "POST", "/api/registry", "", "empty"},
		{"not JSON", "POST", "/api/registry", "<html>", "byte 0"},
		{"blank key", "POST", "/api/registry", `{"registryGroup":"EXECUTOR","registryKey":" ","registryValue":"http://h"}`, "registryKey"},
		{"group", "POST", "/api/registry", `{"registryGroup":"ADMIN","registryKey":"a","registryValue":"http://h"}`, `"EXECUTOR"`},
		{"address", "POST", "/api/registry", `{"registryGroup":"EXECUTOR","registryKey":"demo","registryValue":"file:///etc/passwd"}`,
			"allowed: http://"},
		{"app of the header", "POST", "/api/registry", strings.Replace(demo, "demo", "other", 1), wire.HeaderApp},
		{"too large to register", "POST", "/api/registry", long, "16384 bytes"},
		{"too large to remove", "POST", "/api/registryRemove", long, "16384 bytes"},
		{"callback not JSON", "POST", "/api/callback", `[{"logId":`, "byte 10"},
		{"callback of nothing", "POST", "/api/callback", ``, "empty"},
		{"callback without list", "POST", "/api/callback", `{}`, "callbackList"},
		{"only unusable items", "POST", "/api/callback", `[{"handleCode":200}]`, "item 0: logId is missing"},
		{"too large", "POST", "/api/callback", large, "5242880 bytes"},
		{"too many", "POST", "/api/callback", `[{},{},{},{}]`, "at most 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &ports{}
			h := NewHandler(Ports{p, p}, Options{MaxItems: 3})
			stream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.ContentLength = -1
				h.ServeHTTP(w, r)
			})
			for _, h := range []http.Handler{h, stream} {
				code, msg := ask(t, h, c.method, c.path, c.body, wire.HeaderApp, "demo")
				if code != 500 || !strings.Contains(msg, c.says) {
					t.Errorf("%d %q, want 500 and %q in it", code, msg, c.says)
				}
			}
			if p.added != nil || p.removed != nil || p.batch != nil {
				t.Errorf("a port was called: %v %v %v", p.added, p.removed, p.batch)
			}
		})
	}
}

func TestCallbackReachesThePort(t *testing.T) {
	items := []wire.CallbackItem{{LogID: 7, LogTime: 5, Code: 200, Msg: "ok"}}
	for _, d := range []wire.Dialect{wire.DialectA, wire.DialectB, wire.DialectGo, wire.DialectD} {
		for app, dialect := range map[string]wire.Dialect{"": d, "demo": wire.DialectD} {
			p, h := newHandler()
			body := string(wire.AppendCallback(nil, d, items))
			if code, msg := ask(t, h, "POST", "/xxl-job-admin/api/callback", body, wire.HeaderApp, app); code != 200 || msg != "" {
				t.Errorf("%s: %d %q", body, code, msg)
			}
			if diff := cmp.Diff(items, p.batch); diff != "" || p.caller.Dialect != dialect {
				t.Errorf("%s: dialect %v, batch:\n%s", body, p.caller.Dialect, diff)
			}
		}
	}
}

func TestCallbackUsesWhatItCan(t *testing.T) {
	p := &ports{}
	var log bytes.Buffer
	h := NewHandler(Ports{p, p}, Options{Refused: rejectlog.New(rejectlog.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})})
	long := strings.Repeat("中", wire.MaxMessage+10)
	code, msg := ask(t, h, "POST", "/api/callback", `[{"logId":"x","handleCode":200},{"logId":7,"handleCode":500,"handleMsg":"`+long+`"}]`)
	if code != 200 || !strings.Contains(msg, "1 of 2 items") || !strings.Contains(msg, "item 0") {
		t.Errorf("%d %q", code, msg)
	}
	if len(p.batch) != 1 || p.batch[0].Msg != strings.Repeat("中", wire.MaxMessage) {
		t.Errorf("batch of %d", len(p.batch))
	}
	check.Contains(t, log.String(), "1 of 2 items", "log")
	if code, _ := ask(t, h, "POST", "/api/callback", `[]`); code != 200 || len(p.batch) != 1 {
		t.Errorf("an empty batch: %d", code)
	}
}

// TestPortErrors: code 200 means stored; the inner text of errors is not sent.
func TestPortErrors(t *testing.T) {
	inner := errors.New("dynamodb: table runs-prod: throttled")
	texts := golden.New(t)
	for name, fails := range map[string]error{"unauthorized": ErrUnauthorized, "refused": Refuse("app %q is unknown", "demo"),
		"inner": inner} {
		p := &ports{err: fails, perItem: func(n int) []error { e := make([]error, n); e[n-1] = fails; return e }}
		var log bytes.Buffer
		h := NewHandler(Ports{p, p}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for path, body := range map[string]string{"/api/registry": demo, "/api/registryRemove": demo,
			"/api/callback": `[{"logId":7,"handleCode":200},{"logId":8,"handleCode":200}]`} {
			code, msg := ask(t, h, "POST", path, body)
			if code != 500 || strings.Contains(msg, "dynamodb") {
				t.Errorf("%s with %v: %d %q", path, fails, code, msg)
			}
			texts.Equal(t, name, msg)
		}
		check.Equal(t, strings.Contains(log.String(), "dynamodb"), fails == inner, "%v: logged", fails)
	}
	for more, want := range map[int]int{0: 200, 1: 500} {
		p, h := newHandler()
		p.perItem = func(n int) []error { return make([]error, n+more) }
		code, _ := ask(t, h, "POST", "/api/callback", `[{"logId":7,"handleCode":200}]`)
		check.Equal(t, code, want, "a port with %d results more than items", more)
	}
}

// slow is a body that arrives when the test releases it.
type slow struct {
	began *atomic.Int32
	goes  chan struct{}
}

func (s slow) Read([]byte) (int, error) {
	s.began.Add(1)
	<-s.goes
	time.Sleep(40 * time.Millisecond)
	return 0, io.EOF
}

// TestBodiesHeldAtOnceAreBounded: whatever the number of callers and the declared lengths, the room limits the bodies held, and one
// app leaves room for others. A caller without room is asked to retry, and short bodies still have room.
func TestBodiesHeldAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h := newHandler()
		var all sync.WaitGroup
		began, full, goes := new(atomic.Int32), new(atomic.Int32), make(chan struct{})
		come := func(token string, times int, sizes ...int64) {
			for i := range times {
				all.Go(func() {
					r := httptest.NewRequest("POST", "/api/callback", slow{began, goes})
					r.ContentLength = sizes[i%len(sizes)]
					r.Header.Set(wire.HeaderToken, token)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					if strings.Contains(w.Body.String(), "send the request again") {
						full.Add(1)
					}
				})
			}
			synctest.Wait()
		}
		for i, want := range []int32{2, 3, 4, 4, 4} { // of the first app half, of the second a quarter
			come(fmt.Sprint("app", i), 100, -1, 5<<20)
			check.Equal(t, began.Load(), want, "bodies of 5 MiB that are held of %d apps", i+1)
		}
		time.Sleep(6 * time.Second)
		check.Equal(t, full.Load(), 496, "were asked to retry")
		for i, want := range []int32{512, 768} {
			come(fmt.Sprint("app", i), 1024, 100)
			check.Equal(t, began.Load()-4, want, "short ones of %d apps that were accepted beside a long one", i+1)
		}
		close(goes)
		all.Wait()
		began.Store(0)
		full.Store(0)
		come("app1", 100, 5<<20)
		all.Wait()
		if n := began.Load(); n != 100 || full.Load() != 0 {
			t.Errorf("%d of 100 had room after the others", n)
		}
	})
}

// TestBodiesComeInTime: the handler waits a limited time for a body. For a rejected caller it waits only if the body is short and
// names the caller, and uses no room of admitted callers. The processing of a complete body has no time limit.
func TestBodiesComeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &ports{perItem: func(int) []error {
			time.Sleep(time.Minute)
			return nil
		}}
		trace := rejectlog.New(rejectlog.Options{})
		h := NewHandler(Ports{p, p}, Options{Refused: trace, Admit: func(_ context.Context, c Caller) error {
			if c.Token != "secret" {
				return ErrUnauthorized
			}
			return nil
		}})
		var ended error
		inner := memlistener.Listen()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			if r.ContentLength == 0 {
				time.Sleep(time.Minute)
			}
			ended = r.Context().Err()
		})}
		var serving sync.WaitGroup
		serving.Go(func() { srv.Serve(inner) })
		defer serving.Wait()
		defer srv.Close()
		const whole = `[{"logId":1,"logDateTim":1,"handleCode":200,"handleMsg":"m"}]`
		for _, c := range []struct {
			path, token, body string
			missing           int
			after             time.Duration
			free              int
			says              string
		}{
			{"/api/callback", "secret", whole, 1, 10 * time.Second, 1023, "read completely"},
			{"/api/callback", "secret", whole, 1 << 20, 10 * time.Second, 1024, "read completely"},
			{"/api/registry", "secret", demo, 1, 10 * time.Second, 1023, "read completely"},
			{"/api/registry", "wrong", demo, 1, time.Second, 1024, "token is wrong"},
			{"/api/callback", "secret", whole, 0, time.Minute, 1023, `"code":200`},
			{"/api/callback", "secret", "", 0, time.Minute, 1024, "not a callback"},
		} {
			began := time.Now()
			here := inner.Dial()
			fmt.Fprintf(here, "POST %s HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s", c.path, wire.HeaderToken, c.token,
				len(c.body)+c.missing, c.body)
			synctest.Wait()
			check.Equal(t, h.(*handler).room.short.Free(), c.free, "%+v N places are free", c)
			res, err := http.ReadResponse(bufio.NewReader(here), nil)
			check.OK(t, err)
			b, err := io.ReadAll(res.Body)
			if d := time.Since(began); err != nil || d != c.after || !strings.Contains(string(b), c.says) {
				t.Errorf("%+v: after %v: %s, %v", c, d, b, err)
			}
			if c.missing == 0 && ended != nil {
				t.Errorf("%+v: its context ended: %v", c, ended)
			}
			here.Close()
			synctest.Wait()
		}
	})
}
