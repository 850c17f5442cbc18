package dynamo

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/store"
)

// Put makes several creations in one transaction. An advance without a change record is one statement of 3 units (the item,
// and its old and new place in the index), and entries without change records are plain writes. Everything else is a
// transaction of its own.
func (s jobs) Put(ctx context.Context, puts []store.JobPut) []error {
	errs := make([]error, len(puts))
	var create, update, alone, move, due []int
	for i := range puts {
		switch p := &puts[i]; {
		case p.Create != nil:
			create = append(create, i)
		case p.Update != nil:
			update = append(update, i)
		case p.Delete != nil || len(p.Changes) > 0:
			alone = append(alone, i)
		case p.Advance != nil:
			move = append(move, i)
		default:
			due = append(due, i)
		}
	}
	s.create(ctx, puts, create, errs)
	s.updateAll(ctx, puts, update, errs)
	store.AtOnce(len(alone), func(k int) {
		if p := &puts[alone[k]]; p.Delete != nil {
			errs[alone[k]] = s.deleteJob(ctx, p)
		} else {
			errs[alone[k]] = s.db.Transact(ctx, append(s.recordsOf(s.changeWrites(p.Changes)), s.planned(p))...)
		}
	})
	planned := func(i int) items.Write { return s.planned(&puts[i]) }
	for k, err := range s.db.Execute(ctx, each(move, planned)) {
		errs[move[k]] = err
	}
	for k, err := range s.db.BatchWrite(ctx, s.o.Names.Jobs, each(due, planned)) {
		errs[due[k]] = err
	}
	return errs
}

// planned makes an advance, or adds or removes an entry of the due index.
func (s *Store) planned(p *store.JobPut) items.Write {
	switch {
	case p.Advance != nil:
		return s.advance(p.Advance)
	case p.Enter != nil:
		return s.enterDue(*p.Enter)
	}
	return s.leaveDue(*p.Leave)
}

func (s *Store) advance(a *core.Advance) items.Write {
	w := items.Equal("Rev", attr(a.Rev)).And(items.Has("Next", attr(a.Next))).And(items.Has("Tail", attr(a.Tail)))
	w.Put("Next", attr(a.NewNext))
	w.Put("Seq", attr(a.NewSeq))
	w.Put("Tail", attr(a.NewTail))
	w.Put("PlanAt", attr(a.NewPlanAt))
	w.Put("planAt", items.Text(schedKeyAt(a.NewPlanAt, a.Job)))
	w.Put("partition", items.Number(a.NewPartition))
	w.Put("PlanError", attr(a.PlanError))
	if a.NewCompared != 0 {
		w.Put("Compared", items.Number(a.NewCompared))
	}
	if a.NewState != "" {
		w.Put("State", attr(a.NewState))
	}
	if a.NewRev != 0 {
		w.Put("Rev", items.Number(a.NewRev))
		w.Put("RevAt", attr(core.Millis(a.NewRevAt)))
		w.Put("PauseUntil", nil)
		w.Put("PauseBy", attr(a.NewPauseBy))
		w.Put("PauseWhy", attr(a.NewPauseWhy))
	}
	return w.To(items.Update, s.o.Names.Jobs, schedKey(a.Job))
}

func (s *Store) enterDue(d core.DueItem) items.Write {
	it := entryKey(d)
	it["partition"], it["planAt"] = items.Number(d.Partition), items.Text(planKey(d))
	return items.Plain(items.Put, s.o.Names.Jobs, it)
}

func (s *Store) leaveDue(d core.DueItem) items.Write {
	return items.Plain(items.Delete, s.o.Names.Jobs, entryKey(d))
}

// perCreate is how many actions a new job and its app's pass take.
const perCreate = 8

// create creates several jobs in one transaction. If the transaction is rejected, it creates each job in its own transaction. Jobs with
// parents are created in turn, because two may have the same parent.
func (s *Store) create(ctx context.Context, puts []store.JobPut, of []int, errs []error) {
	if len(of) == 0 {
		return
	}
	parts := createParts(puts, of)
	p, err := s.enter(ctx, puts, parts)
	if err != nil {
		items.Fill(errs, of, err)
		return
	}
	// A pass that remains admits no job that it did not admit before, and expires.
	defer func() { _ = s.WriteAny(ctx, p.stored, true) }()
	inTurn := func(k int) bool { return len(puts[parts[k][0]].Create.Def.After) > 0 }
	atOnceUnless(len(parts), inTurn, func(k int) {
		var part []int // of the jobs whose apps accept jobs
		for _, i := range parts[k] {
			if errs[i] = core.ErrRefused; p.open[puts[i].Create.Def.App] {
				part = append(part, i)
			}
		}
		try := func(some []int) {
			items.Fill(errs, some, s.createPart(ctx, puts, some, func(app string) item { return recordKey(p.key(k, app)) }))
		}
		if try(part); len(part) > 1 && errs[part[0]] != nil && !errors.Is(errs[part[0]], core.ErrThrottled) {
			for i := range part {
				try(part[i : i+1])
			}
		}
	})
}

