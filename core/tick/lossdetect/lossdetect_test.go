package lossdetect_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/core/tick/lossdetect"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// flow is how messages are delivered.
type flow struct {
	// age is the age of the oldest message, from a queue that only knows that one is in flight; 0: the true age.
	age    time.Duration
	stands func(time.Duration) bool // nothing is taken from the delay queue
	busy   core.RunID               // this run is always requeued
	// behind returns when the queue fell behind, as time since the beginning; 0: it is not behind.
	behind func(time.Duration) time.Duration
	again  bool // runs sent again are lost too
	older  bool // a read that may return an older state does: every other one of jobs, each one of runs
}

// on returns the store that a ticker of the flow uses.
func (f *flow) on(s store.Store) *store.Store {
	began, data := time.Now(), s
	switch {
	case f.age != 0:
		s.Queue = hook.Queue{Queue: s.Queue, DoOldest: func(context.Context) (ring.Oldest, error) {
			return ring.Oldest{Due: time.Now().Add(-f.age)}, nil
		}}
	case f.behind != nil:
		s.Queue = hook.Queue{Queue: s.Queue, DoOldest: func(context.Context) (ring.Oldest, error) {
			if since := f.behind(time.Since(began)); since != 0 {
				return ring.Oldest{Due: began.Add(since)}, nil
			}
			return ring.Oldest{}, nil
		}}
	}
	if !f.older {
		return &s
	}
	reads, was := 0, hook.JobMap{}
	s.Jobs = hook.Jobs{Jobs: s.Jobs, DoGet: func(ctx context.Context, part store.Part, ids []core.JobID) (hook.JobMap, error) {
		found, err := data.Jobs.Get(ctx, part, ids)
		reads++
		for id, j := range found {
			if older, is := was[id]; is && reads%2 == 0 && glance.Of(ctx) != nil {
				found[id] = older
			}
			was[id] = j
		}
		return found, err
	}}
	s.Runs = hook.Runs{Runs: s.Runs, DoSpan: func(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
		if glance.Of(ctx) != nil {
			return nil, nil
		}
		return data.Runs.Span(ctx, first, last, limit)
	}}
	return &s
}

// purged lets hours pass with a ticker as on AWS. While lose returns true, messages are acknowledged without a run, as
// after a purge of the queue.
func purged(t *testing.T, f flow, hours int, jobs []core.Job, pause core.Pause, lose func(time.Duration) bool) (eng *store.Store,
	recovered, lost int) {
	t.Helper()
	eng = memory.Open(t, memory.Options{})
	began := time.Now()
	must(t, eng.PutApp(t.Context(), 0, core.App{Name: "shop", Rev: 1, Pause: pause}, core.Change{ID: 1, App: "shop"}))
	puts := make([]store.JobPut, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		puts[i].Create = j
		j.Def.ID, j.Def.App, j.Def.Name = core.JobID(i+1), "shop", string(rune('a'+i))
		sch, err := schedule.Compile(j.Sched.Schedule, j.Def.ID)
		must(t, err)
		j.Sched.ID, j.Sched.App, j.Sched.State, j.Sched.Rev, j.Sched.RevAt = j.Def.ID, "shop", core.Started, began.UnixMilli(), began
		j.Sched.Misfire, j.Sched.Grace = core.MisfireAll, time.Minute
		j.Sched = plan.Start(j.Sched, sch, plan.AWS())
	}
	must(t, eng.Jobs.Put(t.Context(), puts)...)
	tk := ticker(f.on(*eng))
	for range hours * 60 {
		for {
			res, err := tk.Pass(t.Context())
			must(t, err)
			recovered += res.Recovered
			if res.Due == 0 {
				break
			}
		}
		for range 60 {
			time.Sleep(time.Second) // fake time
			for f.stands == nil || !f.stands(time.Since(began)) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				got, err := eng.Queue.Receive(ctx, ring.KindFires, 100)
				cancel()
				if err != nil {
					break
				}
				for _, d := range got {
					for _, fire := range d.Message.Fires {
						if fire.Run == f.busy {
							back := ring.Message{Kind: ring.KindFires, Slot: fire.Slot, Try: d.Message.Try + 1, Fires: []core.Fire{fire}}
							eng.Queue.Enqueue(t.Context(), []ring.Out{{NotBefore: time.Now().Add(time.Minute), Message: back}})
							continue
						}
						if (f.again || fire.Cause != core.CauseMisfire) && lose(time.Since(began)) {
							lost++
							continue
						}
						eng.CreateRuns(t.Context(), []core.Run{{ID: fire.Run, App: "shop", State: core.Succeeded, Cause: fire.Cause, At: fire.At,
							Slot: fire.Slot, SentAt: time.Now()}})
					}
				}
				eng.Queue.Ack(t.Context(), got)
			}
		}
	}
	return eng, recovered, lost
}

