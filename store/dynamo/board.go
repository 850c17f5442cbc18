package dynamo

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/store"
)

// board is all jobs as a page shows them.
type board struct {
	jobs    []gotJob                      // by ID
	ids     map[string]core.JobID         // of jobs, by app/name
	entries map[core.JobID][]core.DueItem // of the due index
}

// jobsOf is the list of all jobs.
const jobsOf = "jobs"

// listedDef is the maximum size of a definition that the list of jobs contains as well, in bytes.
const listedDef = 2 << 10

// writeListed returns the write of a job in the list of all jobs. The record has a short definition without secrets, with its
// revision: reading the list then costs a tenth of reading the items of its jobs. Otherwise it has only the app.
func writeListed(d *core.Def, rev int64) store.Write {
	secret := false
	d.WithSecrets(func(text string) string {
		secret = secret || text != ""
		return text
	})
	body := jsonText(d)
	if secret || len(body) > listedDef {
		body = jsonText(&core.Def{App: d.App})
	}
	return store.Write{Record: store.Record{Key: listedKey(d.ID), V: rev, Body: []byte(body)}, Was: store.Any}
}

func listedKey(id core.JobID) store.Key { return store.Key{Kind: jobsOf, Name: store.JobName(id)} }

// shownBoard is the board of a page if it was read already, otherwise an empty one.
func shownBoard(ctx context.Context) *board {
	return cmp.Or(glance.Known[*board](ctx, "board"), &board{})
}

// partKnown splits jobs into jobs to read and jobs that the board of a page has.
func partKnown(ctx context.Context, ids []core.JobID) (unknown []core.JobID, found map[core.JobID]gotJob) {
	b := shownBoard(ctx)
	found = make(map[core.JobID]gotJob, len(ids))
	for _, id := range ids {
		if i, is := slices.BinarySearchFunc(b.jobs, id, func(j gotJob, id core.JobID) int { return cmp.Compare(j.Is.Def.ID, id) }); is {
			found[id] = b.jobs[i]
		} else {
			unknown = append(unknown, id)
		}
	}
	return unknown, found
}

// list is jobs.List.
func (b *board) list(app string, after core.JobID, limit int) (list []gotJob, next core.JobID) {
	for _, j := range b.jobs {
		if j.Is.Def.ID <= after || app != "" && j.Is.Def.App != app {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].Is.Def.ID
		}
		list = append(list, j)
	}
	return list, 0
}

// readBoard reads the whole list of jobs and the whole index. It reads a job by its key if either lacks it, or if their revisions
// differ.
func (s *Store) readBoard(ctx context.Context) (*board, error) {
	b := &board{ids: map[string]core.JobID{}, entries: map[core.JobID][]core.DueItem{}}
	scheds := map[core.JobID]storedJob{}
	g, err := s.Global(ctx)
	if err != nil {
		return nil, err
	}
	for p := range max(g.Partitions, g.Readable, 1) {
		if err := s.db.Query(ctx, s.dueIndex(items.Equal("partition", items.Number(p))), func(it item) (bool, error) {
			if items.TextOf(it, "part") == "sched" {
				if j := decodeSched(it); j.Err == nil { // otherwise it is read by its key
					scheds[j.Is.Sched.ID] = j
				}
				return true, nil
			}
			d, err := parsePlanKey(items.TextOf(it, "planAt"), p)
			b.entries[d.Job] = append(b.entries[d.Job], d)
			return true, err
		}); err != nil {
			return nil, err
		}
	}
	var others []core.JobID
	apps := map[core.JobID]string{} // of others
	listed, err := s.list(ctx, jobsOf, "", "", math.MaxInt32)
	if err != nil {
		return nil, err
	}
	for i := range listed {
		id, err := jobOf(listed[i].Name)
		if err != nil {
			return nil, err
		}
		j, is := scheds[id]
		def := store.JobDefs.Value(&listed[i], nil)
		if def.Err != nil || def.Is.ID == 0 || !is || j.defRev != def.V {
			others, apps[id] = append(others, id), def.Is.App
		} else {
			b.jobs = append(b.jobs, gotJob{Is: &core.Job{Def: def.Is, Sched: j.Is.Sched}})
		}
	}
	for part := range slices.Chunk(others, budget.AtOnce) {
		found, err := s.allJobs(ctx, part)
		if err != nil {
			return nil, err
		}
		for id, j := range found {
			j.Is.Def.App = apps[id]
			b.jobs = append(b.jobs, j)
		}
	}
	slices.SortFunc(b.jobs, func(a, b gotJob) int { return cmp.Compare(a.Is.Def.ID, b.Is.Def.ID) })
	for _, j := range b.jobs {
		if j.Usable() == nil {
			b.ids[j.Is.Name()] = j.Is.Def.ID
		}
	}
	return b, nil
}

// lastForPage is runs.Last for a page, with one request for each job that has fewer than n numbered runs. It returns the
// newest planned and numbered runs without their long texts, as far back as both kinds are known.
func (s *Store) lastForPage(ctx context.Context, job core.JobID, upTo core.Instant, n int) (list []core.Run, err error) {
	low, _ := core.RunRange(job, 0, upTo)
	_, high := core.NumberedRange(job)
	in := s.between(low, high)
	in.ScanIndexForward = aws.Bool(false)
	list, err = items.List(ctx, &s.db, in, n, func(it item) (core.Run, error) {
		r, _, err := decodeRun(it)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	known := core.Instant(0)
	if len(list) == n {
		if _, planned := list[n-1].ID.Planned(); !planned {
			return s.lastOfBoth(ctx, job, upTo, n)
		}
		known = list[n-1].Slot
	}
	list = slices.DeleteFunc(list, func(r core.Run) bool { return r.Slot > upTo || r.Slot < known })
	newestFirst(list)
	return list, nil
}
