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
	nobody := newRun(planned(j.Def.ID, at+20), core.Failed, at+20)
	nobody.Reason, nobody.SentAt, nobody.EndedAt = core.ReasonNoExecutor, (at + 23).Time(), (at + 23).Time()
	f.Put(nobody)
	f.Clock = (at + 40).Time()
	if r, _ := f.audited(j.Def.ID, at, at+20, "demanded 2, on time 1, late 0 (20ms)"); r.NotSent() != 1 {
		t.Errorf("%d were not sent", r.NotSent())
	}
}

// behind stores a running run of a job, and a run that waits for its slot.
func (f *fixture) behind(job core.JobID, at core.Instant, change func(works *core.Run)) {
	f.T.Helper()
	works, waits := newRun(planned(job, at+10), core.Running, at+10), newRun(planned(job, at+20), core.Queued, at+20)
	works.Permit, waits.Permit = "job/"+job.String(), "job/"+job.String()
	works.SentAt, works.Address, works.Owner, works.Until = works.At.Time(), "http://a", "o", works.At.Time().Add(30*time.Second)
	if change != nil {
		change(&works)
	}
	f.Put(works, waits)
	item := core.Permits{Name: waits.Permit, V: 1, Limit: 1, Holders: []core.Holder{{First: works.ID}}, Queue: []core.RunID{waits.ID}}
	check.OK(f.T, f.E.PutPermits(ctx, []core.Permits{item})[0])
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
			f.behind(j.Def.ID, at, func(works *core.Run) {
				switch {
				case c.ended:
					works.State, works.EndedAt, works.Owner = core.Succeeded, works.At.Time().Add(time.Minute), ""
				case c.timeout == unsent:
					*works = newRun(planned(j.Def.ID+1, at+10), core.Queued, at+10)
					works.Permit = "job/" + j.Def.ID.String()
				}
			})
			f.Clock = start.Add(2 * time.Hour)
			r, err := f.Audit(j.Def.ID.String(), at, at+20)
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
		f.behind(j.Def.ID, at, nil)
	}
	f.Quiet()
	f.Clock = start.Add(2 * time.Hour)
	all, err := f.M.AuditAll(ctx, at, at+20)
	if err != nil || all.Demanded != 16 || all.Pending != 8 || all.Overdue != 0 {
		t.Errorf("%+v (%v)", all.AuditCount, err)
	}
}
