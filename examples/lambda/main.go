// This program is an AWS Lambda function that runs jobs, with TICKRING_APP in its environment. Build it:
//
//	GOOS=linux GOARCH=arm64 go build -tags lambda.norpc -o bootstrap ./examples/lambda
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/executor/lambdaexec"
)

func main() {
	mux := executor.NewMux()
	mux.Register("hello", func(_ context.Context, run *executor.Run) error {
		run.Printf("hello %s", run.Params)
		return nil
	})
	lambda.Start(lambdaexec.Handler(mux))
}
