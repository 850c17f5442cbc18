package core

import "fmt"

// MaxShards is the maximum number of shards of a broadcast, equal to an app's maximum of executors.
const MaxShards = 1000

// Shard links a run with a broadcast; it is empty for most runs.
type Shard struct {
	// Of is the broadcast that contains this shard. A shard that is rerun alone has only Index and Total.
	Of    RunID `json:"of,omitempty"`
	Index int   `json:"index,omitempty"` // counted from 0
	Total int   `json:"total,omitempty"`
	// First is set in a broadcast: the ID of its first shard. The IDs of the other shards follow. A
	// broadcast itself is never sent, and its Addresses are the addresses of its shards.
	First RunID `json:"first,omitempty"`
	// All is true if the broadcast fails only when all shards fail.
	All bool `json:"all,omitempty"`
}

// IsBroadcast reports whether a run represents its shards and is not sent itself.
func (r *Run) IsBroadcast() bool { return r.Shard.First != 0 }

// ShardEnded reports whether a run is the closed last attempt of a shard. Then the broadcast may
// be over.
func (r *Run) ShardEnded() bool { return r.Shard.Of != 0 && !r.State.Open() && r.Then == 0 }

// EndsRow reports whether r ends the consecutive failures of its job.
func (r *Run) EndsRow() bool { return r.PauseAfter && r.State == Succeeded }

// IDOf returns the ID of shard i of a broadcast.
func (s Shard) IDOf(i int) RunID { return s.First + RunID(i) }

// ShardOf returns the shard with this ID; false if the broadcast has no shard with the ID.
func (r *Run) ShardOf(id RunID) (Shard, bool) {
	i := int64(id - r.Shard.First)
	if !r.IsBroadcast() || i < 0 || i >= int64(r.Shard.Total) || i >= int64(len(r.Addresses)) {
		return Shard{}, false
	}
	return Shard{Of: r.ID, Index: int(i), Total: r.Shard.Total}, true
}

// ShardRun returns the record of a shard before it is claimed or skipped.
func (r *Run) ShardRun(id RunID) Run {
	s, _ := r.ShardOf(id)
	return Run{ID: id, App: r.App, Cause: r.Cause, Rev: r.Rev, At: r.At, Slot: r.Slot, Seq: r.Seq, Attempt: 1, First: id, Shard: s,
		Addresses: r.Addresses[s.Index:][:1:1], Params: r.Params, By: r.By, Retries: r.Retries}
}

// Spread turns a claimed run into a broadcast. first is the ID of the first shard; the other shards have the following IDs. A broadcast has
// no owner, because it is never sent.
func (r *Run) Spread(first RunID, addresses []string, all bool) {
	r.State, r.Owner, r.Address = Running, "", ""
	r.Addresses, r.Shard = addresses, Shard{Total: len(addresses), First: first, All: all}
}

// ShardFires returns the fires of all shards of a broadcast.
func (r *Run) ShardFires() []Fire {
	list := make([]Fire, r.Shard.Total)
	for i := range list {
		list[i] = r.Fire()
		list[i].Run, list[i].Of = r.Shard.IDOf(i), r.ID
	}
	return list
}

// Verdict returns the result of a broadcast from the last attempts of its shards.
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
		return Invalid("overlap.whenFull", string(FullReplace), "broadcast runs cannot be replaced: with route: broadcast use queue or skip")
	case d.BroadcastFail == "":
		return nil
	case d.Route != RouteBroadcast:
		return Invalid("broadcast", string(d.BroadcastFail), "allowed only with `route: broadcast`; the route of this job is "+
			"%s", d.Route)
	}
	return oneOf("broadcast.fail", d.BroadcastFail, BroadcastFails)
}
