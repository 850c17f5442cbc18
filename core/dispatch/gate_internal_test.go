package dispatch

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRoomOfAnotherAppIsATurn: waiting runs come in hand when runs of another app end. Their own app may have no ending
// run, and half of its share need not be free.
func TestRoomOfAnotherAppIsATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, calls := range []int{4, 7} { // long ones; one app may have 8 of 16
			o := &Options{InHand: 16}
			o.defaults()
			g := newGates(o)
			for range calls {
				if held, _ := g.hold("calls"); !held {
					t.Fatal("no room")
				}
			}
			bursts := map[string]int{}
			for _, app := range []string{"one", "two", "three"} {
				for held, _ := g.hold(app); held; held, _ = g.hold(app) {
					bursts[app]++
				}
			}
			if held, waits := g.hold("calls"); held || !waits {
				t.Fatalf("held: %t, waits: %t", held, waits)
			}
			began := time.Now()
			time.AfterFunc(time.Second, func() {
				for app, n := range bursts {
					for range n {
						g.letGo(app)
					}
				}
			})
			got, err := g.takeTurn(t.Context(), "calls", 1, began.Add(10*time.Second))
			if took := time.Since(began); err != nil || got != 1 || took > time.Second {
				t.Errorf("beside %d calls: after %s it got %d: %v", calls, took, got, err)
			}
		}
	})
}
