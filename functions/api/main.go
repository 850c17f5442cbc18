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
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/boot"
	"github.com/tickring/tickring/internal/doors"
	"github.com/tickring/tickring/internal/facts"
	"github.com/tickring/tickring/send"
)

func main() {
	c, _, store, log, err := boot.Open(context.Background(), boot.Needs{AdminToken: true})
	boot.Must(log, err)
	awslambda.Start(boot.HTTP(wire(&c, store.Engine(), log), log))
}

// restorer works on the data itself: it is what opens a fence.
func restorer(e *engine.Engine, deployment string) *restore.Restorer {
	return restore.New(restore.Ports{Global: e.Manage, Jobs: e.Manage, Entries: e.Finish, Journals: e.Watch, Leases: e.Leases, Alive: e.Upkeep}, restore.Options{Deployment: deployment})
}

// wire makes the handler on an engine.
func wire(c *boot.Config, e *engine.Engine, log *slog.Logger) http.Handler {
	data := e
	e = engine.Fenced(e, c.Deployment)
	sender := send.New(c.Send())
	end := finish.New(e.Finish, e.Ring, finish.Options{Plan: c.Plan, SlowLane: true, Log: log})
	m := manage.New(e.Manage, e.Ring, end, sender, manage.Options{Plan: c.Plan, Reachable: sender.Reachable})
	return api.NewHandler(m, &doors.Logs{Manage: m, Sender: sender}, api.Options{Token: c.AdminToken, Log: log, Restore: restorer(data, c.Deployment), Facts: func(ctx context.Context) api.Facts {
		f := api.Facts{Deployment: c.Deployment}
		facts.Gather(ctx, data, time.Now(), &f)
		return f
	}, Status: func() api.Status {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		last, err := e.Upkeep.LastAlive(ctx) // each minute of a tick
		if err != nil {
			log.Warn("the last tick could not be read", "err", err)
		}
		return api.Status{Now: time.Now().UTC(), LastTick: last}
	}})
}
