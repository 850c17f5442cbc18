package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/engine"
)

// Jobs implements dispatch.Store, finish.Store and query.Store.
func (s *Store) Jobs(ctx context.Context, jobs []core.JobID) (map[core.JobID]*core.Job, []core.JobID, error) {
	found, err := pick(ctx, s, jobs, s.jobs, func(j *core.Job) *core.Job {
		c := copyJob(j)
		return &c
	})
	return found, nil, err
}

// Scheds implements tick.Store and finish.Store.
func (s *Store) Scheds(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Sched, []core.JobID, error) {
	found, err := pick(ctx, s, jobs, s.jobs, copySched)
	return found, nil, err
}

// Tombstones implements dispatch.Store, finish.Store and query.Store.
func (s *Store) Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error) {
	return pick(ctx, s, jobs, s.tombs, same)
}

// ListTombstones implements query.Store.
func (s *Store) ListTombstones(ctx context.Context, after core.JobID, limit int) (list []core.Tombstone, err error) {
	err = s.one(ctx, func() error {
		for _, id := range slices.Sorted(maps.Keys(s.tombs)) {
			if id > after && len(list) < limit {
				list = append(list, copyTombstone(s.tombs[id]))
			}
		}
		return nil
	})
	return list, err
}

// JobIDs implements query.Store.
func (s *Store) JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error) {
	found := make(map[string]core.JobID, len(names))
	err := s.one(ctx, func() error {
		for _, n := range names {
			if id, ok := s.names[jobName{app, n}]; ok {
				found[n] = id
			}
		}
		return nil
	})
	return found, err
}

// ListJobs implements query.Store.
func (s *Store) ListJobs(ctx context.Context, app string, after core.JobID, limit int) (list []core.Job, next core.JobID, err error) {
	err = s.one(ctx, func() error {
		for id := range s.jobIDs.up(after + 1) {
			if len(list) >= limit {
				next = list[limit-1].Def.ID
				break
			}
			if j := s.jobs[id]; app == "" || j.Def.App == app {
				list = append(list, copyJob(j))
			}
		}
		return nil
	})
	return list, next, err
}

// NewJobIDs implements manage.Store.
func (s *Store) NewJobIDs(ctx context.Context, n int) (first core.JobID, err error) {
	err = s.one(ctx, func() error {
		first = s.lastJob + 1
		s.lastJob += core.JobID(n)
		return nil
	})
	return first, err
}

// Numbers implements finish.Store and operate.Store. The first number of a job is 1.
func (s *Store) Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error) {
	err = s.one(ctx, func() error {
		first = s.counters[job] + 1
		s.counters[job] += uint32(n)
		return nil
	})
	return first, err
}

// dueOf is the entry of a job in the due index; false if it has none.
func dueOf(j *core.Job) (core.DueItem, bool) {
	return core.DueItem{PlanAt: j.Sched.PlanAt, Job: j.Sched.ID, Partition: j.Sched.Partition}, j.Sched.PlanAt > 0
}

func (s *Store) index(d core.DueItem) {
	o := s.due[d.Partition]
	if o == nil {
		o = newOrdered(core.DueItem.Less)
		s.due[d.Partition] = o
	}
	o.insert(d)
}

func (s *Store) unindex(d core.DueItem) {
	if o := s.due[d.Partition]; o != nil {
		o.remove(d)
	}
}

// put stores a job in place of old (nil: no earlier job).
func (s *Store) put(old *core.Job, j core.Job) {
	s.drop(old)
	c := copyJob(&j)
	s.jobs[c.Def.ID] = &c
	s.names[jobName{c.Def.App, c.Def.Name}] = c.Def.ID
	s.jobIDs.insert(c.Def.ID)
	if d, ok := dueOf(&c); ok {
		s.index(d)
	}
}

func (s *Store) drop(old *core.Job) {
	if old == nil {
		return
	}
	if d, ok := dueOf(old); ok {
		s.unindex(d)
	}
	delete(s.names, jobName{old.Def.App, old.Def.Name})
	s.jobIDs.remove(old.Def.ID)
	delete(s.jobs, old.Def.ID)
}

// CreateJobs implements manage.Store.
func (s *Store) CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error {
	i := -1
	return each(ctx, s, jobs, func(j *core.Job) error {
		i++
		_, in := s.records[engine.KindApp][j.Def.App]
		_, named := s.names[jobName{j.Def.App, j.Def.Name}]
		_, gone := s.tombs[j.Def.ID]
		if !in || named || gone || s.jobs[j.Def.ID] != nil {
			return core.ErrRefused
		}
		if err := s.link(core.Links(j.Def.ID, nil, j.Def.After)); err != nil {
			return err
		}
		j.Def.Children = nil
		s.put(nil, *j)
		if i < len(changes) {
			s.change(changes[i])
		}
		return nil
	})
}

