package console_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	nethtml "golang.org/x/net/html"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/probe"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/internal/password"
	"github.com/tickring/tickring/internal/testkit/check"
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

// Log implements postrun.Logs.
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
	s.remade(func(*console.Options) {})
	if r := s.post("/console/login", url.Values{"token": {adminToken}}); r.Code != http.StatusSeeOther {
		t.Fatalf("log in: %d %s", r.Code, r.Body)
	}
	return s
}

// remade replaces the console by one with other options.
func (s *site) remade(change func(*console.Options)) {
	o := console.Options{API: s.api, Access: s.access, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return s.Clock }}
	change(&o)
	s.h = console.New(o)
}

// stub lets answer handle the requests of the console to one path of the API.
func (s *site) stub(path string, answer http.HandlerFunc) {
	s.remade(func(o *console.Options) {
		o.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == path {
				answer(w, r)
			} else {
				s.api.ServeHTTP(w, r)
			}
		})
	})
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

// gets requests a page that must have a status and the texts, and returns it.
func (s *site) gets(path string, status int, texts ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	return s.answered(s.get(path), path, status, texts)
}

// posts sends a form whose answer must have a status and the texts.
func (s *site) posts(path string, form url.Values, status int, texts ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	return s.answered(s.post(path, form), fmt.Sprintf("%s %.200v", path, form), status, texts)
}

// answered checks the status and the texts of an answer, each as markup or as users read it.
func (s *site) answered(w *httptest.ResponseRecorder, what string, status int, texts []string) *httptest.ResponseRecorder {
	s.t.Helper()
	body := w.Body.String()
	check.Equal(s.t, w.Code, status, "%s: %s", what, body)
	for _, text := range texts {
		if !strings.Contains(body, text) {
			check.Contains(s.t, html.UnescapeString(body), text, "%s", what)
		}
	}
	return w
}

// says requests a page, checks that it has the texts, and returns it without escapes.
func (s *site) says(path string, texts ...string) string {
	s.t.Helper()
	return html.UnescapeString(s.gets(path, http.StatusOK, texts...).Body.String())
}

// wrong posts a form that must fail with a status, compares its messages with the golden file, and returns the page.
func (s *site) wrong(path string, form url.Values, status int, texts ...string) string {
	s.t.Helper()
	body := s.posts(path, form, status, texts...).Body.String()
	s.messages(fmt.Sprint("POST ", path, " ", status))
	return html.UnescapeString(body)
}

// done posts a form, checks the texts on the page after it, and compares its messages with the golden file.
func (s *site) done(path string, form url.Values, texts ...string) string {
	s.t.Helper()
	body := s.says(s.posts(path, form, http.StatusSeeOther).Header().Get("Location"), texts...)
	s.messages("POST " + path)
	return body
}

// ask sends a request to the API, checks that it succeeds, and returns the answer.
func (s *site) ask(method, path, body string) string {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://console.test"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+adminToken)
	w := httptest.NewRecorder()
	if s.api.ServeHTTP(w, r); w.Code != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w.Body.String()
}

// goldenConsole is newConsole, in English, with the golden file of the test.
func goldenConsole(t *testing.T) *site {
	s := newConsole(t)
	s.texts, s.keys = golden.New(t), map[string]int{}
	s.in("en")
	return s
}

// compare compares the text of elements of the last page with the golden file.
func (s *site) compare(key, find string) {
	s.t.Helper()
	text := varies.ReplaceAllString(textOf(s.t, s.page, find), "$1 N")
	if text == "" {
		s.t.Errorf("%s: the page has no %s: %s", key, find, s.page)
	}
	s.equal(key, text)
}

// equal compares a text with the golden file. A key that is used again gets a number.
func (s *site) equal(key, text string) {
	s.t.Helper()
	key = strings.Replace(key, "/console", "", 1)
	if s.keys[key]++; s.keys[key] > 1 {
		key += fmt.Sprintf(" (%d)", s.keys[key])
	}
	s.texts.Equal(s.t, key, text)
}

// results finds the elements of a page that show a result, an error or a warning.
const results = "[role=status],[role=alert],.error,.warn"

// messages compares the results on the last page, if the test has a golden file.
func (s *site) messages(key string) {
	s.t.Helper()
	if s.texts != nil && textOf(s.t, s.page, results) != "" {
		s.compare(key, results)
	}
}

// shows requests a page, checks that it has the texts, and compares elements with the golden file.
func (s *site) shows(find, path string, texts ...string) string {
	s.t.Helper()
	body := s.says(path, texts...)
	s.compare("GET "+path, find)
	return body
}

var (
	varies = regexp.MustCompile(`\b(at rev|answered in|test message in|answer the test \(|not accepted, after|line with the ID) ?[0-9a-f]+`)
	blocks = regexp.MustCompile(`^(p|div|li|h\d|tr|dt|option|label|legend|fieldset|form|pre|br|ul|ol|table|dl|button|section)$`)
	apart  = regexp.MustCompile("\x00+([,;:.)，。：])") // the end of an element and punctuation
	unread = regexp.MustCompile(`^(script|style|datalist|textarea|input)$`)
)

// textOf returns the text of the elements that find selects: tags, #id, .class or [attribute=value], with commas
// between them. Each block is a line. A title follows its element in brackets.
func textOf(t *testing.T, page, find string) string {
	t.Helper()
	root, err := nethtml.ParseWithOptions(strings.NewReader(page), nethtml.ParseOptionEnableScripting(false))
	check.OK(t, err)
	var out strings.Builder
	var walk func(n *nethtml.Node, inside bool)
	walk = func(n *nethtml.Node, inside bool) {
		has := map[string]string{}
		for _, a := range n.Attr {
			has[a.Key] = a.Val
		}
		in, gap := inside || n.Type == nethtml.ElementNode && selected(n.Data, has, find), ""
		switch {
		case n.Type == nethtml.ElementNode && unread.MatchString(n.Data):
			return
		case in && n.Type == nethtml.TextNode:
			out.WriteString(n.Data)
		case in && inside && !blocks.MatchString(n.Data):
			gap = "\x00"
		case in:
			gap = "\n"
		}
		out.WriteString(gap)
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, in)
		}
		if has["title"] != "" && in && n.Data != "time" {
			out.WriteString(" [" + has["title"] + "]")
		}
		out.WriteString(gap)
	}
	walk(root, false)
	var text strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(apart.ReplaceAllString(out.String(), "$1"), "\x00", " ")) {
		if words := strings.Fields(line); len(words) > 0 {
			text.WriteString(strings.Join(words, " ") + "\n")
		}
	}
	return text.String()
}

func selected(tag string, has map[string]string, find string) bool {
	for f := range strings.SplitSeq(find, ",") {
		name, value, _ := strings.Cut(strings.Trim(f, "[]"), "=")
		if tag == f || "#"+has["id"] == f || f[0] == '[' && has[name] == value ||
			f[0] == '.' && slices.Contains(strings.Fields(has["class"]), f[1:]) {
			return true
		}
	}
	return false
}
