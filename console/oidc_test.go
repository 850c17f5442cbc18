package console_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/oidc"
	"github.com/tickring/tickring/internal/testkit/check"
)

// withProvider gives the console a provider that does not answer.
func (s *site) withProvider() {
	s.t.Helper()
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	log := slog.New(slog.DiscardHandler)
	p, err := oidc.New(oidc.Settings{Issuer: away.URL, ClientID: "c", URL: "https://console.test", Name: "Ex<ample>"}, adminToken,
		oidc.Options{Log: log})
	check.OK(s.t, err)
	s.h = console.New(console.Options{API: s.api, Access: s.access, Provider: p, Log: log})
}

// TestProviderLink: the login page links to the provider, which then leads back to the requested page. Without a
// provider there is no link. If the provider is down, an error is shown in both languages.
func TestProviderLink(t *testing.T) {
	s := goldenConsole(t)
	clear(s.cookies)
	const start = "/console/oidc/start?to="
	if body := s.get("/console/jobs").Body.String(); strings.Contains(body, start) || s.get(start).Code != http.StatusNotFound {
		t.Errorf("%s", body)
	}
	s.withProvider()
	w := s.get("/console/jobs?q=a%26b")
	check.Contains(t, w.Body.String(), `href="https://console.test`+start+url.QueryEscape("/console/jobs?q=a%26b")+`"`)
	s.compare("the link", "p")
	s.cookies["tickring_lang"] = "zh"
	for _, path := range []string{start, "/console/oidc/callback?code=x&state=y"} {
		r := httptest.NewRequest(http.MethodGet, "http://console.test"+path, nil)
		r.AddCookie(&http.Cookie{Name: "tickring_lang", Value: "zh"})
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, r)
		body := w.Body.String()
		if w.Code != http.StatusServiceUnavailable && w.Code != http.StatusUnauthorized || !strings.Contains(body, `name="password"`) ||
			strings.Contains(body, "state=y") || strings.Contains(body, "127.0.0.1") {
			t.Errorf("%s: %d %s", path, w.Code, body)
		}
		s.texts.Equal(t, path, textOf(t, body, "[role=alert]"))
		for _, c := range w.Result().Cookies() {
			if c.Name != "tickring_oidc" || c.MaxAge >= 0 || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
				t.Errorf("%s: %+v", path, c)
			}
		}
	}
}

// TestUnsentByProvider: a form that was posted after its session ended stays on its page. The user logs in by the
// provider in another tab, and can then send it.
func TestUnsentByProvider(t *testing.T) {
	s := newConsole(t)
	s.withProvider()
	s.person("ann", access.Grant{Role: access.Admin})
	form := url.Values{"elsewhere": {"1"}, "unsent-at": {"/console/executors"}, "unsent": {"name=pay"}, "to": {"/console/executors"}}
	clear(s.cookies)
	w := s.post("/console/executors", url.Values{"name": {"pay"}})
	if body := w.Body.String(); !strings.Contains(body, `target="_blank"`) || !strings.Contains(body, `name="elsewhere"`) {
		t.Errorf("%d %s", w.Code, body)
	}
	if w := s.post("/console/login", form); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "name=pay") {
		t.Errorf("not logged in yet: %d %s", w.Code, w.Body)
	}
	s.logInAs("ann")
	if w := s.post("/console/login", form); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `name="name" value="pay"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
