// Package manage changes jobs, apps and channels: users, code and files create, edit, pause,
// resume and delete them.
package manage

import (
	"cmp"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
)

// Manage makes changes. It has no loop and keeps nothing that cannot be read again, so any number of Manages can share a
// store.
type Manage struct {
	store  Store
	ring   Ring
	finish Finisher
	ask    *query.Queries
	plans  plan.Options
	o      Options

	declared declared
}

// change returns the record of a change of an app, a channel or the global item at the current
// time. Its ID is the revision after rev.
func (m *Manage) change(actor core.Actor, verb string, rev int64) core.Change {
	now := m.ask.Stamp()
	return actor.Did(core.Change{ID: max(core.Millis(now), rev+1), At: now, Verb: verb})
}

// Options configures a Manage. A zero field means its default.
type Options struct {
	// ResumeAhead is the delay until the end of a pause of an app or of everything takes effect. A fifth of it is for the
	// store, the rest for clock skew. Default: 5 s.
	ResumeAhead time.Duration
	// Room is how long a save waits for a throttled store; default: 10 s. If the store accepts some jobs, the limit is twice
	// Room in total. Backoff limits the first wait; default: 100 ms. This limit doubles with each wait, up to a tenth of
	// Room.
	Room, Backoff time.Duration
	// Command returns why a command cannot run here, or nil. A nil Command rejects all commands.
	Command func(*core.Command) error
	// Notifier sends to channels; nil rejects all channels.
	Notifier Notifier
	// TestEvery is the minimum time between two tests of a channel. Default: 10 s.
	TestEvery time.Duration
}

// New returns a Manage. It plans jobs that are due soon at once, by the rules of the ticks.
func New(store Store, ring Ring, f Finisher, q *query.Queries, plans plan.Options, o Options) *Manage {
	o.ResumeAhead = cmp.Or(o.ResumeAhead, 5*time.Second)
	o.Room = cmp.Or(o.Room, 10*time.Second)
	o.Backoff = cmp.Or(o.Backoff, 100*time.Millisecond)
	if o.Command == nil {
		o.Command = func(*core.Command) error {
			return core.Invalid("command", "", "this deployment has no server machine that can run commands: run the command "+
				"on your own machine, as a handler of `tickring exec`")
		}
	}
	o.TestEvery = cmp.Or(o.TestEvery, 10*time.Second)
	return &Manage{store: store, ring: ring, finish: f, ask: q, plans: plans, o: o,
		declared: declared{of: map[string]counted{}}}
}

// CheckWhy rejects a reason that is too long for a change record.
func CheckWhy(why string) error {
	if utf8.RuneCountInString(why) > 1000 || !utf8.ValidString(why) {
		return core.Invalid("reason", why, "at most 1000 characters are allowed")
	}
	return nil
}

// expect checks the revision and the set that the owner expects of a job, app or channel. The
// revision of one that does not exist is 0.
func expect(what string, want *int64, found bool, rev int64, set, of string) error {
	switch {
	case want == nil:
	case !found && *want != 0:
		return core.Errorf(core.CodeConflict, "%s was already deleted", what)
	case found && *want == 0:
		return core.Errorf(core.CodeConflict, "%s already exists", what)
	case *want != rev:
		return core.Errorf(core.CodeConflict, "%s was changed in the meantime: reload it and try again", what)
	}
	if of != "" && set != "" && of != set {
		return core.Errorf(core.CodeConflict, "%s belongs to the set %q, not to %q", what, of, set)
	}
	return nil
}

// Results of one change.
const (
	Created   = "created"
	Updated   = "updated"
	Unchanged = "unchanged"
	Deleted   = "deleted"
	Refused   = "refused"
)

// MaxSave is the maximum number of jobs in one Save.
const MaxSave = 100_000

// A JobSpec is a job as its owner wants it. App and name identify the job. Save ignores ID,
// Declared, Created and the IDs in After of Def. Unset fields get their defaults, whatever the
// job had before.
type JobSpec struct {
	Def      core.Def
	Schedule core.Schedule
	Misfire  core.Misfire
	Grace    time.Duration
	Deadline time.Duration
	// Source is the source of Def.Script. If it is empty, Def.Script.Hash names a stored source.
	// Version fields of Def.Script are ignored.
	Source string
	// Paused pauses or starts the job; nil keeps the live state.
	Paused *bool
	// IfRev is the revision that the job must have, otherwise the edit is a conflict; 0: the job must not exist.
	IfRev *int64
	// Declared means that code declares the job. If a user created, changed or deleted the job, the result is a conflict
	// until GiveBack.
	Declared bool
	// MostDeclared is about the maximum number of jobs of the app that code can declare; 0: no
	// limit.
	MostDeclared int
}

// SaveResult is the result of one JobSpec.
type SaveResult struct {
	App, Name string
	ID        core.JobID // 0 if rejected before it had one
	Rev       int64
	Change    string // Created, Updated, Unchanged, Refused
	Withheld  bool   // deleted and suppressed: code cannot create it until GiveBack
	Err       error  // if Refused: a *core.Error; the job was not changed
}

// A Target is one job, one app, or everything, to pause or resume.
type Target struct {
	Job string // app/name or number
	App string
	All bool
}

// StateResult is the result of a pause or resume.
type StateResult struct {
	Changed bool // false: it already had the wanted state
	// State is the state of the job; for an app or everything it is Paused or Started.
	State core.JobState
	Rev   int64
	// Until is when the pause ends automatically; zero means never. After a resume of an app or of everything, it is when
	// the resume takes effect.
	Until time.Time
}

// A PauseRequest is the reason and the end of a pause.
type PauseRequest struct {
	Why   string
	Until *time.Time
	IfRev *int64 // for a job: as in JobSpec
}

// An AppSpec is an app as its owner wants it.
type AppSpec struct {
	Name      string
	Title     string
	Set       string
	Token     *string // nil keeps the token
	Executors []string
	Allow     []string // a range such as 10.0.0.0/8, or a single address
	// WaitForExecutor and Notify are as in core.App.
	WaitForExecutor time.Duration
	Notify          core.Notify
	Overlap         core.Overlap
	Limits          core.Limits
	Call            *core.Call // core.AsStored in it keeps the stored secret
	IfRev           *int64
}

// AppResult is the result of an AppSpec.
type AppResult struct {
	Name   string
	Rev    int64
	Change string // Created, Updated, Unchanged
}

// A PruneRequest names the set to prune and the objects that stay.
type PruneRequest struct {
	Set string
	// Stay has the jobs (app/name) and apps that stay, and "" for the notifications without a job, each with its Notify
	// after the prune.
	Stay map[string]core.Notify
	// Channels has the names of the channels that stay.
	Channels []string
	DryRun   bool // list only
	After    core.JobID
}

// PruneResult lists the deleted objects, or in a dry run the objects to delete.
type PruneResult struct {
	Channels []AppPrune   // deleted with the apps
	Jobs     []SaveResult // Deleted or Refused
	Apps     []AppPrune
	Next     core.JobID // After of the next page; 0: this was the last page
}

// AppPrune is the result of one app or channel.
type AppPrune struct {
	Name   string
	Change string // Deleted or Refused
	Err    error
}
