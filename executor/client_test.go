package executor

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/wire"
)

func okMux() *Mux {
	return muxOf("ok", func(context.Context, *Run) error { return nil })
}

func TestRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		up := false
		f.answer = func(host, _ string, _ []byte) string {
			switch {
			case host == "one":
				return "<html>not the protocol</html>"
			case !up:
				return ""
			}
			return taken
		}
		start(t, okMux(), f, func(o *Options) {
			o.Servers = []string{"http://one/xxl-job-admin/", "http://two"}
			o.Token = "secret"
		})
		pass(10 * time.Second)
		f.mu.Lock()
		if len(f.regs) != 0 || len(f.calls) < 6 || f.calls[0] != "one/xxl-job-admin/api/registry" || f.calls[1] != "two/api/registry" ||
			f.tokens[0] != "secret/demo" {
			t.Errorf("while both are down: %v %v", f.calls, f.tokens)
		}
		up = true
		f.mu.Unlock()
		pass(30 * time.Second)
		synctest.Wait()
		f.mu.Lock()
		n := len(f.regs)
		if n == 0 || f.regs[0] != (wire.Registration{Group: "EXECUTOR", App: "demo", Address: "http://here:1/"}) {
			t.Errorf("registered %v", f.regs)
		}
		f.mu.Unlock()
		pass(90 * time.Second)
		synctest.Wait()
		check.Equal(t, len(f.regs)-n, 3, "registrations in 90 s")
	})
}

// TestCallbacks: results are kept while no server takes them, and go to the server that does, in the format that it reads.
func TestCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		up := false
		f.answer = func(host, path string, body []byte) string {
			switch {
			case path != wire.PathCallback:
				return taken
			case host == "one", !up:
				return ""
			case body[0] != '{': // a server of dialect D
				return `{"code":500,"msg":"Expected BEGIN_OBJECT but was BEGIN_ARRAY"}`
			}
			return taken
		}
		e := start(t, okMux(), f, twoServers)
		for id := int64(1); id <= 1200; id++ {
			mustSend(t, e, order(1, id, "ok"))
			synctest.Wait()
		}
		pass(time.Minute)
		check.Equal(t, e.Unreported(), 1200, "unreported")
		f.locked(func() { up = true })
		f.until(t, func() bool { return len(f.items) >= 1200 })
		synctest.Wait()
		seen := map[int64]int{}
		for _, it := range f.items {
			seen[it.LogID]++
		}
		if len(seen) != 1200 || len(f.items) != 1200 || e.Unreported() != 0 {
			t.Errorf("%d runs in %d results, %d left", len(seen), len(f.items), e.Unreported())
		}
		if len(f.shapes) > 10 || f.shapes[0] != wire.DialectD {
			t.Errorf("shapes %v", f.shapes)
		}
	})
}

// TestCallbackPoison: a result that a server always rejects does not delay others.
func TestCallbackPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		up := false
		f.answer = func(_, path string, body []byte) string {
			switch {
			case path != wire.PathCallback:
				return taken
			case !up:
				return ""
			case strings.Contains(string(body), `"logId":13,`):
				return `{"code":500,"msg":"no"}`
			}
			return taken
		}
		e := start(t, okMux(), f, nil)
		for id := int64(1); id <= 40; id++ {
			mustSend(t, e, order(1, id, "ok"))
		}
		pass(time.Second)
		f.locked(func() { up = true })
		began := time.Now()
		f.until(t, func() bool { return len(f.items) == 39 })
		synctest.Wait()
		if e.Unreported() != 1 || time.Since(began) > 2*time.Second {
			t.Errorf("%d left after %s", e.Unreported(), time.Since(began))
		}
		// Other results are sent at once, even long after the server first rejected run 13.
		for id := int64(41); id <= 60; id++ {
			pass(7 * time.Second)
			mustSend(t, e, order(1, id, "ok"))
			began = time.Now()
			f.until(t, func() bool { return len(f.items) == int(id)-1 })
			if d := time.Since(began); d > 100*time.Millisecond {
				t.Errorf("run %d is reported after %s", id, d)
			}
		}
		f.set(nil)
		f.want(t, 13, 200, "")
	})
}

// TestReporterPausesWhenEveryResultIsRefused: a server that rejects every result gets a limited number of requests, and
// all results once it accepts them.
func TestReporterPausesWhenEveryResultIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, e := started(t, okMux(), nil)
		f.set(atPath(wire.PathCallback, `{"code":500,"msg":"no"}`))
		for id := int64(1); id <= 1000; id++ {
			mustSend(t, e, order(1, id, "ok"))
			synctest.Wait()
		}
		pass(time.Hour)
		f.locked(func() {
			if n := len(f.calls); n > 500 {
				t.Errorf("%d requests in an hour", n)
			}
			f.answer = nil
		})
		began := time.Now()
		f.until(t, func() bool { return len(f.items) == 1000 })
		if d := time.Since(began); d > time.Minute {
			t.Errorf("all results are reported after %s", d)
		}
	})
}

