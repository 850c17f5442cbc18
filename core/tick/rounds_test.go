package tick_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/core/tick/partitioning"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/store"
)

// fleet is a deployment on Lambda: the clock starts a tick each minute, and ticks wake others.
type fleet struct {
	*world
	rates partitioning.Rates
	lives time.Duration // of an invocation
	wakes bool
	n     int
	all   sync.WaitGroup
	mu    sync.Mutex
	told  time.Duration // the longest lag
}

func newFleet(t *testing.T, partitions, jobs int, when core.When) *fleet {
	w := newWorld(t, partitions)
	w.seedAs(jobs, when, plan.AWS())
	return &fleet{world: w, rates: partitioning.Rates{Max: 16}, lives: time.Minute, wakes: true}
}

// wake begins an invocation. After its context ends it does nothing more, as on Lambda: it keeps its leases.
func (f *fleet) wake(w tick.Wake) {
	f.mu.Lock()
	f.n++
	id := fmt.Sprint("t", f.n)
	f.mu.Unlock()
	f.all.Go(func() {
		time.Sleep(60 * time.Millisecond) // fake time: until Lambda has started it
		ctx, cancel := context.WithTimeout(context.Background(), f.lives)
		defer cancel()
		log := slog.New(slog.DiscardHandler)
		t := tick.New(f.s, tick.Invoked(tick.Options{ID: id, Plan: plan.AWS(), Rates: f.rates, Log: log}))
		o := tick.Invocation{Wake: w, Tell: func(lag time.Duration, _ int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.told = max(f.told, lag)
		}}
		if f.wakes {
			o.Another = func(_ context.Context, w tick.Wake) error {
				f.wake(w)
				return nil
			}
		}
		_ = t.Beats(o).Run(ctx)
	})
}

// minutes starts a tick each minute and counts the enqueued copies of each run.
func (f *fleet) minutes(n int, fires map[core.RunID]int) {
	for range n {
		f.wake(tick.Wake{})
		time.Sleep(time.Minute)
		for _, id := range f.ringIDs() {
			fires[id]++
		}
	}
}

// lookedAt records the last check of each partition, and takes a while for each.
type lookedAt struct {
	store.Jobs
	takes time.Duration
	meet  func(n, partition int) error // before the nth check
	mu    sync.Mutex
	n     int
	at    map[int]time.Time
	worst map[int]time.Duration
}

