package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tickring/tickring/core/access"
)

const goodPassword = "correct horse"

// person makes one with a password and grants.
func (s *site) person(name string, grants ...access.Grant) {
	s.t.Helper()
	password := goodPassword
	_, _, err := s.access.Save(s.t.Context(), access.ByMachine(true), access.Spec{Name: name, Grants: &grants, Password: &password})
	if err != nil {
		s.t.Fatal(err)
	}
}

// logInAs logs out, and in as a person.
func (s *site) logInAs(name string) *httptest.ResponseRecorder {
	s.t.Helper()
	clear(s.cookies)
	return s.post("/console/login", url.Values{"name": {name}, "password": {goodPassword}, "to": {"/console/jobs"}})
}

// TestLogInAsAPerson: by name and password, whose session no script reads and no other site uses,
// until it is ended.
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
	r := httptest.NewRequest(http.MethodPost, "https://console.test/console/login", strings.NewReader("name=ann&password=correct+horse"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	over := httptest.NewRecorder()
	if s.h.ServeHTTP(over, r); !over.Result().Cookies()[0].Secure {
		t.Error("over TLS the cookie may go in clear")
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

// TestLogInLink: the link of the server's start logs in once.
func TestLogInLink(t *testing.T) {
	s := newConsole(t)
	clear(s.cookies)
	link := "/console/once/" + s.access.Once()
	if w := s.get(link); w.Code != http.StatusSeeOther || s.cookies["tickring_session"] == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := s.get("/console/"); w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
	if w := s.get(link); w.Code != http.StatusSeeOther { // a second click of who is in
		t.Errorf("%d", w.Code)
	}
	clear(s.cookies)
	if w := s.get(link); w.Code != http.StatusUnauthorized || s.cookies["tickring_session"] != "" {
		t.Errorf("a second time: %d", w.Code)
	}
}

// TestPagesAskAsWhoIsLoggedIn: who has no role for an app sees nothing of it, and does nothing that
// his role is not for.
func TestPagesAskAsWhoIsLoggedIn(t *testing.T) {
	s := newConsole(t)
	for _, app := range []string{"pay"} {
		if w := s.post("/console/executors?panel=new", url.Values{"name": {app}, "do": {"save"}, "token": {"keep"}}); w.Code >= 400 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	s.person("vera", access.Grant{App: "shop", Role: access.Viewer})
	s.logInAs("vera")
	w := s.get("/console/executors")
	if body := w.Body.String(); w.Code != http.StatusOK || strings.Contains(body, "pay") || !strings.Contains(body, "shop") {
		t.Errorf("%d: she sees pay, or not shop", w.Code)
	}
	if w := s.get("/console/executors/pay"); w.Code != http.StatusNotFound {
		t.Errorf("the page of pay: %d", w.Code)
	}
	if w := s.post("/console/executors/shop?panel=delete", url.Values{"do": {"delete"}}); w.Code != http.StatusForbidden {
		t.Errorf("she deletes shop: %d", w.Code)
	}
}
