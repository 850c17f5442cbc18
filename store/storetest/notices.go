package storetest

import (
	"slices"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// noticeLooks: checks are read by time, and only due ones.
func noticeLooks(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	list := []ring.CheckRequest{{At: at(1), Job: 9}, {At: at(1), Job: 10}, {At: at(2), Job: 7}, {At: at(60), Job: 7}}
	ok(t, nouns(s).PutLooks(ctx, []ring.CheckRequest{list[3], list[1], list[2]}))
	ok(t, nouns(s).PutLooks(ctx, []ring.CheckRequest{list[0], list[1]})) // once more is well
	due := func(upTo core.Instant, limit int, want ...ring.CheckRequest) {
		t.Helper()
		got, err := nouns(s).DueLooks(ctx, upTo, limit)
		there := len(got) == len(want)
		for i := range got { // jobs of one second in an order of the store's
			there = there && got[i].At == want[i].At && slices.Contains(want, got[i])
		}
		if err != nil || !there {
			t.Fatalf("due at %s are %+v, %v; want %+v", upTo, got, err, want)
		}
	}
	due(at(0), 10)
	due(at(1), 10, list[:2]...)
	due(at(59), 10, list[:3]...)
	due(at(59), 2, list[:2]...)
	ok(t, nouns(s).DropLooks(ctx, []ring.CheckRequest{list[0], list[1], {At: at(3), Job: 3}}))
	due(at(59), 10, list[2])
	due(at(60), 10, list[2:]...)
}
