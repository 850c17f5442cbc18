package executorhttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memlistener"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/testkit/peak"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/wire"
	"github.com/tickring/tickring/wirehttp"
)

// discard drops all records of a log.
var discard = slog.New(slog.DiscardHandler)

// open returns a store with the app shop, whose token is secret.
func open(t *testing.T) *store.Store {
	e := memory.Open(t, memory.Options{})
	check.OK(t, e.PutApp(t.Context(), 0, core.App{Name: "shop", Token: "secret", Rev: 1}, core.Change{ID: 1, App: "shop"}))
	return e
}

// serve returns all endpoints for the apps of a store. The parameter c has further settings.
func serve(e *store.Store, c Config, o wiring.Options) *http.ServeMux {
	o.Plan, o.Log = plan.Local(), discard
	a, mux := wiring.New(e, o), http.NewServeMux()
	c.Tokens, c.Log = a.Tokens(registry.TokensOptions{}), discard
	c.Wire(mux, a.Registry(registry.Options{}), a.Callback(callback.Options{}))
	mux.HandleFunc("POST /v1/report/{run}", c.Report(a.Finish, func(context.Context) ([]byte, error) { return []byte("key"), nil }))
	(&Queues{c, a.Registry(registry.Options{}), e.Runs, a.Finish, a.Puller(pullqueue.Options{})}).Serve(mux)
	return mux
}

// report returns the path of a report of a run, with its key.
func report(id core.RunID) string {
	return "/v1/report/" + id.String() + "?key=" + send.ReportSignature([]byte("key"), id)
}

// post sends a request with a token. The body has the stated length; -1: its own.
func post(h http.Handler, path, token string, body io.Reader, length int64) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(http.MethodPost, path, body), httptest.NewRecorder()
	if length >= 0 {
		r.ContentLength = length
	}
	r.Header.Set(wire.HeaderToken, token)
	h.ServeHTTP(w, r)
	return w
}

// A client ends a run with its data only if the run was sent to an executor: for a run that waits, it gets the answer for an
// unknown run.
func TestResults(t *testing.T) {
	e := open(t)
	mux := serve(e, Config{}, wiring.Options{})
	sent, waits := core.NumberedRun(7, 1), core.NumberedRun(7, 2)
	for _, run := range []core.Run{{ID: sent, State: core.Running, Owner: "me"}, {ID: waits, State: core.Planned}} {
		run.App, run.Cause, run.Attempt, run.First = "shop", core.CauseManual, 1, run.ID
		check.OK(t, e.CreateRuns(t.Context(), []core.Run{run})[0])
	}
	callback := func(id core.RunID, code int) string {
		return string(wire.AppendCallback(nil, wire.DialectGo, []wire.CallbackItem{{LogID: int64(id), Code: code, Msg: "m", Data: "d"}}))
	}
	for _, c := range []struct{ path, body, want string }{
		{wire.PathCallback, callback(waits, 200), `"code":200`},
		{wire.PathCallback, callback(waits, 500), `"code":200`},
		{report(waits), `{}`, "was never sent to an executor"},
		{wire.PathCallback, callback(sent, 200), `"code":200`},
	} {
		w := post(mux, c.path, "secret", strings.NewReader(c.body), -1)
		if r := memory.Run(t, e, waits); r.State != core.Planned || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %s; it is %s", c.path, c.body, w.Body, r.State)
		}
	}
	if r := memory.Run(t, e, sent); r.Data != "d" || r.State != core.Succeeded {
		t.Errorf("%+v", r)
	}
}

// untouched is a body that fails the test when it is read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body of an unknown client was read")
	return 0, io.EOF
}

// Bodies of unknown clients are not read at any endpoint, whatever their length, and cause no read of a run. The connection of a
// body that is not short is closed.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, lists := 0, 0 // that are read: runs, and lists of apps
		s := hook.Over(open(t), func(_ context.Context, c *hook.Call, next func() []error) []error {
			if runs += len(c.Runs); c.List == store.KindApp {
				lists++
			}
			return next()
		})
		mux := serve(s, Config{}, wiring.Options{})
		for i := range 1000 {
			for _, path := range []string{"/api/callback", "/api/registry", "/xxl-job-admin/api/registryRemove", "/v1/queue/runs",
				"/v1/queue/receive"} {
				size := []int64{5 << 20, 100, 1 << 40, -1}[i/2%4]
				w := post(mux, path, []string{"", "guess" + strconv.Itoa(i)}[i%2], untouched{t}, size)
				if wire := strings.Contains(path, "/api/"); wire && !strings.Contains(w.Body.String(), "access token") || !wire && w.Code != 401 ||
					wire && (w.Header().Get("Connection") == "close") != (size > 100 || size < 0 && path == "/api/callback") {
					t.Fatalf("%s: %d bytes: %d %s %s", path, size, w.Code, w.Header(), w.Body)
				}
			}
		}
		if runs != 0 || lists > 10 { // at once, and one a second, of which none passes
			t.Errorf("%d runs and %d lists of apps were read", runs, lists)
		}
	})
}

