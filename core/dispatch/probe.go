package dispatch

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/route"
	"github.com/tickring/tickring/store"
)

// A question asks an address before a run is sent to it: whether it is available or, with a job, whether it is idle for that job.
type question struct {
	at
	job core.JobID
}

// A probe is one request for all batches that ask the question during its validity.
type probe struct {
	asked   time.Time // by the monotonic clock
	doubted bool      // the previous probe got no answer: choose does not wait for this one if another address answers yes
	before  *probe    // previous probe; nil once this one is done
	done    chan struct{}

	// valid once done is closed:
	err    error // nil: yes
	silent bool  // it took longer than slowAfter and did not answer yes
	unsaid bool  // the address was not asked after all

	// taken, guarded by probes.mu: a run was sent because of this yes. An address is idle only until it gets a run, so
	// one yes serves one run.
	taken bool
}

// busy reports whether the answer of a finished probe will soon be outdated: the address runs the job or just got a run
// of it. Callers hold probes.mu.
func (p *probe) busy() bool { return p.taken || errors.Is(p.err, errWorks) }

var errWorks = errors.New("the executor is running the job, or has a waiting run of it")
var errTaken = errors.New("another run of the job was just sent to the executor")

func (p *probe) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// said returns a finished probe for an address that need not or cannot be asked.
func said(err error) *probe {
	p := &probe{done: make(chan struct{}), err: err}
	close(p.done)
	return p
}

// probes caches the probes of all invocations of this process.
type probes struct {
	mu sync.Mutex
	// beats asks for availability, idles asks per job. They are separate so that many idle probes cannot evict a beat
	// that got no answer.
	beats, idles map[question]*probe
}

func newProbes() *probes {
	return &probes{beats: map[question]*probe{}, idles: map[question]*probe{}}
}

// of returns the map for questions like q.
func (x *probes) of(q question) map[question]*probe {
	if q.job != 0 {
		return x.idles
	}
	return x.beats
}

const (
	// askFor is how long a batch asks addresses before it chooses one. If an address has not answered after askNext, the batch
	// asks the next address in parallel. A response is valid for askAgain. An address that did not answer is asked again after
	// askSilent.
	askFor    = 3 * time.Second
	askNext   = 100 * time.Millisecond
	askAgain  = time.Second
	askSilent = 10 * time.Second
	maxProbes = 10_000 // limits each map; addresses come from outside
)

// ask returns the valid probe of q, or a new one that the caller must make (mine). If fresh is set, a missing answer is cached no
// longer than other answers, and a busy answer only for askNext.
func (x *probes) ask(q question, fresh bool) (p *probe, mine bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	of := x.of(q)
	old := of[q]
	if old != nil {
		age := time.Since(old.asked)
		holds := askAgain
		if fresh && old.over() && old.busy() {
			holds = askNext
		}
		if !old.over() || age < holds || old.silent && !fresh && age < askSilent {
			return old, false
		}
	}
	if len(of) >= maxProbes {
		clear(of) // goroutines that wait for a probe keep a pointer to it
	}
	p = &probe{asked: time.Now(), done: make(chan struct{}), doubted: old != nil && old.silent, before: old}
	of[q] = p
	return p, true
}

// made marks p as done. If its address was not asked, the cache keeps the previous probe that got no answer; otherwise
// the next batch would wait for that address again.
func (x *probes) made(q question, p *probe) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if of := x.of(q); p.unsaid && p.doubted && of[q] == p {
		of[q] = p.before
	}
	p.before = nil
	close(p.done)
}

// take reserves the yes of p for one run; it returns false if another run has it.
func (x *probes) take(p *probe) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	was := p.taken
	p.taken = true
	return !was
}

// untake makes the yes of p available again, unless the address was asked again since. Then another run may have used
// the newer yes, so nothing may use this one.
func (x *probes) untake(q question, p *probe) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p.taken = x.of(q)[q] != p
}

