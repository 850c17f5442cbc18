// Package registry stores the heartbeats of executors: their addresses, and until when they count as live.
package registry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

type Registry struct {
	s *store.Store
	o Options
}

type Options struct {
	// Now returns the current time. nil: time.Now.
	Now func() time.Time
	// Allowed returns an error if an executor may not register at an address. nil: all addresses are allowed.
	Allowed func(app *core.App, address string) error
	// AllowNoToken reports whether the caller may use an app that has no token. nil: never.
	AllowNoToken func(ctx context.Context) bool
	// Came is called when an app without live executors gets a live executor. Came may be called several times. nil: no call.
	Came func(ctx context.Context, app string)
	// BeatWrite is how old the stored heartbeat must be before a new one is written. Default: 40 s.
	BeatWrite time.Duration
}

// MaxExecutors is the maximum number of registered addresses of one app.
const MaxExecutors = core.MaxAddresses

func New(s *store.Store, o Options) *Registry {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.BeatWrite == 0 {
		o.BeatWrite = 40 * time.Second
	}
	return &Registry{s, o}
}

// A Registration is the heartbeat of an executor.
type Registration struct {
	App     string
	Address string // base URL; stored in the form of core.NormalAddress
	Token   string
	Dialect string // dialect of the xxl-job protocol; empty: the stored dialect does not change
	Clock   core.Clock
}

// Register stores the heartbeat of an executor, unless a recent one is stored. If the app has MaxExecutors registrations,
// Register removes expired ones.
func (r *Registry) Register(ctx context.Context, g Registration) error {
	app, err := r.admit(ctx, g)
	if err != nil {
		return err
	}
	scheme, _, err := core.ParseAddress(g.Address)
	if err != nil {
		return err
	}
	if scheme != core.SchemeWire {
		return core.Invalid("address", g.Address,
			"an executor registers its base URL, http://HOST:PORT or https://…; set other kinds of addresses on the app")
	}
	g.Address = core.NormalAddress(g.Address)
	if r.o.Allowed != nil {
		if err := r.o.Allowed(&app, g.Address); err != nil {
			return &core.Error{Code: core.CodeRefused, Field: "address", Value: g.Address, Reason: core.Say("%v", err), Err: err}
		}
	}
	return r.beat(ctx, g)
}

// Polled records that an executor polls a queue. The parameter address must be in the executors list of the app's settings.
func (r *Registry) Polled(ctx context.Context, app *core.App, address string) error {
	if scheme, _, err := core.ParseAddress(address); err != nil {
		return err
	} else if scheme != core.SchemeQueue {
		return core.Invalid("queue", address, "expected the name of a queue")
	}
	if !slices.Contains(app.Executors, address) {
		return core.Errorf(core.CodeNotFound, "%s is not an executor of app %s: add executors: [%q] to the app in its manifest (tickring apply)",
			address, app.Name, address)
	}
	return r.beat(ctx, Registration{App: app.Name, Address: address})
}

// beat stores a heartbeat, unless the stored one is recent.
func (r *Registry) beat(ctx context.Context, g Registration) error {
	all, err := r.s.Executors(ctx, []string{g.App})
	if err != nil {
		return passing(err)
	}
	now := r.o.Now()
	next := core.Executor{App: g.App, Address: g.Address, Beat: now, Since: now, Dialect: g.Dialect, Clock: g.Clock}
	var others []core.Executor
	came := true
	for _, e := range all[g.App] {
		if e.Fixed {
			continue
		}
		came = came && e.Silent(core.Global{}, now, core.BeatExpiry)
		if e.Address != g.Address {
			others = append(others, e)
			continue
		}
		if next.Dialect == "" {
			next.Dialect = e.Dialect
		}
		if next.Dialect == e.Dialect && now.Sub(e.Beat) <= r.o.BeatWrite && !e.Beat.After(now.Add(r.o.BeatWrite)) {
			return nil
		}
		if !e.Since.IsZero() && !e.Beat.Add(core.BeatExpiry).Before(now) {
			next.Since = e.Since
		}
		others = nil // it has its place
		break
	}
	if len(others) >= MaxExecutors {
		if err := r.makeRoom(ctx, g.App, others, now); err != nil {
			return err
		}
	}
	if err := r.s.PutExecutor(ctx, next); err != nil {
		return passing(err)
	}
	if came && r.o.Came != nil {
		r.o.Came(ctx, g.App)
	}
	return nil
}

