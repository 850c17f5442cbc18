package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
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

func keysOf[ID, K any](ids []ID, key func(ID) K) []K {
	keys := make([]K, len(ids))
	for i, id := range ids {
		keys[i] = key(id)
	}
	return keys
}

// readJobs reads jobs. It always reads the sched item, which names the revision of the definition; a cached definition of that
// revision is not read again. A revision's definition never changes, so the first read of one may return an older state. If the
// two items of a job still differ in revision, the job counts as throttled.
func (s *Store) readJobs(ctx context.Context, ids []core.JobID) (map[core.JobID]storedJob, error) {
	found, err := s.readScheds(ctx, ids)
	if err != nil {
		return nil, err
	}
	defs := make(map[store.Key]store.Record, len(found))
	for id := range found {
		def, _ := s.defs.of(id)
		defs[defKey(id)] = def.Record
	}
	for _, as := range []context.Context{glance.First(ctx), ctx} {
		var differ []store.Key
		for _, id := range ids {
			j, is := found[id]
			if d := defs[defKey(id)]; is && j.Err == nil && (d.Err != nil || d.V != j.defRev) {
				differ = append(differ, defKey(id))
			}
		}
		read, err := s.records(as, differ)
		if err != nil {
			return nil, err
		}
		maps.Copy(defs, read)
	}
	for id, j := range found {
		if j.Is.Def.ID = id; j.Err == nil {
			j.Err = s.define(j.Is, defs[defKey(id)], j.defRev)
			found[id] = j
		}
	}
	return found, nil
}

// define adds its definition to a job, whose sched item names a revision.
func (s *Store) define(j *core.Job, def store.Record, rev int64) error {
	switch {
	case def.Err != nil:
		return def.Err
	case def.V != rev:
		return core.ErrThrottled // a change came between the two reads: read again
	}
	d := store.JobDefs.Value(&def, s.o.Secrets)
	if d.Usable() == nil {
		s.defs.note(j.Def.ID, known{def, d.Is.Keep.Days})
		j.Def = d.Is
	}
	return d.Err
}

// readScheds reads jobs without their definitions.
func (s *Store) readScheds(ctx context.Context, ids []core.JobID) (map[core.JobID]storedJob, error) {
	read := make(map[core.JobID]storedJob, len(ids))
	unread, err := s.get(ctx, s.o.Names.Jobs, keysOf(ids, schedKey), func(it item) error {
		id, err := jobOf(stringOf(it, "id"))
		if err == nil {
			read[id] = decodeSched(it)
			read[id].Is.Sched.ID = id
		}
		return err
	})
	for i := range unread {
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
	if len(keys) == 0 {
		return found, nil
	}
	records, err := s.Store.Get(ctx, keys...)
	for key, r := range records {
		found[key.Name], err = core.JobID(r.V), cmp.Or(err, r.Err)
	}
	return found, err
}

func stringOf(it item, name string) string {
	if v, ok := it[name].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

func intOf(it item, name string) (int64, error) {
	v, ok := it[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("an item has no number %q", name)
	}
	return strconv.ParseInt(v.Value, 10, 64)
}

func (s jobs) List(ctx context.Context, app string, after core.JobID, limit int) (list []gotJob, next core.JobID, err error) {
	if glance.Of(ctx) != nil {
		b, err := s.boardOf(ctx)
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
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	out, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &s.o.Names.State, Key: stateKey("job#"+job.String(), "number"),
		UpdateExpression: aws.String("ADD #n :n"), ExpressionAttributeNames: map[string]string{"#n": "n"},
		ExpressionAttributeValues: item{":n": number(n)}, ReturnValues: types.ReturnValueUpdatedNew})
	if err != nil {
		return 0, answer("table "+s.o.Names.State, err)
	}
	last, err := intOf(out.Attributes, "n")
	return last - int64(n) + 1, err
}

// Due lags slightly behind the writes.
func (s jobs) Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) (list []core.DueItem, err error) {
	from := "0"
	if after != (core.DueItem{}) {
		from = planKey(after) + "#" // the next text after it
	}
	to := fmt.Sprintf("%010d$", upTo) // after all of that second
	if from >= to {
		return nil, ctx.Err()
	}
	e := equal("partition", number(partition))
	e.any(where("planAt", "BETWEEN", text(from), text(to)))
	in := s.dueIndex(e)
	in.Limit = aws.Int32(int32(limit))
	err = s.query(ctx, in, func(it item) (bool, error) {
		d, err := parsePlanKey(stringOf(it, "planAt"), partition)
		list = append(list, d)
		return len(list) < limit, err
	})
	return list, err
}

