//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package executor

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

func scriptRun(job int32, id int64, kind, source string, updated int64) wire.Run {
	run := order(job, id, "")
	run.GlueType, run.GlueSource, run.GlueUpdated = kind, source, updated
	return run
}

func startScripts(t *testing.T, change func(*Options)) (*fake, *Executor) {
	t.Helper()
	return started(t, NewMux(), func(o *Options) {
		o.Token = "secret"
		o.Scripts = &Scripts{Kinds: []string{Shell, Python, NodeJS, PHP, PowerShell}}
		if change != nil {
			change(o)
		}
	})
}

func sendScript(tb testing.TB, e *Executor, run wire.Run) {
	tb.Helper()
	if r := post(e, wire.PathRun, wire.AppendRun(nil, &run), wire.HeaderToken, "secret"); !r.OK() {
		tb.Fatalf("answered %d %q", r.Code, r.Msg)
	}
}

func scriptLog(t *testing.T, e *Executor, run wire.Run) string {
	t.Helper()
	b, err := os.ReadFile(e.logs.path(run.LogID, run.LogTime))
	check.OK(t, err)
	return string(b)
}

// Each language: its arguments, its output, its exit code.
func TestScripts(t *testing.T) {
	t.Setenv("MY_SECRET", "hidden")
	f, e := startScripts(t, nil)
	tried := 0
	for i, c := range []struct{ kind, command, source string }{
		{Shell, "bash", `echo "out $1 $2 $3 [$MY_SECRET]"; echo problem >&2; exit ${1#*=}`},
		{Python, "python3", "import sys, os\nprint('out', *sys.argv[1:], [os.getenv('MY_SECRET') or ''], flush=True)\nprint('problem', " +
			"file=sys.stderr)\nsys.exit(int(sys.argv[1].split('=')[1]))"},
		{NodeJS, "node", "const a = process.argv.slice(2); console.log('out', ...a, [process.env.MY_SECRET || '']); console.error('problem'); " +
			"process.exitCode = +a[0].split('=')[1]"},
		{PHP, "php", `<?php echo "out $argv[1] $argv[2] $argv[3] [" . getenv('MY_SECRET') . "]\n"; fwrite(STDERR, "problem\n"); exit((int)explode('=', $argv[1])[1]);`},
		{PowerShell, "pwsh", `Write-Output "out $($args[0]) $($args[1]) $($args[2]) [$($env:MY_SECRET)]"; [Console]::Error.WriteLine("problem"); exit [int]$args[0].Split("=")[1]`},
	} {
		if _, err := exec.LookPath(c.command); err != nil {
			t.Logf("no %s here", c.command)
			continue
		}
		tried++
		for j, want := range []struct {
			code int
			msg  string
		}{{200, ""}, {500, "script exit value(3) is failed"}} {
			run := scriptRun(int32(i+1), int64(10*i+j+1), c.kind, c.source, 1)
			run.Params, run.BroadcastIndex, run.BroadcastTotal = []string{"a=0", "a=3"}[j], 1, 4
			sendScript(t, e, run)
			f.want(t, run.LogID, want.code, want.msg)
			if log := scriptLog(t, e, run); !strings.Contains(log, "out "+run.Params+" 1 4") || !strings.Contains(log, "problem\n") ||
				strings.Contains(log, "hidden") {
				t.Errorf("%s: log:\n%s", c.kind, log)
			}
		}
	}
	if tried == 0 {
		t.Skip("no interpreter here")
	}
}

func needBash(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash here")
	}
}

// TestScriptOptions: a script gets the environment, directory and program of the options, and its newest source.
func TestScriptOptions(t *testing.T) {
	needBash(t)
	dir := t.TempDir()
	f, e := startScripts(t, func(o *Options) {
		o.Scripts = &Scripts{Kinds: []string{Shell, PHP}, Dir: dir, Env: []string{"GIVEN=yes"}, Commands: map[string]string{PHP: "bash"}}
	})
	run := scriptRun(1, 1, Shell, `echo "$GIVEN $HOME in $PWD"`, 1)
	sendScript(t, e, run)
	f.want(t, 1, 200, "")
	check.Contains(t, scriptLog(t, e, run), "yes  in "+dir+"\n", "log")
	run = scriptRun(1, 2, Shell, `echo newer`, 2)
	sendScript(t, e, run)
	f.want(t, 2, 200, "")
	check.Contains(t, scriptLog(t, e, run), "\nnewer\n", "log")
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 1 || !strings.HasSuffix(names[0], "1_2.sh") {
		t.Errorf("scripts kept: %v", names)
	}
	run = scriptRun(2, 3, PHP, `echo by another program`, 1)
	sendScript(t, e, run)
	f.want(t, 3, 200, "")
	r := post(e, wire.PathRun, wire.AppendRun(nil, &wire.Run{JobID: 3, LogID: 4, GlueType: Python}), wire.HeaderToken, "secret")
	refused(t, r, 500, "glueType[GLUE_PYTHON] is disabled")
}

