package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/store"
)

// A RerunRequest selects ended runs to run again.
type RerunRequest struct {
	Run query.RunRef // a single run; empty: use Filter
	// Filter selects runs of a job, an app or all apps. Its Limit is 1 to budget.Reran; 0 means budget.Reran. The new runs of
	// a page are created in the order of the original runs.
	Filter query.RunFilter
	// May returns nil if the caller may rerun runs of an app, and otherwise why not. Runs of other apps are skipped. A nil May
	// allows all apps.
	May    func(app string) error
	Params *string // params that replace the params of the original run; nil: no replacement
	// Addresses replace the addresses of the original trigger or of the app. SameAddress sends the run to the address of the
	// original run. Only one of the two can be set.
	Addresses   []string
	SameAddress bool
	// Direct returns an error if the caller may not send runs of an app to addresses that are not executors of the app. Direct
	// also applies to addresses that another user set for the original run. A nil Direct allows all addresses.
	Direct  func(app string) error
	Retries *int       // maximum number of retries after the first attempt; nil: the job's retry.max
	Cause   core.Cause // core.CauseManual (default) or core.CauseAPI
	// Key makes the request idempotent: a repeated request with the key creates no second run. The filter then skips the runs
	// that the request created. Key is required with a filter.
	Key    string
	DryRun bool
}

type RerunResult struct {
	Runs []Rerun
	Next string // value of After for the filter of the next page; empty: this was the last page
}

// A Rerun is an original run, and the new run that was created from it.
type Rerun struct {
	Of       core.Run
	Job      *core.Job // job of the run; nil if the job is deleted
	As       core.Run  // the new run; zero in a dry run or if Why is set
	Existing bool      // whether an earlier request with the key created the run
	Why      error
	noted    bool                     // a change record names the run with this key
	fill     func(as *core.Run) error // fills a template
}

// Rerun runs ended runs again. Each new run is a trigger with the scheduled time and the params of the original run, and
// refers to that run. A run that cannot run again is skipped, and Rerun.Why has the reason. If q.Run is set, the reason is
// also returned as the error. After an error, you can repeat the call with the same key to continue.
func (op *Operate) Rerun(ctx context.Context, actor core.Actor, q RerunRequest) (RerunResult, error) {
	if err := actor.Validate(); err != nil {
		return RerunResult{}, err
	}
	r := rerunning{op: op, q: &q, by: actor, now: op.ask.Stamp(), ran: map[jobRev]*query.RanWith{}}
	t := TriggerRequest{Cause: q.Cause, Params: q.Params, Key: q.Key, Retries: q.Retries}
	var err error
	if r.slot, err = t.check(r.now); err != nil {
		return RerunResult{}, err
	}
	q.Addresses = core.NormalAddresses(q.Addresses)
	if q.SameAddress && len(q.Addresses) > 0 {
		return RerunResult{}, core.Invalid("sameAddress", "true", "addresses are also set: set only addresses or sameAddress")
	}
	page := op.ask.Page()
	var res RerunResult
	if q.Run != "" {
		res.Runs = make([]Rerun, 1)
		res.Runs[0].Of, err = op.ask.Find(ctx, q.Run)
	} else {
		res, err = r.filtered(ctx)
	}
	if err == nil {
		r.g, err = op.ask.Global(ctx)
	}
	if err == nil {
		err = r.judge(ctx, res.Runs)
	}
	if err == nil && q.Run == "" {
		err = r.passOver(ctx, res.Runs)
	}
	if err != nil {
		return RerunResult{}, err
	}
	if !q.DryRun {
		// Even after slow reads, half a page of time is left to create the runs.
		if least := time.Now().Add(op.ask.PageFor() / 2); page.Until.Before(least) {
			page.Until = least
		}
		done, err := page.SideBySide(len(res.Runs), func(i int) error {
			return r.make(ctx, &res.Runs[len(res.Runs)-1-i])
		})
		r.note(ctx, res.Runs)
		if err == nil && done < len(res.Runs) {
			err = core.Retryable(core.ErrThrottled)
		}
		if err != nil {
			return RerunResult{}, err
		}
	}
	if q.Run != "" {
		return res, res.Runs[0].Why
	}
	return res, nil
}

// rerunning is the state of a request.
type rerunning struct {
	op   *Operate
	q    *RerunRequest
	by   core.Actor
	now  time.Time
	slot core.Instant
	g    core.Global
	ran  map[jobRev]*query.RanWith // as far as read
}

