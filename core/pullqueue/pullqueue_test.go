package pullqueue_test

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
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

var queue = store.PullQueue{App: "reports", Name: "nightly"}

type rig struct {
	*testing.T
	e *fixture.Store
	p *pullqueue.Puller
	n uint32
}

func newRig(t *testing.T, o pullqueue.Options) *rig {
	e := fixture.New(t, memory.Options{})
	o.Log = slog.New(slog.DiscardHandler)
	return &rig{T: t, e: e, p: pullqueue.New(e.Store, finish.New(e.Store, finish.Options{}), o)}
}

// run stores a run that the queue accepted, and adds it to the queue.
func (r *rig) run() core.RunID {
	r.Helper()
	r.n++
	id := core.NumberedRun(7, r.n)
	x := core.Run{ID: id, App: queue.App, State: core.Running, Owner: "o", Address: queue.Address(), Cause: core.CauseManual, Attempt: 1,
		First: id, SentAt: time.Now()}
	r.e.Create(x)
	r.put(id)
	return id
}

func (r *rig) put(id core.RunID) {
	r.Helper()
	check.OK(r, r.p.Put(r.Context(), store.PullItem{Queue: queue, Run: id, Body: []byte(id.String())}))
}

func (r *rig) receive(wait time.Duration) []store.Held {
	r.Helper()
	held, err := r.p.Receive(r.Context(), queue, pullqueue.Want{Max: 10, Wait: wait, Visibility: time.Minute})
	check.OK(r, err)
	return held
}

func (r *rig) extend(h store.Held, d time.Duration) pullqueue.State {
	r.Helper()
	s, err := r.p.Extend(r.Context(), queue, []store.Receipt{h.Receipt}, d)
	check.OK(r, err)
	return s[0]
}

// TestLongPoll checks that a poll waits until the first run arrives, and no longer than requested.
func TestLongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, pullqueue.Options{})
		began := time.Now()
		if held := r.receive(20 * time.Second); len(held) > 0 || time.Since(began) != 20*time.Second {
			t.Errorf("after %s: %v", time.Since(began), held)
		}
		began = time.Now()
		id := core.NumberedRun(7, 1)
		time.AfterFunc(7*time.Second, func() { r.run() })
		held := r.receive(20 * time.Second)
		if len(held) != 1 || held[0].Receipt.Run != id || time.Since(began) != 7*time.Second {
			t.Errorf("after %s: %v", time.Since(began), held)
		}
		// Its executor dies: another waiting poll receives it when the visibility ends.
		<-time.After(55 * time.Second)
		again := r.receive(20 * time.Second)
		if len(again) != 1 || again[0].Receipt.N != 2 || time.Since(began) != 67*time.Second {
			t.Errorf("after %s: %v", time.Since(began), again)
		}
		check.Equal(t, r.extend(held[0], time.Minute), pullqueue.StateLost, "the first one gets")
		check.Equal(t, r.extend(again[0], time.Minute), pullqueue.StateHeld, "the second one gets")
		// A released run is delivered at once to a waiting poll.
		began = time.Now()
		time.AfterFunc(3*time.Second, func() { r.extend(again[0], 0) })
		third := r.receive(20 * time.Second)
		if len(third) != 1 || time.Since(began) != 3*time.Second {
			t.Errorf("after %s: %v", time.Since(began), third)
		}
		if s, err := r.p.Ack(t.Context(), queue, []store.Receipt{third[0].Receipt, again[0].Receipt}); err != nil ||
			!slices.Equal(s, []pullqueue.State{pullqueue.StateEnded, pullqueue.StateLost}) {
			t.Errorf("%v %v", s, err)
		}
		if idle, err := r.p.Idle(t.Context(), queue, 7); !idle || err != nil {
			t.Errorf("idle %t %v", idle, err)
		}
	})
}

// TestCompetingConsumers checks that concurrent polls never receive the same run.
func TestCompetingConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, pullqueue.Options{})
		got := make(chan core.RunID, 100)
		ctx, stop := context.WithCancel(t.Context())
		for range 3 {
			go func() {
				for ctx.Err() == nil {
					held, _ := r.p.Receive(ctx, queue, pullqueue.Want{Max: 4, Wait: 20 * time.Second, Visibility: time.Minute})
					for _, h := range held {
						got <- h.Receipt.Run
					}
				}
			}()
		}
		want := map[core.RunID]bool{}
		for range 50 {
			want[r.run()] = true
		}
		for range 50 {
			id := <-got
			if !want[id] {
				t.Errorf("run %d was handed out twice", id)
			}
			delete(want, id)
		}
		stop()
		synctest.Wait()
	})
}

