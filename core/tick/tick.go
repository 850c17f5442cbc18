// Package tick plans: it reads the jobs that are due to be planned, computes
// their fires, puts those on the ring, and only then moves the jobs on. Which
// partitions of the due index a ticker looks at is said by parts, how many there are
// by grow, and what the ring has lost is found by loss. It sends nothing to executors.
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
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/core/tick/grow"
	"github.com/tickring/tickring/core/tick/loss"
	"github.com/tickring/tickring/core/tick/parts"
)

// Options of a Ticker. The zero value of a field means its default.
type Options struct {
	Now  func() time.Time
	ID   string // of this ticker, different from all others
	Plan plan.Options
	// LeaseFor is how long a lease holds without renewal, RenewEvery when it is renewed.
	LeaseFor, RenewEvery time.Duration // 45 s, 15 s
	// PassFor is how long a pass begins to look at partitions, where there are more
	// than one: others take what it does not come to. 0: until it looked at all.
	PassFor  time.Duration
	Page     int // due items read at a time: 1000
	MaxPages int // in one pass of one partition: 50
	// Careful is how many jobs are tried at a time whose fires may be on the ring
	// already: they wait for Overdue, or their advance was refused for want of
	// capacity. It doubles with each success.
	Careful int           // 50
	Overdue time.Duration // 2 min
	// SentFor is how long a ticker remembers what it put on the ring while the
	// advance was not stored; MaxSent bounds for how many jobs it does.
	SentFor time.Duration // 15 min
	MaxSent int           // 20,000
	// Rates say how many partitions there are.
	Rates grow.Rates
	// Loss: when a job is planned, its last finished window is compared with its runs,
	// and what has none is sent again.
	Loss loss.Options
	// PlanBackoff is when a job that could not be planned, or read, is tried again.
	PlanBackoff time.Duration // 1 min
	// TellFor is how long a pass waits at most for the aside lane to take what people are
	// to be told; MaxUntold how many notes wait for the next pass after it did not.
	TellFor   time.Duration // 1 s
	MaxUntold int           // 5,000
	Log       *slog.Logger
	// Planned is called with how many fires a pass put on the ring; it must not block.
	Planned func(fires int, at time.Time)
}

type Ticker struct {
	store  Store
	leases Leases
	ring   Ring
	o      Options
	hold   *parts.Hold
	growth *grow.Growth
	loss   *loss.Finder
	pace   map[int]int // advances of a partition that are tried at a time while it is in doubt whether they are taken
	sent   map[core.JobID]sent
	// waiting is the due time of the earliest item that a wake-up found before its first pass; zero: it found none.
	waiting time.Time
	burst   map[core.Instant]int     // fires of slots to come that this ticker put on the ring
	aside   map[core.JobID]time.Time // jobs that cannot be read, and until when they are not looked at again
	untold  map[noteKey]ring.Note    // what people are to be told
	mute    error                    // the aside lane's, in this pass
	// telling is how long this pass has waited for that lane.
	telling time.Duration
}

// sent is what is left to do for a job of which fires are on the ring: its advance,
// which was not stored for certain, and what of the rest was not taken.
type sent struct {
	left planned
	at   time.Time
}

// New makes a Ticker. It is used by one goroutine.
func New(store Store, leases Leases, r Ring, o Options) *Ticker {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Page = cmp.Or(o.Page, 1000)
	o.MaxPages = cmp.Or(o.MaxPages, 50)
	o.Careful = cmp.Or(o.Careful, 50)
	o.Overdue = cmp.Or(o.Overdue, 2*time.Minute)
	o.SentFor = cmp.Or(o.SentFor, 15*time.Minute)
	o.MaxSent = cmp.Or(o.MaxSent, 20_000)
	o.PlanBackoff = cmp.Or(o.PlanBackoff, time.Minute)
	o.TellFor = cmp.Or(o.TellFor, time.Second)
	o.MaxUntold = cmp.Or(o.MaxUntold, 5000)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Loss.Now, o.Loss.Plan, o.Loss.Log = o.Now, o.Plan, o.Log
	t := &Ticker{store: store, leases: leases, ring: r, o: o,
		growth: grow.New(store, o.Rates, o.Plan, o.Now), loss: loss.New(store, o.Loss),
		pace: map[int]int{}, sent: map[core.JobID]sent{}, burst: map[core.Instant]int{}, aside: map[core.JobID]time.Time{},
		untold: map[noteKey]ring.Note{}}
	t.join(time.Time{}, 0)
	return t
}

