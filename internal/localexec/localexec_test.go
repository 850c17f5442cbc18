//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package localexec

import (
	"bytes"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/wire"
)

// TestAllow: an impossible setting is rejected when the server starts, and a forbidden command
// when a job is saved.
func TestAllow(t *testing.T) {
	me, err := user.Current()
	check.OK(t, err)
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	check.OK(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		users, dirs []string
		field       string
	}{
		"no user":        {nil, []string{dir}, "commands"},
		"no folder":      {[]string{me.Username}, nil, "commands"},
		"nobody's user":  {[]string{"nobody-has-this"}, []string{dir}, "commands-user"},
		"nowhere":        {[]string{me.Username}, []string{filepath.Join(dir, "x")}, "commands-dir"},
		"not a folder":   {[]string{me.Username}, []string{file}, "commands-dir"},
		"one of several": {[]string{me.Username, "nobody-has-this"}, []string{dir}, "commands-user"},
	} {
		a, err := Allow(c.users, c.dirs)
		if e, is := errors.AsType[*core.Error](err); !is || e.Field != c.field || a != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	a, err := Allow([]string{me.Username}, []string{dir})
	check.OK(t, err)
	for _, c := range []struct {
		command core.Command
		field   string
	}{
		{core.Command{}, ""}, {core.Command{User: me.Username, Dir: dir}, ""}, {core.Command{Dir: dir + "/a/b"}, ""},
		{core.Command{User: "daemon"}, "command.user"}, {core.Command{Dir: dir + "a"}, "command.dir"}, {core.Command{Dir: "/"}, "command.dir"},
		{core.Command{Dir: filepath.Dir(dir)}, "command.dir"},
	} {
		err := a.Check(&c.command)
		if e, is := errors.AsType[*core.Error](err); (c.field != "") != is || is && e.Field != c.field {
			t.Errorf("%+v: %v", c.command, err)
		}
	}
	if err := (*Allowed)(nil).Check(&core.Command{}); err == nil {
		t.Error("nothing is allowed, and a command is not refused")
	}
}

// TestEndOf: the end of a command follows from the executor's text, never from the output.
func TestEndOf(t *testing.T) {
	const (
		killed  = "scheduling center kill job. [job running, killed]"
		stopped = "web container destroy and kill the job. [job running, killed]"
		died    = "the executor's process ended under the run (container destroy). [job running, killed]"
		prints  = "\n---- log\n" + killed + stopped + "block strategy effect"
	)
	type is struct {
		state  core.State
		reason core.Reason
		code   int
	}
	texts := golden.New(t)
	for name, c := range map[string]struct {
		it   wire.CallbackItem
		want is
	}{
		"succeeded": {wire.CallbackItem{Code: 200, Msg: prints}, is{core.Succeeded, "", 0}},
		"exit code": {wire.CallbackItem{Code: 3, Msg: "exit code 3" + prints}, is{core.Failed, core.ReasonHandler, 3}},
		"exit 200":  {wire.CallbackItem{Code: int(exit200), Msg: "exit code 200"}, is{core.Failed, core.ReasonHandler, 200}},
		"signal":    {wire.CallbackItem{Code: 137, Msg: "ended by signal 9"}, is{core.Failed, core.ReasonHandler, 137}},
		"cancel": {wire.CallbackItem{Code: 500, RetryAfter: wire.NeverRetry, Msg: "exit code 65" + prints},
			is{core.Failed, core.ReasonHandler, executor.ExitCancel}},
		"snooze": {wire.CallbackItem{Code: 500, RetryAfter: 60, Msg: "snoozed"}, is{core.Failed, core.ReasonHandler, executor.ExitSnooze}},
		"did not begin": {wire.CallbackItem{Code: 500, Msg: "run /bin/sh: no such file" + prints},
			is{core.Failed, core.ReasonHandler, 0}},
		"timeout": {wire.CallbackItem{Code: 502, Msg: "job execute timeout " + prints}, is{core.TimedOut, core.ReasonTimeout, 0}},
		"killed":  {wire.CallbackItem{Code: 500, Msg: killed + prints}, is{core.Killed, core.ReasonPerson, 0}},
		"stopped": {wire.CallbackItem{Code: 500, Msg: stopped + prints}, is{core.Lost, core.ReasonGone, 0}},
		"died":    {wire.CallbackItem{Code: 500, Msg: died}, is{core.Lost, core.ReasonGone, 0}},
		"goes on": {wire.CallbackItem{Code: 500, Msg: died + " (its program cannot be ended and goes on)"},
			is{core.Lost, core.ReasonGone, 0}},
	} {
		r := endOf(&c.it, time.Unix(1, 0))
		if got := (is{r.State, r.Reason, r.Code}); got != c.want {
			t.Errorf("%s: %+v, %q", name, got, r.Message)
		}
		texts.Equal(t, name, r.Message)
		if !r.Reported || r.RetryAfter != time.Duration(c.it.RetryAfter)*time.Second {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := endOf(&wire.CallbackItem{Code: 1, Msg: strings.Repeat("x", 20_000)}, time.Now()); len(r.Message) > core.MessageMax {
		t.Errorf("a message of %d bytes", len(r.Message))
	}
}

// TestBounded: the first bytes pass, and the last of the rest are kept.
func TestBounded(t *testing.T) {
	var out bytes.Buffer
	b := &bounded{w: &out, left: 10}
	for range 10_000 {
		if n, err := b.Write([]byte("0123456789abcdef")); n != 16 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n, err := b.Write([]byte("the end")); n != 7 || err != nil {
		t.Fatal(n, err)
	}
	if out.String() != "0123456789" || b.over != 160_007-10 || len(b.last) > 2*tail || !bytes.HasSuffix(b.last, []byte("cdefthe end")) {
		t.Errorf("%q, %d over, %d kept", out.String(), b.over, len(b.last))
	}
}
