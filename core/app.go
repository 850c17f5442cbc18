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
	Set       string         // the manifest that made it
	Token     string         // what its executors send; empty accepts none but where the server allows it
	Executors []string       // fixed addresses; none: those that register
	Allow     []netip.Prefix // addresses that its executors may have besides the server's own policy
	// WaitForExecutor is that of its jobs that do not say; 0: they do not wait.
	WaitForExecutor time.Duration
	Overlap         Overlap // that of its jobs that do not say
	Limits          Limits  // of all its runs
	Call            *Call   // of its call: executors, under that of a job
	Notify          Notify  // who is told what of its jobs, where they do not say
	// Withheld are the names of jobs that code had declared and somebody deleted:
	// no declaration makes them again. In the order of their deletions.
	Withheld []string
	Rev      int64
	Pause    Pause // the last one
	Past     Past  // those before it; the store keeps it (Past.After)
	Created  time.Time
}

// WithSecrets returns a with each of its secrets replaced by what turn returns for it.
func (a App) WithSecrets(turn func(secret string) string) App {
	turned([]secretField{{"token", &a.Token}}, turn)
	a.Call = a.Call.withSecrets(turn)
	return a
}

func (a App) SecretsOf() string { return "app/" + a.Name }

// Allows reports whether its allow has the host of an address, an IP address.
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

// MaxWithheld bounds App.Withheld: an app is read with each of its fires.
const MaxWithheld = 1000

// Pause of an app or of everything: who, why, from when to when. It changes no
// job; what fires in it falls when it is dispatched.
type Pause struct {
	From time.Time // zero: there was none
	To   time.Time // zero: it has no end yet
	By   string
	Why  string
}

// Covers reports whether t lies in the pause.
func (p Pause) Covers(t time.Time) bool {
	return !p.From.IsZero() && !t.Before(p.From) && (p.To.IsZero() || t.Before(p.To))
}

// MaxPast bounds the pauses that are kept beside the last one.
const MaxPast = 16

// Past is what is kept of the pauses before the last one, for fires that come
// late: no instant of an acknowledged pause is sent, however late.
type Past struct {
	Pauses []Pause // the oldest first, at most MaxPast, without who and why
	// From is the end of the newest one that was forgotten. Of an instant before it
	// nobody can say whether it was demanded; zero: none was.
	From time.Time
}

// Covers reports whether t lies in one of the pauses.
func (p Past) Covers(t time.Time) bool {
	return slices.ContainsFunc(p.Pauses, func(x Pause) bool { return x.Covers(t) })
}

// After is the past once next stands in the place of last. One that is widened,
// or given an end, keeps its beginning, and is not past. Where next begins before
// last is over, which takes a clock that was set, last ends with that.
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

// Global is the one item that concerns everything.
type Global struct {
	Pause Pause
	Past  Past // as that of an app
	// Partitions is how many parts the due index has; Readable how many may
	// still hold jobs, at least as many.
	Partitions int
	Readable   int
	// Busy is when there was last a need for so many partitions, as far as is
	// known: when their number changed, or hours ago at most.
	Busy time.Time
	// Groups is how many groups of jobs plan their windows apart; it only grows.
	// 0: as many as there are to begin with.
	Groups int
	// UpSince and DownAt tell of the last outage of the scheduler itself:
	// executors could not beat from DownAt to UpSince.
	UpSince time.Time
	DownAt  time.Time
	// Holder is the deployment whose processes may work here; empty: none is
	// bound yet. Generation grows with each restore or take-over. While it is
	// Opening nobody may work.
	Holder     string
	Generation int
	Opening    bool
	// Loss is what the ring lost, as far as it is not on it again.
	Loss Loss
	// Notify says who is told of what is of no job: of dead letters that name none, and of
	// jobs that cannot be understood.
	Notify Notify
	Rev    int64
}

// Loss is what a tick found that the ring lost, and how far the jobs were walked
// over since to send it again.
type Loss struct {
	From Instant   // instants after it are looked at; 0 nothing is under way
	Next string    // where the walk goes on; empty at its beginning
	At   time.Time // when it was found, or where From is 0, when the last walk was over
	// Again is From of the next walk, for what was found to be lost since this one
	// began: it may lie behind its place. 0 nothing was.
	Again Instant
}

// Nobody is the Holder of what was fenced: no deployment is named so.
const Nobody = "-"

