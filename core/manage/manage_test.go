package manage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/testkit/memory"
)

var (
	ctx   = context.Background()
	ann   = core.Actor{Name: "ann"}
	start = time.Date(2026, 11, 20, 12, 0, 0, 250e6, time.UTC)
)

// fixture is a Manage on a memory engine with a clock and faults of its own.
type fixture struct {
	t      testing.TB
	clock  time.Time
	e      *engine.Engine
	faults *faults
	killer *killer
	m      *people.People
}

func newFixture(t testing.TB) *fixture {
	f := &fixture{t: t, clock: start, killer: &killer{}}
	now := func() time.Time { return f.clock }
	f.e = memory.Open(memory.Options{Now: now})
	f.m = f.fresh(&faults{Store: f.e.Manage, ring: f.e.Ring})
	app := f.must(f.m.SaveApp(ctx, ann, manage.AppSpec{Name: "shop"}))
	if app.Change != manage.Created {
		t.Fatalf("app: %+v", app)
	}
	return f
}

// fresh is another process on the same store.
func (f *fixture) fresh(with *faults) *people.People {
	now := func() time.Time { return f.clock }
	f.faults = with
	end := finish.New(f.e.Finish, f.e.Ring, finish.Options{Now: now, Plan: plan.Local()})
	return people.New(with, with, end, f.killer, people.Options{Plan: plan.Local(), Manage: manage.Options{Backoff: time.Millisecond},
		Ask: ask.Options{Now: now, Reachable: func(address string) error {
			switch {
			case strings.HasPrefix(address, "lambda:"):
				return errors.New("no AWS credentials here")
			case strings.Contains(address, "169.254."):
				return errors.New("link-local")
			}
			return nil
		}}})
}

// resumed goes to where the end of a pause of an app or of everything counts.
func (f *fixture) resumed() { f.clock = f.clock.Add(5 * time.Second) }

func (f *fixture) must(r manage.AppResult, err error) manage.AppResult {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) save(specs ...manage.JobSpec) []manage.SaveResult {
	f.t.Helper()
	return f.m.Save(ctx, ann, specs)
}

func (f *fixture) create(s manage.JobSpec) core.Job {
	f.t.Helper()
	if r := f.save(s)[0]; r.Err != nil || r.Change != manage.Created {
		f.t.Fatalf("create: %+v", r)
	}
	return f.job(s.Def.App + "/" + s.Def.Name)
}

func (f *fixture) job(ref string) core.Job {
	f.t.Helper()
	j, err := f.m.Job(ctx, ref)
	if err != nil {
		f.t.Fatal(err)
	}
	return j
}

// fires takes all messages off the ring, due or not, and answers their fires.
func (f *fixture) fires() []core.Fire {
	f.t.Helper()
	was := f.clock
	f.clock = f.clock.Add(24 * time.Hour)
	defer func() { f.clock = was }()
	var fires []core.Fire
	for {
		due, _, _, err := f.e.Queue.Depth(ctx, ring.KindFires)
		if err != nil {
			f.t.Fatal(err)
		}
		if due == 0 {
			return fires
		}
		got, err := f.e.Queue.Receive(ctx, ring.KindFires, 100)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, d := range got {
			fires = append(fires, d.Message.Fires...)
		}
		f.e.Queue.Ack(ctx, got)
	}
}

func (f *fixture) skips(job core.JobID) []core.Skip {
	f.t.Helper()
	skips, err := f.e.Manage.Skips(ctx, job, 0, core.Horizon)
	if err != nil {
		f.t.Fatal(err)
	}
	return skips
}

func every(d time.Duration) core.Schedule {
	return core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: d, Aligned: true}}}
}

func spec(name string, s core.Schedule) manage.JobSpec {
	return manage.JobSpec{Def: core.Def{App: "shop", Name: name, Handler: "sweep"}, Schedule: s}
}

func code(err error) core.Code {
	if err == nil {
		return ""
	}
	return core.CodeOf(err)
}

type killer struct {
	mu   sync.Mutex
	sent []string
}

func (k *killer) Kill(_ context.Context, app *core.App, address string, job core.JobID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sent = append(k.sent, fmt.Sprintf("%s %s %d", app.Name, address, job))
	if strings.Contains(address, "deaf") {
		return errors.New("no answer")
	}
	return nil
}

// faults is a store and ring whose nth write goes wrong.
type faults struct {
	people.Store
	ring  operate.Ring
	n, at int // write at (from 1) goes wrong; 0 none
	after bool
	dead  bool // from then on nothing works: the process was killed
	kill  bool
	err   error
	last  string // the write that went wrong
	quiet bool   // the ring is never old
	early bool   // items were written by a version that kept the last pause alone
}

