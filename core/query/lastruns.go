package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/store"
)

const (
	// latelyFor is how long cached last runs count as current.
	latelyFor = time.Second
	// latelyOf is how many runs of a job are cached, see kept, and read at first, see lastRuns.
	latelyOf   = 4
	latelyStep = 16
	latelyFar  = 1024
	// mostLately bounds the jobs with cached runs, mostNew the new runs that one update reads. If more are new, the
	// cache is cleared.
	mostLately = 100_000
	mostNew    = 20_000
	// latelyAgain is how far before the last update runs are read again if the store does not count rows. This is
	// needed because a run gets its time a little before it is stored.
	latelyAgain = 10 * time.Second
	// fillFor is how long one query reads jobs that are not cached, fillOf how many at a time. The first page of ten
	// thousand jobs comes before all are known.
	fillFor = 50 * time.Millisecond
	fillOf  = 250
	// runsAtOnce bounds the runs that one read of the last runs of several jobs returns.
	runsAtOnce = 20_000
)

// lately is the process's cache of the last runs of all jobs, shared by concurrent queries. It is filled once and
// then updated with new runs. Its data is at most latelyFor old, and only lists and pages for users use it.
type lately struct {
	turn chan struct{}  // lock that waiters can abandon when their context ends
	at   time.Time      // time of the last update
	mark int64          // milliseconds up to which runs are in the cache
	last store.RunPlace // position after the newest run, if the store counts rows
	of   map[core.JobID][]brief
}

// brief has the fields of a run that determine its job's status.
type brief struct {
	id    core.RunID
	slot  core.Instant
	state core.State
	sent  time.Time // zero: not sent
	ended time.Time
	ends  bool // see endsChain
	bad   bool // it failed and no attempt follows
	said  bool // its lateness is meaningful
}

// endsChain reports whether a run is the last attempt of a retry chain, so that its result is the result of the job. A
// skipped first attempt and a shard of a broadcast are none.
func endsChain(r *core.Run) bool {
	return !r.State.Open() && r.Then == 0 && r.Shard.Of == 0 && (r.State != core.Skipped || r.Attempt > 1)
}

func briefOf(r *core.Run) brief {
	b := brief{id: r.ID, slot: r.Slot, state: r.State, ended: r.EndedAt, ends: endsChain(r), bad: r.FailedForGood(),
		said: r.HasLateness()}
	if r.Sent() {
		b.sent = r.SentAt
	}
	return b
}

func briefs(runs []core.Run) []brief {
	list := make([]brief, len(runs))
	for i := range runs {
		list[i] = briefOf(&runs[i])
	}
	return list
}

// over reports whether the run ended other than by a skip.
func (b brief) over() bool { return !b.state.Open() && b.state != core.Skipped }

// kept returns the runs of a job to cache, from a list with the newest first. From the due runs it keeps the newest,
// the newest that are over, and the oldest open ones. It also keeps the next runs with a later due time; latelyOf of
// each.
func kept(list []brief, now core.Instant) []brief {
	waits, open := 0, 0 // numbers of remaining, older runs
	for _, b := range list {
		if b.slot > now {
			waits++
		} else if b.state.Open() {
			open++
		}
	}
	due, over := 0, 0
	return slices.DeleteFunc(list, func(b brief) bool {
		if b.slot > now {
			waits--
			return waits >= latelyOf
		}
		due++
		more := true
		switch {
		case b.state.Open():
			open--
			more = open >= latelyOf
		case b.over():
			over++
			more = over > latelyOf
		}
		return more && due > latelyOf
	})
}

// standing has the status of jobs by their last runs.
type standing struct {
	of  map[core.JobID][]brief
	all bool // true if all requested jobs are known
	now time.Time
	// unchecked is how many more jobs may be failing, see budget.FailingRead.
	unchecked int
}

