package awsengine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
)

// A pause and an app as they are stored.
type (
	storedPause struct {
		From int64  `json:"from,omitempty" dynamodbav:"from,omitempty"`
		To   int64  `json:"to,omitempty" dynamodbav:"to,omitempty"`
		By   string `json:"by,omitempty" dynamodbav:"by,omitempty"`
		Why  string `json:"why,omitempty" dynamodbav:"why,omitempty"`
	}
	storedPast struct {
		Pauses [][2]int64 `json:"pauses,omitempty"` // from, to
		From   int64      `json:"from,omitempty"`
	}
	storedApp struct {
		Title     string         `json:"title,omitempty"`
		Set       string         `json:"set,omitempty"`
		Token     string         `json:"token,omitempty"`
		Executors []string       `json:"executors,omitempty"`
		Allow     []netip.Prefix `json:"allow,omitempty"`
		Withheld  []string       `json:"withheld,omitempty"`
		Overlap   core.Overlap   `json:"overlap,omitzero"`
		Limits    core.Limits    `json:"limits,omitzero"`
		Wait      time.Duration  `json:"waitForExecutor,omitempty"`
		Call      *core.Call     `json:"call,omitempty"`
		Notify    core.Notify    `json:"notify,omitzero"`
		Pause     storedPause    `json:"pause"`
		Past      *storedPast    `json:"past,omitempty"`
		Created   int64          `json:"created,omitempty"`
	}
)

func encodePause(p core.Pause) storedPause {
	return storedPause{From: millis(p.From), To: millis(p.To), By: p.By, Why: p.Why}
}

func (p storedPause) decode() core.Pause {
	return core.Pause{From: fromMillis(p.From), To: fromMillis(p.To), By: p.By, Why: p.Why}
}

func encodePast(p core.PauseHistory) *storedPast {
	if len(p.Pauses) == 0 {
		return nil
	}
	v := &storedPast{From: millis(p.From)}
	for _, x := range p.Pauses {
		v.Pauses = append(v.Pauses, [2]int64{millis(x.From), millis(x.To)})
	}
	return v
}

func (p *storedPast) decode() (past core.PauseHistory) {
	if p == nil {
		return past
	}
	past.From = fromMillis(p.From)
	for _, x := range p.Pauses {
		past.Pauses = append(past.Pauses, core.Pause{From: fromMillis(x[0]), To: fromMillis(x[1])})
	}
	return past
}

func encodeApp(a *core.App) item {
	it := stateKey("app", a.Name)
	it["rev"] = number(a.Rev)
	it["body"] = text(jsonText(storedApp{Title: a.Title, Set: a.Set, Token: a.Token, Executors: a.Executors, Allow: a.Allow,
		Withheld: a.Withheld, Wait: a.WaitForExecutor, Overlap: a.Overlap, Limits: a.Limits, Call: a.Call, Notify: a.Notify,
		Pause: encodePause(a.Pause), Past: encodePast(a.Past), Created: millis(a.Created)}))
	return it
}

func decodeApp(it item) (core.App, error) {
	var v storedApp
	if err := json.Unmarshal([]byte(stringOf(it, "body")), &v); err != nil {
		return core.App{}, fmt.Errorf("read app %q: %w", stringOf(it, "key"), err)
	}
	rev, err := intOf(it, "rev")
	return core.App{Name: stringOf(it, "key"), Title: v.Title, Set: v.Set, Token: v.Token, Executors: v.Executors, Allow: v.Allow,
		Withheld: v.Withheld, WaitForExecutor: v.Wait, Overlap: v.Overlap, Limits: v.Limits, Call: v.Call, Notify: v.Notify, Rev: rev,
		Pause: v.Pause.decode(), Past: v.Past.decode(), Created: fromMillis(v.Created)}, err
}

func (s *Store) openApp(it item) (core.App, error) {
	a, err := decodeApp(it)
	if err != nil {
		return a, err
	}
	return secretbox.Open(s.o.Secrets, a)
}

