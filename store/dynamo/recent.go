package dynamo

import (
	"cmp"
	"context"
	"slices"
	"strconv"
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
