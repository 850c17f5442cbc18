package enginetest

import (
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
)

// clean: what has ended and owes nothing is removed, with what is long of it; nothing else
// is. Up to where is noted, and never goes back.
func clean(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	long := strings.Repeat("long ", 200)
	ended, open, owing, parent, other := core.PlannedRun(1, at(0)), core.PlannedRun(1, at(1)), core.NumberedRun(1, 1), core.NumberedRun(1, 2),
		core.NumberedRun(2, 1)
	put(t, e, ended, func(r *core.Run) { closed(r); r.Params, r.Message = &long, long })
	put(t, e, open, nil)
	put(t, e, owing, func(r *core.Run) {
		closed(r)
		r.State, r.Reason, r.Then = core.Failed, core.ReasonHandler, core.NumberedRun(1, 9)
		r.Owes = []core.Owed{{Run: r.Then, Kind: core.CauseRetry, Slot: at(9)}}
	})
	put(t, e, parent, func(r *core.Run) { closed(r); r.Place = 1 })
	put(t, e, other, closed)
	aside := core.NumberedRun(1, 3)
	put(t, e, aside, func(r *core.Run) { closed(r); r.Aside = core.Aside{Log: true} })
	read := func(id core.RunID) core.Run { t.Helper(); return mustRun(t, e, id) }
	gone := core.Run{ID: core.NumberedRun(1, 77), State: core.Succeeded}
	answers(t, e.Manage.DropRuns(ctx, []core.Run{read(ended), read(open), read(owing), read(parent), read(aside), gone}),
		"ok", "refused", "refused", "refused", "refused", "ok")
	if _, is := readRun(t, e, ended); is {
		t.Error("it is still there")
	}
	for _, id := range []core.RunID{open, owing, parent, other} {
		read(id)
	}
	// It has come to owe something since it was read, or is as it was before its end.
	was := read(owing)
	was.Owes = nil
	still := read(open)
	still.State = core.Succeeded
	answers(t, e.Manage.DropRuns(ctx, []core.Run{was, still}), "refused", "refused")
	read(owing)
	read(open)
	list, err := e.Manage.RunSpan(ctx, core.PlannedRun(1, at(0)), core.PlannedRun(1, at(100)), 10)
	ok(t, err)
	if len(list) != 1 || list[0].ID != open {
		t.Errorf("planned runs: %v", list)
	}

	upTo := func(job core.JobID, want core.Instant) {
		t.Helper()
		got, err := e.Manage.Cleaned(ctx, job)
		ok(t, err)
		if got != want {
			t.Errorf("job %d is cleaned up to %s, want %s", job, got, want)
		}
	}
	upTo(1, 0)
	ok(t, e.Manage.PutCleaned(ctx, 1, at(5)))
	ok(t, e.Manage.PutCleaned(ctx, 1, at(3)))
	upTo(1, at(5))
	ok(t, e.Manage.PutCleaned(ctx, 1, at(8)))
	upTo(1, at(8))
	upTo(2, 0)
}
