package lambdaexec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

func handlers() *executor.Mux {
	mux := executor.NewMux()
	mux.Register("says", func(_ context.Context, r *executor.Run) error {
		r.Printf("working on %s", r.Params)
		r.SetResult(executor.Success, "said "+r.Params)
		return nil
	})
	mux.Register("fails", func(context.Context, *executor.Run) error { return errors.New("no luck") })
	mux.Register("snoozes", func(context.Context, *executor.Run) error { return executor.Snooze(time.Hour) })
	mux.Register("waits", func(ctx context.Context, _ *executor.Run) error { <-ctx.Done(); return ctx.Err() })
	mux.Register("deaf", func(ctx context.Context, _ *executor.Run) error {
		<-time.After(time.Hour)
		return nil
	})
	return mux
}

// A fake is the server that receives results: as callbacks, or at the URL of the event.
type fake struct {
	mu     sync.Mutex
	down   bool
	status []int // of the first answers, 0 is none; then 200
	got    []string
	items  []wire.CallbackItem
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, r.Method+" "+r.URL.String()+" "+string(body))
	status := http.StatusOK
	if len(f.status) > 0 {
		status, f.status = f.status[0], f.status[1:]
	}
	if f.down || status == 0 {
		return nil, errors.New("connection refused")
	}
	if r.URL.Path == wire.PathCallback {
		c, err := wire.DecodeCallback(body, 0)
		if err != nil {
			return nil, err
		}
		f.items = append(f.items, c.Items...)
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"code":200,"msg":null}`))}, nil
}

// instance returns a function that ends with the test.
func instance(t *testing.T, f *fake, out io.Writer, o Options) func(context.Context, json.RawMessage) (executor.Result, error) {
	t.Helper()
	o.App, o.Token, o.Log = "demo", "secret", out
	if f != nil {
		o.Servers = []string{"http://one"}
		o.Change = func(e *executor.Options) { e.Client = &http.Client{Transport: f} }
	} else {
		o.Servers = []string{}
	}
	fn := &function{mux: handlers(), o: o}
	t.Cleanup(func() {
		if fn.e != nil {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = fn.e.Stop(ctx)
		}
	})
	return fn.invoke
}

func event(id int64, handler, params string) json.RawMessage {
	return wire.AppendRun(nil, &wire.Run{JobID: 1, LogID: id, LogTime: 1_700_000_000_000, Handler: handler, Params: params,
		GlueType: wire.GlueBean, BroadcastTotal: 1})
}

func TestInvoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		var out bytes.Buffer
		invoke := instance(t, f, &out, Options{})
		ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "req-7"})
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		res, err := invoke(ctx, event(7, "says", "p"))
		if err != nil || res != (executor.Result{RunID: 7, Outcome: 200, Message: "said p"}) {
			t.Errorf("%+v %v", res, err)
		}
		if len(f.items) != 1 || f.items[0].LogID != 7 || f.items[0].Code != 200 || f.items[0].Msg != "said p" ||
			f.items[0].LogTime != 1_700_000_000_000 {
			t.Errorf("it was reported before the return: %+v", f.items)
		}
		for _, got := range f.got {
			check.Contains(t, got, wire.PathCallback, "a function does not register")
		}
		log := out.String()
		for line := range strings.Lines(log) {
			if !strings.HasPrefix(line, "run 7: ") {
				t.Errorf("a line without run: %q", line)
			}
		}
		if !strings.Contains(log, "working on p\n") || !strings.Contains(log, "request req-7\n") {
			t.Errorf("log:\n%s", log)
		}
		// The platform delivers twice: the run does not start again.
		if res, err := invoke(ctx, event(7, "says", "p")); err != nil || len(f.items) != 1 {
			t.Errorf("again: %+v %v, %d results", res, err, len(f.items))
		}
		// An instance lives on.
		if res, err := invoke(ctx, event(8, "fails", "")); err != nil || res.Outcome != executor.Failure || res.Message != "no luck" {
			t.Errorf("%+v %v", res, err)
		}
		if res, err := invoke(ctx, event(9, "nobody", "")); err != nil || res.Outcome != executor.Failure ||
			res.Message != "job handler [nobody] not found." {
			t.Errorf("%+v %v", res, err)
		}
		check.Equal(t, len(f.items), 3, "results")
		if _, err := invoke(ctx, json.RawMessage(`{"x":1}`)); err == nil {
			t.Error("an event that is no run")
		}
	})
}

// The result is with the server before the platform cuts the function off.
func TestDeadline(t *testing.T) {
	for handler, want := range map[string]time.Duration{"waits": 58 * time.Second, "deaf": 58*time.Second + 500*time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{}
			invoke := instance(t, f, io.Discard, Options{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			res, err := invoke(ctx, event(1, handler, ""))
			if d := time.Since(began); err != nil || res.Outcome != executor.Timeout || d < want || d > want+10*time.Millisecond ||
				len(f.items) != 1 || f.items[0].Code != 502 {
				t.Errorf("%s: %+v %v after %v, reported %+v", handler, res, err, d, f.items)
			}
			<-time.After(2 * time.Hour) // the deaf one returns, in the bubble's time
		})
	}
}

// TestServerAway: results wait for a server until the function's deadline.
func TestServerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{down: true}
		invoke := instance(t, f, io.Discard, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(20*time.Second, func() {
			f.mu.Lock()
			f.down = false
			f.mu.Unlock()
		})
		began := time.Now()
		if res, err := invoke(ctx, event(1, "says", "")); err != nil || time.Since(began) < 20*time.Second || len(f.items) != 1 {
			t.Errorf("%+v %v after %v", res, err, time.Since(began))
		}
		f.down = true
		if _, err := invoke(ctx, event(2, "says", "")); err == nil || !strings.Contains(err.Error(), "no server accepted the result") {
			t.Errorf("a server that does not come: %v", err)
		}
	})
}

func TestWithoutServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res, err := instance(t, nil, io.Discard, Options{})(t.Context(), event(1, "says", "x"))
		if b, _ := json.Marshal(res); err != nil || string(b) != `{"logId":"1","code":200,"msg":"said x"}` {
			t.Errorf("%s %v", b, err)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := HandlerWith(handlers(), Options{Servers: []string{"nonsense"}})(t.Context(), event(1, "says", "")); err == nil ||
		!strings.Contains(err.Error(), "option App") || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v", err)
	}
}

// TestReportURL: without servers the result goes to the URL of the event, until it is taken or time is over. The function
// returns it in any case.
func TestReportURL(t *testing.T) {
	const to = "https://jobs.example/v1/report/7?key=k"
	told := func(handler, url string) json.RawMessage {
		e := string(event(7, handler, "p"))
		return json.RawMessage(e[:len(e)-1] + `,"tickring":{"attempt":1,"reportUrl":"` + url + `"}}`)
	}
	for name, c := range map[string]struct {
		handler, url string
		status       []int
		want         string
		times        int
	}{
		"taken":          {"says", to, nil, `{"data":"","message":"said p","state":"succeeded"}`, 1},
		"failure":        {"fails", to, nil, `{"data":"","message":"no luck","state":"failed"}`, 1},
		"snooze":         {"snoozes", to, nil, `{"data":"","message":"snoozed for 1h","retryAfter":3600,"state":"failed"}`, 1},
		"timeout":        {"waits", to, nil, `"state":"timed-out"}`, 1},
		"away at first":  {"says", to, []int{0, 503, 429}, `"state":"succeeded"}`, 4},
		"not this run's": {"says", to, []int{401}, `"state":"succeeded"}`, 1},
		"says nothing":   {"says", "", nil, "", 0},
		"no URL":         {"says", "file:///etc/passwd", nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{status: c.status}
				var out bytes.Buffer
				invoke := instance(t, nil, &out, Options{Change: func(e *executor.Options) { e.Client = &http.Client{Transport: f} }})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				res, err := invoke(ctx, told(c.handler, c.url))
				if err != nil || res.RunID != 7 || len(f.got) != c.times {
					t.Fatalf("%+v %v, reported %q", res, err, f.got)
				}
				for _, got := range f.got {
					if !strings.HasPrefix(got, "POST "+to+" ") || !strings.HasSuffix(got, c.want) {
						t.Errorf("%s, want %s", got, c.want)
					}
				}
				if strings.Contains(out.String(), "key=") {
					t.Errorf("the log has the key: %s", &out)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // no request succeeds until the end
		f := &fake{status: make([]int, 1000)}
		invoke := instance(t, nil, io.Discard, Options{Change: func(e *executor.Options) { e.Client = &http.Client{Transport: f} }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if res, err := invoke(ctx, told("says", to)); err != nil || res.Message != "said p" || time.Since(began) > time.Minute ||
			len(f.got) < 10 {
			t.Errorf("after %s: %+v %v, %d tries", time.Since(began), res, err, len(f.got))
		}
	})
}
