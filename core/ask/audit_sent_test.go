package ask_test

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
)

// What went to nobody is neither on time nor late, and no gap.
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
	if err := f.E.Finish.Create(ctx, []core.Run{nobody})[0]; err != nil {
		t.Fatal(err)
	}
	f.Clock = (at + 40).Time()
	r, err := f.M.Audit(ctx, j.Def.ID.String(), at, at+20)
	if want := "demanded 2, on time 1, late 0 (20ms), skipped map[], pending 0, unaccounted 0"; err != nil || sum(r.AuditCount) != want ||
		r.NotSent() != 1 {
		t.Errorf("%s, not sent %d (%v)\nwant %s, not sent 1", sum(r.AuditCount), r.NotSent(), err, want)
	}
}
