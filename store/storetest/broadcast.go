package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
)

// broadcasts: the fields of a broadcast and its shards are stored, even with a thousand
// addresses. If two writers spread one run, one succeeds, and a cancel by an earlier read fails.
func broadcasts(t *testing.T, h Harness) {
	s := h.Open(t)
	id := ids(4)
	many := make([]string, core.MaxShards)
	for i := range many {
		many[i] = fmt.Sprintf("http://executor-%d.example:9999/", i)
	}
	whole := run(id[0])
	whole.Spread(core.NumberedRun(whole.ID.Job(), 5), many, true)
	shard := run(id[1])
	shard.Shard = core.Shard{Of: whole.ID, Index: 7, Total: core.MaxShards}
	ok(t, s.CreateRuns(t.Context(), []core.Run{whole, shard})...)
	sameRun(t, s, whole)
	sameRun(t, s, shard)

	waits := put(t, s, id[2], unowned)
	spread := func(n uint32) core.RunPut {
		p := waits.Take(core.Claim{Owner: "nonce-9", Until: base.Add(time.Minute)}, "", base, nil)
		p.To.Spread(core.NumberedRun(waits.ID.Job(), n), many[:2], false)
		p.Set |= core.RunGiven
		return p
	}
	first := spread(5)
	judge(t, s, []core.RunPut{first}, "ok")
	cancel := core.End(waits.ID, core.Run{State: core.Skipped, Reason: core.ReasonCancelled, EndedAt: base})
	cancel.If, cancel.Was = core.RunOwner|core.RunMaybeSent|core.RunState, waits
	judge(t, s, []core.RunPut{spread(9), waits.SkipUnsent(core.ReasonChanged, base), cancel}, "refused", "refused", "refused")
}
