package core

import "fmt"

// MaxShards is the maximum number of shards of a broadcast.
const MaxShards = 1000

// Shard marks a run as a broadcast, or as one shard of a broadcast. All other runs have a zero Shard.
type Shard struct {
	// Of is the run ID of the broadcast to which this shard belongs; 0: none. A shard that is rerun alone has only
	// Index and Total.
	Of    RunID `json:"of,omitempty"`
	Index int   `json:"index,omitempty"` // counted from 0
	Total int   `json:"total,omitempty"`
	// First is the run ID of the broadcast's first shard; 0 in all other runs. The other shards have the run IDs that
	// follow. A broadcast itself is never sent. Run.Addresses of a broadcast lists the addresses of the shards.
	First RunID `json:"first,omitempty"`
	// All is true if the broadcast fails only if all shards fail.
	All bool `json:"all,omitempty"`
}

// IsBroadcast reports whether r is a broadcast: its shards are sent, but r itself is not.
func (r *Run) IsBroadcast() bool { return r.Shard.First != 0 }

// ShardEnded reports whether r is the closed last attempt of a shard. If so, all shards of the broadcast may have
// ended.
func (r *Run) ShardEnded() bool { return r.Shard.Of != 0 && !r.State.Open() && r.Then == 0 }

// EndsRow reports whether r succeeded and so ends a series of consecutive failures. It returns false if failures do
// not pause the job.
func (r *Run) EndsRow() bool { return r.PauseAfter && r.State == Succeeded }

// IDOf returns the run ID of the shard with index i. The receiver must be the Shard field of the broadcast run itself,
// because only this run sets First.
func (s Shard) IDOf(i int) RunID { return s.First + RunID(i) }

// ShardOf returns the shard of broadcast r with the run ID id; false if r has no such shard.
func (r *Run) ShardOf(id RunID) (Shard, bool) {
	i := int64(id - r.Shard.First)
	if !r.IsBroadcast() || i < 0 || i >= int64(r.Shard.Total) || i >= int64(len(r.Addresses)) {
		return Shard{}, false
	}
	return Shard{Of: r.ID, Index: int(i), Total: r.Shard.Total}, true
}

// ShardRun returns the run of a shard of broadcast r, as it is before a claim or a skip.
func (r *Run) ShardRun(id RunID) Run {
	s, _ := r.ShardOf(id)
	return Run{ID: id, App: r.App, Cause: r.Cause, Rev: r.Rev, At: r.At, Slot: r.Slot, Seq: r.Seq, Attempt: 1, First: id, Shard: s,
		Addresses: r.Addresses[s.Index:][:1:1], Params: r.Params, By: r.By, Retries: r.Retries}
}

// Spread turns a claimed run into a broadcast with one shard for each address. first is the run ID of the first
// shard, and the other shards have the run IDs that follow. Spread removes the owner, because a broadcast is never
// sent.
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

// Verdict computes the result of a broadcast from the last attempts of all its shards.
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
		return Invalid("overlap.whenFull", string(FullReplace), "broadcast runs cannot be replaced: with 'route: broadcast', set whenFull "+
			"to queue or skip")
	case d.BroadcastFail == "":
		return nil
	case d.Route != RouteBroadcast:
		return Invalid("broadcast", string(d.BroadcastFail), "allowed only with `route: broadcast`; the route of this job is "+
			"%s", d.Route)
	}
	return oneOf("broadcast.fail", d.BroadcastFail, BroadcastFails)
}
