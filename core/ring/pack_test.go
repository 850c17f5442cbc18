package ring_test

import (
	"slices"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
)

// TestPackedIsReadable checks that messages packed up to the limits can be read back, and that as few as
// possible are used.
func TestPackedIsReadable(t *testing.T) {
	const slot = core.Instant(1_800_000_000)
	for _, c := range []struct{ fires, messages int }{{1, 1}, {ring.MaxFires - 1, 1}, {ring.MaxFires, 1}, {ring.MaxFires + 1, 2},
		{2 * ring.MaxFires, 2}, {2*ring.MaxFires + 1, 3}} {
		var given, got []core.Fire
		for i := range c.fires {
			given = append(given, core.Fire{Run: core.PlannedRun(core.JobID(i+1), slot), Rev: 1, At: slot, Slot: slot, Cause: core.CauseSchedule,
				Seq: int64(i)})
		}
		out := plan.Pack(given, ring.MaxFires, nil)
		for _, o := range out {
			m, err := ring.Decode(ring.Encode(o.Message))
			if err != nil {
				t.Fatalf("%d fires: %v", c.fires, err)
			}
			got = append(got, m.Fires...)
		}
		if len(out) != c.messages || !slices.Equal(got, given) {
			t.Errorf("%d fires: %d arrived in %d messages, want %d messages", c.fires, len(got), len(out), c.messages)
		}
	}
}
