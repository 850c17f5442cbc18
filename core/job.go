package core

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// WithSecrets returns a copy of d with each secret replaced by turn's result for it.
func (d Def) WithSecrets(turn func(secret string) string) Def {
	d.Call, d.Command = d.Call.withSecrets(turn), d.Command.withSecrets(turn)
	return d
}

// Locked returns err as a Locked error if it came from a secret of j that could not be decrypted, else err itself.
func (j *Job) Locked(err error) error {
	if l, is := err.(*Locked[Def]); is {
		return &Locked[*Job]{j, l.Err}
	}
	return err
}

// LockedSecrets returns an error if a secret of the job could not be decrypted, else nil.
func (j *Job) LockedSecrets() (why *Error) {
	j.Def.WithSecrets(func(secret string) string {
		if strings.HasPrefix(secret, LockedMark) {
			why = Errorf(CodeRefused, "the secrets of job %s cannot be decrypted: set the secrets again, or add the key that "+
				"encrypted the secrets to the key file", j.Name())
		}
		return secret
	})
	return why
}

func (d Def) SecretsOf() string { return "job/" + d.ID.String() }

// JobState is the state of a job: its schedule applies only while it is started.
type JobState string

const (
	Started JobState = "started"
	Paused  JobState = "paused"
	Ended   JobState = "ended" // the job's schedule has no further scheduled time
)

var JobStates = []JobState{Started, Paused, Ended}

// Job is a task and its schedule. It is stored in two parts: Def is the definition by its owner, Sched the small part
// that planning reads and writes.
type Job struct {
	Def   Def
	Sched Sched
}

// Name returns the full name of a job: app/name.
func (j *Job) Name() string { return j.Def.App + "/" + j.Def.Name }

// Def is the definition of a job by its owner, without the schedule.
type Def struct {
	ID       JobID             `json:"id"`
	App      string            `json:"app"`
	Name     string            `json:"name"`
	Title    string            `json:"title,omitempty"`
	Author   string            `json:"author,omitempty"` // contact for questions
	Labels   map[string]string `json:"labels,omitempty"`
	Set      string            `json:"set,omitempty"` // name of the manifest that created the job
	Handler  string            `json:"handler"`
	Script   *Script           `json:"script,omitempty"` // replaces the handler
	Params   string            `json:"params,omitempty"`
	Template bool              `json:"template,omitempty"` // Params is a Template
	Call     *Call             `json:"call,omitempty"`     // takes precedence over the app's
	Command  *Command          `json:"command,omitempty"`  // run by the server, replaces the handler
	Route    Route             `json:"route"`
	// BroadcastFail is set for route broadcast only.
	BroadcastFail BroadcastFail `json:"broadcastFail,omitempty"`
	Block         Block         `json:"block"`
	Timeout       time.Duration `json:"timeout,omitempty"` // 0: none
	Retry         Retry         `json:"retry"`
	LostAfter     time.Duration `json:"lostAfter"`
	// WaitForExecutor is how long after its due time a run waits if no executor is available; 0: the app's value.
	WaitForExecutor time.Duration `json:"waitForExecutor,omitempty"`
	Overlap         Overlap       `json:"overlap,omitzero"`
	PauseAfter      int           `json:"pauseAfter,omitempty"` // consecutive failed chains that pause the job; 0: never
	Keep            Keep          `json:"keep"`
	Notify          Notify        `json:"notify,omitzero"`
	// After are the parents: the job runs after their runs.
	After []Parent `json:"after,omitempty"`
	// Within makes the parents a join: the job runs once after all of them, if all of them end within this time.
	Within time.Duration `json:"within,omitempty"`
	// Children are the jobs that run after this one, ordered by number. The store updates them in the same write as
	// the After of the children. They are not part of the owner's definition and do not change the revision.
	Children []Child   `json:"children,omitempty"`
	Declared Declared  `json:"declared,omitempty"`
	Created  time.Time `json:"created"`
}

