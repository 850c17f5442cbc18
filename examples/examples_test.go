// Package examples_test runs the programs of this directory with a real server and the jobs of jobs.yaml.
package examples_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/server"
)

// programs are the examples that run jobs here. The Java and Python programs run if test/executors/fetch.sh has fetched their parts.
var programs = []struct {
	dir, job string
	want     string // in the result or in the log of a run
	command  func(dir, bin, fetched string) []string
	stops    bool // by itself, after a signal
}{
	{dir: "endpoint", job: "web/warmup", want: "warmed 12 pages", command: built},
	{dir: "executor", job: "reports/nightly", want: "params daily, shard 0 of 1", command: built, stops: true},
	{dir: "mounted", job: "site/rebuild", want: "rebuilt the site", command: built, stops: true},
	{dir: "queue", job: "billing/invoice", want: "invoice 4711", command: built, stops: true},
	{dir: "java", job: "java/nightly", want: "the log of this run", command: func(dir, _, fetched string) []string {
		return []string{"java", "-Xmx128m", "-cp", filepath.Join(fetched, "xxl-3.3.2", "*"), filepath.Join(dir, "App.java")}
	}},
	{dir: "python", job: "py/nightly", want: "42 rows", command: func(dir, _, fetched string) []string {
		return []string{filepath.Join(fetched, "python", "bin", "python"), filepath.Join(dir, "app.py")}
	}},
}

func built(dir, bin, _ string) []string { return []string{filepath.Join(bin, filepath.Base(dir))} }

func TestExamples(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin+string(filepath.Separator), "./...", "../cmd/tickring")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data := t.TempDir()
	t.Setenv("TICKRING_DATA", data)
	for _, app := range []string{"WEB", "REPORTS", "SITE", "BILLING", "JAVA", "PY"} {
		t.Setenv(app+"_TOKEN", "secret-of-the-app-"+strings.ToLower(app))
	}
	start(t, nil, filepath.Join(bin, "tickring"), "serve", "--listen", "127.0.0.1:0")
	var url string
	waiting.Until(t, "the server is ready", func() bool {
		b, err := os.ReadFile(filepath.Join(data, server.EndpointFile))
		url = strings.TrimSpace(string(b))
		return err == nil && url != ""
	})
	jobs, err := os.ReadFile("jobs.yaml")
	check.OK(t, err)
	endpoint := "127.0.0.1:" + freeport.Free(t)
	tickring(t, bin, strings.Replace(string(jobs), "127.0.0.1:8080", endpoint, 1), "apply", "-f", "-")
	fetched := os.Getenv("TICKRING_TEST_EXECUTORS")
	for _, p := range programs {
		t.Run(p.dir, func(t *testing.T) {
			if fetched == "" && (p.dir == "java" || p.dir == "python") {
				t.Skip("needs TICKRING_TEST_EXECUTORS from test/executors/fetch.sh")
			}
			dir, err := filepath.Abs(p.dir)
			check.OK(t, err)
			port := freeport.Free(t)
			listen := "127.0.0.1:" + port
			if p.dir == "endpoint" {
				listen = endpoint
			}
			program := start(t, []string{"SERVER=" + url, "LISTEN=" + listen, "PORT=" + port}, p.command(dir, bin, fetched)...)
			if p.dir == "endpoint" { // runs of executors wait until they register; a refused call fails
				waiting.Until(t, "the endpoint listens", func() bool {
					c, err := net.Dial("tcp", endpoint)
					if err == nil {
						c.Close()
					}
					return err == nil
				})
			}
			said := tickring(t, bin, "", "trigger", p.job, "--wait") + tickring(t, bin, "", "logs", p.job)
			if !strings.Contains(said, p.want) {
				t.Errorf("nothing has %q: %s", p.want, said)
			}
			if p.stops {
				program.Process.Signal(syscall.SIGTERM)
				if err := program.Wait(); err != nil {
					t.Errorf("after SIGTERM: %v", err)
				}
			}
		})
	}
}

// start runs a program in a directory of its own until the test ends.
func start(t *testing.T, env []string, command ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = t.TempDir(), append(os.Environ(), env...), t.Output(), t.Output()
	check.OK(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// tickring runs a command that must succeed, and returns its output.
func tickring(t *testing.T, bin, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "tickring"), args...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tickring %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestPagesEqualExamples: pages that show the code of an example show all of it.
func TestPagesEqualExamples(t *testing.T) {
	for _, p := range []struct{ page, file, from string }{
		{"how-to/write-an-executor-in-go.md", "executor/main.go", "package main\n"},
	} {
		page, err := os.ReadFile(filepath.Join("..", "docs", p.page))
		check.OK(t, err)
		code, err := os.ReadFile(p.file)
		check.OK(t, err)
		_, shown, found := strings.Cut(string(code), p.from)
		if block := "\n```go\n" + p.from + shown + "```\n"; !found || !strings.Contains(string(page), block) {
			t.Errorf("docs/%s should have the code of examples/%s:%s", p.page, p.file, block)
		}
	}
}
