package finish

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// Where runs lie beside each other in a store, eight small ones take the read of
// one. So of a job that fires often the watchdog reads a window of runs with the
// first of them, and remembers which have ended for good: a closed run that owes
// nothing stays so, and needs no look when its minute comes. What is not
// remembered is read then, so forgetting costs a read and nothing else.

const (
	// windowRuns is how many runs are read ahead at most.
	windowRuns = 8
	// mostAhead bounds what is remembered; beyond it all is forgotten.
	mostAhead = 500_000
	// spansAtOnce is how many windows are read side by side.
	spansAtOnce = 16
)

// ahead remembers what was read before its minute came.
type ahead struct {
	mu    sync.Mutex
	over  map[core.RunID]bool  // runs that have ended for good, not yet walked over
	fired map[core.JobID]int64 // the minute of the walk in which a job last had runs
}

// often notes that jobs have runs at a minute of the walk, and answers those that had
// some in so many minutes before it too.
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

// take answers whether a run is known to have ended for good, and forgets it.
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

// forGood reports that a run is over and stays so. What was skipped may yet be given
// its run.
func forGood(r *core.Run) bool {
	return !r.State.Open() && r.State != core.Skipped && !r.Owing() && r.Shard.Of == 0
}

// span is what is read of a job's runs together.
type span struct {
	first core.RunID
	runs  int // of the walk
}

// unjudged are the subjects of a walk that are not known to have ended for good,
// and runs that were read with the windows of their jobs, theirs and later ones.
func (w *Watchdog) unjudged(ctx context.Context, minute int64, subjects []subject) (left []subject, read map[core.RunID]core.Run) {
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
	return left, w.windows(ctx, minute, spans)
}

func (w *Watchdog) window() int64 { return max(int64(w.o.Window/time.Minute), 1) }

// windows reads the runs of jobs from one of each on to the end of the job's window:
// that ends at another minute for each, so that not all are read at once. What
// cannot be read so is read as if there were no windows.
func (w *Watchdog) windows(ctx context.Context, minute int64, spans map[core.JobID]span) map[core.RunID]core.Run {
	read := map[core.RunID]core.Run{}
	var mu sync.Mutex
	var lanes sync.WaitGroup
	slots := make(chan struct{}, spansAtOnce)
	for _, job := range slices.Sorted(maps.Keys(spans)) {
		n := spans[job]
		at, _ := n.first.Planned()
		rest := w.window() - (minute+int64(job))%w.window()
		_, last := core.RunRange(job, at, at+core.Instant(60*rest-1))
		slots <- struct{}{}
		lanes.Go(func() {
			defer func() { <-slots }()
			runs, err := w.f.store.RunSpan(ctx, n.first, last, max(windowRuns, n.runs))
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range runs {
				read[runs[i].ID] = runs[i]
			}
		})
	}
	lanes.Wait()
	return read
}

// remember keeps of what was read with windows that which this walk is not about.
func (w *Watchdog) remember(read map[core.RunID]core.Run, subjects []subject) {
	later := maps.Clone(read)
	for _, s := range subjects {
		delete(later, s.run)
	}
	var over []core.RunID
	for id, r := range later {
		if forGood(&r) {
			over = append(over, id)
		}
	}
	w.ahead.put(over)
}
