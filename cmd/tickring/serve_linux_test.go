package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A first signal has serve say what it waits for, a second one ends it at once.
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
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
	lines := bufio.NewScanner(out)
	lines.Scan()
	for _, args := range [][]string{{"create", "web/slow", "--every", "1d", "--call", web.URL}, {"trigger", "web/slow"}} {
		opens := time.Now()
		for command(t, "tickring-main", append(args, "--data", dir)...).Run() != nil {
			if time.Since(opens) > 20*time.Second {
				t.Fatal("it does not come up")
			}
		}
	}
	<-began
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said := ""
	for !strings.HasPrefix(said, "stopping: waits for 1 call, at most ") && lines.Scan() {
		said = lines.Text()
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, %s", err, said)
	}
}
