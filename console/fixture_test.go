package console_test

import (
	"context"
	"errors"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/probe"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/internal/password"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
	"github.com/tickring/tickring/words"
)

const adminToken = "the-admin-token"

// site is a console on a memory engine, with the cookies of a logged-in browser.
type site struct {
	*usecasetest.Fixture
	t       *testing.T
	h       http.Handler
	api     http.Handler
	access  *access.Access
	cookies map[string]string
	page    string         // the body of the last answer
	texts   *golden.Texts  // nil: without a golden file
	keys    map[string]int // how often each key was used
	reports *report.Reports
	beat    func(address string) error                                                 // the answer of executors to a test
	clock   core.Clock                                                                 // the clock that they report
	answers map[string]probe.Answer                                                    // of fixed addresses that were checked
	log     func(run *core.Run, from int) (text string, next int, end bool, err error) // the logs that executors return
}

// Log implements api.Logs.
func (s *site) Log(ctx context.Context, _ *core.App, run *core.Run, from int) (string, int, bool, error) {
	if s.log == nil {
		return "", from, true, core.Errorf(core.CodeUnavailable, "the executor at %s did not return the log: %v", run.Address, "refused")
	}
	text, next, end, err := s.log(run, from)
	if errors.Is(err, errHangs) {
		<-ctx.Done()
		err = ctx.Err()
	}
	return text, next, end, err
}

// errHangs makes log wait like an executor that does not answer.
var errHangs = errors.New("it hangs")

// AskClock implements api.Beats.
func (s *site) AskClock(_ context.Context, _ *core.App, address string) (core.Clock, error) {
	return s.clock, s.beat(address)
}

// newConsole returns a console with an app named shop, logged in with the admin token.
func newConsole(t *testing.T) *site {
	f := usecasetest.New(t)
	log := slog.New(slog.DiscardHandler)
	s := &site{Fixture: f, t: t, cookies: map[string]string{}}
	now := func() time.Time { return f.Clock }
	// On a slow machine a report would otherwise omit runs that are not counted yet.
	s.reports = report.New(f.E, report.Options{Now: now, LiveFor: time.Minute})
	s.access = access.New(f.E, access.Options{Passwords: password.Argon2id{Passes: 1, KiB: 8}, Answer: time.Nanosecond,
		Admin: func(token string) bool { return token == adminToken }})
	s.api = api.NewHandler(f.M, s, api.Options{Token: adminToken, Access: s.access, Log: log, Store: f.E,
		Reports: s.reports,
		Answer:  func(_, address string) (probe.Answer, bool) { a, known := s.answers[address]; return a, known },
		Facts: func(ctx context.Context, l words.Language) client.Facts {
			facts := client.Facts{Version: "test", LastTick: f.Clock}
			doctor.Gather(ctx, f.E, f.Clock, l, &facts, slog.New(slog.DiscardHandler), nil)
			return facts
		}})
	s.h = console.New(console.Options{API: s.api, Access: s.access, Log: log, Now: now})
	if r := s.post("/console/login", url.Values{"token": {adminToken}}); r.Code != http.StatusSeeOther {
		t.Fatalf("log in: %d %s", r.Code, r.Body)
	}
	return s
}

func (s *site) do(r *http.Request) *httptest.ResponseRecorder {
	s.t.Helper()
	for name, value := range s.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	s.page = w.Body.String()
	for _, c := range w.Result().Cookies() {
		if s.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(s.cookies, c.Name)
		}
	}
	if w.Code >= 500 {
		s.t.Errorf("%s %s: %d %s", r.Method, r.URL, w.Code, w.Body)
	}
	return w
}

// get requests a page.
func (s *site) get(path string) *httptest.ResponseRecorder {
	s.t.Helper()
	return s.do(httptest.NewRequest(http.MethodGet, "http://console.test"+path, nil))
}

// post sends a form as a browser does: with CRLF.
func (s *site) post(path string, form url.Values) *httptest.ResponseRecorder {
	s.t.Helper()
	sent := url.Values{}
	for name, values := range form {
		for _, v := range values {
			sent.Add(name, strings.ReplaceAll(lineEnds.Replace(v), "\n", "\r\n"))
		}
	}
	r := httptest.NewRequest(http.MethodPost, "http://console.test"+path, strings.NewReader(sent.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://console.test")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return s.do(r)
}

// says requests a page and checks that it has all of the texts.
func (s *site) says(path string, texts ...string) string {
	s.t.Helper()
	w := s.get(path)
	body := html.UnescapeString(w.Body.String())
	if w.Code != http.StatusOK {
		s.t.Errorf("%s: %d %s", path, w.Code, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			s.t.Errorf("%s does not say %q:\n%s", path, text, body)
		}
	}
	return body
}

// ask sends a request to the API, and checks that it succeeds.
func (s *site) ask(method, path, body string) {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://console.test"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+adminToken)
	w := httptest.NewRecorder()
	if s.api.ServeHTTP(w, r); w.Code != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
}