// WaitsUntil returns when a run stops waiting for an executor, at its deadline at the latest. The job's setting takes
// precedence over the app's. If the run does not wait, WaitsUntil returns the due time.
func (j *Job) WaitsUntil(app *App, slot Instant) time.Time {
	wait := cmp.Or(j.Def.WaitForExecutor, app.WaitForExecutor)
	if d := j.Sched.Deadline; d > 0 {
		wait = min(wait, d)
	}
	return slot.Time().Add(wait)
}

// Overlap returns the limit of the job's runs: the job's own or, without one, the app's. A broadcast is never replaced and
// never replaces a run.
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

// Declared shows whether code or a user last changed the definition of a job that code declared. Empty: no code has ever
// declared the job.
type Declared string

const (
	DeclaredCode  Declared = "code"  // the code: a declaration can change it
	DeclaredTaken Declared = "taken" // overridden by a user: no declaration changes it
)

var Declareds = []Declared{DeclaredCode, DeclaredTaken}

// Equal reports whether two definitions are equal, ignoring Children.
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
	RevAt    time.Time // time of that change; the revision applies to later scheduled times
	Schedule Schedule
	Misfire  Misfire
	Grace    time.Duration
	Deadline time.Duration // 0: none
	// Next is the first scheduled time that is not proven to be on the delay queue; 0: there is none.
	Next Instant
	// PlanAt is when a tick must plan the job; 0: the job is not in the due index. For a job paused until a time, PlanAt is
	// not later than that time.
	PlanAt    Instant
	Partition int
	Seq       int64 // number of the next scheduled run, used by the routes round and LRU
	// Tail is the first run of the open retry chain of a fixed delay; 0: no chain is open.
	Tail       RunID
	PauseUntil Instant // when a paused job resumes automatically; 0: never
	PauseBy    string
	PauseWhy   string
	// PlanError is why the last planning of the job failed; empty: it succeeded.
	PlanError string
	// Compared is the scheduled time up to which all expected runs have a run or a record; 0: not checked.
	Compared Instant
}

// NextRev returns the revision after old, made at now, and its time. Neither goes back if the clock does.
func NextRev(old int64, oldAt, now time.Time) (rev int64, at time.Time) {
	at = now
	if at.Before(oldAt) {
		at = oldAt
	}
	return max(Millis(at), old+1), at
}

// Advance updates the planning fields of a job after its messages are on the delay queue. It applies only if Rev and Next,
// and for a fixed delay Tail, are as they were read.
type Advance struct {
	Job  JobID
	Rev  int64
	Next Instant
	Tail RunID
	// The new values.
	NewNext      Instant
	NewPlanAt    Instant
	NewSeq       int64
	NewPartition int
	NewTail      RunID
	NewState     JobState
	// NewRev, NewRevAt and Change are set if the advance ends a pause or begins a pause without an end. The change
	// record is stored together with the advance.
	NewRev      int64
	NewRevAt    time.Time
	NewPauseBy  string
	NewPauseWhy string
	Change      *Change
	PlanError   string
	// NewCompared is the new value of Compared; 0: nothing was compared, and Compared stays.
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

// PausedAt reports whether s is paused at t. A pause with an end is over at its end, even before a tick stores this.
func (s *Sched) PausedAt(t time.Time) bool {
	return s.State == Paused && (s.PauseUntil == 0 || t.Before(s.PauseUntil.Time()))
}

func (s Sched) Stay() Advance {
	return Advance{Job: s.ID, Rev: s.Rev, Next: s.Next, Tail: s.Tail,
		NewNext: s.Next, NewPlanAt: s.PlanAt, NewSeq: s.Seq, NewPartition: s.Partition, NewTail: s.Tail,
		NewState: s.State, PlanError: s.PlanError}
}

// DueItem is one entry of the due index, ordered by (PlanAt, Job, Run): a job or, if Run is set, a run that waits for
// its time.
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

// Tombstone is the rest of a deleted job, kept while a message of the job can be on the delay queue.
type Tombstone struct {
	Job   JobID
	App   string
	Name  string
	Rev   int64
	RevAt time.Time
}

// PartitionOf returns which of the n partitions of the due index contains the job.
func PartitionOf(job JobID, n int) int {
	if n <= 1 {
		return 0
	}
	// The multiplication spreads neighbors, because imports number jobs consecutively.
	return int(uint32(job) * 2654435761 >> 8 % uint32(n))
}
