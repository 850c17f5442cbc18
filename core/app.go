package core

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// App is a named group of executors that run the same code and share an access token. The JSON of the types in this
// file is their stored form.
type App struct {
	Name  string `json:"-"`
	Title string `json:"title,omitempty"`
	Set   string `json:"set,omitempty"` // name of the manifest that created the app
	// Token is the access token that the executors send; if empty, server options decide whether to accept executors.
	Token     string         `json:"token,omitempty"`
	Executors []string       `json:"executors,omitempty"` // fixed addresses; if empty, executors register themselves
	Allow     []netip.Prefix `json:"allow,omitempty"`     // networks of allowed executor addresses, in addition to the server's policy
	// WaitForExecutor is how long a run waits for an available executor, counted from its due time; 0: runs do not
	// wait. A job can set its own value.
	WaitForExecutor time.Duration `json:"waitForExecutor,omitempty"`
	Overlap         Overlap       `json:"overlap,omitzero"` // default concurrency limit of each job
	Limits          Limits        `json:"limits,omitzero"`  // limits over all runs of the app
	Call            *Call         `json:"call,omitempty"`   // settings for call: executors; a job's own settings take precedence
	Notify          Notify        `json:"notify,omitzero"`  // default notification settings of the jobs
	// Withheld lists the names of the suppressed jobs, oldest first. A job is suppressed if a user deletes it after
	// code declared it. Code cannot create a suppressed job again.
	Withheld []string     `json:"withheld,omitempty"`
	Rev      int64        `json:"-"`
	Pause    Pause        `json:"pause,omitzero"` // the latest pause
	Past     PauseHistory `json:"past,omitzero"`  // pauses before the latest one; the store adds to them with Past.After
	Created  time.Time    `json:"created,omitzero"`
}

// WithSecrets returns a copy of the app in which each secret that is set is replaced by turn(secret).
func (a App) WithSecrets(turn func(secret string) string) App {
	turned([]secretField{{"token", &a.Token}}, turn)
	a.Call = a.Call.withSecrets(turn)
	return a
}

func (a App) SecretsOf() string { return "app/" + a.Name }

// Allows reports whether the host of an executor address is an IP address in one of the networks of a.Allow.
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

// SameToken compares two tokens in constant time.
func SameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// MaxWithheld is the maximum number of suppressed jobs of an app. The number is limited because dispatch reads the
// list with the app.
const MaxWithheld = 1000

// A Pause records when and why a user paused an app or all apps. The jobs do not change, and dispatch skips the runs
// that are due during the pause.
type Pause struct {
	From time.Time `json:"from,omitzero"` // start; zero: no pause
	To   time.Time `json:"to,omitzero"`   // end; zero: the pause has no end
	By   string    `json:"by,omitempty"`
	Why  string    `json:"why,omitempty"`
}

// Covers reports whether t is within the pause.
func (p Pause) Covers(t time.Time) bool {
	return !p.From.IsZero() && !t.Before(p.From) && (p.To.IsZero() || t.Before(p.To))
}

// MaxPast is the maximum number of pauses in a PauseHistory.
const MaxPast = 16

// PauseHistory holds the pauses before the latest one. With this list, dispatch can skip a run that was due during an
// earlier pause, even if its message arrives late.
type PauseHistory struct {
	Pauses []Pause `json:"pauses,omitempty"` // oldest first, at most MaxPast, without By and Why
	// From is the end of the newest pause that was dropped from the list; zero: no pause was dropped. For times
	// before From, the history does not show whether a pause applied.
	From time.Time `json:"from,omitzero"`
}

// Covers reports whether t is within one of the listed pauses.
func (p PauseHistory) Covers(t time.Time) bool {
	return slices.ContainsFunc(p.Pauses, func(x Pause) bool { return x.Covers(t) })
}

