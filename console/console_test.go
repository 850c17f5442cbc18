package console_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestWhatIsChangedIsPostedFromHere: neither a GET nor a request from the page of another site changes anything.
func TestWhatIsChangedIsPostedFromHere(t *testing.T) {
	s := newConsole(t)
	for _, c := range []struct {
		method, site, origin string
		want                 int
	}{
		{http.MethodGet, "same-origin", "", http.StatusSeeOther},
		{http.MethodPost, "cross-site", "http://evil.test", http.StatusForbidden},
		{http.MethodPost, "", "http://evil.test", http.StatusForbidden},
		{http.MethodPost, "same-site", "http://other.console.test", http.StatusForbidden},
		{http.MethodPost, "same-origin", "http://console.test", http.StatusSeeOther},
	} {
		r := httptest.NewRequest(c.method, "http://console.test/console/settings", strings.NewReader("lang=zh"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if w := s.do(r); w.Code != c.want {
			t.Errorf("%+v: %d", c, w.Code)
		}
	}
}

// TestPagesAreOfHere: the headers forbid a page to load files of other hosts and to be in a frame.
func TestPagesAreOfHere(t *testing.T) {
	s := newConsole(t)
	h := s.get("/console/jobs").Header()
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if p := h.Get("Content-Security-Policy"); !strings.Contains(p, want) || strings.Contains(p, "unsafe") {
			t.Errorf("the policy is %q, without %q", p, want)
		}
	}
	if h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", h)
	}
}

// TestGoesOnHere: redirects lead only to pages of the console.
func TestGoesOnHere(t *testing.T) {
	s := newConsole(t)
	for _, to := range []string{"https://evil.test/", "//evil.test/console/", "/\\evil.test", "/console/../v1/jobs", "javascript:alert(1)",
		"/v1/jobs", "http:evil.test/console/", "/console/\\..\\x"} {
		w := s.post("/console/settings", map[string][]string{"to": {to}})
		if at := w.Header().Get("Location"); !strings.HasPrefix(at, "/console/") || strings.Contains(at, "..") {
			t.Errorf("%q: %q", to, at)
		}
	}
	const to = "/console/jobs?app=a"
	check.Equal(t, s.post("/console/settings", map[string][]string{"to": {to}}).Header().Get("Location"), to, "sent on to")
}

// TestLanguage: a page is in the chosen language, or in the language of the browser.
func TestLanguage(t *testing.T) {
	s := newConsole(t)
	r := httptest.NewRequest(http.MethodGet, "http://console.test/console/jobs", nil)
	r.Header.Set("Accept-Language", "zh-CN,zh;q=0.9")
	if body := s.do(r).Body.String(); !strings.Contains(body, `lang="zh"`) || !strings.Contains(body, "任务") {
		t.Errorf("not in Chinese: %s", body)
	}
	s.post("/console/settings", map[string][]string{"lang": {"en"}})
	check.Contains(t, s.do(r).Body.String(), `lang="en"`, "not in English")
}

// TestAskedAgain: an open page that polls gets 304 if nothing has changed. Browsers store no page, so that Back shows
// none after a logout.
func TestAskedAgain(t *testing.T) {
	s := newConsole(t)
	for _, path := range []string{"/console/", "/console/jobs", "/console/account", "/console/keys"} {
		if h := s.get(path).Header(); h.Get("Cache-Control") != "no-store" || h.Get("ETag") != "" {
			t.Errorf("%s is kept: %v", path, h)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "http://console.test/console/jobs", nil)
	r.Header.Set("HX-Request", "true")
	first := s.do(r).Header()
	if first.Get("Cache-Control") != "private, no-cache" || !strings.Contains(first.Get("Vary"), "HX-Request") {
		t.Errorf("%v", first)
	}
	r.Header.Set("If-None-Match", first.Get("ETag"))
	if w := s.do(r); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("%d", w.Code)
	}
	s.ask("PUT", "/v1/jobs/shop/new", `{"handler": "x"}`)
	if w := s.do(r); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.says("/console/jobs", "shop/new")
}

// TestSendAway: a browser that opens / or a bookmark of xxl-job is redirected to the console. Other clients get the
// answer of their path.
func TestSendAway(t *testing.T) {
	h := console.SendAway(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for _, c := range []struct {
		method, path, accept string
		to                   string // empty: not redirected
	}{
		{"GET", "/", "text/html,*/*", "/console/"}, {"GET", "/xxl-job-admin/", "text/html", "/console/"},
		{"GET", "/xxl-job-admin", "text/html", "/console/"}, {"GET", "/xxl-job-admin/toLogin", "text/html", "/console/"},
		{"GET", "/xxl-job-admin/jobinfo", "text/html", "/console/jobs"},
		{"GET", "/xxl-job-admin/jobinfo?jobGroup=2", "text/html", "/console/jobs"},
		{"GET", "/xxl-job-admin/joblog/logDetailPage?id=7", "text/html", "/console/runs"}, {"GET", "/xxl-job-admin/jobinfo", "*/*", ""},
		{"GET", "/", "*/*", ""}, {"POST", "/", "text/html", ""}, {"GET", "/xxl-job-administrator", "text/html", ""},
		{"GET", "/v1/jobs", "text/html", ""}, {"POST", "/xxl-job-admin/api/callback", "text/html", ""}, {"GET", "/console", "*/*", "/console/"},
	} {
		r := httptest.NewRequest(c.method, "http://x"+c.path, nil)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if to := w.Header().Get("Location"); to != c.to || w.Code != map[bool]int{true: 418, false: 303}[c.to == ""] {
			t.Errorf("%+v: %d %s", c, w.Code, to)
		}
	}
}

// TestAddressesOfForms: a GET of a form's URL, which has no page, redirects to the page of its subject.
func TestAddressesOfForms(t *testing.T) {
	s := newConsole(t)
	forms, pages := patternsOf(t, "POST"), patternsOf(t, "GET")
	if len(forms) < 25 {
		t.Fatalf("%d forms are registered", len(forms))
	}
	fill := strings.NewReplacer("{app}", "shop", "{name}", "never-was", "{channel}", "team", "{run}", "4294967297999")
	for _, pattern := range forms {
		path := fill.Replace(pattern)
		w := s.get(path)
		if to := w.Header().Get("Location"); w.Code == http.StatusOK || slices.Contains(pages, pattern) {
			continue // it is a page too
		} else if w.Code != http.StatusSeeOther || !strings.HasPrefix(path, strings.TrimSuffix(to, "/")) || to == path {
			t.Errorf("%s: %d to %q", path, w.Code, to)
		} else if w := s.get(to); w.Code != http.StatusOK && w.Code != http.StatusNotFound {
			t.Errorf("%s goes on to %s: %d", path, to, w.Code)
		}
	}
	check.Contains(t, s.get("/console/jobs/shop/never-was").Body.String(), "data-still")
}
