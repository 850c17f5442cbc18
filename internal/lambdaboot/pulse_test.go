package lambdaboot

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// TestPulse: after a time without planning, the first process records it once, from the last sign of life on. Minutes
// between two signs are no outage.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.Open(t, memory.Options{})
		tick, sends := NewPulse(s, slog.New(slog.DiscardHandler)), NewPulse(s, slog.New(slog.DiscardHandler))
		do := func(err error) {
			t.Helper()
			check.OK(t, err)
		}
		noted := func(down, up time.Time) {
			t.Helper()
			g, err := s.Global(t.Context())
			do(err)
			if !g.DownAt.Equal(down) || !g.UpSince.Equal(up) {
				t.Fatalf("noted %s to %s, want %s to %s", g.DownAt, g.UpSince, down, up)
			}
		}
		do(sends.Look(t.Context())) // no planner ever ran
		do(tick.Beat(t.Context()))
		for range 5 {
			time.Sleep(119 * time.Second) // of the bubble
			do(sends.Look(t.Context()))
			do(tick.Beat(t.Context()))
		}
		noted(time.Time{}, time.Time{})
		last := time.Now()
		time.Sleep(10 * time.Minute)
		up := time.Now()
		do(sends.Look(t.Context()))
		noted(last, up)
		time.Sleep(30 * time.Second)
		do(NewPulse(s, slog.New(slog.DiscardHandler)).Look(t.Context())) // another process
		noted(last, up)
		do(tick.Beat(t.Context()))
		noted(last, up)
		time.Sleep(time.Minute)
		do(sends.Look(t.Context()))
		do(tick.Beat(t.Context()))
		noted(last, up)
	})
}

// refusing rejects reads until a time, and delays all calls.
func refusing(s *store.Store, until *time.Time, takes time.Duration) *store.Store {
	return hook.Over(s, func(_ context.Context, c *hook.Call, next func() []error) []error {
		time.Sleep(takes) // of the bubble
		if len(c.Get) > 0 && time.Now().Before(*until) {
			return []error{core.ErrThrottled}
		}
		return next()
	})
}

// TestPulseOfARefusingStore: a stored heartbeat is up to a minute old. So a minute in which the store rejects everything
// would expire live executors. A process that noticed it records it before it checks; a short error does not count.
func TestPulseOfARefusingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var until time.Time
		s := refusing(memory.Open(t, memory.Options{}), &until, 0)
		sends := NewPulse(s, slog.New(slog.DiscardHandler))
		live := func(age time.Duration) bool {
			t.Helper()
			check.OK(t, sends.Look(t.Context()))
			g, err := s.Global(t.Context())
			check.OK(t, err)
			x := core.Executor{App: "a", Address: "http://10.0.0.1:1", Beat: time.Now().Add(-age)}
			return len(core.Live([]core.Executor{x}, g, time.Now(), core.BeatExpiry)) == 1
		}
		if live(100 * time.Second) {
			t.Fatal("live 100 s after its beat")
		}
		time.Sleep(lookEvery) // of the bubble
		until = time.Now().Add(time.Second)
		if err := sends.Look(t.Context()); err == nil {
			t.Fatal("a check of a rejecting endpoint was answered")
		}
		time.Sleep(time.Second)
		if live(100 * time.Second) {
			t.Error("a refusal that was over after a second revived it")
		}
		time.Sleep(lookEvery)
		until = time.Now().Add(time.Minute)
		for time.Now().Before(until) {
			if err := sends.Look(t.Context()); err == nil {
				t.Fatal("a check of a rejecting endpoint was answered")
			}
			time.Sleep(5 * time.Second)
		}
		if !live(121 * time.Second) {
			t.Error("it counts as expired, though its beats were refused")
		}
		time.Sleep(core.BeatExpiry + time.Second)
		if live(100 * time.Second) {
			t.Error("it is live for good")
		}
	})
}

// TestPulsesOfManyAfterRefusals: all processes come at once when the store answers again. One of them records the outage,
// and none holds its messages for that.
func TestPulsesOfManyAfterRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var until time.Time
		s := refusing(memory.Open(t, memory.Options{}), &until, 5*time.Millisecond)
		many := make([]*Pulse, 50)
		for i := range many {
			many[i] = NewPulse(s, slog.New(slog.DiscardHandler))
		}
		refused := func() int32 {
			var all sync.WaitGroup
			var n atomic.Int32
			for _, p := range many {
				all.Go(func() {
					if p.Look(t.Context()) != nil {
						n.Add(1)
					}
				})
			}
			all.Wait()
			return n.Load()
		}
		refused()
		time.Sleep(time.Minute)
		until = time.Now().Add(30 * time.Second)
		if n := refused(); n != int32(len(many)) {
			t.Fatalf("a store that refuses all refused %d of %d looks", n, len(many))
		}
		time.Sleep(30 * time.Second)
		check.Equal(t, refused(), 0, "processes that may not judge yet, though it is noted")
		g, err := s.Global(t.Context())
		if err != nil || g.DownAt.After(until.Add(-30*time.Second)) || g.UpSince.Before(until) {
			t.Errorf("noted %s to %s, %v", g.DownAt, g.UpSince, err)
		}
	})
}