var errLost = errors.New("connection cut")

// do runs a write, or lets it go wrong.
func (f *faults) do(name string, write func() error) error {
	if f.dead {
		return errLost
	}
	f.n++
	if f.n != f.at {
		return write()
	}
	f.last = name
	f.dead = f.kill
	if f.after {
		_ = write()
	}
	if f.err != nil {
		return f.err
	}
	return errLost
}

func all(errs []error, n int, err error) []error {
	if err == nil {
		return errs
	}
	out := make([]error, n)
	for i := range out {
		out[i] = err
	}
	return out
}

func (f *faults) CreateJobs(ctx context.Context, j []core.Job, c []core.Change) (errs []error) {
	return all(errs, len(j), f.do("CreateJobs", func() error { errs = f.Store.CreateJobs(ctx, j, c); return nil }))
}
func (f *faults) UpdateJobs(ctx context.Context, u []manage.Update) (errs []error) {
	err := f.do("UpdateJobs", func() error { errs = f.Store.UpdateJobs(ctx, u); return nil })
	return all(errs, len(u), err)
}
func (f *faults) DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error {
	return f.do("DeleteJob", func() error { return f.Store.DeleteJob(ctx, seen, t, c) })
}
func (f *faults) PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error {
	return f.do("PutApp", func() error { return f.Store.PutApp(ctx, seen, a, c) })
}
func (f *faults) DeleteApp(ctx context.Context, seen int64, name string, c core.Change) error {
	return f.do("DeleteApp", func() error { return f.Store.DeleteApp(ctx, seen, name, c) })
}
func (f *faults) PutGlobal(ctx context.Context, seen int64, g core.Global) error {
	return f.do("PutGlobal", func() error { return f.Store.PutGlobal(ctx, seen, g) })
}
func (f *faults) PutChanges(ctx context.Context, c []core.Change) error {
	return f.do("PutChanges", func() error { return f.Store.PutChanges(ctx, c) })
}
func (f *faults) PutSkips(ctx context.Context, s []core.Skip) (errs []error) {
	err := f.do("PutSkips", func() error { errs = f.Store.PutSkips(ctx, s); return nil })
	return all(errs, len(s), err)
}
func (f *faults) Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error) {
	err = f.do("Numbers", func() (err error) { first, err = f.Store.Numbers(ctx, job, n); return err })
	return first, err
}
func (f *faults) NewJobIDs(ctx context.Context, n int) (first core.JobID, err error) {
	err = f.do("NewJobIDs", func() (err error) { first, err = f.Store.NewJobIDs(ctx, n); return err })
	return first, err
}
func (f *faults) PutTriggered(ctx context.Context, r core.Run, d core.DueItem) error {
	return f.do("PutTriggered", func() error { return f.Store.PutTriggered(ctx, r, d) })
}
func (f *faults) ChangeTriggered(ctx context.Context, c operate.Triggered) error {
	return f.do("ChangeTriggered", func() error { return f.Store.ChangeTriggered(ctx, c) })
}
func (f *faults) PutKey(ctx context.Context, job core.JobID, key string, r core.RunID) (bound core.RunID, err error) {
	err = f.do("PutKey", func() (err error) { bound, err = f.Store.PutKey(ctx, job, key, r); return err })
	return bound, err
}
func (f *faults) RemoveEntries(ctx context.Context, d []core.DueItem) (errs []error) {
	err := f.do("RemoveEntries", func() error { errs = f.Store.RemoveEntries(ctx, d); return nil })
	return all(errs, len(d), err)
}
func (f *faults) MarkKilled(ctx context.Context, r core.RunID, by string, at int64) error {
	return f.do("MarkKilled", func() error { return f.Store.MarkKilled(ctx, r, by, at) })
}
func (f *faults) Advance(ctx context.Context, a []core.Advance) (errs []error) {
	err := f.do("Advance", func() error { errs = f.Store.Advance(ctx, a); return nil })
	return all(errs, len(a), err)
}
func (f *faults) Enqueue(ctx context.Context, out []ring.Out) (errs []error) {
	err := f.do("Enqueue", func() error { errs = f.ring.Enqueue(ctx, out); return nil })
	return all(errs, len(out), err)
}
func (f *faults) Apps(ctx context.Context, names []string) (map[string]core.App, []string, error) {
	found, left, err := f.Store.Apps(ctx, names)
	for name, a := range found {
		if f.early {
			a.Past = core.Past{}
			found[name] = a
		}
	}
	return found, left, err
}
func (f *faults) Global(ctx context.Context) (core.Global, error) {
	g, err := f.Store.Global(ctx)
	if f.early {
		g.Past = core.Past{}
	}
	return g, err
}
func (f *faults) OldestMessage(ctx context.Context) (ring.Oldest, error) {
	if f.quiet {
		return ring.Oldest{}, nil
	}
	return f.Store.OldestMessage(ctx)
}

