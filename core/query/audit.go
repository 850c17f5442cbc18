package query

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
)

const (
	// lookedBetween is how many scheduled times are audited between two checks of the bounds of a report or page.
	lookedBetween = 256
	// tooYoung is how long after a scheduled time no run is expected.
	tooYoung = 2 * time.Second
	day      = 24 * time.Hour
	// keptRecords is the retention of data without a job: the change records of apps and of everything, and the
	// traces of deleted jobs.
	keptRecords = core.KeepDays * day
)

// AuditReport has the results of the expected runs of one job in a time span.
type AuditReport struct {
	Job       core.JobID
	App, Name string
	From, To  core.Instant // scheduled times after From and at most To
	AuditCount
	// Missing lists scheduled times that have neither a run nor a record. Waiting lists scheduled times with overdue
	// runs. Each list has at most the first 100 times.
	Missing []core.Instant
	Waiting []core.Instant
	// Behind is the due time, possibly estimated, of the oldest message in the delay queue. Behind is set only if a
	// missing run was due later, because the message of this run may still be in the delay queue.
	Behind time.Time
	// Next is the From of the next report if the time span is too long for one report; 0: the report is complete.
	Next core.Instant
	// Partial is true if change records of the time span were already removed.
	Partial bool
	// Failed is the reason why the job could not be audited. If Failed is set, all other results are empty.
	Failed string
	// Again lists the runs that must be sent again. Only Lost fills this list.
	Again []core.Fire
	// Below is set if Lost must still check runs of the job with IDs lower than Below; 0: all runs are checked.
	Below core.RunID
}

// AuditCount counts the results of a set of scheduled times.
type AuditCount struct {
	Demanded int64
	OnTime   int64
	Late     int64 // runs sent more than 1 s after the due time
	Worst    time.Duration
	Skipped  map[core.Reason]int64
	Pending  int64
	// Overdue counts runs that have been pending for longer than 15 minutes, because no executor received them or the
	// ticker did not plan them.
	Overdue int64
	// OutOfReach counts scheduled times without a run or record that are so old that both may have been removed.
	OutOfReach  int64
	Unaccounted int64
}

// Well reports whether Unaccounted and Overdue are both 0.
func (c *AuditCount) Well() bool { return c.Unaccounted == 0 && c.Overdue == 0 }

// AuditSum is the sum of the audit reports of all jobs.
type AuditSum struct {
	From, To core.Instant
	Jobs     int
	AuditCount
	// Missing has the reports of at most 100 jobs with missing or overdue runs.
	Missing []AuditReport
	Failed  []string  // errors of at most 100 jobs that could not be audited and are in no count
	Behind  time.Time // due time of the oldest message in the delay queue, if a missing run was due later
	Partial bool
	Next    string // value of After for the next page; empty: this is the last page
}

// OnTime is the maximum delay after the due time of a run that counts as on time.
const OnTime = time.Second

func (c *AuditCount) skip(reason core.Reason, n int64) {
	if c.Skipped == nil {
		c.Skipped = map[core.Reason]int64{}
	}
	c.Skipped[reason] += n
}

func (c *AuditCount) add(o *AuditCount) {
	c.Demanded += o.Demanded
	c.OnTime += o.OnTime
	c.Late += o.Late
	c.Worst = max(c.Worst, o.Worst)
	c.Pending += o.Pending
	c.Overdue += o.Overdue
	c.OutOfReach += o.OutOfReach
	c.Unaccounted += o.Unaccounted
	for reason, n := range o.Skipped {
		c.skip(reason, n)
	}
}

// NotSent returns the number of runs that ended without being sent, because no executor was available. The number is
// Demanded minus all other counts.
func (c *AuditCount) NotSent() int64 {
	n := c.Demanded - c.OnTime - c.Late - c.Pending - c.Overdue - c.OutOfReach - c.Unaccounted
	for _, skipped := range c.Skipped {
		n -= skipped
	}
	return n
}

// run counts a run by the delay of its send. A run that ended unsent is only in NotSent. It returns false for a run
// that is still to be sent.
func (c *AuditCount) run(r *core.Run) bool {
	switch {
	case r.State == core.Skipped:
		c.skip(r.Reason, 1)
		return true
	case !r.Sent():
		return !r.State.Open()
	}
	late := r.SentAt.Sub(r.Slot.Time())
	c.Worst = max(c.Worst, late)
	if late > OnTime {
		c.Late++
	} else {
		c.OnTime++
	}
	return true
}