// make asks the address. It counts as a send for the gate and health of the address.
func (b *batch) make(ctx context.Context, p *probe, q question, app *core.App) {
	p.err, p.unsaid = errors.New("not asked"), true
	defer b.d.probes.made(q, p)
	until, _ := ctx.Deadline()
	pass, err := b.d.gates.of(q.at).enter(ctx, until)
	if err != nil {
		p.err = err
		return
	}
	defer pass.leave(0)
	began := time.Now()
	idle := true
	if q.job == 0 {
		err = b.d.sender.Beat(ctx, app, q.address)
	} else {
		idle, err = b.d.sender.Idle(ctx, app, q.address, q.job)
	}
	a := Answer{Kind: AnswerAccepted, Took: time.Since(began)}
	if err != nil {
		a.Ours = core.CodeOf(err) == core.CodeUnavailable
		p.silent = a.Took > slowAfter && !a.Ours
		a.Kind, a.TimedOut = AnswerRefused, p.silent
	}
	if a.Ours {
		b.d.wants(q.address, err.Error())
	}
	if err == nil && !idle {
		p.err, p.unsaid = errWorks, false
		b.d.health.note(&a, b.now(), q.address)
		return
	}
	// If the batch ran out of time, the address is not to blame for its missing answer.
	p.err, p.unsaid = err, err != nil && (ctx.Err() != nil || a.Ours) && !p.silent
	b.d.health.note(&a, b.now(), q.address)
}

// A choice is the result of asking the addresses of a run.
type choice struct {
	order []string // starts with the address that answered yes
	tries []core.Try
	err   error // why no choice is possible now
	taken bool  // no address answers yes, and another run took the yes of one
}

// asking removes the items whose route asks addresses first and groups items that share the answers. The rest is claimed and sent
// without asking. The items in groups count against InHand from here on: nothing else limits how many wait for addresses without
// an answer. A late item is included if its job may wait: only the check shows whether its run is queued and thus still sent.
func (b *batch) asking(items []*item) (groups map[string][]*item, rest []*item) {
	groups = map[string][]*item{}
	rest = make([]*item, 0, len(items))
	for _, it := range items {
		send := it.falls == sends || it.falls == fallsLate && b.mayWait(it)
		if it.phase != (undecided{}) || !send || it.of != nil || route.Asks(it.job.Def.Route) == route.AskNothing {
			rest = append(rest, it)
			continue
		}
		addresses := b.addresses(it)
		if len(addresses) == 0 {
			rest = append(rest, it)
			continue
		}
		it.order = route.Order(it.job.Def.Route, addresses, it.fire.Run.Job(), it.fire.Seq, 0)
		if b.slow(it) || !b.hold(it) {
			rest = append(rest, it)
			continue
		}
		key := it.job.Def.App + "\n" + it.permit() + "\n" + strings.Join(it.order, "\n")
		if it.asksIdle() != 0 { // each needs its own yes
			key = it.fire.Run.String()
		}
		groups[key] = append(groups[key], it)
	}
	return groups, rest
}

// asksIdle returns the job that idle probes ask about, or 0 if the route asks something else.
func (it *item) asksIdle() core.JobID {
	if route.Asks(it.job.Def.Route) == route.AskIdle {
		return it.fire.Run.Job()
	}
	return 0
}

// choose asks addresses to find one for an item; bound limits all probes of the batch. Addresses with a cached missing
// answer are not waited for while another answers yes. Before a run fails they are asked again, and so are addresses whose
// yes another run took.
func (b *batch) choose(bound context.Context, it *item, open *sync.WaitGroup) choice {
	c, remembered := b.askAll(bound, it, false, open)
	if len(c.order) > 0 || !remembered {
		return c
	}
	for bound.Err() == nil {
		if c, _ = b.askAll(bound, it, true, open); !c.taken || !store.Sleep(bound, askNext) {
			return c
		}
	}
	c.err = errUnasked
	return c
}

