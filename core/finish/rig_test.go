package finish_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/testkit/story"
	"github.com/tickring/tickring/store"
)

// begin is the start time of the tests, a whole second.
var begin = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

// errUnknown leaves open whether a write happened.
var errUnknown = errors.New("cut connection")

// errOurs means that a question could not be sent.
var errOurs = core.Errorf(core.CodeUnavailable, "not asked: too many open files")

// A fault is the result of one call: its error, and whether it still takes effect.
type fault struct {
	err  error
	done bool
	// between runs before the call, as a concurrent change.
	between func()
}

// faults injects faults into calls of a store, by the name of the operation; each is used up by one call.
type faults struct {
	faults map[string][]fault
	calls  map[string]int
	older  func(*core.Run) // makes a run as it was, for reads that may return an older state; nil: no change
	order  []string        // of the calls
	mu     sync.Mutex      // guards the fields above
	// damaged is a stored job that cannot be decoded, and damagedSched one whose schedule cannot be decoded; 0: none.
	damaged, damagedSched core.JobID
	damagedRun            core.RunID
	// writes is how many writes are made until the process dies, with the last of them done or not; 0: it does not die.
	writes     int
	done, dead bool
}

// op returns the name of a call; empty: it has no faults.
func op(c *hook.Call) string {
	switch {
	case c.Get != nil:
		return map[string]string{"permit": "permits", store.KindApp: "apps", "journal": "reread"}[kind(c.Get[0])]
	case c.Write != nil:
		return map[string]string{"permit": "put-permits", "journal": "journal", "skip": "skips", "revisit": "revisits",
			store.CursorKey.Kind: "cursor"}[kind(c.Write[0].Writes[0].Key)]
	case c.Jobs != nil && c.Part != store.Planning:
		return "jobs"
	case c.Put != nil && c.Put[0].Enter != nil:
		return "entries"
	case c.Put != nil:
		return "advance"
	case c.Number != 0:
		return "numbers"
	case c.Runs != nil:
		return "runs"
	case c.Span:
		return "span"
	case c.Out != nil:
		return "enqueue"
	case c.PutRun == nil:
		return ""
	}
	switch change := c.PutRun[0].Change; {
	case change == nil:
		return "create"
	case change.Ends():
		return "close"
	}
	return "change"
}

// kind returns the kind of a record up to the first "#".
func kind(k store.Key) string {
	is, _, _ := strings.Cut(k.Kind, "#")
	return is
}

// do makes a call with the faults.
func (x *faults) do(ctx context.Context, c *hook.Call, next func() []error) []error {
	if dies, dead := x.step(c); dead {
		if dies && x.done {
			next()
		}
		return hook.Fail(errUnknown, max(1, len(c.Write)+len(c.Put)+len(c.PutRun)+len(c.Out)))
	}
	f := x.next(op(c))
	single := f.done && (c.Get != nil || c.Runs != nil || c.Jobs != nil && errors.Is(f.err, core.ErrThrottled)) // each item fails
	if f.err != nil && !f.done {
		return hook.Fail(f.err, max(1, len(c.Write), len(c.Put), len(c.PutRun), len(c.Out)))
	}
	errs := next()
	switch {
	case f.err == nil:
	case single:
		x.unread(c, f.err)
	default:
		return hook.Fail(f.err, len(errs))
	}
	for id := range c.GotJobs {
		if c.Part == store.Planning && id == x.damagedSched || c.Part != store.Planning && id == x.damaged {
			c.GotJobs[id] = store.Got[*core.Job]{Err: errors.New("of a newer version")}
		}
	}
	if _, is := c.GotRuns[x.damagedRun]; is {
		c.GotRuns[x.damagedRun] = store.Got[*core.Run]{Err: errors.New("of a newer version")}
	}
	for i := range c.InSpan {
		if x.older != nil && glance.Of(ctx) != nil {
			x.older(&c.InSpan[i])
		}
	}
	return errs
}

// step counts a write, and reports whether the process dies with it, and whether it is dead.
func (x *faults) step(c *hook.Call) (dies, dead bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.writes > 0 && len(c.Write)+len(c.Put)+len(c.PutRun)+len(c.Out)+int(c.Number) > 0 {
		x.writes--
		dies = x.writes == 0
	}
	x.dead = x.dead || dies
	return dies, x.dead
}

