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
	open   map[string]int // open probes and sends
	most   map[string]int
	sent   map[core.JobID]time.Time
	to     map[core.JobID]string
	jobs   core.JobID
	ours   error           // error returned without asking
	busy   map[string]bool // with a run of any job
	works  bool            // sends make an address busy
	runs   []string        // address of each send
}

func newProber(t *testing.T, o dispatch.Options) *prober {
	p := &prober{t: t, s: newData(t, plan.AWS(), memory.Options{}), silent: map[string]bool{}, asked: map[string]int{}, open: map[string]int{},
		most: map[string]int{},
		sent: map[core.JobID]time.Time{}, to: map[core.JobID]string{}, busy: map[string]bool{}}
	p.d = p.s.dispatcher(p, o)
	return p
}

// at is a request to an address: it takes 10 ms, or 3 s without an answer.
func (p *prober) at(ctx context.Context, address string) error {
	p.mu.Lock()
	p.open[address]++
	p.most[address] = max(p.most[address], p.open[address])
	silent := p.silent[address]
	p.mu.Unlock()
	takes := 10 * time.Millisecond
	if silent {
		takes = 3 * time.Second
	}
	var err error
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		err = ctx.Err()
	}
	if silent {
		err = errors.New("no answer")
	}
	p.mu.Lock()
	p.open[address]--
	p.mu.Unlock()
	return err
}

func (p *prober) Beat(ctx context.Context, _ *core.App, address string) error {
	p.mu.Lock()
	p.asked[address]++
	p.mu.Unlock()
	if p.ours != nil {
		return p.ours
	}
	return p.at(ctx, address)
}

func (p *prober) Idle(ctx context.Context, app *core.App, address string, _ core.JobID) (bool, error) {
	err := p.Beat(ctx, app, address)
	p.mu.Lock()
	defer p.mu.Unlock()
	return err == nil && !p.busy[address], err
}

func (p *prober) Send(ctx context.Context, s dispatch.SendRequest) dispatch.Answer {
	p.mu.Lock()
	p.sent[s.Run.ID.Job()], p.to[s.Run.ID.Job()] = time.Now(), s.Address
	p.runs = append(p.runs, s.Address)
	p.busy[s.Address] = p.busy[s.Address] || p.works
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

// TestNobodyAnswers: a run fails if none of its addresses answers in time. If they could not be asked, it is retried.
func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, dispatch.Options{SendsMin: 1, SendsMax: 1})
		a, b := "http://10.0.0.1:1", "http://10.0.0.2:1"
		p.silent[a], p.silent[b] = true, true
		p.s.App("fails", a, b)
		p.s.App("busy", a)
		m, ids := p.message("fails", 1, core.RouteFailover)
		p.handle(m)
		if r := p.s.Run(m.Fires[0].Run); r.State != core.Failed || r.Reason != core.ReasonNoExecutor || len(p.sent) != 0 {
			t.Errorf("job %d: %s: %s, want that no executor answered", ids[0], r.State, r.Reason)
		}

		// A send that hangs has the only place at the gate: a probe counts there too.
		hangs, _ := p.message("busy", 1, core.RouteRound)
		asks, _ := p.message("busy", 1, core.RouteFailover)
		var first sync.WaitGroup
		first.Go(func() { p.handle(hangs) })
		synctest.Wait()
		p.handle(asks)
		first.Wait()
		if p.most[a] != 1 {
			t.Errorf("%d requests to the address at once, its gate lets one through", p.most[a])
		}
		runs, n := p.s.Stored(asks.Fires[0].Run), p.s.Messages(ring.KindFires)
		if len(runs) != 0 || n != 1 {
			t.Errorf("what could not be asked: runs %+v, %d messages", runs, n)
		}
	})
}

// TestSilenceIsNotHearsay: no run fails because of a cached missing answer: the address is asked again and gets the
// run.
func TestSilenceIsNotHearsay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, dispatch.Options{})
		a, b := "http://10.0.0.1:1", "http://10.0.0.2:1"
		p.silent[a], p.silent[b] = true, true
		p.s.App("fails", a, b)
		m, _ := p.message("fails", 1, core.RouteFailover)
		p.handle(m)
		p.silent = map[string]bool{b: true}
		time.Sleep(2 * time.Second)
		for range 2 {
			m, ids := p.message("fails", 2, core.RouteFailover)
			p.handle(m)
			p.sentWithin("after a silence", ids, a, time.Now().Add(-100*time.Millisecond), 100*time.Millisecond)
		}
		p.silent[a] = true
		time.Sleep(2 * time.Second)
		m, _ = p.message("fails", 1, core.RouteFailover)
		began := time.Now()
		p.handle(m) // no time is left for b
		if _, waiting := p.s.Depth(ring.KindFires); waiting != 1 {
			t.Errorf("%d messages wait", waiting)
		}
		time.Sleep(time.Second)
		p.handle(m)
		if r := p.s.Run(m.Fires[0].Run); r.Reason != core.ReasonNoExecutor || time.Since(began) > 7100*time.Millisecond {
			t.Errorf("silent again: %s: %s after %s", r.State, r.Reason, time.Since(began))
		}
	})
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

