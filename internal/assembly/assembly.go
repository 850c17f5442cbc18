// Package assembly makes the use cases of one deployment on its engine. What they
// must agree on is said once, in Options: each part that is asked for gets it,
// whatever its own options say. Server, functions, simulation and tests ask for
// the parts that they drive.
//
// It refuses to know what one part alone is told, configuration and transports:
// those are the caller's. It starts no goroutine, reads nothing, and makes no part
// that nobody asked for.
package assembly

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/aside"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/notice"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/pull"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/password"
)

// Options are what the parts of a deployment must agree on. The zero value of a
// field means the default of the parts.
type Options struct {
	Now func() time.Time
	// Plan is what is planned, and on what ring: how long a message waits on it,
	// and whether it has a slow lane. Where it has one, dispatchers share what is slow.
	Plan plan.Options
	Log  *slog.Logger
	// Deployment is whose data it is: all parts but a restore are fenced by it.
	// Empty is right where nobody else can have the data, as with a file.
	Deployment string
	// Expiry is how long an executor counts as live after its last heartbeat.
	Expiry time.Duration
	// Behind is how long the watchdog stays behind the minutes of claims, TimeoutGrace
	// how long after a job's timeout its run is looked at.
	Behind, TimeoutGrace time.Duration
	// AllowNoToken says whether who asks may register and call back for an app
	// without a token; nil: nobody may.
	AllowNoToken func(ctx context.Context) bool
	// Closed is called with each run that this process closed; it must not block.
	Closed func(r *core.Run)
}

type Assembly struct {
	// Engine is what the parts work on: the engine, fenced.
	Engine *engine.Engine
	// Finish is that of all parts.
	Finish *finish.Finish
	data   *engine.Engine
	o      Options
}

func New(e *engine.Engine, o Options) *Assembly {
	o.Log = cmp.Or(o.Log, slog.Default())
	a := &Assembly{Engine: e, data: e, o: o}
	if o.Deployment != "" {
		a.Engine = engine.Fenced(e, o.Deployment)
	}
	a.Finish = finish.New(a.Engine.Finish, a.Engine.Ring, finish.Options{Now: o.Now, Plan: o.Plan, Log: o.Log, Closed: o.Closed})
	return a
}

func (a *Assembly) Ticker(o tick.Options) *tick.Ticker {
	o.Now, o.Plan, o.Log = a.o.Now, a.o.Plan, a.o.Log
	return tick.New(a.Engine.Tick, a.Engine.Leases, a.Engine.Ring, o)
}

func (a *Assembly) Dispatcher(to dispatch.Sender, o dispatch.Options) *dispatch.Dispatcher {
	o.Now, o.MaxAhead, o.Log = a.o.Now, a.o.Plan.MaxAhead, a.o.Log
	o.Expiry, o.Behind, o.TimeoutGrace = a.o.Expiry, a.o.Behind, a.o.TimeoutGrace
	o.Uses, o.Lists = a.Engine.Uses, a.Engine.ByJournal
	if o.Health = nil; a.o.Plan.SlowLane {
		o.Health = a.Engine.Health
	}
	return dispatch.New(a.Engine.Dispatch, a.Engine.Ring, to, a.Finish, o)
}

func (a *Assembly) Dead() *dispatch.Dead {
	return dispatch.NewDead(a.Engine.Dispatch, a.Engine.Tick, a.Engine.Dead, a.Engine.Ring, a.Finish, a.o.Now, a.o.Log)
}

// Watchdog makes a watchdog that asks executors by of.
func (a *Assembly) Watchdog(of finish.Prober, o finish.WatchOptions) *finish.Watchdog {
	o.Expiry, o.Behind, o.TimeoutGrace = a.o.Expiry, a.o.Behind, a.o.TimeoutGrace
	return finish.NewWatchdog(a.Finish, a.Engine.Watch, of, o)
}

// People makes what people ask for; killer may be nil for who kills nothing.
func (a *Assembly) People(killer operate.Killer, o people.Options) *people.People {
	o.Plan, o.Ask.Now, o.Ask.Expiry, o.Reports = a.o.Plan, a.o.Now, a.o.Expiry, a.Reports(report.Options{})
	o.Ask.ByJournal, o.Ask.Failed = a.Engine.ByJournal, a.Engine.Failed
	return people.New(a.Engine.Manage, a.Engine.Ring, a.Finish, killer, o)
}

// Access makes what knows people and says what they may; token is the admin token.
func (a *Assembly) Access(token string, o access.Options) *access.Access {
	o.Now, o.Passwords = a.o.Now, cmp.Or(o.Passwords, access.Passwords(password.Argon2id{}))
	want := sha256.Sum256([]byte(token))
	o.Admin = func(token string) bool {
		got := sha256.Sum256([]byte(token))
		return subtle.ConstantTimeCompare(got[:], want[:]) == 1
	}
	return access.New(a.Engine.People, o)
}

func (a *Assembly) Registry(o registry.Options) *registry.Registry {
	o.Now, o.AllowNoToken = a.o.Now, a.o.AllowNoToken
	return registry.New(a.Engine.Registry, o)
}

func (a *Assembly) Tokens(o registry.TokensOptions) *registry.Tokens {
	o.Now, o.AllowNoToken = a.o.Now, a.o.AllowNoToken
	return registry.NewTokens(a.Engine.Manage, o)
}

// Callback makes what takes the reports of executors.
func (a *Assembly) Callback(o callback.Options) *callback.Callback {
	o.Now, o.AllowNoToken = a.o.Now, a.o.AllowNoToken
	return callback.New(a.Engine.Manage, a.Finish, o)
}

// Lane makes what makes what is owed to the aside lane; it reads logs by of.
func (a *Assembly) Lane(of aside.Logs, o aside.Options) *aside.Lane {
	o.Now, o.Log = a.o.Now, a.o.Log
	return aside.New(a.Engine.Aside, a.Engine.Ring, of, o)
}

// Notices makes what tells people by what sends to channels.
func (a *Assembly) Notices(to notice.Sender, o notice.Options) *notice.Notices {
	o.Now, o.Log, o.Deployment = a.o.Now, a.o.Log, cmp.Or(o.Deployment, a.o.Deployment)
	o.Logs = keptLines{a.Engine.Aside}
	return notice.New(a.Engine.Notices, a.Engine.Ring, to, o)
}

// keptLines are the last lines of logs that are kept.
type keptLines struct{ of aside.Keeper }

func (k keptLines) Tail(ctx context.Context, run *core.Run, lines int) ([]string, error) {
	return aside.KeptLines(ctx, k.of, run.ID, lines)
}

// Puller makes the queues that executors pull from.
func (a *Assembly) Puller(o pull.Options) *pull.Puller {
	o.Now, o.Log, o.Expiry = a.o.Now, a.o.Log, a.o.Expiry
	return pull.New(a.Engine.Pull, a.Engine.Finish, a.Finish, o)
}

// Reports makes what sums runs up by hour and day, and answers by that; in days of Zone.
func (a *Assembly) Reports(o report.Options) *report.Reports {
	o.Now, o.Log = a.o.Now, a.o.Log
	return report.New(a.Engine.Report, o)
}

// Restorer makes what opens the data to the deployment: it works on what no fence guards.
func (a *Assembly) Restorer(o restore.Options) *restore.Restorer {
	o.Now, o.Deployment = a.o.Now, a.o.Deployment
	e := a.data
	return restore.New(restore.Ports{Global: e.Manage, Jobs: e.Manage, Entries: e.Finish, Journals: e.Watch, Leases: e.Leases,
		Alive: e.Upkeep}, o)
}
