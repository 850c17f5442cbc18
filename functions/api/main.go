// Command api is the function that people and programs ask: jobs, apps, runs,
// executors; and who pulls from a queue asks it whether to go on. core/manage is
// what it drives. With TICKRING_DOORS=all it is the one
// function behind a function URL, and takes what callback and registry take too.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"
	_ "time/tzdata" // the host has no zone files

	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/boot"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/internal/doors"
	"github.com/tickring/tickring/send"
)

func main() {
	c, _, store, log, err := boot.Open(context.Background(), boot.Needs{AdminToken: true})
	boot.Must(log, err)
	h := wire(&c, store.Engine(), log)
	switch doors := os.Getenv("TICKRING_DOORS"); doors {
	case "":
	case "all":
		h = all(&c, store.Engine(), h, log)
	default:
		boot.Must(log, fmt.Errorf("configuration: TICKRING_DOORS: %q; allowed: all", doors))
	}
	awslambda.Start(boot.HTTP(h, log))
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
	mux := http.NewServeMux()
	// Who pulls from a queue of SQS asks here about runs, and says that it is there.
	(&doors.QueueDoor{Registry: registry.New(e.Registry, registry.Options{AllowNoToken: c.NoToken}), Runs: e.Finish, Finish: end, Log: log}).Serve(mux)
	o := api.Options{Log: log, Dead: e.Dead, Restore: restorer(data, c.Deployment), Facts: func(ctx context.Context) api.Facts {
		f := api.Facts{Deployment: c.Deployment}
		doctor.Gather(ctx, data, time.Now(), &f)
		return f
	}, Status: func() api.Status {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		last, err := e.Upkeep.LastAlive(ctx) // each minute of a tick
		if err != nil {
			log.Warn("the last tick could not be read", "err", err)
		}
		return api.Status{Now: time.Now().UTC(), LastTick: last}
	}}
	mux.Handle("/", doors.Guarded(c.Token, log, func(token string) http.Handler {
		o.Token = token
		return api.NewHandler(m, &doors.Logs{Manage: m, Sender: sender}, o)
	}))
	return mux
}

// all adds the doors of executors to the API.
func all(c *boot.Config, e *engine.Engine, api http.Handler, log *slog.Logger) http.Handler {
	end := finish.New(e.Finish, e.Ring, finish.Options{Plan: c.Plan, Log: log})
	mux := http.NewServeMux()
	doors.Wire(mux, registry.New(e.Registry, registry.Options{AllowNoToken: c.NoToken, Allowed: doors.Allowed(c.Policy)}),
		callback.New(e.Manage, end, callback.Options{AllowNoToken: c.NoToken, TokenFor: boot.TokenFor}), log)
	mux.HandleFunc("POST /v1/report/{run}", doors.Report(end, c.ReportKey, log))
	mux.Handle("/", api)
	return mux
}
