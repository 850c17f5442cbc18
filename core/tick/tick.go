// Package tick plans runs. The package reads the jobs that are due for planning, enqueues their scheduled runs on the delay
// queue, and then advances the jobs. The package sends nothing to executors.
//
// Its subpackage partition chooses the partitions of the due index that a ticker checks. Subpackage partitioning sets the
// number of partitions, and lossdetect finds runs that the delay queue lost.
package tick

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/core/tick/lossdetect"
	"github.com/tickring/tickring/core/tick/partition"
	"github.com/tickring/tickring/core/tick/partitioning"
	"github.com/tickring/tickring/store"
)

// Options of a Ticker. A field with its zero value gets the default in its comment.
type Options struct {
	Now  func() time.Time
	ID   string // unique ID of this ticker
	Plan plan.Options
	// LeaseFor is the duration of a lease, and RenewEvery the interval of renewals.
	LeaseFor, RenewEvery time.Duration // defaults: 45 s and 15 s
	// PassFor is how long a pass takes further partitions or reads further pages, if there are several partitions. Other
	// tickers take the remaining partitions. 0: no limit.
	PassFor time.Duration
	Page    int // number of due items to read at a time; default: 1,000
	// Careful is the initial number of jobs to plan at a time if their runs may already be in the delay queue. This
	// applies to overdue jobs, and to jobs whose runs were enqueued but whose next scheduled time could not be stored.
	// The number doubles, up to Page, each time the store accepts all updates. After a failure it falls again.
	Careful int           // default: 50
	Overdue time.Duration // how late a job must be to count as overdue; default: 2 min
	// Rates are the options that determine the number of partitions.
	Rates partitioning.Rates
	// Loss configures the search for lost runs. When a job is planned, its scheduled times are compared with its runs, and
	// missing runs are sent again.
	Loss lossdetect.Options
	// PlanBackoff is the delay before the ticker retries a job that could not be planned or read.
	PlanBackoff time.Duration // default: 1 min
	Log         *slog.Logger
	// Planned is called after each pass with the number of runs that the pass enqueued. The function must not block. nil: no call.
	Planned func(fires int, at time.Time)
}

type Ticker struct {
	s      *store.Store
	o      Options
	hold   *partition.Leases
	growth *partitioning.Growth
	loss   *lossdetect.Finder
	pace   map[int]int // number of advances tried at a time, by partition, after some failed
	sent   map[core.JobID]sent
	// waiting is the due time of the earliest item that a wake-up found before its first pass; zero: it found none.
	waiting  time.Time
	burst    map[core.Instant]int       // number of runs enqueued here, by future due time
	unusable map[core.DueItem]time.Time // jobs and runs that cannot be read, and when they are tried again
	untold   map[noteKey]ring.Note      // notifications not enqueued yet
	mute     error                      // error of the post-run queue in this pass
	// telling is how long this pass has waited for the post-run queue.
	telling time.Duration
}

const (
	maxPages = 50               // in one pass of one partition
	sentFor  = 15 * time.Minute // how long a ticker remembers a job whose next scheduled time could not be stored
	maxSent  = 20_000           // such jobs
)

// sent is the remaining work for a job with enqueued runs: an advance that may not be stored, and runs that the queue
// did not accept.
type sent struct {
	left planned
	at   time.Time
}

// New returns a Ticker. A Ticker is not safe for concurrent use.
func New(s *store.Store, o Options) *Ticker {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Page = cmp.Or(o.Page, 1000)
	o.Careful = cmp.Or(o.Careful, 50)
	o.Overdue = cmp.Or(o.Overdue, 2*time.Minute)
	o.PlanBackoff = cmp.Or(o.PlanBackoff, time.Minute)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Loss.Now, o.Loss.Plan, o.Loss.Log = o.Now, o.Plan, o.Log
	t := &Ticker{s: s, o: o, growth: partitioning.New(s, o.Rates, o.Plan, o.Now), loss: lossdetect.New(s, o.Loss),
		pace: map[int]int{}, sent: map[core.JobID]sent{}, burst: map[core.Instant]int{}, unusable: map[core.DueItem]time.Time{},
		untold: map[noteKey]ring.Note{}}
	t.join(time.Time{}, 0)
	return t
}

