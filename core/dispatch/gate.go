package dispatch

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// gates limits concurrent work over all invocations of this process. The limit for each address of an app is offered
// rate x answer time, within bounds: too few connections starve a slow executor, too many overload a fast one. Three
// shares limit each app and the total: sends without an answer (memory and descriptors), runs in hand (memory), and
// runs that wait to be in hand (a tenth of that memory each). Slow executors of one app thus do not delay other apps.
type gates struct {
	o     *Options
	began time.Time

	mu        sync.Mutex
	byAddress map[at]*gate
	open      share // sends without an answer
	hand      share // runs that are claimed, or about to be, and have no answer
	line      share // runs that wait to be in hand
	turns     map[string][]*turn
}

// A turn is a group of runs of an app that wait to be in hand, in arrival order.
type turn struct {
	fires int
	got   chan int // number of runs now in hand; capacity 1
}

// A gate limits the sends to one address of an app.
type gate struct {
	g        *gates
	app      string
	used     int
	limit    int
	waiting  []chan struct{}
	second   int64         // the second in which offered was counted
	offered  float64       // sends asked for in that second
	rate     float64       // per second, decaying
	best     time.Duration // shortest recent answer: the executor's time without queueing
	bestAt   int64
	lastUsed int64
}

// A share is a number of places. An app may hold as many as are free: one app alone gets half, two get a third each.
// The next app always finds room.
type share struct {
	most, used int
	of         map[string]int
}

func (s *share) take(app string) bool {
	if s.of[app] >= s.most-s.used {
		return false
	}
	s.of[app]++
	s.used++
	return true
}

// room returns how many more places the app may take.
func (s *share) room(app string) int { return (s.most - s.used - s.of[app] + 1) / 2 }

func (s *share) give(app string) {
	s.used--
	if s.of[app]--; s.of[app] == 0 {
		delete(s.of, app)
	}
}

func newGates(o *Options) *gates {
	of := func(most int) share { return share{most: most, of: map[string]int{}} }
	return &gates{o: o, began: time.Now(), byAddress: map[at]*gate{}, turns: map[string][]*turn{},
		open: of(o.SendsAll), hand: of(o.InHand), line: of(o.InLine)}
}

// hold takes a run of an app in hand. If the app is at its limit or has waiting turns, the run joins the line if there
// is room (waits); the caller must then call takeTurn.
func (g *gates) hold(app string) (held, waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.turns[app]) == 0 && g.hand.take(app) {
		return true, false
	}
	// Only a finished run of the app makes room. If none is in hand, waiting would never end.
	return false, g.hand.of[app] > 0 && g.line.take(app)
}

// letGo removes a run of an app from hand. Its place is offered to all apps.
func (g *gates) letGo(app string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hand.give(app)
	for waits := range g.turns {
		g.nextTurn(waits)
	}
}

// leaveLine removes runs of an app from the line.
func (g *gates) leaveLine(app string, fires int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range fires {
		g.line.give(app)
	}
}

// takeTurn waits for some of the runs to be in hand, until the given time at most, and returns how many are.
func (g *gates) takeTurn(ctx context.Context, app string, fires int, until time.Time) (int, error) {
	t := &turn{fires, make(chan int, 1)}
	g.mu.Lock()
	g.turns[app] = append(g.turns[app], t)
	g.nextTurn(app)
	g.mu.Unlock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	err := errHand
	select {
	case n := <-t.got:
		return n, nil
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.turns[app], t)
	if i < 0 { // the turn came at that moment
		return <-t.got, nil
	}
	g.endTurn(app, i)
	g.nextTurn(app)
	return 0, err
}

// nextTurn takes the next runs of an app in hand if there is room for enough of them: one claim of many runs costs
// little more than one of few. Callers hold the lock.
func (g *gates) nextTurn(app string) {
	for len(g.turns[app]) > 0 {
		t := g.turns[app][0]
		room := g.hand.room(app)
		if room <= 0 || room < min(t.fires, g.hand.of[app], g.hand.most/16) {
			return
		}
		n := min(t.fires, room)
		for range n {
			g.hand.take(app)
		}
		t.got <- n
		g.endTurn(app, 0)
	}
}