// After returns p with the pause `last` added, because the pause `next` replaces `last` as the latest pause. If both
// pauses begin at the same time, `next` only changes `last`, and After returns p unchanged. If `last` ends after `next`
// begins, for example because the clock was set back, After shortens `last`.
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
	Pause Pause        `json:"pause,omitzero"`
	Past  PauseHistory `json:"past,omitzero"` // pauses before the latest one
	// Partitions is the number of partitions of the due index that receive jobs. Readable is the number of partitions
	// that the ticker reads. Readable is at least Partitions, because removed partitions can still contain jobs.
	Partitions int `json:"partitions,omitempty"`
	Readable   int `json:"readable,omitempty"`
	// Busy is when Partitions last changed, or when a later check found that the load needs all partitions. Checks
	// rarely update Busy, so the value can be some hours old.
	Busy time.Time `json:"busy,omitzero"`
	// Groups is the number of groups into which jobs are divided. The planner plans each group at a different time.
	// Groups never decreases; 0 means the initial number.
	Groups int `json:"groups,omitempty"`
	// DownAt and UpSince are the start and the end of the scheduler's last outage. Executors could not send
	// heartbeats during the outage.
	UpSince time.Time `json:"upSince,omitzero"`
	DownAt  time.Time `json:"downAt,omitzero"`
	// Holder is the name of the only deployment that can use these tables; empty: every deployment can use the
	// tables. Each restore or takeover increments Generation. While Opening is true, a restore is in progress and no
	// process can use the tables.
	Holder     string `json:"holder,omitempty"`
	Generation int    `json:"generation,omitempty"`
	Opening    bool   `json:"opening,omitempty"`
	// Loss records that the delay queue lost messages that must be sent again.
	Loss Loss `json:"loss,omitzero"`
	// Notify has the notification settings for events without a readable job: dead-letter messages that name no job,
	// and jobs that cannot be read.
	Notify Notify `json:"notify,omitzero"`
	Rev    int64  `json:"-"`
}

// Loss records that the delay queue lost messages, and the progress of the scan that sends the lost messages again.
type Loss struct {
	From Instant   `json:"from,omitempty"` // the running scan covers scheduled times after From; 0: no scan is running
	Next string    `json:"next,omitempty"` // position that the scan has reached; empty at the start
	At   time.Time `json:"at,omitzero"`    // when the loss was found; if From is 0, when the last scan ended
	// Again is the From of the next scan; 0: no other scan is needed. If a loss is found during a scan, another scan
	// is needed, because the current scan may already have passed the affected jobs.
	Again Instant `json:"again,omitempty"`
}

// Nobody is the Holder of fenced tables, which no deployment can use. No deployment has this name.
const Nobody = "-"

// Admits returns an error if another deployment holds the tables, or if the tables are fenced or being restored. So
// no other deployment can use a copy of the tables before a restore or takeover.
func (g Global) Admits(deployment string) error {
	switch {
	case g.Opening:
		return Errorf(CodeRefused, "generation %d is being restored: all other operations fail until the restore ends", g.Generation)
	case g.Holder == "" || g.Holder == deployment:
		return nil
	case g.Holder == Nobody:
		return Errorf(CodeRefused, "generation %d was fenced: all operations fail until a restore or takeover", g.Generation)
	}
	return Errorf(CodeRefused, "the DynamoDB tables belong to deployment %s (generation %d), but this deployment is %s: "+
		"run `tickring restore` for a restored copy, or `tickring takeover` for a replica in another region", g.Holder, g.Generation, deployment)
}

// Health records whether a job or an executor address is slow. The dispatcher that detects a change stores it, and
// all dispatchers use the stored state.
type Health struct {
	Of   string    `json:"-"` // "job/7" for the job with ID 7, or an executor address
	Slow bool      `json:"slow,omitempty"`
	At   time.Time `json:"-"` // time of the last measurement
}

// Uses counts how often dispatch chose each executor address for the runs of a job. All dispatchers share these
// counts.
type Uses struct {
	Job    JobID            `json:"-"`
	Since  time.Time        `json:"-"`                // when all counts were 0
	Counts map[string]int64 `json:"counts,omitempty"` // how often each address was chosen
}

// A Letter is a dead-letter message: a message that could not be processed. Users can resend or delete dead-letter
// messages.
type Letter struct {
	ID     string    `json:"-"`
	At     time.Time `json:"at"` // when the message was moved to the dead-letter queue
	Reason string    `json:"reason"`
	Body   string    `json:"-"` // original message, possibly truncated
}

