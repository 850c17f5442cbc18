package core

import "time"

// Kind is the type of a schedule rule.
type Kind string

const (
	KindCron       Kind = "cron"       // Quartz, 6 or 7 fields
	KindCrontab    Kind = "crontab"    // Unix, 5 fields
	KindEvery      Kind = "every"      // a fixed period counted from the Unix epoch
	KindFixedDelay Kind = "fixedDelay" // a delay counted from the end of the last attempt
	KindAt         Kind = "at"         // once
)

var Kinds = []Kind{KindCron, KindCrontab, KindEvery, KindFixedDelay, KindAt}

// When is one rule of a schedule.
type When struct {
	Kind   Kind          `json:"kind"`
	Expr   string        `json:"expr,omitempty"`   // cron, crontab
	Every  time.Duration `json:"every,omitempty"`  // every, fixedDelay: whole seconds
	Offset time.Duration `json:"offset,omitempty"` // every: whole seconds, less than the period
	// Aligned is true if Offset applies even if it is 0. Otherwise the offset is a hash of the job, so that jobs with
	// equal periods are spread.
	Aligned bool    `json:"aligned,omitempty"`
	At      Instant `json:"at,omitempty"` // at
}

// Schedule is the schedule of a job as its owner wrote it; package schedule computes its
// scheduled times. Without rules, the job has only manual runs.
type Schedule struct {
	Any      []When        `json:"any,omitempty"`      // the earliest time of all rules is next; fixedDelay is used alone
	Timezone string        `json:"timezone,omitempty"` // IANA; empty is UTC
	From     string        `json:"from,omitempty"`     // a date or a time, included
	Until    string        `json:"until,omitempty"`    // a date or a time, included
	Jitter   time.Duration `json:"jitter,omitempty"`   // whole seconds
}

// FixedDelay returns the delay if the schedule counts from the end of a run.
func (s Schedule) FixedDelay() (time.Duration, bool) {
	if len(s.Any) == 1 && s.Any[0].Kind == KindFixedDelay {
		return s.Any[0].Every, true
	}
	return 0, false
}

func (s Schedule) Equal(o Schedule) bool {
	if len(s.Any) != len(o.Any) || s.Timezone != o.Timezone || s.From != o.From || s.Until != o.Until || s.Jitter != o.Jitter {
		return false
	}
	for i := range s.Any {
		if s.Any[i] != o.Any[i] {
			return false
		}
	}
	return true
}
