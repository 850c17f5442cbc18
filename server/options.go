package server

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/internal/localexec"
	"github.com/tickring/tickring/internal/oidc"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/traces"
	"github.com/tickring/tickring/notify"
	"github.com/tickring/tickring/send"
)

// Options of a Server. The zero value of a field means its default, which is
// what `tickring serve` runs with; tests run with shorter durations.
type Options struct {
	Dir string // data directory
	// SecretKeyFile has the key that encrypts stored secrets; empty: Dir.key, next to Dir, so that a copy of Dir does not contain it.
	SecretKeyFile string
	Listen        string // host:port; port 0 takes a free one
	Token         string // admin token of the API; empty: the token in DIR/admin-token, which the first start creates
	// ReadToken is a second token, which permits only reads; empty: none.
	ReadToken string
	// AllowNoToken accepts executors of apps without a token from all addresses, RequireToken from none. If neither is set,
	// a server on loopback accepts them if they connect directly, at the server's own address.
	AllowNoToken, RequireToken bool
	Policy                     safedial.Policy // addresses of executors
	// TrustedProxies are the networks of reverse proxies whose X-Forwarded-For names the client
	// of a request.
	TrustedProxies []netip.Prefix
	// TLSCert and TLSKey are the PEM files with which the server serves HTTPS; it reloads them when they change.
	TLSCert, TLSKey string
	ReportURL       string // base URL for reports of call: executors; empty: the address of Listen for other machines
	// Provider is the identity provider for single sign-on; the zero value: none. Its URL defaults to ReportURL, or to the server's
	// own URL on loopback.
	Provider oidc.Settings
	// Functions sends to lambda: executors, SQS to queues on AWS; nil: these addresses are rejected.
	Functions send.Functions
	SQS       send.Queues
	// Topics publishes to SNS topics; nil: channels of them are rejected.
	Topics  notify.Topics
	Version string
	Log     *slog.Logger

	// Commands configures which commands jobs may run on this machine, under which users and in which directories; nil: none.
	// CommandsMost is the maximum number of concurrent commands.
	Commands     *localexec.Allowed
	CommandsMost int // 10

	// PostRun configures the post-run queue, which keeps logs.
	PostRun postrun.Options
	// Notices configures notifications; LookEvery is the time between checks for due notifications.
	Notices   notification.Options
	LookEvery time.Duration // 10 s
	Plan      plan.Options
	// Beat is the interval between planner passes.
	Beat time.Duration // 1 s
	// LeaseFor is the duration of a lease on a partition.
	LeaseFor time.Duration // 45 s
	// Expiry is how long an executor counts as live after its heartbeat. BeatWrite is how old the stored heartbeat must be for a new
	// one to be written.
	Expiry, BeatWrite time.Duration // 90 s, 40 s
	// ResumeAhead is the delay until the end of a pause of an app or of everything takes effect (people.Options).
	ResumeAhead time.Duration // 1 s
	// Invocation is how long one dispatch may last, JournalEvery how long
	// answers wait for the journal, SendTimeout how long a send may take.
	Invocation, JournalEvery, SendTimeout, CallTimeout time.Duration // 30 s, 250 ms, 3 s, 60 s
	BackoffMin, BackoffMax                             time.Duration // 1 s, 60 s
	// Settings of dispatch and the watchdog.
	WatchEvery, Behind, IdleGap, TimeoutGrace, LostAfter time.Duration // 10 s, 10 min, 1 min, 5 s, 10 min
	// KeepRuns overrides how long runs are kept, unless it is zero. KeepJournals is how long journals are kept, SweepEvery the time
	// between sweeps.
	KeepRuns, KeepJournals, SweepEvery time.Duration // 0, 20 days, 1 min
	// ReportZone is the time zone whose days reports use; UTC if nil. ReportEvery is the time between report passes, ReportFor the
	// maximum duration of one.
	ReportZone             *time.Location
	ReportEvery, ReportFor time.Duration // 1 min, 1 min
	// ProbeEvery is how often fixed addresses are checked: 1 min.
	ProbeEvery time.Duration
	// AliveEvery is how often the server records that it is alive. A gap longer than OutageAfter between these records counts as an
	// outage.
	AliveEvery, OutageAfter time.Duration // 1 s, 20 s
	// RefusedWait is the maximum delay of the response to a client that repeatedly sends wrong tokens.
	RefusedWait time.Duration // 2 s
	// Drain is the maximum duration of a stop, which waits for sends, calls and callbacks. DrainTold is the time between its
	// progress messages.
	Drain, DrainTold time.Duration // 10 s, 3 s
	// Traces holds the durations of traces, which are exported if the environment names a collector. The server sets its other
	// fields.
	Traces traces.Options
	// Synchronous is SQLite's: FULL if empty; with NORMAL a loss of power may lose
	// the last commits.
	Synchronous string

	// Restored marks the data as a copy of an earlier moment. Before planning begins and endpoints open, the server advances its ID
	// counters and recovers runs that were in progress.
	Restored bool
	// Hold makes the server answer requests only: it does not plan, send or probe. The server whose data was copied may still be
	// running.
	Hold bool

	// Opened is called after the data and the endpoints are open and before planning begins. Closing is called after the last send,
	// while callbacks are still accepted.
	Opened  func(ctx context.Context, s *Server) error
	Closing func()
	// Closed and Sent are called for each run; they must not block. Notice receives the lines that the server prints for its operator.
	Closed func(r *core.Run)
	Sent   func(r *core.Run, at time.Time)
	Notice io.Writer
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Notice == nil {
		o.Notice = io.Discard
	}
	if o.Plan == (plan.Options{}) {
		o.Plan = plan.Local()
	}
	if dir, err := filepath.Abs(o.Dir); err == nil {
		o.SecretKeyFile = cmp.Or(o.SecretKeyFile, dir+".key")
	}
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:7700")
	o.Version = cmp.Or(o.Version, "dev")
	for d, to := range map[*time.Duration]time.Duration{
		&o.Beat: time.Second, &o.ResumeAhead: time.Second, &o.LeaseFor: 45 * time.Second, &o.Expiry: core.BeatExpiry,
		&o.BeatWrite:  40 * time.Second,
		&o.Invocation: 30 * time.Second, &o.JournalEvery: 250 * time.Millisecond, &o.SendTimeout: 3 * time.Second, &o.CallTimeout: time.Minute,
		&o.BackoffMin: time.Second, &o.BackoffMax: time.Minute,
		&o.WatchEvery: 10 * time.Second, &o.Behind: 10 * time.Minute, &o.IdleGap: time.Minute, &o.TimeoutGrace: 5 * time.Second,
		&o.LostAfter:    10 * time.Minute,
		&o.KeepJournals: 20 * 24 * time.Hour, &o.SweepEvery: time.Minute,
		&o.ProbeEvery:  time.Minute,
		&o.ReportEvery: time.Minute, &o.ReportFor: time.Minute,
		&o.AliveEvery: time.Second, &o.LookEvery: 10 * time.Second, &o.OutageAfter: 20 * time.Second, &o.Drain: 10 * time.Second,
		&o.DrainTold:   3 * time.Second,
		&o.RefusedWait: 2 * time.Second,
	} {
		if *d == 0 {
			*d = to
		}
	}
}
