// Package postrun does work after a run has ended, so that the work delays no scheduled run. The package stores the end of the
// run's log, and passes notifications to package notification. Messages of the post-run queue start the work. Duplicate
// messages are harmless, because each run records its pending work. The package creates no runs.
//
// A slow executor can use only a small share of the concurrency. After several failed attempts to read a log, the reason is
// stored instead. A notification waits at most half a minute for the log that it quotes.
package postrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// Logs reads the logs of runs from executors.
type Logs interface {
	// Log reads lines of a run's log, beginning with line from; the first line is 1. The result next is the line from which to
	// continue. The result end reports whether the log is complete. The error code core.CodeTooLarge means that the log
	// exceeds the size limit of a response. core.CodeNotFound means that there is no log.
	Log(ctx context.Context, app *core.App, run *core.Run, from int) (text string, next int, end bool, err error)
}

// An Outcome is the result of storing one log.
type Outcome string

const (
	Kept   Outcome = "kept"   // the end of the log is stored
	None   Outcome = "none"   // the executor has no log
	Failed Outcome = "failed" // the log could not be read; the reason is stored instead
)

// Outcomes lists all values of Outcome.
var Outcomes = []Outcome{Kept, None, Failed}

// Options of a Worker. A field with its zero value gets the default in its comment.
type Options struct {
	Now func() time.Time
	Log *slog.Logger
	// Timeout is the timeout for the work of one message. Default: 20 s.
	Timeout time.Duration
	// Waits are the delays before the second and each further attempt to read a log. After the last attempt, the reason is
	// stored instead of the log. Default: 10 s, 1 min, 5 min, 14 min.
	Waits []time.Duration
	// SilentFor is how long an address is not used after several consecutive requests without a response. Default: 30 s.
	SilentFor time.Duration
	// Made is called with the outcome of each log. The function must not block. nil: no call.
	Made func(r *core.Run, o Outcome)
	// Notices handles the messages that request notifications. Required.
	Notices Notices
}

const (
	// atOnce is the maximum number of messages to handle concurrently, ofApp the maximum for one app, and ofAddress for one
	// address.
	atOnce, ofApp, ofAddress = 16, 8, 4
	// longest is the maximum age of a message; the work of an older message is dropped.
	longest = 2 * time.Hour
	// silentAfter is the number of consecutive requests without a response after which an address is silent.
	silentAfter = 2
	// roomFor is how long a message waits for a free worker. If no worker is free, the message is enqueued again, first with a
	// delay of roomFor. Each later delay is a quarter of the message's age, at most roomMost. Each delay is shortened by a
	// random part of up to a half.
	roomFor, roomMost = 2 * time.Second, time.Minute
	// noticeBy is the age at which a notification is sent without waiting for the log.
	noticeBy = 30 * time.Second
)

// A Worker does the pending post-run work of runs.
type Worker struct {
	s      *store.Store
	logs   Logs
	o      Options
	places chan struct{}
	gate   gate
}

// New returns a Worker.
func New(s *store.Store, logs Logs, o Options) *Worker {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	o.Timeout, o.SilentFor = cmp.Or(o.Timeout, 20*time.Second), cmp.Or(o.SilentFor, 30*time.Second)
	if o.Waits == nil {
		o.Waits = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 14 * time.Minute}
	}
	return &Worker{s: s, logs: logs, o: o, places: make(chan struct{}, atOnce),
		gate: gate{at: map[string]*place{}, of: map[string]int{}}}
}

// later asks for a retry after wait; tried reports whether this attempt counts as a try.
type later struct {
	wait  time.Duration
	tried bool
	err   error
}

// Handle handles messages concurrently and returns an error for each message. nil means that the message can be acknowledged:
// its work is done, dropped, or enqueued for a retry.
func (l *Worker) Handle(ctx context.Context, list []ring.Message) []error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	var notices []ring.Message
	var of []int
	for i := range list {
		if a := list[i].PostRun; a != nil && !a.Log {
			notices, of = append(notices, list[i]), append(of, i)
			continue
		}
		all.Go(func() { errs[i] = l.handle(ctx, &list[i]) })
	}
	if len(notices) > 0 {
		for k, err := range l.o.Notices.Messages(ctx, notices) {
			errs[of[k]] = err
		}
	}
	all.Wait()
	return errs
}