// look returns the cached last runs of jobs, as far as they can be read in a short time. For many new jobs this takes
// several calls.
func (l *lately) look(ctx context.Context, q *Queries, jobs []core.JobID) (*standing, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, core.Retryable(fmt.Errorf("wait for another's look at the last runs: %w", ctx.Err()))
	}
	now := q.o.Now()
	if l.of == nil || now.Sub(l.at).Abs() >= latelyFor {
		if err := l.catchUp(ctx, q, now); err != nil {
			return nil, core.Retryable(err)
		}
	}
	s := &standing{of: make(map[core.JobID][]brief, len(jobs)), all: true, now: now}
	var missing []core.JobID
	for _, job := range jobs {
		if list, known := l.of[job]; known {
			s.of[job] = list
		} else {
			missing = append(missing, job)
		}
	}
	if len(l.of)+len(missing) > mostLately { // drop deleted jobs and jobs of other queries in favor of this query
		maps.DeleteFunc(l.of, func(job core.JobID, _ []brief) bool { _, asked := s.of[job]; return !asked })
	}
	until := time.Now().Add(fillFor)
	for part := range slices.Chunk(missing, fillOf) { // the first part is read, so that each call makes progress
		if time.Now().After(until) || len(l.of) >= mostLately {
			s.all = false
			break
		}
		if err := q.lastRuns(ctx, part, now, func(job core.JobID, runs []core.Run) (enough bool) {
			list := briefs(runs)
			enough = slices.ContainsFunc(list, brief.over) // behind a hanging run, skipped runs accumulate
			list = kept(list, core.InstantOf(now))
			l.of[job], s.of[job] = list, list
			return enough
		}); err != nil {
			for _, job := range part {
				delete(l.of, job)
			}
			return nil, err
		}
	}
	return s, nil
}

// lastRuns calls take with the last runs of each job, newest first. If they are not enough, it reads more runs of the job,
// latelyStep times as many each time, up to latelyFar.
func (q *Queries) lastRuns(ctx context.Context, jobs []core.JobID, now time.Time,
	take func(job core.JobID, runs []core.Run) (enough bool)) error {
	for n := latelyOf; len(jobs) > 0 && n <= latelyFar; n *= latelyStep {
		var more []core.JobID
		for part := range slices.Chunk(jobs, max(1, runsAtOnce/n)) {
			found, err := q.store.Runs.Last(ctx, part, core.InstantOf(now), n)
			if err != nil {
				return core.Retryable(err)
			}
			for _, job := range part {
				if runs := found[job]; !take(job, runs) && len(runs) == n {
					more = append(more, job)
				}
			}
		}
		jobs = more
	}
	return nil
}

// catchUp reads the runs since the last update, and the current state of open runs.
func (l *lately) catchUp(ctx context.Context, q *Queries, now time.Time) error {
	if l.of == nil {
		l.of = map[core.JobID][]brief{}
	}
	mark := core.Millis(now)
	last := l.last
	if last.Before == 0 || !q.store.ByJournal {
		var err error
		if _, last, err = q.store.Runs.Recent(ctx, store.Recent{}, store.RunPlace{}, 1); err != nil {
			return err
		}
	}
	// If the clock was set back by more than latelyAgain, newer runs can be anywhere in the list: the cache is filled again.
	if back := now.Sub(l.at).Milliseconds() - (mark - l.mark); max(back, l.mark-mark) > latelyAgain.Milliseconds() {
		clear(l.of)
	}
	if len(l.of) > 0 {
		again := l.mark - latelyAgain.Milliseconds()
		// Rows are numbered on if the clock was set back a little since the last row, so the newer rows follow it.
		if !q.store.ByJournal && l.last.Row != 0 && l.last.Before < l.mark+latelyAgain.Milliseconds() {
			again = l.last.Before
		}
		seen := 0
		for from := (store.RunPlace{}); ; {
			runs, next, err := q.store.Runs.Recent(ctx, store.Recent{}, from, budget.AtOnce)
			if err != nil {
				return err
			}
			for i := range runs {
				l.note(&runs[i])
			}
			if seen += max(len(runs), 1); next == (store.RunPlace{}) || next.Before < again ||
				next.Before == again && next.Row <= l.last.Row { // after a clock was set back, many rows have one time
				break
			}
			if from = next; seen >= mostNew {
				clear(l.of)
				break
			}
		}
		var open []core.RunID
		for _, list := range l.of {
			for _, b := range list {
				if b.state.Open() || b.bad && now.Sub(b.ended) < time.Minute { // its retry may not be known
					open = append(open, b.id)
				}
			}
		}
		for part := range slices.Chunk(open, budget.AtOnce) {
			found, err := q.store.Runs.Get(ctx, part)
			if err != nil {
				return err
			}
			for _, g := range found {
				switch {
				case g.Err == nil:
					l.note(g.Is)
				case !errors.Is(g.Err, core.ErrThrottled):
					return g.Err
				}
			}
		}
	}
	l.at, l.mark, l.last = now, mark, last
	return nil
}

