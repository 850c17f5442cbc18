package server

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/wire"
)

// tracedLog is a log that is written and read at once.
type tracedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *tracedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *tracedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// An executor that is refused for its token is named by the server; each door counts.
func TestWhoIsRefusedLeavesATrace(t *testing.T) {
	var log tracedLog
	s := start(t, Options{RefusedWait: time.Nanosecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
	shop, pay := "secret-of-shop", "secret-of-pay"
	for name, token := range map[string]*string{"shop": &shop, "pay": &pay} {
		spec := manage.AppSpec{Name: name, Token: token, Executors: []string{"queue:q"}}
		if _, err := s.Manage().SaveApp(t.Context(), actor, spec); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(method, path, token, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(wire.HeaderToken, token)
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	registration := func(at string) string {
		return `{"registryGroup":"EXECUTOR","registryKey":"shop","registryValue":"http://10.0.0.` + at + `:9999/"}`
	}
	for _, refused := range []string{
		ask("POST", "/api/registry", "nobodys", registration("1")),
		ask("POST", "/api/registry", pay, registration("2")),
		ask("POST", "/api/registry", shop, strings.Repeat(" ", 17<<10)),
		ask("POST", "/api/callback", "nobodys", `[]`),
		ask("POST", "/v1/queue/runs", "nobodys", `{"app":"shop","queue":"q"}`),
		ask("POST", "/v1/queue/runs", pay, `{"app":"shop","queue":"q"}`),
		ask("POST", "/v1/report/4294967297?key=x", "", ``),
		ask("GET", "/v1/apps", "nobodys", ``),
	} {
		if !strings.Contains(refused, `"code":500`) && !strings.Contains(refused, "unauthorized") {
			t.Errorf("not refused: %s", refused)
		}
	}
	var list api.ExecutorList
	if err := json.Unmarshal([]byte(ask("GET", "/v1/apps/shop/executors", s.Token(), "")), &list); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range list.Refused {
		if r.App == "shop" && r.From == "127.0.0.1" {
			got[r.Address] += r.Times
		}
	}
	if len(got) != 3 || got["http://10.0.0.1:9999/"] != 1 || got["http://10.0.0.2:9999/"] != 1 || got["queue:q"] != 2 {
		t.Errorf("executors that were refused: %+v", list.Refused)
	}
	var facts api.Facts
	if err := json.Unmarshal([]byte(ask("GET", "/v1/facts", s.Token(), "")), &facts); err != nil || len(facts.Refused) != 3 {
		t.Errorf("facts: %+v, %v", facts.Refused, err)
	}
	metrics := ask("GET", "/metrics", "", "")
	for _, line := range []string{`{door="registry",reason="token"} 1`, `{door="registry",reason="app"} 1`,
		`{door="registry",reason="large"} 1`,
		`{door="callback",reason="token"} 1`, `{door="queue",reason="token"} 1`, `{door="queue",reason="app"} 1`,
		`{door="report",reason="token"} 1`, `{door="api",reason="token"} 1`} {
		if !strings.Contains(metrics, "tickring_refused_total"+line) {
			t.Errorf("no tickring_refused_total%s in the metrics", line)
		}
	}
	if n := strings.Count(log.String(), "msg=refused"); n != 1 {
		t.Errorf("%d lines of one address in a minute", n)
	}
}