// Admits refuses the processes of every deployment but the holder: a copy of the
// tables, or a replica elsewhere, is for nobody until it was taken over.
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

// Health is whether a job or an address is slow, as one dispatcher found it and
// all go by.
type Health struct {
	Of   string // "job/7", or an address
	Slow bool
	At   time.Time // when that was found, or found again
}

// Uses is how often each address of a job was chosen since a moment, as one dispatcher
// counted it and all go by.
type Uses struct {
	Job    JobID
	Since  time.Time
	Counts map[string]int64
}

// Letter is a message that could not be dispatched, kept for people.
type Letter struct {
	ID     string
	At     time.Time // when it was buried
	Reason string
	Body   string // as it was on the ring, or as much of it as is kept
}

// Executor is one live or fixed address of an app.
type Executor struct {
	App     string
	Address string    // as core.NormalAddress
	Beat    time.Time // last heartbeat that was stored; zero for a fixed address that sends none
	Since   time.Time // first heartbeat
	Fixed   bool
	Dialect string // what its bytes looked like; empty unknown
	Clock   Clock  // as it said when it beat
}

// Clock is how another clock stands to ours; the zero value: it is not known.
type Clock struct {
	Known bool
	Ahead int32 // seconds; less than a clock's texts tell is 0
}

// What a clock that is said in whole seconds tells: less than clockSame is nothing, and an
// answer that took longer than clockTook could be from any moment of that.
const (
	clockSame = 2 * time.Second
	clockTook = 2 * time.Second
)

// ClockOf is how a clock stands that says a whole second in what was begun at a moment of ours
// and took so long: the second was said half way.
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

// Lease is the conditional-write lock of a partition. It is for economy, not
// safety. One that was given back has no owner, and Until says when that was.
type Lease struct {
	Name  string // "partition/3"
	Owner string
	Epoch int64
	Until time.Time
}

// Change is the record of one change: who did what, when.
type Change struct {
	// ID grows within its subject: the revision it made, or the millisecond of what
	// was done to runs, which others may have too.
	ID   int64
	At   time.Time
	By   string
	From string // as of Actor, with Via; an earlier version wrote neither
	Via  string
	Verb string // created, updated, paused, resumed, deleted, triggered, killed, …
	App  string
	Job  JobID  // 0 for an app or everything
	Name string // of the job; without App and Job that of a channel, or behind OfPerson of a person
	Why  string
	Act  string // what it was part of, where one act changed many
	Old  string // JSON of what was, without secrets; may be empty
	New  string // JSON of what is
}

// BeatExpiry is how long after its last heartbeat a registered executor counts
// as live.
const BeatExpiry = 90 * time.Second

// Live is those of an app's executors that a run may be sent to at now. Fixed
// ones always are, in the order given, before the others. A registered one is
// while its last stored beat is at most expiry ago; after an outage of the
// scheduler itself (g.DownAt to g.UpSince) nobody who was live when it began
// expires before there was an expiry's time to beat again. Addresses are
// distinct, those of registered ones sorted.
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

// Silent reports whether an executor that sends heartbeats has stopped: at a
// queue, that nobody polls it any more. Of one that never sent any nothing is
// known.
func (e Executor) Silent(g Global, now time.Time, expiry time.Duration) bool {
	return !e.Beat.IsZero() && !beats(e, g, now, expiry)
}

func beats(e Executor, g Global, now time.Time, expiry time.Duration) bool {
	if !e.Beat.Add(expiry).Before(now) {
		return true
	}
	return !g.UpSince.IsZero() && !e.Beat.Add(expiry).Before(g.DownAt) && !g.UpSince.Add(expiry).Before(now)
}

// Candidates is the executors of the app: its fixed ones if it has any,
// otherwise those of the stored registrations that are live.
func (a *App) Candidates(stored []Executor, g Global, now time.Time, expiry time.Duration) []Executor {
	if len(a.Executors) == 0 {
		return Live(stored, g, now, expiry)
	}
	fixed := make([]Executor, len(a.Executors))
	for i, address := range a.Executors {
		fixed[i] = Executor{App: a.Name, Address: address, Fixed: true}
		for _, e := range stored { // what is known of the dialect, and when it was polled
			if e.Address == address {
				fixed[i].Dialect, fixed[i].Beat, fixed[i].Since = e.Dialect, e.Beat, e.Since
			}
		}
	}
	return Live(fixed, g, now, expiry)
}
