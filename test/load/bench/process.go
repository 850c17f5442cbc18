package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/server"
)

// token of the servers that a bench starts.
const token = "admin-token-of-the-bench"

type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(ctx context.Context, env []string, logFile, program string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	f, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
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
		return nil, fmt.Errorf("start %s %s: %w", program, args[0], err)
	}
	return &process{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

func (p *process) stop() error {
	p.in.Close()
	p.cmd.Process.Signal(syscall.SIGTERM)
	go io.Copy(io.Discard, p.out)
	return p.cmd.Wait()
}

type usage struct {
	CPU      time.Duration
	Resident int64 // current memory in bytes
	Peak     int64
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
			f := strings.Fields(line)
			if len(f) < 2 {
				continue
			}
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			switch f[0] {
			case "VmRSS:":
				u.Resident = kb << 10
			case "VmHWM:":
				u.Peak = kb << 10
			}
		}
	}
	return u
}

// rig is a server and its executor, each a process of its own.
type rig struct {
	dir    string
	server *process
	exec   *process
	others []*process
	url    string
	// of is the kind of instants in the report; empty: fires.
	of string
}

func newRig(ctx context.Context, dir string, serveArgs ...string) (*rig, error) {
	r := &rig{dir: dir}
	var err error
	args := append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--log-level", "warn"}, serveArgs...)
	os.Remove(filepath.Join(dir, server.EndpointFile))
	if r.server, err = start(ctx, []string{"TICKRING_ADMIN_TOKEN=" + token}, filepath.Join(dir, "server.log"), binary, args...); err != nil {
		return nil, err
	}
	go io.Copy(io.Discard, r.server.out)
	if r.url, err = waitReady(ctx, dir, time.Minute); err != nil {
		r.stop()
		return nil, err
	}
	if r.exec, err = r.executor(ctx, "executor.log", benchApp); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

func (r *rig) executor(ctx context.Context, log, app string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p, err := start(ctx, nil, filepath.Join(r.dir, log), self, append([]string{"executor", "-app", app, "-admin", r.url}, args...)...)
	if err != nil {
		return nil, err
	}
	if _, err := p.out.ReadString('\n'); err != nil {
		p.stop()
		return nil, fmt.Errorf("the executor of %s did not start: %w", app, err)
	}
	return p, nil
}

// hang starts an executor of an app that answers nothing from a moment on.
func (r *rig) hang(ctx context.Context, app string, from time.Time) error {
	p, err := r.executor(ctx, fmt.Sprintf("hanging-%d.log", len(r.others)), app, "-hang-from", from.Format(time.RFC3339))
	if err == nil {
		r.others = append(r.others, p)
	}
	return err
}

func (r *rig) stop() {
	for _, p := range append(r.others, r.exec, r.server) {
		if p != nil {
			p.stop()
		}
	}
}

// waitReady waits until the server on a data folder plans fires.
func waitReady(ctx context.Context, dir string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		if b, err := os.ReadFile(filepath.Join(dir, server.EndpointFile)); err == nil {
			url := strings.TrimSpace(string(b))
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
			if err != nil {
				return "", err
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return url, nil
				}
			}
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return "", errors.New("the server did not become ready: see server.log in " + dir)
		}
	}
}

// received asks the executor for its report of the instants from <= i < to.
func (r *rig) received(from, to core.Instant, parts int) (Report, error) {
	var rep Report
	if _, err := fmt.Fprintln(r.exec.in, int64(from), int64(to), parts, cmp.Or(r.of, ofFires)); err != nil {
		return rep, fmt.Errorf("ask the executor: %w", err)
	}
	line, err := r.exec.out.ReadBytes('\n')
	if err != nil {
		return rep, fmt.Errorf("read the executor's report: %w", err)
	}
	return rep, json.Unmarshal(line, &rep)
}
