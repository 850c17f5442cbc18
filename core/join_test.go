package core

import (
	"strings"
	"testing"
)

// TestJoinLacks checks that the text is short for any length of names and any number of parents.
func TestJoinLacks(t *testing.T) {
	d := Def{Within: MaxWithin}
	for i := range JobID(MaxParents) {
		d.After = append(d.After, Parent{Job: strings.Repeat("a", 64) + "/" + strings.Repeat("n", 128), ID: i + 1})
	}
	j := Join{Parent: PlannedRun(1, 1_900_000_000), Begun: 1_900_000_000, Marks: []Mark{{Run: PlannedRun(1, 1_900_000_000), Counts: true}}}
	j.End = j.Begun.Add(d.Within)
	if text := j.Lacks(&d); len(text) >= 200 || !strings.Contains(text, " and 18 more had not ended as asked within 168h0m0s of aaa") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	d.After[0].ID = 99 // this parent is removed
	if text := j.Lacks(&d); !strings.HasSuffix(text, " and 19 more had not ended as asked within 168h0m0s of run "+j.Parent.String()) {
		t.Error(text)
	}
}