type auditing struct {
	now     time.Time
	oldest  ring.Oldest
	global  pauses
	apps    map[string]pauses
	limits  sync.Map // limit by name; several jobs are audited in parallel
	partial bool
	page    *budget.Page
	// again collects missing runs in AuditReport.Again. ahead adds runs that may be on their way, up to the planned
	// time. They can be on the delay queue for the time window.
	again, ahead bool
	window       time.Duration
}

// begin reads the settings and times that all jobs of a page share.
func (q *Queries) begin(ctx context.Context, a *auditing, from core.Instant) (err error) {
	a.now, a.apps, a.page = q.o.Now(), map[string]pauses{}, q.Page()
	if a.oldest, err = q.store.Queue.Oldest(ctx); err != nil {
		return core.Retryable(err)
	}
	g, err := q.Global(ctx)
	if err == nil {
		a.global, err = q.pauses(ctx, a, core.App{Pause: g.Pause, Past: g.Past}, from)
	}
	return err
}

// pauses are the known pauses of an app, or of everything.
type pauses struct {
	list []core.Pause
	// since is the time up to which further pauses may have existed that are not recorded; 0: none.
	since core.Instant
	app   core.App
}

func (p *pauses) cover(at core.Instant) bool {
	t := at.Time()
	return slices.ContainsFunc(p.list, func(p core.Pause) bool { return p.Covers(t) })
}

// pauses returns the pauses of an app, or of everything if it has no name, that end after from. The item has the
// latest ones. Older ones are in the change records, as are the pauses of a deleted app with that name.
func (q *Queries) pauses(ctx context.Context, a *auditing, app core.App, from core.Instant) (pauses, error) {
	known := core.InstantOf(app.Past.From)
	switch {
	case app.Name == "":
	case app.Created.IsZero(): // the app does not exist
		known = core.InstantOf(a.now)
	default: // an earlier app with this name was another app
		known = max(known, core.InstantOf(app.Created))
	}
	p := pauses{list: append(slices.Clone(app.Past.Pauses), app.Pause), app: app}
	first := p.list[0].From // zero: the item has none
	// An item written by an earlier version may have only the latest pause. The change records may contain older
	// ones.
	if known <= from && !first.After(from.Time()) {
		return p, nil
	}
	recorded, since, err := q.recorded(ctx, app.Name)
	if err != nil {
		return pauses{}, err
	}
	a.partial = a.partial || known > from && since.After(from.Time())
	for _, x := range recorded {
		switch {
		case first.IsZero():
		case !x.From.Before(first):
			continue // the item is more accurate
		case x.To.IsZero() || x.To.After(first):
			x.To = first
		}
		p.list = append(p.list, x)
	}
	p.since = min(known, core.InstantOf(a.now.Add(-cmp.Or(q.o.KeepRuns, keptRecords))))
	return p, nil
}

// recorded returns the pauses of an app, or of everything if the name is empty, from the change records. since is the
// time from which records were read.
func (q *Queries) recorded(ctx context.Context, app string) (list []core.Pause, since time.Time, err error) {
	changes, err := q.store.Changes(ctx, app, 0, math.MaxInt64, budget.History)
	if err != nil {
		return nil, time.Time{}, core.Retryable(err)
	}
	if len(changes) == budget.History {
		since = changes[budget.History-1].At
	}
	byFrom := map[int64]core.Pause{} // the newest record of each pause
	revs := map[int64]int64{}
	note := func(rev int64, p core.Pause) {
		if from := core.Millis(p.From); from != 0 && rev >= revs[from] {
			byFrom[from], revs[from] = p, rev
		}
	}
	for _, c := range changes {
		if c.Job != 0 || c.App != app || c.Verb == core.VerbActed {
			continue
		}
		for _, text := range []string{c.Old, c.New} {
			if r, ok := core.ParseAppRecord(text); ok {
				note(r.Rev, r.Pause())
			}
		}
		if r, ok := core.ParseAppRecord(c.Old); ok && c.Verb == core.VerbDeleted {
			p := r.Pause() // it ended with its app
			if p.To.IsZero() || p.To.After(c.At) {
				p.To = c.At
			}
			note(c.ID, p)
		}
	}
	return slices.Collect(maps.Values(byFrom)), since, nil
}