// UpdateJobs implements manage.Store. A name that another job has is rejected too.
func (s *Store) UpdateJobs(ctx context.Context, updates []manage.Update) []error {
	return each(ctx, s, updates, func(u *manage.Update) error {
		old := s.jobs[u.Job.Def.ID]
		if old == nil || old.Sched.Rev != u.Seen || old.Sched.Tail != u.SeenTail {
			return core.ErrRefused
		}
		u.Job.Sched.Seq = max(u.Job.Sched.Seq, old.Sched.Seq)
		if id, ok := s.names[jobName{u.Job.Def.App, u.Job.Def.Name}]; ok && id != u.Job.Def.ID {
			return core.ErrRefused
		}
		links := core.Links(old.Def.ID, old.Def.After, u.Job.Def.After)
		edge := len(old.Def.Children) > 0 && slices.ContainsFunc(links, func(l core.Link) bool { return l.When != "" })
		if edge && u.Edges != s.edges+1 {
			return core.ErrRefused
		}
		if err := s.link(links); err != nil {
			return err
		}
		if edge {
			s.edges++
		}
		u.Job.Def.Children = old.Def.Children
		s.put(old, u.Job)
		s.change(u.Change)
		return nil
	})
}

// DeleteJob implements manage.Store.
func (s *Store) DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error {
	return s.one(ctx, func() error {
		old := s.jobs[t.Job]
		if old == nil || old.Sched.Rev != seen || len(old.Def.Children) > 0 {
			return core.ErrRefused
		}
		if err := s.link(core.Links(t.Job, old.Def.After, nil)); err != nil {
			return err
		}
		s.drop(old)
		s.tombs[t.Job] = copyTombstone(t)
		s.change(c)
		return nil
	})
}

// Advance implements tick.Store, finish.Store and manage.Store. Sched.Moved computes the new state.
func (s *Store) Advance(ctx context.Context, moves []core.Advance) []error {
	return each(ctx, s, moves, func(a *core.Advance) error {
		j := s.jobs[a.Job]
		if j == nil || j.Sched.Rev != a.Rev || j.Sched.Next != a.Next || j.Sched.Tail != a.Tail {
			return core.ErrRefused
		}
		if d, ok := dueOf(j); ok {
			s.unindex(d)
		}
		j.Sched = j.Sched.Moved(*a)
		j.Sched.RevAt = milli(j.Sched.RevAt)
		if a.Change != nil {
			s.change(*a.Change)
		}
		if d, ok := dueOf(j); ok {
			s.index(d)
		}
		return nil
	})
}

// Due implements tick.Store; it always includes the latest writes.
func (s *Store) Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error) {
	var items []core.DueItem
	err := s.one(ctx, func() error {
		o := s.due[partition]
		if o == nil {
			return nil
		}
		for d := range o.up(after) {
			if d.PlanAt > upTo || len(items) >= limit {
				break
			}
			if after.Less(d) {
				items = append(items, d)
			}
		}
		return nil
	})
	return items, err
}

// PutEntries implements finish.Store.
func (s *Store) PutEntries(ctx context.Context, entries []core.DueItem) []error {
	return each(ctx, s, entries, func(d *core.DueItem) error {
		s.putEntry(*d)
		return nil
	})
}

func (s *Store) putEntry(d core.DueItem) {
	job := d.Run.Job()
	if s.entries[job] == nil {
		s.entries[job] = map[core.DueItem]struct{}{}
	}
	s.entries[job][d] = struct{}{}
	s.index(d)
}

// RemoveEntries implements tick.Store, operate.Store and manage.Store. It removes exactly the given entries.
func (s *Store) RemoveEntries(ctx context.Context, entries []core.DueItem) []error {
	return each(ctx, s, entries, func(d *core.DueItem) error {
		s.dropEntry(*d)
		return nil
	})
}

func (s *Store) dropEntry(d core.DueItem) {
	of := s.entries[d.Run.Job()]
	if _, ok := of[d]; !ok {
		return
	}
	delete(of, d)
	if len(of) == 0 {
		delete(s.entries, d.Run.Job())
	}
	s.unindex(d)
}

