package query_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

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
