package server

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
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
