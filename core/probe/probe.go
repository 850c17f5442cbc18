// Package probe keeps the results of sends and probes for each executor address. The package regularly probes addresses that
// use the xxl-job protocol, because a heartbeat only proves that the executor can reach the server. Results are kept in memory
// and are only shown to users.
package probe

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

const (
	// Most is the maximum number of addresses that one round probes. The next round continues after them.
	Most = 200
	// together is how many are probed at a time, each for askFor at most.
	together = 8
	askFor   = 3 * time.Second
	// mostKnown limits the remembered addresses; beyond it all are forgotten.
	mostKnown = 20_000
	// fewRefusals is how many rejected runs in a row count as a problem of the executor: a single job may
	// name a handler that it does not have.
	fewRefusals = 3
)

// A Sender probes an address and returns its clock. *send.Sender implements it.
type Sender interface {
	AskClock(ctx context.Context, app *core.App, address string) (core.Clock, error)
}

// An Answer is the latest result for an address.
type Answer struct {
	At      time.Time
	Took    time.Duration // duration of a probe, from request to response; 0: the result is of a send
	Problem string        // description of the problem; empty: there is no problem
	Clock   core.Clock
}

// A Send is the result of a send to an address. Problem is empty if the executor accepted the run or is busy. Reached reports
// whether the executor responded. Refused reports whether the executor rejected the run as the protocol defines.
type Send struct {
	Problem          string
	Reached, Refused bool
}

// known is the state of one address.
type known struct {
	asked  Answer    // of the last probe; zero: none
	took   time.Time // of the last send without a problem
	failed time.Time // of the last send with a problem
	send   Send      // that send
	fails  int       // sends in a row with a problem
}

// answer returns the current result: a failed send counts until a successful one. If the address was not
// reached, it counts only until the next probe.
func (k *known) answer() (Answer, bool) {
	a := k.asked
	stands := k.fails > 0 && (!k.send.Refused || k.fails >= fewRefusals)
	switch {
	case stands && (k.send.Reached || !k.asked.At.After(k.failed)):
		a.At, a.Took, a.Problem = k.failed, 0, k.send.Problem
		if k.fails > 1 {
			a.Problem = core.Say("%d sends in a row failed, the last with: %s", k.fails, k.send.Problem).String()
		}
	case k.took.After(k.asked.At):
		a.At, a.Took, a.Problem = k.took, 0, ""
	}
	return a, !a.At.IsZero()
}

// A Probe probes executor addresses with the xxl-job protocol. A Probe does not probe other kinds of addresses, because a
// probe would be a real request there.
type Probe struct {
	s    *store.Store
	send Sender
	over time.Duration

	mu    sync.Mutex
	known map[place]*known
	last  place // of the previous round
}

type place struct{ app, address string }

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.app, o.app), cmp.Compare(p.address, o.address))
}

// New returns a Probe. The parameter over is the duration over which the probes of a round are spread.
func New(s *store.Store, send Sender, over time.Duration) *Probe {
	return &Probe{s: s, send: send, over: over, known: map[place]*known{}}
}

// Answer returns the latest result for an address of an app; false: there is none.
func (p *Probe) Answer(app, address string) (Answer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.known[place{app, address}]; k != nil {
		return k.answer()
	}
	return Answer{}, false
}

// Sent records the result of a send to an address of an app.
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

// Asked records the result of a probe that started at begun. err is the error of the probe. If err means that this server
// could not send the probe, Asked records nothing.
func (p *Probe) Asked(app, address string, begun time.Time, clock core.Clock, err error) {
	if core.CodeOf(err) == core.CodeUnavailable && err != nil { // it could not be probed
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

// find returns the state of an address, and adds it if needed. Callers hold mu.
func (p *Probe) find(at place) *known {
	if p.known[at] == nil {
		if len(p.known) >= mostKnown {
			clear(p.known)
		}
		p.known[at] = &known{}
	}
	return p.known[at]
}

// Pass runs one round of probes and waits for their end.
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
		if i == len(places)-1 || !store.Sleep(ctx, p.over/time.Duration(len(places))) {
			break
		}
	}
	return nil
}

// round returns the addresses to probe, of apps with a job, and forgets addresses that are gone.
func (p *Probe) round(ctx context.Context) (map[string]*core.App, []place, error) {
	list, err := p.s.ListApps(ctx)
	if err != nil {
		return nil, nil, err
	}
	apps, all := map[string]*core.App{}, map[place]bool{} // true: it can be probed
	var names []string
	for i := range list {
		if a := &list[i]; a.Err == nil {
			apps[a.Name] = &a.Is
			names = append(names, a.Name)
		}
	}
	stored, err := p.s.Executors(ctx, names)
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
			found, next, err := p.s.Jobs.List(ctx, at.app, 0, 1)
			if err != nil {
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
	case ctx.Err() != nil: // the process stops, so this is no answer
		return
	case asked.Err() != nil && err != nil:
		err = core.Errorf(core.CodeRefused, "no answer within %s", askFor)
	}
	p.Asked(at.app, at.address, begun, clock, err)
}