// pausesOf reads the pauses of an app once.
func (q *Queries) pausesOf(ctx context.Context, a *auditing, name string, from core.Instant) (pauses, error) {
	if p, known := a.apps[name]; known {
		return p, nil
	}
	app, found, err := q.FindApp(ctx, name)
	if err != nil {
		return pauses{}, err
	}
	if !found {
		app = core.App{Name: name}
	}
	p, err := q.pauses(ctx, a, app, from)
	if err == nil {
		a.apps[name] = p
	}
	return p, err
}

func checkSpan(from, to core.Instant) error {
	if from >= to {
		return core.Invalid("from", from.String(), "must be earlier than the end of the period (`to`), %s", to.String())
	}
	if from < firstInstant-1 || to > core.Horizon {
		return core.Invalid("from", from.String(), "allowed values: times from 2020-01-01 to %s", core.Horizon)
	}
	return nil
}

// revision is one period in a job's history with one schedule.
type revision struct {
	core.JobRecord
	at, end core.Instant // it applies to at < t <= end
	last    bool         // the current one
}

func (r revision) demands() bool { return r.at < r.end && !r.Deleted && r.State != core.Paused }

type history struct {
	revs []revision // oldest first
	// swept is the time up to which runs may be removed because of an earlier retention. keep is the current
	// retention.
	swept   core.Instant
	keep    time.Duration
	partial bool
}

// history reads the revisions of a job that overlap the span; j is the stored job, nil if it was deleted.
func (q *Queries) history(ctx context.Context, id core.JobID, app string, j *core.Job, from, to core.Instant) (h history, err error) {
	records := map[int64]core.JobRecord{}
	if j != nil {
		records[j.Sched.Rev] = core.RecordOf(&j.Sched, &j.Def)
	}
	if j == nil || j.Sched.RevAt.After(from.Time()) {
		changes, err := q.store.Changes(ctx, app, id, math.MaxInt64, budget.History)
		if err != nil {
			return h, core.Retryable(err)
		}
		complete := false
		note := func(text string) {
			// Both sides of each record, so that a lost record leaves no gap.
			if r, ok := core.ParseJobRecord(text); ok {
				if known, is := records[r.Rev]; !is || known.Def == nil {
					records[r.Rev] = r
				}
			}
		}
		for _, c := range changes {
			note(c.New)
			note(c.Old)
			complete = complete || c.Verb == core.VerbCreated
		}
		oldest := int64(0)
		for _, r := range records {
			if oldest == 0 || r.RevAt < oldest {
				oldest = r.RevAt
			}
		}
		h.partial = !complete && oldest > core.Millis(from.Time())
	}
	h.keep = keptRecords
	revs := slices.Sorted(maps.Keys(records))
	for i, rev := range revs {
		r := revision{JobRecord: records[rev], end: to, last: i == len(revs)-1}
		r.at = max(core.InstantOf(core.FromMillis(r.RevAt)), from)
		if r.Def != nil && r.Def.Keep.Days != 0 { // nil or 0 if only planning fields changed: then keep is unchanged
			h.keep = r.Def.Keep.For()
		}
		if !r.last {
			end := core.FromMillis(records[revs[i+1]].RevAt)
			r.end = min(to, core.InstantOf(end))
			h.swept = max(h.swept, core.InstantOf(end.Add(-h.keep)))
		}
		h.revs = append(h.revs, r)
	}
	if j == nil { // its runs are kept for at most the default
		h.keep = min(h.keep, keptRecords)
	}
	if q.o.KeepRuns > 0 {
		h.keep, h.swept = q.o.KeepRuns, 0
	}
	return h, nil
}

// audit computes the expected runs of a job from the job's schedules and change records alone, and reports the results of
// these runs. It covers scheduled times later than the parameter from and not later than the parameter to.
func (q *Queries) audit(ctx context.Context, a *auditing, s *subject, paused pauses, from, to core.Instant) (AuditReport, error) {
	rep := AuditReport{Job: s.id, App: s.app, Name: s.name, From: from, To: to}
	h, err := q.history(ctx, s.id, s.app, s.job, from, to)
	if err != nil {
		return rep, err
	}
	rep.Partial = h.partial || a.partial
	if !slices.ContainsFunc(h.revs, revision.demands) {
		return rep, nil
	}
	skips, err := q.store.Skips(ctx, s.id, from+1, to)
	if err != nil {
		return rep, core.Retryable(err)
	}
	cleaned, err := q.store.Cleaned(ctx, s.id)
	if err != nil {
		return rep, core.Retryable(err)
	}
	h.swept = max(h.swept, cleaned)
	first, last := core.RunRange(s.id, from+1, to)
	runs := &rising{reader{q: q, at: first, to: last, n: budget.AtOnce}}
	for _, r := range h.revs {
		if !r.demands() {
			continue
		}
		w := walk{q: q, a: a, rep: &rep, pauses: paused, history: &h, rev: r, skips: skips, runs: runs, job: s.job}
		if r.last && s.job != nil {
			w.now = &s.job.Sched
		}
		if _, fixed := r.Schedule.FixedDelay(); fixed {
			err = w.delays(ctx)
		} else {
			err = w.instants(ctx)
		}
		if err != nil || rep.Next != 0 {
			return rep, err
		}
	}
	return rep, nil
}

