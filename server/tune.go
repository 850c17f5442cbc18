package server

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// Tune sets the duration with the given name, for test suites that need short durations.
func (o *Options) Tune(name, value string) error {
	fields := map[string]*time.Duration{
		"beat": &o.Beat, "leaseFor": &o.LeaseFor, "expiry": &o.Expiry, "resumeAhead": &o.ResumeAhead, "beatWrite": &o.BeatWrite,
		"invocation":   &o.Invocation,
		"journalEvery": &o.JournalEvery, "sendTimeout": &o.SendTimeout, "callTimeout": &o.CallTimeout, "backoffMin": &o.BackoffMin,
		"backoffMax": &o.BackoffMax, "watchEvery": &o.WatchEvery, "behind": &o.Behind, "idleGap": &o.IdleGap, "timeoutGrace": &o.TimeoutGrace,
		"lostAfter": &o.LostAfter, "keepRuns": &o.KeepRuns, "keepJournals": &o.KeepJournals, "sweepEvery": &o.SweepEvery,
		"reportEvery": &o.ReportEvery,
		"aliveEvery":  &o.AliveEvery, "outageAfter": &o.OutageAfter, "drain": &o.Drain,
	}
	f, ok := fields[name]
	if !ok {
		return core.Invalid("tune", name, "allowed: %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return core.Invalid("tune."+name, value, "expected a positive duration such as 5s")
	}
	*f = d
	return nil
}
