package finish

import (
	"slices"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/protocoldoc"
)

// TestPageWatchdog: the table of section 6 on the page matches the code.
func TestPageWatchdog(t *testing.T) {
	deeds := map[fate]string{
		forget: "forget",
		mend:   "F2",
		later:  "nothing. Look again later",
		skip:   "close as skipped: changed (or paused, deleted)",
		gather: "G1 (section 10), or its row (section 5), then forget",
		free:   "its release (section 9), then forget",
		again:  "G1; shards without a run are put on the ring again. Look again later",
		lose:   `the rules of "lost" and timed out; close by F1`,
	}
	all := []core.Outcome{0, core.Begun, core.Accepted, core.Unconfirmed, core.Left}
	p := protocoldoc.After(t, "## 6. Watchdog")
	for _, c := range []struct {
		row, entry string
		runs       []core.Run
		says       []core.Outcome
		awaited    []bool
	}{
		{"no item; closed and owes nothing", "any", []core.Run{{}, {State: core.Failed}, {State: core.Skipped, Owner: "o"},
			{State: core.Failed, Then: 5, Place: 1}, {State: core.Skipped, Attempt: 1, Place: 1}}, all,
			[]bool{false, true}},
		{"closed and owes", "any", []core.Run{{State: core.Failed, Owes: []core.Owed{{}}}, {State: core.Succeeded, Place: 1},
			{State: core.Skipped, Attempt: 2, Place: 7}}, all, []bool{false, true}},
		{"closed, owes nothing, the last attempt of a shard or a success with `pauseAfter`", "any", []core.Run{
			{State: core.Succeeded, PauseAfter: true}, {State: core.Failed, Shard: core.Shard{Of: 7, Total: 1}},
			{State: core.Skipped, Shard: core.Shard{Of: 7, Total: 1}}}, all, []bool{false, true}},
		{"closed, owes nothing else, the last attempt of a chain that a limit counts", "any",
			[]core.Run{{State: core.Failed, Permit: "job/1"}, {State: core.Skipped, Permit: "app/a"}}, all, []bool{false, true}},
		{"a broadcast that is open", "any", []core.Run{{State: core.Running, Shard: core.Shard{First: 7, Total: 1}}}, all, []bool{false, true}},
		{"open", "accepted, unconfirmed", []core.Run{{State: core.Running, Owner: "o"}, {State: core.Planned}},
			[]core.Outcome{core.Accepted, core.Unconfirmed}, []bool{false, true}},
		{"open, and may yet be taken", "begun only in all that is stored, left",
			[]core.Run{{State: core.Running, Owner: "o"}, {State: core.Planned}, {State: core.Planned, MaybeSent: true}},
			[]core.Outcome{0, core.Begun, core.Left}, []bool{true}},
		{"open, else, owner empty, not maybeSent", "left", []core.Run{{State: core.Planned}}, []core.Outcome{core.Left}, []bool{false}},
		{"open, else", "begun, left", []core.Run{{State: core.Running, Owner: "o"}, {State: core.Planned, MaybeSent: true}},
			[]core.Outcome{0, core.Begun, core.Left}, []bool{false}},
		{"open, else", "begun, left", []core.Run{{State: core.Planned}}, []core.Outcome{0, core.Begun}, []bool{false}},
	} {
		var answers []string
		for i := range c.runs {
			for _, says := range c.says {
				for _, awaited := range c.awaited {
					answers = append(answers, deeds[fateOf(&c.runs[i], says, awaited)])
				}
			}
		}
		if answers = slices.Compact(answers); len(answers) > 1 {
			t.Errorf("%s: it depends: %q", c.row, answers)
		}
		p.Says(c.row, c.entry, answers[0])
	}
}
