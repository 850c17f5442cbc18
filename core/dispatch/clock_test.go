package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// clocked is a process that can make calls. Tests set its clock during calls, as if the machine slept or the clock was
// corrected.
type clocked struct {
	*gated
	w   *finish.Watchdog
	off atomic.Int64
}

// times returns how often a run was sent.
func (c *clocked) times(id core.RunID) (n int) {
	c.sender.mu.Lock()
	defer c.sender.mu.Unlock()
	for _, s := range c.sender.sent {
		if s.run == id {
			n++
		}
	}
	return n
}

func (c *clocked) now() time.Time { return time.Now().Add(time.Duration(c.off.Load())) }

func (c *clocked) set(d time.Duration) { c.off.Add(int64(d)) }

func newClocked(t *testing.T) *clocked {
	c := &clocked{gated: &gated{t: t, sender: newSlow()}}
	c.s = newData(t, plan.Local(), memory.Options{Now: c.now})
	c.d = c.s.dispatcher(c.sender, dispatch.Options{MaxAhead: plan.Local().MaxAhead})
	c.w = finish.NewWatchdog(c.s.f, nil, finish.WatchOptions{})
	c.s.App("calls", "call:https://h")
	return c
}

// job stores a job that is due now and returns its run; the caller enqueues the fire.
func (c *clocked) job(id core.JobID, change func(*core.Job)) (core.RunID, core.Fire) {
	c.t.Helper()
	f := planned(id, core.InstantOf(c.now()))
	j := core.Job{Def: core.Def{ID: id, App: "calls", Name: "job-" + id.String(), Handler: "/h", Timeout: time.Hour}}
	j.Sched.Rev, j.Sched.RevAt = 1, c.now().Add(-time.Hour)
	if change != nil {
		change(&j)
	}
	j.Normalize()
	c.s.Job(j)
	return f.Run, f
}

// enqueue enqueues fires as one message.
func (c *clocked) enqueue(fires ...core.Fire) {
	c.t.Helper()
	c.s.Enqueue(fires[0].Slot.Time(), messageOf(fires...))
}

// deliver handles all visible messages and returns how many there were and how many were acknowledged.
func (c *clocked) deliver() (handled, acked int) {
	c.t.Helper()
	if due, _ := c.s.Depth(ring.KindFires); due == 0 {
		return 0, 0
	}
	got := c.s.Receive(ring.KindFires, 10)
	var msgs []ring.Message
	for i := range got {
		msgs = append(msgs, got[i].Message)
	}
	for i, v := range c.d.Handle(c.t.Context(), msgs) {
		if v.Ack {
			acked++
			c.s.Ack(got[i : i+1]...)
		} else {
			must(c.t, c.s.Queue.Release(c.t.Context(), got[i:i+1], v.RetryAt)[0])
		}
	}
	return len(got), acked
}

// checks handles the due checks.
func (c *clocked) checks() {
	c.t.Helper()
	for {
		if due, _ := c.s.Depth(ring.KindCheck); due == 0 {
			return
		}
		got := c.s.Receive(ring.KindCheck, 1)
		must(c.t, c.w.Check(c.t.Context(), got[0].Message.Check))
		c.s.Ack(got...)
	}
}

// walk handles the due checks and then makes one pass of the watchdog.
func (c *clocked) walk() {
	c.t.Helper()
	c.checks()
	_, err := c.w.Pass(c.t.Context())
	must(c.t, err)
}