// Executor is an address of an app, either fixed or registered.
type Executor struct {
	App     string    `json:"-"`
	Address string    `json:"-"`              // normalized by NormalAddress
	Beat    time.Time `json:"-"`              // time of the last stored heartbeat; zero for a fixed address without heartbeats
	Since   time.Time `json:"since,omitzero"` // time of the first heartbeat
	Fixed   bool      `json:"fixed,omitempty"`
	// Dialect is the variant of the xxl-job protocol, detected from the executor's requests; empty: unknown.
	Dialect string `json:"dialect,omitempty"`
	Clock   Clock  `json:"clock,omitzero"` // clock difference that was measured at the last heartbeat
}

// Clock is the difference between an executor's clock and this machine's clock. The zero value means unknown.
type Clock struct {
	Known bool `json:"known,omitempty"`
	// Ahead is the number of seconds by which the executor's clock is ahead; negative: behind; 0: the difference is less than 2 s.
	Ahead int32 `json:"ahead,omitempty"`
}

// Clocks report whole seconds, so a difference below clockSame counts as none. A response that took longer than
// clockTook is not used.
const (
	clockSame = 2 * time.Second
	clockTook = 2 * time.Second
)

// ClockOf compares a time that another machine reported, in whole seconds, with this machine's clock. The request
// began at the time begun and lasted for the duration took. ClockOf assumes that the other machine read its clock
// halfway through the request.
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

// A Lease is a lock, such as the lock on a partition of the due index, that conditional writes change. Leases avoid
// duplicate work but are not needed for correctness. A released lease has no owner, and Until is the time of the
// release.
type Lease struct {
	Name  string `json:"-"` // the locked resource, such as "partition/3"
	Owner string `json:"owner,omitempty"`
	// Epoch is when the lease was taken, in milliseconds. Each owner gets a higher Epoch than the last owner.
	Epoch int64     `json:"-"`
	Until time.Time `json:"until,omitzero"`
}

// A Change is a record of the audit log: the author, the action and the time of one change.
type Change struct {
	// ID is the revision of the changed object after the change. For an action on runs, ID is the time in
	// milliseconds since 1970, which is not unique.
	ID   int64     `json:"id"`
	At   time.Time `json:"at"`
	By   string    `json:"by,omitempty"`
	From string    `json:"from,omitempty"` // client address; From and Via are empty in records that an older version wrote
	Via  string    `json:"via,omitempty"`
	Verb string    `json:"verb,omitempty"` // created, updated, paused, resumed, deleted, triggered, killed, …
	App  string    `json:"app,omitempty"`
	Job  JobID     `json:"job,omitempty"` // 0: the change is not about one job
	// Name is the name of the job; if App and Job are empty: name of a channel or, after the prefix OfPerson, of a user.
	Name string `json:"name,omitempty"`
	Why  string `json:"why,omitempty"`
	Act  string `json:"act,omitempty"` // ID of the bulk operation that made the change; empty: none
	Old  string `json:"-"`             // JSON of the old state, without secrets; may be empty
	New  string `json:"-"`             // JSON of the new state
}

// BeatExpiry is how long a registered executor stays live after its last heartbeat.
const BeatExpiry = 90 * time.Second

// Live returns the executors that can receive a run at the time now, without duplicate addresses. Fixed executors
// come first, in the order of the list. Registered executors follow, sorted by address. A registered executor stays
// live for the duration expiry after its last stored heartbeat. An executor that was live when the scheduler's last
// outage began (g.DownAt) also stays live for that duration after the outage ended (g.UpSince).
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
	slices.SortFunc(live, func(a, b Executor) int { return cmp.Compare(a.Address, b.Address) })
	return append(fixed, live...)
}

// Silent reports whether an executor has stopped sending heartbeats. For a queue address, each poll by an executor
// counts as a heartbeat. An executor that never sent a heartbeat is not silent.
func (e Executor) Silent(g Global, now time.Time, expiry time.Duration) bool {
	return !e.Beat.IsZero() && !beats(e, g, now, expiry)
}

func beats(e Executor, g Global, now time.Time, expiry time.Duration) bool {
	if !e.Beat.Add(expiry).Before(now) {
		return true
	}
	return !g.UpSince.IsZero() && !e.Beat.Add(expiry).Before(g.DownAt) && !g.UpSince.Add(expiry).Before(now)
}

// Candidates returns the executors that can receive runs of the app. If the app has fixed addresses, Candidates
// returns all fixed addresses. Otherwise, it returns the live executors in stored, the list of registered executors.
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
