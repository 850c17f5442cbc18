package finish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// WatchOptions of a Watchdog. The zero value of a field means its default.
type WatchOptions struct {
	// Behind is how long after its minute a journal is read first; then after
	// twice that, and so on, at most BehindMax apart.
	Behind, BehindMax time.Duration // 10 min, 240 min
	Expiry            time.Duration // of a heartbeat: 90 s
	IdleGap           time.Duration // between two looks at an executor that seems idle: 1 min
	TimeoutGrace      time.Duration // after a job's timeout: 5 s
	FunctionGrace     time.Duration // after a function's own timeout: 1 min
	LostAfter         time.Duration // of a job that is gone: 10 min
	MinutesAPass      int           // 120
}

// Watchdog looks at open runs later: it closes what is lost, judges what was
// left, and makes what is owed.
type Watchdog struct {
	f     *Finish
	w     Watch
	probe Prober
	o     WatchOptions
}

// NewWatchdog makes a Watchdog.
func NewWatchdog(f *Finish, w Watch, p Prober, o WatchOptions) *Watchdog {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&o.Behind, 10*time.Minute)
	set(&o.BehindMax, 24*o.Behind)
	set(&o.Expiry, core.BeatExpiry)
	set(&o.IdleGap, time.Minute)
	set(&o.TimeoutGrace, 5*time.Second)
	set(&o.FunctionGrace, time.Minute)
	set(&o.LostAfter, 10*time.Minute)
	if o.MinutesAPass == 0 {
		o.MinutesAPass = 120
	}
	return &Watchdog{f: f, w: w, probe: p, o: o}
}

// Pass walks the minutes of claims since the last pass, none left out, and
// reads their journals and those that asked to be read again now. It answers
// how many runs it looked at.
func (w *Watchdog) Pass(ctx context.Context) (looked int, err error) {
	end := w.f.o.Now().Add(-w.o.Behind).Unix()/60 - 1 // the last minute that is over for Behind
	at, err := w.w.Cursor(ctx)
	if err != nil {
		return 0, fmt.Errorf("read cursor of the watchdog: %w", err)
	}
	if at == 0 {
		// A new store: nothing was claimed before its first minutes.
		if err := w.w.MoveCursor(ctx, 0, end-1); err != nil {
			return 0, nil // another was first
		}
		at = end - 1
	}
	if ahead := time.Duration(at-end) * time.Minute; ahead > w.o.Behind/2 {
		// The clock was set back: what is claimed from now on lies behind the
		// cursor. Minutes walked again show nothing that is not judged anew.
		if err := w.w.MoveCursor(ctx, at, end); err != nil {
			if errors.Is(err, core.ErrRefused) {
				return 0, nil
			}
			return 0, fmt.Errorf("move cursor of the watchdog back: %w", err)
		}
		return 0, nil
	}
	for n := 0; at < end && n < w.o.MinutesAPass; n++ {
		minute := at + 1
		journals, err := w.w.JournalsAt(ctx, minute)
		if err != nil {
			return looked, fmt.Errorf("read journals: %w", err)
		}
		keys, err := w.w.Revisits(ctx, minute)
		if err != nil {
			return looked, fmt.Errorf("read journals to be read again: %w", err)
		}
		if len(keys) > 0 {
			again, err := w.w.Journals(ctx, keys)
			if err != nil {
				return looked, fmt.Errorf("read journals: %w", err)
			}
			for _, j := range again {
				journals = append(journals, j)
			}
		}
		revisit := map[int64][]core.JournalKey{}
		for _, j := range journals {
			open, err := w.journal(ctx, &j)
			looked += len(j.Entries)
			if err != nil {
				return looked, err
			}
			if open {
				m := w.next(j.Key.Minute, minute)
				revisit[m] = append(revisit[m], j.Key)
			}
		}
		for m, keys := range revisit {
			if err := w.w.PutRevisits(ctx, m, keys); err != nil {
				return looked, fmt.Errorf("ask for journals to be read again: %w", err)
			}
		}
		if err := w.w.MoveCursor(ctx, at, minute); err != nil {
			if errors.Is(err, core.ErrRefused) {
				return looked, nil // another watchdog walks too
			}
			return looked, fmt.Errorf("move cursor of the watchdog: %w", err)
		}
		if len(keys) > 0 {
			if err := w.w.DropRevisits(ctx, minute); err != nil {
				return looked, fmt.Errorf("forget journals read again: %w", err)
			}
		}
		at = minute
	}
	return looked, nil
}

