package poller_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/poller"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// hung are calls of the app "deep" that hang until the end, and calls of "fine" to the same address, which are answered at
// once.
type hung struct {
	over chan struct{}
	mu   sync.Mutex
	open int
	most int
	deep map[core.RunID]int
	late map[core.Instant]time.Duration
}

func (h *hung) Beat(context.Context, *core.App, string) error { return nil }

func (h *hung) Idle(context.Context, *core.App, string, core.JobID) (bool, error) { return true, nil }

func (h *hung) Send(ctx context.Context, s dispatch.SendRequest) dispatch.Answer {
	done := dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded}
	h.mu.Lock()
	if s.App.Name == "fine" {
		h.late[s.Run.At] = time.Since(s.Run.Slot.Time())
		h.mu.Unlock()
		return done
	}
	h.open++
	h.most = max(h.most, h.open)
	h.deep[s.Run.ID]++
	h.mu.Unlock()
	select {
	case <-h.over:
	case <-ctx.Done():
		done = dispatch.Answer{Kind: dispatch.AnswerUnconfirmed}
	}
	h.mu.Lock()
	h.open--
	h.mu.Unlock()
	return done
}

// TestHungCallsCostOthersNothing: more calls hang than there are places for batches, and more than one app may have. A job
// of another app at the same address is still sent on time. Runs without room are sent once there is room.
func TestHungCallsCostOthersNothing(t *testing.T) {
	const jobs, seconds, most = 200, 120, 100
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))) // fake time: planned runs have no IDs before 2020
		s := fixture.New(t, memory.Options{})
		log := slog.New(slog.DiscardHandler)
		h := &hung{over: make(chan struct{}), deep: map[core.RunID]int{}, late: map[core.Instant]time.Duration{}}
		d := dispatch.New(s.Store, h, finish.New(s.Store, finish.Options{Plan: plan.Local(), Log: log}),
			dispatch.Options{MaxAhead: plan.Local().MaxAhead, SendsAll: most, Log: log})
		in := &poller.Poller{Queue: s.Queue, Kind: ring.KindFires, Messages: 3, Places: 4, Log: log,
			Handle: func(ctx context.Context, got []store.Delivery, free func()) []dispatch.Verdict {
				return d.HandleFreeing(ctx, poller.Messages(got), free)
			}}
		now := core.InstantOf(time.Now())
		fire := func(id core.JobID, at core.Instant) { s.Enqueue(at.Time(), fixture.Message(fixture.Planned(id, at))) }
		s.App("deep", "call:http://h")
		s.App("fine", "call:http://h")
		for i := range core.JobID(jobs + 1) {
			j := core.Job{Def: core.Def{ID: i + 1, App: "deep", Name: "j" + (i + 1).String(), Handler: "/h", Timeout: time.Hour}}
			if i == jobs {
				j.Def.App = "fine"
			}
			j.Sched.Misfire = core.MisfireAll
			if s.Job(j); i < jobs {
				fire(i+1, now+core.Instant(i%10))
			}
		}
		for i := range core.Instant(seconds) {
			fire(jobs+1, now+1+i)
		}
		receive, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { in.Run(receive, t.Context()) })
		time.Sleep((seconds + 1) * time.Second)
		h.mu.Lock()
		if len(h.late) != seconds {
			t.Errorf("%d of %d fires of the healthy job were sent", len(h.late), seconds)
		}
		for at, late := range h.late {
			if late > 50*time.Millisecond {
				t.Errorf("the healthy job's fire of %s was sent %s late", at, late)
			}
		}
		if h.open != most/2 || h.most != most/2 {
			t.Errorf("%d calls are under way, %d were, want half of %d", h.open, h.most, most)
		}
		h.mu.Unlock()
		close(h.over)
		time.Sleep(5 * time.Minute)
		h.mu.Lock()
		if len(h.deep) != jobs {
			t.Errorf("%d of %d that found no room were sent in the end", len(h.deep), jobs)
		}
		for id, n := range h.deep {
			if n != 1 {
				t.Errorf("run %d was sent %d times", id, n)
			}
		}
		h.mu.Unlock()
		stop()
		run.Wait()
		check.Equal(t, s.Messages(ring.KindFires), 0, "messages left on the ring")
	})
}
