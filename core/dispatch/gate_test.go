package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// slow are executors that accept each run after a delay, or give other answers. It counts the open sends to each address. A silent
// address answers neither probes nor sends.
type slow struct {
	takes   map[string]time.Duration
	answers func(x dispatch.SendRequest) dispatch.Answer // instead, if it is set
	mu      sync.Mutex
	now     map[string]int
	most    map[string]int
	total   map[string]int
	sent    []send
	beats   []string
	down    map[string]bool
	silent  map[string]bool
}

type send struct {
	run core.RunID
	to  string
	at  time.Time
}

func newSlow() *slow {
	return &slow{takes: map[string]time.Duration{}, now: map[string]int{}, most: map[string]int{}, total: map[string]int{},
		down: map[string]bool{}, silent: map[string]bool{}}
}

func (s *slow) answer(address string) dispatch.Answer {
	if s.silent[address] {
		return dispatch.Answer{Kind: dispatch.AnswerUnconfirmed, TimedOut: true, Took: 3 * time.Second}
	}
	return dispatch.Answer{Kind: dispatch.AnswerAccepted, Took: s.takes[address]}
}

// passes waits for d, and reports whether ctx lasts that long.
func passes(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *slow) Send(ctx context.Context, x dispatch.SendRequest) dispatch.Answer {
	s.mu.Lock()
	s.now[x.Address]++
	s.total[x.Address]++
	s.most[x.Address] = max(s.most[x.Address], s.now[x.Address])
	s.sent = append(s.sent, send{x.Run.ID, x.Address, time.Now()})
	a := s.answer(x.Address)
	s.mu.Unlock()
	if s.answers != nil {
		a = s.answers(x)
	}
	if !passes(ctx, a.Took) {
		a.Kind = dispatch.AnswerUnconfirmed
	}
	s.mu.Lock()
	s.now[x.Address]--
	s.mu.Unlock()
	return a
}

func (s *slow) Beat(ctx context.Context, _ *core.App, address string) error {
	s.mu.Lock()
	s.beats = append(s.beats, address)
	down, a := s.down[address], s.answer(address)
	s.mu.Unlock()
	switch {
	case down:
		return fmt.Errorf("%s is down", address)
	case !passes(ctx, a.Took):
		return ctx.Err()
	case a.TimedOut:
		return errors.New("no answer")
	}
	return nil
}

func (s *slow) Idle(ctx context.Context, app *core.App, address string, _ core.JobID) (bool, error) {
	err := s.Beat(ctx, app, address)
	return err == nil, err
}

// peak returns the maximum of open sends to each address since its last call.
func (s *slow) peak() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.most
	s.most = map[string]int{}
	return m
}

// gated is a dispatcher over a store with jobs of one app, each with one address: jobs 1 to 999 the first, from 1000
// the second.
type gated struct {
	t      *testing.T
	d      *dispatch.Dispatcher
	s      *data
	sender *slow
	jobs   core.JobID // that ask made
}

const firstAddress, secondAddress = "http://10.0.0.1:1", "http://10.0.0.2:1"

func newGated(t *testing.T, o dispatch.Options) *gated {
	g := &gated{t: t, s: newData(t, plan.Local(), memory.Options{}), sender: newSlow()}
	for app, address := range map[string]string{"one": firstAddress, "two": secondAddress} {
		g.s.App(app, address)
	}
	g.d = g.s.dispatcher(g.sender, o)
	return g
}

// messages creates n jobs with IDs from a number on, and messages with one due run of each.
func (g *gated) messages(from core.JobID, n int, app string, r ...core.Route) []ring.Message {
	g.t.Helper()
	now := core.InstantOf(time.Now())
	var fires []core.Fire
	for i := range n {
		id := from + core.JobID(i)
		g.s.Job(core.Job{Def: core.Def{ID: id, App: app, Name: "job-" + id.String(), Handler: "h", Route: append(r, "")[0]}})
		fires = append(fires, planned(id, now))
	}
	var out []ring.Message
	for _, o := range plan.Pack(fires, ring.MaxFires, nil) {
		out = append(out, o.Message)
	}
	return out
}

// ask creates n jobs with a route, and a message with one due run of each.
func (g *gated) ask(app string, n int, r core.Route) (ring.Message, []core.JobID) {
	m := g.messages(g.jobs+1, n, app, r)[0]
	var ids []core.JobID
	for range n {
		g.jobs++
		ids = append(ids, g.jobs)
	}
	return m, ids
}

func (g *gated) handle(msgs []ring.Message) {
	for _, v := range g.d.Handle(g.t.Context(), msgs) {
		if !v.Ack {
			g.t.Errorf("not acked: %v", v.Err)
		}
	}
}

