package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/server"
)

// TestServeSecondSignal: commands work once the first line is printed. On the first signal serve prints the operations that it
// waits for; a second one ends it at once.
func TestServeSecondSignal(t *testing.T) {
	began, over := make(chan bool, 1), make(chan bool)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		began <- true
		<-over
	}))
	defer web.Close()
	defer close(over)
	dir := t.TempDir()
	cmd := command(t, "tickring-main", "serve", "--data", dir, "--listen", "127.0.0.1:0", "--drain", "1h", "--tune", "callTimeout=1h")
	out, err := cmd.StdoutPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
	lines := bufio.NewScanner(out)
	lines.Scan()
	if _, err := os.Stat(filepath.Join(dir, server.EndpointFile)); err != nil {
		t.Errorf("its first line is there before commands find it: %v", err)
	}
	for _, args := range [][]string{{"create", "web/slow", "--every", "1d", "--call", web.URL}, {"trigger", "web/slow"}} {
		if err := command(t, "tickring-main", append(args, "--data", dir)...).Run(); err != nil {
			t.Fatalf("%q after its first line: %v", args, err)
		}
	}
	<-began
	check.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	said := ""
	for !strings.HasPrefix(said, "stopping: waiting for 1 call, at most ") && lines.Scan() {
		said = lines.Text()
	}
	check.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, %s", err, said)
	}
}