func (l *Worker) handle(ctx context.Context, m *ring.Message) error {
	if m.PostRun == nil {
		return fmt.Errorf("unexpected message of kind %q on the post-run queue", m.Kind)
	}
	leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	if leave == nil {
		return l.noPlace(ctx, m)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, l.o.Timeout)
	defer cancel()
	id := m.PostRun.Run
	run, err := l.s.Run(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("read run %d: %w", id, err)
	case run == nil:
		return nil
	case !run.OwesPostRun().Log:
		return l.passOn(ctx, run) // the log may be kept already, without the notification
	}
	again, err := l.keep(ctx, m, run)
	if err != nil {
		return err
	}
	next := *m
	if again == nil || again.tried && m.Try == 0 || l.late(m) {
		err, next = l.passOn(ctx, run), withoutNotice(m)
	}
	if err != nil || again == nil {
		return err
	}
	if again.tried {
		next.Try++
	}
	return l.putBack(ctx, next, again.wait)
}

// putBack enqueues a message for a retry.
func (l *Worker) putBack(ctx context.Context, m ring.Message, wait time.Duration) error {
	err := l.s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: l.o.Now().Add(wait), Message: m}})[0]
	if err != nil {
		return fmt.Errorf("requeue the pending follow-ups of run %d: %w", m.PostRun.Run, err)
	}
	return nil
}

// age returns the time since the first request.
func (l *Worker) age(m *ring.Message) time.Duration { return l.o.Now().Sub(m.Slot.Time()) }

// late reports whether the notification must not wait for the log any longer.
func (l *Worker) late(m *ring.Message) bool { return m.PostRun.Notice && l.age(m) >= noticeBy }

