// Package manage is what people and programs ask for: jobs and apps made,
// edited, paused, resumed, deleted; runs triggered, cancelled, killed; and the
// questions: what there is, what ran, what comes, and whether all of it adds up.
package manage

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
)

// Manage holds the use cases. It has no loop and no state of its own: any
// number of them may work on one store.
type Manage struct {
	store  Store
	ring   Ring
	finish Finisher
	killer Killer
	o      Options
}

// Finisher ends runs that were not sent; *finish.Finish does.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
}

// Options of a Manage.
type Options struct {
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Plan is how a tick of this deployment plans: what is due soon is planned
	// at once by the same rules.
	Plan plan.Options
	// Reachable says why nothing here can send to an address of an app or a
	// trigger, whatever its form; nil sends to all.
	Reachable func(address string) error
	// Allowed judges an address that a trigger names, beyond its form; nil allows all.
	Allowed func(app *core.App, address string) error
	// ResumeAhead is how long before its effect the end of a pause of an app or of
	// everything is written: a fifth of it for the store, the rest for clocks that
	// differ. 5 s.
	ResumeAhead time.Duration
	// Expiry is how long a heartbeat counts; core.BeatExpiry if 0.
	Expiry time.Duration
	// Patience is how late a fire may be on its way before that is worth a
	// question: 15 min.
	Patience time.Duration
	// Room is for how long a save waits while the store has room for nothing of it,
	// 10 s; where it has a little now and then, for twice that in all. Backoff is the
	// longest first wait in between, 100 ms; each is up to twice as long as the one
	// before, and a tenth of Room at most.
	Room, Backoff time.Duration
	// PageFor is after how long a question that walks over jobs ends its page: 10 s,
	// so that an answer comes within the 29 s that an HTTP API waits, however slow
	// the last calls of the store were.
	PageFor time.Duration
	// Together is how many jobs such a question looks at side by side: 16.
	Together int
	// KeepRuns is what the store's sweep is told in place of each job's
	// keep.days; 0 where it is told nothing.
	KeepRuns time.Duration
}

// New makes the use cases on a store.
func New(store Store, ring Ring, f Finisher, killer Killer, o Options) *Manage {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ResumeAhead == 0 {
		o.ResumeAhead = 5 * time.Second
	}
	if o.Expiry == 0 {
		o.Expiry = core.BeatExpiry
	}
	if o.Patience == 0 {
		o.Patience = 15 * time.Minute
	}
	if o.Room == 0 {
		o.Room = 10 * time.Second
	}
	if o.Backoff == 0 {
		o.Backoff = 100 * time.Millisecond
	}
	if o.PageFor == 0 {
		o.PageFor = 10 * time.Second
	}
	if o.Together == 0 {
		o.Together = 16
	}
	return &Manage{store: store, ring: ring, finish: f, killer: killer, o: o}
}

// Actor is who asks for a change; it goes into the change record.
type Actor struct{ Name string }

func (a Actor) check() error {
	if a.Name == "" || len(a.Name) > 128 || !utf8.ValidString(a.Name) {
		return core.Invalid("actor", a.Name, "who asks is named in 1 to 128 bytes")
	}
	return nil
}

// now is the clock in what is stored: UTC, whole milliseconds.
func (m *Manage) now() time.Time { return m.o.Now().UTC().Truncate(time.Millisecond) }

// tries bounds how often a change is begun again because somebody else was
// faster or an answer was lost.
const tries = 4

// batch is how many things one call of the store is asked for.
const batch = 1000

// passing is a store's answer that says: try again.
func passing(err error) error {
	var e *core.Error
	if errors.As(err, &e) {
		return e
	}
	if bad, _ := core.Besides(err); bad != nil {
		return &core.Error{Code: core.CodeRefused, Reason: bad.Error(), Err: err}
	}
	return &core.Error{Code: core.CodeUnavailable, Reason: "the store did not answer: try again", Err: err}
}

// unread is the answer to a strong read that left something out.
func unread[T any](left []T, err error) error {
	if err == nil && len(left) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return passing(err)
	}
	return nil
}

// checkWhy bounds the reason that a person gives.
func checkWhy(why string) error {
	if utf8.RuneCountInString(why) > 1000 || !utf8.ValidString(why) {
		return core.Invalid("reason", why, "at most 1000 characters are allowed")
	}
	return nil
}

// What became of one thing that was to be changed.
const (
	Created   = "created"
	Updated   = "updated"
	Unchanged = "unchanged"
	Deleted   = "deleted"
	Refused   = "refused"
)

// MaxSave is how many jobs one Save takes.
const MaxSave = 100_000