// join makes the ticker one of those of a round; with a zero round it lives on,
// and holds what partitions it can get.
func (t *Ticker) join(round time.Time, skip int) {
	t.hold = parts.New(t.leases, parts.Options{Now: t.o.Now, ID: t.o.ID, LeaseFor: t.o.LeaseFor, RenewEvery: t.o.RenewEvery, Round: round,
		Skip: skip})
}

// Release gives all leases back, so that others need not wait for them to run out.
func (t *Ticker) Release(ctx context.Context) error { return t.hold.Release(ctx) }

// idle reports whether a pass within a time would find nothing to do: there is one
// partition, nothing of it is due by then, and no loss is to be walked. A deployment
// without jobs then neither takes a lease nor waits for its beat.
func (t *Ticker) idle(ctx context.Context, within time.Duration) bool {
	g, err := t.store.Global(ctx)
	if err != nil || g.Partitions > 1 || g.Readable > 1 || g.Loss != (core.Loss{}) {
		return false
	}
	due, err := t.store.Due(ctx, 0, core.InstantOf(t.o.Now().Add(within)), core.DueItem{}, 1)
	if err != nil || len(due) == 0 {
		return err == nil
	}
	t.waiting = due[0].PlanAt.Time()
	return false
}

// Result of a pass.
type Result struct {
	Held   []int // partitions that it looked at
	Unseen int   // partitions that nobody looked at in this round, and that nobody holds
	Behind bool  // more was due than a pass takes
	Due    int   // items read
	// Lag is how long after its time the oldest of them was read, or for how long
	// nobody looked at a partition though nobody holds it, if that is longer.
	Lag     time.Duration
	Fires   int   // put on the ring
	Moved   int   // jobs advanced
	Skipped int64 // instants recorded as skipped
	// Recovered is how many demanded instants had neither a run nor a record, and
	// were sent again. It must be 0: whatever lost them is to be found.
	Recovered int
	// Uncompared is for how long what was due waits to be compared with its runs,
	// since a message that was due as early may be on the ring; 0: for no longer than
	// Loss.After.
	Uncompared time.Duration
}

// Pass plans what is due in the partitions that are this ticker's to look at. An
// error leaves the rest to the next pass; what was done counts.
func (t *Ticker) Pass(ctx context.Context) (Result, error) {
	var res Result
	g, err := t.store.Global(ctx)
	if err != nil {
		return res, fmt.Errorf("read global item: %w", err)
	}
	n := max(g.Readable, g.Partitions, 1)
	order, err := t.hold.Turn(ctx, n)
	if err != nil {
		return res, err
	}
	now := t.o.Now()
	maps.DeleteFunc(t.burst, func(slot core.Instant, _ int) bool { return slot < core.InstantOf(now) })
	maps.DeleteFunc(t.aside, func(_ core.JobID, until time.Time) bool { return !now.Before(until) })
	maps.DeleteFunc(t.sent, func(_ core.JobID, s sent) bool { return now.Sub(s.at) > t.o.SentFor })
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

// put stores how many partitions and groups there are to be, and that a walk is to
// begin that had to wait for the one before.
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
	// Where it was refused all is computed anew by the next pass.
	if err := t.store.PutGlobal(ctx, g.Rev, next); err != nil && !errors.Is(err, core.ErrRefused) {
		return fmt.Errorf("change the number of partitions or groups: %w", err)
	}
	return nil
}

// over reports that a time is over; a zero one never is.
func (t *Ticker) over(end time.Time) bool { return !end.IsZero() && !t.o.Now().Before(end) }

