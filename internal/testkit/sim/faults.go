package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// errUnknown is the answer after which nothing may be concluded.
var errUnknown = errors.New("connection reset")

// Fate is the outcome of one call to the store, or of one item of a batch call.
type Fate uint8

const (
	Fine      Fate = iota
	Before         // the caller gets an unknown error; the call was not executed
	After          // the caller gets an unknown error; the call was executed
	Lost           // the call was executed, and the caller never gets the answer
	Throttled      // the call was not executed, and the error reports this
	Conflict       // the call was executed twice, and the caller gets the second answer
	Late           // the caller gets an unknown error; the call is executed seconds later
	Kill           // the calling process dies before the call is executed
	KillAfter      // the calling process dies after the call is executed
	Hang           // the whole process stops for longer than its leases and deadlines
	Slow           // the caller gets the answer after 3.3 seconds
)

// Call describes a call of a process, for a test that chooses the outcome. The call is not executed yet.
type Call struct {
	Process string // kind of the calling process: ticker, dispatcher, callback, watchdog or user
	Op      string
	N       uint64        // number of this call among the calls of the process, counted from 1
	At      time.Duration // time since the start of the simulation
	in      *incarnation
}

// answeredKey is the context key for whether the invocation of a function is over.
type answeredKey struct{}

// alive waits until the process is not frozen. It does not return to a dead process.
func (in *incarnation) alive() {
	in.p.thaw()
	if in.dead.Load() {
		in.end()
	}
}

// die kills the process. It does not return.
func (in *incarnation) die() {
	in.kill(in.p.kind())
	in.end()
}

// begin decides the outcome of a call, and the times that pass before and after its effect. It does not return to a dead process.
func (in *incarnation) begin(ctx context.Context, op string, write bool) (fate Fate, d dice, before, after time.Duration) {
	in.alive()
	pr, w := in.p, in.p.w
	d, n := pr.dice(op)
	if over, _ := ctx.Value(answeredKey{}).(*atomic.Bool); over != nil && over.Load() {
		// A function is frozen between its invocations, with its goroutines.
		w.count("call behind an answer", 1)
		w.sleep(bg, d.between(time.Second, time.Minute))
		if in.dead.Load() {
			in.end()
		}
	}
	delay := time.Duration(0)
	if w.cfg.Script != nil {
		if fate = w.cfg.Script(Call{Process: pr.kind(), Op: op, N: n, At: time.Since(w.began), in: in}); fate != Fine {
			w.count("scripted", 1)
		}
	}
	if fate == Fine && w.faulty.Load() {
		fate, delay = w.fateOf(in, op, write, &d)
	}
	if fate != Fine || delay > 50*time.Millisecond {
		w.trouble(ctx, in, op, delay)
	}
	switch fate {
	case Kill:
		in.die()
	case Slow:
		delay = 3300 * time.Millisecond
	case Hang:
		pr.freeze(d.between(20*time.Second, 50*time.Second))
		if d.chance(0.5) {
			in.alive() // before the effect; else after it
		}
		fate = Fine
	}
	if fate == Slow || d.chance(0.5) {
		return fate, d, 0, delay
	}
	return fate, d, delay, 0
}

