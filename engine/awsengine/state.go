package awsengine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine"
)

type skipItem struct {
	Of      string `dynamodbav:"of"`
	Key     string `dynamodbav:"key"`
	First   int64  `dynamodbav:"first"`
	Last    int64  `dynamodbav:"last"`
	Count   int64  `dynamodbav:"count"`
	Reason  string `dynamodbav:"reason"`
	Rev     int64  `dynamodbav:"rev"`
	Made    int64  `dynamodbav:"made"`
	Expires int64  `dynamodbav:"expires"`
}

// PutSkips implements tick.Store, dispatch.Skips and others. An existing record is extended or left unchanged.
func (s *Store) PutSkips(ctx context.Context, skips []core.Skip) []error {
	errs := make([]error, len(skips))
	s.parallel(len(skips), func(i int) {
		if errs[i] = ctx.Err(); errs[i] != nil {
			return
		}
		k := &skips[i]
		expires, values := "SET #expires = :expires, ", item{":last": number(k.Last), ":count": number(k.Count), ":first": number(k.First),
			":reason": text(string(k.Reason)), ":rev": number(k.Rev), ":made": number(millis(k.Made))}
		if at := s.expiry(ctx, k.Job); at != 0 {
			values[":expires"] = number(at)
		} else {
			expires = "REMOVE #expires SET "
		}
		_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &s.o.Names.State, Key: stateKey("skip#"+k.Job.String(), skipKey(k)),
			UpdateExpression: aws.String(expires + "#last = :last, #count = :count, #first = if_not_exists(#first, :first), " +
				"#reason = if_not_exists(#reason, :reason), #rev = if_not_exists(#rev, :rev), #made = :made"),
			ConditionExpression: aws.String("attribute_not_exists(#last) OR #last < :last"),
			ExpressionAttributeNames: map[string]string{"#last": "last", "#count": "count", "#expires": "expires", "#first": "first",
				"#reason": "reason", "#rev": "rev", "#made": "made"},
			ExpressionAttributeValues: values})
		if errs[i] = answer("table "+s.o.Names.State, err); errors.Is(errs[i], core.ErrRefused) {
			errs[i] = nil
		}
	})
	return errs
}

func skipKey(k *core.Skip) string { return fmt.Sprintf("%010d#%s", k.First, k.Reason) }

func (s *Store) Skips(ctx context.Context, job core.JobID, from, to core.Instant) ([]core.Skip, error) {
	var list []core.Skip
	e := equal("of", text("skip#"+job.String()))
	e.test("key", "<", text(fmt.Sprintf("%010d$", to)))
	in := e.query(s.o.Names.State)
	in.FilterExpression = aws.String(e.name("last") + " >= " + e.value("from", number(from)))
	err := s.query(ctx, in, func(it item) (bool, error) {
		var v skipItem
		if err := attributevalue.UnmarshalMap(it, &v); err != nil {
			return false, fmt.Errorf("read a skipped record of job %d: %w", job, err)
		}
		list = append(list, core.Skip{Job: job, First: core.Instant(v.First), Last: core.Instant(v.Last), Count: v.Count,
			Reason: core.Reason(v.Reason), Rev: v.Rev, Made: fromMillis(v.Made)})
		return true, nil
	})
	return list, err
}

// keyFor is how long an idempotency key binds after its run has ended, and if it
// never had one, after it was bound.
const keyFor = 24 * time.Hour

func (s *Store) PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (core.RunID, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := s.o.Now()
	it := stateKey("key#"+job.String(), key)
	it["run"], it["at"] = number(run), number(millis(now))
	err := s.putIf(ctx, it, none("of"))
	if !errors.Is(err, core.ErrRefused) {
		return run, err
	}
	bound, err := s.one(ctx, stateKey("key#"+job.String(), key))
	if err != nil {
		return 0, err
	}
	id, err := intOf(bound, "run")
	if err != nil {
		return 0, err
	}
	at, err := intOf(bound, "at")
	since := now.Add(-keyFor)
	if err != nil || at >= millis(since) {
		return core.RunID(id), err
	}
	old, unread, err := s.Runs(ctx, []core.RunID{core.RunID(id)})
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return 0, err
	}
	if r, is := old[core.RunID(id)]; is && (r.State.Open() || r.EndedAt.After(since)) {
		return core.RunID(id), nil
	}
	return run, s.putIf(ctx, it, equal("run", number(id)))
}

func (s *Store) Alive(ctx context.Context, now time.Time) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	it := stateKey("alive", "-")
	it["at"] = number(millis(now))
	out, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.o.Names.State, Item: it, ReturnValues: types.ReturnValueAllOld})
	if err != nil || len(out.Attributes) == 0 {
		return time.Time{}, answer("table "+s.o.Names.State, err)
	}
	at, err := intOf(out.Attributes, "at")
	return fromMillis(at), err
}

