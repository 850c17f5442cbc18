//go:build linux

package localexec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

var errStalls = errors.New("the disk stalls")

// trouble fails the next reads of runs after some good ones, and stores no end of the job bad.
type trouble struct {
	store.Runs
	finish *finish.Finish
	good   atomic.Int32
	reads  atomic.Int32
	bad    core.JobID
	ends   chan finish.Result // each that was to be stored
	failed chan struct{}      // a read failed
	c      *Commands
	again  func() *Commands // starts Commands in the same directory
}

func (s *trouble) Get(ctx context.Context, ids []core.RunID) (map[core.RunID]store.Got[*core.Run], error) {
	if s.good.Add(-1) < 0 && s.reads.Add(-1) >= 0 {
		select {
		case s.failed <- struct{}{}:
		default:
		}
		return nil, errStalls
	}
	return s.Runs.Get(ctx, ids)
}

func (s *trouble) End(ctx context.Context, results []finish.Result) []error {
	errs := make([]error, len(results))
	for i := range results {
		if errs[i] = errStalls; results[i].Run.Job() != s.bad {
			errs[i] = s.finish.End(ctx, results[i:i+1])[0]
		}
		s.ends <- results[i]
	}
	return errs
}

// ended waits for the end of a run that is to be stored.
func (s *trouble) ended(t *testing.T, run core.RunID) finish.Result {
	t.Helper()
	for late := time.After(time.Minute); ; {
		select {
		case r := <-s.ends:
			if r.Run == run {
				return r
			}
		case <-late:
			t.Fatalf("run %d of job %d has not ended after a minute", run, run.Job())
		}
	}
}

// start makes Commands on a store with trouble; run has the nth command of a job touch a file.
func start(t *testing.T, bad core.JobID, reads int32) (s *trouble, run func(job core.JobID, n int) (core.RunID, string)) {
	t.Helper()
	me, err := user.Current()
	check.OK(t, err)
	dir := t.TempDir()
	allowed, err := Allow([]string{me.Username}, []string{dir})
	check.OK(t, err)
	log := slog.New(slog.DiscardHandler)
	e := memory.Open(t, memory.Options{})
	s = &trouble{Runs: e.Runs, finish: finish.New(e, finish.Options{Plan: plan.Local(), Log: log}), bad: bad,
		ends: make(chan finish.Result, 100), failed: make(chan struct{}, 1)}
	s.reads.Store(reads)
	with := *e
	with.Runs = s
	o := Options{Allowed: allowed, Dir: t.TempDir(), Log: log, Queue: pullqueue.New(&with, s, pullqueue.Options{Log: log}),
		Store: &with, Finish: s}
	s.again = func() *Commands {
		c, err := New(o)
		if err == nil {
			err = c.Start(t.Context())
		}
		check.OK(t, err)
		t.Cleanup(func() {
			if err := c.Stop(context.Background()); err != nil && bad == 0 {
				t.Error(err)
			}
		})
		return c
	}
	c := s.again()
	s.c = c
	return s, func(job core.JobID, n int) (core.RunID, string) {
		t.Helper()
		now := time.Now()
		id := core.PlannedRun(job, core.InstantOf(now)+core.Instant(n))
		mark := filepath.Join(dir, id.String())
		j := &core.Job{Def: core.Def{ID: job, App: "a", Name: "j", Command: &core.Command{Line: "touch " + mark}}}
		j.Normalize()
		r := core.Run{ID: id, App: "a", State: core.Running, Cause: core.CauseSchedule, At: core.InstantOf(now), Slot: core.InstantOf(now),
			Owner: "x", Until: now.Add(30 * time.Second), Address: core.LocalAddress, SentAt: now, Attempt: 1, First: id}
		check.OK(t, e.CreateRuns(t.Context(), []core.Run{r})[0])
		order := []byte(`{"jobId":` + job.String() + `,"executorHandler":"command","executorBlockStrategy":"SERIAL_EXECUTION","logId":` + id.String() +
			`,"logDateTime":1,"glueType":"BEAN","broadcastTotal":1}`)
		if a := c.Run(t.Context(), dispatch.SendRequest{Run: &r, Job: j}, order); a.Kind != dispatch.AnswerAccepted {
			t.Fatalf("%+v", a)
		}
		return id, mark
	}
}

// TestCommandRunsAfterItsRunCouldNotBeRead: the read after a run was taken from its queue fails. The run is
// taken again, and is not lost: this process did not begin it.
func TestCommandRunsAfterItsRunCouldNotBeRead(t *testing.T) {
	for _, fails := range []int32{0, 1, 3} {
		t.Run(fmt.Sprint(fails, " reads fail"), func(t *testing.T) {
			t.Parallel()
			s, run := start(t, 0, fails)
			id, mark := run(1, 0)
			if r := s.ended(t, id); r.State != core.Succeeded {
				t.Errorf("%s (%s)", r.State, r.Message)
			}
			if _, err := os.Stat(mark); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCommandRunsAfterAStopBeforeIt: a run is taken from its queue, cannot be read, and does not begin before an
// orderly stop. It runs under the next process.
func TestCommandRunsAfterAStopBeforeIt(t *testing.T) {
	s, run := start(t, 0, 0)
	s.good.Store(1)
	s.reads.Store(1 << 30)
	id, mark := run(1, 0)
	<-s.failed
	check.OK(t, s.c.Stop(t.Context()))
	s.reads.Store(0)
	s.again()
	if r := s.ended(t, id); r.State != core.Succeeded {
		t.Errorf("%s (%s)", r.State, r.Message)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
}

// TestEndThatCannotBeStoredStopsNoOtherJob: the end of a run of one job cannot be stored. Commands of another
// job still go on one after another, each once the end of the one before is stored.
func TestEndThatCannotBeStoredStopsNoOtherJob(t *testing.T) {
	s, run := start(t, 1, 0)
	bad, _ := run(1, 0)
	s.ended(t, bad)
	run(2, 0)
	last, mark := run(2, 1)
	if r := s.ended(t, last); r.State != core.Succeeded {
		t.Errorf("%s (%s)", r.State, r.Message)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
}
