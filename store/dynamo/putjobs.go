package dynamo

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// changesOf returns the writes of change records: for the history of each job, and of its app.
func (s *Store) changesOf(changes []core.Change) (list []write) {
	for i := range changes {
		list = append(list, s.recordsOf(s.changeWrites(&changes[i]), 0)...)
	}
	return list
}

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
			errs[alone[k]] = s.transact(ctx, append(s.changesOf(p.Changes), s.planned(p))...)
		}
	})
	planned := func(of []int) []write {
		list := make([]write, len(of))
		for k, i := range of {
			list[k] = s.planned(&puts[i])
		}
		return list
	}
	for k, err := range s.execute(ctx, planned(move)) {
		errs[move[k]] = err
	}
	for k, err := range s.batchWrite(ctx, s.o.Names.Jobs, planned(due)) {
		errs[due[k]] = err
	}
	return errs
}

// planned makes an advance, or adds or removes an entry of the due index.
func (s *Store) planned(p *store.JobPut) write {
	switch {
	case p.Advance != nil:
		return s.advance(p.Advance)
	case p.Enter != nil:
		return s.enterDue(*p.Enter)
	}
	return s.leaveDue(*p.Leave)
}

func (s *Store) advance(a *core.Advance) write {
	w := &expr{}
	w.equals("Rev", attr(a.Rev))
	w.equals("Next", attr(a.Next))
	w.equals("Tail", attr(a.Tail))
	w.put("Next", attr(a.NewNext))
	w.put("Seq", attr(a.NewSeq))
	w.put("Tail", attr(a.NewTail))
	w.put("PlanAt", attr(a.NewPlanAt))
	w.set("planAt", text(schedKeyAt(a.NewPlanAt, a.Job)))
	w.set("partition", number(a.NewPartition))
	w.put("PlanError", attr(a.PlanError))
	if a.NewCompared != 0 {
		w.set("Compared", number(a.NewCompared))
	}
	if a.NewState != "" {
		w.set("State", attr(a.NewState))
	}
	if a.NewRev != 0 {
		w.set("Rev", number(a.NewRev))
		w.put("RevAt", attr(core.Millis(a.NewRevAt)))
		w.remove("PauseUntil")
		w.put("PauseBy", attr(a.NewPauseBy))
		w.put("PauseWhy", attr(a.NewPauseWhy))
	}
	return w.to(updateItem, s.o.Names.Jobs, schedKey(a.Job))
}

func (s *Store) enterDue(d core.DueItem) write {
	it := entryKey(d)
	it["partition"], it["planAt"] = number(d.Partition), text(planKey(d))
	return plain(putItem, s.o.Names.Jobs, it)
}

func (s *Store) leaveDue(d core.DueItem) write { return plain(deleteItem, s.o.Names.Jobs, entryKey(d)) }

// fill is the answer of some writes.
func fill(errs []error, of []int, err error) {
	for _, i := range of {
		errs[i] = err
	}
}

// perCreate is how many actions one new job is, with a pass of its own app.
const perCreate = 8

// create creates several jobs in one transaction. If the transaction is rejected, it creates each job in its own transaction.
func (s *Store) create(ctx context.Context, puts []store.JobPut, of []int, errs []error) {
	if len(of) == 0 {
		return
	}
	parts, inTurn := createParts(puts, of)
	p, err := s.enter(ctx, puts, parts)
	if err != nil {
		fill(errs, of, err)
		return
	}
	// A pass that remains admits no job that it did not admit before, and expires.
	defer func() { _ = s.WriteAny(ctx, p.stored, true) }()
	do := func(k int) {
		var part []int // of the jobs whose apps accept jobs
		for _, i := range parts[k] {
			if errs[i] = core.ErrRefused; p.open[puts[i].Create.Def.App] {
				part = append(part, i)
			}
		}
		try := func(some []int) {
			fill(errs, some, s.createPart(ctx, puts, some, func(app string) item { return recordKey(p.key(k, app)) }))
		}
		if try(part); len(part) > 1 && errs[part[0]] != nil && !errors.Is(errs[part[0]], core.ErrThrottled) {
			for i := range part {
				try(part[i : i+1])
			}
		}
	}
	store.AtOnce(inTurn, do)
	for k := inTurn; k < len(parts); k++ {
		do(k)
	}
}

// createPart creates some of the jobs, all or none.
func (s *Store) createPart(ctx context.Context, puts []store.JobPut, some []int, pass func(app string) item) error {
	if len(some) == 0 {
		return nil
	}
	t := &s.o.Names
	var actions []write
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
		actions = append(actions, none("id").to(putItem, t.Jobs, encodeSched(&j.Sched, j.Sched.Rev)),
			none("of").to(checkItem, t.State, stateKey(store.KindTombstone, store.JobName(j.Def.ID))))
		actions = append(actions, s.recordsOf([]store.Write{def, writeName(&j.Def), writeListed(&j.Def, j.Sched.Rev)}, 0)...)
		if app := j.Def.App; !apps[app] {
			apps[app] = true
			// If the pass was removed, the app is being deleted.
			actions = append(actions, when(where("of", "exists")).to(checkItem, t.State, pass(app)))
		}
		actions = append(actions, s.changesOf(puts[i].Changes)...)
	}
	parents, err := s.linkActions(ctx, links)
	if err != nil {
		return err
	}
	return s.transact(ctx, append(actions, parents...)...)
}

