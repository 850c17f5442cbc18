// Command api is the Lambda function that serves the HTTP API and the console. The API has jobs, apps, runs and
// executors. Queue consumers also ask this function whether to continue a run. The function runs the use cases of
// core/people.
//
// The function also accepts the requests of the functions callback and registry: an HTTP API that routes exact paths
// sends //api/registry here. With TICKRING_ENDPOINTS=all, api is the only function behind a function URL, and also
// receives reports.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"
	_ "time/tzdata" // the host has no zone files

	"github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/internal/executorhttp"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/oidc"
	"github.com/tickring/tickring/notify"
	"github.com/tickring/tickring/notify/awsnotify"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/words"
)

func main() {
	c, sdk, store, log, err := lambdaboot.Open(context.Background(), lambdaboot.Needs{AdminToken: true})
	lambdaboot.Must(log, err)
	door := doorOf(&c, store.Store, log)
	topics := awsnotify.Of(sns.NewFromConfig(sdk), sdk.Credentials)
	h := wire(&c, store.Store, door, notify.Options{Policy: c.Policy, Topics: topics, Deployment: c.Deployment})
	switch doors := os.Getenv("TICKRING_ENDPOINTS"); doors {
	case "":
	case "all":
		h = all(&c, store.Store, h, door)
	default:
		lambdaboot.Must(log, fmt.Errorf("configuration: TICKRING_ENDPOINTS: %q; allowed values: all", doors))
	}
	c.Start(lambdaboot.HTTP(h, log))
}

func doorOf(c *lambdaboot.Config, e *store.Store, log *slog.Logger) executorhttp.Config {
	return executorhttp.Config{Tokens: c.Assemble(e, log).Tokens(registry.TokensOptions{}), Refused: c.Metrics.Trace(log), Log: log}
}

func wire(c *lambdaboot.Config, e *store.Store, door executorhttp.Config, to notify.Options) http.Handler {
	log := door.Log
	a := c.Assemble(e, log)
	sender := send.New(c.Send())
	m := a.People(sender, people.Options{Ask: query.Options{Reachable: sender.Reachable},
		Manage: manage.Options{Notifier: notify.New(to)}})
	mux := http.NewServeMux()
	door.Wire(mux, a.Registry(registry.Options{Allowed: executorhttp.Allowed(c.Policy)}),
		a.Callback(callback.Options{TokenFor: lambdaboot.TokenFor}))
	// Consumers of SQS queues ask here about runs and send heartbeats.
	(&executorhttp.Queues{Config: door, Registry: a.Registry(registry.Options{}), Runs: a.Store.Runs, Finish: a.Finish}).Serve(mux)
	o := api.Options{URL: c.ReportURL, Refused: door.Refused, Log: log,
		Reports: a.Reports(report.Options{Zone: c.ReportZone}),
		Restore: a.Restorer(restore.Options{}),
		Store:   a.Store,
		Facts: func(ctx context.Context, l words.Language) client.Facts {
			f := client.Facts{Deployment: c.Deployment}
			doctor.Gather(ctx, e, time.Now(), l, &f, log, nil)
			return f
		}, Status: func() client.Status {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			last, err := e.LastAlive(ctx) // each minute of a tick
			if err != nil {
				log.Warn("last planner pass not read", "err", err)
			}
			return client.Status{Now: time.Now().UTC(), LastTick: last}
		}}
	mux.Handle("/", guarded(c.Tokens, log, func(t lambdaboot.Tokens) http.Handler {
		o.Token, o.ReadToken, o.Admit = t.Admin, t.Read, door.Tokens.Admit
		provider, claims, err := providerOf(c, t.Admin, log)
		if err != nil { // Read has validated it
			log.Error("login with the provider not available", "err", err)
		}
		o.Access = a.Access(t.Admin, access.Options{Claims: claims})
		h := api.NewHandler(m, sender, o)
		pages := http.NewServeMux()
		pages.Handle("/console/", console.New(console.Options{API: h, Access: o.Access, Provider: provider,
			URL: c.ReportURL, Newest: e.Newest, Name: c.Deployment, Log: log}))
		pages.Handle("/", console.SendAway(h))
		return pages
	}))
	return mux
}

// providerOf creates the identity provider; nil: there is none.
func providerOf(c *lambdaboot.Config, adminToken string, log *slog.Logger) (*oidc.Provider, access.Claims, error) {
	if !c.Provider.Set() {
		return nil, access.Claims{}, nil
	}
	claims, err := c.Provider.Claims()
	if err != nil {
		return nil, claims, err
	}
	p, err := oidc.New(c.Provider, adminToken, oidc.Options{Log: log, Secret: c.ProviderSecret})
	return p, claims, err
}

func all(c *lambdaboot.Config, e *store.Store, api http.Handler, door executorhttp.Config) http.Handler {
	a := c.Assemble(e, door.Log)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/report/{run}", door.Report(a.Finish, c.ReportKey))
	mux.Handle("/", api)
	return mux
}
