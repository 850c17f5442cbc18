package tick

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// trace records the actions of one invocation with their times.
type trace struct {
	began    time.Time
	passes   []time.Duration
	released []time.Duration
}

func (tr *trace) at() time.Duration { return time.Since(tr.began) }

// beating returns beats whose n-th pass (from 1) returns the result of pass.
func beating(tr *trace, pass func(ctx context.Context, n int) (Result, error)) *Beats {
	tr.began = time.Now()
	return &Beats{
		pass: func(ctx context.Context) (Result, error) {
			tr.passes = append(tr.passes, tr.at())
			return pass(ctx, len(tr.passes))
		},
		release: func(ctx context.Context) error {
			tr.released = append(tr.released, tr.at())
			return ctx.Err()
		},
		o: Invocation{Every: time.Second, Reserve: 10 * time.Second}, clock: true, now: time.Now, log: slog.New(slog.DiscardHandler),
	}
}

// due returns a pass function that finds something due in the first n passes.
func due(n int) func(context.Context, int) (Result, error) {
	return func(_ context.Context, pass int) (Result, error) {
		if pass <= n {
			return Result{Due: 1}, nil
		}
		return Result{}, nil
	}
}

func seconds(list ...float64) []time.Duration {
	var out []time.Duration
	for _, s := range list {
		out = append(out, time.Duration(s*float64(time.Second)))
	}
	return out
}

func same(t *testing.T, what string, got, want []time.Duration) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s at %v; want %v", what, got, want)
	}
}

// TestBeats: passes start on the beat, also after a long or failed one, until nothing is due, or 10 s before the deadline.
// Then the leases are released while there is time for it. Only a failure that no later passes made good is reported.
func TestBeats(t *testing.T) {
	bad := func(from, to, hangs int) func(context.Context, int) (Result, error) {
		return func(ctx context.Context, n int) (Result, error) {
			switch {
			case n == hangs:
				<-ctx.Done()
				return Result{}, ctx.Err()
			case n >= from && n <= to:
				return Result{}, errors.New("throttled")
			}
			return Result{Due: hangs}, nil
		}
	}
	for name, c := range map[string]struct {
		pass     func(ctx context.Context, n int) (Result, error)
		passes   []time.Duration
		released time.Duration
		refused  error // the answer to the release of the leases, which then expire
		fails    bool
	}{
		"nothing is due": {pass: due(0), passes: seconds(0)},
		"three are due":  {pass: due(3), passes: seconds(0, 1, 2, 3), released: 3 * time.Second},
		"busy":           {pass: due(1000), passes: seconds(0, 1, 2, 3, 4), released: 5 * time.Second},
		"long passes": {pass: func(_ context.Context, n int) (Result, error) {
			wait(seconds(0.7, 2.5, 0, 0)[n-1])
			return Result{Due: max(4-n, 0)}, nil
		}, passes: seconds(0, 1, 3.5, 4.5), released: 4500 * time.Millisecond},
		"behind": {pass: func(_ context.Context, n int) (Result, error) { return Result{Behind: n < 3}, nil }, passes: seconds(0, 1, 2),
			released: 2 * time.Second},
		"cut off after good ones":       {pass: bad(0, 0, 3), passes: seconds(0, 1, 2), released: 5 * time.Second},
		"cut off from the first":        {pass: bad(0, 0, 1), passes: seconds(0), released: 5 * time.Second, fails: true},
		"cut off after a bad one":       {pass: bad(2, 2, 3), passes: seconds(0, 1, 2), released: 5 * time.Second, fails: true},
		"cut off long after a bad one":  {pass: bad(2, 2, 4), passes: seconds(0, 1, 2, 3), released: 5 * time.Second},
		"bad, then good":                {pass: bad(1, 2, 0), passes: seconds(0, 1, 2), released: 2 * time.Second},
		"bad to the last":               {pass: bad(1, 9, 0), passes: seconds(0, 1, 2, 3, 4), released: 5 * time.Second, fails: true},
		"the leases cannot be released": {pass: due(0), passes: seconds(0), refused: errors.New("throttled")},
	} {
		fixture.Bubble(t, name, func(t *testing.T) {
			var tr trace
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			b := beating(&tr, c.pass)
			release := b.release
			b.release = func(ctx context.Context) error {
				check.OK(t, release(ctx))
				return c.refused
			}
			if err := b.Run(ctx); (err != nil) != c.fails {
				t.Errorf("%v; want an error: %t", err, c.fails)
			}
			same(t, "passes", tr.passes, c.passes)
			same(t, "leases given back", tr.released, []time.Duration{c.released})
		})
	}
}

