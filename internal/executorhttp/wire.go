// Package executorhttp serves the HTTP requests of executors: the xxl-job protocol, reports of calls, and queues that
// executors receive from. The server on one machine and the Lambda functions use the package. It translates between
// HTTP and the use cases, and makes no decisions.
package executorhttp

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/wire"
	"github.com/tickring/tickring/wirehttp"
)

// Config has the settings of all endpoints for executors: the tokens, the maximum time to read a body (0: 10 s), the
// trace of rejected requests (nil: none), and the log.
type Config struct {
	Tokens  *registry.Tokens
	ReadFor time.Duration
	Refused *rejectlog.Trace
	Log     *slog.Logger
	// Here reports whether a request comes from a program on this machine. If nil, no request does.
	Here func(ctx context.Context) bool
}

// Wire serves the paths of the xxl-job protocol. One of reg and call may be nil if another endpoint serves these
// requests.
func (d Config) Wire(mux *http.ServeMux, reg *registry.Registry, call *callback.Callback) {
	h := wirehttp.NewHandler(wirehttp.Ports{Registry: wireRegistry{reg}, Callbacks: wireCallbacks{call, d.Refused}}, wirehttp.Options{
		Log: d.Log, ReadFor: d.ReadFor, Refused: d.Refused,
		Stranger: func(ctx context.Context, c wirehttp.Caller) bool {
			return c.Token == "" && (d.Here == nil || !d.Here(ctx))
		},
		Admit: func(ctx context.Context, c wirehttp.Caller) error {
			err := d.Tokens.Admit(ctx, c.App, c.Token)
			if e, ok := errors.AsType[*core.Error](err); ok && e.Code == core.CodeUnauthorized {
				return wirehttp.Unauthorized(e.Error())
			}
			return wireError(err)
		}})
	for _, pattern := range wirehttp.Patterns {
		mux.Handle(pattern, d.noPage(h.ServeHTTP, refusePageWire))
	}
}

// Allowed returns a check for the address of an executor that registers. If the host of the address is an IP address,
// the policy must allow it, and it must not be this server's own address.
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
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			return nil // a name: checked when it is dialed
		}
		port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		if err := policy.For(app.Allow).ControlContext(context.Background(), "tcp", net.JoinHostPort(u.Hostname(), port), nil); err != nil {
			return core.Invalid("registryValue", address, "%v", err)
		}
		return nil
	}
}

var errElsewhere = errors.New("this endpoint does not accept the request")

// wireRegistry passes on registrations of the xxl-job protocol.
type wireRegistry struct{ reg *registry.Registry }

func (w wireRegistry) Register(ctx context.Context, c wirehttp.Caller, r wirehttp.Registration) error {
	if w.reg == nil {
		return errElsewhere
	}
	g := registry.Registration{App: r.App, Address: r.Address, Token: c.Token, Clock: core.ClockOf(c.Date, time.Now(), 0)}
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

// wireCallbacks passes on callbacks of the xxl-job protocol. An unknown run is acknowledged as
// stored, because a retry would not help.
type wireCallbacks struct {
	call    *callback.Callback
	refused *rejectlog.Trace
}

func (w wireCallbacks) Callback(ctx context.Context, c wirehttp.Caller, batch []wire.CallbackItem) (errs []error) {
	for part := range slices.Chunk(batch, 10*callback.Batch) { // a result takes several times the memory of its item
		errs = append(errs, w.part(ctx, c, part)...)
	}
	return errs
}

func (w wireCallbacks) part(ctx context.Context, c wirehttp.Caller, batch []wire.CallbackItem) []error {
	if w.call == nil {
		errs := make([]error, len(batch))
		for i := range errs {
			errs[i] = errElsewhere
		}
		return errs
	}
	results, now := make([]finish.Result, len(batch)), time.Now()
	for i, r := range batch {
		results[i] = callback.Translate(core.RunID(r.LogID), r.Code, r.Msg, r.Data, now)
		results[i].RetryAfter = time.Duration(r.RetryAfter) * time.Second
	}
	errs := w.call.Callback(ctx, callback.Caller{App: c.App, Token: c.Token}, results)
	if slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, finish.ErrUnsent) }) {
		w.refused.Note(ctx, rejectlog.Refusal{Door: rejectlog.Callback, Reason: rejectlog.Unsent, Remote: c.Remote, App: c.App})
	}
	for i, err := range errs {
		if core.CodeOf(err) == core.CodeNotFound {
			w.refused.Note(ctx, rejectlog.Refusal{Door: rejectlog.Callback, Reason: rejectlog.Unknown, Remote: c.Remote, Why: err.Error()})
			err = nil
		}
		errs[i] = wireError(err)
	}
	return errs
}

// wireError makes errors for executors readable to them.
func wireError(err error) error {
	var e *core.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, registry.ErrNoToken):
		return wirehttp.Unauthorized(err.Error())
	case core.CodeOf(err) == core.CodeUnauthorized:
		return wirehttp.ErrUnauthorized
	case errors.As(err, &e) && e.Code != core.CodeInternal:
		return wirehttp.RefuseFor(reasonOf(e), e.Error())
	}
	return err
}

// reasonOf is the reason that the trace has for an error.
func reasonOf(err error) string {
	e, _ := errors.AsType[*core.Error](err)
	switch code := core.CodeOf(err); {
	case e != nil && e.Field == "address" || e != nil && e.Field == "registryValue":
		return rejectlog.Address
	case errors.Is(err, finish.ErrUnsent):
		return rejectlog.Unsent
	case code == core.CodeNotFound:
		return rejectlog.Unknown
	case code == core.CodeInvalid, code == core.CodeRefused:
		return rejectlog.Invalid
	case code == core.CodeTooLarge:
		return rejectlog.Large
	case code == core.CodeUnauthorized:
		return rejectlog.App
	}
	return rejectlog.Unavailable
}
