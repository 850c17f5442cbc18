package query_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// A run that was never sent is neither on time nor late, and not missing.
func TestAuditNotSent(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(10*time.Second)))
	at := core.InstantOf(start)
	f.PushNext(j.Def.ID, at+30)
	f.Quiet()
	f.Ran(j.Def.ID, at+10, 20*time.Millisecond)
	id := core.PlannedRun(j.Def.ID, at+20)
	nobody := core.Run{ID: id, App: "shop", State: core.Failed, Reason: core.ReasonNoExecutor, Cause: core.CauseSchedule, At: at + 20,
		Slot:    at + 20,
		Attempt: 1, First: id, SentAt: (at + 23).Time(), EndedAt: (at + 23).Time()}
	check.OK(t, f.E.CreateRuns(ctx, []core.Run{nobody})[0])
	f.Clock = (at + 40).Time()
	r, err := f.M.Audit(ctx, j.Def.ID.String(), at, at+20)
	if want := "demanded 2, on time 1, late 0 (20ms), skipped map[], pending 0, unaccounted 0"; err != nil || sum(r.AuditCount) != want ||
		r.NotSent() != 1 {
		t.Errorf("%s, not sent %d (%v)\nwant %s, not sent 1", sum(r.AuditCount), r.NotSent(), err, want)
	}
}

// behind returns a running run of a job, and a run that waits for its slot.
func behind(job core.JobID, at core.Instant) (works, waits core.Run) {
	run := func(at core.Instant, state core.State) core.Run {
		id := core.PlannedRun(job, at)
		return core.Run{ID: id, App: "shop", State: state, Cause: core.CauseSchedule, At: at, Slot: at, Attempt: 1, First: id,
			Permit: "job/" + job.String()}
	}
	works, waits = run(at+10, core.Running), run(at+20, core.Queued)
	works.SentAt, works.Address, works.Owner, works.Until = works.At.Time(), "http://a", "o", works.At.Time().Add(30*time.Second)
	return works, waits
}

// TestAuditOfRunsThatWaitForPermits checks that a run waits rightly while another run of its limit is open and within
// its timeout. Behind a hanging or ended run it is overdue.
func TestAuditOfRunsThatWaitForPermits(t *testing.T) {
	const unsent = -1 // the holder was never sent, and its job cannot be read
	for name, c := range map[string]struct {
		timeout  time.Duration
		deadline time.Duration
		ended    bool
		overdue  int64
	}{
		"no timeout":              {0, 0, false, 0},
		"in time":                 {3 * time.Hour, 0, false, 0},
		"past its timeout":        {time.Hour, 0, false, 1},
		"ended":                   {0, 0, true, 1},
		"never sent":              {unsent, 0, false, 1},
		"a deadline to come":      {time.Hour, 4 * time.Hour, false, 0},
		"a deadline that is past": {3 * time.Hour, time.Hour, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := spec("sweep", every(10*time.Second))
			s.Def.Timeout, s.Deadline = max(c.timeout, 0), c.deadline
			j := f.Create(s)
			at := core.InstantOf(start)
			f.PushNext(j.Def.ID, at+30)
			f.Quiet()
			works, waits := behind(j.Def.ID, at)
			if c.ended {
				works.State, works.EndedAt, works.Owner = core.Succeeded, works.At.Time().Add(time.Minute), ""
			}
			if c.timeout == unsent {
				works = waits
				works.At, works.Slot = at+10, at+10
				works.ID = core.PlannedRun(j.Def.ID+1, at+10) // of a job that cannot be read
				works.First = works.ID
			}
			item := core.Permits{Name: works.Permit, V: 1, Limit: 1, Holders: []core.Holder{{First: works.ID}}, Queue: []core.RunID{waits.ID}}
			for _, err := range append(f.E.CreateRuns(ctx, []core.Run{works, waits}), f.E.PutPermits(ctx, []core.Permits{item})...) {
				check.OK(t, err)
			}
			f.Clock = start.Add(2 * time.Hour)
			r, err := f.M.Audit(ctx, j.Def.ID.String(), at, at+20)
			if err != nil || r.Overdue != c.overdue || r.Pending != 1-c.overdue || r.Demanded != 2 {
				t.Errorf("%+v (%v)", r.AuditCount, err)
			}
		})
	}
}

// TestAuditOfManyJobsThatWait audits several jobs in parallel, each with waiting runs whose limits are read. The race
// detector finds unlocked maps.
func TestAuditOfManyJobsThatWait(t *testing.T) {
	f := newFixture(t)
	at := core.InstantOf(start)
	for i := range 8 {
		j := f.Create(spec(fmt.Sprint("sweep", i), every(10*time.Second)))
		f.PushNext(j.Def.ID, at+20)
		works, waits := behind(j.Def.ID, at)
		item := core.Permits{Name: works.Permit, V: 1, Limit: 1, Holders: []core.Holder{{First: works.ID}}, Queue: []core.RunID{waits.ID}}
		for _, err := range append(f.E.CreateRuns(ctx, []core.Run{works, waits}), f.E.PutPermits(ctx, []core.Permits{item})...) {
			check.OK(t, err)
		}
	}
	f.Quiet()
	f.Clock = start.Add(2 * time.Hour)
	all, err := f.M.AuditAll(ctx, at, at+20)
	if err != nil || all.Demanded != 16 || all.Pending != 8 || all.Overdue != 0 {
		t.Errorf("%+v (%v)", all.AuditCount, err)
	}
}
