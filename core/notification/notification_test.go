package notification_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// rig is a job, its channels, and the messages that they receive.
type rig struct {
	t      *testing.T
	e      *fixture.Store
	s      *store.Store // the engine's store, with these faults
	n      *notification.Notices
	mu     sync.Mutex
	got    map[string][]core.Message
	fail   func(channel string) error // can be called concurrently
	runs   uint32
	every  time.Duration // between two passes
	refuse error         // the answer to changes of runs
	// unread returns why a record or a job cannot be read.
	unread func(kind, name string) error
	// meanwhile happens once, after runs were read.
	meanwhile func()
	bad       core.RunID // which cannot be read
	sent      func(channel string, m core.Message)
}

// newRig returns a rig whose job notifies channel a, unless n names others.
func newRig(t *testing.T, n core.Notify) *rig {
	r := newStore(t)
	n = n.Over(core.Notify{To: []string{"a"}})
	r.e.Job(core.Job{Def: core.Def{ID: 7, App: "shop", Name: "nightly", Handler: "h", Notify: n},
		Sched: core.Sched{State: core.Started, Rev: 1, RevAt: time.Now()}})
	return r
}

// newStore returns a rig without a job.
func newStore(t *testing.T) *rig {
	r := &rig{t: t, e: fixture.New(t, memory.Options{}), got: map[string][]core.Message{}, fail: func(string) error { return nil },
		every: time.Minute, sent: func(string, core.Message) {}, unread: func(string, string) error { return nil }}
	r.s = r.faulty()
	r.n = notification.New(r.s, r, notification.Options{Deployment: "test", Link: "https://x/runs/{run}?tab=log",
		Pace: time.Nanosecond,
		Log:  slog.New(slog.DiscardHandler)})
	r.e.App("shop")
	return r
}

func (r *rig) faulty() *store.Store {
	for _, name := range []string{"a", "b"} {
		r.e.Must(r.e.PutChannel(r.t.Context(), 0, core.Channel{Name: name, Rev: 1}, core.Change{ID: 1}))
	}
	return hook.Over(r.e.Store, func(_ context.Context, c *hook.Call, next func() []error) []error {
		switch {
		case c.Get != nil && r.unread(c.Get[0].Kind, c.Get[0].Name) != nil:
			return []error{r.unread(c.Get[0].Kind, c.Get[0].Name)}
		case c.Jobs != nil && r.unread("job", c.Jobs[0].String()) != nil:
			c.GotJobs = hook.JobMap{c.Jobs[0]: {Err: r.unread("job", c.Jobs[0].String())}}
			return []error{nil}
		case r.refuse != nil && c.PutRun != nil:
			return hook.Fail(r.refuse, len(c.PutRun))
		}
		errs := next()
		if _, is := c.GotRuns[r.bad]; is {
			c.GotRuns[r.bad] = store.Got[*core.Run]{Err: errors.New("written by a newer version")}
		}
		if f := r.meanwhile; f != nil && len(c.InSpan) > 0 {
			r.meanwhile = nil
			f()
		}
		return errs
	})
}

// run returns the run of a message.
func (r *rig) run(m ring.Message) core.Run { return r.e.Run(m.PostRun.Run) }

// Send implements notification.Sender.
func (r *rig) Send(ctx context.Context, ch core.Channel, m core.Message) error {
	if err := r.fail(ch.Name); err != nil {
		if errors.Is(err, context.DeadlineExceeded) { // it hangs
			<-ctx.Done()
			return &core.Undelivered{Reason: "no answer", Err: ctx.Err()}
		}
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[ch.Name] = append(r.got[ch.Name], m)
	r.sent(ch.Name, m)
	return nil
}

// ends creates a run that has just ended and returns its message of the post-run queue.
func (r *rig) ends(state core.State, reasons ...core.Reason) ring.Message {
	r.t.Helper()
	r.runs++
	id := core.NumberedRun(7, r.runs)
	var reason core.Reason
	if len(reasons) > 0 {
		reason = reasons[0]
	}
	run := core.Run{ID: id, App: "shop", State: state, Reason: reason, Cause: core.CauseManual, Attempt: 1, First: id, Notice: true,
		At: core.InstantOf(time.Now()), Slot: core.InstantOf(time.Now()), EndedAt: time.Now(), Code: 500, Message: "boom"}
	run.PostRun.Notice = core.EndEvent(&run) != ""
	r.e.Create(run)
	return ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(time.Now()),
		PostRun: &ring.PostRun{Run: id}}
}

// messages handles messages of the post-run queue as its worker does, and returns an error for each.
func (r *rig) messages(n *notification.Notices, list ...ring.Message) []error {
	return postrun.New(r.s, nil, postrun.Options{Notices: n}).Handle(r.t.Context(), list)
}

// handle handles messages, all of which must be acked.
func (r *rig) handle(list ...ring.Message) {
	r.t.Helper()
	r.e.Must(r.messages(r.n, list...)...)
}

// minutes runs n minutes with a pass and its checks each minute.
func (r *rig) minutes(n int) {
	r.t.Helper()
	for until := time.Now().Add(time.Duration(n) * time.Minute); time.Now().Before(until); {
		time.Sleep(r.every)
		check.Call(r.t)(r.n.Pass(r.t.Context()))
		for got := r.e.Due(ring.KindPostRun); got != nil; got = r.e.Due(ring.KindPostRun) {
			r.handle(got[0].Message)
			r.e.Ack(got...)
		}
	}
}

