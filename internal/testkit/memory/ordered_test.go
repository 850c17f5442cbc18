package memory

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The ordered set behaves like a sorted slice.
func TestOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOrdered(func(a, b int) bool { return a < b })
		var model []int
		ops := rapid.SliceOfN(rapid.IntRange(-3000, 3000), 0, 2000).Draw(t, "ops")
		for _, op := range ops {
			k := max(op, -op) / 2
			at, found := slices.BinarySearch(model, k)
			if op > 0 {
				if o.insert(k) == found {
					t.Fatalf("insert %d: found is %v", k, found)
				}
				if !found {
					model = slices.Insert(model, at, k)
				}
			} else {
				if o.remove(k) != found {
					t.Fatalf("remove %d: found is %v", k, found)
				}
				if found {
					model = slices.Delete(model, at, at+1)
				}
			}
		}
		k := rapid.IntRange(-1, 1501).Draw(t, "from")
		at, found := slices.BinarySearch(model, k)
		if got := slices.Collect(o.up(k)); !slices.Equal(got, model[at:]) {
			t.Fatalf("up from %d: %v", k, got)
		}
		if found {
			at++
		}
		want := slices.Clone(model[:at])
		slices.Reverse(want)
		if got := slices.Collect(o.down(k)); !slices.Equal(got, want) {
			t.Fatalf("down from %d: %v, want %v", k, got, want)
		}
	})
}