// JobSpec is a job as its owner wants it. Of Def, ID, Declared and Created are ignored:
// the app and the name say which job is meant. What is left out gets the
// default, whatever the job had before.
type JobSpec struct {
	Def      core.Def
	Schedule core.Schedule
	Misfire  core.Misfire
	Grace    time.Duration
	Deadline time.Duration
	// Paused says whether it is to be paused; nil leaves the live state alone.
	Paused *bool
	// IfRev refuses the edit as a conflict unless the job has this revision; 0:
	// unless there is no such job.
	IfRev *int64
	// Declared says that code asks, which brings its jobs along: refused as a
	// conflict if anybody else made, changed or deleted the job, but see GiveBack.
	Declared bool
}

// SaveResult is what became of one JobSpec.
type SaveResult struct {
	App, Name string
	ID        core.JobID // 0 if refused before there was one
	Rev       int64
	Change    string // Created, Updated, Unchanged, Refused
	Withheld  bool   // deleted, and code that declares it does not make it until it is given back
	Err       error  // of Refused: a *core.Error; nothing of this job was changed
}

// Target is what is paused or resumed: one of a job, an app, or everything.
type Target struct {
	Job string // app/name or number
	App string
	All bool
}

// StateResult is what became of a pause or resume.
type StateResult struct {
	Changed bool // false: it was so already
	// State is the state of the job; of an app or everything Paused or Started.
	State core.JobState
	Rev   int64
	// Until is when the pause ends by itself, zero never; of an app or everything
	// that was resumed from when on it is.
	Until time.Time
}

// PauseRequest is why, and until when.
type PauseRequest struct {
	Why   string
	Until *time.Time
	IfRev *int64 // of a job: as in JobSpec
}

// AppSpec is an app as its owner wants it.
type AppSpec struct {
	Name      string
	Title     string
	Set       string
	Token     *string // nil leaves the token as it is
	Executors []string
	Allow     []string // as 10.0.0.0/8, or a single address
	IfRev     *int64
}

// AppResult is what became of an AppSpec.
type AppResult struct {
	Name   string
	Rev    int64
	Change string // Created, Updated, Unchanged
}

// PruneRequest says which set is pruned, and what of it stays.
type PruneRequest struct {
	Set    string
	Jobs   []string // app/name of those that stay
	Apps   []string // names of those that stay
	DryRun bool     // list only
	After  core.JobID
}

// PruneResult is what was deleted, or would be.
type PruneResult struct {
	Jobs []SaveResult // Deleted or Refused
	Apps []AppPrune
	Next core.JobID // After of the next page; 0 there is none
}

// AppPrune is one app of a PruneResult.
type AppPrune struct {
	Name   string
	Change string // Deleted or Refused
	Err    error
}

// TriggerRequest asks for one run by hand or by API.
type TriggerRequest struct {
	Job       string     // app/name or number
	Cause     core.Cause // manual (if empty) or api
	Params    *string    // in place of the job's
	Addresses []string   // in place of the app's executors
	At        *time.Time // later than now; nil is now
	// Key: the same key of a job answers the same run, until a day after it has
	// ended; with other params, addresses or retries it is refused.
	Key     string
	Retries *int // in place of the job's retry.max
}

// TriggerResult is the run that a trigger made.
type TriggerResult struct {
	Run      core.Run
	Existing bool // the key was used before: this is the run it made then
	Waiting  bool // it is not yet on its way: its time is to come
}

// TriggerChange is what a waiting trigger becomes; what is nil stays.
type TriggerChange struct {
	At        *time.Time
	Params    *string
	Addresses *[]string // of no address: the app's executors
}

// RunRef names a run: by ID, as app/name@2026-11-20T02:30 in the job's zone,
// or, of a trigger that waits, by its job and key as app/name#key.
type RunRef = string

// StopResult is what became of a cancel or kill.
type StopResult struct {
	Changed   bool
	Job       core.JobID
	Cancelled []core.RunID // not sent yet, now skipped: cancelled
	Killed    []core.RunID // marked as killed; they end when their executor says so
	Sent      []KillAnswer
	// Partial says that more runs are open than one kill looks at, the oldest 10,000:
	// it is to be made again once these have ended.
	Partial bool
	Next    string // After of the next page of a kill; empty: all were told
}

// KillAnswer is what an address said to the kill. No error is no proof that
// the run ended.
type KillAnswer struct {
	Address string
	Err     error
}