// next is the cursor's minute at which a journal of a minute is read again:
// cursor minutes lag by Behind, so the journal's age there is the difference
// and Behind.
func (w *Watchdog) next(claimed, cursor int64) int64 {
	behind := max(int64(w.o.Behind/time.Minute), 1)
	age := cursor - claimed + behind
	return cursor + max(min(age, int64(w.o.BehindMax/time.Minute)), 1)
}

// journal looks at the runs of one journal; open tells that some are to be
// looked at again.
func (w *Watchdog) journal(ctx context.Context, j *core.Journal) (open bool, err error) {
	ids := make([]core.RunID, len(j.Entries))
	for i, e := range j.Entries {
		ids[i] = e.Run
	}
	for chunk := range slices.Chunk(ids, 500) {
		more, err := w.look(ctx, chunk, j, false)
		if err != nil {
			return false, err
		}
		open = open || more
	}
	return open, nil
}

// Check looks at the runs of a check message. A journal that it carries is
// stored first. An error means that the message is to come again.
func (w *Watchdog) Check(ctx context.Context, c *ring.Check) error {
	if c.Journal != nil {
		if err := w.w.PutJournal(ctx, *c.Journal); err != nil && !errors.Is(err, core.ErrRefused) {
			return fmt.Errorf("store journal of a check: %w", err)
		}
		// Stored: the walk over the minutes finds it, unless it is behind that
		// minute already; so look now as well.
		open, err := w.journal(ctx, c.Journal)
		if err != nil || !open {
			return err
		}
		return w.revisit(ctx, c.Journal.Key)
	}
	_, err := w.look(ctx, c.Runs, nil, c.Idle)
	return err
}

// revisit asks for a journal at a minute that the walk has not come to: one that
// catches up may pass several while this is being stored.
func (w *Watchdog) revisit(ctx context.Context, k core.JournalKey) error {
	for ahead := int64(2); ; ahead *= 2 {
		at, err := w.w.Cursor(ctx)
		if err != nil {
			return fmt.Errorf("read cursor of the watchdog: %w", err)
		}
		minute := max(at, k.Minute) + ahead
		if err := w.w.PutRevisits(ctx, minute, []core.JournalKey{k}); err != nil {
			return fmt.Errorf("ask for a journal to be read again: %w", err)
		}
		switch at, err = w.w.Cursor(ctx); {
		case err != nil:
			return fmt.Errorf("read cursor of the watchdog: %w", err)
		case at < minute-1: // at minute-1 its reader may have begun
			return nil
		}
	}
}

// look judges runs as claim protocol section 6 says. With a journal its
// entries say what is known of them, otherwise the journal that each run names.
func (w *Watchdog) look(ctx context.Context, ids []core.RunID, j *core.Journal, idleBefore bool) (open bool, err error) {
	runs, unread, err := w.f.store.Runs(ctx, ids)
	if err != nil {
		return false, fmt.Errorf("read runs: %w", err)
	}
	open = len(unread) > 0
	known := map[core.RunID]core.Outcome{}
	if j != nil {
		for _, e := range j.Entries {
			known[e.Run] = e.Outcome
		}
	}
	var named []core.JournalKey
	var jobIDs []core.JobID
	for _, r := range runs {
		if r.State.Open() {
			jobIDs = append(jobIDs, r.ID.Job())
			if !r.Journal.IsZero() && (j == nil || r.Journal != j.Key) {
				named = append(named, r.Journal)
			}
		}
	}
	if len(jobIDs) == 0 && !slices.ContainsFunc(ids, func(id core.RunID) bool { r := runs[id]; return len(r.Owes) > 0 }) {
		return open, nil
	}
	slices.Sort(jobIDs)
	jobIDs = slices.Compact(jobIDs)
	var journals map[core.JournalKey]core.Journal
	if len(named) > 0 {
		if journals, err = w.w.Journals(ctx, named); err != nil {
			return false, fmt.Errorf("read journals: %w", err)
		}
	}
	env, err := w.environment(ctx, jobIDs, runs)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		r, ok := runs[id]
		switch {
		case !ok:
			continue // or unread: counted above
		case !r.State.Open():
			if len(r.Owes) > 0 {
				if err := w.f.Mend(ctx, &r); err != nil {
					open = true
				}
			}
			continue
		}
		outcome := known[id]
		if other, ok := journals[r.Journal]; ok {
			if e, ok := other.Find(id); ok && (e.Outcome == core.Accepted || e.Outcome == core.Unconfirmed || outcome == 0) {
				outcome = e.Outcome
			}
		}
		more, err := w.openRun(ctx, &r, outcome, j, env, idleBefore)
		if err != nil {
			w.f.o.Log.Warn("run could not be judged", "run", id, "job", id.Job(), "err", err)
			more = true
		}
		open = open || more
	}
	return open, nil
}