func (t *Ticker) partition(ctx context.Context, g core.Global, p int, end time.Time, res *Result) error {
	now := t.o.Now()
	upTo := core.InstantOf(now)
	var after core.DueItem
	var errs []error
	for page := 0; ; page++ {
		if page == t.o.MaxPages || page > 0 && t.over(end) {
			res.Behind = true
			break
		}
		items, err := t.store.Due(ctx, p, upTo, after, t.o.Page)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("read due index: %w", err))...)
		}
		if len(items) == 0 {
			break
		}
		after = items[len(items)-1]
		isAside := func(it core.DueItem) bool { return it.Run == 0 && !t.aside[it.Job].IsZero() }
		items = slices.DeleteFunc(items, isAside)
		res.Due += len(items)
		goOn, err := t.items(ctx, g, p, items, res)
		if i := slices.IndexFunc(items, func(it core.DueItem) bool { return !isAside(it) }); i >= 0 {
			res.Lag = max(res.Lag, now.Sub(items[i].PlanAt.Time())) // they come in the order of their time
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

// items plans one page; goOn is false where the next would not get through either.
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
	// The index may be behind: plan from the strong read.
	scheds, _, err := t.store.Scheds(ctx, jobs)
	bad, err := core.Besides(err)
	if err != nil {
		return false, fmt.Errorf("read jobs: %w", err)
	}
	for id, why := range bad { // nothing is written to what is not understood
		t.o.Log.Error("job cannot be planned: it cannot be read", "job", id, "err", why)
		t.oweNote(unplanned(id, why.Error()))
		t.aside[id] = t.o.Now().Add(t.o.PlanBackoff)
	}
	due := make([]core.Sched, 0, len(scheds))
	now := t.o.Now()
	for _, s := range scheds {
		if s.PlanAt != 0 && !s.PlanAt.Time().After(now) {
			due = append(due, s)
		}
	}
	slices.SortFunc(due, func(a, b core.Sched) int { return cmp.Or(cmp.Compare(a.Next, b.Next), cmp.Compare(a.ID, b.ID)) })
	return t.jobs(ctx, g, p, due, res)
}

// jobs plans the jobs of a page. What was not due for long, and what is left of
// something that was refused in part, is put on the ring at once, whatever becomes of
// the advances. What is on the ring already is not put
// there again, and what may be, since it is overdue and a ticker that has ended may
// have put it there, goes a few at a time, until advances are stored.
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
		} else if pl, ok := t.plan(ctx, o, s, now); ok && len(t.sent)+len(fresh) < t.o.MaxSent {
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
	// Elsewhere each minute: the first of them may be those that are never stored.
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

// again is what is left of a job whose fires this ticker put on the ring before:
// nothing of them is sent or judged a second time.
func (t *Ticker) again(s core.Sched) (planned, bool) {
	was, ok := t.sent[s.ID]
	if !ok {
		return planned{}, false
	}
	if m := was.left.Advance; m.Rev != s.Rev || m.Next != s.Next || m.Tail != s.Tail {
		delete(t.sent, s.ID) // it was stored after all, or the job was changed
		return planned{}, false
	}
	was.left.of = s
	return was.left, true
}

// remember keeps what is left of a job that is begun for a later pass.
func (t *Ticker) remember(pl *planned) { t.sent[pl.of.ID] = sent{left: *pl, at: t.o.Now()} }

// planned is what becomes of one job.
type planned struct {
	plan.Result
	of    core.Sched
	begun bool        // some of its fires are on the ring
	lost  []core.Fire // of instants before that the ring has lost
}

// whole reports that nothing but the advance is left to do.
func (p *planned) whole() bool { return len(p.Fires)+len(p.Skips)+len(p.lost) == 0 }

// plan computes one job; what goes wrong concerns that job alone.
func (t *Ticker) plan(ctx context.Context, o plan.Options, s core.Sched, now time.Time) (pl planned, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			t.o.Log.Error("planning panicked", "job", s.ID, "instant", s.Next, "panic", fmt.Sprint(r))
			pl, ok = t.setAside(s, now, fmt.Sprint("internal error: ", r)), true
		}
		pl.of = s
	}()
	sch, err := schedule.Compile(s.Schedule, s.ID)
	if err != nil {
		return t.setAside(s, now, err.Error()), true
	}
	switch s.State {
	case core.Paused:
		if s.PausedAt(now) { // its end is near
			return planned{Result: plan.Job(s, sch, now, o)}, true
		}
		return planned{Result: plan.Result{Advance: plan.EndPause(s, sch, o)}}, true
	case core.Ended:
		move := s.Stay()
		move.NewPlanAt = 0
		return planned{Result: plan.Result{Advance: move}}, true
	}
	if s.Tail != 0 {
		return t.tail(ctx, s, sch, now)
	}
	r := plan.Job(s, sch, now, o)
	r.Advance.PlanError = ""
	if _, fixed := sch.FixedDelay(); fixed && len(r.Skips) > 0 {
		return t.adopt(ctx, s, now, planned{Result: r})
	}
	return planned{Result: r}, true
}

