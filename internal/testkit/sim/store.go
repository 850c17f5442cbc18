package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/iampolicy"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/store/sqlite"
)

// newStore opens the engine of a world; cloud is nil for SQLite in memory, whose every answer is exact. The end of a world
// closes SQLite.
func newStore(w *World) (*store.Store, *cloud) {
	if !w.cfg.AWS {
		s, err := sqlite.OpenMemory(sqlite.Options{Visibility: w.deployed.visibility})
		if err != nil {
			panic(err)
		}
		return s.Store, nil
	}
	c := &cloud{w: w}
	// the API of dynamo that the fakes lack
	c.db, c.sqs = fakeaws.New(func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) })
	d := w.dice("cloud")
	c.has = account(w.cfg.Rate, d)
	c.has.Use(c.db, c.sqs, d.Uint64())
	c.sqs.Observe = func(queue string, m fakeaws.Message, gone bool) {
		if queue == fakeaws.Names.Dead {
			return
		}
		c.mu.Lock()
		c.seen = append(c.seen, sight{m.ID, m.Body, gone})
		c.mu.Unlock()
	}
	c.db.Faults, c.sqs.Faults = c.fault, c.fault
	if w.deployed.functions {
		c.db.Allow, c.sqs.Allow = c.allow, c.allow
	}
	// A rejection is returned at once. The truth holds its lock during a request that writes,
	// because the write and its record are one step: otherwise another call could find a
	// message without its record. A wait under a lock stops the clock of the bubble.
	var err error
	o := dynamo.Options{Names: fakeaws.Names, Visibility: w.deployed.visibility, Insist: time.Nanosecond}
	c.store, err = dynamo.New(c.db, c.sqs, o)
	if err != nil {
		panic(err)
	}
	fakeaws.Receive(c.store, c.sqs, o)
	return c.store.Store, c
}

// cloud is the layer below dynamo. Its answers may be lost below the engine, so the checker
// reads the outcome instead of concluding it from them.
type cloud struct {
	w     *World
	has   fakeaws.Account
	db    *fakeaws.DynamoDB
	sqs   *fakeaws.SQS
	store *dynamo.Store

	mu      sync.Mutex
	seen    []sight
	refused map[string]int // requests outside of a role
}

type roleKey struct{}

// functionRoles holds the roles of the kinds of processes. A dispatcher of a world has the
// roles of both functions that send, which differ in the queue they read.
var functionRoles = map[string][]iampolicy.Role{
	"ticker": {iampolicy.Tick}, "dispatcher": {iampolicy.Dispatch, iampolicy.SlowLane}, "callback": {iampolicy.Callback},
	"registry": {iampolicy.Registry}, "user": {iampolicy.Api}, "postrun": {iampolicy.PostRun},
}

// allow checks each request of a process against its role. A request without a role is the checker's.
func (c *cloud) allow(ctx context.Context, action, on string) bool {
	kind, ok := ctx.Value(roleKey{}).(string)
	if !ok {
		return true
	}
	on = strings.TrimPrefix(on, "https://sqs/")
	if slices.ContainsFunc(functionRoles[kind], func(r iampolicy.Role) bool { return r.Allows(action, on) }) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil {
		c.refused = map[string]int{}
	}
	c.refused[fmt.Sprintf("%s may not do %s on %s", kind, action, on)]++
	return false
}

// refusals lists the rejected requests with their counts.
func (c *cloud) refusals() (list []string) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(c.refused)) {
		list = append(list, fmt.Sprintf("a role is too small: %s (%d times)", what, c.refused[what]))
	}
	return list
}

// sight is a message that came on a queue, or went.
type sight struct {
	id   int64
	body string
	gone bool
}

func (c *cloud) sights() []sight {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.seen
	c.seen = nil
	return list
}

