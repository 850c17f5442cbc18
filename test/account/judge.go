package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// grace is the grace of the jobs: runs not sent within it are skipped, which also applies to runs delayed that long by a fault.
const grace = time.Minute

// arrival is one time that a run reached an executor.
type arrival struct {
	at   time.Time
	late time.Duration // after its scheduled time
}

// ledger holds the arrivals at executors, each with its request, message or invocation. Duplicates of the same one count once.
type ledger struct {
	mu    sync.Mutex
	runs  map[core.RunID][]arrival
	seen  map[string]bool
	first chan struct{} // closed with the first
}

func newLedger() *ledger {
	return &ledger{runs: map[core.RunID][]arrival{}, seen: map[string]bool{}, first: make(chan struct{})}
}

func (l *ledger) add(run core.RunID, id string, at time.Time) {
	instant, planned := run.Planned()
	if !planned {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[id] {
		return
	}
	if len(l.seen) == 0 {
		close(l.first)
	}
	l.seen[id] = true
	l.runs[run] = append(l.runs[run], arrival{at, at.Sub(instant.Time())})
}

func (l *ledger) of(run core.RunID) []arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.runs[run])
}

// window is a fault, from its beginning until it was over.
type window struct {
	name     string
	from, to time.Time
	// heals is how long after the fault runs can still be late because of it.
	heals time.Duration
	// skips means that the fault can delay runs until they are skipped. The death of a dispatcher cannot, because the next attempt
	// comes within grace.
	skips bool
	// twice means that the fault can cause a second arrival, because the sender could not record the first. A loss in a queue
	// cannot.
	twice bool
}

// covers reports whether the window can affect a run due at a time.
func (w window) covers(at time.Time) bool {
	return !at.Before(w.from.Add(-grace)) && !at.After(w.to.Add(w.heals))
}

// end is the history's entry about a scheduled run: a run, or a record why there is none.
type end struct {
	state, reason string
	began         time.Time // when the run was sent, or ended unsent; zero: no run, or one that waits
}

func (e end) String() string { return strings.TrimSpace(e.state + " " + e.reason) }

// tally counts the results of the runs of one window, or outside of windows.
type tally struct {
	name         string
	fires        int
	once, twice  int // arrived
	skipped      map[string]int
	without      map[string]int // ended otherwise and never arrived
	open         int            // not ended
	lost         int            // neither run nor record nor arrival
	early        int
	untrue       int // skipped without a fault as cause
	unexplained  int // arrived twice or never, without a fault as cause
	unrecorded   int // arrived, and the history has no run
	notSucceeded map[string]int
	lateness     []time.Duration
	faults       []string // the first of them, in words
	phantom      int      // recorded as succeeded, but never arrived
	runs, listed int      // by arrivals and histories, and as `tickring runs APP` has them
	unlisted     int      // in one of these alone
}

const maxFaults = 10

func (t *tally) fault(format string, args ...any) {
	if len(t.faults) < maxFaults {
		t.faults = append(t.faults, fmt.Sprintf(format, args...))
	}
}

// judge counts the results of each run of jobs due in [from, to), by the windows that can have affected it; if several can, by the
// latest. The last tally is of all runs. listed has the runs in lists; nil: lists are not checked.
func judge(jobs map[core.JobID]job, from, to time.Time, l *ledger, history map[core.RunID]end, windows []window,
	listed map[core.RunID]bool,
) []*tally {
	quiet, sum := &tally{name: "quiet"}, &tally{name: "all"}
	all := []*tally{quiet}
	for _, w := range windows {
		all = append(all, &tally{name: w.name})
	}
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		for at := range jobs[id].instants(from, to) {
			t, w := quiet, window{}
			for i := range windows {
				if windows[i].covers(at) {
					t, w = all[i+1], windows[i]
				}
			}
			run := core.PlannedRun(id, core.InstantOf(at))
			what, came, e := fmt.Sprintf("%s at %s (run %d)", jobs[id].name, at.UTC().Format(time.TimeOnly), run), l.of(run), history[run]
			for _, t := range []*tally{t, sum} {
				t.count(what, came, e, w)
				if listed != nil {
					t.list(what, len(came) > 0 || !e.began.IsZero(), listed[run])
				}
			}
		}
	}
	return append(all, sum)
}

