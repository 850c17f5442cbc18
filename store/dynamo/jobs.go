package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/store"
)

// jobs implements store.Jobs.
type jobs struct{ *Store }

type gotJob = store.Got[*core.Job]

// storedJob is a job as it was read, with the revision of the definition that its sched item names.
type storedJob struct {
	gotJob
	defRev int64
}

func unreadJob(id core.JobID, err error) storedJob {
	return storedJob{gotJob: gotJob{Is: &core.Job{Sched: core.Sched{ID: id}}, Err: err}}
}

func (s jobs) Get(ctx context.Context, part store.Part, ids []core.JobID) (map[core.JobID]gotJob, error) {
	found, read := map[core.JobID]gotJob{}, s.readScheds
	if part == store.Whole {
		ids, found = partKnown(ctx, ids)
		read = s.readJobs
	}
	list, err := read(ctx, ids)
	for id, j := range list {
		found[id] = j.gotJob
	}
	return found, err
}

// each returns the result of a function for each value of a list.
func each[T, R any](list []T, of func(T) R) []R {
	results := make([]R, len(list))
	for i, v := range list {
		results[i] = of(v)
	}
	return results
}

// readJobs reads jobs. It always reads the sched item, which names the revision of the definition; a cached definition of that
// revision is not read again. A revision's definition never changes, so the first read of one may return an older state. If the
// two items of a job still differ in revision, the job counts as throttled.
func (s *Store) readJobs(ctx context.Context, ids []core.JobID) (map[core.JobID]storedJob, error) {
	found, err := s.readScheds(ctx, ids)
	if err != nil {
		return nil, err
	}
	defs := make(map[core.JobID]known, len(found))
	for id := range found {
		defs[id] = s.defs.of(id)
	}
	for _, as := range []context.Context{glance.First(ctx), ctx} {
		var differ []core.JobID
		for _, id := range ids {
			if j, is := found[id]; is && j.Err == nil && defs[id].V != j.defRev {
				differ = append(differ, id)
			}
		}
		read, err := s.records(as, each(differ, defKey))
		if err != nil {
			return nil, err
		}
		for _, id := range differ {
			if r, is := read[defKey(id)]; is {
				defs[id] = known{Value: store.JobDefs.Value(&r, s.o.Secrets), size: len(r.Body)}
			}
		}
	}
	for id, j := range found {
		switch d := defs[id]; {
		case j.Err != nil:
		case d.V != j.defRev:
			j.Err = core.ErrThrottled // a change came between the two reads: read again
		default:
			if j.Err = d.Err; d.Usable() == nil {
				j.Is.Def, d.at = d.Is, s.o.Now()
				s.defs.note(id, d)
			}
		}
		j.Is.Def.ID = id
		found[id] = j
	}
	return found, nil
}

// readScheds reads jobs without their definitions.
func (s *Store) readScheds(ctx context.Context, ids []core.JobID) (map[core.JobID]storedJob, error) {
	read := make(map[core.JobID]storedJob, len(ids))
	unread, err := s.db.Get(ctx, s.o.Names.Jobs, each(ids, schedKey), func(it item) error {
		id, err := jobOf(items.TextOf(it, "id"))
		if err == nil {
			read[id] = decodeSched(it)
			read[id].Is.Sched.ID = id
		}
		return err
	})
	for _, i := range unread {
		read[ids[i]] = unreadJob(ids[i], core.ErrThrottled)
	}
	return read, err
}

func (s jobs) Named(ctx context.Context, app string, names []string) (map[string]core.JobID, error) {
	found := map[string]core.JobID{}
	b := shownBoard(ctx)
	var keys []store.Key
	for _, n := range names {
		if id := b.ids[app+"/"+n]; id != 0 {
			found[n] = id
		} else {
			keys = append(keys, store.Key{Kind: namesOf(app), Name: n})
		}
	}
	records, err := s.Store.Get(ctx, keys...)
	for key, r := range records {
		found[key.Name], err = core.JobID(r.V), cmp.Or(err, r.Err)
	}
	return found, err
}

func (s jobs) List(ctx context.Context, app string, after core.JobID, limit int) (list []gotJob, next core.JobID, err error) {
	if glance.Of(ctx) != nil {
		b, err := glance.Once(ctx, "board", func() (*board, error) { return s.readBoard(ctx) })
		if err != nil {
			return nil, 0, err
		}
		list, next = b.list(app, after, limit)
		return list, next, nil
	}
	ids, next, err := s.listed(ctx, app, after, limit)
	if err != nil {
		return nil, 0, err
	}
	found, err := s.allJobs(ctx, ids)
	for _, id := range ids {
		if j, is := found[id]; is {
			list = append(list, j)
		}
	}
	return list, next, err
}

