package dynamo_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store/dynamo"
)

// TestNoRunWaitsWithoutNote: a run whose record cannot be stored does not wait. A leftover record names no run, and the
// next reader removes it.
func TestNoRunWaitsWithoutNote(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	s, ctx := f.store, t.Context()
	queued := func(n uint32) core.Run {
		r := oneRun(core.NumberedRun(1, n))
		r.State, r.Owner, r.Until, r.Address, r.SentAt, r.Journal = core.Queued, "", time.Time{}, "", time.Time{}, core.JournalKey{}
		return r
	}
	f.db.Faults = always(fakeaws.Fault{Before: fakeaws.Throttled()}, "PutItem")
	refused := queued(1)
	if err := s.CreateRuns(ctx, []core.Run{refused})[0]; err == nil {
		t.Error("a run waits without a note")
	}
	f.db.Faults = nil
	check.Equal(t, f.Run(refused.ID).ID, 0, "it is stored")
	run := queued(2)
	ok(t, s.CreateRuns(ctx, []core.Run{run})...)
	f.db.Faults = always(fakeaws.Fault{Before: fakeaws.Throttled()}, "DeleteItem")
	ok(t, s.ChangeRuns(ctx, []core.RunPut{run.SkipUnsent(core.ReasonCancelled, base)})...)
	f.db.Faults = nil
	notes := func() int {
		return len(f.items(t, fakeaws.Names.State, "of", &types.AttributeValueMemberS{Value: "waiting/1"}))
	}
	before := notes()
	list, err := s.WaitingRuns(ctx, 1, core.NumberedRun(1, core.MaxNumber), 10)
	ok(t, err)
	if after := notes(); len(list) != 0 || before != 1 || after != 0 {
		t.Errorf("of a run that ended: %+v waits, %d notes, %d afterwards", list, before, after)
	}
}
