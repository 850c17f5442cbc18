package ask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
)

const (
	// latelyFor is for how long what is known of last runs counts as now.
	latelyFor = time.Second
	// latelyOf is how many runs of a job are known, see kept; where the newest are all skipped or
	// under way it is read further back, latelyStep times as far each time, to no more than latelyFar.
	latelyOf   = 4
	latelyStep = 16
	latelyFar  = 1024
	// mostLately bounds the jobs of which last runs are known, mostNew how many runs are
	// looked at that came since; where more came, all is read anew.
	mostLately = 100_000
	mostNew    = 20_000
	// latelyAgain is how far back before the last look it looks again where a store does not
	// count its rows: who makes a run has its moment a little before it is stored.
	latelyAgain = 10 * time.Second
	// fillFor is how long one look reads jobs of which nothing is known yet, fillOf how many
	// at a time: the first page of ten thousand jobs comes before all of them are known.
	fillFor = 50 * time.Millisecond
	fillOf  = 500
)

// lately is what the process knows of the last runs of all jobs, shared by all who ask at a
// time: it is read once, and after that only what came since. What it says is at most
// latelyFor old. It decides nothing: it is for lists and pages that people look at.
type lately struct {
	turn chan struct{} // holds one: who looks; the others wait for him, no longer than they may
	at   time.Time     // of the last look
	mark int64         // the millisecond up to which runs are in
	last RunPlace      // behind the newest run that was there, where the store counts
	of   map[core.JobID][]brief
	// further are those of them whose newest came to no end of their own, by how many are to be read
	// next: a run that hangs has more and more behind it that were skipped for it.
	further map[core.JobID]int
}

// brief is what of a run tells how its job stands.
type brief struct {
	id    core.RunID
	slot  core.Instant
	state core.State
	sent  time.Time // zero: not yet
	ended time.Time
	bad   bool // it failed for good
	tried bool // a retry follows
	said  bool // its lateness says anything
	shard bool // it is part of another
	try   int
}

func briefOf(r *core.Run) brief {
	b := brief{id: r.ID, slot: r.Slot, state: r.State, ended: r.EndedAt, bad: r.FailedForGood(), tried: r.Then != 0,
		said: r.HasLateness(), shard: r.Shard.Of != 0, try: r.Attempt}
	if r.Sent() {
		b.sent = r.SentAt
	}
	return b
}

// over reports whether it came to an end of its own.
func (b brief) over() bool { return !b.state.Open() && b.state != core.Skipped }

// kept is what is known of a job of its runs, of a list with the newest first: of those that are
// due the newest and the newest that are over, of those under way the oldest, and beside them the
// next of those that wait for a later slot; latelyOf of each.
func kept(list []brief, now core.Instant) []brief {
	waits, open := 0, 0 // that are older than the one at hand
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

// standing is how jobs stand by their last runs.
type standing struct {
	of   map[core.JobID][]brief
	all  bool // of every job that was asked for
	now  time.Time
	rest map[core.JobID]bool // those of which nothing is known
	// unchecked is how many more jobs may be failing, see bound.FailingRead.
	unchecked int
}

// look answers what is known of the last runs of jobs, as far as it comes within a while; the
// first look at many takes some.
func (l *lately) look(ctx context.Context, q *Ask, jobs []core.JobID) (*standing, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, core.Passing(fmt.Errorf("wait for another's look at the last runs: %w", ctx.Err()))
	}
	now := q.o.Now()
	if l.of == nil || now.Sub(l.at).Abs() >= latelyFor {
		if err := l.catchUp(ctx, q, now); err != nil {
			return nil, core.Passing(err)
		}
	}
	s := &standing{of: make(map[core.JobID][]brief, len(jobs)), all: true, now: now, rest: map[core.JobID]bool{}}
	var missing []core.JobID
	for _, job := range jobs {
		if list, known := l.of[job]; known {
			s.of[job] = list
		} else {
			missing = append(missing, job)
		}
	}
	if len(l.of)+len(missing) > mostLately { // of jobs that are gone, or that others asked for: who asks now comes first
		maps.DeleteFunc(l.of, func(job core.JobID, _ []brief) bool { _, asked := s.of[job]; return !asked })
		maps.DeleteFunc(l.further, func(job core.JobID, _ int) bool { _, asked := s.of[job]; return !asked })
	}
	until := time.Now().Add(fillFor)
	began := false // each look comes further, however slow it is
	for part := range bound.Chunks(missing, fillOf) {
		if began && time.Now().After(until) || len(l.of) >= mostLately {
			s.all = false
			for _, job := range part {
				s.rest[job] = true
			}
			continue
		}
		began = true
		if err := l.fill(ctx, q, part, latelyOf, s); err != nil {
			return nil, core.Passing(err)
		}
	}
	for n := latelyOf * latelyStep; n <= latelyFar; n *= latelyStep {
		var deep []core.JobID
		for _, job := range jobs {
			if l.further[job] == n {
				deep = append(deep, job)
			}
		}
		began = false
		for part := range bound.Chunks(deep, max(1, fillOf*latelyOf/n)) {
			if began && time.Now().After(until) {
				s.all = false // the next look goes on with them
				break
			}
			began = true
			if err := l.fill(ctx, q, part, n, s); err != nil {
				return nil, core.Passing(err)
			}
		}
	}
	return s, nil
}

