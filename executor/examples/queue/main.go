// This program is an executor without a port, which pulls from a queue. With a queue of a tickring server, by long poll;
// the app has executors: ["queue:hello"]:
//
//	APP=reports SERVER=http://127.0.0.1:7700 TOKEN=… QUEUE=hello go run ./executor/examples/queue
//
// With an SQS queue:
//
//	APP=reports SERVER=https://… TOKEN=… QUEUE=https://sqs.eu-central-1.amazonaws.com/123456789012/hello \
//	AWS_REGION=eu-central-1 AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… go run ./executor/examples/queue
//
// ENDPOINT is for an emulator. Your own program should load credentials with the SDK's package config, which this example
// omits to stay small.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/executor/queueexec"
)

func main() {
	mux := executor.NewMux()
	mux.Register("hello", func(_ context.Context, run *executor.Run) error {
		run.Printf("hello %s", run.Params)
		return nil
	})
	o := queueexec.Options{Queue: os.Getenv("QUEUE"), App: os.Getenv("APP"), Servers: []string{os.Getenv("SERVER")}, Token: os.Getenv("TOKEN")}
	if strings.Contains(o.Queue, "/") { // a URL: SQS has it
		o.Client = client()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := queueexec.Run(ctx, mux, o); err != nil {
		log.Fatal(err)
	}
}

func client() *sqs.Client {
	o := sqs.Options{Region: os.Getenv("AWS_REGION"), Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
			SessionToken: os.Getenv("AWS_SESSION_TOKEN")}, nil
	})}
	if e := os.Getenv("ENDPOINT"); e != "" {
		o.BaseEndpoint = &e
	}
	return sqs.New(o)
}
