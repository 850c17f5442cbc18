package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

func init() { programs["first-process"], programs["secretive"] = first, secretive }

// command runs this test's program as another one of TestMain's.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Args[0] = name
	cmd.Stderr = t.Output()
	return cmd
}

// first becomes a child subreaper, as the first process of a container is: it adopts orphans. It runs sh under it.
func first() {
	const subreaper = 36
	if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, subreaper, 1, 0); errno != 0 {
		panic(errno)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		panic(err)
	}
	code, err := reap(sh, append([]string{"sh"}, os.Args[1:]...))
	if err != nil {
		panic(err)
	}
	os.Exit(code)
}

// secretive hides its environment from its child, and exits with the child's code.
func secretive() {
	hideEnvironment()
	if err := exec.Command("sh", "-c", "cat /proc/$PPID/environ").Run(); err != nil {
		os.Exit(7)
	}
}

// TestHiddenEnvironment: a program of exec's user cannot read exec's environment under /proc.
func TestHiddenEnvironment(t *testing.T) {
	cmd := command(t, "secretive")
	if os.Getuid() == 0 { // root can read everything; another user lacks that capability
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		self, err := os.ReadFile(os.Args[0])
		check.OK(t, err)
		cmd.Path = filepath.Join(publicDir(t), "secretive")
		check.OK(t, os.WriteFile(cmd.Path, self, 0o755))
	}
	if err := cmd.Run(); err == nil || err.Error() != "exit status 7" {
		t.Errorf("it ended with %v: its child has read the environment", err)
	}
}

// publicDir creates a directory that all users can enter.
func publicDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "tickring-public-")
	check.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check.OK(t, os.Chmod(dir, 0o755))
	return dir
}

// TestFirstProcess: the first process of a container waits for orphans, forwards signals, and exits with its program's code.
func TestFirstProcess(t *testing.T) {
	// kill -0 finds a process until it is waited for.
	const orphan = `p=$(sh -c 'sleep 0 >/dev/null & echo $!'); while kill -0 $p 2>/dev/null; do :; done; `
	for script, want := range map[string]string{
		orphan + `exit 3`: "exit status 3",
		`kill -9 $$`:      "exit status 137",
		`trap 'exit 5' TERM; kill -TERM $PPID; while :; do sleep 0.01; done`: "exit status 5",
	} {
		if err := command(t, "first-process", "-c", script).Run(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
}

// TestExecSecondSignal: a second signal ends running programs at once, whatever the grace; their runs are reported, and the
// executor ends in order.
func TestExecSecondSignal(t *testing.T) {
	registered, removed, results := make(chan string, 1), make(chan bool, 1), make(chan wire.CallbackItem, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case wire.PathRegistry:
			if reg, err := wire.DecodeRegistration(body); err == nil && len(registered) == 0 {
				registered <- reg.Address
			}
		case wire.PathRegistryRemove:
			removed <- true
		case wire.PathCallback:
			if c, err := wire.DecodeCallback(body, 0); err == nil {
				results <- c.Items[0]
			}
		}
		_, _ = io.WriteString(w, `{"code":200,"msg":null}`)
	}))
	defer server.Close()
	pipe := filepath.Join(t.TempDir(), "pipe")
	check.OK(t, syscall.Mkfifo(pipe, 0o600))
	cmd := command(t, "tickring-main", "exec", "--app", "demo", "--handler", "h", "--server", server.URL, "--listen", "127.0.0.1:0",
		"--dir", t.TempDir(), "--grace", "1h", "--", "sh", "-c",
		`exec 9>"$1"; trap '' INT TERM; echo started >&9; while :; do sleep 1000; done`, "sh")
	var says bytes.Buffer
	cmd.Stderr = &says
	check.OK(t, cmd.Start())
	run := wire.Run{JobID: 1, LogID: 7, Handler: "h", GlueType: wire.GlueBean, Params: pipe, BroadcastTotal: 1}
	res, err := http.Post(<-registered+wire.PathRun, wire.ContentType, strings.NewReader(string(wire.AppendRun(nil, &run))))
	check.OK(t, err)
	res.Body.Close()
	held, err := os.Open(pipe)
	check.OK(t, err)
	defer held.Close()
	check.Call(t)(io.ReadFull(held, make([]byte, len("started\n"))))
	for _, wait := range []chan bool{removed, nil} { // the first signal has taken effect once the address is removed
		check.OK(t, cmd.Process.Signal(os.Interrupt))
		if wait != nil {
			<-wait
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if n := strings.Count(says.String(), "The executor is stopping. "); n != 1 {
		t.Errorf("it logged %d times that it stops: %s", n, says.String())
	}
	if b, err := io.ReadAll(held); err != nil || len(b) > 0 {
		t.Errorf("of its program: %q %v", b, err)
	}
	if it := <-results; it.LogID != 7 || it.Code != 500 || it.Msg != fmt.Sprint(errSecond) {
		t.Errorf("its result: %+v", it)
	}
}