// TestIdle: a wake-up makes no pass only if there is certainly nothing to do.
func TestIdle(t *testing.T) {
	now := time.Now()
	at := core.InstantOf(now)
	for name, c := range map[string]struct {
		global core.Global
		due    core.Instant // 0: nothing
		err    error
		idle   bool
	}{
		"nothing":          {idle: true},
		"due later":        {due: at + 60, idle: true},
		"due in a second":  {due: at + 1},
		"a walk is noted":  {global: core.Global{Loss: core.Loss{From: 1}}},
		"two partitions":   {global: core.Global{Partitions: 2}},
		"two are readable": {global: core.Global{Readable: 2}},
		"cannot be read":   {err: core.ErrThrottled},
	} {
		s := memory.Open(t, memory.Options{})
		c.global.Rev = 1
		errs := []error{s.PutGlobal(t.Context(), 0, c.global)}
		if c.due != 0 {
			errs = append(errs, s.Enter(t.Context(), []core.DueItem{{PlanAt: c.due, Job: 1, Run: core.NumberedRun(1, 1)}})...)
		}
		check.OK(t, errs...)
		if c.err != nil {
			s = hook.Over(s, func(context.Context, *hook.Call, func() []error) []error { return []error{c.err} })
		}
		tk := &Ticker{s: s, o: Options{Now: func() time.Time { return now }}}
		if got := tk.idle(t.Context(), time.Second); got != c.idle {
			t.Errorf("%s: idle %t, want %t", name, got, c.idle)
		}
		if late := c.due != 0 && !c.idle; late != !tk.waiting.IsZero() {
			t.Errorf("%s: the earliest waits since %v", name, tk.waiting)
		}
		synctest.Test(t, func(t *testing.T) {
			var tr trace
			b := beating(&tr, due(0))
			b.idle = func(context.Context, time.Duration) bool { return c.idle }
			if err := b.Run(t.Context()); err != nil || (len(tr.passes) == 0) != c.idle {
				t.Errorf("%s: %d passes, %v", name, len(tr.passes), err)
			}
			b.clock, tr.passes = false, nil // another tick started it
			if err := b.Run(t.Context()); err != nil || len(tr.passes) == 0 {
				t.Errorf("%s, woken by another: %d passes, %v", name, len(tr.passes), err)
			}
		})
	}
}

func wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// TestBeatsWakeOthers: a tick wakes others for partitions without a ticker, some for each, even after a failed pass. It
// wakes again, since invocations may fail to start. It stays until all are checked, and continues at once while it
// finds nothing. A tick that another one woke wakes none.
func TestBeatsWakeOthers(t *testing.T) {
	round := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // start of a bubble
	skips := func(list ...int) (out []Wake) {
		for _, n := range list {
			out = append(out, Wake{Round: round, Skip: n})
		}
		return out
	}
	type pass struct{ due, held, unseen int }
	for name, c := range map[string]struct {
		wake   Wake
		passes []pass
		bad    int // number of a pass that fails
		err    error
		want   []Wake
		at     []time.Duration
	}{
		"all checked":  {passes: []pass{{due: 1, held: 4}, {held: 4}}, at: seconds(0, 1)},
		"one for each": {passes: []pass{{due: 1, held: 1, unseen: 3}, {due: 1, held: 1}, {}}, want: skips(1, 2, 3), at: seconds(0, 1, 2)},
		"one for some": {passes: []pass{{due: 1, held: 4, unseen: 9}, {due: 1, held: 4}, {}}, want: skips(4, 8, 12), at: seconds(0, 1, 2)},
		"they do not come": {passes: []pass{{1, 2, 2}, {1, 2, 2}, {1, 2, 2}, {1, 2, 2}, {1, 2, 2}, {1, 2, 2}, {}}, want: skips(2, 2),
			at: seconds(0, 1, 2, 3, 4, 5, 6)},
		"nothing to plan":  {passes: []pass{{held: 8, unseen: 8}, {held: 8}}, want: skips(8), at: seconds(0, 0)},
		"none to be had":   {passes: []pass{{unseen: 1}, {}}, want: skips(1), at: seconds(0, 1)},
		"the pass failed":  {passes: []pass{{due: 1, held: 1, unseen: 1}, {}}, bad: 1, want: skips(1), at: seconds(0, 1)},
		"refused":          {passes: []pass{{due: 1, held: 1, unseen: 1}, {}}, err: errors.New("429"), want: skips(1), at: seconds(0, 1)},
		"woken by another": {wake: Wake{Round: round, Skip: 2}, passes: []pass{{due: 1, held: 1, unseen: 3}, {}}, at: seconds(0, 1)},
	} {
		fixture.Bubble(t, name, func(t *testing.T) {
			var tr trace
			b := beating(&tr, func(_ context.Context, n int) (Result, error) {
				p := c.passes[n-1]
				res := Result{Due: p.due, Held: make([]int, p.held), Unseen: p.unseen}
				if n == c.bad {
					return res, errors.New("bad")
				}
				return res, nil
			})
			var mu sync.Mutex
			var woken []Wake
			b.clock, b.now = c.wake == Wake{}, time.Now
			b.o.Wake, b.o.WakeEvery, b.o.MaxWoken = c.wake, 5*time.Second, 32
			if b.clock {
				b.o.Wake.Round = time.Now().UTC()
			}
			b.o.Another = func(_ context.Context, w Wake) error {
				mu.Lock()
				defer mu.Unlock()
				woken = append(woken, w)
				return c.err
			}
			if err := b.Run(t.Context()); err != nil {
				t.Error(err)
			}
			slices.SortFunc(woken, func(a, b Wake) int { return a.Skip - b.Skip })
			if !slices.Equal(woken, c.want) {
				t.Errorf("woken %v, want %v", woken, c.want)
			}
			same(t, "passes", tr.passes, c.at)
		})
	}
}

