package wiretest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/testkit/wiretest"
	"github.com/tickring/tickring/wire"
	"github.com/tickring/tickring/wirehttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dialects are those whose behaviour the fake is meant to be right in; C and D
// speak too.
var dialects = []wire.Dialect{wire.DialectA, wire.DialectB, wire.DialectC, wire.DialectD, wire.DialectGo}

func client(t *testing.T) *wirehttp.Client {
	c := wirehttp.New(wirehttp.ClientOptions{Policy: safedial.Policy{AllowLoopback: true}, Timeout: 10 * time.Second})
	t.Cleanup(c.Close)
	return c
}

func run(job int32, n int64, block string) *wire.Run {
	return &wire.Run{JobID: job, Handler: "demo", BlockStrategy: block, LogID: int64(job)<<32 | n, LogTime: 1586629003729, GlueType: wire.GlueBean, BroadcastTotal: 1}
}

// admin is the receiving side: wirehttp's handler over ports that remember.
type admin struct {
	mu      sync.Mutex
	addrs   map[string]bool
	results []wirehttp.Result
	callers []wirehttp.Caller
	err     error
	beats   chan struct{}
}

func (a *admin) Register(_ context.Context, c wirehttp.Caller, r wirehttp.Registration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Token != "secret" {
		return wirehttp.ErrUnauthorized
	}
	a.addrs[r.App+" "+r.Address] = true
	a.callers = append(a.callers, c)
	select {
	case a.beats <- struct{}{}:
	default:
	}
	return a.err
}

func (a *admin) Remove(_ context.Context, _ wirehttp.Caller, r wirehttp.Registration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.addrs, r.App+" "+r.Address)
	return a.err
}

func (a *admin) Callback(_ context.Context, c wirehttp.Caller, batch []wirehttp.Result) []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return slices.Repeat([]error{a.err}, len(batch))
	}
	a.results = append(a.results, batch...)
	a.callers = append(a.callers, c)
	return nil
}

func (a *admin) take() (results []wirehttp.Result, caller wirehttp.Caller) {
	a.mu.Lock()
	defer a.mu.Unlock()
	results, a.results = a.results, nil
	if n := len(a.callers); n > 0 {
		caller = a.callers[n-1]
	}
	return results, caller
}

func (a *admin) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

