// Package restore makes a copy of a deployment's data usable. The copy can be tables restored to an earlier time, a replica in
// another Region, or a file from a backup. The package rejects tables that the calling deployment already uses. A restore does
// the following:
//
//   - It advances the ID counters, because the copy does not have IDs that were allocated after it was made.
//   - It passes open runs to the planner or the watchdog.
//   - It increments the generation, so that processes of the earlier deployment cannot use the tables.
//
// Afterward, operate.Replan sends expected runs that are missing.
package restore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// Options of a Restorer. A field with its zero value gets the default in its comment.
type Options struct {
	// Deployment is the deployment that may use the data after the restore. Empty: the data is a local file, which only
	// one deployment can use.
	Deployment string
	Now        func() time.Time
	// Budget is how long one call of Do starts new work. Default: 10 s.
	Budget time.Duration
}

// openRunsSince is how long before the copy an open run may have been due to be found, unless the run waits.
const openRunsSince = 48 * time.Hour

type Restorer struct {
	s *store.Store
	o Options
}

// New returns a Restorer. The store has no Deployment, because the data can belong to another deployment.
func New(s *store.Store, o Options) *Restorer {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Budget == 0 {
		o.Budget = 10 * time.Second
	}
	return &Restorer{s: s, o: o}
}

type Request struct {
	By string
	// From is the time of the copy. Zero: one minute before the last time at which the copy shows a running server. Servers
	// write this time every minute.
	From time.Time
	// LiftJobs is the number of job IDs that may have been allocated after From. LiftRuns is the number of run IDs of one job.
	// 0: the result of IDsIssuedIn.
	LiftJobs, LiftRuns int
	// After is Result.Next of the previous call; 0 starts a restore.
	After core.JobID
	// RunsLost reports whether the table of runs is lost. Runs that were due up to From are then not sent again.
	RunsLost bool
	// Again allows a restore of tables that this deployment already uses.
	Again bool
}

// A Result is the outcome of one call of Do.
type Result struct {
	Generation         int
	From               time.Time
	LiftJobs, LiftRuns int
	Jobs               int // number of processed jobs
	Leases             int // number of deleted leases
	Waiting            int // number of runs without an owner, which were added to the due index and will be sent
	Watched            int // number of runs that an executor may have; the watchdog checks these runs
	Owing              int // number of ended runs with pending follow-ups, which the watchdog creates
	// Full lists the jobs that have no run numbers left. Recreate these jobs before you trigger or retry them.
	Full []core.JobID
	// Next is the value of Request.After for the next call. 0: the restore is complete and the deployment can work.
	Next core.JobID
}

// Limits of the ID counters' advance.
const (
	liftJobs, liftJobsMost = 100_000, 1 << 24 // 100,000 is the most that one apply creates
	liftRuns, liftRunsMost = 10_000, 1 << 27
)

// IDsIssuedIn returns how many IDs may have been allocated during a time span: 100 job IDs per second, and 1,000 run IDs of
// one job per second. The second rate is the limit of one DynamoDB item. The maximum of a single request is added to both.
func IDsIssuedIn(span time.Duration) (jobs, runs int) {
	s := int(max(span, 0).Seconds())
	return min(liftJobs+100*s, liftJobsMost), min(liftRuns+1000*s, liftRunsMost)
}

const (
	page       = 1000 // runs of one read
	perJournal = 500
	// stalePages is how many pages in a row of runs due long before the copy are read: triggers older than
	// 100,000 such runs are not found.
	stalePages = 100
	planAhead  = 210 * time.Second // as plan.AWS: no run is enqueued earlier than that
	jobsAtOnce = 100
	tries      = 4
)

// edit changes the global item; change returns false if nothing changes.
func (r *Restorer) edit(ctx context.Context, by, verb, why string, change func(g *core.Global) (bool, error)) (core.Global, error) {
	for range tries {
		old, err := r.s.Global(ctx)
		if err != nil {
			return old, fmt.Errorf("read the global item: %w", err)
		}
		want := old
		now := r.o.Now().UTC().Truncate(time.Millisecond)
		changed, err := change(&want)
		if err != nil || !changed {
			return want, err
		}
		want.Rev = max(core.Millis(now), old.Rev+1)
		err = r.s.PutGlobal(ctx, old.Rev, want)
		if errors.Is(err, core.ErrRefused) {
			continue // another writer was faster, or our own answer was lost
		}
		if err != nil {
			return want, fmt.Errorf("write global item: %w", err)
		}
		c := core.Change{ID: want.Rev, At: now, By: by, Verb: verb, Why: why, Old: core.GlobalRecordOf(&old).String(),
			New: core.GlobalRecordOf(&want).String()}
		if err := r.s.PutChanges(ctx, []core.Change{c}); err != nil {
			return want, fmt.Errorf("write change record: %w", err)
		}
		return want, nil
	}
	return core.Global{}, core.Errorf(core.CodeUnavailable, "other requests changed the global item during each attempt: try "+
		"again")
}

