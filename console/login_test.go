package console_test

import (
	"html"
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
	return s.posts("/console/login", url.Values{"name": {name}, "password": {goodPassword}, "to": {"/console/jobs"}}, http.StatusSeeOther)
}

// TestLogInAsAPerson: a login by name and password starts a session that scripts cannot read and other sites cannot
// use.
func TestLogInAsAPerson(t *testing.T) {
	s := newConsole(t)
	s.person("ann", access.Grant{Role: access.Viewer})
	w := s.logInAs("ann")
	check.Equal(t, w.Header().Get("Location"), "/console/jobs")
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/console/" || c.Secure {
		t.Errorf("%+v", c)
	}
	known := w.Result().Cookies()[1]
	if known.Name != "tickring_known" || !known.HttpOnly || known.SameSite != http.SameSiteStrictMode || known.Path != "/console/login" ||
		known.Secure || known.MaxAge != 90*24*3600 {
		t.Errorf("%+v", known)
	}
	secret := s.cookies["tickring_session"]
	s.gets("/console/jobs", http.StatusOK)
	s.post("/console/logout", nil)
	s.cookies["tickring_session"] = secret
	s.gets("/console/jobs", http.StatusUnauthorized, `name="password"`)
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
	check.Contains(t, w.Body.String(), `name="shared" value="1" checked`)
}

