package console_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
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

// TestStrangersFillNoMemory: few clients that are not logged in can send long forms at once, each for 10 s, and half
// of them from one address. Others get a place after that, and a form that was posted after its session ended is
// kept. Logged-in users do not wait for them.
func TestStrangersFillNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, texts := newConsole(t), golden.New(t)
		const size = 3_140_000
		var reads atomic.Int32
		send := func(l *line, from, path string, length int, cookie string) {
			r := httptest.NewRequest(http.MethodPost, "http://console.test"+path, nil)
			r.Body, r.ContentLength = l, int64(length)
			r.RemoteAddr = from
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if cookie != "" {
				r.AddCookie(&http.Cookie{Name: "tickring_session", Value: cookie})
			}
			s.h.ServeHTTP(l, r)
		}
		whole := func(text string) *line {
			return &line{ResponseRecorder: httptest.NewRecorder(), text: strings.NewReader(text)}
		}
		flood := func(n int, path, from string) (answers []*line, wait func()) {
			var all sync.WaitGroup
			for i := range n {
				l := &line{ResponseRecorder: httptest.NewRecorder(), text: strings.NewReader("unsent=x"), stalled: true, reads: &reads}
				answers = append(answers, l)
				all.Go(func() { send(l, fmt.Sprintf(from, i), path, size, "") })
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
			send(alone, "192.0.2.7:9", "/console/jobs/new", len(long), "")
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
		send(mine, "192.0.2.7:9", "/console/jobs/new", len(long), s.cookies["tickring_session"])
		if took := time.Since(began); took != 0 || mine.Code == http.StatusServiceUnavailable || mine.Code == http.StatusUnauthorized {
			t.Errorf("a logged-in user: after %v: %d %.200s", took, mine.Code, mine.Body)
		}
		if !mine.until.IsZero() {
			t.Errorf("its connection would end at %v, while it is done", mine.until)
		}
		short := whole("name=ann&password=no")
		send(short, "192.0.2.7:9", "/console/login", 20, "")
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
		send := func(l *line) {
			r := httptest.NewRequest(http.MethodPost, "http://console.test/console/jobs/new", nil)
			r.Body, r.ContentLength = l, -1
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.AddCookie(&http.Cookie{Name: "tickring_session", Value: s.cookies["tickring_session"]})
			s.h.ServeHTTP(l, r)
		}
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
