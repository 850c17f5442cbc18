package awsengine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/secretbox"
)

func (s *Store) Jobs(ctx context.Context, jobs []core.JobID) (map[core.JobID]*core.Job, []core.JobID, error) {
	jobs, shown := partKnown(ctx, jobs)
	found, _, locked, unread, err := s.jobs(ctx, jobs)
	bad, err := core.SplitUnreadable(err)
	for id, why := range locked {
		delete(found, id)
		bad.Add(id, why)
	}
	if found != nil {
		maps.Copy(found, shown)
	}
	return found, unread, cmp.Or(err, bad.Err())
}

// jobs reads jobs and the revisions of their def items. It always reads the sched item, which names the revision of the
// definition; a cached definition of that revision is not read again. A job whose two items differ in revision is unread.
// Jobs in found with a secret that cannot be decrypted are in locked too.
func (s *Store) jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, defRevs map[core.JobID]int64,
	locked core.Unreadable, unread []core.JobID, err error) {
	read := newParts()
	keys := make([]item, 0, len(jobs))
	var unknown []item
	for _, id := range jobs {
		keys = append(keys, schedKey(id))
		if _, is := s.defs.of(id); !is {
			unknown = append(unknown, defKey(id))
		}
	}
	// A revision's definition never changes, so an older state of one is right if its revision is.
	first, errs := newParts(), [2]error{}
	s.parallel(len(errs), func(i int) {
		if i == 0 {
			errs[i] = s.readParts(ctx, keys, read)
		} else if len(unknown) > 0 {
			errs[i] = s.readParts(glance.First(ctx), unknown, first)
		}
	})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, nil, nil, nil, err
	}
	var changed []item
	for id, rev := range read.named {
		if k, is := first.defs[id]; is && k.rev == rev && first.bad[id] == nil {
			read.defs[id] = k
		} else if k, is := s.defs.of(id); is && k.rev == rev {
			read.defs[id] = k
		} else {
			changed = append(changed, defKey(id))
		}
	}
	if len(changed) > 0 {
		if err := s.readParts(ctx, changed, read); err != nil {
			return nil, nil, nil, nil, err
		}
	}
	found, defRevs = make(map[core.JobID]*core.Job, len(jobs)), make(map[core.JobID]int64, len(jobs))
	for _, id := range jobs {
		d, ok := read.defs[id]
		v, ok2 := read.scheds[id]
		switch {
		case read.bad[id] != nil:
		case read.unread[id]:
			unread = append(unread, id)
		case ok && ok2 && d.rev == read.named[id]:
			def, err := decodeDef(d.text)
			if err != nil {
				read.bad.Add(id, err)
				continue
			}
			d.days = def.Keep.Days
			def, err = secretbox.Open(s.o.Secrets, def)
			if errors.Is(err, core.ErrThrottled) {
				return nil, nil, nil, nil, err
			}
			found[id], defRevs[id] = &core.Job{Def: def, Sched: v}, d.rev
			s.defs.note(id, d)
			if err != nil {
				locked.Add(id, found[id].Locked(err))
			}
		case ok2: // a change came between the two reads: read again
			unread = append(unread, id)
		}
	}
	return found, defRevs, locked, unread, read.bad.Err()
}

type parts struct {
	scheds map[core.JobID]core.Sched
	named  map[core.JobID]int64 // the revision of the definition that the sched item names
	defs   map[core.JobID]known
	unread map[core.JobID]bool
	bad    core.Unreadable
}

func newParts() *parts {
	return &parts{scheds: map[core.JobID]core.Sched{}, named: map[core.JobID]int64{}, defs: map[core.JobID]known{},
		unread: map[core.JobID]bool{}}
}

