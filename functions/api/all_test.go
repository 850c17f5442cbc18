package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/notify"
)

// TestAllDoors: behind a function URL one function handles the requests of the three behind an HTTP API, each by its own rules.
func TestAllDoors(t *testing.T) {
	e := memory.Open(t, memory.Options{})
	check.OK(t, e.PutApp(t.Context(), 0, core.App{Name: "billing", Token: "executor-token", Rev: 1}, core.Change{}))
	c := &lambdaboot.Config{AdminToken: "function-admin-token", Deployment: "eu-west-1/nightly", Plan: plan.AWS()}
	c.Policy.AllowLoopback = true
	log := slog.New(slog.DiscardHandler)
	door := doorOf(c, e, log)
	h := all(c, e, wire(c, e, door, notify.Options{}), door)
	const registration = `{"registryGroup":"EXECUTOR","registryKey":"billing","registryValue":"http://127.0.0.1:9999/"}`
	for _, ask := range []struct{ method, path, token, body, want string }{
		{"GET", "/v1/apps", "function-admin-token", "", "billing"},
		{"GET", "/v1/apps", "executor-token", "", "401"},
		{"PUT", "/v1/jobs/billing/close", "function-admin-token", `{"handler":"close","schedule":{"every":"1m"}}`, "created"},
		{"PUT", "/v1/jobs/billing/close", "function-admin-token", `{handler}`, "400"},
		{"POST", "/api/registry", "executor-token", registration, `"code":200`},
		{"POST", "/xxl-job-admin/api/registry", "executor-token", registration, `"code":200`},
		{"POST", "/api/registry", "function-admin-token", registration, `"code":500`},
		{"POST", "/api/callback", "executor-token", `[{"logId":4294967297,"logDateTim":0,"handleCode":200}]`, `"code":200`},
		{"POST", "/v1/report/4294967297?key=0", "", "{}", "401"},
		{"POST", "/v1/queue/runs", "executor-token", `{"app":"billing","runs":["4294967297"]}`, `"4294967297":"ended"`},
		{"POST", "/v1/queue/runs", "function-admin-token", `{"app":"billing"}`, "401"},
		{"POST", "/v1/queue/receive", "executor-token", `{"app":"billing","queue":"q"}`, "40"},
		{"GET", "/nothing", "function-admin-token", "", "404"},
		{"GET", "/console/jobs", "", "", "401"},
		{"GET", "/console/login", "", "", "<html"},
	} {
		r := httptest.NewRequest(ask.method, "http://x"+ask.path, strings.NewReader(ask.body))
		r.Header.Set("Authorization", "Bearer "+ask.token)
		r.Header.Set("XXL-JOB-ACCESS-TOKEN", ask.token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		check.Contains(t, w.Result().Status+" "+w.Body.String(), ask.want, "%s %s with %q", ask.method, ask.path, ask.token)
	}
	form := strings.NewReader(url.Values{"token": {c.AdminToken}}.Encode())
	r := httptest.NewRequest(http.MethodPost, "http://x/console/login", form)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	in := httptest.NewRecorder()
	h.ServeHTTP(in, r)
	r = httptest.NewRequest(http.MethodGet, "http://x/console/", nil)
	for _, k := range in.Result().Cookies() {
		r.AddCookie(k)
	}
	page := httptest.NewRecorder()
	if h.ServeHTTP(page, r); !strings.Contains(page.Body.String(), c.Deployment) {
		t.Errorf("the console does not say of which deployment it is: %d %s", page.Code, page.Body)
	}
	list, err := e.Executors(t.Context(), []string{"billing"})
	if err != nil || len(list["billing"]) != 1 {
		t.Errorf("registered: %v, %v", list, err)
	}
}

// TestPathsThatNoRouteNames: an HTTP API routes exact paths to registry and callback. An executor whose
// admin address ends with a slash posts to other paths, which come to this function.
func TestPathsThatNoRouteNames(t *testing.T) {
	e := memory.Open(t, memory.Options{})
	check.OK(t, e.PutApp(t.Context(), 0, core.App{Name: "billing", Token: "executor-token", Rev: 1}, core.Change{}))
	c := &lambdaboot.Config{AdminToken: "function-admin-token", Plan: plan.AWS()}
	c.Policy.AllowLoopback = true
	log := slog.New(slog.DiscardHandler)
	ask := lambdaboot.HTTP(wire(c, e, doorOf(c, e, log), notify.Options{}), log)
	for path, body := range map[string]string{
		"//api/registry":               `{"registryGroup":"EXECUTOR","registryKey":"billing","registryValue":"http://127.0.0.1:9999/"}`,
		"/xxl-job-admin//api/registry": `{"registryGroup":"EXECUTOR","registryKey":"billing","registryValue":"http://127.0.0.1:9998/"}`,
		"//api/callback":               `[{"logId":4294967297,"logDateTim":0,"handleCode":200}]`,
	} {
		event := events.APIGatewayV2HTTPRequest{Version: "2.0", RawPath: path, Body: body,
			Headers: map[string]string{"xxl-job-access-token": "executor-token"}}
		event.RequestContext.HTTP.Method = http.MethodPost
		if got, err := ask(t.Context(), event); err != nil || got.StatusCode != http.StatusOK || !strings.Contains(got.Body, `"code":200`) {
			t.Errorf("%s: %d %s %v", path, got.StatusCode, got.Body, err)
		}
	}
	if list, err := e.Executors(t.Context(), []string{"billing"}); err != nil || len(list["billing"]) != 2 {
		t.Errorf("registered: %v, %v", list, err)
	}
}

// TestAllDoorsAgree: a failure reported to the all-in-one function ends its run as at the callback endpoint: the third retry waits
// on the slow queue. A deployment that is not active puts no retry on the delay queue.
func TestAllDoorsAgree(t *testing.T) {
	for _, c := range []struct {
		holder string
		answer string
		slow   int
	}{{"eu-west-1/state", `"code":200`, 1}, {"eu-central-1/state", `"code":500`, 0}} {
		e := memory.Open(t, memory.Options{})
		id := core.NumberedRun(7, 1)
		ok := func(err error) {
			t.Helper()
			check.OK(t, err)
		}
		ok(e.PutApp(t.Context(), 0, core.App{Name: "billing", Token: "executor-token", Rev: 1}, core.Change{}))
		ok(e.PutGlobal(t.Context(), 0, core.Global{Partitions: 1, Readable: 1, Holder: c.holder, Generation: 2, Rev: 1}))
		ok(e.CreateRuns(t.Context(), []core.Run{{ID: id, App: "billing", State: core.Running, Cause: core.CauseAPI, Owner: "o",
			Attempt: 3, Retries: 9, First: id}})[0])
		config := &lambdaboot.Config{Plan: plan.AWS(), Deployment: "eu-west-1/state"}
		r := httptest.NewRequest("POST", "http://x/api/callback",
			strings.NewReader(`[{"logId":`+id.String()+`,"handleCode":500,"handleMsg":"no"}]`))
		r.Header.Set("XXL-JOB-ACCESS-TOKEN", "executor-token")
		w := httptest.NewRecorder()
		wire(config, e, doorOf(config, e, slog.New(slog.DiscardHandler)), notify.Options{}).ServeHTTP(w, r)
		depth := func(lane ring.Kind) int {
			due, waiting, _, err := e.Queue.Depth(t.Context(), lane)
			ok(err)
			return due + waiting
		}
		slow, fast := depth(ring.KindSlow), depth(ring.KindFires)
		if slow != c.slow || fast != 0 || !strings.Contains(w.Body.String(), c.answer) {
			t.Errorf("the data is of %s: %d on the slow lane, %d on the fast one, %s", c.holder, slow, fast, w.Body)
		}
	}
}
