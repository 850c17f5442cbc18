// Package usecasetest supports tests of user operations. The package runs these operations on SQLite in memory with
// a settable clock, and has a store in which the nth write fails.
package usecasetest

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
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
)

var (
	Ctx   = context.Background()
	Ann   = core.Actor{Name: "ann"}
	Start = time.Date(2026, 11, 20, 12, 0, 0, 250e6, time.UTC)
)

// Fixture has the user operations on SQLite in memory, with a settable clock and faults.
type Fixture struct {
	T      testing.TB
	Clock  time.Time
	E      *engine.Engine
	Faults *Faults
	Killer *Killer
	// Commands reports whether jobs can run commands on this machine.
	Commands bool
	// Notifier records the notifications that are sent to channels.
	Notifier *Notifier
	M        *people.People
}

// New returns a Fixture with an app named "shop".
func New(t testing.TB) *Fixture {
	f := &Fixture{T: t, Clock: Start, Killer: &Killer{}, Notifier: &Notifier{}}
	now := func() time.Time { return f.Clock }
	f.E = memory.Open(t, memory.Options{Now: now})
	f.M = f.Fresh(&Faults{Store: f.E.Manage, Ring: f.E.Ring})
	app := f.Must(f.M.SaveApp(Ctx, Ann, manage.AppSpec{Name: "shop", Allow: []string{"10.0.0.0/8"}}))
	if app.Change != manage.Created {
		t.Fatalf("app: %+v", app)
	}
	return f
}

// Changes returns the newest change records of a job or of an app. If both arguments are empty, Changes returns the
// records of all objects.
func (f *Fixture) Changes(app, job string, limit int) ([]core.Change, error) {
	page, err := f.M.Changes(Ctx, query.ChangeFilter{App: app, Job: job, Limit: limit})
	return page.Changes, err
}

// Fresh returns a Fixture for a second process that uses the store of f.
func (f *Fixture) Fresh(with *Faults) *people.People {
	now := func() time.Time { return f.Clock }
	f.Faults = with
	end := finish.New(f.E.Store, finish.Options{Now: now, Plan: plan.Local()})
	return people.New(with, with, end, f.Killer, people.Options{Plan: plan.Local(), Reports: report.New(f.E.Report, report.Options{Now: now}),
		Manage: manage.Options{Backoff: time.Millisecond, Notifier: f.Notifier, Command: func(*core.Command) error {
			if !f.Commands {
				return core.Invalid("command", "", "none is run here")
			}
			return nil
		}},
		Ask: query.Options{Now: now, Reachable: func(address string) error {
			switch {
			case strings.HasPrefix(address, "lambda:"):
				return errors.New("no AWS credentials here")
			case strings.Contains(address, "169.254."):
				return errors.New("link-local")
			}
			return nil
		}}})
}

// Notifier is a fake sender that records the channels of all sent notifications.
type Notifier struct {
	Sent []core.Channel
	Err  error // error that each send returns
}

// Takes reports whether the Notifier supports a channel. The Notifier supports all channels except SNS topics.
func (n *Notifier) Takes(_ context.Context, ch core.Channel) error {
	if ch.Kind == core.ChannelSNS {
		return errors.New("no AWS credentials here")
	}
	return nil
}

func (n *Notifier) Test(_ context.Context, ch core.Channel) error {
	n.Sent = append(n.Sent, ch)
	return n.Err
}

// Resumed sets the clock to the time at which a resume of an app or of everything takes effect.
func (f *Fixture) Resumed() { f.Clock = f.Clock.Add(5 * time.Second) }

func (f *Fixture) Must(r manage.AppResult, err error) manage.AppResult {
	f.T.Helper()
	check.OK(f.T, err)
	return r
}

func (f *Fixture) Save(specs ...manage.JobSpec) []manage.SaveResult {
	f.T.Helper()
	return f.M.Save(Ctx, Ann, specs)
}

