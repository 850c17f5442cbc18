package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/store"
)

// laned is two dispatchers with a slow queue over one store.
type laned struct {
	*gated
	a, b *dispatch.Dispatcher

	mu    sync.Mutex
	puts  []time.Time // times of PutHealths
	reads int
}

func newLaned(t *testing.T) *laned {
	l := &laned{gated: newGated(t, dispatch.Options{})}
	l.s.read = func(_ context.Context, k store.Key) error {
		if k.Kind == store.KindHealth {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.reads++
		}
		return nil
	}
	l.s.write = func(_ context.Context, groups []store.Group) error {
		if groups[0].Writes[0].Kind == store.KindHealth {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.puts = append(l.puts, time.Now())
		}
		return nil
	}
	l.a = l.s.dispatcher(l.sender, dispatch.Options{SlowQueue: true})
	l.b = l.s.dispatcher(l.sender, dispatch.Options{SlowQueue: true})
	l.sender.takes[secondAddress] = 20 * time.Millisecond
	l.quick()
	return l
}

// quick, late and silent set how the first address answers.
func (l *laned) quick()  { l.sender.answers, l.sender.takes[firstAddress] = nil, 20*time.Millisecond }
func (l *laned) late()   { l.sender.answers, l.sender.takes[firstAddress] = nil, 600*time.Millisecond }
func (l *laned) silent() { l.sender.silent[firstAddress] = true }

// fire dispatches n new jobs one after another and returns how many were sent; messages on the slow queue stay there.
func (l *laned) fire(d *dispatch.Dispatcher, n int, app string) (sent int) {
	l.t.Helper()
	before := l.count()
	for range n {
		m, _ := l.ask(app, 1, "")
		if v := d.Handle(l.t.Context(), []ring.Message{m})[0]; !v.Ack {
			l.t.Errorf("not acked: %v", v.Err)
		}
	}
	return l.count() - before
}

func (l *laned) count() int { return len(l.sender.sent) }

// drain handles the messages on the slow queue and returns their number.
func (l *laned) drain(d *dispatch.Dispatcher) (n int) {
	l.t.Helper()
	for {
		if due, _ := l.s.Depth(ring.KindSlow); due == 0 {
			return n
		}
		got := l.s.Receive(ring.KindSlow, 1)
		if n++; n > 100 {
			l.t.Fatal("the slow lane does not get empty")
		}
		if v := d.Handle(l.t.Context(), []ring.Message{got[0].Message})[0]; !v.Ack {
			l.t.Errorf("not acked: %v", v.Err)
		}
		l.s.Ack(got...)
	}
}

func TestSlowAddressHasALaneOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLaned(t)
		l.late()
		if n := l.fire(l.a, 10, "one"); n != 10 || l.s.Messages(ring.KindSlow) != 0 {
			t.Fatalf("after ten late answers %d were sent, %d wait", n, l.s.Messages(ring.KindSlow))
		}
		l.fire(l.a, 1, "one")
		if n := l.fire(l.a, 3, "one"); n != 0 || l.s.Messages(ring.KindSlow) != 3 {
			t.Fatalf("after eleven late answers %d were sent, %d wait on the slow lane", n, l.s.Messages(ring.KindSlow))
		}
		// They are not claimed: users may change them until they are sent.
		last := core.PlannedRun(l.jobs, core.InstantOf(time.Now()))
		if runs := l.s.Stored(last); len(runs) != 0 {
			t.Errorf("a fire on the slow lane is claimed: %v", runs)
		}
		// Another address is not slow, and another dispatcher knows the slow one.
		if n := l.fire(l.a, 1, "two"); n != 1 {
			t.Error("a quick address waits for a slow one")
		}
		if n := l.fire(l.b, 2, "one"); n != 0 || l.s.Messages(ring.KindSlow) != 5 {
			t.Errorf("the other dispatcher sent %d, %d wait", n, l.s.Messages(ring.KindSlow))
		}
		// From the slow queue it is sent, late or not, and never returned there.
		began := l.count()
		if n := l.drain(l.b); n != 5 || l.count()-began != 5 || l.s.Messages(ring.KindSlow)+l.s.Messages(ring.KindFires) != 0 {
			t.Errorf("%d taken from the slow lane, %d sent, %d and %d wait", n, l.count()-began, l.s.Messages(ring.KindSlow),
				l.s.Messages(ring.KindFires))
		}

		// One good probe a minute ends the slow state; a late one does not.
		time.Sleep(time.Minute)
		l.fire(l.a, 1, "one")
		l.drain(l.b) // late
		l.quick()
		time.Sleep(30 * time.Second)
		l.fire(l.a, 1, "one")
		l.drain(l.b) // in time, but not a probe yet
		time.Sleep(6 * time.Second)
		if n := l.fire(l.b, 1, "one"); n != 0 {
			t.Error("it was probed twice in a minute")
		}
		time.Sleep(34 * time.Second)
		if l.drain(l.b) != 1 {
			t.Fatal("there is nothing to probe with")
		}
		time.Sleep(6 * time.Second)
		if n := l.fire(l.a, 3, "one"); n != 3 || l.s.Messages(ring.KindSlow) != 0 {
			t.Errorf("after a good probe %d of 3 were sent, %d wait", n, l.s.Messages(ring.KindSlow))
		}
	})
}

