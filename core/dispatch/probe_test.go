package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// prober is a dispatcher over a store with jobs. Silent addresses answer neither probes nor sends.
type prober struct {
	t *testing.T
	s *data
	d *dispatch.Dispatcher

	mu     sync.Mutex
	silent map[string]bool
	asked  map[string]int
	sent   map[core.JobID]time.Time
	to     map[core.JobID]string
	jobs   core.JobID
	runs   []string // address of each send
}

func newProber(t *testing.T, o dispatch.Options) *prober {
	p := &prober{t: t, s: newData(t, plan.AWS(), memory.Options{}), silent: map[string]bool{}, asked: map[string]int{},
		sent: map[core.JobID]time.Time{}, to: map[core.JobID]string{}}
	p.d = p.s.dispatcher(p, o)
	return p
}

// at is a request to an address: it takes 10 ms, or 3 s without an answer.
func (p *prober) at(ctx context.Context, address string) error {
	p.mu.Lock()
	silent := p.silent[address]
	p.mu.Unlock()
	takes := 10 * time.Millisecond
	if silent {
		takes = 3 * time.Second
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if silent {
		return errors.New("no answer")
	}
	return nil
}

func (p *prober) Beat(ctx context.Context, _ *core.App, address string) error {
	p.mu.Lock()
	p.asked[address]++
	p.mu.Unlock()
	return p.at(ctx, address)
}

func (p *prober) Idle(ctx context.Context, app *core.App, address string, _ core.JobID) (bool, error) {
	err := p.Beat(ctx, app, address)
	return err == nil, err
}

func (p *prober) Send(ctx context.Context, s dispatch.SendRequest) dispatch.Answer {
	p.mu.Lock()
	p.sent[s.Run.ID.Job()], p.to[s.Run.ID.Job()] = time.Now(), s.Address
	p.runs = append(p.runs, s.Address)
	p.mu.Unlock()
	a := dispatch.Answer{Kind: dispatch.AnswerAccepted, Took: 10 * time.Millisecond}
	if p.at(ctx, s.Address) != nil {
		a = dispatch.Answer{Kind: dispatch.AnswerUnconfirmed, TimedOut: true, Took: 3 * time.Second}
	}
	return a
}

// message returns a message with one due run for each of n new jobs of an app.
func (p *prober) message(app string, n int, r core.Route) (ring.Message, []core.JobID) {
	p.t.Helper()
	now := core.InstantOf(time.Now())
	m := ring.Message{Kind: ring.KindFires, Slot: now}
	var ids []core.JobID
	for range n {
		p.jobs++
		p.s.Job(core.Job{Def: core.Def{ID: p.jobs, App: app, Name: "j" + p.jobs.String(), Handler: "h", Route: r}})
		m.Fires = append(m.Fires, planned(p.jobs, now))
		ids = append(ids, p.jobs)
	}
	return m, ids
}

func (p *prober) handle(msgs ...ring.Message) {
	p.t.Helper()
	for _, v := range p.d.Handle(p.t.Context(), msgs) {
		if !v.Ack {
			p.t.Errorf("not acked: %v", v.Err)
		}
	}
}

// sentWithin checks that all jobs were sent to an address within d of began.
func (p *prober) sentWithin(what string, ids []core.JobID, to string, began time.Time, d time.Duration) {
	p.t.Helper()
	for _, id := range ids {
		if at, ok := p.sent[id]; !ok || at.Sub(began) > d || p.to[id] != to {
			p.t.Errorf("%s: job %d was sent to %q after %s (%t), want %s within %s", what, id, p.to[id], at.Sub(began), ok, to, d)
		}
	}
}

// TestProbesHoldUpNobody: silent addresses delay only the first run that asks them, for one time limit however many are
// silent. Each is asked once for all runs.
func TestProbesHoldUpNobody(t *testing.T) {
	for _, n := range []int{1, 9, 30} {
		fixture.Bubble(t, fmt.Sprint(n, " silent"), func(t *testing.T) {
			p := newProber(t, dispatch.Options{})
			var list []string
			for i := range n {
				list = append(list, fmt.Sprintf("http://10.0.0.%d:1", i+1))
				p.silent[list[i]] = true
			}
			last := "http://10.0.0.99:1"
			p.s.App("fails", append(list, last)...)
			p.s.App("plain", "http://10.1.0.1:1")
			p.s.App("asks", "http://10.2.0.1:1", "http://10.2.0.2:1")
			for round, within := range []time.Duration{3*time.Second + 100*time.Millisecond, 100 * time.Millisecond} {
				fails, slow := p.message("fails", 5, core.RouteFailover)
				more, slower := p.message("fails", 5, core.RouteFailover)
				plain, first := p.message("plain", 5, core.RouteRound)
				asks, second := p.message("asks", 5, core.RouteFailover)
				began := time.Now()
				var both sync.WaitGroup
				both.Go(func() { p.handle(fails, asks, plain) })
				p.handle(more)
				both.Wait()
				what := fmt.Sprint("round ", round, ": ")
				p.sentWithin(what+"asks nothing", first, "http://10.1.0.1:1", began, 0)
				p.sentWithin(what+"asks others", second, "http://10.2.0.1:1", began, 20*time.Millisecond)
				p.sentWithin(what+"asks silent ones", slices.Concat(slow, slower), last, began, within)
			}
			for a, times := range p.asked {
				if times != 1 && (times != 2 || p.silent[a]) {
					t.Errorf("%s was asked %d times", a, times)
				}
			}
			// Once it answers again it is found, though no run waited for it.
			p.silent = map[string]bool{}
			for range 2 {
				time.Sleep(11 * time.Second)
				m, _ := p.message("fails", 1, core.RouteFailover)
				p.handle(m)
			}
			if p.to[p.jobs] != list[0] {
				t.Errorf("when all answer again it is sent to %s", p.to[p.jobs])
			}
		})
	}
}

// TestAskedIsInHand: runs whose addresses are asked count as in hand, and an app has a share of those. Further runs
// wait unasked while the line has room; the rest is retried at once.
func TestAskedIsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, dispatch.Options{InHand: 8, InLine: 3})
		a, b := "http://10.0.0.1:1", "http://10.0.0.2:1"
		p.silent[a] = true
		p.s.App("fails", a, b)
		m, ids := p.message("fails", 10, core.RouteFailover)
		var all sync.WaitGroup
		all.Go(func() { p.handle(m) })
		time.Sleep(time.Second)
		due, waiting := p.s.Depth(ring.KindFires)
		got := p.s.Receive(ring.KindFires, 10)
		if due+waiting != 1 || len(got[0].Message.Fires) != 4 {
			t.Errorf("%d messages come again: %+v", due+waiting, got)
		}
		all.Wait()
		p.handle(got[0].Message)
		for _, id := range ids {
			if p.to[id] != b {
				t.Errorf("job %d was sent to %q", id, p.to[id])
			}
		}
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
