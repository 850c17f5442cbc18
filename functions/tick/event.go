package main

import (
	"encoding/json"
	"fmt"
)

// event is what wakes the function: the schedule sends anything that is a JSON
// object, another tick sends how many were before it.
type event struct {
	Chain int `json:"chain"`
}

// maxChain bounds how many ticks wake each other.
const maxChain = 256

func readEvent(raw json.RawMessage) (event, error) {
	var e event
	if len(raw) == 0 {
		return e, nil
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("the event is not a JSON object: %w", err)
	}
	if e.Chain < 0 || e.Chain > maxChain {
		return e, fmt.Errorf("chain is %d; 0 to %d are allowed", e.Chain, maxChain)
	}
	return e, nil
}