type jobRev struct {
	job core.JobID
	rev int64
}

// filtered returns the page of runs that the filter selects.
func (r *rerunning) filtered(ctx context.Context) (res RerunResult, err error) {
	f := r.q.Filter
	switch {
	case f.Job == "" && f.App == "" && !f.Failed && len(f.States) == 0 && f.From.IsZero() && f.To.IsZero():
		return res, core.Invalid("job", "", "name a run, a job or an app, or select runs of all apps with `failed`, `state`, "+
			"`from` or `to`")
	case r.q.Key == "" && !r.q.DryRun:
		return res, core.Invalid("key", "", "required to rerun the runs that a filter finds: with a key, a repeated request "+
			"reruns no run twice")
	case len(r.q.Key) > core.MaxKey-maxRunID:
		return res, core.Invalid("key", r.q.Key, "at most %d bytes are allowed, because the ID of each run is appended", core.MaxKey-maxRunID)
	case f.Limit == 0 || f.Limit > budget.Reran:
		f.Limit = budget.Reran
	}
	runs, err := r.op.ask.Runs(ctx, f)
	if err != nil {
		return res, err
	}
	res.Next = runs.Next
	for i := range runs.Runs {
		if run := &runs.Runs[i]; run.RerunOf == 0 || r.q.Key == "" || run.Key != r.key(run.RerunOf) {
			res.Runs = append(res.Runs, Rerun{Of: *run})
		}
	}
	return res, nil
}

// maxRunID is the maximum length of the suffix that key adds.
const maxRunID = 20

// key returns the key of the run that reruns of.
func (r *rerunning) key(of core.RunID) string {
	if r.q.Run != "" || r.q.Key == "" {
		return r.q.Key
	}
	return r.q.Key + "." + of.String()
}