// environment is what judging needs besides the runs.
type environment struct {
	jobs   map[core.JobID]core.Job
	apps   map[string]core.App
	live   map[string][]core.Executor
	global core.Global
	oldest time.Time
	now    time.Time
}

func (w *Watchdog) environment(ctx context.Context, jobIDs []core.JobID, runs map[core.RunID]core.Run) (*environment, error) {
	e := &environment{now: w.f.o.Now(), live: map[string][]core.Executor{}}
	var err error
	if e.jobs, _, err = w.f.store.Jobs(ctx, jobIDs); err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	var names []string
	for _, r := range runs {
		if r.State.Open() && !slices.Contains(names, r.App) {
			names = append(names, r.App)
		}
	}
	if e.apps, _, err = w.w.Apps(ctx, names); err != nil {
		return nil, fmt.Errorf("read apps: %w", err)
	}
	executors, err := w.w.Executors(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("read executors: %w", err)
	}
	g, err := w.f.store.Global(ctx)
	if err != nil {
		return nil, fmt.Errorf("read global item: %w", err)
	}
	e.global = g
	for _, name := range names {
		app := e.apps[name]
		e.live[name] = app.Candidates(executors[name], g, e.now, w.o.Expiry)
	}
	if e.oldest, err = w.w.OldestMessage(ctx); err != nil {
		return nil, fmt.Errorf("read age of the oldest message: %w", err)
	}
	return e, nil
}

// openRun judges one open run; more tells that it is to be looked at again.
func (w *Watchdog) openRun(ctx context.Context, r *core.Run, outcome core.Outcome, j *core.Journal, e *environment, idleBefore bool) (more bool, err error) {
	job, known := e.jobs[r.ID.Job()]
	switch outcome {
	case core.Begun, 0:
		// An unacked message still has it, unless this is the second look at what
		// another's journal left, and no message is as old as the claim.
		if !idleBefore || r.Owner != "" && !r.Expired(e.now) || !e.oldest.IsZero() && !e.oldest.After(r.SentAt) {
			return true, nil
		}
	case core.Left:
		// A message of the new revision may be on its way to take the run.
		claimed := e.now
		if j != nil {
			claimed = time.Unix(j.Key.Minute*60+60, 0)
		}
		if !e.oldest.IsZero() && !e.oldest.After(claimed) {
			return true, nil
		}
		if known && job.Sched.Next != 0 && job.Sched.Next <= r.At && job.Sched.State == core.Started {
			return true, nil
		}
		if r.Owner == "" && !r.MaybeSent {
			reason := core.ReasonChanged
			switch {
			case !known:
				reason = core.ReasonDeleted
			case job.Sched.State == core.Paused:
				reason = core.ReasonPaused
			}
			return false, w.close(ctx, r, Result{Run: r.ID, State: core.Skipped, Reason: reason, Unowned: true})
		}
		if r.Owner != "" && !r.Expired(e.now) {
			return true, nil
		}
	}
	return w.lost(ctx, r, &job, known, e, idleBefore)
}