func TestSave(t *testing.T) {
	f := newFixture(t)
	j := f.create(spec("sweep", every(10*time.Second)))
	if j.Sched.State != core.Started || j.Sched.Rev != core.Millis(start) || j.Def.Retry.Delay != 30*time.Second || j.Sched.Grace != time.Minute {
		t.Errorf("created: %+v", j)
	}
	if r := f.save(spec("sweep", every(10*time.Second)))[0]; r.Change != manage.Unchanged || r.ID != j.Def.ID || r.Rev != j.Sched.Rev {
		t.Errorf("again: %+v", r)
	}
	s := spec("sweep", every(10*time.Second))
	s.Def.Params = "day"
	if r := f.m.Check(ctx, []manage.JobSpec{s})[0]; r.Change != manage.Updated || f.job("shop/sweep").Def.Params != "" {
		t.Errorf("check: %+v", r)
	}
	if r := f.save(s)[0]; r.Change != manage.Updated || r.Rev != j.Sched.Rev+1 { // the clock stood still
		t.Errorf("params: %+v", r)
	}
	if got := f.job("shop/sweep"); got.Def.Params != "day" || !got.Def.Created.Equal(j.Def.Created) {
		t.Errorf("stored: %+v", got)
	}
	yes := true
	s.Paused = &yes
	if r := f.save(s)[0]; r.Change != manage.Updated {
		t.Errorf("pause: %+v", r)
	}
	s.Paused = nil
	s.Def.Title = "x"
	f.save(s)
	if got := f.job("shop/sweep"); got.Sched.State != core.Paused || got.Sched.PlanAt != 0 || got.Sched.PauseBy != "ann" {
		t.Errorf("an edit undid the pause: %+v", got.Sched)
	}
	var verbs []string
	changes, err := f.m.Changes(ctx, "", "shop/sweep", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		verbs = append(verbs, c.By+" "+c.Verb)
	}
	if want := []string{"ann updated", "ann paused", "ann updated", "ann created"}; !slices.Equal(verbs, want) {
		t.Errorf("changes %q, want %q", verbs, want)
	}
	if old, ok := core.ParseJobRecord(changes[0].Old); !ok || old.State != core.Paused || old.Def.Title != "" {
		t.Errorf("old: %+v", old)
	}
}

func TestSavePlansAtOnce(t *testing.T) {
	f := newFixture(t)
	j := f.create(spec("sweep", every(time.Second)))
	fires := f.fires()
	if len(fires) == 0 || fires[0].At != core.InstantOf(start)+1 || fires[0].Rev != j.Sched.Rev {
		t.Fatalf("fires: %+v", fires)
	}
	if last := fires[len(fires)-1].At; j.Sched.Next != last+1 || j.Sched.PlanAt <= core.InstantOf(f.clock) {
		t.Errorf("next %s after fires up to %s, planAt %s", j.Sched.Next, last, j.Sched.PlanAt)
	}
}