// walk is the audit of one revision.
type walk struct {
	q       *Queries
	a       *auditing
	rep     *AuditReport
	pauses  pauses
	history *history
	rev     revision
	sch     *schedule.Schedule // compiled from rev
	now     *core.Sched        // set for the current revision
	job     *core.Job          // nil if it was deleted
	skips   []core.Skip
	runs    *rising
}

func (w *walk) compile() (err error) {
	if w.sch, err = schedule.Compile(w.rev.Schedule, w.rep.Job); err != nil {
		return core.Errorf(core.CodeInternal, "the schedule of revision %d of job %d: %v", w.rev.Rev, w.rep.Job, err)
	}
	return nil
}

func (w *walk) instants(ctx context.Context) error {
	if err := w.compile(); err != nil {
		return err
	}
	looked := 0
	for at, ok := w.sch.Next(w.rev.at); ok && at <= w.rev.end; at, ok = w.sch.Next(at) {
		if looked++; looked%lookedBetween == 0 && w.full() {
			w.stopBefore(at)
			return nil
		}
		if w.a.ahead && w.toPlan(at) && !w.planning(at) {
			return nil
		}
		// A pause in progress can end before a future scheduled time, whose message stays on the delay queue until
		// then.
		if w.paused(at) && !(w.a.ahead && at.Time().After(w.a.now.Add(-tooYoung))) {
			continue
		}
		w.rep.Demanded++
		run, err := w.runs.of(ctx, at)
		if err != nil {
			return err
		}
		switch {
		case run != nil:
			if err := w.run(ctx, run); err != nil {
				return err
			}
		case w.skipped(at):
		case w.toPlan(at) && !w.a.ahead:
			w.pending(at, w.slot(at))
		default:
			w.without(at)
		}
	}
	return nil
}

// full reports whether the report has reached its bounds, or the page is over.
func (w *walk) full() bool {
	return w.rep.Demanded >= budget.Demanded || len(w.rep.Again) >= budget.Again || w.a.page.Over()
}

// stopBefore ends the report before a scheduled time.
func (w *walk) stopBefore(at core.Instant) { w.rep.Next, w.rep.To = at-1, at-1 }

func (w *walk) paused(at core.Instant) bool {
	return w.a.global.cover(at) || w.pauses.cover(at)
}

// toPlan reports whether a scheduled time is not planned.
func (w *walk) toPlan(at core.Instant) bool {
	return w.now != nil && w.now.State == core.Started && w.now.Next != 0 && at >= w.now.Next
}

// planning reports whether a tick may have put an unplanned scheduled time on the delay queue. The job is then due
// for planning, and a tick updates it last.
func (w *walk) planning(at core.Instant) bool {
	due := w.now.PlanAt.Time()
	return due.Before(w.a.now.Add(tooYoung)) && due.After(w.a.now.Add(-patience)) && !w.slot(at).After(w.a.now.Add(w.a.window))
}

// run counts a scheduled time that has a run.
func (w *walk) run(ctx context.Context, r *core.Run) error {
	if !w.rep.run(r) {
		due := r.Slot.Time()
		switch queued := r.State == core.Queued && w.job != nil; {
		case queued && r.Permit != "" && w.job.Sched.Deadline > 0:
			due = due.Add(w.job.Sched.Deadline)
		case queued && r.Permit != "":
			if held, err := w.a.held(ctx, w.q, r); err != nil {
				return err
			} else if held {
				due = w.a.now
			}
		case queued:
			due = w.job.WaitsUntil(&w.pauses.app, r.Slot)
		}
		w.pending(r.At, due)
	}
	if w.a.ahead && (r.State.Open() || r.Owing()) {
		w.rep.Again = append(w.rep.Again, r.Fire())
	}
	return nil
}

// limit is a stored limit; held is true if a chain with one of its slots is in time.
type limit struct {
	core.Permits
	held bool
}

