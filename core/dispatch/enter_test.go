package dispatch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestPlacesAreGivenInTurn: who waits longest gets the next place, and who goes
// away while waiting takes none.
func TestPlacesAreGivenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newGates(2, 9).of("http://a", time.Now())
		var got []int
		gone, goAway := context.WithCancel(t.Context())
		refused := 0
		for i := range 6 {
			ctx := t.Context()
			if i == 3 {
				ctx = gone
			}
			go func() {
				if a.enter(ctx) != nil {
					refused++
					return
				}
				got = append(got, i)
			}()
			synctest.Wait()
		}
		if fmt.Sprint(got) != "[0 1]" {
			t.Errorf("%v have a place, want the first two", got)
		}
		goAway()
		synctest.Wait()
		for range 4 {
			a.leave(time.Millisecond, time.Now())
			synctest.Wait()
		}
		if fmt.Sprint(got) != "[0 1 2 4 5]" || refused != 1 {
			t.Errorf("places were given to %v, %d were refused", got, refused)
		}
		if a.leave(0, time.Time{}); a.used != 0 || len(a.waiting) != 0 {
			t.Errorf("%d places in use, %d wait, when all have left", a.used, len(a.waiting))
		}
	})
}

// TestPlaceOfOneWhoIsGoneIsPassedOn: it is given and its ctx ends at the same
// moment; whichever of the two it sees, the place is not lost.
func TestPlaceOfOneWhoIsGoneIsPassedOn(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			a := newGates(1, 1).of("http://a", time.Now())
			if a.enter(t.Context()) != nil {
				t.Fatal("no place at an empty gate")
			}
			ctx, cancel := context.WithCancel(t.Context())
			in := false
			go func() { in = a.enter(ctx) == nil }()
			synctest.Wait()
			cancel()
			a.leave(0, time.Time{})
			synctest.Wait()
			if in {
				a.leave(0, time.Time{})
			}
			if a.used != 0 || len(a.waiting) != 0 {
				t.Fatalf("it got in: %t; %d places in use, %d wait", in, a.used, len(a.waiting))
			}
		})
	}
}

// TestGatesAreForgotten: addresses come from outside, so what is remembered of
// them has a bound; a gate in use is none of what goes.
func TestGatesAreForgotten(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	g := newGates(1, 1)
	used := g.of("http://used", now)
	used.offer(1, now, 1, 1)
	if used.enter(t.Context()) != nil {
		t.Fatal("no place at an empty gate")
	}
	for i := range maxGates - 1 {
		g.of(fmt.Sprint("http://", i), now).offer(1, now, 1, 1)
	}
	later := now.Add(61 * time.Second)
	g.of("http://new", later)
	if len(g.byAddress) != 2 || g.of("http://used", later) != used {
		t.Errorf("%d gates are remembered, want the one in use and the new one", len(g.byAddress))
	}
}
