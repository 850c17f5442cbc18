package finish

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
)

// Number of shards that are read together. The next nearShards are read first, because usually
// one of them is still open.
const (
	nearShards = 4
	someShards = 100
)

// DrawShards allocates the run IDs for the shards of run, and makes run a broadcast to addresses. DrawShards uses at most
// core.MaxShards addresses.
func (f *Finish) DrawShards(ctx context.Context, run *core.Run, addresses []string, all bool) error {
	addresses = addresses[:min(len(addresses), core.MaxShards)]
	n, err := f.s.RunNumbers(ctx, run.ID.Job(), len(addresses))
	if err != nil {
		return fmt.Errorf("allocate IDs for the shards of run %d: %w", run.ID, err)
	}
	run.Spread(core.NumberedRun(run.ID.Job(), n), addresses, all)
	return nil
}

// Spread enqueues the runs of a broadcast's shards on the delay queue. Duplicates in the queue are harmless.
func (f *Finish) Spread(ctx context.Context, fires []core.Fire) error {
	out := plan.Pack(fires, ring.MaxFires, nil)
	for i, err := range f.s.Queue.Enqueue(ctx, out) {
		if err != nil {
			err = f.enqueue(ctx, out[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shardEnded closes the broadcast if its last shard has ended. If another shard is open, that
// shard closes it.
func (f *Finish) shardEnded(ctx context.Context, run *core.Run) error {
	s := run.Shard
	first := run.First - core.RunID(s.Index)
	var near []core.RunID
	for i := 1; i <= min(nearShards, s.Total-1); i++ {
		near = append(near, first+core.RunID((s.Index+i)%s.Total))
	}
	if _, over, missing, err := f.shards(ctx, near); err != nil || !over && len(missing) == 0 {
		return err
	}
	whole, err := f.s.Run(ctx, s.Of)
	if err != nil {
		return fmt.Errorf("read broadcast %d: %w", s.Of, err)
	}
	switch {
	case whole == nil || !whole.State.Open() && !whole.Owing():
		return nil
	case !whole.State.Open():
		return f.Mend(ctx, whole)
	}
	return f.gather(ctx, whole, false)
}

// lostAfter is the age at which a shard without a run is enqueued again. It had no run before:
// the stores keep the runs of shards while their broadcast is open.
const lostAfter = 5 * time.Minute

// gather closes a broadcast whose shards have all ended. If again is set, or after lostAfter, it
// enqueues shards without a run again, because the ring may have lost them.
func (f *Finish) gather(ctx context.Context, whole *core.Run, again bool) error {
	ids := make([]core.RunID, whole.Shard.Total)
	for i := range ids {
		ids[i] = whole.Shard.IDOf(i)
	}
	again = again || f.o.Now().Sub(whole.SentAt) > lostAfter
	var ends []core.Run
	all := true
	for some := range slices.Chunk(ids, someShards) {
		list, over, missing, err := f.shards(ctx, some)
		if err != nil {
			return err
		}
		if all = all && over; !all && !again {
			return nil
		}
		if again && len(missing) > 0 {
			fires := slices.DeleteFunc(whole.ShardFires(), func(fire core.Fire) bool { return !slices.Contains(missing, fire.Run) })
			if err := f.Spread(ctx, fires); err != nil {
				return err
			}
		}
		ends = append(ends, list...)
	}
	if !all {
		return nil
	}
	state, reason, message := whole.Shard.Verdict(ends)
	return f.End(ctx, []Result{{Run: whole.ID, State: state, Reason: reason, Message: message, Seen: whole}})[0]
}

// SkipShards records the shards in ids as skipped, with the reason cancelled and the given message. A shard that a dispatcher
// claimed at the same time is not changed. The parameter whole is the broadcast run.
func (f *Finish) SkipShards(ctx context.Context, whole *core.Run, ids []core.RunID, message string) error {
	var first *core.Run
	for some := range slices.Chunk(ids, inJournal) {
		key, err := f.journal(ctx, some)
		if err != nil {
			return err
		}
		skips := make([]core.Run, len(some))
		for i, id := range some {
			r := whole.ShardRun(id)
			r.State, r.Reason, r.Message, r.EndedAt, r.Journal = core.Skipped, core.ReasonCancelled, message, f.o.Now(), key
			skips[i] = r
		}
		if _, err := f.create(ctx, skips); err != nil {
			return err
		}
		first = &skips[0]
	}
	if first == nil {
		return nil
	}
	return f.shardEnded(ctx, first)
}

// shards reads the last attempts of shards, in order. over is false if one is open, has no run,
// or has a pending retry. missing lists the shards without a run.
func (f *Finish) shards(ctx context.Context, ids []core.RunID) (ends []core.Run, over bool, missing []core.RunID, err error) {
	ends, err = f.s.LastAttempts(ctx, ids)
	if err != nil {
		return nil, false, nil, fmt.Errorf("read shards: %w", err)
	}
	over = true
	for i := range ends {
		over = over && ends[i].ID != 0 && !ends[i].State.Open() && ends[i].Then == 0
		if ends[i].ID == 0 {
			missing = append(missing, ids[i])
		}
	}
	return ends, over, missing, nil
}