// join makes the ticker part of a round. With a zero round it belongs to a server and holds all partitions that it can
// get.
func (t *Ticker) join(round time.Time, skip int) {
	t.hold = partition.New(t.s, partition.Options{Now: t.o.Now, ID: t.o.ID, LeaseFor: t.o.LeaseFor, RenewEvery: t.o.RenewEvery,
		Round: round, Skip: skip})
}

// Release releases all leases of the ticker, so that other tickers can take them before they expire.
func (t *Ticker) Release(ctx context.Context) error { return t.hold.Release(ctx) }

// idle reports whether a pass within the given time would find no work: there is one partition, nothing is due, and no
// scan for lost runs is pending. A deployment without jobs then takes no lease.
func (t *Ticker) idle(ctx context.Context, within time.Duration) bool {
	g, err := t.s.Own(ctx)
	if err != nil || g.Partitions > 1 || g.Readable > 1 || g.Loss != (core.Loss{}) {
		return false
	}
	due, err := t.s.Jobs.Due(ctx, 0, core.InstantOf(t.o.Now().Add(within)), core.DueItem{}, 1)
	if err != nil || len(due) == 0 {
		return err == nil
	}
	t.waiting = due[0].PlanAt.Time()
	return false
}

// A Result is the outcome of a pass.
type Result struct {
	Held   []int // partitions that the pass checked
	Unseen int   // number of partitions that no ticker has checked in this round
	Behind bool  // whether more items were due than one pass can handle
	Due    int   // number of due items read
	// Lag is how late the pass read the oldest due item. If a partition without a ticker has not been checked for longer, Lag
	// is the time since that check.
	Lag     time.Duration
	Fires   int   // number of runs enqueued
	Moved   int   // number of jobs whose next scheduled time was stored
	Skipped int64 // number of scheduled times recorded as skipped
	// Recovered is the number of lost runs that the pass sent again. If it is above 0, the delay queue loses runs.
	Recovered int
	// Uncompared is how long due times have waited for the search for lost runs, in addition to Loss.After. The search waits
	// while the delay queue has older messages.
	Uncompared time.Duration
}