// JobFilter says which jobs; the zero value is all.
type JobFilter struct {
	App    string
	Labels map[string]string // all of them; an empty value means that the label is there
	States []core.JobState
	Set    string
	Text   string     // a part of the name, title or handler, in any case
	After  core.JobID // go on after this number
	Limit  int        // at most 1000; 0 is 100
	Last   bool       // with the last run of each
}

// JobPage is one page of jobs in the order of their numbers.
type JobPage struct {
	Jobs []core.Job
	Last []*core.Run // of each of Jobs, nil of one that has none; where they were asked for
	// Failed is the jobs that cannot be read, and why: they are not in Jobs.
	Failed []string
	Next   core.JobID // After of the next page; 0 there is none
}

// RunView is one run, or what there is in place of one.
type RunView struct {
	Run core.Run
	// Skip is set when there is no run but a record that covers the instant:
	// then of Run only ID, App, At, State and Reason are set.
	Skip *core.Skip
	Job  *core.Job // nil when it was deleted
}

// RunFilter says which runs; the zero value is all, newest first.
type RunFilter struct {
	Job    string // app/name or number
	App    string // where Job is empty
	States []core.State
	Causes []core.Cause
	From   time.Time // instants from, of one job only
	To     time.Time // instants up to
	Limit  int       // at most 1000; 0 is 100
	After  string    // Next of the page before
}

// RunPage is one page of runs, newest first.
type RunPage struct {
	Runs []core.Run
	// Skips are the skipped records that reach into the span of this page, when
	// one job was asked for.
	Skips []core.Skip
	Next  string // After of the next page; empty there is none
	// Jobs are those of Runs, as far as they were not deleted.
	Jobs map[core.JobID]*core.Job
}

// Coming is one instant to come.
type Coming struct {
	At   core.Instant
	Job  core.JobID
	App  string
	Name string
	// Timezone is that of the job.
	Timezone string
	Cause    core.Cause
	Run      core.RunID // its ID already
}

// UpcomingResult is what comes, the earliest first.
type UpcomingResult struct {
	Coming []Coming
	// Partial says that more comes, of the jobs that were looked at, or that some cannot be read.
	Partial bool
	Next    core.JobID // After of the next page, which has the instants of further jobs; 0 there is none
}

// Preview is what a schedule means.
type Preview struct {
	Words string
	Next  []core.Instant
	Ends  bool // there is no instant after the last of Next
	Traps []string
}

// ExecutorView is one executor as people see it.
type ExecutorView struct {
	core.Executor
	Live bool
	Used bool // false for a registration to an app with fixed addresses
}

// AuditReport is what was demanded of one job in a span, and what became of it.
type AuditReport struct {
	Job       core.JobID
	App, Name string
	From, To  core.Instant // from < instant <= to
	AuditCount
	// Missing are the first unaccounted instants, Waiting the first overdue ones,
	// at most 100 of each.
	Missing []core.Instant
	Waiting []core.Instant
	// Behind is when the oldest message on the ring was due, or may have been, if
	// something that is unaccounted for was due after it: it may be on its way all
	// the same.
	Behind time.Time
	// Next is where to go on when the span held more than one report takes:
	// From of the next; 0 all was looked at.
	Next core.Instant
	// Partial says that change records of the span were no longer there.
	Partial bool
	// Failed is why the job could not be looked at, of which the rest says nothing.
	Failed string
	again  []core.Fire // of what is to be sent again
	below  core.RunID  // of its runs with numbers those below it are still to be looked at; 0 none
}

// AuditCount is the sum over some instants.
type AuditCount struct {
	Demanded int64
	OnTime   int64
	Late     int64 // sent more than OnTime after its slot
	Worst    time.Duration
	Skipped  map[core.Reason]int64
	Pending  int64
	// Overdue is what is pending for longer than Options.Patience: a run that
	// could not be sent, or an instant that no tick has planned.
	Overdue int64
	// OutOfReach is what has neither a run nor a record, and is so old that both
	// may be kept no more.
	OutOfReach  int64
	Unaccounted int64
}

// Well reports whether all that was demanded and can be known came about, or is
// about to.
func (c *AuditCount) Well() bool { return c.Unaccounted == 0 && c.Overdue == 0 }

// AuditSum is the sum over all jobs.
type AuditSum struct {
	From, To core.Instant
	Jobs     int
	AuditCount
	// Missing are jobs with unaccounted or overdue instants, at most 100.
	Missing []AuditReport
	Failed  []string  // jobs that could not be looked at, and why, at most 100: they are in no count
	Behind  time.Time // as in AuditReport
	Partial bool
	Next    string // After of the next page; empty all was looked at
}

// OnTime is how late a run may be sent to count as on time.
const OnTime = time.Second
