package core

import (
	"math"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// App is a named group of executors that share code and a token.
type App struct {
	Name      string
	Title     string
	Set       string         // name of the manifest that created the app
	Token     string         // the executors send it; if empty, the server rejects them unless its settings allow them
	Executors []string       // fixed addresses; if empty, executors register themselves
	Allow     []netip.Prefix // networks of allowed executor addresses, in addition to the server's policy
	// WaitForExecutor is the default of the app's jobs; 0: runs do not wait.
	WaitForExecutor time.Duration
	Overlap         Overlap // default of the app's jobs
	Limits          Limits  // limits over all runs of the app
	Call            *Call   // settings for call: executors; a job's own settings take precedence
	Notify          Notify  // default of the app's jobs
	// Withheld lists the suppressed jobs, oldest first. A user deleted each of them after code had declared it. A
	// declaration does not create a suppressed job again.
	Withheld []string
	Rev      int64
	Pause    Pause        // the latest pause
	Past     PauseHistory // earlier pauses; the store updates them (Past.After)
	Created  time.Time
}

// WithSecrets returns a copy of a with each secret replaced by turn's result for it.
func (a App) WithSecrets(turn func(secret string) string) App {
	turned([]secretField{{"token", &a.Token}}, turn)
	a.Call = a.Call.withSecrets(turn)
	return a
}

func (a App) SecretsOf() string { return "app/" + a.Name }

// Allows reports whether the host of an address is an IP address in a.Allow.
func (a *App) Allows(address string) bool {
	_, target, err := ParseAddress(address)
	if err != nil {
		return false
	}
	u, err := url.Parse(target)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && slices.ContainsFunc(a.Allow, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// MaxWithheld is the maximum length of App.Withheld. Each dispatched run reads the list with its app.
const MaxWithheld = 1000

// A Pause records when and why a user paused an app or everything. Jobs stay unchanged, and dispatch
// skips the runs that are due during the pause.
type Pause struct {
	From time.Time // zero: no pause
	To   time.Time // zero: no end is set
	By   string
	Why  string
}

// Covers reports whether t is within the pause.
func (p Pause) Covers(t time.Time) bool {
	return !p.From.IsZero() && !t.Before(p.From) && (p.To.IsZero() || t.Before(p.To))
}

// MaxPast is the maximum number of pauses in a PauseHistory.
const MaxPast = 16

// PauseHistory holds the earlier pauses, so that dispatch can skip a run that was due during one of them even if
// its message arrives late.
type PauseHistory struct {
	Pauses []Pause // oldest first, at most MaxPast, without By and Why
	// From is the end of the newest pause that was dropped from the list; zero: no pause was dropped. A run before From may
	// or may not have been expected.
	From time.Time
}

// Covers reports whether t is within one of the pauses.
func (p PauseHistory) Covers(t time.Time) bool {
	return slices.ContainsFunc(p.Pauses, func(x Pause) bool { return x.Covers(t) })
}

// After returns p with the pause last added, which next replaces. If both begin at the same time, next is a change of last,
// and After returns p. If last ends after next begins, as with a clock that was set back, last is shortened.
func (p PauseHistory) After(last, next Pause) PauseHistory {
	if last.From.IsZero() || next.From.IsZero() || last.From.Equal(next.From) {
		return p
	}
	if last.To.IsZero() || last.To.After(next.From) {
		last.To = next.From
	}
	if !last.To.After(last.From) {
		return p
	}
	list := append(slices.Clone(p.Pauses), Pause{From: last.From, To: last.To})
	if len(list) > MaxPast {
		if list[0].To.After(p.From) {
			p.From = list[0].To
		}
		list = list[1:]
	}
	return PauseHistory{Pauses: list, From: p.From}
}

// Global is the single stored item with the state of the whole deployment.
type Global struct {
	Pause Pause
	Past  PauseHistory // earlier pauses, as in App.Past
	// Partitions is the number of partitions of the due index. Readable is the number of partitions
	// that can still hold jobs; it is at least Partitions.
	Partitions int
	Readable   int
	// Busy is when the load last needed all partitions: the time of the last change of their number, or of a later check.
	// The value can be some hours old.
	Busy time.Time
	// Groups is the number of job groups that plan their windows separately. It never decreases; 0: the
	// initial number.
	Groups int
	// DownAt and UpSince are the start and the end of the last outage of the scheduler. During the outage
	// executors could not send heartbeats.
	UpSince time.Time
	DownAt  time.Time
	// Holder is the only deployment whose processes may use these tables; empty: every deployment may.
	// Each restore or takeover increments Generation. While Opening is true, no process may use them.
	Holder     string
	Generation int
	Opening    bool
	// Loss is the part of the delay queue that was lost and must be sent again.
	Loss Loss
	// Notify has the channels for events without a readable job: dead-letter messages that name no job,
	// and jobs that cannot be read.
	Notify Notify
	Rev    int64
}

// Loss records that the delay queue lost messages, and the progress of the scan over the jobs that
// sends them again.
type Loss struct {
	From Instant   // a scan covers the scheduled times after From; 0: no scan is running
	Next string    // position of the scan; empty at its beginning
	At   time.Time // when the loss was found or, if From is 0, when the last scan ended
	// Again is the From of the next scan; 0: no other scan is needed. It is set if a loss is found during
	// a scan, because the scan may have passed the affected jobs.
	Again Instant
}

// Nobody is the Holder of fenced tables. No deployment has this name.
const Nobody = "-"

// Admits returns an error unless the deployment is the holder. So a copy or a replica of the tables is unusable until a
// restore or takeover.
func (g Global) Admits(deployment string) error {
	switch {
	case g.Opening:
		return Errorf(CodeRefused, "generation %d is being restored: nothing works until the restore ends", g.Generation)
	case g.Holder == "" || g.Holder == deployment:
		return nil
	case g.Holder == Nobody:
		return Errorf(CodeRefused, "generation %d was fenced: nothing works until a restore or takeover", g.Generation)
	}
	return Errorf(CodeRefused, "these tables belong to %s (generation %d), but this deployment is %s: restore or take over first", g.Holder,
		g.Generation, deployment)
}

// Health records whether a job or an address is slow. All dispatchers use the measurement of one dispatcher.
type Health struct {
	Of   string // "job/7", or an address
	Slow bool
	At   time.Time // time of the last measurement
}

// Uses counts how often dispatch chose each address of a job since a time. All dispatchers use the counts of one dispatcher.
type Uses struct {
	Job    JobID
	Since  time.Time
	Counts map[string]int64
}

// A Letter is a dead-letter message: a message that could not be processed. Users can resend or delete it.
type Letter struct {
	ID     string
	At     time.Time // when it was moved to the dead-letter queue
	Reason string
	Body   string // original message, possibly truncated
}

// Executor is an address of an app, either fixed or registered.
type Executor struct {
	App     string
	Address string    // as returned by NormalAddress
	Beat    time.Time // last heartbeat that was stored; zero for a fixed address without heartbeats
	Since   time.Time // first heartbeat
	Fixed   bool
	Dialect string // client dialect detected from its requests; empty: unknown
	Clock   Clock  // measured at its last heartbeat
}

// Clock is the difference between an executor's clock and this machine's clock; zero value: unknown.
type Clock struct {
	Known bool
	Ahead int32 // seconds; 0 if the difference is too small to measure
}

// Clocks report whole seconds, so a difference below clockSame counts as none. A response that took longer than
// clockTook is not used.
const (
	clockSame = 2 * time.Second
	clockTook = 2 * time.Second
)

// ClockOf compares a reported time, in whole seconds, with this machine's clock. The request began at begun and lasted
// took. ClockOf assumes that the other machine read its clock halfway through.
func ClockOf(said, begun time.Time, took time.Duration) Clock {
	if said.IsZero() || took > clockTook || took < 0 {
		return Clock{}
	}
	ahead := said.Add(time.Second / 2).Sub(begun.Add(took / 2))
	if ahead.Abs() < clockSame {
		ahead = 0
	}
	most := time.Duration(math.MaxInt32) * time.Second
	return Clock{Known: true, Ahead: int32(min(max(ahead, -most), most).Round(time.Second) / time.Second)}
}

// A Lease is the lock of a partition, changed by conditional writes. It avoids duplicate work but is not needed
// for correctness. A released lease has no owner, and Until is the time of its release.
type Lease struct {
	Name  string // "partition/3"
	Owner string
	// Epoch is when the lease was taken, in milliseconds; it is higher than that of the last owner.
	Epoch int64
	Until time.Time
}

// A Change is a record of the audit log: the author, the action and its time.
type Change struct {
	// ID is the object's revision after the change. For an action on runs it is the time in milliseconds, which is not
	// unique.
	ID   int64
	At   time.Time
	By   string
	From string // as in Actor; From and Via are empty in records of an earlier version
	Via  string
	Verb string // created, updated, paused, resumed, deleted, triggered, killed, …
	App  string
	Job  JobID  // 0 for an app or everything
	Name string // name of the job; if App and Job are empty: a channel or, after OfPerson, a user
	Why  string
	Act  string // ID of the bulk operation that made the change; empty: none
	Old  string // JSON of the old state, without secrets; may be empty
	New  string // JSON of the new state
}

// BeatExpiry is how long after its last heartbeat a registered executor is live.
const BeatExpiry = 90 * time.Second

// Live returns the executors that can receive a run at now, with distinct addresses: first the fixed executors in the given
// order, then the registered executors sorted by address. A registered executor is live until expiry after its last stored
// heartbeat. An executor that was live at the start of the scheduler's last outage (g.DownAt) stays live until expiry after
// the end of the outage (g.UpSince).
func Live(executors []Executor, g Global, now time.Time, expiry time.Duration) []Executor {
	var fixed, live []Executor
	known := make(map[string]bool, len(executors))
	for _, e := range executors {
		if e.Fixed && !known[e.Address] {
			known[e.Address] = true
			fixed = append(fixed, e)
		}
	}
	for _, e := range executors {
		if !e.Fixed && !known[e.Address] && beats(e, g, now, expiry) {
			known[e.Address] = true
			live = append(live, e)
		}
	}
	slices.SortFunc(live, func(a, b Executor) int {
		switch {
		case a.Address < b.Address:
			return -1
		case a.Address > b.Address:
			return 1
		}
		return 0
	})
	return append(fixed, live...)
}

// Silent reports whether an executor has stopped sending heartbeats. A silent queue is a queue that no
// executor polls. An executor that never sent a heartbeat is not silent.
func (e Executor) Silent(g Global, now time.Time, expiry time.Duration) bool {
	return !e.Beat.IsZero() && !beats(e, g, now, expiry)
}

func beats(e Executor, g Global, now time.Time, expiry time.Duration) bool {
	if !e.Beat.Add(expiry).Before(now) {
		return true
	}
	return !g.UpSince.IsZero() && !e.Beat.Add(expiry).Before(g.DownAt) && !g.UpSince.Add(expiry).Before(now)
}

// Candidates returns the app's fixed addresses if it has any, otherwise the live registrations in
// stored.
func (a *App) Candidates(stored []Executor, g Global, now time.Time, expiry time.Duration) []Executor {
	if len(a.Executors) == 0 {
		return Live(stored, g, now, expiry)
	}
	fixed := make([]Executor, len(a.Executors))
	for i, address := range a.Executors {
		fixed[i] = Executor{App: a.Name, Address: address, Fixed: true}
		for _, e := range stored { // copy the dialect and the heartbeats from the registration
			if e.Address == address {
				fixed[i].Dialect, fixed[i].Beat, fixed[i].Since = e.Dialect, e.Beat, e.Since
			}
		}
	}
	return Live(fixed, g, now, expiry)
}