func (s *Store) readParts(ctx context.Context, keys []item, p *parts) error {
	left, err := s.get(ctx, s.o.Names.Jobs, keys, func(it item) error {
		id, err := jobOf(stringOf(it, "id"))
		if err != nil {
			return err
		}
		var rev int64
		if stringOf(it, "part") == "def" {
			rev, err = intOf(it, "rev")
			p.defs[id] = known{rev: rev, text: stringOf(it, "def")}
		} else if p.scheds[id], err = decodeSched(it); err == nil {
			p.named[id], err = intOf(it, "defRev")
		}
		if err != nil {
			p.bad.Add(id, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range left {
		id, err := jobOf(stringOf(keys[i], "id"))
		if err != nil {
			return err
		}
		p.unread[id] = true
	}
	return nil
}

func (s *Store) Scheds(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Sched, []core.JobID, error) {
	keys := make([]item, len(jobs))
	for i, id := range jobs {
		keys[i] = schedKey(id)
	}
	found := make(map[core.JobID]core.Sched, len(jobs))
	var bad core.Unreadable
	left, err := s.get(ctx, s.o.Names.Jobs, keys, func(it item) error {
		id, err := jobOf(stringOf(it, "id"))
		if err != nil {
			return err
		}
		if v, err := decodeSched(it); err != nil {
			bad.Add(id, err)
		} else {
			found[id] = v
		}
		return nil
	})
	if err == nil {
		err = bad.Err()
	}
	var unread []core.JobID
	for i := range left {
		unread = append(unread, jobs[i])
	}
	return found, unread, err
}

func (s *Store) JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error) {
	found := map[string]core.JobID{}
	b := shownBoard(ctx)
	keys := make([]item, 0, len(names))
	for _, n := range names {
		if id := b.ids[app+"/"+n]; id != 0 {
			found[n] = id
		} else {
			keys = append(keys, stateKey("name#"+app, n))
		}
	}
	return found, s.getAll(ctx, s.o.Names.State, keys, func(it item) error {
		id, err := intOf(it, "job")
		found[stringOf(it, "key")] = core.JobID(id)
		return err
	})
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

// mostQueries limits the requests of one call that scans a list. If few items match, the call returns where to continue.
const mostQueries = 4

// ListJobs implements query.Store. The list of all jobs is one small item each.
func (s *Store) ListJobs(ctx context.Context, app string, after core.JobID, limit int) (list []core.Job, next core.JobID, err error) {
	if g := glance.Of(ctx); g != nil {
		b, err := s.boardOf(ctx, g)
		if err != nil {
			return nil, 0, err
		}
		return b.list(app, after, limit)
	}
	in := s.listed("jobs", after, limit)
	if app != "" {
		in.Limit = nil // the limit counts items before the filter, and few of them may be the app's
		in.FilterExpression = aws.String("#app = :app")
		in.ExpressionAttributeNames["#app"] = "app"
		in.ExpressionAttributeValues[":app"] = text(app)
	}
	ids, next, err := s.listedIDs(ctx, in, limit)
	if err != nil {
		return nil, 0, err
	}
	found, err := s.allJobs(ctx, ids)
	bad, err := core.SplitUnreadable(err)
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		if j, ok := found[id]; ok {
			list = append(list, *j)
		}
	}
	return list, next, bad.Err()
}

// allJobs reads jobs until none is unread.
func (s *Store) allJobs(ctx context.Context, ids []core.JobID) (map[core.JobID]*core.Job, error) {
	found := map[core.JobID]*core.Job{}
	var bad core.Unreadable
	for left := ids; len(left) > 0; {
		some, unread, err := s.Jobs(ctx, left)
		worse, err := core.SplitUnreadable(err)
		if err != nil {
			return nil, err
		}
		for id, why := range worse {
			bad.Add(id, why)
		}
		maps.Copy(found, some)
		if len(unread) == len(left) && glance.Of(ctx) == nil {
			return nil, core.ErrThrottled
		}
		left, ctx = unread, glance.End(ctx) // without strong reads, the two items of a job may be from different times
	}
	return found, bad.Err()
}

// listedIDs reads numbers from a list, and behind which to go on; 0 is the end.
func (s *Store) listedIDs(ctx context.Context, in *dynamodb.QueryInput, limit int) (ids []core.JobID, next core.JobID, err error) {
	for range mostQueries {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		out, err := s.ask(ctx, in)
		if err != nil {
			return nil, 0, answer("table "+s.o.Names.State, err)
		}
		for _, it := range out.Items {
			id, err := jobOf(stringOf(it, "key"))
			if err != nil {
				return nil, 0, err
			}
			if len(ids) == limit {
				return ids, ids[limit-1], nil
			}
			ids = append(ids, id)
		}
		if len(out.LastEvaluatedKey) == 0 {
			return ids, 0, nil
		}
		if next, err = jobOf(stringOf(out.LastEvaluatedKey, "key")); err != nil || len(ids) == limit {
			return ids, next, err
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
	return ids, next, nil
}

func listKey(id core.JobID) string { return fmt.Sprintf("%010d", id) }

func (s *Store) NewJobIDs(ctx context.Context, n int) (core.JobID, error) {
	first, err := s.count(ctx, stateKey("counter", "job"), n)
	return core.JobID(first), err
}

func (s *Store) Numbers(ctx context.Context, job core.JobID, n int) (uint32, error) {
	first, err := s.count(ctx, stateKey("job#"+job.String(), "number"), n)
	return uint32(first), err
}

// count draws n numbers from a counter, the first being 1.
func (s *Store) count(ctx context.Context, key item, n int) (first int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	out, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &s.o.Names.State, Key: key,
		UpdateExpression: aws.String("ADD #n :n"), ExpressionAttributeNames: map[string]string{"#n": "n"},
		ExpressionAttributeValues: item{":n": number(n)}, ReturnValues: types.ReturnValueUpdatedNew})
	if err != nil {
		return 0, answer("table "+s.o.Names.State, err)
	}
	last, err := intOf(out.Attributes, "n")
	return last - int64(n) + 1, err
}

func putAction(table string, it item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: it}}
}

func deleteAction(table string, key item) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: &table, Key: key}}
}

