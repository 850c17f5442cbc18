package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/store"
)

// JobFilter selects jobs. The zero value selects all jobs.
type JobFilter struct {
	App    string
	Labels map[string]string // the job must have all of these labels; an empty value matches any value
	States []core.JobState
	Set    string
	Text   string     // part of the name, title, author, handler, params or schedule, ignoring case; or the job number
	After  core.JobID // job number after which the page begins
	Limit  int        // maximum number of jobs, at most 1000; 0: 100
	Last   bool       // the page includes the last run of each job
	Job    core.JobID // only for Upcoming: selects this job
	// Sees reports whether the caller can see an app; nil: the caller can see all apps. If Sees is set, unreadable
	// jobs are included only if App is set too.
	Sees func(app string) bool
}

// JobPage is one page of jobs, ordered by job number.
type JobPage struct {
	Jobs []core.Job
	Last []*core.Run // last run of each job in Jobs, nil if the job has no run or JobFilter.Last is not set
	// Failed has the unreadable jobs, which are not in Jobs.
	Failed map[core.JobID]error
	Next   core.JobID // value of After for the next page; 0: this is the last page
}

func (f *JobFilter) check() (limit int, err error) {
	if f.App != "" {
		if err := core.CheckAppName("app", f.App); err != nil {
			return 0, err
		}
	}
	for _, s := range f.States {
		if !slices.Contains(core.JobStates, s) {
			return 0, core.Invalid("state", string(s), "allowed values: started, paused, ended")
		}
	}
	if len(f.Labels) > core.MaxLabels || len(f.Text) > core.MaxTitle {
		return 0, core.Invalid("filter", "", "too long")
	}
	return limitOf(f.Limit)
}

// tells returns the unreadable jobs that the caller may see. Their apps are known only if the filter has an app.
func (f *JobFilter) tells(bad map[core.JobID]error) map[core.JobID]error {
	if f.Sees != nil && (f.App == "" || !f.Sees(f.App)) {
		return nil
	}
	return bad
}

func (f *JobFilter) takes(j *core.Job) bool {
	if f.Sees != nil && !f.Sees(j.Def.App) {
		return false
	}
	if f.Set != "" && j.Def.Set != f.Set {
		return false
	}
	if len(f.States) > 0 && !slices.Contains(f.States, j.Sched.State) {
		return false
	}
	for key, want := range f.Labels {
		if got, ok := j.Def.Labels[key]; !ok || want != "" && got != want {
			return false
		}
	}
	return f.Text == "" || has(j, strings.ToLower(f.Text))
}

// has reports whether a text, in lower case, is in the searched texts of a job, or is its number.
func has(j *core.Job, text string) bool {
	if n, err := strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 32); err == nil && core.JobID(n) == j.Def.ID {
		return true
	}
	d := &j.Def
	texts := []string{j.Name(), d.Title, d.Handler, d.Author, d.Params}
	for _, w := range j.Sched.Schedule.Any {
		switch w.Kind {
		case core.KindEvery, core.KindFixedDelay:
			texts = append(texts, w.Every.String())
		case core.KindAt:
			texts = append(texts, w.At.Time().Format(time.RFC3339))
		default:
			texts = append(texts, w.Expr)
		}
	}
	return slices.ContainsFunc(texts, func(of string) bool { return len(of) >= len(text) && contains(of, text) })
}

// JobID returns the ID of a job from a reference, which is app/name or the job's number. It does not check whether a
// job with the number exists.
func (q *Queries) JobID(ctx context.Context, ref string) (core.JobID, error) {
	app, name, named := strings.Cut(ref, "/")
	if !named {
		n, err := strconv.ParseInt(ref, 10, 32)
		if err != nil || n <= 0 {
			return 0, core.Invalid("job", ref, "write a job as app/name or as its number")
		}
		return core.JobID(n), nil
	}
	if err := core.CheckAppName("job", app); err != nil {
		return 0, err
	}
	if err := core.CheckName("job", name); err != nil {
		return 0, err
	}
	ids, err := q.store.Jobs.Named(ctx, app, []string{name})
	if err != nil {
		return 0, core.Retryable(err)
	}
	id, ok := ids[name]
	if !ok {
		return 0, core.Errorf(core.CodeNotFound, "job %s does not exist", ref)
	}
	return id, nil
}

func (q *Queries) Job(ctx context.Context, ref string) (core.Job, error) {
	id, err := q.JobID(ctx, ref)
	if err != nil {
		return core.Job{}, err
	}
	j, err := q.storedJob(ctx, id)
	if err == nil && j == nil {
		err = core.Errorf(core.CodeNotFound, "job %s does not exist", ref)
	}
	if err != nil {
		return core.Job{}, err
	}
	return *j, nil
}

// storedJob reads a job, with locked secrets like FindApp; nil if there is none.
func (q *Queries) storedJob(ctx context.Context, id core.JobID) (*core.Job, error) {
	found, bad, err := store.Split(store.Unlocked(q.store.Jobs.Get(ctx, store.Whole, []core.JobID{id})))
	return found[id], cmp.Or(core.Retryable(err), core.UnreadableJob(id, bad[id]))
}