// TestCallAcrossASleep: the machine sleeps during a call whose journal is not stored yet, and the watchdog passes its
// minute. The run must still be watched, and its follow-ups done.
func TestCallAcrossASleep(t *testing.T) {
	retry := func(j *core.Job) {
		j.Def.Retry = core.Retry{Max: 1, Delay: time.Second, On: []core.State{core.Lost}}
	}
	delay := func(j *core.Job) {
		j.Sched.Schedule = core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: time.Minute}}}
		at := core.InstantOf(time.Now())
		j.Sched.Next, j.Sched.Tail, j.Sched.PlanAt, j.Sched.Seq = at, core.PlannedRun(j.Def.ID, at), at+60, 1
	}
	for _, slept := range []time.Duration{0, 12 * time.Minute, 3 * time.Hour} {
		for name, kind := range map[string]dispatch.AnswerKind{"202": dispatch.AnswerAccepted, "cut": dispatch.AnswerUnconfirmed} {
			for owes, change := range map[string]func(*core.Job){"retry": retry, "delay": delay} {
				fixture.Bubble(t, fmt.Sprint(slept, " ", name, " ", owes), func(t *testing.T) {
					c := newClocked(t)
					id, fire := c.job(7, change)
					c.sender.answers = func(dispatch.SendRequest) dispatch.Answer {
						time.Sleep(5 * time.Second)
						c.set(slept)
						for range 3 {
							c.walk()
						}
						return dispatch.Answer{Kind: kind}
					}
					c.walk()
					c.enqueue(fire)
					if n, acked := c.deliver(); n != 1 || acked != 1 {
						t.Fatalf("%d of %d acked", acked, n)
					}
					c.sender.answers = func(dispatch.SendRequest) dispatch.Answer {
						return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded}
					}
					for range 10 * 60 {
						time.Sleep(time.Minute)
						c.walk()
						c.deliver()
					}
					r := c.s.Run(id)
					if r.State != core.Lost || r.Reason != core.ReasonNoReport {
						t.Errorf("10 hours later it is %s: no check is scheduled", r.State)
					}
					if c.times(id) != 1 || len(c.sender.sent) != 2 && owes == "retry" {
						t.Errorf("sent: %v", c.sender.sent)
					}
					if s := c.s.JobOf(7).Sched; owes == "delay" && s.Tail == id {
						t.Errorf("the chain ends here: %+v", s)
					}
				})
			}
		}
	}
}

// TestClockJumpDuringCall: the clock passes until while the owner awaits an answer; the message is delivered to this
// process again.
func TestClockJumpDuringCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked(t)
		id, fire := c.job(7, nil)
		c.sender.answers = func(dispatch.SendRequest) dispatch.Answer {
			c.set(2 * time.Hour)
			for range 3 {
				time.Sleep(2 * time.Minute)
				if n, acked := c.deliver(); n != 1 || acked != 0 {
					t.Errorf("while the call is open %d came again, %d were acked", n, acked)
				}
			}
			return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200}
		}
		c.enqueue(fire)
		c.deliver()
		if r := c.s.Run(id); c.times(id) != 1 || r.State != core.Succeeded {
			t.Errorf("one process sent it %d times; it is %s", c.times(id), r.State)
		}
	})
}

// deliverOne delivers one message in a goroutine of its own. The message must be acknowledged.
func (c *clocked) deliverOne() (ended chan struct{}) {
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		if n, acked := c.deliver(); n != 1 || acked != 1 {
			c.t.Errorf("%d of %d acked", acked, n)
		}
	}()
	return ended
}