func (g *gates) endTurn(app string, i int) {
	if g.turns[app] = slices.Delete(g.turns[app], i, i+1); len(g.turns[app]) == 0 {
		delete(g.turns, app)
	}
}

const (
	gateFor  = 3 * time.Second  // how long an awaited call counts against the limit of its address
	gateWait = 10 * time.Second // a send that waits longer is enqueued again for a retry
	// placeFor is how long a sender keeps its place at a gate for its next sends: if each send had to get a place, a burst of
	// 10,000 would take an eighth longer. A send that takes longer than this is the only one in its place.
	placeFor = 5 * time.Millisecond
	maxGates = 10000 // addresses come from outside
)

func (g *gates) of(to at) *gate {
	now := g.second()
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.byAddress[to]
	if a == nil {
		if len(g.byAddress) >= maxGates {
			maps.DeleteFunc(g.byAddress, func(_ at, old *gate) bool {
				return old.used == 0 && len(old.waiting) == 0 && now-old.lastUsed > 60
			})
		}
		a = &gate{g: g, app: to.app, limit: g.o.SendsMin}
		g.byAddress[to] = a
	}
	return a
}

// second counts seconds since the start by the monotonic clock.
func (g *gates) second() int64 { return int64(time.Since(g.began) / time.Second) }

// offer records that n more sends are waiting and returns how many may be open at once.
func (a *gate) offer(n int) int {
	s := a.g.second()
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	if s != a.second {
		past := float64(s - a.second)
		a.rate = max(a.offered*math.Pow(0.8, past-1), a.rate*math.Pow(0.8, past))
		a.second, a.offered = s, 0
	}
	a.offered += float64(n)
	a.lastUsed = s
	want := int(2 * max(a.rate, a.offered) * min(a.best, gateFor).Seconds())
	a.limit = min(max(want, a.g.o.SendsMin), a.g.o.SendsMax)
	return a.limit
}

var (
	errGate = errors.New("the address has the maximum number of concurrent sends")
	errFull = errors.New("the app has the maximum number of unanswered sends")
	errHand = errors.New("the app has the maximum number of runs being dispatched")
)

// enter waits for a place, at most until the given time or the end of ctx. It fails at once if the app's share of open
// sends is used up.
func (a *gate) enter(ctx context.Context, until time.Time) (*passage, error) {
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	if a.used < a.limit {
		a.used++
	} else if err := a.wait(ctx, until); err != nil {
		return nil, err
	}
	if !a.g.open.take(a.app) {
		a.free()
		return nil, errFull
	}
	return &passage{gate: a, inside: true}, nil
}

// wait waits for a place. Callers hold the lock, which is released during the wait.
func (a *gate) wait(ctx context.Context, until time.Time) (err error) {
	place := make(chan struct{})
	a.waiting = append(a.waiting, place)
	a.g.mu.Unlock()
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-place:
	case <-t.C:
		err = errGate
	case <-ctx.Done():
		err = ctx.Err()
	}
	a.g.mu.Lock()
	if i := slices.Index(a.waiting, place); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
	} else if err != nil {
		a.free() // the place arrived at that moment: pass it on
	}
	return err
}

// free passes a place to the next waiting send. Callers hold the lock.
func (a *gate) free() {
	a.used--
	for a.used < a.limit && len(a.waiting) > 0 {
		a.used++
		close(a.waiting[0])
		a.waiting = a.waiting[1:]
	}
}

// A passage is one open send.
type passage struct {
	gate   *gate
	inside bool // it counts for its gate
}

// linger makes room at the gate while the send goes on without it. It returns false if the answer was faster.
func (p *passage) linger() bool {
	p.gate.g.mu.Lock()
	defer p.gate.g.mu.Unlock()
	return p.out()
}

// out makes room at the gate, once. Callers hold the lock.
func (p *passage) out() bool {
	was := p.inside
	if p.inside = false; was {
		p.gate.free()
	}
	return was
}

// leave records how long the answer took (0: nothing to record). It returns false if linger had made room.
func (p *passage) leave(took time.Duration) bool {
	a := p.gate
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	if took > 0 {
		if s := a.g.second(); a.best == 0 || took < a.best || s-a.bestAt > 10 {
			a.best, a.bestAt = took, s
		}
	}
	a.g.open.give(a.app)
	return p.out()
}
