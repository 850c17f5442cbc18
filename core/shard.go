package core

import "fmt"

// MaxShards is how many executors a broadcast goes to: as many as an app has.
const MaxShards = 1000

// Shard says what a run has to do with a broadcast; of most runs it is empty.
type Shard struct {
	// Of is the broadcast that the run is a shard of. A shard that is run again by itself
	// has an index and a total alone.
	Of    RunID `json:"of,omitempty"`
	Index int   `json:"index,omitempty"` // from 0
	Total int   `json:"total,omitempty"`
	// First is, of a broadcast, the ID of its first shard: those of the others follow it.
	// The run itself is never sent, and its Addresses are those of its shards.
	First RunID `json:"first,omitempty"`
	// All: the broadcast fails only where all its shards do.
	All bool `json:"all,omitempty"`
}

// IsBroadcast reports whether a run stands for its shards, and is not sent itself.
func (r *Run) IsBroadcast() bool { return r.Shard.First != 0 }

// ShardEnded reports whether a run was the last attempt of a shard: whoever finds it so
// sees whether its broadcast is over.
func (r *Run) ShardEnded() bool { return r.Shard.Of != 0 && !r.State.Open() && r.Then == 0 }

// EndsRow reports whether r ends the failures in a row of its job.
func (r *Run) EndsRow() bool { return r.PauseAfter && r.State == Succeeded }

// IDOf is the ID of shard i of a broadcast.
func (s Shard) IDOf(i int) RunID { return s.First + RunID(i) }

// ShardOf is what a shard of a broadcast is, by its ID; false where it is none of its.
func (r *Run) ShardOf(id RunID) (Shard, bool) {
	i := int64(id - r.Shard.First)
	if !r.IsBroadcast() || i < 0 || i >= int64(r.Shard.Total) || i >= int64(len(r.Addresses)) {
		return Shard{}, false
	}
	return Shard{Of: r.ID, Index: int(i), Total: r.Shard.Total}, true
}

// ShardRun is the record of a shard of a broadcast before it is claimed or skipped.
func (r *Run) ShardRun(id RunID) Run {
	s, _ := r.ShardOf(id)
	return Run{ID: id, App: r.App, Cause: r.Cause, Rev: r.Rev, At: r.At, Slot: r.Slot, Seq: r.Seq, Attempt: 1, First: id, Shard: s,
		Addresses: r.Addresses[s.Index:][:1:1], Params: r.Params, By: r.By, Retries: r.Retries}
}

// Spread makes a broadcast of a run that is claimed: first is the ID of its first shard.
// Nobody owns it, for it is never sent.
func (r *Run) Spread(first RunID, addresses []string, all bool) {
	r.State, r.Owner, r.Address = Running, "", ""
	r.Addresses, r.Shard = addresses, Shard{Total: len(addresses), First: first, All: all}
}

// ShardFires are the fires of all shards of a broadcast.
func (r *Run) ShardFires() []Fire {
	list := make([]Fire, r.Shard.Total)
	for i := range list {
		list[i] = r.Fire()
		list[i].Run, list[i].Of = r.Shard.IDOf(i), r.ID
	}
	return list
}

// Verdict is how a broadcast ends whose shards ended so, each with its last attempt.
func (s Shard) Verdict(ends []Run) (state State, reason Reason, message string) {
	n, failures := map[State]int{}, 0
	for i := range ends {
		n[ends[i].State]++
		if ends[i].State.Failure() {
			failures++
		}
	}
	message = fmt.Sprintf("%d of %d shards succeeded", n[Succeeded], len(ends))
	for _, what := range []State{Failed, TimedOut, Lost, Killed, Skipped} {
		if n[what] > 0 {
			message += fmt.Sprintf(", %d %s", n[what], what)
		}
	}
	switch {
	case n[Succeeded] == len(ends), s.All && n[Succeeded] > 0:
		return Succeeded, "", message
	case failures > 0:
		return Failed, ReasonShards, message
	case n[Killed] > 0:
		return Killed, ReasonPerson, message
	case n[Skipped] == len(ends):
		return Skipped, ends[0].Reason, message
	}
	return Failed, ReasonShards, message
}

func (d *Def) validateBroadcast() error {
	switch {
	case d.Route == RouteBroadcast && d.Overlap.Full == FullReplace:
		return Invalid("overlap.full", string(FullReplace), "broadcast runs cannot be replaced: with route: broadcast use queue or skip")
	case d.BroadcastFail == "":
		return nil
	case d.Route != RouteBroadcast:
		return Invalid("broadcast", string(d.BroadcastFail), "only for route: broadcast, but the route of this job is %s", d.Route)
	}
	return oneOf("broadcast.fail", d.BroadcastFail, BroadcastFails)
}