// unread makes each item of a read unreadable.
func (x *faults) unread(c *hook.Call, err error) {
	for key, r := range c.GotRecords {
		r.Err = err
		c.GotRecords[key] = r
	}
	for id := range c.GotJobs {
		c.GotJobs[id] = store.Got[*core.Job]{Err: err}
	}
	for id := range c.GotRuns {
		c.GotRuns[id] = store.Got[*core.Run]{Err: err}
	}
}

func (x *faults) next(op string) fault {
	if op == "" {
		return fault{}
	}
	x.mu.Lock()
	x.calls[op]++
	x.order = append(x.order, op)
	var f fault
	if list := x.faults[op]; len(list) > 0 {
		f, x.faults[op] = list[0], list[1:]
	}
	x.mu.Unlock()
	if f.between != nil {
		f.between()
	}
	return f
}

// rig is a Finish over a store, with a clock that the test moves.
type rig struct {
	*fixture.Store
	*faults
	t    *testing.T
	with *store.Store // the one with faults, over which f is
	f    *finish.Finish
	now  time.Time
	say  func(format string, args ...any) // tells a story what happened
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, now: begin, faults: &faults{faults: map[string][]fault{}, calls: map[string]int{}}, say: func(string, ...any) {}}
	r.Store = fixture.New(t, memory.Options{Now: r.clocked})
	r.with = hook.Over(r.Store.Store, func(ctx context.Context, c *hook.Call, next func() []error) []error {
		errs := r.faults.do(ctx, c, next)
		for i, o := range c.Out {
			if errs[i] == nil {
				r.say("%s", story.Enqueued(o))
			}
		}
		return errs
	})
	r.f = r.finish(plan.Local())
	r.App("orders")
	return r
}

// finish returns a Finish over the store with faults.
func (r *rig) finish(o plan.Options) *finish.Finish {
	return finish.New(r.with, finish.Options{Now: r.clocked, Plan: o, Log: slog.New(slog.DiscardHandler), Closed: func(run *core.Run) {
		r.say("closed %s", story.Name(run.ID))
	}})
}

func (r *rig) clocked() time.Time { return r.now }

// job stores a started job after change has edited it.
func (r *rig) job(id core.JobID, change func(*core.Job)) core.Job {
	r.t.Helper()
	j := core.Job{Def: core.Def{ID: id, App: "orders", Name: "job-" + id.String(), Handler: "h"}}
	j.Sched.Rev, j.Sched.RevAt = 1, begin.Add(-time.Hour)
	j.Def.Retry = core.Retry{Max: 2, Delay: 5 * time.Second}
	if change != nil {
		change(&j)
	}
	return r.Job(j)
}

// run stores a run that was sent a second ago.
func (r *rig) run(id core.RunID, change func(*core.Run)) core.Run {
	r.t.Helper()
	at := core.InstantOf(begin) - 1
	run := core.Run{ID: id, App: "orders", State: core.Running, Cause: core.CauseSchedule, Rev: 1, At: at, Slot: at, Seq: 4,
		Owner: "nonce", Until: begin.Add(30 * time.Second), Address: "http://10.0.0.1:9999/", SentAt: begin.Add(-time.Second), Attempt: 1,
		First: id, Retries: 2}
	if change != nil {
		change(&run)
	}
	r.Create(run)
	return run
}

func (r *rig) sched(id core.JobID) core.Sched { return r.JobOf(id).Sched }

func (r *rig) end(res finish.Result) error {
	r.t.Helper()
	return r.f.End(r.t.Context(), []finish.Result{res})[0]
}

// messages receives the ring's messages of a kind that are due within an hour.
func (r *rig) messages(kind ring.Kind) (out []ring.Message) {
	r.t.Helper()
	before := r.now
	r.now = r.now.Add(time.Hour)
	defer func() { r.now = before }()
	if due, waiting := r.Depth(kind); due+waiting == 0 {
		return nil
	}
	got := r.Receive(kind, 100)
	r.Ack(got...)
	for _, d := range got {
		out = append(out, d.Message)
	}
	return out
}
