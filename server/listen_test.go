package server

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestDeadlines: no request, no answer and no silence lasts, and an answer has the time
// of the longest poll.
func TestDeadlines(t *testing.T) {
	s, err := New(Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	check.OK(t, err)
	defer s.ln.Close()
	for name, d := range map[string]time.Duration{"header": s.http.ReadHeaderTimeout, "read": s.http.ReadTimeout, "write": s.http.WriteTimeout,
		"idle": s.http.IdleTimeout} {
		if d <= 0 || d > 2*time.Minute {
			t.Errorf("%s: %s", name, d)
		}
	}
	if s.http.WriteTimeout < s.http.ReadTimeout+pullqueue.MaxWait+10*time.Second || s.http.IdleTimeout > 25*time.Second {
		t.Errorf("write %s, idle %s", s.http.WriteTimeout, s.http.IdleTimeout)
	}
}

func TestWaitingFor(t *testing.T) {
	for of, want := range map[int]int{1: 1, 8: 1, 128: 16, 512: 64, 8192: 64} {
		check.Equal(t, waitingFor(of), want, "of %d connections", of)
	}
}