// count adds one scheduled run.
func (t *tally) count(what string, came []arrival, e end, w window) {
	t.fires++
	for _, a := range came {
		if a.late < 0 {
			t.early++
			t.fault("%s came %s early", what, -a.late)
		}
	}
	switch len(came) {
	case 0:
		t.missed(what, e, w)
		return
	case 1:
		t.once++
	default:
		t.twice++
		if !w.twice {
			t.unexplained++
			t.fault("%s came %d times, %s apart", what, len(came), came[len(came)-1].at.Sub(came[0].at).Round(time.Millisecond))
		}
	}
	t.lateness = append(t.lateness, came[0].late)
	switch e.state {
	case "succeeded":
	case "":
		t.unrecorded++
		t.fault("%s came, and the history knows no run", what)
	default:
		t.other(what+" came", e, w, &t.notSucceeded)
	}
}

// list records whether a scheduled run exists, and whether lists have it.
func (t *tally) list(what string, run, listed bool) {
	if run {
		t.runs++
	}
	if listed {
		t.listed++
	}
	if run != listed {
		t.unlisted++
		t.fault("%s has a run: %t; lists have it: %t", what, run, listed)
	}
}

// missed adds one scheduled run that reached no executor.
func (t *tally) missed(what string, e end, w window) {
	switch e.state {
	case "":
		t.lost++
		t.fault("%s is lost: no arrival, no run, no record", what)
	case "skipped":
		inc(&t.skipped, e.reason)
		if !w.skips {
			t.untrue++
			t.fault("%s was skipped: %s, and nothing held it up", what, e.reason)
		}
	case "succeeded":
		t.phantom++
		t.fault("%s has succeeded and came nowhere", what)
	default:
		t.other(what+" came nowhere", e, w, &t.without)
	}
}

// other adds one that has not ended, or ended as only a fault explains.
func (t *tally) other(what string, e end, w window, ends *map[string]int) {
	switch e.state {
	case "planned", "queued", "running":
		t.open++
		t.fault("%s and is still %s", what, e)
	default:
		inc(ends, e.String())
		if !w.skips && !w.twice {
			t.unexplained++
			t.fault("%s and is %s", what, e)
		}
	}
}

func inc(m *map[string]int, key string) {
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[key]++
}

// wrong returns the number of runs that broke a promise.
func (t *tally) wrong() int {
	return t.lost + t.early + t.untrue + t.unexplained + t.unrecorded + t.phantom + t.open + t.unlisted
}

// table prints the results, a row for each window.
func table(w io.Writer, all []*tally) {
	fmt.Fprintln(w, "| phase | runs due | reached an executor | of these twice | early | lost | skipped | ended otherwise | open "+
		"| untrue or unexplained | late p50 | p99 | worst | runs | in lists |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range all {
		lists := fmt.Sprint(t.listed)
		if t.unlisted > 0 {
			lists += fmt.Sprintf(", %d differ", t.unlisted)
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %d | %s | %s | %d | %d | %s | %s | %s | %d | %s |\n", t.name, t.fires, t.once+t.twice, t.twice,
			t.early, t.lost, words(t.skipped), words(t.without), t.open, t.untrue+t.unexplained+t.unrecorded+t.phantom,
			share(t.lateness, 50), share(t.lateness, 99), share(t.lateness, 100), t.runs, lists)
	}
	for _, t := range all[:len(all)-1] {
		if len(t.notSucceeded) > 0 {
			fmt.Fprintf(w, "\n%s: arrived and did not succeed: %s\n", t.name, words(t.notSucceeded))
		}
		for _, f := range t.faults {
			fmt.Fprintf(w, "- %s: %s\n", t.name, f)
		}
	}
}

func words(m map[string]int) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%d %s", m[k], k))
	}
	return cmp.Or(strings.Join(list, ", "), "0")
}

// share is the value under which p in a hundred are.
func share(list []time.Duration, p int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return list[(len(list)-1)*p/100].Round(time.Millisecond)
}