func ticker(s *store.Store) *tick.Ticker {
	return tick.New(s, tick.Options{ID: "t", Plan: plan.AWS(), Loss: lossdetect.Options{After: 2 * time.Minute}})
}

func every(d time.Duration) core.Job {
	return core.Job{Sched: core.Sched{Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: d, Aligned: true}}}}}
}

// TestLostWindowIsSentAgain: when the next window of a job is planned, lost runs are found and sent again, and no
// others.
func TestLostWindowIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		minute := func(from, to int) func(time.Duration) bool {
			return func(d time.Duration) bool {
				return d > time.Duration(from)*time.Minute && d <= time.Duration(to)*time.Minute
			}
		}
		jobs := func() []core.Job {
			return []core.Job{every(time.Minute), every(7 * time.Second), every(40 * time.Minute)}
		}
		_, recovered, _ := purged(t, flow{}, 2, jobs(), core.Pause{}, minute(0, 0))
		if recovered != 0 {
			t.Errorf("%d instants sent again where nothing was lost", recovered)
		}
		began := core.InstantOf(time.Now())
		eng, recovered, lost := purged(t, flow{}, 4, jobs(), core.Pause{}, minute(38, 53))
		if lost < 140 || recovered != lost {
			t.Errorf("%d lost, %d sent again", lost, recovered)
		}
		for id, step := range []core.Instant{60, 7, 2400} {
			for at := began - began%step + step; at < began+3*3600; at += step {
				run := core.PlannedRun(core.JobID(id+1), at)
				runs, err := eng.Runs.Get(t.Context(), []core.RunID{run})
				if _, ok := runs[run]; err != nil || !ok {
					t.Fatalf("job %d has no run for %s (%s after the beginning): %v", id+1, at, at.Time().Sub(began.Time()), err)
				}
			}
		}
	})
}

// TestOlderStatesLoseNothing: a planner that reads older states of jobs and runs makes copies, finds no loss where there is none,
// and finds each loss.
func TestOlderStatesLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for _, lost := range []bool{false, true} {
			from := core.InstantOf(time.Now())
			eng, recovered, _ := purged(t, flow{older: true}, 3, []core.Job{every(time.Minute), every(40 * time.Minute)}, core.Pause{},
				func(d time.Duration) bool { return lost && d > 38*time.Minute && d <= 53*time.Minute })
			if recovered > 0 != lost {
				t.Errorf("lost %t: %d instants sent again", lost, recovered)
			}
			for id, step := range []core.Instant{60, 2400} {
				for at := from - from%step + step; at < from+2*3600; at += step {
					run := core.PlannedRun(core.JobID(id+1), at)
					runs, err := eng.Runs.Get(t.Context(), []core.RunID{run})
					if _, ok := runs[run]; err != nil || !ok {
						t.Fatalf("lost %t: job %d has no run for %s (%s after the beginning): %v", lost, id+1, at, at.Time().Sub(began), err)
					}
				}
			}
		}
	})
}

// TestPausedIsNotLost: times in a pause of the app are not sent again.
func TestPausedIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := time.Now().Add(35 * time.Minute)
		pause := core.Pause{From: from, To: from.Add(20 * time.Minute)}
		_, recovered, lost := purged(t, flow{}, 2, []core.Job{every(time.Minute)}, pause,
			func(d time.Duration) bool { return d >= 35*time.Minute && d < 55*time.Minute })
		if lost == 0 || recovered != 0 {
			t.Errorf("%d fell, %d sent again", lost, recovered)
		}
	})
}

// TestLossIsFoundWhileMessagesAreInFlight: with a message in flight, a queue may not know the age of its oldest
// message. Times before its earliest possible due time are compared.
func TestLossIsFoundWhileMessagesAreInFlight(t *testing.T) {
	for name, age := range map[string]time.Duration{"in flight": 3 * time.Minute, "due for long": 25 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, recovered, lost := purged(t, flow{age: age}, 4, []core.Job{every(time.Minute), every(7 * time.Second)}, core.Pause{},
					func(d time.Duration) bool {
						return d > 38*time.Minute && d <= 53*time.Minute
					})
				if lost < 140 || recovered < lost {
					t.Errorf("%d lost, %d sent again", lost, recovered)
				}
			})
		})
	}
}

