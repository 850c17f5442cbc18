package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/executor/lambdaexec"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/send/awssend"
)

// TestLambda tests a function built with the SDK end to end: it is invoked with the run, and reports to the server.
func TestLambda(t *testing.T) {
	t.Parallel()
	mux := executor.NewMux()
	mux.Register("salaries", func(_ context.Context, r *executor.Run) error {
		if r.Params == "fail" {
			return errors.New("no money left")
		}
		r.SetResult(executor.Success, "paid "+r.Params)
		return nil
	})
	var handle func(context.Context, json.RawMessage) (executor.Result, error)
	amazon := serve(t, func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/2015-03-31/functions/"), "/invocations")
		event, _ := io.ReadAll(r.Body)
		if name != "payroll" {
			w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
			w.WriteHeader(404)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			_, err := handle(ctx, event)
			check.NoError(t, err)
		}()
	})
	s := start(t, Options{Functions: awssend.NewFunctions(lambda.New(lambda.Options{Region: "eu-central-1", BaseEndpoint: &amazon.URL,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		})}), nil)})
	handle = lambdaexec.HandlerWith(mux, lambdaexec.Options{App: "pay", Token: "pay-token", Servers: []string{s.URL()}, Log: io.Discard})
	token := "pay-token"
	check.Call(t)(s.Manage().SaveApp(t.Context(), actor,
		manage.AppSpec{Name: "pay", Token: &token, Executors: []string{"lambda:payroll", "lambda:nobody"}}))
	saveAll(t, s, manage.JobSpec{Def: core.Def{App: "pay", Name: "salaries", Handler: "salaries", Route: core.RouteFirst}})
	for _, c := range []struct {
		params, message string
		addresses       []string
		state           core.State
		reason          core.Reason
	}{
		{"november", "paid november", nil, core.Succeeded, ""},
		{"fail", "no money left", nil, core.Failed, core.ReasonHandler},
		{"x", "the function does not exist: nobody", []string{"lambda:nobody"}, core.Failed, core.ReasonNotAccepted},
	} {
		r, err := s.Manage().Trigger(t.Context(), actor, operate.TriggerRequest{Job: "pay/salaries", Params: &c.params, Addresses: c.addresses})
		check.OK(t, err)
		if run := s.until(t, r.Run.ID, c.state); run.Reason != c.reason || !strings.Contains(run.Message, c.message) {
			t.Errorf("%s: %s %q", c.params, run.Reason, run.Message)
		}
	}
}

// TestNoAWS: a server without AWS credentials rejects Lambda functions and SQS queues as executors.
func TestNoAWS(t *testing.T) {
	texts := golden.New(t)
	s := start(t, Options{})
	for _, address := range []string{"lambda:payroll", "queue:arn:aws:sqs:eu-central-1:123456789012:mail"} {
		_, err := s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: "pay", Executors: []string{address}})
		if e, ok := errors.AsType[*core.Error](err); !ok || e.Code != core.CodeRefused || e.Field != "executors[0]" {
			t.Errorf("%s: %v", address, err)
		}
		texts.Equal(t, address, fmt.Sprint(err))
	}
}
