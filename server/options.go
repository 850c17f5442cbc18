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
	"github.com/tickring/tickring/core/aside"
	"github.com/tickring/tickring/core/notice"
	"github.com/tickring/tickring/core/plan"
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
	Dir string // data folder
	// SecretKeyFile encrypts stored secrets; empty: beside Dir, Dir.key, so that a copy of Dir does not have it.
	SecretKeyFile string
	Listen        string // host:port; port 0 takes a free one
	Token         string // of the API; empty: that of DIR/admin-token, made on first start
	// ReadToken is one more, which may only read; empty: there is none.
	ReadToken string
	// AllowNoToken lets executors of apps without a token in from everywhere,
	// RequireToken from nowhere. With neither those are let in that ask a server which
	// listens on this machine only directly and at its own address.
	AllowNoToken, RequireToken bool
	Policy                     safedial.Policy // addresses of executors
	// TrustedProxies are the networks of reverse proxies whose X-Forwarded-For names the client
	// of a request.
	TrustedProxies []netip.Prefix
	// TLSCert and TLSKey are PEM files, by which the server speaks TLS; they are read
	// again when they change.
	TLSCert, TLSKey string
	ReportURL       string // base URL for reports of call: executors; empty: where others on the network reach Listen
	// Provider lets people in whom it knows; the zero value: there is none. Its URL is ReportURL
	// where it is left out, or that of a server on loopback.
	Provider oidc.Settings
	// Functions and SQS send to lambda: executors and queues on AWS; without them
	// such addresses are refused.
	Functions send.Functions
	SQS       send.Queues
	// Topics publishes to topics of SNS; without it channels of them are refused.
	Topics  notify.Topics
	Version string
	Log     *slog.Logger

	// Commands allows commands of jobs on this machine, as whom and where it says; nil: none.
	// CommandsMost is how many may be at work at once.
	Commands     *localexec.Allowed
	CommandsMost int // 10

	// Aside are those of what keeps logs.
	Aside aside.Options
	// Notices are those of what tells people; LookEvery is how often it is asked what is due
	// to be told.
	Notices   notice.Options
	LookEvery time.Duration // 10 s
	Plan      plan.Options
	// Beat is how often the tick passes.
	Beat time.Duration // 1 s
	// LeaseFor of the tick's partitions.
	LeaseFor time.Duration // 45 s
	// Expiry of an executor's heartbeat, BeatWrite how old a stored one may be.
	Expiry, BeatWrite time.Duration // 90 s, 40 s
	// ResumeAhead is how long after it is told the end of a pause of an app or of
	// everything counts (people.Options).
	ResumeAhead time.Duration // 1 s
	// Invocation is how long one dispatch may last, JournalEvery how long
	// answers wait for the journal, SendTimeout how long a send may take.
	Invocation, JournalEvery, SendTimeout, CallTimeout time.Duration // 30 s, 250 ms, 3 s, 60 s
	BackoffMin, BackoffMax                             time.Duration // 1 s, 60 s
	// Of the watchdog.
	WatchEvery, Behind, IdleGap, TimeoutGrace, LostAfter time.Duration // 10 s, 10 min, 1 min, 5 s, 10 min
	// KeepRuns overrides how long runs are kept where it is not zero; journals
	// are kept KeepJournals.
	KeepRuns, KeepJournals, SweepEvery time.Duration // 0, 20 days, 1 min
	// ReportZone is by whose days runs are summed up; UTC if nil. ReportEvery is how often it
	// is looked whether there is something to sum up, ReportFor for how long that may work.
	ReportZone             *time.Location
	ReportEvery, ReportFor time.Duration // 1 min, 1 min
	// ProbeEvery is how often fixed addresses are asked whether they are there: 1 min.
	ProbeEvery time.Duration
	// AliveEvery is how often the server notes that it lives, OutageAfter how
	// long a silence counts as an outage.
	AliveEvery, OutageAfter time.Duration // 1 s, 20 s
	// RefusedWait is how long who keeps coming with wrong tokens waits for an answer at most.
	RefusedWait time.Duration // 2 s
	// Drain is how long a stop lasts at most, waiting for sends, calls and callbacks;
	// what it waits for it says each DrainTold.
	Drain, DrainTold time.Duration // 10 s, 3 s
	// Traces has the durations of traces, which are made where the environment names a
	// collector; what else it says is the server's.
	Traces traces.Options
	// Synchronous is SQLite's: FULL if empty; with NORMAL a loss of power may lose
	// the last commits.
	Synchronous string

	// Restored says that the data is a copy of an earlier moment: its numbers are
	// lifted, and runs that were on their way found again, before anything is
	// planned and anybody is answered.
	Restored bool
	// Hold keeps the server from planning, sending and asking anything: it only answers requests.
	// The server whose data was copied may be at work.
	Hold bool

	// Opened is called once the data is open and the doors too, before anything
	// is planned; Closing once nothing is sent any more, while callbacks are
	// still taken.
	Opened  func(ctx context.Context, s *Server) error
	Closing func()
	// Closed and Sent are called with runs as they go; they must not block. Notice
	// takes lines for people.
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
