// Package finish ends runs. Each run ends once, and no follow-up (retry, child run, next run of a fixed delay) is lost or
// created twice. Callbacks, dispatchers that fail a run, and the watchdog use the same steps: F1 to F4 in
// docs/internals/claim-protocol.md. A closed run cannot be closed again.
package finish

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

// Options of a Finish. A field with its zero value gets its default.
type Options struct {
	Now  func() time.Time
	Plan plan.Options
	Log  *slog.Logger
	// Closed is called with each run that this process closed. The function must not block. nil: no call.
	Closed func(r *core.Run)
}

// Finish ends runs and creates their follow-ups.
type Finish struct {
	s     *store.Store
	o     Options
	wakes wakes
}

// New returns a Finish. If s finds runs by journal, each run that is closed without a claim is named in a journal.
func New(s *store.Store, o Options) *Finish {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Finish{s: s, o: o}
}

// A Result is the end of a run, as reported by an executor, a dispatcher or the watchdog.
type Result struct {
	Run     core.RunID
	State   core.State
	Reason  core.Reason
	Code    int
	Message string
	Data    string    // data for child runs, at most core.DataMax bytes
	At      time.Time // end time; zero means the current time
	// RetryAfter is the retry delay that the handler of a failed run requests. Zero: the job's setting applies. core.NoRetry
	// forbids a retry.
	RetryAfter time.Duration
	// Killed reports whether the executor reports that the run was killed. If no user killed the run and the run was sent more
	// than once, the report does not close the run. The executor may have ended only an earlier copy.
	Killed bool
	// Owner is the owner that the run must still have. Otherwise End returns core.ErrRefused. Dispatchers set it for their own
	// results. Empty: no condition.
	Owner string
	// Unowned requires that the run has no owner and was never sent. Otherwise End returns core.ErrRefused. Cancellations,
	// deletions and replacements set it.
	Unowned bool
	// Reported reports whether an executor reports the result. The result then closes the run only if the run has an owner or
	// may have been sent.
	Reported bool
	// App is the app that the run must have. Otherwise End returns core.ErrRefused. Empty: no condition.
	App string
	// Seen is the run as just read by the caller with a strongly consistent read. With Seen, End need not read the run. The
	// close fails if the run has changed since. nil: End reads the run.
	Seen *core.Run
}

// blind reports whether the end can be decided without reading the run. Its close has the usual
// condition.
func (r *Result) blind() bool {
	return r.State == core.Succeeded && r.Seen == nil && !r.Killed && r.Owner == "" && !r.Unowned
}

// ErrUnsent is wrapped in the error of [Finish.End] for a report about a run that was never sent.
var ErrUnsent = errors.New("the run was never sent")

// End closes runs and returns one error for each result, in order. End stores the ends of all runs before it creates the first
// follow-up. The errors are:
//
//   - nil: the end and its pending follow-ups are stored. A report also gets nil if a follow-up waits until a user repairs
//     a job.
//   - core.CodeNotFound: the run does not exist, or an executor reports a run that was never sent.
//   - any other error: the caller must call End again.
func (f *Finish) End(ctx context.Context, results []Result) []error {
	errs, rest := f.Close(ctx, results)
	rest.Make(ctx)
	return errs
}

// Close closes runs but does not create their follow-ups. AfterClose.Make creates the follow-ups, and then updates the
// returned slice of errors. Until then, no error in the slice is nil.
func (f *Finish) Close(ctx context.Context, results []Result) ([]error, *AfterClose) {
	errs := make([]error, len(results))
	rest := &AfterClose{f: f, results: results, errs: errs}
	var lost []core.RunPut
	todo := f.endBlind(ctx, results, rest, &lost)
	for try := 0; len(todo) > 0; try++ {
		if try == budget.ReadTries {
			for _, i := range todo {
				errs[i] = fmt.Errorf("close run %d: %w: the last of %d answers: %v", results[i].Run, core.ErrThrottled, budget.ReadTries,
					errs[i].Error())
			}
			break
		}
		todo = f.endOnce(ctx, results, todo, rest, &lost, try == 0)
	}
	return errs, rest
}

