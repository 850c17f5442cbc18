package console_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tickring/tickring/core/access"
)

// TestAccount: users change their own password, sessions and tokens. A token is shown once, and a rejected form keeps
// the input.
func TestAccount(t *testing.T) {
	s := newConsole(t)
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
	s.says("/console/account", "Another user set your password. Change it.")
	if w := s.post("/console/settings", url.Values{"lang": {"en"}, "to": {"/console/account"}}); w.Code != http.StatusSeeOther {
		t.Errorf("settings: %d", w.Code)
	}
	s.wrong("/console/account", url.Values{"do": {"token"}, "name": {"ci"}, "for": {"1d"}}, http.StatusForbidden, "change it first")
	if w := s.post("/console/logout", nil); w.Code != http.StatusSeeOther || s.cookies["tickring_session"] != "" {
		t.Errorf("log out: %d", w.Code)
	}
	s.logInAs("ann")
	strange := s.cookies["tickring_known"]
	s.wrong("/console/account", url.Values{"do": {"password"}, "old": {"wrong"}, "password": {"better horse"}, "twice": {"better horse"}},
		http.StatusBadRequest, "the password is wrong")
	s.wrong("/console/account", url.Values{"do": {"password"}, "old": {goodPassword}, "password": {"better horse"}, "twice": {"other horse"}},
		http.StatusBadRequest, "the two new passwords differ")
	before := s.cookies["tickring_session"]
	s.done("/console/account", url.Values{"do": {"password"}, "old": {goodPassword}, "password": {"better horse"}, "twice": {"better horse"}},
		"the password is changed")
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
		"a token cannot have a higher role than its owner", `value="shop:admin"`)
	w := s.post("/console/account", url.Values{"do": {"token"}, "name": {"ci"}, "roles": {"shop:viewer"}, "for": {"1d"}})
	if n := strings.Count(w.Body.String(), "<!doctype html>"); w.Code != http.StatusOK || n != 1 {
		t.Errorf("a token is made: %d, %d pages", w.Code, n)
	}
	_, rest, _ := strings.Cut(w.Body.String(), `id="secret">`)
	secret, _, _ := strings.Cut(rest, "<")
	who, err := s.access.Bearer(t.Context(), html.UnescapeString(secret))
	if err != nil || who.Name != "ann" || who.Role("shop") != access.Viewer {
		t.Errorf("%q: %+v, %v", secret, who, err)
	}
	if strings.Contains(s.get("/console/account").Body.String(), secret) {
		t.Error("the token is shown again")
	}
	s.done("/console/account", url.Values{"do": {"revoke-token"}, "name": {"ci"}}, "token ci is revoked")
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
	s := newConsole(t)
	form := url.Values{"do": {"save"}, "name": {"lina"}, "roles": {"shop:editor+scripts\nweb:viewer"}, "password": {goodPassword}}
	s.done("/console/users?panel=new", form, "lina", "shop:editor+scripts web:viewer", "initial password not changed yet")
	s.wrong("/console/users?panel=new", form, http.StatusConflict, "another user changed it", "shop:editor+scripts")
	bad := url.Values{"do": {"save"}, "name": {"<b>"}, "roles": {"viewer"}}
	s.wrong("/console/users?panel=new", bad, http.StatusBadRequest, "a user name has 1 to 64 characters")
	body := s.get("/console/users?panel=user&name=lina").Body.String()
	_, rest, _ := strings.Cut(body, `name="rev" value="`)
	rev, _, _ := strings.Cut(rest, `"`)
	edit := url.Values{"do": {"save"}, "name": {"lina"}, "rev": {rev}, "roles": {"viewer"}, "disabled": {"1"}}
	s.done("/console/users?panel=user&name=lina", edit, "disabled")
	edit.Set("roles", "operator")
	body = s.wrong("/console/users?panel=user&name=lina", edit, http.StatusConflict, "Another user changed this",
		"<ul><li>roles: changed from viewer to operator</li></ul>")
	edit.Set("rev", between(body, `name="rev" value="`, `"`))
	s.done("/console/users?panel=user&name=lina", edit, "lina is saved", "operator")
	body = s.says("/console/users?panel=user&name=lina", "tickring users set lina --role operator --disable")
	s.never(body, `name="do" value="delete"`)
	const panel = "/console/users?name=lina&panel=delete"
	gone := hidden(t, s.says(panel, "Delete lina", "0 tokens", "tickring users delete lina"), panel)
	s.ask("PUT", "/v1/users/lina", `{"grants": [{"role": "operator"}], "disabled": false}`)
	body = s.wrong(panel, gone, http.StatusConflict, "lina was changed after you opened this page", "0 tokens", "Delete lina")
	gone = with(gone, "rev", between(body, `name="rev" value="`, `"`))
	s.done(panel, gone, "lina is deleted")
	s.wrong(panel, gone, http.StatusNotFound)
	body = s.wrong("/console/users?panel=user&name=lina", edit, http.StatusConflict, "lina was already deleted",
		"New user", `value="lina"`)
	edit.Set("rev", between(body, `name="rev" value="`, `"`))
	s.done("/console/users?panel=user&name=lina", edit, "lina is saved", "operator")
}

// TestFilterOfPeople: users are found by a part of their name and by a role in any app. Without users, the page shows
// how to create one.
func TestFilterOfPeople(t *testing.T) {
	s := newConsole(t)
	first := "tickring users set lina --role shop:editor --password first-password.txt"
	s.says("/console/users", "No users yet.", first)
	s.in("zh")
	s.never(s.says("/console/users", "<th>角色</th>"), "5月") // the roles column is not translated as a month
	s.in("en")
	s.ask("PUT", "/v1/users/lina", `{"grants": [{"app": "shop", "role": "editor"}, {"role": "viewer"}]}`)
	s.ask("PUT", "/v1/users/omar", `{"grants": [{"role": "operator"}]}`)
	s.never(s.says("/console/users", "users: 3"), first)
	for query, want := range map[string]string{"text=IN": "lina admin", "role=viewer": "lina", "role=operator": "omar",
		"text=o&role=editor": "",
		"text=zz":            "", "role=odd": ""} {
		body := s.says("/console/users?" + query)
		for _, name := range []string{"lina", "omar", "admin"} {
			shown := strings.Contains(body, `id="user-`+name+`"`)
			if shown != strings.Contains(want, name) {
				t.Errorf("%s: %s is shown: %t", query, name, shown)
			}
		}
		if want == "" && !strings.Contains(body, "No user matches.") {
			t.Errorf("%s: the page does not show that no user was found:\n%s", query, body)
		}
	}
}
