package core

import "time"

// Kind is how a schedule finds its instants.
type Kind string

const (
	KindCron       Kind = "cron"       // Quartz, 6 or 7 fields
	KindCrontab    Kind = "crontab"    // Unix, 5 fields
	KindEvery      Kind = "every"      // a fixed period counted from the Unix epoch
	KindFixedDelay Kind = "fixedDelay" // from the end of the last attempt
	KindAt         Kind = "at"         // once
)

var Kinds = []Kind{KindCron, KindCrontab, KindEvery, KindFixedDelay, KindAt}

// When is one rule of a schedule.
type When struct {
	Kind   Kind          `json:"kind"`
	Expr   string        `json:"expr,omitempty"`   // cron, crontab
	Every  time.Duration `json:"every,omitempty"`  // every, fixedDelay: whole seconds
	Offset time.Duration `json:"offset,omitempty"` // every: whole seconds, less than the period
	// Aligned says that Offset counts even if it is 0; otherwise the offset is
	// a hash of the job, so that jobs of one period spread.
	Aligned bool    `json:"aligned,omitempty"`
	At      Instant `json:"at,omitempty"` // at
}

// Schedule says when a job fires, as its owner wrote it; package schedule
// makes instants of it. No rule at all means by hand only.
type Schedule struct {
	Any      []When        `json:"any,omitempty"`      // the earliest wins; fixedDelay stands alone
	Timezone string        `json:"timezone,omitempty"` // IANA; empty is UTC
	From     string        `json:"from,omitempty"`     // a date or a time; the first that counts
	Until    string        `json:"until,omitempty"`    // a date or a time; the last that counts
	Jitter   time.Duration `json:"jitter,omitempty"`   // whole seconds
}

// FixedDelay tells the delay if the schedule counts from the end of a run.
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
