package console_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/peak"
)

// line is a connection with deadlines that sends the body of a form.
type line struct {
	*httptest.ResponseRecorder
	text    io.Reader // of the body; then it sends nothing more
	until   time.Time // read deadline; zero: none
	answer  time.Time // write deadline
	reads   *atomic.Int32
	stalled bool
}

func (l *line) SetReadDeadline(t time.Time) error  { l.until = t; return nil }
func (l *line) SetWriteDeadline(t time.Time) error { l.answer = t; return nil }
func (l *line) Close() error                       { return nil }

func (l *line) Read(b []byte) (int, error) {
	if l.reads != nil {
		l.reads.Add(1)
		l.reads = nil
	}
	n, err := l.text.Read(b)
	if err == nil || !l.stalled {
		return n, err
	}
	if l.until.IsZero() {
		return 0, io.ErrUnexpectedEOF // the test would wait forever
	}
	<-time.After(time.Until(l.until))
	return 0, os.ErrDeadlineExceeded
}

// send posts a form over a connection, with the cookie of a session or without one.
func (s *site) send(l *line, from, path string, length int, cookie string) {
	r := httptest.NewRequest(http.MethodPost, "http://console.test"+path, nil)
	r.Body, r.ContentLength = l, int64(length)
	r.RemoteAddr = from
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: "tickring_session", Value: cookie})
	}
	s.h.ServeHTTP(l, r)
}

// TestStrangersFillNoMemory: few clients that are not logged in can send long forms at once, each for 10 s, and half
// of them from one address. Others get a place after that, and a form that was posted after its session ended is
// kept. Logged-in users do not wait for them.
func TestStrangersFillNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, texts := newConsole(t), golden.New(t)
		const size = 3_140_000
		var reads atomic.Int32
		whole := func(text string) *line {
			return &line{ResponseRecorder: httptest.NewRecorder(), text: strings.NewReader(text)}
		}
		flood := func(n int, path, from string) (answers []*line, wait func()) {
			var all sync.WaitGroup
			for i := range n {
				l := &line{ResponseRecorder: httptest.NewRecorder(), text: strings.NewReader("unsent=x"), stalled: true, reads: &reads}
				answers = append(answers, l)
				all.Go(func() { s.send(l, fmt.Sprintf(from, i), path, size, "") })
			}
			synctest.Wait()
			return answers, all.Wait
		}
		long := url.Values{"script": {strings.Repeat("<+&\n", 20_000)}}.Encode()
		for _, path := range []string{"/console/login", "/console/jobs/new"} {
			reads.Store(0)
			began := time.Now()
			answers, wait := flood(400, path, "[2001:db8::%x]:9")
			if n := reads.Load(); n != 2 {
				t.Fatalf("%s: %d long forms of one address come in at once", path, n)
			}
			alone := whole(long)
			s.send(alone, "192.0.2.7:9", "/console/jobs/new", len(long), "")
			to, kept := firstForm(alone.Body.String())
			if took := time.Since(began); alone.Code != http.StatusUnauthorized || kept.Get("unsent") != long || took != 0 {
				t.Errorf("%s: the form of another user: after %v: %d %s %.200s", path, took, alone.Code, to, alone.Body)
			}
			check.Equal(t, alone.answer.Sub(began), 30*time.Second, "%s: the answer may be taken for", path)
			wait()
			busy := 0
			for _, l := range answers {
				if l.Code == http.StatusServiceUnavailable && l.Header().Get("Retry-After") != "" {
					if busy++; busy == 1 {
						texts.Equal(t, "no room", textOf(t, l.Body.String(), "#live"))
					}
				} else if l.Code != http.StatusBadRequest {
					t.Errorf("%s: %d %.200s", path, l.Code, l.Body)
				}
			}
			if took := time.Since(began); busy < 390 || took > 16*time.Second {
				t.Errorf("%s: %d of 400 get the error for no room, after %v", path, busy, took)
			}
		}

		reads.Store(0)
		_, wait := flood(400, "/console/login", "10.0.0.%d:9")
		check.Equal(t, reads.Load(), 4, "long forms of unknown clients are read at once")
		began := time.Now()
		mine := whole(long)
		s.send(mine, "192.0.2.7:9", "/console/jobs/new", len(long), s.cookies["tickring_session"])
		if took := time.Since(began); took != 0 || mine.Code == http.StatusServiceUnavailable || mine.Code == http.StatusUnauthorized {
			t.Errorf("a logged-in user: after %v: %d %.200s", took, mine.Code, mine.Body)
		}
		if !mine.until.IsZero() {
			t.Errorf("its connection would end at %v, while it is done", mine.until)
		}
		short := whole("name=ann&password=no")
		s.send(short, "192.0.2.7:9", "/console/login", 20, "")
		check.Equal(t, short.Code, http.StatusUnauthorized, "a log-in")
		wait()
		if w := s.post("/console/login", url.Values{"token": {adminToken}, "unsent-at": {"/console/jobs/new"}, "unsent": {long}}); w.Code != 200 {
			t.Errorf("afterwards: %d", w.Code)
		}
	})
}