// TestSessionCookieIsOfThisHost: over TLS, with the server or with a proxy, the cookies are secure and the session's is for
// this host alone. On port 443 the browser stays with TLS.
func TestSessionCookieIsOfThisHost(t *testing.T) {
	s := newConsole(t)
	s.person("ann", access.Grant{Role: access.Viewer})
	direct := s.h
	s.remade(func(o *console.Options) { o.URL = "https://jobs.example" })
	const plain, secure, stay = "tickring_session", "__Host-tickring_session", "max-age=31536000"
	for base, c := range map[string]struct {
		h            http.Handler
		cookie, hsts string
	}{
		"http://console.test": {direct, plain, ""}, "https://console.test": {direct, secure, stay},
		"https://console.test:7700": {direct, secure, ""}, "http://jobs.example": {s.h, secure, stay},
		"http://jobs.example:81": {s.h, plain, ""}, "http://127.0.0.1:7700": {s.h, plain, ""},
	} {
		form := url.Values{"name": {"ann"}, "password": {goodPassword}}
		r := httptest.NewRequest("POST", base+"/console/login", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, r)
		check.Equal(t, w.Header().Get("Strict-Transport-Security"), c.hsts, "%s: HSTS", base)
		r = httptest.NewRequest("GET", base+"/console/jobs", nil)
		for _, k := range w.Result().Cookies() {
			check.Equal(t, k.Secure, c.cookie == secure, "%s: the cookie %s has Secure", base, k.Name)
			if k.Name == c.cookie {
				check.Equal(t, k.Path == "/", k.Secure, "%s: %s", base, k)
				r.AddCookie(&http.Cookie{Name: k.Name, Value: k.Value})
			}
		}
		w = httptest.NewRecorder()
		c.h.ServeHTTP(w, r)
		check.Equal(t, w.Code, http.StatusOK, "%s: with its cookie", base)
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
	s.posts(link, nil, http.StatusSeeOther)
	s.gets("/console/", http.StatusOK)
	s.gets(link, http.StatusSeeOther) // a second click while logged in
	clear(s.cookies)
	s.posts(link, nil, http.StatusUnauthorized)
	check.Equal(t, s.cookies["tickring_session"], "", "the session after a second time")
}

// TestAccount: users change their own password, sessions and tokens. A token is shown once, and a rejected form keeps
// the input.
func TestAccount(t *testing.T) {
	s := goldenConsole(t)
	s.newcomer("ann", access.Grant{App: "shop", Role: access.Operator})
	s.logInAs("ann")
	other := s.cookies["tickring_session"]
	for _, path := range []string{"/console/", "/console/jobs?app=shop", "/console/runs", "/console/find/list"} {
		check.Equal(t, s.get(path).Header().Get("Location"), "/console/account", "%s", path)
	}
	check.Equal(t, s.post("/console/jobs/shop/x/trigger", url.Values{}).Header().Get("Location"), "/console/account", "a trigger")
	s.shows("#must", "/console/account")
	s.posts("/console/settings", url.Values{"lang": {"en"}, "to": {"/console/account"}}, http.StatusSeeOther)
	s.wrong("/console/account", url.Values{"do": {"token"}, "name": {"ci"}, "for": {"1d"}}, http.StatusForbidden)
	s.posts("/console/logout", nil, http.StatusSeeOther)
	check.Equal(t, s.cookies["tickring_session"], "", "the session after a logout")
	s.logInAs("ann")
	strange := s.cookies["tickring_known"]
	s.wrong("/console/account", url.Values{"do": {"password"}, "old": {"wrong"}, "password": {"better horse"}, "twice": {"better horse"}},
		http.StatusBadRequest)
	s.wrong("/console/account", url.Values{"do": {"password"}, "old": {goodPassword}, "password": {"better horse"}, "twice": {"other horse"}},
		http.StatusBadRequest)
	before := s.cookies["tickring_session"]
	s.done("/console/account", url.Values{"do": {"password"}, "old": {goodPassword}, "password": {"better horse"}, "twice": {"better horse"}})
	mine := s.cookies["tickring_session"]
	if mine == before || !s.access.Ended(t.Context(), before) {
		t.Error("the secret of the session is still known after the password was changed")
	}
	if known := s.cookies["tickring_known"]; known == "" || known == strange {
		t.Error("the browser in which the password was changed is known no more")
	}
	s.gets("/console/jobs", http.StatusOK)
	s.cookies["tickring_session"] = other
	s.gets("/console/jobs", http.StatusUnauthorized)
	s.cookies["tickring_session"] = mine

	s.wrong("/console/account", url.Values{"do": {"token"}, "name": {"ci"}, "roles": {"shop:admin"}, "for": {"1d"}}, http.StatusForbidden,
		`value="shop:admin"`)
	w := s.post("/console/account", url.Values{"do": {"token"}, "name": {"ci"}, "roles": {"shop:viewer"}, "for": {"1d"}})
	check.Equal(t, strings.Count(w.Body.String(), "<!doctype html>"), 1, "pages")
	secret := cutOut(w.Body.String(), `id="secret">`, "<")
	who, err := s.access.Bearer(t.Context(), html.UnescapeString(secret))
	if err != nil || who.Name != "ann" || who.Role("shop") != access.Viewer {
		t.Errorf("%q: %+v, %v", secret, who, err)
	}
	s.never(s.get("/console/account").Body.String(), secret)
	s.done("/console/account", url.Values{"do": {"revoke-token"}, "name": {"ci"}})
	who, _ = s.access.Bearer(t.Context(), secret)
	check.Equal(t, who.Kind, access.Nobody)
	s.gets("/console/users", http.StatusForbidden)
	s.never(s.get("/console/jobs").Body.String(), `href="/console/users"`)
}

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
	s.posts("/console/login", form, http.StatusUnauthorized, "name=pay")
	s.logInAs("ann")
	s.posts("/console/login", form, http.StatusOK, `name="name" value="pay"`)
}

// firstForm returns the target and the values of the first form of a page.
func firstForm(body string) (to string, values url.Values) {
	form := cutOut(body, `<form class="stack" method="post" action="`, "</form>")
	to, form, _ = strings.Cut(form, `"`)
	return html.UnescapeString(to), fields(form)
}

// asSent encodes the values of a form with the line ends that browsers send.
func asSent(form url.Values) string { return strings.ReplaceAll(form.Encode(), "%0A", "%0D%0A") }