// endBlind closes runs that need no read. It returns the results to read: all others, and closes
// without a clear answer. Closes with an unknown answer are added to lost.
func (f *Finish) endBlind(ctx context.Context, results []Result, rest *AfterClose, lost *[]core.RunPut) (todo []int) {
	closes := make([]core.RunPut, 0, len(results)) // a close takes about a kilobyte
	var at []int
	for i := range results {
		if r := &results[i]; r.blind() {
			closes, at = append(closes, f.closeOf(r, nil)), append(at, i)
		} else {
			todo = append(todo, i)
		}
	}
	if len(closes) == 0 {
		return todo
	}
	for k, err := range f.s.ChangeRuns(ctx, closes) {
		i, c := at[k], &closes[k]
		switch {
		case err == nil && c.Seen != nil:
			f.done(*c.Seen, c, i, rest)
		case errors.Is(err, core.ErrThrottled):
			rest.errs[i] = fmt.Errorf("close run %d: %w", c.ID, err)
		default: // conflict or unknown: read, then decide
			todo = append(todo, i)
			noteLost(lost, c, err)
		}
	}
	slices.Sort(todo)
	return todo
}

// done handles a stored close; run is the run before it.
func (f *Finish) done(run core.Run, c *core.RunPut, i int, rest *AfterClose) {
	c.Apply(&run)
	f.Ended(&run)
	rest.add(&run, i)
}

// Ended passes a run that this process closed to Options.Closed. If the run is the failed last attempt of its retry chain,
// Ended logs this.
func (f *Finish) Ended(run *core.Run) {
	if run.FailedForGood() {
		f.o.Log.Warn("failed for good", "run", run.ID, "app", run.App, "job", run.ID.Job(), "scheduledAt", run.At.String(), "state", run.State,
			"reason", run.Reason, "code", run.Code, "attempt", run.Attempt)
	}
	if f.o.Closed != nil {
		f.o.Closed(run)
	}
}

func noteLost(lost *[]core.RunPut, c *core.RunPut, err error) {
	if !errors.Is(err, core.ErrRefused) {
		*lost = append(*lost, *c)
	}
}

// tellLost calls Ended for a run that was found closed, if a close of this call did it.
func (f *Finish) tellLost(lost *[]core.RunPut, run *core.Run) {
	if slices.ContainsFunc(*lost, func(c core.RunPut) bool { return c.Made(run) }) {
		*lost = slices.DeleteFunc(*lost, func(c core.RunPut) bool { return c.ID == run.ID }) // only once
		f.Ended(run)
	}
}

