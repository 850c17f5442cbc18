package dynamo

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

func putAction(table string, it item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: it}}
}

func deleteAction(table string, key item) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: &table, Key: key}}
}

// changeActions store a change record: for its job's history, and for its app's.
func (s *Store) changeActions(c *core.Change) []types.TransactWriteItem {
	return s.recordActions(s.changeWrites(c), 0)
}

// changesActions store change records.
func (s *Store) changesActions(changes []core.Change) (list []types.TransactWriteItem) {
	for i := range changes {
		list = append(list, s.changeActions(&changes[i])...)
	}
	return list
}

// Put makes several creations in one transaction. An advance without a change record is one statement of 3 units (the item,
// and its old and new place in the index), and entries without change records are plain writes. Everything else is a
// transaction of its own.
func (s jobs) Put(ctx context.Context, puts []store.JobPut) []error {
	errs := make([]error, len(puts))
	var create, update, alone, move []int
	var due [2][]int
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
		case p.Enter != nil:
			due[0] = append(due[0], i)
		default:
			due[1] = append(due[1], i)
		}
	}
	s.create(ctx, puts, create, errs)
	s.updateAll(ctx, puts, update, errs)
	store.AtOnce(len(alone), func(k int) { errs[alone[k]] = s.putSingle(ctx, &puts[alone[k]]) })
	statements := make([]statement, len(move))
	for k, i := range move {
		statements[k] = s.advance(puts[i].Advance)
	}
	for k, err := range s.execute(ctx, statements) {
		errs[move[k]] = err
	}
	for _, of := range due {
		writes, keys := make([]types.WriteRequest, len(of)), make([]string, len(of))
		for k, i := range of {
			if d := puts[i].Enter; d != nil {
				writes[k].PutRequest, keys[k] = &types.PutRequest{Item: entryItem(*d)}, entryText(*d)
			} else {
				d = puts[i].Leave
				writes[k].DeleteRequest, keys[k] = &types.DeleteRequest{Key: entryKey(*d)}, entryText(*d)
			}
		}
		for k, err := range s.batchWrite(ctx, s.o.Names.Jobs, writes, keys) {
			errs[of[k]] = err
		}
	}
	return errs
}

// putSingle deletes a job, makes an advance or changes an entry, in a transaction with the change records.
func (s *Store) putSingle(ctx context.Context, p *store.JobPut) error {
	actions, t := s.changesActions(p.Changes), s.o.Names.Jobs
	switch {
	case p.Delete != nil:
		return s.deleteJob(ctx, p)
	case p.Advance != nil:
		e := &expr{}
		writeAdvance(e, p.Advance)
		actions = append(actions, e.update(t, schedKey(p.Advance.Job)))
	case p.Enter != nil:
		actions = append(actions, putAction(t, entryItem(*p.Enter)))
	default:
		actions = append(actions, deleteAction(t, entryKey(*p.Leave)))
	}
	return s.transact(ctx, actions)
}

// writeAdvance adds the changes and the condition of an advance to w.
func writeAdvance(w edits, a *core.Advance) {
	w.equals("rev", number(a.Rev))
	w.equals("next", number(a.Next))
	w.equals("tail", number(a.Tail))
	w.set("next", number(a.NewNext))
	w.set("seq", number(a.NewSeq))
	w.set("tail", number(a.NewTail))
	w.set("partition", number(a.NewPartition))
	w.set("planAt", text(schedKeyAt(a.NewPlanAt, a.Job)))
	put(w, "planError", a.PlanError != "", text(a.PlanError))
	if a.NewCompared != 0 {
		w.set("compared", number(a.NewCompared))
	}
	if a.NewState != "" {
		w.set("state", text(string(a.NewState)))
	}
	if a.NewRev != 0 {
		w.set("rev", number(a.NewRev))
		w.set("revAt", number(millis(a.NewRevAt)))
		w.remove("pauseUntil")
		put(w, "pauseBy", a.NewPauseBy != "", text(a.NewPauseBy))
		put(w, "pauseWhy", a.NewPauseWhy != "", text(a.NewPauseWhy))
	}
}

func (s *Store) advance(a *core.Advance) statement {
	w := &writer{table: s.o.Names.Jobs}
	w.where(`"id" = ?`, text("job#"+a.Job.String()))
	w.where(`"part" = ?`, text("sched"))
	writeAdvance(w, a)
	return w.statement(a.Job.String())
}

