package oidc_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coreos "github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/oidc"
	"github.com/tickring/tickring/internal/testkit/check"
)

// idp is a provider that answers a code with the token that token makes.
type idp struct {
	*httptest.Server
	away  atomic.Bool
	asked atomic.Int32
	token func(nonce string) string
	nonce string
}

func newIdp(t *testing.T) *idp {
	p := &idp{}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check.OK(t, err)
	s := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: coreos.RS256}}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		switch {
		case p.away.Load():
			http.Error(w, "secret detail", http.StatusBadGateway)
		case r.URL.Path == "/token":
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "bearer", "id_token": p.token(p.nonce)})
		default:
			s.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.Close)
	s.SetIssuer(p.URL)
	p.token = func(nonce string) string { return p.sign(key, "console", p.URL, nonce, time.Now().Add(time.Minute)) }
	return p
}

func (p *idp) sign(key *rsa.PrivateKey, audience, issuer, nonce string, end time.Time) string {
	return oidctest.SignIDToken(key, "k", coreos.RS256, fmt.Sprintf(
		`{"iss":%q,"aud":%q,"sub":"1","exp":%d,"nonce":"%s","preferred_username":"lina"}`, issuer, audience, end.Unix(), nonce))
}

const base = "https://jobs.example.com"

func newProvider(t *testing.T, issuer, adminToken string, now func() time.Time) *oidc.Provider {
	t.Helper()
	p, err := oidc.New(oidc.Settings{Issuer: issuer, ClientID: "console", URL: base + "/", Name: "Example"}, adminToken,
		oidc.Options{Now: now, Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	return p
}

func free() error { return nil }

func code(t *testing.T, what string, err error, want core.Code) {
	t.Helper()
	if err == nil || core.CodeOf(err) != want || strings.Contains(err.Error(), "detail") {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// TestTickets: a browser's ticket is valid for ten minutes at any process of the deployment that
// made it, and only with the state that the provider got.
func TestTickets(t *testing.T) {
	idp, now := newIdp(t), time.Now()
	clock := func() time.Time { return now }
	p, twin, stranger := newProvider(t, idp.URL, "token", clock), newProvider(t, idp.URL, "token", clock),
		newProvider(t, idp.URL, "another token", clock)
	where, kept, err := p.Start(t.Context(), "/console/jobs?q=1")
	check.OK(t, err)
	u, _ := url.Parse(where)
	q := u.Query()
	if q.Get("redirect_uri") != base+"/console/oidc/callback" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" ||
		q.Get("scope") != "openid profile email" || q.Get("client_id") != "console" || len(q.Get("state")) < 20 || len(q.Get("nonce")) < 20 {
		t.Errorf("%s", where)
	}
	idp.nonce = q.Get("nonce")
	back := url.Values{"state": {q.Get("state")}, "code": {"c"}}
	if who, to, err := twin.Finish(t.Context(), kept, back, free); err != nil || who.Subject != "1" || who.Issuer != idp.URL ||
		who.Claims["preferred_username"] != "lina" || to != "/console/jobs?q=1" {
		t.Errorf("%+v %s %v", who, to, err)
	}
	asked := idp.asked.Load()
	for what, c := range map[string]struct {
		p    *oidc.Provider
		kept string
		back url.Values
	}{
		"another deployment": {stranger, kept, back},
		"nothing kept":       {p, "", back},
		"nothing sealed":     {p, strings.Split(kept, ".")[0] + ".", back},
		"changed":            {p, "x" + kept, back},
		"long":               {p, strings.Repeat("x", 1<<20), back},
		"another state":      {p, kept, url.Values{"state": {q.Get("state") + "x"}, "code": {"c"}}},
		"no state":           {p, kept, url.Values{"code": {"c"}}},
	} {
		_, _, err := c.p.Finish(t.Context(), c.kept, c.back, free)
		code(t, what, err, core.CodeUnauthorized)
	}
	denied := url.Values{"state": back["state"], "error": {"access_denied"}, "error_description": {"detail"}}
	_, _, err = p.Finish(t.Context(), kept, denied, free)
	code(t, "refused", err, core.CodeForbidden)
	_, _, err = p.Finish(t.Context(), kept, back, func() error { return core.Errorf(core.CodeRefused, "too many") })
	code(t, "too many codes", err, core.CodeRefused)
	now = now.Add(oidc.TicketFor)
	_, _, err = p.Finish(t.Context(), kept, back, free)
	code(t, "too late", err, core.CodeUnauthorized)
	if n := idp.asked.Load(); n != asked {
		t.Errorf("the provider was asked %d times about foreign tokens", n-asked)
	}
	if _, kept, _ := p.Start(t.Context(), strings.Repeat("x", 1<<20)); len(kept) > 4000 {
		t.Errorf("a cookie of %d bytes", len(kept))
	}
}

// TestTokensAreVerified: a token of another client, issuer, key or login, an expired token, and no token are rejected.
func TestTokensAreVerified(t *testing.T) {
	idp, now := newIdp(t), time.Now()
	p := newProvider(t, idp.URL, "token", func() time.Time { return now })
	good := idp.token
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	check.OK(t, err)
	for what, c := range map[string]struct {
		token func(nonce string) string
		later time.Duration
		want  core.Code
	}{
		"good":          {token: good},
		"another nonce": {func(string) string { return good("other") }, 0, core.CodeUnauthorized},
		"no nonce":      {func(string) string { return good("") }, 0, core.CodeUnauthorized},
		"another key": {func(n string) string { return idp.sign(other, "console", idp.URL, n, now.Add(time.Hour)) }, 0,
			core.CodeUnauthorized},
		"issued for another client": {func(n string) string { return good(n + `","azp":"other`) }, 0, core.CodeUnauthorized},
		"issued for this one":       {token: func(n string) string { return good(n + `","azp":"console`) }},
		"none":                      {func(string) string { return "" }, 0, core.CodeUnauthorized},
		"ended":                     {good, 5 * time.Minute, core.CodeUnauthorized},
	} {
		where, kept, err := p.Start(t.Context(), "")
		check.OK(t, err)
		u, _ := url.Parse(where)
		idp.token, idp.nonce = c.token, u.Query().Get("nonce")
		now = now.Add(c.later)
		_, _, err = p.Finish(t.Context(), kept, url.Values{"state": u.Query()["state"], "code": {"c"}}, free)
		if now = now.Add(-c.later); c.want != "" {
			code(t, what, err, c.want)
		} else if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestProviderThatIsAway: a failed provider is retried after a pause, and not by each waiting login.
func TestProviderThatIsAway(t *testing.T) {
	idp, now := newIdp(t), time.Now()
	idp.away.Store(true)
	p := newProvider(t, idp.URL, "token", func() time.Time { return now })
	for range 5 {
		_, _, err := p.Start(t.Context(), "")
		code(t, "away", err, core.CodeUnavailable)
	}
	check.Equal(t, idp.asked.Load(), 1, "asked N times")
	idp.away.Store(false)
	now = now.Add(2 * time.Second)
	where, kept, err := p.Start(t.Context(), "")
	check.OK(t, err)
	u, _ := url.Parse(where)
	idp.away.Store(true)
	_, _, err = p.Finish(t.Context(), kept, url.Values{"state": u.Query()["state"], "code": {"c"}}, free)
	code(t, "away at the code", err, core.CodeUnavailable)
}

// TestSettings: invalid settings are rejected at the start.
func TestSettings(t *testing.T) {
	good := func() oidc.Settings {
		return oidc.Settings{Issuer: "https://id.example.com/pool", ClientID: "c", URL: "http://127.0.0.1:7700", RoleClaim: "groups",
			Roles: []string{"cn=devs,ou=x=shop:editor", "devs=pay:viewer", "ops=admin"}}
	}
	s := good()
	if err := s.Check(); err != nil || s.Name != "id.example.com" {
		t.Errorf("%+v %v", s, err)
	}
	if c, err := s.Claims(); err != nil || len(c.Roles) != 3 || c.Roles["cn=devs,ou=x"][0].App != "shop" {
		t.Errorf("%+v %v", c, err)
	}
	for what, break_ := range map[string]func(*oidc.Settings){
		"no issuer":         func(s *oidc.Settings) { s.Issuer = "" },
		"issuer in clear":   func(s *oidc.Settings) { s.Issuer = "http://id.example.com" },
		"no client":         func(s *oidc.Settings) { s.ClientID = "" },
		"no URL":            func(s *oidc.Settings) { s.URL = "" },
		"URL in clear":      func(s *oidc.Settings) { s.URL = "http://jobs.example.com" },
		"URL with a path":   func(s *oidc.Settings) { s.URL = "https://jobs.example.com/x" },
		"URL with a user":   func(s *oidc.Settings) { s.URL = "https://a@jobs.example.com" },
		"claim, no roles":   func(s *oidc.Settings) { s.Roles = nil },
		"roles, no claim":   func(s *oidc.Settings) { s.RoleClaim = "" },
		"no such role":      func(s *oidc.Settings) { s.Roles = []string{"devs=king"} },
		"a long client ID":  func(s *oidc.Settings) { s.ClientID = strings.Repeat("x", 1<<20) },
		"a long name":       func(s *oidc.Settings) { s.Name = strings.Repeat("x", 1<<20) },
		"thousands of them": func(s *oidc.Settings) { s.Roles = make([]string, 1000) },
	} {
		s := good()
		break_(&s)
		if err := s.Check(); err == nil || len(err.Error()) > 2000 {
			t.Errorf("%s: %v", what, err)
		}
	}
	env := oidc.Environment(func(name string) string {
		return map[string]string{"TICKRING_OIDC_ROLES": "cn=devs,ou=x=shop:editor; ops=admin;", "TICKRING_OIDC_SCOPES": "openid groups"}[name]
	})
	if !env.Set() || len(env.Roles) != 2 || env.Roles[1] != "ops=admin" || len(env.Scopes) != 2 || new(oidc.Settings).Set() {
		t.Errorf("%+v", env)
	}
}
