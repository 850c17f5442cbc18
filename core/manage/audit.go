package manage

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
)

// Bounds of an audit.
const (
	maxDemanded = 200_000 // instants in one report
	maxMissing  = 100
	maxHistory  = 10_000 // change records that are read for one question
	// settling is how young an instant is when it is not yet expected to have a
	// run.
	settling = 2 * time.Second
)

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
	c.Unaccounted += o.Unaccounted
	for reason, n := range o.Skipped {
		c.skip(reason, n)
	}
}

// NotSent is how many runs ended without having gone to anybody: no executor
// was there. It is what the other counts leave of Demanded.
func (c *AuditCount) NotSent() int64 {
	n := c.Demanded - c.OnTime - c.Late - c.Pending - c.Unaccounted
	for _, skipped := range c.Skipped {
		n -= skipped
	}
	return n
}

// run counts a run by how late it was sent. One that ended unsent is in no
// count but NotSent.
func (c *AuditCount) run(r *core.Run) {
	switch {
	case r.State == core.Skipped:
		c.skip(r.Reason, 1)
		return
	case !r.Sent() && r.State.Open():
		c.Pending++
		return
	case !r.Sent():
		return
	}
	late := r.SentAt.Sub(r.Slot.Time())
	c.Worst = max(c.Worst, late)
	if late > OnTime {
		c.Late++
	} else {
		c.OnTime++
	}
}

// auditing is what all jobs of one audit share.
type auditing struct {
	now     time.Time
	oldest  time.Time // due time of the oldest message on the ring; zero none
	global  []core.Pause
	apps    map[string][]core.Pause
	partial bool
	// missed is told of each instant that is unaccounted for, if it is not nil.
	missed func(w *walk, sch *schedule.Schedule, at core.Instant)
}

func (m *Manage) newAudit(ctx context.Context, from core.Instant) (*auditing, error) {
	a := &auditing{now: m.o.Now(), apps: map[string][]core.Pause{}}
	var err error
	if a.oldest, err = m.store.OldestMessage(ctx); err != nil {
		return nil, passing(err)
	}
	g, err := m.Global(ctx)
	if err != nil {
		return nil, err
	}
	a.global, err = m.pauses(ctx, a, "", g.Pause, from)
	return a, err
}

// pauses is the pauses of an app, or of everything, that reach behind from. The
// item holds the last; those before it are in the change records.
func (m *Manage) pauses(ctx context.Context, a *auditing, app string, last core.Pause, from core.Instant) ([]core.Pause, error) {
	if last.From.IsZero() {
		return nil, nil
	}
	if !last.From.After(from.Time()) {
		return []core.Pause{last}, nil // those before it ended before it
	}
	changes, err := m.store.Changes(ctx, app, 0, maxHistory)
	if err != nil {
		return nil, passing(err)
	}
	if len(changes) == maxHistory && changes[maxHistory-1].At.After(from.Time()) {
		a.partial = true
	}
	byFrom := map[int64]core.Pause{} // the newest word on each
	revs := map[int64]int64{}
	note := func(text string) {
		r, ok := core.ParseAppRecord(text)
		if ok && r.PauseFrom != 0 && r.Rev >= revs[r.PauseFrom] {
			byFrom[r.PauseFrom], revs[r.PauseFrom] = r.Pause(), r.Rev
		}
	}
	for _, c := range changes {
		if c.Job == 0 && c.App == app {
			note(c.Old)
			note(c.New)
		}
	}
	byFrom[core.Millis(last.From)] = last
	return slices.Collect(maps.Values(byFrom)), nil
}

func (a *auditing) paused(app string, at core.Instant) bool {
	t := at.Time()
	covers := func(p core.Pause) bool { return p.Covers(t) }
	return slices.ContainsFunc(a.global, covers) || slices.ContainsFunc(a.apps[app], covers)
}

// young reports whether an instant need not have a run yet: it has just been,
// or a message as old as it is still on the ring.
func (a *auditing) young(at core.Instant, jitter time.Duration) bool {
	return at.Time().After(a.now.Add(-settling-jitter)) || !a.oldest.IsZero() && !at.Time().Add(jitter).Before(a.oldest)
}

