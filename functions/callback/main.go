// Command callback is the function that results come to: callbacks of the wire
// and reports of calls. It answers 200 only when everything in a request is
// stored. core/callback and core/finish are what it drives.
package main

import (
	"context"
	"log/slog"
	"net/http"
	_ "time/tzdata" // the host has no zone files

	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/boot"
	"github.com/tickring/tickring/internal/doors"
)

func main() {
	c, _, store, log, err := boot.Open(context.Background(), boot.Needs{})
	boot.Must(log, err)
	awslambda.Start(boot.HTTP(wire(&c, store.Engine(), log), log))
}

// wire makes the handler on an engine.
func wire(c *boot.Config, e *engine.Engine, log *slog.Logger) http.Handler {
	end := finish.New(e.Finish, e.Ring, finish.Options{Plan: c.Plan, Log: log})
	mux := http.NewServeMux()
	doors.Wire(mux, nil, callback.New(e.Manage, end, callback.Options{AllowNoToken: c.NoToken}), log)
	if c.AdminToken != "" { // without it no report was ever asked for
		mux.HandleFunc("POST /v1/report/{run}", doors.Report(end, c.ReportKey(), log))
	}
	return mux
}