// fill reads the last n runs of jobs, and notes of which it has to look further back.
func (l *lately) fill(ctx context.Context, q *Ask, jobs []core.JobID, n int, s *standing) error {
	upTo := core.InstantOf(s.now)
	found, err := q.store.LastRuns(ctx, jobs, upTo, n)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		list := make([]brief, len(found[job]))
		for i := range list {
			list[i] = briefOf(&found[job][i])
		}
		delete(l.further, job)
		if len(list) == n && n < latelyFar && !slices.ContainsFunc(list, brief.over) {
			l.further[job] = n * latelyStep
		}
		list = kept(list, upTo)
		l.of[job], s.of[job] = list, list
	}
	return nil
}

// catchUp reads what came since the last look, and what became of the runs that were open.
func (l *lately) catchUp(ctx context.Context, q *Ask, now time.Time) error {
	if l.of == nil {
		l.of, l.further = map[core.JobID][]brief{}, map[core.JobID]int{}
	}
	mark := core.Millis(now)
	last := l.last
	if last.Before == 0 || last.Row != 0 {
		var err error
		if _, last, err = q.store.RecentRuns(ctx, Recent{}, RunPlace{}, 1); err != nil {
			return err
		}
	}
	if len(l.of) > 0 {
		again := l.mark - latelyAgain.Milliseconds()
		if l.last.Row != 0 {
			again = l.last.Before
		}
		seen := 0
		for from := (RunPlace{}); ; {
			runs, next, err := q.store.RecentRuns(ctx, Recent{}, from, bound.AtOnce)
			if err != nil {
				return err
			}
			for i := range runs {
				l.note(&runs[i])
			}
			if seen += max(len(runs), 1); next == (RunPlace{}) || next.Before < again ||
				next.Before == again && next.Row <= l.last.Row { // all of a while have one moment where the clock was set back
				break
			}
			if from = next; seen >= mostNew {
				clear(l.of)
				clear(l.further)
				break
			}
		}
		var open []core.RunID
		for _, list := range l.of {
			for _, b := range list {
				if b.state.Open() || b.bad && now.Sub(b.ended) < time.Minute { // its retry may not be known yet
					open = append(open, b.id)
				}
			}
		}
		for part := range bound.Chunks(open, bound.AtOnce) {
			found, _, err := q.store.Runs(ctx, part)
			if err != nil {
				return err
			}
			for _, r := range found {
				l.note(&r)
			}
		}
	}
	l.at, l.mark, l.last = now, mark, last
	return nil
}

// note takes in a run as it is now.
func (l *lately) note(r *core.Run) {
	job := r.ID.Job()
	list, known := l.of[job]
	if !known {
		return
	}
	b := briefOf(r)
	list = slices.Clone(list) // others may look at it
	if i := slices.IndexFunc(list, func(x brief) bool { return x.id == b.id }); i >= 0 {
		list[i] = b
	} else {
		list = append(list, b)
	}
	slices.SortFunc(list, func(x, y brief) int { return cmp.Or(cmp.Compare(y.slot, x.slot), cmp.Compare(y.id, x.id)) })
	l.of[job] = kept(list, core.InstantOf(l.at)+1)
}