// Named returns the jobs that the references name, without duplicates and ordered by ID. missing has the references
// to jobs that do not exist, and bad has the unreadable jobs.
func (q *Queries) Named(ctx context.Context, refs []string) (jobs []core.Job, missing []string, bad map[core.JobID]error, err error) {
	of := map[core.JobID]string{}
	for _, ref := range refs {
		id, err := q.JobID(ctx, ref)
		switch {
		case core.CodeOf(err) == core.CodeNotFound:
			missing = append(missing, ref)
		case err != nil:
			return nil, nil, nil, err
		default:
			of[id] = ref
		}
	}
	ids := slices.Sorted(maps.Keys(of))
	found, bad, err := store.Split(store.Unlocked(q.store.Jobs.Get(ctx, store.Whole, ids)))
	if err != nil {
		return nil, nil, nil, core.Retryable(err)
	}
	for _, id := range ids {
		if j := found[id]; j != nil {
			jobs = append(jobs, *j)
		} else if bad[id] == nil {
			missing = append(missing, of[id])
		}
	}
	return jobs, missing, bad, nil
}

// Names maps each job number to app/name. Deleted jobs are included until their records are removed.
func (q *Queries) Names(ctx context.Context, jobs []core.JobID) (map[core.JobID]string, error) {
	names := make(map[core.JobID]string, len(jobs))
	for some := range slices.Chunk(jobs, budget.AtOnce) {
		found, _, err := store.Split(q.store.Jobs.Get(ctx, store.Whole, some))
		if err != nil {
			return nil, core.Retryable(err)
		}
		var gone []core.JobID
		for _, id := range some {
			if j := found[id]; j != nil {
				names[id] = j.Def.App + "/" + j.Def.Name
			} else {
				gone = append(gone, id)
			}
		}
		if len(gone) == 0 {
			continue
		}
		tombs, err := q.store.Tombstones(ctx, gone)
		if err != nil {
			return nil, core.Retryable(err)
		}
		for id, t := range tombs {
			names[id] = t.App + "/" + t.Name
		}
	}
	return names, nil
}

// ChangedBy reports whether the bulk operation with the ID act made the last change of a job.
func (q *Queries) ChangedBy(ctx context.Context, j *core.Job, act string) (bool, error) {
	changes, err := q.store.Changes(ctx, "", j.Def.ID, j.Sched.Rev, 1)
	if err != nil {
		return false, core.Retryable(err)
	}
	return len(changes) > 0 && changes[0].ID == j.Sched.Rev && changes[0].Act == act, nil
}

// Jobs returns one page of jobs, ordered by number. The page ends after Options.PageFor, or when the maximum size is
// reached. So a page with fewer jobs than the limit, or without jobs, can still have a next page.
func (q *Queries) Jobs(ctx context.Context, f JobFilter) (JobPage, error) {
	limit, err := f.check()
	if err != nil {
		return JobPage{}, err
	}
	var res JobPage
	var jobs []*core.Job
	p := q.Page()
	if res.Next, err = q.EachJob(ctx, f.App, f.After, p, func(j *core.Job) bool {
		switch {
		case !f.takes(j):
		case len(jobs) == limit:
			return false
		default:
			jobs = append(jobs, j)
		}
		return true
	}); err != nil {
		return JobPage{}, err
	}
	recent := 0
	if f.Last {
		recent = 1
	}
	fit, err := q.withLast(ctx, p, jobs, recent, func(j *core.Job, runs []core.Run) {
		res.Jobs, res.Last = append(res.Jobs, *j), append(res.Last, newest(runs))
	})
	if err != nil {
		return JobPage{}, err
	}
	if fit < len(jobs) {
		res.Next = jobs[fit-1].Def.ID
	}
	res.Failed = f.tells(p.Passed(res.Next))
	return res, nil
}

// lastAtOnce is for how many jobs the last runs are read at once. Each can have thirty runs with a long message, and
// the page keeps one.
const lastAtOnce = 25

// withLast calls take with the jobs and their last runs, until the page is full or over. It returns the number of these jobs.
func (q *Queries) withLast(ctx context.Context, p *budget.Page, jobs []*core.Job, recent int, take func(*core.Job, []core.Run)) (
	fit int, err error,
) {
	for part := range slices.Chunk(jobs, lastAtOnce) {
		if fit > 0 && p.Over() {
			break
		}
		last, err := q.lastOf(ctx, part, recent)
		if err != nil {
			return 0, err
		}
		for _, j := range part {
			runs := last[j.Def.ID]
			if !p.Takes(j) || fit > 0 && !p.Takes(runs) {
				return fit, nil
			}
			take(j, runs)
			fit++
		}
	}
	return fit, nil
}

// lastOf reads the last runs of jobs, with only the main fields except for the newest.
func (q *Queries) lastOf(ctx context.Context, jobs []*core.Job, recent int) (map[core.JobID][]core.Run, error) {
	if recent == 0 {
		return nil, nil
	}
	ids := make([]core.JobID, len(jobs))
	for i := range ids {
		ids[i] = jobs[i].Def.ID
	}
	// The newest of few runs may all wait for their due time.
	last, err := q.store.Runs.Last(ctx, ids, core.InstantOf(q.o.Now()), max(recent, latelyOf))
	if err != nil {
		return nil, core.Retryable(err)
	}
	for job, runs := range last {
		runs = runs[:min(recent, len(runs))]
		for k := range runs {
			if k > 0 {
				runs[k].Message, runs[k].Params, runs[k].Data, runs[k].Tries = "", nil, "", nil
			}
		}
		last[job] = runs
	}
	return last, nil
}

// Last returns the newest due run of a job; nil if it has none.
func (q *Queries) Last(ctx context.Context, job core.JobID) (*core.Run, error) {
	res, err := q.runs(ctx, RunFilter{Job: job.String(), Limit: 1, To: q.o.Now()}, q.Page())
	return newest(res.Runs), err
}

// newest returns the first run; nil if there is none.
func newest(runs []core.Run) *core.Run {
	if len(runs) == 0 {
		return nil
	}
	return &runs[0]
}
