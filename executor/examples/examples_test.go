// Package examples_test builds the example programs and sends a run to each one that listens.
package examples_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tickring/tickring/internal/testkit/ports"
	"github.com/tickring/tickring/wire"
)

func TestExamples(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "./http", "./mounted", "./lambda",
		"./queue").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"http", "mounted"} {
		t.Run(name, func(t *testing.T) {
			registered, results := make(chan string, 10), make(chan wire.CallbackItem, 10)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				switch r.URL.Path {
				case wire.PathRegistry:
					if reg, err := wire.DecodeRegistration(body); err == nil {
						registered <- reg.Address
					}
				case wire.PathCallback:
					if c, err := wire.DecodeCallback(body, 0); err == nil {
						for _, it := range c.Items {
							results <- it
						}
					}
				}
				io.WriteString(w, `{"code":200,"msg":null}`)
			}))
			defer server.Close()
			listen := "127.0.0.1:" + ports.Free(t)
			var said bytes.Buffer
			cmd := exec.Command(filepath.Join(bin, name))
			cmd.Env = append(os.Environ(), "APP=reports", "SERVER="+server.URL, "TOKEN=secret", "LISTEN="+listen, "ADDRESS=http://"+listen+"/jobs",
				"DIR="+t.TempDir())
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			var address string
			select {
			case address = <-registered:
			case err := <-ended:
				t.Fatalf("%v: %s", err, &said)
			}
			run := wire.Run{JobID: 1, LogID: 7, Handler: "hello", Params: "world", GlueType: wire.GlueBean}
			req, _ := http.NewRequest(http.MethodPost, strings.TrimRight(address, "/")+"/run", bytes.NewReader(wire.AppendRun(nil, &run)))
			req.Header.Set(wire.HeaderToken, "secret")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if r, err := wire.DecodeReply(b); err != nil || !r.OK() {
				t.Fatalf("%s %v", b, err)
			}
			if it := <-results; it.LogID != 7 || it.Code != 200 {
				t.Errorf("%+v", it)
			}
			http.DefaultClient.CloseIdleConnections()
			cmd.Process.Signal(syscall.SIGTERM)
			if err := <-ended; err != nil {
				t.Errorf("%v: %s", err, &said)
			}
		})
	}
}

// TestSDKPageCompiles builds the program of docs/how-to/write-an-executor-in-go.md.
func TestSDKPageCompiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/write-an-executor-in-go.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n```go\n")
	code, _, _ := strings.Cut(rest, "\n```\n")
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(code+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", file+".exe", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
