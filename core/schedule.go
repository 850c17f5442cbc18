package core

import "time"

// Kind is the type of a schedule rule.
type Kind string

const (
	KindCron       Kind = "cron"       // a Quartz expression with 6 or 7 fields
	KindCrontab    Kind = "crontab"    // a Unix crontab expression with 5 fields
	KindEvery      Kind = "every"      // a fixed period counted from the Unix epoch
	KindFixedDelay Kind = "fixedDelay" // a delay counted from the end of the last attempt
	KindAt         Kind = "at"         // one scheduled time
)

var Kinds = []Kind{KindCron, KindCrontab, KindEvery, KindFixedDelay, KindAt}

// When is one rule of a schedule.
type When struct {
	Kind   Kind          `json:"kind"`
	Expr   string        `json:"expr,omitempty"`   // for KindCron and KindCrontab
	Every  time.Duration `json:"every,omitempty"`  // for KindEvery and KindFixedDelay: whole seconds
	Offset time.Duration `json:"offset,omitempty"` // for KindEvery: whole seconds, less than the period
	// Aligned is true if an Offset of 0 is intended. If Aligned is false and Offset is 0, the offset is a hash of the
	// job ID. So jobs with equal periods do not fire together.
	Aligned bool    `json:"aligned,omitempty"`
	At      Instant `json:"at,omitempty"` // for KindAt
}

// Schedule is the schedule of a job as its owner wrote it. Package schedule computes the scheduled times. A job
// without rules has no scheduled times.
type Schedule struct {
	Any      []When        `json:"any,omitempty"`      // rules: the job fires at all times of all rules; a fixedDelay rule must be alone
	Timezone string        `json:"timezone,omitempty"` // IANA name; empty: UTC
	From     string        `json:"from,omitempty"`     // a date or a time, included
	Until    string        `json:"until,omitempty"`    // a date or a time, included
	Jitter   time.Duration `json:"jitter,omitempty"`   // whole seconds
}

// FixedDelay returns the delay of a schedule with a fixedDelay rule; false for other schedules.
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
