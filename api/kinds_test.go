package api

import (
	"testing"

	"github.com/tickring/tickring/core"
)

// TestUnknownKindIsNotSwallowed: without its rule a job would look as if it had no schedule.
func TestUnknownKindIsNotSwallowed(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a rule of no known kind was shown as nothing")
		}
	}()
	scheduleOf(core.Schedule{Any: []core.When{{Kind: "moon"}}})
}
