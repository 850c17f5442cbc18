package server

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/connlimit"
	"github.com/tickring/tickring/internal/executorhttp"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/words"
)

// routes is the one mux: health and metrics, the wire, reports of calls, the API, and the
// pages of the console.
func (s *Server) routes(p *parts) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { s.healthz(p, w, r) })
	mux.Handle("GET /metrics", s.ownName(s.m.handler(p)))
	door := executorhttp.Config{Tokens: p.tokens, Refused: p.refused, Log: s.log, Here: isHere}
	door.Wire(mux, p.reg, p.call)
	(&executorhttp.Queues{Config: door, Registry: p.reg, Runs: p.store.Runs, Finish: p.finish, Puller: p.pull}).Serve(mux)
	mux.HandleFunc("POST /v1/report/{run}", door.Report(p.finish, s.reportKey))
	h := api.NewHandler(p.manage, p.sender, api.Options{Token: s.token, ReadToken: s.o.ReadToken, Access: p.access, URL: s.reportURL,
		Admit: p.tokens.Admit, Refused: p.refused, Log: s.log, Reports: p.reports,
		Answer: p.probe.Answer, Store: p.store,
		Facts: func(ctx context.Context, l words.Language) client.Facts { return s.facts(ctx, p, l, s.log) }, Status: func() client.Status {
			return client.Status{Now: time.Now().UTC(), Version: s.o.Version, UpSince: p.upAt, LastTick: core.FromMillis(p.lastPass.Load())}
		}})
	host, _ := os.Hostname() // shows which of several servers a browser tab belongs to; without a name, pages show none
	pages := console.New(console.Options{API: h, Access: p.access, Writes: p.store.Writes, Done: p.stopping,
		Listeners: connlimit.FromRlimit() / 4,
		Provider:  s.provider, URL: s.reportURL, Name: host, Log: s.log})
	mux.Handle("/console/", s.ownName(pages))
	mux.Handle("/", console.SendAway(h))
	return mux
}

// healthz answers 200 if the last planning pass is at most a few beats old. The verdict on jobs does not change the status: a
// restart would not fix failing jobs.
func (s *Server) healthz(p *parts, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	age := time.Since(core.FromMillis(p.lastPass.Load()))
	body := map[string]any{"status": "ok"}
	if !p.planning.Load() || age > 5*s.o.Beat {
		w.WriteHeader(http.StatusServiceUnavailable)
		body["status"] = "no runs are being planned"
		if e := p.passError.Load(); s.o.Hold {
			body["reason"] = onHold.String()
		} else if e != nil && *e != "" {
			body["reason"] = *e
		}
	}
	if text := s.verdict(r.Context(), p); text != "" {
		body["verdict"] = text
	}
	json.NewEncoder(w).Encode(body)
}

// LocalPolicy returns a policy that allows executors on this machine, in private networks and in public networks.
func LocalPolicy() safedial.Policy {
	return safedial.Policy{AllowLoopback: true, AllowPrivate: true}
}

// NamedPolicy returns a policy for executors on this machine and in private networks: an app's allow list must name
// their addresses.
func NamedPolicy() safedial.Policy { return safedial.Policy{ListLoopback: true} }