func (s *Store) LastAlive(ctx context.Context) (time.Time, error) {
	it, err := s.one(ctx, stateKey("alive", "-"))
	if err != nil || it == nil {
		return time.Time{}, err
	}
	at, err := intOf(it, "at")
	return fromMillis(at), err
}

type changeItem struct {
	Of      string `dynamodbav:"of"`
	Key     string `dynamodbav:"key"`
	ID      int64  `dynamodbav:"id"`
	At      int64  `dynamodbav:"at"`
	By      string `dynamodbav:"by,omitempty"`
	Verb    string `dynamodbav:"verb,omitempty"`
	App     string `dynamodbav:"app,omitempty"`
	Job     int64  `dynamodbav:"job,omitempty"`
	Name    string `dynamodbav:"name,omitempty"`
	Why     string `dynamodbav:"why,omitempty"`
	Old     string `dynamodbav:"old,omitempty"`
	New     string `dynamodbav:"new,omitempty"`
	Act     string `dynamodbav:"act,omitempty"`
	From    string `dynamodbav:"from,omitempty"`
	Via     string `dynamodbav:"via,omitempty"`
	Expires int64  `dynamodbav:"expires"`
}

func changesOfJob(job core.JobID) string { return "changes#job#" + job.String() }
func changesOfApp(app string) string     { return "changes#app#" + app }

// changeItems returns the records of a change: one in the history of its job, one in the history of its app (or of
// everything).
func (s *Store) changeItems(c *core.Change) []item {
	v := changeItem{ID: c.ID, At: millis(c.At), By: c.By, Verb: c.Verb, App: c.App, Job: int64(c.Job), Name: c.Name, Why: c.Why, Old: c.Old,
		New: c.New, Act: c.Act, From: c.From, Via: c.Via,
		Expires: s.o.Now().Add(s.o.KeepRuns).Unix()}
	ofs := []string{changesOfApp(c.App)}
	if c.Job != 0 {
		ofs = append(ofs, changesOfJob(c.Job))
	}
	says := fnv.New64a()
	says.Write([]byte(c.Says()))
	var list []item
	for _, of := range ofs {
		v.Of, v.Key = of, fmt.Sprintf("%019d#%010d#%016x", c.ID, c.Job, says.Sum64())
		it, err := attributevalue.MarshalMap(v)
		if err != nil {
			panic(fmt.Sprintf("our own type has a form: %v", err)) // strings and numbers only
		}
		list = append(list, it)
	}
	return list
}

func (s *Store) PutChanges(ctx context.Context, changes []core.Change) error {
	var writes []types.WriteRequest
	var items []item
	for i := range changes {
		for _, it := range s.changeItems(&changes[i]) {
			writes, items = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: it}}), append(items, it)
		}
	}
	return errors.Join(s.batchWrite(ctx, s.o.Names.State, writes, textsOf(items))...)
}

func (s *Store) Changes(ctx context.Context, app string, job core.JobID, last int64, limit int) ([]core.Change, error) {
	var ofs []string
	switch {
	case job != 0:
		ofs = []string{changesOfJob(job)}
	case app != "":
		ofs = []string{changesOfApp(app)}
	default:
		ofs = []string{changesOfApp("")}
		err := s.all(ctx, engine.KindChanged, func(it item) error {
			ofs = append(ofs, changesOfApp(stringOf(it, "key")))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	lists, errs := make([][]core.Change, len(ofs)), make([]error, len(ofs))
	s.parallel(len(ofs), func(i int) { lists[i], errs[i] = s.changesOf(ctx, ofs[i], last, limit) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	list := slices.Concat(lists...)
	slices.SortStableFunc(list, func(a, b core.Change) int { return cmp.Compare(b.ID, a.ID) })
	return list[:min(len(list), limit)], nil
}

func (s *Store) changesOf(ctx context.Context, of string, last int64, limit int) ([]core.Change, error) {
	e := equal("of", text(of))
	e.test("key", "<=", text(fmt.Sprintf("%019d#~", last))) // behind all of that ID
	var list []core.Change
	err := s.query(ctx, e.newest(s.o.Names.State, limit), func(it item) (bool, error) {
		var v changeItem
		if err := attributevalue.UnmarshalMap(it, &v); err != nil {
			return false, fmt.Errorf("read a change record: %w", err)
		}
		list = append(list, core.Change{ID: v.ID, At: fromMillis(v.At), By: v.By, Verb: v.Verb, App: v.App, Job: core.JobID(v.Job), Name: v.Name,
			Why: v.Why, Act: v.Act, From: v.From, Via: v.Via, Old: v.Old, New: v.New})
		return len(list) < limit, nil
	})
	return list, err
}
