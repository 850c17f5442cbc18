package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/miniexec"
	"github.com/tickring/tickring/wire"
)

// TestSleep: the machine sleeps for two hours while the server runs. Its executor sends no heartbeats during that time, but its run
// is not lost, and due runs are sent to it. Whichever loop checks first detects the gap before it judges the executor.
func TestSleep(t *testing.T) {
	t.Parallel()
	s := start(t, Options{AliveEvery: time.Hour, OutageAfter: 20 * time.Second, WatchEvery: 50 * time.Millisecond})
	received := make(chan core.RunID, 100)
	exec := startExecutor(t, miniexec.Options{App: "web", Received: func(r *wire.Run, _ time.Time) { received <- core.RunID(r.LogID) }})
	save(t, s, "web")
	p := s.parts.Load()
	slept := time.Now().Add(-2 * time.Hour)
	// The state before: a heartbeat, and an accepted run.
	check.OK(t, p.store.PutExecutor(t.Context(), core.Executor{App: "web", Address: exec.URL(), Beat: slept.Add(-10 * time.Second),
		Since: slept.Add(-time.Hour)}))
	p.aliveMu.Lock() // a sign of life that is under way would be the later one
	p.alive.Store(slept.UnixMilli())
	p.aliveMu.Unlock()

	save(t, s, "web", secondly("web", "beat"), manage.JobSpec{Def: core.Def{App: "web", Name: "long", Handler: "work"}})
	long, err := s.Manage().Job(t.Context(), "web/long")
	check.OK(t, err)
	at := core.InstantOf(slept) - 60
	run := core.Run{ID: core.PlannedRun(long.Def.ID, at), App: "web", State: core.Running, Cause: core.CauseSchedule, At: at, Slot: at,
		Owner: "before", Until: at.Time().Add(30 * time.Second),
		Address: exec.URL(), SentAt: at.Time(), Attempt: 1, Journal: core.JournalKey{Minute: at.Time().Unix() / 60, Nonce: "before"}}
	check.OK(t, p.store.CreateRuns(t.Context(), []core.Run{run})[0])
	entries := []core.Entry{{Run: run.ID, Address: run.Address, Outcome: core.Accepted}}
	check.OK(t, p.store.PutJournal(t.Context(), core.Journal{Key: run.Journal, V: 1, Entries: entries}))
	look := ring.Message{Kind: ring.KindCheck, Slot: core.InstantOf(time.Now()), Check: &ring.Check{Runs: []core.RunID{run.ID}}}
	check.OK(t, p.store.Queue.Enqueue(t.Context(), []ring.Out{{NotBefore: time.Now(), Message: look}})[0])

	select {
	case id := <-received:
		if id == run.ID {
			t.Errorf("the run that was under way was sent again")
		}
	case <-time.After(30 * time.Second):
		t.Error("nothing was sent to the executor that could not beat")
	}
	eventually(t, time.Minute, func() error {
		due, _, flying, err := p.store.Queue.Depth(t.Context(), ring.KindCheck)
		if err == nil && due+flying > 0 {
			err = fmt.Errorf("%d checks are not taken", due+flying)
		}
		return err
	})
	page, err := s.Manage().Runs(t.Context(), query.RunFilter{})
	if err != nil || len(page.Runs) < 2 {
		t.Fatalf("%d runs, %v", len(page.Runs), err)
	}
	for _, r := range page.Runs {
		if r.State == core.Lost || r.Reason == core.ReasonNoExecutor {
			t.Errorf("run %d is %s: %s", r.ID, r.State, r.Reason)
		}
	}
	g, err := p.store.Global(t.Context())
	if err != nil || g.DownAt.UnixMilli() != slept.UnixMilli() || time.Since(g.UpSince) > time.Minute {
		t.Errorf("noted: down from %s to %s, %v", g.DownAt, g.UpSince, err)
	}
}

// TestNoteOutage: one that begins before executors had time to beat again goes
// on with the last; a clock that was set back leaves none in the future.
func TestNoteOutage(t *testing.T) {
	s := start(t, Options{AliveEvery: time.Hour})
	now := time.Now().Truncate(time.Millisecond)
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct{ from, to, down int }{
		{-7200, -3600, -7200},
		{-3570, -3000, -7200}, // 30 s awake
		{-2900, -2000, -2900},
		{-100, 3000, -100}, // by a clock that was wrong
		{0, 0, -100},
	} {
		check.OK(t, registry.NoteOutage(t.Context(), s.parts.Load().store, at(c.from), at(c.to), 90*time.Second))
		g, err := s.parts.Load().store.Global(t.Context())
		if err != nil || !g.DownAt.Equal(at(c.down)) || !g.UpSince.Equal(at(c.to)) {
			t.Errorf("%+v: down %s, up %s, %v", c, g.DownAt.Sub(now), g.UpSince.Sub(now), err)
		}
	}
}