// note updates the cache with the current state of a run.
func (l *lately) note(r *core.Run) {
	job := r.ID.Job()
	list, known := l.of[job]
	if !known {
		return
	}
	b := briefOf(r)
	list = slices.Clone(list) // other queries may read it
	if i := slices.IndexFunc(list, func(x brief) bool { return x.id == b.id }); i >= 0 {
		list[i] = b
	} else {
		list = append(list, b)
	}
	slices.SortFunc(list, func(x, y brief) int { return cmp.Or(cmp.Compare(y.slot, x.slot), cmp.Compare(y.id, x.id)) })
	l.of[job] = kept(list, core.InstantOf(l.at)+1)
}

// due returns the due runs of a job, newest first; false: unknown.
func (s *standing) due(job core.JobID) ([]brief, bool) {
	list, known := s.of[job]
	now := core.InstantOf(s.now)
	for len(list) > 0 && list[0].slot > now {
		list = list[1:]
	}
	return list, known
}

// last returns the newest due run of a job; nil: none, or unknown.
func (s *standing) last(job core.JobID) *brief {
	if list, _ := s.due(job); len(list) > 0 {
		return &list[0]
	}
	return nil
}

// failing returns the run with which a job's last ended chain failed; nil: it did not fail.
func (s *standing) failing(job core.JobID) *brief {
	if b := s.decided(job); b != nil && b.bad {
		return b
	}
	return nil
}

// decided returns the run that ended a job's last ended chain; nil: none is known.
func (s *standing) decided(job core.JobID) *brief {
	list, _ := s.due(job)
	for i := range list {
		if list[i].ends {
			return &list[i]
		}
	}
	return nil
}

// settledFor is the shortest time that a job stays on the list of jobs that may be failing. A process does not list a job again
// within half of that time.
const settledFor = 10 * time.Minute

// mayFail reads the last runs only of jobs that the store lists as possibly failing, and of at most budget.FailingRead of them.
func (q *Queries) mayFail(ctx context.Context, jobs []core.JobID) (*standing, error) {
	failed, err := q.store.Failed.List(ctx)
	if err != nil {
		return nil, core.Retryable(err)
	}
	listed := slices.DeleteFunc(slices.Clone(jobs), func(job core.JobID) bool { return failed[job].IsZero() })
	slices.SortFunc(listed, func(a, b core.JobID) int { return cmp.Or(failed[b].Compare(failed[a]), cmp.Compare(a, b)) })
	unchecked := max(0, len(listed)-budget.FailingRead)
	listed = listed[:len(listed)-unchecked]
	s := &standing{of: make(map[core.JobID][]brief, len(listed)), all: true, now: q.o.Now(), unchecked: unchecked}
	recovered := map[core.JobID]time.Time{}
	err = q.lastRuns(ctx, listed, s.now, func(job core.JobID, runs []core.Run) bool { // many can be skipped behind a hanging one
		s.of[job] = kept(briefs(runs), core.InstantOf(s.now))
		b := s.decided(job)
		if b != nil && !b.bad && s.now.Sub(failed[job]) > settledFor {
			recovered[job] = failed[job]
		}
		return b != nil
	})
	if err != nil {
		return nil, err
	}
	_ = q.store.Failed.Forget(ctx, recovered) // on an error, the next page repeats it
	return s, nil
}

// overdue returns the scheduled time of a job that is due, past its grace and not planned; 0: none.
func (s *standing) overdue(j *core.Job) core.Instant {
	if j.Sched.State == core.Started && j.Sched.Tail == 0 && s.past(j, j.Sched.Next) {
		return j.Sched.Next
	}
	return 0
}

// past reports whether a due time is longer ago than the grace of a job.
func (s *standing) past(j *core.Job, slot core.Instant) bool {
	return slot != 0 && s.now.Sub(slot.Time()) > j.Sched.Grace
}

// late reports whether a job that is not paused is late, allowing its grace. Its due time is not planned, or its
// newest run is due and not sent, or was sent late.
func (s *standing) late(j *core.Job) bool {
	b := s.last(j.Def.ID)
	switch {
	case s.overdue(j) != 0:
		return true
	case b == nil:
		return false
	case b.state.Open() && b.sent.IsZero():
		return s.past(j, b.slot)
	}
	return b.said && b.sent.Sub(b.slot.Time()) > j.Sched.Grace
}

// neverRan reports whether a job has no run at all; false if unknown.
func (s *standing) neverRan(job core.JobID) bool {
	list, known := s.due(job)
	return known && len(list) == 0
}
