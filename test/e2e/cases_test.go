package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/store"
)

const (
	// proof is how long the job that fires each second is observed.
	proof = 2 * time.Minute
	// patience is how long a test waits for events that take up to three minutes on a fast machine: the rule first wakes the tick
	// within two minutes, and the messages of a replaced function are hidden for a minute. It is not a target.
	patience = 25 * time.Minute
)

// seconds counts the runs of a job that fires each second, by their second.
type seconds struct {
	mu      sync.Mutex
	got     map[int64]int
	sent    map[int64]int // how often each run was sent
	early   int
	slowest time.Duration
	first   chan time.Time
}

// fires creates a job that fires each second to an executor of an app, in this process, and counts its runs. The result begins with
// a whole second after the first run.
func (s *stack) fires(t *testing.T, app string, more ...string) (c *seconds, from time.Time) {
	t.Helper()
	c = &seconds{got: map[int64]int{}, sent: map[int64]int{}, first: make(chan time.Time, 1)}
	s.executes(t, app, "work", func(_ context.Context, run *executor.Run) error {
		now := time.Now()
		at, planned := core.RunID(run.ID).Planned()
		if !planned {
			return fmt.Errorf("run %d has no instant", run.ID)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		late := now.Sub(at.Time())
		if c.got[at.Time().Unix()]++; late < 0 {
			c.early++
		}
		c.slowest = max(c.slowest, late)
		select {
		case c.first <- at.Time():
		default:
		}
		return nil
	}, func(run int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent[run]++
	})
	s.OK(t, "", append([]string{"create", app + "/each", "--cron", "* * * * * ?", "--handler", "work"}, more...)...)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case at := <-c.first:
		from = time.Now().Truncate(time.Second).Add(2 * time.Second)
		t.Logf("the first instant sent is %s, at %s", at.Format(time.TimeOnly), time.Now().UTC().Format(time.TimeOnly))
	case <-limit.C:
		t.Fatalf("nothing was sent within %s", patience)
	}
	return c, from
}

// in counts the seconds of [from, to) without a run, and the seconds with several.
func (c *seconds) in(from, to time.Time) (none, many int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := from; at.Before(to); at = at.Add(time.Second) {
		switch n := c.got[at.Unix()]; {
		case n == 0:
			none++
		case n > 1:
			many++
		}
	}
	return none, many
}

