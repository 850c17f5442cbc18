package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// waiting is a process whose app "away" has no registered executor.
type waiting struct {
	*clocked
	reg   *registry.Registry
	run   core.RunID
	looks int // messages that were delivered
}

// waits returns a process with a due job of "away". The registration of an executor wakes waiting runs.
func waits(t *testing.T, change func(*core.Job)) *waiting {
	w := &waiting{clocked: newClocked(t)}
	w.s.App("away")
	w.registry(w.s.f.WakeApp)
	var fire core.Fire
	w.run, fire = w.clocked.job(7, func(j *core.Job) {
		j.Def.App, j.Def.WaitForExecutor, j.Def.Retry.Max = "away", 10*time.Minute, 2
		if change != nil {
			change(j)
		}
	})
	w.enqueue(fire)
	return w
}

// registry creates a registry that calls came when the first executor of an app registers.
func (w *waiting) registry(came func(context.Context, string)) {
	w.reg = registry.New(w.s.Store.Store, registry.Options{Came: came, AllowNoToken: func(context.Context) bool { return true }})
}

// after delivers visible messages every 100 ms for d and returns the run.
func (w *waiting) after(d time.Duration) core.Run {
	w.t.Helper()
	for end := time.Now().Add(d); !time.Now().After(end); time.Sleep(100 * time.Millisecond) {
		w.checks()
		for more := true; more; {
			n, acked := w.deliver()
			w.looks += n
			if more = n > 0; n != acked {
				w.t.Fatalf("%d of %d acked", acked, n)
			}
		}
	}
	return w.s.Run(w.run)
}

func (w *waiting) register() {
	must(w.t, w.reg.Register(w.t.Context(), registry.Registration{App: "away", Address: "http://10.0.0.1:9999"}))
}

// out returns the number of messages in the delay queue.
func (w *waiting) out() int { return w.s.Messages(ring.KindFires) }

// TestWakes: an app's first executor wakes the app's waiting runs at once. If the wake is lost, a run is checked after at most a
// quarter of the time that it has waited, plus a quarter of that. One message of each run stays.
func TestWakes(t *testing.T) {
	for _, told := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := waits(t, func(j *core.Job) { j.Def.WaitForExecutor = time.Hour })
			w.after(5 * time.Minute)
			for range 5 { // an executor comes, is busy, and leaves; its backoff is up to 75 s
				w.sender.answers = func(dispatch.SendRequest) dispatch.Answer { return dispatch.Answer{Kind: dispatch.AnswerBusy} }
				w.register()
				w.s.f.WakeApp(t.Context(), "other")
				w.after(300 * time.Millisecond)
				must(t, w.reg.Remove(t.Context(), registry.Registration{App: "away", Address: "http://10.0.0.1:9999"}))
				if r := w.after(80 * time.Second); r.State != core.Queued || w.out() != 1 {
					t.Fatalf("%s, %d messages", r.State, w.out())
				}
			}
			w.sender.answers = nil
			busy, quarter := w.times(w.run), time.Since(w.s.Run(w.run).Slot.Time())*5/16
			w.register()
			if !told {
				w.s.Ack(w.s.Receive(ring.KindCheck, 1)...) // the wake is lost
				for end := time.Now().Add(quarter); time.Now().Before(end); w.register() {
					w.after(30 * time.Second)
				}
			}
			if r := w.after(200 * time.Millisecond); r.State != core.Running || w.times(w.run) != busy+1 {
				t.Errorf("told %t: %s", told, r.State)
			}
			if w.after(2 * quarter); w.times(w.run) != busy+1 || w.out() != 0 {
				t.Errorf("sent %d times, %d messages are left", w.times(w.run), w.out())
			}
		})
	}
}

// TestWokenRunComesAgain: the executor that wakes a run is busy at first. The run is sent soon after that, however long it waited.
func TestWokenRunComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waits(t, func(j *core.Job) { j.Def.WaitForExecutor = 24 * time.Hour })
		w.after(time.Hour)
		w.sender.answers = func(dispatch.SendRequest) dispatch.Answer { return dispatch.Answer{Kind: dispatch.AnswerBusy} }
		w.register()
		w.after(10 * time.Second)
		w.sender.answers = nil
		if r := w.after(15 * time.Second); r.State != core.Running || w.times(w.run) < 4 {
			t.Errorf("%s, sent %d times", r.State, w.times(w.run))
		}
	})
}

// TestManyRegistrations: an executor that registers a thousand times a minute wakes its app at most every ten seconds.
func TestManyRegistrations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waits(t, nil)
		for range 1000 {
			w.register()
			must(t, w.reg.Remove(t.Context(), registry.Registration{App: "away", Address: "http://10.0.0.1:9999"}))
			time.Sleep(60 * time.Millisecond)
		}
		if n := w.s.Messages(ring.KindCheck); n < 5 || n > 8 {
			t.Errorf("%d wakes in a minute", n)
		}
	})
}