// TestTooManyUnreported: the results that no server took are limited by number and by size, also after a crash.
func TestTooManyUnreported(t *testing.T) {
	for name, limit := range map[string]func(*Options){
		"results": func(o *Options) { o.MaxUnreported = 3 }, "bytes": func(o *Options) { o.MaxUnreportedBytes = 3000 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mux := muxOf("says", func(_ context.Context, r *Run) error { r.SetResult(Success, strings.Repeat("x", 1000)); return nil })
				f, e := started(t, mux, limit)
				f.set(atPath(wire.PathCallback, `[1,2`)) // garbage
				for id := int64(1); id <= 3; id++ {
					mustSend(t, e, order(1, id, "says"))
					synctest.Wait()
				}
				refused(t, send(e, order(1, 4, "says")), wire.CodeBusy, "queue full: too many results wait for a server")
				e = startAfterCrash(t, mux, f, e)
				refused(t, send(e, order(1, 4, "says")), wire.CodeBusy, "queue full: too many results wait for a server")
				f.set(nil)
				f.until(t, func() bool { return len(f.items) >= 6 }) // of each of the two, for the first goes on
				synctest.Wait()
				mustSend(t, e, order(1, 4, "says"))
				f.want(t, 4, 200, strings.Repeat("x", 1000))
			})
		})
	}
}

func TestBadInput(t *testing.T) {
	texts, f := golden.New(t), newFake()
	mux := okMux()
	mux.Register("hidden", func(context.Context, *Run) error { return nil })
	var out lockedBuffer
	e := start(t, mux, f, func(o *Options) { o.Token, o.Log = "secret", out.log() })
	ok := order(1, 1, "ok")
	body := wire.AppendRun(nil, &ok)
	token := func(more ...string) []string { return append([]string{wire.HeaderToken, "secret"}, more...) }
	run := func(change func(*wire.Run)) []byte {
		r := ok
		change(&r)
		return wire.AppendRun(nil, &r)
	}
	for _, c := range []struct {
		name   string
		path   string
		body   []byte
		header []string
	}{
		{"no token", "/run", body, nil},
		{"wrong token", "/run", body, []string{wire.HeaderToken, "secre"}},
		{"wrong token of a beat", "/beat", nil, []string{wire.HeaderToken, "x"}},
		{"another app", "/run", body, token(wire.HeaderApp, "other")},
		{"no handler", "/run", run(func(r *wire.Run) { r.Handler = "" }), token()},
		{"unknown handler", "/run", run(func(r *wire.Run) { r.Handler = "nope" }), token()},
		{"groovy", "/run", run(func(r *wire.Run) { r.GlueType = "GLUE_GROOVY" }), token()},
		{"a script", "/run", run(func(r *wire.Run) { r.GlueType = Shell }), token()},
		{"no body", "/run", nil, token()},
		{"garbage", "/run", []byte("}"), token()},
		{"no ids", "/run", []byte("{}"), token()},
		{"kill garbage", "/kill", []byte("[]"), token()},
		{"idleBeat garbage", "/idleBeat", []byte(`{"jobId":"x"}`), token()},
		{"log garbage", "/log", []byte(`{}`), token()},
		{"too large", "/run", make([]byte, wire.MaxBody+1), token()},
		{"unknown path", "/nope", body, token()},
	} {
		r := post(e, c.path, c.body, c.header...)
		check.Equal(t, r.Code, 500, "%s: %q", c.name, r.Msg)
		texts.Equal(t, c.name, r.Msg)
		if strings.Contains(r.Msg, "hidden") {
			t.Errorf("%s: the reply lists handlers: %q", c.name, r.Msg)
		}
	}
	if log := out.String(); !strings.Contains(log, "handler=nope") || !strings.Contains(log, "known=\"[hidden ok]\"") {
		t.Errorf("the log does not say which handlers there are: %s", log)
	}
	get := httptest.NewRecorder()
	e.ServeHTTP(get, httptest.NewRequest(http.MethodGet, "/run", nil))
	check.Contains(t, get.Body.String(), "HttpMethod not support", "GET")
	if r := post(e, "/run", body, token(wire.HeaderApp, "demo")...); !r.OK() {
		t.Errorf("a good one: %q", r.Msg)
	}
	f.want(t, 1, 200, "")
}

func TestNewRefuses(t *testing.T) {
	h := func(context.Context, *Run) error { return nil }
	mux := NewMux()
	mux.Register("", h)
	mux.Register(" x", h)
	mux.Register("twice", h)
	mux.Register("twice", h)
	mux.Register("nil", nil)
	_, err := New(mux, Options{Servers: []string{"ftp://x", "%"}, Address: ":", Token: "a\nb",
		Scripts: &Scripts{Kinds: []string{"GLUE_GROOVY"}}})
	texts := golden.New(t)
	texts.Equal(t, "all", fmt.Sprint(err))
	_, err = New(NewMux(), Options{App: "a", Scripts: &Scripts{Kinds: []string{Shell}}})
	texts.Equal(t, "scripts without a token", fmt.Sprint(err))
	e, err := New(NewMux(), Options{App: "a", Servers: []string{"http://one"}})
	check.OK(t, err)
	texts.Equal(t, "no address", fmt.Sprint(e.Start()))
	refused(t, post(e, "/beat", nil), 500, "The executor is stopping.")
}

func TestCallbackBounds(t *testing.T) {
	r := reporter{kick: make(chan struct{}, 1)}
	big := strings.Repeat("x", 400_000)
	for id := range int64(4) {
		r.add(pending{item: wire.CallbackItem{LogID: id + 1, Code: 200, Msg: big}})
	}
	for i, want := range []int{1, 1, 1, 1, 0} {
		if ps := r.take(500); len(ps) != want {
			t.Fatalf("batch %d has %d", i, len(ps))
		}
	}
	for id := range int64(501) {
		r.add(pending{item: wire.CallbackItem{LogID: id + 1, Code: 200, Msg: strconv.Itoa(int(id))}})
	}
	if ps := r.take(500); len(ps) != 500 {
		t.Fatalf("a batch of %d", len(ps))
	}
}