// TestSlowIsASlidingCount: late answers further apart than SlowWithin, long calls and refused connections make nothing
// slow. Three timeouts in a row do at once.
func TestSlowIsASlidingCount(t *testing.T) {
	for name, c := range map[string]struct {
		answers func(l *laned)
		n       int
		every   time.Duration
		slow    bool
	}{
		"late, seven seconds apart":    {(*laned).late, 30, 7 * time.Second, false},
		"late, five seconds apart":     {(*laned).late, 30, 4 * time.Second, true},
		"two time-outs":                {(*laned).silent, 2, 0, false},
		"three time-outs":              {(*laned).silent, 3, 0, true},
		"three time-outs, hours apart": {(*laned).silent, 3, time.Hour, true},
		"refused connections": {func(l *laned) {
			l.sender.answers = func(dispatch.SendRequest) dispatch.Answer {
				return dispatch.Answer{Kind: dispatch.AnswerRefused, Message: "connection refused"}
			}
		}, 30, 0, false},
		"time-outs and answers in turn": {func(l *laned) {
			n := 0
			l.sender.answers = func(x dispatch.SendRequest) dispatch.Answer {
				n++
				l.sender.silent[firstAddress] = n%3 != 0
				return l.sender.answer(x.Address)
			}
		}, 9, 0, false},
	} {
		fixture.Bubble(t, name, func(t *testing.T) {
			l := newLaned(t)
			c.answers(l)
			for range c.n {
				l.fire(l.a, 1, "one")
				time.Sleep(c.every)
			}
			// The last wait may have been long: only the result matters.
			list, err := l.s.Healths(t.Context())
			must(t, err)
			slow := false
			for _, h := range list {
				slow = slow || h.Slow && h.Of == firstAddress
			}
			if slow != c.slow {
				t.Errorf("slow: %t, want %t: %v", slow, c.slow, list)
			}
		})
	}
}

// TestSlowJob: a job that is late on every address uses the slow queue; other jobs on those addresses do not.
func TestSlowJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLaned(t)
		now := core.InstantOf(time.Now())
		l.messages(500, 1, "one")
		l.sender.takes[firstAddress], l.sender.takes[secondAddress] = 600*time.Millisecond, 600*time.Millisecond
		// Its app has two addresses, and neither is late ten times.
		app := core.App{Name: "one", Executors: []string{firstAddress, secondAddress}, Rev: 2}
		l.s.SaveApp(app)
		for n := range 20 {
			at := now + core.Instant(n)
			f := core.Fire{Run: core.PlannedRun(500, at), Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule, Seq: int64(n)}
			l.a.Handle(t.Context(), []ring.Message{{Kind: ring.KindFires, Slot: at, Fires: []core.Fire{f}}})
		}
		if n := l.s.Messages(ring.KindSlow); n != 9 {
			t.Errorf("%d of 20 are on the slow lane, want the last 9", n)
		}
	})
}

// TestHealthIsToldSparingly: health is written and read at most once in five seconds.
func TestHealthIsToldSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLaned(t)
		began := time.Now()
		l.sender.answers = func(dispatch.SendRequest) dispatch.Answer {
			return dispatch.Answer{Kind: dispatch.AnswerUnconfirmed, Took: 100 * time.Millisecond, TimedOut: true}
		}
		for n := range 40 {
			l.s.App(fmt.Sprintf("app-%d", n), fmt.Sprintf("http://10.0.1.%d:1", n))
			l.fire(l.a, 3, fmt.Sprintf("app-%d", n))
		}
		for i := 1; i < len(l.puts); i++ {
			if d := l.puts[i].Sub(l.puts[i-1]); d < 5*time.Second {
				t.Errorf("reported again after %s", d)
			}
		}
		most := int(time.Since(began)/(5*time.Second)) + 1
		if l.reads > most || len(l.puts) < 2 {
			t.Errorf("read %d times in %s, written %d times", l.reads, time.Since(began), len(l.puts))
		}
	})
}

// TestOwnWantIsNoAnswer: a send that failed for lack of local resources is repeated, does not affect health, and is
// logged once a minute.
func TestOwnWantIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		l := newLaned(t)
		l.a = l.s.dispatcher(l.sender, dispatch.Options{SlowQueue: true, Log: slog.New(slog.NewTextHandler(&told, nil))})
		ours := func(dispatch.SendRequest) dispatch.Answer {
			return dispatch.Answer{Kind: dispatch.AnswerBusy, Ours: true, Message: "socket: too many open files", Took: time.Second}
		}
		l.sender.answers = ours
		time.Sleep(time.Minute) // to the beginning of a minute
		if n := l.fire(l.a, 30, "one"); n != 30 || l.s.Messages(ring.KindFires) != 30 || l.s.Messages(ring.KindSlow) != 0 {
			t.Errorf("%d tries; %d come again, %d on the slow lane", n, l.s.Messages(ring.KindFires), l.s.Messages(ring.KindSlow))
		}
		run := core.PlannedRun(l.jobs, core.InstantOf(time.Now().Add(-time.Second)))
		if r := l.s.Run(run); r.State != core.Planned || r.Owner != "" {
			t.Errorf("the run is %+v", r)
		}
		if n := strings.Count(told.String(), "too many open files"); n != 1 || !strings.Contains(told.String(), "run=") {
			t.Errorf("told %d times:\n%s", n, &told)
		}
		// It does not make a slow address healthy either.
		l.late()
		l.fire(l.b, 11, "one")
		time.Sleep(time.Minute + time.Second)
		l.sender.answers = ours
		l.fire(l.b, 1, "one")
		l.drain(l.b)
		l.quick()
		if n := l.fire(l.b, 1, "one"); n != 0 {
			t.Error("a slow address was found healthy without a send")
		}
	})
}