// TestComparisonNeverJumps: runs lost while the queue was hours behind are found when it has caught up, and so are runs
// lost twice.
func TestComparisonNeverJumps(t *testing.T) {
	minutes := func(from, to int) func(time.Duration) bool {
		return func(d time.Duration) bool {
			return d > time.Duration(from)*time.Minute && d <= time.Duration(to)*time.Minute
		}
	}
	for name, f := range map[string]struct {
		flow
		lose func(time.Duration) bool
	}{
		"behind for two hours": {flow{behind: func(d time.Duration) time.Duration {
			if minutes(30, 150)(d) {
				return 30 * time.Minute
			}
			return 0
		}}, minutes(38, 120)},
		"lost again": {flow{again: true}, minutes(38, 70)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := core.InstantOf(time.Now())
				eng, recovered, lost := purged(t, f.flow, 5, []core.Job{every(time.Minute), every(time.Second), every(40 * time.Minute)}, core.Pause{},
					f.lose)
				if lost < 32*60 || recovered < lost {
					t.Errorf("%d lost, %d sent again", lost, recovered)
				}
				for id, step := range []core.Instant{60, 1, 2400} {
					for at := began - began%step + step; at < began+4*3600; at += step {
						run := core.PlannedRun(core.JobID(id+1), at)
						runs, err := eng.Runs.Get(t.Context(), []core.RunID{run})
						if _, ok := runs[run]; err != nil || !ok {
							t.Fatalf("job %d has no run for %s (%s after the beginning): %v", id+1, at, at.Time().Sub(began.Time()), err)
						}
					}
				}
			})
		})
	}
}

// TestManyAreCompared: all lost runs are sent again, however many a pass compares and however many were lost.
func TestManyAreCompared(t *testing.T) {
	for _, c := range []struct{ runs, lost time.Duration }{
		{0, budget.Recovered}, {0, budget.Recovered + 1}, {0, 3 * budget.Recovered},
		{budget.Compared, 10}, {budget.Compared + 1, 10}, {2 * budget.Compared, 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			const from = 30 * time.Minute
			begin, end := from+c.runs*time.Second, from+(c.runs+c.lost)*time.Second
			f := flow{behind: func(d time.Duration) time.Duration {
				if d > from && d <= end+10*time.Minute {
					return from
				}
				return 0
			}}
			hours := int(end/time.Hour) + 3
			began := core.InstantOf(time.Now())
			eng, _, lost := purged(t, f, hours, []core.Job{every(time.Second)}, core.Pause{},
				func(d time.Duration) bool { return d > begin && d <= end })
			runs, err := eng.Runs.Span(t.Context(), core.PlannedRun(1, began+1), core.PlannedRun(1, began+core.Instant(end/time.Second)), 1e6)
			if err != nil || lost != int(c.lost) || len(runs) != int(end/time.Second) {
				t.Errorf("after %d runs %d are lost; %d of %d are there in the end: %v", c.runs, lost, len(runs), end/time.Second, err)
			}
		})
	}
}

// TestComparisonLooksBack: scheduled times are compared for two weeks. Older times are left out, and an error is
// logged. Times that a clean-up may have removed are left out too.
func TestComparisonLooksBack(t *testing.T) {
	for _, c := range []struct{ older, cleaned time.Duration }{
		{older: 0}, {older: time.Hour}, {older: 3 * budget.LookBack}, {cleaned: budget.LookBack / 2},
	} {
		older := c.older
		synctest.Test(t, func(t *testing.T) {
			wait := 10 * 365 * 24 * time.Hour // a bubble starts in 2000, before valid run IDs
			time.Sleep(wait)
			eng := memory.Open(t, memory.Options{})
			must(t, eng.PutApp(t.Context(), 0, core.App{Name: "shop", Rev: 1}, core.Change{ID: 1, App: "shop"}))
			now := time.Now()
			j := every(time.Hour)
			j.Def.ID, j.Def.App, j.Def.Name = 1, "shop", "a"
			j.Sched.ID, j.Sched.App, j.Sched.State, j.Sched.Rev, j.Sched.RevAt = 1, "shop", core.Started, 1, now.Add(-100*24*time.Hour)
			j.Sched.Next, j.Sched.PlanAt = core.InstantOf(now), core.InstantOf(now)
			j.Sched.Compared = core.InstantOf(now.Add(-budget.LookBack - older))
			must(t, eng.Jobs.Put(t.Context(), []store.JobPut{{Create: &j}})...)
			must(t, eng.PutCleaned(t.Context(), 1, core.InstantOf(now.Add(c.cleaned-budget.LookBack))))
			var log strings.Builder
			tk := tick.New(eng, tick.Options{ID: "t", Plan: plan.AWS(), Loss: lossdetect.Options{After: 2 * time.Minute},
				Log: slog.New(slog.NewTextHandler(&log, nil))})
			res, err := tk.Pass(t.Context())
			if err != nil || res.Recovered != int((budget.LookBack-c.cleaned)/time.Hour)-1 {
				t.Errorf("last compared %s before the two weeks, cleaned up to %s after: %d sent again, %v", older, c.cleaned, res.Recovered, err)
			}
			if strings.Contains(log.String(), "too old to compare") != (older > 0) {
				t.Errorf("last compared %s before the two weeks: logged %q", older, log.String())
			}
		})
	}
}

