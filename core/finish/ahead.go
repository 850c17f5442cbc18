package finish

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/store"
)

// If runs are adjacent in a store, reading eight small ones costs one read. So for a job that
// fires often, the watchdog reads a window of runs with the first of them. It remembers runs that
// have ended for good: they need no check when the scan reaches their minute. A forgotten run
// only costs another read.

const (
	// windowRuns is the maximum number of runs that are read ahead.
	windowRuns = 8
	// mostAhead limits each map of ahead; beyond it the map is cleared.
	mostAhead = 500_000
)

// ahead remembers runs that were read before the scan reached their minute.
type ahead struct {
	mu    sync.Mutex
	over  map[core.RunID]bool  // runs that have ended for good and are not yet scanned
	fired map[core.JobID]int64 // minute of the scan in which a job last had runs
}

// often records that jobs have runs at a minute of the scan. It returns the jobs that also had
// runs in the within minutes before.
func (a *ahead) often(minute, within int64, jobs []core.JobID) map[core.JobID]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.fired)+len(jobs) > mostAhead {
		clear(a.fired)
	}
	list := map[core.JobID]bool{}
	for _, job := range jobs {
		if last, is := a.fired[job]; is && minute > last && minute-last <= within {
			list[job] = true
		}
		a.fired[job] = minute
	}
	return list
}

// take reports whether a run is known to have ended for good, and forgets it.
func (a *ahead) take(id core.RunID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.over[id]
	delete(a.over, id)
	return was
}

func (a *ahead) put(ids []core.RunID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.over)+len(ids) > mostAhead {
		clear(a.over)
	}
	for _, id := range ids {
		a.over[id] = true
	}
}

// forGood reports whether a run has ended for good. A skipped one may still be replaced.
func forGood(r *core.Run) bool {
	return !r.State.Open() && r.State != core.Skipped && !r.Owing() && r.Shard.Of == 0
}

// A span is the range of a job's runs that are read together.
type span struct {
	first core.RunID
	runs  int // in this scan
}

// unjudged returns the subjects that are not known to have ended for good. read has the runs in left that did end for good,
// and later runs in the windows of their jobs.
func (w *Watchdog) unjudged(ctx context.Context, minute int64, subjects []subject) (left []subject, read map[core.RunID]*core.Run) {
	spans := map[core.JobID]span{}
	jobs := make([]core.JobID, 0, len(subjects))
	for _, s := range subjects {
		job := s.run.Job()
		jobs = append(jobs, job)
		if w.ahead.take(s.run) {
			continue
		}
		left = append(left, s)
		if _, planned := s.run.Planned(); !planned {
			continue
		}
		n := spans[job]
		if n.runs++; n.first == 0 || s.run < n.first {
			n.first = s.run
		}
		spans[job] = n
	}
	often := w.ahead.often(minute, w.window(), distinct(jobs))
	maps.DeleteFunc(spans, func(job core.JobID, n span) bool { return !often[job] && n.runs == 1 })
	read = w.windows(ctx, minute, spans)
	w.alone(ctx, left, read)
	return left, read
}

// alone adds the subjects that have ended for good to read. The others are read once more, strongly.
func (w *Watchdog) alone(ctx context.Context, subjects []subject, read map[core.RunID]*core.Run) {
	var ids []core.RunID
	for _, s := range subjects {
		if _, is := read[s.run]; !is {
			ids = append(ids, s.run)
		}
	}
	for some := range slices.Chunk(ids, atOnce) {
		found, err := w.f.s.Runs.Get(glance.First(ctx), some)
		if err != nil {
			return
		}
		for id, got := range found {
			if got.Err == nil && forGood(got.Is) {
				read[id] = got.Is
			}
		}
	}
}

func (w *Watchdog) window() int64 { return max(int64(w.o.Window/time.Minute), 1) }

// windows returns runs that have ended for good, of each job from its first one to the end of the
// job's window. Windows end at different minutes, so that they are not all read at once. Runs of
// the scan that are not in the result are read one by one, strongly.
func (w *Watchdog) windows(ctx context.Context, minute int64, spans map[core.JobID]span) map[core.RunID]*core.Run {
	read := map[core.RunID]*core.Run{}
	var mu sync.Mutex
	jobs := slices.Sorted(maps.Keys(spans))
	store.AtOnce(len(jobs), func(i int) {
		job, n := jobs[i], spans[jobs[i]]
		at, _ := n.first.Planned()
		rest := w.window() - (minute+int64(job))%w.window()
		_, last := core.RunRange(job, at, at+core.Instant(60*rest-1))
		runs, err := w.f.s.Runs.Span(glance.First(ctx), n.first, last, max(windowRuns, n.runs))
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range runs {
			if forGood(&runs[i]) {
				read[runs[i].ID] = &runs[i]
			}
		}
	})
	return read
}

// remember keeps the runs of read that are not subjects and have ended for good. Runs that may still have a concurrency slot
// are judged when the scan reaches them.
func (w *Watchdog) remember(read map[core.RunID]*core.Run, subjects []subject) {
	later := maps.Clone(read)
	maps.DeleteFunc(later, func(_ core.RunID, r *core.Run) bool { return r.FreesSlots() })
	for _, s := range subjects {
		delete(later, s.run)
	}
	w.ahead.put(slices.Collect(maps.Keys(later)))
}
