package dynamo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/store/dynamo"
)

// TestReportUnits counts the cost of an hourly sum: testdata/TestReportUnits.txt is the table. A run itself writes nothing.
func TestReportUnits(t *testing.T) {
	check.Long(t)
	text := "| Jobs, in one hour | Runs | Write units | Read units | Read units a run |\n|---|---|---|---|---|\n"
	for _, fleet := range []struct {
		name        string
		jobs, every int // seconds
	}{{"no job", 0, 60}, {"100 jobs every minute", 100, 60}, {"1,000 jobs every ten minutes", 1000, 600},
		{"100 jobs every ten minutes", 100, 600}, {"1,000 jobs once", 1000, 3600}, {"2 jobs every second", 2, 1}} {
		f := newFakes(t, dynamo.Options{})
		now := base.Truncate(time.Hour)
		r := report.New(f.store.Store, report.Options{Now: func() time.Time { return now }, PassFor: time.Minute})
		ok(t, r.Pass(t.Context()))
		begin, fires := core.InstantOf(now), 0
		for at := 0; at < 3600; at += fleet.every {
			var runs []core.Run
			j := core.Journal{V: 1, Key: core.JournalKey{Minute: (int64(begin) + int64(at)) / 60, Nonce: fmt.Sprint(at)}}
			for job := range fleet.jobs {
				run := oneRun(core.PlannedRun(core.JobID(job+1), begin+core.Instant(at)))
				run.Journal, run.State, run.Slot = j.Key, core.Succeeded, run.At
				run.SentAt = now.Add(time.Duration(at)*time.Second + 7*time.Millisecond)
				run.EndedAt = run.SentAt.Add(80 * time.Millisecond)
				runs = append(runs, run)
				j.Entries = append(j.Entries, core.Entry{Run: run.ID, Address: run.Address, Outcome: core.Accepted})
			}
			ok(t, f.store.CreateRuns(t.Context(), runs)...)
			if fires += len(runs); len(runs) > 0 {
				ok(t, f.store.PutJournal(t.Context(), j))
			}
		}
		now = now.Add(70 * time.Minute)
		f.db.Units()
		ok(t, r.Pass(t.Context()))
		u := f.db.Units()
		text += fmt.Sprintf("| %s | %d | %g | %g | %.2g |\n", fleet.name, fires, u.Write, u.Read, u.Read/float64(max(fires, 1)))
		a, err := r.Answer(t.Context(), report.Question{From: begin, To: begin + 3600})
		ok(t, err)
		if n := len(a.Rows); fires > 0 && (n != 1 || a.Rows[0].Runs() != int64(fires)) {
			t.Errorf("%s: %+v", fleet.name, a.Rows)
		}
		now = now.Add(20 * time.Minute)
		f.db.Units()
		ok(t, r.Pass(t.Context()))
		ok(t, r.Pass(t.Context()))
		if u := f.db.Units(); u.Write+u.Read > 1 {
			t.Errorf("%s: %v units read and %v written where there is nothing to do", fleet.name, u.Read, u.Write)
		}
	}
	golden.File(t, "testdata/TestReportUnits.txt", []byte(text))
}
