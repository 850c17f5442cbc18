// Package manage changes what there is: jobs and apps are made, edited, paused,
// resumed, deleted, by people, by programs and by files.
package manage

import (
	"cmp"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/plan"
)

// Manage makes changes. It has no loop and no state of its own: any number of
// them may work on one store.
type Manage struct {
	store  Store
	ring   Ring
	finish Finisher
	ask    *ask.Ask
	plans  plan.Options
	o      Options

	declared declared
}

// change is the record of a change, now, of an app, a channel or the global item: its ID is the
// revision that follows the one read.
func (m *Manage) change(actor core.Actor, verb string, rev int64) core.Change {
	now := m.ask.Stamp()
	return actor.Did(core.Change{ID: max(core.Millis(now), rev+1), At: now, Verb: verb})
}

// Options of a Manage.
type Options struct {
	// ResumeAhead is how long before its effect the end of a pause of an app or of
	// everything is written: a fifth of it for the store, the rest for clocks that
	// differ. 5 s.
	ResumeAhead time.Duration
	// Room is for how long a save waits while the store has room for nothing of it,
	// 10 s; where it has a little now and then, for twice that in all. Backoff is the
	// longest first wait in between, 100 ms; each is up to twice as long as the one
	// before, and a tenth of Room at most.
	Room, Backoff time.Duration
	// Command says why a command is not run here; nil: none is, anywhere.
	Command func(*core.Command) error
	// Notifier sends to channels; nil: none is taken.
	Notifier Notifier
	// TestEvery is how long one channel is not tested again: 10 s.
	TestEvery time.Duration
}

// New makes a Manage on a store. What is due soon is planned at once, by the rules
// of the ticks.
func New(store Store, ring Ring, f Finisher, q *ask.Ask, plans plan.Options, o Options) *Manage {
	o.ResumeAhead = cmp.Or(o.ResumeAhead, 5*time.Second)
	o.Room = cmp.Or(o.Room, 10*time.Second)
	o.Backoff = cmp.Or(o.Backoff, 100*time.Millisecond)
	if o.Command == nil {
		o.Command = func(*core.Command) error {
			return core.Invalid("command", "", "commands run on the server's machine, and this deployment has none, as on AWS: run commands on "+
				"your own machines with tickring exec, as the handler of an executor")
		}
	}
	o.TestEvery = cmp.Or(o.TestEvery, 10*time.Second)
	return &Manage{store: store, ring: ring, finish: f, ask: q, plans: plans, o: o,
		declared: declared{of: map[string]counted{}}}
}

// checkWhy bounds the reason that a person gives.
// CheckWhy refuses a reason that a change record would not have room for.
func CheckWhy(why string) error {
	if utf8.RuneCountInString(why) > 1000 || !utf8.ValidString(why) {
		return core.Invalid("reason", why, "at most 1000 characters are allowed")
	}
	return nil
}

// expect judges what the owner of a job or app expected of it as it is: of its revision,
// and that no other set has it. Where there is none its revision is 0.
func expect(what string, want *int64, found bool, rev int64, set, of string) error {
	switch {
	case want == nil:
	case !found && *want != 0:
		return core.Errorf(core.CodeConflict, "%s was already deleted", what)
	case found && *want == 0:
		return core.Errorf(core.CodeConflict, "%s already exists", what)
	case *want != rev:
		return core.Errorf(core.CodeConflict, "%s was changed in the meantime: the revision is %d, not %d", what, rev, *want)
	}
	if of != "" && set != "" && of != set {
		return core.Errorf(core.CodeConflict, "%s belongs to the set %q, not to %q", what, of, set)
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

// JobSpec is a job as its owner wants it. Of Def, ID, Declared, Created, and the numbers in After are ignored:
// the app and the name say which job is meant. What is left out gets the
// default, whatever the job had before.
type JobSpec struct {
	Def      core.Def
	Schedule core.Schedule
	Misfire  core.Misfire
	Grace    time.Duration
	Deadline time.Duration
	// Source is that of Def.Script, where there is one. Left out, Def.Script.Hash names one
	// that is stored. What Def.Script says of a version is ignored.
	Source string
	// Paused says whether it is to be paused; nil leaves the live state alone.
	Paused *bool
	// IfRev refuses the edit as a conflict unless the job has this revision; 0:
	// unless there is no such job.
	IfRev *int64
	// Declared says that code asks, which brings its jobs along: refused as a
	// conflict if anybody else made, changed or deleted the job, but see GiveBack.
	Declared bool
	// MostDeclared refuses to make the job where code has declared as many of its app, about;
	// 0: there is no bound.
	MostDeclared int
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
	// WaitForExecutor and Notify are as of core.App.
	WaitForExecutor time.Duration
	Notify          core.Notify
	Overlap         core.Overlap
	Limits          core.Limits
	Call            *core.Call // core.AsStored in it leaves a secret as it is
	IfRev           *int64
}

// AppResult is what became of an AppSpec.
type AppResult struct {
	Name   string
	Rev    int64
	Change string // Created, Updated, Unchanged
}

// PruneRequest says which set is pruned, and what of it stays.
type PruneRequest struct {
	Set string
	// Stay are the jobs (app/name) and apps that stay, and what is of no job (""), with the Notify that each has then.
	Stay map[string]core.Notify
	// Channels are the names of those that stay.
	Channels []string
	DryRun   bool // list only
	After    core.JobID
}

// PruneResult is what was deleted, or would be.
type PruneResult struct {
	Channels []AppPrune   // which go with the apps
	Jobs     []SaveResult // Deleted or Refused
	Apps     []AppPrune
	Next     core.JobID // After of the next page; 0 there is none
}

// AppPrune is one app or channel of a PruneResult.
type AppPrune struct {
	Name   string
	Change string // Deleted or Refused
	Err    error
}