// atOnceUnless calls do for 0 to n-1: several at once, then one after the other where inTurn is true.
func atOnceUnless(n int, inTurn func(i int) bool, do func(i int)) {
	var free, last []int
	for i := range n {
		if inTurn(i) {
			last = append(last, i)
		} else {
			free = append(free, i)
		}
	}
	store.AtOnce(len(free), func(k int) { do(free[k]) })
	for _, i := range last {
		do(i)
	}
}

// createParts splits the jobs of a call into transactions. Each job with parents has one of its own, together with the
// definitions of its parents.
func createParts(puts []store.JobPut, of []int) (parts [][]int) {
	var together []int
	for _, i := range of {
		if len(puts[i].Create.Def.After) > 0 {
			parts = append(parts, []int{i})
		} else {
			together = append(together, i)
		}
	}
	return slices.AppendSeq(parts, slices.Chunk(together, items.ActionsPerTransact/perCreate))
}

// createPart creates some of the jobs, all or none.
func (s *Store) createPart(ctx context.Context, puts []store.JobPut, some []int, pass func(app string) item) error {
	if len(some) == 0 {
		return nil
	}
	t := &s.o.Names
	var actions []items.Write
	var links []core.Link
	apps := map[string]bool{}
	for _, i := range some {
		j := *puts[i].Create
		j.Def.Children = nil
		links = append(links, core.Links(j.Def.ID, nil, j.Def.After)...)
		def, err := s.writeDef(&j.Def, j.Sched.Rev, store.Absent)
		if err != nil {
			return err
		}
		actions = append(actions, items.Missing("id").To(items.Put, t.Jobs, encodeSched(&j.Sched, j.Sched.Rev)),
			items.Missing("of").To(items.Check, t.State, stateKey(store.KindTombstone, store.JobName(j.Def.ID))))
		writes := append(s.changeWrites(puts[i].Changes), def, writeName(&j.Def), writeListed(&j.Def, j.Sched.Rev))
		actions = append(actions, s.recordsOf(writes)...)
		if app := j.Def.App; !apps[app] {
			apps[app] = true
			// If the pass was removed, the app is being deleted.
			actions = append(actions, items.When(items.Where("of", "exists")).To(items.Check, t.State, pass(app)))
		}
	}
	parents, err := s.linkActions(ctx, links)
	if err != nil {
		return err
	}
	return s.db.Transact(ctx, append(actions, parents...)...)
}

// namesOf is the partition of the names of an app's jobs.
func namesOf(app string) string { return "name#" + app }

// writeName returns the write of the name of a job, which no other job may have.
func writeName(d *core.Def) store.Write {
	return store.Write{Record: store.Record{Key: store.Key{Kind: namesOf(d.App), Name: d.Name}, V: int64(d.ID)}, Was: store.Absent}
}

// updateAll makes updates. Updates that change lists of children are made in turn, because two jobs may have the same parent.
func (s *Store) updateAll(ctx context.Context, puts []store.JobPut, of []int, errs []error) {
	ids := each(of, func(i int) core.JobID { return puts[i].Update.Job.Def.ID })
	found, err := s.readJobs(ctx, ids)
	if err != nil {
		items.Fill(errs, of, err)
		return
	}
	inTurn := func(k int) bool { return len(relinked(found[ids[k]], puts[of[k]].Update)) > 0 }
	atOnceUnless(len(of), inTurn, func(k int) { errs[of[k]] = s.update(ctx, found[ids[k]], &puts[of[k]]) })
}

func relinked(old storedJob, u *store.JobUpdate) []core.Link {
	if old.Is == nil {
		return nil
	}
	return core.Links(u.Job.Def.ID, old.Is.Def.After, u.Job.Def.After)
}

// update makes an update. It repeats the write if an advance changes the number at the same time, or another job makes the
// job a parent.
func (s *Store) update(ctx context.Context, old storedJob, p *store.JobPut) (err error) {
	u := p.Update
	for range 3 {
		switch unusable := old.Usable(); {
		case unusable != nil:
			return unusable
		case old.Is == nil || old.Is.Sched.Rev != u.Seen || old.Is.Sched.Tail != u.SeenTail:
			return core.ErrRefused
		}
		if err = s.updateOnce(ctx, old, p); !errors.Is(err, core.ErrRefused) {
			return err
		}
		again, failed := s.readJobs(ctx, []core.JobID{u.Job.Def.ID})
		now := again[u.Job.Def.ID]
		if failed != nil || now.Usable() != nil || now.Is != nil && len(relinked(now, u)) == 0 &&
			now.Is.Sched.Seq == old.Is.Sched.Seq && now.defRev == old.defRev {
			return err // it was refused for another reason
		}
		old = now
	}
	return err
}