// Pass plans the due jobs in the partitions that the ticker can lease. If Pass returns an error, the next pass continues where
// this pass stopped.
func (t *Ticker) Pass(ctx context.Context) (Result, error) {
	var res Result
	g, err := t.s.Own(ctx)
	if err != nil {
		return res, fmt.Errorf("read the global item: %w", err)
	}
	n := max(g.Readable, g.Partitions, 1)
	order, err := t.hold.Turn(ctx, n)
	if err != nil {
		return res, err
	}
	now := t.o.Now()
	maps.DeleteFunc(t.burst, func(slot core.Instant, _ int) bool { return slot < core.InstantOf(now) })
	maps.DeleteFunc(t.unusable, func(_ core.DueItem, until time.Time) bool { return !now.Before(until) })
	maps.DeleteFunc(t.sent, func(_ core.JobID, s sent) bool { return now.Sub(s.at) > sentFor })
	end := time.Time{}
	if t.o.PassFor > 0 && n > 1 {
		end = now.Add(t.o.PassFor)
	}
	t.mute, t.telling = nil, 0
	var errs []error
	for _, p := range order {
		if ctx.Err() != nil || len(res.Held) > 0 && t.over(end) {
			break
		}
		ok, err := t.hold.Take(ctx, p)
		if ok {
			res.Held = append(res.Held, p)
			before := res.Due
			if err = t.partition(ctx, g, p, end, &res); err != nil {
				err = fmt.Errorf("partition %d: %w", p, err)
			}
			t.hold.Found(p, err != nil || res.Due > before)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if err := t.tell(ctx); err != nil {
		errs = append(errs, err)
	}
	slices.Sort(res.Held)
	res.Unseen = t.hold.Rest(ctx)
	since := g.Busy
	if t.waiting.After(since) { // while nothing was due, wake-ups made no pass
		since = t.waiting
	}
	res.Lag = max(res.Lag, t.hold.Alone(since))
	if err := t.put(ctx, g, res.Held); err != nil {
		errs = append(errs, err)
	}
	if t.o.Planned != nil {
		t.o.Planned(res.Fires, t.o.Now())
	}
	return res, errors.Join(errs...)
}

// put stores the numbers of partitions and groups, and the start of a scan that waited for the previous one.
func (t *Ticker) put(ctx context.Context, g core.Global, held []int) error {
	next, err := t.growth.Next(ctx, g, held)
	if err != nil {
		return err
	}
	next.Loss = t.loss.Begun(g.Loss)
	if next.Partitions == g.Partitions && next.Readable == g.Readable && next.Busy.Equal(g.Busy) && next.Groups == g.Groups &&
		next.Loss == g.Loss {
		return nil
	}
	next.Rev = max(g.Rev+1, t.o.Now().UnixMilli())
	// After a conflict the next pass computes everything again.
	if err := t.s.PutGlobal(ctx, g.Rev, next); err != nil && !errors.Is(err, core.ErrRefused) {
		return fmt.Errorf("change the number of partitions or groups: %w", err)
	}
	return nil
}

// over reports whether end has passed; a zero end never has.
func (t *Ticker) over(end time.Time) bool { return !end.IsZero() && !t.o.Now().Before(end) }

func (t *Ticker) partition(ctx context.Context, g core.Global, p int, end time.Time, res *Result) error {
	now := t.o.Now()
	upTo := core.InstantOf(now)
	var after core.DueItem
	var errs []error
	for page := 0; ; page++ {
		if page == maxPages || page > 0 && t.over(end) {
			res.Behind = true
			break
		}
		items, err := t.s.Jobs.Due(ctx, p, upTo, after, t.o.Page)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("read due index: %w", err))...)
		}
		if len(items) == 0 {
			break
		}
		after = items[len(items)-1]
		isUnusable := func(it core.DueItem) bool { return !t.unusable[core.DueItem{Job: it.Job, Run: it.Run}].IsZero() }
		items = slices.DeleteFunc(items, isUnusable)
		res.Due += len(items)
		goOn, err := t.items(ctx, g, p, items, res)
		if i := slices.IndexFunc(items, func(it core.DueItem) bool { return !isUnusable(it) }); i >= 0 {
			res.Lag = max(res.Lag, now.Sub(items[i].PlanAt.Time())) // sorted by time
		}
		if err != nil {
			errs = append(errs, err)
		}
		if !goOn {
			return errors.Join(errs...)
		}
	}
	return errors.Join(append(errs, t.growth.Move(ctx, g, p, upTo))...)
}

