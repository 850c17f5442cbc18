package aws_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/executor/lambdaexec"
	"github.com/tickring/tickring/executor/queueexec"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/test/harness"
	"github.com/tickring/tickring/test/load"
	"github.com/tickring/tickring/wire"
)

// TestExecutorsOfAWS tests the deployed functions end to end. dispatch invokes a function that reports by itself, one that knows
// nothing of tickring and whose records reach callback from its queue, and one that does not exist. It also sends to a queue whose
// consumer uses the SDK and asks api.
func TestExecutorsOfAWS(t *testing.T) {
	db, client := clients(t)
	n := fresh(t)
	e, err := load.Open(db, client, dynamo.Options{Names: n})
	check.OK(t, err)
	callback := newSandbox(t, "callback", n, "TICKRING_ADMIN_TOKEN="+adminToken)
	api := newSandbox(t, "api", n)
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/queue/") {
			api.ServeHTTP(w, r)
			return
		}
		callback.ServeHTTP(w, r)
	}))
	defer door.Close()

	// The work of the functions.
	work := func(_ context.Context, r *executor.Run) error {
		if r.Params == "fail" {
			return errors.New("no money left")
		}
		r.Printf("paying %s", r.Params)
		r.SetResult(executor.Success, "paid "+r.Params)
		return nil
	}
	mux := executor.NewMux()
	mux.Register("work", work)
	sdk := lambdaexec.HandlerWith(mux, lambdaexec.Options{App: "pay", Token: "pay-token", Servers: []string{door.URL}, Log: io.Discard})
	bare := lambdaexec.HandlerWith(mux, lambdaexec.Options{App: "pay", Servers: []string{}, Log: io.Discard})
	record := func(payload json.RawMessage, condition, returned string) {
		fault := ""
		if condition != "Success" {
			fault = `,"functionError":"Unhandled"`
		}
		body := fmt.Sprintf(`{"version":"1.0","requestContext":{"requestId":"r","functionArn":"arn:aws:lambda:us-east-1:000000000000:function:plain:$LATEST","condition":%q,"approximateInvokeCount":1},
			"requestPayload":%s,"responseContext":{"statusCode":200%s},"responsePayload":%s}`, condition, payload, fault, returned)
		b, _ := json.Marshal(events.SQSEvent{Records: []events.SQSMessage{{MessageId: "m", Body: body, EventSource: "aws:sqs"}}})
		if got := failed(t, callback.ok(t, b)); len(got) > 0 {
			t.Errorf("the record comes again: %s", body)
		}
	}
	amazon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, _ := io.ReadAll(r.Body)
		run, err := wire.DecodeRun(event)
		name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/2015-03-31/functions/"), "/invocations")
		if err != nil || r.Header.Get("X-Amz-Invocation-Type") != "Event" {
			t.Errorf("%s %s: %v", r.Header.Get("X-Amz-Invocation-Type"), event, err)
		}
		if name == "nobody" {
			w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
			w.WriteHeader(404)
			return
		}
		w.Header().Set("X-Amzn-Requestid", "8476a536-e9f4-11e8-9739-2dfe598c3fcd")
		w.WriteHeader(202)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			switch {
			case name == "bare":
				_, err := bare(ctx, event)
				check.NoError(t, err)
			case name == "sdk":
				_, err := sdk(ctx, event)
				check.NoError(t, err)
			case run.Params == "fail":
				record(event, "RetriesExhausted", `{"errorType":"ValueError","errorMessage":"no money left"}`)
			default:
				record(event, "Success", `{"paid":"`+run.Params+`"}`)
			}
		}()
	}))
	defer amazon.Close()
	dispatch := newSandbox(t, "dispatch", n, "TICKRING_ADMIN_TOKEN="+adminToken, "TICKRING_REPORT_URL="+door.URL, "AWS_ENDPOINT_URL_LAMBDA="+
		amazon.URL)

	name := fmt.Sprintf("pay%d-%d", os.Getpid(), made.Add(1))
	queue, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
	check.OK(t, err)
	ctx, stop := context.WithCancel(t.Context())
	pulling := make(chan error, 1)
	go func() {
		pulling <- queueexec.Run(ctx, mux, queueexec.Options{Queue: *queue.QueueUrl, Client: client, App: "pay", Servers: []string{door.URL},
			Token: "pay-token",
			Log:   slog.New(slog.DiscardHandler)})
	}()
	defer func() {
		stop()
		check.NoError(t, <-pulling)
	}()

	actor, token := core.Actor{Name: "test"}, "pay-token"
	elsewhere := "queue:arn:aws:sqs:eu-central-1:000000000000:" + name
	m := wiring.New(e, wiring.Options{Plan: plan.AWS()}).People(nil, people.Options{})
	check.Call(t)(m.SaveApp(t.Context(), actor, manage.AppSpec{Name: "pay", Token: &token, Executors: []string{"lambda:sdk", "lambda:plain",
		"lambda:bare", "lambda:nobody", "queue:" + name, "queue:not-there", elsewhere}}))
	check.OK(t, m.Save(t.Context(), actor, []manage.JobSpec{{Def: core.Def{App: "pay", Name: "work", Handler: "work"}}})[0].Err)
	// The event source mapping of the delay queue.
	fires, over := context.WithCancel(t.Context())
	ended := make(chan struct{})
	defer func() { over(); <-ended }()
	go func() {
		defer close(ended)
		for fires.Err() == nil {
			out, err := client.ReceiveMessage(fires, &sqs.ReceiveMessageInput{QueueUrl: &n.Fires, MaxNumberOfMessages: 10, WaitTimeSeconds: 2})
			if err != nil {
				return
			}
			for _, msg := range out.Messages {
				b, _ := json.Marshal(events.SQSEvent{Records: []events.SQSMessage{{MessageId: *msg.MessageId, Body: *msg.Body,
					EventSource: "aws:sqs"}}})
				if got := failed(t, dispatch.ok(t, b)); len(got) == 0 {
					_, _ = client.DeleteMessage(fires, &sqs.DeleteMessageInput{QueueUrl: &n.Fires, ReceiptHandle: msg.ReceiptHandle})
				}
			}
		}
	}()
	for _, c := range []struct {
		address, params string
		state           core.State
		message         string
	}{
		{"lambda:sdk", "november", core.Succeeded, "paid november"},
		{"lambda:sdk", "fail", core.Failed, "no money left"},
		{"lambda:bare", "november", core.Succeeded, "paid november"},
		{"lambda:bare", "fail", core.Failed, "no money left"},
		{"lambda:plain", "november", core.Succeeded, `{"paid":"november"}`},
		{"lambda:plain", "fail", core.Failed, "ValueError: no money left"},
		{"lambda:nobody", "november", core.Failed, "the function does not exist: nobody"},
		{"queue:" + name, "november", core.Succeeded, "paid november\n---- log\n"},
		{"queue:" + name, "fail", core.Failed, "no money left"},
		{"queue:not-there", "november", core.Failed, "the queue does not exist: not-there in us-east-1"},
		{elsewhere, "november", core.Failed,
			"the queue is in eu-central-1 and this scheduler in us-east-1"},
	} {
		r, err := m.Trigger(t.Context(), actor, operate.TriggerRequest{Job: "pay/work", Params: &c.params, Addresses: []string{c.address}})
		check.OK(t, err)
		var run core.Run
		_ = harness.Eventually(20*time.Second, func() error {
			if run = memory.Run(t, e, r.Run.ID); run.State != c.state {
				return errors.New("not yet")
			}
			return nil
		})
		if run.State != c.state || !strings.HasPrefix(run.Message, c.message) {
			t.Errorf("%s %s: %s %s %q, want %s %q", c.address, c.params, run.State, run.Reason, run.Message, c.state, c.message)
		}
	}
	// The consumer has sent a heartbeat.
	all, err := e.Executors(t.Context(), []string{"pay"})
	if list := all["pay"]; err != nil || len(list) != 1 || list[0].Address != "queue:"+name || list[0].Beat.IsZero() {
		t.Errorf("%+v %v", list, err)
	}
}
