package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/store"
)

// KindTombstone is the kind of the tombstones of deleted jobs. A store writes one with the deletion of a job.
const KindTombstone = "tomb"

var tombstones = store.Table[core.Tombstone]{Kind: KindTombstone,
	Name:    func(t *core.Tombstone) string { return JobName(t.Job) },
	Version: func(t *core.Tombstone) int64 { return core.Millis(t.RevAt) }}

// JobName returns the name of a record about a job. The order of names is the order of job IDs.
func JobName(id core.JobID) string { return fmt.Sprintf("%010d", id) }

// Bury returns the write of a tombstone.
func Bury(t core.Tombstone) (store.Write, error) {
	t.RevAt = core.FromMillis(core.Millis(t.RevAt))
	return tombstones.Put(nil, t, store.Any)
}

// edgesKey identifies the counter of updates that give a parent to a job with children. Its version is the count.
var edgesKey = store.Key{Kind: "edges", Name: "-"}

// Family returns the changes of lists of children that an update of a job makes. If it gives a parent to a job with
// children, edges increments the counter of such updates.
func Family(old, now *core.Def, seen int64) (links []core.Link, edges []store.Write, err error) {
	links = core.Links(now.ID, old.After, now.After)
	if len(old.Children) == 0 || !slices.ContainsFunc(links, func(l core.Link) bool { return l.When != "" }) {
		return links, nil, nil
	}
	if seen < 1 {
		return nil, nil, core.ErrRefused
	}
	return links, []store.Write{{Record: store.Record{Key: edgesKey, V: seen}, Was: seen - 1}}, nil
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

// Definition is the definition of a job as a store keeps it.
type Definition struct {
	Job  core.JobID
	Text string
	New  string // text to replace it with
}

// Definitions are the stored definitions of jobs, with their secrets encrypted. Jobs.Put cannot encrypt them again: an
// update also replaces the planning data, which a core.Advance can change between the read and the write.
type Definitions interface {
	// ListDefinitions reads the definitions of the next jobs after a job. next is the job to continue after; 0 means the end.
	ListDefinitions(ctx context.Context, after core.JobID, limit int) (list []Definition, next core.JobID, err error)
	// ReplaceDefinitions replaces each definition on the condition that the stored text is still Text.
	ReplaceDefinitions(ctx context.Context, list []Definition) []error
}

// resealJobs encrypts the secrets of the next jobs with the newest key. It skips a job that another process changes at the
// same time: that process uses the newest key.
func (n *Nouns) resealJobs(ctx context.Context, defs Definitions, place string) (changed int, next string, err error) {
	var after core.JobID
	if place != "" {
		if _, err := fmt.Sscanf(place, "%d", &after); err != nil {
			return 0, "", core.Invalid("after", place, "expected the value of next from the previous part")
		}
	}
	list, behind, err := defs.ListDefinitions(ctx, after, resealAtOnce)
	if err != nil {
		return 0, "", err
	}
	var replace []Definition
	for _, stored := range list {
		var d core.Def
		if json.Unmarshal([]byte(stored.Text), &d) != nil { // damaged: other commands report it
			continue
		}
		d, differs, err := secretbox.Reseal(n.Box, d)
		if err != nil {
			return 0, "", err
		}
		if differs {
			text, err := json.Marshal(&d)
			if err != nil {
				return 0, "", err
			}
			stored.New = string(text)
			replace = append(replace, stored)
		}
	}
	for _, err := range defs.ReplaceDefinitions(ctx, replace) {
		switch {
		case err == nil:
			changed++
		case !errors.Is(err, core.ErrRefused):
			return changed, "", fmt.Errorf("write a job with its secrets: %w", err)
		}
	}
	if behind != 0 {
		next = behind.String()
	}
	return changed, next, nil
}

// The ports of jobs.

// split sorts the results of a read into jobs, throttled jobs and unreadable jobs.
func split[T any](ids []core.JobID, got map[core.JobID]store.Got[*core.Job], of func(*core.Job) T) (map[core.JobID]T, []core.JobID, error) {
	found := make(map[core.JobID]T, len(got))
	var unread []core.JobID
	var bad core.Unreadable
	for _, id := range ids {
		switch g, is := got[id]; {
		case !is:
		case g.Err == nil:
			found[id] = of(g.Is)
		case errors.Is(g.Err, core.ErrThrottled):
			unread = append(unread, id)
		default:
			bad.Add(id, g.Err)
		}
	}
	return found, unread, bad.Err()
}

func (n *Nouns) Jobs(ctx context.Context, ids []core.JobID) (map[core.JobID]*core.Job, []core.JobID, error) {
	got, err := n.JobStore.Get(ctx, store.Whole, ids)
	if err != nil {
		return nil, nil, err
	}
	return split(ids, got, func(j *core.Job) *core.Job { return j })
}

func (n *Nouns) Scheds(ctx context.Context, ids []core.JobID) (map[core.JobID]core.Sched, []core.JobID, error) {
	got, err := n.JobStore.Get(ctx, store.Planning, ids)
	if err != nil {
		return nil, nil, err
	}
	return split(ids, got, func(j *core.Job) core.Sched {
		s := j.Sched
		s.Schedule.Any = slices.Clone(s.Schedule.Any)
		return s
	})
}

func (n *Nouns) JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error) {
	return n.JobStore.Named(ctx, app, names)
}

