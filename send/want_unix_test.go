//go:build unix

package send

import (
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

// starve uses up all file descriptors of this process; feed releases them.
func starve(t *testing.T) (feed func()) {
	t.Helper()
	var was syscall.Rlimit
	check.OK(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	none := was
	none.Cur = 0
	check.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	feed = func() {
		check.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was))
	}
	t.Cleanup(feed)
	return feed
}

// TestWantOfDescriptors: without file descriptors nothing is sent or asked, and no executor is blamed for it. With descriptors
// everything continues.
func TestWantOfDescriptors(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(wire.AppendReply(nil, 200, "")) }))
	defer srv.Close()
	s := newSender(t, Options{})
	app := &core.App{Name: "web"}
	addresses := []string{srv.URL, "https" + srv.URL[4:], "call:" + srv.URL}
	feed := starve(t)
	for _, address := range addresses {
		if a := s.Send(t.Context(), shipment(address, "POST /work")); a.Kind != dispatch.AnswerBusy || !a.Ours {
			t.Errorf("%s: %+v", address, a)
		}
		if err := s.Beat(t.Context(), app, address); core.CodeOf(err) != core.CodeUnavailable {
			t.Errorf("%s: beat: %v", address, err)
		}
		if scheme, _, _ := core.ParseAddress(address); scheme != core.SchemeWire {
			continue
		}
		if idle, err := s.Idle(t.Context(), app, address, 7); idle || core.CodeOf(err) != core.CodeUnavailable {
			t.Errorf("%s: idle %t, %v", address, idle, err)
		}
		if err := s.Kill(t.Context(), app, address, 7); core.CodeOf(err) != core.CodeUnavailable {
			t.Errorf("%s: kill: %v", address, err)
		}
	}
	feed()
	for address, kind := range map[string]dispatch.AnswerKind{srv.URL: dispatch.AnswerAccepted, "call:" + srv.URL: dispatch.AnswerEnded} {
		if a := s.Send(t.Context(), shipment(address, "POST /work")); a.Kind != kind || a.Ours {
			t.Errorf("%s: %+v", address, a)
		}
	}
}
