// Package probe asks the fixed addresses of apps from time to time whether somebody is
// there: of them nobody is heard, as of executors that register, until a run is sent to one.
// What it learns is kept in memory, for people to look at, and decides nothing.
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
)

// Store is what a round reads.
type Store interface {
	ListApps(ctx context.Context) ([]core.App, error)
	ListJobs(ctx context.Context, app string, after core.JobID, limit int) (jobs []core.Job, next core.JobID, err error)
}

// Sender asks an address; see send.Sender.AskClock.
type Sender interface {
	AskClock(ctx context.Context, app *core.App, address string) (core.Clock, error)
}

// Answer is what an address said last.
type Answer struct {
	At      time.Time
	Took    time.Duration // until it said so
	Problem string        // empty: it is there
	Clock   core.Clock
}

// Probe asks fixed addresses of the wire: to what is called otherwise a question would be a
// request that means something.
type Probe struct {
	store Store
	send  Sender
	over  time.Duration

	mu   sync.Mutex
	said map[place]Answer
	last place // of the round before
}

type place struct{ app, address string }

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.app, o.app), cmp.Compare(p.address, o.address))
}

// New makes one whose rounds are spread over a while.
func New(store Store, send Sender, over time.Duration) *Probe {
	return &Probe{store: store, send: send, over: over, said: map[place]Answer{}}
}

// Answer is what a fixed address of an app said last; false: it was not asked, or is never.
func (p *Probe) Answer(app, address string) (Answer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, known := p.said[place{app, address}]
	return a, known
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
	apps, all := map[string]*core.App{}, map[place]bool{}
	for i := range list {
		apps[list[i].Name] = &list[i]
		for _, address := range list[i].Executors {
			if scheme, _, err := core.ParseAddress(address); err == nil && scheme == core.SchemeWire {
				all[place{list[i].Name, address}] = true
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(all), place.compare)
	p.mu.Lock()
	maps.DeleteFunc(p.said, func(at place, _ Answer) bool { return !all[at] })
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
	a := Answer{At: time.Now().UTC().Truncate(time.Millisecond), Took: time.Since(begun), Clock: clock}
	switch {
	case ctx.Err() != nil: // it is our stop that it did not get to answer
		return
	case asked.Err() != nil && err != nil:
		a.Problem = core.Say("it did not answer within %s", askFor).String()
	case err != nil && core.CodeOf(err) == core.CodeUnavailable: // it could not be asked
		return
	case err != nil:
		a.Problem = core.Truncate(err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said[at] = a
}