// TestScriptIsKilledWithItsChildren: a killed script ends with the processes that it started, also if its source was
// changed.
func TestScriptIsKilledWithItsChildren(t *testing.T) {
	needBash(t)
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip("no sleep here")
	}
	f, e := startScripts(t, nil)
	const source = `exec 9>"$1"; sleep 1000 & echo started >&9; wait`
	for i, end := range []string{"kill", "timeout", "changed"} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		check.OK(t, syscall.Mkfifo(pipe, 0o600))
		run := scriptRun(int32(i+1), int64(i+1), Shell, source, 1)
		run.Params = pipe
		if end == "timeout" {
			run.Timeout = 1
		}
		sendScript(t, e, run)
		held, err := os.Open(pipe) // once the script opens it too
		check.OK(t, err)
		check.Call(t)(io.ReadFull(held, make([]byte, len("started\n"))))
		want, msg := 500, "scheduling center kill job. [job running, killed]"
		switch end {
		case "kill":
			post(e, wire.PathKill, wire.AppendKill(nil, wire.KillRequest{JobID: run.JobID}), wire.HeaderToken, "secret")
		case "timeout":
			want, msg = 502, "job execute timeout "
		case "changed":
			sendScript(t, e, scriptRun(run.JobID, 99, Shell, "exit 0", 2))
			msg = "change jobhandler or glue type, and terminate the old job thread. [job running, killed]"
		}
		f.want(t, run.LogID, want, msg)
		// The pipe ends when the last process that holds it is gone.
		if b, err := io.ReadAll(held); err != nil || len(b) > 0 {
			t.Errorf("%s: %q %v", end, b, err)
		}
		held.Close()
	}
	f.want(t, 99, 200, "")
}

func TestScriptCannotBeRun(t *testing.T) {
	f, e := startScripts(t, func(o *Options) {
		o.Scripts.Commands = map[string]string{Shell: filepath.Join(o.Dir, "nothing-here")}
	})
	sendScript(t, e, scriptRun(1, 1, Shell, "x", 1))
	if it := f.result(t, 1); it.Code != 500 || !strings.HasPrefix(it.Msg, "run the script: ") {
		t.Errorf("%d %q", it.Code, it.Msg)
	}
}

// TestProgramGetsNoToken: programs do not get the scheduler's tokens, because others can read their output in logs.
func TestProgramGetsNoToken(t *testing.T) {
	needBash(t)
	for _, name := range []string{"TICKRING_TOKEN", "TICKRING_ADMIN_TOKEN", "TICKRING_READ_TOKEN",
		"TICKRING_APP_TOKEN", "TICKRING_ACCESS_TOKEN"} {
		t.Setenv(name, "secret")
	}
	t.Setenv("TOKEN_OF_ANOTHER", "theirs")
	f, e := started(t, muxOf("p", Program{Path: "bash", Args: []string{"-c", "env"}}.Handle), nil)
	run := order(5, 7, "p")
	mustSend(t, e, run)
	f.want(t, run.LogID, 200, "")
	if log := readLog(t, e, run); strings.Contains(log, "secret") || !strings.Contains(log, "TOKEN_OF_ANOTHER=theirs") {
		t.Errorf("log:\n%s", log)
	}
}

func TestProgram(t *testing.T) {
	needBash(t)
	mux := NewMux()
	mux.Register("p", Program{Path: "bash",
		Args: []string{"-c", `echo "args [$1] [$2]"; env | sort | grep -E '^(TICKRING_|GIVEN|TRACEPARENT)'; exit "${CODE:-0}"`, "name"},
		Dir:  t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH"), "GIVEN=1"}}.Handle)
	mux.Register("fails", Program{Path: "bash", Args: []string{"-c", "exit 7"}}.Handle)
	mux.Register("not now", Program{Path: "bash", Args: []string{"-c", "exit 75"}, Snooze: time.Hour}.Handle)
	mux.Register("later", Program{Path: "bash", Args: []string{"-c", "exit 75"}}.Handle)
	mux.Register("never", Program{Path: "bash", Args: []string{"-c", "exit 65"}}.Handle)
	mux.Register("dies", Program{Path: "bash", Args: []string{"-c", "kill -9 $$"}}.Handle)
	mux.Register("none", Program{Path: "there-is-no-such-program"}.Handle)
	f, e := started(t, mux, nil)
	run := order(5, 5<<32|200_000_000, "p")
	run.Params, run.BroadcastIndex, run.BroadcastTotal, run.Timeout = "a b", 1, 3, 60
	run.About = wire.About{Attempt: 2, Cause: "retry",
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	mustSend(t, e, run)
	f.want(t, run.LogID, 200, "")
	const want = `args [a b] []
GIVEN=1
TICKRING_ATTEMPT=2
TICKRING_CAUSE=retry
TICKRING_HANDLER=p
TICKRING_JOB=5
TICKRING_PARAMS=a b
TICKRING_RUN=21674836480
TICKRING_SCHEDULED_AT=2026-05-03T19:33:20Z
TICKRING_SHARD_INDEX=1
TICKRING_SHARD_TOTAL=3
TICKRING_TIMEOUT=60
TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
`
	check.Contains(t, readLog(t, e, run), "\n"+want, "log")
	for i, c := range []struct {
		handler, msg string
		after        int64
	}{{"fails", "exit code 7", 0}, {"dies", "run bash: signal: killed", 0}, {"not now", "snoozed for 1h", 3600},
		{"later", "snoozed for 1m", 60}, {"never", "exit code 65", wire.NeverRetry},
		{"none", `run there-is-no-such-program: exec: "there-is-no-such-program"`, 0}} {
		mustSend(t, e, order(int32(10+i), int64(10+i), c.handler))
		if it := f.result(t, int64(10+i)); it.Code != 500 || !strings.HasPrefix(it.Msg, c.msg) || it.RetryAfter != c.after {
			t.Errorf("%s: %d %q %d", c.handler, it.Code, it.Msg, it.RetryAfter)
		}
	}
}
