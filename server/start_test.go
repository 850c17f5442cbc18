package server

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
)

// TestCannotStart: each error names the problem, its place and a fix, and leaves no new files behind.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not a folder"), 0o600); err != nil {
		t.Fatal(err)
	}
	noDatabase := t.TempDir()
	if err := os.WriteFile(filepath.Join(noDatabase, "tickring.db"), []byte(strings.Repeat("this is no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	short := t.TempDir()
	if err := os.WriteFile(filepath.Join(short, TokenFile), []byte("12345678\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		o     Options
		field string
		says  []string
	}{
		{"a port in use", Options{Dir: t.TempDir(), Listen: busy.Addr().String()}, "listen", []string{busy.Addr().String(), "--listen"}},
		{"no address", Options{Dir: t.TempDir(), Listen: "nonsense"}, "listen", []string{"nonsense", "HOST:PORT"}},
		{"no port", Options{Dir: t.TempDir(), Listen: "127.0.0.1:http-or-so"}, "listen", []string{"HOST:PORT"}},
		{"a folder that is a file", Options{Dir: file}, "data", []string{file, "--data"}},
		{"a folder below a file", Options{Dir: filepath.Join(file, "below")}, "data", []string{file}},
		{"a token too short", Options{Dir: t.TempDir(), Token: "nineteen-characters"}, "TICKRING_ADMIN_TOKEN", []string{"20 to 512"}},
		{"a token too short in the folder", Options{Dir: short}, filepath.Join(short, TokenFile), []string{"20 to 512"}},
		{"a file that is no database", Options{Dir: noDatabase}, "", []string{"not a file of tickring"}},
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
			for _, want := range append(c.says, c.field) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
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
