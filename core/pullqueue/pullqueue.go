// Package pullqueue implements the queues of a server on one machine: executors fetch runs by long poll. A delivered run is
// hidden for a while, and its executor extends this time while it works. If the extensions stop, as after a crash, the run
// is delivered again. A killed or ended run is not delivered. If a run is killed while it is running, the executor learns
// this from the response to its next extension.
//
// The package limits requests and rejects all receipts of a run except the last. An app can use at most as many waiting
// polls as are free, so there is room for the next app.
package pullqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
)

// Limits of requests.
const (
	MaxTake       = 10 // runs at a time
	MaxReceipts   = 100
	MaxWait       = 20 * time.Second
	MinVisibility = 5 * time.Second
	MaxVisibility = 12 * time.Hour
)

// Options of a Puller. The zero value of a field means its default.
type Options struct {
	Now func() time.Time
	// Most is how many runs a queue holds; further ones are sent again later.
	Most int // 10,000
	// Deliveries is how often a run is delivered before it counts as lost.
	Deliveries int // 20
	// Waiters is the maximum number of concurrent polls of all queues. A poll is rejected unless more polls are free than
	// its app already uses, so one app alone can use half of them.
	Waiters int // 1000
	// Expiry is how long a queue counts as polled after the last poll.
	Expiry time.Duration // 90 s
	Log    *slog.Logger
}

// Puller delivers runs.
type Puller struct {
	store  Store
	runs   Runs
	finish Finisher
	o      Options
	began  time.Time
	over   chan struct{} // closed by Close
	close  sync.Once

	mu      sync.Mutex
	waiters int
	of      map[string]int          // by app
	wake    map[Queue]chan struct{} // closed when a run becomes visible
	polled  map[Queue]time.Time
	swept   int64
}

// New makes a Puller.
func New(store Store, runs Runs, f Finisher, o Options) *Puller {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Most == 0 {
		o.Most = 10_000
	}
	if o.Deliveries == 0 {
		o.Deliveries = 20
	}
	if o.Waiters == 0 {
		o.Waiters = 1000
	}
	if o.Expiry == 0 {
		o.Expiry = core.BeatExpiry
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Puller{store: store, runs: runs, finish: f, o: o, began: o.Now(), over: make(chan struct{}), of: map[string]int{},
		wake:   map[Queue]chan struct{}{},
		polled: map[Queue]time.Time{}}
}

// Close ends the waiting polls without a run.
func (p *Puller) Close() { p.close.Do(func() { close(p.over) }) }

// Put adds a run to a queue; ErrFull: there is no room.
func (p *Puller) Put(ctx context.Context, it Item) error {
	if err := p.store.PutPulled(ctx, it, p.o.Most); err != nil {
		return err
	}
	p.rouse(it.Queue)
	return nil
}

func (p *Puller) rouse(q Queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.wake[q]; c != nil {
		close(c)
		delete(p.wake, q)
	}
}

// Polled returns nil if the queue was polled recently, or if this process has not run long enough to know.
func (p *Puller) Polled(q Queue) error {
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.began) <= p.o.Expiry {
		return nil
	}
	if last, ok := p.polled[q]; !ok || now.Sub(last) > p.o.Expiry {
		return fmt.Errorf("no consumer polls %s", q.Address())
	}
	return nil
}

// Idle reports whether no run of the job is in the queue, waiting or running.
func (p *Puller) Idle(ctx context.Context, q Queue, job core.JobID) (bool, error) {
	has, err := p.store.HasPulled(ctx, q, job)
	if err != nil {
		return false, fmt.Errorf("look into %s: %w", q.Address(), err)
	}
	return !has, nil
}

// Want is the request of an executor.
type Want struct {
	Max        int           // 1 to MaxTake
	Wait       time.Duration // maximum wait for the first run, up to MaxWait
	Visibility time.Duration // MinVisibility to MaxVisibility
}

func (w Want) check() error {
	switch {
	case w.Max < 1 || w.Max > MaxTake:
		return core.Invalid("max", fmt.Sprint(w.Max), "allowed values: 1 to %d", MaxTake)
	case w.Wait < 0 || w.Wait > MaxWait:
		return core.Invalid("waitSeconds", core.FormatDuration(w.Wait), "allowed values: 0 to 20 seconds")
	}
	return checkVisibility(w.Visibility)
}

func checkVisibility(d time.Duration) error {
	if d < MinVisibility || d > MaxVisibility {
		return core.Invalid("visibilitySeconds", core.FormatDuration(d), "allowed values: 5 seconds to 12 hours")
	}
	return nil
}