// hold checks that a run for each past second of [from, to) arrived once and was reported, and pauses the job.
func (c *seconds) hold(t *testing.T, s *stack, app string, from, to time.Time) {
	t.Helper()
	count := int(to.Sub(from) / time.Second)
	check.NoError(t, waiting.For(patience, func() error {
		if none, _ := c.in(from, to); none > 0 {
			return fmt.Errorf("%d of %d instants reached no executor", none, count)
		}
		return nil
	}))
	s.OK(t, "", "pause", app+"/each", "--reason", "proof is over")
	// Runs can still be in the queue, so wait before the audit.
	check.NoError(t, waiting.For(patience, func() error { return s.succeeded(t, app+"/each", from, to) }))
	if _, many := c.in(from, to); many > 0 {
		t.Errorf("%d instants reached the executor more than once", many)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.early > 0 {
		t.Errorf("%d runs came before their instant", c.early)
	}
	t.Logf("%d instants, the latest run %s after its instant", count, c.slowest)
}

// eachSecond: the schedule wakes the tick, which plans onto the ring, from which
// dispatch sends to a real executor, which calls back.
func (s *stack) eachSecond(t *testing.T) {
	app := s.app(t, "second", "")
	c, from := s.fires(t, app)
	to := from.Add(proof)
	store.Sleep(t.Context(), time.Until(to))
	c.hold(t, s, app, from, to)
	c.mu.Lock()
	defer c.mu.Unlock()
	for run, n := range c.sent {
		if n > 1 {
			t.Errorf("run %d was sent %d times", run, n)
		}
	}
}

// succeeded looks whether every second of [from, to) has a run that was called back.
func (s *stack) succeeded(t *testing.T, job string, from, to time.Time) error {
	runs := s.Runs(t, job, "--from", from.UTC().Format(time.RFC3339), "--to", to.Add(-time.Second).UTC().Format(time.RFC3339),
		"--limit", "500")
	states := map[string]int{}
	for _, r := range runs {
		states[r.State+" "+r.Reason]++
	}
	if want := int(to.Sub(from) / time.Second); len(runs) != want || states["succeeded "] != want {
		return fmt.Errorf("%d runs of %d: %v", len(runs), want, states)
	}
	return nil
}

// byHand: a triggered run starts at once, independent of the tick, and its failure is reported.
func (s *stack) byHand(t *testing.T) {
	app := s.app(t, "hand", "")
	s.executes(t, app, "work", func(_ context.Context, run *executor.Run) error {
		if run.Cause != "manual" || run.Params == "bad" {
			return fmt.Errorf("cause %s, params %q", run.Cause, run.Params)
		}
		return nil
	}, nil)
	s.OK(t, "", "create", app+"/job", "--handler", "work")
	s.WaitState(t, s.Trigger(t, app+"/job"), "succeeded", patience)
	if r := s.WaitState(t, s.Trigger(t, app+"/job", "--params", "bad"), "failed", patience); !strings.Contains(r.Message, `params "bad"`) {
		t.Errorf("the failure has the message %q", r.Message)
	}
}

// call: a plain HTTP endpoint, one that answers and one that reports later.
func (s *stack) call(t *testing.T) {
	reports := make(chan string, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/now":
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "did %s", b)
		case "/later":
			reports <- r.Header.Get("Tickring-Callback")
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer srv.Close()
	app := s.app(t, "calls", fmt.Sprintf(`, executors: ["call:%s"]`, srv.URL))
	s.OK(t, "", "create", app+"/now", "--call", srv.URL+"/now", "--params", "it")
	s.OK(t, "", "create", app+"/later", "--call", srv.URL+"/later")
	check.Equal(t, s.WaitState(t, s.Trigger(t, app+"/now"), "succeeded", patience).Message, "did it", "the answer")
	id := s.Trigger(t, app+"/later")
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case url := <-reports:
		for _, c := range []struct {
			url  string
			want int
		}{{url + "0", http.StatusUnauthorized}, {url, http.StatusOK}} {
			resp, err := http.Post(c.url, "application/json", strings.NewReader(`{"state":"failed","message":"no paper"}`))
			check.OK(t, err)
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			check.Equal(t, resp.StatusCode, c.want, "report to %s: %s %s; want", c.url, resp.Status, b)
		}
	case <-limit.C:
		t.Fatal("the endpoint was not called")
	}
	check.Equal(t, s.WaitState(t, id, "failed", patience).Message, "no paper", "the message of the report")
}

// canary: the job that the deployment made for itself runs, on a function that
// reports by the public address.
func (s *stack) canary(t *testing.T) {
	check.NoError(t, waiting.For(patience, func() error {
		if jobs := s.OK(t, "", "get"); !strings.Contains(jobs, "tickring-canary/alive") {
			time.Sleep(time.Second)
			return fmt.Errorf("the tick has not created the canary: %s", jobs)
		}
		runs := s.Runs(t, "tickring-canary/alive", "--state", "succeeded")
		if len(runs) == 0 {
			return fmt.Errorf("no run of the canary has succeeded: %s", s.OK(t, "", "runs", "tickring-canary/alive"))
		}
		if r := runs[0]; r.Cause != "schedule" || r.Message != "alive" || !strings.HasPrefix(r.Address, "lambda:") {
			t.Errorf("%+v", r)
		}
		return nil
	}))
}

