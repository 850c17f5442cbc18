package query

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// noRuns is a store without runs.
type noRuns struct{ store.Runs }

func (noRuns) Last(context.Context, []core.JobID, core.Instant, int) (map[core.JobID][]core.Run, error) {
	return nil, nil
}

// TestJobsThatAreGoneMakeRoom checks that a full cache, maybe of deleted jobs, does not prevent a query for other
// jobs.
func TestJobsThatAreGoneMakeRoom(t *testing.T) {
	now := time.Now()
	q := &Queries{store: &store.Store{Runs: noRuns{}}, o: Options{Now: func() time.Time { return now }}}
	l := lately{turn: make(chan struct{}, 1), at: now, of: map[core.JobID][]brief{}}
	for id := range core.JobID(mostLately) {
		l.of[id+10] = nil
	}
	s, err := l.look(t.Context(), q, []core.JobID{1, 2, 11})
	if err != nil || !s.all || len(s.of) != 3 || len(l.of) > mostLately {
		t.Errorf("all %v, of %d, known %d: %v", s.all, len(s.of), len(l.of), err)
	}
}

// silent is a store that answers only that the context has ended.
type silent struct{ store.Runs }

func (silent) Last(ctx context.Context, _ []core.JobID, _ core.Instant, _ int) (map[core.JobID][]core.Run, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Recent(context.Context, store.Recent, store.RunPlace, int) ([]core.Run, store.RunPlace, error) {
	return nil, store.RunPlace{}, nil
}

// rowed is a store that counts rows, ten in a millisecond, and records the rows that are read. The first of each 1400
// is of job 2, the others are of job 1.
type rowed struct {
	store.Runs
	made, read int
	filled     int  // calls of Last
	same       bool // all in one millisecond: its clock was set back
}

func jobOf(row int) core.JobID {
	if row%1400 == 1 {
		return 2
	}
	return 1
}

func (s *rowed) run(row int) core.Run {
	at := core.Instant(1_800_000_000 + row)
	return core.Run{ID: core.PlannedRun(jobOf(row), at), Slot: at, State: core.Succeeded, EndedAt: at.Time()}
}

func (s *rowed) Recent(_ context.Context, _ store.Recent, from store.RunPlace, limit int) (
	list []core.Run, next store.RunPlace, err error,
) {
	row := s.made
	if from.Row != 0 {
		row = int(from.Row) - 1
	}
	for ; row > 0 && len(list) < limit; row-- {
		list, s.read = append(list, s.run(row)), s.read+1
	}
	if row == 0 {
		return list, store.RunPlace{}, nil
	}
	next = store.RunPlace{Before: 1_900_000_000_000 + int64(row)/10, Row: int64(row + 1)}
	if s.same {
		next.Before = 1_900_000_002_000
	}
	return list, next, nil
}

func (s *rowed) Last(context.Context, []core.JobID, core.Instant, int) (map[core.JobID][]core.Run, error) {
	s.filled++
	return map[core.JobID][]core.Run{1: {s.run(s.made)}, 2: {s.run(s.made - 1399)}}, nil
}

// TestWhatIsKnownIsNotReadAgain checks that, with row counts, an update reads only the new runs.
func TestWhatIsKnownIsNotReadAgain(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	runs := &rowed{made: 7000}
	q := New(&store.Store{Runs: runs}, Options{Now: func() time.Time { return now }})
	for n := range 8 {
		runs.same = n >= 5
		runs.made += 1400
		now = now.Add(time.Second)
		runs.read = 0
		s, err := q.lately.look(t.Context(), q, []core.JobID{1, 2})
		if err != nil || s.last(1).id != runs.run(runs.made).ID || s.last(2).id != runs.run(runs.made-1399).ID {
			t.Fatalf("%+v, %v", s, err)
		}
		if runs.read > 1+2000 && n != 5 {
			t.Errorf("%d runs were read", runs.read)
		}
	}
	for _, c := range []struct {
		back   time.Duration
		filled int
	}{{latelyAgain, 0}, {latelyAgain + time.Millisecond, 1}} { // a clock that is set back by more can hide new runs
		now = now.Add(-c.back)
		runs.filled = 0
		if _, err := q.lately.look(t.Context(), q, []core.JobID{1, 2}); err != nil || runs.filled != c.filled {
			t.Errorf("set back by %s: the cache was filled %d times, want %d (%v)", c.back, runs.filled, c.filled, err)
		}
	}
}

// TestWhoWaitsForALookIsToldInTime checks that a slow update delays other queries only until their deadline.
func TestWhoWaitsForALookIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(&store.Store{Runs: silent{}}, Options{})
		began := time.Now()
		first := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := q.lately.look(ctx, q, []core.JobID{1})
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.lately.look(ctx, q, []core.JobID{2}); core.CodeOf(err) != core.CodeUnavailable || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if err := <-first; core.CodeOf(err) != core.CodeUnavailable || time.Since(began) != time.Minute {
			t.Errorf("the first after %s: %v", time.Since(began), err)
		}
	})
}

// TestWhatIsKeptIsBounded checks that for a job with many waiting, open, skipped and ended runs, the cache has the
// first open, the last ended and the next runs.
func TestWhatIsKeptIsBounded(t *testing.T) {
	var list []brief
	for slot := core.Instant(400); slot > 0; slot-- {
		state := core.Skipped
		switch {
		case slot > 300:
			state = core.Planned
		case slot <= 200:
			state = []core.State{core.Running, core.Succeeded}[slot%2]
		}
		list = append(list, brief{slot: slot, state: state})
	}
	var slots []core.Instant
	for _, b := range kept(list, 300) {
		slots = append(slots, b.slot)
	}
	want := []core.Instant{304, 303, 302, 301, 300, 299, 298, 297, 199, 197, 195, 193, 8, 6, 4, 2}
	if !slices.Equal(slots, want) {
		t.Errorf("%v, want %v", slots, want)
	}
}

// hung is a store whose answers take longer than an update has. The run 300 times back of each job is open, and all
// later runs were skipped.
type hung struct{ silent }

func (hung) Last(_ context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error) {
	time.Sleep(2 * fillFor)
	found := map[core.JobID][]core.Run{}
	for _, job := range jobs {
		for i := range core.Instant(n) {
			r := core.Run{ID: core.PlannedRun(job, upTo-i), Slot: upTo - i, State: core.Skipped}
			if i == 300 {
				r.State = core.Running
			} else if i > 300 {
				r.State = core.Succeeded
			}
			found[job] = append(found[job], r)
		}
	}
	return found, nil
}

// TestSlowStoreIsLookedAtFurther checks that each look at a slow store reads some jobs, up to a run that ended, and that the
// result is partial until all jobs are read.
func TestSlowStoreIsLookedAtFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		q := New(&store.Store{Runs: hung{}}, Options{Now: func() time.Time { return now }})
		jobs := make([]core.JobID, 2*fillOf+1)
		for i := range jobs {
			jobs[i] = core.JobID(i + 1)
		}
		for look := 1; look <= 3; look++ {
			s, err := q.lately.look(t.Context(), q, jobs)
			if want := min(look*fillOf, len(jobs)); err != nil || len(s.of) != want || s.all != (look == 3) {
				t.Fatalf("look %d: %d jobs are known, want %d; all: %t, %v", look, len(s.of), want, s.all, err)
			}
			for job, list := range s.of {
				if !slices.ContainsFunc(list, func(b brief) bool { return b.state == core.Running }) {
					t.Fatalf("look %d: the hanging run of job %d is unknown", look, job)
				}
			}
		}
	})
}
