package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/executor/queueexec"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/queuetest"
	"github.com/tickring/tickring/wire"
)

// TestQueues runs the suite over the queues of a server.
func TestQueues(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, func(t *testing.T) queuetest.Harness {
		s := start(t, Options{})
		return queuetest.Harness{Scheduler: s.Manage(), Address: "queue:nightly",
			Consumer: func(*testing.T, http.RoundTripper) queueexec.Options {
				return queueexec.Options{Queue: "nightly", Servers: []string{s.URL()}}
			}}
	})
}

// TestQueueDoor checks which requests the endpoint rejects, and that a rejected request changes nothing.
func TestQueueDoor(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	s := start(t, Options{})
	for _, app := range []string{"reports", "billing"} {
		token := app + "-token"
		check.Call(t)(s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: app, Token: &token, Executors: []string{"queue:nightly"}}))
	}
	saveAll(t, s, manage.JobSpec{Def: core.Def{App: "reports", Name: "work", Handler: "work"}})
	asks := func(path, token, body string) (int, string) {
		t.Helper()
		return ask(t, "POST", s.URL()+path, body, wire.HeaderToken, token)
	}
	const receive, extend, ack, runs = "/v1/queue/receive", "/v1/queue/extend", "/v1/queue/ack", "/v1/queue/runs"
	good := `{"app":"reports","queue":"nightly","max":1,"waitSeconds":0,"visibilitySeconds":60}`
	for name, c := range map[string]struct {
		path, token, body string
		status            int
	}{
		"nothing there":         {receive, "reports-token", good, 200},
		"no token":              {receive, "", good, 401},
		"another app's token":   {receive, "billing-token", good, 401},
		"no app":                {receive, "reports-token", strings.Replace(good, "reports", "nobody", 1), 404},
		"not its queue":         {receive, "reports-token", strings.Replace(good, "nightly", "mail", 1), 404},
		"no queue":              {receive, "reports-token", strings.Replace(good, "nightly", "a b", 1), 400},
		"too many":              {receive, "reports-token", strings.Replace(good, `"max":1`, `"max":11`, 1), 400},
		"too long a wait":       {receive, "reports-token", strings.Replace(good, `Seconds":0`, `Seconds":9223372036854775807`, 1), 400},
		"too long a visibility": {receive, "reports-token", strings.Replace(good, ":60", ":43201", 1), 400},
		"no JSON":               {receive, "reports-token", "hello", 400},
		"too large":             {receive, "reports-token", `{"app":"` + strings.Repeat("x", 70<<10) + `"}`, 413},
		"no receipts":           {ack, "reports-token", good, 400},
		"bad receipt":           {extend, "reports-token", strings.Replace(good, "{", `{"receipts":["7"],`, 1), 400},
		"foreign receipt":       {extend, "reports-token", strings.Replace(good, "{", `{"receipts":["30282209332.1"],`, 1), 200},
		"bad run":               {runs, "reports-token", `{"app":"reports","runs":["x"]}`, 400},
		"a run that is gone":    {runs, "reports-token", `{"app":"reports","runs":["30282209332"]}`, 200},
	} {
		status, body := asks(c.path, c.token, c.body)
		if status != c.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
		texts.Equal(t, name, body)
	}
	// A queue belongs to its app, even if another app has a queue of the same name. Other apps cannot see its runs.
	id := s.trigger(t, "reports/work")
	var body string
	eventually(t, time.Minute, func() error {
		if _, body = asks(receive, "reports-token", good); !strings.Contains(body, `"receives":1`) {
			return fmt.Errorf("not there yet: %s", body)
		}
		return nil
	})
	var out struct {
		Runs []struct {
			Receipt string
			Run     struct {
				LogID    int64 `json:"logId"`
				Tickring struct{ Job, ReportURL string }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil || out.Runs[0].Run.LogID != int64(id) ||
		out.Runs[0].Run.Tickring.Job != "reports/work" || !strings.HasPrefix(out.Runs[0].Run.Tickring.ReportURL, s.URL()+"/v1/report/") {
		t.Errorf("%+v %v", out, err)
	}
	if _, body := asks(receive, "billing-token", strings.Replace(good, "reports", "billing", 1)); body != "{\"runs\":[]}\n" {
		t.Errorf("another app was handed %s", body)
	}
	if _, body := asks(ack, "billing-token", fmt.Sprintf(`{"app":"billing","queue":"nightly","receipts":[%q]}`,
		out.Runs[0].Receipt)); !strings.Contains(body, "lost") {
		t.Errorf("another app removed it: %s", body)
	}
	if _, body := asks(runs, "billing-token", fmt.Sprintf(`{"app":"billing","runs":["%d"]}`, id)); !strings.Contains(body, `"unknown"`) {
		t.Errorf("another app got %s", body)
	}
	// A consumer without the SDK reports at the URL that it was handed.
	ask(t, "POST", out.Runs[0].Run.Tickring.ReportURL, `{"state":"succeeded","message":"42 pages"}`)
	if r := s.run(t, id); r.State != core.Succeeded || r.Message != "42 pages" {
		t.Errorf("%+v", r)
	}
}
