package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// Benchmarks measures an engine's calls on the path of a fire.
func Benchmarks(b *testing.B, open func(b *testing.B) *store.Store) {
	for _, n := range []int{500, 1000} {
		b.Run(fmt.Sprintf("Create%d", n), func(b *testing.B) { benchCreate(b, open(b), n) })
	}
	b.Run("CloseRuns500", func(b *testing.B) { benchClose(b, open(b), 500) })
	b.Run("Runs500", func(b *testing.B) { benchRuns(b, open(b), 500) })
	for _, n := range []int{1000, 100000} {
		s := open(b)
		Sleeping(b, s, n)
		b.Run(fmt.Sprintf("Due1000Of%d", n), func(b *testing.B) { BenchDue(b, s) })
		b.Run(fmt.Sprintf("Jobs1000Of%d", n), func(b *testing.B) { benchJobs(b, s) })
		b.Run(fmt.Sprintf("Advance500Of%d", n), func(b *testing.B) { benchAdvance(b, s, 500) })
	}
	b.Run("Fire", func(b *testing.B) { BenchFire(b, open(b)) })
}

func noErrors(b *testing.B, errs []error) {
	for _, err := range errs {
		check.OK(b, err)
	}
}

// perRow reports the time of one of n rows of an operation.
func perRow(b *testing.B, n int) {
	ns := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / float64(n)
	b.ReportMetric(ns, "ns/row")
	b.ReportMetric(1e9/ns, "rows/s")
}

// benchJobCount is how many jobs take turns in benchmarks.
const benchJobCount = 1000

func benchRun(i int) core.Run {
	return run(core.PlannedRun(core.JobID(i%benchJobCount+1), at(i/benchJobCount)))
}

func benchBatches(n, batches int) [][]core.Run {
	list := make([][]core.Run, batches)
	for k := range list {
		for i := range n {
			list[k] = append(list[k], benchRun(k*n+i))
		}
	}
	return list
}

func benchCreate(b *testing.B, s *store.Store, n int) {
	list := benchBatches(n, b.N)
	b.ResetTimer()
	for _, batch := range list {
		noErrors(b, s.CreateRuns(b.Context(), batch))
	}
	perRow(b, n)
}

func benchClose(b *testing.B, s *store.Store, n int) {
	var closes [][]core.RunPut
	for _, batch := range benchBatches(n, b.N) {
		noErrors(b, s.CreateRuns(b.Context(), batch))
		var list []core.RunPut
		for _, r := range batch {
			list = append(list, core.End(r.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base}))
		}
		closes = append(closes, list)
	}
	b.ResetTimer()
	for _, list := range closes {
		noErrors(b, s.ChangeRuns(b.Context(), list))
	}
	perRow(b, n)
}

func benchRuns(b *testing.B, s *store.Store, n int) {
	var ids []core.RunID
	for k, batch := range benchBatches(n, 40) {
		noErrors(b, s.CreateRuns(b.Context(), batch))
		if k%40 == 20 {
			for _, r := range batch {
				ids = append(ids, r.ID)
			}
		}
	}
	for b.Loop() {
		if found, err := s.Runs.Get(b.Context(), ids); err != nil || len(found) != n {
			b.Fatal(len(found), err)
		}
	}
	perRow(b, n)
}

// Sleeping creates n jobs that wait for a far time, and 1,000 that are due.
func Sleeping(b *testing.B, s *store.Store, n int) {
	b.Helper()
	noErrors(b, []error{s.PutApp(b.Context(), 0, core.App{Name: "orders", Rev: 1}, core.Change{ID: 1, At: base, App: "orders"})})
	var list []store.JobPut
	flush := func() {
		ok(b, s.Jobs.Put(b.Context(), list)...)
		list = list[:0]
	}
	for i := range n + 1000 {
		j := job(core.JobID(i + 1))
		if i >= 1000 {
			j.Sched.PlanAt = at(1e6 + i)
		}
		if list = append(list, creates(j)); len(list) == 1000 {
			flush()
		}
	}
	flush()
}

// WaitingRuns adds n runs to the due index that wait for a far time.
func WaitingRuns(b *testing.B, s *store.Store, n int) {
	b.Helper()
	for i := 0; i < n; i += 1000 {
		list := make([]store.JobPut, 1000)
		for k := range list {
			job := core.JobID(k + 1)
			list[k].Enter = &core.DueItem{PlanAt: at(1e6 + i + k), Job: job, Run: core.NumberedRun(job, uint32(i))}
		}
		noErrors(b, s.Jobs.Put(b.Context(), list))
	}
}

// BenchDue reads the 1,000 due jobs of Sleeping.
func BenchDue(b *testing.B, s *store.Store) {
	for b.Loop() {
		if items, err := s.Jobs.Due(b.Context(), 0, at(1000), core.DueItem{}, 1000); err != nil || len(items) != 1000 {
			b.Fatal(len(items), err)
		}
	}
}

