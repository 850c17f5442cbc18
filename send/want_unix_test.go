//go:build unix

package send

import (
	"net/http"
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
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(wire.AppendReply(nil, 200, "")) })
	s := newSender(t, Options{})
	app := &core.App{Name: "web"}
	addresses := []string{srv.URL, "https" + srv.URL[4:], "call:" + srv.URL}
	feed := starve(t)
	for _, address := range addresses {
		if a := s.Send(t.Context(), shipment(address, "POST /work")); a.Kind != dispatch.AnswerBusy || !a.Ours {
			t.Errorf("%s: %+v", address, a)
		}
		check.Equal(t, core.CodeOf(s.Beat(t.Context(), app, address)), core.CodeUnavailable, "beat of %s", address)
		if scheme, _, _ := core.ParseAddress(address); scheme != core.SchemeWire {
			continue
		}
		if idle, err := s.Idle(t.Context(), app, address, 7); idle || core.CodeOf(err) != core.CodeUnavailable {
			t.Errorf("%s: idle %t, %v", address, idle, err)
		}
		check.Equal(t, core.CodeOf(s.Kill(t.Context(), app, address, 7)), core.CodeUnavailable, "kill at %s", address)
	}
	feed()
	for address, kind := range map[string]dispatch.AnswerKind{srv.URL: dispatch.AnswerAccepted, "call:" + srv.URL: dispatch.AnswerEnded} {
		if a := s.Send(t.Context(), shipment(address, "POST /work")); a.Kind != kind || a.Ours {
			t.Errorf("%s: %+v", address, a)
		}
	}
}
