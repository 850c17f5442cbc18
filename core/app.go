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
	Token     string         // sent by its executors; if empty, they are rejected unless the server allows it
	Executors []string       // fixed addresses; empty: executors register themselves
	Allow     []netip.Prefix // networks allowed for its executors, in addition to the server's own policy
	// WaitForExecutor is the default for its jobs; 0: they do not wait.
	WaitForExecutor time.Duration
	Overlap         Overlap // default for its jobs
	Limits          Limits  // limits over all runs of the app
	Call            *Call   // settings of its call: executors; a job's own settings take precedence
	Notify          Notify  // default notification settings for its jobs
	// Withheld lists the declared jobs that a user deleted, in the order of deletion. A declaration
	// from code does not create them again.
	Withheld []string
	Rev      int64
	Pause    Pause // the latest one
	Past     Past  // earlier ones; the store updates it (Past.After)
	Created  time.Time
}

// WithSecrets returns a copy of a with each secret replaced by turn's result for it.
func (a App) WithSecrets(turn func(secret string) string) App {
	turned([]secretField{{"token", &a.Token}}, turn)
	a.Call = a.Call.withSecrets(turn)
	return a
}

func (a App) SecretsOf() string { return "app/" + a.Name }

// Allows reports whether a.Allow contains the host of an address, which must be an IP address.
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

// MaxWithheld bounds App.Withheld, because each dispatched run reads its app.
const MaxWithheld = 1000

// A Pause records when and why a user paused an app or everything. It changes no job:
// dispatch skips the runs that are due during the pause.
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

// MaxPast bounds the earlier pauses that are kept.
const MaxPast = 16

// Past holds earlier pauses, so that a late message cannot send a run whose scheduled time was
// within an acknowledged pause.
type Past struct {
	Pauses []Pause // oldest first, at most MaxPast, without By and Why
	// From is the end of the newest pause that was dropped from the list. Whether a run was
	// expected before From is unknown. Zero: no pause was dropped.
	From time.Time
}

// Covers reports whether t is within one of the pauses.
func (p Past) Covers(t time.Time) bool {
	return slices.ContainsFunc(p.Pauses, func(x Pause) bool { return x.Covers(t) })
}

// After returns the past after next replaces last. If both begin at the same time, next only
// changes last, and p stays. If next begins before last ends, which takes a clock that was
// set back, last is cut at the beginning of next.
func (p Past) After(last, next Pause) Past {
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
	return Past{Pauses: list, From: p.From}
}

// Global is the single stored item with the state of the whole deployment.
type Global struct {
	Pause Pause
	Past  Past // earlier pauses, as in App.Past
	// Partitions is the number of partitions of the due index. Readable is how many can still hold
	// jobs; it is never less than Partitions.
	Partitions int
	Readable   int
	// Busy is when the load last needed this many partitions: when their number changed, or a later
	// check that is at most some hours old.
	Busy time.Time
	// Groups is the number of job groups that plan their windows separately; it only grows.
	// 0: the initial number.
	Groups int
	// UpSince and DownAt describe the last outage of the scheduler itself: executors could not send
	// heartbeats from DownAt to UpSince.
	UpSince time.Time
	DownAt  time.Time
	// Holder is the only deployment whose processes can work on these tables; empty: none is
	// bound. Generation grows with each restore or takeover. While Opening is true, no
	// process can work.
	Holder     string
	Generation int
	Opening    bool
	// Loss is the part of the delay queue that was lost and is not sent again yet.
	Loss Loss
	// Notify is for events without a readable job: dead-letter messages that name no job, and jobs
	// that cannot be read.
	Notify Notify
	Rev    int64
}

// Loss records that the delay queue lost messages, and how far the scan over the jobs has
// come that sends them again.
type Loss struct {
	From Instant   // the scan covers scheduled times after it; 0: no scan is running
	Next string    // position of the scan; empty at its beginning
	At   time.Time // when the loss was found or, if From is 0, when the last scan ended
	// Again is the From of the next scan if a loss was found after this scan began and can
	// lie behind its position. 0: none.
	Again Instant
}

