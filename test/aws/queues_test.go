package aws_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/executor/queueexec"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/queuetest"
	"github.com/tickring/tickring/send/awssend"
	"github.com/tickring/tickring/server"
)

// TestQueues runs the suite for queue consumers over an SQS queue; a server on this machine sends to it.
func TestQueues(t *testing.T) {
	_, client := clients(t)
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
		arn := "arn:aws:sqs:us-east-1:000000000000:" + name
		return queuetest.Harness{Scheduler: s.Manage(), Address: "queue:" + arn,
			Consumer: func(_ *testing.T, transport http.RoundTripper) queueexec.Options {
				own := sqs.New(sqs.Options{Region: "us-east-1", BaseEndpoint: aws.String(os.Getenv("TICKRING_TEST_SQS")),
					HTTPClient:  &http.Client{Transport: transport},
					Credentials: credentials.NewStaticCredentialsProvider("tickring", "tickring", "")})
				return queueexec.Options{Queue: *queue.QueueUrl, Client: own, Address: arn, Servers: []string{s.URL()}}
			},
		}
	})
}
