// An executor on a port of its own. With a server on this machine:
//
//	tickring create reports/hello --handler hello --every 10s
//	APP=reports SERVER=http://127.0.0.1:7700 go run ./executor/examples/http
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tickring/tickring/executor"
)

func main() {
	mux := executor.NewMux()
	mux.Register("hello", func(_ context.Context, run *executor.Run) error {
		run.Printf("hello %s, of %s", run.Params, run.ScheduledAt)
		return nil
	})
	type params struct {
		Seconds int `json:"seconds"`
	}
	mux.Register("sleep", executor.Typed(func(ctx context.Context, run *executor.Run, p params) error {
		select {
		case <-time.After(time.Duration(p.Seconds) * time.Second):
			run.SetResult(executor.Success, "slept well")
			return nil
		case <-ctx.Done(): // killed, timed out, or the program stops
			return context.Cause(ctx)
		}
	}))
	mux.Register("fails", func(context.Context, *executor.Run) error { return errors.New("no luck") })

	e, err := executor.New(mux, executor.Options{
		App:     os.Getenv("APP"),
		Servers: []string{os.Getenv("SERVER")},
		Token:   os.Getenv("TOKEN"),
		Listen:  os.Getenv("LISTEN"),
		Dir:     os.Getenv("DIR"),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := e.ListenAndServe(ctx); err != nil {
		log.Fatal(err)
	}
}