// perCreate is how many actions one new job is, with a pass of its own app.
const perCreate = 8

// CreateJobs implements manage.Store. It creates several jobs in one transaction. If the transaction is rejected, it creates each
// job in its own transaction.
func (s *Store) CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error {
	errs := make([]error, len(jobs))
	if len(jobs) == 0 {
		return errs
	}
	parts, inTurn := createParts(jobs)
	apps := make([][]string, len(parts))
	for k, part := range parts {
		for _, i := range part {
			apps[k] = append(apps[k], jobs[i].Def.App)
		}
	}
	p, open, err := s.enter(ctx, apps)
	if err != nil {
		return slices.Repeat([]error{err}, len(jobs))
	}
	defer s.leave(ctx, p)
	do := func(k int) {
		var part []int // of the jobs whose apps accept jobs
		for _, i := range parts[k] {
			if open[jobs[i].Def.App] {
				part = append(part, i)
			} else {
				errs[i] = core.ErrRefused
			}
		}
		try := func(some []int) {
			err := s.create(ctx, jobs, changes, some, func(app string) item { return p.key(k, app) })
			for _, i := range some {
				errs[i] = err
			}
		}
		if try(part); len(part) > 1 && errs[part[0]] != nil && !errors.Is(errs[part[0]], core.ErrThrottled) {
			for i := range part {
				try(part[i : i+1])
			}
		}
	}
	s.parallel(inTurn, do)
	for k := inTurn; k < len(parts); k++ {
		do(k)
	}
	return errs
}

// create creates some of the jobs, all or none.
func (s *Store) create(ctx context.Context, jobs []core.Job, changes []core.Change, some []int, pass func(app string) item) error {
	if len(some) == 0 {
		return nil
	}
	t := &s.o.Names
	var actions []types.TransactWriteItem
	var links []core.Link
	apps := map[string]bool{}
	for _, i := range some {
		j := &jobs[i]
		j.Def.Children = nil
		links = append(links, core.Links(j.Def.ID, nil, j.Def.After)...)
		sched, err := encodeSched(&j.Sched, j.Sched.Rev)
		if err != nil {
			return err
		}
		def, err := s.encodeDef(&j.Def, j.Sched.Rev)
		if err != nil {
			return err
		}
		actions = append(actions, none("id").put(t.Jobs, def), none("id").put(t.Jobs, sched),
			none("of").check(t.State, stateKey("tomb", listKey(j.Def.ID))))
		actions = append(actions, s.nameActions(&j.Def, j.Sched.Rev)...)
		if app := j.Def.App; !apps[app] {
			apps[app] = true
			actions = append(actions, s.passCheck(pass(app)))
		}
		if i < len(changes) {
			actions = append(actions, s.changeActions(&changes[i])...)
		}
	}
	parents, err := s.linkActions(ctx, links)
	if err != nil {
		return err
	}
	return s.transact(ctx, append(actions, parents...))
}

