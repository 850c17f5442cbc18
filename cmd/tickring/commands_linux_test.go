package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/wire"
)

// runMessage finds the message in the JSON of a run.
var runMessage = regexp.MustCompile(`"message": ".*"`)

// lineOf is the first line of a file, once it is whole.
func lineOf(t *testing.T, path string) (line string) {
	t.Helper()
	waiting.Until(t, path, func() bool {
		b, err := os.ReadFile(path)
		var whole bool
		line, _, whole = strings.Cut(string(b), "\n")
		return err == nil && whole
	})
	return line
}

// lives reports whether there is a process of a number that was not ended.
func lives(t *testing.T, pid string) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	return len(f) > 0 && f[0] != "Z" && f[0] != "X"
}

// serving starts a server, and waits for the first line of its output.
func serving(t *testing.T, args ...string) (server *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	server = command(t, "tickring-main", append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	out, err := server.StdoutPipe()
	check.OK(t, err)
	check.OK(t, server.Start())
	lines = bufio.NewScanner(out)
	lines.Scan()
	return server, lines
}

// stops has a server end by itself.
func stops(t *testing.T, server *exec.Cmd) {
	t.Helper()
	check.OK(t, server.Process.Signal(syscall.SIGTERM))
	check.NoError(t, server.Wait())
}

// TestCommandsOfAServerThatIsKilled: a command runs end to end. If its server is killed, the command's first process dies with it.
// The next server ends its other processes before it reports the run as lost, and does not start it again. Commands that waited for
// their turn start.
func TestCommandsOfAServerThatIsKilled(t *testing.T) {
	texts := golden.New(t)
	me, err := user.Current()
	check.OK(t, err)
	data, dir := t.TempDir(), t.TempDir()
	serve := func() *exec.Cmd {
		server, _ := serving(t, "--data", data, "--commands-user", me.Username, "--commands-dir", dir, "--commands-most", "1")
		return server
	}
	tickring := func(args ...string) string {
		t.Helper()
		out, err := command(t, "tickring-main", append(args, "--data", data)...).Output()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	server := serve()
	tickring("create", "ops/dump", "--env", "GREETING=hello", "--command",
		`echo "$GREETING from $TICKRING_RUN"; echo $TICKRING_RUN >> began; [ -e second ] && exit 0
sleep 1000 & echo $! > child; echo $$ > shell; wait`)
	check.Contains(t, tickring("get", "ops/dump", "-o", "yaml"), "    command: {line: ", "it is written as")
	const first, second = "6442450945", "6442450946"
	tickring("trigger", "ops/dump")
	shell := lineOf(t, filepath.Join(dir, "shell"))
	child := lineOf(t, filepath.Join(dir, "child"))
	tickring("trigger", "ops/dump")
	waiting.Until(t, "the second waits", func() bool { return strings.Contains(tickring("run", second), "running") })
	check.Contains(t, tickring("logs", first), "hello from "+first, "its log")

	check.OK(t, server.Process.Kill())
	_ = server.Wait()
	waiting.Until(t, "the shell goes with its server", func() bool { return !lives(t, shell) })
	if !lives(t, child) {
		t.Error("there is nothing left to end")
	}
	check.OK(t, os.WriteFile(filepath.Join(dir, "second"), nil, 0o600))
	server = serve()
	var text string
	waiting.Until(t, "the run is lost", func() bool {
		text = tickring("run", first)
		return !strings.Contains(text, "running")
	})
	if lives(t, child) {
		t.Error("the run has ended, but its child process goes on")
	}
	if !strings.Contains(text, `  command `) || !strings.Contains(text, "lost: gone") {
		t.Errorf("it is %s", text)
	}
	texts.Equal(t, "the lost run", runMessage.FindString(tickring("run", first, "-o", "json")))
	waiting.Until(t, "the second has ended", func() bool {
		text = tickring("run", second)
		return !strings.Contains(text, "running")
	})
	check.Contains(t, text, "succeeded", "what waited")
	if b, err := os.ReadFile(filepath.Join(dir, "began")); err != nil || string(b) != first+"\n"+second+"\n" {
		t.Errorf("began: %q, %v", b, err)
	}
	_, end, _ := strings.Cut(tickring("logs", first), "\nhello from "+first+"\n")
	_, end, _ = strings.Cut(end, " ") // its time
	texts.Equal(t, "the end of its log", end)
	stops(t, server)
}

// TestCommandsSecondSignal: a second stop signal ends running commands at once, and the next server reports their runs as lost.
func TestCommandsSecondSignal(t *testing.T) {
	me, err := user.Current()
	check.OK(t, err)
	data, dir := t.TempDir(), t.TempDir()
	serve := func() (*exec.Cmd, *bufio.Scanner) {
		return serving(t, "--data", data, "--drain", "1h", "--commands-user", me.Username, "--commands-dir", dir)
	}
	server, lines := serve()
	for _, args := range [][]string{{"create", "ops/long", "--command", "sleep 1000 & echo $! > child; wait"}, {"trigger", "ops/long"}} {
		if err := command(t, "tickring-main", append(args, "--data", data)...).Run(); err != nil {
			t.Fatal(args, err)
		}
	}
	child := lineOf(t, filepath.Join(dir, "child"))
	check.OK(t, server.Process.Signal(syscall.SIGTERM))
	for !strings.HasPrefix(lines.Text(), "stopping: waiting for running commands, ") && lines.Scan() {
	}
	check.OK(t, server.Process.Signal(syscall.SIGTERM))
	if err := server.Wait(); err != nil || lives(t, child) {
		t.Errorf("%v; its command lives: %t", err, lives(t, child))
	}
	server, _ = serve()
	var out []byte
	waiting.Until(t, "the run is lost", func() bool {
		out, err = command(t, "tickring-main", "run", "6442450945", "--data", data, "-o", "json").Output()
		return err == nil && strings.Contains(string(out), `"reason": "gone"`)
	})
	golden.New(t).Equal(t, "the lost run", runMessage.FindString(string(out)))
	stops(t, server)
}

// TestCommandsAsAnotherUser: root runs a command as the user of its job, with that user's groups, home and permissions. A server
// without root logs at start that it cannot.
func TestCommandsAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	data, dir := t.TempDir(), publicDir(t)
	check.OK(t, os.Chmod(dir, 0o777))
	secret := filepath.Join(data, "secret")
	check.OK(t, os.WriteFile(secret, []byte("x"), 0o600))
	server, _ := serving(t, "--data", data, "--commands-user", "nobody", "--commands-dir", dir)
	run := func(args ...string) (string, error) {
		out, err := command(t, "tickring-main", append(args, "--data", data)...).Output()
		return string(out), err
	}
	if text, err := run("create", "ops/as-root", "--command", "id"); exitOfProcess(err) == 0 {
		t.Errorf("as the server's own user, without permission: %s", text)
	}
	line := `id -u > id; echo "$HOME $USER" >> id; cat ` + secret + ` >> id; cat /proc/$PPID/environ >> id; echo over >> id`
	check.Call(t)(run("create", "ops/id", "--user", "nobody", "--command", line))
	check.Call(t)(run("trigger", "ops/id"))
	var got string
	waiting.Until(t, "the command has run", func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "id"))
		got = string(b)
		return strings.HasSuffix(got, "over\n")
	})
	check.Equal(t, got, nobody.Uid+"\n"+nobody.HomeDir+" nobody\nover\n", "it wrote")
	stops(t, server)

	self, err := os.ReadFile(os.Args[0])
	check.OK(t, err)
	own := command(t, "tickring-main", "serve", "--data", filepath.Join(dir, "data"), "--commands-user", "root", "--commands-dir", dir)
	if own.Path = filepath.Join(publicDir(t), "tickring-main"); os.WriteFile(own.Path, self, 0o755) != nil {
		t.Fatal(own.Path)
	}
	id, err := strconv.ParseUint(nobody.Uid, 10, 32)
	check.OK(t, err)
	own.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
	var said bytes.Buffer
	own.Stderr = &said
	if err := own.Run(); exitOfProcess(err) != exitUsage {
		t.Errorf("%v: %s", err, said.String())
	}
	golden.New(t).Equal(t, "a server without root", said.String(), nobody.Uid, "UID")
}

func exitOfProcess(err error) int {
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return exit.ExitCode()
	}
	return 0
}

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
	check.Equal(t, fmt.Sprint(cmd.Run()), "exit status 7", "a child that cannot read the environment")
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
		check.Equal(t, fmt.Sprint(command(t, "first-process", "-c", script).Run()), want, "%s", script)
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
	check.NoError(t, cmd.Wait())
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