// Entries implements query.Store, in the order of the due index.
func (s *Store) Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error) {
	var list []core.DueItem
	err := s.one(ctx, func() error {
		for d := range s.entries[job] {
			list = append(list, d)
		}
		slices.SortFunc(list, func(a, b core.DueItem) int {
			return cmp.Or(cmp.Compare(a.PlanAt, b.PlanAt), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Run, b.Run),
				cmp.Compare(a.Partition, b.Partition))
		})
		return nil
	})
	return list, err
}

// PutSkips implements tick.Store, dispatch.Skips and others.
func (s *Store) PutSkips(ctx context.Context, skips []core.Skip) []error {
	return each(ctx, s, skips, func(n *core.Skip) error {
		list := s.skips[n.Job]
		at, found := slices.BinarySearchFunc(list, n, func(a core.Skip, b *core.Skip) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Reason, b.Reason))
		})
		if found {
			if n.Last > list[at].Last {
				list[at].Last, list[at].Count, list[at].Made = n.Last, n.Count, milli(n.Made)
			}
			return nil
		}
		c := *n
		c.Made = milli(c.Made)
		s.skips[n.Job] = slices.Insert(list, at, c)
		return nil
	})
}

// Skips implements query.Store, in the order of First.
func (s *Store) Skips(ctx context.Context, job core.JobID, from, to core.Instant) ([]core.Skip, error) {
	var list []core.Skip
	err := s.one(ctx, func() error {
		for _, k := range s.skips[job] {
			if k.First <= to && k.Last >= from {
				list = append(list, k)
			}
		}
		return nil
	})
	return list, err
}

func (s *Store) change(c core.Change) {
	c.At = milli(c.At)
	for i := len(s.changes) - 1; i >= 0; i-- {
		o := &s.changes[i]
		if o.ID < c.ID { // kept in the order of their IDs
			s.changes = slices.Insert(s.changes, i+1, c)
			return
		}
		if o.ID == c.ID && o.App == c.App && o.Job == c.Job && o.Says() == c.Says() {
			return
		}
	}
	s.changes = slices.Insert(s.changes, 0, c)
}

// PutChanges implements manage.Store, operate.Store and others.
func (s *Store) PutChanges(ctx context.Context, changes []core.Change) error {
	return s.one(ctx, func() error {
		for _, c := range changes {
			s.change(c)
		}
		return nil
	})
}

// Changes implements query.Store, in descending order of IDs.
func (s *Store) Changes(ctx context.Context, app string, job core.JobID, last int64, limit int) ([]core.Change, error) {
	var list []core.Change
	err := s.one(ctx, func() error {
		for _, c := range slices.Backward(s.changes) {
			if len(list) >= limit {
				break
			}
			if c.ID <= last && (job != 0 && c.Job == job || job == 0 && (app == "" || c.App == app)) {
				list = append(list, c)
			}
		}
		return nil
	})
	return list, err
}

// DamageApp makes the stored text of an app unreadable.
func (s *Store) DamageApp(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[engine.KindApp][name]
	r.Body = []byte("{")
	s.records[engine.KindApp][name] = r
}

// DeleteApp implements manage.Store. It also deletes the executors of the app.
func (s *Store) DeleteApp(ctx context.Context, seen int64, name string, c core.Change) error {
	return s.one(ctx, func() error {
		if old, ok := s.records[engine.KindApp][name]; !ok || old.V != seen {
			return core.ErrRefused
		}
		for _, j := range s.jobs {
			if j.Def.App == name {
				return core.ErrRefused
			}
		}
		delete(s.records[engine.KindApp], name)
		delete(s.records, engine.KindExecutors(name))
		s.change(c)
		return nil
	})
}

// PutKey implements operate.Store.
func (s *Store) PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (bound core.RunID, err error) {
	err = s.one(ctx, func() error {
		k := boundKey{job, key}
		b, ok := s.keys[k]
		if !ok {
			b = boundRun{run, s.now()}
			s.keys[k] = b
		}
		bound = b.run
		return nil
	})
	return bound, err
}

// Alive implements engine.Maintenance.
func (s *Store) Alive(ctx context.Context, now time.Time) (before time.Time, err error) {
	err = s.one(ctx, func() error {
		before, s.alive = s.alive, milli(now)
		return nil
	})
	return before, err
}

// LastAlive implements engine.Maintenance.
func (s *Store) LastAlive(ctx context.Context) (at time.Time, err error) {
	err = s.one(ctx, func() error {
		at = s.alive
		return nil
	})
	return at, err
}
