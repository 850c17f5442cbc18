package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/testkit/memory"
)

func noLetters(context.Context, func(context.Context, *core.Letter) error) (int, error) {
	return 0, nil
}

// TestTickTakesDeadLetters: a tick takes all dead-letter messages and records their runs as skipped: undeliverable. One that cannot
// be recorded fails the tick, is delivered again, and delays no other.
func TestTickTakesDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC))) // of the bubble
		store := memory.New(t, memory.Options{})
		at := core.InstantOf(time.Now()) - 60
		letter := func(job core.JobID) *core.Letter {
			m := ring.Message{Kind: ring.KindFires, Slot: at,
				Fires: []core.Fire{{Run: core.PlannedRun(job, at), Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}}}
			return &core.Letter{ID: job.String(), At: time.Now(), Reason: "why", Body: string(ring.Encode(m))}
		}
		queue, poison := []*core.Letter{letter(7), letter(8)}, errors.New("one of them could not be recorded")
		take := func(ctx context.Context, record func(context.Context, *core.Letter) error) (int, error) {
			if len(queue) == 0 {
				return 0, nil
			}
			if err := record(ctx, queue[0]); err != nil {
				return 0, err
			}
			queue = queue[1:]
			if len(queue) == 1 {
				return 1, poison
			}
			return 1, nil
		}
		var told bytes.Buffer
		wakes := func(take takeLetters) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := &lambdaboot.Config{Plan: plan.AWS(), Partitions: 16, Metrics: lambdaboot.NewMetrics("prod", &told)}
			return wire(c, store.Store, take, nil, slog.New(slog.DiscardHandler))(ctx, []byte(`{}`))
		}
		refused := errors.New("AccessDenied")
		if err := wakes(func(context.Context, func(context.Context, *core.Letter) error) (int, error) {
			return 0, refused
		}); !errors.Is(err, refused) {
			t.Errorf("letters that cannot be taken: %v", err)
		}
		if err := wakes(take); !errors.Is(err, poison) || len(queue) > 0 {
			t.Errorf("%d letters are left, %v", len(queue), err)
		}
		if n := strings.Count(told.String(), `"DeadLetters":1,"Problems":1`); n != 2 {
			t.Errorf("%d of 2 letters reach the alarm: %s", n, &told)
		}
		for _, job := range []core.JobID{7, 8} {
			skips, err := store.Skips(t.Context(), job, at, at)
			if err != nil || len(skips) != 1 || skips[0].Reason != core.ReasonUndeliverable {
				t.Errorf("job %d: records %+v, %v", job, skips, err)
			}
		}
	})
}
