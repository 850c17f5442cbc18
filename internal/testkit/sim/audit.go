package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
)

// tally is the checker's own count of one job, made without the product.
type tally struct {
	demanded int64          // instants outside of all pauses; not of a fixed delay
	fixed    bool           // its instants follow from the ends of its runs
	had      []core.Instant // the demanded instants that have a run
}

// listsReach is how far back the list of recent runs goes at least.
const listsReach = 7 * 24 * time.Hour

// listed asserts that the list of recent runs has each run once, except runs that wait for their time.
func (w *World) listed(tallies map[core.JobID]*tally) {
	if time.Since(w.began) > listsReach {
		return
	}
	seen := map[core.RunID]int{}
	for from := (store.RunPlace{}); ; {
		runs, next, err := w.store.Runs.Recent(bg, store.Recent{}, from, 1000)
		if err != nil {
			w.fail(0, "list: %v", err)
			return
		}
		for i := range runs {
			seen[runs[i].ID]++
		}
		if next == (store.RunPlace{}) {
			break
		}
		from = next
	}
	for _, id := range slices.Sorted(maps.Keys(tallies)) {
		first, last := core.NumberedRange(id)
		runs, _ := w.store.Runs.Span(bg, first, last, allRuns)
		runs = slices.DeleteFunc(runs, func(r core.Run) bool { return r.SentAt.IsZero() && r.State.Open() })
		for _, at := range tallies[id].had {
			runs = append(runs, core.Run{ID: core.PlannedRun(id, at)})
		}
		for i := range runs {
			if run := runs[i].ID; seen[run] != 1 {
				w.fail(run, "run is listed %d times", seen[run])
			}
		}
	}
}

// auditedJobs is how many jobs are audited alone. Each such audit reads all change records.
const auditedJobs = 100

// audited runs the product's audit for all jobs, and for each, and asserts that it agrees with the checker: no instant is missing,
// the demanded instants are equally many, and nothing is pending or out of its reach in a world at rest. Then it removes a run by
// hand, and the audit has to name that instant and no other.
func (w *World) audited(tallies map[core.JobID]*tally) {
	w.ringIsEmpty()
	w.listed(tallies)
	from, to := core.InstantOf(w.began)-1, core.InstantOf(time.Now())
	if w.cfg.Machine { // a clock that was set back dates changes earlier
		from = from.Add(-2 * maxStep)
	}
	sum, err := w.people.AuditAll(bg, from, to)
	if err != nil {
		w.fail(0, "audit: %v", err)
		return
	}
	d := w.dice("by hand")
	whole := sum                                                // the result while no run is missing
	long := time.Since(w.began) > 30*24*time.Hour || w.cfg.Days // change records are kept for as long
	var some []core.JobID                                       // of which one run can be missed
	ids := slices.Sorted(maps.Keys(tallies))
	for _, id := range ids[:min(len(ids), auditedJobs)] {
		t := tallies[id]
		rep, err := w.people.AuditPage(bg, query.AuditAsk{Job: fmt.Sprint(id), From: from, To: to})
		switch {
		case err != nil:
			w.fail(core.RunID(id), "audit of job %d: %v", id, err)
		case t.fixed && w.cfg.Machine: // a clock set back makes later fires of earlier instants, so no order shows a missing one
		case rep.Unaccounted != 0 || rep.Pending != 0 || rep.Overdue != 0 || rep.OutOfReach != 0 || rep.Partial && !long:
			w.fail(core.RunID(id), "the audit of job %d, in a world at rest, reports %+v, partial %v, missing %v", id, rep.AuditCount, rep.Partial,
				rep.Missing)
		case !t.fixed && rep.Demanded != t.demanded:
			w.fail(core.RunID(id), "the audit of job %d reports %d expected runs, want %d", id, rep.Demanded, t.demanded)
		case len(t.had) > 0:
			some = append(some, id)
		}
	}
	if len(some) == 0 {
		return
	}
	id := some[d.n(len(some))]
	at := tallies[id].had[d.n(len(tallies[id].had))]
	gone := core.PlannedRun(id, at)
	blind := hook.Over(w.store, func(_ context.Context, c *hook.Call, next func() []error) []error {
		errs := next()
		delete(c.GotRuns, gone)
		c.InSpan = slices.DeleteFunc(c.InSpan, func(r core.Run) bool { return r.ID == gone })
		return errs
	})
	m := w.assembly(wiring.Options{}, blind).People(nil, people.Options{})
	sum, err = m.AuditAll(bg, from, to)
	if err != nil {
		w.fail(0, "audit without a run: %v", err)
		return
	}
	named := slices.ContainsFunc(sum.Missing, func(r query.AuditReport) bool {
		return r.Job == id && slices.Equal(r.Missing, []core.Instant{at})
	})
	if sum.Unaccounted != whole.Unaccounted+1 || !named {
		w.fail(gone, "run %d of instant %s was removed, and the audit reports %d unaccounted, %d pending: %+v", gone, at, sum.Unaccounted,
			sum.Pending, sum.Missing)
	}
}

// ringIsEmpty waits until the ring reports that it is empty. If a queue reports no ages, a
// requeued message counts as present for as long as it may wait.
func (w *World) ringIsEmpty() {
	const limit = 40 * time.Minute
	for began := time.Now(); ; w.sleep(bg, time.Minute) {
		oldest, err := w.store.Queue.Oldest(bg)
		switch {
		case err == nil && oldest.First().IsZero():
			return
		case time.Since(began) > limit:
			w.fail(0, "%s after the last message was acked the oldest is reported as of %s: %v", limit, oldest.First(), err)
			return
		}
	}
}
