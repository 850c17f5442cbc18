package manage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

// An edit is one change of one job in progress: docs/internals/claim-protocol.md 4.
type edit struct {
	old  *core.Job // as read; nil for a new job
	want core.Job
	verb string
	by   core.Actor
	why  string
	at   time.Time
	// edges is store.JobUpdate.Edges.
	edges int64
	// source is the source of a new script version; empty: the version stays.
	source string
}

// newEdit begins a change of a job as read; want is a copy with the next revision.
func newEdit(old *core.Job, actor core.Actor, verb, why string, now time.Time) *edit {
	e := &edit{old: old, want: *old, verb: verb, by: actor, why: why, at: now}
	e.want.Sched.Rev, e.want.Sched.RevAt = core.NextRev(old.Sched.Rev, old.Sched.RevAt, now)
	return e
}

func (e *edit) change() core.Change {
	d := &e.want.Def
	c := e.by.Did(core.Change{ID: e.want.Sched.Rev, At: e.at, Verb: e.verb, App: d.App, Job: d.ID, Name: d.Name, Why: e.why,
		New: core.RecordOf(&e.want.Sched, d).String()})
	if e.old != nil {
		c.Old = core.RecordOf(&e.old.Sched, &e.old.Def).String()
	}
	return c
}

// commit stores edits and returns one error for each. It first stores the records of due runs, and skips an edit whose record
// cannot be stored. Each job gets its current partition: a paused job has none, and an old partition may not be read.
func (m *Manage) commit(ctx context.Context, edits []*edit, g core.Global) []error {
	out := make([]error, len(edits))
	var skips []core.Skip
	var skipOf []int
	for i, e := range edits {
		e.want.Sched.Partition = core.PartitionOf(e.want.Def.ID, g.Partitions)
		if e.old == nil {
			continue
		}
		reason := core.ReasonChanged
		if e.want.Sched.State == core.Paused && e.old.Sched.State != core.Paused {
			reason = core.ReasonPaused
		}
		skip, some, err := plan.Dropped(&e.old.Sched, e.want.Sched.RevAt, reason)
		if err == nil && some {
			skips, skipOf = append(skips, skip), append(skipOf, i)
		}
		// An unreadable schedule has no due times, and this edit is how a user repairs it.
	}
	inParts(ctx, skips, m.store.PutSkips, func(k int, err error) { out[skipOf[k]] = err })
	m.putScripts(ctx, edits, out)

	for _, creates := range []bool{true, false} {
		var puts []store.JobPut
		var of []int
		for i, e := range edits {
			if out[i] == nil && (e.old == nil) == creates {
				puts, of = append(puts, e.put()), append(of, i)
			}
		}
		inParts(ctx, puts, m.store.Jobs.Put, func(k int, err error) { out[of[k]] = err })
	}
	var changed []core.JobID
	for i, e := range edits {
		if out[i] == nil && e.old != nil {
			changed = append(changed, e.want.Def.ID)
		}
	}
	m.finish.WakeJobs(ctx, changed...)
	return out
}

// put returns the write of the edit.
func (e *edit) put() store.JobPut {
	put := store.JobPut{Changes: []core.Change{e.change()}}
	if e.old == nil {
		put.Create = &e.want
	} else {
		put.Update = &store.JobUpdate{Seen: e.old.Sched.Rev, SeenTail: e.old.Sched.Tail, Edges: e.edges, Job: e.want}
	}
	return put
}

// inParts writes a list in parts of budget.AtOnce; answer gets the error of each item.
func inParts[T any](ctx context.Context, list []T, write func(context.Context, []T) []error, answer func(k int, err error)) {
	k := 0
	for part := range slices.Chunk(list, budget.AtOnce) {
		for _, err := range write(ctx, part) {
			answer(k, err)
			k++
		}
	}
}

// mine reports whether one of the attempts wrote the job as read, so that its lost answer was a success.
func mine(found *core.Job, attempts []core.Job) bool {
	for i := range attempts {
		if f, a := &found.Sched, &attempts[i].Sched; f.Rev == a.Rev && f.RevAt.Equal(a.RevAt) && found.Def.Equal(attempts[i].Def) &&
			f.Schedule.Equal(a.Schedule) && (f.State == core.Paused) == (a.State == core.Paused) &&
			f.PauseUntil == a.PauseUntil && f.PauseBy == a.PauseBy && f.PauseWhy == a.PauseWhy {
			return true
		}
	}
	return false
}