// TestBeatsMinutelyTasks: minutely tasks run in parallel with the passes, and Run waits for them. Their errors carry
// their names.
func TestBeatsMinutelyTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b := beating(&tr, due(2))
		var ended []time.Duration
		boom := errors.New("no journal")
		b.o.Minutely = []Task{
			{"watchdog", func(ctx context.Context) error {
				wait(7 * time.Second)
				ended = append(ended, tr.at())
				return boom
			}},
			{"sign of life", func(context.Context) error { return nil }},
		}
		err := b.Run(ctx)
		if !errors.Is(err, boom) || !strings.Contains(err.Error(), "watchdog: ") || strings.Contains(err.Error(), "sign of life") {
			t.Errorf("%v; want the watchdog's error and its name", err)
		}
		same(t, "passes", tr.passes, seconds(0, 1, 2))
		same(t, "the watchdog ended", ended, seconds(7))
		same(t, "leases given back", tr.released, seconds(2)) // the next round may begin before the watchdog ends
	})
}

// TestBeatsCutTasks: a task that would continue is interrupted in time.
func TestBeatsCutTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		b := beating(&tr, due(0))
		b.o.Minutely = []Task{{"watchdog", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}}
		if err := b.Run(ctx); !errors.Is(err, context.DeadlineExceeded) || tr.at() != 20*time.Second {
			t.Errorf("%v after %s; want that the watchdog did not end in 20 s", err, tr.at())
		}
		same(t, "leases given back", tr.released, seconds(0))
	})
}

// TestPhase: passes begin late in a second, so that their messages on a queue with whole seconds arrive just before the
// due time. The first may wait a second for that.
func TestPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * time.Millisecond) // fake time
		var at []time.Duration
		b := &Beats{o: Invocation{Every: time.Second, Reserve: 10 * time.Second}, phase: 820 * time.Millisecond, now: time.Now,
			log: slog.New(slog.DiscardHandler),
			pass: func(context.Context) (Result, error) {
				now := time.Now()
				at = append(at, now.Sub(now.Truncate(time.Second)))
				time.Sleep(time.Duration(len(at)) * 300 * time.Millisecond)
				return Result{Due: 4 - len(at)}, nil
			}, release: func(context.Context) error { return nil }}
		check.OK(t, b.Run(t.Context()))
		if len(at) != 4 {
			t.Fatalf("%d passes", len(at))
		}
		for _, d := range at {
			if d != 820*time.Millisecond {
				t.Errorf("a pass began at %s", d)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+100*time.Millisecond)
		defer cancel()
		if err := b.Run(ctx); err == nil {
			t.Error("its time was over before the first pass, without a notification")
		}
	})
}

// TestBeatsTell: only problems are reported: a lag longer than two wake-ups can cause, and lost runs.
func TestBeatsTell(t *testing.T) {
	for name, c := range map[string]struct {
		res  Result
		lag  time.Duration
		lost int
	}{
		"idle":         {},
		"two wake-ups": {res: Result{Due: 1, Lag: 119 * time.Second}},
		"behind":       {res: Result{Due: 1, Lag: 150 * time.Second}, lag: 150 * time.Second},
		"lost":         {res: Result{Due: 1, Recovered: 2}, lost: 2},
	} {
		fixture.Bubble(t, name, func(t *testing.T) {
			var tr trace
			b := beating(&tr, func(_ context.Context, n int) (Result, error) {
				if n == 1 {
					return c.res, nil
				}
				return Result{}, nil
			})
			lag, lost := time.Duration(0), 0
			b.o.Tell = func(l time.Duration, recovered int) { lag, lost = lag+l, lost+recovered }
			if err := b.Run(t.Context()); err != nil || lag != c.lag || lost != c.lost {
				t.Errorf("lag %v, lost %v, %v; want %v, %v", lag, lost, err, c.lag, c.lost)
			}
		})
	}
}