// TestBusyBesideLongCall: a busy answer is retried after a second and does not wait for a call in its message; that
// message is acknowledged once.
func TestBusyBesideLongCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked(t)
		long, first := c.job(7, nil)
		busy, second := c.job(8, func(j *core.Job) { j.Sched.Misfire, j.Sched.Grace = core.MisfireSkip, 10*time.Second })
		c.sender.answers = func(s dispatch.SendRequest) dispatch.Answer {
			switch {
			case s.Run.ID == long:
				time.Sleep(30 * time.Minute)
			case c.times(busy) < 3:
				return dispatch.Answer{Kind: dispatch.AnswerBusy, Code: 429, Message: "queue full"}
			}
			return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200}
		}
		c.enqueue(first, second)
		ended := c.deliverOne()
		for range 10 {
			time.Sleep(time.Second)
			c.deliver()
		}
		if r := c.s.Run(busy); r.State != core.Succeeded || c.times(busy) != 3 {
			t.Errorf("after 10 s it is %s: %s, sent %d times", r.State, r.Reason, c.times(busy))
		} else if len(r.Tries) != 1 || r.Tries[0].Message != "queue full" {
			t.Errorf("the refusals before are %+v", r.Tries)
		}
		<-ended
		if r := c.s.Run(long); r.State != core.Succeeded || c.times(long) != 1 {
			t.Errorf("the call is %s, sent %d times", r.State, c.times(long))
		}
		c.set(24 * time.Hour)
		if n, _ := c.deliver(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// TestClockSetWhileCallIsAwaited: the clock is set ahead or back during a call. Journal and answer are stored in time.
// A later copy of the message finds them, though until has passed, and sends nothing.
func TestClockSetWhileCallIsAwaited(t *testing.T) {
	for _, by := range []time.Duration{0, 2 * time.Hour, -50 * time.Minute} {
		fixture.Bubble(t, by.String(), func(t *testing.T) {
			c := newClocked(t)
			id, fire := c.job(7, func(j *core.Job) { j.Sched.Misfire = core.MisfireAll })
			outcome := func() core.Outcome {
				j := c.s.JournalOf(c.s.Run(id))
				e, _ := j.Find(id)
				return e.Outcome
			}
			c.sender.answers = func(dispatch.SendRequest) dispatch.Answer {
				c.set(by)
				time.Sleep(90 * time.Second)
				if got := outcome(); got != core.Begun {
					t.Errorf("after 90 s its journal has %v", got)
				}
				time.Sleep(3 * time.Minute)
				return dispatch.Answer{Kind: dispatch.AnswerAccepted}
			}
			msgs := []ring.Message{messageOf(fire)}
			for range 2 {
				if v := c.d.Handle(t.Context(), msgs); !v[0].Ack {
					t.Errorf("not acked: %v", v[0].Err)
				}
				if got := outcome(); got != core.Accepted {
					t.Errorf("its journal has %v", got)
				}
			}
			if n := c.times(id); n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

// TestNothingBegunPastUntil: after until, nothing is claimed or sent.
func TestNothingBegunPastUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked(t)
		c.sender.answers = func(dispatch.SendRequest) dispatch.Answer {
			c.set(2 * time.Hour)
			return dispatch.Answer{Kind: dispatch.AnswerAccepted}
		}
		var fires []core.Fire
		for id := range core.JobID(100) { // more than the limit of concurrent sends
			_, f := c.job(id+1, nil)
			fires = append(fires, f)
		}
		c.enqueue(fires[:50]...)
		c.enqueue(fires[50:]...)
		c.deliver()
		if n := len(c.sender.sent); n == 0 || n > 32 {
			t.Errorf("%d were sent after the clock had passed until", n)
		}
	})
}

// TestAskedPastUntil: between the two asks of a run, the clock passes the end of its claim, and another run gets its job's slot.
// The run then gets its app's slot, and the other run frees it.
func TestAskedPastUntil(t *testing.T) {
	for name, besideCall := range map[string]bool{"alone": false, "beside a long call": true} {
		fixture.Bubble(t, name, func(t *testing.T) {
			c := newClocked(t)
			other := c.s.dispatcher(c.sender, dispatch.Options{})
			c.s.SaveApp(core.App{Name: "a", Executors: []string{"http://10.0.0.1:1"}, Rev: 1, Limits: core.Limits{InFlight: 1}})
			_, late := c.job(7, func(j *core.Job) { j.Def.App, j.Def.Overlap.Limit = "a", 1 })
			next := planned(7, late.At+1)
			fires := []core.Fire{late}
			if _, call := c.job(8, nil); besideCall {
				fires = append(fires, call)
			}
			holds := func(name string, id core.RunID) bool {
				p := c.s.PermitsOf(name)
				return p.Holds(id)
			}
			c.sender.answers = func(s dispatch.SendRequest) dispatch.Answer {
				if s.Job.Def.ID == 8 {
					time.Sleep(10 * time.Minute)
				} else if !holds("job/7", s.Run.ID) || !holds("app/a", s.Run.ID) {
					t.Errorf("run %d was sent without its slots", s.Run.ID)
				}
				return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded}
			}
			var slept, taken atomic.Bool
			c.s.read = func(ctx context.Context, k store.Key) error {
				switch held := holds("job/7", late.Run); {
				case k.Kind != "permit#app/a":
				case held && slept.CompareAndSwap(false, true):
					c.set(time.Minute)
					go other.Handle(t.Context(), []ring.Message{messageOf(next)})
					time.Sleep(500 * time.Millisecond)
				case slept.Load() && !held && taken.CompareAndSwap(false, true): // the other one has its job's slot, and asks for its app's
					time.Sleep(time.Second)
					c.d.Handle(t.Context(), []ring.Message{messageOf(late)}) // its message comes again
				}
				return nil
			}
			c.enqueue(fires...)
			go c.deliver()
			for range 60 {
				time.Sleep(time.Second)
				c.deliver()
			}
			if !taken.Load() || c.times(late.Run) != 1 || c.times(next.Run) != 1 {
				t.Errorf("taken out: %t; sent: %v", taken.Load(), c.sender.sent)
			}
			time.Sleep(time.Hour)
		})
	}
}

// TestNotBegunBesideLongCall: a run whose send cannot start because the clock passed until is retried at once. It does
// not wait for a call in its batch.
func TestNotBegunBesideLongCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked(t)
		long, first := c.job(1, nil)
		fires := []core.Fire{first}
		for id := range core.JobID(39) { // together with the call, eight more than the limit of concurrent sends
			_, f := c.job(id+2, nil)
			fires = append(fires, f)
		}
		c.sender.answers = func(s dispatch.SendRequest) dispatch.Answer {
			time.Sleep(time.Second)
			if s.Run.ID == long {
				time.Sleep(30 * time.Minute)
			}
			return dispatch.Answer{Kind: dispatch.AnswerAccepted}
		}
		c.enqueue(fires...)
		began := time.Now()
		var ended atomic.Bool
		go func() {
			defer ended.Store(true)
			c.deliver()
		}()
		time.Sleep(500 * time.Millisecond)
		c.set(2 * time.Hour)
		for time.Since(began) < time.Minute {
			time.Sleep(time.Second)
			c.deliver()
		}
		for _, f := range fires {
			if n := c.times(f.Run); n != 1 || ended.Load() {
				t.Errorf("run %d was sent %d times while the call is awaited", f.Run, n)
			}
		}
		time.Sleep(time.Hour)
	})
}