// endOnce reads and closes the results named by todo, and returns those without a clear answer.
func (f *Finish) endOnce(ctx context.Context, results []Result, todo []int, rest *AfterClose, lost *[]core.RunPut, first bool) (
	again []int) {
	errs := rest.errs
	var jobs map[core.JobID]*core.Job
	var bad map[core.JobID]error // each blocks only its own runs
	what := "run"
	found, err := f.read(ctx, results, todo, first)
	if err == nil {
		what = "job of run"
		jobs, bad, err = f.readJobs(ctx, results, todo, found)
	}
	if err != nil {
		for _, i := range todo {
			errs[i] = fmt.Errorf("read %s %d: %w", what, results[i].Run, err)
		}
		return nil
	}
	closes, at, seen := make([]core.RunPut, 0, len(todo)), make([]int, 0, len(todo)), make(map[core.RunID]bool, len(todo))
	for _, i := range todo {
		r := &results[i]
		got, ok := found[r.Run]
		run := got.Is
		switch {
		case !ok:
			errs[i] = core.Errorf(core.CodeNotFound, "run %d does not exist", r.Run)
		case errors.Is(got.Err, core.ErrThrottled):
			errs[i], again = core.ErrThrottled, append(again, i)
		case got.Err != nil:
			errs[i] = fmt.Errorf("read run %d: %w", r.Run, got.Err)
		case r.App != "" && run.App != r.App:
			errs[i] = core.ErrRefused
		case !run.State.Open():
			f.tellLost(lost, run)
			if errs[i] = f.noteLate(ctx, run, r); errs[i] == nil {
				rest.found(run, i)
			}
		case r.Reported && !run.MayHaveBeenSent():
			f.o.Log.Warn("report of an unsent run ignored", "run", r.Run, "job", run.ID.Job(), "app", run.App)
			errs[i] = &core.Error{Code: core.CodeNotFound, Reason: core.Say("run %d was never sent to an executor", r.Run), Err: ErrUnsent}
		case r.Owner != "" && run.Owner != r.Owner, r.Unowned && (run.Owner != "" || run.MaybeSent || run.IsBroadcast()):
			errs[i] = core.ErrRefused
		case r.Killed && run.MaybeSent && run.KillAt.IsZero():
			// The report may be about an earlier copy. The callback gets nil; the watchdog decides.
			f.o.Log.Info("killed report of a resent run ignored", "run", r.Run, "job", run.ID.Job())
			errs[i] = nil
		case seen[r.Run]:
			errs[i], again = core.ErrThrottled, append(again, i) // the answer if the last try still finds a second result
		case bad[r.Run.Job()] != nil:
			errs[i] = fmt.Errorf("read job %d of run %d: %w", r.Run.Job(), r.Run, bad[r.Run.Job()])
		default:
			seen[r.Run] = true
			c, err := f.decide(ctx, r, run, jobs)
			if err != nil {
				errs[i] = err
				continue
			}
			closes, at = append(closes, c), append(at, i)
		}
	}
	if closes, at = f.list(ctx, closes, at, errs); len(closes) == 0 {
		return again
	}
	for k, err := range f.s.ChangeRuns(ctx, closes) {
		i, c := at[k], &closes[k]
		switch {
		case err == nil:
			f.done(*found[c.ID].Is, c, i, rest)
		case errors.Is(err, core.ErrThrottled):
			errs[i] = fmt.Errorf("close run %d: %w", c.ID, err)
		default: // conflict or unknown: read, then decide
			noteLost(lost, c, err)
			if ctx.Err() != nil {
				errs[i] = fmt.Errorf("close run %d: %w", c.ID, ctx.Err())
				continue
			}
			errs[i], again = err, append(again, i) // the answer if no later try has a clearer one
		}
	}
	return again
}

// list names in a journal the runs that were never claimed. The dispatcher that recorded such a run may have died before it
// stored its journal, and the message of the run may be lost. The closes set the new journal, so that lists have each run
// once. list returns the closes to write: a run whose journal is not stored stays open, with its error in errs. at has the
// places of the closes in errs.
func (f *Finish) list(ctx context.Context, closes []core.RunPut, at []int, errs []error) (listed []core.RunPut, places []int) {
	if !f.s.ByJournal {
		return closes, at
	}
	unlisted := []int{} // places in closes
	for k := range closes {
		if closes[k].Seen.SentAt.IsZero() {
			unlisted = append(unlisted, k)
		} else {
			listed, places = append(listed, closes[k]), append(places, at[k])
		}
	}
	for some := range slices.Chunk(unlisted, inJournal) {
		runs := make([]core.RunID, len(some))
		for i, k := range some {
			runs[i] = closes[k].ID
		}
		key, err := f.journal(ctx, runs)
		for _, k := range some {
			if err != nil {
				errs[at[k]] = err
			} else {
				listed, places = append(listed, closes[k].In(key)), append(places, at[k])
			}
		}
	}
	return listed, places
}

// inJournal is the maximum number of runs in one journal, because DynamoDB stores at most 400 KB in an item. Further runs
// get another journal.
const inJournal = 1000

// journal stores a journal that names runs, at most inJournal, and returns its key. If lists need no journals, the key is zero.
func (f *Finish) journal(ctx context.Context, runs []core.RunID) (key core.JournalKey, _ error) {
	if !f.s.ByJournal || len(runs) == 0 {
		return key, nil
	}
	j := core.Journal{Key: core.NewJournalKey(rand.Text(), f.o.Now()), V: 1}
	for _, id := range runs {
		j.Entries = append(j.Entries, core.Entry{Run: id, Outcome: core.Recorded})
	}
	var err error
	for range 3 {
		if err = f.s.PutJournal(ctx, j); err == nil || errors.Is(err, core.ErrRefused) {
			return j.Key, nil
		}
	}
	return key, fmt.Errorf("list runs that end: %w", err)
}