// TestKill checks that kills are noticed at delivery and at each extension.
func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, pullqueue.Options{})
		before, during := r.run(), r.run()
		kill := func(id core.RunID) {
			check.OK(t, r.e.Change((&core.Run{ID: id}).Kill("ann", time.Now())))
		}
		kill(before)
		held := r.receive(0)
		if len(held) != 1 || held[0].Receipt.Run != during {
			t.Fatalf("%v", held)
		}
		if x := r.e.Run(before); x.State != core.Killed || x.Reason != core.ReasonPerson {
			t.Errorf("killed before: %s %s", x.State, x.Reason)
		}
		check.Equal(t, r.extend(held[0], time.Minute), pullqueue.StateHeld, "not killed yet")
		kill(during)
		check.Equal(t, r.extend(held[0], time.Minute), pullqueue.StateKilled, "killed")
		if x := r.e.Run(during); !x.State.Open() {
			t.Errorf("it is for its executor to end it: %s", x.State)
		}
		if idle, _ := r.p.Idle(t.Context(), queue, 7); idle {
			t.Error("it is still running")
		}
	})
}

// TestEnded checks that ended runs are not delivered, are reported by Extend, and are swept from unpolled
// queues. Runs delivered too often are lost.
func TestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, pullqueue.Options{Deliveries: 3})
		end := func(id core.RunID) {
			check.OK(t, finish.New(r.e.Store, finish.Options{}).End(t.Context(), []finish.Result{{Run: id, State: core.Succeeded}})[0])
		}
		first := r.run()
		end(first)
		second := r.run()
		held := r.receive(0)
		if len(held) != 1 || held[0].Receipt.Run != second {
			t.Fatalf("%v", held)
		}
		end(second)
		check.Equal(t, r.extend(held[0], time.Minute), pullqueue.StateEnded, "it gets")
		poison := r.run()
		for range 3 {
			if held := r.receive(0); len(held) != 1 {
				t.Fatalf("%v", held)
			}
			<-time.After(time.Minute)
		}
		if held := r.receive(0); len(held) > 0 {
			t.Errorf("a fourth time: %v", held)
		}
		if x := r.e.Run(poison); x.State != core.Lost || x.Reason != core.ReasonNoReport || !strings.Contains(x.Message, "3 times") {
			t.Errorf("%s %s %q", x.State, x.Reason, x.Message)
		}
		open, over := r.run(), r.run()
		end(over)
		if n, err := r.p.Sweep(t.Context(), 10); n != 1 || err != nil {
			t.Errorf("swept %d, %v", n, err)
		}
		if held := r.receive(0); len(held) != 1 || held[0].Receipt.Run != open {
			t.Errorf("%v", held)
		}
	})
}

// TestFailedReadIsNoDelivery checks that a run that could not be read counts as not delivered.
func TestFailedReadIsNoDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, pullqueue.Options{Deliveries: 2})
		r.run()
		s := *r.e.Store
		s.Runs = unreadable{}
		p := pullqueue.New(&s, nil, pullqueue.Options{Log: slog.New(slog.DiscardHandler)})
		for range 20 {
			if _, err := p.Receive(t.Context(), queue, pullqueue.Want{Max: 1, Visibility: time.Hour}); err == nil {
				t.Fatal("a run was handed out that could not be read")
			}
		}
		if held := r.receive(0); len(held) != 1 || held[0].Receipt.N != 1 {
			t.Errorf("%v", held)
		}
	})
}

// TestUnreadableRunHoldsUpNoOther checks that the other runs of its queue are delivered, and that its deliveries are not counted.
func TestUnreadableRunHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, pullqueue.Options{Deliveries: 2})
		bad, good := r.run(), r.run()
		p := pullqueue.New(hook.Unreadable(r.e.Store, bad), nil, pullqueue.Options{Log: slog.New(slog.DiscardHandler)})
		held, err := p.Receive(t.Context(), queue, pullqueue.Want{Max: 2, Visibility: time.Hour})
		if err != nil || len(held) != 1 || held[0].Receipt.Run != good {
			t.Fatal(held, err)
		}
		for range 5 {
			time.Sleep(2 * time.Minute) // fake time
			if held, err := p.Receive(t.Context(), queue, pullqueue.Want{Max: 2, Visibility: time.Hour}); err != nil || len(held) > 0 {
				t.Fatal(held, err)
			}
		}
		if n, err := p.Sweep(t.Context(), 10); n != 0 || err != nil {
			t.Error(n, err)
		}
		time.Sleep(2 * time.Minute)
		if held = r.receive(0); len(held) != 1 || held[0].Receipt.Run != bad || held[0].Receipt.N != 1 {
			t.Errorf("%v", held)
		}
	})
}

type unreadable struct{ store.Runs }

func (unreadable) Get(_ context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	return map[core.RunID]store.Got[*core.Run]{ids[0]: {Err: core.ErrThrottled}}, nil
}