// dueIndex returns a query of the due index, which has no strong reads.
func (s *Store) dueIndex(e *expr) *dynamodb.QueryInput {
	in := e.query(s.o.Names.Jobs)
	in.IndexName, in.ConsistentRead = aws.String("due"), nil
	return in
}

func (s jobs) Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error) {
	if b := shownBoard(ctx); b.entries != nil {
		return b.entries[job], nil
	}
	var list []core.DueItem
	err := s.query(ctx, equal("id", text("entry#"+job.String())).query(s.o.Names.Jobs), func(it item) (bool, error) {
		p, err := intOf(it, "partition")
		if err != nil {
			return false, err
		}
		d, err := parsePlanKey(stringOf(it, "planAt"), int(p))
		list = append(list, d)
		return true, err
	})
	return list, err
}

// ListDefinitions implements store.Definitions.
func (s jobs) ListDefinitions(ctx context.Context, after core.JobID, limit int) (list []store.Record, next core.JobID, err error) {
	ids, next, err := s.listed(ctx, "", after, limit)
	if err != nil {
		return nil, 0, err
	}
	found, err := s.records(ctx, keysOf(ids, defKey))
	for _, id := range ids {
		if r, is := found[defKey(id)]; is {
			list, err = append(list, r), cmp.Or(err, r.Err)
		}
	}
	return list, next, err
}

// Blank reports whether there is no app, and so no job, and no channel: then no secret is stored.
func (s *Store) Blank(ctx context.Context) (bool, error) {
	for _, kind := range []string{store.KindApp, "channel"} {
		if found, err := s.List(ctx, kind, "", "", 1); err != nil || len(found) > 0 {
			return false, err
		}
	}
	return true, nil
}

// known is a definition as stored under a revision. A revision's definition never changes, so it is valid while the sched
// item names that revision.
type known struct {
	store.Record     // V is the revision, 0 if the job does not exist; each reader decodes its own copy
	days         int // number of days to keep its runs
}

const (
	knownSize = 200      // of a definition, beside its body, in bytes
	mostKnown = 32 << 20 // that are remembered together
)

// defs caches definitions. It does not decide which one is in force: the sched item does, which is read for each run.
type defs struct {
	mu   sync.Mutex
	is   map[core.JobID]known
	size int
}

func (d *defs) of(job core.JobID) (known, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, is := d.is[job]
	return k, is
}

// unknown returns the jobs whose definitions are not cached.
func (d *defs) unknown(jobs []core.JobID) (list []core.JobID) {
	for _, job := range jobs {
		if _, is := d.of(job); !is {
			list = append(list, job)
		}
	}
	return list
}

func (d *defs) note(job core.JobID, k known) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(job)
	for other := range d.is { // any of them: the next read restores it
		if d.size+len(k.Body)+knownSize <= mostKnown {
			break
		}
		d.drop(other)
	}
	d.is[job] = k
	d.size += len(k.Body) + knownSize
}

func (d *defs) forget(job core.JobID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(job)
}

func (d *defs) drop(job core.JobID) {
	if k, is := d.is[job]; is {
		d.size -= len(k.Body) + knownSize
		delete(d.is, job)
	}
}