func (f *Fixture) Create(s manage.JobSpec) core.Job {
	f.T.Helper()
	if r := f.Save(s)[0]; r.Err != nil || r.Change != manage.Created {
		f.T.Fatalf("create: %+v", r)
	}
	return f.Job(s.Def.App + "/" + s.Def.Name)
}

func (f *Fixture) Job(ref string) core.Job {
	f.T.Helper()
	j, err := f.M.Job(Ctx, ref)
	check.OK(f.T, err)
	return j
}

// Fires removes all messages from the delay queue, due or not, and returns their scheduled runs.
func (f *Fixture) Fires() []core.Fire {
	f.T.Helper()
	was := f.Clock
	f.Clock = f.Clock.Add(24 * time.Hour)
	defer func() { f.Clock = was }()
	var fires []core.Fire
	for {
		due, _, _, err := f.E.Queue.Depth(Ctx, ring.KindFires)
		check.OK(f.T, err)
		if due == 0 {
			return fires
		}
		got, err := f.E.Queue.Receive(Ctx, ring.KindFires, 100)
		check.OK(f.T, err)
		for _, d := range got {
			fires = append(fires, d.Message.Fires...)
		}
		f.E.Queue.Ack(Ctx, got)
	}
}

func (f *Fixture) Skips(job core.JobID) []core.Skip {
	f.T.Helper()
	skips, err := f.E.Manage.Skips(Ctx, job, 0, core.Horizon)
	check.OK(f.T, err)
	return skips
}

func Every(d time.Duration) core.Schedule {
	return core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: d, Aligned: true}}}
}

func Spec(name string, s core.Schedule) manage.JobSpec {
	return manage.JobSpec{Def: core.Def{App: "shop", Name: name, Handler: "sweep"}, Schedule: s}
}

func Code(err error) core.Code {
	if err == nil {
		return ""
	}
	return core.CodeOf(err)
}

// Killer records the addresses of its kill requests. A kill request to an address that contains the text of the field
// `deaf` fails.
type Killer struct {
	mu   sync.Mutex
	Sent []string
}

func (k *Killer) Kill(_ context.Context, app *core.App, address string, job core.JobID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Sent = append(k.Sent, fmt.Sprintf("%s %s %d", app.Name, address, job))
	if strings.Contains(address, "deaf") {
		return errors.New("no answer")
	}
	return nil
}

func (f *Fixture) Ran(job core.JobID, at core.Instant, late time.Duration) core.Run {
	f.T.Helper()
	id := core.PlannedRun(job, at)
	r := core.Run{ID: id, App: "shop", State: core.Succeeded, Cause: core.CauseSchedule, At: at, Slot: at, Attempt: 1, First: id,
		SentAt: at.Time().Add(late), EndedAt: at.Time().Add(late + time.Second)}
	check.OK(f.T, f.E.Finish.Create(Ctx, []core.Run{r})[0])
	return r
}

// Quiet makes the delay queue report that it has no old message. Missing runs then count as missing.
func (f *Fixture) Quiet() { f.Faults.Quiet = true }

// PushNext sets the scheduled time up to which a job is planned.
func (f *Fixture) PushNext(id core.JobID, next core.Instant) {
	f.T.Helper()
	found, _, err := f.E.Finish.Scheds(Ctx, []core.JobID{id})
	check.OK(f.T, err)
	s := found[id]
	a := s.Stay()
	a.NewNext = next
	check.OK(f.T, f.E.Manage.Advance(Ctx, []core.Advance{a})[0])
}

// Damaged is a store in which one job cannot be read.
type Damaged struct {
	people.Store
	Job core.JobID
}

func (d *Damaged) ListJobs(ctx context.Context, app string, after core.JobID, limit int) ([]core.Job, core.JobID, error) {
	list, next, err := d.Store.ListJobs(ctx, app, after, limit)
	var bad core.Unreadable
	if i := slices.IndexFunc(list, func(j core.Job) bool { return j.Def.ID == d.Job }); i >= 0 && err == nil {
		list = slices.Delete(list, i, i+1)
		bad.Add(d.Job, errors.New("no JSON"))
		err = bad.Err()
	}
	return list, next, err
}