// read reads the runs of results. The first try uses Seen instead, if every result has it.
func (f *Finish) read(ctx context.Context, results []Result, todo []int, first bool) (map[core.RunID]store.Got[*core.Run], error) {
	if first {
		seen := make(map[core.RunID]store.Got[*core.Run], len(todo))
		for _, i := range todo {
			if r := &results[i]; r.Seen != nil && r.Seen.ID == r.Run {
				run := *r.Seen // it is the caller's
				seen[r.Run] = store.Got[*core.Run]{Is: &run}
			}
		}
		if len(seen) == len(todo) {
			return seen, nil
		}
	}
	ids := make([]core.RunID, len(todo))
	for k, i := range todo {
		ids[k] = results[i].Run
	}
	return f.s.Runs.Get(ctx, ids)
}

// readJobs reads the jobs whose retry rules the results need. The result bad has the errors of the jobs that cannot be used.
func (f *Finish) readJobs(ctx context.Context, results []Result, todo []int, found map[core.RunID]store.Got[*core.Run]) (
	jobs map[core.JobID]*core.Job, bad map[core.JobID]error, err error,
) {
	var need []core.JobID
	for _, i := range todo {
		got, ok := found[results[i].Run]
		if !ok || got.Err != nil {
			continue
		}
		run := got.Is
		fails := results[i].State.Failure() || run.PastTimeout()
		if fails && run.State.Open() && run.Retries > 0 && !run.IsBroadcast() && !slices.Contains(need, run.ID.Job()) {
			need = append(need, run.ID.Job())
		}
	}
	if len(need) == 0 {
		return nil, nil, nil
	}
	return store.Split(f.s.Jobs.Get(ctx, store.Whole, need))
}

// closeOf returns the close that a result asks for; seen is the run, or nil if it was not read.
func (f *Finish) closeOf(r *Result, seen *core.Run) core.RunPut {
	c := core.End(r.Run, core.Run{State: r.State, Reason: r.Reason, Code: r.Code, Message: core.TruncateMessage(r.Message), Data: r.Data,
		EndedAt: r.At})
	c.Was.App, c.Was.Owner, c.Had, c.Seen = r.App, r.Owner, r.Reported, seen
	if c.To.EndedAt.IsZero() {
		c.To.EndedAt = f.o.Now()
	}
	if r.App != "" {
		c.If |= core.RunApp
	}
	if r.Owner != "" {
		c.If |= core.RunOwner
	}
	if r.Unowned {
		c.If |= core.RunOwner | core.RunMaybeSent
		if seen != nil { // a broadcast has no owner
			c.If, c.Was.State = c.If|core.RunState, seen.State
		}
	}
	return c
}

// decide returns the close of an open run with its pending follow-ups. These are a retry, a pause
// of the job after a failed retry chain, and post-run work.
func (f *Finish) decide(ctx context.Context, r *Result, run *core.Run, jobs map[core.JobID]*core.Job) (core.RunPut, error) {
	c, err := f.retried(ctx, r, run, jobs)
	if err != nil {
		return c, err
	}
	if run.PauseAfter && c.To.State.Failure() && !c.GoesOn() {
		c.To.Owes = []core.Owed{{Pause: true}}
	}
	return c.Owing(run.Notice), nil
}

