package lossdetect_test

import (
	"context"
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
	"github.com/tickring/tickring/internal/testkit/fixture"
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
func (f *flow) on(s *store.Store) *store.Store {
	began, reads, was := time.Now(), 0, hook.JobMap{}
	return hook.Over(s, func(ctx context.Context, c *hook.Call, next func() []error) []error {
		switch {
		case c.Oldest && f.age != 0:
			c.GotOldest = ring.Oldest{Due: time.Now().Add(-f.age)}
			return []error{nil}
		case c.Oldest && f.behind != nil:
			if since := f.behind(time.Since(began)); since != 0 {
				c.GotOldest = ring.Oldest{Due: began.Add(since)}
			}
			return []error{nil}
		case c.Span && f.older && glance.Of(ctx) != nil:
			return []error{nil}
		}
		errs := next()
		if f.older && c.Jobs != nil {
			reads++
			for id, j := range c.GotJobs {
				if older, is := was[id]; is && reads%2 == 0 && glance.Of(ctx) != nil {
					c.GotJobs[id] = older
				}
				was[id] = j
			}
		}
		return errs
	})
}

// purged lets hours pass with a ticker as on AWS. While lose returns true, messages are acknowledged without a run, as
// after a purge of the queue.
func purged(t *testing.T, f flow, hours int, jobs []core.Job, pause core.Pause, lose func(time.Duration) bool) (eng *store.Store,
	recovered, lost int) {
	t.Helper()
	time.Sleep(time.Until(start)) // fake time
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
	tk := ticker(f.on(eng))
	for range hours * 60 {
		for {
			res, err := tk.Pass(t.Context())
			must(t, err)
			recovered += res.Recovered
			if res.Due == 0 {
				break
			}
		}
		for range 12 {
			time.Sleep(5 * time.Second) // fake time
			for f.stands == nil || !f.stands(time.Since(began)) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				got, err := eng.Queue.Receive(ctx, ring.KindFires, 100)
				cancel()
				if err != nil {
					break
				}
				var runs []core.Run
				for _, d := range got {
					for _, fire := range d.Message.Fires {
						if fire.Run == f.busy {
							back := ring.Message{Kind: ring.KindFires, Slot: fire.Slot, Try: d.Message.Try + 1, Fires: []core.Fire{fire}}
							eng.Queue.Enqueue(t.Context(), []ring.Out{{NotBefore: time.Now().Add(time.Minute), Message: back}})
							continue
						}
						if f.again && lose(time.Since(began)) || fire.Cause != core.CauseMisfire && lose(fire.At.Time().Sub(began)) {
							lost++
							continue
						}
						runs = append(runs, core.Run{ID: fire.Run, App: "shop", State: core.Succeeded, Cause: fire.Cause, At: fire.At,
							Slot: fire.Slot, SentAt: time.Now()})
					}
				}
				eng.CreateRuns(t.Context(), runs)
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

var must = check.OK

// start is the start of each test. No run has an ID of a time as early as the start of a bubble.
var start = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

// TestLosses: the lost runs are found and sent again, and no others. Each scheduled time then has a run.
func TestLosses(t *testing.T) {
	const second, minute = time.Second, time.Minute
	minutes := func(from, to int) func(time.Duration) bool {
		return func(d time.Duration) bool { return d >= time.Duration(from)*minute && d < time.Duration(to)*minute }
	}
	mixed, often := []time.Duration{minute, 7 * second, 40 * minute}, []time.Duration{minute, second, 40 * minute}
	for name, c := range map[string]struct {
		flow
		hours    int
		every    []time.Duration // of each job
		from, to int             // minutes in which messages are lost
		paused   bool            // the app was paused in these minutes
		lost     int             // at least
		more     bool            // more may be sent again than were lost
	}{
		"nothing is lost":  {hours: 2, every: mixed},
		"for 15 minutes":   {hours: 4, every: mixed, from: 38, to: 53, lost: 140},
		"in a pause":       {hours: 2, every: []time.Duration{minute}, from: 35, to: 55, paused: true, lost: 1},
		"older, none lost": {flow: flow{older: true}, hours: 3, every: []time.Duration{minute, 40 * minute}},
		"older states": {flow: flow{older: true}, hours: 3, every: []time.Duration{minute, 40 * minute}, from: 38, to: 53, lost: 1,
			more: true},
		"messages in flight": {flow: flow{age: 3 * minute}, hours: 4, every: mixed[:2], from: 38, to: 53, lost: 140, more: true},
		"in flight for long": {flow: flow{age: 25 * minute}, hours: 4, every: mixed[:2], from: 38, to: 53, lost: 140, more: true},
		"behind for two hours": {flow: flow{behind: func(d time.Duration) time.Duration {
			if minutes(30, 150)(d) {
				return 30 * minute
			}
			return 0
		}}, hours: 5, every: often, from: 38, to: 120, lost: 32 * 60, more: true},
		"lost again": {flow: flow{again: true}, hours: 5, every: often, from: 38, to: 70, lost: 32 * 60, more: true},
		// A run that no executor accepts is not stored, and is not lost.
		"one is put back for hours": {flow: flow{busy: core.PlannedRun(1, core.InstantOf(start)+600)}, hours: 4, every: mixed[:2], from: 38,
			to: 53, lost: 140},
		"messages wait for 45 minutes": {flow: flow{stands: minutes(38, 83)}, hours: 3, every: mixed},
	} {
		fixture.Bubble(t, name, func(t *testing.T) {
			var jobs []core.Job
			for _, d := range c.every {
				jobs = append(jobs, every(d))
			}
			var pause core.Pause
			if c.paused {
				pause = core.Pause{From: start.Add(time.Duration(c.from) * minute), To: start.Add(time.Duration(c.to) * minute)}
			}
			eng, recovered, lost := purged(t, c.flow, c.hours, jobs, pause, minutes(c.from, c.to))
			want := lost
			if c.paused {
				want = 0
			} else if c.older {
				want = min(lost, 1) // copies are lost too
			}
			if lost < c.lost || recovered < want || recovered > want && !c.more {
				t.Errorf("%d lost, %d sent again", lost, recovered)
			}
			if c.paused {
				return
			}
			began := core.InstantOf(start)
			for i, d := range c.every {
				step := core.Instant(d / second)
				for at := began - began%step + step; at < began.Add(time.Duration(c.hours-1)*time.Hour); at += step {
					run := core.PlannedRun(core.JobID(i+1), at)
					runs, err := eng.Runs.Get(t.Context(), []core.RunID{run})
					if _, ok := runs[run]; err != nil || !ok && run != c.busy {
						t.Fatalf("job %d has no run for %s (%s after the beginning): %v", i+1, at, at.Time().Sub(start), err)
					}
				}
			}
		})
	}
}

// one returns a store with one job, which is due now.
func one(t *testing.T, j core.Job, change func(*core.Sched)) *store.Store {
	t.Helper()
	time.Sleep(time.Until(start)) // fake time
	eng := memory.Open(t, memory.Options{})
	must(t, eng.PutApp(t.Context(), 0, core.App{Name: "shop", Rev: 1}, core.Change{ID: 1, App: "shop"}))
	s, now := &j.Sched, core.InstantOf(time.Now())
	j.Def.ID, j.Def.App, j.Def.Name = 1, "shop", "a"
	s.ID, s.App, s.State, s.Rev, s.Next, s.PlanAt = 1, "shop", core.Started, 1, now, now
	change(s)
	must(t, eng.Jobs.Put(t.Context(), []store.JobPut{{Create: &j}})...)
	return eng
}

// TestWaitOfAComparisonIsTold: while the queue is behind, a pass reports how long nothing could be compared. If the queue's age is
// unknown, the wait of a job counts from its creation or last comparison.
func TestWaitOfAComparisonIsTold(t *testing.T) {
	for _, c := range []struct{ age, since, least, most time.Duration }{
		{40 * time.Minute, time.Hour, 37 * time.Minute, 39 * time.Minute},
		{50 * 365 * 24 * time.Hour, time.Minute, 0, 0},
		{50 * 365 * 24 * time.Hour, 50 * time.Minute, 48 * time.Minute, 48 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			eng := one(t, every(time.Minute), func(s *core.Sched) { s.RevAt = time.Now().Add(-c.since) })
			tk := ticker((&flow{age: c.age}).on(eng))
			res, err := tk.Pass(t.Context())
			if err != nil || res.Uncompared < c.least || res.Uncompared > c.most {
				t.Errorf("a job of %s ago waits for %s: %v", c.since, res.Uncompared, err)
			}
			told := time.Duration(-1)
			b := tk.Beats(tick.Invocation{Tell: func(lag time.Duration, _ int) { told = max(told, lag) }})
			time.Sleep(20 * time.Minute) // until it is planned again
			if err := b.Run(t.Context()); err != nil || told < c.least {
				t.Errorf("told is %s: %v", told, err)
			}
		})
	}
}

// TestManyAreCompared: all lost runs are sent again, however many a pass compares and however many were lost.
func TestManyAreCompared(t *testing.T) {
	for _, c := range []struct{ runs, lost time.Duration }{
		{0, budget.Recovered}, {0, 2*budget.Recovered + 1}, {budget.Compared, 10}, {budget.Compared + 1, 10},
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
			began := core.InstantOf(start)
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
			eng := one(t, every(time.Hour), func(s *core.Sched) {
				s.RevAt, s.Compared = start.Add(-100*24*time.Hour), core.InstantOf(start.Add(-budget.LookBack-older))
			})
			must(t, eng.PutCleaned(t.Context(), 1, core.InstantOf(start.Add(c.cleaned-budget.LookBack))))
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

// TestLossIsNotedUntilItIsStored: a loss is found once, since the runs are then sent again. It is recorded first, even
// if the first write fails or its finder dies. If a scan may have passed it, another scan follows.
func TestLossIsNotedUntilItIsStored(t *testing.T) {
	began := core.InstantOf(start)
	ago := func(m int) core.Instant { return began - core.Instant(m*60) }
	from := ago(7) - core.Instant(plan.AWS().MaxAhead/time.Second) // the first lost run was due seven minutes ago
	for name, c := range map[string]struct {
		was     core.Loss
		refused error // result of the first write
		want    core.Loss
		later   bool // a scan starts once HealEvery has passed
	}{
		"nothing is noted": {want: core.Loss{From: from}},
		"refused":          {refused: core.ErrRefused, want: core.Loss{From: from}},
		"throttled":        {refused: core.ErrThrottled, want: core.Loss{From: from}},
		"asked for":        {was: core.Loss{From: from, At: began.Time()}, want: core.Loss{From: from}},
		"asked for, but not from so early": {was: core.Loss{From: from + 1, At: began.Time()},
			want: core.Loss{From: from + 1, Again: from}},
		"asked for before it was lost": {was: core.Loss{From: ago(60), At: ago(20).Time()}, want: core.Loss{From: ago(60), Again: from}},
		"under way": {was: core.Loss{From: ago(60), Next: "7", At: began.Time()},
			want: core.Loss{From: ago(60), Next: "7", Again: from}},
		"under way, and refused": {was: core.Loss{From: ago(60), Next: "7", At: began.Time()}, refused: core.ErrRefused,
			want: core.Loss{From: ago(60), Next: "7", Again: from}},
		"lost again before": {was: core.Loss{From: ago(60), Next: "7", Again: ago(50), At: began.Time()},
			want: core.Loss{From: ago(60), Next: "7", Again: ago(50)}},
		"over":                 {was: core.Loss{At: ago(1).Time()}, want: core.Loss{Again: from}, later: true},
		"over for a long time": {was: core.Loss{At: ago(16).Time()}, want: core.Loss{From: from}},
	} {
		fixture.Bubble(t, name, func(t *testing.T) {
			eng := one(t, every(time.Minute), func(s *core.Sched) { s.RevAt, s.Next = ago(8).Time(), began+60 })
			g := core.Global{Partitions: 1, Readable: 1, Groups: 1, Busy: time.Now().UTC(), Loss: c.was, Rev: 1}
			must(t, eng.PutGlobal(t.Context(), 0, g))
			refuse := c.refused // the first write that changes the recorded losses
			st := hook.Over(eng, func(_ context.Context, c *hook.Call, next func() []error) []error {
				if refuse != nil && c.Write != nil {
					if w := &c.Write[0].Writes[0]; w.Kind == "global" && strings.Contains(string(w.Body), `"loss"`) {
						err := refuse
						refuse = nil
						return []error{err}
					}
				}
				return next()
			})
			tk := ticker(st)
			found := func(want core.Loss) {
				t.Helper()
				for range 3 {
					res, err := tk.Pass(t.Context())
					if err != nil && c.refused == nil {
						t.Fatal(err)
					}
					if c.refused != nil { // it dies; the next invocation starts without its state
						tk = ticker(st)
					}
					for range res.Recovered { // it is run
						eng.CreateRuns(t.Context(), []core.Run{{ID: core.PlannedRun(1, ago(7)), App: "shop", State: core.Succeeded}})
					}
					time.Sleep(time.Second)
				}
				g, err := eng.Global(t.Context())
				want.At = g.Loss.At
				if err != nil || g.Loss != want {
					t.Errorf("noted is %+v, want %+v: %v", g.Loss, want, err)
				}
			}
			found(c.want)
			if c.later {
				time.Sleep(15 * time.Minute)
				tk.Pass(t.Context())
				g, _ := eng.Global(t.Context())
				if g.Loss.From == 0 || g.Loss.From > c.want.Again || g.Loss.Again != 0 && g.Loss.Again < g.Loss.From {
					t.Errorf("no walk was asked for: %+v", g.Loss)
				}
			}
		})
	}
}

// TestLossIsFoundBeforeThePlanning: jobs that fire each minute are planned eleven minutes at a time. A wake-up in between
// sees that a recent scheduled time has no run and records the loss. Stored runs, requeued runs, and times that a scan
// will check are no loss.
func TestLossIsFoundBeforeThePlanning(t *testing.T) {
	began := core.InstantOf(start)
	ago := func(m int) core.Instant { return began - core.Instant(m*60) }
	walk := core.Loss{From: ago(60), Next: "7", At: began.Time()}
	for name, c := range map[string]struct {
		run  []core.Instant
		back []core.Instant
		was  core.Loss
		want core.Instant // the first lost time; 0: none recorded
	}{
		"both lost":             {want: ago(3)},
		"one lost":              {run: []core.Instant{ago(3)}, want: ago(2)},
		"none lost":             {run: []core.Instant{ago(3), ago(2)}},
		"put back":              {run: []core.Instant{ago(3)}, back: []core.Instant{ago(2)}},
		"a walk is asked for":   {was: walk},
		"the other is requeued": {back: []core.Instant{ago(2)}, want: ago(3)},
	} {
		fixture.Bubble(t, name, func(t *testing.T) {
			eng := one(t, every(time.Minute), func(s *core.Sched) {
				s.RevAt, s.Next, s.PlanAt, s.Compared = ago(60).Time(), began+600, began+390, ago(12)
			})
			must(t, eng.PutGlobal(t.Context(), 0, core.Global{Partitions: 1, Readable: 1, Groups: 1, Busy: time.Now().UTC(), Loss: c.was, Rev: 1}))
			for _, at := range c.run {
				r := core.Run{ID: core.PlannedRun(1, at), App: "shop", State: core.Succeeded, Cause: core.CauseSchedule}
				must(t, eng.CreateRuns(t.Context(), []core.Run{r})...)
			}
			for _, at := range c.back {
				f := core.Fire{Run: core.PlannedRun(1, at), Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}
				must(t, eng.Queue.Enqueue(t.Context(),
					[]ring.Out{{NotBefore: time.Now().Add(time.Minute), Message: ring.Message{Kind: ring.KindFires, Slot: at,
						Fires: []core.Fire{f}}}})...)
			}
			tk := tick.New(eng, tick.Invoked(tick.Options{ID: "t", Plan: plan.AWS()}))
			must(t, tk.Beats(tick.Invocation{}).Run(t.Context()))
			g, err := eng.Global(t.Context())
			must(t, err)
			want := c.was
			if c.want != 0 {
				want = core.Loss{From: c.want - core.Instant(plan.AWS().MaxAhead/time.Second), At: g.Loss.At}
			}
			if g.Loss != want {
				t.Errorf("noted is %+v, want %+v", g.Loss, want)
			}
		})
	}
}