func (s *Store) updateOnce(ctx context.Context, stored storedJob, p *store.JobPut) error {
	t, u, old := &s.o.Names, p.Update, stored.Is
	j := u.Job
	j.Sched.Seq = max(j.Sched.Seq, old.Sched.Seq)
	j.Def.Children = old.Def.Children
	redefined, defRev := !j.Def.Equal(old.Def) || !j.Def.Created.Equal(old.Def.Created), stored.defRev
	if redefined {
		defRev = defRevAfter(j.Sched.Rev, defRev)
	}
	links, edges, err := store.Family(&old.Def, &j.Def, u.Edges)
	if err != nil {
		return err
	}
	actions, err := s.linkActions(ctx, links)
	if err != nil {
		return err
	}
	e := items.Equal("Rev", items.Number(u.Seen)).And(items.Has("Tail", attr(u.SeenTail))).
		And(items.Has("Seq", attr(old.Sched.Seq))).And(items.Has("DefRev", items.Number(stored.defRev)))
	actions = append(actions, e.To(items.Put, t.Jobs, encodeSched(&j.Sched, defRev)))
	writes := append(s.changeWrites(p.Changes), edges...)
	if redefined {
		def, err := s.writeDef(&j.Def, defRev, store.Any)
		if err != nil {
			return err
		}
		writes = append(writes, def, writeListed(&j.Def, defRev))
	}
	if j.Def.Name != old.Def.Name || j.Def.App != old.Def.App {
		writes = append(writes, deletion(store.Key{Kind: namesOf(old.Def.App), Name: old.Def.Name}), writeName(&j.Def))
	}
	s.defs.forget(j.Def.ID)
	return s.db.Transact(ctx, append(actions, s.recordsOf(writes)...)...)
}

// keepTombs is how long the tombstone of a job stays: a trigger may wait in the due index for a year.
const keepTombs = 400 * 24 * time.Hour

func (s *Store) deleteJob(ctx context.Context, p *store.JobPut) error {
	id := p.Delete.Job
	found, err := s.readJobs(ctx, []core.JobID{id})
	if err != nil {
		return err
	}
	stored := found[id]
	switch unusable, old := stored.Usable(), stored.Is; {
	case unusable != nil:
		return unusable
	case old == nil || old.Sched.Rev != p.Delete.Seen || len(old.Def.Children) > 0:
		return core.ErrRefused
	}
	d := &stored.Is.Def
	parents, err := s.linkActions(ctx, core.Links(id, d.After, nil))
	if err != nil {
		return err
	}
	tomb, err := store.Bury(p.Delete.Tombstone)
	if err != nil {
		return err
	}
	tomb.Expires = s.o.Now().Add(keepTombs)
	e := items.Equal("Rev", items.Number(p.Delete.Seen)).And(items.Has("DefRev", items.Number(stored.defRev)))
	writes := append(s.changeWrites(p.Changes), tomb, deletion(defKey(id)), deletion(store.Key{Kind: namesOf(d.App), Name: d.Name}),
		deletion(listedKey(id)))
	return s.db.Transact(ctx, append(append(parents, e.To(items.Delete, s.o.Names.Jobs, schedKey(id))), s.recordsOf(writes)...)...)
}

// A definition lists the jobs that run after its job. A change of that list stores the definition under a new revision,
// which the sched item names. The job's own revision and its runs do not change.

// defRevAfter returns an unused revision for a definition.
func defRevAfter(rev, defRev int64) int64 { return max(rev, defRev+1) }

// linkActions write lists of children. They conflict if a parent does not exist or has no room, or if the list changed
// after it was read.
func (s *Store) linkActions(ctx context.Context, links []core.Link) (actions []items.Write, err error) {
	found, err := s.readJobs(ctx, each(links, func(l core.Link) core.JobID { return l.Parent }))
	if err != nil {
		return nil, err
	}
	parents := map[core.JobID]*core.Def{}
	for id, p := range found {
		if err := p.Usable(); err != nil {
			return nil, err
		}
		parents[id] = &p.Is.Def
	}
	if err := store.Relink(links, parents); err != nil {
		return nil, err
	}
	for id, p := range found {
		rev := defRevAfter(p.Is.Sched.Rev, p.defRev)
		e := items.Equal("Rev", items.Number(p.Is.Sched.Rev)).And(items.Has("DefRev", items.Number(p.defRev)))
		e.Put("DefRev", items.Number(rev))
		def, err := s.writeDef(parents[id], rev, store.Any)
		if err != nil {
			return nil, err
		}
		writes := []store.Write{def}
		if len(found) <= core.MaxParents { // else there is no room, and pages read the definition by its key
			writes = append(writes, writeListed(parents[id], rev))
		}
		actions = append(append(actions, e.To(items.Update, s.o.Names.Jobs, schedKey(id))), s.recordsOf(writes)...)
		s.defs.forget(id)
	}
	return actions, nil
}
