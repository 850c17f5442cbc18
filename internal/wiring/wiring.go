// Package wiring creates the use cases of one deployment on its engine. Settings that several parts share are set
// once, in Options, and override the options of each part. The server, functions, simulation and tests create only the
// parts that they run.
//
// The caller configures each single part and its transports. The package starts no goroutine and reads nothing. It
// creates a part only when its method is called.
package wiring

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/password"
	"github.com/tickring/tickring/store"
)

// Options has the settings that all parts of a deployment share. A zero field means the default of each part.
type Options struct {
	Now func() time.Time
	// Plan has the settings of the planning and the delay queue. It sets how long a message may wait in the
	// delay queue, and whether the deployment has a slow queue. With a slow queue, dispatchers share which jobs
	// and addresses are slow.
	Plan plan.Options
	Log  *slog.Logger
	// Deployment is the name of the deployment that owns the data. All parts except a restore stop when another
	// deployment takes over the data. Leave Deployment empty if no other deployment can have the data, as with a
	// database file.
	Deployment string
	// Expiry is the time after its last heartbeat for which an executor counts as live.
	Expiry time.Duration
	// Behind is the delay with which the watchdog processes the minutes of claims. TimeoutGrace is the time from
	// a job's timeout to the check of its run.
	Behind, TimeoutGrace time.Duration
	// AllowNoToken reports whether the caller may register and call back for an app without a token. If nil, no
	// caller may.
	AllowNoToken func(ctx context.Context) bool
	// Closed is called with each run that this process closed. Closed must not block.
	Closed func(r *core.Run)
}

type Assembly struct {
	// Store is the store that the parts use. It returns errors when another deployment has taken over the data.
	Store *store.Store
	// Finish closes runs. All parts share it.
	Finish *finish.Finish
	data   *store.Store
	o      Options
}

func New(s *store.Store, o Options) *Assembly {
	o.Log = cmp.Or(o.Log, slog.Default())
	a := &Assembly{data: s, o: o}
	fenced := *s
	fenced.Deployment = o.Deployment
	a.Store = &fenced
	a.Finish = finish.New(a.Store, finish.Options{Now: o.Now, Plan: o.Plan, Log: o.Log, Closed: o.Closed})
	return a
}

func (a *Assembly) Ticker(o tick.Options) *tick.Ticker {
	o.Now, o.Plan, o.Log = a.o.Now, a.o.Plan, a.o.Log
	return tick.New(a.Store, o)
}

func (a *Assembly) Dispatcher(to dispatch.Sender, o dispatch.Options) *dispatch.Dispatcher {
	o.Now, o.MaxAhead, o.Log = a.o.Now, a.o.Plan.MaxAhead, a.o.Log
	o.Expiry, o.Behind, o.TimeoutGrace = a.o.Expiry, a.o.Behind, a.o.TimeoutGrace
	o.SlowQueue = a.o.Plan.SlowLane
	return dispatch.New(a.Store, to, a.Finish, o)
}

func (a *Assembly) Dead() *dispatch.Dead {
	return dispatch.NewDead(a.Store, a.Finish, a.o.Now, a.o.Log)
}

// Watchdog returns a watchdog. The parameter sends the watchdog's queries to executors.
func (a *Assembly) Watchdog(of finish.Prober, o finish.WatchOptions) *finish.Watchdog {
	o.Expiry, o.Behind, o.TimeoutGrace = a.o.Expiry, a.o.Behind, a.o.TimeoutGrace
	return finish.NewWatchdog(a.Finish, of, o)
}

// People returns the operations of users. The parameter killer sends kill requests, and may be nil if the caller kills
// no runs.
func (a *Assembly) People(killer operate.Killer, o people.Options) *people.People {
	o.Plan, o.Ask.Now, o.Ask.Expiry, o.Reports = a.o.Plan, a.o.Now, a.o.Expiry, a.Reports(report.Options{})
	return people.New(a.Store, a.Finish, killer, o)
}

// Access returns the access control of users. token is the admin token.
func (a *Assembly) Access(token string, o access.Options) *access.Access {
	o.Now, o.Passwords = a.o.Now, cmp.Or(o.Passwords, access.Passwords(password.Argon2id{}))
	o.Admin = func(given string) bool { return core.SameToken(given, token) }
	return access.New(a.Store, o)
}

func (a *Assembly) Registry(o registry.Options) *registry.Registry {
	o.Now, o.AllowNoToken = a.o.Now, a.o.AllowNoToken
	return registry.New(a.data, o) // a heartbeat is correct from any deployment
}

func (a *Assembly) Tokens(o registry.TokensOptions) *registry.Tokens {
	o.Now, o.AllowNoToken = a.o.Now, a.o.AllowNoToken
	return registry.NewTokens(a.Store, o)
}

// Callback returns the receiver of reports from executors.
func (a *Assembly) Callback(o callback.Options) *callback.Callback {
	o.Now, o.AllowNoToken = a.o.Now, a.o.AllowNoToken
	return callback.New(a.Store, a.Finish, o)
}

// Lane returns the worker of the post-run queue. The parameter reads logs from executors.
func (a *Assembly) Lane(of postrun.Logs, o postrun.Options) *postrun.Worker {
	o.Now, o.Log = a.o.Now, a.o.Log
	return postrun.New(a.Store, of, o)
}

// Notices returns the sender of notifications. The parameter delivers them to channels.
func (a *Assembly) Notices(to notification.Sender, o notification.Options) *notification.Notices {
	o.Now, o.Log, o.Deployment = a.o.Now, a.o.Log, cmp.Or(o.Deployment, a.o.Deployment)
	o.Logs = keptLines{a.Store}
	return notification.New(a.Store, to, o)
}

// keptLines reads the last lines of kept logs.
type keptLines struct{ *store.Store }

func (k keptLines) Tail(ctx context.Context, run *core.Run, lines int) ([]string, error) {
	return postrun.KeptLines(ctx, k.Store, run.ID, lines)
}

// Puller returns the queues that executors receive runs from.
func (a *Assembly) Puller(o pullqueue.Options) *pullqueue.Puller {
	o.Now, o.Log, o.Expiry = a.o.Now, a.o.Log, a.o.Expiry
	return pullqueue.New(a.Store, a.Finish, o)
}

// Reports returns the statistics of runs by hour and day. Days begin in the time zone Zone.
func (a *Assembly) Reports(o report.Options) *report.Reports {
	o.Now, o.Log = a.o.Now, a.o.Log
	return report.New(a.Store, o)
}

// Restorer returns the restore operation, which gives the data to this deployment. It uses the store without a fence,
// so that it works on data of another deployment.
func (a *Assembly) Restorer(o restore.Options) *restore.Restorer {
	o.Now, o.Deployment = a.o.Now, a.o.Deployment
	return restore.New(a.data, o)
}