// held reports whether a run waits for a slot that other chains rightly hold.
func (a *auditing) held(ctx context.Context, q *Queries, r *core.Run) (bool, error) {
	for _, name := range core.PermitNames(r.Permit) {
		known, _ := a.limits.Load(name)
		l, is := known.(limit)
		if !is {
			items, err := q.store.Permits(ctx, []string{name})
			if err != nil {
				return false, core.Retryable(err)
			}
			l.Permits = items[name]
			if l.held, err = a.inTime(ctx, q, l.Holders); err != nil {
				return false, err
			}
			a.limits.Store(name, l)
		}
		if l.held && !l.Holds(r.First) {
			return true, nil
		}
	}
	return false, nil
}

// inTime reports whether a holder's chain is open and, if it was sent, within the job's timeout plus
// patience.
func (a *auditing) inTime(ctx context.Context, q *Queries, holders []core.Holder) (bool, error) {
	firsts := make([]core.RunID, len(holders))
	for i := range holders {
		firsts[i] = holders[i].First
	}
	runs, err := q.store.LastAttempts(ctx, firsts)
	if err != nil {
		return false, err
	}
	jobs, err := q.jobsOf(ctx, runs)
	if err != nil {
		return false, err
	}
	for i := range runs {
		r, job := &runs[i], jobs[runs[i].ID.Job()]
		switch {
		case r.ID == 0: // no run is stored: the holder keeps its slot until Until
			if holders[i].Until.After(a.now) {
				return true, nil
			}
		case !r.State.Open(), !r.Sent() && job == nil && r.Slot.Time().Add(patience).Before(a.now): // it cannot be sent
		case r.Sent() && job != nil && job.Def.Timeout > 0 && r.SentAt.Add(job.Def.Timeout+patience).Before(a.now):
		default:
			return true, nil
		}
	}
	return false, nil
}

// pending counts a scheduled time that is still to be planned, or to be sent at due.
func (w *walk) pending(at core.Instant, due time.Time) {
	if due.After(w.a.now.Add(-patience)) {
		w.rep.Pending++
		return
	}
	w.rep.Overdue++
	if len(w.rep.Waiting) < budget.Missing {
		w.rep.Waiting = append(w.rep.Waiting, at)
	}
}

// slot returns the latest due time for a scheduled time.
func (w *walk) slot(at core.Instant) time.Time {
	if _, fixed := w.sch.FixedDelay(); fixed {
		return at.Time()
	}
	return at.Time().Add(w.rev.Schedule.Jitter)
}

// without counts a planned scheduled time without a run or record. It is pending if it is new, or if its message may
// still be in the delay queue and patience is not over. It is out of reach if run and record may have been
// removed.
func (w *walk) without(at core.Instant) {
	slot := w.slot(at)
	oldest := w.a.oldest
	behind := !oldest.Due.IsZero() && !slot.Before(oldest.Due) || oldest.PutBack(at, core.InstantOf(slot))
	switch {
	case w.a.ahead && at > w.reach(): // messages that may be on their way are sent again too
	case slot.After(w.a.now.Add(-tooYoung)), behind && slot.After(w.a.now.Add(-patience)):
		w.rep.Pending++
		return
	case at <= w.reach():
		w.rep.OutOfReach++
		return
	case behind:
		w.rep.Behind = oldest.First()
	}
	w.rep.Unaccounted++
	if len(w.rep.Missing) < budget.Missing {
		w.rep.Missing = append(w.rep.Missing, at)
	}
	if _, fixed := w.sch.FixedDelay(); !fixed && w.a.again {
		w.rep.Again = append(w.rep.Again, w.fire(at))
	}
}

// fire returns the fire that sends a scheduled time again.
func (w *walk) fire(at core.Instant) core.Fire {
	next, _ := w.sch.Next(at)
	f := core.Fire{Run: core.PlannedRun(w.rep.Job, at), Rev: w.rev.Rev, At: at, Slot: w.sch.Slot(w.rep.Job, at, next, false),
		Cause: core.CauseMisfire}
	if f.Slot.Time().After(w.a.now) {
		f.Cause = core.CauseSchedule
	}
	return f
}

// reach returns the time up to which results are not known any more. Runs and records are created at or after their
// scheduled time, and are kept from then on.
func (w *walk) reach() core.Instant {
	return max(w.history.swept, core.InstantOf(w.q.o.Now().Add(-w.history.keep)), w.pauses.since, w.a.global.since)
}