func (d *Damaged) Jobs(ctx context.Context, ids []core.JobID) (map[core.JobID]*core.Job, []core.JobID, error) {
	found, left, err := d.Store.Jobs(ctx, ids)
	var bad core.Unreadable
	if _, is := found[d.Job]; is && err == nil {
		delete(found, d.Job)
		bad.Add(d.Job, errors.New("no JSON"))
		err = bad.Err()
	}
	return found, left, err
}

// Faults is a store and a delay queue in which one write fails.
type Faults struct {
	people.Store
	Ring  operate.Ring
	N, At int // N counts the writes. The write with the number At, counted from 1, fails; 0 means that no write fails
	After bool
	Dead  bool // whether all later calls fail, because the process was killed
	Kill  bool
	Err   error
	Last  string // name of the write that failed
	Quiet bool   // whether the delay queue reports that it has no old message
	Early bool   // whether items have the form of an older version, which stored only the last pause
}

// counting guards N, Dead and Last of all Faults, which are copied: writes go side by side.
var counting sync.Mutex

var ErrLost = errors.New("connection cut")

// next counts a write, and reports whether it is the failing one.
func (f *Faults) next(name string) (wrong, dead bool) {
	counting.Lock()
	defer counting.Unlock()
	if f.Dead {
		return false, true
	}
	f.N++
	if f.N != f.At {
		return false, false
	}
	f.Last, f.Dead = name, f.Kill
	return true, false
}