// nameActions list a job and store its name, which no other job may have.
func (s *Store) nameActions(d *core.Def, rev int64) []types.TransactWriteItem {
	name := stateKey("name#"+d.App, d.Name)
	name["job"] = number(d.ID)
	return []types.TransactWriteItem{none("of").put(s.o.Names.State, name), putAction(s.o.Names.State, s.listItem(d, rev))}
}

// changeActions store a change record: for its job's history, and for its app's.
func (s *Store) changeActions(c *core.Change) []types.TransactWriteItem {
	var list []types.TransactWriteItem
	for _, w := range s.changeWrites(c) {
		list = append(list, putAction(s.o.Names.State, encodeRecord(&w.Record)))
	}
	return list
}

func (s *Store) UpdateJobs(ctx context.Context, updates []manage.Update) []error {
	errs := make([]error, len(updates))
	ids := make([]core.JobID, len(updates))
	for i := range updates {
		ids[i] = updates[i].Job.Def.ID
	}
	found, defRevs, _, unread, err := s.jobs(ctx, ids)
	bad, err := core.SplitUnreadable(err)
	if err != nil {
		return slices.Repeat([]error{err}, len(updates))
	}
	var alone, inTurn []int
	for i := range updates {
		if old, is := found[ids[i]]; is && len(core.Links(ids[i], old.Def.After, updates[i].Job.Def.After)) > 0 {
			inTurn = append(inTurn, i) // two jobs may have the same parent
		} else {
			alone = append(alone, i)
		}
	}
	do := func(i int) {
		u := &updates[i]
		if errs[i] = bad[ids[i]]; errs[i] != nil {
			return
		}
		if slices.Contains(unread, ids[i]) {
			errs[i] = core.ErrThrottled
			return
		}
		old, is := found[ids[i]]
		defRev := defRevs[ids[i]]
		for range 3 { // an advance may change the number at the same time, or another job make it a parent
			if !is || old.Sched.Rev != u.Seen || old.Sched.Tail != u.SeenTail {
				errs[i] = core.ErrRefused
				return
			}
			if errs[i] = s.update(ctx, old, defRev, u); !errors.Is(errs[i], core.ErrRefused) {
				return
			}
			again, revs, _, unread, err := s.jobs(ctx, ids[i:i+1])
			if err != nil || len(unread) > 0 {
				return
			}
			was, seq := defRev, old.Sched.Seq
			defRev = revs[ids[i]]
			old, is = again[ids[i]]
			if is && len(core.Links(ids[i], old.Def.After, u.Job.Def.After)) == 0 && old.Sched.Seq == seq && defRev == was {
				return // it was rejected for another reason
			}
		}
	}
	s.parallel(len(alone), func(k int) { do(alone[k]) })
	for _, i := range inTurn {
		do(i)
	}
	return errs
}

func (s *Store) update(ctx context.Context, old *core.Job, defRev int64, u *manage.Update) error {
	t := &s.o.Names
	j := u.Job
	j.Sched.Seq = max(j.Sched.Seq, old.Sched.Seq)
	j.Def.Children = old.Def.Children
	redefined := !j.Def.Equal(old.Def) || !j.Def.Created.Equal(old.Def.Created)
	seen := defRev
	if redefined {
		defRev = defRevAfter(j.Sched.Rev, defRev)
	}
	sched, err := encodeSched(&j.Sched, defRev)
	if err != nil {
		return err
	}
	links := core.Links(j.Def.ID, old.Def.After, j.Def.After)
	parents, err := s.linkActions(ctx, links)
	if err != nil {
		return err
	}
	e := equal("rev", number(u.Seen))
	e.equals("tail", number(u.SeenTail))
	e.equals("seq", number(old.Sched.Seq))
	e.equals("defRev", number(seen))
	actions := append(parents, e.put(t.Jobs, sched))
	if len(old.Def.Children) > 0 && slices.ContainsFunc(links, func(l core.Link) bool { return l.When != "" }) {
		actions = append(actions, s.edgeAction(u.Edges))
	}
	if redefined {
		def, err := s.encodeDef(&j.Def, defRev)
		if err != nil {
			return err
		}
		actions = append(actions, putAction(t.Jobs, def))
	}
	if j.Def.Name != old.Def.Name || j.Def.App != old.Def.App {
		actions = append(actions, deleteAction(t.State, stateKey("name#"+old.Def.App, old.Def.Name)))
		actions = append(actions, s.nameActions(&j.Def, defRev)...)
	} else if redefined {
		actions = append(actions, putAction(t.State, s.listItem(&j.Def, defRev)))
	}
	actions = append(actions, s.changeActions(&u.Change)...)
	s.defs.forget(j.Def.ID)
	return s.transact(ctx, actions)
}