// TestOldWaitsCostLittle: a run that has waited for half an hour is checked a few times an hour, and right after its wait is over.
func TestOldWaitsCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waits(t, func(j *core.Job) { j.Def.WaitForExecutor = 91 * time.Minute })
		w.after(30 * time.Minute)
		looks := w.looks
		if w.after(time.Hour); w.looks-looks > 8 || w.s.Run(w.run).State != core.Queued {
			t.Errorf("%d checks in an hour, %s", w.looks-looks, w.s.Run(w.run).State)
		}
		if r := w.after(time.Minute + 2*time.Second); r.Reason != core.ReasonNoExecutor {
			t.Errorf("%s: %s", r.State, r.Reason)
		}
	})
}

// TestLastMessageIsAHint: waiting runs lose their own messages, and the process that took their hint dies after the claims. The
// hint comes again and sends the runs after that claim, even if the first attempt fails before the send.
func TestLastMessageIsAHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waits(t, func(j *core.Job) { j.Def.Handler, j.Def.Script = "", core.ScriptOf(core.ScriptShell, "", "date") })
		must(t, w.s.PutSource(t.Context(), 7, "date", time.Now()))
		w.s.enqueue = func(context.Context, *ring.Out, func() error) error { return nil } // its own message is lost
		w.deliver()
		w.s.repair()
		r := w.s.Run(w.run)
		trigger := r // its record is read before the batch claims
		trigger.ID, trigger.First = core.NumberedRun(7, 1), core.NumberedRun(7, 1)
		must(t, w.s.CreateRuns(t.Context(), []core.Run{trigger})[0])
		m := messageOf(r.Fire(), trigger.Fire())
		m.Try, m.Hint = 1, true
		claim := core.Claim{Owner: "dead", Until: time.Now().Add(31 * time.Second).Round(0), Journal: core.NewJournalKey("dead", time.Now())}
		for _, r := range []core.Run{r, trigger} {
			must(t, w.s.Change(r.Take(claim, "http://10.0.0.1:9999", time.Now(), nil)))
		}
		w.s.Enqueue(time.Now(), m)
		if n, acked := w.deliver(); n != 1 || acked != 0 {
			t.Fatalf("%d of %d acked while the claim may be live", acked, n)
		}
		time.Sleep(31 * time.Second)
		w.s.read = func(_ context.Context, k store.Key) error { // the send needs the script
			if strings.HasPrefix(k.Kind, "script#") {
				return core.ErrThrottled
			}
			return nil
		}
		w.after(time.Second)
		w.s.repair()
		if r := w.after(time.Minute); r.State != core.Running || r.Owner == "dead" || w.times(w.run)*w.times(trigger.ID) != 1 || w.out() > 0 {
			t.Errorf("%s, owner %s, sent %d and %d times, %d messages are left", r.State, r.Owner, w.times(w.run), w.times(trigger.ID), w.out())
		}
	})
}

// TestLooksAreNoFailures: a run that waited for minutes becomes a dead letter after twenty unreadable checks in a row.
func TestLooksAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waits(t, func(j *core.Job) { j.Def.WaitForExecutor = 24 * time.Hour })
		for _, looks := range []int{budget.UnreadTries - 1, budget.UnreadTries, budget.UnreadTries + 1} { // readable after two
			w.after(6 * time.Minute)
			d, again := w.d, w.s.damage(7, true)
			for w.d = w.s.dispatcher(w.sender, dispatch.Options{}); len(again.msgs) < looks && len(again.buried) == 0; time.Sleep(time.Second) {
				w.deliver()
			}
			w.s.repair()
			if w.d = d; len(again.buried) != max(0, looks-budget.UnreadTries) {
				t.Fatalf("after %d looks in a row at which its job could not be read: %q", looks, again.buried)
			}
		}
	})
}

// TestClockSetBackWhileRunsWait: a run starts when its executor registers, although its message is hidden for an hour.
func TestClockSetBackWhileRunsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waits(t, func(j *core.Job) { j.Def.WaitForExecutor = 24 * time.Hour })
		w.after(62 * time.Minute) // its due time has passed by both clocks
		w.set(-time.Hour)
		if r := w.after(time.Minute); r.State != core.Queued || w.out() != 1 {
			t.Fatalf("%s, %d messages", r.State, w.out())
		}
		w.register()
		if r := w.after(200 * time.Millisecond); r.State != core.Running || w.times(w.run) != 1 {
			t.Errorf("%s, sent %d times", r.State, w.times(w.run))
		}
	})
}

// TestClockSetBackBeforeTheDueTime: a batch that waits for its due time enqueues its run again.
func TestClockSetBackBeforeTheDueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := newClocked(t), time.Now()
		time.AfterFunc(time.Second, func() { c.set(-time.Hour) })
		v := c.d.Handle(t.Context(), []ring.Message{messageOf(planned(7, core.InstantOf(began)+9))})
		if took := time.Since(began); !v[0].Ack || took > 3*time.Second || c.s.Messages(ring.KindFires) != 1 {
			t.Errorf("after %s: %+v", took, v)
		}
	})
}