func TestSaveRefuses(t *testing.T) {
	f := newFixture(t)
	if _, err := f.m.SaveApp(ctx, ann, manage.AppSpec{Name: "pay", Executors: []string{"call:https://pay.internal"}}); err != nil {
		t.Fatal(err)
	}
	have := spec("have", core.Schedule{})
	have.Def.Set = "ours"
	f.create(have)
	zero, seven := int64(0), int64(7)
	with := func(change func(s *manage.JobSpec)) manage.JobSpec {
		s := spec("new", every(time.Minute))
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		spec  manage.JobSpec
		code  core.Code
		field string
	}{
		"no app":           {with(func(s *manage.JobSpec) { s.Def.App = "none" }), core.CodeNotFound, "app"},
		"name":             {with(func(s *manage.JobSpec) { s.Def.Name = "12" }), core.CodeInvalid, "name"},
		"five fields":      {with(func(s *manage.JobSpec) { s.Schedule.Any[0] = core.When{Kind: core.KindCron, Expr: "0 2 * * *"} }), core.CodeInvalid, "schedule.cron"},
		"never":            {with(func(s *manage.JobSpec) { s.Schedule.Any[0] = core.When{Kind: core.KindCron, Expr: "0 0 0 31 2 ?"} }), core.CodeInvalid, "schedule"},
		"past":             {with(func(s *manage.JobSpec) { s.Schedule.Any[0] = core.When{Kind: core.KindAt, At: 1600000000} }), core.CodeInvalid, "schedule"},
		"zone":             {with(func(s *manage.JobSpec) { s.Schedule.Timezone = "Mars/X" }), core.CodeInvalid, "schedule.timezone"},
		"start after end":  {with(func(s *manage.JobSpec) { s.Schedule.From, s.Schedule.Until = "2027-02-01", "2027-01-01" }), core.CodeInvalid, "schedule.from"},
		"negative timeout": {with(func(s *manage.JobSpec) { s.Def.Timeout = -time.Second }), core.CodeInvalid, "timeout"},
		"params":           {with(func(s *manage.JobSpec) { s.Def.Params = strings.Repeat("x", 64<<10+1) }), core.CodeTooLarge, "params"},
		"route":            {with(func(s *manage.JobSpec) { s.Def.Route = core.RouteBroadcast }), core.CodeInvalid, "route"},
		"handler of call":  {with(func(s *manage.JobSpec) { s.Def.App, s.Def.Handler = "pay", "sweep" }), core.CodeInvalid, "handler"},
		"set":              {with(func(s *manage.JobSpec) { s.Def.Name, s.Def.Set = "have", "theirs" }), core.CodeConflict, ""},
		"exists":           {with(func(s *manage.JobSpec) { s.Def.Name, s.IfRev = "have", &zero }), core.CodeConflict, ""},
		"rev":              {with(func(s *manage.JobSpec) { s.Def.Name, s.IfRev = "have", &seven }), core.CodeConflict, ""},
		"rev of none":      {with(func(s *manage.JobSpec) { s.IfRev = &seven }), core.CodeConflict, ""},
		"fixed in a list": {with(func(s *manage.JobSpec) {
			s.Schedule.Any = append(s.Schedule.Any, core.When{Kind: core.KindFixedDelay, Every: time.Second})
		}), core.CodeInvalid, "schedule[1].fixedDelay"},
		"half a second":     {with(func(s *manage.JobSpec) { s.Schedule.Any[0].Every = 1500 * time.Millisecond }), core.CodeInvalid, "schedule.every"},
		"retry on success":  {with(func(s *manage.JobSpec) { s.Def.Retry.On = []core.State{core.Succeeded} }), core.CodeInvalid, "retry.on"},
		"deadline too long": {with(func(s *manage.JobSpec) { s.Deadline = 31 * 24 * time.Hour }), core.CodeInvalid, "deadline"},
	} {
		r := f.save(c.spec)[0]
		var e *core.Error
		if r.Change != manage.Refused || !errors.As(r.Err, &e) || e.Code != c.code || e.Field != c.field {
			t.Errorf("%s: %+v (%#v)", name, r, r.Err)
		}
	}
	if r := f.save(spec("a", every(time.Minute)), spec("a", every(time.Hour))); r[0].Change != manage.Created || code(r[1].Err) != core.CodeInvalid {
		t.Errorf("a name used twice: %+v", r)
	}
	if r := f.m.Save(ctx, core.Actor{}, []manage.JobSpec{spec("b", every(time.Minute))}); code(r[0].Err) != core.CodeInvalid {
		t.Errorf("nobody: %+v", r)
	}
	page, err := f.m.Jobs(ctx, ask.JobFilter{})
	if err != nil || len(page.Jobs) != 2 {
		t.Errorf("refused jobs changed something: %d jobs, %v", len(page.Jobs), err)
	}
}

