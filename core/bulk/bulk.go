// Package bulk runs bulk operations: one action on many jobs, which the caller selects by name or with a filter. Each
// request handles some of the jobs, so that the caller sees the progress and can stop after each request. The change
// record of each changed job has the name of the operation.
package bulk

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/store"
)

// Verb is the action that a bulk operation performs on each job.
type Verb string

const (
	Pause   Verb = "pause"
	Resume  Verb = "resume"
	Trigger Verb = "trigger"
	Kill    Verb = "kill"
	Delete  Verb = "delete"
	Label   Verb = "label"
)

// Deed returns the kind of action for the permission check: access.Edit for Delete and Label, access.Operate for all
// other verbs.
func (v Verb) Deed() access.Deed {
	if v == Delete || v == Label {
		return access.Edit
	}
	return access.Operate
}

// Verbs lists each Verb.
var Verbs = []Verb{Pause, Resume, Trigger, Kill, Delete, Label}

const (
	// MaxNamed is the maximum number of jobs in Request.Jobs.
	MaxNamed = 1000
	// MaxAct is the maximum length in bytes of the name that a caller chooses for a bulk operation.
	MaxAct = 48
	// maxNamed is the maximum length of that name with the actor.
	maxNamed = 128 + 1 + MaxAct
	// sample limits the jobs that a dry run names, maxFailed the failed jobs that a result names.
	sample    = 10
	maxFailed = 100
	// together is the number of jobs stored at a time; the time limit is checked between them.
	together = 2000
)

// Bulk runs bulk operations. A Bulk has no state.
type Bulk struct {
	ask     *query.Queries
	manage  *manage.Manage
	operate *operate.Operate
	store   *store.Store
}

// New returns a Bulk that reads and changes jobs through q, m and o.
func New(q *query.Queries, m *manage.Manage, o *operate.Operate, s *store.Store) *Bulk {
	return &Bulk{q, m, o, s}
}

// Request selects the action and the jobs of a bulk operation. An operation on many jobs needs several requests; each
// request handles some of the jobs.
type Request struct {
	Verb Verb
	// Jobs lists jobs by app/name or ID. If Jobs is empty, Filter selects the jobs. If Jobs is empty and Filter is
	// nil, Undo selects the jobs.
	Jobs   []string
	Filter *query.JobsAsk
	// Undo is the name of an earlier bulk operation that paused jobs. The paused jobs that did not change since then
	// are resumed.
	Undo string
	// Act is the name of the bulk operation, from the result of the first request; empty: the request begins a new
	// operation. The actor's name is a prefix of the operation's name (ANN/NAME), so that names do not collide.
	Act    string
	Why    string
	Until  *time.Time        // end of a pause
	Params *string           // params of a trigger, which replace the job's params; nil: the job's params
	Cause  core.Cause        // cause of a trigger; default: manual
	Labels map[string]string // labels to set; an empty value removes the label
	After  core.JobID        // Next of the previous result; 0: start with the first job
	DryRun bool
	// Sees reports whether the caller can change the jobs of an app; nil: the caller can change all jobs.
	Sees func(app string) bool
}

// Result is the result of one request of a bulk operation.
type Result struct {
	Act    string
	Found  int        // number of selected jobs of the whole operation
	Sample []string   // in a dry run: some of the jobs, as app/name
	Done   int        // number of changed jobs
	Same   int        // number of jobs that needed no change
	Failed []Failed   // jobs that were not changed because of an error, at most 100
	Fail   int        // number of jobs that were not changed because of an error
	Next   core.JobID // After for the next request; 0: no jobs remain
}

// Failed is a job that was not changed because of an error.
type Failed struct {
	Job core.JobID
	Of  string // the job, as app/name
	Err error
}

func (res *Result) failed(f Failed) {
	if res.Fail++; len(res.Failed) < maxFailed {
		res.Failed = append(res.Failed, f)
	}
}

