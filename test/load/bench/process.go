package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/test/harness"
)

// process is the executor of a scenario.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (p *process) stop() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

type usage struct {
	CPU  time.Duration
	Peak int64 // memory in bytes
}

// usageOf reads it from /proc; zero on systems without.
func usageOf(pid int) usage {
	var u usage
	if runtime.GOOS != "linux" {
		return u
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		if i := strings.LastIndexByte(string(b), ')'); i >= 0 {
			f := strings.Fields(string(b[i+1:]))
			if len(f) > 12 {
				ut, _ := strconv.ParseInt(f[11], 10, 64)
				st, _ := strconv.ParseInt(f[12], 10, 64)
				u.CPU = time.Duration(ut+st) * (time.Second / 100)
			}
		}
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
				kb, _ := strconv.ParseInt(f[1], 10, 64)
				u.Peak = kb << 10
			}
		}
	}
	return u
}

// rig is a server and its executor, each a process of its own.
type rig struct {
	dir    string
	server *harness.Server
	exec   *process
}

func newRig(dir string, serveArgs ...string) (*rig, error) {
	s, err := harness.Launch(binary, dir, append([]string{"--log-level", "warn"}, serveArgs...)...)
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, server: s}
	if err = s.WaitReady(time.Minute); err == nil {
		r.exec, err = r.executor()
	}
	if err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

func (r *rig) usage() usage { return usageOf(r.server.Cmd.Process.Pid) }

func (r *rig) executor() (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, "executor", r.server.URL)
	f, err := os.OpenFile(filepath.Join(r.dir, "executor.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stderr = f
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the executor: %w", err)
	}
	p := &process{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if _, err := p.out.ReadString('\n'); err != nil {
		p.stop()
		return nil, fmt.Errorf("the executor did not start: %w", err)
	}
	return p, nil
}

func (r *rig) stop() {
	if r.exec != nil {
		r.exec.stop()
	}
	if err := r.server.Stop(20 * time.Second); err != nil {
		r.server.Kill()
	}
}

// received asks the executor for its report of the instants from <= i < to.
func (r *rig) received(from, to core.Instant) (Report, error) {
	var rep Report
	if _, err := fmt.Fprintln(r.exec.in, int64(from), int64(to)); err != nil {
		return rep, fmt.Errorf("ask the executor: %w", err)
	}
	line, err := r.exec.out.ReadBytes('\n')
	if err != nil {
		return rep, fmt.Errorf("read the executor's report: %w", err)
	}
	return rep, json.Unmarshal(line, &rep)
}
