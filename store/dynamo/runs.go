package dynamo

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/store"
)

// runs implements store.Runs.
type runs struct{ *Store }

// openStates are the states of an open run.
var openStates = func() (list []types.AttributeValue) {
	for _, s := range core.States {
		if s.Open() {
			list = append(list, items.Text(string(s)))
		}
	}
	return list
}()

func (s runs) Get(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	found := make(map[core.RunID]store.Got[*core.Run], len(ids))
	var long []*core.Run
	unread, err := s.db.Get(ctx, s.o.Names.Runs, each(ids, runKey), func(it item) error {
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
	partial, err := s.readRest(ctx, long)
	for _, id := range append(each(unread, func(i int) core.RunID { return ids[i] }), partial...) {
		found[id] = store.Got[*core.Run]{Err: core.ErrThrottled}
	}
	return found, err
}

// readRest adds their long texts to runs. partial are the runs whose texts were throttled.
func (s *Store) readRest(ctx context.Context, long []*core.Run) (partial []core.RunID, err error) {
	of := make(map[core.RunID]*core.Run, len(long))
	for _, r := range long {
		of[r.ID] = r
	}
	unread, err := s.db.Get(ctx, s.o.Names.Runs, each(long, func(r *core.Run) item { return restKey(r.ID) }), func(it item) error {
		n, err := items.IntOf(it, "run")
		if r := of[core.RunID(-n)]; r != nil && err == nil {
			err = decodeRest(it, r)
		}
		return err
	})
	return each(unread, func(i int) core.RunID { return long[i].ID }), err
}

// Put implements store.Runs. Creates and changes share requests as statements, except four kinds. A write with entries or
// change records is a transaction. A run with long texts is created or ended in one transaction with them: a rejected write
// must store nothing. The end of a run that was not read is a separate write, whose answer shows the run. A change with an
// alternative in its condition is also separate, because a statement only allows AND beside its key. The answers of
// addresses are written afterwards, at half the price: they are only shown to users and may be lost.
func (s runs) Put(ctx context.Context, puts []store.RunPut) []error {
	began, waiting := s.o.Now(), store.Waiting{Store: s.Store.Store}
	errs := waiting.Note(ctx, puts)
	var ending []core.JobID
	for i := range puts {
		if c := puts[i].Change; c != nil && c.Ends() {
			ending = append(ending, c.ID.Job())
		}
	}
	s.learn(ctx, ending)
	var list []items.Write
	var together, alone []int
	rests := map[int][]items.Write{}
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
	for k, err := range s.db.Execute(ctx, list) {
		i := together[k]
		if errs[i] = err; err == nil && len(rests[i]) > 0 {
			_ = s.db.Transact(ctx, rests[i]...)
		}
	}
	for _, wave := range items.Waves(len(alone), func(k int) string { return puts[alone[k]].ID().String() }) {
		store.AtOnce(len(wave), func(n int) {
			i := alone[wave[n]]
			errs[i] = s.putAlone(ctx, &puts[i])
		})
	}
	waiting.Settle(ctx, puts, errs, began)
	s.letGo(ctx, puts, errs)
	s.Failed.Note(ctx, puts, errs)
	return errs
}

// runWrites returns the write that creates or changes a run, and perhaps the write of its long texts.
func (s *Store) runWrites(ctx context.Context, p *store.RunPut) []items.Write {
	table := s.o.Names.Runs
	if p.Create != nil {
		it, rest := encodeRun(p.Create, s.runExpiry(ctx, p.Create))
		writes := []items.Write{items.Missing("run").To(items.Put, table, it)}
		if rest != nil {
			writes = append(writes, items.Plain(items.Put, table, rest))
		}
		return writes
	}
	c, e := p.Change, &items.Expr{}
	to, expires := core.Run{ID: c.ID}, int64(0)
	c.Apply(&to)
	unread := c.Ends() && c.Seen == nil
	if c.Ends() && !c.GoesOn() && (unread || c.Seen.Shard.Of == 0) {
		expires = s.expiry(ctx, c.ID.Job())
	}
	is, rest := encodeRun(&to, expires)
	if c.Open {
		e.And(items.Where("State", "IN", openStates...))
	}
	if c.Had {
		e.And(items.Where("Owner", "exists"), items.Where("MaybeSent", "exists"))
	}
	if _, numbered := c.ID.Number(); unread && numbered { // a shard must be read first: its end sets no expiry
		e.And(items.Has("Shard", nil))
	}
	was := attributes(&c.Was)
	for _, part := range runFields {
		for _, name := range part.names {
			if c.If&part.in != 0 {
				e.And(items.Has(name, was[name]))
			}
			if c.Set&part.in != 0 {
				e.Put(name, is[name])
			}
		}
	}
	for _, name := range []string{"rest", "expires"} {
		if v, there := is[name]; there {
			e.Put(name, v)
		}
	}
	writes := []items.Write{e.To(items.Update, table, runKey(c.ID))}
	if beside := (&items.Expr{}); rest != nil {
		for name, v := range rest { // other long texts stay
			if name != "job" && name != "run" {
				beside.Put(name, v)
			}
		}
		writes = append(writes, beside.To(items.Update, table, restKey(c.ID)))
	}
	return writes
}

// putAlone makes one write. If it ends a run that was not read, the answer of the write shows the old run. A transaction has
// no such answer, so the run is read afterwards.
func (s *Store) putAlone(ctx context.Context, p *store.RunPut) error {
	if p.Drop != nil {
		return s.drop(ctx, p.Drop)
	}
	c, writes := p.Change, append(s.runWrites(ctx, p), s.recordsOf(s.changeWrites(p.Changes))...)
	if p.Enter != nil {
		writes = append(writes, s.enterDue(*p.Enter))
	}
	for _, d := range p.Leave {
		if p.Enter == nil || d != *p.Enter {
			writes = append(writes, s.leaveDue(d))
		}
	}
	old, err := s.db.TransactOld(ctx, writes...)
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
	e := &items.Expr{}
	for name, v := range (item{"State": items.Text(string(r.State)), "Owes": nil, "PostRun": nil, "Place": attr(r.Place)}) {
		e.And(items.Has("run", nil), items.Has(name, v))
	}
	if err := s.db.Transact(ctx, e.To(items.Delete, s.o.Names.Runs, runKey(r.ID))); err != nil {
		return err
	}
	return errors.Join(s.db.Transact(ctx, items.Plain(items.Delete, s.o.Names.Runs, restKey(r.ID))),
		s.db.Transact(ctx, items.Plain(items.Delete, s.o.Names.State, recordKey(store.LogKey(r.ID)))))
}

func (s runs) Span(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	in := s.between(min(first, last), max(first, last))
	in.ScanIndexForward, in.Limit = aws.Bool(first <= last), aws.Int32(int32(limit))
	list, _, err := s.runsOf(ctx, in, limit, math.MaxInt, func(*core.Run) bool { return true })
	return list, err
}

// runsOf reads up to limit runs of a query that fit, with their long texts. It returns the last run that it read; 0: there are no more.
func (s *Store) runsOf(ctx context.Context, in *dynamodb.QueryInput, limit, most int, fits func(*core.Run) bool) (
	list []core.Run, last core.RunID, err error,
) {
	var found, long []*core.Run
	read := 0
	err = s.db.Query(ctx, in, func(it item) (bool, error) {
		r, more, err := decodeRun(it)
		if fits(&r) {
			if found = append(found, &r); more {
				long = append(long, &r)
			}
		}
		read, last = read+1, r.ID
		return len(found) < limit && read < most, err
	})
	if err != nil {
		return nil, 0, err
	}
	if len(found) < limit && read < most {
		last = 0
	}
	partial, err := s.readRest(ctx, long)
	if err == nil && len(partial) > 0 {
		err = core.ErrThrottled
	}
	return each(found, func(r *core.Run) core.Run { return *r }), last, err
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
	e := items.Equal("job", items.Number(lo.Job())).And(items.Where("run", "BETWEEN", items.Number(lo), items.Number(hi)))
	return e.Query(s.o.Names.Runs)
}

// mostSearched limits the runs of a job that one call reads in search of open ones.
const mostSearched = 20_000

// Open implements store.Runs. Open runs have no index, because it would double the cost of a run. A call reads at most
// 20,000 runs. Runs that wait are listed: see store.Waiting.
func (s runs) Open(ctx context.Context, first, last core.RunID, waiting bool, limit int) ([]core.Run, core.RunID, error) {
	if waiting {
		return store.Waiting{Store: s.Store.Store}.Page(ctx, first, last, limit)
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
	in := items.Equal("of", items.Text(store.KindJournals(s.o.Now().Unix()/60))).Newest(s.o.Names.State, 1)
	err = s.db.Query(ctx, in, func(it item) (more bool, err error) {
		key, err = store.ParseJournalName(items.TextOf(it, "key"))
		return false, err
	})
	return key, err
}
