package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// slow delays the scan of a partition to the time that a busy one takes.
type slow struct{ store.Jobs }

func (s slow) Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error) {
	<-time.After(400 * time.Millisecond)
	return s.Jobs.Due(ctx, partition, upTo, after, limit)
}

// TestWired: the handler as main builds it. When the schedule wakes it, it plans if something can be due, records a sign of life,
// and releases its leases. If it cannot plan all partitions within a second, it wakes further invocations, and all partitions are
// planned in the end.
func TestWired(t *testing.T) {
	schedule, err := os.ReadFile("testdata/schedule.json")
	check.OK(t, err)
	other := fmt.Sprintf(`{"round":%d,"skip":3}`, time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC).UnixMilli())
	for name, c := range map[string]struct {
		event      string
		partitions int
		function   string
		woken      int
		alive      bool
	}{
		"one partition":        {event: string(schedule), partitions: 1, function: "tick", alive: true},
		"three":                {event: string(schedule), partitions: 3, function: "tick", alive: true},
		"eight":                {event: string(schedule), partitions: 8, function: "tick", woken: 2, alive: true},
		"eight, woken by one":  {event: other, partitions: 8, function: "tick"},
		"eight, not on Lambda": {event: string(schedule), partitions: 8, alive: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memory.Open(t, memory.Options{})
				e.Jobs = slow{e.Jobs}
				check.OK(t, e.PutGlobal(t.Context(), 0, core.Global{Partitions: c.partitions, Readable: c.partitions, Rev: 1}))
				var mu sync.Mutex
				var woken []string
				h := awslambda.NewHandler(wire(&lambdaboot.Config{Plan: plan.AWS(), Partitions: 16, Function: c.function}, e, noLetters,
					func(_ context.Context, payload []byte) error {
						mu.Lock()
						defer mu.Unlock()
						woken = append(woken, string(payload))
						return nil
					}, slog.New(slog.DiscardHandler)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				if _, err := h.Invoke(ctx, []byte(c.event)); err != nil {
					t.Error(err)
				}
				check.Equal(t, len(woken), c.woken, "woken %q, want", woken)
				leases, err := e.Leases(ctx)
				looked := c.partitions
				if looked == 1 { // nothing is due: no pass, no lease
					looked = 0
				}
				if err != nil || len(leases) != looked ||
					slices.ContainsFunc(leases, func(l core.Lease) bool { return l.Until.After(time.Now()) }) {
					t.Errorf("leases of checked partitions without a holder: %+v, %v", leases, err)
				}
				before, err := e.LastAlive(ctx)
				if err != nil || before.Equal(began) != c.alive {
					t.Errorf("sign of life at %v, began %v, %v; want one: %t", before, began, err, c.alive)
				}
			})
		})
	}
}

// An event that cannot be read fails before anything is done.
func TestWiredBadEvent(t *testing.T) {
	e := memory.Open(t, memory.Options{})
	h := awslambda.NewHandler(wire(&lambdaboot.Config{Plan: plan.AWS(), Partitions: 16}, e, noLetters, nil, slog.New(slog.DiscardHandler)))
	for _, raw := range []string{`[]`, `{"skip":257}`, `{`} {
		if _, err := h.Invoke(t.Context(), json.RawMessage(raw)); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if before, err := e.LastAlive(t.Context()); err != nil || !before.IsZero() {
		t.Errorf("sign of life at %v, %v", before, err)
	}
}
