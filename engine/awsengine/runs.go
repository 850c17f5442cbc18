package awsengine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/engine"
)

// runNames are the attributes of a run, in the order in which an insert names them.
var runNames = []string{"job", "run", "app", "state", "cause", "rev", "at", "slot", "seq", "owner", "until", "address", "maybeSent",
	"journal", "sentAt", "sentRev",
	"attempt", "first", "retries", "fixedDelay", "params", "addresses", "key", "by", "permit", "pauseAfter", "notice", "rerunOf", "killBy",
	"killAt", "endedAt", "reason", "code", "message", "data", "owes", "then", "late", "tries", "parent", "place", "shard",
	"postrun", "keepLog",
	"rest", "expires"}

func (s *Store) Runs(ctx context.Context, runs []core.RunID) (map[core.RunID]core.Run, []core.RunID, error) {
	keys := make([]item, len(runs))
	for i, id := range runs {
		keys[i] = runKey(id)
	}
	var list []core.Run
	var rest []int
	left, err := s.get(ctx, s.o.Names.Runs, keys, func(it item) error {
		r, more, err := decodeRun(it)
		if more {
			rest = append(rest, len(list))
		}
		list = append(list, r)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	var unread []core.RunID
	for i := range left {
		unread = append(unread, runs[i])
	}
	partial, err := s.readRest(ctx, list, rest)
	if err != nil {
		return nil, nil, err
	}
	found := make(map[core.RunID]core.Run, len(list))
	for i := range list {
		if partial[i] {
			unread = append(unread, list[i].ID)
		} else {
			found[list[i].ID] = list[i]
		}
	}
	return found, unread, nil
}

// readRest adds the long texts to the runs with these indices. partial holds the indices whose texts could not be read.
func (s *Store) readRest(ctx context.Context, list []core.Run, rest []int) (partial map[int]bool, err error) {
	if len(rest) == 0 {
		return nil, nil
	}
	keys := make([]item, len(rest))
	index := make(map[core.RunID]int, len(rest))
	for k, i := range rest {
		keys[k] = restKey(list[i].ID)
		index[list[i].ID] = i
	}
	left, err := s.get(ctx, s.o.Names.Runs, keys, func(it item) error {
		n, err := intOf(it, "run")
		if err != nil {
			return err
		}
		if i, ok := index[core.RunID(-n)]; ok {
			return decodeRest(it, &list[i])
		}
		return nil
	})
	partial = make(map[int]bool, len(left))
	for k := range left {
		partial[rest[k]] = true
	}
	return partial, err
}

// Create implements dispatch.Store and finish.Store. It stores each run with one statement. A run with long texts uses a
// transaction, so that a rejected create leaves no texts behind.
func (s *Store) Create(ctx context.Context, runs []core.Run) []error {
	errs := s.noteWaiting(ctx, len(runs), func(i int) (core.RunID, bool) { return runs[i].ID, runs[i].State == core.Queued })
	var list []statement
	var of, long []int
	rests := make([][]types.TransactWriteItem, len(runs))
	for i := range runs {
		if errs[i] != nil {
			continue
		}
		it, rest, err := encodeRun(&runs[i], s.runExpiry(ctx, &runs[i]))
		switch {
		case err != nil:
			errs[i] = err
		case rest != nil:
			rests[i] = []types.TransactWriteItem{none("run").put(s.o.Names.Runs, it), putAction(s.o.Names.Runs, rest)}
			long = append(long, i)
		default:
			list = append(list, insert(s.o.Names.Runs, runs[i].ID.String(), it, runNames))
			of = append(of, i)
		}
	}
	for k, err := range s.execute(ctx, list) {
		errs[of[k]] = err
	}
	for wave := range runWaves(long, func(i int) core.RunID { return runs[i].ID }) {
		s.parallel(len(wave), func(k int) { errs[wave[k]] = s.transact(ctx, rests[wave[k]]) })
	}
	s.noteFailed(ctx, len(runs), func(i int) (core.JobID, bool) { return runs[i].ID.Job(), errs[i] == nil && runs[i].FailedForGood() })
	return errs
}

func (s *Store) PutTriggered(ctx context.Context, run core.Run, entry core.DueItem) error {
	it, rest, err := encodeRun(&run, s.runExpiry(ctx, &run))
	if err != nil {
		return err
	}
	actions := []types.TransactWriteItem{none("run").put(s.o.Names.Runs, it), putAction(s.o.Names.Jobs, entryItem(entry))}
	if rest != nil {
		actions = append(actions, putAction(s.o.Names.Runs, rest))
	}
	return s.transact(ctx, actions)
}

func (s *Store) ChangeTriggered(ctx context.Context, c operate.Triggered) error {
	e := &expr{}
	rest, err := s.writePut(ctx, e, &c.Put)
	if err != nil {
		return err
	}
	actions := []types.TransactWriteItem{e.update(s.o.Names.Runs, runKey(c.Put.ID)), putAction(s.o.Names.Jobs, entryItem(c.Entry))}
	for _, d := range c.Drop {
		if d != c.Entry {
			actions = append(actions, deleteAction(s.o.Names.Jobs, entryKey(d)))
		}
	}
	if rest != nil {
		actions = append(actions, beside(rest).update(s.o.Names.Runs, restKey(c.Put.ID)))
	}
	return s.transact(ctx, append(actions, s.changeActions(&c.Change)...))
}

// openTest is the condition that a run is open.
const openTest = `"state" IN ('planned','queued','running')`

func (s *Store) edit(id core.RunID) *writer {
	w := &writer{table: s.o.Names.Runs}
	w.where(`"job" = ?`, number(id.Job()))
	w.where(`"run" = ?`, number(id))
	return w
}

func (w *writer) open() { w.where(openTest) }

func (w *writer) equals(name string, v types.AttributeValue) { w.where(`"`+name+`" = ?`, v) }

func (w *writer) missing(name string) { w.where(`"` + name + `" IS MISSING`) }

// PutRuns implements dispatch.Store, finish.Store and others. Puts share requests, except two kinds. The end of a run that
// was not read is a separate write, whose answer shows the run. A put with an alternative in its condition is also separate,
// because a statement only allows AND beside its key. Long texts of an end are written with the run in one transaction: a
// rejected put must store nothing. The answers of addresses are written afterwards, at half the price: they are only shown
// to users and may be lost.
func (s *Store) PutRuns(ctx context.Context, puts []core.RunPut) []error {
	began := s.o.Now()
	errs := s.noteWaiting(ctx, len(puts), func(i int) (core.RunID, bool) {
		p := &puts[i]
		return p.ID, p.Set&core.RunState != 0 && (p.To.State == core.Queued || p.To.State == core.Planned && p.Set&core.RunOwner != 0)
	})
	var jobs []core.JobID
	for i := range puts {
		if puts[i].Ends() {
			jobs = append(jobs, puts[i].ID.Job())
		}
	}
	s.learn(ctx, jobs)
	var list []statement
	var together, alone []int
	rests := make([]item, len(puts))
	for i := range puts {
		p, w := &puts[i], s.edit(puts[i].ID)
		if errs[i] != nil && p.To.State == core.Queued { // a released run is still found by its message
			continue
		} else if p.Had || p.Ends() && p.Seen == nil {
			alone = append(alone, i)
		} else if rests[i], errs[i] = s.writePut(ctx, w, p); errs[i] != nil {
			continue
		} else if p.Ends() && rests[i] != nil {
			alone = append(alone, i)
		} else {
			list, together = append(list, w.statement(p.ID.String())), append(together, i)
		}
	}
	for k, err := range s.execute(ctx, list) {
		i := together[k]
		if errs[i] = err; err == nil && rests[i] != nil && ctx.Err() == nil {
			_, _ = s.db.UpdateItem(ctx, beside(rests[i]).alone(s.o.Names.Runs, restKey(puts[i].ID)))
		}
	}
	for wave := range runWaves(alone, func(i int) core.RunID { return puts[i].ID }) {
		s.parallel(len(wave), func(k int) { errs[wave[k]] = s.putAlone(ctx, &puts[wave[k]]) })
	}
	var ended []core.Run
	var over []core.RunID
	for i := range puts {
		p := &puts[i]
		state, until := p.Was.State, p.Was.Until
		if p.Seen != nil {
			state, until = p.Seen.State, p.Seen.Until
		}
		if waited := state == core.Queued || state == core.Planned && !until.IsZero(); errs[i] == nil && waited &&
			(p.To.Owner != "" || p.To.State == core.Running || p.Ends()) {
			over = append(over, p.ID)
		}
		if errs[i] == nil && p.Ends() && !p.GoesOn() && p.Seen != nil {
			r := *p.Seen
			if hasRest(&p.To) { // its long texts got their expiry together with its end
				r.Params, r.Tries = nil, nil
			}
			ended = append(ended, r)
		}
	}
	s.dropWaiting(ctx, over, began)
	s.letGo(ctx, ended)
	s.noteFailed(ctx, len(puts), func(i int) (core.JobID, bool) {
		p, attempt := &puts[i], 0
		if p.Seen != nil {
			attempt = p.Seen.Attempt
		}
		end := core.Run{State: p.To.State, Then: p.To.Then, Attempt: attempt}
		return p.ID.Job(), errs[i] == nil && p.Ends() && end.FailedForGood()
	})
	return errs
}

// runWaves yields the indices, each wave with no run twice.
func runWaves(long []int, run func(i int) core.RunID) func(yield func([]int) bool) {
	list := make([]statement, len(long))
	for k, i := range long {
		list[k].key = run(i).String()
	}
	return func(yield func([]int) bool) {
		for wave := range waves(list) {
			of := make([]int, len(wave))
			for k, n := range wave {
				of[k] = long[n]
			}
			if !yield(of) {
				return
			}
		}
	}
}

// runFields are the attributes of each field of a run, in the order of core.RunFields.
var runFields = [...][]string{{"state"}, {"owner"}, {"until"}, {"journal"}, {"address"}, {"maybeSent"}, {"sentAt"}, {"tries"},
	{"endedAt", "reason", "code", "message", "data", "then"}, {"owes"}, {"killBy", "killAt"}, {"late"}, {"at", "slot"},
	{"params", "addresses", "shard", "permit"}, {"app"}, {"place"}, {"permit"}, {"sentRev", "notice"}, {"postrun", "keepLog"}}

// writePut adds the changes and the condition of a put to w, and returns the long texts to store beside the run.
func (s *Store) writePut(ctx context.Context, w edits, p *core.RunPut) (rest item, err error) {
	to, expires := core.Run{ID: p.ID}, int64(0)
	p.Apply(&to)
	unread := p.Ends() && p.Seen == nil
	if p.Ends() && !p.GoesOn() && (unread || p.Seen.Shard.Of == 0) {
		expires = s.expiry(ctx, p.ID.Job())
	}
	is, rest, err := encodeRun(&to, expires)
	if err != nil {
		return nil, err
	}
	was, _, err := encodeRun(&p.Was, 0)
	if err != nil {
		return nil, err
	}
	if p.Open {
		w.open()
	}
	if p.Had {
		w.(*expr).exists("owner", "maybeSent")
	}
	if _, numbered := p.ID.Number(); unread && numbered { // a shard must be read first: its end sets no expiry
		w.missing("shard")
	}
	for n, names := range runFields {
		for _, name := range names {
			if v, there := was[name]; p.If&(1<<n) != 0 && there {
				w.equals(name, v)
			} else if p.If&(1<<n) != 0 {
				w.missing(name)
			}
			if v, there := is[name]; p.Set&(1<<n) != 0 {
				put(w, name, there, v)
			}
		}
	}
	for _, name := range []string{"rest", "expires"} {
		if v, there := is[name]; there {
			w.set(name, v)
		}
	}
	return rest, nil
}

// beside is the write of a run's long texts, which leaves the others.
func beside(rest item) *expr {
	e := &expr{}
	for name, v := range rest {
		if name != "job" && name != "run" {
			e.set(name, v)
		}
	}
	return e
}

// putAlone writes one put. If it ends a run that was not read, the answer of the write shows the old run. A transaction
// has no such answer, so the run is read afterwards.
func (s *Store) putAlone(ctx context.Context, p *core.RunPut) error {
	e := &expr{}
	rest, err := s.writePut(ctx, e, p)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if rest != nil {
		err := s.transact(ctx, []types.TransactWriteItem{e.update(s.o.Names.Runs, runKey(p.ID)),
			beside(rest).update(s.o.Names.Runs, restKey(p.ID))})
		if err == nil && p.Ends() && p.Seen == nil {
			s.see(ctx, p)
		}
		return err
	}
	in := e.alone(s.o.Names.Runs, runKey(p.ID))
	in.ReturnValues = types.ReturnValueAllOld
	var out *dynamodb.UpdateItemOutput
	s.insist(ctx, func() bool {
		out, err = s.db.UpdateItem(ctx, in)
		err = answer("table "+s.o.Names.Runs, err)
		return errors.Is(err, core.ErrThrottled)
	})
	if err != nil {
		return err
	}
	r, more, err := decodeRun(out.Attributes)
	if err != nil || more { // it has ended all the same
		s.see(ctx, p)
		return nil
	}
	p.Seen = &r
	return nil
}

// see reads a run that has ended. If that fails, p.Seen stays nil.
func (s *Store) see(ctx context.Context, p *core.RunPut) {
	found, _, err := s.Runs(ctx, []core.RunID{p.ID})
	if r, is := found[p.ID]; err == nil && is {
		p.Seen = &r
	}
}

func (s *Store) RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	lo, hi := min(first, last), max(first, last)
	var list []core.Run
	var rest []int
	in := s.between(lo, hi)
	in.ScanIndexForward, in.Limit = aws.Bool(first <= last), aws.Int32(int32(limit))
	err := s.query(ctx, in, func(it item) (bool, error) {
		r, more, err := decodeRun(it)
		if more {
			rest = append(rest, len(list))
		}
		list = append(list, r)
		return len(list) < limit, err
	})
	if err != nil {
		return nil, err
	}
	return s.whole(ctx, list, rest)
}

// LastRuns implements query.Store with two requests for each job, or mostly one for a page.
func (s *Store) LastRuns(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error) {
	last := s.lastOfBoth
	if glance.Of(ctx) != nil {
		last = s.lastForPage
	}
	lists, errs := make([][]core.Run, len(jobs)), make([]error, len(jobs))
	s.parallel(len(jobs), func(i int) { lists[i], errs[i] = last(ctx, jobs[i], upTo, n) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	found := make(map[core.JobID][]core.Run, len(jobs))
	for i, list := range lists {
		if len(list) > 0 {
			found[jobs[i]] = list
		}
	}
	return found, nil
}

// lastOfBoth returns the newest runs of a job among its planned and its numbered runs.
func (s *Store) lastOfBoth(ctx context.Context, job core.JobID, upTo core.Instant, n int) (list []core.Run, err error) {
	low, high := core.RunRange(job, 0, upTo)
	nlow, nhigh := core.NumberedRange(job)
	for _, span := range []struct {
		high, low core.RunID
		most      int
	}{{high, low, n}, {nhigh, nlow, 2 * n}} {
		runs, err := s.RunsByID(ctx, span.high, span.low, span.most)
		if err != nil {
			return nil, err
		}
		list = append(list, slices.DeleteFunc(runs, func(r core.Run) bool { return r.Slot > upTo })...)
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
	e.conds = append(e.conds, e.name("run")+" BETWEEN "+e.value("lo", number(lo))+" AND "+e.value("hi", number(hi)))
	return e.query(s.o.Names.Runs)
}

// whole adds the long texts and fails if they cannot be read.
func (s *Store) whole(ctx context.Context, list []core.Run, rest []int) ([]core.Run, error) {
	partial, err := s.readRest(ctx, list, rest)
	if err == nil && len(partial) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Limits of searches without an index.
const (
	mostSearched = 20_000 // runs of a job that one call reads in search of open ones
	mostHours    = 7 * 24 // that are searched for recent runs
)

// OpenRuns implements finish.Watch, manage.Store, operate.Store and notification.Reads. Open runs have no index, because it
// would double the cost of a run. A call reads at most 20,000 runs.
func (s *Store) OpenRuns(ctx context.Context, first, last core.RunID, limit int) (list []core.Run, next core.RunID, err error) {
	var rest []int
	looked := 0
	in := s.between(last, first)
	in.ScanIndexForward = aws.Bool(false)
	err = s.query(ctx, in, func(it item) (bool, error) {
		looked++
		r, more, err := decodeRun(it)
		if r.State.Open() {
			if more {
				rest = append(rest, len(list))
			}
			list = append(list, r)
		}
		if looked == mostSearched || len(list) == limit {
			next = r.ID - 1
		}
		return next == 0, err
	})
	if err != nil {
		return nil, 0, err
	}
	if next < last {
		next = 0
	}
	list, err = s.whole(ctx, list, rest)
	return list, next, err
}

// RecentRuns implements query.Store. It reads the journals of the last week, newest first. They name the runs that
// were claimed, queued or closed unclaimed in a minute, so runs need no index. A run that waits for its time is
// missing. After mostRecent requests it returns the runs it found, perhaps none, and where to continue; it finishes the
// journals of a minute that it started.
func (s *Store) RecentRuns(ctx context.Context, of query.Recent, from query.RunPlace, limit int) (
	runs []core.Run, next query.RunPlace, err error,
) {
	now := s.o.Now().Unix() / 60
	before, minute, done := from.Before, now+1, int64(0)
	if before > 0 && (before-1)/perMinute <= now+1 {
		minute, done = (before-1)/perMinute, perMinute-1-(before-1)%perMinute
	}
	w := recentWalk{s: s, app: of.App, limit: limit}
	for hour := minute / 60; w.next == 0 && hour > now/60-mostHours && hour >= 0; hour-- {
		var group []core.Journal
		take := func() error {
			at, skip := group[0].Key.Minute, int64(0)
			if at == minute {
				skip = done
			}
			return w.minute(ctx, at, skip, group)
		}
		e := equal("of", text(engine.KindJournals(hour*60)))
		e.test("key", "<", text(strconv.FormatInt(min(minute, hour*60+59), 10)+"/"))
		read := 0
		err := s.query(ctx, e.newest(s.o.Names.State, keysPerGet), func(it item) (bool, error) {
			if read++; read%keysPerGet == 0 {
				w.spent++
			}
			j, err := decodeJournal(it)
			if err != nil {
				return false, err
			}
			if len(group) > 0 && group[0].Key.Minute != j.Key.Minute {
				err = take()
				group = group[:0]
			}
			group = append(group, j)
			return w.next == 0, err
		})
		if err == nil && w.next == 0 && len(group) > 0 {
			err = take()
		}
		if err != nil {
			return nil, next, err
		}
		if w.spent++; w.next == 0 && w.spent >= mostRecent {
			w.next = recentPlace(hour*60, perMinute)
		}
	}
	return w.runs, query.RunPlace{Before: w.next}, nil
}

// The place to continue from is a millisecond inside a minute. It counts down the runs of that minute that were returned,
// in the order of time. If a minute has more runs than are read and sorted, it is mostByTime plus the number of hundreds
// of runs returned, highest ID first. If a minute grows beyond mostByTime during the
// listing, the listing of this minute starts over.
const (
	perMinute  = 60_000
	mostByTime = 5_000
	mostRecent = 100 // requests of one call
)

func recentPlace(minute, done int64) int64 { return minute*perMinute + perMinute - done }

// recentWalk holds the runs that RecentRuns has found; next is set when the call must return.
type recentWalk struct {
	s     *Store
	app   string
	limit int
	spent int  // read runs, so that the next call does not start where this one did
	moved bool // has read runs, so that the next call starts at another place
	runs  []core.Run
	next  int64
}

// minute takes the runs that the journals of a minute name, except the first done runs.
func (w *recentWalk) minute(ctx context.Context, at, done int64, journals []core.Journal) error {
	var ids []core.RunID
	for i := range journals {
		for _, e := range journals[i].Entries {
			ids = append(ids, e.Run)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	slices.Reverse(ids)
	if len(ids) > mostByTime {
		return w.byNumber(ctx, at, max(0, done-mostByTime), ids)
	}
	cost := (len(ids) + keysPerGet - 1) / keysPerGet
	if w.moved && w.spent+cost > mostRecent {
		w.next = recentPlace(at, done)
		return nil
	}
	w.moved, w.spent = true, w.spent+cost
	list, err := w.s.claimed(ctx, at, ids)
	if err != nil {
		return err
	}
	for i := done; i < int64(len(list)); i++ {
		if w.over() {
			w.next = recentPlace(at, i)
			return nil
		}
		w.take(list[i : i+1])
	}
	if w.over() || w.spent >= mostRecent {
		w.next = recentPlace(at, perMinute)
	}
	return nil
}

// byNumber takes whole groups of a hundred runs.
func (w *recentWalk) byNumber(ctx context.Context, at, done int64, ids []core.RunID) error {
	if len(ids) > keysPerGet*(perMinute-mostByTime) {
		return fmt.Errorf("the journals of minute %d name %d runs, more than can be listed", at, len(ids))
	}
	for int(done)*keysPerGet < len(ids) {
		if w.moved && (w.over() || w.spent >= mostRecent) {
			w.next = recentPlace(at, mostByTime+done)
			return nil
		}
		from := int(done) * keysPerGet
		list, err := w.s.claimed(ctx, at, ids[from:min(from+keysPerGet, len(ids))])
		if err != nil {
			return err
		}
		w.take(list)
		w.moved, w.spent, done = true, w.spent+1, done+1
	}
	if w.over() || w.spent >= mostRecent {
		w.next = recentPlace(at, perMinute)
	}
	return nil
}

func (w *recentWalk) over() bool { return len(w.runs) >= w.limit }

func (w *recentWalk) take(list []core.Run) {
	for i := range list {
		if r := list[i]; w.app == "" || r.App == w.app {
			w.runs = append(w.runs, r)
		}
	}
}

// claimed reads the runs with these IDs and returns the runs that the journals of minute list, newest first.
func (s *Store) claimed(ctx context.Context, minute int64, ids []core.RunID) ([]core.Run, error) {
	found, unread, err := s.Runs(ctx, ids)
	if err != nil {
		return nil, err
	}
	if len(unread) > 0 {
		return nil, core.ErrThrottled
	}
	list := make([]core.Run, 0, len(found))
	for _, id := range ids {
		// A run that was released and claimed again is listed by its last journal.
		if r, ok := found[id]; ok && (r.Journal.IsZero() || r.Journal.Minute == minute) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b core.Run) int { return cmp.Or(taken(&b).Compare(taken(&a)), cmp.Compare(b.ID, a.ID)) })
	return list, nil
}

// taken returns about when a dispatcher first claimed or recorded a run.
func taken(r *core.Run) time.Time {
	switch {
	case !r.SentAt.IsZero():
		return r.SentAt
	case r.State == core.Skipped:
		return r.EndedAt
	}
	return r.Slot.Time()
}

// all reads the items of the state table about one thing, in order.
func (s *Store) all(ctx context.Context, of string, each func(item) error) error {
	if g := glance.Of(ctx); g != nil {
		items, err := g.Once("all "+of, func() (any, error) {
			var items []item
			err := s.query(ctx, equal("of", text(of)).query(s.o.Names.State), func(it item) (bool, error) {
				items = append(items, it)
				return true, nil
			})
			return items, err
		})
		if err != nil {
			return err
		}
		for _, it := range items.([]item) {
			if err := each(it); err != nil {
				return err
			}
		}
		return nil
	}
	return s.query(ctx, equal("of", text(of)).query(s.o.Names.State), func(it item) (bool, error) { return true, each(it) })
}

// Newest implements engine.Engine.Newest. In a glance it costs half a read unit.
func (s *Store) Newest(ctx context.Context) (key core.JournalKey, err error) {
	in := equal("of", text(engine.KindJournals(s.o.Now().Unix()/60))).newest(s.o.Names.State, 1)
	err = s.query(ctx, in, func(it item) (more bool, err error) {
		key, err = engine.ParseJournalName(stringOf(it, "key"))
		return false, err
	})
	return key, err
}

// one reads one item of the state table; nil if there is none.
func (s *Store) one(ctx context.Context, key item) (item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if g := glance.Of(ctx); g != nil {
		it, err := g.Once("one "+stringOf(key, "of")+" "+stringOf(key, "key"), func() (any, error) { return s.getOne(ctx, key) })
		if err != nil {
			return nil, err
		}
		return it.(item), nil
	}
	return s.getOne(ctx, key)
}

func (s *Store) getOne(ctx context.Context, key item) (item, error) {
	strong, count := consistency(ctx)
	out, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.o.Names.State, Key: key, ConsistentRead: strong,
		ReturnConsumedCapacity: count})
	if err != nil {
		return nil, answer("table "+s.o.Names.State, err)
	}
	if out.ConsumedCapacity != nil {
		spend(ctx, *out.ConsumedCapacity)
	}
	if len(out.Item) == 0 {
		return nil, nil
	}
	return out.Item, nil
}

// PutRevisits implements finish.Watch.
func (s *Store) PutRevisits(ctx context.Context, minute int64, keys []core.JournalKey) error {
	if err := s.keepJournals(ctx, minute, keys); err != nil {
		return err
	}
	return s.Nouns.PutRevisits(ctx, minute, keys)
}

// keepJournals extends the life of journals that must be read again at a minute by which half of their life has passed.
func (s *Store) keepJournals(ctx context.Context, minute int64, keys []core.JournalKey) error {
	old := slices.DeleteFunc(slices.Clone(keys), func(k core.JournalKey) bool {
		return time.Duration(minute-k.Minute)*time.Minute < s.o.KeepJournals/2
	})
	errs := make([]error, len(old))
	s.parallel(len(old), func(i int) {
		if errs[i] = ctx.Err(); errs[i] != nil {
			return
		}
		e := &expr{}
		e.exists("v")
		e.set("expires", number(s.o.Now().Add(s.o.KeepJournals).Unix()))
		_, err := s.db.UpdateItem(ctx, e.alone(s.o.Names.State, recordKey(engine.JournalKey(old[i]))))
		if errs[i] = answer("table "+s.o.Names.State, err); errors.Is(errs[i], core.ErrRefused) {
			errs[i] = nil // it no longer exists
		}
	})
	return errors.Join(errs...)
}