// Audit says what was demanded of a job in from < instant <= to, from its
// schedules and change records alone, and what became of each instant.
func (m *Manage) Audit(ctx context.Context, ref string, from, to core.Instant) (AuditReport, error) {
	if err := checkSpan(from, to); err != nil {
		return AuditReport{}, err
	}
	id, err := m.jobID(ctx, ref)
	if err != nil {
		return AuditReport{}, err
	}
	a, err := m.newAudit(ctx, from)
	if err != nil {
		return AuditReport{}, err
	}
	return m.auditJob(ctx, a, ref, id, from, to)
}

func (m *Manage) auditJob(ctx context.Context, a *auditing, ref string, id core.JobID, from, to core.Instant) (AuditReport, error) {
	found, left, err := m.store.Jobs(ctx, []core.JobID{id})
	if err := unread(left, err); err != nil {
		return AuditReport{}, err
	}
	if j, ok := found[id]; ok {
		return m.audit(ctx, a, id, j.Def.App, j.Def.Name, &j.Sched, from, to)
	}
	gone, err := m.store.Tombstones(ctx, []core.JobID{id})
	if err != nil {
		return AuditReport{}, passing(err)
	}
	t, ok := gone[id]
	if !ok {
		return AuditReport{}, core.Errorf(core.CodeNotFound, "there is no job %s", ref)
	}
	return m.audit(ctx, a, id, t.App, t.Name, nil, from, to)
}

func checkSpan(from, to core.Instant) error {
	if from >= to {
		return core.Invalid("from", from.String(), "a start after its end")
	}
	if from < firstInstant-1 || to > core.Horizon {
		return core.Invalid("from", from.String(), "allowed is 2020-01-01 to "+core.Horizon.String())
	}
	return nil
}

// AuditAll sums over all jobs, those deleted since from included.
func (m *Manage) AuditAll(ctx context.Context, from, to core.Instant) (AuditSum, error) {
	if err := checkSpan(from, to); err != nil {
		return AuditSum{}, err
	}
	a, err := m.newAudit(ctx, from)
	if err != nil {
		return AuditSum{}, err
	}
	return m.auditAll(ctx, a, from, to)
}

func (m *Manage) auditAll(ctx context.Context, a *auditing, from, to core.Instant) (AuditSum, error) {
	sum := AuditSum{From: from, To: to}
	one := func(id core.JobID, app, name string, s *core.Sched) error {
		sum.Jobs++
		for start := from; ; {
			r, err := m.audit(ctx, a, id, app, name, s, start, to)
			if err != nil {
				return err
			}
			sum.add(&r.AuditCount)
			sum.Partial = sum.Partial || r.Partial
			if r.Unaccounted > 0 && len(sum.Missing) < maxMissing {
				sum.Missing = append(sum.Missing, r)
			}
			if r.Next == 0 {
				return nil
			}
			start = r.Next
		}
	}
	seen := map[core.JobID]bool{}
	err := m.eachJob(ctx, "", func(j *core.Job) error {
		seen[j.Def.ID] = true
		return one(j.Def.ID, j.Def.App, j.Def.Name, &j.Sched)
	})
	if err != nil {
		return AuditSum{}, err
	}
	changes, err := m.store.Changes(ctx, "", 0, maxHistory)
	if err != nil {
		return AuditSum{}, passing(err)
	}
	if len(changes) == maxHistory && changes[maxHistory-1].At.After(from.Time()) {
		sum.Partial = true
	}
	for _, c := range changes {
		if c.Verb == core.VerbDeleted && c.Job != 0 && !seen[c.Job] && c.At.After(from.Time()) {
			seen[c.Job] = true
			if err := one(c.Job, c.App, c.Name, nil); err != nil {
				return AuditSum{}, err
			}
		}
	}
	return sum, nil
}

// revision is one span of a job's history under one schedule.
type revision struct {
	core.JobRecord
	at, end core.Instant // at < instant <= end is demanded under it
	last    bool         // the present one
}