// TestSendsToOneAddressAreBounded: the limit holds over all invocations and any number of due runs, and follows the
// executor's needs.
func TestSendsToOneAddressAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{SendsMin: 3, SendsMax: 7})
		g.sender.takes[firstAddress], g.sender.takes[secondAddress] = 400*time.Millisecond, time.Millisecond

		// The address is unknown, so the minimum applies. Two invocations share it.
		a, b := g.messages(1, 15, "one"), g.messages(101, 15, "one")
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { g.handle(a) })
		synctest.Wait()
		wg.Go(func() { g.handle(b) })
		wg.Wait()
		if got := g.sender.peak(); got[firstAddress] != 3 {
			t.Errorf("at first %v sends under way, want 3", got)
		}
		if x := g.sender.sent[3]; x.run.Job() < 101 || x.at.Sub(began) != 400*time.Millisecond {
			t.Errorf("after %s, the first free place went to run %s; want the other invocation's, after one send", x.at.Sub(began), x.run)
		}

		// 60 a second that take 0.4 s each need 48; the maximum is 7.
		g.handle(g.messages(201, 60, "one"))
		if got := g.sender.peak(); got[firstAddress] != 7 {
			t.Errorf("under load %v sends under way, want 7", got)
		}

		// When few are due the limit falls again: 6 need 4.
		time.Sleep(time.Minute)
		g.handle(g.messages(301, 6, "one"))
		if got := g.sender.peak(); got[firstAddress] != 4 {
			t.Errorf("later %v sends under way, want 4", got)
		}

		// An address that answers at once needs only the minimum.
		time.Sleep(time.Minute)
		g.handle(g.messages(1001, 60, "two"))
		g.handle(g.messages(1101, 60, "two"))
		if got := g.sender.peak(); got[secondAddress] != 3 {
			t.Errorf("to a quick address %v sends under way, want 3", got)
		}
		if want := map[string]int{firstAddress: 96, secondAddress: 120}; !maps.Equal(g.sender.total, want) {
			t.Errorf("sent %v, want %v", g.sender.total, want)
		}
	})
}

// TestWhatWaitsForALimitIsNotLost: an invocation that ends while its runs wait for places enqueues them again and holds
// no place.
func TestWhatWaitsForALimitIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{SendsMin: 1, SendsMax: 1, Invocation: 10 * time.Second})
		g.sender.takes[firstAddress] = 3 * time.Second
		g.handle(g.messages(1, 10, "one")) // acked: unsent runs are in a new message
		sent := g.sender.total[firstAddress]
		if sent < 2 || sent > 4 {
			t.Fatalf("%d were sent in 10 seconds", sent)
		}
		back := map[core.RunID]bool{}
		for range 20 {
			due, waiting := g.s.Depth(ring.KindFires)
			if due+waiting == 0 {
				break
			}
			got := g.s.Receive(ring.KindFires, 10)
			for _, d := range got {
				for _, f := range d.Message.Fires {
					back[f.Run] = true
				}
				g.handle([]ring.Message{d.Message})
			}
			g.s.Ack(got...)
		}
		if len(back) != 10-sent {
			t.Errorf("%d fires came again, want %d", len(back), 10-sent)
		}
		if got := g.sender.total[firstAddress]; got != 10 {
			t.Errorf("%d sends of 10 fires", got)
		}
		if got := g.sender.peak(); got[firstAddress] != 1 {
			t.Errorf("%v sends under way, want 1", got)
		}
	})
}

// TestFiresInHandAreBounded: runs beyond the app's share of InHand wait unclaimed and are sent in order as earlier ones
// are answered. Other apps do not wait.
func TestFiresInHandAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{InHand: 8})
		g.sender.takes[firstAddress] = time.Second
		var all sync.WaitGroup
		for i := range core.JobID(2) {
			msgs := g.messages(1+10*i, 10, "one")
			all.Go(func() { g.handle(msgs) })
		}
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		g.handle(g.messages(1000, 4, "two"))
		if took := time.Since(began); took > 0 {
			t.Errorf("another app's fires took %s", took)
		}
		claimed := 0
		for i := range core.JobID(20) {
			claimed += len(g.s.Stored(core.PlannedRun(1+i, core.InstantOf(began))))
		}
		all.Wait()
		if took := time.Since(began); claimed != 4 || g.sender.peak()[firstAddress] != 4 || took > 6*time.Second {
			t.Errorf("%d were claimed at first, the last answer came after %s", claimed, took)
		}
		if n := g.sender.total[firstAddress]; n != 20 {
			t.Errorf("%d were sent, want 20", n)
		}
	})
}

// TestFiresInLineComeAgain: runs are retried if they wait too long in line.
func TestFiresInLineComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{InHand: 8})
		g.sender.takes[firstAddress] = 20 * time.Second
		msgs := g.messages(1, 10, "one")
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() { g.handle(msgs) })
		got := g.s.Receive(ring.KindFires, 10)
		if took := time.Since(began); took < 10*time.Second || took > 13*time.Second || len(got) != 1 || len(got[0].Message.Fires) != 6 {
			t.Fatalf("after %s: %+v", took, got)
		}
		if runs := g.s.Stored(got[0].Message.Fires[0].Run); len(runs) != 0 {
			t.Errorf("claimed: %+v", runs)
		}
		all.Wait()
		g.sender.takes[firstAddress] = 0
		g.handle([]ring.Message{got[0].Message})
		if n := g.sender.total[firstAddress]; n != 10 {
			t.Errorf("%d were sent, want 10", n)
		}
	})
}

// TestLongestLeadTimeIsHeld: a message that arrives early, by the longest lead time plus the second that a queue rounds
// away, is held and not requeued.
func TestLongestLeadTimeIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{})
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1010 * time.Millisecond))) // fake time
		msgs := g.messages(1, 3, "one")
		slot := core.InstantOf(time.Now().Add(plan.AWS().LeadTime.Max + time.Second))
		for i := range msgs {
			msgs[i].Slot = slot
			for k := range msgs[i].Fires {
				f := &msgs[i].Fires[k]
				f.Run, f.At, f.Slot = core.PlannedRun(f.Run.Job(), slot), slot, slot
			}
		}
		g.handle(msgs)
		if d := time.Since(slot.Time()); d < 0 || g.sender.total[firstAddress] != 3 {
			t.Errorf("%s after the slot %d of 3 were sent", d, g.sender.total[firstAddress])
		}
	})
}
