//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package executor

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

// killedUnder kills an executor that runs a program, once the program has printed "started" and is in the journal. held
// ends when the last process of the program is gone.
func killedUnder(t *testing.T, dir, program string) (held *os.File) {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "pipe")
	check.OK(t, syscall.Mkfifo(pipe, 0o600))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EXECUTOR_TEST_PROGRAM="+program, "EXECUTOR_TEST_DIR="+dir, "EXECUTOR_TEST_PIPE="+pipe)
	check.OK(t, cmd.Start())
	held, err := os.Open(pipe)
	check.OK(t, err)
	t.Cleanup(func() { held.Close() })
	check.Call(t)(io.ReadFull(held, make([]byte, len("started\n"))))
	for { // it was on its way before the program could report that
		if e := replayed(dir)[77]; e != nil && len(e.run.groups) == 1 {
			break
		}
		runtime.Gosched()
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return held
}

// ended reports, without waiting, whether the other end of a pipe is closed.
func ended(t *testing.T, held *os.File) bool {
	c, err := held.SyscallConn()
	if err != nil {
		t.Error(err)
		return false
	}
	n, err2 := 0, error(nil)
	err = c.Read(func(fd uintptr) bool {
		n, err2 = syscall.Read(int(fd), make([]byte, 1))
		return true
	})
	return err == nil && n == 0 && err2 == nil
}

// TestProgramIsEndedBeforeItsRunIsReported: processes that a program left are ended before the next process reports its
// run as crashed, because the run may then be sent again.
func TestProgramIsEndedBeforeItsRunIsReported(t *testing.T) {
	dir := t.TempDir()
	held := killedUnder(t, dir, `exec 9>"$1"; sleep 1000 & echo started >&9; wait`)
	if ended(t, held) {
		t.Fatal("there is nothing left to end")
	}
	f := newFake()
	told := false
	f.answer = func(_, path string, _ []byte) string {
		if path == wire.PathCallback && !told {
			if told = true; !ended(t, held) {
				t.Error("it is reported while a part of its program goes on")
			}
		}
		return taken
	}
	start(t, okMux(), f, func(o *Options) { o.Dir = dir })
	f.want(t, 77, 500, "the executor's process ended under the run (container destroy). [job running, killed]")
}

// On Linux a program does not even wait for that.
func TestProgramDiesWithUs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can")
	}
	held := killedUnder(t, t.TempDir(), `exec 9>"$1"; echo started >&9; exec sleep 1000`)
	if b, err := io.ReadAll(held); err != nil || len(b) > 0 {
		t.Errorf("%q %v", b, err)
	}
}

// TestGroup: only the recorded group is killed, not a later one with its number.
func TestGroup(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 & echo started; sleep 1000")
	ownGroup(cmd)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.StdoutPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	check.Call(t)(io.ReadFull(out, make([]byte, len("started\n"))))
	g, ok := groupOf(cmd.Process.Pid)
	if !ok {
		t.Fatal("it has no mark")
	}
	for name, change := range map[string]func(g *group){
		"another process":    func(g *group) { g.Mark += "1" },
		"in another boot":    func(g *group) { g.Mark = "x" + g.Mark },
		"in another session": func(g *group) { g.Session = 1 << 30 },
	} {
		if runtime.GOOS != "linux" && name == "in another session" {
			continue
		}
		other := g
		change(&other)
		if other.kill() {
			t.Errorf("killed %s", name)
		}
	}
	if !g.kill() {
		t.Error("no process to kill")
	}
	// The first process has ended, and is a zombie until its parent waits for it.
	if left := endGroups([]*incoming{{Run: wire.Run{LogID: 7}, groups: []group{g}}}, time.Minute); left != nil {
		t.Errorf("left: %v", left)
	}
	_ = cmd.Wait()
	if g.kill() {
		t.Error("killed a process that is gone")
	}
}

func TestGroupsAreJournaled(t *testing.T) {
	dir := t.TempDir()
	j, _ := journalIn(t, dir, 2000)
	j.accept(&incoming{Run: order(1, 1, "h")})
	j.accept(&incoming{Run: order(1, 2, "h")})
	var want []group
	for pid := 2; pid < 100; pid++ { // several files
		g := group{Pid: pid, Session: 1, Mark: strings.Repeat("m", 50)}
		j.started(1, g)
		j.started(3, g) // not open
		want = noted(want, g)
	}
	j.started(2, want[0])
	<-j.end(&wire.CallbackItem{LogID: 2}, 7).done
	j.close()
	_, was, err := openJournal(dir, true, 2000, quiet)
	check.OK(t, err)
	if len(was.open) != 1 || !slices.Equal(was.open[0].groups, want) || len(want) != maxGroups {
		t.Errorf("%v, want %v", was.open, want)
	}
}

// TestNotedTwice: a group that the journal has twice does not displace another one.
func TestNotedTwice(t *testing.T) {
	var gs, want []group
	for pid := range maxGroups {
		want = append(want, group{Pid: pid + 2})
		gs = noted(gs, want[pid])
	}
	for _, g := range want[maxGroups/2:] {
		gs = noted(gs, g)
	}
	if !slices.Equal(gs, want) {
		t.Errorf("%v, want %v", gs, want)
	}
}