// adopt looks, before the late fire of a fixed delay is skipped, whether an
// earlier pass sent it and only the advance was lost: its run is the chain, and
// another beside it would overlap.
func (t *Ticker) adopt(ctx context.Context, s core.Sched, now time.Time, late planned) (planned, bool) {
	id := core.PlannedRun(s.ID, s.Next)
	runs, unread, err := t.store.Runs(ctx, []core.RunID{id})
	if err != nil || len(unread) > 0 {
		t.o.Log.Warn("run of a late fixed delay could not be read", "job", s.ID, "run", id, "err", err)
		return planned{}, false
	}
	if _, ok := runs[id]; !ok {
		return late, true
	}
	move := s.Stay()
	move.NewTail, move.NewPlanAt, move.NewSeq, move.PlanError = id, core.InstantOf(now), s.Seq+1, ""
	return planned{Result: plan.Result{Advance: move}}, true
}

// setAside keeps a job that cannot be planned out of the way of the others.
func (t *Ticker) setAside(s core.Sched, now time.Time, why string) planned {
	t.o.Log.Error("job cannot be planned", "job", s.ID, "instant", s.Next, "err", why)
	move := s.Stay()
	move.NewPlanAt = core.InstantOf(now.Add(t.o.PlanBackoff))
	move.PlanError = ring.CutWhy(why)
	return planned{Result: plan.Result{Advance: move}}
}

// forgotten is the age from which a run that is not found may have been one
// that the store forgot by its age: the default keep.
const forgotten = 30 * 24 * time.Hour

