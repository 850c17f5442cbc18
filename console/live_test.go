package console_test

import (
	"log/slog"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/tickring/tickring/console"
)

// TestNothingIsMissedBeforeListening: a page says what was written before it was made, and is
// told when it begins to listen if something came since; its tag is of what it shows.
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
	if page := get("/console/keys").Body.String(); !strings.Contains(page, `data-since="7"`) {
		t.Errorf("%s", page)
	}
	before := tag()
	if b := get("/console/live?since=7").Body.String(); strings.Contains(b, "changed") {
		t.Errorf("nothing came, and it says %q", b)
	}
	writes = 8
	if b := get("/console/live?since=7").Body.String(); strings.Count(b, "event: changed") != 1 {
		t.Errorf("something came, and it says %q", b)
	}
	if after := tag(); after == "" || after != before {
		t.Errorf("%s, was %s", after, before)
	}
}

// TestAnswersSayWhenToAskAgain: where nobody tells a page of changes, also the answer that nothing is new.
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
	if got := s.get("/console/jobs").Header().Get("X-Ask-Again"); got != "" {
		t.Errorf("a page that is told asks after %s", got)
	}
}
