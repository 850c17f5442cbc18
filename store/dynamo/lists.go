package dynamo

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// Bounds of Recent.
const (
	mostHours  = 7 * 24 // that are searched
	mostRecent = 100    // requests of one call
)

const msPerMinute = 60_000

// Recent implements store.Runs. It reads the journals of the last week, newest first. They name the runs that
// were claimed, queued or closed unclaimed in a minute, so runs need no index. A run that waits for its time is
// missing. After mostRecent requests it returns the runs it found, perhaps none, and where to continue; it finishes the
// journals of a minute that it started.
func (s runs) Recent(ctx context.Context, of store.Recent, from store.RunPlace, limit int) (
	list []core.Run, next store.RunPlace, err error,
) {
	now := s.o.Now().Unix() / 60
	w := recentWalk{s: s.Store, app: of.App, limit: limit, from: now + 1}
	if minute := (from.Before - 1) / msPerMinute; from.Before > 0 && minute <= w.from {
		w.from, w.done = minute, int(from.Row)
	}
	for hour := w.from / 60; w.next.Before == 0 && hour > now/60-mostHours && hour >= 0; hour-- {
		e := equal("of", text(store.KindJournals(hour*60)))
		e.any(where("key", "<", text(strconv.FormatInt(min(w.from, hour*60+59), 10)+"/")))
		read := 0
		err := s.query(ctx, e.newest(s.o.Names.State, keysPerGet), func(it item) (bool, error) {
			if read++; read%keysPerGet == 0 {
				w.spent++
			}
			j, err := decodeJournal(it)
			if err == nil && j.Key.Minute != w.minute {
				err = w.take(ctx)
				w.minute = j.Key.Minute
			}
			for _, e := range j.Entries {
				w.named = append(w.named, e.Run)
			}
			return w.next.Before == 0, err
		})
		if err == nil {
			err = w.take(ctx)
		}
		if err != nil {
			return nil, next, err
		}
		if w.spent++; w.next.Before == 0 && w.spent >= mostRecent {
			w.stop(hour*60-1, 0)
		}
	}
	return w.runs, w.next, nil
}

// recentWalk holds the runs that Recent has found; next is set when the call must return.
type recentWalk struct {
	s      *Store
	app    string
	limit  int
	from   int64 // the first minute
	done   int   // how many of its runs earlier calls returned
	minute int64
	named  []core.RunID // by the journals of the minute
	spent  int          // requests
	moved  bool         // has read runs, so that the next call starts at another place
	runs   []core.Run
	next   store.RunPlace
}

// stop ends the call before the run of a minute with an index, as its journals name them now. Journals that come later
// can move the index, so a run may be listed twice.
func (w *recentWalk) stop(minute int64, at int) {
	w.next = store.RunPlace{Before: (minute + 1) * msPerMinute, Row: int64(at)}
}

// take adds the runs that the journals of a minute name. It reads a hundred at a time, the later scheduled times first, and
// sorts each hundred by time.
func (w *recentWalk) take(ctx context.Context) error {
	ids, done := w.named, 0
	if w.named = nil; w.next.Before != 0 || len(ids) == 0 {
		return nil
	}
	if w.minute == w.from {
		done = w.done
	}
	slices.SortFunc(ids, func(a, b core.RunID) int { return cmp.Or(cmp.Compare(w.about(b), w.about(a)), cmp.Compare(b, a)) })
	ids = slices.Compact(ids)
	for i := done - done%keysPerGet; i < len(ids); i += keysPerGet {
		if w.moved && (w.over() || w.spent >= mostRecent) {
			w.stop(w.minute, i)
			return nil
		}
		w.moved, w.spent = true, w.spent+1
		list, err := w.s.claimed(ctx, w.minute, ids[i:min(i+keysPerGet, len(ids))])
		if err != nil {
			return err
		}
		for k := range list {
			switch r := &list[k]; {
			case i+k < done:
			case w.over():
				w.stop(w.minute, i+k)
				return nil
			case w.app == "" || r.App == w.app:
				w.runs = append(w.runs, *r)
			}
		}
	}
	if w.over() || w.spent >= mostRecent {
		w.stop(w.minute-1, 0)
	}
	return nil
}

func (w *recentWalk) over() bool { return len(w.runs) >= w.limit }

// about returns the scheduled time of a run, or the end of the minute if only the run itself has its time.
func (w *recentWalk) about(id core.RunID) core.Instant {
	if at, planned := id.Planned(); planned {
		return at
	}
	return core.Instant((w.minute + 1) * 60)
}

// claimed reads the runs with these IDs and returns the runs that the journals of minute list, newest first.
func (s *Store) claimed(ctx context.Context, minute int64, ids []core.RunID) ([]core.Run, error) {
	found, err := store.Complete(runs{s}.Get(ctx, ids))
	if err != nil {
		return nil, err
	}
	list := make([]core.Run, 0, len(found))
	for _, id := range ids {
		// A run that was released and claimed again is listed by its last journal.
		if r := found[id]; r != nil && (r.Journal.IsZero() || r.Journal.Minute == minute) {
			list = append(list, *r)
		}
	}
	slices.SortFunc(list, func(a, b core.Run) int { return cmp.Or(taken(&b).Compare(taken(&a)), cmp.Compare(b.ID, a.ID)) })
	return list, nil
}

