// Package pullqueue implements the queues of a server on one machine, which executors poll. A delivered run is hidden from
// other polls for a while. Its executor extends this time while the run is running. If the executor stops extending, for
// example after a crash, the run is delivered again. Killed and ended runs are not delivered. If a run is killed while it is
// running, the executor gets this in the response to its next extension.
//
// Only the receipt of the last delivery of a run is valid. The number of concurrent polls is limited, so that one app cannot
// use all of them.
package pullqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/store"
)

// Limits of requests. MaxTake is the maximum number of runs in one poll, and MaxReceipts the maximum number of receipts in one
// request. MaxWait is the longest wait of a poll. A visibility timeout is between MinVisibility and MaxVisibility.
const (
	MaxTake       = 10 // runs at a time
	MaxReceipts   = 100
	MaxWait       = 20 * time.Second
	MinVisibility = 5 * time.Second
	MaxVisibility = 12 * time.Hour
)

// Options of a Puller. A field with its zero value gets the default in its comment.
type Options struct {
	Now func() time.Time
	// Most is the maximum number of runs in a queue. Further runs are rejected and sent again later.
	Most int // default: 10,000
	// Deliveries is the maximum number of times that a run is delivered, including the first. Then the run counts as lost.
	Deliveries int // default: 20
	// Waiters is the maximum number of concurrent polls of all queues. A poll is rejected if its app already uses as many
	// polls as are free. A single app can therefore use half of them.
	Waiters int // default: 1,000
	// Expiry is how long after its last poll a queue counts as polled.
	Expiry time.Duration // default: 90 s
	Log    *slog.Logger
}

// ParseReceipt parses the result of store.Receipt.String.
func ParseReceipt(text string) (store.Receipt, error) {
	run, n, _ := strings.Cut(text, ".")
	id, err := core.ParseRunID(run)
	if err == nil && len(n) <= 9 {
		var k int
		if k, err = strconv.Atoi(n); err == nil && k > 0 {
			return store.Receipt{Run: id, N: k}, nil
		}
	}
	return store.Receipt{}, core.Invalid("receipts", text, "expected a receipt exactly as received with the run")
}

// A Finisher ends runs. *finish.Finish implements it.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
}

// A Puller delivers the runs of queues to executors.
type Puller struct {
	s      *store.Store
	finish Finisher
	o      Options
	began  time.Time
	over   chan struct{} // closed by Close
	close  sync.Once

	mu      sync.Mutex
	waiters int
	of      map[string]int                    // by app
	wake    map[store.PullQueue]chan struct{} // closed when a run becomes visible
	polled  map[store.PullQueue]time.Time
	swept   int64
}

// New returns a Puller.
func New(s *store.Store, f Finisher, o Options) *Puller {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Most = cmp.Or(o.Most, 10_000)
	o.Deliveries = cmp.Or(o.Deliveries, 20)
	o.Waiters = cmp.Or(o.Waiters, 1000)
	o.Expiry = cmp.Or(o.Expiry, core.BeatExpiry)
	o.Log = cmp.Or(o.Log, slog.Default())
	return &Puller{s: s, finish: f, o: o, began: o.Now(), over: make(chan struct{}), of: map[string]int{},
		wake:   map[store.PullQueue]chan struct{}{},
		polled: map[store.PullQueue]time.Time{}}
}

// Close ends all waiting polls. They return no run.
func (p *Puller) Close() { p.close.Do(func() { close(p.over) }) }

// Put adds a run to a queue. If the queue has its maximum number of runs, Put returns store.ErrFull.
func (p *Puller) Put(ctx context.Context, it store.PullItem) error {
	if err := p.s.Pull.PutPulled(ctx, it, p.o.Most); err != nil {
		return err
	}
	p.rouse(it.Queue)
	return nil
}

func (p *Puller) rouse(q store.PullQueue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.wake[q]; c != nil {
		close(c)
		delete(p.wake, q)
	}
}

