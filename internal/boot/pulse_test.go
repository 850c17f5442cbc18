package boot

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestPulse: after a time in which nobody planned, whoever comes first notes it
// once, from the last sign of life on; minutes between two signs are no outage.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.Open(memory.Options{})
		tick, sends := NewPulse(e, slog.New(slog.DiscardHandler)), NewPulse(e, slog.New(slog.DiscardHandler))
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		noted := func(down, up time.Time) {
			t.Helper()
			g, err := e.Tick.Global(t.Context())
			do(err)
			if !g.DownAt.Equal(down) || !g.UpSince.Equal(up) {
				t.Fatalf("noted %s to %s, want %s to %s", g.DownAt, g.UpSince, down, up)
			}
		}
		do(sends.Look(t.Context())) // nobody ever planned
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
		do(NewPulse(e, slog.New(slog.DiscardHandler)).Look(t.Context())) // another process
		noted(last, up)
		do(tick.Beat(t.Context()))
		noted(last, up)
		time.Sleep(time.Minute)
		do(sends.Look(t.Context()))
		do(tick.Beat(t.Context()))
		noted(last, up)
	})
}
