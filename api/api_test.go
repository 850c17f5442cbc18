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
	"regexp"
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
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/password"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memlistener"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
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
	faulty *faulty
	jobs   *usecasetest.Damaged
}

// faulty is a store whose lists of apps fail or panic on demand.
type faulty struct {
	store.Records
	do func() error
}

func (f *faulty) List(ctx context.Context, kind, after, before string, limit int) ([]store.Record, error) {
	if kind == store.KindApp && f.do != nil {
		if err := f.do(); err != nil {
			return nil, err
		}
	}
	return f.Records.List(ctx, kind, after, before, limit)
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
	s := *f.e
	f.faulty, f.jobs = &faulty{Records: s.Records}, &usecasetest.Damaged{Jobs: s.Jobs}
	s.Records, s.Jobs = f.faulty, f.jobs
	a := wiring.New(&s, wiring.Options{Plan: plan.Local()})
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
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func (f *fixture) must(method, path, body string) string {
	f.t.Helper()
	status, answer := f.ask(method, path, body)
	if status != http.StatusOK {
		f.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// varying is what differs between runs in a message: a revision, or the current time.
var varying = regexp.MustCompile(`(after|is|于) \d[\dTZ:+-]{12,}`)

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

// TestBadInput: each bad input gets the right status and an error that names the field and the allowed values. It
// changes nothing.
func TestBadInput(t *testing.T) {
	texts := golden.New(t)
	f := newFixture(t)
	f.shop()
	job := func(extra string) string { return `{"handler":"x",` + extra + `}` }
	const putJob = "PUT /v1/jobs/shop/fresh"
	const trigger = "POST /v1/jobs/shop/report/trigger"
	tests := []struct {
		name, ask, body string
		status          int
		code            core.Code
		field           string
	}{
		{"not JSON", putJob, `handler=x`, 400, core.CodeInvalid, ""},
		{"ends too early", putJob, `{"handler":`, 400, core.CodeInvalid, ""},
		{"nothing", putJob, ``, 400, core.CodeInvalid, ""},
		{"two values", putJob, `{"handler":"x"} {}`, 400, core.CodeInvalid, ""},
		{"a list", putJob, `[]`, 400, core.CodeInvalid, ""},
		{"wrong type", putJob, `{"handler":5}`, 400, core.CodeInvalid, "handler"},
		{"wrong type below", putJob, job(`"retry":{"max":"three"}`), 400, core.CodeInvalid, "retry.max"},
		{"wrong type in a list", "POST /v1/apply", `{"jobs":[{},{"schedule":{"any":[{"every":5}]}}]}`, 400, core.CodeInvalid,
			"jobs[1].schedule.any[0].every"},
		{"a fraction", putJob, job(`"retry":{"max":1.5}`), 400, core.CodeInvalid, "retry.max"},
		{"unknown field", putJob, job(`"handlr":"x"`), 400, core.CodeInvalid, "handlr"},
		{"logs that are kept sometimes", putJob, job(`"retention":{"days":7,"log":"sometimes"}`), 400, core.CodeInvalid, "retention.log"},
		{"unknown field below", putJob, job(`"retry":{"maximum":1}`), 400, core.CodeInvalid, "retry.maximum"},
		{"a channel that there is not", putJob, job(`"notify":{"to":["oncall"]}`), 404, core.CodeNotFound, "notify.to[0]"},
		{"an event of later", putJob, job(`"notify":{"on":["calendar-end"]}`), 400, core.CodeInvalid, "notify.on[0]"},
		{"a limit of none", putJob, job(`"overlap":{"group":"db"}`), 400, core.CodeInvalid, "overlap.limit"},
		{"many that wait for one", putJob, job(`"overlap":{"limit":1,"whenFull":"replace","max":5}`), 400, core.CodeInvalid, "overlap.max"},
		{"wrong time", trigger, `{"at":"tomorrow"}`, 400, core.CodeInvalid, "at"},
		{"zero time", trigger, `{"at":"0001-01-01T00:00:00Z"}`, 400, core.CodeInvalid, "at"},
		{"zero time below", putJob, job(`"schedule":{"any":[{"at":"0001-01-01T00:00:00Z"},{"every":"5s"}]}`), 400, core.CodeInvalid,
			"schedule.any[0].at"},
		{"zero instant", trigger, `{"at":"1970-01-01T00:00:00Z"}`, 400, core.CodeInvalid, "at"},
		{"zero instant of a zone", trigger, `{"at":"1970-01-01T00:59:59+01:00"}`, 400, core.CodeInvalid, "at"},
		{"zero instant in a query", "GET /v1/runs?to=1970-01-01T00:00:00Z", "", 400, core.CodeInvalid, "to"},
		{"zero day in a query", "GET /v1/reports?from=1970-01-01", "", 400, core.CodeInvalid, "from"},
		{"zero time in a query", "GET /v1/runs?to=0001-01-01T00:00:00Z", "", 400, core.CodeInvalid, "to"},
		{"zero date in a query", "GET /v1/reports?from=2026-11-20T00:00:00Z&to=0001-01-01", "", 400, core.CodeInvalid, "to"},
		{"too large", putJob, `{"handler":"` + strings.Repeat("x", api.MaxJob) + `"}`, 413, core.CodeTooLarge, ""},
		{"id out of range", "GET /v1/jobs/99999999999", "", 400, core.CodeInvalid, "id"},
		{"id of nothing", "GET /v1/jobs/0", "", 400, core.CodeInvalid, "id"},
		{"run out of range", "GET /v1/runs/99999999999999999999", "", 400, core.CodeInvalid, "run"},
		{"run negative", "POST /v1/runs/-1/kill", "", 400, core.CodeInvalid, "run"},
		{"unknown run", "GET /v1/runs/4294967296", "", 404, core.CodeNotFound, ""},
		{"unknown job", "GET /v1/jobs/shop/none", "", 404, core.CodeNotFound, ""},
		{"unknown job triggered", "POST /v1/jobs/shop/none/trigger", "", 404, core.CodeNotFound, ""},
		{"unknown app", "GET /v1/apps/none", "", 404, core.CodeNotFound, ""},
		{"job of an unknown app", "PUT /v1/jobs/none/fresh", job(`"schedule":{"every":"10s"}`), 404, core.CodeNotFound, "app"},
		{"name without a letter", "PUT /v1/jobs/shop/42", job(`"schedule":{"every":"10s"}`), 400, core.CodeInvalid, "name"},
		{"name of capitals", "PUT /v1/jobs/shop/Fresh", job(`"schedule":{"every":"10s"}`), 400, core.CodeInvalid, "name"},
		{"another name than the path", putJob, job(`"name":"other"`), 400, core.CodeInvalid, "name"},
		{"cron that never fires", putJob, job(`"schedule":{"cron":"0 0 0 31 2 ?"}`), 400, core.CodeInvalid, "schedule"},
		{"five fields in cron", putJob, job(`"schedule":{"cron":"30 2 * * *"}`), 400, core.CodeInvalid, "schedule.cron"},
		{"six fields in crontab", putJob, job(`"schedule":{"crontab":"0 30 2 * * ?"}`), 400, core.CodeInvalid, "schedule.crontab"},
		{"two kinds", putJob, job(`"schedule":{"crontab":"30 2 * * *","every":"5s"}`), 400, core.CodeInvalid, "schedule"},
		{"unknown zone", putJob, job(`"schedule":{"every":"10s","timezone":"Mars/Olympus"}`), 400, core.CodeInvalid, "schedule.timezone"},
		{"start after its end", putJob, job(`"schedule":{"every":"10s","from":"2027-02-01","until":"2027-01-01"}`), 400, core.CodeInvalid,
			"schedule.from"},
		{"negative timeout", putJob, job(`"timeout":"-5s"`), 400, core.CodeInvalid, "timeout"},
		{"timeout without a unit", putJob, job(`"timeout":"600"`), 400, core.CodeInvalid, "timeout"},
		{"timeout of a month", putJob, job(`"timeout":"30d"`), 400, core.CodeInvalid, "timeout"},
		{"params over 64 KB", putJob, job(`"params":"` + strings.Repeat("x", 64<<10+1) + `"`), 413, core.CodeTooLarge, "params"},
		{"params over 64 KB in a trigger", trigger, `{"params":"` + strings.Repeat("x", 64<<10+1) + `"}`, 413, core.CodeTooLarge, "params"},
		{"no handler", putJob, `{"schedule":{"every":"10s"}}`, 400, core.CodeInvalid, "handler"},
		{"handler that is no path", "PUT /v1/jobs/web/fresh", job(`"schedule":{"every":"10s"}`), 400, core.CodeInvalid, "handler"},
		{"unknown route", putJob, job(`"route":"nearest"`), 400, core.CodeInvalid, "route"},
		{"a name that exists", "PUT /v1/jobs/shop/report", job(`"ifRev":0`), 409, core.CodeConflict, ""},
		{"an old revision", "PUT /v1/jobs/shop/report", job(`"ifRev":7`), 409, core.CodeConflict, ""},
		{"deleted under an old revision", "DELETE /v1/jobs/shop/report?ifRev=7", "", 409, core.CodeConflict, ""},
		{"app with jobs deleted", "DELETE /v1/apps/shop", "", 409, core.CodeRefused, ""},
		{"executor that is no URL", "PUT /v1/apps/shop", `{"executors":["10.0.0.1:9999"]}`, 400, core.CodeInvalid, "executors[0]"},
		{"function that is none", "PUT /v1/apps/shop", `{"executors":["lambda:pay roll"]}`, 400, core.CodeInvalid, "executors[0]"},
		{"FIFO queue", "PUT /v1/apps/shop", `{"executors":["queue:pay.fifo"]}`, 400, core.CodeInvalid, "executors[0]"},
		{"range that is none", "PUT /v1/apps/shop", `{"allow":["10.0.0.0/99"]}`, 400, core.CodeInvalid, "allow[0]"},
		{"prune without a set", "POST /v1/apply", `{"prune":true}`, 400, core.CodeInvalid, "set"},
		{"limit that is no number", "GET /v1/runs?limit=many", "", 400, core.CodeInvalid, "limit"},
		{"limit too high", "GET /v1/runs?limit=5000", "", 400, core.CodeInvalid, "limit"},
		{"unknown state", "GET /v1/runs?state=done", "", 400, core.CodeInvalid, "state"},
		{"from that is no time", "GET /v1/runs?from=yesterday", "", 400, core.CodeInvalid, "from"},
		{"log from a line before the first", "GET /v1/runs/4294967297/log?from=-1", "", 400, core.CodeInvalid, "from"},
		{"log from a line that executors cannot count", "GET /v1/runs/4294967297/log?from=2147483648", "", 400, core.CodeInvalid, "from"},
		{"log from a line beyond the range", "GET /v1/runs/4294967297/log?from=18446744073709551617", "", 400, core.CodeInvalid, "from"},
		{"audit without a span", "GET /v1/audit", "", 400, core.CodeInvalid, "from"},
		{"audit backwards", "GET /v1/audit?from=2026-11-20T00:00:00Z&to=2026-11-19T00:00:00Z", "", 400, core.CodeInvalid, "from"},
		{"a shape of too long", "GET /v1/upcoming/histogram?for=8d", "", 400, core.CodeInvalid, "for"},
		{"a shape of too many buckets", "GET /v1/upcoming/histogram?buckets=289", "", 400, core.CodeInvalid, "buckets"},
		{"span without a unit", "GET /v1/upcoming?for=5", "", 400, core.CodeInvalid, "for"},
		{"cause of a schedule", trigger, `{"cause":"schedule"}`, 400, core.CodeInvalid, "cause"},
		{"trigger of the past", trigger, `{"at":"2020-01-01T00:00:00Z"}`, 400, core.CodeInvalid, "at"},
		{"no such path", "GET /v1/nothing", "", 404, core.CodeNotFound, ""},
		{"wrong method", "PATCH /v1/jobs", "", 405, core.CodeInvalid, "method"},
		{"token of a wrong type", "PUT /v1/apps/shop", `{"token":12345}`, 400, core.CodeInvalid, "token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := f.state()
			method, path, _ := strings.Cut(tt.ask, " ")
			status, answer := f.ask(method, path, tt.body)
			e := errorOf(t, answer)
			if status != tt.status || e.Code != string(tt.code) || e.Field != tt.field {
				t.Errorf("got %d %s at %q, want %d %s at %q: %s", status, e.Code, e.Field, tt.status, tt.code, tt.field, e.Message)
			}
			texts.Equal(t, tt.name, varying.ReplaceAllString(e.Message, "$1 #"))
			for _, inside := range []string{" ring", " lease", " claim", "json:", "runtime", "goroutine", "12345"} {
				if strings.Contains(answer, inside) {
					t.Errorf("answer %q shows %q", answer, inside)
				}
			}
			if after := f.state(); after != before {
				t.Errorf("something changed: %s", cmp.Diff(before, after))
			}
		})
	}
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
		f.faulty.do = tt.do
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

func TestJobs(t *testing.T) {
	f := newFixture(t)
	f.shop()
	ctx := t.Context()
	job, err := f.c.GetJob(ctx, "shop", "report")
	check.OK(t, err)
	want := client.Job{App: "shop", Name: "report", ID: job.ID, Handler: "report", State: "started", Rev: job.Rev, RevAt: job.RevAt,
		CreatedAt: job.CreatedAt,
		Schedule:  client.Schedule{Cron: "0 30 2 * * ?", Timezone: "Europe/Berlin"}, Description: job.Description, Next: job.Next,
		Warnings: job.Warnings, Misfire: "latest", Grace: "1m", Route: "first", Block: "serial", LostAfter: "10m",
		Retry:     client.Retry{Max: 2, Delay: "30s", Backoff: "constant", On: []string{"failed", "timed-out"}},
		Retention: client.Retention{Days: new(30), Log: "on-failure"}}
	check.Equal(t, cmp.Diff(want, job), "")
	if len(job.Next) != 5 || job.Description == "" {
		t.Errorf("next %v, words %q", job.Next, job.Description)
	}
	byNumber, err := f.c.GetJobByNumber(ctx, fmt.Sprint(job.ID))
	if err != nil || byNumber.Name != "report" {
		t.Errorf("by number: %+v, %v", byNumber, err)
	}
	// The author is in the change records. No answer has a token.
	f.must("PUT", "/v1/apps/shop", `{"token":"another-token"}`)
	if all := f.must("GET", "/v1/changes", "") + f.must("GET", "/v1/apps", "") + f.must("GET", "/v1/apps/shop", ""); strings.Contains(all,
		"another-token") || strings.Contains(all, "secret-token") {
		t.Errorf("a token is shown: %s", all)
	}
	res, err := f.c.PauseJob(ctx, "shop", "report", client.PauseRequest{Reason: "db upgrade", Until: time.Now().Add(time.Hour)})
	if err != nil || !res.Changed || res.State != "paused" || res.Until.IsZero() {
		t.Errorf("pause: %+v, %v", res, err)
	}
	changes, err := f.c.ListChanges(ctx, client.ListChangesParams{Job: "shop/report", Limit: 1})
	if err != nil || len(changes.Changes) != 1 || changes.Changes[0].By != "ann" || changes.Changes[0].Reason != "db upgrade" ||
		changes.Changes[0].Job != "shop/report" {
		t.Errorf("changes: %+v, %v", changes, err)
	}
	page, err := f.c.ListJobs(ctx, client.ListJobsParams{State: []string{"paused"}, Last: true})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Pause == nil || len(page.Jobs[0].Next) == 0 ||
		!page.Jobs[0].Next[0].After(page.Jobs[0].Pause.Until) {
		t.Errorf("paused: %+v, %v", page, err)
	}
	if res, err := f.c.ResumeJob(ctx, "shop", "report", client.ResumeRequest{}); err != nil || res.State != "started" {
		t.Errorf("resume: %+v, %v", res, err)
	}
	for _, path := range []string{"/v1/pause", "/v1/resume", "/v1/apps/shop/pause", "/v1/apps/shop/resume"} {
		f.must("POST", path, "")
	}
	upcoming, err := f.c.ListUpcoming(ctx, client.ListUpcomingParams{For: "7d"})
	if n := len(upcoming.Upcoming); err != nil || n < 6 || n > 8 || upcoming.Upcoming[0].Timezone != "Europe/Berlin" {
		t.Errorf("upcoming: %+v, %v", upcoming, err)
	}
	shape, err := f.c.GetUpcomingHistogram(ctx, client.GetUpcomingHistogramParams{For: "2d"})
	if err != nil || shape.Jobs != 1 || shape.Width != "10m" || len(shape.Apps) != 1 || len(shape.Apps[0].Fires) != 288 {
		t.Errorf("its shape: %+v, %v", shape, err)
	}
	preview, err := f.c.Preview(ctx, client.PreviewRequest{Schedule: client.Schedule{Crontab: "0 9 * * 1-5"}, Count: 3})
	if err != nil || len(preview.Next) != 3 {
		t.Errorf("preview: %+v, %v", preview, err)
	}
	audit, err := f.c.Audit(ctx, client.AuditParams{From: time.Now().Add(-time.Hour), To: time.Now()})
	if err != nil || audit.Jobs != 1 || audit.Unaccounted != 0 {
		t.Errorf("audit: %+v, %v", audit, err)
	}
	status, err := f.c.GetStatus(ctx)
	if err != nil || status.Version != "test" || status.Pause == nil {
		t.Errorf("status: %+v, %v", status, err)
	}
	execs, err := f.c.ListExecutors(ctx, "web")
	if err != nil || len(execs.Executors) != 1 || !execs.Executors[0].Fixed {
		t.Errorf("executors: %+v, %v", execs, err)
	}
	if text := f.must("GET", "/v1/openapi.yaml", ""); !strings.HasPrefix(text, "openapi: 3") {
		t.Errorf("document: %.40q", text)
	}
	del, err := f.c.DeleteJob(ctx, "shop", "report", client.DeleteJobParams{})
	if err != nil || del.Change != "deleted" {
		t.Errorf("delete: %+v, %v", del, err)
	}
	_, err = f.c.GetJob(ctx, "shop", "report")
	if r, ok := errors.AsType[*client.Error](err); !ok || r.Code != "not-found" || r.Status != 404 {
		t.Errorf("after the delete: %v", err)
	}
}

// TestPreviewOfAJob: the preview of a schedule that spreads by job number uses the number of the job.
func TestPreviewOfAJob(t *testing.T) {
	f := newFixture(t)
	f.shop()
	ctx := t.Context()
	hourly := client.JobSpec{Handler: "hourly", Schedule: client.Schedule{Every: "1h"}}
	for _, name := range []string{"one", "two"} {
		check.Call(t)(f.c.PutJob(ctx, "shop", name, hourly))
		job, err := f.c.GetJob(ctx, "shop", name)
		check.OK(t, err)
		own, err := f.c.Preview(ctx, client.PreviewRequest{Schedule: hourly.Schedule, JobID: job.ID, From: job.Next[0].Add(-time.Second),
			Count: 1})
		if err != nil || len(own.Next) != 1 || !own.Next[0].Equal(job.Next[0]) {
			t.Errorf("a preview of job %d, which comes next at %s: %+v, %v", job.ID, job.Next[0], own, err)
		}
	}
	if status, answer := f.ask("POST", "/v1/preview", `{"schedule":{"every":"1h"},"jobId":-1}`); status != 400 || !strings.Contains(answer, "jobId") {
		t.Errorf("a preview of no job: %d %s", status, answer)
	}
}

// A declared job belongs to its code until a user changes or deletes it, and again once it is returned to code.
func TestDeclared(t *testing.T) {
	texts := golden.New(t)
	f := newFixture(t)
	f.shop()
	const path, theirs = "/v1/jobs/shop/clean", `{"handler":"clean","params":"theirs"}`
	declare := func(params string, want int, change string) {
		t.Helper()
		status, answer := f.ask("PUT", path, `{"handler":"clean","declared":true,"params":"`+params+`"}`)
		if status != want || !strings.Contains(answer, change) {
			t.Errorf("declared with %s: %d %s", params, status, answer)
		}
		if status != 200 {
			texts.Equal(t, params, errorOf(t, answer).Message)
		}
	}
	declare("one", 200, "created")
	check.Contains(t, f.must("GET", path, ""), `"declared":"code"`, "a declared job")
	f.must("POST", "/v1/apply", `{"jobs":[{"app":"shop","name":"clean","handler":"clean","params":"theirs"}]}`)
	check.Contains(t, f.must("GET", path, ""), `"declared":"taken"`, "a job that was changed")
	declare("two", 409, "")
	f.must("POST", path+"/return-to-code", "")
	declare("two", 200, "updated")
	f.must("DELETE", path, "")
	check.Contains(t, f.must("GET", "/v1/apps/shop", ""), `"withheld":["clean"]`, "the app")
	declare("three", 409, "")
	f.must("POST", path+"/return-to-code", "")
	declare("three", 200, "created")
	f.must("PUT", path, theirs)
	if status, answer := f.ask("POST", "/v1/jobs/shop/none/return-to-code", ""); status != 404 {
		t.Errorf("of a job that was never there: %d %s", status, answer)
	}
}

func TestRuns(t *testing.T) {
	texts := golden.New(t)
	f := newFixture(t)
	f.shop()
	ctx := t.Context()
	at := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Second)
	empty := ""
	res, err := f.c.TriggerJob(ctx, "shop", "report", client.TriggerRequest{Key: "k1", At: at, Params: &empty, Cause: "manual"})
	if err != nil || !res.Waiting || res.Existing || res.Run.Params == nil || res.Run.Cause != "manual" || res.Run.By != "ann" ||
		res.Run.Job != "shop/report" {
		t.Fatalf("trigger: %+v, %v", res, err)
	}
	if !res.Run.ScheduledAt.Equal(at) || res.Run.LatenessMs != nil || fmt.Sprint(res.Run.LogID) != res.Run.ID {
		t.Errorf("run: %+v", res.Run)
	}
	again, err := f.c.TriggerJob(ctx, "shop", "report", client.TriggerRequest{Key: "k1"})
	if err != nil || !again.Existing || again.Run.ID != res.Run.ID {
		t.Errorf("again: %+v, %v", again, err)
	}
	for name, get := range map[string]func() (client.Run, error){
		"by ID":  func() (client.Run, error) { return f.c.GetRun(ctx, res.Run.ID) },
		"by key": func() (client.Run, error) { return f.c.GetRunByKey(ctx, "shop", "report", "k1") },
	} {
		if run, err := get(); err != nil || run.ID != res.Run.ID {
			t.Errorf("%s: %+v, %v", name, run, err)
		}
	}
	waiting, err := f.c.ListWaiting(ctx, "shop", "report", client.ListWaitingParams{})
	if err != nil || len(waiting.Runs) != 1 {
		t.Errorf("waiting: %+v, %v", waiting, err)
	}
	later, other := at.Add(time.Hour), "other"
	change, err := f.c.ChangeByKey(ctx, "shop", "report", "k1",
		client.TriggerChange{At: later, Params: &other, Addresses: &[]string{"http://10.0.0.9:9999"}})
	if err != nil || change.Run.ID != res.Run.ID || !change.Run.ScheduledAt.Equal(later) || *change.Run.Params != other || !change.Waiting ||
		len(change.Run.Addresses) != 1 {
		t.Errorf("change: %+v, %v", change, err)
	}
	change, err = f.c.ChangeRun(ctx, res.Run.ID, client.TriggerChange{At: at, Addresses: &[]string{}})
	if err != nil || !change.Run.ScheduledAt.Equal(at) || *change.Run.Params != other || len(change.Run.Addresses) != 0 {
		t.Errorf("change by ID: %+v, %v", change, err)
	}
	for body, field := range map[string]string{`{}`: "change", `{"slot":1}`: "slot", `{"at":"soon"}`: "at", "": ""} {
		status, answer := f.ask("PATCH", "/v1/runs/"+res.Run.ID, body)
		e := errorOf(t, answer)
		if status != 400 || e.Field != field {
			t.Errorf("%s: %d %s", body, status, answer)
		}
		texts.Equal(t, strings.TrimSpace("change of "+body), e.Message)
	}
	stop, err := f.c.CancelByKey(ctx, "shop", "report", "k1")
	if err != nil || !slices.Equal(stop.Cancelled, []string{res.Run.ID}) || stop.Job != "shop/report" {
		t.Errorf("cancel: %+v, %v", stop, err)
	}
	status, answer := f.ask("PATCH", "/v1/runs/"+res.Run.ID, `{"params":"x"}`)
	if status != 409 {
		t.Errorf("changed after its end: %d %s", status, answer)
	}
	texts.Equal(t, "change after the end", errorOf(t, answer).Message, res.Run.ID, "RUN")
	status, answer = f.ask("POST", "/v1/jobs/shop/report/trigger", "")
	if status != 200 || !strings.Contains(answer, `"cause":"api"`) {
		t.Errorf("without a body: %d %s", status, answer)
	}
	var second client.TriggerResult
	check.OK(t, json.Unmarshal([]byte(answer), &second))
	id, err := core.ParseRunID(second.Run.ID)
	check.OK(t, err)
	check.OK(t, f.finish.End(ctx,
		[]finish.Result{{Run: id, State: core.Failed, Reason: core.ReasonHandler, Code: 500, Message: "no"}})[0])
	runs, err := f.c.ListRuns(ctx, client.ListRunsParams{Job: "shop/report", State: []string{"failed", "lost"}})
	if err != nil || len(runs.Runs) != 1 || runs.Runs[0].Reason != "handler" || runs.Runs[0].Then == "" ||
		runs.Runs[0].Timezone != "Europe/Berlin" {
		t.Errorf("runs: %+v, %v", runs, err)
	}
	log, err := f.c.GetLog(ctx, second.Run.ID, client.GetLogParams{From: 2})
	if err != nil || log.Text != "two\nthree\n" || log.Next != 4 || !log.End {
		t.Errorf("log: %+v, %v", log, err)
	}
	_, err = f.c.GetRunAt(ctx, "shop", "report", "2026-01-01T02:30")
	if r, ok := errors.AsType[*client.Error](err); !ok || r.Code != "not-found" {
		t.Errorf("an instant without a run: %v", err)
	}
	if _, err := f.c.KillJob(ctx, "shop", "report", client.KillJobParams{}); err != nil {
		t.Errorf("kill: %v", err)
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

func TestApply(t *testing.T) {
	f := newFixture(t)
	f.shop()
	ctx := t.Context()
	apply := func(body client.ApplyRequest) client.ApplyResult {
		t.Helper()
		res, err := f.c.Apply(ctx, body)
		check.OK(t, err)
		return res
	}
	changes := func(res client.ApplyResult) (text string) {
		for _, a := range res.Apps {
			text += a.Name + ":" + a.Change + " "
		}
		for _, j := range res.Jobs {
			text += j.App + "/" + j.Name + ":" + j.Change
			if j.Error != nil {
				text += "(" + j.Error.Field + ")"
			}
			text += " "
		}
		return fmt.Sprint(text, res.Applied)
	}
	spec := client.JobSpec{App: "pay", Name: "salaries", Handler: "POST /run",
		Schedule: client.Schedule{Any: []client.Rule{{Every: "10s"}, {Crontab: "30 2 28 * *"}}}}
	body := client.ApplyRequest{Set: "prod", DryRun: true,
		Apps: []client.AppSpec{{Name: "pay", Executors: []string{"call:https://pay.example"}}},
		Jobs: []client.JobSpec{spec, {App: "shop", Name: "audit", Handler: "audit"}}}
	before := f.state()
	want := "pay:created pay/salaries:created shop/audit:created false"
	check.Equal(t, changes(apply(body)), want, "dry run")
	// One bad job rejects the whole request, including an app that does not exist yet.
	bad := body
	bad.DryRun = false
	for _, tt := range []struct {
		job  client.JobSpec
		want string
	}{
		{client.JobSpec{App: "pay", Name: "x", Handler: "no path"}, "(handler)"},
		{client.JobSpec{App: "pay", Name: "x", Handler: "POST /x", Schedule: client.Schedule{Cron: "0 0 0 31 2 ?"}}, "(schedule)"},
		{client.JobSpec{App: "pay", Name: "x", Handler: "POST /x", Schedule: client.Schedule{Cron: "* *"}}, "(schedule.cron)"},
		{client.JobSpec{App: "pay", Name: "x", Handler: "POST /x", Timeout: "5"}, "(timeout)"},
		{client.JobSpec{App: "none", Name: "x", Handler: "x"}, "(app)"},
		{client.JobSpec{App: "pay", Name: "x", Handler: "POST /x", Notify: client.Notify{To: []string{"nope"}}}, "(notify.to[0])"},
		{spec, "(name)"}, // named twice
	} {
		bad.Jobs = append(slices.Clone(body.Jobs), tt.job)
		if got := changes(apply(bad)); !strings.Contains(got, ":refused"+tt.want) || !strings.HasSuffix(got, " false") {
			t.Errorf("%+v: %s", tt.job, got)
		}
	}
	bad.Jobs, bad.Apps = body.Jobs, slices.Clone(body.Apps)
	bad.Apps[0].Notify.To = []string{"nope"}
	if res := apply(bad); res.Applied || res.Apps[0].Error == nil || res.Apps[0].Error.Field != "notify.to[0]" {
		t.Errorf("an app that notifies an unknown channel: %+v", res)
	}
	if after := f.state(); after != before {
		t.Errorf("something changed: %s", cmp.Diff(before, after))
	}
	body.DryRun = false
	check.Equal(t, changes(apply(body)), "pay:created pay/salaries:created shop/audit:created true", "apply")
	res := apply(body)
	check.Equal(t, changes(res), "pay:unchanged pay/salaries:unchanged shop/audit:unchanged true", "again")
	// A change has the old and the new value.
	body.DryRun, body.Prune = true, true
	body.Jobs = body.Jobs[:1]
	body.Jobs[0].Schedule = client.Schedule{Cron: "0 45 2 * * ?"}
	body.Apps[0].Title = "Pay"
	res = apply(body)
	check.Equal(t, changes(res), "pay:updated pay/salaries:updated shop/audit:deleted false", "dry run with prune")
	j := res.Jobs[0]
	if j.Old == nil || j.New == nil || len(j.Old.Schedule.Any) != 2 || j.New.Schedule.Cron != "0 45 2 * * ?" || j.New.ID != j.ID ||
		len(j.New.Next) != 1 {
		t.Errorf("old and new: %+v", j)
	}
	if a := res.Apps[0]; a.Old == nil || a.New == nil || a.New.Title != "Pay" || a.New.Set != "prod" {
		t.Errorf("old and new: %+v", a)
	}
	body.DryRun = false
	check.Equal(t, changes(apply(body)), "pay:updated pay/salaries:updated shop/audit:deleted true", "prune")
	// An object of another set is rejected by name.
	body.Set, body.Prune = "other", false
	check.Contains(t, changes(apply(body)), "pay:refused pay/salaries:refused", "another set")
	// An app that changes from registration to calls keeps its jobs.
	moved := client.ApplyRequest{Apps: []client.AppSpec{{Name: "shop", Executors: []string{"call:https://shop.example"}}},
		Jobs: []client.JobSpec{{App: "shop", Name: "report", Handler: "POST /report"}}}
	check.Equal(t, changes(apply(moved)), "shop:updated shop/report:updated true", "moved")
	back := client.ApplyRequest{Apps: []client.AppSpec{{Name: "shop"}}, Jobs: []client.JobSpec{{App: "shop", Name: "report",
		Handler: "report"}}}
	check.Equal(t, changes(apply(back)), "shop:updated shop/report:updated true", "moved back")
}

// TestRoundTrip: a job that is converted to the API and back is the same.
func TestRoundTrip(t *testing.T) {
	at := core.Instant(1800000000)
	rules := []core.When{{Kind: core.KindAt, At: at}, {Kind: core.KindEvery, Every: time.Hour}} // TestEveryKindIsConverted has all kinds
	for i, days := range []int{90, core.KeepForever} {
		j := core.Job{
			Def: core.Def{ID: 7, App: "a", Name: "b", Title: "t", Author: "lina", Labels: map[string]string{"k": "v"}, Set: "s",
				Handler: "h", Params: "p",
				Route: core.RouteHash, Block: core.BlockCoverEarly, Timeout: 10 * time.Minute,
				Retry: core.Retry{Max: 3, Delay: 30 * time.Second, Backoff: core.BackoffExponential, MaxDelay: 10 * time.Minute,
					On: []core.State{core.Failed, core.Lost}},
				LostAfter: 20 * time.Minute, Keep: core.Keep{Days: days}, Created: at.Time()},
			Sched: core.Sched{State: core.Paused, Rev: 5, RevAt: at.Time(), PauseBy: "ann", PauseWhy: "why", PauseUntil: at,
				Schedule: core.Schedule{Any: rules, Timezone: "Europe/Berlin", From: "2026-12-01", Until: "2027-12-31", Jitter: 2 * time.Minute},
				Misfire:  core.MisfireAll, Grace: 90 * time.Second, Deadline: 2 * time.Hour},
		}
		j.Normalize()
		raw, err := json.Marshal(api.JobOf(&j))
		check.OK(t, err)
		var read client.Job
		check.OK(t, json.Unmarshal(raw, &read))
		check.Equal(t, cmp.Diff(api.JobOf(&j), read), "", "%d", i)
		pause := &client.Pause{Of: "job", From: at.Time(), Until: at.Time(), By: "ann", Reason: "why"}
		if d := cmp.Diff(pause, read.Pause); d != "" || read.State != "paused" {
			t.Errorf("%d: %s %s", i, read.State, d)
		}
		if read.ID != 7 || read.Rev != 5 || !read.RevAt.Equal(at.Time()) || !read.CreatedAt.Equal(at.Time()) {
			t.Errorf("%d: %+v", i, read)
		}
		spec := manage.JobSpec{Def: j.Def, Schedule: j.Sched.Schedule, Misfire: j.Sched.Misfire, Grace: j.Sched.Grace, Deadline: j.Sched.Deadline}
		got, err := api.ManageJob(api.JobSpecOf(spec))
		check.OK(t, err)
		spec.Def.ID, spec.Def.Created = 0, time.Time{}
		check.Equal(t, cmp.Diff(spec, got), "", "%d", i)
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

// BenchmarkApply creates 10,000 jobs, and then applies them unchanged.
func BenchmarkApply(b *testing.B) {
	body := client.ApplyRequest{Apps: []client.AppSpec{{Name: "shop"}}}
	for i := range api.MaxApplyJobs {
		body.Jobs = append(body.Jobs, client.JobSpec{App: "shop", Name: fmt.Sprintf("job-%d", i), Handler: "h",
			Schedule: client.Schedule{Crontab: "*/5 8-18 * * 1-5"}})
	}
	raw, err := json.Marshal(body)
	check.OK(b, err)
	for b.Loop() {
		f := newFixture(b)
		f.must("POST", "/v1/apply", string(raw))
		f.must("POST", "/v1/apply", string(raw))
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

// TestKeep: a job without keep has 30 days, and 0 means forever. A change without keep resets it to 30, in a PUT and
// in an apply.
func TestKeep(t *testing.T) {
	f := newFixture(t)
	f.must("PUT", "/v1/apps/shop", "{}")
	days := func() int {
		t.Helper()
		job, err := f.c.GetJob(t.Context(), "shop", "report")
		if err != nil || job.Retention.Days == nil {
			t.Fatalf("%+v, %v", job.Retention, err)
		}
		return *job.Retention.Days
	}
	for _, tt := range []struct {
		keep string
		want int
	}{{"", 30}, {`,"retention":{"days":0}`, 0}, {`,"retention":{}`, 30}, {`,"retention":{"days":0}`, 0}, {"", 30}, {`,"retention":{"days":0}`, 0},
		{`,"retention":{"days":null}`, 30}, {`,"retention":{"days":7}`, 7}, {"", 30}} {
		f.must("PUT", "/v1/jobs/shop/report", `{"handler":"h"`+tt.keep+`}`)
		check.Equal(t, days(), tt.want, "PUT of %q N days", tt.keep)
		f.must("PUT", "/v1/jobs/shop/report", `{"handler":"other","retention":{"days":9}}`)
		f.must("POST", "/v1/apply", `{"jobs":[{"app":"shop","name":"report","handler":"h"`+tt.keep+`}]}`)
		check.Equal(t, days(), tt.want, "apply of %q N days", tt.keep)
	}
	for _, days := range []string{"-1", "3651"} {
		status, answer := f.ask("PUT", "/v1/jobs/shop/report", `{"handler":"h","retention":{"days":`+days+`}}`)
		if status != 400 || !strings.Contains(answer, `"field":"retention.days","value":"`+days+`"`) {
			t.Errorf("%s days: %d %s", days, status, answer)
		}
	}
}

// TestNotifyOfNobody: an empty list is rejected, because it would be stored as absent and the app's setting would
// apply.
func TestNotifyOfNobody(t *testing.T) {
	f := newFixture(t)
	f.must("PUT", "/v1/apps/shop", "{}")
	for _, field := range []string{"to", "on"} {
		status, answer := f.ask("PUT", "/v1/jobs/shop/report", `{"handler":"h","notify":{"`+field+`":[]}}`)
		if status != 400 || !strings.Contains(answer, `"field":"notify.`+field) {
			t.Errorf("%s: %d %s", field, status, answer)
		}
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
