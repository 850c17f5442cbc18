package console_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
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

// TestNothingIsMissedBeforeListening: a page has the write count before it was built. When it starts to listen, it
// gets an event if there was a write since. The tag of a page ignores the count.
func TestNothingIsMissedBeforeListening(t *testing.T) {
	s := newConsole(t)
	over, writes := make(chan struct{}), uint64(7)
	close(over)
	s.h = console.New(console.Options{API: s.api, Access: s.access, Log: slog.New(slog.DiscardHandler), Done: over,
		Writes: func() uint64 { return writes }})
	get := func(path string) *httptest.ResponseRecorder { return s.get(path) }
	tag := func() string {
		r := httptest.NewRequest("GET", "http://console.test/console/keys", nil)
		r.Header.Set("HX-Request", "true")
		return s.do(r).Header().Get("ETag")
	}
	check.Contains(t, get("/console/keys").Body.String(), `data-since="7"`)
	before := tag()
	s.never(get("/console/live?since=7").Body.String(), "changed")
	writes = 8
	if b := get("/console/live?since=7").Body.String(); strings.Count(b, "event: changed") != 1 {
		t.Errorf("something changed, and it returns %q", b)
	}
	if after := tag(); after == "" || after != before {
		t.Errorf("%s, was %s", after, before)
	}
}

// TestAnswersSayWhenToAskAgain: for pages that poll, every answer has the poll interval, also a 304.
func TestAnswersSayWhenToAskAgain(t *testing.T) {
	s := newConsole(t)
	tag := ""
	for range 2 {
		r := httptest.NewRequest("GET", "http://console.test/console/jobs", nil)
		r.Header.Set("HX-Request", "true")
		r.Header.Set("If-None-Match", tag)
		h := s.do(r).Header()
		tag = h.Get("ETag")
		if ms, err := strconv.Atoi(h.Get("X-Ask-Again")); err != nil || ms < 4000 || ms > 60_000 {
			t.Errorf("ask again after %q", h.Get("X-Ask-Again"))
		}
	}
	s.h = console.New(console.Options{API: s.api, Access: s.access, Writes: func() uint64 { return 0 }})
	if got := s.get("/console/jobs").Header().Get("X-Ask-Again"); got == "" {
		t.Error("a page without a place to listen gets no time to ask again")
	}
}

// TestPollIsAnsweredBeforeAPageIsMade: an open page polls by HEAD. With a valid session, the newest journal alone
// decides the answer: 204 if no run was sent since, for at most two minutes. A page that could not be built is
// rebuilt at once.
func TestPollIsAnsweredBeforeAPageIsMade(t *testing.T) {
	s := newConsole(t)
	newest := core.JournalKey{Minute: s.Clock.Unix()/60 - 5, Nonce: "a"}
	s.h = console.New(console.Options{API: s.api, Access: s.access, Now: func() time.Time { return s.Clock },
		Log: slog.New(slog.DiscardHandler), Newest: func(context.Context) (core.JournalKey, error) { return newest, nil }})
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
	if ms := poll("at last", http.StatusNoContent); ms != 4000 {
		t.Errorf("a page gets two minutes old and %d ms", ms-2000)
	}
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
			if w := listen("GET", s.cookies["tickring_session"]); w.Code != want {
				t.Errorf("page %d of one person: %d", i, w.Code)
			}
		}
		if w := listen("GET", admin); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "retry") {
			t.Errorf("of another: %d %s", w.Code, w.Body)
		}
		if w := listen("HEAD", s.cookies["tickring_session"]); w.Code != http.StatusOK {
			t.Errorf("a HEAD: %d", w.Code)
		}
		if w := listen("HEAD", "gone"); w.Code != http.StatusUnauthorized {
			t.Errorf("a HEAD without login: %d", w.Code)
		}
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
		if _, _, err := s.access.Save(t.Context(), access.ByMachine(true), access.Spec{Name: "ann", Disabled: &yes}); err != nil {
			t.Fatal(err)
		}
		if took := <-ended; took < time.Minute || took > time.Minute+10*time.Second {
			t.Errorf("it heard changes for %s", took)
		}
	})
}
