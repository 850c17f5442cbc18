package operate_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// torn are records with dead-letter messages whose first fires, and whose checks, are unreadable.
type torn struct{ store.Records }

func (r torn) List(ctx context.Context, kind, after, before string, limit int) ([]store.Record, error) {
	list, err := r.Records.List(ctx, kind, after, before, limit)
	for i := range list {
		list[i].Body = bytes.Replace(list[i].Body, []byte(`"kind":"check"`), []byte(`"kind":"boredom"`), 1)
		list[i].Body = bytes.Replace(list[i].Body, []byte(`"fires":[{`), []byte(`"fires":[{"run":5,"cause":"boredom"},{`), 1)
	}
	return list, err
}

// TestRedriveOfMany: any number of messages is sent again, page by page.
func TestRedriveOfMany(t *testing.T) {
	for _, n := range []int{budget.Redriven, budget.Redriven + 1, 5 * budget.Redriven} {
		f := newFixture(t)
		for i := range n {
			owed := ring.PostRun{Run: numbered(1, uint32(i+1))}
			m := ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(start), PostRun: &owed}
			must(t, f.E.Queue.Bury(ctx, m, "it was received too often"))
		}
		sent, calls := 0, 0
		for q := (operate.RedriveRequest{}); ; calls++ {
			res, err := f.M.Redrive(ctx, ann, q)
			if err != nil || res.Sent > budget.Redriven {
				t.Fatalf("%d sent in one call: %v", res.Sent, err)
			}
			sent += res.Sent
			if q.After = res.Next; res.Next == "" {
				break
			}
		}
		if sent != n {
			t.Errorf("%d of %d letters sent, in %d calls", sent, n, calls+1)
		}
	}
}
