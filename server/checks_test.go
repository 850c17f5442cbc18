package server

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/testkit/miniexec"
)

// TestChecksWaitForNobody: slow checks at a silent executor do not delay the second check of another app's run, without which that
// run is never lost.
func TestChecksWaitForNobody(t *testing.T) {
	t.Parallel()
	s := start(t, Options{SendTimeout: time.Second, Log: slog.New(slog.DiscardHandler)})
	p := s.parts.Load()
	now := time.Now()
	// sent has a run of an app that was accepted a quarter of an hour ago, and a check of it.
	sent := func(app string, at core.Instant, address string, idle bool) core.RunID {
		t.Helper()
		j, err := s.Manage().Job(t.Context(), app+"/work")
		check.OK(t, err)
		id := core.PlannedRun(j.Def.ID, at)
		run := core.Run{ID: id, App: app, State: core.Running, Cause: core.CauseSchedule, At: at, Slot: at, Owner: "before",
			Until:   at.Time().Add(30 * time.Second),
			Address: address, SentAt: at.Time(), Attempt: 1, First: id, Journal: core.JournalKey{Minute: at.Time().Unix() / 60,
				Nonce: "before " + id.String()}}
		check.OK(t, p.store.CreateRuns(t.Context(), []core.Run{run})[0])
		check.OK(t, p.store.PutJournal(t.Context(),
			core.Journal{Key: run.Journal, V: 1, Entries: []core.Entry{{Run: id, Address: address, Outcome: core.Accepted}}}))
		look := ring.Message{Kind: ring.KindCheck, Slot: core.InstantOf(now), Check: &ring.Check{Runs: []core.RunID{id}, Idle: idle}}
		check.OK(t, p.store.Queue.Enqueue(t.Context(), []ring.Out{{NotBefore: now, Message: look}})[0])
		return id
	}
	address := func(app string, hang bool) string {
		t.Helper()
		o := miniexec.Options{App: app}
		if hang {
			o.HangFrom = time.Unix(1, 0)
		}
		x := startExecutor(t, o)
		save(t, s, app, manage.JobSpec{Def: core.Def{App: app, Name: "work", Handler: "work"}})
		check.OK(t, p.store.PutExecutor(t.Context(), core.Executor{App: app, Address: x.URL(), Beat: now,
			Since: now.Add(-time.Hour)}))
		return x.URL()
	}
	ago := core.InstantOf(now.Add(-15 * time.Minute))
	deaf, well := address("deaf", true), address("well", false)
	for i := range core.Instant(60) {
		sent("deaf", ago+i, deaf, false)
	}
	id := sent("well", ago, well, true)
	eventually(t, time.Minute, func() error {
		if r := memory.Run(t, p.store, id); r.State != core.Lost || r.Reason != core.ReasonForgotten {
			return fmt.Errorf("it is %s: %s", r.State, r.Reason)
		}
		return nil
	})
}
