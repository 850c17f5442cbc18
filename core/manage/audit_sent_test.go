package manage_test

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
)

// What went to nobody is neither on time nor late, and no gap.
func TestAuditNotSent(t *testing.T) {
	f := newFixture(t)
	j := f.create(spec("sweep", every(10*time.Second)))
	at := core.InstantOf(start)
	pushNext(f, j.Def.ID, at+30)
	f.quiet()
	f.ran(j.Def.ID, at+10, 20*time.Millisecond)
	id := core.PlannedRun(j.Def.ID, at+20)
	nobody := core.Run{ID: id, App: "shop", State: core.Failed, Reason: core.ReasonNoExecutor, Cause: core.CauseSchedule, At: at + 20, Slot: at + 20,
		Attempt: 1, First: id, SentAt: (at + 23).Time(), EndedAt: (at + 23).Time()}
	if err := f.e.Finish.Create(ctx, []core.Run{nobody})[0]; err != nil {
		t.Fatal(err)
	}
	f.clock = (at + 40).Time()
	r, err := f.m.Audit(ctx, j.Def.ID.String(), at, at+20)
	if want := "demanded 2, on time 1, late 0 (20ms), skipped map[], pending 0, unaccounted 0"; err != nil || sum(r.AuditCount) != want || r.NotSent() != 1 {
		t.Errorf("%s, not sent %d (%v)\nwant %s, not sent 1", sum(r.AuditCount), r.NotSent(), err, want)
	}
}
