package api_test

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
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/password"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memlistener"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/words"
)

const token = "sesame"

// fixture is the API over a store in memory.
type fixture struct {
	t      testing.TB
	e      *store.Store
	finish *finish.Finish
	h      http.Handler
	access *access.Access
	m      *people.People
	o      api.Options
	c      *client.Client
	log    *bytes.Buffer
	listed func() error // stands in for lists of apps; nil: they are read
	bad    core.JobID   // the job that cannot be read
}

type killer struct{}

func (killer) Kill(context.Context, *core.App, string, core.JobID) error {
	return errors.New("dial tcp 10.0.0.7: secret detail")
}

type logs struct{}

func (logs) Log(_ context.Context, _ *core.App, run *core.Run, from int) (string, int, bool, error) {
	lines := []string{"one\n", "two\n", "three\n"}
	if from > len(lines) {
		return "", from, true, nil
	}
	return strings.Join(lines[from-1:], ""), len(lines) + 1, true, nil
}

// AskClock answers for the executors of an app, except for one.
func (logs) AskClock(_ context.Context, _ *core.App, address string) (core.Clock, error) {
	switch address {
	case "http://dead:9999":
		return core.Clock{}, errors.New("connection refused")
	case "http://10.6.6.6:1":
		panic("an address that is not in the app was asked")
	}
	return core.Clock{Known: true, Ahead: 40}, nil
}

// newFixture returns a fixture with a server and a client of it.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := newHandler(t)
	server := httptest.NewServer(f.h)
	t.Cleanup(server.Close)
	var err error
	if f.c, err = client.New(server.URL, f.person("ann", access.Grant{Role: access.Admin}), client.Config{}); err != nil {
		t.Fatal(err)
	}
	return f
}

// newHandler returns a fixture without a server, so that time passes in a bubble.
func newHandler(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, e: memory.Open(t, memory.Options{}), log: &bytes.Buffer{}}
	s := hook.Over(f.e, func(_ context.Context, c *hook.Call, next func() []error) []error {
		if c.List == store.KindApp && f.listed != nil {
			return []error{f.listed()}
		}
		return next()
	})
	s = hook.UnreadableJobs(s, func(id core.JobID) bool { return id == f.bad })
	a := wiring.New(s, wiring.Options{Plan: plan.Local()})
	f.finish = a.Finish
	f.m = a.People(killer{}, people.Options{})
	f.access = a.Access(token, access.Options{Passwords: password.Argon2id{Passes: 1, KiB: 8}, Answer: time.Nanosecond})
	f.o = api.Options{Token: token, ReadToken: readToken, Access: f.access,
		Log: slog.New(slog.NewTextHandler(f.log, nil)),
		Facts: func(context.Context, words.Language) client.Facts {
			return client.Facts{Executors: []client.Executor{{App: "shop"}, {App: "pay"}}, Refused: []client.RefusedExecutor{{App: "pay"}}}
		},
		Status: func() client.Status { return client.Status{Now: time.Now().UTC(), Version: "test"} }}
	f.h = api.NewHandler(f.m, logs{}, f.o)
	return f
}

// person creates a user with grants, and returns a token of the user.
func (f *fixture) person(name string, grants ...access.Grant) string {
	f.t.Helper()
	ctx := context.Background()
	_, _, err := f.access.Save(ctx, access.ByMachine(true), access.Spec{Name: name, Grants: &grants})
	check.OK(f.t, err)
	_, secret, err := f.access.MakeToken(ctx, access.Who{Kind: access.Person, Name: name, Grants: grants}, access.TokenSpec{Name: "t"})
	check.OK(f.t, err)
	return secret
}

// ask sends one request and returns its status and body.
func (f *fixture) ask(method, path, body string) (int, string) {
	f.t.Helper()
	return f.as(token, method, path, body)
}

