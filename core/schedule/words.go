package schedule

import "github.com/tickring/tickring/core"

// Describe says in words when the schedule fires.
func (s *Schedule) Describe() string { return "" }

// Traps says what its owner may not expect, with the clock changes of the year after.
func (s *Schedule) Traps(after core.Instant) []string { return nil }
