package operate

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// Limits of a clean-up. CleanAge is the minimum age of runs to delete, because younger runs may still be needed. MaxCleanKeep
// is the maximum of CleanRequest.Keep.
const (
	CleanAge     = 24 * time.Hour
	cleanAtOnce  = 100 // runs that are checked together
	MaxCleanKeep = 1_000_000
)

// A CleanRequest selects the ended runs of a job, or of all jobs of an app, to delete. It selects runs that ended before
// Before, with a state in States. No States means any state. The newest Keep selected runs of each job are not deleted.
type CleanRequest struct {
	Job    string // app/name or number; the number also works for a deleted job
	App    string // name of the app; used if Job is empty
	States []core.State
	Before time.Time
	Keep   int
	DryRun bool
	After  string // Next of the previous page; empty: the first page
}

type CleanResult struct {
	Cleaned int64 // number of runs deleted, or to be deleted if DryRun is set
	Held    int64 // number of selected runs that are kept because they are, or may be, still needed
	Next    string
	// Failed is why the page is incomplete; nil: it is complete. Runs that are not counted are unchanged.
	Failed error
}

// cleanPlace is the start of a page: a job, and how many of its runs were already kept.
type cleanPlace struct {
	job  core.JobID
	kept int
	runs string // After of its runs
}

func (p cleanPlace) String() string {
	return strconv.Itoa(int(p.job)) + "." + strconv.Itoa(p.kept) + "." + p.runs
}

// within reports whether the place is after some runs of its job.
func (p cleanPlace) within() bool { return p.runs != "" || p.kept > 0 }

func parseCleanPlace(text string) (p cleanPlace, err error) {
	job, rest, _ := strings.Cut(text, ".")
	kept, runs, is := strings.Cut(rest, ".")
	n, err := strconv.ParseInt(job, 10, 32)
	k, err2 := strconv.Atoi(kept)
	if !is || n < 0 || k < 0 || errors.Join(err, err2) != nil {
		return p, core.Invalid("after", text, "not the value of `next` from a page of this list")
	}
	return cleanPlace{core.JobID(n), k, runs}, nil
}

// Clean deletes a page of ended runs. For each job, it first records up to which scheduled time runs may be deleted, so that
// audits do not count these runs as lost. After an error, you can repeat the call to continue. Clean never deletes:
//
//   - open runs, runs with pending follow-ups, their earlier attempts, and the shards of broadcasts that are open or have
//     pending follow-ups
//   - runs that a message in a queue may name, or that the planner may send again
//   - runs that are not counted in the reports; it also keeps the reports
//   - the last successful run of a job that pauses after consecutive failures
func (op *Operate) Clean(ctx context.Context, actor core.Actor, q CleanRequest) (CleanResult, error) {
	now := op.ask.Now()
	switch {
	case q.Job == "" && q.App == "":
		return CleanResult{}, core.Invalid("job", "", "name the job or the app whose runs to clean up")
	case q.Keep < 0 || q.Keep > MaxCleanKeep:
		return CleanResult{}, core.Invalid("keep", strconv.Itoa(q.Keep), "0 to %d are allowed", MaxCleanKeep)
	case q.Before.IsZero():
		q.Before = now.Add(-CleanAge)
	case q.Before.After(now.Add(-CleanAge)):
		return CleanResult{}, core.Invalid("before", q.Before.UTC().Format(time.RFC3339), "runs that ended less than 24 hours ago are kept")
	}
	for _, s := range q.States {
		if err := s.CheckEnd("state"); err != nil {
			return CleanResult{}, err
		}
	}
	if err := actor.Validate(); err != nil {
		return CleanResult{}, err
	}
	var at cleanPlace
	var err error
	if q.After != "" {
		if at, err = parseCleanPlace(q.After); err != nil {
			return CleanResult{}, err
		}
	}
	oldest, err := op.store.Queue.Oldest(ctx)
	if err != nil {
		return CleanResult{}, core.Retryable(err)
	}
	counted, err := op.counts.Counted(ctx)
	if err != nil {
		return CleanResult{}, core.Retryable(err)
	}
	c := cleaning{op: op, q: &q, by: actor, page: op.ask.Page(), before: q.Before, onItsWay: oldest, counted: counted.Time()}
	if q.Job != "" {
		id, err := op.ask.JobID(ctx, q.Job)
		if err != nil {
			return CleanResult{}, err
		}
		if at.within() && at.job != id {
			return CleanResult{}, core.Invalid("after", q.After, "not the value of `next` from a page of this list")
		}
		at.job = id
		_, err = c.job(ctx, at)
		return c.done(err)
	}
	if err := core.CheckAppName("app", q.App); err != nil {
		return CleanResult{}, err
	}
	if at.within() { // the job in which the previous page ended
		if over, err := c.job(ctx, at); err != nil || !over {
			return c.done(err)
		}
	}
	var failed error
	last, err := op.ask.EachJob(ctx, q.App, at.job, c.page, func(j *core.Job) bool {
		over, err := c.job(ctx, cleanPlace{job: j.Def.ID})
		failed = err
		return err == nil && over
	})
	switch {
	case err != nil:
		return c.done(err)
	case failed == nil && c.res.Next == "" && last != 0:
		c.res.Next = cleanPlace{job: last}.String()
	}
	return c.done(failed)
}