// TestPolled checks that a poll is remembered, and that a young process assumes polls.
func TestPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, pullqueue.Options{})
		if err := r.p.Polled(queue); err != nil {
			t.Errorf("just begun: %v", err)
		}
		<-time.After(91 * time.Second)
		if err := r.p.Polled(queue); err == nil || !strings.Contains(err.Error(), "queue:nightly") {
			t.Errorf("a queue without polls: %v", err)
		}
		r.receive(20 * time.Second)
		<-time.After(90 * time.Second)
		if err := r.p.Polled(queue); err != nil {
			t.Errorf("polled until 90 s ago: %v", err)
		}
		<-time.After(time.Second)
		if err := r.p.Polled(queue); err == nil {
			t.Error("polled until 91 s ago")
		}
	})
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, pullqueue.Options{Most: 2, Waiters: 1})
		good := pullqueue.Want{Max: 1, Wait: time.Second, Visibility: time.Minute}
		for field, change := range map[string]func(*pullqueue.Want){
			"max":               func(w *pullqueue.Want) { w.Max = 11 },
			"waitSeconds":       func(w *pullqueue.Want) { w.Wait = 21 * time.Second },
			"visibilitySeconds": func(w *pullqueue.Want) { w.Visibility = 4 * time.Second },
		} {
			w := good
			change(&w)
			var e *core.Error
			if _, err := r.p.Receive(t.Context(), queue, w); !errors.As(err, &e) || e.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		tooMany := make([]store.Receipt, pullqueue.MaxReceipts+1)
		if _, err := r.p.Extend(t.Context(), queue, tooMany, time.Minute); core.CodeOf(err) != core.CodeInvalid {
			t.Errorf("too many receipts: %v", err)
		}
		for _, text := range []string{"", "1", "1.", "1.0", "1.-1", "x.1", "1.1.1", "1." + strings.Repeat("9", 30), "-5.1"} {
			if got, err := pullqueue.ParseReceipt(text); err == nil {
				t.Errorf("%q: %v", text, got)
			}
		}
		if got, err := pullqueue.ParseReceipt(fmt.Sprintf("%d.3", core.NumberedRun(7, 1))); err != nil || got.N != 3 ||
			got.Run != core.NumberedRun(7, 1) {
			t.Errorf("%v %v", got, err)
		}
		go func() {
			_, _ = r.p.Receive(t.Context(), queue, pullqueue.Want{Max: 1, Wait: 20 * time.Second, Visibility: time.Minute})
		}()
		synctest.Wait()
		if _, err := r.p.Receive(t.Context(), queue, good); core.CodeOf(err) != core.CodeUnavailable {
			t.Errorf("one too many waits: %v", err)
		}
		r.p.Close() // waiting polls return
		synctest.Wait()
		if held := r.receive(time.Second); len(held) > 0 {
			t.Errorf("%v", held)
		}
		r.run()
		r.run()
		if err := r.p.Put(t.Context(), store.PullItem{Queue: queue, Run: core.NumberedRun(7, 99)}); !errors.Is(err, store.ErrFull) {
			t.Errorf("a third: %v", err)
		}
	})
}

// TestGoneWhileTaking checks that a cancelled poll does not keep its run.
func TestGoneWhileTaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, pullqueue.Options{})
		r.run()
		ctx, cancel := context.WithCancel(t.Context())
		s := *r.e.Store
		s.Pull = stopping{s.Pull, cancel}
		p := pullqueue.New(&s, nil, pullqueue.Options{Log: slog.New(slog.DiscardHandler)})
		if _, err := p.Receive(ctx, queue, pullqueue.Want{Max: 1, Visibility: time.Hour}); err == nil {
			t.Error("it was handed out without a consumer")
		}
		if held := r.receive(0); len(held) != 1 {
			t.Errorf("%v", held)
		}
	})
}

// stopping cancels the request after runs were taken.
type stopping struct {
	store.Pull
	stop func()
}

func (s stopping) TakePulled(ctx context.Context, q store.PullQueue, now, until time.Time, limit int) (
	[]store.Held, time.Time, error) {
	defer s.stop()
	return s.Pull.TakePulled(ctx, q, now, until, limit)
}

// TestPollsOfOneApp checks that an app's polls leave room for other apps.
func TestPollsOfOneApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, pullqueue.Options{Waiters: 10})
		refused := map[string]int{}
		var mu sync.Mutex
		poll := func(app string) {
			_, err := r.p.Receive(t.Context(), store.PullQueue{App: app, Name: "q"},
				pullqueue.Want{Max: 1, Wait: 20 * time.Second, Visibility: time.Minute})
			if core.CodeOf(err) == core.CodeUnavailable {
				mu.Lock()
				refused[app]++
				mu.Unlock()
			}
		}
		for _, app := range []string{"a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "b", "b", "c"} {
			go poll(app)
			synctest.Wait()
		}
		if refused["a"] != 5 || refused["b"] != 0 || refused["c"] != 0 {
			t.Errorf("refused: %v", refused)
		}
		time.Sleep(21 * time.Second) // of the synctest bubble
		refused = map[string]int{}
		for range 5 {
			go poll("a")
		}
		synctest.Wait()
		check.Equal(t, refused["a"], 0, "when the others are over: %v", refused)
		r.p.Close()
		synctest.Wait()
	})
}
