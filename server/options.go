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

// Options has the settings of a Server. The zero value of a field means its default, which `tickring serve` uses.
// Tests use shorter durations.
type Options struct {
	Dir string // data directory
	// SecretKeyFile is the file with the key that encrypts stored secrets. If empty, the file is Dir.key, next
	// to the directory Dir, so that a copy of Dir does not contain the key.
	SecretKeyFile string
	Listen        string // address to listen at, as host:port; port 0 selects a free port
	// Token is the admin token of the API; empty: the token in the file DIR/admin-token, which the first start
	// creates.
	Token string
	// ReadToken is a second, read-only token of the API; empty means no such token.
	ReadToken string
	// AllowNoToken accepts executors of apps without a token from all addresses. RequireToken accepts none of
	// these executors. If neither is set, a server on a loopback address accepts executors that connect directly
	// to the server's own address.
	AllowNoToken, RequireToken bool
	Policy                     safedial.Policy // addresses that executors may have
	// TrustedProxies are the networks of reverse proxies. The server trusts the client address in the
	// X-Forwarded-For header of these proxies.
	TrustedProxies []netip.Prefix
	// TLSCert and TLSKey are the PEM files of the certificate and key for HTTPS. The server reloads the files
	// when they change.
	TLSCert, TLSKey string
	// ReportURL is the base URL to which `call:` executors send reports; empty: the listening address, as other
	// machines reach it.
	ReportURL string
	// Provider is the identity provider for single sign-on; the zero value means no provider. Its URL defaults
	// to ReportURL, or to the server's own URL if the server listens on loopback.
	Provider oidc.Settings
	// Functions sends runs to lambda: executors. SQS sends runs to queue: executors on AWS. If nil, the server
	// rejects these addresses.
	Functions send.Functions
	SQS       send.Queues
	// Topics sends notifications to SNS topics. If nil, the server rejects channels with SNS topics.
	Topics  notify.Topics
	Version string
	Log     *slog.Logger

	// Commands has the users and directories with which jobs may run commands on this machine; nil means that no
	// job may run commands. CommandsMost is the maximum number of concurrent commands.
	Commands     *localexec.Allowed
	CommandsMost int // default: 10

	// PostRun has the settings of the post-run queue, whose worker stores logs.
	PostRun postrun.Options
	// Notices has the settings of notifications. LookEvery is the time between two checks for due notifications.
	Notices   notification.Options
	LookEvery time.Duration // default: 10 s
	Plan      plan.Options
	// Beat is the time between two scans of the planner.
	Beat time.Duration // default: 1 s
	// LeaseFor is the duration of a lease on a partition.
	LeaseFor time.Duration // default: 45 s
	// Expiry is the time after its last heartbeat for which an executor counts as live. BeatWrite is the minimum
	// age of a stored heartbeat before the server stores a newer heartbeat.
	Expiry, BeatWrite time.Duration // default: 90 s for Expiry, 40 s for BeatWrite
	// ResumeAhead is the time from a resume of an app or of everything until the resume takes effect
	// (people.Options).
	ResumeAhead time.Duration // default: 1 s
	// Invocation is the maximum duration of one dispatch. JournalEvery is the maximum time for which answers
	// wait to be stored in the journal. SendTimeout is the timeout of a send, and CallTimeout is the timeout of
	// a call to a `call:` executor. BackoffMin and BackoffMax bound the delay between two attempts of a store
	// request. The defaults are 30 s, 250 ms, 3 s and 60 s.
	Invocation, JournalEvery, SendTimeout, CallTimeout time.Duration
	BackoffMin, BackoffMax                             time.Duration // default: 1 s, 60 s
	// WatchEvery, Behind, IdleGap, TimeoutGrace and LostAfter are settings of dispatch and of the watchdog. The
	// defaults are 10 s, 10 min, 1 min, 5 s and 10 min.
	WatchEvery, Behind, IdleGap, TimeoutGrace, LostAfter time.Duration
	// KeepRuns is the time for which all runs are kept; 0 means the setting of each job. KeepJournals is the
	// time for which records of deleted jobs are kept, and journals, but journals for at most a day. SweepEvery
	// is the time between two sweeps that delete expired data.
	KeepRuns, KeepJournals, SweepEvery time.Duration // default: 0, 20 days, 1 min, in the order of the fields
	// ReportZone is the time zone in which the days of reports begin and end; UTC if nil. ReportEvery is the
	// time between two report scans. ReportFor is the maximum duration of one report scan.
	ReportZone             *time.Location
	ReportEvery, ReportFor time.Duration // default: 1 min each
	// ProbeEvery is the time between two checks of fixed executor addresses; default: 1 min.
	ProbeEvery time.Duration
	// AliveEvery is the time between two records that the server is alive. If the time between two records is
	// longer than OutageAfter, the server reports an outage.
	AliveEvery, OutageAfter time.Duration // default: 1 s for AliveEvery, 20 s for OutageAfter
	// RefusedWait is the maximum delay of the answer to a client that repeatedly sends wrong tokens.
	RefusedWait time.Duration // default: 2 s
	// Drain is the maximum duration of a stop, in which the server waits for sends, calls and callbacks.
	// DrainTold is the time between two progress messages of the stop.
	Drain, DrainTold time.Duration // default: 10 s for Drain, 3 s for DrainTold
	// Traces has the durations with which traces are exported, if the environment names a collector. The server
	// sets the other fields of Traces.
	Traces traces.Options
	// Synchronous is the synchronous setting of SQLite; FULL if empty. With NORMAL, a power failure may lose the
	// last commits.
	Synchronous string

	// Restored marks the data as a copy from an earlier time. Before planning begins and endpoints open, the
	// server advances its ID counters and recovers the runs that were in progress.
	Restored bool
	// Hold makes the server only answer requests. The server then does not plan, send or probe, because the
	// server whose data was copied may still run.
	Hold bool

	// Opened is called when the data and the endpoints are open, before planning begins. Closing is called after
	// the last send, while callbacks are still accepted.
	Opened  func(ctx context.Context, s *Server) error
	Closing func()
	// Closed and Sent are called for each run that was closed or sent, and must not block. Notice receives the
	// messages that the server prints for its operator.
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
