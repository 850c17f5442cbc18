package dynamo

import (
	"context"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

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
