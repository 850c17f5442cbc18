package sqlite

import (
	"context"
	"encoding/json"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

func (s *Store) Edges(ctx context.Context) (n int64, err error) {
	err = s.read(ctx, func(c *sqlite.Conn) error {
		n, err = getState(c, "edges")
		return err
	})
	return n + 1, err
}

// defOf reads a definition; nil if there is no readable one.
func defOf(tx *tx, job core.JobID) (d *core.Def, err error) {
	err = execute(tx.Conn, "SELECT body FROM def WHERE id = ?", values(job), func(st *sqlite.Stmt) error {
		if one := new(core.Def); json.Unmarshal(columnBytes(st, 0), one) == nil {
			d = one
		}
		return nil
	})
	return d, err
}

// lists are the lists of children that a change of a job writes after the job.
type lists map[core.JobID]*core.Def

// linked returns the lists after links; it returns a conflict if a parent does not exist or has no room.
func linked(tx *tx, links []core.Link) (lists, error) {
	if len(links) == 0 {
		return nil, nil
	}
	of := lists{}
	for _, l := range links {
		parent, err := defOf(tx, l.Parent)
		switch {
		case err != nil:
			return nil, err
		case parent == nil && l.When == "":
			continue
		case parent == nil:
			return nil, core.ErrRefused
		}
		var ok bool
		if parent.Children, ok = core.Linked(parent.Children, l); !ok {
			return nil, core.ErrRefused
		}
		of[l.Parent] = parent
	}
	return of, nil
}

func (l lists) put(tx *tx) error {
	for job, d := range l {
		body, err := json.Marshal(d)
		if err != nil {
			return err
		}
		if err := execute(tx.Conn, "UPDATE def SET body = ?2 WHERE id = ?1", values(job, body), nil); err != nil {
			return err
		}
		tx.edits = append(tx.edits, edit{job: job})
	}
	return nil
}

// family returns the effect of a changed job on its parents: their new lists of children, and whether an edge is added to
// a job that has children. The job's own list of children stays.
func family(tx *tx, e *encodedJob) (of lists, edge bool, err error) {
	var was []core.Parent
	if e.seen != 0 {
		old, err := defOf(tx, e.job.Def.ID)
		if err != nil || old == nil {
			return nil, false, err
		}
		was = old.After
		if len(old.Children) > 0 {
			e.def.Children = old.Children
			if e.body, err = json.Marshal(&e.def); err != nil {
				return nil, false, err
			}
		}
		edge = len(old.Children) > 0
	}
	links := core.Links(e.job.Def.ID, was, e.job.Def.After)
	edge = edge && slices.ContainsFunc(links, func(l core.Link) bool { return l.When != "" })
	if edge {
		switch n, err := getState(tx.Conn, "edges"); {
		case err != nil:
			return nil, false, err
		case n+1 != e.edges:
			return nil, false, core.ErrRefused
		}
	}
	of, err = linked(tx, links)
	return of, edge, err
}
