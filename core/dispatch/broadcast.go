package dispatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/route"
	"github.com/tickring/tickring/store"
)

// broadcasts reads the broadcasts of all shards in the batch. If one is closed, the pending follow-ups of it and of its
// shard are done here: the process that closed it may have died, and the message may be the last trace. unmade lists
// the shards for which that failed.
func (b *batch) broadcasts(ctx context.Context, runs map[core.RunID]store.Got[*core.Run]) (
	list map[core.RunID]store.Got[*core.Run], unmade map[core.RunID]bool, err error,
) {
	of := map[core.RunID]core.RunID{}
	for _, it := range b.items {
		if id := it.broadcast(runs); id != 0 {
			of[it.fire.Run] = id
		}
	}
	if list, err = readAll(ctx, distinct(slices.Collect(maps.Values(of))), b.d.store.Runs.Get); err != nil {
		return nil, nil, err
	}
	var over []core.RunID
	for shard, id := range of {
		if whole := list[id]; whole.Err == nil && whole.Is != nil && !whole.Is.State.Open() {
			over = append(over, shard)
		}
	}
	shards, err := readAll(ctx, over, b.d.store.Runs.Get)
	if err != nil {
		return nil, nil, err
	}
	unmade = map[core.RunID]bool{}
	for _, id := range over {
		for _, r := range []store.Got[*core.Run]{shards[id], list[of[id]]} {
			if r.Err != nil || r.Is != nil && r.Is.Owing() && b.d.finish.Mend(ctx, new(*r.Is)) != nil {
				unmade[id] = true
			}
		}
	}
	return list, unmade, nil
}

// broadcast returns the ID of the broadcast of a shard; 0: the item is not a shard.
func (it *item) broadcast(runs map[core.RunID]store.Got[*core.Run]) core.RunID {
	if r := runs[it.fire.Run]; it.fire.Of == 0 && r.Err == nil && r.Is != nil {
		return r.Is.Shard.Of
	}
	return it.fire.Of
}

// shard sets the broadcast of a shard.
func (k *known) shard(it *item) phase {
	id := it.broadcast(k.runs)
	if id == 0 {
		return undecided{}
	}
	of, is := k.broadcasts[id]
	switch {
	case !is:
		return undeliverable{why: "no record exists of run " + id.String() + ", the broadcast of this shard"}
	case of.Err != nil:
		return passing{why: of.Err}
	case k.unmade[it.fire.Run]:
		return settled(core.Left)
	case !of.Is.State.Open(): // then all its shards are closed too
		return done{}
	}
	it.of = of.Is
	if _, is := it.of.ShardOf(it.fire.Run); !is && !it.recorded {
		return undeliverable{why: "run " + it.fire.Run.String() + " is not a shard of run " + id.String()}
	}
	return undecided{}
}

// judgeShard is table J for a shard, whose broadcast was evaluated before. It never returns fallsSilently: a broadcast
// ends only when each shard has a closed run.
func judgeShard(f *core.Fire, of *core.Run, sched *core.Sched, gone bool, pauses [2]stops, now time.Time) (falls, core.Reason) {
	old := f.Cause.Planned() && f.Rev < sched.Rev
	retry, at := f.Cause == core.CauseRetry, f.At.Time()
	paused := false
	for _, p := range pauses {
		paused = paused || f.Cause != core.CauseManual && p.last.Covers(now) ||
			f.Cause.Planned() && (p.last.Covers(at) || p.past.Covers(at) || at.Before(p.past.From))
	}
	switch {
	case gone:
		return fallsRecorded, core.ReasonDeleted
	case of.KillBy != "":
		return fallsRecorded, core.ReasonCancelled
	case paused, old && sched.State == core.Paused, retry && sched.PausedAt(now):
		return fallsRecorded, core.ReasonPaused
	case old:
		return fallsRecorded, core.ReasonChanged
	}
	return sends, ""
}

// shardOrder returns the addresses for a shard: first its own executor. If executors queue the runs of the job, the others follow
// from its index on. If its own executor is gone at a retry, the executor at its index takes over, or the first one.
func (b *batch) shardOrder(it *item) []string {
	s, addresses := it.run.Shard, it.run.Addresses
	if s.Total == 0 {
		s, _ = it.of.ShardOf(it.fire.Run)
		addresses = it.of.Addresses[s.Index:]
	}
	own, live := first(addresses), b.live[it.job.Def.App]
	byHand := it.of.Cause == core.CauseManual || it.of.Cause == core.CauseAPI // it may have been sent to other addresses
	if it.run.Attempt > 1 && !byHand && len(live) > 0 && !slices.Contains(live, own) {
		own = route.Shard(live, s.Index)
	}
	order, others := ownOrder(own), live
	switch {
	case own == "" || it.job.Def.Command != nil, it.job.Def.Block != core.BlockSerial: // others would drop it, or end their own shard
		return order
	case byHand:
		others = it.of.Addresses
	}
	at := min(s.Index+1, len(others))
	for _, address := range slices.Concat(others[at:], others[:at]) {
		if address != own {
			order = append(order, address)
		}
	}
	return order
}

// broadcast allocates the shards of claims whose job is a broadcast; they are stored with the claim. If no executor is
// available, the claim is an ordinary run, which fails. It returns the writes to make now.
func (b *batch) broadcast(ctx context.Context, list []*write) []*write {
	var claims []*write
	for _, w := range list {
		run, was := w.claim()
		if run != nil && w.it.of == nil && route.All(w.it.job.Def.Route) && was.Shard.Total == 0 && !was.MayHaveBeenSent() &&
			len(w.it.order) > 0 {
			claims = append(claims, w)
		}
	}
	store.AtOnce(len(claims), func(i int) {
		w := claims[i]
		run, _ := w.claim()
		if err := b.d.finish.DrawShards(ctx, run, w.it.order, w.it.job.Def.BroadcastFail == core.BroadcastFailAll); err != nil {
			w.dropped, w.it.phase = true, passing{why: err}
		} else if w.put != nil {
			w.put.Set = w.put.Set&^core.RunPermit | core.RunGiven
		}
	})
	return kept(list)
}

// spread enqueues the runs of the shards of a broadcast.
func (b *batch) spread(ctx context.Context, it *item) phase {
	if err := b.d.finish.Spread(ctx, it.run.ShardFires()); err != nil {
		return passing{why: err}
	}
	return done{}
}
