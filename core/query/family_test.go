package query_test

import (
	"testing"

	"github.com/tickring/tickring/core"
)

// TestShards: the shards of a broadcast are listed in order, each by its last attempt. A shard without a run has only Shard.
func TestShards(t *testing.T) {
	f := newFixture(t)
	whole := core.Run{ID: core.NumberedRun(1, 1), App: "shop", State: core.Running, Cause: core.CauseManual, Attempt: 1}
	first, retry := core.NumberedRun(1, 2), core.NumberedRun(1, 9)
	whole.Spread(first, []string{"http://a/", "http://b/", "http://c/"}, false)
	failed, again, second := whole.ShardRun(first), whole.ShardRun(first), whole.ShardRun(first+1)
	failed.State, failed.Then = core.Failed, retry
	again.ID, again.Attempt, again.State = retry, 2, core.Running
	second.State = core.Running
	f.Put(whole, failed, again, second)
	list, err := f.M.Shards(ctx, &whole)
	if err != nil || len(list) != 3 || list[0].ID != retry || list[1].ID != first+1 || list[2].ID != 0 ||
		list[2].Shard != (core.Shard{Of: whole.ID, Index: 2, Total: 3}) {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := f.M.Shards(ctx, &second); err != nil || list != nil {
		t.Errorf("shards of a shard: %+v, %v", list, err)
	}
}