// enter takes a place, which leave frees; nil: no place became free in time. A longer wait would delay the
// rest of the batch and its notifications.
func (l *Worker) enter(ctx context.Context) (leave func(), err error) {
	t := time.NewTimer(roomFor)
	defer t.Stop()
	select {
	case l.places <- struct{}{}:
		return func() { <-l.places }, nil
	case <-t.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// noPlace enqueues a message without a place again. Whether it is too old is checked when it gets a place.
func (l *Worker) noPlace(ctx context.Context, m *ring.Message) error {
	next := *m
	if l.late(m) {
		if err := l.ask(ctx, m.PostRun.Run); err != nil {
			return err
		}
		next = withoutNotice(m)
	}
	return l.putBack(ctx, next, l.room(m))
}

// room returns the delay of a message without a place. It is random, because otherwise all would return at
// the same time.
func (l *Worker) room(m *ring.Message) time.Duration {
	d := max(roomFor, min(l.age(m)/4, roomMost))
	return d - rand.N(d/2+1)
}

// keep keeps the log of a run, or returns when to retry.
func (l *Worker) keep(ctx context.Context, m *ring.Message, run *core.Run) (*later, error) {
	k, outcome, again, err := l.read(ctx, run)
	if err != nil {
		return nil, err
	}
	if again != nil {
		wait, more := l.wait(m, again)
		if more {
			return &later{wait, again.tried, nil}, nil
		}
		k, outcome = core.KeptLog{Why: again.err.Error()}, Failed
	}
	k.Run, k.At = run.ID, l.o.Now()
	// Storing has its own timeout, so that the reason is kept even if the executor used up the first one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.o.Timeout)
	defer cancel()
	if err := l.s.PutLog(ctx, run, k); err != nil && !errors.Is(err, core.ErrRefused) {
		return nil, fmt.Errorf("keep the log of run %d: %w", run.ID, err)
	}
	if err := l.clear(ctx, run); err != nil {
		return nil, fmt.Errorf("note that the log of run %d is kept: %w", run.ID, err)
	}
	if outcome == Failed {
		l.o.Log.Warn("the log of a run could not be stored", "run", run.ID, "job", run.ID.Job(), "app", run.App, "scheduledAt", run.At.String(),
			"address", run.Address, "tries", m.Try+1, "why", k.Why)
	}
	if l.o.Made != nil {
		l.o.Made(run, outcome)
	}
	return nil, nil
}

// clearTries limits the retries of clear.
const clearTries = 4

// clear records on the run that its log is kept. If another writer clears the notification at the same
// time, it retries with the stored run.
func (l *Worker) clear(ctx context.Context, run *core.Run) error {
	for try := 0; ; try++ {
		err := l.s.ChangeRuns(ctx, []core.RunPut{run.ClearPostRun(core.PostRun{Notice: run.PostRun.Notice})})[0]
		if !errors.Is(err, core.ErrRefused) || try == clearTries {
			return err
		}
		is, err := l.s.Run(ctx, run.ID)
		if err != nil {
			return core.Retryable(err)
		}
		if is == nil || !is.OwesPostRun().Log {
			return nil
		}
		*run = *is
	}
}

// wait returns the time until the next try; false: none is left.
func (l *Worker) wait(m *ring.Message, again *later) (time.Duration, bool) {
	d := again.wait
	switch {
	case !again.tried: // it found no place
		d = l.room(m)
	case m.Try >= len(l.o.Waits):
		return 0, false
	default:
		d = max(d, l.o.Waits[m.Try])
	}
	d = min(d, ring.Farthest)
	return d, l.o.Now().Add(d).Sub(m.Slot.Time()) <= longest
}

// read reads the end of a run's log from its executor, or returns when to retry.
func (l *Worker) read(ctx context.Context, run *core.Run) (core.KeptLog, Outcome, *later, error) {
	apps, _, err := store.Split(l.s.Apps(ctx, run.App))
	if err != nil {
		return core.KeptLog{}, "", nil, fmt.Errorf("read app %s: %w", run.App, err)
	}
	app, known := apps[run.App]
	if !known { // use the executor without a token
		app = core.App{Name: run.App}
	}
	leave, is := l.gate.enter(run.App, run.Address, l.o.Now(), l.o.SilentFor)
	switch is {
	case full:
		return core.KeptLog{}, "", &later{0, false, errors.New("other logs were read there all the time")}, nil
	case silent:
		return core.KeptLog{}, "", &later{l.o.SilentFor, true, fmt.Errorf("%s gave no answer", run.Address)}, nil
	}
	k, err := End(ctx, l.logs, &app, run)
	switch code := core.CodeOf(err); {
	case err == nil:
		leave(true, l.o.Now())
		return k, Kept, nil, nil
	case errors.Is(err, errUnfinished):
		leave(true, l.o.Now())
		return k, "", &later{0, true, err}, nil
	case code == core.CodeNotFound:
		leave(true, l.o.Now())
		return core.KeptLog{Why: err.Error()}, None, nil, nil
	case code == core.CodeRefused, code == core.CodeTooLarge:
		leave(true, l.o.Now())
		return core.KeptLog{Why: err.Error()}, Failed, nil, nil
	case errors.Is(ctx.Err(), context.Canceled): // the process stops
		leave(true, l.o.Now())
		return core.KeptLog{}, "", nil, err
	}
	leave(false, l.o.Now())
	return k, "", &later{0, true, err}, nil
}

// state is the answer of a gate.
type state uint8

const (
	open state = iota
	full
	silent
)

// gate limits the places of each address and app, and remembers silent addresses.
type gate struct {
	mu sync.Mutex
	at map[string]*place
	of map[string]int
}

type place struct {
	n      int
	failed int // tries in a row without an answer
	last   time.Time
}

// mostPlaces limits the remembered addresses.
const mostPlaces = 10_000

// enter takes a place. The caller frees it with leave and passes whether there was an answer.
func (g *gate) enter(app, address string, now time.Time, silentFor time.Duration) (leave func(answered bool, now time.Time), is state) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.at[address]
	if p == nil {
		if len(g.at) >= mostPlaces {
			for a, old := range g.at {
				if old.n == 0 {
					delete(g.at, a)
				}
			}
		}
		p = &place{}
		g.at[address] = p
	}
	switch {
	case p.failed >= silentAfter && now.Sub(p.last) < silentFor:
		return nil, silent
	case p.n >= ofAddress, g.of[app] >= ofApp:
		return nil, full
	}
	p.n++
	g.of[app]++
	return func(answered bool, now time.Time) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if p.n--; answered {
			p.failed = 0
		} else {
			p.failed, p.last = p.failed+1, now
		}
		if p.n == 0 && p.failed == 0 {
			delete(g.at, address)
		}
		if g.of[app]--; g.of[app] == 0 {
			delete(g.of, app)
		}
	}, open
}
