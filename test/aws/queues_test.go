package aws_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/executor/queueexec"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/queuetest"
	"github.com/tickring/tickring/send/awssend"
	"github.com/tickring/tickring/server"
	"github.com/tickring/tickring/test/harness"
)

// TestQueues runs the suite for queue consumers over an SQS queue; a server on this machine sends to it.
func TestQueues(t *testing.T) {
	_, client := clients(t)
	actor := core.Actor{Name: "test"}
	queuetest.Run(t, func(t *testing.T) queuetest.Harness {
		name := fmt.Sprintf("q%d-%d", os.Getpid(), made.Add(1))
		queue, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
		check.OK(t, err)
		s, err := server.New(server.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Policy: server.LocalPolicy(),
			Log: slog.New(slog.DiscardHandler),
			SQS: awssend.NewQueues(client, "us-east-1")})
		check.OK(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			check.NoError(t, <-ended)
		})
		<-s.Ready()
		arn, token := "arn:aws:sqs:us-east-1:000000000000:"+name, "reports-token"
		check.Call(t)(s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: "reports", Token: &token,
			Executors: []string{"queue:" + arn}}))
		var specs []manage.JobSpec
		for _, h := range queuetest.Handlers {
			specs = append(specs, manage.JobSpec{Def: core.Def{App: "reports", Name: h, Handler: h}})
		}
		for _, r := range s.Manage().Save(t.Context(), actor, specs) {
			check.OK(t, r.Err)
		}
		await := func(t *testing.T, run, state string) (message string) {
			t.Helper()
			check.OK(t, harness.Eventually(90*time.Second, func() error {
				v, err := s.Manage().Run(t.Context(), run)
				if message = v.Run.Message; err == nil && string(v.Run.State) != state {
					err = fmt.Errorf("run %s is %s %s %q, want %s", run, v.Run.State, v.Run.Reason, message, state)
				}
				return err
			}))
			return message
		}
		return queuetest.Harness{
			Consumer: func(_ *testing.T, transport http.RoundTripper) queueexec.Options {
				own := sqs.New(sqs.Options{Region: "us-east-1", BaseEndpoint: aws.String(os.Getenv("TICKRING_TEST_SQS")),
					HTTPClient:  &http.Client{Transport: transport},
					Credentials: credentials.NewStaticCredentialsProvider("tickring", "tickring", "")})
				return queueexec.Options{Queue: *queue.QueueUrl, Client: own, Address: arn, App: "reports", Token: token, Servers: []string{s.URL()}}
			},
			Send: func(t *testing.T, handler, params string) string {
				r, err := s.Manage().Trigger(t.Context(), actor, operate.TriggerRequest{Job: "reports/" + handler, Params: &params})
				check.OK(t, err)
				return r.Run.ID.String()
			},
			Kill: func(t *testing.T, run string) {
				await(t, run, string(core.Running))
				if res, err := s.Manage().KillRun(t.Context(), actor, run, ""); err != nil || len(res.Killed) != 1 {
					t.Errorf("%+v %v", res, err)
				}
			},
			Await: await,
		}
	})
}
