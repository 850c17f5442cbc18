package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/wire"
)

// TestFewWaitToBeRefused: once the maximum number of clients wait for a rejection, each endpoint rejects further clients at once
// and closes their connections.
func TestFewWaitToBeRefused(t *testing.T) {
	s := start(t, Options{RefusedWait: time.Hour})
	wrong := rejectlog.Refusal{Door: rejectlog.API, Reason: rejectlog.Token, Remote: "127.0.0.1:1"}
	ctx, cancel := context.WithCancel(t.Context())
	gone, end := context.WithCancel(ctx)
	end()
	for range 20 {
		s.parts.Load().refused.Note(gone, wrong)
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	for range 64 {
		waiting.Go(func() { s.parts.Load().refused.Note(ctx, wrong) })
	}
	eventually(t, time.Minute, func() error {
		if !s.parts.Load().refused.Note(gone, wrong) {
			return errors.New("there is room to wait")
		}
		return nil
	})
	for _, door := range []string{"POST /api/registry", "POST /api/callback", "POST /v1/queue/runs", "POST /v1/report/4294967297?key=x",
		"GET /v1/apps"} {
		began := time.Now()
		method, path, _ := strings.Cut(door, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader("{}"))
		check.OK(t, err)
		r.Header.Set(wire.HeaderToken, "nobodys")
		res, err := http.DefaultClient.Do(r)
		check.OK(t, err)
		res.Body.Close()
		if d := time.Since(began); !res.Close || d > 10*time.Second {
			t.Errorf("%s: %s after %v; the connection is closed: %t", door, res.Status, d, res.Close)
		}
	}
}

// TestWhoIsRefusedLeavesATrace: the server logs executors that it rejects for their token, and counts rejections by endpoint.
func TestWhoIsRefusedLeavesATrace(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	var log lines
	s := start(t, Options{RefusedWait: time.Nanosecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
	shop, pay := "secret-of-shop", "secret-of-pay"
	for name, token := range map[string]*string{"shop": &shop, "pay": &pay} {
		spec := manage.AppSpec{Name: name, Token: token, Executors: []string{"queue:q"}}
		check.Call(t)(s.Manage().SaveApp(t.Context(), actor, spec))
	}
	asks := func(method, path, token, body string) string {
		t.Helper()
		_, answer := ask(t, method, s.URL()+path, body, wire.HeaderToken, token, "Authorization", "Bearer "+token)
		return answer
	}
	register := func(app, address string) string {
		return `{"registryGroup":"EXECUTOR","registryKey":"` + app + `","registryValue":"` + address + `"}`
	}
	registration := func(at string) string { return register("shop", "http://10.0.0."+at+":9999/") }
	for _, refused := range []string{
		asks("POST", "/api/registry", "nobodys", registration("1")),
		asks("POST", "/api/registry", pay, registration("2")),
		asks("POST", "/api/registry", shop, strings.Repeat(" ", 17<<10)),
		asks("POST", "/api/registry", shop, register("shop", "10.0.0.3:9999")),
		asks("POST", "/api/registry", shop, register("ship", "http://10.0.0.4:9999")),
		asks("POST", "/api/registry", shop, "<html>"),
		asks("POST", "/api/callback", "nobodys", `[]`),
		asks("POST", "/api/callback", shop, `[{"logId":`),
		asks("POST", "/api/addJob", shop, `{}`),
		asks("POST", "/v1/queue/runs", shop, `{`),
		asks("POST", "/v1/queue/receive", shop, `{"app":"shop","queue":"other"}`),
		asks("POST", "/v1/report/x", "", ``),
		asks("POST", "/v1/queue/runs", "nobodys", `{"app":"shop","queue":"q"}`),
		asks("POST", "/v1/queue/runs", pay, `{"app":"shop","queue":"q"}`),
		asks("POST", "/v1/report/4294967297?key=x", "", ``),
		asks("GET", "/v1/apps", "nobodys", ``),
	} {
		if !strings.Contains(refused, `"code":500`) && !strings.Contains(refused, `{"error":`) {
			t.Errorf("not refused: %s", refused)
		}
	}
	var list client.ExecutorList
	check.OK(t, json.Unmarshal([]byte(asks("GET", "/v1/apps/shop/executors", s.Token(), "")), &list))
	got := map[string]int{}
	for _, r := range list.Refused {
		if r.Why != "" {
			texts.Equal(t, r.App+" "+r.Address, r.Why)
		}
		if r.App == "shop" && r.From == "127.0.0.1" {
			got[r.Address] += r.Times
		}
	}
	if len(got) != 5 || got["10.0.0.3:9999"] != 1 || got["http://10.0.0.1:9999/"] != 1 ||
		got["http://10.0.0.2:9999/"] != 1 || got["queue:q"] != 2 {
		t.Errorf("executors that were refused: %+v", list.Refused)
	}
	var facts client.Facts
	if err := json.Unmarshal([]byte(asks("GET", "/v1/facts", s.Token(), "")), &facts); err != nil || len(facts.Refused) != 6 {
		t.Errorf("facts: %+v, %v", facts.Refused, err)
	}
	metrics := asks("GET", "/metrics", "", "")
	for _, line := range []string{`{endpoint="registry",reason="token"} 1`, `{endpoint="registry",reason="app"} 1`,
		`{endpoint="registry",reason="large"} 1`, `{endpoint="registry",reason="address"} 1`, `{endpoint="registry",reason="unknown"} 1`,
		`{endpoint="registry",reason="invalid"} 2`, `{endpoint="callback",reason="invalid"} 1`, `{endpoint="queue",reason="invalid"} 1`,
		`{endpoint="queue",reason="unknown"} 1`, `{endpoint="report",reason="invalid"} 1`,
		`{endpoint="callback",reason="token"} 1`, `{endpoint="queue",reason="token"} 1`, `{endpoint="queue",reason="app"} 1`,
		`{endpoint="report",reason="token"} 1`, `{endpoint="api",reason="token"} 1`} {
		check.Contains(t, metrics, "tickring_rejected_requests_total"+line, "no tickring_rejected_requests_total%s in the metrics", line)
	}
	for line, n := range map[string]int{`msg="request rejected"`: 15, "endpoint=registry reason=invalid": 1,
		`app=ship executor=http://10.0.0.4:9999 why="app ship`: 1} {
		if got := strings.Count(log.String(), line); got != n {
			t.Errorf("%d lines of one address in a minute have %s, want %d:\n%s", got, line, n, &log)
		}
	}
}

// An executor whose admin address ends with a slash, or has two, is answered as any other: it
// follows no redirect of a POST.
func TestSlashesInAdminAddresses(t *testing.T) {
	s := start(t, Options{})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{"//api/registry", "/xxl-job-admin//api/registry", "//xxl-job-admin///api/registry", "//api/registryRemove",
		"//api/callback", "/%2Fapi/registry"} {
		res, err := client.Post(s.URL()+path, wire.ContentType, strings.NewReader("{}"))
		check.OK(t, err)
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		envelope := res.StatusCode == 200 && strings.Contains(string(b), `{"code":500,"msg":`)
		if err != nil || envelope == strings.Contains(path, "%") {
			t.Errorf("%s: %s %s, %v", path, res.Status, b, err)
		}
	}
}