// Act handles one request of a bulk operation.
func (b *Bulk) Act(ctx context.Context, actor core.Actor, r Request) (Result, error) {
	if err := check(&actor, &r); err != nil {
		return Result{}, err
	}
	var res Result
	jobs, all, err := b.jobs(ctx, &r, &res)
	if err != nil {
		return Result{}, err
	}
	res.Found = all
	if r.DryRun {
		for i := range jobs[:min(len(jobs), sample)] {
			res.Sample = append(res.Sample, jobs[i].Name())
		}
		return res, nil
	}
	if r.Act == "" {
		r.Act = "act-" + strings.ToLower(rand.Text()[:12])
	}
	res.Act = actor.Name + "/" + r.Act
	actor.Act = res.Act
	if r.After == 0 && len(jobs) > 0 { // recorded first, because a failed operation leaves no other record
		now := b.ask.Stamp()
		if err := b.store.PutChanges(ctx, []core.Change{actor.Did(core.Change{ID: core.Millis(now), At: now, Verb: core.VerbActed,
			Why: r.Why, New: core.ActRecord{Act: res.Act, Verb: string(r.Verb), Found: all}.String()})}); err != nil {
			return Result{}, core.Retryable(err)
		}
	}
	return res, b.part(ctx, actor, &r, jobs, &res)
}

func check(actor *core.Actor, r *Request) error {
	if err := actor.Validate(); err != nil {
		return err
	}
	named := 0
	for _, is := range []bool{len(r.Jobs) > 0, r.Filter != nil, r.Undo != ""} {
		if is {
			named++
		}
	}
	switch {
	case !slices.Contains(Verbs, r.Verb):
		return core.Invalid("verb", string(r.Verb), "allowed values: %s", core.JoinAllowed(Verbs))
	case named != 1:
		return core.Invalid("jobs", "", "set exactly one of `jobs`, `filter` and `undo`; `undo` requires the verb `resume`")
	case r.Undo != "" && r.Verb != Resume:
		return core.Invalid("undo", r.Undo, "only a pause can be undone: set the verb to `resume`")
	case len(r.Jobs) > MaxNamed:
		return core.Errorf(core.CodeTooLarge, "%d jobs in one request; at most %d are allowed", len(r.Jobs), MaxNamed)
	}
	if err := manage.CheckWhy(r.Why); err != nil { // the record of the operation contains it
		return err
	}
	r.Act = strings.TrimPrefix(r.Act, actor.Name+"/")
	for _, x := range []struct {
		field, act string
		most       int
	}{{"operation", r.Act, MaxAct}, {"undo", r.Undo, maxNamed}} {
		if len(x.act) > x.most || strings.ContainsFunc(x.act, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return core.Invalid(x.field, x.act, "at most %d printable ASCII characters are allowed", x.most)
		}
	}
	return nil
}

// jobs returns the jobs after the previous part, and the total number. Missing and unreadable jobs are
// reported as failed and do not stop the rest.
func (b *Bulk) jobs(ctx context.Context, r *Request, res *Result) (jobs []core.Job, all int, err error) {
	var list []core.Job
	var missing []string
	var bad map[core.JobID]error
	switch {
	case r.Filter != nil:
		f := *r.Filter
		f.Sees = r.Sees
		jobs, all, bad, err = b.ask.Select(ctx, f, r.After)
	case r.Undo != "":
		paused := query.JobFilter{States: []core.JobState{core.Paused}, Sees: r.Sees}
		jobs, all, bad, err = b.ask.Select(ctx, query.JobsAsk{JobFilter: paused}, r.After)
	default:
		list, missing, bad, err = b.ask.Named(ctx, r.Jobs)
		all = len(list)
	}
	if err != nil {
		return nil, 0, err
	}
	if r.After == 0 {
		for _, ref := range missing {
			res.failed(Failed{Of: ref, Err: core.Errorf(core.CodeNotFound, "job %s does not exist", ref)})
		}
		for _, id := range slices.Sorted(maps.Keys(bad)) {
			res.failed(Failed{Job: id, Of: id.String(), Err: core.Errorf(core.CodeRefused, "cannot be read: %v", bad[id])})
		}
	}
	for i := range list {
		if list[i].Def.ID > r.After {
			jobs = append(jobs, list[i])
		}
	}
	return jobs, all, nil
}