// retried returns the close of an open run. A failure after a recorded kill or timeout gets that state. A failure that has
// retries left gets a pending retry.
func (f *Finish) retried(ctx context.Context, r *Result, run *core.Run, jobs map[core.JobID]*core.Job) (core.RunPut, error) {
	c := f.closeOf(r, run)
	to := &c.To
	switch {
	case run.PastTimeout() && (r.State.Failure() || r.Killed):
		to.State, to.Reason = core.TimedOut, core.ReasonTimeout
	case run.KillBy != "" && (r.State.Failure() || run.IsBroadcast() && r.State == core.Skipped) || r.Killed:
		to.State, to.Reason = core.Killed, core.ReasonPerson
		if run.Replaced() || run.KillBy == "" && r.Reason == core.ReasonReplaced {
			to.Reason = core.ReasonReplaced
		}
	}
	if r.Killed && run.KillAt.IsZero() {
		c.If |= core.RunMaybeSent
	}
	// If a kill is recorded during this close, the close conflicts and is decided again.
	if to.State.Failure() {
		c.If |= core.RunKill
		c.Was.KillBy, c.Was.KillAt = run.KillBy, run.KillAt
	}
	if run.IsBroadcast() { // each shard has its own retries
		c.If |= core.RunKill // as above: a broadcast that a user killed is not recorded as skipped
		c.Was.KillBy, c.Was.KillAt = run.KillBy, run.KillAt
		return c, nil
	}
	var delay time.Duration // zero for a deleted job: its retry is recorded as deleted
	if to.State == core.Failed && r.RetryAfter != 0 {
		if r.RetryAfter < 0 {
			to.Reason = core.ReasonCancelled
			return c, nil
		}
		if why := run.MaySnooze(r.RetryAfter); why != "" {
			to.Message = core.TruncateMessage("(" + why + ")\n" + to.Message)
		} else {
			to.Reason, delay = core.ReasonSnoozed, r.RetryAfter
		}
	}
	if to.Reason != core.ReasonSnoozed && run.Retries <= 0 || !to.State.Failure() {
		return c, nil
	}
	if job, ok := jobs[run.ID.Job()]; ok && to.Reason != core.ReasonSnoozed {
		if !slices.Contains(job.Def.Retry.On, to.State) {
			return c, nil
		}
		delay = job.Def.Retry.After(run.Attempt)
	}
	n, err := f.s.RunNumbers(ctx, run.ID.Job(), 1)
	if err != nil {
		return c, fmt.Errorf("allocate an ID for the retry of run %d: %w", run.ID, err)
	}
	to.Then = core.NumberedRun(run.ID.Job(), n)
	to.Owes = []core.Owed{{Run: to.Then, Kind: core.CauseRetry, Slot: core.Ceil(f.o.Now().Add(delay))}}
	return c, nil
}

// noteLate records the result that arrived after its run was closed as lost or timed out.
func (f *Finish) noteLate(ctx context.Context, run *core.Run, r *Result) error {
	if (run.State == core.Lost || run.State == core.TimedOut) && run.Late == nil && r.Owner == "" && !r.Unowned &&
		r.State != core.Lost && !(r.State == run.State && r.Code == run.Code) {
		late := core.LateResult{At: f.o.Now(), Code: r.Code, Message: core.TruncateMessage(r.Message)}
		if err := f.s.ChangeRuns(ctx, []core.RunPut{run.NoteLate(late)})[0]; err != nil && !errors.Is(err, core.ErrRefused) {
			return fmt.Errorf("record the late result of run %d: %w", run.ID, err)
		}
	}
	return nil
}

// Mend creates the follow-ups of a closed run: steps F2 to F4 in docs/internals/claim-protocol.md. If the retry chain is over,
// it also frees the run's concurrency slots, creates child runs, and plans the next run of a fixed delay. For an open
// broadcast, it sends missing shards, and closes the broadcast if all shards have ended. Repeated and concurrent calls are
// safe.
func (f *Finish) Mend(ctx context.Context, run *core.Run) error {
	return errors.Join(f.mend(ctx, run, true), f.postRun(ctx, run)[0])
}

// mend creates the follow-ups of a run, except post-run work. If release is false, the concurrency slots are already free.
func (f *Finish) mend(ctx context.Context, run *core.Run, release bool) error {
	if run.IsBroadcast() && run.State.Open() {
		return f.gather(ctx, run, true)
	}
	if run.OwesBefore() {
		if err := f.make(ctx, run); err != nil {
			return err
		}
	}
	if run.Then != 0 {
		return nil
	}
	var kept error
	if release {
		kept = f.Release(ctx, run)[0]
	}
	return errors.Join(kept, f.after(ctx, run, f.families(ctx, run)[0]))
}