// Fence blocks all deployments until a restore or takeover. Dispatches in progress continue for at most 30 s.
func (r *Restorer) Fence(ctx context.Context, by string) (core.Global, error) {
	return r.edit(ctx, by, core.VerbFenced, "", func(g *core.Global) (bool, error) {
		if g.Opening {
			return false, core.Errorf(core.CodeConflict, "generation %d is being restored: the restore has already stopped "+
				"all other operations", g.Generation)
		}
		changed := g.Holder != core.Nobody
		g.Holder = core.Nobody
		return changed, nil
	})
}

// Do starts or continues a restore. Do starts new work for at most Options.Budget. After an error, you can repeat the call
// with the same request. The repetition only advances the ID counters once more, which is harmless.
func (r *Restorer) Do(ctx context.Context, req Request) (Result, error) {
	if req.By == "" || len(req.By) > 128 {
		return Result{}, core.Invalid("actor", req.By, "the name of the caller must have 1 to 128 bytes")
	}
	now := r.o.Now()
	res := Result{From: req.From, LiftJobs: req.LiftJobs, LiftRuns: req.LiftRuns}
	if res.From.IsZero() {
		last, err := r.s.LastAlive(ctx)
		if err != nil {
			return res, fmt.Errorf("read the last heartbeat of the server: %w", err)
		}
		if last.IsZero() {
			return res, core.Invalid("from", "", "no deployment has ever used this data: set the time at which the copy was "+
				"made")
		}
		res.From = last.Add(-time.Minute).Truncate(time.Second)
	}
	if res.From.After(now) || now.Sub(res.From) > 400*24*time.Hour {
		return res, core.Invalid("from", res.From.Format(time.RFC3339), "the time of the copy must be in the past, at most 400 days ago")
	}
	jobs, runs := IDsIssuedIn(now.Sub(res.From))
	if res.LiftJobs == 0 {
		res.LiftJobs = jobs
	}
	if res.LiftRuns == 0 {
		res.LiftRuns = runs
	}
	if res.LiftJobs < 0 || res.LiftJobs > liftJobsMost*16 {
		return res, core.Invalid("advanceJobIds", fmt.Sprint(res.LiftJobs), "allowed values: 1 to %d", liftJobsMost*16)
	}
	if res.LiftRuns < 0 || res.LiftRuns > liftRunsMost*8 {
		return res, core.Invalid("advanceRunIds", fmt.Sprint(res.LiftRuns), "allowed values: 1 to %d", liftRunsMost*8)
	}
	g, err := r.begin(ctx, &req, &res)
	if err != nil {
		return res, err
	}
	res.Generation = g.Generation
	for end := now.Add(r.o.Budget); ; {
		list, next, err := r.s.Jobs.List(ctx, "", req.After, jobsAtOnce)
		if err != nil {
			return res, fmt.Errorf("read jobs: %w", err)
		}
		for _, j := range list { // also of an unreadable job, so that its runs are right once the job is fixed
			id := j.Is.Def.ID
			err := r.job(ctx, g, id, &res)
			if err == nil && req.RunsLost {
				err = r.s.PutCleaned(ctx, id, core.InstantOf(res.From))
			}
			if err != nil {
				return res, fmt.Errorf("job %d: %w", id, err)
			}
			req.After = id
			if r.o.Now().After(end) {
				res.Next = req.After
				return res, nil
			}
		}
		if next == 0 {
			break
		}
		req.After = next
	}
	_, err = r.edit(ctx, req.By, core.VerbRestored, fmt.Sprintf("generation %d, of %s", g.Generation, res.From.UTC().Format(time.RFC3339)),
		func(g *core.Global) (bool, error) {
			if g.Holder != r.o.Deployment {
				return false, core.Errorf(core.CodeConflict, "%s took over the data during this operation", g.Holder)
			}
			changed := g.Opening
			// Executors had no chance to send heartbeats: they get time before they expire.
			g.Opening, g.DownAt, g.UpSince = false, res.From.UTC(), r.o.Now().UTC().Truncate(time.Millisecond)
			return changed, nil
		})
	return res, err
}

