package main

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/lambdaboot"
)

// TestLate: a send more than a second after its due time is reported once, a run triggered for now never.
func TestLate(t *testing.T) {
	var l late
	slot := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	at := func(after time.Duration, cause core.Cause) {
		l.sent(&core.Run{Slot: core.InstantOf(slot), Cause: cause}, slot.Add(after), nil)
	}
	at(900*time.Millisecond, core.CauseSchedule)
	at(time.Hour, core.CauseManual)
	if got := l.take(); got[lambdaboot.Lateness] != 0 || got[lambdaboot.LateFires] != 0 {
		t.Errorf("on time: %v", got)
	}
	at(1500*time.Millisecond, core.CauseSchedule)
	at(4*time.Second, core.CauseRetry)
	at(2*time.Second, core.CauseSchedule)
	if got := l.take(); got[lambdaboot.Lateness] != 4 || got[lambdaboot.LateFires] != 3 {
		t.Errorf("three late ones, 4 s at most: %v", got)
	}
	if got := l.take(); got[lambdaboot.Lateness] != 0 || got[lambdaboot.LateFires] != 0 {
		t.Errorf("told twice: %v", got)
	}
}