func (f *fixture) must(method, path, body string) string {
	f.t.Helper()
	status, answer := f.ask(method, path, body)
	if status != http.StatusOK {
		f.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// errorOf returns the error in the body of an answer.
func errorOf(t testing.TB, answer string) client.Error {
	t.Helper()
	var reply client.ErrorReply
	if err := json.Unmarshal([]byte(answer), &reply); err != nil || reply.Error.Code == "" || reply.Error.Message == "" {
		t.Errorf("not an error: %s, %v", answer, err)
	}
	return reply.Error
}

// shop creates an app with a job.
func (f *fixture) shop() {
	f.t.Helper()
	f.must("PUT", "/v1/apps/shop", `{"title":"Shop","token":"secret-token","allow":["10.0.0.0/8"]}`)
	f.must("PUT", "/v1/apps/web", `{"executors":["call:https://example.com"]}`)
	f.must("PUT", "/v1/jobs/shop/report",
		`{"handler":"report","schedule":{"cron":"0 30 2 * * ?","timezone":"Europe/Berlin"},"retry":{"max":2}}`)
}

// state returns all stored data, to check that nothing changed.
func (f *fixture) state() string {
	f.t.Helper()
	return f.must("GET", "/v1/apps", "") + f.must("GET", "/v1/jobs", "") + f.must("GET", "/v1/changes", "") +
		f.must("GET", "/v1/jobs/shop/report/waiting", "")
}

func TestToken(t *testing.T) {
	f := newFixture(t)
	for name, header := range map[string]string{"none": "", "wrong": "Bearer sesam", "no scheme": token, "another scheme": "Basic " + token,
		"empty": "Bearer "} {
		for _, path := range []string{"/v1/apps", "/v1/apply", "/v1/nothing", "/v1/openapi.yaml"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set("Authorization", header)
			w := httptest.NewRecorder()
			f.h.ServeHTTP(w, r)
			if path == "/v1/nothing" { // a wrong path is not reported as a wrong token
				if w.Code != http.StatusNotFound || errorOf(t, w.Body.String()).Code != string(core.CodeNotFound) {
					t.Errorf("%s %s: %d %s", name, path, w.Code, w.Body)
				}
				continue
			}
			if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `"unauthorized"`) ||
				w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s: %d %s", name, path, w.Code, w.Body)
			}
		}
	}
	closed := api.NewHandler(nil, nil, api.Options{})
	r := httptest.NewRequest("GET", "/v1/apps", nil)
	r.Header.Set("Authorization", "Bearer ")
	w := httptest.NewRecorder()
	if closed.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("without a token a request is accepted: %d", w.Code)
	}
}

func TestHeadAndOptions(t *testing.T) {
	f := newFixture(t)
	f.shop()
	server := httptest.NewServer(f.h)
	defer server.Close()
	for _, tt := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"HEAD", "/v1/jobs", 200, ""},
		{"HEAD", "/v1/apps/none", 404, ""},
		{"OPTIONS", "/v1/jobs", 204, "GET, HEAD, OPTIONS"},
		{"OPTIONS", "/v1/nothing", 404, ""},
		{"POST", "/v1/status", 405, "GET, HEAD, OPTIONS"},
		{"GET", "/v1/jobs/shop/report/trigger", 405, "POST, OPTIONS"},
	} {
		r, err := http.NewRequest(tt.method, server.URL+tt.path, nil)
		check.OK(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		check.OK(t, err)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status || resp.Header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d, Allow %q: %s", tt.method, tt.path, resp.StatusCode, resp.Header.Get("Allow"), body)
		}
	}
}

