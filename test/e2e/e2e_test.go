// Package e2e_test checks a deployment of infra/ against the users' expectations, in an emulator of AWS: localstack/test runs it.
package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/test/harness"
	"github.com/tickring/tickring/wire"
)

// destroy is the command that removes the stack; the test checks the remaining resources.
var destroy = flag.String("destroy", "", "command that removes the stack at the end of TestStack")

// outputs are the outputs of the stack.
type outputs struct {
	Base           string `json:"Url"`
	TokenParameter string
	FiresQueue     string
	ResultsQueue   string
	// Functions of the stack.
	TickFunction, DispatchFunction, SlowFunction                    string
	ApiFunction, CallbackFunction, RegistryFunction, CanaryFunction string
	ResultsQueueArn                                                 string
}

// stack is the deployed stack.
type stack struct {
	outputs
	*harness.Server
	sdk   aws.Config
	began time.Time
	older string // directory of the functions of an older build
}

// deployed finds the stack. The suite is only run where there is one, so a
// missing variable fails: a suite that skips itself proves nothing.
func deployed(t *testing.T) *stack {
	t.Helper()
	path, endpoint := os.Getenv("TICKRING_E2E_OUTPUTS"), os.Getenv("AWS_ENDPOINT_URL")
	if path == "" || endpoint == "" {
		t.Fatal("TICKRING_E2E_OUTPUTS and AWS_ENDPOINT_URL are not set: localstack/test sets them")
	}
	b, err := os.ReadFile(path)
	check.OK(t, err)
	var stacks map[string]outputs
	if err := json.Unmarshal(b, &stacks); err != nil || len(stacks) != 1 {
		t.Fatalf("%s: %d stacks, %v", path, len(stacks), err)
	}
	s := &stack{began: time.Now(), sdk: aws.Config{Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}}
	for _, s.outputs = range stacks {
	}
	dir := t.TempDir()
	bin, err := harness.Build(dir)
	check.OK(t, err)
	if resp, err := http.Get(s.Base + "/healthz"); err != nil { // the API creates the token when it starts
		t.Fatal(err)
	} else {
		resp.Body.Close()
	}
	out, err := ssm.NewFromConfig(s.sdk).GetParameter(t.Context(), &ssm.GetParameterInput{Name: &s.TokenParameter,
		WithDecryption: aws.Bool(true)})
	if err != nil {
		t.Fatalf("the token that the deployment made: %v", err)
	}
	if out.Parameter.Type != "SecureString" || len(*out.Parameter.Value) < 32 {
		t.Fatalf("the token is a %s of %d characters", out.Parameter.Type, len(*out.Parameter.Value))
	}
	s.Server = &harness.Server{Bin: bin, Dir: dir, URL: s.Base, AdminToken: *out.Parameter.Value}
	return s
}

// TestStack tests a deployment over its whole life: all uses in parallel, then its removal.
func TestStack(t *testing.T) {
	s := deployed(t)
	t.Run("in use", func(t *testing.T) {
		t.Run("each second for two minutes", func(t *testing.T) { t.Parallel(); s.eachSecond(t) })
		t.Run("by hand", func(t *testing.T) { t.Parallel(); s.byHand(t) })
		t.Run("call", func(t *testing.T) { t.Parallel(); s.call(t) })
		t.Run("console", func(t *testing.T) { t.Parallel(); s.console(t) })
		t.Run("canary", func(t *testing.T) { t.Parallel(); s.canary(t) })
		t.Run("lambda with the SDK", func(t *testing.T) { t.Parallel(); s.lambdaSDK(t) })
		t.Run("lambda without", func(t *testing.T) { t.Parallel(); s.lambdaPlain(t) })
		t.Run("queue", func(t *testing.T) { t.Parallel(); s.queue(t) })
		t.Run("redrive", func(t *testing.T) { t.Parallel(); s.redrive(t) })
		t.Run("strangers", func(t *testing.T) { t.Parallel(); s.strangers(t) })
		t.Run("older functions", func(t *testing.T) { t.Parallel(); s.buildOlder(t) })
	})
	t.Run("redeployed", s.redeployed)
	t.Run("throttled", s.throttled)
	t.Run("doctor", s.doctor)
	if t.Failed() || *destroy == "" {
		return
	}
	t.Run("removed", s.removed)
}

// executes starts an executor of an app, in this process, with the handler h. sent is called for each received run, h only for new
// runs; sent can be nil.
func (s *stack) executes(t *testing.T, app, handler string, h executor.Handler, sent func(run int64)) {
	t.Helper()
	mux := executor.NewMux()
	mux.Register(handler, h)
	o := executor.Options{App: app, Token: app + "-executor-token", InMemory: true,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	s.Execute(t, mux, o, func(r *http.Request) {
		if sent == nil || !strings.HasSuffix(r.URL.Path, "/run") {
			return
		}
		body, err := io.ReadAll(r.Body)
		check.NoError(t, err)
		run, err := wire.DecodeRun(body)
		check.NoError(t, err)
		r.Body = io.NopCloser(bytes.NewReader(body))
		sent(run.LogID)
	})
}

// app makes an app with a token, under a name that no earlier run of the suite took.
func (s *stack) app(t *testing.T, kind string, more string) (name string) {
	t.Helper()
	name = kind + "-" + strconv.FormatInt(s.began.Unix(), 36)
	file := filepath.Join(t.TempDir(), "token")
	check.OK(t, os.WriteFile(file, []byte(name+"-executor-token"), 0o600))
	s.OK(t, fmt.Sprintf("version: 1\napps:\n  - {name: %s, token: {file: %q}%s}\n", name, file, more), "apply", "-f", "-")
	return name
}

// removed checks the remaining resources after the removal of the stack: only those with data.
func (s *stack) removed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, *destroy).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", *destroy, err, out)
	}
	for what, c := range s.resources(t) {
		t.Logf("%d %s: %q", len(c.left), what, c.left)
		check.Equal(t, len(c.left), c.want, "%s that are left: %q", what, c.left)
	}
}