// heard compares the messages of a channel with want.
func (r *rig) heard(channel string, want ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, m := range r.got[channel] {
		got = append(got, fmt.Sprintf("%s %d", m.Event, max(m.Count, 1)))
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("channel %s heard %q, want %q", channel, got, want)
	}
}

func (r *rig) state() notification.State {
	found, err := notification.States(r.t.Context(), r.e.Store, notification.JobName(7))
	r.e.Must(err)
	return found[notification.JobName(7)]
}

func (r *rig) trouble(channel string) *notification.Trouble {
	name := notification.ChannelName(channel)
	found, err := notification.States(r.t.Context(), r.e.Store, name)
	r.e.Must(err)
	return found[name].Trouble
}

// TestCheckLink checks which links are accepted.
func TestCheckLink(t *testing.T) {
	for _, good := range []string{"", "https://x/runs/{run}", "http://x:8080/?run={run}", "https://x/#/{run}/log"} {
		if err := notification.CheckLink(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"https://x/runs/", "x/{run}", "javascript:alert({run})", "ftp://x/{run}", "https:///{run}",
		"https://me:pass@x/{run}",
		"https://x/{run}/" + strings.Repeat("x", 1000), "https://x/{run}\n"} {
		if notification.CheckLink(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestHung checks that a hanging channel delays no other and uses only its places; the rest is retried later.
func TestHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, core.Notify{})
		for id := core.JobID(100); id < 300; id++ {
			j := core.Job{Def: core.Def{ID: id, App: "shop", Name: "job-" + id.String(), Handler: "h"},
				Sched: core.Sched{State: core.Started, Rev: 1, RevAt: time.Now()}}
			if j.Def.Notify.To = []string{"a"}; id >= 200 {
				j.Def.Notify.To = []string{"b"}
			}
			r.e.Job(j)
		}
		r.fail = func(channel string) error {
			if channel == "a" {
				return context.DeadlineExceeded
			}
			return nil
		}
		var all sync.WaitGroup
		note := func(id core.JobID) ring.Message {
			return ring.Noted([]ring.Note{{Job: id, Event: core.EventDeadLetter, Run: core.NumberedRun(id, 1), When: time.Now()}},
				time.Now())[0].Message
		}
		began := time.Now()
		for id := core.JobID(100); id < 200; id++ {
			all.Go(func() { r.e.Must(r.messages(r.n, note(id))...) })
		}
		synctest.Wait()
		for id := core.JobID(200); id < 300; id++ {
			all.Go(func() { r.e.Must(r.messages(r.n, note(id))...) })
		}
		time.Sleep(time.Second)
		synctest.Wait()
		check.Equal(t, len(r.got["b"]), 100, "arrived within a second beside one that hangs")
		all.Wait()
		if took := time.Since(began); took > time.Minute {
			t.Fatalf("the messages of one that hangs were held for %s", took)
		}
	})
}

// TestThousands checks that a hundred thousand failures in a minute cause a few writes and one message with
// their count.
func TestThousands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, core.Notify{Quiet: 5 * time.Minute})
		r.n = notification.New(r.s, r, notification.Options{})
		for range 200 {
			var list []ring.Note
			for range 500 {
				r.runs++
				list = append(list, ring.Note{Job: 7, Event: core.EventFailed, Run: core.NumberedRun(7, r.runs), When: time.Now()})
			}
			r.handle(ring.Noted(list, time.Now())[0].Message)
		}
		if s := r.state(); s.V > 4*60 || s.V < 100 {
			t.Fatalf("%d writes", s.V)
		}
		r.minutes(7)
		r.heard("a", "failed 500", "failed 99500")
	})
}

// TestSlow checks that each slow run is notified once, with any number of waiting runs and of checks, also beside more slow
// runs than the item remembers. A later slow run is notified separately.
func TestSlow(t *testing.T) {
	check.Long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, core.Notify{Slow: 45 * time.Minute, Quiet: time.Minute})
		runs := func(from, n uint32, state core.State) {
			var list []core.Run
			for i := range n {
				run := fixture.Trigger("shop", core.NumberedRun(7, from+i), core.InstantOf(time.Now()))
				if run.State = state; state == core.Running {
					run.Owner, run.Address, run.SentAt = "n", "http://x", time.Now()
				}
				list = append(list, run)
			}
			r.e.Create(list...)
		}
		look := func() {
			r.putLook(0)
			r.minutes(1)
		}
		runs(1000, 40, core.Running)
		runs(2000, 12_000, core.Queued)
		r.putLook(45 * time.Minute)
		r.minutes(44)
		r.heard("a")
		r.minutes(2)
		for range 6 {
			look()
		}
		r.heard("a", "slow 40")
		runs(20_000, 1, core.Running)
		r.minutes(40)
		look()
		r.heard("a", "slow 40")
		r.minutes(6)
		look()
		r.heard("a", "slow 40", "slow 1")
	})
}

// TestPace checks that many calls for one job within a short time cause few writes of its item.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, core.Notify{})
		r.n = notification.New(r.s, r, notification.Options{Pace: 250 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
		r.handle(r.ends(core.Failed, core.ReasonHandler))
		before := r.state().V
		var calls sync.WaitGroup
		const n, span = 200, 2 * time.Second
		for range n {
			m := r.ends(core.Failed, core.ReasonHandler)
			calls.Go(func() { r.handle(m) })
			time.Sleep(span / n)
		}
		calls.Wait()
		// Four a second, and one for the remaining work at the end.
		if s := r.state(); s.V-before > 4*2+1 || s.Told[0].Count != n {
			t.Fatalf("%d writes, counted %d of %d", s.V-before, s.Told[0].Count, n)
		}
	})
}