// TestInside: the details of an internal error go to the log, and not to the caller.
func TestInside(t *testing.T) {
	f := newFixture(t)
	for name, tt := range map[string]struct {
		do     func() error
		status int
		code   string
	}{
		"panic":     {func() error { panic("secret detail") }, 500, "internal"},
		"throttled": {func() error { return core.ErrThrottled }, 503, "unavailable"},
		"unknown":   {func() error { return errors.New("secret detail") }, 503, "unavailable"},
	} {
		f.log.Reset()
		f.listed = tt.do
		status, answer := f.ask("GET", "/v1/apps", "")
		if status != tt.status || !strings.Contains(answer, `"code":"`+tt.code+`"`) || strings.Contains(answer, "secret detail") {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		if name != "throttled" && !strings.Contains(f.log.String(), "secret detail") {
			t.Errorf("%s: the log has %q", name, f.log)
		}
	}
}

// TestOutOfTime: a request that timed out, or whose client left, can be sent again.
func TestOutOfTime(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, context.Canceled} {
		w := httptest.NewRecorder()
		api.WriteError(w, httptest.NewRequest("GET", "/v1/apps", nil), slog.New(slog.DiscardHandler), fmt.Errorf("read: %w", err))
		if w.Code != 503 || !strings.Contains(w.Body.String(), `"code":"unavailable"`) {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
}

// slowLogs answers when may is ready, and signals when it is asked.
type slowLogs struct{ asked, may chan struct{} }

func (s slowLogs) Log(ctx context.Context, _ *core.App, _ *core.Run, _ int) (string, int, bool, error) {
	select {
	case s.asked <- struct{}{}:
		<-s.may
	case <-s.may:
	}
	return "one\n", 2, true, ctx.Err()
}

// TestTailsAreFew: one caller can read half as many tails of logs at once as all callers together, and as many
// pieces. A caller over that limit gets an error that asks to retry; another caller gets an answer.
func TestTailsAreFew(t *testing.T) {
	for query, most := range map[string]int{"tail=1": 4, "from=1": 8} {
		t.Run(query, func(t *testing.T) {
			f := newFixture(t)
			f.shop()
			run, err := f.c.TriggerJob(t.Context(), "shop", "report", client.TriggerRequest{})
			check.OK(t, err)
			s := slowLogs{make(chan struct{}), make(chan struct{})}
			h := api.NewHandler(f.m, s, f.o)
			read := func(ctx context.Context, token string) int {
				r := httptest.NewRequestWithContext(ctx, "GET", "/v1/runs/"+run.Run.ID+"/log?"+query, http.NoBody)
				r.Header.Set("Authorization", "Bearer "+token)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w.Code
			}
			var all sync.WaitGroup
			defer all.Wait()
			for range most {
				all.Go(func() { read(t.Context(), token) })
				<-s.asked
			}
			impatient, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			answered := make(chan int, 1)
			all.Go(func() { answered <- read(impatient, token) })
			select {
			case <-s.asked:
				t.Error("one more is read")
			case status := <-answered:
				check.Equal(t, status, http.StatusServiceUnavailable, "one more")
			}
			vera := f.person("vera", access.Grant{Role: viewer})
			all.Go(func() { read(t.Context(), vera) })
			<-s.asked
			close(s.may)
			all.Wait()
			check.Equal(t, read(t.Context(), token), http.StatusOK, "afterwards")
		})
	}
}

// TestStateOfAJob: JSON has the revision, the times and the pause of a job. TestRoundTrip in package manifest has its settings.
func TestStateOfAJob(t *testing.T) {
	at := core.Instant(1800000000)
	raw, err := json.Marshal(api.JobOf(&core.Job{Def: core.Def{ID: 7, App: "a", Name: "b", Handler: "h", Created: at.Time()},
		Sched: core.Sched{State: core.Paused, Rev: 5, RevAt: at.Time(), PauseBy: "ann", PauseWhy: "why", PauseUntil: at}}))
	check.OK(t, err)
	var read client.Job
	check.OK(t, json.Unmarshal(raw, &read))
	pause := &client.Pause{Of: "job", From: at.Time(), Until: at.Time(), By: "ann", Reason: "why"}
	if d := cmp.Diff(pause, read.Pause); d != "" || read.State != "paused" {
		t.Errorf("%s %s", read.State, d)
	}
	if read.ID != 7 || read.Rev != 5 || !read.RevAt.Equal(at.Time()) || !read.CreatedAt.Equal(at.Time()) {
		t.Errorf("%+v", read)
	}
}

// TestDocument: the allowed values of a field in the document are those in core.
func TestDocument(t *testing.T) {
	f := newFixture(t)
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Enum  []string
					Items struct{ Enum []string }
				}
			}
		}
	}
	check.OK(t, yaml.Unmarshal([]byte(f.must("GET", "/v1/openapi.yaml", "")), &doc))
	var reasons []core.Reason
	for _, s := range core.States {
		reasons = append(reasons, core.Reasons[s]...)
	}
	slices.Sort(reasons)
	reasons = slices.Compact(reasons) // two states have cancelled
	for _, tt := range []struct {
		schema, field string
		want          []string
	}{
		{"Run", "state", texts(core.States)},
		{"Run", "cause", texts(core.Causes)},
		{"Run", "reason", texts(reasons)},
		{"JobPolicy", "misfire", texts(core.Misfires)},
		{"JobPolicy", "route", texts(core.Routes)},
		{"JobPolicy", "block", texts(core.Blocks)},
		{"Retry", "backoff", texts(core.Backoffs)},
		{"Retry", "on", texts(core.RetryOns)},
		{"StateResult", "state", texts(core.JobStates)},
	} {
		p := doc.Components.Schemas[tt.schema].Properties[tt.field]
		got := append(p.Enum, p.Items.Enum...)
		slices.Sort(got)
		slices.Sort(tt.want)
		check.Equal(t, cmp.Diff(tt.want, got), "", "%s.%s", tt.schema, tt.field)
	}
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

func TestNoServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	c, err := client.New(server.URL, token, client.Config{})
	check.OK(t, err)
	_, err = c.GetStatus(t.Context())
	if err == nil || errors.Is(err, client.ErrNoAnswer) {
		t.Errorf("another server: %v", err)
	}
	golden.New(t).Equal(t, "another server", fmt.Sprint(err), server.Listener.Addr().String(), "HOST")
	server.Close()
	if _, err := c.GetStatus(t.Context()); !errors.Is(err, client.ErrNoAnswer) {
		t.Errorf("no server: %v", err)
	}
	for _, endpoint := range []string{"", "127.0.0.1:7700", "ftp://x", "http://"} {
		if _, err := client.New(endpoint, token, client.Config{}); err == nil {
			t.Errorf("endpoint %q is taken", endpoint)
		}
	}
}

// TestUnreadableAppIsNamed: a list names an unreadable app with the reason, and has the other apps. A request for the
// app alone fails, but not with "not found".
func TestUnreadableAppIsNamed(t *testing.T) {
	f := newFixture(t)
	f.shop()
	f.must("PUT", "/v1/apps/ledger", `{}`)
	memory.DamageApp(t, f.e.Records, "ledger")
	list, err := f.c.ListApps(t.Context())
	failed := []client.UnreadableApp{{Name: "ledger", Message: "unexpected end of JSON input"}}
	if err != nil || len(list.Apps) != 2 || !slices.Equal(list.Failed, failed) {
		t.Errorf("%+v %v", list, err)
	}
	status, text := f.ask("GET", "/v1/apps/ledger", "")
	if status != 409 {
		t.Errorf("%d %s", status, text)
	}
	golden.New(t).Equal(t, "one app", errorOf(t, text).Message)
	if status, text := f.ask("GET", "/v1/jobs", ""); status != 200 || !strings.Contains(text, `"report"`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestBodyThatDoesNotCome: the wait for a body ends, and so does the connection. Without a token there is no wait.
func TestBodyThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newHandler(t)
		f.shop()
		inner := memlistener.Listen()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = struct{ io.ReadCloser }{r.Body} // as internal/connlimit does: net/http does not recognize the body as its own
			f.h.ServeHTTP(w, r)
		})}
		var serving sync.WaitGroup
		serving.Go(func() { srv.Serve(inner) })
		defer serving.Wait()
		defer srv.Close()
		for _, c := range []struct {
			token  string
			after  time.Duration
			status int
		}{{token, 10 * time.Second, http.StatusBadRequest}, {"wrong", 0, http.StatusUnauthorized}} {
			began, here := time.Now(), inner.Dial()
			here.SetDeadline(began.Add(time.Minute))
			fmt.Fprintf(here, "POST /v1/jobs/shop/report/trigger HTTP/1.1\r\nHost: x\r\n"+
				"Authorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{", c.token)
			res, err := http.ReadResponse(bufio.NewReader(here), nil)
			if err != nil {
				t.Fatalf("%s: no answer: %v", c.token, err)
			}
			if d := time.Since(began); res.StatusCode != c.status || d != c.after || !res.Close {
				t.Errorf("%s: after %v: %d, closes %v", c.token, d, res.StatusCode, res.Close)
			}
			here.Close()
		}
	})
}