func serve(t *testing.T) (*admin, string) {
	a := &admin{addrs: map[string]bool{}, beats: make(chan struct{})}
	mux := http.NewServeMux()
	h := wirehttp.NewHandler(wirehttp.Ports{Registry: a, Callbacks: a}, wirehttp.Options{})
	for _, p := range wirehttp.Patterns {
		mux.Handle(p, h)
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return a, srv.URL
}

// One run from order to callback, and the registration around it, in every
// dialect and through both paths of the admin.
func TestThereAndBack(t *testing.T) {
	for _, d := range dialects {
		for _, suffix := range []string{"", "/xxl-job-admin", "/xxl-job-admin/"} {
			t.Run(d.String()+suffix, func(t *testing.T) {
				a, base := serve(t)
				e := wiretest.Start(t, wiretest.Options{Dialect: d, Token: "secret", Admins: []string{base + suffix}})
				if err := e.Register(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !a.addrs["demo "+e.URL()] {
					t.Errorf("registered %v", a.addrs)
				}
				c := client(t)
				auth := wirehttp.Auth{Token: "secret", App: "demo", Dialect: d}
				e.Next(wiretest.Finish(200, "done"))
				if out := c.Run(t.Context(), e.URL(), auth, run(3, 7, wire.BlockSerial)); out.Kind != wirehttp.Accepted {
					t.Fatalf("%+v", out)
				}
				if err := e.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				got, caller := a.take()
				want := wirehttp.Result{LogID: 3<<32 | 7, LogTime: 1586629003729, Code: 200, Msg: "done"}
				if len(got) != 1 || got[0] != want {
					t.Errorf("called back %+v", got)
				}
				seen := d
				if d == wire.DialectC {
					seen = wire.DialectB
				}
				if caller.Token != "secret" || caller.Dialect != seen || (caller.App != "") != (d == wire.DialectD) {
					t.Errorf("caller %+v", caller)
				}
				if err := e.Deregister(t.Context()); err != nil || len(a.addrs) != 0 {
					t.Errorf("%v, left %v", err, a.addrs)
				}
				runs := e.Runs()
				if len(runs) != 1 || runs[0].Run != *run(3, 7, wire.BlockSerial) || runs[0].Token != "secret" || runs[0].App != "demo" || runs[0].At.IsZero() {
					t.Errorf("received %+v", runs)
				}
			})
		}
	}
}

// What an executor does by itself with runs of one job.
func TestNativeBehaviour(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.String(), func(t *testing.T) {
			java := d != wire.DialectGo
			a, base := serve(t)
			e := wiretest.Start(t, wiretest.Options{Dialect: d, App: "demo", Admins: []string{base}, Handlers: []string{"demo"}})
			c := client(t)
			auth := wirehttp.Auth{App: "demo", Dialect: d}
			send := func(r *wire.Run) wirehttp.Outcome { return c.Run(t.Context(), e.URL(), auth, r) }
			results := func() (got []wirehttp.Result) {
				if err := e.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				got, _ = a.take()
				return got
			}
			if out := c.Beat(t.Context(), e.URL(), auth); out.Kind != wirehttp.Accepted {
				t.Errorf("beat: %+v", out)
			}
			r := run(1, 1, wire.BlockSerial)
			r.Handler = "other"
			if out := send(r); out.Kind != wirehttp.Refused || out.Verdict != wire.VerdictRefused || out.Msg == "" {
				t.Errorf("unknown handler: %+v", out)
			}
			if out := send(run(1, 2, wire.BlockSerial)); out.Kind != wirehttp.Accepted {
				t.Errorf("first: %+v", out)
			}
			if out := c.IdleBeat(t.Context(), e.URL(), auth, 1); out.Kind != wirehttp.Refused {
				t.Errorf("idleBeat of a busy job: %+v", out)
			}
			if out := c.IdleBeat(t.Context(), e.URL(), auth, 2); out.Kind != wirehttp.Accepted {
				t.Errorf("idleBeat of an idle job: %+v", out)
			}
			if out := send(run(1, 3, wire.BlockDiscard)); out.Verdict != wire.VerdictBlockStrategy || out.Kind != wirehttp.Refused {
				t.Errorf("discard later: %+v", out)
			}
			out := send(run(1, 4, wire.BlockSerial))
			if java {
				if again := send(run(1, 4, wire.BlockSerial)); out.Kind != wirehttp.Accepted || again.Kind != wirehttp.Repeat {
					t.Errorf("serial: %+v, again: %+v", out, again)
				}
			} else if out.Verdict != wire.VerdictBlockStrategy {
				t.Errorf("serial: %+v", out)
			}
			if out := send(run(1, 5, wire.BlockCover)); out.Kind != wirehttp.Accepted {
				t.Errorf("cover early: %+v", out)
			}
			got := results()
			if java {
				if len(got) != 2 || got[0].Code != 500 || !strings.Contains(got[0].Msg, "killed") || !strings.Contains(got[1].Msg, "in the job queue, killed") {
					t.Errorf("covered: %+v", got)
				}
			} else if len(got) != 1 || got[0].Code != 200 {
				t.Errorf("covered: %+v", got)
			}
			if ids := e.Busy(); !slices.Equal(ids, []int64{1<<32 | 5}) {
				t.Errorf("busy with %v", ids)
			}
			if out := c.Kill(t.Context(), e.URL(), auth, 1); out.Kind != wirehttp.Accepted {
				t.Errorf("kill: %+v", out)
			}
			if got := results(); len(got) != 1 || got[0].LogID != 1<<32|5 || (got[0].Code == 500) != java {
				t.Errorf("killed: %+v", got)
			}
			if out := c.Kill(t.Context(), e.URL(), auth, 1); (out.Kind == wirehttp.Accepted) != java {
				t.Errorf("kill of nothing: %+v", out)
			}
			send(run(2, 1, wire.BlockSerial))
			e.Forget()
			if ids := e.Busy(); ids != nil {
				t.Errorf("it did not forget %v", ids)
			}
		})
	}
}