func (s *lookedAt) Due(ctx context.Context, p int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error) {
	if after.PlanAt != 0 && after.Job == 0 { // from a sample, which plans nothing and is no check
		return s.Jobs.Due(ctx, p, upTo, after, limit)
	}
	time.Sleep(s.takes)
	s.mu.Lock()
	s.n++
	n := s.n
	s.mu.Unlock()
	if s.meet != nil {
		if err := s.meet(n, p); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := time.Now()
	s.mu.Lock()
	s.worst[p] = max(s.worst[p], now.Sub(s.at[p]))
	s.at[p] = now
	s.mu.Unlock()
	return s.Jobs.Due(ctx, p, upTo, after, limit)
}

// dying kills tickers together with their leases: their requests get no more answers.
type dying struct {
	store.Records
	mu     sync.Mutex
	holder map[string]string // owners by lease
	dead   map[string]bool
	each   int // each n-th request kills its ticker
	took   int
}

func (d *dying) Write(ctx context.Context, groups ...store.Group) []error {
	w := &groups[0].Writes[0]
	if w.Kind != "lease" {
		return d.Records.Write(ctx, groups...)
	}
	owner := ownerOf(w)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead[cmp.Or(owner, d.holder[w.Name])] {
		return []error{errors.New("killed")}
	}
	if owner != "" && owner != d.holder[w.Name] {
		d.took++
		d.dead[owner] = d.took%d.each == 0
	}
	errs := d.Records.Write(ctx, groups...)
	if errs[0] == nil {
		d.holder[w.Name] = owner
	}
	return errs
}

// ownerOf returns the owner in a write of a lease.
func ownerOf(w *store.Write) string {
	var l struct{ Owner string }
	_ = json.Unmarshal(w.Body, &l) // a deleted lease has no body
	return l.Owner
}

// TestEveryPartitionInEveryRound: every partition is checked in every round, whatever ticks do, that is within two
// minutes. A partition whose ticker dies or that fails delays only itself, at most until the next round.
func TestEveryPartitionInEveryRound(t *testing.T) {
	const partitions, rounds = 16, 20
	const minute = time.Minute
	const quick = 15 * time.Millisecond
	for name, c := range map[string]struct {
		takes time.Duration // duration of a check
		wakes bool          // others can be woken
		lives time.Duration
		meet  func(n, partition int) error // before the nth check
		dying bool
		most  time.Duration // that a partition may be left alone; 0: two minutes
		but   []int         // partitions that may be left alone for longer
	}{
		"as on a good day": {takes: quick, wakes: true},
		"slow":             {takes: 700 * time.Millisecond, wakes: true},
		"slow and alone":   {takes: 700 * time.Millisecond},
		"one partition cannot be read": {takes: quick, but: []int{3}, meet: func(_, partition int) error {
			if partition == 3 {
				return errors.New("no such index")
			}
			return nil
		}},
		"one partition takes all time": {takes: quick, but: []int{0}, meet: func(_, partition int) error {
			if partition == 0 {
				time.Sleep(time.Hour)
			}
			return nil
		}},
		"in a hurry": {takes: quick, lives: 11500 * time.Millisecond},
		"every fifth read is throttled": {takes: quick, wakes: true, meet: func(n, _ int) error {
			if n%5 == 0 {
				return core.ErrThrottled
			}
			return nil
		}},
		"each dies of its seventh lease": {takes: quick, dying: true, most: 4 * minute},
	} {
		fixture.Bubble(t, name, func(t *testing.T) {
			f := newFleet(t, partitions, 5*partitions, core.When{Kind: core.KindEvery, Every: minute, Aligned: true})
			jobs := &lookedAt{Jobs: f.s.Jobs, takes: c.takes, meet: c.meet, at: map[int]time.Time{}, worst: map[int]time.Duration{}}
			for p := range partitions {
				jobs.at[p] = time.Now()
			}
			if c.dying {
				f.s.Records = &dying{Records: f.s.Records, holder: map[string]string{}, dead: map[string]bool{}, each: 7}
			}
			if c.lives != 0 {
				f.lives = c.lives
			}
			f.s.Jobs, f.wakes = jobs, c.wakes
			f.minutes(rounds, map[core.RunID]int{})
			ended := time.Now()
			f.all.Wait()
			for p := range partitions {
				worst := max(jobs.worst[p], ended.Sub(jobs.at[p]))
				if worst > cmp.Or(c.most, 2*minute) && !slices.Contains(c.but, p) {
					t.Errorf("partition %d was left alone for %s", p, worst)
				}
			}
			if f.n > rounds*(partitions+1) {
				t.Errorf("%d ticks in %d minutes", f.n, rounds)
			}
		})
	}
}

// TestIdlePartitionsWakeNobody: one tick a minute handles an idle deployment with any number of partitions.
func TestIdlePartitionsWakeNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16, 16, core.When{Kind: core.KindCron, Expr: "0 0 5 1 1 ?"})
		f.s.Jobs = &lookedAt{Jobs: f.s.Jobs, takes: 15 * time.Millisecond, at: map[int]time.Time{}, worst: map[int]time.Duration{}}
		f.minutes(30, map[core.RunID]int{})
		f.all.Wait()
		if f.n != 30 {
			t.Errorf("%d ticks in 30 minutes", f.n)
		}
		leases, err := f.eng.Leases(t.Context())
		if err != nil || len(leases) != 16 {
			t.Errorf("leases of others than the partitions are left: %+v, %v", leases, err)
		}
	})
}