// cleaning is the state of one page.
type cleaning struct {
	op       *Operate
	q        *CleanRequest
	by       core.Actor
	page     *budget.Page
	before   time.Time
	onItsWay ring.Oldest
	counted  time.Time // runs that ended before this are counted in reports
	res      CleanResult
}

// done returns the result so far. If some runs were deleted, it returns err in Failed.
func (c *cleaning) done(err error) (CleanResult, error) {
	if err != nil && c.res.Cleaned > 0 {
		c.res.Failed = err
		return c.res, nil
	}
	return c.res, err
}

// job deletes runs of a job from at on; over reports whether the job is finished.
func (c *cleaning) job(ctx context.Context, at cleanPlace) (over bool, err error) {
	job, err := c.jobOf(ctx, at.job)
	if err != nil {
		return false, err
	}
	// An app filter needs the job's record: the number may come from a caller who may clean only this app. A job that was deleted
	// between two pages is skipped, and a job of another app is not revealed.
	if c.q.Job == "" && (job == nil || job.Def.App != c.q.App) {
		return true, nil
	}
	var stays core.RunID
	if job != nil && job.Def.PauseAfter > 0 {
		if stays, err = c.lastSuccess(ctx, at.job); err != nil {
			return false, err
		}
	}
	before := c.res.Cleaned
	defer func() {
		if failed := c.note(ctx, at.job, job, c.res.Cleaned-before); err == nil {
			err = failed
		}
	}()
	for {
		if c.res.Next = at.String(); at.runs == "" { // start with the job's first run
			c.res.Next = cleanPlace{job: at.job - 1}.String()
		}
		list, err := c.op.ask.Runs(ctx, query.RunFilter{Job: at.job.String(), States: c.q.States, Limit: cleanAtOnce, After: at.runs})
		if core.CodeOf(err) == core.CodeNotFound { // the job has no records left
			c.res.Next = ""
			return true, nil
		}
		if err != nil {
			return false, err
		}
		var take []core.Run
		for i := range list.Runs {
			r := &list.Runs[i]
			switch {
			case r.State.Open():
			case at.kept < c.q.Keep:
				at.kept++
			case r.ID == stays:
				c.res.Held++
			case r.EndedAt.Before(c.before):
				take = append(take, *r)
			}
		}
		if err := c.take(ctx, take, job); err != nil {
			return false, err
		}
		if at.runs = list.Next; at.runs == "" {
			c.res.Next = ""
			return true, nil
		}
		if c.res.Next = at.String(); c.page.Over() {
			return false, nil
		}
	}
}

// note records how many runs of a job were deleted. This is the only trace of them, so it is
// written even if the caller has disconnected.
func (c *cleaning) note(ctx context.Context, id core.JobID, job *core.Job, cleaned int64) error {
	if c.q.DryRun || cleaned == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.op.ask.PageFor())
	defer cancel()
	if job == nil {
		names, err := c.op.ask.Names(ctx, []core.JobID{id})
		if err != nil {
			return err
		}
		job = &core.Job{Def: core.Def{ID: id}}
		job.Def.App, job.Def.Name, _ = strings.Cut(names[id], "/")
	}
	return c.op.noted(ctx, c.by.Did(core.Change{At: c.op.ask.Stamp(), Verb: core.VerbCleaned, New: runNote{Cleaned: cleaned}.String()}), job)
}

