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
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/store"
)

// runs implements store.Runs.
type runs struct{ *Store }

func (s runs) Get(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	found := make(map[core.RunID]store.Got[*core.Run], len(ids))
	var list []core.Run
	var rest []int
	left, err := s.get(ctx, s.o.Names.Runs, keysOf(ids, runKey), func(it item) error {
		r, more, err := decodeRun(it)
		switch {
		case r.ID == 0:
			return err
		case err != nil:
			found[r.ID] = store.Got[*core.Run]{Err: err}
			return nil
		case more:
			rest = append(rest, len(list))
		}
		list = append(list, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	partial, err := s.readRest(ctx, list, rest)
	if err != nil {
		return nil, err
	}
	for i := range list {
		found[list[i].ID] = store.Got[*core.Run]{Is: &list[i]}
	}
	for i := range partial {
		found[list[i].ID] = store.Got[*core.Run]{Err: core.ErrThrottled}
	}
	for i := range left {
		found[ids[i]] = store.Got[*core.Run]{Err: core.ErrThrottled}
	}
	return found, nil
}

// readable reads runs as far as they can be read.
func (s *Store) readable(ctx context.Context, ids ...core.RunID) map[core.RunID]core.Run {
	found, _ := s.allRuns(ctx, ids)
	return found
}

// allRuns reads runs. If some cannot be read, it returns the others and an error.
func (s *Store) allRuns(ctx context.Context, ids []core.RunID) (map[core.RunID]core.Run, error) {
	found := make(map[core.RunID]core.Run, len(ids))
	got, err := runs{s}.Get(ctx, ids)
	for id, g := range got {
		if err = cmp.Or(err, g.Err); g.Err == nil {
			found[id] = *g.Is
		}
	}
	return found, err
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
	var list []statement
	var together, alone []int
	rests := map[int]item{}
	for i := range puts {
		p := &puts[i]
		switch c := p.Change; {
		case errs[i] != nil && (c == nil || c.To.State == core.Queued): // a released run is still found by its message
			continue
		case p.Drop != nil || p.Enter != nil || len(p.Leave)+len(p.Changes) > 0:
			alone = append(alone, i)
			continue
		case c == nil && hasRest(p.Create), c != nil && (c.Had || c.Ends() && (c.Seen == nil || hasRest(&c.To))):
			alone = append(alone, i)
			continue
		case c == nil:
			it, _ := encodeRun(p.Create, s.runExpiry(ctx, p.Create))
			list = append(list, insert(s.o.Names.Runs, p.Create.ID.String(), it))
		default:
			w := s.edit(c.ID)
			if rest := s.writePut(ctx, w, c); rest != nil {
				rests[i] = rest
			}
			list = append(list, w.statement(c.ID.String()))
		}
		together = append(together, i)
	}
	for k, err := range s.execute(ctx, list) {
		i := together[k]
		if errs[i] = err; err == nil && rests[i] != nil && ctx.Err() == nil {
			_, _ = s.db.UpdateItem(ctx, beside(rests[i]).alone(s.o.Names.Runs, restKey(runOf(&puts[i]))))
		}
	}
	for wave := range waves(alone, func(i int) string { return runOf(&puts[i]).String() }) {
		store.AtOnce(len(wave), func(k int) { errs[wave[k]] = s.putAlone(ctx, &puts[wave[k]]) })
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
		c := puts[i].Change
		switch {
		case errs[i] != nil || puts[i].Drop != nil:
			continue
		case c == nil:
			if puts[i].Create.FailedForGood() {
				failed[puts[i].Create.ID.Job()] = true
			}
			continue
		}
		was := &c.Was
		if c.Seen != nil {
			was = c.Seen
		}
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

// writePut adds the changes and the condition of a put to w, and returns the long texts to store beside the run.
func (s *Store) writePut(ctx context.Context, w edits, p *core.RunPut) (rest item) {
	to, expires := core.Run{ID: p.ID}, int64(0)
	p.Apply(&to)
	unread := p.Ends() && p.Seen == nil
	if p.Ends() && !p.GoesOn() && (unread || p.Seen.Shard.Of == 0) {
		expires = s.expiry(ctx, p.ID.Job())
	}
	is, rest := encodeRun(&to, expires)
	if p.Open {
		w.open()
	}
	if p.Had {
		w.(*expr).exists("owner", "maybeSent")
	}
	if _, numbered := p.ID.Number(); unread && numbered { // a shard must be read first: its end sets no expiry
		w.missing("shard")
	}
	for i := range runAttributes {
		a := &runAttributes[i]
		if p.If&a.in != 0 {
			if v := a.value(&p.Was); v != nil {
				w.equals(a.name, v)
			} else {
				w.missing(a.name)
			}
		}
		if v, there := is[a.name]; p.Set&a.in != 0 {
			put(w, a.name, there, v)
		}
	}
	for _, name := range []string{"rest", "expires"} {
		if v, there := is[name]; there {
			w.set(name, v)
		}
	}
	return rest
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

// putAlone makes one write. If it ends a run that was not read, the answer of the write shows the old run. A transaction has
// no such answer, so the run is read afterwards.
func (s *Store) putAlone(ctx context.Context, p *store.RunPut) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var actions []types.TransactWriteItem
	var e *expr
	c, table := p.Change, s.o.Names.Runs
	switch {
	case p.Drop != nil:
		return s.drop(ctx, p.Drop)
	case c == nil:
		it, rest := encodeRun(p.Create, s.runExpiry(ctx, p.Create))
		if actions = append(actions, none("run").put(table, it)); rest != nil {
			actions = append(actions, putAction(table, rest))
		}
	default:
		e = &expr{}
		rest := s.writePut(ctx, e, c)
		if actions = append(actions, e.update(table, runKey(c.ID))); rest != nil {
			actions = append(actions, beside(rest).update(table, restKey(c.ID)))
		}
	}
	if p.Enter != nil {
		actions = append(actions, putAction(s.o.Names.Jobs, entryItem(*p.Enter)))
	}
	for _, d := range p.Leave {
		if p.Enter == nil || d != *p.Enter {
			actions = append(actions, deleteAction(s.o.Names.Jobs, entryKey(d)))
		}
	}
	for i := range p.Changes {
		actions = append(actions, s.changeActions(&p.Changes[i])...)
	}
	if c == nil || len(actions) > 1 {
		err := s.transact(ctx, actions)
		if err == nil && c != nil && c.Ends() && c.Seen == nil {
			s.see(ctx, c)
		}
		return err
	}
	in := e.alone(table, runKey(c.ID))
	in.ReturnValues = types.ReturnValueAllOld
	var out *dynamodb.UpdateItemOutput
	var err error
	s.insist(ctx, func() bool {
		out, err = s.db.UpdateItem(ctx, in)
		err = answer("table "+table, err)
		return errors.Is(err, core.ErrThrottled)
	})
	if err != nil {
		return err
	}
	r, more, err := decodeRun(out.Attributes)
	if err != nil || more { // it has ended all the same
		s.see(ctx, c)
		return nil
	}
	c.Seen = &r
	return nil
}

// see reads a run that has ended. If that fails, p.Seen stays nil.
func (s *Store) see(ctx context.Context, p *core.RunPut) {
	if r, is := s.readable(ctx, p.ID)[p.ID]; is {
		p.Seen = &r
	}
}

// drop deletes a run, then its long texts and its log without a condition.
func (s *Store) drop(ctx context.Context, r *core.Run) error {
	if r.State.Open() || r.Owing() {
		return core.ErrRefused
	}
	// Delete it only if it is unchanged: a new follow-up comes with another state or place.
	e := &expr{}
	e.equals("state", text(string(r.State)))
	e.missing("owes")
	e.missing("postrun")
	if r.Place == 0 {
		e.missing("place")
	} else {
		e.equals("place", number(r.Place))
	}
	e.conds = []string{"attribute_not_exists(" + e.name("run") + ") OR (" + strings.Join(e.conds, " AND ") + ")"}
	_, err := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.o.Names.Runs, Key: runKey(r.ID),
		ConditionExpression: e.conditions(), ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values})
	if err = answer("table "+s.o.Names.Runs, err); err != nil {
		return err
	}
	_, err = s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.o.Names.Runs, Key: restKey(r.ID)})
	_, err2 := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.o.Names.State, Key: recordKey(store.LogKey(r.ID))})
	return errors.Join(answer("table "+s.o.Names.Runs, err), answer("table "+s.o.Names.State, err2))
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
	partial, err := s.readRest(ctx, list, rest)
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
	e.between("run", number(lo), number(hi))
	return e.query(s.o.Names.Runs)
}