// asking is one call of an interface, of which an engine makes several requests.
type asking struct {
	in    *incarnation
	op    string
	read  bool // no lock is held: time may pass under it
	mu    sync.Mutex
	dead  bool // its process died: its requests do not arrive
	reads int
	wrote chan struct{} // made by the first write, closed when it may continue
	// yield lets others at the store, between the reads and the writes of a call.
	yield func(d time.Duration)
}

type askingKey struct{}

// asks marks a call of a process, so that its requests can have faults.
func (in *incarnation) asks(ctx context.Context, op string, read bool) context.Context {
	if in.truth().cloud == nil || !in.p.w.cfg.SDK || in.calm {
		return ctx
	}
	return context.WithValue(ctx, askingKey{}, &asking{in: in, op: op, read: read})
}

// yields lets the call that holds t.mu release it between its reads and its first write; again
// repeats the reads of the world before that.
func (t *truth) yields(ctx context.Context, again func()) (done func()) {
	again()
	a, _ := ctx.Value(askingKey{}).(*asking)
	if a == nil {
		return func() {}
	}
	a.mu.Lock()
	a.reads, a.wrote = 0, nil
	a.yield = func(d time.Duration) {
		t.mu.Unlock()
		t.w.sleep(bg, d)
		t.mu.Lock()
		again()
	}
	a.mu.Unlock()
	return func() {
		a.mu.Lock()
		a.yield = nil
		a.mu.Unlock()
	}
}

// account returns the account of a world. Some are scarce: a world has a few fires a second, but an account has hundreds.
func account(rate float64, d *dice) fakeaws.Account {
	return fakeaws.Account{
		Throttled: 0.003 * rate, Dropped: 0.003 * rate, Lost: 0.004 * rate, Refused: 0.02 * rate, Conflict: 0.03 * rate, Slow: 0.005 * rate,
		Torn: 0.05 * rate, Short: 0.1 * rate, Stale: 0.1 * rate, Twice: 0.02 * rate, Spent: 0.005 * rate,
		Lag: time.Second, TTL: 48 * time.Hour, Capacity: []float64{1, 1, 0.02}[d.n(3)],
	}
}

// fault draws the outcome of one request, and records the work that it delays.
func (c *cloud) fault(ctx context.Context, call fakeaws.Call) (f fakeaws.Fault) {
	a, _ := ctx.Value(askingKey{}).(*asking)
	if a == nil || !c.w.faulty.Load() {
		return f
	}
	f = c.draw(ctx, a, call)
	f.Dry = func() {
		c.w.count("request: no room", 1)
		c.w.trouble(ctx, a.in, a.op, 0)
	}
	if slow := f.Wait + f.Late; f.Before != nil || f.After != nil || f.Part != nil || slow > 0 {
		c.w.trouble(ctx, a.in, a.op, slow)
	}
	if f.Stale > 0 {
		c.w.stale(f.Stale)
	}
	return f
}

