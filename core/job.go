package core

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// WithSecrets returns d with each of its secrets replaced by what turn returns for it.
func (d Def) WithSecrets(turn func(secret string) string) Def {
	d.Call, d.Command = d.Call.withSecrets(turn), d.Command.withSecrets(turn)
	return d
}

// Locked is the error of a read of j whose Def could not be decrypted; any other error stays.
func (j *Job) Locked(err error) error {
	if l, is := err.(*Locked[Def]); is {
		return &Locked[*Job]{j, l.Err}
	}
	return err
}

// LockedSecrets is why the job's secrets cannot be used: one of them could not be decrypted; nil if they can.
func (j *Job) LockedSecrets() (why *Error) {
	j.Def.WithSecrets(func(secret string) string {
		if strings.HasPrefix(secret, LockedMark) {
			why = Errorf(CodeRefused, "the secrets of job %s cannot be decrypted: set them again, or add the key that encrypted them "+
				"to the key file", j.Name())
		}
		return secret
	})
	return why
}

func (d Def) SecretsOf() string { return "job/" + d.ID.String() }

// JobState is whether a job's schedule counts.
type JobState string

const (
	Started JobState = "started"
	Paused  JobState = "paused"
	Ended   JobState = "ended" // its schedule has no further instant
)

var JobStates = []JobState{Started, Paused, Ended}

// Job is what to run, and when. It is stored in two parts: Def is what its
// owner wrote, Sched the small part that planning reads and writes.
type Job struct {
	Def   Def
	Sched Sched
}

// Name is how a job is written everywhere: app/name.
func (j *Job) Name() string { return j.Def.App + "/" + j.Def.Name }

// Def is what a job's owner wrote, but for its schedule.
type Def struct {
	ID       JobID             `json:"id"`
	App      string            `json:"app"`
	Name     string            `json:"name"`
	Title    string            `json:"title,omitempty"`
	Author   string            `json:"author,omitempty"` // who to ask about it
	Labels   map[string]string `json:"labels,omitempty"`
	Set      string            `json:"set,omitempty"` // the manifest that made it
	Handler  string            `json:"handler"`
	Script   *Script           `json:"script,omitempty"` // in place of a handler
	Params   string            `json:"params,omitempty"`
	Template bool              `json:"template,omitempty"` // Params is a Template
	Call     *Call             `json:"call,omitempty"`     // over that of its app
	Command  *Command          `json:"command,omitempty"`  // run by its server, in place of a handler
	Route    Route             `json:"route"`
	// BroadcastFail is of route broadcast; else it is empty.
	BroadcastFail BroadcastFail `json:"broadcastFail,omitempty"`
	Block         Block         `json:"block"`
	Timeout       time.Duration `json:"timeout,omitempty"` // 0: none
	Retry         Retry         `json:"retry"`
	LostAfter     time.Duration `json:"lostAfter"`
	// WaitForExecutor is how long from its slot on a run waits where no executor is
	// there; 0: as its app says.
	WaitForExecutor time.Duration `json:"waitForExecutor,omitempty"`
	Overlap         Overlap       `json:"overlap,omitzero"`
	PauseAfter      int           `json:"pauseAfter,omitempty"` // chains that failed in a row; 0: it is never paused for that
	Keep            Keep          `json:"keep"`
	Notify          Notify        `json:"notify,omitzero"`
	// After are the jobs after whose runs it comes.
	After []Parent `json:"after,omitempty"`
	// Within makes a join of them: it comes once after all, if they end within that time.
	Within time.Duration `json:"within,omitempty"`
	// Children are the jobs that come after it, in the order of their numbers. The store
	// keeps them in line with the After of those, in the same write; it is no part of what
	// its owner wrote, and no revision.
	Children []Child   `json:"children,omitempty"`
	Declared Declared  `json:"declared,omitempty"`
	Created  time.Time `json:"created"`
}

// WaitsUntil is when a run with that slot waits no longer for an executor: the job's
// word, or else its app's, within its deadline. At its slot: it does not wait.
func (j *Job) WaitsUntil(app *App, slot Instant) time.Time {
	wait := cmp.Or(j.Def.WaitForExecutor, app.WaitForExecutor)
	if d := j.Sched.Deadline; d > 0 {
		wait = min(wait, d)
	}
	return slot.Time().Add(wait)
}

// Overlap is the limit of the job's runs: its word, or else its app's. Nothing goes in the
// place of a broadcast, and that in nothing's.
func (j *Job) Overlap(app *App) Overlap {
	o := j.Def.Overlap
	if o.Limit == 0 && app != nil {
		o = app.Overlap
	}
	if o.Full == FullReplace && j.Def.Route == RouteBroadcast {
		o.Full, o.Max = FullQueue, QueueIfUnsaid
	}
	return o
}

// Declared says of a job that code has declared who made its definition last.
// Empty: no code has ever made it.
type Declared string

const (
	DeclaredCode  Declared = "code"  // the code: a declaration may change it
	DeclaredTaken Declared = "taken" // somebody else: no declaration changes it
)

var Declareds = []Declared{DeclaredCode, DeclaredTaken}