// skipped counts a scheduled time that has a skip record.
func (w *walk) skipped(at core.Instant) bool {
	i := w.skipOf(at)
	if i >= 0 {
		w.rep.skip(w.skips[i].Reason, 1)
	}
	return i >= 0
}

// skipOf returns the index of the skip record of a scheduled time; -1: none.
func (w *walk) skipOf(at core.Instant) int {
	return slices.IndexFunc(w.skips, func(s core.Skip) bool { return s.Covers(at) })
}

// delays audits a fixed delay: each closed chain makes the next run expected.
func (w *walk) delays(ctx context.Context) error {
	delay, _ := w.rev.Schedule.FixedDelay()
	if err := w.compile(); err != nil {
		return err
	}
	skipped := func(end core.Instant) {
		for i := range w.skips {
			if s := &w.skips[i]; s.First > w.rev.at && s.First <= end {
				w.rep.Demanded += s.Count
				w.rep.skip(s.Reason, s.Count)
			}
		}
	}
	excused := func(at core.Instant) bool { return w.skipOf(at) >= 0 || w.paused(at) }
	expected := core.Instant(0) // after the previous run; 0: unknown
	last := core.Instant(0)
	for {
		run, err := w.runs.upTo(ctx, w.rev.at, w.rev.end)
		if err != nil {
			return err
		}
		if run == nil {
			break
		}
		// A run of a later revision was scheduled after an edit, with the new delay.
		if expected != 0 && run.At > expected && run.Rev <= w.rev.Rev && !excused(expected) {
			w.rep.Demanded++
			w.without(expected)
		}
		if last != 0 && w.full() {
			w.stopBefore(run.At)
			skipped(w.rep.Next)
			return nil
		}
		w.rep.Demanded++
		if err := w.run(ctx, run); err != nil {
			return err
		}
		last = run.At
		switch {
		case w.skipOf(run.At) >= 0:
			expected = 0 // its message was late, and the tick continued from the skip record: the late run changes no schedule
		case run.Rev < w.rev.Rev:
			expected = 0 // sent before the edit, by a faster clock than the editor's: it is unknown which delay applied
		default:
			expected, err = w.q.after(ctx, run, w.sch, delay)
		}
		if err != nil {
			return err
		}
	}
	skipped(w.rev.end)
	s := w.now
	if s == nil || s.State != core.Started {
		return nil
	}
	next := s.Next
	if at, ok := s.Tail.Planned(); s.Tail != 0 && ok {
		next = at // its message is already sent
	}
	switch {
	case next > last && next > w.rev.at && next <= w.rev.end:
		if excused(next) {
			return nil
		}
		w.rep.Demanded++
		w.pending(next, w.slot(next))
	case next > last, expected == 0, expected > w.rev.end, excused(expected):
	case s.Tail != 0:
		w.rep.Demanded++
		w.pending(expected, w.slot(expected)) // its chain has ended, and the tick will move it on
	default:
		w.rep.Demanded++
		w.without(expected)
	}
	return nil
}

// after returns the scheduled time that follows a chain; 0 if the chain is open or the schedule is over.
func (q *Queries) after(ctx context.Context, run *core.Run, sch *schedule.Schedule, delay time.Duration) (core.Instant, error) {
	r := *run
	for range core.MaxRetries + 1 {
		if r.State.Open() {
			return 0, nil
		}
		if r.Then == 0 {
			at, ok := sch.Clamp(max(core.Ceil(r.EndedAt).Add(delay), run.At+1))
			if !ok {
				return 0, nil
			}
			return at, nil
		}
		next, ok, err := q.Stored(ctx, r.Then)
		if err != nil || !ok {
			return 0, err
		}
		r = next
	}
	return 0, nil
}

// rising reads the planned runs of a job in ascending order.
type rising struct{ reader }

// of returns the run of a scheduled time; calls must be in ascending order.
func (r *rising) of(ctx context.Context, at core.Instant) (*core.Run, error) {
	for {
		run, err := r.peek(ctx)
		if err != nil || run == nil {
			return nil, err
		}
		switch c := cmp.Compare(run.At, at); {
		case c < 0:
			r.drop()
		case c == 0:
			return run, nil
		default:
			return nil, nil
		}
	}
}

// upTo returns the next run with after < At <= end.
func (r *rising) upTo(ctx context.Context, after, end core.Instant) (*core.Run, error) {
	for {
		run, err := r.peek(ctx)
		if err != nil || run == nil || run.At > end {
			return nil, err
		}
		r.drop()
		if run.At > after {
			return run, nil
		}
	}
}
