package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// waits holds the runs that wait for an executor or a permit and were enqueued here. The Waker uses it, and it
// identifies old copies of messages. Without a Waker it stays empty: other dispatchers of the queue may have lost or
// received the message since. A run that is not in it waits for its next check.
type waits struct {
	mu   sync.Mutex
	out  map[core.RunID]awaiting
	came map[string]int64 // number of the last arrival by app; nil: no Waker
	n    int64            // number of the last arrival of any app
}

// comes records that an executor of app has arrived.
func (w *waits) comes(app string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n++; len(w.came) >= maxWaits {
		clear(w.came) // the runs of these apps wait for their next check
	}
	w.came[app] = w.n
}

// last returns the number of the last arrival.
func (w *waits) last() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// since reports whether an executor of app arrived after arrival n.
func (w *waits) since(app string, n int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.came[app] > n
}

// awaiting is a run whose message is in the delay queue; no other message of the run has this try.
type awaiting struct {
	app  string
	fire core.Fire
	slow bool
	try  int
}

// maxWaits limits the number of entries.
const maxWaits = 10_000

func (w *waits) note(it *item, try int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if try < 2 || w.came == nil { // a copy with try 0 would look like a run that was sent again
		return
	}
	if len(w.out) >= maxWaits {
		clear(w.out)
	}
	w.out[it.fire.Run] = awaiting{it.job.Def.App, it.fire, it.slow, try}
}

// met removes a run whose message has arrived or was sent again by replan or redrive: the stored message may be gone.
func (w *waits) met(it *item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l, is := w.out[it.fire.Run]; is && (it.try == 0 || it.try >= l.try) {
		delete(w.out, it.fire.Run)
	}
}

// has reports whether the delay queue holds a later message of the run with at least its rev. The try decides which
// message is later; clocks are not compared.
func (w *waits) has(it *item) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, is := w.out[it.fire.Run]
	return is && it.try < l.try && it.fire.Rev <= l.fire.Rev
}

// Waker returns a function that immediately sends the runs that wait for an executor of an app. Use it only if one process
// dispatches all runs. If the function cannot enqueue the runs, they wait for their next check. Runs that it sends are checked
// once more, without effect.
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
		for chunk := range slices.Chunk(fires, ring.MaxFires) {
			out = append(out, ring.Out{NotBefore: d.o.Now(),
				Message: ring.Message{Kind: ring.KindFires, Slot: g.slot, Try: g.try, Slow: g.slow, Fires: chunk}})
		}
	}
	if len(out) == 0 {
		return
	}
	if err := cmp.Or(d.store.Queue.Enqueue(ctx, out)...); err != nil {
		d.o.Log.Warn("waiting runs not requeued: they are sent at their next check", "app", app, "err", err)
	}
}

// waitLook is the maximum interval between two checks of a waiting run. A random delay of up to a quarter of it is added.
const waitLook = 12 * time.Second

// laterLook returns when to check a run that begins in a future second: in that second, or after waitLook if that is
// sooner.
func (d *Dispatcher) laterLook(begins core.Instant) time.Time {
	now := d.o.Now()
	if most := now.Add(waitLook); begins.Time().After(most) {
		return most
	}
	return d.notAtOnce(begins.Time())
}

// notAtOnce returns at, but not before BackoffMin from now. A queue with whole seconds or another clock would otherwise
// deliver at once, again and again.
func (d *Dispatcher) notAtOnce(at time.Time) time.Time {
	if soonest := d.o.Now().Add(d.o.BackoffMin); at.Before(soonest) {
		return soonest
	}
	return at
}

// nextLook returns when check n (from 1) of a waiting run happens. The last check follows right after until, when a
// deadline that ended the wait has passed as well.
func (d *Dispatcher) nextLook(try int, until time.Time) time.Time {
	at := d.o.Now().Add(d.backoff(try, waitLook))
	last := d.notAtOnce(until.Add(time.Millisecond))
	if at.After(last) {
		return last
	}
	return at
}
