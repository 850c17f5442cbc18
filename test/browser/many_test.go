package browser

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine/sqlite"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/test/harness"
)

// manyJobs creates jobs of one app with the CLI.
func manyJobs(tb testing.TB, w *world, n int) {
	tb.Helper()
	var b strings.Builder
	fmt.Fprintln(&b, "version: 1\napps: [{name: many, executors: [\"http://127.0.0.1:9\"]}]\njobs:")
	hour := time.Now().UTC().Hour() + 2 // no job with runs falls due during the test
	for i := range n {
		fmt.Fprintf(&b, "  - {app: many, name: job-%05d, title: Number %d of many, handler: h, schedule: {crontab: \"%d %d * * *\"}}\n",
			i, i, i%60, (hour+i/60)%24)
	}
	w.OK(tb, b.String(), "apply", "-f", "-", "--yes")
}

// manyRuns stops the server, puts runs of the last hour into its data, and starts it
// again. One in a hundred failed. All jobs have one each second, up to the moment that it answers.
func (w *world) manyRuns(tb testing.TB, jobs, each int) time.Time {
	tb.Helper()
	w.Kill()
	lock, err := sqlite.TryLock(w.Dir)
	check.OK(tb, err)
	end := core.InstantOf(time.Now()) - 5
	var clock atomic.Int64 // each run is created at its due time, because runs of the last seconds are rechecked repeatedly
	clock.Store(int64(end))
	e, err := sqlite.Open(tb.Context(), sqlite.Options{Lock: lock, Now: func() time.Time { return core.Instant(clock.Load()).Time() }})
	check.OK(tb, err)
	for i := range each { // in the order of their due times
		at := end - core.Instant(each-i)
		clock.Store(int64(at))
		runs := make([]core.Run, jobs)
		for j := range jobs {
			r := core.Run{ID: core.PlannedRun(core.JobID(j+1), at), App: "many", State: core.Succeeded, Cause: core.CauseSchedule, At: at, Slot: at,
				Rev: 1, Attempt: 1, Address: "http://127.0.0.1:9", SentAt: at.Time().Add(3 * time.Millisecond),
				EndedAt: at.Time().Add(time.Duration(j+20) * time.Millisecond)}
			r.First = r.ID
			if (i+j)%100 == 7 {
				r.State, r.Reason, r.Message = core.Failed, core.ReasonHandler, "no luck"
			}
			runs[j] = r
		}
		for _, err := range e.Dispatch.Create(tb.Context(), runs) {
			check.OK(tb, err)
		}
	}
	check.OK(tb, e.Close())
	w.Server = harness.Start(tb, binary, w.Dir)
	return end.Time()
}