// items plans one page; goOn is false if the next page would fail too.
func (t *Ticker) items(ctx context.Context, g core.Global, p int, items []core.DueItem, res *Result) (goOn bool, err error) {
	var jobs []core.JobID
	var entries []core.DueItem
	for _, it := range items {
		if it.Run != 0 {
			entries = append(entries, it)
		} else {
			jobs = append(jobs, it.Job)
		}
	}
	if len(entries) > 0 {
		if err := t.entries(ctx, entries, res); err != nil {
			return false, err
		}
	}
	if len(jobs) == 0 {
		return true, nil
	}
	// The index may be far behind. An older state of the job itself makes copies only, as a ticker that is late: the advance
	// names rev, next and tail.
	found, err := t.s.Jobs.Get(glance.First(ctx), store.Planning, jobs)
	if err != nil {
		return false, fmt.Errorf("read jobs: %w", err)
	}
	due := make([]core.Sched, 0, len(found))
	now := t.o.Now()
	for id, j := range found {
		switch {
		case errors.Is(j.Err, core.ErrThrottled): // it stays due
		case j.Err != nil: // it is never written
			t.o.Log.Error("job cannot be planned: it cannot be read", "job", id, "err", j.Err)
			t.oweNote(unplanned(id, j.Err.Error()))
			t.unusable[core.DueItem{Job: id}] = now.Add(t.o.PlanBackoff)
		case j.Is.Sched.PlanAt != 0 && !j.Is.Sched.PlanAt.Time().After(now):
			due = append(due, j.Is.Sched)
		}
	}
	slices.SortFunc(due, func(a, b core.Sched) int { return cmp.Or(cmp.Compare(a.Next, b.Next), cmp.Compare(a.ID, b.ID)) })
	return t.jobs(ctx, g, p, due, res)
}

// jobs plans the jobs of a page. Runs that became due recently, and the rest of partly refused messages, are enqueued
// at once. Runs that are in the queue are not enqueued again. Overdue runs may be there, enqueued by a ticker that
// died. They go a few at a time until advances are stored.
func (t *Ticker) jobs(ctx context.Context, g core.Global, p int, due []core.Sched, res *Result) (goOn bool, err error) {
	now := t.o.Now()
	o := t.o.Plan.With(g.Groups)
	var known, fresh []planned
	var overdue []core.Sched
	for _, s := range due {
		if pl, ok := t.again(s); ok && pl.whole() {
			known = append(known, pl)
		} else if ok {
			fresh = append(fresh, pl)
		} else if now.Sub(s.PlanAt.Time()) > t.o.Overdue {
			overdue = append(overdue, s)
		} else if pl, ok := t.plan(ctx, o, s, now); ok && len(t.sent)+len(fresh) < maxSent {
			fresh = append(fresh, pl)
		}
	}
	var errs []error
	commit := func(list []planned) (sent, moved int) {
		for i := range list {
			list[i].Advance.NewPartition = core.PartitionOf(list[i].of.ID, g.Partitions)
		}
		sent, moved, err := t.commit(ctx, g, p, list, res)
		if err != nil {
			errs = append(errs, err)
		}
		return sent, moved
	}
	// Starts elsewhere each minute: the first jobs may be ones that are never stored.
	if n := len(overdue); n > 0 {
		first := int(now.Unix()/60%int64(n)) * t.o.Careful % n
		overdue = slices.Concat(overdue[first:], overdue[:first])
	}
	sent, _ := commit(fresh)
	goOn = len(fresh) == 0 || sent > 0
	for moved := 1; len(known)+len(overdue) > 0 && moved > 0; {
		n := cmp.Or(t.pace[p], t.o.Careful)
		some := known[:min(n, len(known))]
		known = known[len(some):]
		for some = slices.Clone(some); len(some) < n && len(overdue) > 0; overdue = overdue[1:] {
			if pl, ok := t.plan(ctx, o, overdue[0], now); ok {
				some = append(some, pl)
			}
		}
		_, moved = commit(some)
	}
	if left := len(known) + len(overdue); left > 0 {
		errs = append(errs, fmt.Errorf("%d jobs wait until advances are stored again", left))
	}
	return goOn, errors.Join(errs...)
}

// again returns the remaining work of a job whose runs this ticker enqueued before, so that none is sent or evaluated
// twice.
func (t *Ticker) again(s core.Sched) (planned, bool) {
	was, ok := t.sent[s.ID]
	if !ok {
		return planned{}, false
	}
	if m := was.left.Advance; m.Rev != s.Rev || m.Next != s.Next || m.Tail != s.Tail {
		delete(t.sent, s.ID) // the advance was stored after all, or the job changed
		return planned{}, false
	}
	was.left.of = s
	return was.left, true
}

