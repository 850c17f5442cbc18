// This program is an executor that listens on no port: it receives runs from a queue of the server. For an SQS queue,
// set Queue to the URL of the queue and Client to sqs.NewFromConfig(config).
package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/executor/queueexec"
)

func main() {
	mux := executor.NewMux()
	mux.Register("invoice", func(_ context.Context, run *executor.Run) error {
		run.Printf("invoice %s", run.Params)
		return nil
	})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := queueexec.Run(ctx, mux, queueexec.Options{
		Queue:   "invoices",
		App:     "billing",
		Servers: []string{cmp.Or(os.Getenv("SERVER"), "http://127.0.0.1:7700")},
		Token:   os.Getenv("BILLING_TOKEN"),
	})
	if err != nil {
		log.Fatal(err)
	}
}
