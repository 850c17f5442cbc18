package server

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/wire"
	"github.com/tickring/tickring/wirehttp"
)

// routes is the one mux: health and metrics, the wire, reports of calls, and
// the API.
func (s *Server) routes(p *parts) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { s.healthz(p, w) })
	if s.o.Metrics {
		mux.Handle("GET /metrics", s.m.handler(p))
	}
	w := wirehttp.NewHandler(wirehttp.Ports{Registry: wireRegistry{p}, Callbacks: wireCallbacks{p}}, wirehttp.Options{Log: s.log})
	for _, pattern := range wirehttp.Patterns {
		mux.Handle(pattern, w)
	}
	mux.HandleFunc("POST /v1/report/{run}", func(w http.ResponseWriter, r *http.Request) { s.report(p, w, r) })
	mux.Handle("/", api.NewHandler(p.manage, &logs{p}, api.Options{Token: s.token, Log: s.log, Status: func() api.Status {
		return api.Status{Now: time.Now().UTC(), Version: s.o.Version, UpSince: p.upAt, LastTick: core.FromMillis(p.lastPass.Load())}
	}}))
	return mux
}

// healthz is 200 while fires are being planned: the last pass was a few beats ago.
func (s *Server) healthz(p *parts, w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	age := time.Since(core.FromMillis(p.lastPass.Load()))
	body := map[string]any{"status": "ok"}
	if !p.planning.Load() || age > 5*s.o.Beat {
		w.WriteHeader(http.StatusServiceUnavailable)
		body["status"] = "no fires are being planned"
		if e := p.passError.Load(); e != nil && *e != "" {
			body["reason"] = *e
		}
	}
	json.NewEncoder(w).Encode(body)
}

// allowed judges the address of a registration as far as it can be judged
// before it is dialled: a host that is an IP.
func (s *Server) allowed(app *core.App, address string) error {
	_, target, err := core.ParseAddress(address)
	if err != nil {
		return err
	}
	u, err := url.Parse(target)
	if err != nil {
		return core.Invalid("registryValue", address, "not a URL")
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil // a name: judged when it is dialled
	}
	if err := s.o.Policy.For(app.Allow).Check(ip); err != nil {
		return core.Invalid("registryValue", address, err.Error())
	}
	return nil
}

// wireRegistry takes registrations from the wire.
type wireRegistry struct{ p *parts }

func (w wireRegistry) Register(ctx context.Context, c wirehttp.Caller, r wirehttp.Registration) error {
	g := registry.Registration{App: r.App, Address: r.Address, Token: c.Token}
	if c.Dialect != wire.DialectUnknown {
		g.Dialect = c.Dialect.String()
	}
	return wireError(w.p.reg.Register(ctx, g))
}

func (w wireRegistry) Remove(ctx context.Context, c wirehttp.Caller, r wirehttp.Registration) error {
	return wireError(w.p.reg.Remove(ctx, registry.Registration{App: r.App, Address: r.Address, Token: c.Token}))
}

// wireCallbacks takes callbacks from the wire. A run that is unknown is
// answered as stored, for sending it again would not help.
type wireCallbacks struct{ p *parts }

func (w wireCallbacks) Callback(ctx context.Context, c wirehttp.Caller, batch []wirehttp.Result) []error {
	results := make([]callback.Result, len(batch))
	for i, r := range batch {
		results[i] = callback.Result{LogID: r.LogID, Code: r.Code, Message: r.Msg, LogTime: r.LogTime}
	}
	errs := w.p.call.Callback(ctx, callback.Caller{App: c.App, Token: c.Token}, results)
	for i, err := range errs {
		if core.CodeOf(err) == core.CodeNotFound && err != nil {
			err = nil
		}
		errs[i] = wireError(err)
	}
	return errs
}

// wireError lets an executor read what is meant for it.
func wireError(err error) error {
	var e *core.Error
	switch {
	case err == nil:
		return nil
	case core.CodeOf(err) == core.CodeUnauthorized && !errors.Is(err, registry.ErrNoToken):
		return wirehttp.ErrUnauthorized
	case errors.As(err, &e) && e.Code != core.CodeInternal:
		return wirehttp.Refuse("%s", e.Error())
	}
	return err
}

// maxReport bounds the body of a report.
const maxReport = 256 << 10

// report takes the result of a call: that answered 202. The key in its URL is
// the permission.
func (s *Server) report(p *parts, w http.ResponseWriter, r *http.Request) {
	id, err := core.ParseRunID(r.PathValue("run"))
	if err != nil {
		api.WriteError(w, r, s.log, err)
		return
	}
	if !hmac.Equal([]byte(r.URL.Query().Get("key")), []byte(send.ReportSignature(s.reportKey(), id))) {
		api.WriteError(w, r, s.log, core.Errorf(core.CodeUnauthorized, "the key is not that of this run: use the URL of the %s header as it was sent", send.HeaderCallback))
		return
	}
	var body struct {
		State   core.State `json:"state"`
		Message string     `json:"message"`
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReport))
	if err != nil {
		api.WriteError(w, r, s.log, core.Errorf(core.CodeTooLarge, "a report has at most %d bytes", maxReport))
		return
	}
	body.State = core.Succeeded
	if len(b) > 0 {
		if err := json.Unmarshal(b, &body); err != nil {
			api.WriteError(w, r, s.log, core.Errorf(core.CodeInvalid, `a report is JSON: {"state":"succeeded"} or {"state":"failed","message":"why"}`))
			return
		}
	}
	res := finish.Result{Run: id, State: body.State, Message: body.Message}
	switch body.State {
	case core.Succeeded:
	case core.Failed:
		res.Reason = core.ReasonHandler
	case core.TimedOut:
		res.Reason = core.ReasonTimeout
	default:
		api.WriteError(w, r, s.log, core.Invalid("state", string(body.State), "allowed: succeeded, failed, timed-out"))
		return
	}
	if err := p.finish.End(r.Context(), []finish.Result{res})[0]; err != nil {
		api.WriteError(w, r, s.log, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"stored":true}`+"\n")
}

// LocalPolicy is where executors of a server on one machine may live: here, in
// private networks, and in public ones.
func LocalPolicy() safedial.Policy {
	return safedial.Policy{AllowLoopback: true, AllowPrivate: true}
}