// Equal reports whether two definitions say the same; who comes after them is another's word.
func (d Def) Equal(o Def) bool {
	return d.ID == o.ID && d.App == o.App && d.Name == o.Name && d.Title == o.Title && d.Author == o.Author &&
		maps.Equal(d.Labels, o.Labels) && d.Set == o.Set && d.Handler == o.Handler && d.Script.Equal(o.Script) && d.Params == o.Params &&
		d.Template == o.Template &&
		d.Route == o.Route && d.BroadcastFail == o.BroadcastFail && d.Block == o.Block && d.Timeout == o.Timeout && d.Retry.Equal(o.Retry) &&
		d.LostAfter == o.LostAfter && d.WaitForExecutor == o.WaitForExecutor && d.Overlap == o.Overlap &&
		d.PauseAfter == o.PauseAfter && d.Keep == o.Keep && d.Declared == o.Declared && d.Call.Equal(o.Call) &&
		d.Command.Equal(o.Command) && slices.Equal(d.After, o.After) &&
		d.Within == o.Within && d.Notify.Equal(o.Notify)
}

// Sched is the part of a job that planning reads and writes.
type Sched struct {
	ID       JobID
	App      string
	State    JobState
	Rev      int64     // millisecond of the last change of schedule or state, strictly growing
	RevAt    time.Time // instant of that change: later instants are demanded under it
	Schedule Schedule
	Misfire  Misfire
	Grace    time.Duration
	Deadline time.Duration // 0: none
	// Next is the first instant that is not provably on the ring; 0 none.
	Next Instant
	// PlanAt is when a tick is to plan the job; 0 keeps it out of the due
	// index. Of a job paused until a moment it is that moment.
	PlanAt    Instant
	Partition int
	Seq       int64 // number of the next scheduled fire: what round and LRU follow
	// Tail is the first run of the open chain of a fixed delay, 0 when none is open.
	Tail       RunID
	PauseUntil Instant // of a paused job: when it resumes by itself; 0 never
	PauseBy    string
	PauseWhy   string
	// PlanError says why the job could not be planned last time; empty is well.
	PlanError string
	// Compared is the instant up to which all that was demanded is known to have a
	// run or a record; 0: nothing was compared yet.
	Compared Instant
}

// NextRev is the revision after old, made at now, and its instant: neither goes
// back with a clock.
func NextRev(old int64, oldAt, now time.Time) (rev int64, at time.Time) {
	at = now
	if at.Before(oldAt) {
		at = oldAt
	}
	return max(Millis(at), old+1), at
}

// Advance moves a job on after its fires are on the ring. It applies only
// while Rev and Next (and for a fixed delay Tail) are as they were read.
type Advance struct {
	Job  JobID
	Rev  int64
	Next Instant
	Tail RunID
	// What becomes of it.
	NewNext      Instant
	NewPlanAt    Instant
	NewSeq       int64
	NewPartition int
	NewTail      RunID
	NewState     JobState
	// NewRev, NewRevAt and Change are set when the advance is a change: the end of
	// a pause, or the beginning of one without an end, which has the other two. Its
	// record is stored with the advance, both or neither.
	NewRev      int64
	NewRevAt    time.Time
	NewPauseBy  string
	NewPauseWhy string
	Change      *Change
	PlanError   string
	// NewCompared is 0 where nothing was compared: then it stays.
	NewCompared Instant
}

func (s Sched) Moved(a Advance) Sched {
	s.Next, s.PlanAt, s.Seq, s.Partition, s.Tail = a.NewNext, a.NewPlanAt, a.NewSeq, a.NewPartition, a.NewTail
	if a.NewState != "" {
		s.State = a.NewState
	}
	if a.NewRev != 0 {
		s.Rev, s.RevAt = a.NewRev, a.NewRevAt
		s.PauseUntil, s.PauseBy, s.PauseWhy = 0, a.NewPauseBy, a.NewPauseWhy
	}
	s.PlanError = a.PlanError
	if a.NewCompared != 0 {
		s.Compared = a.NewCompared
	}
	return s
}

// PausedAt reports whether s is paused at t: a pause with an end is over then, also
// where no tick has stored that yet.
func (s *Sched) PausedAt(t time.Time) bool {
	return s.State == Paused && (s.PauseUntil == 0 || t.Before(s.PauseUntil.Time()))
}

func (s Sched) Stay() Advance {
	return Advance{Job: s.ID, Rev: s.Rev, Next: s.Next, Tail: s.Tail,
		NewNext: s.Next, NewPlanAt: s.PlanAt, NewSeq: s.Seq, NewPartition: s.Partition, NewTail: s.Tail,
		NewState: s.State, PlanError: s.PlanError}
}

// DueItem is one entry of the due index, ordered by (PlanAt, Job, Run): a job,
// or with Run set a light entry, a run that waits there for its time.
type DueItem struct {
	PlanAt    Instant
	Job       JobID
	Run       RunID
	Partition int
}

func (d DueItem) Less(o DueItem) bool {
	if d.PlanAt != o.PlanAt {
		return d.PlanAt < o.PlanAt
	}
	if d.Job != o.Job {
		return d.Job < o.Job
	}
	return d.Run < o.Run
}

// Tombstone is what stays of a deleted job for as long as a fire of it can be
// on the ring.
type Tombstone struct {
	Job   JobID
	App   string
	Name  string
	Rev   int64
	RevAt time.Time
}

// PartitionOf is the part of the due index, of n, that a job belongs to.
func PartitionOf(job JobID, n int) int {
	if n <= 1 {
		return 0
	}
	// Multiplied so that neighbours spread: imports number jobs in a row.
	return int(uint32(job) * 2654435761 >> 8 % uint32(n))
}
