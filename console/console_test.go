package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
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
		check.Contains(t, h.Get("Content-Security-Policy"), want)
	}
	s.never(h.Get("Content-Security-Policy"), "unsafe")
	check.Equal(t, h.Get("X-Frame-Options")+" "+h.Get("X-Content-Type-Options"), "DENY nosniff")
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
	s.answered(s.do(r), "in Chinese", http.StatusOK, []string{`lang="zh"`, "任务"})
	s.post("/console/settings", map[string][]string{"lang": {"en"}})
	check.Contains(t, s.do(r).Body.String(), `lang="en"`, "not in English")
}

// TestAskedAgain: an open page that polls gets 304 if nothing has changed. Every answer has the poll interval. Browsers
// store no page, so that Back shows none after a logout.
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
	check.Equal(t, first.Get("Cache-Control"), "private, no-cache")
	check.Contains(t, first.Get("Vary"), "HX-Request")
	r.Header.Set("If-None-Match", first.Get("ETag"))
	same := s.answered(s.do(r), "unchanged", http.StatusNotModified, nil)
	check.Equal(t, same.Body.Len(), 0, "bytes")
	for _, h := range []http.Header{first, same.Header()} {
		if ms, err := strconv.Atoi(h.Get("X-Ask-Again")); err != nil || ms < 4000 || ms > 60_000 {
			t.Errorf("ask again after %q", h.Get("X-Ask-Again"))
		}
	}
	s.ask("PUT", "/v1/jobs/shop/new", `{"handler": "x"}`)
	s.answered(s.do(r), "changed", http.StatusOK, []string{"shop/new"})
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

// TestNothingIsMissedBeforeListening: a page has the write count before it was built. When it starts to listen, it
// gets an event if there was a write since. The tag of a page ignores the count.
func TestNothingIsMissedBeforeListening(t *testing.T) {
	s := newConsole(t)
	over, writes := make(chan struct{}), uint64(7)
	close(over)
	s.remade(func(o *console.Options) { o.Done, o.Writes = over, func() uint64 { return writes } })
	tag := func() string {
		r := httptest.NewRequest("GET", "http://console.test/console/keys", nil)
		r.Header.Set("HX-Request", "true")
		return s.do(r).Header().Get("ETag")
	}
	s.gets("/console/keys", http.StatusOK, `data-since="7"`)
	before := tag()
	s.never(s.get("/console/live?since=7").Body.String(), "changed")
	writes = 8
	check.Equal(t, strings.Count(s.get("/console/live?since=7").Body.String(), "event: changed"), 1, "events after a change")
	if after := tag(); after == "" || after != before {
		t.Errorf("%s, was %s", after, before)
	}
}

// TestPollIsAnsweredBeforeAPageIsMade: an open page polls by HEAD. With a valid session, the newest journal alone
// decides the answer: 204 if no run was sent since, for at most two minutes. A page that could not be built is
// rebuilt at once.
func TestPollIsAnsweredBeforeAPageIsMade(t *testing.T) {
	s := newConsole(t)
	newest := core.JournalKey{Minute: s.Clock.Unix()/60 - 5, Nonce: "a"}
	s.remade(func(o *console.Options) {
		o.Newest = func(context.Context) (core.JournalKey, error) { return newest, nil }
	})
	since := cutOut(s.get("/console/keys").Body.String(), `data-since="`, `"`)
	poll := func(what string, want int) int {
		t.Helper()
		r := httptest.NewRequest("HEAD", "http://console.test/console/live", nil)
		r.Header.Set("X-Since", since)
		w := s.do(r)
		ms, _ := strconv.Atoi(w.Header().Get("X-Ask-Again"))
		if w.Code != want || w.Code == http.StatusNoContent && (ms < 4000 || ms > 60_000) {
			t.Errorf("%s: %d, and to ask again after %d ms; want %d", what, w.Code, ms, want)
		}
		return ms
	}
	poll("nothing was sent", http.StatusNoContent)
	newest.Nonce = "b"
	poll("another journal", http.StatusOK)
	newest.Nonce = "a"
	s.Clock = s.Clock.Add(time.Minute)
	poll("a minute later", http.StatusNoContent)
	s.Clock = s.Clock.Add(58 * time.Second)
	check.Equal(t, poll("at last", http.StatusNoContent), 4000, "ms until the page is two minutes old")
	s.Clock = s.Clock.Add(2 * time.Second)
	poll("the page is old", http.StatusOK)
	s.Clock = s.Clock.Add(-4 * time.Minute)
	poll("the clock was set back", http.StatusOK)
	s.Clock = s.Clock.Add(2 * time.Minute)
	newest.Minute = s.Clock.Unix() / 60
	since = cutOut(s.get("/console/keys").Body.String(), `data-since="`, `"`)
	poll("runs may be running", http.StatusOK)
	if w := s.get("/console/jobs/none/none"); w.Code < 400 || w.Header().Get("X-Since") != "" ||
		!strings.Contains(w.Body.String(), `data-since=""`) {
		t.Errorf("of a page that could not be made: %d, since %q", w.Code, w.Header().Get("X-Since"))
	}
	s.cookies = nil
	poll("nobody", http.StatusUnauthorized)
}

// TestListenersLeaveOthersRoom: one user, in any number of sessions, gets at most half of the places of listening
// pages. Without a place the request fails at once; a HEAD needs no place and reports that the session is valid.
func TestListenersLeaveOthersRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConsole(t)
		s.person("ann", access.Grant{Role: access.Viewer})
		s.h = console.New(console.Options{API: s.api, Access: s.access, Writes: func() uint64 { return 7 }, Listeners: 8})
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		listen := func(method, secret string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, method, "http://console.test/console/live?since=7", nil)
			r.AddCookie(&http.Cookie{Name: "tickring_session", Value: secret})
			w := httptest.NewRecorder()
			all.Go(func() { s.h.ServeHTTP(w, r) })
			synctest.Wait()
			return w
		}
		admin := s.cookies["tickring_session"]
		for i := range 10 {
			if i%2 == 0 {
				s.logInAs("ann")
			}
			want := http.StatusOK
			if i >= 4 {
				want = http.StatusServiceUnavailable
			}
			check.Equal(t, listen("GET", s.cookies["tickring_session"]).Code, want, "page %d of one person", i)
		}
		s.answered(listen("GET", admin), "of another", http.StatusOK, []string{"retry"})
		s.answered(listen("HEAD", s.cookies["tickring_session"]), "a HEAD", http.StatusOK, nil)
		s.answered(listen("HEAD", "gone"), "a HEAD without login", http.StatusUnauthorized, nil)
		leave()
		all.Wait()
	})
}

// A page of a disabled user gets no further events.
func TestListeningEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConsole(t)
		s.person("ann", access.Grant{Role: access.Viewer})
		s.h = console.New(console.Options{API: s.api, Access: s.access, Writes: func() uint64 { return 7 }})
		s.logInAs("ann")
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://console.test/console/live?since=7", nil)
		r.AddCookie(&http.Cookie{Name: "tickring_session", Value: s.cookies["tickring_session"]})
		began, ended := time.Now(), make(chan time.Duration)
		go func() { s.h.ServeHTTP(httptest.NewRecorder(), r); ended <- time.Since(began) }()
		time.Sleep(time.Minute)
		yes := true
		_, _, err := s.access.Save(t.Context(), access.ByMachine(true), access.Spec{Name: "ann", Disabled: &yes})
		check.OK(t, err)
		if took := <-ended; took < time.Minute || took > time.Minute+10*time.Second {
			t.Errorf("it heard changes for %s", took)
		}
	})
}