// Polled returns nil if an executor polled the queue within Options.Expiry. Polled also returns nil if this process started
// less than Options.Expiry ago. Otherwise it returns an error.
func (p *Puller) Polled(q store.PullQueue) error {
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

// Idle reports whether the queue has no run of the job, waiting or delivered.
func (p *Puller) Idle(ctx context.Context, q store.PullQueue, job core.JobID) (bool, error) {
	has, err := p.s.Pull.HasPulled(ctx, q, job)
	if err != nil {
		return false, fmt.Errorf("look into %s: %w", q.Address(), err)
	}
	return !has, nil
}

// A Want is a poll by an executor.
type Want struct {
	Max        int           // maximum number of runs, from 1 to MaxTake
	Wait       time.Duration // maximum wait for the first run, up to MaxWait
	Visibility time.Duration // how long the runs are hidden, from MinVisibility to MaxVisibility
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

// Receive delivers runs of a queue. Receive waits until a run is visible, and returns no runs if the wait w.Wait ends first.
// If ctx ends, Receive makes the runs visible again.
func (p *Puller) Receive(ctx context.Context, q store.PullQueue, w Want) ([]store.Held, error) {
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
		taken, next, err := p.s.Pull.TakePulled(ctx, q, now, now.Add(w.Visibility), w.Max)
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

func (p *Puller) enter(q store.PullQueue) error {
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

func (p *Puller) leave(q store.PullQueue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters--
	if p.of[q.App]--; p.of[q.App] == 0 {
		delete(p.of, q.App)
	}
	p.polled[q] = p.o.Now()
}

func (p *Puller) waiter(q store.PullQueue) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.wake[q]
	if c == nil {
		c = make(chan struct{})
		p.wake[q] = c
	}
	return c
}

// Return makes runs visible again that were taken but did not reach an executor. These deliveries are not counted.
func (p *Puller) Return(q store.PullQueue, taken []store.Held) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, h := range taken {
		p.putBack(ctx, q, h, p.o.Now())
	}
	if len(taken) > 0 {
		p.rouse(q)
	}
}

// putBack makes a run visible at a time. Its delivery is not counted.
func (p *Puller) putBack(ctx context.Context, q store.PullQueue, h store.Held, at time.Time) {
	if err := p.s.Pull.HidePulled(ctx, q, h.Receipt, at, h.Receipt.N-1); err != nil && !errors.Is(err, core.ErrRefused) {
		p.o.Log.Warn("run delivery delayed until its visibility ends", "run", h.Receipt.Run, "err", err)
	}
}

// unreadableFor is how long a run that cannot be decoded stays hidden.
const unreadableFor = time.Minute

// weed returns the runs to deliver: open, not killed, and not delivered too often. It ends or removes the
// others.
func (p *Puller) weed(ctx context.Context, q store.PullQueue, taken []store.Held) ([]store.Held, error) {
	if len(taken) == 0 {
		return nil, nil
	}
	ids := make([]core.RunID, len(taken))
	for i, h := range taken {
		ids[i] = h.Receipt.Run
	}
	runs, bad, err := store.Split(p.s.Runs.Get(ctx, ids))
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	good := make([]store.Held, 0, len(taken))
	for _, h := range taken {
		if why := bad[h.Receipt.Run]; why != nil {
			p.o.Log.Error("run of a queue cannot be read", "run", h.Receipt.Run, "job", h.Receipt.Run.Job(), "err", why)
			p.putBack(ctx, q, h, p.o.Now().Add(unreadableFor))
			continue
		}
		run := runs[h.Receipt.Run]
		end := finish.Result{Run: h.Receipt.Run, Reported: true}
		switch {
		case run == nil || !run.State.Open():
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
		if err := p.s.Pull.DropPulled(ctx, q, h.Receipt); err != nil && !errors.Is(err, core.ErrRefused) {
			p.o.Log.Warn("run that has ended stays in its queue", "run", h.Receipt.Run, "err", err)
		}
	}
	return good, nil
}

// A State is the state of a run, as reported to the executor that received it.
type State string

const (
	StateHeld   State = "held"   // the executor still has the run
	StateLost   State = "lost"   // the receipt is not valid: another executor may have the run, so the executor must not report it
	StateKilled State = "killed" // the executor must end the run and report it
	StateEnded  State = "ended"  // the run has already ended; no report is needed
)

// Extend hides runs for the given time from now; 0 makes them visible immediately. Extend returns the state of each run.
func (p *Puller) Extend(ctx context.Context, q store.PullQueue, receipts []store.Receipt, visibility time.Duration) ([]State, error) {
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
		switch err := p.s.Pull.HidePulled(ctx, q, r, now.Add(visibility), r.N); {
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
	runs, err := p.s.Runs.Get(ctx, ids)
	if err != nil {
		return nil, passing("read runs of "+q.Address(), err)
	}
	for i, r := range receipts {
		if states[i] == StateHeld && runs[r.Run].Err == nil {
			if states[i] = StateOf(runs[r.Run].Is); states[i] == StateEnded {
				_ = p.s.Pull.DropPulled(ctx, q, r) // otherwise weed removes it
			}
		}
	}
	return states, nil
}

// StateOf returns the state of a run for its executor. A run that does not exist is nil.
func StateOf(run *core.Run) State {
	switch {
	case run == nil || !run.State.Open():
		return StateEnded
	case !run.KillAt.IsZero():
		return StateKilled
	}
	return StateHeld
}

// Ack removes runs from a queue. Ack returns a state for each receipt: StateEnded, or StateLost if the receipt is not valid.
func (p *Puller) Ack(ctx context.Context, q store.PullQueue, receipts []store.Receipt) ([]State, error) {
	if err := checkReceipts(receipts); err != nil {
		return nil, err
	}
	states := make([]State, len(receipts))
	for i, r := range receipts {
		switch err := p.s.Pull.DropPulled(ctx, q, r); {
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

func checkReceipts(list []store.Receipt) error {
	if len(list) < 1 || len(list) > MaxReceipts {
		return core.Invalid("receipts", fmt.Sprint(len(list)), "1 to %d are allowed", MaxReceipts)
	}
	return nil
}

// Sweep checks the next entries of all queues, at most limit. Sweep removes entries whose runs have ended, and returns their
// number. Sweep is needed for queues that no executor polls.
func (p *Puller) Sweep(ctx context.Context, limit int) (int, error) {
	p.mu.Lock()
	after := p.swept
	p.mu.Unlock()
	list, err := p.s.Pull.ListPulled(ctx, after, limit)
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
		runs, err := p.s.Runs.Get(ctx, ids)
		if err != nil {
			return 0, fmt.Errorf("read runs of queues: %w", err)
		}
		for _, l := range list {
			if r := runs[l.Run]; r.Err == nil && (r.Is == nil || !r.Is.State.Open()) {
				over = append(over, l.ID)
			}
		}
	}
	if len(over) > 0 {
		if err := p.s.Pull.RemovePulled(ctx, over); err != nil {
			return 0, fmt.Errorf("remove from queues: %w", err)
		}
	}
	p.mu.Lock()
	p.swept = next
	p.mu.Unlock()
	return len(over), nil
}

func passing(action string, err error) error {
	return &core.Error{Code: core.CodeUnavailable, Reason: core.Say("the database did not answer: try again"),
		Err: fmt.Errorf("%s: %w", action, err)}
}
