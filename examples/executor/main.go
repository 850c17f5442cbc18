// This program is an executor that listens on its own port.
package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/tickring/tickring/executor"
)

func main() {
	mux := executor.NewMux()
	mux.Register("nightly", func(ctx context.Context, run *executor.Run) error {
		run.Printf("params %s, shard %d of %d", run.Params, run.ShardIndex, run.ShardTotal)
		return nil // an error or a panic fails the run
	})
	e, err := executor.New(mux, executor.Options{
		App:     "reports",
		Servers: []string{cmp.Or(os.Getenv("SERVER"), "http://127.0.0.1:7700")},
		Token:   os.Getenv("REPORTS_TOKEN"),
		Listen:  os.Getenv("LISTEN"), // default: port 9999
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := e.ListenAndServe(ctx); err != nil { // returns when ctx ends
		log.Fatal(err)
	}
}
