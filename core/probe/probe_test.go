package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// world is a Sender.
type world struct {
	mu          sync.Mutex
	asked       []string
	under, most int
	answer      func(ctx context.Context, address string) error
}

// put stores apps, which have one job each, except the one named idle.
func put(t *testing.T, s *store.Store, apps ...core.App) {
	t.Helper()
	for i, a := range apps {
		a.Rev = 1
		check.OK(t, s.PutApp(t.Context(), 0, a, core.Change{ID: 1, App: a.Name}))
		if a.Name != "idle" {
			j := core.Job{Def: core.Def{ID: core.JobID(i + 1), App: a.Name, Name: "j"}, Sched: core.Sched{ID: core.JobID(i + 1), App: a.Name}}
			check.OK(t, s.Jobs.Put(t.Context(), []store.JobPut{{Create: &j}})[0])
		}
	}
}

func (w *world) AskClock(ctx context.Context, app *core.App, address string) (core.Clock, error) {
	w.mu.Lock()
	w.asked = append(w.asked, app.Name+" "+address)
	w.under++
	w.most = max(w.most, w.under)
	w.mu.Unlock()
	defer func() { w.mu.Lock(); w.under--; w.mu.Unlock() }()
	return core.Clock{Known: true, Ahead: 40}, w.answer(ctx, address)
}

// TestPass checks which addresses are probed, and their results: none of call:, and none of apps without a job.
func TestPass(t *testing.T) {
	w := &world{}
	w.answer = func(ctx context.Context, address string) error {
		switch {
		case strings.Contains(address, "dead"):
			return errors.New("connection refused")
		case strings.Contains(address, "slow"):
			<-ctx.Done()
			return ctx.Err()
		case strings.Contains(address, "10.0.0.1"):
			time.Sleep(70 * time.Millisecond) // of the test's own clock
		case strings.Contains(address, "unknown"):
			return core.Errorf(core.CodeUnavailable, "not asked: too many open files")
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		s := memory.Open(t, memory.Options{})
		put(t, s, core.App{Name: "idle", Executors: []string{"http://10.0.0.9:1"}},
			core.App{Name: "shop", Executors: []string{"http://10.0.0.1:1", "http://dead:1", "http://slow:1", "http://unknown:1",
				"call:https://x.example", "queue:q", "lambda:f"}})
		p, begin := New(s, w, 40*time.Second), time.Now()
		if err := p.Pass(t.Context()); err != nil || len(w.asked) != 4 {
			t.Fatalf("asked %v, %v", w.asked, err)
		}
		if took := time.Since(begin); took < 29*time.Second || took > 34*time.Second {
			t.Errorf("a round is spread over %s", took)
		}
		for address, problem := range map[string]string{"http://10.0.0.1:1": "", "http://dead:1": "connection refused",
			"http://slow:1": "no answer within 3s"} {
			if a, known := p.Answer("shop", address); !known || a.Problem != problem || a.At.IsZero() || a.Clock.Ahead != 40 {
				t.Errorf("%s: %+v, known %t", address, a, known)
			}
		}
		if a, _ := p.Answer("shop", "http://10.0.0.1:1"); a.Took != 70*time.Millisecond {
			t.Errorf("it answered in %s", a.Took)
		}
		for _, other := range []place{{"shop", "http://unknown:1"}, {"idle", "http://10.0.0.9:1"}, {"shop", "call:https://x.example"}} {
			if a, known := p.Answer(other.app, other.address); known {
				t.Errorf("%v: %+v", other, a)
			}
		}
		shop := core.App{Name: "shop", Rev: 2, Executors: []string{"http://10.0.0.1:1"}}
		check.OK(t, s.PutApp(t.Context(), 1, shop, core.Change{ID: 2, App: "shop"}))
		check.OK(t, p.Pass(t.Context()))
		if a, known := p.Answer("shop", "http://dead:1"); known {
			t.Errorf("a removed one is known: %+v", a)
		}
		ctx, stop := context.WithCancel(t.Context())
		w.answer = func(context.Context, string) error { stop(); return errors.New("stopped") }
		check.NoError(t, p.Pass(ctx))
		if a, _ := p.Answer("shop", "http://10.0.0.1:1"); a.Problem != "" {
			t.Errorf("our own stop is its answer: %+v", a)
		}
	})
}

// TestBounds checks that a round probes 200 addresses, eight at a time, and the next one continues.
func TestBounds(t *testing.T) {
	w := &world{answer: func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }}
	var apps []core.App
	for i := range 30 {
		app := core.App{Name: fmt.Sprintf("a%02d", i)}
		for k := range 10 {
			app.Executors = append(app.Executors, fmt.Sprintf("http://10.0.0.%d:1", k))
		}
		apps = append(apps, app)
	}
	synctest.Test(t, func(t *testing.T) {
		s := memory.Open(t, memory.Options{})
		put(t, s, apps...)
		p := New(s, w, time.Second)
		for range 2 {
			check.OK(t, p.Pass(t.Context()))
		}
		times := map[string]int{}
		for _, at := range w.asked {
			times[at]++
		}
		if len(w.asked) != 2*Most || len(times) != 300 || w.most != together {
			t.Errorf("%d questions to %d, %d at a time", len(w.asked), len(times), w.most)
		}
	})
}