// Limits of searches without an index.
const (
	mostSearched = 20_000 // runs of a job that one call reads in search of open ones
	mostHours    = 7 * 24 // that are searched for recent runs
)

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

// Recent implements store.Runs. It reads the journals of the last week, newest first. They name the runs that
// were claimed, queued or closed unclaimed in a minute, so runs need no index. A run that waits for its time is
// missing. After mostRecent requests it returns the runs it found, perhaps none, and where to continue; it finishes the
// journals of a minute that it started.
func (s runs) Recent(ctx context.Context, of store.Recent, from store.RunPlace, limit int) (
	list []core.Run, next store.RunPlace, err error,
) {
	now := s.o.Now().Unix() / 60
	before, minute, done := from.Before, now+1, int64(0)
	if before > 0 && (before-1)/perMinute <= now+1 {
		minute, done = (before-1)/perMinute, perMinute-1-(before-1)%perMinute
	}
	w := recentWalk{s: s.Store, app: of.App, limit: limit}
	for hour := minute / 60; w.next == 0 && hour > now/60-mostHours && hour >= 0; hour-- {
		var group []core.Journal
		take := func() error {
			at, skip := group[0].Key.Minute, int64(0)
			if at == minute {
				skip = done
			}
			return w.minute(ctx, at, skip, group)
		}
		e := equal("of", text(store.KindJournals(hour*60)))
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
	return w.runs, store.RunPlace{Before: w.next}, nil
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

// recentWalk holds the runs that Recent has found; next is set when the call must return.
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
	found, err := s.allRuns(ctx, ids)
	if err != nil {
		return nil, err
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

// one reads one item of the state table; nil if there is none.
func (s *Store) one(ctx context.Context, key item) (item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return once(ctx, "one "+stringOf(key, "of")+" "+stringOf(key, "key"), func() (item, error) { return s.getOne(ctx, key) })
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
			if key, err := store.ParseJournalName(w.Name); err == nil && time.Duration(minute-key.Minute)*time.Minute >= s.o.KeepJournals/2 {
				old = append(old, store.JournalKey(key))
			}
		}
	}
	errs := make([]error, len(old))
	store.AtOnce(len(old), func(i int) {
		if errs[i] = ctx.Err(); errs[i] != nil {
			return
		}
		e := &expr{}
		e.exists("v")
		e.set("expires", number(s.o.Now().Add(s.o.KeepJournals).Unix()))
		_, err := s.db.UpdateItem(ctx, e.alone(s.o.Names.State, recordKey(old[i])))
		if errs[i] = answer("table "+s.o.Names.State, err); errors.Is(errs[i], core.ErrRefused) {
			errs[i] = nil // it no longer exists
		}
	})
	return errors.Join(errs...)
}
