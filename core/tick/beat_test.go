package tick

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// trace is what one invocation did, and when.
type trace struct {
	began    time.Time
	passes   []time.Duration
	released []time.Duration
	invoked  []time.Duration
}

func (tr *trace) at() time.Duration { return time.Since(tr.began) }

// beating makes beats whose n-th pass (from 1) answers what pass says.
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
		o: Invocation{Every: time.Second, Reserve: 10 * time.Second}, log: slog.New(slog.DiscardHandler),
	}
}

// due answers that something was due in the first n passes.
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
	if len(got) != len(want) {
		t.Errorf("%s at %v; want %v", what, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s at %v; want %v", what, got, want)
			return
		}
	}
}

func TestBeatsUntilNothingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := beating(&tr, due(3)).Run(ctx); err != nil {
			t.Error(err)
		}
		same(t, "passes", tr.passes, seconds(0, 1, 2, 3))
		same(t, "leases given back", tr.released, seconds(3))
	})
}

// An idle deployment makes one pass a minute.
func TestBeatsOnceWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		if err := beating(&tr, due(0)).Run(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "passes", tr.passes, seconds(0))
		same(t, "leases given back", tr.released, seconds(0))
	})
}

// The beat is kept where a pass takes long, and a pass longer than a beat is
// followed by the next at once.
func TestBeatsCountFromTheStartOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		took := seconds(0.7, 2.5, 0, 0)
		b := beating(&tr, func(_ context.Context, n int) (Result, error) {
			wait(took[n-1])
			return Result{Due: max(4-n, 0)}, nil
		})
		if err := b.Run(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "passes", tr.passes, seconds(0, 1, 3.5, 4.5))
	})
}

func wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// What is behind goes on though it says that nothing was due.
func TestBeatsWhileBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		b := beating(&tr, func(_ context.Context, n int) (Result, error) { return Result{Behind: n < 3}, nil })
		if err := b.Run(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "passes", tr.passes, seconds(0, 1, 2))
	})
}

func TestBeatsEndBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		b := beating(&tr, due(1000))
		var leases error
		release := b.release
		b.release = func(ctx context.Context) error {
			leases = release(ctx)
			return leases
		}
		if err := b.Run(ctx); err != nil {
			t.Error(err)
		}
		same(t, "passes", tr.passes, seconds(0, 1, 2, 3, 4))
		same(t, "leases given back", tr.released, seconds(5))
		if leases != nil {
			t.Errorf("the leases were given back with a context that had ended: %v", leases)
		}
	})
}

// A pass that the end cuts off after good ones is no failure: the alarm would
// ring each minute of a busy day. One that hangs from the first on is.
func TestBeatsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		hangs int // the pass that hangs
		bad   int // a pass that fails
		fails bool
	}{
		"after good ones":  {hangs: 3},
		"from the first":   {hangs: 1, fails: true},
		"after a bad one":  {hangs: 3, bad: 2, fails: true},
		"long after a bad": {hangs: 4, bad: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tr trace
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				err := beating(&tr, func(ctx context.Context, n int) (Result, error) {
					switch n {
					case c.hangs:
						<-ctx.Done()
						return Result{}, ctx.Err()
					case c.bad:
						return Result{}, errors.New("throttled")
					}
					return Result{Due: 1}, nil
				}).Run(ctx)
				if (err != nil) != c.fails {
					t.Errorf("%v; want an error: %t", err, c.fails)
				}
				same(t, "leases given back", tr.released, seconds(5))
			})
		})
	}
}

// A failed pass is tried again, and only a last one that failed is told.
func TestBeatsAfterAFailure(t *testing.T) {
	boom := errors.New("throttled")
	for name, c := range map[string]struct {
		bad    func(n int) bool
		passes int
		fails  bool
	}{
		"passing":     {bad: func(n int) bool { return n <= 2 }, passes: 3},
		"to the last": {bad: func(int) bool { return true }, passes: 5, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tr trace
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				err := beating(&tr, func(_ context.Context, n int) (Result, error) {
					if c.bad(n) {
						return Result{}, boom
					}
					return Result{}, nil
				}).Run(ctx)
				if errors.Is(err, boom) != c.fails {
					t.Errorf("%v; want the error: %t", err, c.fails)
				}
				if len(tr.passes) != c.passes {
					t.Errorf("%d passes, want %d", len(tr.passes), c.passes)
				}
			})
		})
	}
}

// Free partitions wake another tick, once, and not after a failed pass; one
// that cannot be woken is no failure, for the clock wakes one.
func TestBeatsWakeAnother(t *testing.T) {
	for name, c := range map[string]struct {
		free func(n int) int
		bad  int
		err  error
		want []time.Duration
	}{
		"free from the first": {free: func(int) int { return 2 }, want: seconds(0)},
		"free later":          {free: func(n int) int { return n - 2 }, want: seconds(2)},
		"none free":           {free: func(int) int { return 0 }},
		"the pass failed":     {free: func(int) int { return 1 }, bad: 1, want: seconds(1)},
		"refused":             {free: func(int) int { return 1 }, err: errors.New("429"), want: seconds(0)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tr trace
				b := beating(&tr, func(ctx context.Context, n int) (Result, error) {
					res, _ := due(4)(ctx, n)
					res.Free = c.free(n)
					if n == c.bad {
						return res, errors.New("bad")
					}
					return res, nil
				})
				b.another = func(context.Context) error {
					tr.invoked = append(tr.invoked, tr.at())
					return c.err
				}
				if err := b.Run(t.Context()); err != nil {
					t.Error(err)
				}
				same(t, "another woken", tr.invoked, c.want)
				same(t, "passes", tr.passes, seconds(0, 1, 2, 3, 4))
			})
		})
	}
}

// Tasks of each minute run beside the passes, are waited for before the leases
// go back, and what they fail of is told with their names.
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
		same(t, "leases given back", tr.released, seconds(7))
	})
}

// A task that would go on is cut off in time for the leases.
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
		if err := b.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v; want that the watchdog did not end", err)
		}
		same(t, "leases given back", tr.released, seconds(20))
	})
}

// Leases that cannot be given back run out: a warning, not a failure.
func TestBeatsReleaseRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		b := beating(&tr, due(0))
		b.release = func(context.Context) error { return errors.New("throttled") }
		if err := b.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestPhase: passes begin late in a second, so that what they put on a queue of
// whole seconds comes just before its slot; the first may wait a second for it.
func TestPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * time.Millisecond) // of the bubble
		var at []time.Duration
		b := &Beats{o: Invocation{Every: time.Second, Reserve: 10 * time.Second}, phase: 820 * time.Millisecond, log: slog.New(slog.DiscardHandler),
			pass: func(context.Context) (Result, error) {
				now := time.Now()
				at = append(at, now.Sub(now.Truncate(time.Second)))
				time.Sleep(time.Duration(len(at)) * 300 * time.Millisecond)
				return Result{Due: 4 - len(at)}, nil
			}, release: func(context.Context) error { return nil }}
		if err := b.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
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
			t.Error("its time was over before the first pass, and nobody was told")
		}
	})
}

// Only what is not as it should be is told: a lag that two wake-ups cannot have
// made, and fires that were lost.
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}
