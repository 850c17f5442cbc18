package core

import (
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestJoinLacks checks that the text is short for any length of names and any number of parents.
func TestJoinLacks(t *testing.T) {
	d := Def{Within: MaxWithin}
	for i := range JobID(MaxParents) {
		d.After = append(d.After, Parent{Job: strings.Repeat("a", 64) + "/" + strings.Repeat("n", 128), ID: i + 1})
	}
	j := Join{Parent: PlannedRun(1, 1_900_000_000), Begun: 1_900_000_000, Marks: []Mark{{Run: PlannedRun(1, 1_900_000_000), Counts: true}}}
	j.End = j.Begun.Add(d.Within)
	text := j.Lacks(&d)
	if len(text) >= 200 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	texts := golden.New(t)
	texts.Equal(t, "20 parents", text)
	d.After[0].ID = 99 // this parent is removed
	texts.Equal(t, "the first parent is removed", j.Lacks(&d))
}