func TestLog(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.String(), func(t *testing.T) {
			e := wiretest.Start(t, wiretest.Options{Dialect: d})
			e.SetLog(7, "one", "two", "three")
			c := client(t)
			auth := wirehttp.Auth{App: "demo"}
			res, out := c.Log(t.Context(), e.URL(), auth, wire.LogRequest{LogID: 7, FromLine: 2})
			if out.Kind != wirehttp.Accepted || res.FromLine != 2 || res.ToLine != 3 || res.Content != "two\nthree\n" {
				t.Errorf("%+v, %+v", res, out)
			}
			if res, _ = c.Log(t.Context(), e.URL(), auth, wire.LogRequest{LogID: 7, FromLine: 4}); res.ToLine >= res.FromLine {
				t.Errorf("no new lines: %+v", res)
			}
			if res, _ = c.Log(t.Context(), e.URL(), auth, wire.LogRequest{LogID: 8, FromLine: 1}); !res.End {
				t.Errorf("no file: %+v", res)
			}
		})
	}
}

// The actions lead to the outcomes that they are there for.
func TestActions(t *testing.T) {
	gate := make(chan struct{})
	close(gate)
	for _, c := range []struct {
		name   string
		action wiretest.Action
		kind   wirehttp.Kind
		busy   bool
	}{
		{"accept", wiretest.Accept(), wirehttp.Accepted, true},
		{"refuse", wiretest.Refuse(500, "no"), wirehttp.Refused, false},
		{"repeat", wiretest.Refuse(500, wire.MsgRepeatTrigger+", logId:1"), wirehttp.Repeat, false},
		{"queue full", wiretest.QueueFull(), wirehttp.RefusedPassing, false},
		{"429", wiretest.TooManyRequests(), wirehttp.RefusedPassing, false},
		{"503", wiretest.Status(503, "<html>"), wirehttp.Unknown, false},
		{"garbage", wiretest.Garbage("<html>"), wirehttp.Unknown, true},
		{"cut", wiretest.Cut(), wirehttp.Unknown, true},
		{"hang", wiretest.Hang(), wirehttp.Unknown, true},
		{"slow", wiretest.Slow(time.Millisecond, wiretest.Accept()), wirehttp.Accepted, true},
		{"after", wiretest.After(gate, wiretest.Refuse(500, "no")), wirehttp.Refused, false},
		{"after for ever", wiretest.After(nil, wiretest.Slow(time.Hour, wiretest.Accept())), wirehttp.Unknown, false},
	} {
		for _, d := range []wire.Dialect{wire.DialectA, wire.DialectGo} {
			t.Run(c.name+"/"+d.String(), func(t *testing.T) {
				e := wiretest.Start(t, wiretest.Options{Dialect: d, Script: func(_ wire.Run, nth int) wiretest.Action {
					if nth == 0 {
						return c.action
					}
					return wiretest.Accept()
				}})
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				if out := client(t).Run(ctx, e.URL(), wirehttp.Auth{}, run(3, 7, wire.BlockSerial)); out.Kind != c.kind && !(d == wire.DialectGo && c.name == "repeat") {
					t.Errorf("%+v", out)
				}
				if busy := e.Busy() != nil; busy != c.busy {
					t.Errorf("busy %v, want %v", busy, c.busy)
				}
				if got, err := e.WaitRuns(t.Context(), 1); err != nil || len(got) != 1 {
					t.Errorf("%v, %v", got, err)
				}
			})
		}
	}
}