// TestPeopleLeaveEachOtherRoom: one logged-in user gets at most half of the places for long forms.
func TestPeopleLeaveEachOtherRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newConsole(t)
		s.person("ann", access.Grant{Role: access.Editor})
		send := func(l *line) { s.send(l, "192.0.2.7:9", "/console/jobs/new", -1, s.cookies["tickring_session"]) }
		admin := s.cookies["tickring_session"]
		s.logInAs("ann")
		var reads atomic.Int32
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				send(&line{ResponseRecorder: httptest.NewRecorder(), text: strings.NewReader("a=b"), stalled: true, reads: &reads})
			})
		}
		synctest.Wait()
		check.Equal(t, reads.Load(), 2, "long forms of one person come in at once")
		s.cookies["tickring_session"] = admin
		began, other := time.Now(), &line{ResponseRecorder: httptest.NewRecorder(), text: strings.NewReader("a=b")}
		send(other)
		if took := time.Since(began); took != 0 || other.Code == http.StatusServiceUnavailable {
			t.Errorf("another: after %v: %d", took, other.Code)
		}
		all.Wait()
	})
}

// discarded is a response that drops its body.
type discarded struct {
	h    http.Header
	code int
}

func (d *discarded) Header() http.Header         { return d.h }
func (d *discarded) WriteHeader(code int)        { d.code = code }
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }

// TestNoFormHoldsMuchMemory: whatever is posted to any form, a request without a session or permission uses almost no
// memory. With permission it uses a few times the size of the body.
func TestNoFormHoldsMuchMemory(t *testing.T) {
	check.Long(t)
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/report", `{"handler": "x"}`)
	s.ask("PUT", "/v1/channels/team", `{"webhook": {"url": "https://hooks.example/x"}}`)
	admin := s.cookies["tickring_session"]
	session := map[string]string{"stranger": "", "admin": admin}
	s.person("nora")
	s.person("vera", access.Grant{Role: access.Viewer})
	for _, name := range []string{"nora", "vera"} {
		s.logInAs(name)
		session[name] = s.cookies["tickring_session"]
	}
	forms, fill := []string{"/console/jobs/new?view=manifest"}, strings.NewReplacer("{app}", "shop", "{name}", "report",
		"{run}", "4294967297", "{channel}", "team", "{secret}", "x")
	for _, pattern := range patternsOf(t, "POST") {
		forms = append(forms, fill.Replace(pattern))
	}
	const size, long = 300_000, 900_000 // of a form, and of a manifest in it, which is rejected for its lines
	many, each := &strings.Builder{}, &strings.Builder{}
	for i := 0; many.Len() < size; i++ {
		fmt.Fprintf(many, "%x&", i)
	}
	names := strings.Fields("text params source script.source unsent query pick labels executors roles name reason do title")
	for _, name := range names {
		fmt.Fprintf(each, "%s=%s&", name, strings.Repeat(`"`, size/len(names)))
	}
	bodies := map[string]string{"many": many.String(), "each": each.String()}
	texts := map[string]string{
		"bomb": "version: 1\nx: &a [" + strings.Repeat("1,", 1000) + "1]\ny: &b [" + strings.Repeat("*a,", 1000) +
			"1]\njobs:\n  - {app: shop, name: report, handler: x, after: *b, labels: {a: *b}}\n",
		"flow": "jobs: [" + strings.Repeat("[a],", long/8) + "]", "lines": "jobs:\n" + strings.Repeat("- a\n", long/8),
		"list": `{"jobs":[` + strings.Repeat("1,", long/4) + "1]}"}
	for i, path := range forms {
		limits := map[string]int64{"stranger": 7 << 20, []string{"nora", "vera"}[i%2]: 2 * size, "admin": 8 << 20}
		bodies := maps.Clone(bodies)
		if strings.Contains(path, "manifest") {
			for name, text := range texts {
				bodies[name] = "text=" + url.QueryEscape(text)
			}
			limits["admin"] = 24 << 20 // the parsed manifest
		}
		if path == "/console/login" {
			bodies["unsent"] = "unsent-at=/console/jobs/new&unsent=" + strings.Repeat(`"`, 3*size)
		}
		for name, body := range bodies {
			for who, most := range limits {
				if open := strings.HasPrefix(path, "/console/log") || strings.HasPrefix(path, "/console/once") ||
					slices.Contains([]string{"/console/account", "/console/views", "/console/settings"}, path); open {
					most = 8 << 20
				}
				w := &discarded{h: http.Header{}}
				post := func() {
					r := httptest.NewRequest(http.MethodPost, "http://console.test"+path, strings.NewReader(body))
					r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
					r.AddCookie(&http.Cookie{Name: "tickring_session", Value: session[who]})
					s.h.ServeHTTP(w, r)
				}
				// Beside it another goroutine may allocate memory, but not twice.
				if first := peak.Of(most, post); first > most && peak.Of(most, post) > most {
					t.Errorf("%s, %s, %s: %d, %d KB were held", path, name, who, w.code, first>>10)
				}
			}
		}
	}
}
