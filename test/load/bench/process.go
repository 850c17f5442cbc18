package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/internal/testkit/miniexec"
	"github.com/tickring/tickring/test/harness"
)

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
	server    *harness.Server
	executors []*miniexec.Executor
	of        kind // of the report
}

func newRig(dir string, serveArgs ...string) (*rig, error) {
	s, err := harness.Launch(binary, dir, append([]string{"--log-level", "warn"}, serveArgs...)...)
	if err != nil {
		return nil, err
	}
	r := &rig{receiver: newReceiver(), server: s}
	if err = s.WaitReady(time.Minute); err == nil {
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
	o.Admin, o.Token = r.server.URL, benchToken
	e, err := miniexec.Start(o)
	if err == nil {
		r.executors = append(r.executors, e)
	}
	return err
}

// usage returns the resources that the server has used.
func (r *rig) usage() usage { return usageOf(r.server.Cmd.Process.Pid) }

func (r *rig) stop() {
	for _, e := range r.executors {
		e.Close()
	}
	_ = r.server.Stop(time.Minute)
}