// keepTombs is how long the tombstone of a job stays: a trigger may wait in the due index for a year.
const keepTombs = 400 * 24 * time.Hour

func (s *Store) DeleteJob(ctx context.Context, seen int64, stone core.Tombstone, c core.Change) error {
	t := &s.o.Names
	found, defRevs, _, unread, err := s.jobs(ctx, []core.JobID{stone.Job})
	if err != nil {
		return err
	}
	if len(unread) > 0 {
		return core.ErrThrottled
	}
	old, is := found[stone.Job]
	if !is || old.Sched.Rev != seen || len(old.Def.Children) > 0 {
		return core.ErrRefused
	}
	parents, err := s.linkActions(ctx, core.Links(stone.Job, old.Def.After, nil))
	if err != nil {
		return err
	}
	e := equal("rev", number(seen))
	e.equals("defRev", number(defRevs[stone.Job]))
	tomb := stateKey("tomb", listKey(stone.Job))
	tomb["app"], tomb["name"], tomb["rev"], tomb["revAt"] = text(stone.App), text(stone.Name), number(stone.Rev), number(millis(stone.RevAt))
	tomb["expires"] = number(s.o.Now().Add(keepTombs).Unix())
	actions := []types.TransactWriteItem{
		e.delete(t.Jobs, schedKey(stone.Job)),
		deleteAction(t.Jobs, defKey(stone.Job)), deleteAction(t.State, stateKey("name#"+old.Def.App, old.Def.Name)),
		deleteAction(t.State, stateKey("jobs", listKey(stone.Job))), putAction(t.State, tomb),
	}
	return s.transact(ctx, append(append(actions, parents...), s.changeActions(&c)...))
}

func (s *Store) Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error) {
	keys := make([]item, len(jobs))
	for i, id := range jobs {
		keys[i] = stateKey("tomb", listKey(id))
	}
	found := map[core.JobID]core.Tombstone{}
	return found, s.getAll(ctx, s.o.Names.State, keys, func(it item) error {
		t, err := tombOf(it)
		found[t.Job] = t
		return err
	})
}

func tombOf(it item) (core.Tombstone, error) {
	id, err := jobOf(stringOf(it, "key"))
	if err != nil {
		return core.Tombstone{}, err
	}
	rev, err := intOf(it, "rev")
	if err != nil {
		return core.Tombstone{}, err
	}
	at, err := intOf(it, "revAt")
	return core.Tombstone{Job: id, App: stringOf(it, "app"), Name: stringOf(it, "name"), Rev: rev, RevAt: fromMillis(at)}, err
}

func (s *Store) ListTombstones(ctx context.Context, after core.JobID, limit int) (list []core.Tombstone, err error) {
	err = s.query(ctx, s.listed("tomb", after, limit), func(it item) (bool, error) {
		t, err := tombOf(it)
		list = append(list, t)
		return len(list) < limit, err
	})
	return list, err
}

// listed returns a query of a list in the order of job IDs; limit bounds the items that it reads.
func (s *Store) listed(of string, after core.JobID, limit int) *dynamodb.QueryInput {
	e := equal("of", text(of))
	e.test("key", ">", text(listKey(after)))
	in := e.query(s.o.Names.State)
	in.Limit = aws.Int32(int32(limit))
	return in
}

