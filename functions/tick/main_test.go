package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/engine/memory"
	"github.com/tickring/tickring/internal/boot"
)

// The handler as main makes it: woken by the schedule it passes, leaves a sign
// of life and gives its leases back; where more partitions are free than it
// takes, it wakes another, as many as there can be partitions and no more.
func TestWired(t *testing.T) {
	schedule, err := os.ReadFile("testdata/schedule.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		event      string
		partitions int
		function   string
		woken      []string
		alive      bool
	}{
		"one partition":            {event: string(schedule), partitions: 1, function: "tick", alive: true},
		"five":                     {event: string(schedule), partitions: 5, function: "tick", woken: []string{`{"chain":1}`}, alive: true},
		"five, in the chain":       {event: `{"chain":3}`, partitions: 5, function: "tick", woken: []string{`{"chain":4}`}},
		"five, at the chain's end": {event: `{"chain":16}`, partitions: 5, function: "tick"},
		"five, not on Lambda":      {event: string(schedule), partitions: 5, alive: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memory.Open(memory.Options{})
				if err := e.Manage.PutGlobal(t.Context(), 0, core.Global{Partitions: c.partitions, Readable: c.partitions, Rev: 1}); err != nil {
					t.Fatal(err)
				}
				var woken []string
				h := awslambda.NewHandler(wire(&boot.Config{Plan: plan.AWS(), Partitions: 16, Function: c.function}, e, func(_ context.Context, payload []byte) error {
					woken = append(woken, string(payload))
					return nil
				}, slog.New(slog.DiscardHandler)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				if _, err := h.Invoke(ctx, []byte(c.event)); err != nil {
					t.Error(err)
				}
				if !slices.Equal(woken, c.woken) {
					t.Errorf("woken %q, want %q", woken, c.woken)
				}
				leases, err := e.Leases.Leases(ctx)
				if err != nil || slices.ContainsFunc(leases, func(l core.Lease) bool { return l.Until.After(time.Now()) }) {
					t.Errorf("leases held after the end: %+v, %v", leases, err)
				}
				before, err := e.Upkeep.Alive(ctx, time.Now())
				if err != nil || before.Equal(began) != c.alive {
					t.Errorf("sign of life at %v, began %v, %v; want one: %t", before, began, err, c.alive)
				}
			})
		})
	}
}

// An event that cannot be read fails before anything is done.
func TestWiredBadEvent(t *testing.T) {
	e := memory.Open(memory.Options{})
	h := awslambda.NewHandler(wire(&boot.Config{Plan: plan.AWS(), Partitions: 16}, e, nil, slog.New(slog.DiscardHandler)))
	for _, raw := range []string{`[]`, `{"chain":257}`, `{`} {
		if _, err := h.Invoke(t.Context(), json.RawMessage(raw)); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if before, err := e.Upkeep.Alive(t.Context(), time.Now()); err != nil || !before.IsZero() {
		t.Errorf("sign of life at %v, %v", before, err)
	}
}