// askAll asks addresses in parallel. It asks the next one when the others have answered no or are doubted, and more of
// them as time passes. It chooses the first address in order that answers yes. remembered reports whether a cached
// answer counted as a no; a fresh question ignores such answers.
func (b *batch) askAll(bound context.Context, it *item, anew bool, open *sync.WaitGroup) (c choice, remembered bool) {
	app, order, job := it.app, it.order, it.asksIdle()
	var asked, made []*probe
	took := -1 // index of the probe whose yes this item took, for idle probes
	answered := make(chan struct{}, len(order))
	ask := func() {
		q := question{at{app.Name, order[len(asked)]}, job}
		p, mine := (*probe)(nil), false
		switch {
		case unaskable(q):
			p = said(nil)
		case b.silent[q.at]:
			p = said(errors.New("no executor polls the queue"))
		default:
			p, mine = b.d.probes.ask(q, anew)
			remembered = remembered || !mine && p.over() && (p.silent || errors.Is(p.err, errWorks))
		}
		asked = append(asked, p)
		if mine {
			made = append(made, p)
			open.Go(func() { b.make(bound, p, q, app) })
		}
		if !p.over() {
			open.Go(func() {
				select {
				case <-p.done:
				case <-bound.Done():
				}
				answered <- struct{}{}
			})
		}
	}
	gap, step := time.NewTimer(askNext), 1
	defer gap.Stop()
	for {
		over := bound.Err() != nil
		if over { // bound ended the probes started here
			for _, p := range made {
				<-p.done
			}
		}
		yes, waits, under := -1, false, 0
		for i, p := range asked {
			switch {
			case !p.over():
				under++
				waits = waits || yes < 0 && !p.doubted
			case p.err == nil && yes < 0:
				if job != 0 && i != took {
					if !b.d.probes.take(p) {
						asked[i], remembered = &probe{done: p.done, err: errTaken, unsaid: true}, true
						continue
					}
					if took >= 0 {
						b.d.probes.untake(question{at{app.Name, order[took]}, job}, asked[took])
					}
					took = i
				}
				yes = i
			}
		}
		more := len(asked) < len(order)
		if yes >= 0 && !waits || over || !more && under == 0 {
			return chosen(order, asked, job, took), remembered
		}
		if !waits && more {
			ask()
			continue
		}
		select {
		case <-answered:
		case <-bound.Done():
		case <-gap.C:
			for range min(step, len(order)-len(asked)) {
				ask()
			}
			step *= 2
			gap.Reset(askNext)
		}
	}
}

// unaskable reports whether an address cannot answer the question: a Lambda function never can, a call: endpoint cannot
// report whether it is idle.
func unaskable(q question) bool {
	return strings.HasPrefix(q.address, "lambda:") || q.job != 0 && isCall(q.address)
}

var errUnasked = errors.New("not all addresses could be asked in time")

// chosen returns the first address that has answered yes or, for idle probes, the address whose yes the item took.
func chosen(order []string, asked []*probe, job core.JobID, took int) (c choice) {
	unsaid := len(asked) < len(order)
	for i, p := range asked {
		t := core.Try{Address: order[i]}
		over := p.over()
		yes := over && p.err == nil && (job == 0 || i == took)
		switch {
		case yes && unaskable(question{at{address: order[i]}, job}):
			t.Message = "not asked: the executor rejects the run if it cannot accept it"
		case yes:
			t.Code = 200
		case !over:
			t.Message, unsaid = "no answer yet", unsaid || !p.doubted
		case p.err == nil:
			t.Message = "available, but another executor answered first"
		default:
			t.Message, unsaid = p.err.Error(), unsaid || p.unsaid
			c.taken = c.taken || errors.Is(p.err, errTaken)
		}
		c.tries = append(c.tries, t)
		if yes {
			c.order, c.taken = order[i:], false
			return c
		}
	}
	if unsaid {
		c.err = errUnasked
	}
	return c
}
