package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
)

var (
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	formAction  = regexp.MustCompile(`<form class="stack" method="post" action="([^"]*)"`)
)

// hiddenOf returns the hidden fields of a page, and the target of its first form.
func hiddenOf(body string) (to string, fields url.Values) {
	fields = url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(body, -1) {
		fields.Set(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
	}
	if m := formAction.FindStringSubmatch(body); m != nil {
		to = html.UnescapeString(m[1])
	}
	return to, fields
}

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
		_, in := hiddenOf(w.Body.String())
		in.Set("password", "wrong")
		in.Set("name", "ann")
		if w = s.post("/console/login", in); w.Code != http.StatusUnauthorized {
			t.Fatalf("%d", w.Code)
		}
		_, in = hiddenOf(w.Body.String())
		for field, values := range way {
			in[field] = values
		}
		w = s.post("/console/login", in)
		if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		if at := s.get("/console/executors/" + name); at.Code != http.StatusNotFound {
			t.Errorf("it was done without a confirmation: %d", at.Code)
		}
		to, again := hiddenOf(w.Body.String())
		if to != "/console/executors?panel=new" || again.Encode() != form.Encode() {
			t.Fatalf("%s %v", to, again)
		}
		if w = s.post(to, again); w.Code != http.StatusSeeOther {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
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
	if w := s.post("/console/login", way("/console/jobs/new", "%zz")); w.Code != http.StatusBadRequest {
		t.Errorf("no form: %d", w.Code)
	}
	big := url.Values{"script": {strings.Repeat("<+&\r\n", 60_000)}} // each byte becomes three in the request
	w := s.post("/console/jobs/new", big)
	_, in := hiddenOf(w.Body.String())
	in.Set("token", adminToken)
	if w = s.post("/console/login", in); w.Code != http.StatusOK {
		t.Fatalf("%d", w.Code)
	}
	if _, again := hiddenOf(w.Body.String()); again.Encode() != big.Encode() {
		t.Error("a big form does not come through whole")
	}
	clear(s.cookies)
	if w := s.post("/console/jobs/new", url.Values{"script": {strings.Repeat("x", 2<<20)}}); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("more than a form may have: %d", w.Code)
	}
	if w := s.post("/console/login", way("/console/jobs/new", "")); w.Header().Get("Location") != "/console/jobs" {
		t.Errorf("with nothing typed: %d", w.Code)
	}
}

// TestLook: the language and time zone that a user has selected apply in another browser, but do not replace a
// selection in that browser. Users who are not logged in can select them too.
func TestLook(t *testing.T) {
	s := newConsole(t)
	s.person("ann", access.Grant{Role: access.Viewer})
	s.logInAs("ann")
	s.post("/console/settings", url.Values{"lang": {"zh"}, "zone": {"utc"}})
	s.logInAs("ann") // without cookies
	if s.cookies["tickring_lang"] != "zh" || s.cookies["tickring_zone"] != "utc" {
		t.Errorf("another browser: %v", s.cookies)
	}
	clear(s.cookies)
	w := s.post("/console/settings", url.Values{"lang": {"en"}, "zone": {"mine"}, "to": {"/console/login"}})
	check.Equal(t, w.Code, http.StatusSeeOther, "not logged in")
	s.post("/console/login", url.Values{"name": {"ann"}, "password": {goodPassword}})
	if s.cookies["tickring_lang"] != "en" || s.cookies["tickring_zone"] != "mine" {
		t.Errorf("a browser with a choice of its own: %v", s.cookies)
	}
	s.post("/console/settings", url.Values{"lang": {"en"}, "zone": {"job"}})
	s.logInAs("ann")
	if s.cookies["tickring_lang"] != "en" || s.cookies["tickring_zone"] != "" {
		t.Errorf("by the job's clock: %v", s.cookies)
	}
}
