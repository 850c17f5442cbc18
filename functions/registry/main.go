// Command registry is the Lambda function that registers executors. It stores their heartbeats and removals, and runs
// core/registry.
package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/executorhttp"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/store"
)

func main() {
	c, _, store, log, err := lambdaboot.Open(context.Background(), lambdaboot.Needs{})
	lambdaboot.Must(log, err)
	c.Start(lambdaboot.HTTP(wire(&c, store.Store, log), log))
}

// wire creates the handler on a store.
func wire(c *lambdaboot.Config, e *store.Store, log *slog.Logger) http.Handler {
	a := c.Assemble(e, log)
	mux := http.NewServeMux()
	executorhttp.Config{Tokens: a.Tokens(registry.TokensOptions{}), Refused: c.Metrics.Trace(log), Log: log}.Wire(mux,
		a.Registry(registry.Options{Allowed: executorhttp.Allowed(c.Policy), Came: a.Finish.WakeApp}), nil)
	return mux
}
