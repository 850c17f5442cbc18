package server

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/executorhttp"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/wire"
)

// TestCall goes the whole way with a plain HTTP endpoint: its answer is the
// result; after a 202 it reports by itself, with nothing but the URL it got. The
// call options of the job win over the options of the app, and neither the result nor the log has a secret.
func TestCall(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	var log lines
	var mu sync.Mutex
	reports := map[string]string{}
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/now":
			body, _ := io.ReadAll(r.Body)
			h := r.Header
			fmt.Fprintf(w, "attempt %s of %s: %s %s %s %s", h.Get(wire.HeaderAttempt), body, h.Get("X-Team"), h.Get("X-App"), h.Get("X-Key"),
				h.Get("Authorization"))
		case "/later":
			mu.Lock()
			reports[r.Header.Get(send.HeaderRun)] = r.Header.Get(send.HeaderCallback)
			mu.Unlock()
			w.WriteHeader(http.StatusAccepted)
		}
	})
	s := start(t, Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	app := manage.AppSpec{Name: "web", Executors: []string{"call:" + web.URL},
		Call: &core.Call{Headers: map[string]string{"X-App": "pay", "X-Team": "all"}}}
	check.Call(t)(s.Manage().SaveApp(t.Context(), actor, app))
	spec := func(name, handler string) manage.JobSpec {
		return manage.JobSpec{Def: core.Def{App: "web", Name: name, Handler: handler}}
	}
	now := spec("now", "POST /now")
	now.Def.Params, now.Def.Template = "run {{runId}}", true
	now.Def.Call = &core.Call{Headers: map[string]string{"X-Team": "mine", "X-Key": "key-hunter2"}, Hidden: []string{"X-Key"},
		Auth: core.Auth{Bearer: "bearer-hunter2"}}
	saveAll(t, s, now, spec("later", "POST /later"))
	called := s.until(t, s.trigger(t, "web/now"), core.Succeeded)
	if want := "attempt 1 of run " + called.ID.String() + ": mine pay *** Bearer ***"; called.Message != want || called.Code != 200 {
		t.Errorf("awaited call: %+v, want %q", called, want)
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Error("a secret is in the log")
	}

	id := s.trigger(t, "web/later")
	s.until(t, id, core.Running)
	var url string
	eventually(t, time.Minute, func() error {
		mu.Lock()
		defer mu.Unlock()
		if url = reports[id.String()]; url == "" {
			return fmt.Errorf("the call has not arrived")
		}
		return nil
	})
	other := strings.Replace(url, id.String(), (id + 1).String(), 1)
	for _, c := range []struct {
		name, url, body string
		status          int
	}{
		{"another run", other, `{"state":"succeeded"}`, http.StatusUnauthorized},
		{"no key", url[:strings.Index(url, "?")], `{}`, http.StatusUnauthorized},
		{"a wrong state", url, `{"state":"queued"}`, http.StatusBadRequest},
		{"not JSON", url, `not json`, http.StatusBadRequest},
		{"too large", url, `{"message":"` + strings.Repeat("x", executorhttp.MaxReport) + `"}`, http.StatusRequestEntityTooLarge},
	} {
		status, body := ask(t, "POST", c.url, c.body)
		if status != c.status {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
		texts.Equal(t, c.name, body)
	}
	s.until(t, id, core.Running) // none of these changed anything
	if status, body := ask(t, "POST", url, `{"state":"failed","message":"the printer is on fire"}`); status != http.StatusOK {
		t.Errorf("report: %d %s", status, body)
	}
	if r := s.until(t, id, core.Failed); r.Reason != core.ReasonHandler || r.Message != "the printer is on fire" {
		t.Errorf("reported run: %+v", r)
	}
	if status, _ := ask(t, "POST", url, `{"state":"succeeded"}`); status != http.StatusOK { // a second report is taken and changes nothing
		t.Errorf("second report: %d", status)
	}
	s.until(t, id, core.Failed)
}

// TestDenyPrivate: if only an app's allow list opens loopback and private networks, that app's executors can register and are
// reached; another app's are not.
func TestDenyPrivate(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	s := start(t, Options{Policy: NamedPolicy(), BackoffMin: 10 * time.Millisecond})
	endpoint := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(wire.AppendReply(nil, 200, "")) })
	token := "executors-of-all"
	for app, allow := range map[string][]string{"named": {"127.0.0.0/8"}, "other": nil} {
		for _, scheme := range []string{"", "call:"} {
			name := app + strings.TrimSuffix(scheme, ":")
			spec := manage.AppSpec{Name: name, Executors: []string{scheme + endpoint.URL}, Allow: allow, Token: &token}
			check.Call(t)(s.Manage().SaveApp(t.Context(), actor, spec))
			job := manage.JobSpec{Def: core.Def{App: name, Name: "work", Handler: "/work"}}
			saveAll(t, s, job)
			want := core.Failed
			if allow != nil && scheme != "" {
				want = core.Succeeded
			} else if allow != nil {
				want = core.Running
			}
			r := s.until(t, s.trigger(t, name+"/work"), want)
			if allow == nil {
				check.Equal(t, r.Reason, core.ReasonNotAccepted, "%s", name)
				texts.Equal(t, name, r.Message, "dial tcp "+endpoint.Listener.Addr().String()+": ", "")
			}
		}
		g := registry.Registration{App: app, Address: "http://127.0.0.1:9999/", Token: token}
		err := s.parts.Load().reg.Register(t.Context(), g)
		if (err == nil) != (allow != nil) {
			t.Errorf("%s registers: %v", app, err)
		}
		if err != nil {
			texts.Equal(t, "registration", err.Error())
		}
	}
}