// TestTypedWhenTheSessionEnded: a posted form survives the end of its session, for each type of login, and also if
// the first login fails. It is handled only after the user confirms it.
func TestTypedWhenTheSessionEnded(t *testing.T) {
	s := newConsole(t)
	s.person("ann", access.Grant{Role: access.Admin})
	for name, way := range map[string]url.Values{
		"token": {"token": {adminToken}}, "password": {"name": {"ann"}, "password": {goodPassword}},
	} {
		clear(s.cookies)
		form := url.Values{"name": {name}, "do": {"save"}, "token": {"set"}, "secret": {"a-secret-of-it"}, "title": {"Größe <b>\"'+%"},
			"executors": {"http://10.0.0.7:9999\r\nhttp://10.0.0.8:9999"}}
		w := s.post("/console/executors?panel=new", form)
		if w.Code != http.StatusUnauthorized || w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
		_, in := firstForm(w.Body.String())
		in.Set("password", "wrong")
		in.Set("name", "ann")
		w = s.posts("/console/login", in, http.StatusUnauthorized)
		_, in = firstForm(w.Body.String())
		for field, values := range way {
			in[field] = values
		}
		w = s.post("/console/login", in)
		if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		s.gets("/console/executors/"+name, http.StatusNotFound) // it needs a confirmation
		to, again := firstForm(w.Body.String())
		if to != "/console/executors?panel=new" || asSent(again) != form.Encode() {
			t.Fatalf("%s %v", to, again)
		}
		s.posts(to, again, http.StatusSeeOther)
		s.says("/console/executors/"+name, "Größe <b>\"'+%")
	}
}

// TestUnsentIsOfHere: a form that is carried through a login goes only to a page of the console, is limited in size,
// and must be a form. Without one, the login continues as usual.
func TestUnsentIsOfHere(t *testing.T) {
	s := newConsole(t)
	clear(s.cookies)
	way := func(at, form string) url.Values {
		return url.Values{"token": {adminToken}, "to": {"/console/jobs"}, "unsent-at": {at}, "unsent": {form}}
	}
	for _, at := range []string{"https://evil.test/console/jobs/new", "//evil.test/console/", "/v1/jobs/shop/x", "javascript:alert(1)", "",
		"/console/../v1/jobs"} {
		w := s.post("/console/login", way(at, "a=b"))
		if w.Code != http.StatusBadRequest || s.cookies["tickring_session"] != "" || strings.Contains(w.Body.String(), "evil") {
			t.Errorf("%q: %d %s", at, w.Code, w.Body)
		}
	}
	s.posts("/console/login", way("/console/jobs/new", "%zz"), http.StatusBadRequest)
	big := url.Values{"script": {strings.Repeat("<+&\r\n", 60_000)}} // each byte becomes three in the request
	w := s.post("/console/jobs/new", big)
	_, in := firstForm(w.Body.String())
	in.Set("token", adminToken)
	w = s.posts("/console/login", in, http.StatusOK)
	if _, again := firstForm(w.Body.String()); asSent(again) != big.Encode() {
		t.Error("a big form does not come through whole")
	}
	clear(s.cookies)
	s.posts("/console/jobs/new", url.Values{"script": {strings.Repeat("x", 2<<20)}}, http.StatusRequestEntityTooLarge)
	check.Equal(t, s.post("/console/login", way("/console/jobs/new", "")).Header().Get("Location"), "/console/jobs", "with nothing typed")
}

// TestLook: the language and time zone that a user has selected apply in another browser, but do not replace a
// selection in that browser. Users who are not logged in can select them too.
func TestLook(t *testing.T) {
	s := newConsole(t)
	s.person("ann", access.Grant{Role: access.Viewer})
	s.logInAs("ann")
	s.post("/console/settings", url.Values{"lang": {"zh"}, "zone": {"utc"}})
	s.logInAs("ann") // without cookies
	look := func() string { return s.cookies["tickring_lang"] + " " + s.cookies["tickring_zone"] }
	check.Equal(t, look(), "zh utc", "another browser")
	clear(s.cookies)
	w := s.post("/console/settings", url.Values{"lang": {"en"}, "zone": {"mine"}, "to": {"/console/login"}})
	check.Equal(t, w.Code, http.StatusSeeOther, "not logged in")
	s.post("/console/login", url.Values{"name": {"ann"}, "password": {goodPassword}})
	check.Equal(t, look(), "en mine", "a browser with a choice of its own")
	s.post("/console/settings", url.Values{"lang": {"en"}, "zone": {"job"}})
	s.logInAs("ann")
	check.Equal(t, look(), "en ", "by the job's clock")
}