func (c *cloud) draw(ctx context.Context, a *asking, call fakeaws.Call) (f fakeaws.Fault) {
	if c.w.cfg.Request != nil {
		if f = c.w.cfg.Request(time.Since(c.w.began), call); !a.read {
			f.Wait = 0 // as below
		}
		return f
	}
	d, _ := a.in.p.dice("request " + call.Op)
	rate := c.w.cfg.Rate
	a.mu.Lock()
	dead := a.dead
	var first, wait chan struct{}
	if call.Write {
		if wait = a.wrote; wait == nil {
			first = make(chan struct{})
			a.wrote = first
		}
	} else {
		a.reads++
	}
	yield := a.yield
	if a.reads == 0 {
		yield = nil // its write does not depend on its reads
	}
	a.mu.Unlock()
	if first != nil {
		if yield != nil && d.chance(0.15*rate) {
			c.w.count("others between read and write", 1)
			yield(d.between(0, 300*time.Millisecond))
		}
		close(first)
	} else if wait != nil {
		<-wait
	}
	if dead {
		return fakeaws.Fault{Before: errUnknown}
	}
	switch {
	case d.chance(0.0003 * rate / a.in.dying()):
		a.mu.Lock()
		a.dead = true
		a.mu.Unlock()
		c.w.count("killed between requests", 1)
		in := a.in
		c.w.after(0, func() { in.kill(in.p.kind()) })
		return fakeaws.Fault{Before: errUnknown}
	}
	f = c.has.Fault(call, rand.New(&d))
	if !a.read { // the truth holds its lock over a write
		f.Wait, f.Late, f.Between = 0, 0, nil
	}
	if call.Op == "ReceiveMessage" { // hidden messages are recorded in the moment of their receipt
		f.Wait, f.Late = f.Wait+f.Late, 0
	}
	if spent := f.Spent; spent != nil {
		f.Spent = func(m fakeaws.Message) bool {
			is := spent(m)
			if is {
				c.hidden(m, "receipt by a throttled poller")
			}
			return is
		}
	}
	for what, is := range map[string]bool{"error before": f.Before != nil, "lost answer": f.After != nil, "a part fails": f.Part != nil,
		"slow":      f.Wait+f.Late > 0,
		"torn read": f.Between != nil, "stale index": f.Stale > 0, "twice": f.Again != nil} {
		if is {
			c.w.count("request: "+what, 1)
		}
	}
	return f
}

// unheard records the messages of a receipt whose answer is being lost: no process has them,
// and they come again when their visibility ends.
func (c *cloud) unheard(kind ring.Kind) {
	until := time.Now().Add(c.w.deployed.visibility)
	for _, m := range c.sqs.Messages(map[ring.Kind]string{ring.KindFires: fakeaws.Names.Fires, ring.KindSlow: fakeaws.Names.Slow,
		ring.KindCheck: fakeaws.Names.Checks, ring.KindPostRun: fakeaws.Names.PostRun}[kind]) {
		if m.Hidden.Equal(until) {
			c.hidden(m, "receipt without an answer")
		}
	}
}

// hidden records a message that no process has, and that is hidden from all from now on.
func (c *cloud) hidden(m fakeaws.Message, what string) {
	if msg, err := ring.Decode([]byte(m.Body)); err == nil {
		c.w.count(what, 1)
		now := time.Now()
		c.w.troubleOf(now, now.Add(c.w.deployed.visibility), runsOn(&store.Delivery{Message: msg})...)
	}
}

// took reports whether a write was done. SQLite returns that; above a cloud the
// checker reads it if the answer leaves it open, and a false answer is a broken promise.
func (t *truth) took(of core.RunID, what string, err error, look func() bool) bool {
	switch {
	case err == nil || t.cloud == nil:
		return err == nil
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return look()
	case errors.Is(err, core.ErrRefused), errors.Is(err, core.ErrThrottled):
		if look() {
			t.fail(of, "%s was answered %v, and it was done", what, err)
			return true
		}
		return false
	}
	return look()
}

// observed mirrors the messages that arrived on and left the queues of a cloud, regardless of the answers. Callers hold mu.
func (t *truth) observed(ctx context.Context) {
	for _, s := range t.cloud.sights() {
		m, err := ring.Decode([]byte(s.body))
		switch {
		case err != nil:
			t.fail(0, "a message that cannot be read: %v: %s", err, s.body)
		case s.gone:
			t.went(ctx, s.id, &m)
		default:
			t.onQueue(ctx, &m, 1, "enqueued")
		}
	}
}

// deadLetters returns the reasons and messages of the dead-letter queue.
func (t *truth) deadLetters() (list []string) {
	if t.cloud != nil {
		for _, m := range t.cloud.sqs.Messages(fakeaws.Names.Dead) {
			list = append(list, m.Reason+": "+m.Body)
		}
	}
	kept, err := t.store.Letters(bg, "", 100)
	if err != nil {
		t.fail(0, "read dead letters: %v", err)
	}
	for _, l := range kept {
		list = append(list, l.Reason+": "+l.Body)
	}
	return list
}
