package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/store"
)

// board is all jobs as a page shows them.
type board struct {
	jobs []gotJob              // by ID
	ids  map[string]core.JobID // of jobs, by app/name
	// The content of the index.
	scheds  map[core.JobID]storedJob
	entries map[core.JobID][]core.DueItem
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

// boardOf is the board of a page.
func (s *Store) boardOf(ctx context.Context) (*board, error) {
	return once(ctx, "board", func() (*board, error) { return s.readBoard(ctx) })
}

// shownBoard is the board of a page if it was read already, otherwise an empty one.
func shownBoard(ctx context.Context) *board {
	if g := glance.Of(ctx); g != nil {
		if b, is := g.Known("board").(*board); is {
			return b
		}
	}
	return &board{}
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
	b := &board{scheds: map[core.JobID]storedJob{}, entries: map[core.JobID][]core.DueItem{}}
	if err := s.readIndex(ctx, b); err != nil {
		return nil, err
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
		j, is := b.scheds[id]
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
	b.ids = make(map[string]core.JobID, len(b.jobs))
	for _, j := range b.jobs {
		if j.Usable() == nil {
			b.ids[j.Is.Name()] = j.Is.Def.ID
		}
	}
	return b, nil
}

// readIndex reads the planning data of the jobs, and the entries of waiting runs.
func (s *Store) readIndex(ctx context.Context, b *board) error {
	g, err := s.Global(ctx)
	if err != nil {
		return err
	}
	for p := range max(g.Partitions, g.Readable, 1) {
		if err := s.query(ctx, s.dueIndex(equal("partition", number(p))), func(it item) (bool, error) {
			if stringOf(it, "part") == "sched" {
				if j := decodeSched(it); j.Err == nil { // otherwise it is read by its key
					b.scheds[j.Is.Sched.ID] = j
				}
				return true, nil
			}
			d, err := parsePlanKey(stringOf(it, "planAt"), p)
			b.entries[d.Job] = append(b.entries[d.Job], d)
			return true, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// lastForPage is runs.Last for a page, with one request for each job that has fewer than n numbered runs. It returns the
// newest planned and numbered runs without their long texts, as far back as both kinds are known.
func (s *Store) lastForPage(ctx context.Context, job core.JobID, upTo core.Instant, n int) (list []core.Run, err error) {
	low, _ := core.RunRange(job, 0, upTo)
	_, high := core.NumberedRange(job)
	in := s.between(low, high)
	in.ScanIndexForward, in.Limit = aws.Bool(false), aws.Int32(int32(n))
	known := core.Instant(0)
	looked, planned := 0, false
	err = s.query(ctx, in, func(it item) (bool, error) {
		r, _, err := decodeRun(it)
		list = append(list, r)
		looked++
		if _, planned = r.ID.Planned(); looked == n {
			known = r.Slot
		}
		return looked < n, err
	})
	switch {
	case err != nil:
		return nil, err
	case looked == n && !planned:
		return s.lastOfBoth(ctx, job, upTo, n)
	}
	list = slices.DeleteFunc(list, func(r core.Run) bool { return r.Slot > upTo || r.Slot < known })
	newestFirst(list)
	return list, nil
}

// The list of jobs that may be failing has an item for each job with a run that failed for good. A success writes nothing:
// a page that finds the job recovered removes the item.

const failedOf = "failed"

// listedFor is how long a process does not list a job again. A page keeps the job listed for longer, see store.FailedJobs.
const listedFor = 5 * time.Minute

// noteFor limits the time that a call spends on the list of failing jobs. Its runs are stored already.
const noteFor = time.Second

// noteFailed adds the jobs of runs that failed for good to the list. It returns no error, because the runs are already stored: the
// next failure of the job lists it.
func (s *Store) noteFailed(ctx context.Context, of map[core.JobID]bool) {
	now := s.o.Now()
	maps.DeleteFunc(of, func(job core.JobID, _ bool) bool {
		at, listed := s.failed.Load(job)
		return listed && now.Sub(at.(time.Time)).Abs() <= listedFor
	})
	if len(of) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, noteFor)
	defer cancel()
	var list []store.Record
	for job := range of {
		list = append(list, store.Record{Key: failedKey(job), V: core.Millis(now), Expires: now.Add(keepTombs)})
	}
	if s.WriteAny(ctx, list, false) == nil {
		for job := range of {
			s.failed.Store(job, now)
		}
	}
}

func failedKey(job core.JobID) store.Key { return store.Key{Kind: failedOf, Name: store.JobName(job)} }

// FailedJobs implements store.FailedJobs.
func (s *Store) FailedJobs(ctx context.Context) (map[core.JobID]time.Time, error) {
	list, err := s.List(ctx, failedOf, "", "", math.MaxInt32)
	found := make(map[core.JobID]time.Time, len(list))
	for i := 0; i < len(list) && err == nil; i++ {
		var id core.JobID
		id, err = jobOf(list[i].Name)
		found[id], err = core.FromMillis(list[i].V), cmp.Or(err, list[i].Err)
	}
	return found, err
}

// ForgetFailed implements store.FailedJobs.
func (s *Store) ForgetFailed(ctx context.Context, jobs map[core.JobID]time.Time) error {
	var groups []store.Group
	for job, at := range jobs {
		w := store.Write{Record: store.Record{Key: failedKey(job)}, Was: core.Millis(at), Delete: true}
		groups = append(groups, store.Group{Writes: []store.Write{w}})
	}
	errs := slices.DeleteFunc(s.Write(ctx, groups...), func(err error) bool { return errors.Is(err, core.ErrRefused) })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete the marks of failed jobs: %w", err)
	}
	return nil
}