// fateOf draws the fate of a call as a whole.
func (w *World) fateOf(in *incarnation, op string, write bool, d *dice) (Fate, time.Duration) {
	pr, rate := in.p, w.cfg.Rate
	pr.mu.Lock()
	storm := time.Now().Before(pr.storms[op]) || time.Now().Before(pr.storms["*"]) && op != "Send" && op != "Receive"
	pr.mu.Unlock()
	if storm {
		w.count("storm", 1)
		return Throttled, 0
	}
	if w.cfg.Skew && d.chance(0.0004*rate) {
		pr.step(time.Duration(d.n(5)-2) * time.Second)
	}
	var delay time.Duration
	switch {
	case w.cfg.Request != nil: // each request has its own
	case d.chance(0.004 * rate):
		delay = d.between(time.Second, 4*time.Second)
		w.count("delay", 1)
	case d.chance(0.02 * rate):
		delay = d.between(50*time.Millisecond, 800*time.Millisecond)
		w.count("delay", 1)
	case d.chance(0.3):
		delay = d.between(time.Millisecond, 30*time.Millisecond)
	}
	kill := 0.0006 * rate
	if pr.kind() == "ticker" {
		kill = 0.0002 * rate
	}
	kill /= in.dying()
	switch {
	case d.chance(kill):
		return Kill, delay
	case d.chance(kill):
		return KillAfter, delay
	case w.cfg.Pauses && d.chance(0.0001*rate):
		return Hang, delay
	}
	if !write {
		switch {
		case d.chance(0.006 * rate):
			w.count("error before", 1)
			return Before, delay
		case d.chance(0.006 * rate):
			w.count("throttle", 1)
			return Throttled, delay
		}
	}
	return Fine, delay
}

// itemFate draws the fate of one item of a write of n.
func (w *World) itemFate(d *dice, n int) Fate {
	rate := w.cfg.Rate * 4 / (3 + float64(n))
	if !d.chance(0.06 * rate) {
		return Fine
	}
	f := []Fate{Before, After, Lost, Throttled, Conflict, Throttled, Conflict, Before, After}[d.n(9)]
	if w.cfg.Late && d.chance(0.15) {
		f = Late
	}
	w.count(f.String(), 1)
	return f
}

func (f Fate) String() string {
	return [...]string{"fine", "error before", "error after", "lost answer", "throttle", "own conflict", "late write", "kill", "kill", "hang",
		"slow"}[f]
}

// wait lets time pass on the way to or from the store. It returns the error of a context that ended in that time.
func (in *incarnation) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	in.p.w.sleep(ctx, d)
	in.alive()
	return ctx.Err()
}

// read makes one call that changes nothing.
func (in *incarnation) read(ctx context.Context, op string, do func(ctx context.Context) error) (err error) {
	if in.calm {
		return do(ctx)
	}
	ctx = in.asks(ctx, op, true)
	took := invocationOf(ctx).begins()
	defer func() { took(err) }()
	fate, _, before, after := in.begin(ctx, op, false)
	switch fate {
	case Before, Lost, After:
		_ = in.wait(ctx, before+after)
		return errUnknown
	case Throttled:
		return core.ErrThrottled
	}
	if err := in.wait(ctx, before); err != nil {
		return err
	}
	if err = do(ctx); fate == KillAfter {
		in.die()
	}
	err = cmp.Or(err, in.wait(ctx, after))
	in.alive()
	return err
}

// writes makes one call of many writes, each with its own result.
func writes[T any](in *incarnation, ctx context.Context, op string, items []T, do func(ctx context.Context, items []T) []error) []error {
	if len(items) == 0 || in.calm {
		return do(ctx, items)
	}
	answers := make([]error, len(items))
	ctx = in.asks(ctx, op, false)
	took := invocationOf(ctx).begins()
	defer func() { took(errors.Join(answers...)) }()
	over := ctx.Err()
	fate, d, before, after := in.begin(ctx, op, true)
	if over != nil { // a client begins no request then
		for i := range answers {
			answers[i] = over
		}
		return answers
	}
	fates := in.itemFates(ctx, op, fate, &d, len(items))
	_ = in.wait(ctx, before)
	if err := ctx.Err(); err != nil { // the deadline came while the request was on its way
		for i := range answers {
			answers[i], fates[i] = err, Before
			if d.chance(0.5) {
				fates[i] = After
			}
		}
	}
	arrive(in, ctx, items, fates, answers, &d, do)
	if fate == KillAfter {
		in.die()
	}
	for i, f := range fates {
		switch f {
		case Throttled:
			answers[i] = core.ErrThrottled
		case Before, After, Late, Lost:
			if answers[i] == nil || f == After || f == Lost {
				answers[i] = errUnknown
			}
		}
	}
	if slices.Contains(fates, Lost) {
		after += d.between(2*time.Second, 6*time.Second)
	}
	if err := in.wait(ctx, after); err != nil {
		for i := range answers {
			answers[i] = fmt.Errorf("no answer in time: %w", err)
		}
	}
	in.alive()
	return answers
}