// Nobody is the Holder of fenced tables. No deployment has this name.
const Nobody = "-"

// Admits returns an error for the processes of every deployment except the holder. A copy of the tables, or a
// replica, is unusable until a restore or takeover.
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

// Health records whether a job or an address is slow. One dispatcher measures it, and all
// dispatchers use it.
type Health struct {
	Of   string // "job/7", or an address
	Slow bool
	At   time.Time // time of the last measurement
}

// Uses counts how often each address of a job was chosen since a time. One dispatcher counts,
// and all dispatchers use the counts.
type Uses struct {
	Job    JobID
	Since  time.Time
	Counts map[string]int64
}

// A Letter is a dead-letter message: it could not be dispatched and is kept for users.
type Letter struct {
	ID     string
	At     time.Time // when it was moved to the dead-letter queue
	Reason string
	Body   string // original message, possibly truncated
}

// Executor is one live or fixed address of an app.
type Executor struct {
	App     string
	Address string    // as returned by NormalAddress
	Beat    time.Time // last heartbeat that was stored; zero for a fixed address that sends none
	Since   time.Time // first heartbeat
	Fixed   bool
	Dialect string // client dialect detected from its requests; empty: unknown
	Clock   Clock  // measured at its last heartbeat
}

// Clock is the difference between another machine's clock and ours. The zero value: unknown.
type Clock struct {
	Known bool
	Ahead int32 // seconds; 0 if the difference is too small to measure
}

// Bounds for a clock that reports whole seconds. A difference below clockSame counts as none, and an answer that took
// longer than clockTook gives no measurement.
const (
	clockSame = 2 * time.Second
	clockTook = 2 * time.Second
)

// ClockOf compares a reported time, in full seconds, with this machine's clock. The request began at begun
// and took took; the result assumes that the clock was read halfway through.
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

// A Lease is the conditional-write lock of a partition. It saves work but is not needed for
// safety. A released lease has no owner, and Until is when it was released.
type Lease struct {
	Name  string // "partition/3"
	Owner string
	Epoch int64
	Until time.Time
}

// A Change is the record of one change: actor, action and time.
type Change struct {
	// ID grows within its subject. It is the revision that the change made. For an action on
	// runs it is the time in milliseconds, which is not unique.
	ID   int64
	At   time.Time
	By   string
	From string // as in Actor, like Via; records of an earlier version have neither
	Via  string
	Verb string // created, updated, paused, resumed, deleted, triggered, killed, …
	App  string
	Job  JobID  // 0 for an app or everything
	Name string // of the job; if App and Job are empty, a channel or, after OfPerson, a user
	Why  string
	Act  string // ID of the bulk operation that the change belongs to; empty: none
	Old  string // JSON of the old state, without secrets; may be empty
	New  string // JSON of the new state
}

// BeatExpiry is how long a registered executor counts as live after its last heartbeat.
const BeatExpiry = 90 * time.Second

// Live returns the executors that can receive a run at now, with distinct addresses. Fixed
// executors come first, in the given order. Registered executors follow, sorted by address, if
// their last stored heartbeat is at most expiry ago. After an outage of the scheduler
// (g.DownAt to g.UpSince), executors that were live when it began stay live until expiry
// after g.UpSince.
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

// Silent reports whether an executor has stopped sending heartbeats. For a queue this means
// that no executor polls it. An executor that never sent a heartbeat is not silent.
func (e Executor) Silent(g Global, now time.Time, expiry time.Duration) bool {
	return !e.Beat.IsZero() && !beats(e, g, now, expiry)
}

func beats(e Executor, g Global, now time.Time, expiry time.Duration) bool {
	if !e.Beat.Add(expiry).Before(now) {
		return true
	}
	return !g.UpSince.IsZero() && !e.Beat.Add(expiry).Before(g.DownAt) && !g.UpSince.Add(expiry).Before(now)
}

// Candidates returns the live executors of the app: its fixed addresses if it has any,
// otherwise the live registrations in stored.
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