func entryItem(d core.DueItem) item {
	it := entryKey(d)
	it["partition"], it["planAt"] = number(d.Partition), text(planKey(d))
	return it
}

func entryText(d core.DueItem) string { return planKey(d) + "#" + strconv.Itoa(d.Partition) }

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
	defer func() { _ = s.leave(ctx, p.stored) }()
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
	var actions []types.TransactWriteItem
	var links []core.Link
	apps := map[string]bool{}
	for _, i := range some {
		j := *puts[i].Create
		j.Def.Children = nil
		links = append(links, core.Links(j.Def.ID, nil, j.Def.After)...)
		sched, err := encodeSched(&j.Sched, j.Sched.Rev)
		if err != nil {
			return err
		}
		def, err := s.encodeDef(&j.Def, j.Sched.Rev)
		if err != nil {
			return err
		}
		actions = append(actions, none("id").put(t.Jobs, def), none("id").put(t.Jobs, sched),
			none("of").check(t.State, stateKey(store.KindTombstone, store.JobName(j.Def.ID))))
		actions = append(actions, s.nameActions(&j.Def, j.Sched.Rev)...)
		if app := j.Def.App; !apps[app] {
			apps[app] = true
			there := &expr{} // if the pass was removed, the app is being deleted
			there.exists("of")
			actions = append(actions, there.check(t.State, pass(app)))
		}
		actions = append(actions, s.changesActions(puts[i].Changes)...)
	}
	parents, err := s.linkActions(ctx, links)
	if err != nil {
		return err
	}
	return s.transact(ctx, append(actions, parents...))
}

// namesOf is the partition of the names of an app's jobs.
func namesOf(app string) string { return "name#" + app }

// nameActions list a job and store its name, which no other job may have.
func (s *Store) nameActions(d *core.Def, rev int64) []types.TransactWriteItem {
	name := stateKey(namesOf(d.App), d.Name)
	name["job"] = number(d.ID)
	return []types.TransactWriteItem{none("of").put(s.o.Names.State, name), putAction(s.o.Names.State, s.listItem(d, rev))}
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
	sched, err := encodeSched(&j.Sched, defRev)
	if err != nil {
		return err
	}
	links, edges, err := store.Family(&old.Def, &j.Def, u.Edges)
	if err != nil {
		return err
	}
	actions, err := s.linkActions(ctx, links)
	if err != nil {
		return err
	}
	e := equal("rev", number(u.Seen))
	e.equals("tail", number(u.SeenTail))
	e.equals("seq", number(old.Sched.Seq))
	e.equals("defRev", number(stored.defRev))
	actions = append(append(actions, e.put(t.Jobs, sched)), s.recordActions(edges, 0)...)
	if redefined {
		def, err := s.encodeDef(&j.Def, defRev)
		if err != nil {
			return err
		}
		actions = append(actions, putAction(t.Jobs, def))
	}
	if j.Def.Name != old.Def.Name || j.Def.App != old.Def.App {
		actions = append(actions, deleteAction(t.State, stateKey(namesOf(old.Def.App), old.Def.Name)))
		actions = append(actions, s.nameActions(&j.Def, defRev)...)
	} else if redefined {
		actions = append(actions, putAction(t.State, s.listItem(&j.Def, defRev)))
	}
	s.defs.forget(j.Def.ID)
	return s.transact(ctx, append(actions, s.changesActions(p.Changes)...))
}

// keepTombs is how long the tombstone of a job stays: a trigger may wait in the due index for a year.
const keepTombs = 400 * 24 * time.Hour

func (s *Store) deleteJob(ctx context.Context, p *store.JobPut) error {
	t, id := &s.o.Names, p.Delete.Job
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
	e := equal("rev", number(p.Delete.Seen))
	e.equals("defRev", number(stored.defRev))
	actions := append(s.recordActions([]store.Write{tomb}, 0), e.delete(t.Jobs, schedKey(id)), deleteAction(t.Jobs, defKey(id)),
		deleteAction(t.State, stateKey(namesOf(d.App), d.Name)), deleteAction(t.State, stateKey("jobs", store.JobName(id))))
	return s.transact(ctx, append(append(actions, parents...), s.changesActions(p.Changes)...))
}