// Due implements tick.Store. The index lags slightly behind the writes.
func (s *Store) Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	from := "0"
	if after != (core.DueItem{}) {
		from = planKey(after) + "#" // the next text after it
	}
	to := fmt.Sprintf("%010d$", upTo) // after all of that second
	if from >= to {
		return nil, nil
	}
	out, err := s.db.Query(ctx, &dynamodb.QueryInput{TableName: &s.o.Names.Jobs, IndexName: aws.String("due"), Limit: aws.Int32(int32(limit)),
		KeyConditionExpression:    aws.String("#partition = :p AND #planAt BETWEEN :from AND :to"),
		ExpressionAttributeNames:  map[string]string{"#partition": "partition", "#planAt": "planAt"},
		ExpressionAttributeValues: item{":p": number(partition), ":from": text(from), ":to": text(to)}})
	if err != nil {
		return nil, answer("table "+s.o.Names.Jobs, err)
	}
	list := make([]core.DueItem, 0, len(out.Items))
	for _, it := range out.Items {
		d, err := parsePlanKey(stringOf(it, "planAt"), partition)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// Advance implements tick.Store, finish.Store and manage.Store. Each advance is one statement of 3 units (the item, and its
// old and new place in the index). If an advance is also a change, it is written with its change record in one transaction.
func (s *Store) Advance(ctx context.Context, moves []core.Advance) []error {
	errs := make([]error, len(moves))
	list, at := make([]statement, 0, len(moves)), make([]int, 0, len(moves))
	var noted []int
	for i := range moves {
		if moves[i].Change != nil {
			noted = append(noted, i)
			continue
		}
		list, at = append(list, s.advance(&moves[i])), append(at, i)
	}
	for k, err := range s.execute(ctx, list) {
		errs[at[k]] = err
	}
	s.parallel(len(noted), func(k int) { errs[noted[k]] = s.advanceNoted(ctx, &moves[noted[k]]) })
	return errs
}

// writeAdvance adds the changes and the condition of an advance to w.
func writeAdvance(w edits, a *core.Advance) {
	w.equals("rev", number(a.Rev))
	w.equals("next", number(a.Next))
	w.equals("tail", number(a.Tail))
	w.set("next", number(a.NewNext))
	w.set("seq", number(a.NewSeq))
	w.set("tail", number(a.NewTail))
	w.set("partition", number(a.NewPartition))
	w.set("planAt", text(schedKeyAt(a.NewPlanAt, a.Job)))
	put(w, "planError", a.PlanError != "", text(a.PlanError))
	if a.NewCompared != 0 {
		w.set("compared", number(a.NewCompared))
	}
	if a.NewState != "" {
		w.set("state", text(string(a.NewState)))
	}
	if a.NewRev != 0 {
		w.set("rev", number(a.NewRev))
		w.set("revAt", number(millis(a.NewRevAt)))
		w.remove("pauseUntil")
		put(w, "pauseBy", a.NewPauseBy != "", text(a.NewPauseBy))
		put(w, "pauseWhy", a.NewPauseWhy != "", text(a.NewPauseWhy))
	}
}

func (s *Store) advance(a *core.Advance) statement {
	w := &writer{table: s.o.Names.Jobs}
	w.where(`"id" = ?`, text("job#"+a.Job.String()))
	w.where(`"part" = ?`, text("sched"))
	writeAdvance(w, a)
	return w.statement(a.Job.String())
}

// advanceNoted writes an advance and its change record, both or neither.
func (s *Store) advanceNoted(ctx context.Context, a *core.Advance) error {
	e := &expr{}
	writeAdvance(e, a)
	return s.transact(ctx, append(s.changeActions(a.Change), e.update(s.o.Names.Jobs, schedKey(a.Job))))
}

func (s *Store) PutEntries(ctx context.Context, entries []core.DueItem) []error {
	writes, keys := make([]types.WriteRequest, len(entries)), make([]string, len(entries))
	for i, d := range entries {
		writes[i] = types.WriteRequest{PutRequest: &types.PutRequest{Item: entryItem(d)}}
		keys[i] = entryText(d)
	}
	return s.batchWrite(ctx, s.o.Names.Jobs, writes, keys)
}

func entryItem(d core.DueItem) item {
	it := entryKey(d)
	it["partition"], it["planAt"] = number(d.Partition), text(planKey(d))
	return it
}

func entryText(d core.DueItem) string { return planKey(d) + "#" + strconv.Itoa(d.Partition) }

func (s *Store) RemoveEntries(ctx context.Context, entries []core.DueItem) []error {
	writes, keys := make([]types.WriteRequest, len(entries)), make([]string, len(entries))
	for i, d := range entries {
		writes[i] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: entryKey(d)}}
		keys[i] = entryText(d)
	}
	return s.batchWrite(ctx, s.o.Names.Jobs, writes, keys)
}

func (s *Store) Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error) {
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