// part changes jobs until the time limit.
func (b *Bulk) part(ctx context.Context, actor core.Actor, r *Request, jobs []core.Job, res *Result) error {
	p := b.ask.Page()
	for start := 0; start < len(jobs); start += together {
		if start > 0 && p.Over() {
			res.Next = jobs[start-1].Def.ID
			return nil
		}
		some := jobs[start:min(start+together, len(jobs))]
		done, err := b.some(ctx, actor, r, some, p)
		if err != nil {
			return err
		}
		for i := range done {
			switch one := &done[i]; {
			case one.Err != nil:
				res.failed(Failed{some[i].Def.ID, some[i].Name(), one.Err})
			case one.Changed:
				res.Done++
			default:
				res.Same++
			}
		}
		if len(done) < len(some) {
			res.Next = some[len(done)-1].Def.ID
			return nil
		}
	}
	return nil
}

// some changes jobs; the result is shorter if the page ends.
func (b *Bulk) some(ctx context.Context, actor core.Actor, r *Request, jobs []core.Job, p *budget.Page) ([]manage.Many, error) {
	ids := make([]core.JobID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].Def.ID
	}
	switch r.Verb {
	case Pause:
		return b.manage.PauseJobs(ctx, actor, ids, manage.PauseRequest{Why: r.Why, Until: r.Until})
	case Resume:
		if r.Undo == "" {
			return b.manage.ResumeJobs(ctx, actor, ids, r.Why, nil)
		}
		return b.undo(ctx, actor, r, jobs, p)
	case Label:
		return b.manage.LabelJobs(ctx, actor, ids, r.Labels, r.Why)
	}
	out := make([]manage.Many, len(jobs))
	done, err := p.SideBySide(len(jobs), func(i int) error {
		out[i].Changed, out[i].Err = b.one(ctx, actor, r, &jobs[i])
		if ctx.Err() != nil {
			return core.Retryable(ctx.Err())
		}
		return nil
	})
	return out[:done], err
}

// one changes a single job.
func (b *Bulk) one(ctx context.Context, actor core.Actor, r *Request, j *core.Job) (changed bool, err error) {
	ref := j.Def.ID.String()
	switch r.Verb {
	case Trigger: // the key makes a repeated part trigger nothing twice
		res, err := b.operate.Trigger(ctx, actor, operate.TriggerRequest{Job: ref, Cause: r.Cause, Params: r.Params, Key: actor.Act + "." + ref})
		return err == nil && !res.Existing, err
	case Kill:
		for after := ""; ; {
			res, err := b.operate.KillJob(ctx, actor, ref, after)
			changed = changed || res.Changed
			if err != nil || res.Next == "" {
				return changed, err
			}
			after = res.Next
		}
	default:
		res, err := b.manage.Delete(ctx, actor, ref, &j.Sched.Rev)
		return res.Change == manage.Deleted, err
	}
}

// undo resumes the jobs that the operation paused.
func (b *Bulk) undo(ctx context.Context, actor core.Actor, r *Request, jobs []core.Job, p *budget.Page) ([]manage.Many, error) {
	by := make([]bool, len(jobs))
	done, err := p.SideBySide(len(jobs), func(i int) (err error) {
		by[i], err = b.ask.ChangedBy(ctx, &jobs[i], r.Undo)
		return err
	})
	if err != nil {
		return nil, err
	}
	ids, revs := make([]core.JobID, done), map[core.JobID]int64{}
	for i := range ids {
		if ids[i] = jobs[i].Def.ID; by[i] {
			revs[ids[i]] = jobs[i].Sched.Rev
		}
	}
	return b.manage.ResumeJobs(ctx, actor, ids, r.Why, revs)
}
