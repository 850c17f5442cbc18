package console_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
)

const goodPassword = "correct horse"

// person creates a user with a password and grants.
func (s *site) person(name string, grants ...access.Grant) {
	s.t.Helper()
	s.newcomer(name, grants...)
	list, err := access.Accounts.Read(s.t.Context(), s.E, name)
	check.OK(s.t, err)
	acc := list[name]
	acc.MustChange = false
	check.OK(s.t, access.Accounts.Save(s.t.Context(), s.E, acc.Rev, acc))
}

// newcomer creates a user who must change the password.
func (s *site) newcomer(name string, grants ...access.Grant) {
	s.t.Helper()
	password := goodPassword
	_, _, err := s.access.Save(s.t.Context(), access.ByMachine(true), access.Spec{Name: name, Grants: &grants, Password: &password})
	check.OK(s.t, err)
}

// logInAs logs out, and logs in as a user.
func (s *site) logInAs(name string) *httptest.ResponseRecorder {
	s.t.Helper()
	clear(s.cookies)
	return s.post("/console/login", url.Values{"name": {name}, "password": {goodPassword}, "to": {"/console/jobs"}})
}

// TestLogInAsAPerson: a login by name and password starts a session that scripts cannot read and other sites cannot
// use.
func TestLogInAsAPerson(t *testing.T) {
	s := newConsole(t)
	s.person("ann", access.Grant{Role: access.Viewer})
	w := s.logInAs("ann")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/console/jobs" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/console/" || c.Secure {
		t.Errorf("%+v", c)
	}
	known := w.Result().Cookies()[1]
	if known.Name != "tickring_known" || !known.HttpOnly || known.SameSite != http.SameSiteStrictMode || known.Path != "/console/login" ||
		known.Secure || known.MaxAge != 90*24*3600 {
		t.Errorf("%+v", known)
	}
	proxied := console.New(console.Options{API: s.api, Access: s.access, URL: "https://jobs.example", Log: slog.New(slog.DiscardHandler)})
	for at, c := range map[string]struct {
		h      http.Handler
		secure bool
	}{"https://console.test": {s.h, true}, "http://jobs.example": {proxied, true}, "http://jobs.example:81": {proxied, false},
		"http://127.0.0.1:7700": {proxied, false}} {
		r := httptest.NewRequest(http.MethodPost, at+"/console/login", strings.NewReader("name=ann&password=correct+horse"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		over := httptest.NewRecorder()
		c.h.ServeHTTP(over, r)
		if len(over.Result().Cookies()) == 0 {
			t.Errorf("%s: %d %s", at, over.Code, over.Body)
		}
		for _, k := range over.Result().Cookies() {
			check.Equal(t, k.Secure, c.secure, "%s: the cookie %s has Secure", at, k.Name)
		}
	}
	secret := s.cookies["tickring_session"]
	if w := s.get("/console/jobs"); w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
	s.post("/console/logout", nil)
	s.cookies["tickring_session"] = secret
	if w := s.get("/console/jobs"); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `name="password"`) {
		t.Errorf("a session that was ended: %d", w.Code)
	}
	clear(s.cookies)
	for _, form := range []url.Values{{"name": {"ann"}, "password": {"wrong"}}, {"name": {"nobody"}, "password": {goodPassword}}, {},
		{"token": {"wrong"}}, {"name": {"<script>"}, "password": {"x"}}} {
		w := s.post("/console/login", form)
		if w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) != 0 || strings.Contains(w.Body.String(), "<script>") {
			t.Errorf("%v: %d %v", form, w.Code, w.Result().Cookies())
		}
	}
}