// strangers: clients without the token of the API, or with the token of another app, are rejected.
func (s *stack) strangers(t *testing.T) {
	app := s.app(t, "own", "")
	register := func(address string) string {
		return fmt.Sprintf(`{"registryGroup":"EXECUTOR","registryKey":%q,"registryValue":%q}`, app, address)
	}
	for _, c := range []struct{ method, path, token, body, want string }{
		{"GET", "/v1/apps", "", "", "401"},
		{"GET", "/v1/apps", "second-executor-token", "", "401"},
		{"POST", "/api/registry", "second-executor-token", register("http://127.0.0.1:1/"), `"code":500`},
		{"POST", "/xxl-job-admin/api/registry", app + "-executor-token", register("http://169.254.169.254/"), `"code":500`},
		{"POST", "/xxl-job-admin/api/registry", app + "-executor-token", register("http://127.0.0.1:1/"), `"code":200`},
		{"POST", "/api/registryRemove", app + "-executor-token", register("http://127.0.0.1:1/"), `"code":200`},
		{"POST", "/v1/report/4294967296?key=0", "", `{}`, "401"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, s.URL+c.path, strings.NewReader(c.body))
		check.OK(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("XXL-JOB-ACCESS-TOKEN", c.token)
		req.Header.Set("Authorization", "Bearer "+c.token)
		resp, err := http.DefaultClient.Do(req)
		check.OK(t, err)
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		check.Contains(t, fmt.Sprint(resp.StatusCode, " ", string(b)), c.want, "%s %s with %q", c.method, c.path, c.token)
	}
}

// console: a newcomer's first session in a browser, on the pages that the function api serves.
func (s *stack) console(t *testing.T) {
	app := s.app(t, "console", "")
	s.executes(t, app, "report", func(ctx context.Context, run *executor.Run) error {
		for part := 1; part <= 3; part++ {
			run.Printf("part %d of 3 is done", part)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}, nil)
	s.OK(t, "", "create", app+"/report", "--handler", "report", "--every", "1h")
	args := []string{"test", "-count=1", "-v", "-timeout", patience.String(), "-run", "TestFirstSession$", ".", "-base", s.URL,
		"-token", s.AdminToken, "-job", app + "/report", "-log", "part 3 of 3 is done"}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = "../browser", os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the session in the browser: %v\n%s", err, out)
	} else {
		fmt.Fprintf(t.Output(), "%s\n", out)
	}
}

// TestDownWaits: a stopped emulator has written its state when the script ends, even if its exit status is never read.
func TestDownWaits(t *testing.T) {
	state := t.TempDir()
	kept := filepath.Join(state, "kept")
	emulator := exec.CommandContext(t.Context(), "sh", "-c",
		`trap 'sleep 1; echo all >"$0"; exit' TERM; echo up; while :; do sleep 0.1; done`, kept)
	out, err := emulator.StdoutPipe()
	check.OK(t, err)
	check.OK(t, emulator.Start())
	defer func() { _ = emulator.Wait() }()
	check.Call(t)(bufio.NewReader(out).ReadString('\n'))
	pid := filepath.Join(state, "ministack.pid")
	check.OK(t, os.WriteFile(pid, fmt.Append(nil, emulator.Process.Pid, "\n"), 0o600))
	down := exec.CommandContext(t.Context(), "../../localstack/down")
	down.Env = append(os.Environ(), "TICKRING_STATE="+state, "TICKRING_EMULATOR=ministack")
	if b, err := down.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("down is done before the emulator is: %v", err)
	}
	if _, err := os.Stat(pid); err == nil {
		t.Error("it is written down as running")
	}
}

// left are the existing resources of the stack, and how many are to stay when
// it is removed.
type left struct {
	left []string
	want int
}

// resources lists the resources of the stack that keep data or cost money.
func (s *stack) resources(t *testing.T) map[string]left {
	t.Helper()
	ctx := t.Context()
	all := map[string]left{}
	tables, err := dynamodb.NewFromConfig(s.sdk).ListTables(ctx, &dynamodb.ListTablesInput{})
	check.OK(t, err)
	slices.Sort(tables.TableNames)
	all["tables"] = left{slices.Compact(tables.TableNames), 3} // LocalStack lists a global table twice
	queues, err := sqs.NewFromConfig(s.sdk).ListQueues(ctx, &sqs.ListQueuesInput{})
	check.OK(t, err)
	all["queues"] = left{queues.QueueUrls, 0}
	functions, err := lambda.NewFromConfig(s.sdk).ListFunctions(ctx, &lambda.ListFunctionsInput{})
	check.OK(t, err)
	var names []string
	for _, f := range functions.Functions {
		names = append(names, *f.FunctionName)
	}
	all["functions"] = left{names, 0}
	names = nil
	params, err := ssm.NewFromConfig(s.sdk).GetParametersByPath(ctx, &ssm.GetParametersByPathInput{Path: new("/tickring"),
		Recursive: new(true)})
	check.OK(t, err)
	for _, p := range params.Parameters {
		names = append(names, *p.Name)
	}
	all["secrets"] = left{names, 3} // functions created them
	return all
}
