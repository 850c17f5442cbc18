package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// watched runs a watch whose rounds print or fail as listed; an empty round interrupts it.
func watched(t *testing.T, output string, rounds []any) (stdout, stderr string, code int) {
	ctx, cancel := context.WithCancel(t.Context())
	var out, notes bytes.Buffer
	e := &conn{Env: &Env{Globals: &Globals{Output: output}, Ctx: ctx, Stdout: &out, Stderr: &notes,
		Getenv: lookup(nil)}}
	began, round := time.Now(), 0
	err := (&watchFlags{Watch: true, Interval: 2 * time.Second}).run(e, func(e *conn) error {
		check.Equal(t, time.Since(began), time.Duration(round)*2*time.Second, "round %d after", round)
		if round++; rounds[round-1] == "" {
			cancel()
		}
		switch r := rounds[round-1].(type) {
		case error:
			return r
		default:
			e.notef("%s", strings.Repeat("everything is paused\n", strings.Count(r.(string), "paused")))
			e.printf("%s\n", r)
		}
		return nil
	})
	return out.String(), notes.String(), exitOf(err)
}

func TestWatch(t *testing.T) {
	texts := golden.New(t)
	gone := fmt.Errorf("%w: connection refused", client.ErrNoAnswer)
	missing := &client.Error{Status: 404, Code: "not-found", Message: "app x does not exist"}
	for name, c := range map[string]struct {
		output string
		rounds []any
		stdout string
		code   int
	}{
		"changes are appended":         {"text", []any{"a", "a", "b", "b", "a", ""}, "a\n\nb\n\na\n", exitDone},
		"values follow on each other":  {"json", []any{"{1}", "{1}", "{2}", ""}, "{1}\n{2}\n", exitDone},
		"notes go beside it, once":     {"text", []any{"paused", "paused", "paused b", ""}, "paused\n\npaused b\n", exitDone},
		"no server at first":           {"text", []any{gone}, "", exitFailed},
		"away for a while":             {"text", []any{"a", gone, gone, "a", "b", ""}, "a\n\nb\n", exitDone},
		"a missing object ends it":     {"text", []any{"a", missing, "b"}, "a\n", exitNotFound},
		"a list with unreadable jobs":  {"text", []any{"a", exitWith(exitFailed), ""}, "a\n\n", exitDone},
		"interrupted while it is away": {"text", []any{"a", gone, ""}, "a\n", exitDone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stdout, stderr, code := watched(t, c.output, c.rounds)
				if stdout != c.stdout || code != c.code {
					t.Errorf("exit code %d, want %d\n%q\nwant\n%q", code, c.code, stdout, c.stdout)
				}
				texts.Equal(t, name, stderr)
			})
		})
	}
}

func TestWatchInterval(t *testing.T) {
	for _, d := range []time.Duration{0, 499 * time.Millisecond, time.Hour + 1} {
		err := (&watchFlags{Watch: true, Interval: d}).run(nil, nil)
		check.Equal(t, exitOf(err), exitUsage, "%s: %v", d, err)
	}
}

// A picture stands in the place of the one before, and no higher than the window.
func TestWatchInPlace(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	check.OK(t, err)
	defer null.Close()
	out := &page{&bytes.Buffer{}, null.Fd()}
	s := screen{e: &Env{Globals: &Globals{Output: "text"}, Stdout: out}, every: time.Second, inPlace: true}
	s.show("one\ntwo\n", "")
	first := out.String()
	out.Reset()
	s.away(errors.New("no answer: refused\x1b[2J"))
	second := out.String()
	out.Reset()
	s.show(strings.Repeat("line\n", 100), "a note\n")
	third := out.String()
	if !strings.HasPrefix(first, "\r\x1b[J\x1b[?7levery 1s   ") || !strings.HasSuffix(first, "\none\ntwo\n\x1b[?7h") {
		t.Errorf("%q", first)
	}
	if !strings.HasPrefix(second, "\x1b[3A\r\x1b[J\x1b[?7lshown as of ") || !strings.Contains(second, `no answer: refused\u001b[2J`) ||
		!strings.Contains(second, "\none\ntwo\n") {
		t.Errorf("%q", second)
	}
	if !strings.HasPrefix(third, "\x1b[3A") || strings.Count(third, "\n") != 23 ||
		!strings.HasSuffix(third, "\n\x1b[?7h") {
		t.Errorf("%q", third)
	}
	golden.New(t).Equal(t, "the last line", strings.Split(third, "\n")[22])
}

// TestWatchEndsWithCtrlC runs the program itself and ends it with Ctrl-C.
func TestWatchEndsWithCtrlC(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no such signal")
	}
	s := testServer(t)
	defer s.Close()
	run := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Args[0] = "tickring-main"
		cmd.Env = append(os.Environ(), "TICKRING_ENDPOINT="+s.URL, "TICKRING_TOKEN=sesame")
		return cmd
	}
	cmd := run("get", "--watch", "--interval", "500ms")
	out, err := cmd.StdoutPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
	lines := bufio.NewScanner(out)
	until := func(want string) {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("no %s", want)
	}
	until("no jobs yet")
	if text, err := run("create", "shop/report", "--handler", "x").CombinedOutput(); err != nil {
		t.Fatalf("%s", text)
	}
	until("shop/report")
	check.OK(t, cmd.Process.Signal(os.Interrupt))
	if lines.Scan() {
		t.Errorf("%q", lines.Text())
	}
	check.NoError(t, cmd.Wait())
}