// begin keeps all deployments out, releases the leases and advances the counter of job IDs.
func (r *Restorer) begin(ctx context.Context, req *Request, res *Result) (core.Global, error) {
	g, err := r.edit(ctx, req.By, core.VerbFenced, "a restore begins", func(g *core.Global) (bool, error) {
		if g.Opening && g.Holder == r.o.Deployment {
			return false, nil // it continues
		}
		if req.After != 0 {
			return false, core.Errorf(core.CodeConflict, "no restore is in progress: start one")
		}
		if !req.Again && !g.Opening && g.Holder == r.o.Deployment && g.Holder != "" {
			return false, core.Errorf(core.CodeConflict, "this deployment already uses these tables (generation %d)", g.Generation)
		}
		g.Holder, g.Opening = r.o.Deployment, true
		g.Generation++
		return true, nil
	})
	if err != nil || req.After != 0 {
		return g, err
	}
	leases, err := r.s.Leases(ctx)
	if err != nil {
		return g, fmt.Errorf("read leases: %w", err)
	}
	for _, l := range leases {
		if err := r.s.DropLease(ctx, l); err != nil && !errors.Is(err, core.ErrRefused) {
			return g, fmt.Errorf("give up lease %s: %w", l.Name, err)
		}
		res.Leases++
	}
	first, err := r.s.JobIDs(ctx, res.LiftJobs)
	if err != nil {
		return g, fmt.Errorf("lift the number of jobs: %w", err)
	}
	if first <= 0 || int64(first)+int64(res.LiftJobs) > math.MaxInt32 {
		return g, core.Errorf(core.CodeRefused, "no job numbers are left: export the jobs and apply them to a new deployment")
	}
	return g, nil
}

// job advances the run numbers of a job and finds its open runs, whose messages may be lost.
func (r *Restorer) job(ctx context.Context, g core.Global, id core.JobID, res *Result) error {
	res.Jobs++
	first, err := r.s.RunNumbers(ctx, id, res.LiftRuns)
	if err != nil {
		return fmt.Errorf("advance its run numbers: %w", err)
	}
	if int64(first)+int64(res.LiftRuns) > core.MaxNumber {
		res.Full = append(res.Full, id)
	}
	waiting := map[core.RunID]bool{} // of any age
	_, last := core.NumberedRange(id)
	for below := last + 1; ; {
		runs, err := r.s.WaitingRuns(ctx, id, below, page)
		if err != nil {
			return fmt.Errorf("read its runs that wait: %w", err)
		}
		if err := r.runs(ctx, g, runs, nil, res); err != nil {
			return err
		}
		for i := range runs {
			below, waiting[runs[i].ID] = runs[i].ID, true
		}
		if len(runs) < page {
			break
		}
	}
	since := core.InstantOf(res.From.Add(-openRunsSince))
	lo, hi := core.RunRange(id, since, core.Horizon)
	for lo <= hi {
		runs, err := r.s.Runs.Span(ctx, lo, hi, page)
		if err != nil {
			return fmt.Errorf("read its runs: %w", err)
		}
		if err := r.runs(ctx, g, runs, waiting, res); err != nil {
			return err
		}
		if len(runs) < page {
			break
		}
		lo = runs[len(runs)-1].ID + 1
	}
	lo, hi = core.NumberedRange(id)
	for stale := 0; hi >= lo; {
		runs, err := r.s.Runs.Span(ctx, hi, lo, page)
		if err != nil {
			return fmt.Errorf("read its runs: %w", err)
		}
		if err := r.runs(ctx, g, runs, waiting, res); err != nil {
			return err
		}
		old := true // the whole page was due long before
		for i := range runs {
			old = old && runs[i].Slot < since
		}
		// Most earlier runs were too, but a trigger can wait for a year.
		if stale++; !old {
			stale = 0
		}
		if len(runs) < page || stale == stalePages {
			break
		}
		hi = runs[len(runs)-1].ID - 1
	}
	return nil
}

// runs adds runs to the due index or to a journal, except known ones.
func (r *Restorer) runs(ctx context.Context, g core.Global, runs []core.Run, known map[core.RunID]bool, res *Result) error {
	now := r.o.Now()
	var entries []core.DueItem
	var seen []core.Entry
	for i := range runs {
		run := &runs[i]
		switch {
		case known[run.ID]:
		case run.State.Open() && run.Owner == "":
			// If a message or an entry still exists, this is a copy: claims by run ID prevent a second run.
			at := max(core.InstantOf(now), run.Slot.Add(-planAhead))
			entries = append(entries, core.DueItem{PlanAt: at, Job: run.ID.Job(), Run: run.ID,
				Partition: core.PartitionOf(run.ID.Job(), g.Partitions)})
			res.Waiting++
		case run.State.Open():
			seen = append(seen, core.Entry{Run: run.ID, Address: run.Address, Outcome: core.Unconfirmed})
			res.Watched++
		case run.Owing():
			seen = append(seen, core.Entry{Run: run.ID, Address: run.Address, Outcome: core.Accepted})
			res.Owing++
		}
	}
	for _, err := range r.s.Enter(ctx, entries) {
		if err != nil {
			return fmt.Errorf("put a waiting run into the due index: %w", err)
		}
	}
	for len(seen) > 0 {
		some := seen[:min(len(seen), perJournal)]
		seen = seen[len(some):]
		j := core.Journal{Key: core.JournalKey{Minute: now.Unix() / 60, Nonce: rand.Text()}, V: 1, Entries: some}
		if err := r.s.PutJournal(ctx, j); err != nil {
			return fmt.Errorf("write a journal of open runs: %w", err)
		}
	}
	return nil
}
