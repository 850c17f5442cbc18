package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store/sqlite"
)

// TestSummedBeforeItIsSwept: a server that stood still for weeks counts ended runs in reports before it removes them, even if that
// takes many passes.
func TestSummedBeforeItIsSwept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now().Add(-60 * 24 * time.Hour).Truncate(time.Hour) // it ends on the day on which it is sent
	lock, err := sqlite.TryLock(dir)
	check.OK(t, err)
	clock := func() time.Time { return now }
	e, err := sqlite.Open(t.Context(), sqlite.Options{Lock: lock, Synchronous: "OFF", Now: clock})
	check.OK(t, err)
	check.OK(t, report.New(e, report.Options{Now: clock}).Pass(t.Context()))
	now = now.Add(55 * 24 * time.Hour)
	var ids []core.RunID
	for i := range uint32(3) {
		id := core.NumberedRun(1, i+1)
		r := core.Run{ID: id, First: id, App: "web", State: core.Succeeded, Cause: core.CauseManual, Attempt: 1, Owner: "o",
			Journal: core.JournalKey{Minute: now.Unix() / 60, Nonce: "n"}, SentAt: now, EndedAt: now.Add(time.Second)}
		check.OK(t, e.CreateRuns(t.Context(), []core.Run{r})[0])
		ids = append(ids, id)
	}
	check.OK(t, e.Close())

	s := start(t, Options{Dir: dir, KeepRuns: 48 * time.Hour, SweepEvery: 10 * time.Millisecond,
		ReportEvery: 10 * time.Millisecond, ReportFor: 100 * time.Millisecond})
	eventually(t, time.Minute, func() error {
		found, err := s.parts.Load().store.Runs.Get(t.Context(), ids)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%d runs are not swept", len(found))
		}
		return err
	})
	a, err := s.parts.Load().reports.Answer(t.Context(), report.Question{ByDay: true, From: core.InstantOf(now), To: core.InstantOf(now) + 1})
	if err != nil || len(a.Rows) != 1 || a.Rows[0].Runs() != 3 {
		t.Errorf("the report of them: %+v, %v", a, err)
	}
}
