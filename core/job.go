package core

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// WithSecrets returns a copy of d in which each secret that is set is replaced by turn(secret).
func (d Def) WithSecrets(turn func(secret string) string) Def {
	d.Call, d.Command = d.Call.withSecrets(turn), d.Command.withSecrets(turn)
	return d
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

// JobState is the state of a job. The job's schedule applies only in state Started.
type JobState string

const (
	Started JobState = "started"
	Paused  JobState = "paused"
	Ended   JobState = "ended" // the job's schedule has no further scheduled time
)

var JobStates = []JobState{Started, Paused, Ended}

// Job is a task and its schedule. A job is stored in two parts. Def has the settings by the job's owner. Sched is the
// small part that the planner reads and writes.
type Job struct {
	Def   Def
	Sched Sched
}

// Name returns the full name of a job: app/name.
func (j *Job) Name() string { return j.Def.App + "/" + j.Def.Name }

// Def is the definition of a job by its owner. The schedule and the related settings are in Sched.
type Def struct {
	ID       JobID             `json:"id"`
	App      string            `json:"app"`
	Name     string            `json:"name"`
	Title    string            `json:"title,omitempty"`
	Author   string            `json:"author,omitempty"` // contact for questions
	Labels   map[string]string `json:"labels,omitempty"`
	Set      string            `json:"set,omitempty"` // name of the manifest that created the job
	Handler  string            `json:"handler"`
	Script   *Script           `json:"script,omitempty"` // script that the executor runs instead of a handler
	Params   string            `json:"params,omitempty"`
	Template bool              `json:"template,omitempty"` // Params is a Template with placeholders
	Call     *Call             `json:"call,omitempty"`     // settings for `call:` executors; they take precedence over App.Call
	Command  *Command          `json:"command,omitempty"`  // shell command that the server runs instead of a handler
	Route    Route             `json:"route"`
	// BroadcastFail is set only if Route is RouteBroadcast.
	BroadcastFail BroadcastFail `json:"broadcastFail,omitempty"`
	Block         Block         `json:"block"`
	Timeout       time.Duration `json:"timeout,omitempty"` // 0: none
	Retry         Retry         `json:"retry"`
	LostAfter     time.Duration `json:"lostAfter"`
	// WaitForExecutor is how long a run waits for an available executor, counted from its due time; 0: the app's
	// value applies.
	WaitForExecutor time.Duration `json:"waitForExecutor,omitempty"`
	Overlap         Overlap       `json:"overlap,omitzero"`
	PauseAfter      int           `json:"pauseAfter,omitempty"` // number of consecutive failures that pause the job; 0: never
	Keep            Keep          `json:"keep"`
	Notify          Notify        `json:"notify,omitzero"`
	// After lists the parents of the job. The job runs after runs of its parents.
	After []Parent `json:"after,omitempty"`
	// Within turns the parents into a join: the job runs once after all parents, if all of them end within this
	// duration. 0 means no join: the job runs after each parent.
	Within time.Duration `json:"within,omitempty"`
	// Children lists the jobs that run after this job, ordered by job ID. If a child's After changes, the store
	// updates Children in the same write. Children is not part of the owner's definition, and its changes do not
	// change the job's revision.
	Children []Child   `json:"children,omitempty"`
	Declared Declared  `json:"declared,omitempty"`
	Created  time.Time `json:"created"`
}

// WaitsUntil returns when a run stops waiting for an executor, at the latest at the run's deadline. The parameter slot is
// the run's due time. The job's WaitForExecutor takes precedence over the app's. If the run does not wait, WaitsUntil
// returns the due time.
func (j *Job) WaitsUntil(app *App, slot Instant) time.Time {
	wait := cmp.Or(j.Def.WaitForExecutor, app.WaitForExecutor)
	if d := j.Sched.Deadline; d > 0 {
		wait = min(wait, d)
	}
	return slot.Time().Add(wait)
}

// Overlap returns the concurrency limit of the job's runs: the job's own limit or, if the job has none, the app's
// default. For a broadcast job, Full of the result is never FullReplace but FullQueue, because broadcasts cannot be
// replaced.
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

// Declared shows whether code or a user last changed a job that code declared. Empty means that code never declared
// the job.
type Declared string

const (
	DeclaredCode  Declared = "code"  // code changed the job last, and declarations can change the job
	DeclaredTaken Declared = "taken" // a user changed the job last, and declarations cannot change the job
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

// Sched is the part of a job that the planner reads and writes.
type Sched struct {
	ID       JobID
	App      string
	State    JobState
	Rev      int64     // time of the last change of schedule or state, in milliseconds since 1970; grows with each change
	RevAt    time.Time // time of the last change of schedule or state; the revision applies to scheduled times after RevAt
	Schedule Schedule
	Misfire  Misfire
	Grace    time.Duration
	Deadline time.Duration // 0: none
	// Next is the first scheduled time for which no message is known to be on the delay queue; 0: the schedule has no
	// such time.
	Next Instant
	// PlanAt is when the ticker must plan the job next; 0: the job is not in the due index. If a paused job resumes
	// automatically, PlanAt is not later than PauseUntil.
	PlanAt    Instant
	Partition int
	Seq       int64 // number of the next scheduled run, used by RouteRound and RouteLRU
	// Tail is the first run of the open retry chain of a job with a fixed delay; 0: no chain is open.
	Tail       RunID
	PauseUntil Instant // when a paused job resumes automatically; 0: never
	PauseBy    string
	PauseWhy   string
	// PlanError is the reason why the job could not be planned the last time; empty: planning succeeded.
	PlanError string
	// Compared is a scheduled time. A check found that each expected time up to Compared has a run or a recorded
	// skip; 0: not checked.
	Compared Instant
}

// NextRev returns the revision for a change at the time `now`, and the time of the revision. The revision is larger than
// the revision `old`, and its time is not before oldAt, even if the clock was set back.
func NextRev(old int64, oldAt, now time.Time) (rev int64, at time.Time) {
	at = now
	if at.Before(oldAt) {
		at = oldAt
	}
	return max(Millis(at), old+1), at
}

// Advance updates the planning fields of a job after messages with the planned runs are on the delay queue. The store
// rejects the Advance unless the stored Rev and Next, and for a fixed delay Tail, equal the fields of the Advance.
type Advance struct {
	Job  JobID
	Rev  int64
	Next Instant
	Tail RunID
	// NewNext to NewState are the new values of the job's fields.
	NewNext      Instant
	NewPlanAt    Instant
	NewSeq       int64
	NewPartition int
	NewTail      RunID
	NewState     JobState
	// NewRev and NewRevAt are set if the Advance ends a pause, or begins a pause without an end.
	NewRev      int64
	NewRevAt    time.Time
	NewPauseBy  string
	NewPauseWhy string
	PlanError   string
	// NewCompared is the new value of Compared; 0: Compared does not change.
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

// PausedAt reports whether the job is paused at the time t. A pause with an end is over at its end, even if State is
// still Paused.
func (s *Sched) PausedAt(t time.Time) bool {
	return s.State == Paused && (s.PauseUntil == 0 || t.Before(s.PauseUntil.Time()))
}

func (s Sched) Stay() Advance {
	return Advance{Job: s.ID, Rev: s.Rev, Next: s.Next, Tail: s.Tail,
		NewNext: s.Next, NewPlanAt: s.PlanAt, NewSeq: s.Seq, NewPartition: s.Partition, NewTail: s.Tail,
		NewState: s.State, PlanError: s.PlanError}
}

// DueItem is one entry of the due index, ordered by (PlanAt, Job, Run). If Run is 0, the job must be planned at
// PlanAt. Otherwise, the waiting run must be put on the delay queue at PlanAt.
type DueItem struct {
	PlanAt    Instant
	Job       JobID
	Run       RunID
	Partition int
}

func (d DueItem) Less(o DueItem) bool {
	return cmp.Or(cmp.Compare(d.PlanAt, o.PlanAt), cmp.Compare(d.Job, o.Job), cmp.Compare(d.Run, o.Run)) < 0
}

// Tombstone is the record of a deleted job. The tombstone is kept while a message of the job can still be on the
// delay queue.
type Tombstone struct {
	Job   JobID
	App   string
	Name  string
	Rev   int64
	RevAt time.Time
}

// PartitionOf returns the number, from 0 to n-1, of the due index partition that contains the job.
func PartitionOf(job JobID, n int) int {
	if n <= 1 {
		return 0
	}
	// The multiplication spreads neighbors, because imports number jobs consecutively.
	return int(uint32(job) * 2654435761 >> 8 % uint32(n))
}
