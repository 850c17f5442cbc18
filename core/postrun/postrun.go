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
	"slices"
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
	// mostUnread is how often in a row a message is enqueued again without a request to the executor; after that, the reason is
	// stored. This takes two hours with delays of roomMost, and a day with delays of appMost. The age of a message is no limit,
	// because it includes downtime. For other failed work, the limit is twice as high, which takes longer than budget.NoticeFor.
	mostUnread = 160
	// silentAfter is the number of consecutive requests without a response after which an address is silent.
	silentAfter = 2
	// roomFor is how long a message waits for a free worker. If no worker is free, the message is enqueued again, first with a
	// delay of roomFor. Each later delay is a quarter of the message's age, at most roomMost, or appMost if a record cannot be
	// read. Each delay is shortened by a random part of up to a half.
	roomFor, roomMost, appMost = 2 * time.Second, time.Minute, 12 * time.Minute
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

// later asks for a retry after wait; tried reports whether this attempt counts as a try. If not, wait is the longest delay.
type later struct {
	wait  time.Duration
	tried bool
	err   error
}

// Handle handles messages concurrently and returns an error for each message. nil means that the message can be acknowledged:
// its work is done, dropped, or enqueued for a retry.
func (l *Worker) Handle(ctx context.Context, list []ring.Message) []error {
	errs := make([]error, len(list))
	runs, err := l.runs(ctx, list)
	var all sync.WaitGroup
	var quick []request
	for i := range list {
		a := list[i].PostRun
		switch {
		case a == nil:
			errs[i] = fmt.Errorf("unexpected message of kind %q on the post-run queue", list[i].Kind)
			continue
		case a.Run == 0:
			quick = append(quick, request{i, nil, *a})
			continue
		}
		got := runs[a.Run]
		run := got.Is
		if errs[i] = cmp.Or(err, l.requeue(ctx, &list[i], nil, got.Err)); err != nil || got.Err != nil || run == nil {
			continue
		}
		switch owes := run.OwesPostRun(); {
		case owes.Log:
			all.Go(func() { errs[i] = l.log(ctx, &list[i], run) })
		case owes.Notice:
			quick = append(quick, request{i, run, ring.PostRun{Notes: ring.EndNotes(run)}})
		}
	}
	if len(quick) > 0 {
		l.notify(ctx, list, quick, errs)
	}
	all.Wait()
	return errs
}

// runs reads the runs of messages.
func (l *Worker) runs(ctx context.Context, list []ring.Message) (map[core.RunID]store.Got[*core.Run], error) {
	var ids []core.RunID
	for i := range list {
		if a := list[i].PostRun; a != nil && a.Run != 0 && !slices.Contains(ids, a.Run) {
			ids = append(ids, a.Run)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	runs, err := l.s.Runs.Get(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read ended runs: %w", err)
	}
	return runs, nil
}

// log keeps the log of a run, and makes its notification, which quotes the log. If the log must wait, the notification waits
// until the log was tried once, or for noticeBy. One write then clears the finished work, and a new message follows for the rest.
func (l *Worker) log(ctx context.Context, m *ring.Message, run *core.Run) error {
	again, err := l.keep(ctx, m, run)
	if err != nil {
		return err
	}
	owes := run.OwesPostRun()
	rest, untold := owes, error(nil)
	if owes.Notice && (again == nil || again.tried || l.age(m) >= noticeBy) {
		untold = l.o.Notices.Handle(ctx, []ring.PostRun{{Notes: ring.EndNotes(run)}})[0]
		rest.Notice = untold != nil
	}
	if rest.Log = again != nil; rest != owes {
		if err := l.s.ChangeRuns(ctx, []core.RunPut{run.ClearPostRun(rest)})[0]; err != nil {
			return fmt.Errorf("note that the log of run %d is kept: %w", run.ID, err)
		}
	}
	return l.requeue(ctx, m, again, untold)
}

// requeue enqueues a message again for its remaining work: a log that must wait, or work that failed with the error why. requeue
// returns why if the store was only overloaded, or if too many attempts failed.
func (l *Worker) requeue(ctx context.Context, m *ring.Message, again *later, why error) error {
	switch {
	case errors.Is(why, core.ErrThrottled), why != nil && m.Unread >= 2*mostUnread, why == nil && again == nil:
		return why
	case again == nil:
		again = &later{wait: l.room(m, appMost)}
	}
	if why != nil {
		l.o.Log.Warn("pending follow-ups of a run wait", "run", m.PostRun.Run, "wait", again.wait, "err", why)
	}
	next := *m
	next.Unread++
	if again.tried {
		next.Try, next.Unread = next.Try+1, 0
	}
	if err := l.s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: l.o.Now().Add(again.wait), Message: next}})[0]; err != nil {
		return fmt.Errorf("requeue the pending follow-ups of run %d: %w", m.PostRun.Run, errors.Join(err, why))
	}
	return nil
}

