package sqlite_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/sqlite"
)

// TestClockThatWasAheadOnceChangesNoReportAndNoSweep: the clock is a day ahead while one run is made, and is then set
// back. Later runs are reported in their own hour and removed at their own age, also after a restart.
func TestClockThatWasAheadOnceChangesNoReportAndNoSweep(t *testing.T) {
	var off atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	dir := t.TempDir()
	open := func() *store.Store {
		return openDir(t, dir, sqlite.Options{Synchronous: "OFF", Gather: -1, Now: clock})
	}
	e := open()
	from := core.InstantOf(clock()) / 3600 * 3600
	made := 0
	claim := func() {
		t.Helper()
		made++
		at := core.InstantOf(clock())
		id := core.PlannedRun(1, at+core.Instant(made))
		r := core.Run{ID: id, App: "orders", State: core.Succeeded, Cause: core.CauseSchedule, Rev: 1, At: at, Slot: at, EndedAt: clock(),
			Address: "http://h/", SentAt: clock(), Attempt: 1, First: id, Journal: core.JournalKey{Minute: clock().Unix() / 60, Nonce: "x"}}
		check.OK(t, e.CreateRuns(t.Context(), []core.Run{r})[0])
	}
	began := func(want int) {
		t.Helper()
		got := 0
		if _, err := e.Runs.Began(t.Context(), from, from+7200, 0, func(list []core.Run) { got += len(list) }); err != nil || got != want {
			t.Errorf("%d runs began, %v; want %d", got, err, want)
		}
	}
	for range 3 {
		claim()
	}
	began(3)
	off.Store(int64(24 * time.Hour))
	claim()
	off.Store(0)
	for range 10 {
		claim()
	}
	began(13)
	check.OK(t, e.Close())
	e = open()
	claim()
	began(14)
	for _, c := range []struct {
		age  time.Duration
		gone int
	}{{23 * time.Hour, 0}, {26 * time.Hour, 14}, {50 * time.Hour, 1}} {
		n, err := e.Sweep(t.Context(), time.Now().Add(c.age), 24*time.Hour, 24*time.Hour, 1000)
		if err != nil || n != c.gone {
			t.Errorf("%s later %d runs were removed, %v; want %d", c.age, n, err, c.gone)
		}
	}
}