// makeRoom removes expired executors, the oldest first, until there is room for one more. Executors often
// die without deregistering, and each heartbeat and each batch reads all stored executors of an app.
func (r *Registry) makeRoom(ctx context.Context, app string, stored []core.Executor, now time.Time) error {
	g, err := r.s.Global(ctx)
	if err != nil {
		return passing(err)
	}
	slices.SortFunc(stored, func(a, b core.Executor) int { return a.Beat.Compare(b.Beat) })
	surplus := len(stored) - MaxExecutors + 1
	for _, e := range stored {
		if surplus == 0 || !e.Silent(g, now, core.BeatExpiry) {
			break
		}
		switch err := r.s.RemoveExecutor(ctx, app, e.Address, e.Beat); {
		case errors.Is(err, core.ErrRefused): // it sent a heartbeat since: try the next one
		case err != nil:
			return passing(err)
		default:
			surplus--
		}
	}
	if surplus > 0 {
		return core.Errorf(core.CodeTooLarge, "app %s already has %d live registered executors, the maximum", app, MaxExecutors)
	}
	return nil
}

// Remove removes the registration of an address. A missing registration is not an error.
func (r *Registry) Remove(ctx context.Context, g Registration) error {
	if _, err := r.admit(ctx, g); err != nil {
		return err
	}
	if g.Address == "" || len(g.Address) > core.MaxAddress {
		return core.Invalid("address", g.Address, "an address has 1 to %d bytes", core.MaxAddress)
	}
	if err := r.s.RemoveExecutor(ctx, g.App, core.NormalAddress(g.Address), time.Time{}); err != nil {
		return passing(err)
	}
	return nil
}

// Admit returns the app if the token belongs to it, and otherwise an error.
func (r *Registry) Admit(ctx context.Context, app, token string) (core.App, error) {
	return r.admit(ctx, Registration{App: app, Token: token})
}

func (r *Registry) admit(ctx context.Context, g Registration) (core.App, error) {
	if err := core.CheckAppName("app", g.App); err != nil {
		return core.App{}, err
	}
	found, err := r.s.Apps(ctx, g.App)
	v, ok := found[g.App]
	app := v.Is
	switch {
	case err != nil, errors.Is(v.Err, core.ErrThrottled):
		return core.App{}, passing(cmp.Or(err, v.Err))
	case v.Err != nil: // executors retry
		bad := core.UnreadableApp(g.App, v.Err)
		return core.App{}, &core.Error{Code: core.CodeUnavailable, Reason: core.Say("%v", bad), Err: bad}
	case !ok:
		return core.App{}, core.Errorf(core.CodeNotFound, "app %s does not exist: create it before its executors register", g.App)
	}
	if app.Token == "" {
		if r.o.AllowNoToken != nil && r.o.AllowNoToken(ctx) {
			return app, nil
		}
		e := core.Errorf(core.CodeUnauthorized, "app %s has no token: %s", g.App, withoutToken)
		e.Err = ErrNoToken
		return core.App{}, e
	}
	if !core.SameToken(app.Token, g.Token) {
		return core.App{}, core.Errorf(core.CodeUnauthorized, "the token does not belong to app %s", g.App)
	}
	return app, nil
}

// ErrNoToken is wrapped in the error for an app without a token. Such an error must be fixed in the settings of the app, not
// in the executor.
var ErrNoToken = errors.New("the app has no token")

// Advice for executors.
var (
	writeToken   = core.Say("set token: {env: APP_TOKEN} on the app in its manifest and the same token in the executor")
	withoutToken = core.Say("%s. Without a token, the server accepts only executors on its own machine that connect to 127.0.0.1 or "+
		"localhost without a proxy", writeToken)
)

func passing(err error) error {
	return &core.Error{Code: core.CodeUnavailable, Reason: core.Say("the database did not answer: try again"), Err: err}
}