// due are the runs of a job that are due, the newest first; false: they are not known.
func (s *standing) due(job core.JobID) ([]brief, bool) {
	list, known := s.of[job]
	now := core.InstantOf(s.now)
	for len(list) > 0 && list[0].slot > now {
		list = list[1:]
	}
	return list, known
}

// last is the newest run of a job that is due; nil: it has none, or it is not known.
func (s *standing) last(job core.JobID) *brief {
	if list, _ := s.due(job); len(list) > 0 {
		return &list[0]
	}
	return nil
}

// failing is the run with which the last chain of a job that came to an end failed; nil: it did not.
func (s *standing) failing(job core.JobID) *brief {
	if b := s.decided(job); b != nil && b.bad {
		return b
	}
	return nil
}

// decided is the run with which the last chain of a job came to an end; nil: none that is known did.
func (s *standing) decided(job core.JobID) *brief {
	list, _ := s.due(job)
	for i := range list {
		if b := &list[i]; !b.state.Open() && !b.tried && !b.shard && (b.state != core.Skipped || b.try > 1) {
			return b
		}
	}
	return nil
}

// settledFor is the shortest time that a job stays on the list of jobs that may be failing. A process does not list a job again
// within half of that time.
const settledFor = 10 * time.Minute

// mayFail reads the last runs only of jobs that the store lists as possibly failing, and of at most bound.FailingRead of them.
func (q *Ask) mayFail(ctx context.Context, jobs []core.JobID) (*standing, error) {
	failed, err := q.o.Failed.FailedJobs(ctx)
	if err != nil {
		return nil, core.Passing(err)
	}
	listed := slices.DeleteFunc(slices.Clone(jobs), func(job core.JobID) bool { return failed[job].IsZero() })
	slices.SortFunc(listed, func(a, b core.JobID) int { return cmp.Or(failed[b].Compare(failed[a]), cmp.Compare(a, b)) })
	unchecked := max(0, len(listed)-bound.FailingRead)
	listed = listed[:len(listed)-unchecked]
	s := &standing{of: make(map[core.JobID][]brief, len(listed)), all: true, now: q.o.Now(), unchecked: unchecked}
	upTo := core.InstantOf(s.now)
	recovered := map[core.JobID]time.Time{}
	for n := latelyOf; len(listed) > 0 && n <= latelyFar; n *= latelyStep { // behind what hangs much may be skipped
		last, err := q.store.LastRuns(ctx, listed, upTo, n)
		if err != nil {
			return nil, core.Passing(err)
		}
		listed = slices.DeleteFunc(listed, func(job core.JobID) bool {
			list := make([]brief, len(last[job]))
			for i := range list {
				list[i] = briefOf(&last[job][i])
			}
			s.of[job] = kept(list, upTo)
			b := s.decided(job)
			if b != nil && !b.bad && s.now.Sub(failed[job]) > settledFor {
				recovered[job] = failed[job]
			}
			return b != nil || len(list) == 0
		})
	}
	_ = q.o.Failed.ForgetFailed(ctx, recovered) // else the next page does
	return s, nil
}

// overdue is the instant of a job that is due, past its grace, and that the scheduler has not planned; 0: none.
func (s *standing) overdue(j *core.Job) core.Instant {
	if j.Sched.State == core.Started && j.Sched.Tail == 0 && s.past(j, j.Sched.Next) {
		return j.Sched.Next
	}
	return 0
}

// past reports whether a moment is longer ago than the grace of a job.
func (s *standing) past(j *core.Job, slot core.Instant) bool {
	return slot != 0 && s.now.Sub(slot.Time()) > j.Sched.Grace
}

// late reports whether a job that is not paused is late now: what is due is not planned, its
// newest run is due and not sent, or was sent late; each by its grace.
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

// neverRan reports whether a job has no run at all; one that is not known has.
func (s *standing) neverRan(job core.JobID) bool {
	list, known := s.due(job)
	return known && len(list) == 0
}