func (n *Nouns) ListJobs(ctx context.Context, app string, after core.JobID, limit int) (list []core.Job, next core.JobID, err error) {
	page, next, err := n.JobStore.List(ctx, app, after, limit)
	list = make([]core.Job, 0, len(page))
	var bad core.Unreadable
	for _, g := range page {
		if g.Err == nil {
			list = append(list, *g.Is)
		} else {
			bad.Add(g.Is.Def.ID, g.Err)
		}
	}
	return list, next, cmp.Or(err, bad.Err())
}

func (n *Nouns) Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error) {
	return n.JobStore.Due(ctx, partition, upTo, after, limit)
}

func (n *Nouns) Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error) {
	return n.JobStore.Entries(ctx, job)
}

func (n *Nouns) NewJobIDs(ctx context.Context, count int) (core.JobID, error) {
	first, err := n.JobStore.Numbers(ctx, 0, count)
	return core.JobID(first), err
}

func (n *Nouns) Numbers(ctx context.Context, job core.JobID, count int) (uint32, error) {
	first, err := n.JobStore.Numbers(ctx, job, count)
	return uint32(first), err
}

// putJobs makes one write of each item.
func putJobs[T any](ctx context.Context, n *Nouns, items []T, put func(i int, item *T) store.JobPut) []error {
	puts := make([]store.JobPut, len(items))
	for i := range items {
		puts[i] = put(i, &items[i])
	}
	return n.JobStore.Put(ctx, puts)
}

func (n *Nouns) CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error {
	return putJobs(ctx, n, jobs, func(i int, j *core.Job) store.JobPut {
		return store.JobPut{Create: j, Changes: changes[min(i, len(changes)):min(i+1, len(changes))]}
	})
}

func (n *Nouns) UpdateJobs(ctx context.Context, updates []manage.Update) []error {
	return putJobs(ctx, n, updates, func(_ int, u *manage.Update) store.JobPut {
		return store.JobPut{Changes: []core.Change{u.Change},
			Update: &store.JobUpdate{Seen: u.Seen, SeenTail: u.SeenTail, Edges: u.Edges, Job: u.Job}}
	})
}

func (n *Nouns) DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error {
	return n.JobStore.Put(ctx, []store.JobPut{{Delete: &store.JobDelete{Seen: seen, Tombstone: t}, Changes: []core.Change{c}}})[0]
}

func (n *Nouns) Advance(ctx context.Context, moves []core.Advance) []error {
	return putJobs(ctx, n, moves, func(_ int, a *core.Advance) store.JobPut {
		if a.Change == nil {
			return store.JobPut{Advance: a}
		}
		return store.JobPut{Advance: a, Changes: []core.Change{*a.Change}}
	})
}

func (n *Nouns) PutEntries(ctx context.Context, entries []core.DueItem) []error {
	return putJobs(ctx, n, entries, func(_ int, d *core.DueItem) store.JobPut { return store.JobPut{Enter: d} })
}

func (n *Nouns) RemoveEntries(ctx context.Context, entries []core.DueItem) []error {
	return putJobs(ctx, n, entries, func(_ int, d *core.DueItem) store.JobPut { return store.JobPut{Leave: d} })
}

func (n *Nouns) Tombstones(ctx context.Context, ids []core.JobID) (map[core.JobID]core.Tombstone, error) {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = JobName(id)
	}
	named, err := readNamed(ctx, n, tombstones, names)
	found := make(map[core.JobID]core.Tombstone, len(named))
	for _, t := range named {
		found[t.Job] = t
	}
	return found, err
}

func (n *Nouns) ListTombstones(ctx context.Context, after core.JobID, limit int) (list []core.Tombstone, err error) {
	values, err := tombstones.List(ctx, n.Records, nil, JobName(after), limit)
	for i := range values {
		if err == nil {
			err = unread(tombstones, &values[i])
		}
		list = append(list, values[i].Is)
	}
	return list, err
}

func (n *Nouns) Edges(ctx context.Context) (int64, error) {
	r, err := n.read(ctx, edgesKey)
	return r.V + 1, err
}

// DeleteApp deletes an app. A store deletes an app only if it has no jobs, and then deletes its executors.
func (n *Nouns) DeleteApp(ctx context.Context, seen int64, name string, c core.Change) error {
	return n.write(ctx, apps.Delete(name, seen), c)
}
