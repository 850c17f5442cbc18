package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
)

// usesTold is the store that dispatchers share their counts in.
type usesTold struct {
	of         map[core.JobID]core.Uses
	reads, put int
	err        error
}

func (x *usesTold) Uses(_ context.Context, jobs []core.JobID) (map[core.JobID]core.Uses, error) {
	x.reads++
	found := map[core.JobID]core.Uses{}
	for _, id := range jobs {
		if u, is := x.of[id]; is {
			found[id] = u
		}
	}
	return found, x.err
}

func (x *usesTold) PutUses(_ context.Context, list []core.Uses) []error {
	for _, u := range list {
		x.of[u.Job] = u
		x.put++
	}
	return make([]error, len(list))
}

// TestLFU: each run goes to the least used address, and a new address gets its turn first. Dispatchers share their
// counts, with at most one read and one write in ten seconds.
func TestLFU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &usesTold{of: map[core.JobID]core.Uses{}}
		p := newProber(t, dispatch.Options{Uses: shared})
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
		if shared.reads > 1 || shared.put > 1 {
			t.Errorf("in a moment %d reads and %d writes", shared.reads, shared.put)
		}
		time.Sleep(11 * time.Second)
		fire(p) // writes the counts
		time.Sleep(11 * time.Second)
		p.runs = nil
		app, _, err := p.s.Apps(t.Context(), []string{"work"})
		must(t, err)
		of := app["work"]
		of.Executors, of.Rev = []string{a, b, c}, 2
		must(t, p.s.PutApp(t.Context(), 1, of, core.Change{ID: 2, App: "work"}))
		other := newProber(t, dispatch.Options{Uses: shared})
		other.s, other.busy = p.s, p.busy
		o := dispatch.Options{Uses: shared}
		other.d = dispatchOver(p, other, o)
		for range 7 { // c begins at one of 0, 1, 2
			fire(other)
		}
		for _, to := range other.runs {
			if to != c {
				t.Errorf("another dispatcher sent to %v; %s was used least", other.runs, c)
				break
			}
		}
		shared.err = errors.New("no answer")
		time.Sleep(11 * time.Second)
		fire(other)
		if len(other.runs) != 8 {
			t.Error("without an answer it is not sent")
		}
	})
}

// dispatchOver returns a dispatcher on the store of p that sends with another sender.
func dispatchOver(p *prober, by dispatch.Sender, o dispatch.Options) *dispatch.Dispatcher {
	o.Log = slog.New(slog.DiscardHandler)
	return dispatch.New(p.s, p.s, by, finish.New(p.s, p.s, finish.Options{Plan: plan.AWS(), Log: o.Log}), o)
}
