//go:build unix

// Package conns_test opens many connections of unknown clients to a real server that has few file descriptors, and compares the due
// runs with the runs that an executor received.
package conns_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/internal/testkit/miniexec"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/test/harness"
	"github.com/tickring/tickring/wire"
)

const (
	descriptors = 600
	strangers   = 700
	latest      = 30 * time.Second // on a machine that is busy with the clients too
)

var bin string

func TestMain(m *testing.M) { harness.Main(m, &bin) }

// TestStrangersHoldConnections: an unknown client holds more connections than the process has file descriptors, some silent and
// some with a partial request, and replaces closed ones. Scheduled runs over the xxl-job protocol and by call continue without
// failures, their results are accepted, and user requests are answered.
func TestStrangersHoldConnections(t *testing.T) {
	s := harness.Start(t, few(t, descriptors), t.TempDir())
	listen := strings.TrimPrefix(s.URL, "http://")

	var mu sync.Mutex
	got := map[string]map[core.Instant]bool{"wire": {}, "call": {}}
	worst := map[string]time.Duration{}
	began := core.InstantOf(time.Now()) + 3600
	note := func(how string, at core.Instant) {
		mu.Lock()
		defer mu.Unlock()
		got[how][at] = true
		if at >= began {
			worst[how] = max(worst[how], time.Since(at.Time()))
		}
	}
	mini, err := miniexec.Start(miniexec.Options{App: "wire", Admin: s.URL, Token: "wire-executors",
		Received: func(r *wire.Run, _ time.Time) {
			instant, _ := core.RunID(r.LogID).Planned()
			note("wire", instant)
		}})
	check.OK(t, err)
	defer mini.Close()
	called := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		at, err := time.Parse(time.RFC3339, r.Header.Get(wire.HeaderScheduledAt))
		check.NoError(t, err)
		note("call", core.InstantOf(at))
	}))
	defer called.Close()

	apps := "version: 1\nset: lines\napps: [{name: wire, token: wire-executors}, {name: call, executors: ['call:" + called.URL + "']}]\n"
	s.OK(t, apps, "apply", "-f", "-")
	s.WaitExecutor(t, "wire", mini.URL())
	come(t, strangers, listen, "/api/callback")
	s.OK(t, apps+"jobs:\n  - {app: wire, name: a, handler: work, misfire: all, schedule: {every: 1s, offset: 0s}}\n"+
		"  - {app: call, name: b, handler: /work, misfire: all, schedule: {every: 1s, offset: 0s}}\n", "apply", "-f", "-")
	from := core.InstantOf(time.Now()) + 5
	to := from + 20
	mu.Lock()
	began = from
	mu.Unlock()
	check.NoError(t, waiting.For(2*time.Minute, func() error {
		mu.Lock()
		defer mu.Unlock()
		for how, instants := range got {
			for at := from; at <= to; at++ {
				if !instants[at] {
					return fmt.Errorf("%s: the fire of %s did not arrive", how, at)
				}
			}
		}
		return nil
	}))
	mu.Lock()
	t.Logf("the latest fires came after %v", worst)
	for how, late := range worst {
		if late > latest {
			t.Errorf("%s: a fire came after %s", how, late)
		}
	}
	mu.Unlock()
	noneFailed(t, s)
}

// TestStrangersAtExec: an unknown client holds more connections to tickring exec than its process has file descriptors: exec
// continues to run programs, and none fails.
func TestStrangersAtExec(t *testing.T) {
	const descriptors, strangers, runs = 128, 200, 10
	s := harness.Start(t, bin, t.TempDir())
	s.OK(t, "version: 1\nset: lines\napps: [{name: reports, token: reports-executors}]\n", "apply", "-f", "-")
	listen := "127.0.0.1:" + freeport.Free(t)
	harness.Background(t, exec.Command(few(t, descriptors), "exec", "--server", s.URL, "--app", "reports", "--handler", "work",
		"--app-token", "reports-executors", "--listen", listen, "--dir", t.TempDir(), "--", "sh", "-c", "echo it worked"))
	s.WaitExecutor(t, "reports", listen)
	come(t, strangers, listen, "/run")
	s.OK(t, "version: 1\nset: lines\napps: [{name: reports, token: reports-executors}]\n"+
		"jobs: [{app: reports, name: a, handler: work, misfire: all, schedule: {every: 1s, offset: 0s}}]\n", "apply", "-f", "-")
	check.NoError(t, waiting.For(time.Minute, func() error {
		if n := len(s.Runs(t, "--state", "succeeded", "--limit", "100")); n < runs {
			return fmt.Errorf("%d of %d runs succeeded", n, runs)
		}
		return nil
	}))
	noneFailed(t, s)
}

// noneFailed checks that no run failed.
func noneFailed(t *testing.T, s *harness.Server) {
	t.Helper()
	for _, state := range []string{"failed", "lost", "timed-out"} {
		if list := s.Runs(t, "--state", state); len(list) > 0 {
			t.Errorf("%s: %+v", state, list)
		}
	}
}

// few returns a script that runs tickring with a limit on file descriptors.
func few(t *testing.T, descriptors int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tickring")
	script := fmt.Sprintf("#!/bin/sh\nulimit -n %d || exit 1\nexec '%s' \"$@\"\n", descriptors, bin)
	check.OK(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

// come starts clients that hold connections: silent ones, and ones with a partial request.
func come(t *testing.T, strangers int, to, door string) {
	for i := range strangers {
		go hold(t, to, []string{"", "POST " + door + " HTTP/1.1\r\nHost: x\r\n",
			"POST " + door + " HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n[", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"}[i%4])
	}
}

// hold keeps a connection open after writing text, and opens another if it is closed.
func hold(t *testing.T, to, text string) {
	for t.Context().Err() == nil {
		c, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		stop := make(chan struct{})
		go func() {
			select {
			case <-t.Context().Done():
			case <-stop:
			}
			c.Close()
		}()
		c.Write([]byte(text))
		for b := make([]byte, 4096); err == nil; {
			_, err = c.Read(b)
		}
		close(stop)
	}
}
