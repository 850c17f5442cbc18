package server

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestCannotStart: each error names the problem, its place and a fix, and leaves no new files behind.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	texts := golden.New(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer busy.Close()
	file := filepath.Join(t.TempDir(), "file")
	check.OK(t, os.WriteFile(file, []byte("not a folder"), 0o600))
	noDatabase := t.TempDir()
	check.OK(t, os.WriteFile(filepath.Join(noDatabase, "tickring.db"), []byte(strings.Repeat("this is no database ", 100)), 0o600))
	short := t.TempDir()
	check.OK(t, os.WriteFile(filepath.Join(short, TokenFile), []byte("12345678\n"), 0o600))
	for _, c := range []struct {
		name  string
		o     Options
		field string
	}{
		{"a port in use", Options{Dir: t.TempDir(), Listen: busy.Addr().String()}, "listen"},
		{"no address", Options{Dir: t.TempDir(), Listen: "nonsense"}, "listen"},
		{"no port", Options{Dir: t.TempDir(), Listen: "127.0.0.1:http-or-so"}, "listen"},
		{"a folder that is a file", Options{Dir: file}, "data"},
		{"a folder below a file", Options{Dir: filepath.Join(file, "below")}, "data"},
		{"a token too short", Options{Dir: t.TempDir(), Token: "nineteen-characters"}, "TICKRING_ADMIN_TOKEN"},
		{"a read token that can be guessed", Options{Dir: t.TempDir(), Token: "token-of-an-administrator", ReadToken: "read-token"},
			"TICKRING_READ_TOKEN"},
		{"a read token that is the admin token", Options{Dir: t.TempDir(), Token: "token-of-an-administrator",
			ReadToken: "token-of-an-administrator"}, "TICKRING_READ_TOKEN"},
		{"a token too short in the folder", Options{Dir: short}, filepath.Join(short, TokenFile)},
		{"a file that is no database", Options{Dir: noDatabase}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Listen == "" {
				c.o.Listen = "127.0.0.1:0"
			}
			c.o.Log = slog.New(slog.DiscardHandler)
			s, err := New(c.o)
			if err == nil {
				err = s.Run(t.Context())
			}
			if err == nil {
				t.Fatal("it started")
			}
			if left, _ := os.ReadDir(c.o.Dir); c.field == "listen" && len(left) > 0 {
				t.Errorf("%s was left behind", left[0].Name())
			}
			if code := core.CodeOf(err); code == core.CodeInternal {
				t.Errorf("code %s: %v", code, err)
			}
			if e, ok := errors.AsType[*core.Error](err); c.field != "" && (!ok || e.Field != c.field) {
				t.Errorf("not at %s: %v", c.field, err)
			}
			texts.Equal(t, c.name, err.Error(), busy.Addr().String(), "BUSY", file, "FILE", short, "SHORT", noDatabase, "DATA")
		})
	}
}

func TestTuneRefuses(t *testing.T) {
	var o Options
	for _, c := range []struct{ name, value string }{{"nonsense", "1s"}, {"beat", "soon"}, {"beat", "-1s"}, {"beat", "0s"}} {
		if err := o.Tune(c.name, c.value); core.CodeOf(err) != core.CodeInvalid {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
	}
}

// TestHeld: while reports are a day behind and catch up, nothing is swept, and this starts again after each sleep of the machine. A
// clock set back, a full disk, and reports that never catch up hold the sweep for a bounded time only.
func TestHeld(t *testing.T) {
	const every = time.Minute
	now := time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) core.Instant { return core.InstantOf(now.Add(-ago)) }
	var h held
	sweeps := func(n int, counted func(i int) core.Instant) (held int) {
		for i := range n {
			if now = now.Add(every); h.holds(counted(i), now, every) {
				held++
			}
		}
		return held
	}
	fresh := func(int) core.Instant { return at(8 * time.Hour) }
	check.Equal(t, sweeps(100, fresh), 0, "sweeps are held though nothing is behind")
	for range 2 { // it sleeps for three days, twice
		now = now.Add(72 * time.Hour)
		from := at(80 * time.Hour)
		if n := sweeps(100, func(i int) core.Instant { return from + core.Instant(i*3600) }); n < 50 || n > 60 {
			t.Errorf("%d sweeps are held while 57 hours are summed, one each minute", n)
		}
		sweeps(1, fresh)
	}
	stuck := at(48 * time.Hour)
	if n := sweeps(1000, func(int) core.Instant { return stuck }); n < 59 || n > 61 {
		t.Errorf("%d sweeps are held in a row where reports come no further", n)
	}
	h = held{}
	if n := sweeps(3000, func(int) core.Instant { return at(50 * time.Hour) }); n < 1439 || n > 1441 {
		t.Errorf("%d sweeps are held where reports are as slow as time", n)
	}
	sweeps(1, fresh)
	if n := sweeps(10, func(int) core.Instant { return at(-1000 * time.Hour) }); n != 0 {
		t.Errorf("%d sweeps are held by sums of a clock a day ahead", n)
	}
}

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