// TestRefusedAdvancesAreNoStorm: while advances fail for lack of capacity, passes do not enqueue runs again and again.
// One ticker enqueues each once; later tickers enqueue a few jobs several times. All runs are enqueued, and rejected
// advances do not count as load.
func TestRefusedAdvancesAreNoStorm(t *testing.T) {
	check.Long(t)
	for name, partitions := range map[string]int{"one partition": 1, "four": 4} {
		fixture.Bubble(t, name, func(t *testing.T) {
			const jobs, minutes = 600, 8
			f := newFleet(t, partitions, jobs, core.When{Kind: core.KindEvery, Every: time.Minute, Aligned: true})
			f.rates = partitioning.Rates{Max: 16, Advance: 20, GrowAfter: 10 * time.Second}
			var scarce time.Time // advances are rejected until then for lack of capacity
			tried := 0
			f.s = hook.Over(f.s, func(_ context.Context, c *hook.Call, next func() []error) []error {
				if c.Put == nil || !time.Now().Before(scarce) {
					return next()
				}
				tried += len(c.Put)
				return hook.Fail(core.ErrThrottled, len(c.Put))
			})
			f.minutes(20, map[core.RunID]int{})
			fires := map[core.RunID]int{}
			for planned := false; !planned; { // until the advances of all are due
				f.minutes(1, fires)
				planned = len(fires) > 0 && len(f.due(partitions, time.Now().Add(time.Minute))) > 0
			}
			clear(fires)
			scarce = time.Now().Add(minutes * time.Minute)
			f.minutes(minutes, fires)
			f.all.Wait()
			copies := 0
			for _, n := range fires {
				copies += n
			}
			if most := 4*len(fires) + minutes*partitions*50*10; copies > most || len(fires) < jobs*(minutes-4) {
				t.Errorf("%d copies of %d fires; %d are allowed", copies, len(fires), most)
			}
			if most := minutes * 60 * partitions * (jobs/partitions + 50) / 3; tried > most {
				t.Errorf("%d advances were tried, of a table that takes none", tried)
			}
			clear(fires)
			f.minutes(20, fires)
			f.all.Wait()
			if due := f.due(partitions, time.Now().Add(-2*time.Minute)); len(due) > 0 {
				t.Errorf("%d jobs are not planned", len(due))
			}
			if g, err := f.eng.Global(t.Context()); err != nil || g.Partitions != partitions {
				t.Errorf("what did not happen was counted as load: %+v, %v", g, err)
			}
		})
	}
}

// due returns the items due until then.
func (f *fleet) due(partitions int, until time.Time) (list []core.DueItem) {
	f.t.Helper()
	for p := range partitions {
		some, err := f.eng.Jobs.Due(f.t.Context(), p, core.InstantOf(until), core.DueItem{}, 10_000)
		must(f.t, err)
		list = append(list, some...)
	}
	return list
}

// TestJobsThatAreNeverStoredHoldUpNobody: after an outage, the fifty oldest jobs have advances that always fail, for
// example for lack of a permission. The other jobs are planned all the same.
func TestJobsThatAreNeverStoredHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, 500, core.When{Kind: core.KindEvery, Every: time.Minute, Aligned: true})
		f.s = hook.Over(f.s, func(_ context.Context, c *hook.Call, next func() []error) (errs []error) {
			if c.Put == nil {
				return next()
			}
			for _, p := range c.Put {
				if c.Put = []store.JobPut{p}; p.Advance.Job > 50 {
					errs = append(errs, next()...)
				} else {
					errs = append(errs, errors.New("not allowed"))
				}
			}
			return errs
		})
		time.Sleep(20 * time.Minute) // fake time: no ticker plans
		for range 12 {
			f.wake(tick.Wake{})
			time.Sleep(time.Minute)
		}
		f.all.Wait()
		var ids []core.JobID
		for id := range core.JobID(500) {
			ids = append(ids, id+1)
		}
		jobs, err := f.eng.Jobs.Get(t.Context(), store.Planning, ids)
		must(t, err)
		now := core.InstantOf(time.Now())
		for id, j := range jobs {
			if next := j.Is.Sched.Next; id > 50 && next < now-120 {
				t.Fatalf("job %d has not been planned since %s", id, next)
			}
		}
	})
}

// TestPartitionThatNobodyReadsIsTold: the reported lag includes partitions without a ticker.
func TestPartitionThatNobodyReadsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, 10, core.When{Kind: core.KindEvery, Every: time.Minute, Aligned: true})
		f.minutes(5, map[core.RunID]int{})
		f.told = 0 // from the beginning
		f.minutes(15, map[core.RunID]int{})
		if f.told != 0 {
			t.Fatalf("%s are reported on a good day", f.told)
		}
		f.s = hook.Over(f.s, func(_ context.Context, c *hook.Call, next func() []error) []error {
			if c.Write != nil { // no ticker gets the lease of the second partition
				if w := &c.Write[0].Writes[0]; w.Kind == "lease" && w.Name == "partition/1" && ownerOf(w) != "" {
					return []error{core.ErrThrottled}
				}
			}
			return next()
		})
		f.minutes(10, map[core.RunID]int{})
		f.all.Wait()
		if f.told < 8*time.Minute {
			t.Errorf("a partition was not checked for ten minutes; %s are reported", f.told)
		}
	})
}