// remember keeps the remaining work of a job for a later pass.
func (t *Ticker) remember(pl *planned) { t.sent[pl.of.ID] = sent{left: *pl, at: t.o.Now()} }

// planned is the plan of one job.
type planned struct {
	plan.Result
	of      core.Sched
	changes []core.Change // records that are stored with the advance
	begun   bool          // some of its runs are enqueued
	lost    []core.Fire   // earlier runs that the delay queue lost
}

// whole reports whether only the advance remains.
func (p *planned) whole() bool { return len(p.Fires)+len(p.Skips)+len(p.lost) == 0 }

// plan computes the plan of one job; errors affect that job alone.
func (t *Ticker) plan(ctx context.Context, o plan.Options, s core.Sched, now time.Time) (pl planned, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			t.o.Log.Error("planning panicked", "job", s.ID, "scheduledAt", s.Next, "panic", fmt.Sprint(r))
			pl, ok = t.postpone(s, now, fmt.Sprint("internal error: ", r)), true
		}
		pl.of = s
	}()
	sch, err := schedule.Compile(s.Schedule, s.ID)
	if err != nil {
		return t.postpone(s, now, err.Error()), true
	}
	switch s.State {
	case core.Paused:
		if s.PausedAt(now) { // its end is near
			return planned{Result: plan.Job(s, sch, now, o)}, true
		}
		move, change := plan.EndPause(s, sch, o)
		return planned{Result: plan.Result{Advance: move}, changes: []core.Change{change}}, true
	case core.Ended:
		move := s.Stay()
		move.NewPlanAt = 0
		return planned{Result: plan.Result{Advance: move}}, true
	}
	if s.Tail != 0 {
		return t.tail(ctx, s, sch, now)
	}
	r := plan.Job(s, sch, now, o)
	if _, fixed := sch.FixedDelay(); fixed && len(r.Skips) > 0 {
		return t.adopt(ctx, s, now, planned{Result: r})
	}
	return planned{Result: r}, true
}

// adopt checks, before the late run of a fixed delay is skipped, whether an earlier pass sent it and lost the advance.
// If so, that run continues the chain, and another would overlap.
func (t *Ticker) adopt(ctx context.Context, s core.Sched, now time.Time, late planned) (planned, bool) {
	id := core.PlannedRun(s.ID, s.Next)
	run, err := t.s.Run(ctx, id)
	if err != nil {
		t.o.Log.Warn("run of a late fixed delay could not be read", "job", s.ID, "run", id, "err", err)
		return planned{}, false
	}
	if run == nil {
		return late, true
	}
	move := s.Stay()
	move.NewTail, move.NewPlanAt, move.NewSeq, move.PlanError = id, core.InstantOf(now), s.Seq+1, ""
	return planned{Result: plan.Result{Advance: move}}, true
}

// postpone postpones a job that cannot be planned.
func (t *Ticker) postpone(s core.Sched, now time.Time, why string) planned {
	t.o.Log.Error("job cannot be planned", "job", s.ID, "scheduledAt", s.Next, "err", why)
	move := s.Stay()
	move.NewPlanAt = core.InstantOf(now.Add(t.o.PlanBackoff))
	move.PlanError = ring.TruncateReason(why)
	return planned{Result: plan.Result{Advance: move}}
}

// forgotten is the age from which a missing run may have been deleted by retention: the default retention.
const forgotten = 30 * 24 * time.Hour