// history is the revisions of a job that reach into the span, the oldest first.
// s is the job as it stands, nil when it was deleted.
func (m *Manage) history(ctx context.Context, id core.JobID, app string, s *core.Sched, from, to core.Instant) (list []revision, partial bool, err error) {
	records := map[int64]core.JobRecord{}
	if s != nil {
		records[s.Rev] = core.RecordOf(s, nil)
	}
	if s == nil || s.RevAt.After(from.Time()) {
		changes, err := m.store.Changes(ctx, app, id, maxHistory)
		if err != nil {
			return nil, false, passing(err)
		}
		complete := false
		note := func(text string) {
			// Both sides of each record, so that one that was lost is no gap.
			if r, ok := core.ParseJobRecord(text); ok {
				if _, known := records[r.Rev]; !known {
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
		partial = !complete && oldest > core.Millis(from.Time())
	}
	revs := slices.Sorted(maps.Keys(records))
	for i, rev := range revs {
		r := revision{JobRecord: records[rev], end: to, last: i == len(revs)-1}
		r.at = max(core.InstantOf(core.FromMillis(r.RevAt)), from)
		if !r.last {
			r.end = min(to, core.InstantOf(core.FromMillis(records[revs[i+1]].RevAt)))
		}
		if r.at < r.end && !r.Deleted && r.State != core.Paused {
			list = append(list, r)
		}
	}
	return list, partial, nil
}

// audit is the report of one job.
func (m *Manage) audit(ctx context.Context, a *auditing, id core.JobID, app, name string, s *core.Sched, from, to core.Instant) (AuditReport, error) {
	rep := AuditReport{Job: id, App: app, Name: name, From: from, To: to}
	if _, known := a.apps[app]; !known {
		got, ok, err := m.app(ctx, app)
		if err != nil {
			return rep, err
		}
		a.apps[app] = nil
		if ok {
			if a.apps[app], err = m.pauses(ctx, a, app, got.Pause, from); err != nil {
				return rep, err
			}
		}
	}
	revs, partial, err := m.history(ctx, id, app, s, from, to)
	if err != nil {
		return rep, err
	}
	rep.Partial = partial || a.partial
	if len(revs) == 0 {
		return rep, nil
	}
	skips, err := m.store.Skips(ctx, id, from+1, to)
	if err != nil {
		return rep, passing(err)
	}
	runs := &rising{m: m, job: id, next: from + 1, end: to}
	for _, r := range revs {
		w := walk{a: a, rep: &rep, app: app, rev: r, skips: skips, runs: runs}
		if r.last {
			w.now = s
		}
		if _, fixed := r.Schedule.FixedDelay(); fixed {
			err = m.auditDelay(ctx, &w)
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
	a     *auditing
	rep   *AuditReport
	app   string
	rev   revision
	now   *core.Sched // of the present revision
	skips []core.Skip
	runs  *rising
}

func (w *walk) instants(ctx context.Context) error {
	sch, err := schedule.Compile(w.rev.Schedule, w.rep.Job)
	if err != nil {
		return core.Errorf(core.CodeInternal, "the schedule of revision %d of job %d: %v", w.rev.Rev, w.rep.Job, err)
	}
	for at, ok := sch.Next(w.rev.at); ok && at <= w.rev.end; at, ok = sch.Next(at) {
		if w.a.paused(w.app, at) {
			continue
		}
		if w.rep.Demanded >= maxDemanded {
			w.rep.Next = at - 1
			w.rep.To = at - 1
			return nil
		}
		w.rep.Demanded++
		run, err := w.runs.at(ctx, at)
		if err != nil {
			return err
		}
		switch {
		case run != nil:
			w.rep.run(run)
		case w.skipped(at):
		case w.toPlan(at), w.a.young(at, w.rev.Schedule.Jitter):
			w.rep.Pending++
		default:
			w.missing(at)
			if w.a.missed != nil {
				w.a.missed(w, sch, at)
			}
		}
	}
	return nil
}

// toPlan reports whether the instant is still in the plan.
func (w *walk) toPlan(at core.Instant) bool {
	return w.now != nil && w.now.State == core.Started && w.now.Next != 0 && at >= w.now.Next
}

func (w *walk) missing(at core.Instant) {
	w.rep.Unaccounted++
	if len(w.rep.Missing) < maxMissing {
		w.rep.Missing = append(w.rep.Missing, at)
	}
}

func (w *walk) skipped(at core.Instant) bool {
	for i := range w.skips {
		if w.skips[i].Covers(at) {
			w.rep.skip(w.skips[i].Reason, 1)
			return true
		}
	}
	return false
}

// auditDelay judges a fixed delay, whose instants follow from the ends of its
// runs: each chain that closed demands the next.
func (m *Manage) auditDelay(ctx context.Context, w *walk) error {
	delay, _ := w.rev.Schedule.FixedDelay()
	sch, err := schedule.Compile(w.rev.Schedule, w.rep.Job)
	if err != nil {
		return core.Errorf(core.CodeInternal, "the schedule of revision %d of job %d: %v", w.rev.Rev, w.rep.Job, err)
	}
	for i := range w.skips {
		if s := &w.skips[i]; s.First > w.rev.at && s.First <= w.rev.end {
			w.rep.Demanded += s.Count
			w.rep.skip(s.Reason, s.Count)
		}
	}
	covered := func(at core.Instant) bool {
		return slices.ContainsFunc(w.skips, func(s core.Skip) bool { return s.Covers(at) })
	}
	expected := core.Instant(0) // of the run before; 0 unknown
	last := core.Instant(0)
	for {
		run, err := w.runs.upTo(ctx, w.rev.at, w.rev.end)
		if err != nil {
			return err
		}
		if run == nil {
			break
		}
		if w.rep.Demanded >= maxDemanded {
			w.rep.Next, w.rep.To = run.At-1, run.At-1
			return nil
		}
		if expected != 0 && run.At > expected && !covered(expected) && !w.a.paused(w.app, expected) {
			w.rep.Demanded++
			w.missing(expected)
		}
		w.rep.Demanded++
		w.rep.run(run)
		last = run.At
		if expected, err = m.after(ctx, run, sch, delay); err != nil {
			return err
		}
	}
	s := w.now
	if s == nil || s.State != core.Started {
		return nil
	}
	next := s.Next
	if at, ok := s.Tail.Planned(); s.Tail != 0 && ok {
		next = at // its fire is out
	}
	switch {
	case next > last && next > w.rev.at && next <= w.rev.end:
		if covered(next) || w.a.paused(w.app, next) {
			return nil
		}
		w.rep.Demanded++
		w.rep.Pending++
	case next > last, expected == 0, expected > w.rev.end, covered(expected), w.a.paused(w.app, expected):
	case s.Tail != 0 || w.a.young(expected, 0):
		w.rep.Demanded++
		w.rep.Pending++ // its chain has ended, and the tick moves it on
	default:
		w.rep.Demanded++
		w.missing(expected)
	}
	return nil
}

// after is the instant that the end of a chain demands; 0 while it is open or
// when its window is over.
func (m *Manage) after(ctx context.Context, run *core.Run, sch *schedule.Schedule, delay time.Duration) (core.Instant, error) {
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
		next, ok, err := m.run(ctx, r.Then)
		if err != nil || !ok {
			return 0, err
		}
		r = next
	}
	return 0, nil
}

// rising reads the planned runs of a job upwards.
type rising struct {
	m         *Manage
	job       core.JobID
	next, end core.Instant // what is not yet read
	buf       []core.Run
	done      bool
}

func (r *rising) peek(ctx context.Context) (*core.Run, error) {
	if len(r.buf) == 0 && !r.done {
		if r.next > r.end {
			r.done = true
			return nil, nil
		}
		first, last := core.RunRange(r.job, r.next, r.end)
		runs, err := r.m.store.RunSpan(ctx, first, last, batch)
		if err != nil {
			return nil, passing(err)
		}
		if len(runs) == 0 {
			r.done = true
			return nil, nil
		}
		at, _ := runs[len(runs)-1].ID.Planned()
		r.buf, r.next = runs, at+1
	}
	if len(r.buf) == 0 {
		return nil, nil
	}
	return &r.buf[0], nil
}

// at is the run of an instant; instants are asked for in their order.
func (r *rising) at(ctx context.Context, at core.Instant) (*core.Run, error) {
	for {
		run, err := r.peek(ctx)
		if err != nil || run == nil {
			return nil, err
		}
		switch c := cmp.Compare(run.At, at); {
		case c < 0:
			r.buf = r.buf[1:]
		case c == 0:
			return run, nil
		default:
			return nil, nil
		}
	}
}

// upTo is the next run with after < At <= end.
func (r *rising) upTo(ctx context.Context, after, end core.Instant) (*core.Run, error) {
	for {
		run, err := r.peek(ctx)
		if err != nil || run == nil || run.At > end {
			return nil, err
		}
		r.buf = r.buf[1:]
		if run.At > after {
			return run, nil
		}
	}
}