func benchJobs(b *testing.B, s *store.Store) {
	ids := make([]core.JobID, 1000)
	for i := range ids {
		ids[i] = core.JobID(i + 1)
	}
	for b.Loop() {
		if found, err := s.Jobs.Get(b.Context(), store.Whole, ids); err != nil || len(found) != len(ids) {
			b.Fatal(len(found), err)
		}
	}
	perRow(b, len(ids))
}

func benchAdvance(b *testing.B, s *store.Store, n int) {
	ids := make([]core.JobID, n)
	for i := range ids {
		ids[i] = core.JobID(i + 1)
	}
	got, err := s.Jobs.Get(b.Context(), store.Planning, ids)
	check.OK(b, err)
	scheds := map[core.JobID]core.Sched{}
	for id, g := range got {
		scheds[id] = g.Is.Sched
	}
	moves := make([]core.Advance, n)
	for b.Loop() {
		for i, id := range ids {
			a := scheds[id].Stay()
			a.NewNext++
			a.NewPlanAt++
			a.NewSeq++
			moves[i] = a
			scheds[id] = scheds[id].Moved(a)
		}
		noErrors(b, s.Advance(b.Context(), moves))
	}
	perRow(b, n)
}

// BenchFire is one fire from plan to end as the port calls that it costs:
// 1/5 advance, 1/50 message, receipt, journal and ack, one claim, and reading
// and closing it in batches of 50. Eight drivers do it at a time.
func BenchFire(b *testing.B, s *store.Store) {
	Sleeping(b, s, 1000)
	const n, drivers = 500, 8
	var turn atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range drivers {
		all.Go(func() {
			for {
				k := int(turn.Add(1)) - 1
				if k >= b.N {
					return
				}
				if err := fires(b.Context(), s, k, n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	perRow(b, n)
}

// fires is one round of BenchFire; rounds differ in their jobs or instants.
func fires(ctx context.Context, s *store.Store, k, n int) error {
	jobs := make([]core.JobID, n)
	for i := range jobs {
		jobs[i] = benchRun(k*n + i).ID.Job()
	}
	got, err := s.Jobs.Get(ctx, store.Planning, jobs[:n/5])
	if err != nil {
		return err
	}
	var moves []core.Advance
	for _, g := range got {
		a := g.Is.Sched.Stay()
		a.NewNext += 5
		a.NewPlanAt += 5
		moves = append(moves, a)
	}
	var out []ring.Out
	for m := 0; m < n; m += 50 {
		slot, _ := benchRun(k*n + m).ID.Planned()
		msg := ring.Message{Kind: ring.KindFires, Slot: slot}
		for i := range 50 {
			id := benchRun(k*n + m + i).ID
			at, _ := id.Planned()
			msg.Fires = append(msg.Fires, core.Fire{Run: id, Rev: 100, At: at, Slot: at, Cause: core.CauseSchedule, Seq: 5})
		}
		out = append(out, ring.Out{NotBefore: time.Now().Add(-time.Hour), Message: msg})
	}
	errs := s.Queue.Enqueue(ctx, out)
	s.Advance(ctx, moves) // refused where another round was faster
	for done := 0; done < n; {
		got, err := s.Queue.Receive(ctx, ring.KindFires, (n-done)/50)
		if err != nil {
			return err
		}
		var claims []core.Run
		for _, d := range got {
			for _, f := range d.Message.Fires {
				claims = append(claims, run(f.Run))
			}
		}
		for i := range claims {
			jobs[i] = claims[i].ID.Job()
		}
		if _, err := s.Jobs.Get(ctx, store.Whole, jobs[:len(claims)]); err != nil {
			return err
		}
		errs = append(errs, s.CreateRuns(ctx, claims)...)
		j := core.Journal{Key: core.JournalKey{Minute: int64(k), Nonce: fmt.Sprint(k, done)}, V: 1}
		for _, r := range claims {
			j.Entries = append(j.Entries, core.Entry{Run: r.ID, Address: r.Address, Outcome: core.Accepted})
		}
		errs = append(errs, s.PutJournal(ctx, j))
		errs = append(errs, s.Queue.Ack(ctx, got)...)
		var ends sync.WaitGroup
		ended := make([]error, len(claims))
		for lo := 0; lo < len(claims); lo += 50 {
			ends.Go(func() {
				var runs []core.RunID
				var closes []core.RunPut
				for _, r := range claims[lo : lo+50] {
					runs = append(runs, r.ID)
					closes = append(closes, core.End(r.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base}))
				}
				if found, err := s.Runs.Get(ctx, runs); err != nil || len(found) != 50 {
					ended[lo] = fmt.Errorf("%d runs of 50: %w", len(found), err)
					return
				}
				copy(ended[lo:], s.ChangeRuns(ctx, closes))
			})
		}
		ends.Wait()
		errs = append(errs, ended...)
		done += len(claims)
	}
	return errors.Join(errs...)
}
