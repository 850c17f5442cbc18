package dispatch_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
)

// sentWithin checks that all jobs were sent to an address within d of began.
func (g *gated) sentWithin(what string, ids []core.JobID, to string, began time.Time, d time.Duration) {
	g.t.Helper()
	for _, id := range ids {
		if !slices.ContainsFunc(g.sender.sent, func(s send) bool { return s.run.Job() == id && s.to == to && s.at.Sub(began) <= d }) {
			g.t.Errorf("%s: job %d was not sent to %q within %s of %s: %v", what, id, to, d, began, g.sender.sent)
		}
	}
}

// TestProbesHoldUpNobody: silent addresses delay only the first run that asks them, for one time limit however many are
// silent. Each is asked once for all runs.
func TestProbesHoldUpNobody(t *testing.T) {
	for _, n := range []int{1, 9, 30} {
		fixture.Bubble(t, fmt.Sprint(n, " silent"), func(t *testing.T) {
			g := newGated(t, dispatch.Options{})
			var list []string
			for i := range n {
				list = append(list, fmt.Sprintf("http://10.0.0.%d:1", i+1))
				g.sender.silent[list[i]] = true
			}
			last := "http://10.0.0.99:1"
			for app, addresses := range map[string][]string{"fails": append(list, last), "plain": {"http://10.1.0.1:1"},
				"asks": {"http://10.2.0.1:1", "http://10.2.0.2:1"}} {
				g.s.App(app, addresses...)
				for _, a := range addresses {
					g.sender.takes[a] = 10 * time.Millisecond
				}
			}
			for round, within := range []time.Duration{3*time.Second + 100*time.Millisecond, 100 * time.Millisecond} {
				fails, slow := g.ask("fails", 5, core.RouteFailover)
				more, slower := g.ask("fails", 5, core.RouteFailover)
				plain, first := g.ask("plain", 5, core.RouteRound)
				asks, second := g.ask("asks", 5, core.RouteFailover)
				began := time.Now()
				var both sync.WaitGroup
				both.Go(func() { g.handle([]ring.Message{fails, asks, plain}) })
				g.handle([]ring.Message{more})
				both.Wait()
				what := fmt.Sprint("round ", round, ": ")
				g.sentWithin(what+"asks nothing", first, "http://10.1.0.1:1", began, 0)
				g.sentWithin(what+"asks others", second, "http://10.2.0.1:1", began, 20*time.Millisecond)
				g.sentWithin(what+"asks silent ones", slices.Concat(slow, slower), last, began, within)
			}
			asked := map[string]int{}
			for _, a := range g.sender.beats {
				asked[a]++
			}
			for a, times := range asked {
				if times != 1 && (times != 2 || g.sender.silent[a]) {
					t.Errorf("%s was asked %d times", a, times)
				}
			}
			// Once it answers again it is found, though no run waited for it.
			clear(g.sender.silent)
			for range 2 {
				time.Sleep(11 * time.Second)
				m, _ := g.ask("fails", 1, core.RouteFailover)
				g.handle([]ring.Message{m})
			}
			if to := g.sender.sent[len(g.sender.sent)-1].to; to != list[0] {
				t.Errorf("when all answer again it is sent to %s", to)
			}
		})
	}
}

// TestAskedIsInHand: runs whose addresses are asked count as in hand, and an app has a share of those. Further runs
// wait unasked while the line has room; the rest is retried at once.
func TestAskedIsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{InHand: 8, InLine: 3})
		a, b := "http://10.0.0.1:1", "http://10.0.0.2:1"
		g.sender.silent[a] = true
		g.s.App("fails", a, b)
		m, ids := g.ask("fails", 10, core.RouteFailover)
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() { g.handle([]ring.Message{m}) })
		time.Sleep(time.Second)
		due, waiting := g.s.Depth(ring.KindFires)
		got := g.s.Receive(ring.KindFires, 10)
		if due+waiting != 1 || len(got[0].Message.Fires) != 4 {
			t.Errorf("%d messages come again: %+v", due+waiting, got)
		}
		all.Wait()
		g.handle([]ring.Message{got[0].Message})
		g.sentWithin("in the end", ids, b, began, time.Minute)
	})
}

// TestBusyoverAtOnce: of several runs at once, each goes to an idle address. If only one is idle, the second run waits for a
// new answer.
func TestBusyoverAtOnce(t *testing.T) {
	const a, b, c = "http://10.0.0.1:1", "http://10.0.0.2:1", "http://10.0.0.3:1"
	for idle, want := range map[string][]string{"free " + a + " " + c: {a, c}, "idle " + a: {a, a}} {
		bubble(t, func(st *stage) {
			st.Play("job 7 route=busyover; app executors=" + a + "," + b + "," + c + "; +1s")
			st.Play("probe busy " + a + " " + b + " " + c + "; probe " + idle)
			began := time.Now()
			st.Step("fire 7@0s 7@1s")
			var to []string
			for _, r := range st.s.Stored(st.Runs("7@0s 7@1s")...) {
				to = append(to, r.Address)
			}
			slices.Sort(to)
			took, waits := time.Since(began), want[1] == a
			if !slices.Equal(to, want) || waits != (took >= 100*time.Millisecond) || took > 300*time.Millisecond {
				t.Errorf("%s: sent to %v in %s", idle, to, took)
			}
		})
	}
}