// Whatever write of a change goes wrong, in each way, the change is made once,
// or refused and not made; and it is never made without the record of what was
// due before it.
func TestFaults(t *testing.T) {
	type op struct {
		name   string
		reason core.Reason
		do     func(m *people.People) error
		made   func(f *fixture) bool
	}
	yes := true
	one := func(r []manage.SaveResult) error { return r[0].Err }
	hourly := spec("sweep", every(time.Hour))
	stop := spec("sweep", every(time.Second))
	stop.Paused = &yes
	for _, o := range []op{
		{"create", "", func(m *people.People) error {
			return one(m.Save(ctx, ann, []manage.JobSpec{spec("more", every(time.Second))}))
		},
			func(f *fixture) bool { _, err := f.m.Job(ctx, "shop/more"); return err == nil }},
		{"edit", core.ReasonChanged, func(m *people.People) error { return one(m.Save(ctx, ann, []manage.JobSpec{hourly})) },
			func(f *fixture) bool { return f.job("shop/sweep").Sched.Schedule.Equal(every(time.Hour)) }},
		{"apply paused", core.ReasonPaused, func(m *people.People) error { return one(m.Save(ctx, ann, []manage.JobSpec{stop})) },
			func(f *fixture) bool { return f.job("shop/sweep").Sched.State == core.Paused }},
		{"pause", core.ReasonPaused, func(m *people.People) error {
			_, err := m.Pause(ctx, ann, manage.Target{Job: "shop/sweep"}, manage.PauseRequest{Why: "broken"})
			return err
		}, func(f *fixture) bool { return f.job("shop/sweep").Sched.State == core.Paused }},
		{"delete", core.ReasonDeleted, func(m *people.People) error { _, err := m.Delete(ctx, ann, "shop/sweep", nil); return err },
			func(f *fixture) bool { _, err := f.m.Job(ctx, "shop/sweep"); return err != nil }},
		{"pause app", "", func(m *people.People) error {
			_, err := m.Pause(ctx, ann, manage.Target{App: "shop"}, manage.PauseRequest{})
			return err
		}, func(f *fixture) bool { a, _ := f.m.App(ctx, "shop"); return a.Pause.Covers(f.clock) }},
		{"pause all", "", func(m *people.People) error {
			_, err := m.Pause(ctx, ann, manage.Target{All: true}, manage.PauseRequest{})
			return err
		}, func(f *fixture) bool { g, _ := f.m.Global(ctx); return g.Pause.Covers(f.clock) }},
		{"app", "", func(m *people.People) error { _, err := m.SaveApp(ctx, ann, manage.AppSpec{Name: "new"}); return err },
			func(f *fixture) bool { _, err := f.m.App(ctx, "new"); return err == nil }},
	} {
		for _, mode := range []struct {
			name  string
			fault faults
		}{
			{"unknown, not done", faults{}}, {"unknown, done", faults{after: true}}, {"throttled", faults{err: core.ErrThrottled}},
			{"own write answered with a conflict", faults{after: true, err: core.ErrRefused}},
			{"killed before", faults{kill: true}}, {"killed after", faults{kill: true, after: true}},
		} {
			for at := 1; ; at++ {
				f := newFixture(t)
				j := f.create(spec("sweep", every(time.Second)))
				f.clock = f.clock.Add(time.Hour) // no tick meanwhile
				w := mode.fault
				w.Store, w.ring, w.at = f.e.Manage, f.e.Ring, at
				err := o.do(f.fresh(&w))
				f.m = f.fresh(&faults{Store: f.e.Manage, ring: f.e.Ring})
				if w.last == "" {
					if err != nil {
						t.Fatalf("%s: %v", o.name, err)
					}
					break
				}
				what := fmt.Sprintf("%s, %s at %s", o.name, mode.name, w.last)
				made := o.made(f)
				if err == nil && !made {
					t.Errorf("%s: success, and not made", what)
				}
				if err != nil && code(err) != core.CodeUnavailable {
					t.Errorf("%s: %v", what, err)
				}
				if err != nil && made && !w.kill {
					t.Errorf("%s: refused (%v), and made", what, err)
				}
				if err != nil && w.err == nil && !w.kill {
					t.Errorf("%s: not tried again: %v", what, err)
				}
				if made && o.reason != "" {
					skips := f.skips(j.Def.ID)
					end := core.InstantOf(f.clock)
					if len(skips) != 1 || skips[0].First != j.Sched.Next || skips[0].Last != end || skips[0].Count != int64(end-j.Sched.Next+1) || skips[0].Reason != o.reason {
						t.Errorf("%s: made, and the record of what was due is %+v", what, skips)
					}
				}
				// Asked again, it is there.
				if err := o.do(f.m); err != nil && !(o.name == "delete" && code(err) == core.CodeNotFound) {
					t.Errorf("%s, again: %v", what, err)
				}
				if !o.made(f) {
					t.Errorf("%s, again: not made", what)
				}
			}
		}
	}
}

