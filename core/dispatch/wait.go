package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// waits remembers the fires that wait for an executor or a permit and were put on the ring
// here: for the Waker, and to recognize a copy of one. It remembers none unless the process
// has a Waker: other dispatchers of the same queue may have lost or taken the message since.
// A fire that is not remembered comes at its next look.
type waits struct {
	mu   sync.Mutex
	out  map[core.RunID]awaiting
	came map[string]int64 // by app: the number of who came last; nil: there is no Waker
	n    int64            // of who came last of all
}

// comes notes that somebody of an app came.
func (w *waits) comes(app string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n++; len(w.came) >= maxWaits {
		clear(w.came) // the runs of these come at their next look
	}
	w.came[app] = w.n
}

// last is the number of who came last.
func (w *waits) last() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// since reports whether somebody of an app came after a number.
func (w *waits) since(app string, n int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.came[app] > n
}

// awaiting is a fire whose message is on the ring; no other of its run has that try.
type awaiting struct {
	app  string
	fire core.Fire
	slow bool
	try  int
}

// maxWaits bounds what is remembered.
const maxWaits = 10_000

func (w *waits) note(it *item, try int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if try < 2 || w.came == nil { // a copy of look 0 could not be told from what is sent anew
		return
	}
	if len(w.out) >= maxWaits {
		clear(w.out)
	}
	w.out[it.fire.Run] = awaiting{it.job.Def.App, it.fire, it.slow, try}
}

// met forgets a fire whose message has come, or that is sent anew (by replan, or from the
// dead letters): it may be on the ring no more.
func (w *waits) met(it *item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l, is := w.out[it.fire.Run]; is && (it.try == 0 || it.try >= l.try) {
		delete(w.out, it.fire.Run)
	}
}

// has reports that a later message of the fire, which says no less, is on the ring.
// Which of two is later says their try and no clock.
func (w *waits) has(it *item) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, is := w.out[it.fire.Run]
	return is && it.try < l.try && it.fire.Rev <= l.fire.Rev
}

// Waker is for the only process that dispatches: what it answers brings the fires that
// wait for an executor of an app at once, for one has come. Those that it does not reach
// come at their next look, and so does each of these once more, which finds it decided.
func (d *Dispatcher) Waker() (wake func(ctx context.Context, app string)) {
	d.waits.came = map[string]int64{}
	return func(ctx context.Context, app string) {
		d.waits.comes(app)
		d.wake(ctx, app)
	}
}

func (d *Dispatcher) wake(ctx context.Context, app string) {
	type group struct {
		slot core.Instant
		try  int
		slow bool
	}
	groups := map[group][]core.Fire{}
	d.waits.mu.Lock()
	for _, l := range d.waits.out {
		if l.app == app {
			g := group{l.fire.Slot, l.try - 1, l.slow}
			groups[g] = append(groups[g], l.fire)
		}
	}
	d.waits.mu.Unlock()
	var out []ring.Out
	for g, fires := range groups {
		for len(fires) > 0 {
			n := min(len(fires), ring.MaxFires)
			out = append(out, ring.Out{NotBefore: d.o.Now(),
				Message: ring.Message{Kind: ring.KindFires, Slot: g.slot, Try: g.try, Slow: g.slow, Fires: fires[:n]}})
			fires = fires[n:]
		}
	}
	if len(out) == 0 {
		return
	}
	for _, err := range d.ring.Enqueue(ctx, out) {
		if err != nil {
			d.o.Log.Warn("fires that wait for an executor come at their next look", "app", app, "err", err)
			return
		}
	}
}

// laterLook is when what begins in a second that is to come is looked at: in that, or before
// it where that is far away.
func (d *Dispatcher) laterLook(begins core.Instant) time.Time {
	now := d.o.Now()
	if most := now.Add(d.o.WaitLook); begins.Time().After(most) {
		return most
	}
	return d.notAtOnce(begins.Time())
}

// notAtOnce is a time that no clock takes for past: a queue that counts whole seconds, or
// goes by another clock, would bring a message at once, again and again.
func (d *Dispatcher) notAtOnce(at time.Time) time.Time {
	if soonest := d.o.Now().Add(d.o.BackoffMin); at.Before(soonest) {
		return soonest
	}
	return at
}

// waitLook is when look n (from 1) is of what waits for an executor until a moment: the
// last directly after it, when a deadline that ended the wait is past too.
func (d *Dispatcher) waitLook(try int, until time.Time) time.Time {
	at := d.o.Now().Add(d.backoff(try, d.o.WaitLook))
	last := d.notAtOnce(until.Add(time.Millisecond))
	if at.After(last) {
		return last
	}
	return at
}
