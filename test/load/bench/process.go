package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tickring/tickring/internal/miniexec"
	"github.com/tickring/tickring/server"
)

// token of the servers that a bench starts.
const token = "admin-token-of-the-bench"

// start starts a server whose output goes to a file.
func start(ctx context.Context, logFile string, args ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), "TICKRING_ADMIN_TOKEN="+token)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	f, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stderr = f
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s %s: %w", binary, args[0], err)
	}
	return cmd, nil
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

// rig is a server in a process of its own, and its executors.
type rig struct {
	*receiver
	dir       string
	server    *exec.Cmd
	executors []*miniexec.Executor
	url       string
	of        kind // of the report
}

func newRig(ctx context.Context, dir string, serveArgs ...string) (*rig, error) {
	r := &rig{receiver: newReceiver(), dir: dir}
	args := append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--log-level", "warn"}, serveArgs...)
	os.Remove(filepath.Join(dir, server.EndpointFile))
	var err error
	if r.server, err = start(ctx, filepath.Join(dir, "server.log"), args...); err != nil {
		return nil, err
	}
	if r.url, err = waitReady(ctx, dir, time.Minute); err == nil {
		err = r.executor(miniexec.Options{App: benchApp, Handle: r.handle, Received: r.received})
	}
	if err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

// executor starts an executor.
func (r *rig) executor(o miniexec.Options) error {
	o.Admin, o.Token = r.url, benchToken
	e, err := miniexec.Start(o)
	if err == nil {
		r.executors = append(r.executors, e)
	}
	return err
}

// usage returns the resources that the server has used.
func (r *rig) usage() usage { return usageOf(r.server.Process.Pid) }

func (r *rig) stop() {
	for _, e := range r.executors {
		e.Close()
	}
	r.server.Process.Signal(syscall.SIGTERM)
	r.server.Wait()
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