// taken returns about when a dispatcher first claimed or recorded a run.
func taken(r *core.Run) time.Time {
	switch {
	case !r.SentAt.IsZero():
		return r.SentAt
	case r.State == core.Skipped:
		return r.EndedAt
	}
	return r.Slot.Time()
}

// Began reads beganJobs jobs at a time and reports up to beganTold runs at a time. It reads up to few runs of a job by ID,
// a hundred in each request. It reads more runs as a span of IDs, at a tenth of the cost of each, if the span can hold
// less than sparse times their number.
const (
	beganJobs = 64
	beganTold = 500
	few       = 2
	sparse    = 4
)

// Began implements store.Runs, in the order of jobs. The journals of the span name the runs that were claimed or
// recorded in it. If it reads a span of a job's IDs, it also reports runs that no journal names.
func (s runs) Began(ctx context.Context, from, to core.Instant, behind core.JobID, tell func([]core.Run)) (until core.JobID, err error) {
	first, end := int64(from)/60, (int64(to)+59)/60
	of := map[core.JobID][]core.RunID{}
	read := max(first-core.EndedWithin, 0) // a run without a claim counts in the minute of its end
	for hour := read / 60; hour <= (end-1)/60; hour++ {
		e := equal("of", text(store.KindJournals(hour*60)))
		e.any(where("key", "BETWEEN", text(strconv.FormatInt(read, 10)+"."), text(strconv.FormatInt(end-1, 10)+"/")))
		if err := s.query(ctx, e.query(s.o.Names.State), func(it item) (bool, error) {
			j, err := decodeJournal(it)
			for _, entry := range j.Entries {
				job := entry.Run.Job()
				if job > behind && (j.Key.Minute >= first || entry.Outcome == core.Recorded) {
					of[job] = append(of[job], entry.Run)
				}
			}
			return true, err
		}); err != nil {
			return 0, err
		}
	}
	in := func(r *core.Run) bool {
		if !r.SentAt.IsZero() && !r.Journal.IsZero() {
			return r.Journal.Minute >= first && r.Journal.Minute < end
		}
		return !r.State.Open() && !r.EndedAt.Before(from.Time()) && r.EndedAt.Before(to.Time())
	}
	for jobs := range slices.Chunk(slices.Sorted(maps.Keys(of)), beganJobs) {
		err := s.beganOf(ctx, jobs, of, from, to, in, tell)
		switch {
		case err != nil && ctx.Err() != nil && until != 0:
			return until, nil
		case err != nil:
			return 0, err
		}
		until = jobs[len(jobs)-1]
	}
	return 0, nil
}

// beganOf reports those runs of some jobs that in accepts.
func (s *Store) beganOf(ctx context.Context, jobs []core.JobID, of map[core.JobID][]core.RunID, from, to core.Instant,
	in func(*core.Run) bool, tell func([]core.Run)) error {
	var mu sync.Mutex
	give := func(list []core.Run) {
		if list = slices.DeleteFunc(list, func(r core.Run) bool { return !in(&r) }); len(list) > 0 {
			mu.Lock()
			defer mu.Unlock()
			tell(list)
		}
	}
	var alone []core.RunID
	var spans [][2]core.RunID
	for _, job := range jobs {
		ids := slices.Compact(slices.Sorted(slices.Values(of[job])))
		low, high := core.RunRange(job, from, to-1)
		var planned, numbered []core.RunID
		for _, id := range ids {
			_, byNumber := id.Number()
			switch {
			case byNumber:
				numbered = append(numbered, id)
			case id >= low && id <= high:
				planned = append(planned, id)
			default: // a planned run with a scheduled time outside the span
				alone = append(alone, id)
			}
		}
		if len(planned) > few {
			spans = append(spans, [2]core.RunID{low, high})
		} else {
			alone = append(alone, planned...)
		}
		if n := len(numbered); n > few && int64(numbered[n-1]-numbered[0]) < int64(sparse*n) {
			spans = append(spans, [2]core.RunID{numbered[0], numbered[n-1]})
		} else {
			alone = append(alone, numbered...)
		}
	}
	errs := make([]error, len(spans)+1)
	store.AtOnce(len(errs), func(i int) {
		var list []core.Run
		if i == len(spans) {
			errs[i] = s.getAll(ctx, s.o.Names.Runs, keysOf(alone, runKey), func(it item) error {
				r, _, err := decodeRun(it)
				list = append(list, r)
				return err
			})
			give(list)
			return
		}
		errs[i] = s.query(ctx, s.between(spans[i][0], spans[i][1]), func(it item) (bool, error) {
			r, _, err := decodeRun(it)
			if list = append(list, r); len(list) == beganTold {
				give(list)
				list = nil
			}
			return true, err
		})
		give(list)
	})
	return errors.Join(errs...)
}