// tail looks at the open chain of a fixed delay: what a close missed is
// repaired, and a fire that never became a run is sent again.
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
		// Nobody can say whether it ran, so it is not sent; what runs for it all
		// the same beats the record. Its message may be there if none passed for
		// long: then it has until the next look.
		send = false
		if now.Sub(s.PlanAt.Time()) < t.o.Plan.TailCheck {
			c.open, c.ended = false, now
			pl.Skips = []core.Skip{{Job: s.ID, First: at, Last: at, Count: 1, Reason: core.ReasonMisfire, Rev: s.Rev, Made: now.UTC()}}
		}
	}
	if !c.open {
		if delay, fixed := s.Schedule.FixedDelay(); fixed {
			pl.Advance = plan.AfterEnd(s, delay, c.ended, t.o.Plan)
		} else { // the schedule was changed to another kind meanwhile
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
	begun bool      // the fire has a run
	open  bool      // the last attempt has not ended
	out   bool      // the open one is on its way to an executor already
	ended time.Time // when the last attempt ended
}

// chain reads the runs from the tail on to the last attempt.
func (t *Ticker) chain(ctx context.Context, s core.Sched, now time.Time) (c chain, err error) {
	var last core.Run
	first := s.Tail
	for id, n := first, 0; n < 200; n++ {
		runs, unread, err := t.store.Runs(ctx, []core.RunID{id})
		if err == nil && len(unread) > 0 {
			err = core.ErrThrottled
		}
		if err != nil {
			return c, err
		}
		run, ok := runs[id]
		switch {
		case ok && run.State.Open():
			// A retry has a message of its own. So has a claim of this revision, and what
			// waits for an executor; that of an older one falls silently, and its owner
			// may be dead.
			fallen := run.Rev < s.Rev && run.Expired(now)
			has := run.Owner != "" || run.State == core.Queued
			return chain{begun: true, open: true, out: has && !fallen || id != first}, nil
		case !ok && id == first:
			return chain{open: true}, nil
		case !ok && len(last.Owes) == 0:
			// Its message was there before the one before it owed nothing more: it
			// had its run, and the store forgot that.
			return chain{begun: true, ended: last.EndedAt}, nil
		case !ok:
			return chain{begun: true, open: true, out: true}, nil // it is owed
		case run.Then == 0:
			return chain{begun: true, ended: run.EndedAt}, nil
		}
		id, last = run.Then, run
	}
	return chain{begun: true, open: true, out: true}, nil
}

// commit puts a page of plans into effect: skipped records, then all fires on
// the ring, then the advances of those jobs whose fires are there.
// It answers for how many all fires are there, and how many of them were moved on.
func (t *Ticker) commit(ctx context.Context, g core.Global, p int, plans []planned, res *Result) (sent, moved int, err error) {
	if len(plans) == 0 {
		return 0, 0, nil
	}
	had := make([]int, len(plans)) // fires that were to be put on the ring
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
		for k, err := range t.store.PutSkips(ctx, skips) {
			if err != nil {
				plans[skipOf[k]].Skips = append(plans[skipOf[k]].Skips, skips[k])
			} else {
				res.Skipped += skips[k].Count
			}
		}
	}
	reach := t.loss.Reach(ctx) // before these are on the ring
	res.Uncompared = max(res.Uncompared, t.loss.Waits(jobs, reach))
	t.enqueue(ctx, plans, func(pl *planned) *[]core.Fire { return &pl.Fires }, res)
	// After them, for it takes a while, and what is put on a queue of whole seconds
	// late is held for longer.
	t.findLost(ctx, g, plans, reach)
	lost := core.Instant(0)
	for i := range plans {
		had[i] += len(plans[i].lost)
		res.Recovered += len(plans[i].lost)
		for _, f := range plans[i].lost {
			lost = loss.Earlier(lost, f.At)
		}
	}
	unnoted := t.loss.Note(ctx, lost)
	if unnoted == nil {
		t.enqueue(ctx, plans, func(pl *planned) *[]core.Fire { return &pl.lost }, res)
	}
	// After the fires, which wait for nobody's notices, and before the advances: who dies in
	// between leaves a plan that is made again, and tells again. Where it fails it is this
	// pass's error, and holds up no advance.
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

// findLost adds to the plans the fires of instants before that the ring has lost, and
// up to where that was looked at.
func (t *Ticker) findLost(ctx context.Context, g core.Global, plans []planned, r loss.Reach) {
	var jobs []*core.Sched
	var of []*planned
	for i := range plans {
		if pl := &plans[i]; !pl.begun && pl.Advance.Change == nil && pl.Advance.PlanError == "" {
			jobs, of = append(jobs, &pl.of), append(of, pl)
		}
	}
	for i, f := range t.loss.Find(ctx, g, jobs, r) {
		of[i].Advance.NewCompared, of[i].lost = f.UpTo, f.Lost
	}
}

// enqueue puts fires of jobs on the ring; what it does not take is left.
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
	for k, err := range t.ring.Enqueue(ctx, out) {
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

// advance moves jobs on whose fires are on the ring, and answers how many it may
// have left where they are. Only what moved counts as load.
func (t *Ticker) advance(ctx context.Context, g core.Global, p int, list []*planned, res *Result) (failed int) {
	if len(list) == 0 {
		return 0
	}
	moves := make([]core.Advance, len(list))
	for i, pl := range list {
		moves[i] = pl.Advance
	}
	now := t.o.Now()
	moved := 0
	for i, err := range t.store.Advance(ctx, moves) {
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

// leadTime is that of a slot with all its fires that this ticker has seen.
func (t *Ticker) leadTime(slot core.Instant, fires int) time.Duration {
	return t.o.Plan.LeadTime.Of(slot, t.burst[slot]+fires)
}

// entries sends runs that waited in the due index for their time, then removes
// the entries. A run that is no longer open loses its entry; one that owes something has
// it made by whoever takes its message, and so is the end of a broadcast seen whose shard
// was closed while it waited here.
func (t *Ticker) entries(ctx context.Context, entries []core.DueItem, res *Result) error {
	ids := make([]core.RunID, len(entries))
	for i, e := range entries {
		ids[i] = e.Run
	}
	runs, unread, err := t.store.Runs(ctx, ids)
	if err != nil {
		return fmt.Errorf("read runs of entries: %w", err)
	}
	now := core.InstantOf(t.o.Now())
	var out []ring.Out
	var outOf []core.DueItem
	var drop []core.DueItem
	for _, e := range entries {
		run, ok := runs[e.Run]
		switch {
		case !ok && slices.Contains(unread, e.Run):
		case !ok: // what is open stays in the store, so it has ended long ago
			t.o.Log.Warn("an entry of the due index whose run is not stored any more is dropped", "job", e.Job, "run", e.Run, "instant", e.PlanAt)
			drop = append(drop, e)
		case !run.State.Open() && !run.Owing() && !run.ShardEnded():
			drop = append(drop, e)
		case run.State.Open() && run.Slot.Add(-t.o.Plan.PlanAhead) > now:
			// The trigger was put off, and this entry is no longer there: an index
			// may be behind. That of its new time is.
		default:
			fire := run.Fire()
			out = append(out, ring.Out{NotBefore: run.Slot.Time(), Message: ring.Message{Kind: ring.KindFires, Slot: run.Slot,
				Fires: []core.Fire{fire}, Slow: t.o.Plan.SlowLane && run.RepeatedRetry()}})
			outOf = append(outOf, e)
		}
	}
	if len(out) > 0 {
		for k, err := range t.ring.Enqueue(ctx, out) {
			if err == nil {
				drop = append(drop, outOf[k])
				res.Fires++
			}
		}
	}
	if len(drop) > 0 {
		t.store.RemoveEntries(ctx, drop) // what stays is sent again: harmless
	}
	return nil
}