// judge sets Why for each run that cannot run again, and prepares the others.
func (r *rerunning) judge(ctx context.Context, list []Rerun) error {
	var ids []core.JobID
	for i := range list {
		if id := list[i].Of.ID.Job(); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	jobs, bad, err := store.Split(r.op.store.Jobs.Get(ctx, store.Whole, ids))
	if err != nil {
		return core.Retryable(err)
	}
	for i := range list {
		x := &list[i]
		run := &x.Of
		switch x.Job = jobs[run.ID.Job()]; {
		case r.q.May != nil && r.q.May(run.App) != nil:
			x.Why = r.q.May(run.App)
		case run.State.Open():
			x.Why = core.Errorf(core.CodeRefused, "run %d has not ended: its state is %s", run.ID, run.State)
		case run.Then != 0:
			x.Why = core.Errorf(core.CodeRefused, "run %d was retried as run %d: rerun the retry", run.ID, run.Then)
		case bad[run.ID.Job()] != nil:
			x.Why = core.Errorf(core.CodeRefused, "the job of run %d cannot be read: %v", run.ID, bad[run.ID.Job()])
		case x.Job == nil:
			x.Why = core.Errorf(core.CodeRefused, "the job of run %d was deleted: create it again first", run.ID)
		case r.q.Run == "" && run.Shard.Of != 0:
			x.Why = core.Errorf(core.CodeRefused, "run %d is a shard of run %d: rerun the whole run, or rerun only the shard "+
				"by its ID", run.ID, run.Shard.Of)
		default:
			err := r.fill(ctx, x)
			if core.CodeOf(err) == core.CodeUnavailable {
				return err
			}
			x.Why = err
		}
	}
	return nil
}

// passOver skips runs that were rerun with another key, by the change records of their jobs. It also skips runs that older,
// unread records may name. A skipped rerun counts only if the filter selects skipped runs.
func (r *rerunning) passOver(ctx context.Context, list []Rerun) error {
	jobs, f := map[core.JobID]bool{}, query.ChangeFilter{Verb: core.VerbTriggered, From: r.now, Limit: query.MaxPage}
	for i := range list {
		if x := &list[i]; x.Why == nil {
			jobs[x.Job.Def.ID] = true
			if end := x.Of.EndedAt.Add(-time.Minute); end.Before(f.From) { // a record has the arrival time of its request
				f.From = end
			}
		}
	}
	again, known := map[string][]string{}, map[core.JobID]time.Time{} // start of the time for which all records of a job were read
	for job := range jobs {
		f.Job, f.After = job.String(), ""
		for range budget.RerunPages {
			page, err := r.op.ask.Changes(ctx, f)
			if err != nil {
				return err
			}
			for i := range page.Changes {
				var n runNote
				_ = json.Unmarshal([]byte(page.Changes[i].New), &n) // other records name no reruns
				for k, of := range n.RerunOf {
					again[of] = append(again[of], n.Runs[k])
				}
			}
			if known[job], f.After = page.LookedTo, page.Next; f.After == "" {
				break
			}
			if n := len(page.Changes); page.LookedTo.IsZero() {
				known[job] = page.Changes[n-1].At
			}
		}
	}
	skippedToo := !r.q.Filter.Failed && (len(r.q.Filter.States) == 0 || slices.Contains(r.q.Filter.States, core.Skipped))
	for i := range list {
		x := &list[i]
		if x.Why != nil {
			continue
		}
		for _, id := range again[x.Of.ID.String()] {
			as, err := r.op.ask.Find(ctx, id)
			if err != nil && core.CodeOf(err) != core.CodeNotFound {
				return err
			}
			if x.noted = as.Key != "" && as.Key == r.key(x.Of.ID); x.noted {
				x.Why = nil
				break
			}
			if as.State != core.Skipped || skippedToo { // also a run that is deleted by now
				x.Why = core.Errorf(core.CodeRefused, "run %d was already rerun as run %s: rerun the newer run, or rerun the "+
					"earlier run by its ID", x.Of.ID, id)
			}
		}
		if since := known[x.Job.Def.ID]; x.Why == nil && !x.noted && !since.IsZero() && x.Of.EndedAt.Add(-time.Minute).Before(since) {
			x.Why = core.Errorf(core.CodeRefused, "run %d ended before the oldest change record that was searched for reruns: "+
				"rerun the run by its ID", x.Of.ID)
		}
	}
	return nil
}

// fill prepares the new run without its ID.
func (r *rerunning) fill(ctx context.Context, x *Rerun) (err error) {
	of, d := &x.Of, &x.Job.Def
	x.As = core.Run{App: d.App, State: core.Planned, Cause: cmp.Or(r.q.Cause, core.CauseManual), Rev: x.Job.Sched.Rev, At: of.At, Slot: r.slot,
		Attempt: 1, Retries: d.Retry.Max, Addresses: of.Addresses, Key: r.key(of.ID), By: r.by.Name, RerunOf: of.ID,
	}
	x.As.Follow(d)
	if whole := of.IsBroadcast(); whole && !r.q.SameAddress {
		x.As.Addresses = nil // to all executors available at its dispatch
	} else if !whole {
		x.As.Shard = core.Shard{Index: of.Shard.Index, Total: of.Shard.Total}
	}
	if r.q.Retries != nil {
		x.As.Retries = *r.q.Retries
	}
	switch {
	case len(r.q.Addresses) > 0:
		x.As.Addresses = slices.Clone(r.q.Addresses)
	case of.IsBroadcast() && r.q.SameAddress:
	case r.q.SameAddress && of.Address == "":
		return core.Errorf(core.CodeRefused, "run %d was never sent to an executor: the rerun cannot use the same address", of.ID)
	case r.q.SameAddress:
		x.As.Addresses = []string{of.Address}
	}
	if len(x.As.Addresses) > 0 { // the app's allow may have changed since
		if err := r.op.checkAddresses(ctx, x.Job, x.As.Addresses, r.q.Direct); err != nil {
			return err
		}
	}
	x.As.Params, err = r.params(ctx, x)
	return err
}

// params returns the params of the new run, or nil if the job's template is unchanged. Dispatch
// fills a template with the scheduled time of the first run. A template with the last success is
// filled here, since it needs the last success before that time.
func (r *rerunning) params(ctx context.Context, x *Rerun) (*string, error) {
	switch {
	case r.q.Params != nil:
		return r.q.Params, nil
	case x.Of.Params != nil:
		return x.Of.Params, nil
	}
	was, err := r.ranWith(ctx, x)
	if err != nil {
		return nil, err
	}
	now := &x.Job.Def
	if !was.Def.Template { // even if the job has equal params, since it may be edited before dispatch
		return &was.Def.Params, nil
	}
	t, err := core.ParseTemplate(was.Def.Params)
	if err != nil {
		return nil, err
	}
	if was.Def.Params == now.Params && now.Template && was.Schedule.Timezone == x.Job.Sched.Schedule.Timezone && !t.NeedsLastSuccess() {
		return nil, nil
	}
	zone, err := time.LoadLocation(was.Schedule.Timezone)
	if err != nil {
		return nil, err
	}
	fill := core.Filling{Attempt: 1, At: x.Of.At, Zone: zone}
	if t.NeedsLastSuccess() {
		if fill.LastSuccess, err = r.successBefore(ctx, x.Job.Def.ID, x.Of.At); err != nil {
			return nil, err
		}
	}
	x.fill = func(as *core.Run) error {
		fill.Run = as.ID
		text, err := t.Fill(fill)
		as.Params = &text
		return err
	}
	return nil, x.fill(&core.Run{ID: x.Of.ID}) // check the length
}

// ranWith returns the job's record at the time when a run was sent.
func (r *rerunning) ranWith(ctx context.Context, x *Rerun) (core.JobRecord, error) {
	at := jobRev{x.Job.Def.ID, x.Of.RevSent()}
	if at.rev == x.Job.Sched.Rev {
		return core.RecordOf(&x.Job.Sched, &x.Job.Def), nil
	}
	with, read := r.ran[at]
	if !read {
		var err error
		if with, err = r.op.ask.RanWith(ctx, &x.Of, x.Job); err != nil {
			return core.JobRecord{}, err
		}
		r.ran[at] = with
	}
	if with == nil {
		return core.JobRecord{}, core.Errorf(core.CodeRefused, "the params of run %d are unknown: set `params`", x.Of.ID)
	}
	return with.JobRecord, nil
}

// successBefore returns the newest scheduled time before the given one whose run succeeded. It
// reads the newest planned and numbered runs before that time, and returns 0 if none succeeded.
func (r *rerunning) successBefore(ctx context.Context, job core.JobID, before core.Instant) (last core.Instant, err error) {
	low, high := core.RunRange(job, 0, before-1)
	numberedLow, numberedHigh := core.NumberedRange(job)
	for _, span := range [][2]core.RunID{{high, low}, {numberedHigh, numberedLow}} {
		runs, err := r.op.store.Runs.Span(ctx, span[0], span[1], budget.AtOnce)
		if err != nil {
			return 0, core.Retryable(err)
		}
		for i := range runs {
			if runs[i].State == core.Succeeded && runs[i].At < before {
				last = max(last, runs[i].At)
			}
		}
	}
	return last, nil
}

// make creates one new run. It returns only temporary errors; others go to Why.
func (r *rerunning) make(ctx context.Context, x *Rerun) error {
	if x.Why != nil {
		return nil
	}
	res, err := r.op.triggered(ctx, x.Job.Def.ID, x.As, r.g, func(stored *core.Run) error {
		if stored.RerunOf == x.Of.ID {
			return (&TriggerRequest{Params: r.q.Params, Addresses: r.q.Addresses, Retries: r.q.Retries, Key: x.As.Key}).holds(stored)
		}
		return &core.Error{Code: core.CodeConflict, Field: "key", Value: x.As.Key,
			Reason: core.Say("run %d has this key and is not a rerun of run %d: choose another key", stored.ID, x.Of.ID)}
	}, x.fill)
	x.As, x.Existing = res.Run, res.Existing
	if core.CodeOf(err) == core.CodeUnavailable || ctx.Err() != nil {
		return core.Retryable(err)
	}
	x.Why = err
	return nil
}

// note writes a change record of the reruns for each job.
func (r *rerunning) note(ctx context.Context, list []Rerun) {
	notes, jobs := map[core.JobID]*runNote{}, map[core.JobID]*core.Job{}
	for i := range list {
		x := &list[i]
		if x.As.ID == 0 || x.Existing && (x.noted || r.q.Run != "") || x.Why != nil {
			continue
		}
		id := x.Job.Def.ID
		if notes[id] == nil {
			notes[id], jobs[id] = &runNote{}, x.Job
		}
		n := notes[id]
		n.Runs, n.RerunOf = append(n.Runs, x.As.ID.String()), append(n.RerunOf, x.Of.ID.String())
	}
	for id, n := range notes {
		r.op.note(ctx, r.by.Did(core.Change{At: r.now, Verb: core.VerbTriggered, New: n.String()}), jobs[id])
	}
}