func TestConflict(t *testing.T) {
	f := newFixture(t)
	j := f.create(spec("sweep", every(time.Minute)))
	rev := j.Sched.Rev
	edit := spec("sweep", every(time.Hour))
	edit.IfRev = &rev
	if r := f.save(edit)[0]; r.Change != manage.Updated {
		t.Fatalf("first: %+v", r)
	}
	edit.Schedule = every(2 * time.Hour)
	if r := f.save(edit)[0]; code(r.Err) != core.CodeConflict {
		t.Errorf("second: %+v", r)
	}
	if _, err := f.m.Pause(ctx, ann, manage.Target{Job: "shop/sweep"}, manage.PauseRequest{IfRev: &rev}); code(err) != core.CodeConflict {
		t.Errorf("pause: %v", err)
	}
	if _, err := f.m.Delete(ctx, ann, "shop/sweep", &rev); code(err) != core.CodeConflict {
		t.Errorf("delete: %v", err)
	}
}

func TestPauseOfAJob(t *testing.T) {
	f := newFixture(t)
	j := f.create(spec("sweep", every(10*time.Second)))
	until := start.Add(time.Hour)
	job := manage.Target{Job: "shop/sweep"}
	r, err := f.m.Pause(ctx, ann, job, manage.PauseRequest{Why: "db", Until: &until})
	if err != nil || !r.Changed || r.State != core.Paused || !r.Until.Equal(core.Ceil(until).Time()) {
		t.Fatalf("%+v %v", r, err)
	}
	s := f.job("shop/sweep").Sched
	if s.PlanAt != core.Ceil(until) || s.PauseUntil != s.PlanAt || s.Next != 0 || s.PauseWhy != "db" || s.PauseBy != "ann" || s.Rev <= j.Sched.Rev {
		t.Errorf("paused: %+v", s)
	}
	if r, err := f.m.Pause(ctx, ann, job, manage.PauseRequest{Why: "db", Until: &until}); err != nil || r.Changed {
		t.Errorf("again: %+v %v", r, err)
	}
	if r, err := f.m.Pause(ctx, ann, job, manage.PauseRequest{}); err != nil || !r.Changed || f.job("shop/sweep").Sched.PlanAt != 0 {
		t.Errorf("for ever: %+v %v", r, err)
	}
	f.fires()
	f.clock = f.clock.Add(30 * time.Minute)
	if r, err := f.m.Resume(ctx, ann, job, "ok"); err != nil || !r.Changed || r.State != core.Started {
		t.Errorf("resume: %+v %v", r, err)
	}
	for _, fire := range f.fires() {
		if fire.At <= core.InstantOf(f.clock) {
			t.Errorf("resume runs what passed: %s", fire.At)
		}
	}
	if n := len(f.skips(j.Def.ID)); n != 0 {
		t.Errorf("%d records of instants inside the pause", n)
	}
	if r, err := f.m.Resume(ctx, ann, job, ""); err != nil || r.Changed {
		t.Errorf("resume again: %+v %v", r, err)
	}
	past := start
	for _, bad := range []struct {
		t manage.Target
		r manage.PauseRequest
	}{{manage.Target{}, manage.PauseRequest{}}, {manage.Target{Job: "shop/sweep", All: true}, manage.PauseRequest{}},
		{job, manage.PauseRequest{Until: &past}}, {job, manage.PauseRequest{Why: strings.Repeat("x", 1001)}}} {
		if _, err := f.m.Pause(ctx, ann, bad.t, bad.r); code(err) != core.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := f.m.Pause(ctx, ann, manage.Target{Job: "shop/none"}, manage.PauseRequest{}); code(err) != core.CodeNotFound {
		t.Errorf("no job: %v", err)
	}
}

func TestPauseOfAppAndEverything(t *testing.T) {
	for _, target := range []manage.Target{{App: "shop"}, {All: true}} {
		f := newFixture(t)
		j := f.create(spec("sweep", every(10*time.Second)))
		last := func() core.Pause {
			if target.All {
				g, _ := f.m.Global(ctx)
				return g.Pause
			}
			a, _ := f.m.App(ctx, "shop")
			return a.Pause
		}
		r, err := f.m.Pause(ctx, ann, target, manage.PauseRequest{Why: "move"})
		if err != nil || !r.Changed || r.State != core.Paused {
			t.Fatalf("%+v %v", r, err)
		}
		from := f.clock
		f.clock = f.clock.Add(time.Minute)
		if r, err := f.m.Pause(ctx, ann, target, manage.PauseRequest{}); err != nil || r.Changed {
			t.Errorf("again: %+v %v", r, err)
		}
		until := f.clock.Add(time.Hour)
		if r, err := f.m.Pause(ctx, ann, target, manage.PauseRequest{Until: &until}); err != nil || !r.Changed || !last().From.Equal(from) {
			t.Errorf("with an end: %+v %v %+v", r, err, last())
		}
		if r, err := f.m.Resume(ctx, ann, target, "done"); err != nil || !r.Changed || r.State != core.Started || !last().To.Equal(f.clock.Add(5*time.Second)) || !r.Until.Equal(last().To) {
			t.Errorf("resume: %+v %v %+v", r, err, last())
		}
		if r, err := f.m.Resume(ctx, ann, target, ""); err != nil || r.Changed {
			t.Errorf("resume again: %+v %v", r, err)
		}
		if got := f.job("shop/sweep").Sched; got.Rev != j.Sched.Rev {
			t.Errorf("it changed the job: %+v", got)
		}
		changes, err := f.m.Changes(ctx, target.App, "", 10)
		if err != nil || len(changes) < 3 || changes[0].Verb != core.VerbResumed || changes[0].By != "ann" {
			t.Errorf("changes: %+v %v", changes, err)
		}
	}
}

// An edit, and a pause and resume, of a fixed delay keep its open chain and send
// its fire again under the new revision, with the same ID.
func TestFixedDelayKeepsItsTail(t *testing.T) {
	f := newFixture(t)
	delay := core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: time.Second}}}
	s := spec("poll", delay)
	f.create(s)
	f.clock = f.clock.Add(time.Second)
	first := f.fires()
	if len(first) != 1 {
		t.Fatalf("fires: %+v", first)
	}
	tail := f.job("shop/poll").Sched.Tail
	if tail != first[0].Run {
		t.Fatalf("tail %d, fire %+v", tail, first[0])
	}
	s.Def.Params = "x"
	f.save(s)
	j := f.job("shop/poll")
	if again := f.fires(); len(again) != 1 || again[0].Run != tail || again[0].Rev != j.Sched.Rev || j.Sched.Tail != tail {
		t.Errorf("after an edit: %+v, %+v", again, j.Sched)
	}
	if _, err := f.m.Pause(ctx, ann, manage.Target{Job: "shop/poll"}, manage.PauseRequest{}); err != nil {
		t.Fatal(err)
	}
	f.clock = f.clock.Add(time.Minute)
	if _, err := f.m.Resume(ctx, ann, manage.Target{Job: "shop/poll"}, ""); err != nil {
		t.Fatal(err)
	}
	j = f.job("shop/poll")
	if again := f.fires(); len(again) != 1 || again[0].Run != tail || again[0].Rev != j.Sched.Rev || j.Sched.Tail != tail {
		t.Errorf("after a resume: %+v, %+v", again, j.Sched)
	}
	if n := len(f.skips(j.Def.ID)); n != 0 {
		t.Errorf("%d records", n)
	}
	// On its way: it is not sent once more.
	run := core.Run{ID: tail, App: "shop", State: core.Running, Owner: "me", At: first[0].At, Slot: first[0].Slot, First: tail, Attempt: 1, FixedDelay: true, SentAt: f.clock}
	if err := f.e.Finish.Create(ctx, []core.Run{run})[0]; err != nil {
		t.Fatal(err)
	}
	s.Def.Params = "y"
	f.save(s)
	if again := f.fires(); len(again) != 0 || f.job("shop/poll").Sched.Tail != tail {
		t.Errorf("a running tail was sent again: %+v", again)
	}
}

