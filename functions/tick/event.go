package main

import (
	"encoding/json"
	"fmt"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/tick"
)

// event is what wakes the function: the rule sends anything that is a JSON
// object, another tick sends in which round it is, in milliseconds, and how many
// of the free partitions are for others.
type event struct {
	Round int64 `json:"round"`
	Skip  int   `json:"skip"`
}

// maxSkip is as many partitions as there can be.
const maxSkip = 256

func readEvent(raw json.RawMessage) (event, error) {
	var e event
	if len(raw) == 0 {
		return e, nil
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("the event is not a JSON object: %w", err)
	}
	if e.Skip < 0 || e.Skip > maxSkip {
		return e, fmt.Errorf("skip: %d; allowed values: 0 to %d", e.Skip, maxSkip)
	}
	if e.Round < 0 {
		return e, fmt.Errorf("round: %d; allowed values: milliseconds since 1970", e.Round)
	}
	return e, nil
}

func (e event) wake() tick.Wake { return tick.Wake{Round: core.FromMillis(e.Round), Skip: e.Skip} }

func encode(w tick.Wake) []byte {
	return fmt.Appendf(nil, `{"round":%d,"skip":%d}`, core.Millis(w.Round), w.Skip)
}