// lost applies the rules of DESIGN 11: time since the send alone closes no run
// of an executor that can be asked.
func (w *Watchdog) lost(ctx context.Context, r *core.Run, job *core.Job, known bool, e *environment, idleBefore bool) (more bool, err error) {
	after := w.o.LostAfter
	if known && job.Def.LostAfter > 0 {
		after = job.Def.LostAfter
	}
	age := e.now.Sub(r.SentAt)
	timedOut := known && job.Def.Timeout > 0 && age >= job.Def.Timeout+w.o.TimeoutGrace
	if !idleBefore && age < after && !timedOut {
		return true, nil
	}
	if strings.HasPrefix(r.Address, "call:") {
		// After a 202 nobody can be asked: at the job's timeout, else at lostAfter.
		if known && job.Def.Timeout > 0 && !timedOut {
			return true, nil
		}
		return false, w.close(ctx, r, Result{Run: r.ID, State: core.Lost, Reason: core.ReasonNoReport, Message: "nothing was reported after the call was accepted"})
	}
	if strings.HasPrefix(r.Address, "lambda:") {
		// Nobody can be asked, and nothing can end it but its own timeout.
		limit, err := w.probe.Limit(ctx, r.Address)
		if err != nil {
			return true, err
		}
		if age < limit+w.o.FunctionGrace {
			return true, nil
		}
		res := Result{Run: r.ID, State: core.Lost, Reason: core.ReasonNoReport, Message: "nothing was reported, and the function's own timeout of " + limit.String() + " is over"}
		if timedOut {
			res.State, res.Reason = core.TimedOut, core.ReasonTimeout
		}
		return false, w.close(ctx, r, res)
	}
	app := e.apps[r.App]
	app.Name = r.App
	fixed := slices.Contains(app.Executors, r.Address) || slices.Contains(r.Addresses, r.Address)
	live := slices.ContainsFunc(e.live[r.App], func(x core.Executor) bool { return x.Address == r.Address })
	switch {
	case strings.HasPrefix(r.Address, "queue:"):
		// Waiting for an executor to poll is merely long, where one does.
		if err := w.polled(ctx, e, &app, r.Address); err != nil {
			if age < after {
				return true, nil
			}
			return false, w.close(ctx, r, Result{Run: r.ID, State: core.Lost, Reason: core.ReasonGone, Message: err.Error()})
		}
	case fixed:
		if err := w.probe.Beat(ctx, &app, r.Address); err != nil {
			if age < after {
				return true, nil
			}
			return false, w.close(ctx, r, Result{Run: r.ID, State: core.Lost, Reason: core.ReasonGone, Message: "the executor does not answer"})
		}
	case !live:
		if age < after {
			return true, nil
		}
		return false, w.close(ctx, r, Result{Run: r.ID, State: core.Lost, Reason: core.ReasonGone, Message: "the executor is no longer registered"})
	}
	idle, err := w.probe.Idle(ctx, &app, r.Address, r.ID.Job())
	if err != nil || !idle {
		return true, nil // busy is merely long
	}
	if idleBefore {
		state, reason := core.Lost, core.ReasonForgotten
		if timedOut {
			state, reason = core.TimedOut, core.ReasonTimeout
		}
		message := "the executor runs nothing of this job and never reported"
		if strings.HasPrefix(r.Address, "queue:") {
			message = "the queue holds nothing of this run, and nobody reported: it was deleted, or is among the dead letters"
		}
		return false, w.close(ctx, r, Result{Run: r.ID, State: state, Reason: reason, Message: message})
	}
	at := e.now.Add(w.o.IdleGap)
	out := ring.Out{NotBefore: at, Message: ring.Message{Kind: ring.KindCheck, Slot: core.Ceil(at), Check: &ring.Check{Runs: []core.RunID{r.ID}, Idle: true}}}
	if err := w.f.ring.Enqueue(ctx, []ring.Out{out})[0]; err != nil {
		return true, fmt.Errorf("send check: %w", err)
	}
	return true, nil
}

// polled says that nobody polls a queue any more; nil where somebody does, or
// may.
func (w *Watchdog) polled(ctx context.Context, e *environment, app *core.App, address string) error {
	for _, x := range e.live[app.Name] {
		if x.Address != address || x.Beat.IsZero() {
			continue
		}
		if x.Silent(e.global, e.now, w.o.Expiry) {
			return errors.New("nobody polls " + address + " any more")
		}
		return nil
	}
	return w.probe.Beat(ctx, app, address)
}

func (w *Watchdog) close(ctx context.Context, r *core.Run, res Result) error {
	err := w.f.End(ctx, []Result{res})[0]
	if errors.Is(err, core.ErrRefused) {
		return nil // taken meanwhile: looked at again with its new journal
	}
	return err
}
