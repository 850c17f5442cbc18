package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/tickring/tickring/core"
)

// KindTombstone is the kind of the tombstones of deleted jobs. A store writes one with the deletion of a job.
const KindTombstone = "tomb"

var tombstones = Table[core.Tombstone]{Kind: KindTombstone,
	Name:    func(t *core.Tombstone) string { return JobName(t.Job) },
	Version: func(t *core.Tombstone) int64 { return core.Millis(t.RevAt) }}

// JobName returns the name of a record about a job if records are listed in the order of job IDs.
func JobName(id core.JobID) string { return fmt.Sprintf("%010d", id) }

// Bury returns the write of a tombstone.
func Bury(t core.Tombstone) (Write, error) {
	milli(&t.RevAt)
	return tombstones.Put(nil, t, Any)
}

// edgesKey identifies the counter of updates that give a parent to a job with children. Its version is the count.
var edgesKey = Key{Kind: "edges", Name: "-"}

// Family returns the changes of lists of children that an update of a job makes. If it gives a parent to a job with
// children, edges increments the counter of such updates.
func Family(old, now *core.Def, seen int64) (links []core.Link, edges []Write, err error) {
	links = core.Links(now.ID, old.After, now.After)
	if len(old.Children) == 0 || !slices.ContainsFunc(links, func(l core.Link) bool { return l.When != "" }) {
		return links, nil, nil
	}
	if seen < 1 {
		return nil, nil, core.ErrRefused
	}
	return links, []Write{{Record: Record{Key: edgesKey, V: seen}, Was: seen - 1}}, nil
}

// Relink changes the lists of children of parents. It returns core.ErrRefused if a new parent is missing or has no room.
func Relink(links []core.Link, parents map[core.JobID]*core.Def) error {
	for _, l := range links {
		p := parents[l.Parent]
		if p == nil && l.When == "" {
			continue
		}
		room := p != nil
		if room {
			p.Children, room = core.Linked(p.Children, l)
		}
		if !room {
			return core.ErrRefused
		}
	}
	return nil
}

func (s *Store) Tombstones(ctx context.Context, ids []core.JobID) (map[core.JobID]core.Tombstone, error) {
	named, err := tombstones.Read(ctx, s, each(ids, func(id *core.JobID) string { return JobName(*id) })...)
	found := make(map[core.JobID]core.Tombstone, len(named))
	for _, t := range named {
		found[t.Job] = t
	}
	return found, err
}

func (s *Store) ListTombstones(ctx context.Context, after core.JobID, limit int) ([]core.Tombstone, error) {
	return tombstones.good(tombstones.List(ctx, s, JobName(after), limit))
}

func (s *Store) Edges(ctx context.Context) (int64, error) {
	r, err := s.Read(ctx, edgesKey)
	return r.V + 1, err
}
