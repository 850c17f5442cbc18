package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/store"
)

// TestLFU: each run goes to the least used address, and a new address gets its turn first. Dispatchers share their
// counts, with at most one read and one write in ten seconds.
func TestLFU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, dispatch.Options{})
		p.s.faulty.Shared = true
		reads, writes, err := 0, 0, error(nil)
		p.s.read = func(_ context.Context, k store.Key) error {
			if !strings.HasPrefix(k.Kind, "uses#") {
				return nil
			}
			reads++
			return err
		}
		p.s.write = func(_ context.Context, groups []store.Group) error {
			if strings.HasPrefix(groups[0].Writes[0].Kind, "uses#") {
				writes++
			}
			return nil
		}
		a, b, c := "http://10.0.0.1:1", "http://10.0.0.2:1", "http://10.0.0.3:1"
		p.app("work", a, b)
		m, ids := p.message("work", 1, core.RouteLFU)
		fire := func(p *prober) {
			t.Helper()
			next := m
			next.Fires = []core.Fire{m.Fires[0]}
			m.Fires[0].At++
			next.Fires[0].Run = core.PlannedRun(ids[0], m.Fires[0].At)
			p.handle(next)
		}
		time.Sleep(time.Minute)
		counts := func() map[string]int {
			n := map[string]int{}
			for _, to := range p.runs {
				n[to]++
			}
			p.runs = nil
			return n
		}
		for range 20 {
			fire(p)
		}
		if n := counts(); n[a] < 9 || n[b] < 9 {
			t.Errorf("20 runs went to %v", n)
		}
		if reads > 1 || writes > 1 {
			t.Errorf("in a moment %d reads and %d writes", reads, writes)
		}
		time.Sleep(11 * time.Second)
		fire(p) // writes the counts
		time.Sleep(11 * time.Second)
		p.runs = nil
		p.s.SaveApp(core.App{Name: "work", Executors: []string{a, b, c}, Rev: 2})
		other := newProber(t, dispatch.Options{})
		other.s, other.busy = p.s, p.busy
		other.d = p.s.dispatcher(other, dispatch.Options{})
		for range 7 { // c begins at one of 0, 1, 2
			fire(other)
		}
		for _, to := range other.runs {
			if to != c {
				t.Errorf("another dispatcher sent to %v; %s was used least", other.runs, c)
				break
			}
		}
		err = errors.New("no answer")
		time.Sleep(11 * time.Second)
		fire(other)
		if len(other.runs) != 8 {
			t.Error("without an answer it is not sent")
		}
	})
}