// tail handles the latest run of a fixed delay: it repairs follow-ups that a close missed, and sends a run again that
// was never stored.
func (t *Ticker) tail(ctx context.Context, s core.Sched, sch *schedule.Schedule, now time.Time) (planned, bool) {
	c, err := t.chain(ctx, s, now)
	if err != nil {
		t.o.Log.Warn("chain of a fixed delay could not be read", "job", s.ID, "err", err)
		return planned{}, false
	}
	var pl planned
	at, ok := s.Tail.Planned()
	send := ok && c.open && !c.out
	if send && !c.begun && now.Sub(at.Time()) > forgotten {
		// It may have run and been deleted, so it is not sent. If it runs anyway, its run overrides the record. Its
		// message may still exist if there was no pass for long; then it has until the next check.
		send = false
		if now.Sub(s.PlanAt.Time()) < t.o.Plan.TailCheck {
			c.open, c.ended = false, now
			pl.Skips = []core.Skip{{Job: s.ID, First: at, Last: at, Count: 1, Reason: core.ReasonMisfire, Rev: s.Rev, Made: now.UTC()}}
		}
	}
	if !c.open {
		if delay, fixed := s.Schedule.FixedDelay(); fixed {
			pl.Advance = plan.NextAfterEnd(s, delay, c.ended, t.o.Plan)
		} else { // the schedule was changed to another kind
			pl.Advance = s.Stay()
			pl.Advance.NewTail = 0
		}
		return pl, true
	}
	pl.Advance = s.Stay()
	pl.Advance.NewPlanAt = core.InstantOf(now.Add(t.o.Plan.TailCheck))
	pl.Advance.PlanError = ""
	if send {
		delay, _ := sch.FixedDelay()
		slot := sch.Slot(s.ID, at, 0, delay < t.o.Plan.Window) // as planned first
		pl.Fires = []core.Fire{{Run: s.Tail, Rev: s.Rev, At: at, Slot: slot, Cause: core.CauseSchedule, Seq: max(s.Seq-1, 0)}}
	}
	return pl, true
}

type chain struct {
	begun bool      // the latest run is stored
	open  bool      // the last attempt has not ended
	out   bool      // the open attempt has a message or an owner
	ended time.Time // end of the last attempt
}

// chain reads the runs from the latest planned run to its last attempt.
func (t *Ticker) chain(ctx context.Context, s core.Sched, now time.Time) (c chain, err error) {
	var last *core.Run
	first := s.Tail
	for id, n := first, 0; n < 200; n++ {
		run, err := t.s.Run(ctx, id)
		if err != nil {
			return c, err
		}
		ok := run != nil
		switch {
		case ok && run.State.Open():
			// A retry has its own message, and so has a claim of this revision or a run that waits for an executor. The
			// message of an older revision is dropped, and its owner may be dead.
			fallen := run.Rev < s.Rev && run.Expired(now)
			has := run.Owner != "" || run.State == core.Queued
			return chain{begun: true, open: true, out: has && !fallen || id != first}, nil
		case !ok && id == first:
			return chain{open: true}, nil
		case !ok && len(last.Owes) == 0:
			// The previous attempt finished its follow-ups, so this one had a message and a run, and retention deleted
			// that run.
			return chain{begun: true, ended: last.EndedAt}, nil
		case !ok:
			return chain{begun: true, open: true, out: true}, nil // its creation is a pending follow-up
		case run.Then == 0:
			return chain{begun: true, ended: run.EndedAt}, nil
		}
		id, last = run.Then, run
	}
	return chain{begun: true, open: true, out: true}, nil
}