// itemFates draws the fate of each of n writes of a call.
func (in *incarnation) itemFates(ctx context.Context, op string, fate Fate, d *dice, n int) []Fate {
	w, fates := in.p.w, slices.Repeat([]Fate{fate}, n)
	if fate != Fine && fate != Slow || !w.faulty.Load() {
		return fates
	}
	for i := range fates {
		if fates[i] = w.itemFate(d, n); fates[i] != Fine {
			w.trouble(ctx, in, op, map[Fate]time.Duration{Late: 20 * time.Second, Lost: 6 * time.Second}[fates[i]])
		}
	}
	return fates
}

// arrive executes the writes that reach the store, and stores their answers. They arrive with the values of ctx alone: its
// end stops the waiting, not the request.
func arrive[T any](in *incarnation, ctx context.Context, items []T, fates []Fate, answers []error, d *dice,
	do func(ctx context.Context, items []T) []error,
) {
	ctx = context.WithoutCancel(ctx)
	var now, late []T
	var of []int
	wait := d.between(200*time.Millisecond, 20*time.Second)
	for i, f := range fates {
		switch f {
		case Before, Throttled:
		case Late:
			late = append(late, items[i])
		default:
			now, of = append(now, items[i]), append(of, i)
		}
	}
	if len(late) > 0 {
		if inv := invocationOf(ctx); inv != nil {
			inv.troubled()
		}
		in.p.w.after(wait, func() { do(ctx, late) })
	}
	if len(now) == 0 {
		return
	}
	for k, err := range do(ctx, now) {
		i := of[k]
		if fates[i] == Conflict && err == nil {
			err = do(ctx, items[i:i+1])[0]
		}
		if answers[i] == nil {
			answers[i] = err
		}
	}
}

// write makes one call of one write.
func (in *incarnation) write(ctx context.Context, op string, do func(ctx context.Context) error) error {
	return writes(in, ctx, op, make([]int, 1), func(ctx context.Context, _ []int) []error { return []error{do(ctx)} })[0]
}

// keyed makes one read of many keys. The store has no room for some of them, which get the answer unread.
func keyed[K comparable, V any](in *incarnation, ctx context.Context, op string, keys []K, unread V, errOf func(V) error,
	do func(ctx context.Context, keys []K) (map[K]V, error),
) (found map[K]V, err error) {
	ask, left, w := keys, []K(nil), in.p.w
	if w.faulty.Load() && !in.calm {
		if d, _ := in.p.dice(op + " short"); d.chance(0.02 * w.cfg.Rate) {
			ask = nil
			for _, k := range keys {
				if d.chance(0.5) {
					left = append(left, k)
				} else {
					ask = append(ask, k)
				}
			}
			w.count("short read", 1)
			w.trouble(context.WithoutCancel(ctx), in, op, 0)
		}
	}
	if err := in.read(ctx, op, func(ctx context.Context) (err error) { found, err = do(ctx, ask); return err }); err != nil {
		return nil, err
	}
	for _, k := range left {
		found[k] = unread
	}
	for _, v := range found {
		if errors.Is(errOf(v), core.ErrThrottled) {
			invocationOf(ctx).roughly()
		}
	}
	return found, nil
}

// got makes one read of jobs or runs.
func got[K comparable, T any](in *incarnation, ctx context.Context, op string, ids []K,
	do func(ctx context.Context, ids []K) (map[K]store.Got[T], error),
) (map[K]store.Got[T], error) {
	return keyed(in, ctx, op, ids, store.Got[T]{Err: core.ErrThrottled}, func(g store.Got[T]) error { return g.Err }, do)
}
