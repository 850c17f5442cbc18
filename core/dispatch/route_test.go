package dispatch_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/route"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/store"
)

// TestRoutesAreDone: addresses are asked as the route requires before a run is sent to them.
func TestRoutesAreDone(t *testing.T) {
	addresses := []string{"http://10.0.0.1:1", "http://10.0.0.2:1", "http://10.0.0.3:1"}
	for _, r := range core.Routes {
		fixture.Bubble(t, string(r), func(t *testing.T) {
			g := newGated(t, dispatch.Options{})
			for _, a := range addresses[:2] {
				g.sender.down[a] = true
			}
			app := core.App{Name: "three", Executors: addresses, Rev: 1}
			g.s.SaveApp(app)
			j := core.Job{Def: core.Def{ID: 7, App: "three", Name: "j", Handler: "h", Route: r}}
			j.Normalize()
			if err := j.Validate(); err != nil {
				t.Error(err)
			}
			j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
			g.s.Job(j)
			f := due(7)
			g.handle([]ring.Message{messageOf(f)})
			run := g.s.Run(f.Run)

			switch route.Asks(r) {
			case route.AskNothing:
				if len(g.sender.beats) != 0 {
					t.Errorf("asks nothing, and %v were asked", g.sender.beats)
				}
				var chosen []core.Try // from these, if the list alone does not determine it
				if r != core.RouteFirst && !route.All(r) {
					chosen = []core.Try{{Address: run.Address, By: r, Of: 3, From: addresses}}
				}
				if !reflect.DeepEqual(run.Tries, chosen) {
					t.Errorf("noted %+v, want %+v", run.Tries, chosen)
				}
			case route.AskBeat, route.AskIdle:
				if !slices.Equal(g.sender.beats, addresses) || run.Address != addresses[2] || len(run.Tries) != 3 {
					t.Errorf("asked %v, sent to %s, noted %v", g.sender.beats, run.Address, run.Tries)
				}
			default:
				t.Errorf("it asks %d, which dispatch never does", route.Asks(r))
			}
			want := map[string]int{run.Address: 1}
			if route.All(r) { // its shards are in the queue
				want = nil
			}
			for _, a := range addresses {
				if g.sender.total[a] != want[a] {
					t.Errorf("sent %v, want %v", g.sender.total, want)
				}
			}
			if run.State != core.Running {
				t.Errorf("it is %s: %s", run.State, run.Reason)
			}
		})
	}
}

// TestExecutorThatJustRegisteredGetsItsRun: the first read of executors may be older than the only registration of an app.
func TestExecutorThatJustRegisteredGetsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{})
		g.s.read = func(ctx context.Context, k store.Key) error {
			if k.Kind == store.KindExecutors("new") && glance.Of(ctx) != nil {
				return errAbsent
			}
			return nil
		}
		must(t, errors.Join(g.s.PutApp(t.Context(), 0, core.App{Name: "new", Rev: 1}, core.Change{ID: 1, App: "new"}),
			g.s.PutExecutor(t.Context(), core.Executor{App: "new", Address: firstAddress, Beat: time.Now()})))
		msgs := g.messages(5, 1, "new")
		g.handle(msgs)
		if r := g.s.Run(msgs[0].Fires[0].Run); r.State != core.Running || r.Address != firstAddress || g.sender.total[firstAddress] != 1 {
			t.Errorf("%s: %s at %q", r.State, r.Reason, r.Address)
		}
	})
}

// TestLFU: each run goes to the least used address, and a new address gets its turn first. Dispatchers share their
// counts, with at most one read and one write in ten seconds.
func TestLFU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{})
		g.s.faulty.Shared = true
		reads, writes, err := 0, 0, error(nil)
		g.s.read = func(_ context.Context, k store.Key) error {
			if !strings.HasPrefix(k.Kind, "uses#") {
				return nil
			}
			reads++
			return err
		}
		g.s.write = func(_ context.Context, groups []store.Group) error {
			if strings.HasPrefix(groups[0].Writes[0].Kind, "uses#") {
				writes++
			}
			return nil
		}
		a, b, c := "http://10.0.0.1:1", "http://10.0.0.2:1", "http://10.0.0.3:1"
		g.s.App("work", a, b)
		m, ids := g.ask("work", 1, core.RouteLFU)
		fire := func(g *gated) {
			t.Helper()
			next := m
			next.Fires = []core.Fire{m.Fires[0]}
			m.Fires[0].At++
			next.Fires[0].Run = core.PlannedRun(ids[0], m.Fires[0].At)
			g.handle([]ring.Message{next})
		}
		time.Sleep(time.Minute)
		for range 20 {
			fire(g)
		}
		if n := g.sender.total; n[a] < 9 || n[b] < 9 {
			t.Errorf("20 runs went to %v", n)
		}
		if reads > 1 || writes > 1 {
			t.Errorf("in a moment %d reads and %d writes", reads, writes)
		}
		time.Sleep(11 * time.Second)
		fire(g) // writes the counts
		time.Sleep(11 * time.Second)
		g.s.SaveApp(core.App{Name: "work", Executors: []string{a, b, c}, Rev: 2})
		other := &gated{t: t, s: g.s, sender: newSlow()}
		other.d = g.s.dispatcher(other.sender, dispatch.Options{})
		for range 7 { // c begins at one of 0, 1, 2
			fire(other)
		}
		if n := other.sender.total[c]; n != 7 {
			t.Errorf("another dispatcher sent to %v; %s was used least", other.sender.total, c)
		}
		err = errors.New("no answer")
		time.Sleep(11 * time.Second)
		fire(other)
		if len(other.sender.sent) != 8 {
			t.Error("without an answer it is not sent")
		}
	})
}
