package console_test

import (
	"log/slog"
	"net/http/httptest"
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
	page := get("/console/keys")
	if !strings.Contains(page.Body.String(), `data-since="7"`) {
		t.Errorf("%s", page.Body)
	}
	if b := get("/console/live?since=7").Body.String(); strings.Contains(b, "changed") {
		t.Errorf("nothing came, and it says %q", b)
	}
	writes = 8
	if b := get("/console/live?since=7").Body.String(); strings.Count(b, "event: changed") != 1 {
		t.Errorf("something came, and it says %q", b)
	}
	if tag := get("/console/keys").Header().Get("ETag"); tag == "" || tag != page.Header().Get("ETag") {
		t.Errorf("%s, was %s", tag, page.Header().Get("ETag"))
	}
}