// jobOf returns the current job, or nil if it was deleted.
func (c *cleaning) jobOf(ctx context.Context, id core.JobID) (*core.Job, error) {
	found, bad, err := store.Split(c.op.store.Jobs.Get(ctx, store.Whole, []core.JobID{id}))
	return found[id], core.Retryable(cmp.Or(err, core.UnreadableJob(id, bad[id])))
}

// lastSuccess returns the job's last successful run, or 0. In a job that pauses after failures in
// a row, it separates the failures before it from the failures after it.
func (c *cleaning) lastSuccess(ctx context.Context, id core.JobID) (core.RunID, error) {
	list, err := c.op.ask.Runs(ctx, query.RunFilter{Job: id.String(), States: []core.State{core.Succeeded}, Limit: budget.Successes})
	if core.CodeOf(err) == core.CodeNotFound {
		return 0, nil
	}
	var last core.Run
	for i := range list.Runs {
		if r := &list.Runs[i]; r.EndedAt.After(last.EndedAt) {
			last = *r
		}
	}
	return last.ID, err
}

// take deletes the given runs of a job, except the ones that are still needed.
func (c *cleaning) take(ctx context.Context, runs []core.Run, job *core.Job) error {
	needed, err := c.needed(ctx, runs)
	if err != nil {
		return err
	}
	var drop []core.Run
	upTo := core.Instant(0)
	for i := range runs {
		r := &runs[i]
		at, planned := r.ID.Planned()
		switch {
		case needed[r.ID], !r.EndedAt.Before(c.counted), c.onItsWay.MayName(r.Slot),
			job != nil && asks(&job.Sched, r):
			c.res.Held++
			continue
		case planned:
			upTo = max(upTo, at)
		}
		drop = append(drop, *r)
	}
	if c.q.DryRun || len(drop) == 0 {
		c.res.Cleaned += int64(len(drop))
		return nil
	}
	if upTo != 0 {
		if err := c.op.store.PutCleaned(ctx, drop[0].ID.Job(), upTo); err != nil {
			return core.Retryable(err)
		}
	}
	puts := make([]store.RunPut, len(drop))
	for i := range drop {
		puts[i].Drop = &drop[i]
	}
	var failed error
	for _, err := range c.op.store.Runs.Put(ctx, puts) {
		switch {
		case err == nil:
			c.res.Cleaned++
		case errors.Is(err, core.ErrRefused): // it has a pending follow-up now
			c.res.Held++
		case failed == nil:
			failed = core.Retryable(err)
		}
	}
	return failed
}

// asks reports whether a tick may still need a run of a job. These are attempts of its tail, and
// runs that it will plan again or has not yet compared.
func asks(s *core.Sched, r *core.Run) bool {
	at, planned := r.ID.Planned()
	return store.Asks(s.Next, s.Tail, r.ID, r.First) || planned && s.Compared != 0 && at > s.Compared
}

// needed returns the given runs that something else still needs.
func (c *cleaning) needed(ctx context.Context, runs []core.Run) (map[core.RunID]bool, error) {
	needed := map[core.RunID]bool{}
	ask := map[core.RunID][]core.RunID{} // a run, and the given runs that are needed if it is open or has follow-ups
	for i := range runs {
		r := &runs[i]
		if r.Owing() {
			needed[r.ID] = true
			continue
		}
		if r.Then != 0 {
			ask[r.Then] = append(ask[r.Then], r.ID)
		}
		if r.Shard.Of != 0 {
			ask[r.Shard.Of] = append(ask[r.Shard.Of], r.ID)
		}
	}
	for step := 0; len(ask) > 0 && step <= core.MaxRetries; step++ {
		var ids []core.RunID
		for id := range ask {
			ids = append(ids, id)
		}
		found, err := store.Complete(c.op.store.Runs.Get(ctx, ids))
		if err != nil {
			return nil, core.Retryable(err)
		}
		then := map[core.RunID][]core.RunID{}
		for id, by := range ask {
			switch r := found[id]; {
			case r == nil:
			case r.State.Open() || r.Owing():
				for _, run := range by {
					needed[run] = true
				}
			case r.Then != 0:
				then[r.Then] = append(then[r.Then], by...)
			}
		}
		ask = then
	}
	return needed, nil
}