// after creates the follow-ups that come after the children; err is the error of the children.
func (f *Finish) after(ctx context.Context, run *core.Run, err error) error {
	if run.FixedDelay {
		err = errors.Join(err, f.ChainEnded(ctx, run.First, run.EndedAt))
	}
	if run.EndsRow() {
		err = errors.Join(err, f.EndRow(ctx, run.ID.Job(), run.EndedAt))
	}
	if run.ShardEnded() {
		err = errors.Join(err, f.shardEnded(ctx, run))
	}
	return err
}

// make makes a pending pause, or creates the pending retry with its stored ID and then its message. Then it records that
// no follow-up is pending.
func (f *Finish) make(ctx context.Context, run *core.Run) error {
	do := f.retry
	if run.Owes[0].Pause {
		do = f.pauseFailing
	}
	if err := do(ctx, run); err != nil {
		return err
	}
	if err := f.s.ChangeRuns(ctx, []core.RunPut{run.ClearOwed()})[0]; err != nil && !errors.Is(err, core.ErrRefused) {
		return fmt.Errorf("record that run %d has no pending follow-up: %w", run.ID, err)
	}
	run.Owes = nil
	return nil
}

// retry creates and sends the pending retry of a run.
func (f *Finish) retry(ctx context.Context, run *core.Run) error {
	o := run.Owes[0]
	next := core.Run{ID: o.Run, App: run.App, State: core.Planned, Cause: o.Kind, Rev: run.Rev, At: run.At, Slot: o.Slot,
		Seq: run.Seq, Attempt: run.Attempt + 1, First: run.First, Retries: run.RetriesAfter(), FixedDelay: run.FixedDelay,
		Params: run.Params, Addresses: run.Addresses, By: run.By, Permit: run.Permit, PauseAfter: run.PauseAfter,
		Parent: run.Parent, Place: min(run.Place, 1), Shard: run.Shard, KeepLog: run.KeepLog,
		Notice: run.Shard.Of == 0} // until its claim sets it
	if _, err := f.create(ctx, []core.Run{next}); err != nil {
		return err
	}
	return f.send(ctx, &next)
}

// create is F2. It returns the runs that already exist, which is not an error.
func (f *Finish) create(ctx context.Context, owed []core.Run) (there []core.RunID, err error) {
	for i, err := range f.createEach(ctx, owed) {
		switch {
		case err == nil:
		case errors.Is(err, core.ErrRefused):
			there = append(there, owed[i].ID)
		default:
			return nil, err
		}
	}
	return there, nil
}

// createEach is F2 with an answer for each run; core.ErrRefused means that it exists.
func (f *Finish) createEach(ctx context.Context, owed []core.Run) []error {
	errs, todo := make([]error, len(owed)), make([]int, len(owed))
	for i := range todo {
		todo[i] = i
	}
	for try := 0; len(todo) > 0; try++ {
		runs, of := make([]core.Run, len(todo)), todo
		for k, i := range todo {
			runs[k] = owed[i]
		}
		todo = nil
		for k, err := range f.createRuns(ctx, runs) {
			i := of[k]
			switch {
			case err == nil, errors.Is(err, core.ErrRefused):
				errs[i] = err
			case errors.Is(err, core.ErrThrottled), try == budget.ReadTries, ctx.Err() != nil:
				errs[i] = fmt.Errorf("create run %d: %w", owed[i].ID, err)
			default: // unknown result: try again
				todo = append(todo, i)
			}
		}
	}
	return errs
}

// createRuns stores runs. Their messages follow, so an inactive deployment must not create them.
func (f *Finish) createRuns(ctx context.Context, runs []core.Run) []error {
	if err := f.s.Fence(ctx); err != nil {
		return slices.Repeat([]error{err}, len(runs))
	}
	return f.s.CreateRuns(ctx, runs)
}

