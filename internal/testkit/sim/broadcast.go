package sim

import (
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// A broadcast is seen from outside: by the addresses that its shards arrived at, and by how they ended.

// spreads records that a run has become a broadcast. Callers hold mu.
func (t *truth) spreads(r *core.Run) {
	t.decided(r.ID)
	t.w.count("broadcast", 1)
	for i := range r.Shard.Total {
		id := r.Shard.IDOf(i)
		if of, is := t.wholes[id]; is {
			t.fail(r.ID, "run %d is a shard of run %d and of run %d", id, of, r.ID)
		}
		t.wholes[id] = r.ID
		t.story(id).born = time.Now()
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(r.Addresses)))
	if len(distinct) != r.Shard.Total || len(r.Addresses) != r.Shard.Total {
		t.fail(r.ID, "broadcast %d of %d shards goes to %v", r.ID, r.Shard.Total, r.Addresses)
	}
	if r.Cause == core.CauseManual || r.Cause == core.CauseAPI {
		return
	}
	for _, a := range apps {
		if a.name == r.App && a.fixed && len(distinct) != len(a.addresses) {
			t.fail(r.ID, "broadcast %d goes to %v, and the executors of %s are %v", r.ID, r.Addresses, r.App, a.addresses)
		}
	}
}

// spreadAgain records the shards that the watchdog puts on the ring, because the maker of their
// broadcast died before that. Callers hold mu.
func (t *truth) spreadAgain(out []ring.Out) {
	for i := range out {
		for _, f := range out[i].Message.Fires {
			if f.Of != 0 && t.story(f.Run).decided.IsZero() {
				t.story(f.Run).left = true
			}
		}
	}
}

// chainOf is the first run of the chain that holds a run's permit.
func (t *truth) chainOf(r *core.Run) core.RunID {
	if r.Shard.Of == 0 {
		return r.First
	}
	whole, _ := t.run(r.Shard.Of)
	return whole.First
}

// unsaid returns which shard of an open broadcast nothing names; empty if there is none.
func (t *truth) unsaid(r *core.Run) string {
	for i := range r.Shard.Total {
		id := r.Shard.IDOf(i)
		if !t.known[id] && t.fires[id] == 0 && t.live[id] == 0 {
			return "shard " + id.String() + " has no run and no message"
		}
	}
	return ""
}

// shardNamed reports whether an attempt of any shard of a broadcast has a message, entry or
// other trace: its actor also reaches the broadcast.
func (t *truth) shardNamed(id core.RunID) bool {
	whole, _ := t.run(id)
	for i := range whole.Shard.Total {
		for id := whole.Shard.IDOf(i); whole.IsBroadcast() && id != 0; {
			if t.fires[id] > 0 || t.otherwiseNamed(id) || t.w.calling(id) {
				return true
			}
			r, _ := t.run(id)
			id = r.Then
		}
	}
	return false
}

// broadcastEnded asserts that each shard of a broadcast came to its executor, and how and
// when the broadcast ended. Callers hold mu of the truth.
func (w *World) broadcastEnded(r *core.Run, byID map[core.RunID]*core.Run) {
	t := w.truth
	n := map[core.State]int{}
	var last time.Time
	runs := []core.RunID{r.ID}
	for i := range r.Shard.Total {
		id := r.Shard.IDOf(i)
		s := byID[id]
		if s == nil {
			t.fail(r.ID, "broadcast %d has ended, and there is no shard %d, run %d", r.ID, i, id)
			return
		}
		if s.Shard != (core.Shard{Of: r.ID, Index: i, Total: r.Shard.Total}) || s.FixedDelay || s.Permit != "" || s.PauseAfter ||
			s.Cause != r.Cause {
			t.fail(id, "shard %d of broadcast %d is %+v", i, r.ID, *s)
		}
		refused := slices.ContainsFunc(s.Tries, func(t core.Try) bool { return t.Address == r.Addresses[i] })
		if st := t.stories[id]; st != nil && len(st.arrivals) > 0 && s.Address != r.Addresses[i] && !refused {
			t.fail(id, "shard %d of broadcast %d is of %s and went to %s", i, r.ID, r.Addresses[i], s.Address)
		}
		for s.Then != 0 && byID[s.Then] != nil {
			runs = append(runs, s.ID)
			then := byID[s.Then]
			if then.Shard != s.Shard {
				t.fail(then.ID, "retry %d is of shard %+v, and follows %+v", then.ID, then.Shard, s.Shard)
			}
			s = then
		}
		runs = append(runs, s.ID)
		n[s.State]++
		if st := t.stories[s.ID]; st != nil {
			for _, at := range []time.Time{st.closed, st.decided} {
				if at.After(last) && (st.closed.IsZero() || at.Equal(st.closed)) {
					last = at
				}
			}
		}
	}
	bad := n[core.Failed] + n[core.TimedOut] + n[core.Lost]
	want := core.Failed
	switch {
	case n[core.Succeeded] == r.Shard.Total, r.Shard.All && n[core.Succeeded] > 0:
		want = core.Succeeded
	case r.KillBy != "", bad == 0 && n[core.Killed] > 0:
		want = core.Killed
	case n[core.Skipped] == r.Shard.Total:
		want = core.Skipped
	}
	if r.State != want {
		t.fail(r.ID, "broadcast %d is %s: %s, but its shards ended as %v", r.ID, r.State, r.Reason, n)
	}
	w.count("broadcast "+string(r.State), 1)
	st := t.story(r.ID)
	switch {
	case st.closed.IsZero() || last.IsZero():
		t.fail(r.ID, "the end of broadcast %d or of its shards was not seen", r.ID)
	case st.closed.Before(last):
		t.fail(r.ID, "broadcast %d was closed %s before its last shard", r.ID, last.Sub(st.closed))
	default:
		w.inTime("the end of broadcast", runs, r.App, moment, last, time.Time{}, st.closed, true)
	}
}
