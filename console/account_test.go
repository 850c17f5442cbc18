package console_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestAccount: users change their own password, sessions and tokens. A token is shown once, and a rejected form keeps
// the input.
func TestAccount(t *testing.T) {
	s := goldenConsole(t)
	s.newcomer("ann", access.Grant{App: "shop", Role: access.Operator})
	s.logInAs("ann")
	other := s.cookies["tickring_session"]
	for _, path := range []string{"/console/", "/console/jobs?app=shop", "/console/runs", "/console/find/list"} {
		if w := s.get(path); w.Header().Get("Location") != "/console/account" {
			t.Errorf("%s: a user with an initial password need not change it: %d", path, w.Code)
		}
	}
	if w := s.post("/console/jobs/shop/x/trigger", url.Values{}); w.Header().Get("Location") != "/console/account" {
		t.Errorf("a user with an initial password runs a job: %d %s", w.Code, w.Body)
	}
	s.shows("#must", "/console/account")
	if w := s.post("/console/settings", url.Values{"lang": {"en"}, "to": {"/console/account"}}); w.Code != http.StatusSeeOther {
		t.Errorf("settings: %d", w.Code)
	}
	s.wrong("/console/account", url.Values{"do": {"token"}, "name": {"ci"}, "for": {"1d"}}, http.StatusForbidden)
	if w := s.post("/console/logout", nil); w.Code != http.StatusSeeOther || s.cookies["tickring_session"] != "" {
		t.Errorf("log out: %d", w.Code)
	}
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
	if w := s.get("/console/jobs"); w.Code != http.StatusOK {
		t.Errorf("after the password is changed: %d", w.Code)
	}
	s.cookies["tickring_session"] = other
	if w := s.get("/console/jobs"); w.Code != http.StatusUnauthorized {
		t.Errorf("another session after a new password: %d", w.Code)
	}
	s.cookies["tickring_session"] = mine

	s.wrong("/console/account", url.Values{"do": {"token"}, "name": {"ci"}, "roles": {"shop:admin"}, "for": {"1d"}}, http.StatusForbidden,
		`value="shop:admin"`)
	w := s.post("/console/account", url.Values{"do": {"token"}, "name": {"ci"}, "roles": {"shop:viewer"}, "for": {"1d"}})
	if n := strings.Count(w.Body.String(), "<!doctype html>"); w.Code != http.StatusOK || n != 1 {
		t.Errorf("a token is made: %d, %d pages", w.Code, n)
	}
	secret := cutOut(w.Body.String(), `id="secret">`, "<")
	who, err := s.access.Bearer(t.Context(), html.UnescapeString(secret))
	if err != nil || who.Name != "ann" || who.Role("shop") != access.Viewer {
		t.Errorf("%q: %+v, %v", secret, who, err)
	}
	if strings.Contains(s.get("/console/account").Body.String(), secret) {
		t.Error("the token is shown again")
	}
	s.done("/console/account", url.Values{"do": {"revoke-token"}, "name": {"ci"}})
	if who, _ := s.access.Bearer(t.Context(), secret); who.Kind != access.Nobody {
		t.Errorf("%+v", who)
	}
	if w := s.get("/console/users"); w.Code != http.StatusForbidden {
		t.Errorf("the users page for a user without the role admin: %d", w.Code)
	}
	if strings.Contains(s.get("/console/jobs").Body.String(), `href="/console/users"`) {
		t.Error("the menu shows users to a user without the role admin")
	}
}

// TestPeoplePage: an admin creates, changes and deletes users. If two admins edit one user, the second gets a
// conflict.
func TestPeoplePage(t *testing.T) {
	s := goldenConsole(t)
	form := url.Values{"do": {"save"}, "name": {"lina"}, "roles": {"shop:editor+scripts\nweb:viewer"}, "password": {goodPassword}}
	s.done("/console/users?panel=new", form, "lina", "shop:editor+scripts web:viewer")
	s.compare("the new user", "#user-lina")
	s.wrong("/console/users?panel=new", form, http.StatusConflict, "shop:editor+scripts")
	bad := url.Values{"do": {"save"}, "name": {"<b>"}, "roles": {"viewer"}}
	s.wrong("/console/users?panel=new", bad, http.StatusBadRequest)
	body := s.get("/console/users?panel=user&name=lina").Body.String()
	rev := cutOut(body, `name="rev" value="`, `"`)
	edit := url.Values{"do": {"save"}, "name": {"lina"}, "rev": {rev}, "roles": {"viewer"}, "disabled": {"1"}}
	s.done("/console/users?panel=user&name=lina", edit)
	s.compare("the disabled user", "#user-lina")
	edit.Set("roles", "operator")
	body = s.wrong("/console/users?panel=user&name=lina", edit, http.StatusConflict)
	edit.Set("rev", cutOut(body, `name="rev" value="`, `"`))
	s.done("/console/users?panel=user&name=lina", edit, "operator")
	body = s.shows(".cli", "/console/users?panel=user&name=lina")
	s.never(body, `name="do" value="delete"`)
	const panel = "/console/users?name=lina&panel=delete"
	gone := hidden(t, s.shows("dialog", panel), panel)
	s.ask("PUT", "/v1/users/lina", `{"grants": [{"role": "operator"}], "disabled": false}`)
	body = s.wrong(panel, gone, http.StatusConflict)
	s.compare("the panel after a change", "dialog")
	gone = with(gone, "rev", cutOut(body, `name="rev" value="`, `"`))
	s.done(panel, gone)
	s.wrong(panel, gone, http.StatusNotFound)
	body = s.wrong("/console/users?panel=user&name=lina", edit, http.StatusConflict, `value="lina"`)
	s.compare("the panel after the deletion", "h2")
	edit.Set("rev", cutOut(body, `name="rev" value="`, `"`))
	s.done("/console/users?panel=user&name=lina", edit, "operator")
}

// TestFilterOfPeople: users are found by a part of their name and by a role in any app. Without users, the page shows
// how to create one.
func TestFilterOfPeople(t *testing.T) {
	s := goldenConsole(t)
	first := "tickring users set lina --role shop:editor --password first-password.txt"
	s.shows("p", "/console/users", first)
	s.in("zh")
	s.never(s.shows("th", "/console/users"), "5月") // the roles column is not translated as a month
	s.in("en")
	s.ask("PUT", "/v1/users/lina", `{"grants": [{"app": "shop", "role": "editor"}, {"role": "viewer"}]}`)
	s.ask("PUT", "/v1/users/omar", `{"grants": [{"role": "operator"}]}`)
	s.never(s.shows(".head", "/console/users"), first)
	for query, want := range map[string]string{"text=IN": "lina admin", "role=viewer": "lina", "role=operator": "omar",
		"text=o&role=editor": "",
		"text=zz":            "", "role=odd": ""} {
		body := s.says("/console/users?" + query)
		for _, name := range []string{"lina", "omar", "admin"} {
			shown := strings.Contains(body, `id="user-`+name+`"`)
			check.Equal(t, shown, strings.Contains(want, name), "%s: %s is shown", query, name)
		}
		if want == "" {
			s.compare("GET /console/users?"+query, "#first")
		}
	}
}