// TestSettledBesideLongCall: answered runs do not wait for a call in their message: their checks are sent and their
// memory is freed. The journal names them to the end.
func TestSettledBesideLongCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked(t)
		long, first := c.job(7, nil)
		quick, second := c.job(8, func(j *core.Job) { j.Def.Timeout, j.Def.LostAfter = 5*time.Minute, 2*time.Minute })
		c.sender.answers = func(s dispatch.SendRequest) dispatch.Answer {
			if s.Run.ID == long {
				time.Sleep(30 * time.Minute)
			}
			return dispatch.Answer{Kind: dispatch.AnswerAccepted}
		}
		c.enqueue(first, second)
		ended := c.deliverOne()
		time.Sleep(15 * time.Second)
		if _, waiting := c.s.Depth(ring.KindCheck); waiting != 2 {
			t.Errorf("%d checks wait for the run with a timeout, and lost before the scan", waiting)
		}
		<-ended
		for _, id := range []core.RunID{long, quick} {
			j := c.s.JournalOf(c.s.Run(id))
			if e, ok := j.Find(id); !ok || e.Outcome != core.Accepted || len(j.Entries) != 2 {
				t.Errorf("run %d in the journal: %+v of %+v", id, e, j.Entries)
			}
		}
	})
}

// TestClaimedAfterTheJournal: a run is claimed after the journal of its batch was stored, and its answer comes after
// the watchdog read that journal. It is still watched.
func TestClaimedAfterTheJournal(t *testing.T) {
	for name, kind := range map[string]dispatch.AnswerKind{"202": dispatch.AnswerAccepted, "cut": dispatch.AnswerUnconfirmed} {
		for _, awaited := range []time.Duration{10 * time.Second, 4 * time.Minute, 30 * time.Minute} {
			fixture.Bubble(t, fmt.Sprint(name, " ", awaited), func(t *testing.T) {
				c := newClocked(t)
				// One is in hand; the next is claimed when that one has its answer.
				c.d = c.s.dispatcher(c.sender, dispatch.Options{MaxAhead: plan.Local().MaxAhead, InHand: 2})
				var ids []core.RunID
				m := ring.Message{Kind: ring.KindFires}
				for i := range core.JobID(3) {
					id, fire := c.job(7+i, nil)
					ids, m.Slot, m.Fires = append(ids, id), fire.Slot, append(m.Fires, fire)
				}
				var order []core.RunID
				c.sender.answers = func(s dispatch.SendRequest) dispatch.Answer {
					order = append(order, s.Run.ID)
					switch len(order) {
					case 1:
						time.Sleep(100 * time.Millisecond)
						return dispatch.Answer{Kind: dispatch.AnswerAccepted}
					case 2: // until the journal is stored
						time.Sleep(500 * time.Millisecond)
						return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded}
					}
					time.Sleep(500 * time.Millisecond)
					must(c.t, c.s.f.End(t.Context(), []finish.Result{{Run: order[0], State: core.Succeeded, At: c.now()}})[0])
					for range int(awaited / (10 * time.Second)) {
						time.Sleep(10 * time.Second)
						c.walk()
					}
					return dispatch.Answer{Kind: kind}
				}
				c.walk()
				if v := c.d.Handle(t.Context(), []ring.Message{m}); !v[0].Ack || len(order) != len(ids) {
					t.Fatalf("%+v, sent: %v", v, order)
				}
				for range 10 * 60 {
					time.Sleep(time.Minute)
					c.walk()
				}
				if r := c.s.Run(order[2]); r.State != core.Lost || r.Reason != core.ReasonNoReport {
					t.Errorf("10 hours later it is %s: no check is scheduled", r.State)
				}
			})
		}
	}
}

