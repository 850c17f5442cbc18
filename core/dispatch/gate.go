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

// gates bound what is under way over all invocations of this process. To each
// address, apart for each app, connections = offered rate x answer time, within
// bounds: too few starve a slow executor, too many drown a fast one. Of each app,
// and in all, by shares: of sends that have no answer yet, which are memory and
// descriptors, of fires in hand, which are memory, and of those that wait for that,
// which are a tenth of it. So what one app's executors
// keep for themselves costs another app nothing.
type gates struct {
	o     *Options
	began time.Time

	mu        sync.Mutex
	byAddress map[at]*gate
	open      share // sends without an answer
	hand      share // fires that are claimed, or about to be, and have no answer
	line      share // fires that wait for a place among those
	turns     map[string][]*turn
}

// turn is some fires of an app that wait to be taken in hand, behind those before them.
type turn struct {
	fires int
	got   chan int // how many of them are in hand; has room for one
}

// gate is the way to one address of an app.
type gate struct {
	g        *gates
	app      string
	used     int
	limit    int
	waiting  []chan struct{}
	second   int64         // the second that offered counts
	offered  float64       // sends asked for in that second
	rate     float64       // per second, decaying
	best     time.Duration // shortest recent answer: what the executor takes when it is not waited for
	bestAt   int64
	lastUsed int64
}

// share is a number of places of which an app may have as many as are free: the
// first has half of them at most, a second one a third, and there is always room
// for the next.
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

// room is how many more the app may take.
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

// hold takes a fire of an app in hand; where the app has as many as it may, or others
// wait for that, it waits too if it can: then someone is to take its turn.
func (g *gates) hold(app string) (held, waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.turns[app]) == 0 && g.hand.take(app) {
		return true, false
	}
	// The end of what the app has in hand makes room: without any, nobody would.
	return false, g.hand.of[app] > 0 && g.line.take(app)
}

// letGo ends that. The room that an app makes is also that of others who wait.
func (g *gates) letGo(app string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hand.give(app)
	for waits := range g.turns {
		g.nextTurn(waits)
	}
}

// leaveLine says that fires wait no longer.
func (g *gates) leaveLine(app string, fires int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range fires {
		g.line.give(app)
	}
}

// takeTurn waits, until a moment, for some of the fires of an app to be taken in hand,
// and answers how many were.
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
	if i < 0 { // it came at the same moment
		return <-t.got, nil
	}
	g.endTurn(app, i)
	g.nextTurn(app)
	return 0, err
}

// nextTurn takes the next fires of an app in hand, once there is room for some: a
// claim of many costs little more than one of few. Callers hold the lock.
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

// maxGates bounds what is remembered; addresses come from outside.
const maxGates = 10000

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

// second counts seconds by the clock that nobody sets.
func (g *gates) second() int64 { return int64(time.Since(g.began) / time.Second) }

// offer tells the gate that n sends are wanted now, and answers how many may
// be under way at once.
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
	want := int(2 * max(a.rate, a.offered) * min(a.best, a.g.o.GateFor).Seconds())
	a.limit = min(max(want, a.g.o.SendsMin), a.g.o.SendsMax)
	return a.limit
}

var (
	errGate = errors.New("as many sends to its address as may be are under way")
	errFull = errors.New("its app has as many sends without an answer as it may")
	errHand = errors.New("its app has as many fires in hand as it may")
)

// enter waits for a place, until a moment. It fails when that has come, when ctx
// ends, and at once where the app has its share of what is under way.
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

// wait waits for a place. Callers hold the lock, which it leaves to others meanwhile.
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
		a.free() // the place came at the same moment: it is passed on
	}
	return err
}

// free gives a place to who waits for one. Callers hold the lock.
func (a *gate) free() {
	a.used--
	for a.used < a.limit && len(a.waiting) > 0 {
		a.used++
		close(a.waiting[0])
		a.waiting = a.waiting[1:]
	}
}

// passage is one send on its way.
type passage struct {
	gate   *gate
	inside bool // it counts for its gate
}

// linger says that the send has no answer yet and is only awaited from now on: it
// makes room at its gate. False if the answer was faster.
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

// leave notes the answer and how long it took (0: nothing to note). False if the
// send had lingered.
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