func (s *Store) Apps(ctx context.Context, names []string) (map[string]core.App, []string, error) {
	keys := make([]item, len(names))
	for i, n := range names {
		keys[i] = stateKey("app", n)
	}
	found := make(map[string]core.App, len(names))
	var bad core.UnreadableApps
	left, err := s.get(ctx, s.o.Names.State, keys, func(it item) error {
		a, err := s.openApp(it)
		if errors.Is(err, core.ErrThrottled) {
			return err
		}
		if err != nil {
			bad.Add(stringOf(it, "key"), err)
			return nil
		}
		found[a.Name] = a
		return nil
	})
	if err == nil {
		err = bad.Err()
	}
	var unread []string
	for i := range left {
		unread = append(unread, names[i])
	}
	return found, unread, err
}

func (s *Store) ListApps(ctx context.Context) ([]core.App, error) {
	var list []core.App
	var bad core.UnreadableApps
	err := s.all(ctx, "app", func(it item) error {
		a, err := s.openApp(it)
		if errors.Is(err, core.ErrThrottled) {
			return err
		}
		if err != nil {
			bad.Add(stringOf(it, "key"), err)
			return nil
		}
		list = append(list, a)
		return nil
	})
	if err == nil {
		err = bad.Err()
	}
	return list, err
}

// PutApp implements manage.Store. An app is in the list of apps with a history ("changed") from its creation on, and stays
// there.
func (s *Store) PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error {
	old, err := s.one(ctx, stateKey("app", a.Name))
	if err != nil {
		return err
	}
	if a, err = secretbox.Seal(s.o.Secrets, a); err != nil {
		return err
	}
	a.Past = core.PauseHistory{}
	if old != nil { // the condition of the write checks that it is unchanged
		was, err := decodeApp(old)
		if err != nil {
			return err
		}
		a.Past = was.Past.After(was.Pause, a.Pause)
	}
	return s.transact(ctx, append(s.changeActions(&c), was("rev", seen).put(s.o.Names.State, encodeApp(&a)),
		putAction(s.o.Names.State, stateKey("changed", a.Name))))
}

type executorItem struct {
	Of      string `dynamodbav:"of"`
	Key     string `dynamodbav:"key"`
	Beat    int64  `dynamodbav:"beat,omitempty"`
	Since   int64  `dynamodbav:"since,omitempty"`
	Fixed   bool   `dynamodbav:"fixed,omitempty"`
	Dialect string `dynamodbav:"dialect,omitempty"`
	Ahead   *int32 `dynamodbav:"ahead,omitempty"`
	Expires int64  `dynamodbav:"expires"`
}

func (s *Store) Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error) {
	lists := make([][]core.Executor, len(apps))
	errs := make([]error, len(apps))
	s.parallel(len(apps), func(i int) {
		errs[i] = s.all(ctx, "executors#"+apps[i], func(it item) error {
			var v executorItem
			if err := attributevalue.UnmarshalMap(it, &v); err != nil {
				return fmt.Errorf("read an executor of %s: %w", apps[i], err)
			}
			e := core.Executor{App: apps[i], Address: v.Key, Beat: fromMillis(v.Beat), Since: fromMillis(v.Since), Fixed: v.Fixed,
				Dialect: v.Dialect}
			if v.Ahead != nil {
				e.Clock = core.Clock{Known: true, Ahead: *v.Ahead}
			}
			lists[i] = append(lists[i], e)
			return nil
		})
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	found := make(map[string][]core.Executor, len(apps))
	for i, app := range apps {
		found[app] = lists[i]
	}
	return found, nil
}

func (s *Store) PutExecutor(ctx context.Context, e core.Executor) error {
	v := executorItem{Of: "executors#" + e.App, Key: e.Address, Beat: millis(e.Beat), Since: millis(e.Since), Fixed: e.Fixed,
		Dialect: e.Dialect, Expires: s.o.Now().Add(s.o.KeepJournals).Unix()}
	if e.Clock.Known {
		v.Ahead = &e.Clock.Ahead
	}
	it, err := attributevalue.MarshalMap(v)
	if err != nil {
		return fmt.Errorf("write an executor: %w", err)
	}
	return s.putIf(ctx, it, nil)
}

func (s *Store) RemoveExecutor(ctx context.Context, app, address string, seen time.Time) error {
	e := &expr{}
	if !seen.IsZero() {
		e = noneOr("beat", "=", number(millis(seen)))
	}
	return s.deleteIf(ctx, stateKey("executors#"+app, address), e)
}

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
		err := s.all(ctx, "changed", func(it item) error {
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
