package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// pulling calls the queues that executors pull from. Its time is after the messages, by the store's clock.
type pulling struct {
	*testing.T
	store.Pull
	now time.Time
}

func receipt(n, k int) store.Receipt {
	return store.Receipt{Run: core.PlannedRun(7, at(n)), N: k}
}

func body(n int) string { return fmt.Sprint("body of ", core.PlannedRun(7, at(n))) }

func (p *pulling) put(q store.PullQueue, n int) error {
	return p.PutPulled(p.Context(), store.PullItem{Queue: q, Run: receipt(n, 0).Run, Body: []byte(body(n))}, 4)
}

func (p *pulling) hide(q store.PullQueue, n, k int, after time.Duration) error {
	return p.HidePulled(p.Context(), q, receipt(n, k), p.now.Add(after), 1)
}

func (p *pulling) drop(q store.PullQueue, n, k int) error {
	return p.DropPulled(p.Context(), q, receipt(n, k))
}

// takes compares the messages that it takes, and when the next message becomes visible; -1: none, or now if there are more than
// limit.
func (p *pulling) takes(what string, q store.PullQueue, after, hide time.Duration, limit int, next time.Duration,
	want ...store.Receipt) {
	p.Helper()
	at := p.now.Add(after)
	held, visible, err := p.TakePulled(p.Context(), q, at, at.Add(hide), limit)
	ok(p.T, err)
	var got []store.Receipt
	for _, h := range held {
		if got = append(got, h.Receipt); string(h.Body) != fmt.Sprint("body of ", h.Receipt.Run) {
			p.Errorf("%s: the body of %s is %q", what, h.Receipt, h.Body)
		}
	}
	same(p.T, what, got, want)
	switch more := len(got) == limit; {
	case next >= 0 && !visible.Equal(p.now.Add(next)), more && (visible.IsZero() || visible.After(at)),
		len(got) == 0 && next < 0 && !visible.IsZero():
		p.Errorf("%s: next %s, want %s after %s", what, visible, next, p.now)
	}
}

// pulls tests the queues that executors pull from, if the store has them.
func pulls(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	if s.Pull == nil {
		t.Skip("executors do not pull from this store")
	}
	p := &pulling{t, s.Pull, time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)}
	q, other := store.PullQueue{App: "orders", Name: "mail"}, store.PullQueue{App: "billing", Name: "mail"}
	p.takes("an empty queue", q, 0, time.Minute, 10, -1)
	for _, n := range []int{0, 1, 2, 3, 1} { // one run twice
		ok(t, p.put(q, n))
	}
	if err := p.put(q, 9); !errors.Is(err, store.ErrFull) {
		t.Errorf("a full queue: %v", err)
	}
	ok(t, p.put(other, 9)) // another app's queue of that name
	p.takes("the first two", q, 0, time.Minute, 2, -1, receipt(0, 1), receipt(1, 1))
	p.takes("the rest", q, 0, 2*time.Minute, 5, time.Minute, receipt(2, 1), receipt(3, 1))
	// Extended messages stay hidden. The others become visible again.
	ok(t, p.hide(q, 0, 1, 3*time.Minute))
	p.takes("just before", q, time.Minute-time.Millisecond, time.Minute, 5, time.Minute)
	p.takes("at its time", q, time.Minute, time.Minute, 5, 2*time.Minute, receipt(1, 2))
	refused(t, p.hide(q, 1, 1, 0), p.drop(q, 1, 1), // after the loss
		p.drop(other, 1, 2), p.hide(q, 8, 1, 0), p.drop(other, 9, 1)) // another queue's, never stored, never taken
	// A returned message is visible, and was never taken.
	ok(t, p.hide(q, 1, 2, 0))
	refused(t, p.hide(q, 1, 2, 0))
	p.takes("returned", q, 0, time.Minute, 5, 2*time.Minute, receipt(1, 2))
	ok(t, p.drop(q, 1, 2))
	refused(t, p.drop(q, 1, 2))
	ok(t, p.put(q, 9)) // there is room again
	// A returned message comes first: the order is by the time of becoming visible.
	ok(t, p.hide(q, 3, 1, -2*time.Hour))
	p.takes("returned to an earlier time", q, 0, time.Minute, 1, -1, receipt(3, 2))
	for job, want := range map[core.JobID]bool{7: true, 8: false} {
		reads(t, "has messages of a job", want)(p.HasPulled(ctx, q, job))
	}
	list, err := p.ListPulled(ctx, 0, 3)
	if err != nil || len(list) != 3 || list[0].Run != receipt(0, 0).Run || list[2].Run != receipt(3, 0).Run || list[1].Queue != q ||
		list[0].N == 0 {
		t.Fatalf("%+v %v", list, err)
	}
	if h.Reopen != nil { // hidden or not, nothing is forgotten
		p.Pull = h.Reopen(t, s).Pull
	}
	rest, err := p.ListPulled(ctx, list[2].ID, 3)
	if err != nil || len(rest) != 2 || rest[0].Queue != other || rest[1].Run != receipt(9, 0).Run {
		t.Errorf("%+v %v", rest, err)
	}
	ok(t, p.RemovePulled(ctx, []int64{list[0].ID, list[2].ID, 1 << 40}))
	p.takes("remaining", q, time.Hour, time.Minute, 5, -1, receipt(9, 1), receipt(2, 2))
}
