package dispatch

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/route"
)

// question is what an address is asked before a run is sent to it: whether it is there,
// or, with a job, whether it runs nothing of it.
type question struct {
	at
	job core.JobID
}

// probe is one asking, for all who want to know it in that time.
type probe struct {
	asked   time.Time // by the clock that nobody sets
	doubted bool      // it was silent the last time: it is not waited for while another says yes
	before  *probe    // the one before; nil once this is over
	done    chan struct{}

	// Once it is done:
	err    error // nil: yes
	silent bool  // it let itself be waited for, and did not say yes
	unsaid bool  // it was not asked after all

	// taken, under the lock of the probes: that it runs nothing of a job holds until a
	// run of it is sent there, so one fire goes by it.
	taken bool
}

// busy reports that it was asked what is soon different: of a probe that is over, under
// the lock of the probes.
func (p *probe) busy() bool { return p.taken || errors.Is(p.err, errWorks) }

var errWorks = errors.New("it runs the job, or has a run of it waiting")
var errTaken = errors.New("another run of the job has just been sent there")

func (p *probe) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// said is a probe of what need not be asked, or cannot be.
func said(err error) *probe {
	p := &probe{done: make(chan struct{}), err: err}
	close(p.done)
	return p
}

// probes remember what was asked over all invocations of this process.
type probes struct {
	o  *Options
	mu sync.Mutex
	// Whether addresses are there, and apart whether they run something of a job, which is
	// asked for each job: that many were asked must not have the silence of any forgotten.
	beats, idles map[question]*probe
}

func newProbes(o *Options) *probes {
	return &probes{o: o, beats: map[question]*probe{}, idles: map[question]*probe{}}
}

// of is where the answers to such a question are.
func (x *probes) of(q question) map[question]*probe {
	if q.job != 0 {
		return x.idles
	}
	return x.beats
}

// maxProbes bounds what is remembered of either; addresses come from outside.
const maxProbes = 10_000

// ask answers the probe that holds for now, or a new one, which the caller is to
// make. With anew one that was silent does not hold for longer than another, and that
// one was busy hardly at all.
func (x *probes) ask(q question, anew bool) (p *probe, mine bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	of := x.of(q)
	old := of[q]
	if old != nil {
		age := time.Since(old.asked)
		holds := x.o.AskAgain
		if anew && old.over() && old.busy() {
			holds = x.o.AskNext
		}
		if !old.over() || age < holds || old.silent && !anew && age < x.o.AskSilent {
			return old, false
		}
	}
	if len(of) >= maxProbes {
		clear(of) // who waits for one has it
	}
	p = &probe{asked: time.Now(), done: make(chan struct{}), doubted: old != nil && old.silent, before: old}
	of[q] = p
	return p, true
}

// made notes that p is over. One that was not asked says nothing: the silence
// before it is remembered on, or the next batch waits for that address again.
func (x *probes) made(q question, p *probe) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if of := x.of(q); p.unsaid && p.doubted && of[q] == p {
		of[q] = p.before
	}
	p.before = nil
	close(p.done)
}

// take has one fire go by a yes; false where another has.
func (x *probes) take(p *probe) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	was := p.taken
	p.taken = true
	return !was
}

// untake has a fire go by another yes. Where the address was asked once more meanwhile
// another fire may have gone by what it said then, so this is nobody's.
func (x *probes) untake(q question, p *probe) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p.taken = x.of(q)[q] != p
}

// make asks. It counts as a send for the address's gate and for the lanes.
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
		p.silent = a.Took > b.d.o.SlowAfter && !a.Ours
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
	// The end of what a batch may ask says nothing of who was asked just before.
	p.err, p.unsaid = err, err != nil && (ctx.Err() != nil || a.Ours) && !p.silent
	b.d.health.note(&a, b.now(), q.address)
}

// choice is what came of asking the addresses of a fire.
type choice struct {
	order []string // from the first that said yes
	tries []core.Try
	err   error // why nothing can be said yet
	taken bool  // nobody says yes, and of one that did another fire went by it
}

// asking takes the fires out whose route asks before it chooses, in groups that go by
// the same answers. What needs no answer is claimed and sent without them. They are in hand
// from now on: nothing else bounds how many wait for what silent addresses say.
// One that is late is sent nevertheless where its run is queued, which only the look says.
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
		if it.asksIdle() != 0 { // each goes by a yes of its own
			key = it.fire.Run.String()
		}
		groups[key] = append(groups[key], it)
	}
	return groups, rest
}

// asksIdle is the job that addresses are asked about before a fire is sent, if any.
func (it *item) asksIdle() core.JobID {
	if route.Asks(it.job.Def.Route) == route.AskIdle {
		return it.fire.Run.Job()
	}
	return 0
}

// choose asks addresses which of them is to get a fire. bound is that of all that
// the batch asks. That one was silent a while ago spares waiting for it while
// another says yes; no fire fails by it, but by what is asked for it. Nor by a yes that
// another fire went by: once that has its run they are asked again.
func (b *batch) choose(bound context.Context, it *item, open *sync.WaitGroup) choice {
	c, remembered := b.askAll(bound, it, false, open)
	if len(c.order) > 0 || !remembered {
		return c
	}
	for bound.Err() == nil {
		if c, _ = b.askAll(bound, it, true, open); !c.taken || !sleep(bound, b.d.o.AskNext) {
			return c
		}
	}
	c.err = errUnasked
	return c
}

// askAll asks addresses, side by side: the next where those before have said no, or
// are doubted, and more of them the longer no one says yes. It answers the first
// in their order that does, and whether one was taken for silent unasked, or for busy by
// what another fire was sent to; with anew none is.
func (b *batch) askAll(bound context.Context, it *item, anew bool, open *sync.WaitGroup) (c choice, remembered bool) {
	app, order, job := it.app, it.order, it.asksIdle()
	var asked, made []*probe
	took := -1 // the one whose yes this fire goes by, where it asks for idle ones
	answered := make(chan struct{}, len(order))
	ask := func() {
		q := question{at{app.Name, order[len(asked)]}, job}
		p, mine := (*probe)(nil), false
		switch {
		case unaskable(q):
			p = said(nil)
		case b.silent[q.at]:
			p = said(errors.New("nobody polls it any more"))
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
	gap, step := time.NewTimer(b.d.o.AskNext), 1
	defer gap.Stop()
	for {
		over := bound.Err() != nil
		if over { // which ended what was asked here
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
			gap.Reset(b.d.o.AskNext)
		}
	}
}

// unaskable reports that nothing at an address answers such a question: a function, and
// where it is whether something of the job is at work, an endpoint.
func unaskable(q question) bool {
	return strings.HasPrefix(q.address, "lambda:") || q.job != 0 && isCall(q.address)
}

var errUnasked = errors.New("not all of its addresses could be asked in time")

// chosen is the choice among what was asked: the first that has said yes by now, or with
// a job the one that the fire took.
func chosen(order []string, asked []*probe, job core.JobID, took int) (c choice) {
	unsaid := len(asked) < len(order)
	for i, p := range asked {
		t := core.Try{Address: order[i]}
		over := p.over()
		yes := over && p.err == nil && (job == 0 || i == took)
		switch {
		case yes && unaskable(question{at{address: order[i]}, job}):
			t.Message = "not asked: it refuses the run itself if it cannot take it"
		case yes:
			t.Code = 200
		case !over:
			t.Message, unsaid = "no answer yet", unsaid || !p.doubted
		case p.err == nil:
			t.Message = "it could take it, but another said so before"
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