// TestEndsWaitForRoomOnTheDisk: the result of a call is stored once the disk has room again. A server waits for that; a
// Lambda function waits while it has time, and a server that stops for a second.
func TestEndsWaitForRoomOnTheDisk(t *testing.T) {
	const lambda = time.Minute // timeout of a Lambda function
	for _, c := range []struct {
		full time.Duration
		in   string // empty: a server
		want core.State
	}{
		{budget.CloseFor - 15*time.Second, "", core.Succeeded}, {budget.CloseFor + time.Minute, "", core.Running},
		{3 * budget.CloseFor, "", core.Running}, {0, "a stop", core.Succeeded}, {500 * time.Millisecond, "a stop", core.Succeeded},
		{time.Minute, "a stop", core.Running},
		{lambda - 10*time.Second, "a function", core.Succeeded}, {lambda + 10*time.Second, "a function", core.Running},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newClocked(t)
			id, fire := k.job(7, func(j *core.Job) { j.Def.Timeout = 10 * time.Second })
			var full atomic.Bool
			fails := func() error {
				if full.Load() {
					return errors.New("disk full")
				}
				return nil
			}
			k.s.put = func(*core.RunPut) error { return fails() }
			k.s.write = func(context.Context, []store.Group) error { return fails() }
			var log strings.Builder
			k.d = k.s.dispatcher(k.sender, dispatch.Options{MaxAhead: plan.Local().MaxAhead, Log: slog.New(slog.NewTextHandler(&log, nil))})
			ctx, cancel := context.WithCancel(t.Context())
			k.sender.answers = func(dispatch.SendRequest) dispatch.Answer {
				if full.Store(c.full > 0); c.in == "a stop" {
					cancel()
				}
				time.AfterFunc(c.full, func() { full.Store(false) })
				return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200}
			}
			if c.in == "a function" {
				ctx, cancel = context.WithTimeout(ctx, lambda)
			}
			defer cancel()
			k.d.Handle(ctx, []ring.Message{messageOf(fire)})
			if r := k.s.Run(id); r.State != c.want || k.times(id) != 1 {
				t.Errorf("the disk was full for %s in %q: it is %s, sent %d times", c.full, c.in, r.State, k.times(id))
			}
			if says := strings.Contains(log.String(), id.String()); says != (c.want == core.Running) {
				t.Errorf("the disk was full for %s: logged %q", c.full, log.String())
			}
		})
	}
}