// namesOf is the partition of the names of an app's jobs.
func namesOf(app string) string { return "name#" + app }

// writeName returns the write of the name of a job, which no other job may have.
func writeName(d *core.Def) store.Write {
	return store.Write{Record: store.Record{Key: store.Key{Kind: namesOf(d.App), Name: d.Name}, V: int64(d.ID)}, Was: store.Absent}
}

// updateAll makes updates. Updates that change lists of children are made in turn, because two jobs may have the same parent.
func (s *Store) updateAll(ctx context.Context, puts []store.JobPut, of []int, errs []error) {
	if len(of) == 0 {
		return
	}
	ids := make([]core.JobID, len(of))
	for k, i := range of {
		ids[k] = puts[i].Update.Job.Def.ID
	}
	found, err := s.readJobs(ctx, ids)
	if err != nil {
		fill(errs, of, err)
		return
	}
	var alone, inTurn []int
	for k, i := range of {
		if len(relinked(found[ids[k]], puts[i].Update)) > 0 {
			inTurn = append(inTurn, i)
		} else {
			alone = append(alone, i)
		}
	}
	do := func(i int) { errs[i] = s.update(ctx, found[puts[i].Update.Job.Def.ID], &puts[i]) }
	store.AtOnce(len(alone), func(k int) { do(alone[k]) })
	for _, i := range inTurn {
		do(i)
	}
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
	e := equal("Rev", number(u.Seen))
	e.equals("Tail", attr(u.SeenTail))
	e.equals("Seq", attr(old.Sched.Seq))
	e.equals("DefRev", number(stored.defRev))
	actions = append(actions, e.to(putItem, t.Jobs, encodeSched(&j.Sched, defRev)))
	writes := edges
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
	return s.transact(ctx, slices.Concat(actions, s.recordsOf(writes, 0), s.changesOf(p.Changes))...)
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
	e := equal("Rev", number(p.Delete.Seen))
	e.equals("DefRev", number(stored.defRev))
	writes := []store.Write{tomb, deletion(defKey(id)), deletion(store.Key{Kind: namesOf(d.App), Name: d.Name}), deletion(listedKey(id))}
	return s.transact(ctx, slices.Concat([]write{e.to(deleteItem, s.o.Names.Jobs, schedKey(id))}, s.recordsOf(writes, 0), parents,
		s.changesOf(p.Changes))...)
}

// A definition lists the jobs that run after its job. A change of that list stores the definition under a new revision,
// which the sched item names. The job's own revision and its runs do not change.

// defRevAfter is a revision of a definition that none has had.
func defRevAfter(rev, defRev int64) int64 { return max(rev, defRev+1) }

// linkActions write lists of children. They conflict if a parent does not exist or has no room, or if the list changed
// after it was read.
func (s *Store) linkActions(ctx context.Context, links []core.Link) (actions []write, err error) {
	var ids []core.JobID
	for _, l := range links {
		if !slices.Contains(ids, l.Parent) {
			ids = append(ids, l.Parent)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := s.readJobs(ctx, ids)
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
	for _, id := range ids {
		p, is := found[id]
		if !is {
			continue
		}
		rev := defRevAfter(p.Is.Sched.Rev, p.defRev)
		e := equal("Rev", number(p.Is.Sched.Rev))
		e.equals("DefRev", number(p.defRev))
		e.set("DefRev", number(rev))
		def, err := s.writeDef(parents[id], rev, store.Any)
		if err != nil {
			return nil, err
		}
		writes := []store.Write{def}
		if len(ids) <= core.MaxParents { // else there is no room, and pages read the definition by its key
			writes = append(writes, writeListed(parents[id], rev))
		}
		actions = append(append(actions, e.to(updateItem, s.o.Names.Jobs, schedKey(id))), s.recordsOf(writes, 0)...)
		s.defs.forget(id)
	}
	return actions, nil
}

// createParts splits the jobs of a call into transactions. Each job with parents has one of its own, together with the
// definitions of its parents. These come last, one after the other, because they may share parents.
func createParts(puts []store.JobPut, of []int) (parts [][]int, inTurn int) {
	var alone [][]int
	var together []int
	for _, i := range of {
		if len(puts[i].Create.Def.After) > 0 {
			alone = append(alone, []int{i})
		} else {
			together = append(together, i)
		}
	}
	parts = slices.Collect(slices.Chunk(together, actionsPerTransact/perCreate))
	return append(parts, alone...), len(parts)
}
