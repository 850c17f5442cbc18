// Package probe keeps what sends and questions found at the addresses of executors, and asks
// those that speak the wire from time to time whether they answer: a heartbeat proves only that
// an executor reaches the server. What it learns is kept in memory for users and decides nothing.
package probe

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

const (
	// Most is how many addresses one round asks; the next goes on behind them.
	Most = 200
	// together is how many are asked at a time, each for askFor at most.
	together = 8
	askFor   = 3 * time.Second
	// mostKnown bounds the addresses of which something is known; beyond it all is forgotten.
	mostKnown = 20_000
	// fewRefusals is how many runs in a row an executor refuses in words of the protocol before
	// that counts as its own problem: one job may name a handler that it does not have.
	fewRefusals = 3
)

// Store is what a round reads.
type Store interface {
	ListApps(ctx context.Context) ([]core.App, error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	ListJobs(ctx context.Context, app string, after core.JobID, limit int) (jobs []core.Job, next core.JobID, err error)
}

// Sender asks an address; see send.Sender.AskClock.
type Sender interface {
	AskClock(ctx context.Context, app *core.App, address string) (core.Clock, error)
}

// Answer is what an address said last.
type Answer struct {
	At      time.Time
	Took    time.Duration // of a question, until its answer; 0 of a send
	Problem string        // empty: it answers
	Clock   core.Clock
}

// Send is what a send to an address got. Problem is empty if the executor took the run or told
// that it cannot now. Reached reports whether something there answered, Refused whether that
// refused the run in words of the protocol.
type Send struct {
	Problem          string
	Reached, Refused bool
}

// known is what was found at one address.
type known struct {
	asked  Answer    // to the last question; zero: none was asked
	took   time.Time // of the last send without a problem
	failed time.Time // of the last one with
	send   Send      // that one
	fails  int       // sends in a row with a problem
}

// answer is what counts: a send with a problem, until a send without one, or, if nothing there
// was reached, until a question is answered.
func (k *known) answer() (Answer, bool) {
	a := k.asked
	stands := k.fails > 0 && (!k.send.Refused || k.fails >= fewRefusals)
	switch {
	case stands && (k.send.Reached || !k.asked.At.After(k.failed)):
		a.At, a.Took, a.Problem = k.failed, 0, k.send.Problem
		if k.fails > 1 {
			a.Problem = core.Say("%d sends in a row were not accepted, the last: %s", k.fails, k.send.Problem).String()
		}
	case k.took.After(k.asked.At):
		a.At, a.Took, a.Problem = k.took, 0, ""
	}
	return a, !a.At.IsZero()
}

// Probe asks addresses of the wire: to what is called otherwise a question would be a
// request that means something.
type Probe struct {
	store Store
	send  Sender
	over  time.Duration

	mu    sync.Mutex
	known map[place]*known
	last  place // of the round before
}

type place struct{ app, address string }

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.app, o.app), cmp.Compare(p.address, o.address))
}

// New makes one whose rounds are spread over a while.
func New(store Store, send Sender, over time.Duration) *Probe {
	return &Probe{store: store, send: send, over: over, known: map[place]*known{}}
}

// Answer is what an address of an app said last; false: nothing was sent there or asked.
func (p *Probe) Answer(app, address string) (Answer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.known[place{app, address}]; k != nil {
		return k.answer()
	}
	return Answer{}, false
}

// Sent notes what a send to an address of an app got.
func (p *Probe) Sent(app, address string, s Send) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.find(place{app, address})
	if s.Problem == "" {
		k.took, k.fails = now, 0
		return
	}
	k.failed, k.send = now, s
	k.fails++
}

// Asked notes the answer to a question; err is why there is none.
func (p *Probe) Asked(app, address string, begun time.Time, clock core.Clock, err error) {
	if core.CodeOf(err) == core.CodeUnavailable && err != nil { // it could not be asked
		return
	}
	a := Answer{At: time.Now().UTC().Truncate(time.Millisecond), Took: time.Since(begun), Clock: clock}
	if err != nil {
		a.Problem = core.Truncate(err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.find(place{app, address}).asked = a
}

// find finds what is known of an address, or makes room for it. Callers hold mu.
func (p *Probe) find(at place) *known {
	if p.known[at] == nil {
		if len(p.known) >= mostKnown {
			clear(p.known)
		}
		p.known[at] = &known{}
	}
	return p.known[at]
}

// Pass is a round. It waits for those that it asks.
func (p *Probe) Pass(ctx context.Context) error {
	apps, places, err := p.round(ctx)
	if err != nil {
		return err
	}
	var under sync.WaitGroup
	defer under.Wait()
	free := make(chan struct{}, together)
	for i, at := range places {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		under.Go(func() {
			defer func() { <-free }()
			p.ask(ctx, apps[at.app], at)
		})
		if i == len(places)-1 {
			break
		}
		wait := time.NewTimer(p.over / time.Duration(len(places)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil
		}
	}
	return nil
}

// round is what is to be asked, of apps that have a job; what is no more is forgotten.
func (p *Probe) round(ctx context.Context) (map[string]*core.App, []place, error) {
	list, err := p.store.ListApps(ctx)
	if _, err = core.BesidesApps(err); err != nil {
		return nil, nil, err
	}
	apps, all := map[string]*core.App{}, map[place]bool{} // true: it can be asked
	var names []string
	for i := range list {
		apps[list[i].Name] = &list[i]
		names = append(names, list[i].Name)
	}
	stored, err := p.store.Executors(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	for name, app := range apps {
		for _, e := range app.Candidates(stored[name], core.Global{}, time.Now(), core.BeatExpiry) {
			scheme, _, err := core.ParseAddress(e.Address)
			all[place{name, e.Address}] = err == nil && scheme == core.SchemeWire
		}
	}
	p.mu.Lock()
	maps.DeleteFunc(p.known, func(at place, _ *known) bool { _, is := all[at]; return !is })
	maps.DeleteFunc(all, func(_ place, asks bool) bool { return !asks })
	order := slices.SortedFunc(maps.Keys(all), place.compare)
	from, is := slices.BinarySearchFunc(order, p.last, place.compare)
	p.mu.Unlock()
	if is {
		from++
	}
	order = append(slices.Clone(order[from:]), order[:from]...)
	var places []place
	jobs := map[string]bool{}
	for _, at := range order {
		has, known := jobs[at.app]
		if !known {
			found, next, err := p.store.ListJobs(ctx, at.app, 0, 1)
			if _, err = core.Besides(err); err != nil {
				return nil, nil, err
			}
			has = len(found) > 0 || next != 0
			jobs[at.app] = has
		}
		if has {
			places = append(places, at)
		}
		if len(places) == Most {
			break
		}
	}
	if len(places) > 0 {
		p.mu.Lock()
		p.last = places[len(places)-1]
		p.mu.Unlock()
	}
	return apps, places, nil
}

func (p *Probe) ask(ctx context.Context, app *core.App, at place) {
	asked, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	begun := time.Now()
	clock, err := p.send.AskClock(asked, app, at.address)
	switch {
	case ctx.Err() != nil: // it is our stop that it did not get to answer
		return
	case asked.Err() != nil && err != nil:
		err = core.Errorf(core.CodeRefused, "no answer within %s", askFor)
	}
	p.Asked(at.app, at.address, begun, clock, err)
}