// do runs a write, or lets it go wrong.
func (f *Faults) do(name string, write func() error) error {
	wrong, dead := f.next(name)
	switch {
	case dead:
		return ErrLost
	case !wrong:
		return write()
	}
	if f.After {
		_ = write()
	}
	if f.Err != nil {
		return f.Err
	}
	return ErrLost
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

func (f *Faults) CreateJobs(ctx context.Context, j []core.Job, c []core.Change) (errs []error) {
	return all(errs, len(j), f.do("CreateJobs", func() error { errs = f.Store.CreateJobs(ctx, j, c); return nil }))
}
func (f *Faults) UpdateJobs(ctx context.Context, u []manage.Update) (errs []error) {
	err := f.do("UpdateJobs", func() error { errs = f.Store.UpdateJobs(ctx, u); return nil })
	return all(errs, len(u), err)
}
func (f *Faults) DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error {
	return f.do("DeleteJob", func() error { return f.Store.DeleteJob(ctx, seen, t, c) })
}
func (f *Faults) PutScripts(ctx context.Context, s core.Scripts) error {
	return f.do("PutScripts", func() error { return f.Store.PutScripts(ctx, s) })
}
func (f *Faults) PutSource(ctx context.Context, job core.JobID, source string, at time.Time) error {
	return f.do("PutSource", func() error { return f.Store.PutSource(ctx, job, source, at) })
}
func (f *Faults) DropSource(ctx context.Context, job core.JobID, hash string, before time.Time) error {
	return f.do("DropSource", func() error { return f.Store.DropSource(ctx, job, hash, before) })
}
func (f *Faults) PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error {
	return f.do("PutApp", func() error { return f.Store.PutApp(ctx, seen, a, c) })
}
func (f *Faults) DeleteApp(ctx context.Context, seen int64, name string, c core.Change) error {
	return f.do("DeleteApp", func() error { return f.Store.DeleteApp(ctx, seen, name, c) })
}
func (f *Faults) PutChannel(ctx context.Context, seen int64, ch core.Channel, c core.Change) error {
	return f.do("PutChannel", func() error { return f.Store.PutChannel(ctx, seen, ch, c) })
}
func (f *Faults) DeleteChannel(ctx context.Context, seen int64, name string, c core.Change) error {
	return f.do("DeleteChannel", func() error { return f.Store.DeleteChannel(ctx, seen, name, c) })
}
func (f *Faults) PutGlobal(ctx context.Context, seen int64, g core.Global) error {
	return f.do("PutGlobal", func() error { return f.Store.PutGlobal(ctx, seen, g) })
}
func (f *Faults) PutChanges(ctx context.Context, c []core.Change) error {
	return f.do("PutChanges", func() error { return f.Store.PutChanges(ctx, c) })
}
func (f *Faults) PutSkips(ctx context.Context, s []core.Skip) (errs []error) {
	err := f.do("PutSkips", func() error { errs = f.Store.PutSkips(ctx, s); return nil })
	return all(errs, len(s), err)
}
func (f *Faults) Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error) {
	err = f.do("Numbers", func() (err error) { first, err = f.Store.Numbers(ctx, job, n); return err })
	return first, err
}
func (f *Faults) NewJobIDs(ctx context.Context, n int) (first core.JobID, err error) {
	err = f.do("NewJobIDs", func() (err error) { first, err = f.Store.NewJobIDs(ctx, n); return err })
	return first, err
}
func (f *Faults) PutTriggered(ctx context.Context, r core.Run, d core.DueItem) error {
	return f.do("PutTriggered", func() error { return f.Store.PutTriggered(ctx, r, d) })
}
func (f *Faults) ChangeTriggered(ctx context.Context, c operate.Triggered) error {
	return f.do("ChangeTriggered", func() error { return f.Store.ChangeTriggered(ctx, c) })
}
func (f *Faults) PutKey(ctx context.Context, job core.JobID, key string, r core.RunID) (bound core.RunID, err error) {
	err = f.do("PutKey", func() (err error) { bound, err = f.Store.PutKey(ctx, job, key, r); return err })
	return bound, err
}
func (f *Faults) RemoveEntries(ctx context.Context, d []core.DueItem) (errs []error) {
	err := f.do("RemoveEntries", func() error { errs = f.Store.RemoveEntries(ctx, d); return nil })
	return all(errs, len(d), err)
}
func (f *Faults) PutRuns(ctx context.Context, puts []core.RunPut) (errs []error) {
	err := f.do("PutRuns", func() error { errs = f.Store.PutRuns(ctx, puts); return nil })
	return all(errs, len(puts), err)
}
func (f *Faults) Advance(ctx context.Context, a []core.Advance) (errs []error) {
	err := f.do("Advance", func() error { errs = f.Store.Advance(ctx, a); return nil })
	return all(errs, len(a), err)
}
func (f *Faults) Enqueue(ctx context.Context, out []ring.Out) (errs []error) {
	err := f.do("Enqueue", func() error { errs = f.Ring.Enqueue(ctx, out); return nil })
	return all(errs, len(out), err)
}
func (f *Faults) Apps(ctx context.Context, names []string) (map[string]core.App, []string, error) {
	found, left, err := f.Store.Apps(ctx, names)
	for name, a := range found {
		if f.Early {
			a.Past = core.PauseHistory{}
			found[name] = a
		}
	}
	return found, left, err
}
func (f *Faults) Global(ctx context.Context) (core.Global, error) {
	g, err := f.Store.Global(ctx)
	if f.Early {
		g.Past = core.PauseHistory{}
	}
	return g, err
}
func (f *Faults) OldestMessage(ctx context.Context) (ring.Oldest, error) {
	if f.Quiet {
		return ring.Oldest{}, nil
	}
	return f.Store.OldestMessage(ctx)
}

func (f *Faults) PutCleaned(ctx context.Context, job core.JobID, upTo core.Instant) error {
	return f.do("PutCleaned", func() error { return f.Store.PutCleaned(ctx, job, upTo) })
}

func (f *Faults) DropRuns(ctx context.Context, runs []core.Run) []error {
	errs := make([]error, len(runs))
	for i := range runs {
		errs[i] = f.do("DropRuns", func() error { return f.Store.DropRuns(ctx, runs[i:i+1])[0] })
	}
	return errs
}
