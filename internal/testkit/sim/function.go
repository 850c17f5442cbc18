package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/core/tick/lossdetect"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
)

// function is one that the cloud runs. Each invocation has an instance to itself,
// which is a process: it is used again when it is free, and is ended at its deadline.
type function struct {
	w      *World
	name   string
	lasts  time.Duration
	handle func(ctx context.Context, in *incarnation, wake tick.Wake) error
	free   []*process // idle instances; guarded by the mu of the world
	made   int
	down   time.Time // none can be invoked until then; guarded by the mu of the world
}

// instance is a process for one invocation; nil while the function is down.
func (f *function) instance() *process {
	w := f.w
	w.mu.Lock()
	if time.Now().Before(f.down) {
		w.mu.Unlock()
		return nil
	}
	for n := len(f.free); n > 0; n = len(f.free) {
		p := f.free[n-1]
		f.free = f.free[:n-1]
		if p.living() != nil {
			w.mu.Unlock()
			return p
		}
	}
	f.made++
	n := f.made - 1
	w.mu.Unlock()
	p := w.process(fmt.Sprintf("%s-%d", f.name, n), idle)
	p.start()
	return p
}

// stops has no instance invoked before a moment.
func (f *function) stops(until time.Time) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.down = until
}

// invoke has the function run once; it does not wait for that.
func (f *function) invoke(wake tick.Wake) {
	w := f.w
	p := f.instance()
	if p == nil {
		w.count("invocation refused", 1)
		return
	}
	in := p.living()
	if in == nil { // it died in this very moment
		return
	}
	lasts := f.lasts
	if d, _ := p.dice("invocation"); w.faulty.Load() && d.chance(0.05*w.cfg.Rate) {
		lasts = d.between(lasts/6, lasts)
		w.count("hurried invocation", 1)
		w.troublePlanning(time.Now().Add(f.lasts + 2*w.deployed.wake))
	}
	w.count("invocation of "+f.name, 1)
	var over atomic.Bool
	in.spawn(func() {
		ctx, cancel := context.WithTimeout(context.WithValue(in.ctx, answeredKey{}, &over), lasts)
		defer cancel()
		defer func() {
			if over.Store(true); !in.dead.Load() {
				w.mu.Lock()
				f.free = append(f.free, p)
				w.mu.Unlock()
			}
		}()
		if err := f.handle(ctx, in, wake); err != nil {
			w.count(f.name+" failed", 1)
		}
	})
	w.after(lasts, func() {
		if !over.Load() && !w.closing() {
			w.count("killed at its deadline", 1)
			in.kill(f.name)
		}
	})
}

// wakes has the tick invoked by the clock, which keeps the rate and no moment:
// two of its wake-ups may be nearly twice the rate apart.
func (w *World) wakes(f *function) {
	d := w.dice("wakes")
	for at := w.began; !w.closing(); at = at.Add(w.deployed.wake) {
		late := d.between(0, 50*time.Millisecond)
		switch {
		case !w.faulty.Load() || w.cfg.Rate == 0:
		case d.chance(0.2):
			late = d.between(0, w.deployed.wake-time.Second)
		}
		w.sleep(bg, time.Until(at.Add(late)))
		for w.still.Load() && !w.closing() {
			w.sleep(bg, w.deployed.wake)
			at = time.Now()
		}
		if w.closing() {
			return
		}
		f.invoke(tick.Wake{})
		if w.faulty.Load() && d.chance(0.02*w.cfg.Rate) {
			w.count("woken twice", 1)
			f.invoke(tick.Wake{})
		}
	}
}

// tick is one invocation of functions/tick.
func (w *World) tick(f *function) func(ctx context.Context, in *incarnation, wake tick.Wake) error {
	return func(ctx context.Context, in *incarnation, wake tick.Wake) error {
		a := in.assembly()
		healer := a.People(nil, people.Options{Ask: query.Options{PageFor: w.deployed.tickFor / 12}}).Operate
		o := w.tickOptions()
		_, n := in.p.dice("beats")
		o.ID = fmt.Sprintf("%s.%d.%d", in.p.name, in.n, n)
		d := &w.deployed
		return a.Ticker(tick.Invoked(o)).Beats(tick.Invocation{
			Wake: wake, Reserve: d.reserve,
			Another: func(ctx context.Context, wake tick.Wake) error {
				return in.write(ctx, "Another", func(context.Context) error {
					w.after(60*time.Millisecond, func() { f.invoke(wake) }) // until the cloud has begun it
					return nil
				})
			},
			Minutely: append(lambdaboot.Minutely(lambdaboot.NewPulse(a.Store, w.log), in.watchdog(), healer, nil,
				func(fires int64) { w.count("sent again after a loss", int(fires)) }), tick.Task{Name: "notifications", Do: in.looks(a)}),
		}).Run(ctx)
	}
}

// tickOptions has small pages, so that a pass has several of them.
func (w *World) tickOptions() tick.Options {
	d := &w.deployed
	return tick.Options{LeaseFor: d.lease, Loss: lossdetect.Options{After: d.auditAfter, HealEvery: d.healEvery},
		Page: 200, PlanBackoff: d.planBackoff, Rates: d.rates}
}

// assembly makes the parts that a process runs.
func (in *incarnation) assembly() *wiring.Assembly {
	return in.p.w.assembly(wiring.Options{Now: in.p.now}, in.store)
}

func (w *World) assembly(o wiring.Options, e *store.Store) *wiring.Assembly {
	o.Plan, o.Log, o.Behind, o.AllowNoToken = w.deployed.plan, w.log, w.deployed.behind, func(context.Context) bool { return true }
	return wiring.New(e, o)
}

func (in *incarnation) watchdog() *finish.Watchdog {
	d := &in.p.w.deployed
	return in.assembly().Watchdog(sender{in}, finish.WatchOptions{BehindMax: d.behindMax, IdleGap: d.idleGap})
}
