package report_test

import (
	"context"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store/sqlite"
)

// fleet has runs of 300 jobs each day: one run a day of each job. From some on, every tenth job has a
// run each hour, and from all on, each job.
type fleet struct{ some, all core.Instant }

func (f fleet) began(_ context.Context, from, _ core.Instant, _ core.JobID, tell func([]core.Run)) (core.JobID, error) {
	var list []core.Run
	for job := range 300 {
		if job%24 != int(from/3600)%24 && (from < f.some || job%10 != 0) && from < f.all {
			continue
		}
		slot := from + core.Instant(job%3600)
		sent := slot.Time().Add(time.Duration(3+job%17) * time.Millisecond)
		r := core.Run{ID: core.PlannedRun(core.JobID(job+1), slot), App: appOf(core.JobID(job)), State: core.Succeeded,
			Cause: core.CauseSchedule, Slot: slot,
			Owner: "o", SentAt: sent, EndedAt: sent.Add(time.Duration(80+(job*int(from/3600))%9000) * time.Millisecond)}
		if job%100 == int(from/3600)%100 {
			r.State, r.Reason = core.Failed, core.ReasonHandler
		}
		list = append(list, r)
	}
	tell(list)
	return 0, nil
}

// BenchmarkAnswer measures a year by day in sum, and a month of one job by hour, with 300 jobs. The
// number of jobs only matters for answers with a row for each job.
func BenchmarkAnswer(b *testing.B) {
	lock, err := sqlite.TryLock(b.TempDir())
	check.OK(b, err)
	e, err := sqlite.Open(b.Context(), sqlite.Options{Lock: lock, Synchronous: "OFF"})
	check.OK(b, err)
	defer e.Close()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	many := begin.AddDate(0, 0, 334)
	now := begin
	runs := fleet{core.InstantOf(many), core.InstantOf(begin.AddDate(0, 0, 364))}
	s := *e
	s.Runs = faulty{s.Runs, nil, runs.began}
	r := report.New(&s, report.Options{Now: func() time.Time { return now }, PassFor: time.Hour})
	for ; now.Before(begin.AddDate(0, 0, 366)); now = now.Add(24 * time.Hour) {
		check.OK(b, r.Pass(b.Context()))
	}
	for name, q := range map[string]report.Question{
		"a year by day":            {ByDay: true, From: core.InstantOf(begin), To: core.InstantOf(begin.AddDate(1, 0, 0))},
		"a month of a job by hour": {Job: 151, From: core.InstantOf(many), To: core.InstantOf(many.AddDate(0, 0, 31))},
		"a day of each job by day": {ByDay: true, Each: report.EachJob, From: runs.all, To: runs.all + 24*3600},
		"a year of each app by day": {ByDay: true, Each: report.EachApp, From: core.InstantOf(begin),
			To: core.InstantOf(begin.AddDate(1, 0, 0))},
		"a month by hour":            {From: core.InstantOf(many), To: core.InstantOf(many.AddDate(0, 0, 31))},
		"a month of an app by hours": {App: "pay", From: core.InstantOf(many), To: core.InstantOf(many.AddDate(0, 0, 31))},
	} {
		b.Run(name, func(b *testing.B) {
			rows := 0
			for b.Loop() {
				a, err := r.Answer(b.Context(), q)
				check.OK(b, err)
				rows = len(a.Rows)
			}
			b.ReportMetric(float64(rows), "rows")
		})
	}
}
