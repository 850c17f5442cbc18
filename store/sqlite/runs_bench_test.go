package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/sqlite"
)

// The size of manyRuns: runs, jobs and apps, over the ten days up to now.
const (
	manyRuns = 1_000_000
	manyJobs = 10_000
	manyApps = 50
	overTime = 10 * 24 * time.Hour
)

func manyApp(job int) string {
	if job == 1 {
		return "rare" // of 100 runs
	}
	return fmt.Sprintf("app%02d", job%manyApps)
}

// manyState returns how the nth run ended: one in a hundred failed, one in a thousand was skipped, one in a hundred
// thousand was lost, and the others succeeded.
func manyState(n int) (core.State, core.Reason) {
	switch {
	case n%100_000 == 77:
		return core.Lost, core.ReasonGone
	case n%100 == 7:
		return core.Failed, core.ReasonHandler
	case n%1000 == 500:
		return core.Skipped, core.ReasonOverlap
	}
	return core.Succeeded, ""
}

// openMany opens a store with manyRuns runs, as if each had been made at its scheduled time.
func openMany(b *testing.B) (e *store.Store, now time.Time) {
	b.Helper()
	now = time.Now().Truncate(time.Second)
	begin := now.Add(-overTime)
	clock := begin
	e = openDir(b, b.TempDir(), sqlite.Options{Synchronous: "OFF", Gather: -1, Now: func() time.Time { return clock }})
	step := overTime / manyRuns
	list := make([]core.Run, 0, 100)
	for n := range manyRuns {
		moment := begin.Add(time.Duration(n) * step)
		job := n%manyJobs + 1
		at := core.InstantOf(moment)
		r := core.Run{ID: core.PlannedRun(core.JobID(job), at), App: manyApp(job), Cause: core.CauseSchedule, Rev: 1, At: at, Slot: at,
			Attempt: 1,
			First:   core.PlannedRun(core.JobID(job), at), SentAt: moment, EndedAt: moment.Add(time.Second),
			Address: fmt.Sprintf("http://10.0.0.%d:9999", n%7), Journal: core.JournalKey{Minute: moment.Unix() / 60, Nonce: "n"}}
		r.State, r.Reason = manyState(n)
		if list = append(list, r); len(list) == cap(list) {
			clock = moment
			for _, err := range e.CreateRuns(b.Context(), list) {
				check.OK(b, err)
			}
			list = list[:0]
		}
	}
	clock = now
	return e, now
}

// BenchmarkRuns lists a page of a million runs by each filter, and the page far behind the
// newest.
func BenchmarkRuns(b *testing.B) {
	e, now := openMany(b)
	q := query.New(e, query.Options{Now: func() time.Time { return now }})
	old := now.Add(-overTime / 2)
	far := fmt.Sprint(core.Millis(now.Add(-9 * 24 * time.Hour)))
	for _, of := range []struct {
		name string
		f    query.RunFilter
	}{
		{"all", query.RunFilter{}},
		{"all-far", query.RunFilter{After: far}},
		{"job", query.RunFilter{Job: "4711"}},
		{"app", query.RunFilter{App: "app07"}},
		{"app-rare", query.RunFilter{App: "rare"}},
		{"app-far", query.RunFilter{App: "app07", After: far}},
		{"succeeded", query.RunFilter{States: []core.State{core.Succeeded}}},
		{"succeeded-far", query.RunFilter{States: []core.State{core.Succeeded}, After: far}},
		{"failed", query.RunFilter{States: []core.State{core.Failed}}},
		{"failed-far", query.RunFilter{States: []core.State{core.Failed}, After: far}},
		{"lost", query.RunFilter{States: []core.State{core.Lost}}},
		{"killed-none", query.RunFilter{States: []core.State{core.Killed}}},
		{"failures", query.RunFilter{States: []core.State{core.Failed, core.TimedOut, core.Killed, core.Lost}}},
		{"for-good", query.RunFilter{Failed: true}},
		{"running-none", query.RunFilter{States: []core.State{core.Running}}},
		{"time", query.RunFilter{From: old.Add(-time.Minute), To: old}},
		{"time-minute", query.RunFilter{From: old.Add(-time.Second), To: old}},
		{"scan-address", query.RunFilter{Address: "http://10.0.0.9:9999"}},
		{"scan-longer", query.RunFilter{Longer: time.Hour}},
		{"scan-app-lost", query.RunFilter{App: "app07", States: []core.State{core.Lost}}},
	} {
		b.Run(of.name, func(b *testing.B) {
			found := 0
			for b.Loop() {
				page, err := q.Runs(b.Context(), of.f)
				check.OK(b, err)
				found = len(page.Runs)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/page")
			b.ReportMetric(float64(found), "runs")
		})
	}
}
