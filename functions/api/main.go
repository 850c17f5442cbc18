// Command api is the function that people and programs ask: jobs, apps, runs,
// executors. core/manage is what it drives.
package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"
	_ "time/tzdata" // the host has no zone files

	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/boot"
	"github.com/tickring/tickring/internal/doors"
	"github.com/tickring/tickring/send"
)

func main() {
	c, _, store, log, err := boot.Open(context.Background(), boot.Needs{AdminToken: true})
	boot.Must(log, err)
	awslambda.Start(boot.HTTP(wire(&c, store.Engine(), log), log))
}

// wire makes the handler on an engine.
func wire(c *boot.Config, e *engine.Engine, log *slog.Logger) http.Handler {
	sender := send.New(c.Send())
	end := finish.New(e.Finish, e.Ring, finish.Options{Plan: c.Plan, Log: log})
	m := manage.New(e.Manage, e.Ring, end, sender, manage.Options{Plan: c.Plan, Reachable: sender.Reachable})
	return api.NewHandler(m, &doors.Logs{Manage: m, Sender: sender}, api.Options{Token: c.AdminToken, Log: log, Status: func() api.Status {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		last, err := e.Upkeep.LastAlive(ctx) // each minute of a tick
		if err != nil {
			log.Warn("the last tick could not be read", "err", err)
		}
		return api.Status{Now: time.Now().UTC(), LastTick: last}
	}})
}
