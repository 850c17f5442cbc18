// Package manage creates, changes, pauses, resumes and deletes jobs, apps and channels, on request of users, code and manifests.
package manage

import (
	"cmp"
	"context"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/store"
)

// Manage changes jobs, apps, channels and settings for users. Several Manage values can share one store.
type Manage struct {
	store  *store.Store
	finish *finish.Finish
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

// record stores the record of a change of the global item, which is already stored. It tries budget.Tries times.
func (m *Manage) record(ctx context.Context, c core.Change) {
	for range budget.Tries {
		if m.store.PutChanges(ctx, []core.Change{c}) == nil || ctx.Err() != nil {
			return
		}
	}
}

// Options configures a Manage. A zero field means the default.
type Options struct {
	// ResumeAhead is the delay from a user's resume of an app, or of all jobs, until the pause ends. A fifth of
	// ResumeAhead is the time limit for the store, and the rest allows for clock skew. Default: 5 s.
	ResumeAhead time.Duration
	// Backoff is the maximum of the first wait of a save for an overloaded store; default: 100 ms. The maximum doubles
	// with each wait, up to a tenth of saveRoom.
	Backoff time.Duration
	// Command returns an error if the server cannot run a command. A nil function rejects all commands.
	Command func(*core.Command) error
	// Notifier sends test messages to channels; nil: all channels are rejected.
	Notifier Notifier
}

// New returns a Manage. When a job changes, Manage immediately plans runs that are due soon, with the ticker's options in plans.
func New(s *store.Store, f *finish.Finish, q *query.Queries, plans plan.Options, o Options) *Manage {
	o.ResumeAhead = cmp.Or(o.ResumeAhead, 5*time.Second)
	o.Backoff = cmp.Or(o.Backoff, 100*time.Millisecond)
	if o.Command == nil {
		o.Command = func(*core.Command) error {
			return core.Invalid("command", "", "this deployment has no server machine that can run commands: run the command "+
				"on your own machine, as a handler of `tickring exec`")
		}
	}
	return &Manage{store: s, finish: f, ask: q, plans: plans, o: o,
		declared: declared{of: map[string]counted{}}}
}

// CheckWhy returns an error if a reason is too long for a change record.
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

// Results of a change to one job, app or channel.
const (
	Created   = "created"
	Updated   = "updated"
	Unchanged = "unchanged"
	Deleted   = "deleted"
	Refused   = "refused"
)

// MaxSave is the maximum number of jobs in one call of Save.
const MaxSave = 100_000

// A JobSpec is a request to create or change a job. The app and the name in Def identify the job. Save ignores ID,
// Declared, Created and the IDs in After of Def. Unset fields get their defaults and do not keep the stored values.
type JobSpec struct {
	Def      core.Def
	Schedule core.Schedule
	Misfire  core.Misfire
	Grace    time.Duration
	Deadline time.Duration
	// Source is the source of Def.Script. If Source is empty, Def.Script.Hash identifies a stored source. The fields
	// of Def.Script about its version are ignored.
	Source string
	// Paused pauses the job if true, and starts the job if false. If Paused is nil, the state of the job does not change.
	Paused *bool
	// IfRev is the revision that the stored job must have, otherwise the result is a conflict. 0 means that the job
	// must not exist, and nil allows all revisions.
	IfRev *int64
	// Declared is true if code declares the job. If a user created, changed or deleted the job, the result is a
	// conflict until a user calls GiveBack.
	Declared bool
	// MostDeclared is the approximate maximum number of jobs that code can declare in one app; 0: no limit.
	MostDeclared int
}

// SaveResult is the result of one JobSpec.
type SaveResult struct {
	App, Name string
	ID        core.JobID // 0 if the job was rejected before it got an ID
	Rev       int64
	Change    string    // Created, Updated, Unchanged, Refused
	Withheld  bool      // the deleted job is suppressed: code cannot create it until a user calls GiveBack
	Err       error     // if Change is Refused: a *core.Error; the job was not changed
	Old       *core.Job // the stored job, if Check returns Updated
}

// A Target selects what to pause or resume: one job, one app, or all jobs.
type Target struct {
	Job string // the job, as app/name or number
	App string
	All bool
}

// StateResult is the result of a pause or resume.
type StateResult struct {
	Changed bool // false: the target already had the requested state
	// State is the state of the job. For an app or for all jobs, State is core.Paused or core.Started.
	State core.JobState
	Rev   int64
	// Until is when the pause ends automatically; zero means never. After a resume of an app or of all jobs, Until is
	// when the pause ends.
	Until time.Time
}

// A PauseRequest has the reason and the end of a pause.
type PauseRequest struct {
	Why   string
	Until *time.Time
	IfRev *int64 // only for a job: revision that the stored job must have; nil allows all revisions
}

// An AppSpec is a request to create or change an app.
type AppSpec struct {
	Name      string
	Title     string
	Set       string
	Token     *string // nil keeps the stored token
	Executors []string
	Allow     []string // ranges such as 10.0.0.0/8, or single IP addresses
	// WaitForExecutor is how long runs wait for an available executor; 0: runs do not wait.
	WaitForExecutor time.Duration
	Notify          core.Notify
	Overlap         core.Overlap
	Limits          core.Limits
	Call            *core.Call // the value core.AsStored keeps the stored secret
	IfRev           *int64
}

// AppResult is the result of an AppSpec or a ChannelSpec.
type AppResult struct {
	Name     string
	Rev      int64
	Change   string   // Created, Updated, Unchanged
	Old, New core.App // the app before and after an update
}

// A PruneRequest names a set, and the objects of the set that Prune does not delete.
type PruneRequest struct {
	Set string
	// Stay has the names of the jobs (app/name) and apps that are not deleted, with their notification settings after
	// the prune. The name "" stands for notifications without a job.
	Stay map[string]core.Notify
	// Channels has the names of the channels that are not deleted.
	Channels []string
	DryRun   bool // the objects are listed, but not deleted
	After    core.JobID
}

// PruneResult lists the deleted objects, or in a dry run the objects to delete.
type PruneResult struct {
	Channels []AppPrune   // deleted with the last page
	Jobs     []SaveResult // Deleted or Refused
	Apps     []AppPrune
	Next     core.JobID // value of After for the next page; 0: this is the last page
}

// AppPrune is the result of Prune for one app or channel.
type AppPrune struct {
	Name   string
	Change string // Deleted or Refused
	Err    error
}

// Notifier sends messages to channels.
type Notifier interface {
	// Takes returns an error if this server cannot send messages to a channel.
	Takes(ctx context.Context, ch core.Channel) error
	// Test sends one test message without a retry. If the send fails, the error is a *core.Undelivered.
	Test(ctx context.Context, ch core.Channel) error
}
