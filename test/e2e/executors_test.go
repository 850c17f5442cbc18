package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/executor/queueexec"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/test/harness"
)

// Executors that are no part of the stack, as localstack/deploy allows them.
const (
	sdkFunction   = "tickring-e2e-sdk"
	plainFunction = "tickring-e2e-plain"
	queueName     = "tickring-e2e"
)

// function makes a function of a package of a module, and removes it at the end.
func (s *stack) function(t *testing.T, name, source, pkg string, env map[string]string) {
	t.Helper()
	dir := t.TempDir()
	check.OK(t, harness.Function(source, pkg, filepath.Join(dir, "bootstrap"), "-ldflags", "-s -w"))
	arch := types.ArchitectureX8664
	if runtime.GOARCH == "arm64" {
		arch = types.ArchitectureArm64
	}
	cl := lambda.NewFromConfig(s.sdk)
	remove := func(ctx context.Context) error {
		_, err := cl.DeleteFunction(ctx, &lambda.DeleteFunctionInput{FunctionName: &name})
		return err
	}
	_ = remove(t.Context()) // leftovers of an interrupted suite
	// The role of the canary may write a log and nothing else.
	canary, err := cl.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &s.CanaryFunction})
	check.OK(t, err)
	check.Call(t)(cl.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: &name, Runtime: types.RuntimeProvidedal2023, Handler: aws.String("bootstrap"), Architectures: []types.Architecture{arch},
		Role: canary.Role, Timeout: aws.Int32(20),
		Code: &types.FunctionCode{ZipFile: zipped(t, dir)}, Environment: &types.Environment{Variables: env},
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		check.NoError(t, remove(ctx))
	})
	s.active(t, name)
}

// lambdaSDK: the example of the documentation is deployed as a function. It gets only its app as a setting, and reports by itself.
func (s *stack) lambdaSDK(t *testing.T) {
	app := s.app(t, "sdk", `, executors: ["lambda:`+sdkFunction+`"]`)
	s.function(t, sdkFunction, harness.Root, "./examples/lambda", map[string]string{"TICKRING_APP": app})
	s.OK(t, "", "create", app+"/hello", "--handler", "hello")
	s.OK(t, "", "create", app+"/nobody", "--handler", "nobody")
	r := s.WaitState(t, s.Trigger(t, app+"/hello", "--params", "world"), "succeeded", patience)
	check.Equal(t, r.Address, "lambda:"+sdkFunction, "it ran at")
	if r := s.WaitState(t, s.Trigger(t, app+"/nobody"), "failed", patience); !strings.Contains(r.Message, "nobody") {
		t.Errorf("the failure has the message %q", r.Message)
	}
}

// lambdaPlain: a function that knows nothing of tickring. Its results are the
// records that Lambda puts on the results queue. MiniStack does so for failures only,
// so the test sends a record of the success, which is a second one in LocalStack.
func (s *stack) lambdaPlain(t *testing.T) {
	events, looked := make(chan json.RawMessage, 10), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		events <- b
		select { // until then the function runs
		case <-looked:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	app := s.app(t, "plain", `, executors: ["lambda:`+plainFunction+`"]`)
	s.function(t, plainFunction, ".", "./plain", map[string]string{"BOOKS": srv.URL})
	results := &types.OnSuccess{Destination: &s.ResultsQueueArn}
	check.Call(t)(lambda.NewFromConfig(s.sdk).PutFunctionEventInvokeConfig(t.Context(), &lambda.PutFunctionEventInvokeConfigInput{
		FunctionName: aws.String(plainFunction), MaximumRetryAttempts: aws.Int32(0), MaximumEventAgeInSeconds: aws.Int32(300),
		DestinationConfig: &types.DestinationConfig{OnSuccess: results, OnFailure: &types.OnFailure{Destination: &s.ResultsQueueArn}},
	}))
	s.OK(t, "", "create", app+"/pay", "--handler", "pay")

	if r := s.WaitState(t, s.Trigger(t, app+"/pay", "--params", "bad"), "failed", patience); r.Reason != "handler" ||
		!strings.Contains(r.Message, "no such account") {
		t.Errorf("the failure is %s: %q", r.Reason, r.Message)
	}
	id := s.Trigger(t, app+"/pay", "--params", "good")
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case event := <-events:
		if r := s.GetRun(t, id); r.State != "running" && r.State != "sending" {
			t.Errorf("before anything is on the results queue the run is %s", r.State)
		}
		close(looked)
		check.Call(t)(sqs.NewFromConfig(s.sdk).SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &s.ResultsQueue,
			MessageBody: aws.String(succeededRecord(t, event, `{"paid":3}`))}))
	case <-limit.C:
		t.Fatal("the function was not invoked")
	}
	if r := s.WaitState(t, id, "succeeded", patience); strings.ReplaceAll(r.Message, " ", "") != `{"paid":3}` {
		t.Errorf("the function returned %q", r.Message)
	}
}

// succeededRecord returns Lambda's record of a function that was invoked with event, and its return value.
func succeededRecord(t *testing.T, event json.RawMessage, returned string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "functions", "callback", "testdata", "records", "success.json"))
	check.OK(t, err)
	var record map[string]json.RawMessage
	check.OK(t, json.Unmarshal(b, &record))
	record["requestPayload"], record["responsePayload"] = event, json.RawMessage(returned)
	if b, err = json.Marshal(record); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// queue: an SQS queue from which a program pulls its runs, and reports.
func (s *stack) queue(t *testing.T) {
	cl := sqs.NewFromConfig(s.sdk)
	made, err := cl.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(queueName)})
	check.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		check.Call(t)(cl.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl}))
	})
	app := s.app(t, "queue", `, executors: ["queue:`+queueName+`"]`)
	s.OK(t, "", "create", app+"/work", "--handler", "work")
	first := s.Trigger(t, app+"/work", "--params", "3") // it waits for a consumer
	mux := executor.NewMux()
	mux.Register("work", func(_ context.Context, run *executor.Run) error {
		run.Printf("working on %s", run.Params)
		if run.Params == "bad" {
			return fmt.Errorf("no such report")
		}
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	done, dir := make(chan error, 1), t.TempDir()
	go func() {
		done <- queueexec.Run(ctx, mux, queueexec.Options{Queue: *made.QueueUrl, Client: cl, App: app, Servers: []string{s.URL},
			Token:  app + "-executor-token",
			Log:    slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
			Change: func(o *executor.Options) { o.Dir, o.InMemory = dir, true }})
	}()
	t.Cleanup(func() { // before the queue is deleted
		cancel()
		check.NoError(t, <-done)
	})
	check.Equal(t, s.WaitState(t, first, "succeeded", patience).Address, "queue:"+queueName, "it ran at")
	check.Contains(t, s.OK(t, "", "logs", first), "working on 3", "its log")
	if r := s.WaitState(t, s.Trigger(t, app+"/work", "--params", "bad"), "failed", patience); !strings.Contains(r.Message,
		"no such report") {
		t.Errorf("the failure has the message %q", r.Message)
	}
}
