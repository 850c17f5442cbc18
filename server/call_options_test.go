package server

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestCallOptions: the call options of a job and its app, templates included, reach the endpoint. Secrets appear in no API
// response, log, audit record or endpoint answer.
func TestCallOptions(t *testing.T) {
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, "%s %s %s %s %s", b, r.Header.Get("X-Team"), r.Header.Get("X-App"), r.Header.Get("X-Key"), r.Header.Get("Authorization"))
	})
	const secret, key = "bearer-hunter2", "key-hunter2"
	const token = "admin-token-of-this-test"
	var log lines
	s := start(t, Options{Token: token, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	var answers strings.Builder
	asks := func(method, path string, body any, to any) {
		t.Helper()
		b, err := json.Marshal(body)
		check.OK(t, err)
		status, got := ask(t, method, s.URL()+path, string(b), "Authorization", "Bearer "+token)
		if answers.WriteString(got); status >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, status, got)
		}
		if to != nil {
			check.OK(t, json.Unmarshal([]byte(got), to))
		}
	}
	apply := func(call map[string]any) (res client.ApplyResult) {
		t.Helper()
		asks("POST", "/v1/apply", map[string]any{
			"apps": []map[string]any{{"name": "web", "executors": []string{"call:" + web.URL},
				"call": map[string]any{"headers": map[string]any{"X-App": "pay", "X-Team": "all"}, "expect": []int{200, 202}}}},
			"jobs": []map[string]any{{"app": "web", "name": "warm", "handler": "POST /x", "params": "run={{runId}}", "template": true,
				"call": call}}}, &res)
		return res
	}
	res := apply(map[string]any{"headers": map[string]any{"X-Team": "mine", "X-Key": key}, "hidden": []string{"X-Key"},
		"auth": map[string]any{"bearer": secret}})
	if res.Jobs[0].Error != nil || res.Jobs[0].Change != "created" {
		t.Fatalf("%+v", res.Jobs[0])
	}
	run := func() (r client.Run) {
		t.Helper()
		var started client.TriggerResult
		asks("POST", "/v1/jobs/web/warm/trigger", map[string]any{}, &started)
		eventually(t, 15*time.Second, func() error {
			if asks("GET", "/v1/runs/"+started.Run.ID, nil, &r); r.State != string(core.Succeeded) {
				return fmt.Errorf("%s %s %s", r.State, r.Reason, r.Message)
			}
			return nil
		})
		return r
	}
	r := run()
	if want := "run=" + r.ID + " mine pay *** Bearer ***"; r.Message != want || r.Code != 202 {
		t.Errorf("%d %q, want %q", r.Code, r.Message, want)
	}
	var job client.Job
	asks("GET", "/v1/jobs/web/warm", nil, &job)
	if job.Call.Headers["X-Team"] != "mine" || job.Call.Headers["X-Key"] != core.AsStored || job.Call.Auth.Bearer != core.AsStored {
		t.Errorf("%+v", job.Call)
	}
	// Applying the API's response again keeps the secret.
	if again := apply(map[string]any{"headers": job.Call.Headers, "hidden": job.Call.Hidden,
		"auth": job.Call.Auth}); again.Jobs[0].Change != "unchanged" ||
		again.Apps[0].Change != "unchanged" {
		t.Errorf("%+v", again)
	}
	if other := apply(map[string]any{"headers": job.Call.Headers, "auth": map[string]any{"bearer": secret + "-2"},
		"hidden": job.Call.Hidden}); other.Jobs[0].Change != "updated" {
		t.Errorf("%+v", other)
	}
	if r := run(); !strings.HasSuffix(r.Message, "mine pay *** Bearer ***") {
		t.Errorf("%q", r.Message)
	}
	if res := apply(map[string]any{"auth": map[string]any{"basic": map[string]any{"user": "u",
		"password": core.AsStored}}}); res.Jobs[0].Error == nil ||
		res.Jobs[0].Error.Field != "call.auth.basic.password" {
		t.Errorf("a missing secret: %+v", res.Jobs[0])
	}
	asks("GET", "/v1/changes?job=web/warm", nil, nil)
	asks("GET", "/v1/jobs", nil, nil)
	asks("GET", "/v1/apps", nil, nil)
	if !strings.Contains(answers.String(), "X-Key") || strings.Contains(answers.String()+log.String(), "hunter2") {
		t.Error("a secret came out")
	}
}