// send enqueues a recorded run on the ring. If its due time is beyond the ring's reach, send puts
// it into the due index.
func (f *Finish) send(ctx context.Context, run *core.Run) error {
	fire := run.Fire()
	if run.Slot.Time().Sub(f.o.Now()) > f.o.Plan.MaxAhead {
		g, err := f.s.Global(ctx)
		if err != nil {
			return fmt.Errorf("read the global item: %w", err)
		}
		entry := core.DueItem{PlanAt: run.Slot.Add(-f.o.Plan.PlanAhead), Job: run.ID.Job(), Run: run.ID,
			Partition: core.PartitionOf(run.ID.Job(), g.Partitions)}
		if err := f.s.Enter(ctx, []core.DueItem{entry})[0]; err != nil {
			return fmt.Errorf("put entry of run %d: %w", run.ID, err)
		}
		return nil
	}
	return f.enqueue(ctx, ring.Out{NotBefore: run.Slot.Time(), Message: ring.Message{Kind: ring.KindFires, Slot: run.Slot,
		Fires: []core.Fire{fire}, Slow: f.o.Plan.SlowLane && run.RepeatedRetry()}})
}

// enqueue sends a message; copies are harmless.
func (f *Finish) enqueue(ctx context.Context, out ring.Out) error {
	for try := 0; ; try++ {
		err := f.s.Queue.Enqueue(ctx, []ring.Out{out})[0]
		if err == nil {
			return nil
		}
		if try == budget.ReadTries || errors.Is(err, core.ErrThrottled) || ctx.Err() != nil {
			return fmt.Errorf("send run %d: %w", out.Message.Fires[0].Run, err)
		}
	}
}

// ChainEnded plans the next run of a job with a fixed delay. The parameter first is the first run of the retry chain that has
// ended, and the parameter ended is the end time of this chain. If first is not the job's last planned run, ChainEnded does
// nothing. A run that is due soon is sent immediately. If ChainEnded fails, the planner plans the next run.
func (f *Finish) ChainEnded(ctx context.Context, first core.RunID, ended time.Time) error {
	job := first.Job()
	// Use the stored precision: every process that ends this chain must compute the same time, or
	// it adds a second fire.
	ended = core.FromMillis(core.Millis(ended))
	for range budget.ReadTries {
		stored, err := f.readJob(ctx, store.Planning, job)
		if err != nil {
			return fmt.Errorf("read schedule of job %d: %w", job, err)
		}
		if stored == nil {
			return nil
		}
		s := stored.Sched
		delay, fixed := s.Schedule.FixedDelay()
		if !fixed || s.Tail != first {
			return nil
		}
		move := plan.NextAfterEnd(s, delay, ended, f.o.Plan)
		if s.State != core.Started {
			move.NewPlanAt = s.PlanAt
		} else if after := s.Moved(move); after.PlanAt <= core.InstantOf(f.o.Now()) {
			move = f.planNow(ctx, s, after, move)
		}
		err = f.s.Advance(ctx, []core.Advance{move})[0]
		if err == nil {
			return nil
		}
		if errors.Is(err, core.ErrThrottled) || ctx.Err() != nil {
			return fmt.Errorf("advance job %d: %w", job, err)
		}
	}
	// The job may have moved; the caller reads it again, or the tick plans it.
	return fmt.Errorf("advance job %d: %w", job, core.ErrThrottled)
}

// planNow sends the fires of a job that must be planned at once. It returns one advance from s
// that covers both steps, or move if it cannot plan them.
func (f *Finish) planNow(ctx context.Context, s, after core.Sched, move core.Advance) core.Advance {
	sch, err := schedule.Compile(after.Schedule, after.ID)
	if err != nil {
		return move
	}
	r := plan.Job(after, sch, f.o.Now(), f.o.Plan)
	if len(r.Skips) > 0 || len(r.Fires) == 0 {
		return move
	}
	if cmp.Or(f.s.Queue.Enqueue(ctx, plan.Pack(r.Fires, ring.MaxFires, f.o.Plan.LeadTime.Of))...) != nil {
		return move
	}
	both := r.Advance
	both.Rev, both.Next, both.Tail = s.Rev, s.Next, s.Tail
	return both
}
