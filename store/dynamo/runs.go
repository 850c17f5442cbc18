package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/store"
)

// runs implements store.Runs.
type runs struct{ *Store }

func (s runs) Get(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	found := make(map[core.RunID]store.Got[*core.Run], len(ids))
	throttled := func(id core.RunID) { found[id] = store.Got[*core.Run]{Err: core.ErrThrottled} }
	var long []*core.Run
	unread, err := s.get(ctx, s.o.Names.Runs, keysOf(ids, runKey), func(it item) error {
		r, more, err := decodeRun(it)
		if r.ID == 0 {
			return err
		}
		if found[r.ID] = (store.Got[*core.Run]{Is: &r, Err: err}); more {
			long = append(long, &r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range unread {
		throttled(ids[i])
	}
	partial, err := s.readRest(ctx, long)
	for i := range partial {
		throttled(long[i].ID)
	}
	return found, err
}

// readRest adds their long texts to runs. partial holds the indices of runs whose texts were throttled.
func (s *Store) readRest(ctx context.Context, runs []*core.Run) (partial map[int]bool, err error) {
	if len(runs) == 0 {
		return nil, nil
	}
	keys, of := make([]item, len(runs)), make(map[core.RunID]*core.Run, len(runs))
	for i, r := range runs {
		keys[i], of[r.ID] = restKey(r.ID), r
	}
	return s.get(ctx, s.o.Names.Runs, keys, func(it item) error {
		n, err := intOf(it, "run")
		if r := of[core.RunID(-n)]; r != nil && err == nil {
			err = decodeRest(it, r)
		}
		return err
	})
}

// runOf returns the ID of the run of a write.
func runOf(p *store.RunPut) core.RunID {
	switch {
	case p.Create != nil:
		return p.Create.ID
	case p.Change != nil:
		return p.Change.ID
	}
	return p.Drop.ID
}

// Put implements store.Runs. Creates and changes share requests as statements, except four kinds. A write with entries or
// change records is a transaction. A run with long texts is created or ended in one transaction with them: a rejected write
// must store nothing. The end of a run that was not read is a separate write, whose answer shows the run. A change with an
// alternative in its condition is also separate, because a statement only allows AND beside its key. The answers of
// addresses are written afterwards, at half the price: they are only shown to users and may be lost.
func (s runs) Put(ctx context.Context, puts []store.RunPut) []error {
	began := s.o.Now()
	errs := s.noteWaiting(ctx, puts)
	var ending []core.JobID
	for i := range puts {
		if c := puts[i].Change; c != nil && c.Ends() {
			ending = append(ending, c.ID.Job())
		}
	}
	s.learn(ctx, ending)
	var list []write
	var together, alone []int
	rests := map[int][]write{}
	for i := range puts {
		p := &puts[i]
		switch c := p.Change; {
		case errs[i] != nil && (c == nil || c.To.State == core.Queued): // a released run is still found by its message
		case p.Drop != nil || p.Enter != nil || len(p.Leave)+len(p.Changes) > 0,
			c == nil && hasRest(p.Create), c != nil && (c.Had || c.Ends() && (c.Seen == nil || hasRest(&c.To))):
			alone = append(alone, i)
		default:
			writes := s.runWrites(ctx, p)
			list, rests[i], together = append(list, writes[0]), writes[1:], append(together, i)
		}
	}
	for k, err := range s.execute(ctx, list) {
		i := together[k]
		if errs[i] = err; err == nil && len(rests[i]) > 0 {
			_ = s.transact(ctx, rests[i]...)
		}
	}
	for _, wave := range waves(len(alone), func(k int) string { return runOf(&puts[alone[k]]).String() }) {
		store.AtOnce(len(wave), func(n int) {
			i := alone[wave[n]]
			errs[i] = s.putAlone(ctx, &puts[i])
		})
	}
	s.settle(ctx, puts, errs, began)
	return errs
}

// settle updates the other items that depend on finished writes.
func (s *Store) settle(ctx context.Context, puts []store.RunPut, errs []error, began time.Time) {
	var ended []core.Run
	var over []core.RunID
	failed := map[core.JobID]bool{}
	for i := range puts {
		c, created := puts[i].Change, puts[i].Create
		if errs[i] == nil && created != nil && created.FailedForGood() {
			failed[created.ID.Job()] = true
		}
		if errs[i] != nil || c == nil {
			continue
		}
		was := cmp.Or(c.Seen, &c.Was)
		if waited := was.State == core.Queued || was.State == core.Planned && !was.Until.IsZero(); waited &&
			(c.To.Owner != "" || c.To.State == core.Running || c.Ends()) {
			over = append(over, c.ID)
		}
		if !c.Ends() {
			continue
		}
		end := core.Run{State: c.To.State, Then: c.To.Then}
		if c.Seen != nil {
			end.Attempt = c.Seen.Attempt
		}
		if end.FailedForGood() {
			failed[c.ID.Job()] = true
		}
		if !c.GoesOn() && c.Seen != nil {
			r := *c.Seen
			if hasRest(&c.To) { // its long texts got their expiry together with its end
				r.Params, r.Tries = nil, nil
			}
			ended = append(ended, r)
		}
	}
	s.dropWaiting(ctx, over, began)
	s.letGo(ctx, ended)
	s.noteFailed(ctx, failed)
}

// runWrites returns the write that creates or changes a run, and perhaps the write of its long texts.
func (s *Store) runWrites(ctx context.Context, p *store.RunPut) []write {
	table := s.o.Names.Runs
	if p.Create != nil {
		it, rest := encodeRun(p.Create, s.runExpiry(ctx, p.Create))
		writes := []write{none("run").to(putItem, table, it)}
		if rest != nil {
			writes = append(writes, plain(putItem, table, rest))
		}
		return writes
	}
	c, e := p.Change, &expr{}
	to, expires := core.Run{ID: c.ID}, int64(0)
	c.Apply(&to)
	unread := c.Ends() && c.Seen == nil
	if c.Ends() && !c.GoesOn() && (unread || c.Seen.Shard.Of == 0) {
		expires = s.expiry(ctx, c.ID.Job())
	}
	is, rest := encodeRun(&to, expires)
	if c.Open {
		e.open()
	}
	if c.Had {
		e.any(where("Owner", "exists"), where("MaybeSent", "exists"))
	}
	if _, numbered := c.ID.Number(); unread && numbered { // a shard must be read first: its end sets no expiry
		e.equals("Shard", nil)
	}
	was := attributes(&c.Was)
	for _, part := range runFields {
		for _, name := range part.names {
			if c.If&part.in != 0 {
				e.equals(name, was[name])
			}
			if c.Set&part.in != 0 {
				e.put(name, is[name])
			}
		}
	}
	for _, name := range []string{"rest", "expires"} {
		if v, there := is[name]; there {
			e.set(name, v)
		}
	}
	writes := []write{e.to(updateItem, table, runKey(c.ID))}
	if beside := (&expr{}); rest != nil {
		for name, v := range rest { // other long texts stay
			if name != "job" && name != "run" {
				beside.set(name, v)
			}
		}
		writes = append(writes, beside.to(updateItem, table, restKey(c.ID)))
	}
	return writes
}

// putAlone makes one write. If it ends a run that was not read, the answer of the write shows the old run. A transaction has
// no such answer, so the run is read afterwards.
func (s *Store) putAlone(ctx context.Context, p *store.RunPut) error {
	if p.Drop != nil {
		return s.drop(ctx, p.Drop)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c, writes := p.Change, append(s.runWrites(ctx, p), s.changesOf(p.Changes)...)
	if p.Enter != nil {
		writes = append(writes, s.enterDue(*p.Enter))
	}
	for _, d := range p.Leave {
		if p.Enter == nil || d != *p.Enter {
			writes = append(writes, s.leaveDue(d))
		}
	}
	var old item
	var err error
	if c == nil || len(writes) > 1 {
		err = s.transact(ctx, writes...)
	} else {
		s.insist(ctx, func() bool {
			old, err = s.request(ctx, &writes[0])
			err = answer("table "+s.o.Names.Runs, err)
			return errors.Is(err, core.ErrThrottled)
		})
	}
	if err != nil || c == nil || !c.Ends() || c.Seen != nil && old == nil {
		return err
	}
	if r, more, err := decodeRun(old); err == nil && !more {
		c.Seen = &r
	} else if found, _, _ := store.Split(runs{s}.Get(ctx, []core.RunID{c.ID})); found[c.ID] != nil { // else it has ended all the same
		c.Seen = found[c.ID]
	}
	return nil
}

// drop deletes a run, then its long texts and its log without a condition.
func (s *Store) drop(ctx context.Context, r *core.Run) error {
	if r.State.Open() || r.Owing() {
		return core.ErrRefused
	}
	// Delete it only if it is unchanged: a new follow-up comes with another state or place.
	e := &expr{}
	for _, t := range []test{has("State", text(string(r.State))), has("Owes", nil), has("PostRun", nil), has("Place", attr(r.Place))} {
		e.any(has("run", nil), t)
	}
	if err := s.transact(ctx, e.to(deleteItem, s.o.Names.Runs, runKey(r.ID))); err != nil {
		return err
	}
	return errors.Join(s.transact(ctx, plain(deleteItem, s.o.Names.Runs, restKey(r.ID))),
		s.transact(ctx, plain(deleteItem, s.o.Names.State, recordKey(store.LogKey(r.ID)))))
}

func (s runs) Span(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	in := s.between(min(first, last), max(first, last))
	in.ScanIndexForward, in.Limit = aws.Bool(first <= last), aws.Int32(int32(limit))
	list, _, err := s.runsOf(ctx, in, limit, math.MaxInt, func(*core.Run) bool { return true })
	return list, err
}

// runsOf reads up to limit runs of a query that fit, with their long texts. It returns the last run that it read.
func (s *Store) runsOf(ctx context.Context, in *dynamodb.QueryInput, limit, most int, fits func(*core.Run) bool) (
	list []core.Run, last core.RunID, err error,
) {
	var rest []int
	read := 0
	err = s.query(ctx, in, func(it item) (bool, error) {
		r, more, err := decodeRun(it)
		if fits(&r) {
			if more {
				rest = append(rest, len(list))
			}
			list = append(list, r)
		}
		read, last = read+1, r.ID
		return len(list) < limit && read < most, err
	})
	if err != nil {
		return nil, 0, err
	}
	if len(list) < limit && read < most {
		last = 0
	}
	long := make([]*core.Run, len(rest))
	for k, i := range rest {
		long[k] = &list[i]
	}
	partial, err := s.readRest(ctx, long)
	if err == nil && len(partial) > 0 {
		err = core.ErrThrottled
	}
	return list, last, err
}

// Last implements store.Runs with two requests for each job, or mostly one for a page.
func (s runs) Last(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error) {
	last := s.lastOfBoth
	if glance.Of(ctx) != nil {
		last = s.lastForPage
	}
	lists, errs := make([][]core.Run, len(jobs)), make([]error, len(jobs))
	store.AtOnce(len(jobs), func(i int) { lists[i], errs[i] = last(ctx, jobs[i], upTo, n) })
	found := make(map[core.JobID][]core.Run, len(jobs))
	for i, list := range lists {
		if len(list) > 0 {
			found[jobs[i]] = list
		}
	}
	return found, errors.Join(errs...)
}

// lastOfBoth returns the newest runs of a job among its planned and its numbered runs.
func (s *Store) lastOfBoth(ctx context.Context, job core.JobID, upTo core.Instant, n int) (list []core.Run, err error) {
	low, high := core.RunRange(job, 0, upTo)
	nlow, nhigh := core.NumberedRange(job)
	for i, ends := range [][2]core.RunID{{high, low}, {nhigh, nlow}} {
		page, err := runs{s}.Span(ctx, ends[0], ends[1], n+i*n)
		if err != nil {
			return nil, err
		}
		list = append(list, slices.DeleteFunc(page, func(r core.Run) bool { return r.Slot > upTo })...)
	}
	newestFirst(list)
	return list[:min(n, len(list))], nil
}

func newestFirst(list []core.Run) {
	slices.SortFunc(list, func(a, b core.Run) int { return cmp.Or(cmp.Compare(b.Slot, a.Slot), cmp.Compare(b.ID, a.ID)) })
}

// between returns a query for the runs of a job between two IDs.
func (s *Store) between(lo, hi core.RunID) *dynamodb.QueryInput {
	e := equal("job", number(lo.Job()))
	e.any(where("run", "BETWEEN", number(lo), number(hi)))
	return e.query(s.o.Names.Runs)
}

// mostSearched limits the runs of a job that one call reads in search of open ones.
const mostSearched = 20_000

// Open implements store.Runs. Open runs have no index, because it would double the cost of a run. A call reads at most
// 20,000 runs. Runs that wait are listed: see waitingKey.
func (s runs) Open(ctx context.Context, first, last core.RunID, waiting bool, limit int) ([]core.Run, core.RunID, error) {
	if waiting {
		return s.waiting(ctx, first, last, limit)
	}
	in := s.between(last, first)
	in.ScanIndexForward = aws.Bool(false)
	list, end, err := s.runsOf(ctx, in, limit, mostSearched, func(r *core.Run) bool { return r.State.Open() })
	if err != nil || end <= last {
		return list, 0, err
	}
	return list, end - 1, nil
}

// Newest implements store.Store.Newest. In a glance it costs half a read unit.
func (s *Store) Newest(ctx context.Context) (key core.JournalKey, err error) {
	in := equal("of", text(store.KindJournals(s.o.Now().Unix()/60))).newest(s.o.Names.State, 1)
	err = s.query(ctx, in, func(it item) (more bool, err error) {
		key, err = store.ParseJournalName(stringOf(it, "key"))
		return false, err
	})
	return key, err
}

// once makes a read, or returns its result if the same page made it before.
func once[T any](ctx context.Context, name string, read func() (T, error)) (is T, err error) {
	g := glance.Of(ctx)
	if g == nil {
		return read()
	}
	v, err := g.Once(name, func() (any, error) { return read() })
	if err == nil {
		is = v.(T)
	}
	return is, err
}

// keepJournals extends the life of journals that must be read again at a minute by which half of their life has passed.
func (s *Store) keepJournals(ctx context.Context, groups []store.Group) error {
	var old []store.Key
	for i := range groups {
		for k := range groups[i].Writes {
			w := &groups[i].Writes[k]
			at, is := strings.CutPrefix(w.Kind, store.KindRevisit)
			if !is || w.Delete {
				continue
			}
			minute, _ := strconv.ParseInt(at, 10, 64)
			if key, err := store.ParseJournalName(w.Name); err == nil && time.Duration(minute-key.Minute)*time.Minute >= keepJournals/2 {
				old = append(old, store.JournalKey(key))
			}
		}
	}
	errs := make([]error, len(old))
	store.AtOnce(len(old), func(i int) {
		e := when(where("v", "exists"))
		e.set("expires", number(s.o.Now().Add(keepJournals).Unix()))
		errs[i] = s.transact(ctx, e.to(updateItem, s.o.Names.State, recordKey(old[i])))
		if errors.Is(errs[i], core.ErrRefused) {
			errs[i] = nil // it no longer exists
		}
	})
	return errors.Join(errs...)
}

// keepWaiting is how long a note stays that was not removed: longer than a run waits.
const keepWaiting = 400 * 24 * time.Hour

// waitingKey returns the key of the record that a run waits. Runs have no index, and a run may wait for months, so these
// records list the waiting runs of a job. Their names sort by ID, highest first.
func waitingKey(id core.RunID) store.Key {
	return store.Key{Kind: "waiting/" + id.Job().String(), Name: fmt.Sprintf("%019d", math.MaxInt64-int64(id))}
}

// noteWaiting stores a record for each run that is about to wait, and returns the error of each write. A run is stored after
// its record, so no run waits without one.
func (s *Store) noteWaiting(ctx context.Context, puts []store.RunPut) []error {
	errs := make([]error, len(puts))
	var of []int
	var groups []store.Group
	now := s.o.Now()
	for i := range puts {
		r, c := puts[i].Create, puts[i].Change
		if r != nil && r.State == core.Queued || c != nil && c.Set&core.RunState != 0 &&
			(c.To.State == core.Queued || c.To.State == core.Planned && c.Set&core.RunOwner != 0) {
			note := store.Record{Key: waitingKey(runOf(&puts[i])), V: core.Millis(now), Expires: now.Add(keepWaiting)}
			of, groups = append(of, i), append(groups, store.Group{Writes: []store.Write{{Record: note, Was: store.Any}}})
		}
	}
	for k, err := range s.Write(ctx, groups...) {
		errs[of[k]] = err
	}
	return errs
}

// dropWaiting removes the records of runs that have stopped waiting. A late removal leaves a newer record alone, because
// the time at is before the runs were read or written. If a removal fails, waiting removes the record.
func (s *Store) dropWaiting(ctx context.Context, ids []core.RunID, at time.Time) {
	groups := make([]store.Group, len(ids))
	for i, id := range ids {
		note := store.Record{Key: waitingKey(id), V: core.Millis(at) + 1}
		groups[i].Writes = []store.Write{{Record: note, Was: store.Lower, Delete: true}}
	}
	_ = s.Write(ctx, groups...)
}

// waiting reads a page of the records of runs that wait, and the runs.
func (s *Store) waiting(ctx context.Context, first, last core.RunID, limit int) (list []core.Run, next core.RunID, err error) {
	var ids, over []core.RunID
	began := s.o.Now()
	notes, err := s.List(ctx, waitingKey(first).Kind, waitingKey(first+1).Name, waitingKey(last-1).Name, limit)
	for _, note := range notes {
		n, bad := strconv.ParseInt(note.Name, 10, 64)
		ids, err = append(ids, core.RunID(math.MaxInt64-n)), cmp.Or(err, bad)
	}
	if err != nil {
		return nil, 0, err
	}
	found, err := store.Complete(runs{s}.Get(ctx, ids))
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		switch r, is := found[id]; {
		case is && !r.State.Open():
			over = append(over, id)
		case is && r.Owner == "":
			list = append(list, *r)
		}
	}
	s.dropWaiting(ctx, over, began)
	if len(ids) == limit && ids[limit-1] > last {
		next = ids[limit-1] - 1
	}
	return list, next, nil
}