// TestSharedMachine: a user who marks the browser as shared gets a session that ends with the browser. The browser is
// not marked as known, even if the first password is changed there.
func TestSharedMachine(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/users/lina", `{"grants": [{"role": "viewer"}], "password": "`+goodPassword+`"}`)
	s.says("/console/login", `name="shared"`)
	for shared, age := range map[string]int{"1": 0, "": 30 * 24 * 60 * 60} {
		s.cookies = map[string]string{}
		w := s.post("/console/login", url.Values{"name": {"lina"}, "password": {goodPassword}, "shared": {shared}})
		known := false
		for _, k := range w.Result().Cookies() {
			if known = known || k.Name == "tickring_known"; k.Name == "tickring_session" && (k.MaxAge != age || k.Value == "") {
				t.Errorf("%q: %s", shared, k)
			}
		}
		if w.Code != http.StatusSeeOther || known != (shared == "") {
			t.Errorf("%q: %d, known %t", shared, w.Code, known)
		}
	}
	s.newcomer("nora")
	for _, shared := range []string{"", "1", ""} { // in one browser, the last choice applies
		s.post("/console/login", url.Values{"name": {"nora"}, "password": {goodPassword}, "shared": {shared}})
		delete(s.cookies, "tickring_known")
		s.done("/console/account", url.Values{"do": {"password"}, "old": {goodPassword}, "password": {goodPassword + " 2"},
			"twice": {goodPassword + " 2"}})
		if known := s.cookies["tickring_known"] != ""; known != (shared == "") {
			t.Errorf("%q: after a new password known %t", shared, known)
		}
		s.done("/console/account", url.Values{"do": {"password"}, "old": {goodPassword + " 2"}, "password": {goodPassword},
			"twice": {goodPassword}})
		s.post("/console/logout", nil)
	}
	s.cookies = map[string]string{}
	s.post("/console/login", url.Values{"name": {"lina"}, "password": {goodPassword}, "shared": {"1"}})
	for _, k := range s.post("/console/login", url.Values{"elsewhere": {"1"}}).Result().Cookies() {
		if k.Name == "tickring_known" || k.MaxAge != 0 {
			t.Errorf("a user who continues in another tab: %s", k)
		}
	}
	s.says("/console/login", `name="shared" value="1" checked`)
	s.cookies = map[string]string{}
	w := s.post("/console/login", url.Values{"name": {"lina"}, "password": {"wrong wrong"}, "shared": {"1"}})
	if !strings.Contains(w.Body.String(), `name="shared" value="1" checked`) {
		t.Error("after a wrong password it has forgotten that others use the machine")
	}
}

// Over TLS the cookie of the session is for this host alone, and on port 443 the browser stays with TLS.
func TestSessionCookieIsOfThisHost(t *testing.T) {
	s := newConsole(t)
	s.person("ann", access.Grant{Role: access.Viewer})
	for base, c := range map[string]struct{ cookie, hsts string }{
		"http://console.test":       {"tickring_session", ""},
		"https://console.test":      {"__Host-tickring_session", "max-age=31536000"},
		"https://console.test:7700": {"__Host-tickring_session", ""},
	} {
		form := url.Values{"name": {"ann"}, "password": {goodPassword}}
		r := httptest.NewRequest("POST", base+"/console/login", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, r)
		check.Equal(t, w.Header().Get("Strict-Transport-Security"), c.hsts, "%s: HSTS", base)
		i := slices.IndexFunc(w.Result().Cookies(), func(k *http.Cookie) bool { return k.Name == c.cookie })
		if i < 0 {
			t.Errorf("%s: %d, cookies %v", base, w.Code, w.Result().Cookies())
			continue
		}
		k := w.Result().Cookies()[i]
		if host := strings.HasPrefix(k.Name, "__Host-"); host != k.Secure || host != (k.Path == "/") {
			t.Errorf("%s: %s", base, k)
		}
		r = httptest.NewRequest("GET", base+"/console/jobs", nil)
		r.AddCookie(&http.Cookie{Name: k.Name, Value: k.Value})
		w = httptest.NewRecorder()
		if s.h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("%s: with its cookie: %d", base, w.Code)
		}
	}
}

// TestLogInLink: the link that a server prints at its start logs in once, by a form that its page sends. A GET alone
// does not use it up.
func TestLogInLink(t *testing.T) {
	s := newConsole(t)
	clear(s.cookies)
	link := "/console/once/" + s.access.Once()
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		w := s.do(httptest.NewRequest(method, "http://console.test"+link, nil))
		if w.Code != http.StatusOK || s.cookies["tickring_session"] != "" || !strings.Contains(w.Body.String(), `method="post" data-once`) {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
	if w := s.post(link, nil); w.Code != http.StatusSeeOther || s.cookies["tickring_session"] == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := s.get("/console/"); w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
	if w := s.get(link); w.Code != http.StatusSeeOther { // a second click while logged in
		t.Errorf("%d", w.Code)
	}
	clear(s.cookies)
	if w := s.post(link, nil); w.Code != http.StatusUnauthorized || s.cookies["tickring_session"] != "" {
		t.Errorf("a second time: %d", w.Code)
	}
}