// TestPutBackForHours: a run that no executor accepts hides no loss, and does not count as lost, though it is not
// stored.
func TestPutBackForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flow{busy: core.PlannedRun(1, core.InstantOf(time.Now())/60*60+10*60)}
		_, recovered, lost := purged(t, f, 4, []core.Job{every(time.Minute), every(7 * time.Second)}, core.Pause{}, func(d time.Duration) bool {
			return d > 38*time.Minute && d <= 53*time.Minute
		})
		if lost < 140 || recovered != lost {
			t.Errorf("%d lost, %d sent again", lost, recovered)
		}
	})
}

// TestWhatWaitsIsNotLost: while nothing is taken from the queue, missing runs are in it, and none is sent again.
func TestWhatWaitsIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stands := func(d time.Duration) bool { return d > 38*time.Minute && d <= 83*time.Minute }
		jobs := []core.Job{every(time.Minute), every(7 * time.Second), every(40 * time.Minute)}
		if _, recovered, _ := purged(t, flow{stands: stands}, 3, jobs, core.Pause{}, func(time.Duration) bool { return false }); recovered != 0 {
			t.Errorf("%d instants sent again that waited", recovered)
		}
	})
}

// TestWaitOfAComparisonIsTold: while the queue is behind, a pass reports how long nothing could be compared.
func TestWaitOfAComparisonIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := memory.Open(t, memory.Options{})
		must(t, eng.PutApp(t.Context(), 0, core.App{Name: "shop", Rev: 1}, core.Change{ID: 1, App: "shop"}))
		j := every(time.Minute)
		j.Def.ID, j.Def.App, j.Def.Name = 1, "shop", "a"
		j.Sched.ID, j.Sched.App, j.Sched.State, j.Sched.Rev, j.Sched.RevAt = 1, "shop", core.Started, time.Now().UnixMilli(),
			time.Now().Add(-time.Hour)
		j.Sched.Next, j.Sched.PlanAt = core.InstantOf(time.Now()), core.InstantOf(time.Now())
		must(t, eng.Jobs.Put(t.Context(), []store.JobPut{{Create: &j}})...)
		tk := ticker((&flow{age: 40 * time.Minute}).on(*eng))
		res, err := tk.Pass(t.Context())
		if err != nil || res.Uncompared < 37*time.Minute || res.Uncompared > 39*time.Minute {
			t.Errorf("it waits for %s: %v", res.Uncompared, err)
		}
		told := time.Duration(-1)
		b := tk.Beats(tick.Invocation{Tell: func(lag time.Duration, _ int) { told = max(told, lag) }})
		time.Sleep(20 * time.Minute) // until it is planned again
		if err := b.Run(t.Context()); err != nil || told < 37*time.Minute {
			t.Errorf("told is %s: %v", told, err)
		}
	})
}

// TestUnknownAgeIsNoLag: if the queue's age is unknown, the wait of a job counts from its creation or last comparison.
func TestUnknownAgeIsNoLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, since := range []time.Duration{time.Minute, 50 * time.Minute} {
			eng := memory.Open(t, memory.Options{})
			must(t, eng.PutApp(t.Context(), 0, core.App{Name: "shop", Rev: 1}, core.Change{ID: 1, App: "shop"}))
			j := every(time.Minute)
			j.Def.ID, j.Def.App, j.Def.Name = 1, "shop", "a"
			j.Sched.ID, j.Sched.App, j.Sched.State, j.Sched.Rev, j.Sched.RevAt = 1, "shop", core.Started, time.Now().UnixMilli(),
				time.Now().Add(-since)
			j.Sched.Next, j.Sched.PlanAt = core.InstantOf(time.Now()), core.InstantOf(time.Now())
			must(t, eng.Jobs.Put(t.Context(), []store.JobPut{{Create: &j}})...)
			tk := ticker((&flow{age: 50 * 365 * 24 * time.Hour}).on(*eng))
			res, err := tk.Pass(t.Context())
			if want := max(since-2*time.Minute, 0); err != nil || res.Uncompared != want {
				t.Errorf("a job of %s ago waits for %s, want %s: %v", since, res.Uncompared, want, err)
			}
		}
	})
}

// must stops the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	check.OK(t, errors.Join(errs...))
}