// listed reads the IDs of jobs, in their order: from the list of all jobs, or from the names of the jobs of an app.
func (s *Store) listed(ctx context.Context, app string, after core.JobID, limit int) (ids []core.JobID, next core.JobID, err error) {
	of, from, most := jobsOf, store.JobName(after), limit
	if app != "" {
		of, from, most = namesOf(app), "", math.MaxInt32
	}
	records, err := s.List(ctx, of, from, "", most)
	if err != nil {
		return nil, 0, err
	}
	for i := range records {
		id, err := core.JobID(records[i].V), records[i].Err
		if app == "" {
			id, err = jobOf(records[i].Name)
		}
		if err != nil {
			return nil, 0, err
		}
		if id > after {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) >= limit {
		ids = ids[:limit]
		next = ids[limit-1]
	}
	return ids, next, nil
}

// allJobs reads jobs until none is throttled.
func (s *Store) allJobs(ctx context.Context, ids []core.JobID) (map[core.JobID]gotJob, error) {
	found := map[core.JobID]gotJob{}
	for left := ids; len(left) > 0; {
		some, err := s.readJobs(ctx, left)
		if err != nil {
			return nil, err
		}
		var again []core.JobID
		for _, id := range left {
			if j, is := some[id]; is && errors.Is(j.Err, core.ErrThrottled) {
				again = append(again, id)
			} else if is {
				found[id] = j.gotJob
			}
		}
		if len(again) == len(left) && glance.Of(ctx) == nil {
			return nil, core.ErrThrottled
		}
		left, ctx = again, glance.End(ctx) // without strong reads, the two items of a job may be from different times
	}
	return found, nil
}

// Numbers adds to a counter. The one of job IDs is the counter of job 0.
func (s jobs) Numbers(ctx context.Context, job core.JobID, n int) (first int64, err error) {
	last, err := s.db.Add(ctx, s.o.Names.State, stateKey("job#"+job.String(), "number"), "n", n)
	return last - int64(n) + 1, err
}

// Due lags slightly behind the writes.
func (s jobs) Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error) {
	from := "0"
	if after != (core.DueItem{}) {
		from = planKey(after) + "#" // the next text after it
	}
	to := fmt.Sprintf("%010d$", upTo) // after all of that second
	if from >= to {
		return nil, ctx.Err()
	}
	e := items.Equal("partition", items.Number(partition)).And(items.Where("planAt", "BETWEEN", items.Text(from), items.Text(to)))
	return items.List(ctx, &s.db, s.dueIndex(e), limit, func(it item) (core.DueItem, error) {
		return parsePlanKey(items.TextOf(it, "planAt"), partition)
	})
}

// dueIndex returns a query of the due index, which has no strong reads.
func (s *Store) dueIndex(e *items.Expr) *dynamodb.QueryInput {
	in := e.Query(s.o.Names.Jobs)
	in.IndexName, in.ConsistentRead = aws.String("due"), nil
	return in
}

func (s jobs) Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error) {
	if b := shownBoard(ctx); b.entries != nil {
		return b.entries[job], nil
	}
	in := items.Equal("id", items.Text("entry#"+job.String())).Query(s.o.Names.Jobs)
	return items.List(ctx, &s.db, in, 0, func(it item) (core.DueItem, error) {
		p, err := items.IntOf(it, "partition")
		if err != nil {
			return core.DueItem{}, err
		}
		return parsePlanKey(items.TextOf(it, "planAt"), int(p))
	})
}

// ListDefinitions implements store.Definitions.
func (s jobs) ListDefinitions(ctx context.Context, after core.JobID, limit int) (list []store.Record, next core.JobID, err error) {
	ids, next, err := s.listed(ctx, "", after, limit)
	if err != nil {
		return nil, 0, err
	}
	found, err := s.records(ctx, each(ids, defKey))
	for _, id := range ids {
		if r, is := found[defKey(id)]; is {
			list, err = append(list, r), cmp.Or(err, r.Err)
		}
	}
	return list, next, err
}

const (
	knownSize = 200      // of a definition, beside its body, in bytes
	mostKnown = 32 << 20 // that are remembered together
)

// defs caches definitions. It does not decide which one is in force: the sched item does, which is read for each run. A revision's
// definition never changes, so it is valid while the sched item names that revision.
type defs struct {
	mu   sync.Mutex
	is   map[core.JobID]known
	size int
}

// known is a definition. If V is 0, it must be read again and only its retention is used: its secrets are locked, or the job is deleted.
type known struct {
	store.Value[core.Def]
	size int       // of its body
	at   time.Time // when the sched item last named its revision
}

func (d *defs) of(job core.JobID) known {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.is[job]
}

// note caches a definition. Callers must not change it from then on.
func (d *defs) note(job core.JobID, k known) {
	if k.Err != nil { // its secrets are locked
		k.V, k.Err = 0, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(job)
	for other := range d.is { // any of them: the next read restores it
		if d.size+k.size+knownSize <= mostKnown {
			break
		}
		d.drop(other)
	}
	d.is[job] = k
	d.size += k.size + knownSize
}

func (d *defs) forget(job core.JobID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(job)
}

func (d *defs) drop(job core.JobID) {
	if k, is := d.is[job]; is {
		d.size -= k.size + knownSize
		delete(d.is, job)
	}
}