// TestCallbacksHoldLittleMemory: 64 callbacks of 5 MB at once hold less than 60 MB, 120 MB with garbage, for any
// client. An unknown token is rejected unread, also if an app has no token, and without a token only a program on this
// machine sends more than 256 KB.
func TestCallbacksHoldLittleMemory(t *testing.T) {
	check.Long(t)
	e := open(t)
	check.OK(t, e.PutApp(t.Context(), 0, core.App{Name: "open", Rev: 1}, core.Change{ID: 2, App: "open"}))
	mux := serve(e, Config{Here: func(ctx context.Context) bool { return ctx.Value(hereKey{}) == true }},
		wiring.Options{AllowNoToken: func(context.Context) bool { return true }})
	item := `,{"logId":1,"handleCode":200,"handleMsg":"` + strings.Repeat("m", 64) + `"}`
	body := "[" + strings.Repeat(item, 5<<20/len(item))[1:] + "]"
	for _, c := range []struct {
		name, token string
		here, reads bool
		times       int
		most        int64
	}{
		{"wrong token", "guess", false, false, 64, 1 << 20},
		{"wrong token on this machine", "guess", true, false, 64, 1 << 20},
		{"no token", "", false, false, 64, 1 << 20},
		{"no token on this machine", "", true, true, 1, 60 << 20},
		{"right token", "secret", false, true, 64, 60 << 20},
	} {
		var read atomic.Int64
		held := peak.Of(c.most, func() {
			var all sync.WaitGroup
			for range c.times {
				all.Go(func() {
					r := strings.NewReader(body)
					post(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), hereKey{}, c.here)))
					}), wire.PathCallback, c.token, r, -1)
					if r.Len() == 0 {
						read.Add(1)
					}
				})
			}
			all.Wait()
		})
		if reads := read.Load() > 0; reads != c.reads || held > c.most {
			t.Errorf("%s: %d bodies were read, %d MB were held, at most %d are allowed", c.name, read.Load(), held>>20, c.most>>20)
		}
	}
}

type hereKey struct{}

func TestAllowedRejectsOwnAddress(t *testing.T) {
	allowed := Allowed(safedial.Policy{AllowLoopback: true, Own: func(ap netip.AddrPort) bool {
		return ap.Addr().IsLoopback() && (ap.Port() == 7700 || ap.Port() == 80)
	}})
	for address, ok := range map[string]bool{"http://127.0.0.1:7700": false, "http://127.0.0.1:7700/": false, "http://[::1]:7700/x": false,
		"http://[::ffff:127.0.0.1]:7700": false, "http://127.0.0.1": false, "https://127.0.0.1": true, "http://127.0.0.1:7701": true,
		"http://executor.example:7700": true, "http://169.254.169.254:1": false} {
		err := allowed(&core.App{Name: "a"}, address)
		if (err == nil) != ok || strings.Contains(address, "127") && !ok && !strings.Contains(err.Error(), "this server itself listens there") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// If the app has no token, the executor's error explains how to set one, not that the
// executor's token is wrong.
func TestNoTokenIsSaid(t *testing.T) {
	err := wireError(&core.Error{Code: core.CodeUnauthorized, Reason: core.Say("write token: …"), Err: registry.ErrNoToken})
	if !errors.Is(err, wirehttp.ErrUnauthorized) || !strings.Contains(err.Error(), "write token: …") {
		t.Error(err)
	}
	if err := wireError(core.Errorf(core.CodeUnauthorized, "wrong")); !errors.Is(err, wirehttp.ErrUnauthorized) {
		t.Error(err)
	}
}

// Each endpoint waits a while for a slow body, and a shorter time if the body only identifies a
// rejected client.
func TestBodiesComeInTime(t *testing.T) {
	texts := golden.New(t)
	synctest.Test(t, func(t *testing.T) {
		mux := serve(open(t), Config{ReadFor: 7 * time.Second, Refused: rejectlog.New(rejectlog.Options{})}, wiring.Options{})
		inner, srv := memlistener.Listen(), &http.Server{Handler: mux}
		var serving sync.WaitGroup
		serving.Go(func() { srv.Serve(inner) })
		defer serving.Wait()
		defer srv.Close()
		for _, c := range []struct {
			name, path, token string
			after             time.Duration
		}{
			{"callback", "/api/callback", "secret", 7 * time.Second},
			{"queue", "/v1/queue/runs", "secret", 7 * time.Second},
			{"wrong token", "/v1/queue/runs", "wrong", time.Second},
			{"report", report(core.NumberedRun(7, 1)), "", 7 * time.Second},
		} {
			began := time.Now()
			here := inner.Dial()
			fmt.Fprintf(here, "POST %s HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: 9\r\n\r\n{", c.path, wire.HeaderToken, c.token)
			res, err := http.ReadResponse(bufio.NewReader(here), nil)
			check.OK(t, err)
			b, err := io.ReadAll(res.Body)
			if d := time.Since(began); err != nil || d != c.after {
				t.Errorf("%+v: after %v: %s, %v", c, d, b, err)
			}
			texts.Equal(t, c.name, string(b))
			here.Close()
		}
	})
}