func TestDeleteAndPrune(t *testing.T) {
	f := newFixture(t)
	if _, err := f.m.SaveApp(ctx, ann, manage.AppSpec{Name: "old", Set: "ours"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		s := spec(name, every(time.Hour))
		s.Def.Set = "ours"
		if name == "c" {
			s.Def.Set = "theirs"
		}
		f.create(s)
	}
	at := start.Add(time.Hour)
	waiting, err := f.m.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/b", At: &at})
	if err != nil || !waiting.Waiting {
		t.Fatal(waiting, err)
	}
	req := manage.PruneRequest{Set: "ours", Jobs: []string{"shop/a"}, DryRun: true}
	dry, err := f.m.Prune(ctx, ann, req)
	if err != nil || len(dry.Jobs) != 1 || dry.Jobs[0].Name != "b" || len(dry.Apps) != 1 || f.job("shop/b").Def.Set != "ours" {
		t.Fatalf("%+v %v", dry, err)
	}
	req.DryRun = false
	if res, err := f.m.Prune(ctx, ann, req); err != nil || len(res.Jobs) != 1 || res.Jobs[0].Err != nil || res.Apps[0].Err != nil {
		t.Fatalf("%+v %v", res, err)
	}
	if _, err := f.m.Job(ctx, "shop/b"); code(err) != core.CodeNotFound {
		t.Errorf("b: %v", err)
	}
	if v, err := f.m.Run(ctx, waiting.Run.ID.String()); err != nil || v.Run.State != core.Skipped || v.Run.Reason != core.ReasonDeleted {
		t.Errorf("its trigger: %+v %v", v, err)
	}
	if _, err := f.m.App(ctx, "old"); code(err) != core.CodeNotFound {
		t.Errorf("app: %v", err)
	}
	f.job("shop/c")
	if err := f.m.DeleteApp(ctx, ann, "shop"); code(err) != core.CodeRefused {
		t.Errorf("app with jobs: %v", err)
	}
	if _, err := f.m.Prune(ctx, ann, manage.PruneRequest{}); code(err) != core.CodeInvalid {
		t.Errorf("no set: %v", err)
	}
	if r, err := f.m.Delete(ctx, ann, "shop/a", nil); err != nil || r.Change != manage.Deleted {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := f.m.Delete(ctx, ann, "shop/a", nil); code(err) != core.CodeNotFound {
		t.Errorf("again: %v", err)
	}
}

func TestSaveApp(t *testing.T) {
	f := newFixture(t)
	token := "secret"
	s := manage.AppSpec{Name: "pay", Token: &token, Executors: []string{"call:https://pay.internal"}, Allow: []string{"10.1.2.3/8", "::1"}}
	if r, err := f.m.SaveApp(ctx, ann, s); err != nil || r.Change != manage.Created {
		t.Fatal(r, err)
	}
	s.Token = nil
	if r, err := f.m.SaveApp(ctx, ann, s); err != nil || r.Change != manage.Unchanged {
		t.Error(r, err)
	}
	s.Title = "Pay"
	if r, err := f.m.SaveApp(ctx, ann, s); err != nil || r.Change != manage.Updated {
		t.Error(r, err)
	}
	a, err := f.m.App(ctx, "pay")
	if err != nil || a.Token != "secret" || a.Allow[0].String() != "10.0.0.0/8" || a.Allow[1].String() != "::1/128" {
		t.Errorf("%+v %v", a, err)
	}
	changes, err := f.m.Changes(ctx, "pay", "", 10)
	if err != nil || len(changes) != 2 || strings.Contains(fmt.Sprint(changes), "secret") {
		t.Errorf("changes: %+v %v", changes, err)
	}
	rev := int64(1)
	for _, bad := range []struct {
		s    manage.AppSpec
		code core.Code
	}{
		{manage.AppSpec{Name: "x y"}, core.CodeInvalid},
		{manage.AppSpec{Name: "p", Executors: []string{"ftp://x"}}, core.CodeInvalid},
		{manage.AppSpec{Name: "p", Executors: []string{"lambda:payroll"}}, core.CodeRefused},
		{manage.AppSpec{Name: "p", Executors: []string{"queue:mail.fifo"}}, core.CodeInvalid},
		{manage.AppSpec{Name: "p", Executors: []string{"http://a", "http://a"}}, core.CodeInvalid},
		{manage.AppSpec{Name: "p", Allow: []string{"10.0.0.0/99"}}, core.CodeInvalid},
		{manage.AppSpec{Name: "pay", IfRev: &rev}, core.CodeConflict},
	} {
		if _, err := f.m.SaveApp(ctx, ann, bad.s); code(err) != bad.code {
			t.Errorf("%+v: %v", bad.s, err)
		}
	}
	views, err := f.m.Executors(ctx, "pay")
	if err != nil || len(views) != 1 || !views[0].Live || !views[0].Used || !views[0].Fixed {
		t.Errorf("executors: %+v %v", views, err)
	}
}

func TestSaveMany(t *testing.T) {
	f := newFixture(t)
	specs := make([]manage.JobSpec, 10_000)
	for i := range specs {
		specs[i] = spec(fmt.Sprintf("job-%d", i), core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 30 2 * * ?"}}, Timezone: "Europe/Berlin"})
	}
	began := time.Now()
	for _, want := range []string{manage.Created, manage.Unchanged} {
		for _, r := range f.save(specs...) {
			if r.Change != want || r.ID == 0 {
				t.Fatalf("%+v", r)
			}
		}
	}
	t.Logf("10,000 jobs made and found unchanged in %s", time.Since(began))
}