// commit stores skips, enqueues all runs, and then advances the jobs whose runs are enqueued. It returns the number of
// jobs with all runs enqueued and how many of those advanced.
func (t *Ticker) commit(ctx context.Context, g core.Global, p int, plans []planned, res *Result) (sent, moved int, err error) {
	if len(plans) == 0 {
		return 0, 0, nil
	}
	had := make([]int, len(plans)) // number of runs to enqueue
	jobs := make([]*core.Sched, len(plans))
	var skips []core.Skip
	var skipOf []int
	for i := range plans {
		for _, s := range plans[i].Skips {
			skips, skipOf = append(skips, s), append(skipOf, i)
		}
		had[i], jobs[i] = len(plans[i].Fires), &plans[i].of
	}
	t.owe(plans, skips)
	for i := range plans {
		plans[i].Skips = nil
	}
	if len(skips) > 0 {
		for k, err := range t.s.PutSkips(ctx, skips) {
			if err != nil {
				plans[skipOf[k]].Skips = append(plans[skipOf[k]].Skips, skips[k])
			} else {
				res.Skipped += skips[k].Count
			}
		}
	}
	reach := t.loss.Reach(ctx) // before these are enqueued
	res.Uncompared = max(res.Uncompared, t.loss.Waits(jobs, reach))
	t.enqueue(ctx, plans, func(pl *planned) *[]core.Fire { return &pl.Fires }, res)
	// After the runs, since it takes a while: messages enqueued late on a queue with whole seconds are held longer.
	t.findLost(ctx, g, plans, reach)
	lost := core.Instant(0)
	for i := range plans {
		had[i] += len(plans[i].lost)
		res.Recovered += len(plans[i].lost)
		for _, f := range plans[i].lost {
			lost = lossdetect.Earlier(lost, f.At)
		}
	}
	unnoted := t.loss.Note(ctx, lost)
	if unnoted == nil {
		t.enqueue(ctx, plans, func(pl *planned) *[]core.Fire { return &pl.lost }, res)
	}
	// Runs must not wait for notifications, so these come after the runs. They come before the advances: if the process
	// dies, the plan and its notifications are repeated. A failure is an error of this pass and delays no advance.
	_ = t.tell(ctx)
	moves := make([]*planned, 0, len(plans))
	for i := range plans {
		pl := &plans[i]
		res.Recovered -= len(pl.lost)
		pl.begun = pl.begun || len(pl.Fires)+len(pl.lost) < had[i]
		if pl.whole() {
			moves = append(moves, pl)
		} else if pl.begun {
			t.remember(pl)
		}
	}
	moved = len(moves) - t.advance(ctx, g, p, moves, res)
	if left := len(plans) - moved; left > 0 {
		err = errors.Join(unnoted, fmt.Errorf("%d of %d jobs are left to the next pass", left, len(plans)))
	}
	return len(moves), moved, err
}

// findLost adds the earlier runs that the delay queue lost to the plans, and the time up to which the comparison came.
func (t *Ticker) findLost(ctx context.Context, g core.Global, plans []planned, r lossdetect.Reach) {
	var jobs []*core.Sched
	var of []*planned
	for i := range plans {
		if pl := &plans[i]; !pl.begun && len(pl.changes) == 0 && pl.Advance.PlanError == "" {
			jobs, of = append(jobs, &pl.of), append(of, pl)
		}
	}
	for i, f := range t.loss.Find(ctx, g, jobs, r) {
		of[i].Advance.NewCompared, of[i].lost = f.UpTo, f.Lost
	}
}

// enqueue enqueues runs of jobs; refused runs stay in their plans.
func (t *Ticker) enqueue(ctx context.Context, plans []planned, of func(*planned) *[]core.Fire, res *Result) {
	var fires []core.Fire
	jobs := make(map[core.JobID]int, len(plans))
	for i := range plans {
		list := of(&plans[i])
		jobs[plans[i].of.ID] = i
		fires = append(fires, *list...)
		*list = nil
	}
	if len(fires) == 0 {
		return
	}
	out := plan.Pack(fires, ring.MaxFires, t.leadTime)
	for k, err := range t.s.Queue.Enqueue(ctx, out) {
		for _, f := range out[k].Message.Fires {
			if err != nil {
				list := of(&plans[jobs[f.Run.Job()]])
				*list = append(*list, f)
			} else {
				res.Fires++
				t.burst[f.Slot]++
			}
		}
	}
}

