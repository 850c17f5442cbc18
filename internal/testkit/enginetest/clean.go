package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/store"
)

// clean: ended runs without follow-ups are removed with their long texts; nothing else is. The
// position is stored, and never goes back.
func clean(t *testing.T, h Harness) {
	e, ctx := openRunStore(t, h), t.Context()
	drop := func(list ...core.Run) []error {
		puts := make([]store.RunPut, len(list))
		for i := range list {
			puts[i].Drop = &list[i]
		}
		return e.Runs.Put(ctx, puts)
	}
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
	postRun := core.NumberedRun(1, 3)
	put(t, e, postRun, func(r *core.Run) { closed(r); r.PostRun = core.PostRun{Log: true} })
	read := func(id core.RunID) core.Run { t.Helper(); return mustRun(t, e, id) }
	gone := core.Run{ID: core.NumberedRun(1, 77), State: core.Succeeded}
	answers(t, drop(read(ended), read(open), read(owing), read(parent), read(postRun), gone),
		"ok", "refused", "refused", "refused", "refused", "ok")
	if _, is := readRun(t, e, ended); is {
		t.Error("it is still there")
	}
	for _, id := range []core.RunID{open, owing, parent, other} {
		read(id)
	}
	// One run got a follow-up since the read, the other is read before its end.
	was := read(owing)
	was.Owes = nil
	still := read(open)
	still.State = core.Succeeded
	answers(t, drop(was, still), "refused", "refused")
	read(owing)
	read(open)
	list, err := e.Runs.Span(ctx, core.PlannedRun(1, at(0)), core.PlannedRun(1, at(100)), 10)
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

// cleanCounted: while reports stand still, a clean-up leaves the runs that they have not
// counted, with their ends; counted runs go, and the reports keep their counts.
func cleanCounted(t *testing.T, h Harness) {
	begin := time.Now().UTC().Truncate(time.Second) // stores note when a run is made
	e, ctx, now := h.Open(t), t.Context(), begin
	clock := func() time.Time { return now }
	sums := report.New(e.Store, report.Options{Now: clock, PassFor: time.Minute})
	m := people.New(e.Store, nil, nil, people.Options{Reports: sums, Ask: query.Options{Now: clock}})
	createJobs(t, e, job(1))
	claimed := func(r *core.Run) { r.Journal.Minute, r.SentAt = begin.Unix()/60, begin }
	ended := func(r *core.Run) { claimed(r); r.State, r.EndedAt = core.Succeeded, begin }
	soon, later := core.NumberedRun(1, 1), core.NumberedRun(1, 2)
	cleaned := func(want string) {
		t.Helper()
		res, err := m.Clean(ctx, core.Actor{Name: "ann"}, operate.CleanRequest{Job: "1"})
		ok(t, errors.Join(err, res.Failed))
		if got := fmt.Sprintf("%d went, %d are held", res.Cleaned, res.Held); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	put(t, e, soon, ended)
	now = begin.Add(50 * time.Hour) // no report was made, so none waits for these runs
	cleaned("1 went, 0 are held")

	now = begin
	put(t, e, soon, ended)
	put(t, e, later, claimed)
	ok(t, e.Dispatch.PutJournal(ctx, core.Journal{Key: mustRun(t, e, later).Journal, V: 1,
		Entries: []core.Entry{{Run: soon, Outcome: core.Accepted}, {Run: later, Outcome: core.Accepted}}}))
	ok(t, sums.Pass(ctx))
	now = begin.Add(50 * time.Hour) // they stood still since
	allNil(t, e.Finish.PutRuns(ctx, []core.RunPut{core.End(later, core.Run{State: core.Succeeded, EndedAt: begin.Add(3 * time.Hour)})}))
	cleaned("0 went, 2 are held")
	now = begin.Add(2 * time.Hour) // they count the hour, in which one has no end
	ok(t, sums.Pass(ctx))
	now = begin.Add(50 * time.Hour)
	cleaned("1 went, 1 are held")
	ok(t, sums.Pass(ctx))
	cleaned("1 went, 0 are held")
	a, err := sums.Answer(ctx, report.Question{ByDay: true, From: core.InstantOf(begin), To: core.InstantOf(begin) + 7200})
	ok(t, err)
	n := int64(0)
	for i := range a.Rows {
		n += a.Rows[i].Runs() + 10*a.Rows[i].Open
	}
	if n != 2 {
		t.Errorf("the report: %+v", a.Rows)
	}
}
