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
