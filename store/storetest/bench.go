package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

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

func benchEnds(runs []core.Run) []core.RunPut {
	ends := make([]core.RunPut, len(runs))
	for i := range runs {
		ends[i] = core.End(runs[i].ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base})
	}
	return ends
}

func jobIDs(n int) []core.JobID {
	ids := make([]core.JobID, n)
	for i := range ids {
		ids[i] = core.JobID(i + 1)
	}
	return ids
}

// Sleeping creates n jobs that wait for a far time, and 1,000 that are due.
func Sleeping(b *testing.B, s *store.Store, n int) {
	b.Helper()
	ok(b, s.PutApp(b.Context(), 0, core.App{Name: "orders", Rev: 1}, core.Change{ID: 1, At: base, App: "orders"}))
	for ids := range slices.Chunk(jobIDs(n+1000), 1000) {
		list := make([]store.JobPut, len(ids))
		for i, id := range ids {
			if list[i] = creates(job(id)); id > 1000 {
				list[i].Create.Sched.PlanAt = at(1e6 + int(id))
			}
		}
		ok(b, s.Jobs.Put(b.Context(), list)...)
	}
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
		ok(b, s.Jobs.Put(b.Context(), list)...)
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

// BenchFire makes the calls of a scheduled run from plan to end: 1/5 advance, 1/50 message, receipt, journal and ack, one claim,
// and reading and closing it in batches of 50. Eight drivers do it at a time.
func BenchFire(b *testing.B, s *store.Store) {
	Sleeping(b, s, 1000)
	const n, drivers = 500, 8
	var turn atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range drivers {
		all.Go(func() {
			for k := int(turn.Add(1)) - 1; k < b.N; k = int(turn.Add(1)) - 1 {
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

// fires is one round of BenchFire; rounds differ in their jobs or times.
func fires(ctx context.Context, s *store.Store, k, n int) error {
	runs, jobs := make([]core.Run, n), make([]core.JobID, n)
	for i := range runs {
		runs[i] = benchRun(k*n + i)
		jobs[i] = runs[i].ID.Job()
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
	for some := range slices.Chunk(runs, 50) {
		slot, _ := some[0].ID.Planned()
		out = append(out, ring.Out{NotBefore: time.Now().Add(-time.Hour), Message: message(slot, runIDs(some)...)})
	}
	errs := s.Queue.Enqueue(ctx, out)
	s.Advance(ctx, moves) // refused if another round was faster
	for done := 0; done < n; {
		got, err := s.Queue.Receive(ctx, ring.KindFires, (n-done)/50)
		if err != nil {
			return err
		}
		var claims []core.Run
		for _, d := range got {
			for _, f := range d.Message.Fires {
				claims = append(claims, run(f.Run))
				jobs[len(claims)-1] = f.Run.Job()
			}
		}
		if _, err := s.Jobs.Get(ctx, store.Whole, jobs[:len(claims)]); err != nil {
			return err
		}
		errs = append(errs, s.CreateRuns(ctx, claims)...)
		j := core.Journal{Key: core.JournalKey{Minute: int64(k), Nonce: fmt.Sprint(k, done)}, V: 1}
		for _, r := range claims {
			j.Entries = append(j.Entries, core.Entry{Run: r.ID, Address: r.Address, Outcome: core.Accepted})
		}
		errs = append(append(errs, s.PutJournal(ctx, j)), s.Queue.Ack(ctx, got)...)
		batches := slices.Collect(slices.Chunk(claims, 50))
		ended := make([]error, len(batches))
		store.AtOnce(len(batches), func(i int) {
			if found, err := s.Runs.Get(ctx, runIDs(batches[i])); err != nil || len(found) != 50 {
				ended[i] = fmt.Errorf("%d runs of 50: %w", len(found), err)
				return
			}
			ended[i] = errors.Join(s.ChangeRuns(ctx, benchEnds(batches[i]))...)
		})
		errs = append(errs, ended...)
		done += len(claims)
	}
	return errors.Join(errs...)
}
