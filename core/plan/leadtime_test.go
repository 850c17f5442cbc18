package plan

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

const ms = time.Millisecond

func TestCut(t *testing.T) {
	aws := AWS().LeadTime
	for n, want := range map[int]time.Duration{
		0: 0, 1: 50 * ms, 50: 50 * ms, 51: time.Second, 2500: time.Second, 2501: 2 * time.Second, 5000: 2 * time.Second, 25_000: 10 * time.Second,
		50_000: 10 * time.Second, 1_000_000: 10 * time.Second,
	} {
		check.Equal(t, aws.Of(0, n), want, "%d fires", n)
		check.Equal(t, Local().LeadTime.Of(0, n), 0, "on one machine %d fires have a lead of", n)
	}
}

// TestLonelyLeadTimeIsMadeByPhase checks a single message that reaches a queue of whole seconds 30 to 130 ms
// after the start of a pass. It becomes visible 50 to 150 ms before its slot.
func TestLonelyLeadTimeIsMadeByPhase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lead := AWS().LeadTime
		phase := lead.Phase()
		slot := core.InstantOf(begin) + core.Instant(rapid.Int64Range(240, 880).Draw(t, "ahead"))
		way := lead.Way + time.Duration(rapid.Int64Range(0, int64((lead.Lonely-lead.LonelyMin)/ms)).Draw(t, "way"))*ms
		sent := begin.Add(phase + way)
		held := slot.Time().Add(-lead.Of(slot, 1)).Sub(sent).Truncate(time.Second)
		if early := slot.Time().Sub(sent.Add(held)); early < lead.LonelyMin || early > lead.Lonely {
			t.Fatalf("sent %s after the second it is visible %s before its slot; want %s to %s", phase+way, early, lead.LonelyMin, lead.Lonely)
		}
	})
	check.Equal(t, AWS().LeadTime.Phase(), 820*ms, "the phase")
	check.Equal(t, Local().LeadTime.Phase(), 0, "one machine has the phase")
}
