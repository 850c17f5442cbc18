// Package doors is where executors knock: the wire, reports of calls and the
// logs of runs, for the server on one machine and for the functions alike. It
// translates between HTTP and the use cases, and decides nothing.
package doors

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/wire"
	"github.com/tickring/tickring/wirehttp"
)

// Wire serves the paths of the wire; one of reg and call may be nil where
// another door takes what it is for.
func Wire(mux *http.ServeMux, reg *registry.Registry, call *callback.Callback, log *slog.Logger) {
	h := wirehttp.NewHandler(wirehttp.Ports{Registry: wireRegistry{reg}, Callbacks: wireCallbacks{call}}, wirehttp.Options{Log: log})
	for _, pattern := range wirehttp.Patterns {
		mux.Handle(pattern, h)
	}
}

// Allowed judges the address of a registration as far as it can be judged
// before it is dialled: a host that is an IP.
func Allowed(policy safedial.Policy) func(app *core.App, address string) error {
	return func(app *core.App, address string) error {
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
		if err := policy.For(app.Allow).Check(ip); err != nil {
			return core.Invalid("registryValue", address, err.Error())
		}
		return nil
	}
}

var errElsewhere = errors.New("this door does not take that")

// wireRegistry takes registrations from the wire.
type wireRegistry struct{ reg *registry.Registry }

func (w wireRegistry) Register(ctx context.Context, c wirehttp.Caller, r wirehttp.Registration) error {
	if w.reg == nil {
		return errElsewhere
	}
	g := registry.Registration{App: r.App, Address: r.Address, Token: c.Token}
	if c.Dialect != wire.DialectUnknown {
		g.Dialect = c.Dialect.String()
	}
	return wireError(w.reg.Register(ctx, g))
}

func (w wireRegistry) Remove(ctx context.Context, c wirehttp.Caller, r wirehttp.Registration) error {
	if w.reg == nil {
		return errElsewhere
	}
	return wireError(w.reg.Remove(ctx, registry.Registration{App: r.App, Address: r.Address, Token: c.Token}))
}

// wireCallbacks takes callbacks from the wire. A run that is unknown is
// answered as stored, for sending it again would not help.
type wireCallbacks struct{ call *callback.Callback }

func (w wireCallbacks) Callback(ctx context.Context, c wirehttp.Caller, batch []wirehttp.Result) []error {
	if w.call == nil {
		errs := make([]error, len(batch))
		for i := range errs {
			errs[i] = errElsewhere
		}
		return errs
	}
	results := make([]callback.Result, len(batch))
	for i, r := range batch {
		results[i] = callback.Result{LogID: r.LogID, Code: r.Code, Message: r.Msg, Data: r.Data, LogTime: r.LogTime}
	}
	errs := w.call.Callback(ctx, callback.Caller{App: c.App, Token: c.Token}, results)
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

// Guarded serves what make makes with the token of the API, from the first request
// at which that can be read on: until then people are told to come again.
func Guarded(token func(context.Context) (string, error), log *slog.Logger, make func(token string) http.Handler) http.Handler {
	var once sync.Once
	var h http.Handler
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, err := token(r.Context())
		if err != nil {
			log.Error("the token of the API cannot be read", "err", err)
			api.WriteError(w, r, log, core.Errorf(core.CodeUnavailable, "the token cannot be read now, so that nobody is let in: try again"))
			return
		}
		once.Do(func() { h = make(t) })
		h.ServeHTTP(w, r)
	})
}

// MaxReport bounds the body of a report, in bytes.
const MaxReport = 256 << 10

// Report takes the result of a call: that answered 202, at /v1/report/{run}. The
// key in its URL is the permission.
func Report(f *finish.Finish, key send.Key, log *slog.Logger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { report(f, key, log, w, r) }
}

func report(f *finish.Finish, key send.Key, log *slog.Logger, w http.ResponseWriter, r *http.Request) {
	id, err := core.ParseRunID(r.PathValue("run"))
	if err != nil {
		api.WriteError(w, r, log, err)
		return
	}
	signs, err := key(r.Context())
	if err != nil {
		log.Error("the key of reports cannot be read", "run", id, "err", err)
		api.WriteError(w, r, log, core.Errorf(core.CodeUnavailable, "the key of reports cannot be read now: try again"))
		return
	}
	if !hmac.Equal([]byte(r.URL.Query().Get("key")), []byte(send.ReportSignature(signs, id))) {
		api.WriteError(w, r, log, core.Errorf(core.CodeUnauthorized, "the key is not that of this run: use the URL of the %s header as it was sent", send.HeaderCallback))
		return
	}
	var body struct {
		State   core.State `json:"state"`
		Message string     `json:"message"`
		Data    string     `json:"data"`
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxReport))
	if err != nil {
		api.WriteError(w, r, log, core.Errorf(core.CodeTooLarge, "a report has at most %d bytes", MaxReport))
		return
	}
	body.State = core.Succeeded
	if len(b) > 0 {
		if err := json.Unmarshal(b, &body); err != nil {
			api.WriteError(w, r, log, core.Errorf(core.CodeInvalid, `a report is JSON: {"state":"succeeded"} or {"state":"failed","message":"why"}`))
			return
		}
	}
	if len(body.Data) > core.DataMax {
		api.WriteError(w, r, log, core.Errorf(core.CodeTooLarge, "data has %d bytes; at most %d are allowed", len(body.Data), core.DataMax))
		return
	}
	res := finish.Result{Run: id, State: body.State, Message: body.Message, Data: body.Data}
	switch body.State {
	case core.Succeeded:
	case core.Failed:
		res.Reason = core.ReasonHandler
	case core.TimedOut:
		res.Reason = core.ReasonTimeout
	default:
		api.WriteError(w, r, log, core.Invalid("state", string(body.State), "allowed: succeeded, failed, timed-out"))
		return
	}
	if err := f.End(r.Context(), []finish.Result{res})[0]; err != nil {
		api.WriteError(w, r, log, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"stored":true}`+"\n")
}

// Logs reads the log of a run from its executor.
type Logs struct {
	Manage *people.People
	Sender *send.Sender
}

var _ api.Logs = (*Logs)(nil)

// Log implements api.Logs.
func (l *Logs) Log(ctx context.Context, run core.Run, from int) (text string, next int, end bool, err error) {
	app, err := l.Manage.App(ctx, run.App)
	if err != nil {
		app = core.App{Name: run.App}
	}
	return l.Sender.Log(ctx, &app, &run, from)
}