// TestSilentProbesAreSlow: missing answers to probes count as slow. Later runs move to the slow queue without asking or
// claiming.
func TestSilentProbesAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, dispatch.Options{SlowQueue: true})
		p.silent["http://10.0.0.1:1"] = true
		p.s.App("fails", "http://10.0.0.1:1", "http://10.0.0.2:1")
		for range 3 {
			m, ids := p.message("fails", 1, core.RouteFailover)
			p.handle(m)
			if p.to[ids[0]] != "http://10.0.0.2:1" {
				t.Fatalf("sent to %q", p.to[ids[0]])
			}
			time.Sleep(15 * time.Second)
		}
		m, ids := p.message("fails", 1, core.RouteFailover)
		p.handle(m)
		n := p.s.Messages(ring.KindSlow)
		if _, sent := p.sent[ids[0]]; sent || n != 1 || p.asked["http://10.0.0.1:1"] != 3 {
			t.Errorf("sent %t, %d messages on the slow lane, %v asked", sent, n, p.asked)
		}
		m.Slow = true
		p.handle(m)
		if p.to[ids[0]] != "http://10.0.0.2:1" {
			t.Errorf("from the slow lane it was sent to %q", p.to[ids[0]])
		}
	})
}

// TestCouldNotAsk: a probe that failed for lack of local resources is no answer: the run is retried and does not fail.
func TestCouldNotAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, dispatch.Options{})
		p.s.App("asks", "http://10.0.0.1:1", "http://10.0.0.2:1")
		p.ours = core.Errorf(core.CodeUnavailable, "not asked: too many open files")
		m, ids := p.message("asks", 1, core.RouteFailover)
		p.handle(m)
		runs := p.s.Stored(m.Fires[0].Run)
		if len(runs) != 0 || len(p.sent) != 0 {
			t.Fatalf("%+v, sent %v", runs, p.sent)
		}
		p.ours = nil
		time.Sleep(2 * time.Second)
		got := p.s.Receive(ring.KindFires, 10)
		if len(got) != 1 {
			t.Fatalf("%d messages came again", len(got))
		}
		p.handle(got[0].Message)
		p.sentWithin("asked again", ids, "http://10.0.0.1:1", time.Now(), time.Second)
	})
}

// TestBusyover: each run goes to the first address that is idle for its job, even for several runs at once. If all are
// busy it fails, but cached answers are refreshed first.
func TestBusyover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProber(t, dispatch.Options{})
		a, b, c := "http://10.0.0.1:1", "http://10.0.0.2:1", "http://10.0.0.3:1"
		p.s.App("work", a, b, c)
		p.works, p.busy[b] = true, true
		first, ids := p.message("work", 1, core.RouteBusyover)
		many := func(n int) (m ring.Message) {
			m = ring.Message{Kind: ring.KindFires, Slot: first.Slot}
			for range n {
				at := first.Fires[0]
				first.Fires[0].At++ // of one job, and due
				at.Run = core.PlannedRun(ids[0], first.Fires[0].At)
				m.Fires = append(m.Fires, at)
			}
			return m
		}
		time.Sleep(10 * time.Second)
		p.handle(many(2))
		slices.Sort(p.runs)
		if !slices.Equal(p.runs, []string{a, c}) {
			t.Errorf("two at once, one of three is busy: %v", p.runs)
		}
		state := func(m ring.Message) core.Run {
			return p.s.Run(m.Fires[0].Run)
		}
		time.Sleep(500 * time.Millisecond)
		all := many(1)
		p.handle(all)
		if r := state(all); r.Reason != core.ReasonNoExecutor || len(r.Tries) != 3 {
			t.Errorf("all are busy: %+v", r)
		}
		// A busy address may be idle soon: no run fails by a cached answer.
		time.Sleep(200 * time.Millisecond)
		p.busy[b] = false
		free := many(1)
		p.handle(free)
		if r := state(free); r.Address != b || r.State != core.Running {
			t.Errorf("one is idle again: %+v", r)
		}
		// Two runs, one idle address: the second run needs a new answer, which it gets because the first run was short.
		time.Sleep(2 * time.Second)
		p.busy[a], p.runs, p.works = false, nil, false
		p.asked = map[string]int{}
		two, began := many(2), time.Now()
		p.handle(two)
		if apart := time.Since(began); !slices.Equal(p.runs, []string{a, a}) || apart < 100*time.Millisecond || apart > 300*time.Millisecond {
			t.Errorf("two at once where one is idle: sent to %v, the second after %v", p.runs, apart)
		}
		for address, n := range p.asked {
			if n > 3 {
				t.Errorf("%s was asked %d times", address, n)
			}
		}
	})
}