// Receive waits until it can deliver runs, and returns none if the wait ends first. If ctx ends, taken runs
// become visible again.
func (p *Puller) Receive(ctx context.Context, q Queue, w Want) ([]Held, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	if err := p.enter(q); err != nil {
		return nil, err
	}
	defer p.leave(q)
	end := p.o.Now().Add(w.Wait)
	for {
		wake := p.waiter(q)
		now := p.o.Now()
		taken, next, err := p.store.TakePulled(ctx, q, now, now.Add(w.Visibility), w.Max)
		if err != nil {
			return nil, passing("take from "+q.Address(), err)
		}
		held, err := p.weed(ctx, q, taken)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			p.Return(q, taken)
			return nil, passing("check the messages taken from "+q.Address(), err)
		}
		if len(held) > 0 {
			return held, nil
		}
		if len(taken) > 0 {
			continue
		}
		wait := end.Sub(now)
		if wait <= 0 {
			return nil, nil
		}
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), time.Millisecond))
		}
		t := time.NewTimer(wait)
		select {
		case <-wake:
		case <-t.C:
		case <-p.over:
			t.Stop()
			return nil, nil
		case <-ctx.Done():
			t.Stop()
			return nil, passing("wait for "+q.Address(), ctx.Err())
		}
		t.Stop()
	}
}

// maxPolled limits the queues whose polls are remembered.
const maxPolled = 10_000

func (p *Puller) enter(q Queue) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.of[q.App]; n >= p.o.Waiters-p.waiters {
		return core.Errorf(core.CodeUnavailable, "%d polls of app %s are already waiting: try again, or use fewer connections", n, q.App)
	}
	p.waiters++
	p.of[q.App]++
	if len(p.polled) >= maxPolled {
		clear(p.polled)
	}
	p.polled[q] = p.o.Now()
	return nil
}

func (p *Puller) leave(q Queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters--
	if p.of[q.App]--; p.of[q.App] == 0 {
		delete(p.of, q.App)
	}
	p.polled[q] = p.o.Now()
}

func (p *Puller) waiter(q Queue) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.wake[q]
	if c == nil {
		c = make(chan struct{})
		p.wake[q] = c
	}
	return c
}

// Return makes taken runs that no executor received visible again; they count as never delivered.
func (p *Puller) Return(q Queue, taken []Held) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, h := range taken {
		if err := p.store.HidePulled(ctx, q, h.Receipt, p.o.Now(), h.Receipt.N-1); err != nil && !errors.Is(err, core.ErrRefused) {
			p.o.Log.Warn("run delivery delayed until its visibility ends", "run", h.Receipt.Run, "err", err)
		}
	}
	if len(taken) > 0 {
		p.rouse(q)
	}
}

// weed returns the runs to deliver: open, not killed, and not delivered too often. It ends or removes the
// others.
func (p *Puller) weed(ctx context.Context, q Queue, taken []Held) ([]Held, error) {
	if len(taken) == 0 {
		return nil, nil
	}
	ids := make([]core.RunID, len(taken))
	for i, h := range taken {
		ids[i] = h.Receipt.Run
	}
	runs, unread, err := p.runs.Runs(ctx, ids)
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	good := make([]Held, 0, len(taken))
	for _, h := range taken {
		run, ok := runs[h.Receipt.Run]
		end := finish.Result{Run: h.Receipt.Run, Reported: true}
		switch {
		case !ok || !run.State.Open():
			end.Run = 0
		case !run.KillAt.IsZero():
			end.State, end.Reason, end.Killed, end.Message = core.Killed, core.ReasonPerson, true, "killed before an executor took it from the queue"
			if h.Receipt.N > 1 {
				end.Message = "killed; the executor that took the run before reported no result"
			}
		case h.Receipt.N > p.o.Deliveries:
			end.State, end.Reason, end.Message = core.Lost, core.ReasonNoReport, fmt.Sprintf("the run was delivered %d times without a result",
				p.o.Deliveries)
		default:
			good = append(good, h)
			continue
		}
		if end.Run != 0 {
			if err := p.finish.End(ctx, []finish.Result{end})[0]; err != nil && core.CodeOf(err) != core.CodeNotFound {
				p.o.Log.Warn("run of a queue could not be ended", "run", end.Run, "job", end.Run.Job(), "err", err)
				continue // retried when its visibility ends
			}
		}
		if err := p.store.DropPulled(ctx, q, h.Receipt); err != nil && !errors.Is(err, core.ErrRefused) {
			p.o.Log.Warn("run that has ended stays in its queue", "run", h.Receipt.Run, "err", err)
		}
	}
	return good, nil
}

