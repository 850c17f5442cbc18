// Command callback is the Lambda function that receives the results of runs. Results are callbacks of the xxl-job
// protocol, reports of HTTP calls, and results of Lambda functions from a queue. The function answers 200 only after
// all results in a request are stored. It runs core/callback and core/finish.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"
	_ "time/tzdata" // the host has no zone files

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/executorhttp"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/store"
)

func main() {
	c, _, store, log, err := lambdaboot.Open(context.Background(), lambdaboot.Needs{})
	lambdaboot.Must(log, err)
	c.Start(wire(&c, store.Store, store.BuryRaw, log))
}

func wire(c *lambdaboot.Config, e *store.Store, bury func(ctx context.Context, body, reason string) error,
	log *slog.Logger) func(context.Context, json.RawMessage) (any, error) {
	a := c.Assemble(e, log)
	mux := http.NewServeMux()
	door := executorhttp.Config{Tokens: a.Tokens(registry.TokensOptions{}), Refused: c.Metrics.Trace(log), Log: log}
	door.Wire(mux, nil, a.Callback(callback.Options{TokenFor: lambdaboot.TokenFor}))
	results := &results{end: a.Finish.End, bury: bury, now: time.Now, log: log}
	if c.Signs() { // else no report was ever asked for
		mux.HandleFunc("POST /v1/report/{run}", door.Report(a.Finish, c.ReportKey))
		results.key = c.ReportKey
	}
	request := lambdaboot.HTTP(mux, log)
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		if bytes.Contains(raw, []byte(`"Records"`)) {
			var e events.SQSEvent
			if err := json.Unmarshal(raw, &e); err != nil {
				return nil, fmt.Errorf("the event is not a batch of a queue: %w", err)
			}
			if len(e.Records) > 0 {
				return results.handle(ctx, e)
			}
		}
		var e events.APIGatewayV2HTTPRequest
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("the event is not an HTTP request: %w", err)
		}
		return request(ctx, e)
	}
}