// age returns the time since the first request.
func (l *Worker) age(m *ring.Message) time.Duration { return l.o.Now().Sub(m.Slot.Time()) }

// enter takes a place, which leave frees; nil: no place became free in time. A longer wait would delay the
// rest of the batch and its notifications.
func (l *Worker) enter(ctx context.Context) (leave func(), err error) {
	wait, cancel := context.WithTimeout(ctx, roomFor)
	defer cancel()
	select {
	case l.places <- struct{}{}:
		return func() { <-l.places }, nil
	case <-wait.Done():
		return nil, ctx.Err()
	}
}

// room returns the delay of a message for which no executor was asked. It is random, because otherwise all would return at
// the same time.
func (l *Worker) room(m *ring.Message, most time.Duration) time.Duration {
	d := max(roomFor, min(l.age(m)/4, most))
	return d - rand.N(d/2+1)
}

// keep keeps the log of a run, or the reason why it is missing. If the log must wait, keep returns when to retry.
func (l *Worker) keep(ctx context.Context, m *ring.Message, run *core.Run) (*later, error) {
	leave, err := l.enter(ctx)
	switch {
	case err != nil:
		return nil, err
	case leave == nil: // whether it was put off too often is checked when it gets a place
		return &later{wait: l.room(m, roomMost)}, nil
	}
	defer leave()
	reading, cancel := context.WithTimeout(ctx, l.o.Timeout)
	defer cancel()
	k, outcome, again, err := l.read(reading, run)
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
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), l.o.Timeout)
	defer cancel()
	if err := l.s.PutLog(ctx, run, k); err != nil && !errors.Is(err, core.ErrRefused) {
		return nil, fmt.Errorf("keep the log of run %d: %w", run.ID, err)
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

// wait returns the time until the next try; false: none is left.
func (l *Worker) wait(m *ring.Message, again *later) (time.Duration, bool) {
	switch {
	case !again.tried:
		return l.room(m, again.wait), m.Unread < mostUnread
	case m.Try >= len(l.o.Waits):
		return 0, false
	}
	return min(max(again.wait, l.o.Waits[m.Try]), ring.Farthest), true
}

// read reads the end of a run's log from its executor, or returns when to retry.
func (l *Worker) read(ctx context.Context, run *core.Run) (core.KeptLog, Outcome, *later, error) {
	apps, bad, err := store.Split(l.s.Apps(ctx, run.App))
	if err != nil {
		return core.KeptLog{}, "", nil, fmt.Errorf("read app %s: %w", run.App, err)
	}
	if err := core.UnreadableApp(run.App, bad[run.App]); err != nil {
		return core.KeptLog{}, "", &later{appMost, false, err}, nil
	}
	app := apps[run.App]
	app.Name = run.App // if the app is not stored, use the executor without a token
	leave, is := l.gate.enter(run.App, run.Address, l.o.Now(), l.o.SilentFor)
	switch is {
	case full:
		return core.KeptLog{}, "", &later{roomMost, false, errors.New("other logs were read there all the time")}, nil
	case silent:
		return core.KeptLog{}, "", &later{l.o.SilentFor, true, fmt.Errorf("%s gave no answer", run.Address)}, nil
	}
	answered := true
	defer func() { leave(answered, l.o.Now()) }()
	k, err := End(ctx, l.logs, &app, run)
	switch code := core.CodeOf(err); {
	case err == nil:
		return k, Kept, nil, nil
	case code == core.CodeNotFound:
		return core.KeptLog{Why: err.Error()}, None, nil, nil
	case code == core.CodeRefused, code == core.CodeTooLarge:
		return core.KeptLog{Why: err.Error()}, Failed, nil, nil
	case !errors.Is(err, errUnfinished):
		if errors.Is(ctx.Err(), context.Canceled) { // the process stops
			return core.KeptLog{}, "", nil, err
		}
		answered = false
	}
	return k, "", &later{0, true, err}, nil
}

// state is the answer of a gate.
type state uint8

const (
	open state = iota
	full
	silent
)

// gate limits parallel reads by address and app, and remembers silent addresses.
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
