package partition

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
)

var now = time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// TestTurn checks which partitions a ticker checks, and in which order.
func TestTurn(t *testing.T) {
	const me = "me"
	free := func(p int, d time.Duration) core.Lease { return core.Lease{Name: name(p), Epoch: 3, Until: ago(d)} }
	of := func(owner string, p int, d time.Duration) core.Lease {
		return core.Lease{Name: name(p), Owner: owner, Epoch: 3, Until: ago(d)}
	}
	for what, c := range map[string]struct {
		n      int
		mine   map[int]*held
		stored []core.Lease
		round  time.Time
		skip   int
		want   []int
		unseen int
	}{
		"never checked": {n: 3, round: now, want: []int{0, 1, 2}, unseen: 3},
		"left alone for longest": {n: 4, stored: []core.Lease{free(0, time.Minute), free(1, 3*time.Minute), free(2, 2*time.Minute)},
			round: now, want: []int{3, 1, 2, 0}, unseen: 4},
		"checked in this round": {n: 3, stored: []core.Lease{free(0, time.Second), free(1, time.Minute)}, round: ago(30 * time.Second),
			want: []int{2, 1}, unseen: 2},
		"but not by one who lives on": {n: 2, stored: []core.Lease{free(0, time.Second), free(1, time.Minute)}, want: []int{1, 0}},
		"held by another":             {n: 2, stored: []core.Lease{of("other", 0, -time.Second)}, round: now, want: []int{1}, unseen: 1},
		// It may be what kills tickers.
		"of one that died comes last": {n: 3, stored: []core.Lease{of("dead", 0, 15*time.Second), free(1, 55*time.Second),
			free(2, 58*time.Second)},
			round: now, want: []int{2, 1, 0}, unseen: 3},
		"taken, without an answer": {n: 1, stored: []core.Lease{of(me, 0, -45*time.Second)}, round: now, want: []int{0}, unseen: 1},
		// Written before the clock was corrected.
		"given back, and ends in an hour": {n: 2, stored: []core.Lease{free(0, -time.Hour), free(1, time.Second)}, want: []int{0, 1}},
		"given back by a clock a little ahead": {n: 2, stored: []core.Lease{free(0, -time.Second), free(1, time.Minute)},
			round: ago(10 * time.Second),
			want:  []int{1}, unseen: 1},
		"and free to one who lives on": {n: 2, stored: []core.Lease{free(0, -time.Second), free(1, time.Minute)}, want: []int{1, 0}},
		"given back in an hour, as a round has it": {n: 2, stored: []core.Lease{free(0, -time.Hour), free(1, time.Minute)},
			round: ago(10 * time.Second),
			want:  []int{0, 1}, unseen: 2},
		"of one that died, and ends in an hour": {n: 2, stored: []core.Lease{of("dead", 0, -time.Hour), free(1, time.Minute)},
			round: ago(10 * time.Second),
			want:  []int{0, 1}, unseen: 2},
		"mine in their turn": {n: 3, mine: map[int]*held{0: {looked: ago(time.Second)}, 1: {looked: ago(2 * time.Second)}},
			stored: []core.Lease{of(me, 0, -44*time.Second), of(me, 1, -44*time.Second), free(2, time.Minute)}, round: ago(10 * time.Second),
			want: []int{2, 1, 0}, unseen: 1},
		"the first are for others": {n: 4, round: now, skip: 2, want: []int{2, 3, 0, 1}, unseen: 4},
		"more than there are":      {n: 2, round: now, skip: 5, want: []int{0, 1}, unseen: 2},
	} {
		t.Run(what, func(t *testing.T) {
			stored := map[string]core.Lease{}
			for _, l := range c.stored {
				stored[l.Name] = l
			}
			list := looks(c.n, me, c.mine, stored, 45*time.Second, c.round, now)
			var got []int
			unseen := 0
			for _, l := range turn(list, c.skip) {
				got = append(got, l.partition)
				if l.unseen {
					unseen++
				}
			}
			if !slices.Equal(got, c.want) || unseen != c.unseen && !c.round.IsZero() {
				t.Errorf("%v, %d unseen; want %v, %d", got, unseen, c.want, c.unseen)
			}
		})
	}
}

// TestLeaseOfALostAnswer: a lease that was taken is held, though its answer was lost: the client repeats the write, which is
// rejected. The stored lease may also be from a faster ticker. Its epoch is from the clock, so that it is new after the lease
// was deleted.
func TestLeaseOfALostAnswer(t *testing.T) {
	for _, other := range []bool{false, true} {
		began := time.Now().UnixMilli()
		data := memory.Open(t, memory.Options{})
		stored := func() core.Lease {
			list, err := data.Leases(t.Context())
			check.OK(t, err)
			return list[0]
		}
		s := hook.Over(data, func(ctx context.Context, c *hook.Call, next func() []error) []error {
			errs := next()
			check.OK(t, errs[0])
			if c.Write == nil {
				return errs
			}
			if other {
				faster := stored()
				faster.Owner = "another"
				check.OK(t, data.PutLease(ctx, stored(), faster))
			}
			return []error{core.ErrRefused}
		})
		h := New(s, Options{ID: "a"})
		check.Call(t)(h.Turn(t.Context(), 1))
		if got, err := h.Take(t.Context(), 0); err != nil || got == other {
			t.Errorf("taken by another: %t, and held: %t, %v", other, got, err)
		}
		if stored().Epoch < began {
			t.Errorf("epoch %d, from %d on expected", stored().Epoch, began)
		}
	}
}