func TestTokenAndPath(t *testing.T) {
	e := wiretest.Start(t, wiretest.Options{Dialect: wire.DialectB, Token: "secret"})
	c := client(t)
	if out := c.Run(t.Context(), e.URL(), wirehttp.Auth{Token: "wrong"}, run(1, 1, wire.BlockSerial)); out.Kind != wirehttp.Refused || !strings.Contains(out.Msg, "token") {
		t.Errorf("%+v", out)
	}
	if out := c.Run(t.Context(), e.URL(), wirehttp.Auth{Token: "secret", Dialect: wire.DialectD}, run(1, 1, wire.BlockSerial)); out.Kind != wirehttp.Accepted {
		t.Errorf("B taken for D: %+v", out)
	}
	d := wiretest.Start(t, wiretest.Options{Dialect: wire.DialectD, Token: "secret"})
	if out := c.Run(t.Context(), d.URL(), wirehttp.Auth{Token: "secret", App: "demo"}, run(1, 1, wire.BlockSerial)); out.Kind != wirehttp.Accepted || out.Dialect != wire.DialectD {
		t.Errorf("D, not known: %+v", out)
	}
	g := wiretest.Start(t, wiretest.Options{Dialect: wire.DialectGo})
	if out := c.Run(t.Context(), g.URL(), wirehttp.Auth{Dialect: wire.DialectD}, run(1, 1, wire.BlockSerial)); out.Kind != wirehttp.Accepted {
		t.Errorf("Go taken for D: %+v", out)
	}
}

// Java keeps what no admin took and sends it again; Go loses it.
func TestFailedCallbacks(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.String(), func(t *testing.T) {
			a, base := serve(t)
			a.fail(errors.New("throttled"))
			e := wiretest.Start(t, wiretest.Options{Dialect: d, Admins: []string{base}})
			e.Finish(7, 200, "")
			if err := e.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := 1
			if d == wire.DialectGo {
				want = 0
			}
			if got := e.Failed(); len(got) != want {
				t.Errorf("kept %v", got)
			}
			a.fail(nil)
			if err := e.Resend(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, _ := a.take(); len(got) != want || len(e.Failed()) != 0 {
				t.Errorf("called back %v, kept %v", got, e.Failed())
			}
		})
	}
}

// Java goes on to the next admin, Go does not.
func TestAdminsInOrder(t *testing.T) {
	for _, d := range []wire.Dialect{wire.DialectA, wire.DialectGo} {
		bad, badBase := serve(t)
		bad.fail(errors.New("no"))
		good, goodBase := serve(t)
		e := wiretest.Start(t, wiretest.Options{Dialect: d, Token: "secret"})
		e.SetAdmins(badBase, goodBase)
		err := e.Callback(t.Context(), wire.CallbackItem{LogID: 7, Code: 200})
		got, _ := good.take()
		if java := d == wire.DialectA; (err == nil) != java || (len(got) == 1) != java {
			t.Errorf("%v: %v, %v", d, err, got)
		}
	}
}

func TestBeatDownUp(t *testing.T) {
	a, base := serve(t)
	e := wiretest.Start(t, wiretest.Options{Token: "secret", Admins: []string{base}})
	e.Beat(time.Millisecond)
	for range 3 {
		<-a.beats
	}
	e.StopBeating()
	c := client(t)
	e.Next(wiretest.Finish(200, ""))
	if out := c.Run(t.Context(), e.URL(), wirehttp.Auth{Token: "secret"}, run(1, 1, wire.BlockSerial)); out.Kind != wirehttp.Accepted {
		t.Errorf("%+v", out)
	}
	url := e.URL()
	e.Down()
	e.Down()
	if out := c.Beat(t.Context(), url, wirehttp.Auth{Token: "secret"}); out.Kind != wirehttp.BeforeFirstByte {
		t.Errorf("down: %+v", out)
	}
	if err := e.Up(); err != nil {
		t.Fatal(err)
	}
	if out := c.Beat(t.Context(), url, wirehttp.Auth{Token: "secret"}); out.Kind != wirehttp.Accepted || e.URL() != url {
		t.Errorf("up: %+v at %s", out, e.URL())
	}
	if _, err := e.Wait(canceled(t), 5, wire.PathKill); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for what does not come: %v", err)
	}
	wrong := wiretest.Start(t, wiretest.Options{Token: "wrong", Admins: []string{base}})
	if err := wrong.Register(t.Context()); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a wrong token: %v", err)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