// State is the state of a run for the executor that has it.
type State string

const (
	StateHeld   State = "held"   // the executor still has the run
	StateLost   State = "lost"   // another executor has the run, or the run does not exist: do not report
	StateKilled State = "killed" // end the run, and report
	StateEnded  State = "ended"  // the run has ended otherwise: no report is needed
)

// Extend hides runs for the visibility from now; 0 makes them visible at once. It returns the state of
// each.
func (p *Puller) Extend(ctx context.Context, q Queue, receipts []Receipt, visibility time.Duration) ([]State, error) {
	if visibility != 0 {
		if err := checkVisibility(visibility); err != nil {
			return nil, err
		}
	}
	if err := checkReceipts(receipts); err != nil {
		return nil, err
	}
	now := p.o.Now()
	p.mu.Lock()
	p.polled[q] = now
	p.mu.Unlock()
	states := make([]State, len(receipts))
	ids := make([]core.RunID, 0, len(receipts))
	for i, r := range receipts {
		switch err := p.store.HidePulled(ctx, q, r, now.Add(visibility), r.N); {
		case err == nil:
			states[i] = StateHeld
			ids = append(ids, r.Run)
		case errors.Is(err, core.ErrRefused):
			states[i] = StateLost
		default:
			return nil, passing("extend a run of "+q.Address(), err)
		}
	}
	if visibility == 0 {
		p.rouse(q)
		return states, nil
	}
	if len(ids) == 0 {
		return states, nil
	}
	runs, unread, err := p.runs.Runs(ctx, ids)
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return nil, passing("read runs of "+q.Address(), err)
	}
	for i, r := range receipts {
		if states[i] == StateHeld {
			run, ok := runs[r.Run]
			if states[i] = StateOf(&run, ok); states[i] == StateEnded {
				_ = p.store.DropPulled(ctx, q, r) // otherwise weed removes it
			}
		}
	}
	return states, nil
}

// StateOf returns the state of a run that an executor starts or runs; found reports whether the run exists.
func StateOf(run *core.Run, found bool) State {
	switch {
	case !found || !run.State.Open():
		return StateEnded
	case !run.KillAt.IsZero():
		return StateKilled
	}
	return StateHeld
}

// Ack removes runs. A run that another executor has is reported as lost.
func (p *Puller) Ack(ctx context.Context, q Queue, receipts []Receipt) ([]State, error) {
	if err := checkReceipts(receipts); err != nil {
		return nil, err
	}
	states := make([]State, len(receipts))
	for i, r := range receipts {
		switch err := p.store.DropPulled(ctx, q, r); {
		case err == nil:
			states[i] = StateEnded
		case errors.Is(err, core.ErrRefused):
			states[i] = StateLost
		default:
			return nil, passing("remove a run of "+q.Address(), err)
		}
	}
	return states, nil
}

func checkReceipts(list []Receipt) error {
	if len(list) < 1 || len(list) > MaxReceipts {
		return core.Invalid("receipts", fmt.Sprint(len(list)), "1 to %d are allowed", MaxReceipts)
	}
	return nil
}

// Sweep checks the next places of all queues, at most limit, and returns how many ended runs it removed. It
// is needed for queues that are not polled.
func (p *Puller) Sweep(ctx context.Context, limit int) (int, error) {
	p.mu.Lock()
	after := p.swept
	p.mu.Unlock()
	list, err := p.store.ListPulled(ctx, after, limit)
	if err != nil {
		return 0, fmt.Errorf("list queues: %w", err)
	}
	next := int64(0)
	if len(list) == limit {
		next = list[len(list)-1].ID
	}
	ids := make([]core.RunID, len(list))
	for i, l := range list {
		ids[i] = l.Run
	}
	var over []int64
	if len(ids) > 0 {
		runs, unread, err := p.runs.Runs(ctx, ids)
		if err == nil && len(unread) > 0 {
			err = core.ErrThrottled
		}
		if err != nil {
			return 0, fmt.Errorf("read runs of queues: %w", err)
		}
		for _, l := range list {
			if r, ok := runs[l.Run]; !ok || !r.State.Open() {
				over = append(over, l.ID)
			}
		}
	}
	if len(over) > 0 {
		if err := p.store.RemovePulled(ctx, over); err != nil {
			return 0, fmt.Errorf("remove from queues: %w", err)
		}
	}
	p.mu.Lock()
	p.swept = next
	p.mu.Unlock()
	return len(over), nil
}