// advance advances the jobs whose runs are enqueued and returns how many may have failed. Only stored advances count as
// load.
func (t *Ticker) advance(ctx context.Context, g core.Global, p int, list []*planned, res *Result) (failed int) {
	if len(list) == 0 {
		return 0
	}
	puts := make([]store.JobPut, len(list))
	for i, pl := range list {
		puts[i] = store.JobPut{Advance: &pl.Advance, Changes: pl.changes}
	}
	now := t.o.Now()
	moved := 0
	for i, err := range t.s.Jobs.Put(ctx, puts) {
		pl := list[i]
		delete(t.sent, pl.of.ID)
		switch {
		case err == nil:
			moved++
			t.growth.Planned(g, p, pl.of)
		case errors.Is(err, core.ErrRefused): // another ticker or an edit was faster
		default:
			failed++
			if pl.begun {
				t.remember(pl)
			}
		}
	}
	res.Moved += moved
	t.growth.Advanced(p, moved, now)
	if failed > 0 {
		t.pace[p] = max(t.o.Careful, moved)
	} else {
		t.pace[p] = min(2*max(t.o.Careful, t.pace[p]), t.o.Page)
	}
	return failed
}

// leadTime returns the lead time of a due time, based on all runs for it that this ticker has seen.
func (t *Ticker) leadTime(slot core.Instant, fires int) time.Duration {
	return t.o.Plan.LeadTime.Of(slot, t.burst[slot]+fires)
}

// entries enqueues runs whose time in the due index has come and then removes their entries. A closed run just loses
// its entry. If it has pending follow-ups, or is a shard whose broadcast may end with it, it is enqueued, and the
// dispatcher does that work.
func (t *Ticker) entries(ctx context.Context, entries []core.DueItem, res *Result) error {
	ids := make([]core.RunID, len(entries))
	for i, e := range entries {
		ids[i] = e.Run
	}
	runs, err := t.s.Runs.Get(ctx, ids)
	if err != nil {
		return fmt.Errorf("read runs of entries: %w", err)
	}
	now := core.InstantOf(t.o.Now())
	var out []ring.Out
	var outOf []core.DueItem
	var drop []core.DueItem
	for _, e := range entries {
		got, ok := runs[e.Run]
		run := got.Is
		switch {
		case errors.Is(got.Err, core.ErrThrottled): // it stays due
		case got.Err != nil: // it stays due
			t.o.Log.Error("run cannot be enqueued: it cannot be read", "job", e.Job, "run", e.Run, "err", got.Err)
			t.unusable[core.DueItem{Job: e.Job, Run: e.Run}] = t.o.Now().Add(t.o.PlanBackoff)
			t.oweNote(unplanned(e.Job, "a waiting run cannot be read: "+got.Err.Error()))
		case !ok: // open runs stay in the store, so it ended long ago
			t.o.Log.Warn("entry of the due index dropped: its run is not stored", "job", e.Job, "run", e.Run, "scheduledAt", e.PlanAt)
			drop = append(drop, e)
		case !run.State.Open() && !run.Owing() && !run.ShardEnded():
			drop = append(drop, e)
		case run.State.Open() && run.Slot.Add(-t.o.Plan.PlanAhead) > now:
			// The trigger was postponed and this entry no longer exists: the index may be stale. Its new entry exists.
		default:
			fire := run.Fire()
			out = append(out, ring.Out{NotBefore: run.Slot.Time(), Message: ring.Message{Kind: ring.KindFires, Slot: run.Slot,
				Fires: []core.Fire{fire}, Slow: t.o.Plan.SlowLane && run.RepeatedRetry()}})
			outOf = append(outOf, e)
		}
	}
	if len(out) > 0 {
		for k, err := range t.s.Queue.Enqueue(ctx, out) {
			if err == nil {
				drop = append(drop, outOf[k])
				res.Fires++
			}
		}
	}
	if len(drop) > 0 {
		t.s.Leave(ctx, drop) // remaining entries are sent again, which is harmless
	}
	return nil
}
