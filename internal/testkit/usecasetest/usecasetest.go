// Package usecasetest supports tests of user operations. The package runs these operations on SQLite in memory with
// a settable clock, and has a store in which the nth write fails.
package usecasetest

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
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
	E      *store.Store
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
	f.E = memory.Open(t, memory.Options{Now: f.Now})
	f.M = f.Fresh(&Faults{})
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

// Audit returns the audit of one job. It lists scheduled times only if runs are missing or overdue.
func (f *Fixture) Audit(ref string, from, to core.Instant) (query.AuditReport, error) {
	sum, err := f.M.AuditPage(Ctx, query.AuditAsk{Job: ref, From: from, To: to})
	r := query.AuditReport{AuditCount: sum.AuditCount, Behind: sum.Behind, Partial: sum.Partial}
	if len(sum.Missing) > 0 {
		r.Missing, r.Waiting = sum.Missing[0].Missing, sum.Missing[0].Waiting
	}
	return r, err
}

// Now returns the time of the clock.
func (f *Fixture) Now() time.Time { return f.Clock }

// Fresh returns a Fixture for a second process that uses the store of f.
func (f *Fixture) Fresh(with *Faults) *people.People {
	f.Faults = with
	end := finish.New(f.E, finish.Options{Now: f.Now, Plan: plan.Local()})
	s := with.on(cmp.Or(with.Store, f.E))
	return people.New(s, end, f.Killer, people.Options{Plan: plan.Local(), Reports: report.New(f.E, report.Options{Now: f.Now}),
		Manage: manage.Options{Backoff: time.Millisecond, Notifier: f.Notifier, Command: func(*core.Command) error {
			if !f.Commands {
				return core.Invalid("command", "", "none is run here")
			}
			return nil
		}},
		Ask: query.Options{Now: f.Now, PageFor: time.Hour, Reachable: func(address string) error {
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
	skips, err := f.E.Skips(Ctx, job, 0, core.Horizon)
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

// Fails returns a function that checks the code of the error of a call, which is the last result; "" is no error. The last
// parameters are a format for fmt.Sprintf and its arguments: a name for the call.
//
//	usecasetest.Fails(t, core.CodeNotFound, "no job")(f.M.Delete(ctx, ann, "shop/none", nil))
func Fails(t check.T, want core.Code, what ...any) func(results ...any) {
	return func(results ...any) {
		t.Helper()
		err, _ := results[len(results)-1].(error)
		format := []any{"%v"}
		if len(what) > 0 {
			format = []any{what[0].(string) + ": %v"}
		}
		check.Equal(t, Code(err), want, slices.Concat(format, what[min(1, len(what)):], []any{err})...)
	}
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
	r := Run(core.PlannedRun(job, at), core.Succeeded, at)
	r.SentAt, r.EndedAt = at.Time().Add(late), at.Time().Add(late+time.Second)
	f.Put(r)
	return r
}

// Quiet makes the delay queue report that it has no old message. Missing runs then count as missing.
func (f *Fixture) Quiet() { f.Faults.Quiet = true }

// Run returns a run of app shop as its first attempt. A run with a number is one of the API.
func Run(id core.RunID, state core.State, slot core.Instant) core.Run {
	cause := core.CauseSchedule
	if _, planned := id.Planned(); !planned {
		cause = core.CauseAPI
	}
	return core.Run{ID: id, First: id, App: "shop", State: state, Cause: cause, At: slot, Slot: slot, Attempt: 1}
}

// Put stores runs.
func (f *Fixture) Put(runs ...core.Run) {
	f.T.Helper()
	check.OK(f.T, errors.Join(f.E.CreateRuns(Ctx, runs)...))
}

// Pause pauses a job, an app or everything, without an end or until a time.
func (f *Fixture) Pause(target manage.Target, until ...time.Time) {
	f.T.Helper()
	var r manage.PauseRequest
	if len(until) > 0 {
		r.Until = &until[0]
	}
	check.Call(f.T)(f.M.Pause(Ctx, Ann, target, r))
}

// Resume ends a pause.
func (f *Fixture) Resume(target manage.Target) {
	f.T.Helper()
	check.Call(f.T)(f.M.Resume(Ctx, Ann, target, ""))
}

// Delete deletes a job.
func (f *Fixture) Delete(ref string) {
	f.T.Helper()
	check.Call(f.T)(f.M.Delete(Ctx, Ann, ref, nil))
}

// Runs returns the stored runs with the given IDs.
func (f *Fixture) Runs(ids ...core.RunID) map[core.RunID]*core.Run {
	f.T.Helper()
	found, err := store.Complete(f.E.Runs.Get(Ctx, ids))
	check.OK(f.T, err)
	return found
}

// PushNext sets the scheduled time up to which a job is planned. tail is the first run of its open chain.
func (f *Fixture) PushNext(id core.JobID, next core.Instant, tail ...core.RunID) {
	f.T.Helper()
	found, err := store.Complete(f.E.Jobs.Get(Ctx, store.Planning, []core.JobID{id}))
	check.OK(f.T, err)
	a := found[id].Sched.Stay()
	if a.NewNext = next; len(tail) > 0 {
		a.NewTail = tail[0]
	}
	check.OK(f.T, f.E.Advance(Ctx, []core.Advance{a})[0])
}

// Faults is a store in which one write fails.
type Faults struct {
	Store *store.Store // nil: the store of the Fixture
	// Before is called before each write with its name, such as "put app", "update job", "drop run" or "enqueue". If it returns
	// an error, the write fails.
	Before func(write string) error
	Bad    []core.JobID // jobs that cannot be read
	N, At  int          // N counts the writes. The write with the number At, counted from 1, fails; 0 means that no write fails
	After  bool         // whether the failing write is made
	Dead   bool         // whether all later calls fail, because the process was killed
	Kill   bool
	Err    error
	Last   string // name of the write that failed
	Quiet  bool   // whether the delay queue reports that it has no old message
	Early  bool   // whether items have the form of an older version, which stored only the last pause
}

// on returns a store with the faults.
func (f *Faults) on(s *store.Store) *store.Store {
	return hook.Over(hook.UnreadableJobs(s, func(id core.JobID) bool { return slices.Contains(f.Bad, id) }), f.over)
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

// do makes n writes, or lets them fail.
func (f *Faults) do(name string, n int, write func() []error) (errs []error) {
	var err error
	if f.Before != nil {
		err = f.Before(name)
	}
	wrong, dead := f.next(name)
	switch {
	case dead:
		err = ErrLost
	case wrong && f.After:
		write()
		fallthrough
	case wrong:
		err = cmp.Or(f.Err, ErrLost)
	case err == nil:
		return write()
	}
	return slices.Repeat([]error{err}, n)
}

// over makes a call with the faults.
func (f *Faults) over(_ context.Context, c *hook.Call, next func() []error) (errs []error) {
	switch {
	case c.Write != nil:
		return f.do(nameOf(c.Write[0].Writes), len(c.Write), next)
	case c.Put != nil:
		name := "move job"
		switch p := c.Put[0]; {
		case p.Create != nil:
			name = "create job"
		case p.Update != nil:
			name = "update job"
		case p.Delete != nil:
			name = "delete job"
		}
		return f.do(name, len(c.Put), next)
	case c.Number != 0:
		return f.do("numbers", 1, next)
	case c.PutRun != nil && c.PutRun[0].Drop == nil:
		return f.do("put run", len(c.PutRun), next)
	case c.PutRun != nil:
		for puts := c.PutRun; len(puts) > 0; puts = puts[1:] {
			c.PutRun = puts[:1]
			errs = append(errs, f.do("drop run", 1, next)...)
		}
		return errs
	case c.Out != nil:
		return f.do("enqueue", len(c.Out), next)
	case c.Oldest && f.Quiet:
		return []error{nil}
	}
	errs = next()
	for key, rec := range c.GotRecords {
		var fields map[string]json.RawMessage
		if f.Early && (key.Kind == store.KindApp || key.Kind == "global") && json.Unmarshal(rec.Body, &fields) == nil {
			delete(fields, "past")
			rec.Body, _ = json.Marshal(fields) // of valid JSON
			c.GotRecords[key] = rec
		}
	}
	return errs
}

// nameOf returns the name of a write of records.
func nameOf(list []store.Write) string {
	if len(list) == 0 {
		return "put changes"
	}
	kind, _, _ := strings.Cut(list[0].Kind, "#")
	name := "put " + kind
	if kind == "script" && list[0].Name != "versions" {
		name = "put source"
	}
	if list[0].Delete {
		name = "drop" + strings.TrimPrefix(name, "put")
	}
	return name
}