// toPlan is a changed job that may be due to be planned.
type toPlan struct {
	s   core.Sched
	sch *schedule.Schedule
}

// duePlan reports whether a job is due to be planned. A paused job is planned after the end of its pause only.
func duePlan(s *core.Sched, now time.Time) bool {
	ends := s.PauseUntil != 0 && s.PausedAt(now)
	return (s.State == core.Started || ends) && s.PlanAt != 0 && s.PlanAt <= core.InstantOf(now)
}

// planNow plans jobs until their PlanAt is in the future. After an error, the tick plans a job from the due index.
func (m *Manage) planNow(ctx context.Context, jobs []toPlan) {
	for range budget.PlanPasses {
		now := m.ask.Now()
		var fires []core.Fire
		var skips []core.Skip
		results := make([]plan.Result, 0, len(jobs))
		var next []toPlan
		tails := m.tails(ctx, jobs, now)
		for _, j := range jobs {
			if !duePlan(&j.s, now) {
				continue
			}
			r := plan.Job(j.s, j.sch, now, m.plans)
			if j.s.Tail != 0 {
				fire, ok := tails[j.s.Tail]
				if !ok {
					continue // its chain has ended or is unread: left to the tick
				}
				if fire.Run != 0 {
					fire.Slot = m.plans.DelaySlot(j.s.ID, j.sch, fire.At)
					r.Fires = []core.Fire{fire}
				}
			}
			if len(r.Fires) == 0 && len(r.Skips) == 0 && r.Advance == j.s.Stay() {
				continue
			}
			fires, skips = append(fires, r.Fires...), append(skips, r.Skips...)
			results, next = append(results, r), append(next, j)
		}
		if len(results) == 0 {
			return
		}
		stuck := map[core.JobID]bool{}
		inParts(ctx, skips, m.store.PutSkips, func(k int, err error) {
			if err != nil {
				stuck[skips[k].Job] = true
			}
		})
		out := plan.Pack(fires, ring.MaxFires, m.plans.LeadTime.Of)
		if len(out) > 0 {
			for k, err := range m.store.Queue.Enqueue(ctx, out) {
				if err != nil {
					for _, f := range out[k].Message.Fires {
						stuck[f.Run.Job()] = true
					}
				}
			}
		}
		moves := make([]core.Advance, 0, len(results))
		at := make([]int, 0, len(results))
		for i, r := range results {
			if !stuck[r.Advance.Job] {
				moves, at = append(moves, r.Advance), append(at, i)
			}
		}
		jobs = jobs[:0:0]
		inParts(ctx, moves, m.store.Advance, func(k int, err error) {
			if err == nil {
				j := next[at[k]]
				j.s = j.s.Moved(moves[k])
				jobs = append(jobs, j)
			}
		})
	}
}

// tails returns the fire to send again under the new revision for each fixed-delay job with an open chain. The fire is empty if
// the chain's first run was already sent. Ended chains have none.
func (m *Manage) tails(ctx context.Context, jobs []toPlan, now time.Time) map[core.RunID]core.Fire {
	var ids []core.RunID
	for _, j := range jobs {
		if j.s.Tail != 0 && j.s.State == core.Started && j.s.PlanAt != 0 && j.s.PlanAt <= core.InstantOf(now) {
			ids = append(ids, j.s.Tail)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	fires := make(map[core.RunID]core.Fire, len(ids))
	found := map[core.RunID]store.Got[*core.Run]{}
	for part := range slices.Chunk(ids, budget.AtOnce) {
		some, err := m.store.Runs.Get(ctx, part)
		for _, id := range part {
			if g, is := some[id]; is || err != nil {
				found[id] = store.Got[*core.Run]{Is: g.Is, Err: cmp.Or(err, g.Err)}
			}
		}
	}
	for _, j := range jobs {
		id := j.s.Tail
		at, planned := id.Planned()
		if id == 0 || !planned {
			continue
		}
		g, exists := found[id]
		switch r := g.Is; {
		case g.Err != nil, exists && !r.State.Open():
		case exists && (r.Owner != "" || r.MaybeSent):
			fires[id] = core.Fire{}
		default:
			fires[id] = core.Fire{Run: id, Rev: j.s.Rev, At: at, Slot: at, Cause: core.CauseSchedule, Seq: max(j.s.Seq-1, 0)}
		}
	}
	return fires
}
