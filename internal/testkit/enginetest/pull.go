package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// takes reads a queue and returns the messages as receipts and bodies.
func takes(t *testing.T, e *engine.Engine, q store.PullQueue, now time.Time, hide time.Duration, limit int) (got []string, next time.Time) {
	t.Helper()
	held, next, err := e.Store.Pull.TakePulled(t.Context(), q, now, now.Add(hide), limit)
	check.OK(t, err)
	for _, h := range held {
		got = append(got, h.Receipt.String()+" "+string(h.Body))
	}
	return got, next
}

// pulls tests the queues that executors pull from, if the engine has them.
func pulls(t *testing.T, h Harness) {
	e := h.Open(t)
	if e.Store.Pull == nil {
		return
	}
	ctx := t.Context()
	q, other := store.PullQueue{App: "orders", Name: "mail"}, store.PullQueue{App: "billing", Name: "mail"}
	id := func(n int) core.RunID { return core.PlannedRun(7, at(n)) }
	put := func(q store.PullQueue, n, most int) error {
		return e.Store.Pull.PutPulled(ctx, store.PullItem{Queue: q, Run: id(n), Body: fmt.Appendf(nil, "b%d", n)}, most)
	}
	receipt := func(n, k int) store.Receipt { return store.Receipt{Run: id(n), N: k} }
	now := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond) // after the messages, by the engine's clock
	if got, next := takes(t, e, q, now, time.Minute, 10); len(got) > 0 || !next.IsZero() {
		t.Errorf("an empty queue: %v, next %s", got, next)
	}
	for n := range 4 {
		check.OK(t, put(q, n, 4))
	}
	if err := put(q, 1, 4); err != nil {
		t.Errorf("an existing run: %v", err)
	}
	if err := put(q, 9, 4); !errors.Is(err, store.ErrFull) {
		t.Errorf("a full queue: %v", err)
	}
	if err := put(other, 9, 4); err != nil {
		t.Errorf("another app's queue of that name: %v", err)
	}
	want := func(what string, got []string, next time.Time, wantNext time.Time, list ...string) {
		t.Helper()
		if !slices.Equal(got, list) || !next.Equal(wantNext) {
			t.Errorf("%s: %v, next %s; want %v, %s", what, got, next, list, wantNext)
		}
	}
	name := func(n, k int) string { return fmt.Sprintf("%s b%d", receipt(n, k), n) }
	got, next := takes(t, e, q, now, time.Minute, 2)
	if next.IsZero() || next.After(now) {
		t.Errorf("there are more, next %s", next)
	}
	want("the first two", got, now, now, name(0, 1), name(1, 1))
	got, next = takes(t, e, q, now, 2*time.Minute, 5)
	want("the rest", got, next, now.Add(time.Minute), name(2, 1), name(3, 1))
	// Extended messages stay hidden, the others come again, to one of two.
	check.OK(t, e.Store.Pull.HidePulled(ctx, q, receipt(0, 1), now.Add(3*time.Minute), 1))
	got, next = takes(t, e, q, now.Add(time.Minute-time.Millisecond), time.Minute, 5)
	want("just before", got, next, now.Add(time.Minute))
	got, next = takes(t, e, q, now.Add(time.Minute), time.Minute, 5)
	want("at its time", got, next, now.Add(2*time.Minute), name(1, 2))
	for what, err := range map[string]error{
		"extended after the loss":      e.Store.Pull.HidePulled(ctx, q, receipt(1, 1), now, 1),
		"dropped after the loss":       e.Store.Pull.DropPulled(ctx, q, receipt(1, 1)),
		"dropped in another's queue":   e.Store.Pull.DropPulled(ctx, other, receipt(1, 2)),
		"extended though it was never": e.Store.Pull.HidePulled(ctx, q, receipt(8, 1), now, 1),
		"dropped before it was taken":  e.Store.Pull.DropPulled(ctx, other, receipt(9, 1)),
	} {
		if !errors.Is(err, core.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Returned it is visible, and was never taken.
	check.OK(t, e.Store.Pull.HidePulled(ctx, q, receipt(1, 2), now, 1))
	if err := e.Store.Pull.HidePulled(ctx, q, receipt(1, 2), now, 1); !errors.Is(err, core.ErrRefused) {
		t.Errorf("returned twice: %v", err)
	}
	got, next = takes(t, e, q, now, time.Minute, 5)
	want("returned", got, next, now.Add(2*time.Minute), name(1, 2))
	check.OK(t, e.Store.Pull.DropPulled(ctx, q, receipt(1, 2)))
	if err := e.Store.Pull.DropPulled(ctx, q, receipt(1, 2)); !errors.Is(err, core.ErrRefused) {
		t.Errorf("dropped twice: %v", err)
	}
	if err := put(q, 9, 4); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	// A returned message comes first: the order is by the time of becoming visible.
	check.OK(t, e.Store.Pull.HidePulled(ctx, q, receipt(3, 1), now.Add(-2*time.Hour), 1))
	got, _ = takes(t, e, q, now, time.Minute, 1)
	want("given back", got, now, now, name(3, 2))
	for job, want := range map[core.JobID]bool{7: true, 8: false} {
		if has, err := e.Store.Pull.HasPulled(ctx, q, job); has != want || err != nil {
			t.Errorf("job %d exists: %t %v", job, has, err)
		}
	}
	list, err := e.Store.Pull.ListPulled(ctx, 0, 3)
	if err != nil || len(list) != 3 || list[0].Run != id(0) || list[2].Run != id(3) || list[1].Queue != q ||
		list[0].N == 0 {
		t.Fatalf("%+v %v", list, err)
	}
	if h.Reopen != nil { // hidden or not, nothing is forgotten
		e = h.Reopen(t, e)
	}
	rest, err := e.Store.Pull.ListPulled(ctx, list[2].ID, 3)
	if err != nil || len(rest) != 2 || rest[0].Queue != other || rest[1].Run != id(9) {
		t.Errorf("%+v %v", rest, err)
	}
	check.OK(t, e.Store.Pull.RemovePulled(ctx, []int64{list[0].ID, list[2].ID, 1 << 40}))
	got, _ = takes(t, e, q, now.Add(time.Hour), time.Minute, 5)
	slices.Sort(got)
	want("remaining", got, now, now, name(2, 2), name(9, 1))
}
