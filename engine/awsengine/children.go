package awsengine

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
)

// A definition lists the jobs that run after its job. A change of that list stores the definition under a new revision,
// which the sched item names. The job's own revision and its runs do not change.

var edgesKey = stateKey("counter", "edges")

func (s *Store) Edges(ctx context.Context) (int64, error) {
	it, err := s.one(ctx, edgesKey)
	if err != nil || it == nil {
		return 1, err
	}
	n, err := intOf(it, "n")
	return n + 1, err
}

// edgeAction increments that number if it is unchanged.
func (s *Store) edgeAction(seen int64) types.TransactWriteItem {
	it := item{"of": edgesKey["of"], "key": edgesKey["key"], "n": number(seen)}
	return was("n", seen-1).put(s.o.Names.State, it)
}

// defRevAfter is a revision of a definition that none has had.
func defRevAfter(rev, defRev int64) int64 { return max(rev, defRev+1) }

// linkActions write lists of children. They conflict if a parent does not exist or has no room, or if the list changed
// after it was read.
func (s *Store) linkActions(ctx context.Context, links []core.Link) (actions []types.TransactWriteItem, err error) {
	if len(links) == 0 {
		return nil, nil
	}
	var ids []core.JobID
	for _, l := range links {
		if !slices.Contains(ids, l.Parent) {
			ids = append(ids, l.Parent)
		}
	}
	found, defRevs, _, unread, err := s.jobs(ctx, ids)
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		parent, is := found[id]
		var def core.Def
		if is {
			def = parent.Def
		}
		for _, l := range links {
			switch {
			case l.Parent != id || !is && l.When == "":
				continue
			case !is:
				return nil, core.ErrRefused
			}
			if def.Children, is = core.Linked(def.Children, l); !is {
				return nil, core.ErrRefused
			}
		}
		if !is {
			continue
		}
		rev := defRevAfter(parent.Sched.Rev, defRevs[id])
		e := equal("rev", number(parent.Sched.Rev))
		e.equals("defRev", number(defRevs[id]))
		e.set("defRev", number(rev))
		put, err := s.encodeDef(&def, rev)
		if err != nil {
			return nil, err
		}
		actions = append(actions, e.update(s.o.Names.Jobs, schedKey(id)), putAction(s.o.Names.Jobs, put))
		if len(ids) <= core.MaxParents { // else there is no room, and pages read the definition by its key
			actions = append(actions, putAction(s.o.Names.State, s.listItem(&def, rev)))
		}
		s.defs.forget(id)
	}
	return actions, nil
}

// createParts splits the jobs of a call into transactions. Jobs with parents come last, together with the definitions of
// their parents, one transaction after the other, because they may share parents.
func createParts(jobs []core.Job) (parts [][]int, inTurn int) {
	var plain, after []int
	for i := range jobs {
		if len(jobs[i].Def.After) == 0 {
			plain = append(plain, i)
		} else {
			after = append(after, i)
		}
	}
	parts = slices.Collect(slices.Chunk(plain, actionsPerTransact/perCreate))
	inTurn = len(parts)
	parents, used := map[core.JobID]bool{}, actionsPerTransact+1
	for _, i := range after {
		needs := perCreate
		for _, p := range jobs[i].Def.After {
			if !parents[p.ID] {
				needs += 3
			}
		}
		if used+needs > actionsPerTransact {
			parts, used = append(parts, nil), 0
			clear(parents)
			needs = perCreate + 3*len(jobs[i].Def.After)
		}
		used += needs
		for _, p := range jobs[i].Def.After {
			parents[p.ID] = true
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], i)
	}
	return parts, inTurn
}
